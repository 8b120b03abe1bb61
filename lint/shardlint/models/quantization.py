"""How the weights of a checkpoint are stored, in one vocabulary for all tools that write it.

Kept are the method and the numbers that decide a layout. Of the names of matrices that stay in 16
bits only their classes are kept: some checkpoints list tens of thousands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from shardlint.models.view import View, is_count

METHOD: Final = ("quant_method", "method")
BITS: Final = ("bits", "w_bit", "num_bits", "weight_bits")
GROUP: Final = ("group_size", "q_group_size")
SKIPPED: Final = (
    "modules_to_not_convert",
    "ignore",
    "exclude_modules",
    "ignored_layers",
    "llm_int8_skip_modules",
)
FP8: Final = "fp8"
SKIPPED_BY_FP8: Final = ("ignored_layers", "modules_to_not_convert")
"""The lists of this method; what other tools write beside them is not read with it."""
MIXED: Final = "MIXED_PRECISION"

FIELDS: Final = (
    "method",
    "quant_algo",
    "format",
    "type",
    "bits",
    "activation_bits",
    "group_size",
    "weight_block_size",
    "strategy",
    "symmetric",
    "act_order",
    "expert_dtype",
    "kv_cache_quant_algo",
    "targets",
    "beside",
    "parts",
    "ignore",
    "ignore_layers",
    "ignore_only",
)
"""Everything that a record can hold, in this order.

`strategy` is kept where whole matrices share a scale, `symmetric` where zero points are told of,
`act_order` where groups of inputs are not in their order.
"""
OF_METHOD: Final = {"fp8": {"bits": 8}, "mxfp4": {"bits": 4, "group_size": 32}}
"""Numbers that a method implies."""
OF_ALGORITHM: Final = {
    "FP8": {"bits": 8},
    "NVFP4": {"bits": 4, "group_size": 16},
    "MXFP4": {"bits": 4, "group_size": 32},
    "MXFP8": {"bits": 8, "group_size": 32},
}
"""Numbers that a ModelOpt algorithm implies."""

CLASSES: Final = (
    ("vision", r"vision|visual|projector|image|embed_vision"),
    ("mtp", r"(^|\.)mtp|eh_proj|nextn"),
    ("lm_head", r"lm_head|(^|\.)head$|output_layer"),
    ("embedding", r"embed|wte"),
    ("norm", r"norm|bias$|conv1d"),
    ("indexer", r"indexer"),
    ("shared_expert", r"shared_experts?(?!_gate)(?![a-z])"),
    ("router", r"(^|\.)(gate|router)\*?$|shared_expert_gate"),
    ("linear_attention", r"linear_attn|mamba|mixer\.(in_proj|out_proj)"),
    ("attention", r"attn|attention|mixer\.[qkvo]_proj"),
    ("expert", r"experts"),
    ("dense_ffn", r"mlp|feed_forward|ffn|(gate|up|down)_proj"),
    ("layer", r"layers\.\d+(\.?\*)?$"),
)
"""Classes of matrices and what their names look like; the first match decides."""
NOT_MATRICES: Final = ("norm",)
PIECEWISE: Final = ("attention", "indexer")
"""Classes of which some checkpoints skip single matrices."""


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(pattern)) for name, pattern in CLASSES)


def normalised(
    stated: Any, beside: Any = None, expert_dtype: str | None = None, layers: int | None = None
) -> Mapping[str, Any] | None:
    """One record from `quantization_config` and hf_quant_config.json, None if both say nothing."""
    main, other = _view(stated), _beside(beside)
    own = main.word(*METHOD) == FP8
    record = {**({} if own else _read(other, layers)), **_read(main, layers)}
    if not record:
        return None
    if "method" not in record:
        record = {"method": "modelopt" if "quant_algo" in record else "unknown", **record}
    if record.get("quant_algo") == MIXED:
        record = {k: v for k, v in record.items() if k not in _NUMBERS}
    if expert_dtype:
        record["expert_dtype"] = expert_dtype
    if not main.raw and other.raw:
        record["beside"] = "modelopt" if _is_named(_view(beside)) else "unnamed"
    return {key: record[key] for key in FIELDS if key in record}


_NUMBERS: Final = (
    "bits", "group_size", "weight_block_size", "strategy", "symmetric", "activation_bits", "type",
)  # fmt: skip


def _view(raw: Any) -> View:
    return View(raw if isinstance(raw, Mapping) else {})


def _beside(raw: Any) -> View:
    """hf_quant_config.json keeps its numbers one level down."""
    view = _view(raw)
    return view.part("quantization") or view


def _is_named(beside: View) -> bool:
    """The file says that ModelOpt wrote it; vLLM passes over one that does not."""
    written_by = beside.word("producer.name") == "modelopt"
    return written_by or beside.stated("quantization.modelopt_quant_config")


def _read(view: View, layers: int | None) -> dict[str, Any]:
    method, algorithm = view.word(*METHOD), view.word("quant_algo")
    record: dict[str, Any] = {
        "parts": _parts(view),
        "method": method,
        "format": view.word("format"),
        "quant_algo": algorithm,
        **OF_METHOD.get(method or "", {}),
        **OF_ALGORITHM.get(algorithm or "", {}),
        **_stated(view),
        **_groups(view),
        "kv_cache_quant_algo": _kv_cache(view),
        **_skipped(view, layers),
    }
    return {key: value for key, value in record.items() if value is not None}


def _stated(view: View) -> dict[str, Any]:
    bits = view.count(*BITS, most=64)
    for key, number in (("load_in_4bit", 4), ("load_in_8bit", 8)):
        bits = bits or (number if view.flag(key) else None)
    found = {
        "bits": bits,
        "group_size": _group_size(view),
        "weight_block_size": _block(view.get("weight_block_size")),
        "symmetric": view.flag("sym"),
        "act_order": view.flag("desc_act") or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _group_size(view: View) -> int | None:
    """-1 is a size too: one group over the whole input."""
    minus = any(view.get(key) == -1 for key in GROUP)
    return view.count(*GROUP) or (-1 if minus else None)


def _block(value: Any) -> list[int] | None:
    if isinstance(value, list) and len(value) == 2 and all(is_count(n) for n in value):
        return value
    return None


def _groups(view: View) -> dict[str, Any]:
    """The scheme that all groups of a compressed-tensors config share."""
    groups = view.get("config_groups")
    if not isinstance(groups, Mapping):
        return {}
    schemes = [_scheme(View(group)) for group in groups.values() if isinstance(group, Mapping)]
    schemes = [scheme for scheme in schemes if scheme]
    if any(scheme != schemes[0] for scheme in schemes):
        return {"quant_algo": MIXED}
    return {**schemes[0], **_targets(groups)} if schemes else {}


def _targets(groups: Mapping[str, Any]) -> dict[str, Any]:
    """The layers that are quantized, if they are not all linear ones."""
    parts = [View(group) for group in groups.values() if isinstance(group, Mapping)]
    names = {str(name) for part in parts for name in part.items("targets")}
    return {"targets": "some"} if names and names != {"Linear"} else {}


def _scheme(group: View) -> dict[str, Any]:
    weights, activations = group.part("weights"), group.part("input_activations")
    if weights is None:
        return {}
    found = {
        "bits": weights.count(*BITS, most=64),
        "type": weights.word("type"),
        "group_size": weights.count(*GROUP),
        "weight_block_size": _block(weights.get("block_structure")),
        "strategy": "tensor" if weights.word("strategy") == "tensor" else None,
        "symmetric": False if weights.flag("symmetric") is False else None,
        "activation_bits": activations.count(*BITS, most=64) if activations else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _kv_cache(view: View) -> str | None:
    named = view.word("kv_cache_quant_algo", "kv_cache_scheme")
    if named:
        return named
    scheme = view.part("kv_cache_scheme")
    if scheme is None or scheme.word("type") != "float":
        return None
    return "FP8" if scheme.count("num_bits") == 8 else None


# ------------------------------------------------------------------------- what is stored otherwise

WEIGHTS_ONLY: Final = "W4A16_"
"""ModelOpt's word for a scheme whose activations stay in 16 bits: the weights are the same."""


def _parts(view: View) -> dict[str, Any] | None:
    """Scheme by class of matrices, where a list gives one for each; a class with two has none."""
    listed = view.get("quantized_layers")
    if not isinstance(listed, Mapping):
        return None
    found: dict[str, set[tuple[str, int | None]]] = {}
    for name, raw in listed.items():
        of, stated = _class(str(name)), _view(raw)
        algorithm = (stated.word("quant_algo") or "").replace(f"{WEIGHTS_ONLY}NV", "NV")
        if of is not None and of not in NOT_MATRICES:
            found.setdefault(of, set()).add((algorithm, stated.count(*GROUP)))
    return {
        of: {"quant_algo": algorithm, **({"group_size": group} if group else {})}
        for of, schemes in sorted(found.items())
        for algorithm, group in [next(iter(schemes)) if len(schemes) == 1 else ("", None)]
    }


# --------------------------------------------------------------------------- what is left alone


def _skipped(view: View, layers: int | None) -> dict[str, Any]:
    """Classes of skipped matrices, and in how many layers where a list names layer by layer."""
    keys = SKIPPED_BY_FP8 if view.word(*METHOD) == FP8 else SKIPPED
    names = [name for key in keys for name in view.items(key) if isinstance(name, str)]
    found = _classes(names, layers)
    if not found:
        return {}
    some = {name: len(where) for name, where in found.items() if where and None not in where}
    partly = {name: n for name, n in some.items() if layers is None or n < layers}
    only = _only(names)
    return {
        "ignore": sorted(found),
        **({"ignore_layers": partly} if partly else {}),
        **({"ignore_only": only} if only else {}),
    }


def _only(names: Iterable[str]) -> dict[str, list[str]]:
    """Class to its matrices, where single ones are named and never the whole module."""
    found: dict[str, set[str | None]] = {}
    for name in names:
        if (of := _class(name)) in PIECEWISE:
            single = re.search(r"([a-z_]+_proj)(_with_mqa)?$", name)
            found.setdefault(of or "", set()).add(single.group(1) if single else None)
    return {of: sorted(n for n in some if n) for of, some in found.items() if None not in some}


def _classes(names: Iterable[str], layers: int | None) -> dict[str, set[int | None]]:
    """Class to the layers that it is named for; None among them: for all layers."""
    found: dict[str, set[int | None]] = {}
    for name in names:
        layer = _layer(name)
        of = _class(name)
        if of == "layer" and layer is not None and layers is not None and layer >= layers:
            of, layer = "mtp", None
        if of is not None and of not in NOT_MATRICES:
            found.setdefault(of, set()).add(None if of in ("vision", "mtp") else layer)
    return found


def _class(name: str) -> str | None:
    plain = name.removeprefix("re:").replace("\\", "").replace(".*", "")
    return next((of for of, pattern in _patterns() if pattern.search(plain)), None)


def _layer(name: str) -> int | None:
    found = re.search(r"layers\.(\d{1,4})(\D|$)", name)
    return int(found.group(1)) if found else None

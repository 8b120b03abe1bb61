"""Write the model catalogue from a folder of model facts, or check that it is up to date.

The inventories of weights go to a file of their own, each of them once.

The folder holds one JSON file per model, a config.json or some of its keys, and an index.yaml with
the same facts as somebody else read them. Every file is read as shardlint reads a config.json; the
result is compared with the index, and an entry with a difference that nothing explains is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shardlint.models import inventories
from shardlint.models.catalogue import DATA
from shardlint.models.config_json import facts_from_config, parameters_of
from shardlint.models.entries import SCHEMA_VERSION, packed
from shardlint.models.keys import WINDOW, WINDOW_OF, is_one_of
from shardlint.plan import ModelFacts
from shardlint.sizing.storage import storage

INFERRED_SHAPES = ("inferred",)
READ_FROM_CONFIG = ("llmfit-facts", "embedded")
"""Kinds of entries whose numbers were read from the published config.json of that id."""
LONG_ROPE = ("phi*", "minicpm*")
"""Types that come with LongRoPE."""
CONFIG = "config.json"
"""Provenance of a shape that is the checkpoint's own config: only that tells its context, too."""
CONFIRMED = Path(__file__).with_name("confirmed_shapes.json")
SHAPE_INFERRED = "shape inferred"
COUNT_DIFFERS = "parameter count differs from the published one"
TOLERANCE = 1e-4
"""Of an exact count: biases, buffers and norms stay below, a wrong shape does not."""
TOLERANCE_WITH_SCALES = 1e-3
"""The same where the published count holds the scales of blocks or channels."""
TOLERANCE_WITH_GROUPS = 1 / 16
"""The same with one scale for every group of at least 16 weights."""
TOLERANCE_OF_CONFIG = 5e-3
"""The same where the shape is the checkpoint's own config, which is wrong in no other way."""

Entry = Mapping[str, Any]


def index_of(models: Path) -> Entry:
    from ruamel.yaml import YAML

    loaded: Entry = YAML(typ="safe").load(models / "index.yaml")
    return loaded


# --------------------------------------------------------------------------------- comparison


def compared(facts: ModelFacts, entry: Entry) -> Iterator[tuple[str, Any, Any]]:
    """Field, our value and that of the index, for everything that the index states."""
    for name in COMPARED:
        if entry.get(name) is not None:
            yield name, getattr(facts, name), entry[name]
    for name, key in MOE.items():
        if (theirs := (entry.get("moe") or {}).get(key)) is not None:
            yield name, getattr(facts, name), theirs
    if (theirs := (entry.get("mla") or {}).get("kv_lora_rank")) is not None:
        yield "kv_lora_rank", facts.kv_lora_rank, theirs
    cache = entry.get("kv_cache_bf16") or {}
    if (theirs := cache.get("full_bytes_per_token")) is not None:
        yield "full_bytes_per_token", full_bytes(facts), theirs
        yield (
            "sliding_bytes_per_token",
            sliding_bytes(facts),
            cache.get("sliding_bytes_per_token", 0),
        )
    if (method := (entry.get("quantization") or {}).get("method")) is not None:
        yield "quantization.method", (facts.quantization or {}).get("method"), method


COMPARED = (
    "model_type",
    "num_layers",
    "hidden_size",
    "attention_heads",
    "kv_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "tie_word_embeddings",
    "max_position_embeddings",
    "torch_dtype",
    "vision_tower",
)
MOE = {
    "num_experts": "experts",
    "experts_per_token": "top_k",
    "moe_intermediate_size": "moe_intermediate",
}


def full_bytes(facts: ModelFacts) -> int:
    return sum(group.bytes_per_token(1) for group in facts.kv_groups if group.window is None)


def sliding_bytes(facts: ModelFacts) -> int:
    return sum(group.bytes_per_token(1) for group in facts.kv_groups if group.window is not None)


def _kv_bytes_explained(facts: ModelFacts, config: Entry, _theirs: Any) -> str | None:
    if not facts.kv_groups:
        return "not stated: the pattern or the window of the sliding layers is missing"
    text = config.get("text_config") or config
    if facts.model_type in WINDOW_OF and not any(key in text for key in WINDOW):
        return "the index does not use the window that is the default of the class"
    for key in ("per_layer_config", "num_kv_shared_layers", "sliding_window_attention_size"):
        if text.get(key):
            return f"the index does not follow {key}"
    return None


def _width_explained(facts: ModelFacts, _config: Entry, theirs: Any) -> str | None:
    if facts.moe_intermediate_size == theirs:
        return "the index gives the width of the experts"
    if facts.intermediate_size and 2 * facts.intermediate_size == theirs:
        return "the config stores twice the width"
    return None


def _heads_explained(facts: ModelFacts, _config: Entry, theirs: Any) -> str | None:
    counts = (facts.attention_heads, *facts.other_attention_heads)
    return "the largest of several head counts is ours" if theirs in counts else None


def _kv_heads_explained(_facts: ModelFacts, _config: Entry, theirs: Any) -> str | None:
    return "one number for layers that differ" if theirs == "per-layer" else None


def _head_dim_explained(facts: ModelFacts, _config: Entry, _theirs: Any) -> str | None:
    return "without meaning beside a latent cache" if facts.mla else None


def _tie_explained(facts: ModelFacts, _config: Entry, _theirs: Any) -> str | None:
    return "not stated" if facts.tie_word_embeddings is None else None


def _tower_explained(facts: ModelFacts, _config: Entry, _theirs: Any) -> str | None:
    return "not stated" if facts.vision_tower is None else None


EXPLANATIONS: dict[str, Callable[[ModelFacts, Entry, Any], str | None]] = {
    "attention_heads": _heads_explained,
    "kv_heads": _kv_heads_explained,
    "head_dim": _head_dim_explained,
    "intermediate_size": _width_explained,
    "tie_word_embeddings": _tie_explained,
    "vision_tower": _tower_explained,
    "full_bytes_per_token": _kv_bytes_explained,
    "sliding_bytes_per_token": _kv_bytes_explained,
}
"""Why a difference is none of our mistakes, by field."""


@dataclass
class Agreement:
    """How often a field is as the index has it, and what the other cases are."""

    total: Counter[str] = field(default_factory=Counter)
    same: Counter[str] = field(default_factory=Counter)
    explained: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    unexplained: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, facts: ModelFacts, entry: Entry, config: Entry) -> bool:
        """Count one model; False when a difference is left that nothing explains."""
        good = True
        for name, ours, theirs in compared(facts, entry):
            self.total[name] += 1
            if ours == theirs:
                self.same[name] += 1
                continue
            explain = EXPLANATIONS.get(name)
            reason = explain(facts, config, theirs) if explain else None
            if reason:
                self.explained[name, reason].append(facts.id)
            else:
                self.unexplained[facts.id].append(f"{name}: {ours!r}, index {theirs!r}")
                good = False
        return good

    def lines(self) -> Iterator[str]:
        for name, total in self.total.items():
            yield f"{name:28} {self.same[name]:4} of {total}"
        for (name, reason), ids in sorted(self.explained.items()):
            yield f"{name}: {reason}: {len(ids)}, such as {', '.join(ids[:3])}"
        for id, differences in self.unexplained.items():
            yield f"left out {id}: {'; '.join(differences)}"


# ----------------------------------------------------------------------------------- records


def is_inferred(quantization: Entry | None) -> bool:
    return "inferred" in str((quantization or {}).get("provenance", ""))


def count_error(facts: ModelFacts, entry: Entry, config: Entry) -> float | None:
    """How far our count is from an exact published one; None if there is no such count.

    A checkpoint may leave out towers and drafts, and may hold a copy of a tied embedding.
    """
    published, parts = entry.get("published") or {}, parameters_of(config, facts)
    if not published.get("exact") or parts.text is None:
        return None
    towers, drafts = parts.towers or 0, parts.drafts or 0
    counts = [parts.text + extra for extra in (0, towers, drafts, towers + drafts)]
    if facts.tie_word_embeddings and facts.vocab_size and facts.hidden_size:
        counts += [count + facts.vocab_size * facts.hidden_size for count in counts]
    errors = (count / published["total"] - 1 for count in counts)
    return min(errors, key=abs, default=None)


def count_differs(facts: ModelFacts, entry: Entry, config: Entry) -> bool:
    error = count_error(facts, entry, config)
    least = TOLERANCE_OF_CONFIG if entry["provenance"]["kind"] == "config.json" else 0
    return error is not None and abs(error) > max(least, _tolerance(entry.get("quantization")))


def _tolerance(quantization: Entry | None) -> float:
    if not quantization:
        return TOLERANCE
    weights = quantization.get("weights") or {}
    grouped = quantization.get("group_size") or weights.get("group_size")
    return TOLERANCE_WITH_GROUPS if grouped else TOLERANCE_WITH_SCALES


def assumptions(facts: ModelFacts, entry: Entry, config: Entry) -> tuple[str, ...]:
    """Reasons not to rest an error on the shape of an entry."""
    inferred = entry["provenance"]["kind"] in INFERRED_SHAPES
    reasons = (SHAPE_INFERRED, inferred), (COUNT_DIFFERS, count_differs(facts, entry, config))
    return tuple(reason for reason, holds in reasons if holds)


def decided_architectures(entries: list[Entry]) -> dict[str, str]:
    """Architectures that are the only one ever stated for their model type."""
    stated: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        if entry.get("architecture") and not entry.get("architecture_inferred"):
            stated[entry["model_type"]].add(entry["architecture"])
    return {kind: names.pop() for kind, names in stated.items() if len(names) == 1}


def completed(
    facts: ModelFacts, entry: Entry, config: Entry, decided: Mapping[str, str]
) -> ModelFacts:
    """The facts of a config with what only the index knows."""
    architecture = facts.architecture or entry.get("architecture")
    if entry.get("architecture_inferred") and decided.get(entry["model_type"]) != architecture:
        architecture = None
    own = entry["provenance"]["kind"] == CONFIG and "abridged" not in str(entry["provenance"])
    return replace(
        facts,
        default_context=facts.default_context if own else None,
        least_context=facts.default_context if own else _least_context(facts, entry),
        longest_context=facts.longest_context if own else None,
        architecture=architecture,
        provenance=entry["provenance"]["kind"],
        assumed=assumptions(facts, entry, config),
        confirmed=confirmed(facts),
    )


def _least_context(facts: ModelFacts, entry: Entry) -> int | None:
    """What the published config states, which a scaling that it may have can only lengthen.

    LongRoPE is the exception: its engines start from the length before the scaling.
    """
    read = entry["provenance"]["kind"] in READ_FROM_CONFIG
    long = is_one_of(facts.model_type, LONG_ROPE)
    return facts.max_position_embeddings if read and not long else None


def confirmed(facts: ModelFacts) -> tuple[str, ...]:
    """Fields of an inferred shape that a second source gives the same value."""
    second = json.loads(CONFIRMED.read_text(encoding="utf-8"))["models"].get(facts.id, {})
    return tuple(name for name, value in second.items() if getattr(facts, name) == value)


def proved(facts: ModelFacts, entry: Entry) -> bool:
    """Whether the published count is that of the weights with one scale for every block.

    The hub counts the elements of all tensors. A count that is too high by just the scales that an
    inferred way of storing would have tells of these scales, and of nothing else.
    """
    published = entry.get("published") or {}
    total, exact = published.get("total"), published.get("exact")
    stored = storage(facts.quantization)
    scales = 0
    for block in facts.weights:
        each = [
            weight.count * scheme.scales(weight.outputs, weight.inputs)
            for weight in block.weights
            if (scheme := stored.scheme(weight)) is not None and not stored.skips(weight)
        ]
        scales += sum(each) * (len(block.layers) if block.place in ("layers", "draft") else 1)
    if not exact or not total or not facts.params_total or not scales:
        return False
    return abs(total - facts.params_total - scales) <= scales / 100


def record(facts: ModelFacts, entry: Entry, weights: tuple[int, int] | None) -> dict[str, Any]:
    """The record of a model; an inferred quantization stands apart from the facts."""
    if not is_inferred(entry.get("quantization")) or proved(facts, entry):
        return packed(facts, weights=weights)
    return packed(replace(facts, quantization=None), facts.quantization, weights)


def aliases(entries: list[Entry], records: Mapping[str, Any]) -> dict[str, str]:
    """Other ids of the same weights, if only one model claims them."""
    claims: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        for alias in entry.get("aliases") or ():
            claims[alias].add(entry["id"])
    single = {alias: ids.pop() for alias, ids in claims.items() if len(ids) == 1}
    return {alias: id for alias, id in single.items() if id in records and alias not in records}


def config_facts(config: Entry, id: str) -> ModelFacts:
    return facts_from_config(config, id, config.get("_hf_quant_config_json"))


def built(models: Path) -> tuple[dict[str, Any], Agreement, str]:
    """The whole catalogue, how it agrees with the index, and the text of the inventories."""
    index = index_of(models)
    entries: list[Entry] = index["models"]
    decided, agreement = decided_architectures(entries), Agreement()
    kept: list[tuple[ModelFacts, Entry, str | None]] = []
    for entry in entries:
        config = json.loads((models / entry["file"]).read_text(encoding="utf-8"))
        facts = config_facts(config, entry["id"])
        if agreement.add(facts, entry, config):
            line = inventories.packed(facts.weights) if facts.weights else None
            kept.append((completed(facts, entry, config, decided), entry, line))
    text, places = inventories.written(line for _, _, line in kept if line)
    records = {
        facts.id: record(facts, entry, places.get(line or "")) for facts, entry, line in kept
    }
    catalogue = {
        "schema_version": SCHEMA_VERSION,
        "generated_by": f"scripts/{Path(__file__).name}",
        "generated_from": {
            "index": str(index["generated"]),
            "entries": len(entries),
            "left_out": len(entries) - len(records),
        },
        "aliases": dict(sorted(aliases(entries, records).items())),
        "models": dict(sorted(records.items())),
    }
    return catalogue, agreement, text


# --------------------------------------------------------------------------------------- text


def written(catalogue: Mapping[str, Any]) -> str:
    """Compact JSON with a model a line."""
    parts = [f"{_json(key)}:{_written_part(value)}" for key, value in catalogue.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _written_part(value: Any) -> str:
    if not isinstance(value, dict) or len(value) < 4:
        return _json(value)
    lines = [f"{_json(key)}:{_json(item)}" for key, item in value.items()]
    return "{\n" + ",\n".join(lines) + "\n}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("--models", type=Path, required=True, help="a folder of model facts")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if out of date")
    options = parser.parse_args()
    catalogue, agreement, weights = built(options.models)
    print("\n".join(agreement.lines()))
    files = {DATA: written(catalogue), inventories.DATA: weights}
    if options.check:
        same = all(path.is_file() and path.read_text("utf-8") == files[path] for path in files)
        print("up to date" if same else "out of date")
        return int(not same)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {len(text.splitlines())} lines, {len(text.encode())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

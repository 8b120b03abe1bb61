"""TensorRT-LLM engines that are built ahead: the layout is decided when the checkpoint is cut.

Read in NVIDIA/TensorRT-LLM: commands/build.py, examples/llama/convert_checkpoint.py,
layers/attention.py, models/convert_utils.py (`dup_kv_weight`). Up to 0.11 the sizes stood at
`trtllm-build` too; before 0.8 a `build.py` of each model did all of it. Such a process serves
nothing: how many GPUs its machine has says nothing of those that the engine will run on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from shardlint.engines import launchers
from shardlint.engines.stated_options import Stated, stated
from shardlint.known import Known
from shardlint.plan import (
    Constraint,
    Launch,
    Layout,
    LayoutFacts,
    Memory,
    ModelFacts,
    Reading,
    at_most,
    divides,
    divides_either,
)

ROW: Final = "trtllm-build"
"""The name of these commands in the tables of launchers and options."""
BUILDS: Final = "builds an engine"
"""The option that tells constraints so; no option of a command line is named like that."""

OWN: Final = "trtllm-build"
CHECKPOINTS: Final = "convert_checkpoint.py"
"""A script of the examples, which has had the sizes since 0.6.1."""
OF_EXAMPLES: Final = frozenset(
    ("--model-dir", "--hf-model-dir", "--ft-model-dir", "--meta-ckpt-dir", "--use-gemm-plugin",
     "--use-gpt-attention-plugin", "--use-inflight-batching", "--qformat")
)  # fmt: skip
"""Options of which a `build.py` or `quantize.py` of the examples has one."""
INTO: Final = frozenset(("--output-dir", "--output-model-dir"))

SIZES: Final = ("tp", "pp", "ep", "moe_tp")
LEFT: Final = MappingProxyType({"ep": ("--moe-ep-size",), "moe_tp": ("--moe-tp-size",)})


def read(engine: str, launch: Launch) -> Reading | None:
    """The layout that is built; None where this is another command, or states no layout."""
    after = launchers.after_launcher(ROW, launch.argv)
    if after is None or launch.engine not in (None, engine):
        return None
    found = stated(ROW, launch, launch.argv[after:])
    if not _of_tensorrt_llm(launch.argv[after - 1].value or "", found):
        return None
    sizes: dict[str, Known[Any]] = {name: _size(found, name) for name in SIZES}
    if all(size.is_unset for size in sizes.values()):
        return None
    if found.open_ended is not None:
        more: Known[Any] = Known.unknown(found.open_ended)
        sizes = {name: size.or_default(more) for name, size in sizes.items()}
    return Reading(
        engine=engine,
        command=launch.argv[:after],
        flags=(),
        model=found.get("model"),
        served_name=Known.unset(),
        layout=LayoutFacts(**sizes),
        memory=Memory(),
        open_ended=found.open_ended,
        options=MappingProxyType({BUILDS: Known.of(True, how="derived")}),
        builds=True,
    )


def _of_tensorrt_llm(command: str, found: Stated) -> bool:
    """Scripts of that name are found elsewhere, too."""
    given = {one.name for one in found.given}
    if command.endswith(OWN):
        return True
    return bool(given & INTO) and (command.endswith(CHECKPOINTS) or bool(given & OF_EXAMPLES))


def _size(found: Stated, name: str) -> Known[int]:
    """A size; -1 leaves those of experts to the engine."""
    left = any(one.name in LEFT[name] and one.value and one.value.value == "-1"
               for one in found.given if name in LEFT)  # fmt: skip
    return Known.unset() if left else found.get(name)


def constraints(model: ModelFacts | None, layout: Layout) -> Iterator[Constraint]:
    """What the scripts and the layers of the TensorRT backend ask."""
    if model is None:
        return
    if model.attention_heads:
        yield Constraint(
            rule="tp-heads-indivisible", subject="attention heads", left=model.attention_heads,
            right=layout.tp, test=divides, consequence=DEATH, cures=("tp",),
            refusal="num_attention_heads must be divisible by tp_size", facts=("attention_heads",),
        )  # fmt: skip
    if model.kv_heads and not model.mla:
        few = layout.tp > model.kv_heads
        told = Constraint(
            rule="tp-kv-heads-indivisible", subject="KV heads", left=model.kv_heads,
            right=layout.tp, test=divides_either, refusal="", consequence=DEATH, cures=("tp",),
            facts=("kv_heads",),
        )  # fmt: skip
        # only that each head gets as many copies is asserted everywhere
        yield told if few else replace(told, severity="warning")
    if model.num_layers:
        yield Constraint(
            rule="pp-exceeds-layers", subject="layers", left=layout.pp, right=model.num_layers,
            test=at_most, refusal="", consequence=DEATH, cures=("pp",), facts=("num_layers",),
            sentence="{left} stages have {right} layers",
        )  # fmt: skip


DEATH: Final = "stops while the engine is built"

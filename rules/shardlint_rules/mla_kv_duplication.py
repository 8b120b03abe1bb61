"""Every tensor parallel rank holds the whole latent KV cache.

Multi-head latent attention (DeepSeek, Kimi-K2, GLM-5 and others) keeps one compressed entry per
token for all heads. It cannot be split by heads, so that each rank of a tensor parallel group
stores all of it: with TP 8, seven eighths of the KV memory hold copies. vLLM does this without a
warning (`get_num_kv_heads` is 1 for these models on every rank). Before 0.7.0 it kept heads.

```sh fails
vllm serve deepseek-ai/DeepSeek-R1 --tensor-parallel-size 8  # mla-kv-duplication
```

```sh passes
vllm serve deepseek-ai/DeepSeek-R1 --tensor-parallel-size 8 --decode-context-parallel-size 8
```

Fix: decode context parallelism, which spreads the entries over the ranks of the group, or
data-parallel attention with expert parallelism, where each rank serves its own requests.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, LayoutRule, ModelFacts, Repair, World


class MlaKvDuplication(LayoutRule):
    id, name = "SL104", "mla-kv-duplication"
    severity = "warning"
    model = ("kv_lora_rank", "kv_heads")
    fix = "unsafe"

    def lacks(self, model: ModelFacts) -> str | None:
        return None if model.mla or model.kv_heads else "kv_lora_rank"

    def check(self, world: World) -> Iterator[Found]:
        model, ranks = world.model, world.ranks
        if model is None or ranks is None or not model.mla:
            return
        if not _kept_whole(world):
            return
        copies = ranks.kv_copies
        if copies is None or copies < 2 or not world.starts:
            return
        yield Found(
            message=(
                f"TP {ranks.attention_tp} keeps {copies} copies of the latent KV cache: MLA has one"
                f" entry per token for all heads, and {copies - 1}/{copies} of the KV memory holds"
                " copies"
            ),
            at=world.origin("layout.tp"),
            severity="info" if copies < 4 else "warning",
            help=_help(world, model, ranks.attention_tp),
            repair=_repair(world, model, ranks.attention_tp),
        )


def _repair(world: World, model: ModelFacts, degree: int) -> Repair | None:
    """The options that the help names, where the engine has them."""
    layout = world.whole
    if layout is None or not layout.one_group or layout.dcp > 1 or layout.tp != degree:
        return None
    flag, releases = world.engine.flag_name, world.plan.versions
    if flag("dcp", releases=releases) is None or flag("dp", releases=releases) is None:
        return None
    apart = (("tp", 1), ("dp", layout.dp * degree), ("ep", True))
    also = (Repair("fields", values=apart, fits=True),) if model.moe and layout.ep is False else ()
    return Repair("fields", values=(("dcp", degree),), also=also)


def _help(world: World, model: ModelFacts, degree: int) -> str:
    if world.engine.flag_name("dcp", releases=world.plan.versions) is None:
        return f"attention data parallelism: each of {degree} ranks keeps its own requests only"
    once = f"decode context parallel size {degree} stores it once"
    others = f"; so do {degree} data-parallel ranks with expert parallelism"
    return once + (others if model.moe else "")


def _kept_whole(world: World) -> bool:
    """Older releases keep this attention as heads, which are split."""
    spans, since = world.plan.versions.values, world.engine.latent_since
    return not spans or any(one.meets(since, None) for one in spans)

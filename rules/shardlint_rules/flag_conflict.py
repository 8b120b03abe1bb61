"""An option with a value, or beside another option, that the engine refuses.

The parser checks the type and the choices of every value: "invalid int value", "invalid choice",
"expected one argument". An on/off option of vLLM takes no value: `--enable-prefix-caching=true` is
"ignored explicit argument 'true'". A size with a binary suffix has no decimals (`1.5k` is 1,500,
`1.5K` is refused), `--limit-mm-per-prompt` takes JSON, and sizes of groups are at least 1. What the
engine checks later, option against option and against the model, is reported here too.

SGLang refuses `--dp-size` above 1 on several nodes: "multi-node data-parallel replicas are not
supported" (before 0.5.22 "multi-node data parallel is not supported unless dp attention!").

```sh fails
docker run vllm/vllm-openai:v0.33.0 Qwen/Qwen3-8B --enable-prefix-caching=true  # flag-conflict
```

```sh passes
vllm serve Qwen/Qwen3-8B --max-model-len 1.5k --enable-prefix-caching
```

Fix: a value of the type that the message names.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import ConstraintRule, Engine, Found, Refused, Repair, ServingPlan, World


class FlagConflict(ConstraintRule):
    id, name = "SL702", "flag-conflict"
    severity = "error"
    wants = ("model_facts",)
    gate = True
    fix = "safe"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return engine.checked

    def check_plan(self, world: World) -> Iterator[Found]:
        for refused in world.plan.refused:
            if refused.kind == "value":
                yield _found(refused, refused.by or world.engine.label)

    def check(self, world: World) -> Iterator[Found]:
        """Constraints of an engine that says which fields they read."""
        if world.engine.reads(self.name) is not None:
            yield from super().check(world)


def _found(refused: Refused, label: str) -> Found:
    name = (refused.written.value or "").split("=", 1)[0]
    when = f" {refused.when}" if refused.when is not None else ""
    return Found(
        message=f"{label}{when} refuses `{name}` as it is given here ('{_short(refused.problem)}')",
        at=refused.at,
        severity=refused.severity,
        help=f"write {refused.remedy}" if refused.remedy else None,
        repair=_repair(refused),
    )


MOST_CHARACTERS = 120


def _short(words: str) -> str:
    """The engine's words on one line; they may hold a whole object."""
    line = " ".join(words.split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[:MOST_CHARACTERS]}…"


def _repair(refused: Refused) -> Repair | None:
    """The option as it was meant, where the words say so; or what the router in front offers."""
    if refused.cures:
        return Repair("router", refused.cures)
    if refused.replaced_by is None or refused.flag is None:
        return None
    return Repair("option", f"option:{refused.flag}", refused.replaced_by)

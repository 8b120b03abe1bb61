"""An option of the engine that stands where the engine does not read it.

`vllm` reads the options of the server behind `serve` alone, and every word behind `--` as a plain
argument, not as an option. Both end with an error of the parser. KServe refuses an InferenceService
in which a variable says what `workerSpec` has to say.

```sh fails
vllm serve Qwen/Qwen3-32B -- --tensor-parallel-size 2  # flag-misplaced
```

```sh passes
vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2
```

Fix: put the option behind `serve` and the model, without `--` before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, Refused, Repair, Rule, World


class FlagMisplaced(Rule):
    id, name = "SL704", "flag-misplaced"
    severity = "error"

    def check(self, world: World) -> Iterator[Found]:
        for refused in world.plan.refused:
            if refused.kind == "misplaced":
                name = (refused.written.value or "").split("=", 1)[0]
                label = refused.by or world.engine.label
                what = "refuses the object" if refused.by else "refuses to start"
                yield Found(
                    message=f"{label} does not read `{name}` here; it {what} ('{refused.problem}')",
                    at=refused.at,
                    severity=refused.severity,
                    help=refused.remedy,
                    repair=_repair(refused),
                )


def _repair(refused: Refused) -> Repair | None:
    if refused.move is None:
        return None
    site, field, value = refused.move
    return Repair("move", site, str(value), ((field, value),))

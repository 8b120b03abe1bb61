"""An option that is given twice.

The last one counts. With two values, one of them is dead text that somebody will take for the
setting (warning); with the same value it is only noise (info). vLLM logs "Found duplicate keys"
where both have the same spelling, and nothing where one is short and the other long.

```sh fails
vllm serve Qwen/Qwen3-8B --max-model-len 8192 --max-model-len 32768  # flag-redundant
```

```sh passes
vllm serve Qwen/Qwen3-8B --max-model-len 32768
```

Fix: keep one of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, Note, Rule, World


class FlagRedundant(Rule):
    id, name = "SL705", "flag-redundant"
    severity = "warning"

    def check(self, world: World) -> Iterator[Found]:
        for remark in world.plan.remarks:
            if remark.kind == "redundant":
                yield Found(
                    message=remark.message,
                    at=remark.at,
                    severity=remark.severity,
                    help=remark.help,
                    related=tuple(Note(origin, text) for origin, text in remark.related),
                )

"""An option that is written shorter than its name.

Python's argparse accepts the beginning of an option as long as only one option begins so:
`--tensor-parallel 2` is `--tensor-parallel-size 2`. The next release may have a second such option;
then it is "ambiguous option" and the server does not start.

```sh fails
vllm serve Qwen/Qwen3-32B --tensor-parallel 2  # flag-abbreviated
```

```sh passes
vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2
```

Fix: the whole name (safe: the engine reads the same).
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, Repair, Rule, World


class FlagAbbreviated(Rule):
    id, name = "SL706", "flag-abbreviated"
    severity = "info"
    fix = "safe"

    def check(self, world: World) -> Iterator[Found]:
        for remark in world.plan.remarks:
            if remark.kind == "abbreviated" and remark.replaced_by is not None:
                yield Found(
                    message=remark.message,
                    at=remark.at,
                    severity=remark.severity,
                    help=remark.help,
                    repair=Repair("flag", f"flag:{remark.flag}", remark.replaced_by, certain=True),
                )

"""An option that the release accepts and that will go, or has gone in a later release.

An engine warns of an option for some releases before it drops it; the next upgrade then ends with
"unrecognized arguments". Reported only where the release is stated: by the image's tag,
`--engine-version` or the configuration.

SGLang's `--enable-dp-attention` made `--dp-size` the number of attention groups inside of tensor
parallelism. From 0.5.22 on that number is `--attn-dp-size`, `--dp-size` counts replicas, and the
old switch prints a warning.

```sh fails
docker run vllm/vllm-openai:v0.12.0 Qwen/Qwen3-8B --cuda-graph-sizes 8 16  # flag-deprecated
```

```sh passes
docker run --gpus 1 vllm/vllm-openai:v0.12.0 Qwen/Qwen3-8B --cudagraph-capture-sizes 8 16
```

Fix: the option that takes its place, where there is one that the stated release has already; else
take it out before the upgrade.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, Remark, Repair, Rule, World


class FlagDeprecated(Rule):
    id, name = "SL703", "flag-deprecated"
    severity = "info"
    fix = "safe"

    def check(self, world: World) -> Iterator[Found]:
        for remark in world.plan.remarks:
            if remark.kind == "deprecated":
                yield Found(
                    message=remark.message,
                    at=remark.at,
                    severity=remark.severity,
                    help=remark.help,
                    repair=_repair(remark),
                )


def _repair(remark: Remark) -> Repair | None:
    if remark.replaced_by is None or remark.flag is None:
        return None
    return Repair("option", f"option:{remark.flag}", remark.replaced_by, certain=True)

"""The same fact twice, with different values.

What the file states counts: an image's tag over `--engine-version` and the configuration, a node
label over `--gpu` and over the `[[pool]]` that the plan takes by its labels (info). A model that is
named twice on one command line is a warning: which one is served depends on the way the server is
started.

```sh fails
docker run --gpus 1 vllm/vllm-openai:v0.12.0 Qwen/Qwen3-8B --model Qwen/Qwen3-32B  # value-conflict
```

```sh passes
docker run --gpus 1 vllm/vllm-openai:v0.12.0 --model Qwen/Qwen3-32B
```

Fix: state it once.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Note, Rule, ServingPlan, World


class ValueConflict(Rule):
    id, name = "SL708", "value-conflict"
    severity = "info"

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return bool(plan.told) or any(remark.kind == "conflict" for remark in plan.remarks)

    def check(self, world: World) -> Iterator[Found]:
        yield from _told(world)
        for remark in world.plan.remarks:
            if remark.kind == "conflict":
                yield Found(
                    message=remark.message,
                    at=remark.at,
                    severity=remark.severity,
                    help=remark.help,
                    related=tuple(Note(origin, text) for origin, text in remark.related),
                )


def _told(world: World) -> Iterator[Found]:
    plan = world.plan
    gpu, release = plan.told.get("gpu"), plan.told.get("engine_version")
    if gpu is not None:
        here = " or ".join(device.name for device in plan.placement.gpu.values)
        there = " or ".join(device.name for device in gpu.values)
        yield Found(
            message=f"the file names {here}, the command line or the configuration {there}",
            at=plan.placement.gpu_label.origin or plan.origin,
            help="the file counts",
        )
    size = plan.told.get("gpus_per_node")
    if size is not None:
        here = " or ".join(str(value) for value in plan.placement.gpus_per_node.values)
        there = " or ".join(str(value) for value in size.values)
        at = plan.placement.gpus_per_node.origin or plan.placement.gpu_label.origin
        yield Found(
            message=f"the file names nodes of {here} GPUs, the pool in the configuration {there}",
            at=at or plan.origin,
            help="the file counts",
        )
    platform = plan.told.get("platform_version")
    if platform is not None:
        here = " or ".join(str(value) for value in plan.platform_releases.values)
        yield Found(
            message=(
                f"the file states {plan.platform} {here}, the command line or the configuration"
                f" {platform.only}"
            ),
            at=plan.platform_releases.origin or plan.origin,
            help="the file counts",
        )
    if release is not None:
        here = " or ".join(str(value) for value in plan.versions.values)
        yield Found(
            message=(
                f"the file states {world.engine.label} {here}, the command line or the"
                f" configuration {release.only}"
            ),
            at=plan.versions.origin or plan.origin,
            help="the file counts",
        )

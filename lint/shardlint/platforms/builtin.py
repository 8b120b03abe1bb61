"""The built-in platforms, registered by the same hook as a third party's.

The releases are those in which the facts of a platform were read: platforms, head of the page, and
the modules of this folder. A platform that was read at a commit between two releases has none.
"""

from __future__ import annotations

from collections.abc import Iterable

from shardlint.plan import Releases
from shardlint.platforms import dynamo, kserve, llmd, production_stack
from shardlint.plugins import Platform, hookimpl
from shardlint.record import record


@record
class KnownPlatform:
    name: str
    label: str
    aliases: tuple[str, ...] = ()
    releases: Releases | None = None


PLATFORMS = (
    KnownPlatform("kserve", kserve.LABEL, releases=Releases(*kserve.RELEASES)),
    KnownPlatform(
        "production-stack", "the chart of the vLLM production stack", ("vllm-stack",),
        Releases(*production_stack.RELEASES),
    ),
    KnownPlatform(
        "llm-d-modelservice", "the llm-d modelservice chart", ("llm-d",), Releases(*llmd.RELEASES)
    ),
    KnownPlatform(
        "dynamo", "the Dynamo operator", releases=Releases(dynamo.RELEASE, dynamo.RELEASE)
    ),
    KnownPlatform("aibrix", "AIBrix", releases=Releases("0.7.0", "0.7.0")),
    KnownPlatform("kaito", "KAITO", releases=Releases("0.12.0", "0.12.0")),
    KnownPlatform("kubeai", "KubeAI", releases=Releases("0.22.1", "0.22.1")),
    KnownPlatform("grove", "Grove"),
    KnownPlatform("knative", "Knative Serving"),
    KnownPlatform("kthena", "kthena"),
    KnownPlatform("kuberay", "KubeRay"),
    KnownPlatform("llmaz", "llmaz"),
    KnownPlatform("lws", "LeaderWorkerSet", ("leaderworkerset",)),
    KnownPlatform("nim-operator", "the NIM operator", ("nim",)),
    KnownPlatform("ome", "OME"),
    KnownPlatform("ray", "Ray", ("ray-serve",)),
    KnownPlatform("skypilot", "SkyPilot"),
)  # fmt: skip


@hookimpl
def shardlint_platforms() -> Iterable[Platform]:
    return PLATFORMS

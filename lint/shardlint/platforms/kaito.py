"""KAITO: what it makes of a Workspace or an InferenceSet with a preset model.

KAITO writes the command of a preset: the split over the cards of the instance type and over its
nodes, and a share of the memory of 0.84, or 0.82 on an A10. Options in the ConfigMap win over its
own; `count` is ignored for a preset, whose nodes KAITO computes.

Read in kaito-project/kaito (056b828, 0.12.0: pkg/model/interface.go,
pkg/workspace/estimator/nodesestimator/estimator.go, pkg/workspace/inference/preset_inferences.go,
pkg/utils/common_preset.go, api/v1beta1).
"""

from __future__ import annotations

from collections.abc import Mapping

from shardlint.record import record

CONFIG_KEY = "inference_config.yaml"
"""The key of the ConfigMap; its map `vllm` holds options, which win over KAITO's own."""

ENGINE_KEY = "vllm"

SHARE, SHARE_A10 = 0.84, 0.82
"""What KAITO gives as --gpu-memory-utilization."""

RUNTIME = "kaito.sh/runtime"
"""The annotation that names the runtime; vLLM is what runs without it."""

ACCELERATOR = "accelerator"
"""The mode of a partition that takes some of a node's cards, whole."""


@record(kw_only=True)
class Split:
    """What KAITO asks of the engine; None where the size of the weights decides."""

    tp: int | None
    pp: int | None
    dp: int | None
    executor: str | None


def share(card: str | None) -> float:
    return SHARE_A10 if card is not None and card.startswith("A10-") else SHARE


def split(gpus: int, nodes: int) -> Split:
    """The split over `nodes` nodes of `gpus` cards.

    On one node of several cards, weights below half of a card are copied to each card (data
    parallel); others are split over all of them.
    """
    if nodes > 1:
        return Split(tp=gpus, pp=nodes, dp=1, executor="ray")
    if gpus == 1:
        return Split(tp=1, pp=1, dp=1, executor=None)
    return Split(tp=None, pp=1, dp=None, executor=None)


def runs_vllm(notes: Mapping[str, str]) -> bool:
    return notes.get(RUNTIME, ENGINE_KEY).lower() == ENGINE_KEY

"""KubeAI: what it makes of a Model.

A replica is one pod, started with the model and then with `args`; no parallel size is added. The
number behind the resource profile multiplies what the profile asks for, and a profile without one
is refused.

Read in kubeai-project/kubeai (f442a2c: internal/modelcontroller/{engine_vllm,model_controller}.go,
api/k8s/v1/model_types.go, charts/kubeai/values.yaml).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

COMMAND = ("python3", "-m", "vllm.entrypoints.openai.api_server")
"""How every vLLM model is started; one pod is one replica, and no option sets a parallel size."""

WITH_ADAPTERS = "--enable-lora"
ADAPTER_VARIABLE = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"

PROFILE = re.compile(r"([^:]+):(\d+)")
"""`name:count`: the count multiplies all that the profile asks for; without one it is refused."""

POLICIES: Mapping[str, frozenset[str]] = MappingProxyType(
    {"LeastLoad": frozenset({"load"}), "PrefixHash": frozenset({"prefix", "load"})}
)
SURGE = 1
"""Pods that an update starts before it stops an old one."""
ROLLOUT = "KubeAI's own modelRollouts.surge is what its chart has"

DEFAULT_POLICY = "LeastLoad"

_CARD = re.compile(r"(?:nvidia|amd)-gpu-(.+)")


def card(profile: str) -> str | None:
    """The card that a profile of the chart is named after; None for others."""
    match = _CARD.fullmatch(profile)
    return match.group(1).upper() if match else None


def on_cpu(profile: str) -> bool:
    return profile == "cpu" or profile.startswith("cpu-")


def reference(url: str) -> tuple[int, int]:
    """The part of a model's URL that vLLM is given as the model, as start and end.

    Models on the Hub go by their id; others keep their URL, which says where they lie.
    """
    end = url.find("?")
    return (len("hf://") if url.startswith("hf://") else 0), (end if end >= 0 else len(url))

"""What kthena makes of its objects.

A ModelServing has groups of roles. A role is an entry pod and as many workers as it says, and every
container gets three variables, which take the place of its own of the same names.

A ModelBooster is turned into a ModelServing. Its backend runs vLLM's server module on the folder
into which the model was downloaded, with every key of a worker's `config` as an option. Several
pods of a server are joined by Ray, of as many GPUs as the limits of two resources say. The
disaggregated backend has one role for prefill and one for decode, of one pod each.

Sources: platforms, section 14; volcano-sh/kthena,
`pkg/model-booster-controller/convert/model_serving.go` with its templates, `utils/template.go`
beside it and `pkg/model-serving-controller/utils/utils.go`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

GROUP = "workload.serving.volcano.sh"
SERVING, BOOSTER = "ModelServing", "ModelBooster"

# ----------------------------------------------------------------------------- ModelServing

GROUP_SIZE = "GROUP_SIZE"
ENTRY_ADDRESS = "ENTRY_ADDRESS"
WORKER_INDEX = "WORKER_INDEX"
VARIABLES = (GROUP_SIZE, ENTRY_ADDRESS, WORKER_INDEX)

DOWNLOADER = re.compile(r"(^|/)volcano-sh/downloader(:|@|$)")
"""The image that brings the model of `--source` into the folder of `--output-dir`."""

SCHEDULER = "volcano"
"""Where the object names no scheduler."""


def entry_address(name: str, role: str, namespace: str | None) -> str:
    """Where the entry pod of the first role of the first group is reached."""
    return f"{name}-0-{role}-0-0.{namespace or 'default'}"


def labels(name: str, role: str) -> Mapping[str, str]:
    """Labels of a pod that are the same in all groups."""
    return {"modelserving.volcano.sh/name": name, "modelserving.volcano.sh/role": role}


# ----------------------------------------------------------------------------- ModelBooster

VLLM, DISAGGREGATED = "vLLM", "vLLMDisaggregated"
ROLES: Mapping[str, tuple[str, ...]] = {VLLM: ("server",), DISAGGREGATED: ("prefill", "decode")}
"""Workers that a type of backend makes pods of; others are passed over."""

COMMAND = ("python3", "-m", "vllm.entrypoints.openai.api_server", "--model")
BY_RAY = ("--distributed_executor_backend", "ray")
JOINED = "multi-node-serving.sh joins the pods of a server"

ENV: Mapping[str, Mapping[str, str]] = {
    "server": {"VLLM_USE_V1": "1"},
    "prefill": {"VLLM_USE_V1": "1", "HF_HUB_OFFLINE": "1"},
    "decode": {
        "VLLM_USE_V1": "1",
        "HF_HUB_OFFLINE": "1",
        "GLOO_SOCKET_IFNAME": "eth0",
        "TP_SOCKET_IFNAME": "eth0",
        "HCCL_SOCKET_IFNAME": "eth0",
    },
}
"""Variables that the engine gets, by the type of its worker."""

AMPLE_SHM = (VLLM,)
"""Types of backends whose pods have a memory volume without a limit on /dev/shm."""


def pods(stated: int | None) -> int:
    """Pods of one replica of a server: none is one."""
    return max(1, stated or 1)


def folder(cache: str, model: str) -> str:
    """The folder in the container into which the model is downloaded."""
    _, scheme, rest = cache.partition("://")
    path = rest.strip("/") if scheme else ""
    hashed = hashlib.md5(model.encode(), usedforsecurity=False).hexdigest()
    return f"/{path}/{hashed}" if path else f"/{hashed}"


def option(key: str) -> str:
    """The option that a key of `config` becomes."""
    return "--" + key.replace("_", "-")


MOST_PLAIN = 10**6
"""Numbers from here on are written with an exponent, which the engine does not read."""


def plain_number(word: str) -> bool:
    """Whether a number is handed on as it is written."""
    return re.fullmatch(r"-?(0|[1-9]\d*)", word) is None or abs(int(word)) < MOST_PLAIN

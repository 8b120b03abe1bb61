"""What the operator of NVIDIA Dynamo makes of the components of a graph.

As far as the operator understands the arguments, it adds the options or the Ray cluster by which
the pods of a replica become one engine. A mount on /dev/shm is dropped for its own volume, and
`autoscaling` is ignored.

A replica of a component is `multinode.nodeCount` pods. The operator looks at the arguments of the
main container to decide how vLLM is spread over them. It splits them at blanks, and knows an option
only as two words in its long form; what is written otherwise counts as 1. With W = TP × PP and G
GPUs per pod:

- W > G: one engine over all pods, by `--nnodes` or by Ray;
- else `--enable-elastic-ep`: the first pod runs the engine, the others join its Ray cluster;
- else W × DP > G: G / W data parallel ranks in each pod;
- else nothing: every pod starts an engine of its own.

SGLang is always told the number of nodes. TensorRT-LLM is started by `mpirun` with as many ranks as
the pods of a replica have GPUs. Every component gets a memory volume on /dev/shm, which
takes the place of a mount of its own.

A frontend chooses among the workers by its router mode, round-robin where none is given.

Sources: platforms, section 6; routing, sections 1 and 4; manifests, section 5; wxsms/dynamo (a copy
of ai-dynamo/dynamo), `deploy/operator/internal/dynamo/{backend_vllm,backend_sglang,shared_memory,
graph}.go` and `deploy/operator/api/{v1alpha1/common,v1beta1}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from shardlint.record import record

GROUP = "nvidia.com"
GRAPH = "DynamoGraphDeployment"
COMPONENT = "DynamoComponentDeployment"

SUPPORTING = ("frontend", "planner", "epp", "router")
"""Types of components that run no engine."""

FRAMEWORKS = ("vllm", "sglang", "trtllm")
MODULES: Final[Mapping[str, str]] = {name: f"dynamo.{name}" for name in FRAMEWORKS}

NAMES: Final[Mapping[str, str]] = {name: name for name in FRAMEWORKS}
"""What names of components begin with, such as TRTLLMDecodeWorker and VllmPrefillWorker."""

MPI = "mpi"


def named_after(component: str) -> str | None:
    """The framework that a component is named after, where its graph does not say it."""
    lower = component.lower()
    return next((found for start, found in NAMES.items() if lower.startswith(start)), None)


FRONTEND = "frontend"
ROUTER_OPTION, ROUTER_VARIABLE = "--router-mode", "DYN_ROUTER_MODE"
DEFAULT_ROUTING = "round-robin"
ROUTING: Final[Mapping[str, frozenset[str]]] = {
    "round-robin": frozenset(),
    "random": frozenset(),
    "power-of-two": frozenset({"load"}),
    "least-loaded": frozenset({"load"}),
    "device-aware-weighted": frozenset({"load"}),
    "kv": frozenset({"prefix", "kv", "load"}),
}
"""What the choice of a router mode looks at. With `direct` somebody else chooses."""

SHM_BYTES = 8 * 2**30
RELEASE = "1.5.0"
"""The release of the operator that was read."""

AS_READ = f"the operator does what its release {RELEASE} does"
PROCESSES_SINCE = "1.0.0"
"""Objects of older operators are joined by Ray."""
MULTIPROCESSING = "the operator that made the object is of release 1.0.0 or newer"

EXECUTOR = "mp"
"""What the operator adds for several nodes, whatever the arguments say."""
EXECUTOR_NOTE = "nvidia.com/vllm-distributed-executor-backend"

OPTIONS: Final[Mapping[str, str]] = {
    "tp": "--tensor-parallel-size",
    "pp": "--pipeline-parallel-size",
    "dp": "--data-parallel-size",
}
ELASTIC = "--enable-elastic-ep"
JOINING = ("--node-rank", "--master-addr", "--data-parallel-address", "--data-parallel-start-rank")
"""Options of vLLM by which a command line joins pods itself."""

Spread: TypeAlias = Literal["nodes", "elastic", "hybrid", "apart"]


@record(kw_only=True)
class Asked:
    """What decides how vLLM is spread: sizes, and whether expert parallelism is elastic."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    elastic: bool = False

    @property
    def world(self) -> int:
        return self.tp * self.pp


def seen(arguments: Sequence[str]) -> Asked:
    """What the operator reads in the arguments of a container."""
    words = [word for text in arguments for word in text.split()]
    sizes = {field: _value(words, option) for field, option in OPTIONS.items()}
    return Asked(elastic=ELASTIC in words, **sizes)


def _value(words: Sequence[str], option: str) -> int:
    """The first number behind the option."""
    for at, word in enumerate(words[:-1]):
        if word == option and _is_number(words[at + 1]):
            return int(words[at + 1])
    return 1


def _is_number(word: str) -> bool:
    digits = word.removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit() and len(digits) < 10


def spread(asked: Asked, gpus: int) -> Spread:
    """How the operator joins the pods of a replica of vLLM, each with so many GPUs."""
    if gpus < 1:
        return "elastic" if asked.elastic else "apart"
    if asked.world > gpus:
        return "nodes"
    if asked.elastic:
        return "elastic"
    return "hybrid" if asked.world * asked.dp > gpus else "apart"


def local_ranks(asked: Asked, gpus: int) -> int:
    """Data parallel ranks that the operator starts in each pod."""
    return gpus // asked.world if asked.world > 0 else 0

"""What KServe makes of an InferenceService and of an LLMInferenceService.

An InferenceService gets the container of its runtime, with its own arguments and variables added,
and the model at /mnt/models; with `workerSpec` KServe sets both parallel sizes by variables. An
LLMInferenceService gets the command of a preset, with `parallelism` as options and a memory volume
on /dev/shm; keys of `parallelism` that the preset does not look at are ignored.

Facts: platforms, sections 1 and 2. Read in kserve at aaac4e2 (after v0.20.0):
pkg/controller/v1beta1/inferenceservice/components/predictor.go (the nodes of a group, as since
v0.15.1), .../reconcilers/deployment/deployment_reconciler.go, config/runtimes/*.yaml; the same two
controllers in v0.14.1, which knows no `workerSpec`, v0.15.0 and v0.15.1 (how a group was counted);
pkg/apis/serving/v1beta1/inference_service_validation.go; pkg/apis/serving/v1alpha2/
llm_inference_service_types_func.go and llm_inference_service_validation.go,
pkg/controller/v1alpha2/llmisvc/{config_merge,managed_dra,workload}.go, config/llmisvcconfig/*.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from shardlint.record import record

NAME = "kserve"
LABEL = "KServe"
RELEASES = ("0.15.1", "0.20.0")
"""The releases that all of this was read of; of older ones only what is said here."""
GROUPS_SINCE, COUNTED_SINCE = "0.15.0", "0.15.1"
"""From when on there are groups of nodes, and GPUs are counted to make one (`ray_group`)."""

# ------------------------------------------------------------------------------ InferenceService

MOUNT = "/mnt/models"
"""Where the model is found in the container, whatever its URI is."""

GPUS = ("nvidia.com/gpu", "amd.com/gpu", "intel.com/gpu", "habana.ai/gaudi")
"""Resources that are counted for a group of nodes; an annotation of the object can name more."""

SHARED_PROTOCOLS = ("pvc", "oci")
"""The only places that a model for several nodes can come from."""

TP_VARIABLE, PP_VARIABLE = "TENSOR_PARALLEL_SIZE", "PIPELINE_PARALLEL_SIZE"
SIZE_VARIABLES = (PP_VARIABLE, TP_VARIABLE)
"""Variables that KServe sets itself from `workerSpec`, and refuses in the object, in its order."""

HUGGINGFACE = ("python", "-m", "huggingfaceserver")
VLLM = ("python", "-m", "vllm.entrypoints.openai.api_server")
SGLANG = ("python", "-m", "sglang.launch_server")


@record(kw_only=True)
class Runtime:
    """What is known of a runtime that is not among the files: its command, and whether that is all.

    `nim`: its image is one of NVIDIA's, `release` its tag.
    """

    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    whole: bool = False
    nim: str | None = None
    release: str | None = None


OWN: Mapping[str, Runtime] = {
    "kserve-huggingfaceserver": Runtime(command=HUGGINGFACE, whole=True),
    "kserve-huggingfaceserver-multinode": Runtime(command=HUGGINGFACE, whole=True),
    "kserve-vllmserver": Runtime(
        command=VLLM, arguments=("--port=8080", f"--model={MOUNT}"), whole=True
    ),
}
"""Runtimes that KServe ships."""

_VLLM_NAME = re.compile(r"vllm([-_](cuda|rocm|gaudi|cpu|spyre|multinode))*([-_]?runtime)?")
_SGLANG_NAME = re.compile(r"sglang([-_]?runtime)?")
_NIM_NAME = re.compile(r"nvidia-nim-(.+?)(?:-(\d+\.\d+(?:\.\d+)?))?")


def runtime(name: str | None, model_format: str | None) -> Runtime | None:
    """A runtime by its name and the format of the model; None where its engine is not known.

    Without a name, KServe chooses one for the format: its own, unless the cluster has others.
    """
    word = (model_format or "").lower()
    if name in OWN:
        return OWN[name or ""]
    nim = _NIM_NAME.fullmatch(name or "") or _NIM_NAME.fullmatch(word)
    if nim is not None:
        return Runtime(nim=nim[1], release=nim[2])
    if name is None and word == "huggingface":
        return OWN["kserve-huggingfaceserver"]
    if word == "vllm" or _VLLM_NAME.fullmatch(name or ""):
        return Runtime(command=VLLM, arguments=(f"--model={MOUNT}",))
    if word == "sglang" or _SGLANG_NAME.fullmatch(name or ""):
        return Runtime(command=SGLANG, arguments=(f"--model-path={MOUNT}",))
    return None


@record
class Group:
    """The pods of one engine: how many, and the GPUs of the head and of each worker."""

    nodes: int
    head: int
    worker: int

    @property
    def gpus(self) -> int:
        return self.head + self.worker * (self.nodes - 1)


def ray_group(tp: int, pp: int, head: int, worker: int) -> Group:
    """computeRayNodeAndGPUs: from the GPUs that head and worker request, 0 where they do not."""
    total = tp * pp
    if worker > 0:
        nodes = -(-total // worker)
        if nodes == 1 or head >= total:
            return Group(1, total, 0)
        return Group(nodes, head or total - worker * (nodes - 1), worker)
    if head > 0:
        return Group(1 + max(0, total - head), head, 1)
    return Group(total, 1, 1)


def mp_group(tp: int, pp: int) -> Group:
    """computeMpNodeAndGPUs: a node for each stage; before 0.15.1 each group was one of these."""
    return Group(pp, tp, tp)


EXECUTOR = "multinode/executor-backend"
"""The annotation of the runtime's pods that chooses between the two: "mp" or Ray."""

REPLICAS = ("autoscaling.knative.dev/minScale", "autoscaling.knative.dev/min-scale")
ROLLING = "RollingUpdate"
MAX_REPLICAS = ("autoscaling.knative.dev/maxScale", "autoscaling.knative.dev/max-scale")

AUTOSCALER = "serving.kserve.io/autoscalerClass"

RUNTIME_VERSION = "opendatahub.io/runtime-version"
"""OpenShift AI writes the engine's release here, because its image is filled in elsewhere."""

# --------------------------------------------------------------------------- LLMInferenceService

MAIN = "main"
"""The container of the engine; others stand beside it."""

ADDITIONAL = "VLLM_ADDITIONAL_ARGS"
"""A variable whose words the preset puts behind its own options."""

SHM_VOLUME = "dshm"
SHM_SINGLE, SHM_GROUP = 2**30, 8 * 2**30
"""The volume that the presets mount on /dev/shm, and its size for one node and for several."""

INFER_ROCE = "KSERVE_INFER_ROCE"
"""With this variable the preset's script sets the variables of RDMA devices itself."""

DRA = "serving.kserve.io/exp-dra-"
"""Annotations that claim devices: device-class, device-count, cel-selector, container-name."""

GROUPED = ("data", "dataLocal", "pipeline")
UNREAD_ALONE = ("pipeline", "data", "dataLocal", "expert")
"""Keys of `parallelism` that the presets for one node do not look at."""

PIPELINE_PRESETS: Mapping[str | None, str] = {
    None: "config-llm-worker-pipeline-parallel",
    "decode": "config-llm-decode-worker-pipeline-parallel",
    "prefill": "config-llm-prefill-worker-pipeline-parallel",
}
"""Presets that an object with `pipeline` needs and KServe does not ship, by role."""


def group_size(data: int | None, local: int | None, pipeline: int | None) -> int | None:
    """GetSize: the pods of a group; what does not divide is cut off."""
    if (data or 0) > 0 or (local or 0) > 0:
        return max(max(data or 1, 1) // max(local or 1, 1), 1)
    return pipeline


@record
class Problem:
    """What admission refuses: the key of `parallelism` or "worker" that it names, and its words."""

    key: str
    says: str


def refusals(worker: bool, sizes: Mapping[str, int] | None) -> Iterator[Problem]:
    """validateWorkloadParallelism: `sizes` are the keys that are there; None: there is no map."""
    neither = (
        "when worker is specified, parallelism must be configured for either data parallelism or"
        " pipeline parallelism"
    )
    if sizes is None:
        if worker:
            yield Problem("worker", neither)
        return
    data = any(sizes.get(key, 0) > 0 for key in ("data", "dataLocal"))
    pipeline = sizes.get("pipeline", 0) > 0
    if worker and not data and not pipeline:
        yield Problem("worker", neither)
    if data and pipeline:
        both = "cannot set both pipeline parallelism and data parallelism (data or dataLocal)"
        yield Problem("pipeline", f"{both} simultaneously")
    for key, other in (("data", "dataLocal"), ("dataLocal", "data")):
        if key in sizes and other not in sizes:
            yield Problem(key, f"{other} must be set when {key} is set")
    names = {"pipeline": "pipeline", "data": "data", "dataLocal": "dataLocal"}
    for key, name in names.items():
        if key in sizes and sizes[key] <= 0:
            yield Problem(key, f"{name} parallelism must be greater than 0")


def labels(name: str) -> Mapping[str, str]:
    """GetWorkloadLabelSelector: what the pods of one object carry."""
    return {
        "app.kubernetes.io/part-of": "llminferenceservice",
        "app.kubernetes.io/name": name,
        "kserve.io/component": "workload",
    }


DEFAULT_ROUTING = "epp-default"
DEFAULT_AWARENESS = frozenset({"prefix", "load"})


# ----------------------------------------------------------------------------------------- models


def model_of(uri: str) -> str:
    """The model that a URI names: an id of the Hub without its scheme and revision."""
    if not uri.startswith("hf://"):
        return uri
    return uri.removeprefix("hf://").partition(":")[0]

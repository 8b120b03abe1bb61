"""What OME makes of its objects.

An InferenceService has an engine and perhaps a decoder; what it leaves out is taken from a runtime,
which OME chooses by the model where none is named. A leader and `worker.size` workers become a
LeaderWorkerSet. The container of an engine gets the folder of its model, unless it sets that
itself, and the number of GPUs of the whole group, unless an accelerator class is chosen; that class
may also replace sizes that the command line has.

Sources: platforms, section 13; sgl-project/ome,
`pkg/controller/v1beta1/inferenceservice/components/engine.go` and `base.go` beside it.
"""

from __future__ import annotations

from collections.abc import Mapping

GROUP = "ome.io"
SERVICE = "InferenceService"
RUNTIMES = ("ServingRuntime", "ClusterServingRuntime")
MODELS = ("BaseModel", "ClusterBaseModel")

COMPONENTS: Mapping[str, str] = {"engineConfig": "engine", "decoderConfig": "decoder"}
"""Parts of a runtime by their keys, and the key of the same part in a service."""

MODEL_PATH = "MODEL_PATH"
PARALLELISM = "PARALLELISM_SIZE"
COUNTED = "nvidia.com/gpu"
"""The only resource that is counted for it."""

NO_CLASS = "no accelerator class is chosen"
NO_OVERRIDE = "no accelerator class is chosen whose sizes replace these"


def parallelism(gpus: int, pods: int) -> int:
    """GPUs of the container times the pods of a group."""
    return gpus * pods

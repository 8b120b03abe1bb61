"""What the llm-d modelservice chart makes of its values.

With `modelCommand: vllmServe` the chart writes the command of vLLM, with the sizes of `parallelism`
as options, and asks for tensor × dataLocal GPUs where the container asks for none. A `command`
beside it is ignored, and so are `workers` without `multinode: true`.

Read in llm-d-incubation/llm-d-modelservice at 3051935 (chart 0.4.12): `charts/llm-d-modelservice/
templates/{_helpers.tpl,_helpers-dra.tpl,decode-deployment.yaml,decode-lws.yaml}`, `values.yaml`.
Until chart 0.3.16 the number that it works out took the place of the container's own
(`llm-d-modelservice.resources` in _helpers.tpl, changed by #176); at first it was `tensor` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from shardlint.record import record

GPU = "nvidia.com/gpu"
CHART = "llm-d-modelservice"
RELEASES = ("0.3.17", "0.4.12")
KEPT_SINCE, PER_RANK_SINCE = "0.3.17", "0.3.6"
"""From when on the container's own number counts, and the chart's is tensor × dataLocal."""

RESOURCES: Mapping[str, str] = MappingProxyType({
    "nvidia": GPU,
    "intel-i915": "gpu.intel.com/i915",
    "intel-xe": "gpu.intel.com/xe",
    "intel-gaudi": "habana.ai/gaudi",
    "amd": "amd.com/gpu",
    "google": "google.com/tpu",
    "rebellions-atom": "rebellions.ai/ATOM",
})  # fmt: skip
"""The resource that each `accelerator.type` asks for; of another type, the first."""

NO_DEVICE = "cpu"

AT_ONCE = "`strategy` of the part with maxSurge: 0 and maxUnavailable: 1"
"""How an update of a part's Deployment takes no more GPUs; the chart hands it on as it is."""

MOUNT = "/model-cache"
"""Where the volume of the model is, unless `modelArtifacts.mountPath` says otherwise."""

COMMANDS = ("custom", "vllmServe", "imageDefault")


@record(kw_only=True)
class Parallelism:
    """What `parallelism` comes to: sizes and pods of one replica; None where that is open."""

    tensor: int
    data: int | None
    local: int | None
    workers: int | None

    @property
    def gpus(self) -> int | None:
        """GPUs per pod, where the container does not state them."""
        return None if self.local is None else self.local * self.tensor


def parallelism(
    tensor: int | None, data: int | None, local: int | None, workers: int | None
) -> Parallelism:
    """The sizes that result; those that depend on the chart's own values are open.

    The templates work out a size that is not there from the others. The chart's values give all of
    them as 1, so that each is there unless somebody removed it with null: only where both ways lead
    to the same is it certain.
    """
    filled = _worked_out(data or 1, local or 1, workers or 1)
    alone = _worked_out(data, local, workers)
    same = [one if one == two else None for one, two in zip(filled, alone, strict=True)]
    return Parallelism(tensor=tensor or 1, data=same[0], local=same[1], workers=same[2])


def _worked_out(
    data: int | None, local: int | None, workers: int | None
) -> tuple[int | None, int | None, int | None]:
    """Data, data local and workers as the templates have them; None where they refuse."""
    return (
        data or (local or 1) * ((workers or 1) if local else 1),
        local or _divided(data, workers, data or 1),
        workers or _divided(data, local, 1),
    )


def _divided(total: int | None, parts: int | None, otherwise: int) -> int | None:
    if not total or not parts:
        return otherwise
    return total // parts if total % parts == 0 else None


def model_of(uri: str, mount: str) -> str | None:
    """The model that the engine is given for a URI; None if the chart knows no such URI.

    The chart writes it as it is into YAML, so that quotes in it are none of its characters.
    """
    protocol, _, rest = uri.replace('"', "").partition("://")
    if protocol == "hf":
        return rest
    if protocol == "pvc":
        return f"{mount}/{rest.partition('/')[2]}"
    parts = rest.split("/")
    return "/".join(parts[-2:]) if protocol == "pvc+hf" and len(parts) > 2 else None

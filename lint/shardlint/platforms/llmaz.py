"""What llmaz makes of its objects.

A Playground runs the model of its claim on a backend: the backend's command and arguments, then
those of the Playground. A Service has the template of a LeaderWorkerSet. Both load the claimed
models into one folder and give the container that runs the model the devices of a flavor of the
main model: the first that the claim names, else the first of the model.

Sources: manifests, section 9; InftyAI/llmaz, `pkg/controller/inference/playground_controller.go`
and `service_controller.go`, `pkg/controller_helper/modelsource` and `chart/templates/backends`.
"""

from __future__ import annotations

from collections.abc import Mapping

MODELS, INFERENCE = "llmaz.io", "inference.llmaz.io"
MODEL, PLAYGROUND, SERVICE = "OpenModel", "Playground", "Service"

FOLDER = "/workspace/models/"
RUNNER = "model-runner"
"""The container that gets the devices."""

DEFAULT_BACKEND = "vllm"
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "vllm": ("python3", "-m", "vllm.entrypoints.openai.api_server"),
    "sglang": ("python3", "-m", "sglang.launch_server"),
    "llamacpp": ("./llama-server",),
    "tgi": ("text-generation-launcher",),
}
"""Commands of the chart's backends; that of `tgi` is its image's."""

MODEL_OPTIONS: Mapping[str, str] = {
    "vllm": "--model", "sglang": "--model-path", "llamacpp": "-m", "tgi": "--model-id",
}  # fmt: skip
IMAGES: Mapping[str, str] = {
    "vllm": "vllm/vllm-openai",
    "sglang": "lmsysorg/sglang",
    "llamacpp": "ghcr.io/ggerganov/llama.cpp",
    "tgi": "ghcr.io/huggingface/text-generation-inference",
}
"""Images of the chart's backends; their release changes with the chart."""

SHM: Mapping[str, int] = {"vllm": 2 * 2**30, "sglang": 2 * 2**30}
SHM_ASSUMED = "the backend is the one of llmaz's chart"

DEFAULT_CONFIG, SPECULATIVE = "default", "speculative-decoding"
SKIPS_LOADER = "llmaz.io/skip-model-loader"


def folder(model: str, file: str | None, skips: bool) -> str:
    """Where a model of a hub is found in the container; by its own name if nothing loads it."""
    if skips:
        return model
    return FOLDER + (file or "models--" + model.replace("/", "--"))


def folder_of_uri(uri: str, skips: bool) -> str:
    """The same for a model by its address; one on the host stays where it is."""
    scheme, _, rest = uri.partition("://")
    if scheme == "host":
        return rest
    if skips:
        return uri
    last = rest.rsplit("/", 1)[-1]
    return FOLDER + (last if ".gguf" in rest else "models--" + last)

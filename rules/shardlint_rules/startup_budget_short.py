"""A probe ends the engine before it can have loaded the model.

Until the first success of a startup probe, Kubernetes waits `initialDelaySeconds` + `periodSeconds`
× `failureThreshold` and then kills the container; without a startup probe the liveness probe does,
after 30 seconds where nothing else is stated. The engine answers only when all weights are loaded
and CUDA graphs are captured. The pod then starts again, reads the weights again, and never serves:
CrashLoopBackOff.

The time to load is taken generously: all weights at 0.5 GB/s, which a network volume seldom
reaches, and two minutes for the rest. A local disk can be several times as fast, so this is a
warning, and nothing is said of a budget that comes within a quarter of it. Without a startup probe
it also comes for weights of more than 10 GB and less than five minutes.

```yaml fails
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.33.0
    args: ["Qwen/Qwen3-32B"]
    resources: {limits: {nvidia.com/gpu: 1}}
    livenessProbe:  # startup-budget-short
      httpGet: {path: /health, port: 8000}
      initialDelaySeconds: 60
```

```yaml passes
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.33.0
    args: ["Qwen/Qwen3-32B"]
    resources: {limits: {nvidia.com/gpu: 1}}
    startupProbe:
      httpGet: {path: /health, port: 8000}
      periodSeconds: 10
      failureThreshold: 180
    livenessProbe:
      httpGet: {path: /health, port: 8000}
```

Fix: a startup probe with a `failureThreshold` that covers the slowest load.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, ModelFacts, Rule, ServingPlan, World

BYTES_PER_SECOND = 500_000_000
REST_SECONDS = 120
MARGIN = 1.25
LARGE_BYTES, LEAST_SECONDS = 10_000_000_000, 300


class StartupBudgetShort(Rule):
    id, name = "SL312", "startup-budget-short"
    severity = "warning"
    needs = ("placement.startup_seconds", "model_facts")
    model = ("params_total", "quantization")

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return engine.checked and not plan.placement.startup_seconds.is_unset

    def check(self, world: World) -> Iterator[Found]:
        seconds, probe = world.values["placement.startup_seconds"], world.plan.placement.probe
        assert world.model is not None
        size = _least_bytes(world.model)
        needed = size // BYTES_PER_SECOND + REST_SECONDS
        weights = f"{size / 1e9:,.0f} GB of weights"
        said = f"at 0.5 GB/s the {weights} and a warm-up take {needed} s"
        if probe == "livenessProbe" and size > LARGE_BYTES and needed < LEAST_SECONDS:
            needed = LEAST_SECONDS
            said = (
                f"without a startup probe, {size / 1e9:,.0f} GB of weights should have {needed} s"
            )
        if seconds * MARGIN >= needed:
            return
        yield Found(
            message=(f"{probe} ends the container after {seconds} s; {said}"),
            at=world.origin("placement.startup_seconds"),
            help=f"a startupProbe with periodSeconds: 10, failureThreshold: {-(-needed // 10)}",
        )


def _least_bytes(model: ModelFacts) -> int:
    """What the checkpoint has at least: every parameter in the bits of its quantization."""
    bits = (model.quantization or {}).get("bits") if model.quantization else 16
    width = bits if isinstance(bits, int) and 0 < bits <= 16 else 4
    return (model.params_total or 0) * width // 8

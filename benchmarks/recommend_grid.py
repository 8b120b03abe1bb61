"""What is recommended, written out as a manifest, read again and linted, over models and cards.

    python benchmarks/recommend_grid.py [--engine NAME] [--models N] [--seed N] [--oracle FILE]

For each model of the catalogue (or N of them) and each of six cards, eight to a node: the first
three layouts become a Deployment each. It must read back to the layout, and lint without an error.
With FILE (one verdict of vLLM a line: model, tp, pp, dp, ep, verdict) none of them may be refused
there. tests/recommendations/test_grid.py runs a part of it.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardlint.config import Settings
from shardlint.engines import builtin as engines
from shardlint.estimates import Asked, EstimateError, Estimator
from shardlint.known import Known
from shardlint.linter import lint
from shardlint.models.catalogue import Catalogue
from shardlint.plan import ServingPlan
from shardlint.platforms import builtin as platforms
from shardlint.plugins import Hardware, Plugins
from shardlint.project import Project, Setup
from shardlint.readers import builtin as readers
from shardlint.recommendations import Candidate, Wanted, recommend
from shardlint.reports import builtin as reports

CARDS = ("A100-SXM-80GB", "H100-SXM-80GB", "B200-SXM-180GB", "L4", "L40S", "RTX-5090")
PER_NODE = 8
FIRST = 3
SIZES = ("tp", "pp", "dp", "attention_dp", "ep", "dcp")
Key = tuple[str, int, int, int, bool]


@dataclass(frozen=True)
class Served:
    """An engine in a container: image, release, and the words before the options."""

    image: str
    release: str
    command: tuple[str, ...] = ()

    def words(self, model: str) -> tuple[str, ...]:
        return (*self.command, model)


SERVED: Mapping[str, Served] = {
    "vllm": Served("vllm/vllm-openai:v0.33.0", "0.33.0"),
    "sglang": Served(
        "lmsysorg/sglang:v0.5.23", "0.5.23",
        ("python3", "-m", "sglang.launch_server", "--model-path"),
    ),
    "trtllm": Served(
        "nvcr.io/nvidia/tensorrt-llm/release:1.2.0", "1.2.0", ("trtllm-serve", "serve")
    ),
    "lmdeploy": Served(
        "openmmlab/lmdeploy:v0.13.0", "0.13.0", ("lmdeploy", "serve", "api_server")
    ),
}  # fmt: skip


def manifest(item: Candidate, engine: str, model: str) -> str:
    """A Deployment that starts the layout."""
    served = SERVED[engine]
    words = json.dumps([*served.words(model), *item.arguments])
    key = "command" if served.command else "args"
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: llm}}
spec:
  replicas: {item.fleet.replicas}
  selector: {{matchLabels: {{app: llm}}}}
  template:
    metadata: {{labels: {{app: llm}}}}
    spec:
      hostIPC: true
      containers:
      - name: engine
        image: {served.image}
        {key}: {words}
        resources: {{limits: {{nvidia.com/gpu: {item.estimate.gpus}}}}}
"""


class Grid:
    """Cards as setups, made once."""

    def __init__(self, cards: Iterable[str] = CARDS) -> None:
        plugins = Plugins([engines, platforms, readers, reports], discover=False)
        bare = Setup(plugins, Settings())
        self.setups = {card: _with_card(bare, card) for card in cards}
        self.estimators = {card: Estimator(made) for card, made in self.setups.items()}

    def found(self, engine: str, model: str, card: str) -> tuple[Candidate, ...]:
        """The first layouts; none where the model cannot be sized."""
        asked = Asked(
            model=model, gpu=card, engine=engine, engine_version=SERVED[engine].release,
            isl=1024, osl=512,
        )  # fmt: skip
        try:
            answer = recommend(self.estimators[card], Wanted(asked=asked, per_node=PER_NODE))
        except EstimateError:
            return ()
        return answer.found[:FIRST]

    def faults(self, item: Candidate, engine: str, model: str, card: str) -> Iterator[str]:
        """What is wrong with one layout as a manifest."""
        text = manifest(item, engine, model)
        project = Project.of_texts(self.setups[card], {"llm.yaml": text})
        result = lint(project).result
        for finding in result.findings:
            if finding.severity == "error":
                yield f"{finding.name}: {finding.message}"
        if len(project.plans) != 1:
            yield f"{len(project.plans)} plans were read"
            return
        yield from _differences(item, project.plans[0])


def _differences(item: Candidate, plan: ServingPlan) -> Iterator[str]:
    wanted = {name: getattr(item.estimate.layout, name) for name in SIZES}
    read = {name: getattr(plan.effective, name).only for name in SIZES}
    if plan.fleet.replicas.only != item.fleet.replicas:
        yield f"{plan.fleet.replicas.only} replicas were read of {item.fleet.replicas}"
    for name, value in wanted.items():
        if _size(read[name]) != _size(value):
            yield f"{name} {value!r} was read as {read[name]!r}"
    told = item.settings.get("max_model_len")
    if told is not None and plan.memory.max_model_len.only != told:
        yield f"{told} tokens were read as {plan.memory.max_model_len.only}"


def _size(value: Any) -> Any:
    return 1 if value is False else value


def _with_card(bare: Setup, card: str) -> Setup:
    hardware = Hardware(
        gpu=bare.devices.find(card), gpus_per_node=Known.of(PER_NODE, how="derived")
    )
    return Setup(bare.plugins, bare.settings, hardware)


def sample(count: int | None, seed: int) -> list[str]:
    """Models of the catalogue, in an order that the seed decides."""
    names = sorted(Catalogue().ids())
    return names if count is None else random.Random(seed).sample(names, count)


def judged(path: Path) -> dict[Key, str]:
    """Verdicts of vLLM by model and layout."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {
        (row["model"], row["tp"], row["pp"], row["dp"], row["ep"]): row["verdict"] for row in rows
    }


def key(item: Candidate, model: str) -> Key:
    asked = item.estimate.layout
    return model, asked.tp, asked.pp, asked.dp, bool(asked.ep is True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--engine", choices=sorted(SERVED), default="vllm")
    parser.add_argument("--models", type=int)
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--oracle", type=Path)
    told = parser.parse_args()
    verdicts = judged(told.oracle) if told.oracle else {}
    grid, counts, slowest = Grid(), Counter[str](), 0.0
    for model in sample(told.models, told.seed):
        for card in CARDS:
            start = time.perf_counter()
            found = grid.found(told.engine, model, card)
            slowest = max(slowest, time.perf_counter() - start)
            counts["questions"] += 1
            counts["answered"] += bool(found)
            for item in found:
                counts["layouts"] += 1
                faults = list(grid.faults(item, told.engine, model, card))
                verdict = verdicts.get(key(item, model))
                counts["of them in the oracle"] += verdict is not None
                if verdict not in (None, "ok"):
                    faults.append(f"vLLM says {verdict}")
                counts["faulty"] += bool(faults)
                for fault in faults:
                    print(f"{model} on {card}, {' '.join(item.arguments)}: {fault}")
    for name, count in counts.items():
        print(f"{count:6,} {name}")
    print(f"{slowest * 1e3:6.0f} ms for the slowest question")


if __name__ == "__main__":
    main()

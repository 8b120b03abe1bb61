"""How fast many files go, beside yamllint on the same files in the same run.

    python benchmarks/throughput.py [FILES] [RUNS]

The files are the YAML examples with other names, sizes and releases; in the second folder nine of
ten are manifests of something else. After them, in process: how long all constraints of one layout
take, one estimate of its memory, and one recommendation.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import cycle, islice, product
from pathlib import Path
from tempfile import TemporaryDirectory

from measure import in_turns, machine, script, times
from shardlint.engines import builtin as engines
from shardlint.engines.vllm import VLLM
from shardlint.estimates.asked import Asked
from shardlint.estimates.estimator import Estimator
from shardlint.models.catalogue import Catalogue
from shardlint.plan import Layout, Options, Releases
from shardlint.platforms import builtin as platforms
from shardlint.plugins import Plugins
from shardlint.project import Setup
from shardlint.readers import builtin as readers
from shardlint.recommendations import Wanted, recommend
from shardlint.reports import builtin as reports

EXAMPLES = Path(__file__).parents[1] / "examples"
MODELS = {
    "dense": "meta-llama/Llama-3.1-405B-Instruct",
    "mixture in FP8 blocks": "Qwen/Qwen3-235B-A22B-FP8",
    "latent attention": "deepseek-ai/DeepSeek-V3",
    "hybrid with a vision tower": "Qwen/Qwen3.5-397B-A17B",
}


def variants() -> Iterator[str]:
    """The YAML examples, over and over, each with another name, release and TP size."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.rglob("*.yaml"))]
    sizes = product(("v0.33.0", "v0.27.0", "latest"), ("1", "2", "4", "8"))
    for number, (text, (tag, tp)) in enumerate(zip(cycle(texts), cycle(sizes), strict=False)):
        text = re.sub(r"\bname: (chat|large)$", rf"name: \1-{number}", text, flags=re.M)
        text = re.sub(r"\bapp: (chat|large)$", rf"app: \1-{number}", text, flags=re.M)
        text = re.sub(r'(tensor-parallel-size[ =]|size\n\s+- ")\d+', rf"\g<1>{tp}", text)
        yield text.replace(":v0.33.0", f":{tag}")


def constraint_microseconds(name: str) -> float:
    """All constraints of one layout, over layouts of up to 64 GPUs of one model."""
    engine, model = VLLM(), Catalogue().lookup(name)
    powers = [2**n for n in range(7)]
    layouts = [
        Layout(tp=tp, pp=pp, dp=dp, ep=ep and model is not None and model.moe)
        for tp, pp, dp, ep in product(powers, powers, powers, (False, True))
        if tp * pp * dp <= 64
    ]
    told = Options(releases=(Releases("0.33.0", "0.33.0"),))
    rounds = 30
    start = time.perf_counter()
    for _ in range(rounds):
        for layout in layouts:
            ranks = engine.ranks(layout, model, 64)
            for constraint in engine.constraints(model, ranks, layout, told):
                constraint.refuses  # noqa: B018 - its time is part of the answer
    return (time.perf_counter() - start) / (rounds * len(layouts)) * 1e6


def estimate_microseconds(name: str) -> float:
    """One estimate after the first, over layouts of up to 64 GPUs of one model."""
    estimator = Estimator(Setup(Plugins([engines, platforms, readers, reports])))
    powers = [2**n for n in range(4)]
    questions = [
        Asked(model=name, gpu="H100-SXM-80GB", engine_version="0.33.0", tp=tp, pp=pp, dp=dp,
              max_model_len=length)
        for tp, pp, dp in product(powers, powers[:3], powers[:2])
        for length in (4096, 8192)
    ]  # fmt: skip
    estimator.estimate(questions[0])
    rounds = 10
    start = time.perf_counter()
    for _ in range(rounds):
        for question in questions:
            estimator.estimate(question)
    return (time.perf_counter() - start) / (rounds * len(questions)) * 1e6


def recommend_milliseconds(name: str) -> float:
    """The first recommendation of a process, for two nodes of eight GPUs, without its imports."""
    estimator = Estimator(Setup(Plugins([engines, platforms, readers, reports])))
    asked = Asked(model=name, gpu="H100-SXM-80GB", engine_version="0.33.0", isl=1024, osl=512)
    start = time.perf_counter()
    recommend(estimator, Wanted(asked=asked, per_node=8, nodes=2))
    return (time.perf_counter() - start) * 1e3


PLAIN = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-{number}
  labels: {{app: web-{number}}}
spec:
  replicas: 2
  selector:
    matchLabels:
      app: web-{number}
  template:
    metadata:
      labels:
        app: web-{number}
    spec:
      containers:
        - name: web
          image: registry.example.com/web:{number}
          ports:
            - containerPort: 8080
          env:
            - name: DATABASE_URL
              valueFrom:
                secretKeyRef:
                  name: web
                  key: url
          resources:
            requests: {{cpu: 100m, memory: 128Mi}}
            limits: {{memory: 256Mi}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web-{number}
spec:
  rules:
    - host: web-{number}.example.com
      http:
        paths:
          - path: /
            pathType: Prefix
            backend:
              service:
                name: web-{number}
                port: {{number: 80}}
"""
"""A manifest that starts no engine, as most of a repository's do."""


def repository(files: int) -> Iterator[str]:
    """One manifest in ten starts an engine."""
    engines = variants()
    for number in range(files):
        yield next(engines) if number % 10 == 0 else PLAIN.format(number=number)


def measured(texts: Iterable[str], files: int, count: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        for number, text in enumerate(texts):
            path = folder / f"team-{number % 20}" / f"manifest-{number}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        commands = {
            "shardlint check .": [script("shardlint"), "check", "--exit-zero", "."],
            "yamllint .": [script("yamllint"), "-d", "relaxed", "."],
        }
        found = in_turns(commands, folder, count)
    print(f"{'':20} median    min    max  files/s  peak MiB")
    for name, samples in found.items():
        middle, least, most = times(samples)
        peak = max(sample.peak_mib for sample in samples)
        rate = files / middle
        print(f"{name:20}{middle:7.2f}{least:7.2f}{most:7.2f}{rate:9,.0f}{peak:10,.0f}")
    ours, theirs = (times(samples) for samples in found.values())
    ratios = " / ".join(f"{one / two:.2f}" for one, two in zip(ours, theirs, strict=True))
    print(f"{files:,} files, shardlint / yamllint: {ratios} (median / min / max; goal: 0.4)")


def main() -> None:
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    print(f"{machine()}; {files:,} files, {count} runs of each, in turns; seconds")
    print("every file starts an engine")
    measured(islice(variants(), files), files, count)
    print("one file in ten starts an engine")
    measured(repository(files), files, count)
    print("all constraints of one layout, microseconds (goal: 50)")
    for kind, name in MODELS.items():
        print(f"{kind:28} {constraint_microseconds(name):5.1f}  {name}")
    print("one estimate of memory, microseconds (goal: 1,000)")
    for kind, name in MODELS.items():
        print(f"{kind:28} {estimate_microseconds(name):5.0f}  {name}")
    print("one recommendation for 16 GPUs, milliseconds (goal: 150)")
    for kind, name in MODELS.items():
        print(f"{kind:28} {recommend_milliseconds(name):5.0f}  {name}")


if __name__ == "__main__":
    main()

"""What tests of readers share: the plans of one text, places in it, and edits of it."""

from __future__ import annotations

from functools import cache
from textwrap import dedent, indent
from typing import Any

from conftest import SHARED
from harness import setup
from ruamel.yaml import YAML
from shardlint.known import Known
from shardlint.plan import Refusal, Router, ServingPlan
from shardlint.plugins import Finding
from shardlint.project import Project, Setup
from shardlint.reports.inspection import FIELDS
from shardlint.source import Origin, apply

KINDS = (
    "k8s-deployment", "k8s-statefulset", "k8s-job", "docker-compose", "shell", "leaderworkerset",
    "knative-service", "kthena", "llmaz", "ome", "rayservice", "aibrix", "kubeai-model",
    "kaito-workspace", "dynamo-dgd", "nimservice",
    "vllm-config-yaml", "sglang-config-yaml", "trtllm-config-yaml", "slurm", "skypilot", "systemd",
    "kserve-isvc", "kserve-servingruntime", "kserve-llmisvc",
    "production-stack-values", "llmd-modelservice-values", "helm-values", "helm-template",
)  # fmt: skip
EDITABLE = ("tp", "pp", "dp", "gpus_per_pod")


@cache
def corpus() -> tuple[str, ...]:
    """Real manifests of the kinds that these readers read; none without the shared folder."""
    index = SHARED / "corpus" / "index.yaml"
    if not index.is_file():
        return ()
    rows = YAML(typ="safe").load(index.read_text(encoding="utf-8"))["files"]
    return tuple(row["file"] for row in rows if row["kind"] in KINDS)


@cache
def text_of(name: str) -> str:
    return (SHARED / "corpus" / name).read_bytes().decode("utf-8")


@cache
def a_setup() -> Setup:
    return setup()


def project(text: str, name: str) -> Project:
    return Project.of_texts(a_setup(), {name: text})


def plans(text: str, name: str) -> tuple[ServingPlan, ...]:
    return project(text, name).plans


def plan(text: str, name: str) -> ServingPlan:
    (found,) = plans(text, name)
    return found


def routers(text: str, name: str) -> tuple[Router, ...]:
    return project(text, name).routers


def fact(of: ServingPlan, field: str) -> Known[Any]:
    """A fact by its short name, such as "tp" or "gpus_per_pod"."""
    return of.fact(FIELDS.get(field, field))


def stated(of: ServingPlan, field: str) -> Any:
    """The one value of a fact, None if it is not known."""
    return fact(of, field).only


def why(of: ServingPlan, field: str) -> str | None:
    """Why a fact is not known."""
    assert not fact(of, field).is_known
    return fact(of, field).reason


def at(text: str, origin: Origin | None) -> str:
    """The characters of the text at a place."""
    assert origin is not None
    return text[origin.span.start : origin.span.end]


def token(text: str, of: ServingPlan, field: str) -> str:
    """The characters that a fact was read from."""
    return at(text, fact(of, field).origin)


def edited(text: str, of: ServingPlan, field: str, value: str) -> str:
    """The text after a field was set."""
    edits = of.sites[field].set(value)
    assert not isinstance(edits, Refusal), edits.reason
    return apply(text, edits)


def refused(of: ServingPlan, field: str, value: str = "2") -> str:
    """Why a field cannot be set."""
    made = of.sites[field].set(value)
    assert isinstance(made, Refusal)
    return made.reason


def names(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.name for finding in findings]


def block(text: str, by: int) -> str:
    """A block of text without its own indentation, indented by some blanks."""
    return indent(dedent(text).strip("\n") + "\n", " " * by)

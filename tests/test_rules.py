"""Every built-in rule keeps what its page says, and knows no engine by name."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import shardlint_rules
from harness import check, plugins, setup
from shardlint.engines import builtin as engines
from shardlint.linter import lint
from shardlint.plugins import Plugins, Result, Rule, hookimpl
from shardlint.project import Project, Setup
from shardlint.readers import builtin as readers

FOLDER = Path(shardlint_rules.__file__).parent
MODULES = sorted(path for path in FOLDER.glob("*.py") if path.name != "__init__.py")
RULES = [r for r in plugins().rules() if r.__module__.startswith("shardlint_rules.")]

TABLE = """
101 tp-heads-indivisible 102 tp-kv-heads-indivisible 103 kv-replication 104 mla-kv-duplication
105 shard-dim-indivisible 106 quant-group-misaligned 107 quant-block-misaligned
108 experts-indivisible 109 ep-on-dense-model 110 dcp-invalid 111 ep-unbalanced
112 tp-default-shared
201 tp-cross-node 202 tp-slow-link 203 tp-oversharded 204 group-spread-unpinned 205 shm-missing
206 p2p-risk 207 net-iface-unset 208 rdma-not-exposed 209 blast-radius 210 multinode-start-order
301 gpu-count-short 302 gpu-count-surplus 303 gpu-count-unknown 304 gpu-shared
305 node-group-size-mismatch 306 replicas-exceed-capacity 307 ray-head-no-gpu
308 gpu-request-ignored 309 rollout-needs-spare-gpus 310 gpu-count-changed 311 gpu-limit-invalid
312 startup-budget-short
401 pp-unsupported 402 pp-layers-indivisible 403 pp-exceeds-layers 404 pp-latency 405 pp-starved
406 pp-uneven-stages
501 dp-local-mismatch 502 dp-mode-invalid 503 dp-coupled 504 routing-blind 505 routing-load-only
506 routing-prefix-only 507 routing-skew 508 routing-state-not-shared
509 routing-kv-events-missing 510 routing-prefix-caching-off 511 session-key-missing
512 whale-session 513 single-replica 514 autoscale-inert 515 autoscale-wrong-signal 516 pd-mismatch
517 slo-latency-unmet 518 fleet-undersized
601 weights-do-not-fit 602 no-kv-space 603 kv-too-small 604 memory-oversubscribed
605 graph-memory-risk 606 context-len-exceeds-model 607 dtype-unsupported-gpu
701 flag-unknown 702 flag-conflict 703 flag-deprecated 704 flag-misplaced 705 flag-redundant
706 flag-abbreviated 707 config-ignored 708 value-conflict 709 engine-eol
710 model-revision-unpinned
901 parse-error 902 unused-suppression 903 model-unresolved 904 plugin-failed
"""
NAMES = {f"SL{number}": name for number, name in re.findall(r"(\d{3}) ([a-z0-9-]+)", TABLE)}

BLOCK = re.compile(
    r"^```(\w+) (fails|passes)((?: --[^\n]+)?)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
TOLD = re.compile(r"^```toml told\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""What the user's configuration says while the examples of a page are linted."""
BEFORE = re.compile(r"^```yaml before\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""What the file was at the revision that the examples of a page are compared with."""
FILES = {"sh": "script.sh", "yaml": "manifest.yaml", "nginx": "nginx.conf"}


class Example(NamedTuple):
    rule: type[Rule]
    language: str
    verdict: str
    options: str
    text: str

    @property
    def told(self) -> dict[str, Any]:
        """What the options in the head of the block tell of the machines."""
        said = dict(zip(self.options.split()[::2], self.options.split()[1::2], strict=True))
        gpu, _, per_node = said.get("--gpu", "").partition(":")
        told = {"gpu": gpu, "gpus_per_node": per_node and int(per_node)}
        told |= {"nodes": int(said.get("--nodes", 0)), "network": said.get("--network")}
        return {name: value for name, value in told.items() if value}

    def lines(self) -> set[int]:
        """The lines whose comment ends with the name of the rule."""
        end = re.compile(rf"# {re.escape(self.rule.name)}$")
        return {number for number, line in enumerate(self.text.split("\n"), 1) if end.search(line)}

    def findings(self) -> list[Any]:
        told: dict[str, Any] = dict(self.told)
        told |= {} if self.rule.enabled else {"select": (self.rule.name,)}
        config = tomllib.loads("".join(TOLD.findall(self.rule.page())))
        told["models"] = config.get("models")
        told |= {"workload": config["workload"]} if "workload" in config else {}
        if before := BEFORE.findall(self.rule.page()):
            name = FILES[self.language]
            old, new = (Project.of_texts(setup(), {name: text}) for text in (*before, self.text))
            result = lint(replace(new, before=old)).result
        else:
            result = check(self.text, FILES[self.language], **told)
        return [finding for finding in result.findings if finding.name == self.rule.name]


def examples(verdict: str, *languages: str) -> list[Any]:
    found = [
        (Example(rule, *block), f"{rule.name}-{number}")
        for rule in RULES
        for number, block in enumerate(BLOCK.findall(rule.page()))
    ]
    return [
        pytest.param(example, id=name)
        for example, name in found
        if example.verdict == verdict and example.language in languages
    ]


def code(path: Path) -> ast.Module:
    """A module without its docstring."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    assert isinstance(module.body[0], ast.Expr)
    module.body = module.body[1:]
    return module


# ---------------------------------------------------------------------------------- id and name


def test_ids_and_names_are_those_that_users_write() -> None:
    assert {rule.id: NAMES[rule.id] for rule in RULES} == {rule.id: rule.name for rule in RULES}
    assert len({rule.id for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)


def test_every_module_holds_one_rule_of_its_name() -> None:
    stems = [rule.__module__.rpartition(".")[2] for rule in RULES]
    assert [path.stem for path in MODULES] == sorted(stems)
    assert stems == [rule.name.replace("-", "_") for rule in RULES]


def test_names_in_the_table_are_unique() -> None:
    assert len(NAMES) == len(set(NAMES.values())) == 79


# --------------------------------------------------------------------------------------- pages


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_page_has_summary_reason_examples_and_fix(rule: type[Rule]) -> None:
    page = rule.page()
    paragraphs = BLOCK.sub("```", page).strip().split("\n\n")
    summary, reason = paragraphs[:2]
    assert summary.endswith(".")
    assert summary.count(". ") == 0
    assert not reason.startswith(("```", "Fix:"))
    assert len(reason) > len(summary)
    assert [text for text in paragraphs if text.startswith("Fix: ")]
    assert {"fails", "passes"} == {verdict for _, verdict, _, _ in BLOCK.findall(page)}
    blocks = [*BLOCK.findall(page), *TOLD.findall(page), *BEFORE.findall(page)]
    assert page.count("```") == 2 * len(blocks)


@pytest.mark.parametrize("example", examples("fails", "sh", "yaml"))
def test_failing_example_is_reported_on_the_lines_that_say_so(example: Example) -> None:
    assert example.lines()
    assert example.lines() == {finding.start.line for finding in example.findings()}


@pytest.mark.parametrize("example", examples("passes", "sh", "yaml"))
def test_passing_example_is_not_reported(example: Example) -> None:
    assert example.lines() == set()
    assert example.findings() == []


@pytest.mark.parametrize("example", examples("passes", "sh", "yaml"))
def test_passing_example_shows_no_other_error(example: Example) -> None:
    result = check(example.text, FILES[example.language], **example.told)
    assert [] == [f.message for f in result.findings if f.severity == "error"]


FAILING = {("fails", "sh"), ("fails", "yaml")}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_fix_is_offered_as_the_rule_declares(rule: type[Rule]) -> None:
    """By one of its examples at least, and by none of them otherwise."""
    pages = [Example(rule, *block) for block in BLOCK.findall(rule.page())]
    shown = [each for each in pages if (each.verdict, each.language) in FAILING]
    found = [finding for example in shown for finding in example.findings()]
    offered = {fix.applicability for finding in found for fix in finding.fixes}
    assert offered == ({rule.fix} if rule.fix and shown else set())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_page_is_at_its_address(rule: type[Rule]) -> None:
    assert rule.url().endswith(f"/docs/rules/{rule.name}.md")
    assert rule.summary() == rule.page().split("\n\n")[0].replace("\n", " ").strip()


def _with_plugin(example: Example) -> Result:
    """The result of a run with the rule of a Python example among the others."""
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(example.text, namespace)
    found = [v for v in namespace.values() if isinstance(v, type) and v.__module__ == "example"]

    class Example:
        @hookimpl
        def shardlint_rules(self) -> list[type[Rule]]:
            return found

    made = Setup(Plugins([engines, readers, Example()]))
    return lint(Project.of_texts(made, {"s.sh": "vllm serve Qwen/Qwen3-8B\n"})).result


@pytest.fixture
def _example_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule asks its module for its page."""
    monkeypatch.setitem(sys.modules, "example", type(sys)("example"))


@pytest.mark.parametrize("example", examples("fails", "python"))
@pytest.mark.usefixtures("_example_module")
def test_failing_plugin_is_reported(example: Example) -> None:
    (finding,) = _with_plugin(example).findings
    assert ("SL904", "rule broken: ValueError: no") == (finding.rule, finding.message[-27:])


@pytest.mark.parametrize("example", examples("passes", "python"))
@pytest.mark.usefixtures("_example_module")
def test_working_plugin_is_not_reported(example: Example) -> None:
    (finding,) = _with_plugin(example).findings
    assert ("XX001", "works", "one more plan") == (finding.rule, finding.name, finding.message)


# ---------------------------------------------------------------------------------------- code


def test_no_rule_names_an_engine() -> None:
    spoken = {word.lower() for e in setup().engines for word in (e.name, e.label, *e.aliases)}
    names = re.compile(rf"(?<![a-z])({'|'.join(map(re.escape, sorted(spoken)))})(?![a-z])")
    found = [
        f"{path.name}:{node.lineno}: {text}"
        for path in MODULES
        for node in ast.walk(code(path))
        for text in _words(node)
        if names.search(text.lower().replace("_", " "))
    ]
    assert [] == found
    assert names.search("a vllm flag")
    assert not names.search("minimum")


def _words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for field in ("id", "attr", "name", "arg"):
        if isinstance(value := getattr(node, field, None), str):
            yield value


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_rule_imports_the_public_api_alone(path: Path) -> None:
    modules = [
        name
        for node in ast.walk(code(path))
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom)
            else [item.name for item in node.names] if isinstance(node, ast.Import)
            else []
        )
    ]  # fmt: skip
    ours = {name for name in modules if name.split(".")[0].startswith("shardlint")}
    assert {name for name in ours if not name.startswith("shardlint_rules.")} == {"shardlint.api"}
    assert {name.split(".")[0] for name in modules} - ours <= {
        "__future__", "collections", "dataclasses", "typing", "shardlint", "shardlint_rules",
    }  # fmt: skip

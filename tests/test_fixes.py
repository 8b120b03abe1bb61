"""Fixes: valid, with exact numbers, applied whole, read and linted again, or taken back."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import SHARED
from harness import check, project, setup
from shardlint import fixes
from shardlint.engines import builtin as engines
from shardlint.fixes import Outcome, apply_fixes, diff, replace_file, with_fixes, write
from shardlint.known import Known
from shardlint.linter import lint
from shardlint.plan import (
    Fleet,
    KvGroup,
    LayoutFacts,
    Memory,
    ModelFacts,
    Placement,
    Refusal,
    Releases,
    ServingPlan,
    Site,
)
from shardlint.plugins import (
    Finding,
    Fix,
    Found,
    Plugins,
    ReadContext,
    Reader,
    ReadResult,
    Rule,
    World,
    hookimpl,
)
from shardlint.project import Project, Setup
from shardlint.source import Edit, Origin, Source, Span, apply

IMAGE = "vllm/vllm-openai:v0.33.0"
QWEN = f"docker run --ipc=host --gpus 8 {IMAGE} Qwen/Qwen2.5-7B-Instruct"

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  template:
    spec:
      hostIPC: true
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args:
        - Qwen/Qwen2.5-7B-Instruct
        - --tensor-parallel-size
        - "8"
        resources:
          limits: {nvidia.com/gpu: 8}
"""


def fixed(text: str, name: str, fix: Fix) -> str:
    assert {edit.file for edit in fix.edits} == {name}
    return apply(text, fix.edits)


def offered(text: str, rule: str, name: str = "script.sh", **told: Any) -> list[Fix]:
    """The fixes of the only finding of a rule."""
    (finding,) = [f for f in check(text, name, **told).findings if f.name == rule]
    return list(finding.fixes)


def applied(text: str, name: str = "script.sh", *, unsafe: bool = True, **told: Any) -> str:
    """The text after all fixes."""
    return apply_fixes(project(text, name, **told), unsafe).project.sources[name].text


# ------------------------------------------------------------------------- the worked example


def test_first_fix_keeps_every_gpu_busy_and_the_second_takes_fewer() -> None:
    first, second = offered(f"{QWEN} -tp 8\n", "tp-heads-indivisible")
    assert "TP 8 → TP 4 × DP 2 on the same 8 GPUs" == first.title
    assert {"tp": 4, "dp": 2} == first.delta
    assert "TP 8 → TP 4 on 4 GPUs instead of 8" == second.title
    assert {"tp": 4, "gpus_per_pod": 4} == second.delta
    assert "unsafe" == first.applicability == second.applicability


def test_both_fixes_write_what_they_say() -> None:
    text = f"{QWEN} -tp 8\n"
    first, second = offered(text, "tp-heads-indivisible")
    assert f"{QWEN} -tp 4 -dp 2\n" == fixed(text, "script.sh", first)
    assert f"{QWEN} -tp 4\n".replace("--gpus 8", "--gpus 4") == fixed(text, "script.sh", second)


def test_fix_is_written_in_the_style_of_a_list() -> None:
    first, second = offered(DEPLOYMENT, "tp-heads-indivisible", "d.yaml")
    more = '        - "4"\n        - --data-parallel-size\n        - "2"\n'
    assert DEPLOYMENT.replace('        - "8"\n', more) == fixed(DEPLOYMENT, "d.yaml", first)
    fewer = DEPLOYMENT.replace('"8"', '"4"').replace("gpu: 8", "gpu: 4")
    assert fewer == fixed(DEPLOYMENT, "d.yaml", second)


def test_each_fix_leaves_no_error_behind() -> None:
    text = f"{QWEN} -tp 8\n"
    for fix in offered(text, "tp-heads-indivisible"):
        after = check(fixed(text, "script.sh", fix))
        assert [] == [f.message for f in after.findings if f.severity != "info"]


@pytest.mark.parametrize("tp", [7, 8, 14, 16, 28, 32])
def test_seven_is_never_offered(tp: int) -> None:
    """It divides 28 heads and neither the 4 KV heads nor the vocabulary."""
    result = check(f"{QWEN} -tp {tp}\n")
    sizes = {fix.delta.get("tp") for f in result.findings for fix in f.fixes}
    assert sizes
    assert not sizes & {7, 14, 28}
    helps = [f.help or "" for f in result.findings if f.rule.startswith("SL1")]
    assert any(helps)
    assert not any({"7", "14", "28"} & set(re.findall(r"\d+", text)) for text in helps)


def test_kv_bytes_of_the_worked_example_are_exact() -> None:
    """28 layers, one KV head of 128 on each rank, K and V, two bytes: at TP 8 a copy."""
    for fix in offered(f"{QWEN} -tp 8\n", "tp-heads-indivisible"):
        assert {"kv_bytes_per_token_per_gpu": {"before": 14_336, "after": 14_336}} == fix.estimate


@pytest.mark.parametrize(
    ("options", "estimate"),
    [
        ("", {"before": 14_336, "after": 14_336}),
        (" --kv-cache-dtype fp8", {"before": 7_168, "after": 7_168}),
        (" --kv-cache-dtype nvfp4", None),
    ],
)
def test_kv_bytes_are_given_only_where_they_are_certain(
    options: str, estimate: Mapping[str, int] | None
) -> None:
    first = offered(f"{QWEN} -tp 8{options}\n", "tp-heads-indivisible")[0]
    assert estimate == first.estimate.get("kv_bytes_per_token_per_gpu")


@pytest.mark.parametrize(
    ("options", "titles"),
    [
        ("-tp 8 -pp 2", ["TP 8 × PP 2 → TP 4 × PP 2 on the same 8 GPUs"]),
        ("-tp 8 -ep", []),
        ("-tp 16 -dp 2", ["TP 16 × DP 2 → TP 4 × DP 2 on the same 8 GPUs"]),
        ("-tp 8 -dp 2 -dpl 1", ["TP 8 × DP 2 → TP 4 × DP 2 on 4 GPUs instead of 8"]),
        ("-tp 8 --distributed-executor-backend ray", []),
        ("-tp 8 --config more.yaml", []),
        ('-tp 8 "$@"', []),
    ],
)  # fmt: skip
def test_fix_rests_on_the_whole_layout(options: str, titles: list[str]) -> None:
    found = offered(f"{QWEN} {options}\n", "tp-heads-indivisible")
    assert titles == [fix.title for fix in found]


def test_gpus_of_a_host_are_not_written() -> None:
    text = "vllm serve Qwen/Qwen2.5-7B-Instruct -tp 8\n"
    told = {"gpu": "H100", "gpus_per_node": 8}
    titles = [fix.title for fix in offered(text, "tp-heads-indivisible", **told)]
    assert ["TP 8 → TP 4 × DP 2 on the same 8 GPUs", "TP 8 → TP 4 on 4 of 8 GPUs"] == titles
    assert titles == [fix.title for fix in offered(text, "tp-heads-indivisible")]


def test_fix_on_a_host_takes_no_gpu_that_others_may_use() -> None:
    text = "vllm serve Qwen/Qwen2.5-3B-Instruct -tp 3\n"
    told = {"gpu": "H100", "gpus_per_node": 8}
    titles = [fix.title for fix in offered(text, "tp-heads-indivisible", **told)]
    assert ["TP 3 → DP 3 on the same 3 GPUs", "TP 3 → TP 2 on 2 of 3 GPUs"] == titles


def test_huge_size_is_answered_at_once() -> None:
    found = offered(f"{QWEN} -tp 1000000000000\n", "tp-heads-indivisible")
    assert "TP 1000000000000 → TP 4 × DP 2 on the same 8 GPUs" == found[0].title


# ------------------------------------------------------------------------------- gpu-count-short


def compose(count: int, options: str) -> str:
    return (
        f"services:\n  llm:\n    image: {IMAGE}\n    command: --model Qwen/Qwen3-8B {options}\n"
        "    deploy:\n      resources:\n        reservations:\n          devices:\n"
        f"          - driver: nvidia\n            count: {count}\n"
        "            capabilities: [gpu]\n"
    )


@pytest.mark.parametrize(
    ("count", "options", "told", "deltas"),
    [
        (4, "-tp 2 -dp 4", {}, [{"dp": 2}, {"gpus_per_pod": 8}]),
        (4, "-tp 8", {}, [{"gpus_per_pod": 8}]),
        (3, "-tp 2 -dp 4", {}, [{"dp": 1}, {"gpus_per_pod": 8}]),
        (4, "-tp 2 -dp 8", {}, [{"dp": 2}]),
        (4, "-tp 2 -dp 8", {"gpus_per_node": 16}, [{"dp": 2}, {"gpus_per_pod": 16}]),
        (4, "-tp 2 -dp 4", {"gpus_per_node": 4}, [{"dp": 2}]),
        (4, "-tp 8", {"gpus_per_node": 4}, [{"tp": 4}]),
        (1, "-tp 2 -dp 4 -dpl 2", {}, [{"gpus_per_pod": 4}]),
    ],
)
def test_missing_gpus_are_saved_or_asked_for(
    count: int, options: str, told: dict[str, int], deltas: list[dict[str, int]]
) -> None:
    text = compose(count, options)
    found = offered(text, "gpu-count-short", "compose.yaml", **told)
    assert deltas == [fix.delta for fix in found]
    for fix in found:
        after = check(fixed(text, "compose.yaml", fix), "compose.yaml", **told)
        assert [] == [f.message for f in after.findings if f.severity == "error"]


def test_title_of_a_count_says_both_numbers() -> None:
    titles = [f.title for f in offered(compose(4, "-tp 2 -dp 4"), "gpu-count-short", "c.yaml")]
    assert [
        "TP 2 × DP 4 → TP 2 × DP 2 on the same 4 GPUs",
        "4 → 8 GPUs for the same layout",
    ] == titles


def test_host_that_is_too_small_gets_no_more_gpus() -> None:
    text = "vllm serve Qwen/Qwen3-8B -tp 8\n"
    found = offered(text, "gpu-count-short", gpu="H100", gpus_per_node=4)
    assert [{"tp": 4}] == [fix.delta for fix in found]


def test_missing_gpus_are_not_asked_for_where_the_heads_do_not_divide() -> None:
    """Both findings have one way out: more GPUs would not help."""
    text = f"docker run --ipc=host --gpus 4 {IMAGE} Qwen/Qwen2.5-7B-Instruct -tp 8\n"
    assert [{"tp": 4}] == [fix.delta for fix in offered(text, "gpu-count-short")]
    assert text.replace("-tp 8", "-tp 4") == applied(text)


# ---------------------------------------------------------------------------------- spelling


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("--tensor-paralell-size 2", "--tensor-parallel-size 2"),
        ("--tensor_paralell_size=2", "--tensor-parallel-size=2"),
        ("--tp 2", "-tp 2"),
        ("--tp=2", "-tp=2"),
        ("-tp2", "-tp=2"),
        ("--gpu-memory-utilisation 0.9", "--gpu-memory-utilization 0.9"),
        ("--enforce-eagr", "--enforce-eager"),
        ("--max-model-length 4096", "--max-model-len 4096"),
    ],
)
def test_one_likely_spelling_is_a_safe_fix(wrong: str, right: str) -> None:
    head = f"docker run --ipc=host --gpus all {IMAGE} Qwen/Qwen3-8B"
    (fix,) = offered(f"{head} {wrong}\n", "flag-unknown")
    assert "safe" == fix.applicability
    assert f"{head} {right}\n" == applied(f"{head} {wrong}\n", unsafe=False)


@pytest.mark.parametrize("wrong", ["--enable-metrics", "--max-batched-tokens 8192"])
def test_another_word_may_be_another_thing(wrong: str) -> None:
    head = f"docker run --ipc=host --gpus all {IMAGE} Qwen/Qwen3-8B"
    found = offered(f"{head} {wrong}\n", "flag-unknown")
    assert {"unsafe"} == {fix.applicability for fix in found}


@pytest.mark.parametrize("wrong", ["--no-such-option 2", "--device cuda"])
def test_no_spelling_is_guessed_among_several_or_none(wrong: str) -> None:
    assert [] == offered(f"docker run --ipc=host --gpus all {IMAGE} m {wrong}\n", "flag-unknown")


def test_of_many_options_the_size_was_probably_meant_but_that_is_not_safe() -> None:
    text = f"docker run --gpus all {IMAGE} m --data-parallel 2\n"
    (fix,) = offered(text, "flag-unknown")
    assert ("unsafe", {"replace_flag": ["--data-parallel", "--data-parallel-size"]}) == (
        fix.applicability, fix.delta,
    )  # fmt: skip
    assert text.replace("parallel 2", "parallel-size 2") == applied(text)


def test_option_that_was_renamed_is_written_anew() -> None:
    head = f"docker run --gpus all {IMAGE} m"
    text = f"{head} --cuda-graph-sizes 8 16 --worker-use-ray --disable-mm-preprocessor-cache\n"
    assert applied(text, unsafe=False) == (
        f"{head} --cudagraph-capture-sizes 8 16 --distributed-executor-backend ray"
        " --mm-processor-cache-gb 0\n"
    )


GONE = ("--swap-space 4", "--swap-space=4", "--enable-reasoning", "--num-scheduler-steps '8'")


@pytest.mark.parametrize("wrong", GONE)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("vllm serve m {} --port 1\n", "vllm serve m --port 1\n"),
        ("vllm serve m {}\n", "vllm serve m\n"),
        ("vllm serve m \\\n  {} \\\n  --port 1 # p\n", "vllm serve m \\\n  --port 1 # p\n"),
        ("vllm serve m \\\n  --port 1 \\\n  {}\n", "vllm serve m \\\n  --port 1\n"),
        ("vllm serve m  {}   | tee x\n", "vllm serve m   | tee x\n"),
        ("bash -c 'vllm serve m --port 1 {}'\n".replace("'", '"'),
         'bash -c "vllm serve m --port 1"\n'),
    ],
)  # fmt: skip
def test_option_that_is_gone_is_removed_from_a_script(wrong: str, before: str, after: str) -> None:
    text = before.format(wrong)
    told = {"vllm": "0.33.0"}
    assert text == apply_fixes(project(text, engine_version=told), False).project.sources[
        "script.sh"
    ].text  # fmt: skip
    outcome = apply_fixes(project(text, engine_version=told), True)
    assert after == outcome.project.sources["script.sh"].text


COMPOSE = """services:
  llm:
    image: vllm/vllm-openai:v0.33.0
    command: {}
    restart: always
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("m --swap-space 4 --port 1", "m --port 1"),
        ('["m", "--swap-space", "4", "--port", "1"]', '["m", "--port", "1"]'),
        ('["o/m", "--swap-space", "4"]', '["o/m"]'),
        ('["--swap-space", "4", "o/m"]', '["o/m"]'),
        ('["o/m", "--swap-space=4"]', '["o/m"]'),
        ("\n    - m\n    - --swap-space\n    - '4' # GiB\n    - --port=1",
         "\n    - m\n    - --port=1"),
        ("\n    - m\n    - --swap-space=4\n    # last\n    - --port=1",
         "\n    - m\n    # last\n    - --port=1"),
        (">-\n      m\n      --swap-space 4\n      --port 1", ">-\n      m\n      --port 1"),
    ],
)  # fmt: skip
def test_option_that_is_gone_is_removed_from_a_manifest(before: str, after: str) -> None:
    outcome = apply_fixes(project(COMPOSE.format(before), "compose.yaml"), True)
    assert COMPOSE.format(after) == outcome.project.sources["compose.yaml"].text


def test_option_that_a_variable_holds_is_not_removed() -> None:
    text = f"O='--swap-space 4'\ndocker run {IMAGE} m $O\n"
    assert [] == offered(text, "flag-unknown")
    assert "flag-unknown" in {finding.name for finding in check(text).findings}


@pytest.mark.parametrize(
    ("written", "safe"),
    [("min-num-seqs", False), ("max-num-seps", True), ("mxa-num-seqs", True)],
)
def test_another_short_word_is_no_slip_of_the_hand(written: str, safe: bool) -> None:
    result = with_fixes(lint(project(f"{QWEN} -tp 4 --{written} 8\n", name="a.sh")))
    fixes_of = [found.fixes for found in result.findings if found.name == "flag-unknown"]
    ((fix,),) = fixes_of
    assert {"replace_flag": [f"--{written}", "--max-num-seqs"]} == fix.delta
    assert ("safe" if safe else "unsafe") == fix.applicability


def test_spelling_is_unsafe_where_the_release_is_not_known() -> None:
    text = (
        "docker run --ipc=host --gpus all vllm/vllm-openai Qwen/Qwen3-8B --tensor-paralell-size 2\n"
    )
    assert ["unsafe"] == [fix.applicability for fix in offered(text, "flag-unknown")]
    assert text == applied(text, unsafe=False)


def test_spelling_that_would_override_what_is_stated_is_taken_back() -> None:
    text = (
        f"docker run --ipc=host --gpus all {IMAGE} Qwen/Qwen3-8B -tp 4 --tensor-paralell-size 2\n"
    )
    outcome = apply_fixes(project(text), True)
    assert ((), frozenset()) == (outcome.applied, outcome.changed)
    assert ["it would also change tp of script.sh"] == reasons(outcome)


# ------------------------------------------------------------------------------ safe and unsafe


def test_layout_is_not_changed_by_safe_fixes() -> None:
    text = f"{QWEN} -tp 8 --enforce-eagr\n"
    assert text.replace("eagr", "eager") == applied(text, unsafe=False)
    assert f"{QWEN} -tp 4 -dp 2 --enforce-eager\n" == applied(text)


def test_fixes_converge() -> None:
    text = f"{QWEN} -tp 8\n{QWEN.replace('8', '4', 1)} -tp 8 --enforce-eagr\n" * 2
    once = applied(text)
    assert once != text
    assert once == applied(once)
    assert [] == [f.message for f in check(once).findings if f.fixes]


def test_more_files_than_rounds_of_old_are_fixed() -> None:
    texts = {f"{number}.sh": f"{QWEN} -tp 8\n" for number in range(25)}
    outcome = apply_fixes(Project.of_texts(setup(), texts), True)
    assert 25 == len(outcome.applied)
    assert frozenset(texts) == outcome.changed


# ------------------------------------------------------------------- a format of these tests


class Edits:
    """A site that writes a value into several spans, or refuses."""

    def __init__(self, spans: Iterable[Span], refusal: str | None = None) -> None:
        self.spans, self.refusal = list(spans), refusal

    def set(self, value: str) -> list[Edit] | Refusal:
        if self.refusal is not None:
            return Refusal(self.refusal)
        return [Edit("toy", span, value) for span in self.spans]


class Toy:
    """Lines such as `tp 8 dp 1 gpus 8 max 4096`; `also`: what the site of a field writes too."""

    name = "toy"
    fields: Mapping[str, str] = {"tp": "tp", "dp": "dp", "gpus": "gpus_per_pod"}

    def __init__(
        self,
        also: Mapping[str, str] | None = None,
        refused: str = "",
        rules: Iterable[type[Rule]] = (),
    ) -> None:
        self.also, self.refused, self.rules = also or {}, refused, rules

    @hookimpl
    def shardlint_rules(self) -> Iterable[type[Rule]]:
        return self.rules

    @hookimpl
    def shardlint_readers(self) -> Iterable[Reader]:
        return (self,)

    def accepts(self, source: Source) -> bool:
        return True

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        if "broken" in source.text:
            raise ValueError("broken")
        lines = [self.words(source, number) for number in range(1, source.line_count)]
        return ReadResult(plans=tuple(self.plan(lines, number) for number in range(len(lines))))

    def words(self, source: Source, line: int) -> dict[str, tuple[str, Span]]:
        start = source.line_span(line).start
        found = re.finditer(r"(\w+) (\d+)", source.line_text(line))
        return {
            match[1]: (match[2], Span(start + match.start(2), start + match.end(2)))
            for match in found
        }

    def plan(self, lines: list[dict[str, tuple[str, Span]]], number: int) -> ServingPlan:
        def known(name: str) -> Known[Any]:
            if name not in lines[number]:
                return Known.unset()
            text, span = lines[number][name]
            return Known.of(int(text), Origin("toy", span))

        layout = LayoutFacts(tp=known("tp"), dp=known("dp"))
        return ServingPlan(
            id=f"toy#{number}", name=f"line {number + 1}", kind="toy", file="toy",
            path=str(number), origin=Origin("toy", Span(0, 1)), engine="vllm",
            versions=Known.of(Releases("0.33.0", "0.33.0")), model=Known.of("m"), layout=layout,
            effective=engines.VLLM().effective(layout), memory=Memory(max_model_len=known("max")),
            placement=Placement(gpus_per_pod=known("gpus")), fleet=Fleet(replicas=known("copies")),
            sites=dict(self.sites(lines, number)),
        )  # fmt: skip

    def sites(
        self, lines: list[dict[str, tuple[str, Span]]], number: int
    ) -> Iterator[tuple[str, Site]]:
        for word, field in self.fields.items():
            names = [word, self.also.get(word, word)]
            spans = {lines[number][name][1] for name in names if name in lines[number]}
            if self.also.get(word) == "every line":
                spans = {line[word][1] for line in lines}
            yield field, Edits(spans, "not here" if word == self.refused else None)


MODEL = ModelFacts(id="m", attention_heads=28, kv_heads=8, torch_dtype="bfloat16", quantization={},
                   kv_groups=(KvGroup(2, 8, 256), KvGroup(3, 4, 256, window=128)))  # fmt: skip
LINE = "tp 8 dp 1 gpus 8 max 4096 copies 2\n"


@pytest.fixture(autouse=True)
def _model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model `m` of toy plans has 28 heads, 8 KV heads, layers with and without a window."""
    from shardlint.models.catalogue import Catalogue

    found = Catalogue.lookup
    monkeypatch.setattr(
        Catalogue, "lookup", lambda self, name: MODEL if name == "m" else found(self, name)
    )


def toy(text: str, **how: Any) -> Project:
    made = Setup(Plugins([engines, Toy(**how)]))
    return Project.of_texts(made, {"toy": text})


def reasons(outcome: Outcome) -> list[str]:
    return [why.split(": ", 1)[1] for _, why in outcome.refused]


def heads(made: Project) -> Finding:
    result = with_fixes(lint(made))
    (finding,) = [f for f in result.findings if f.name == "tp-heads-indivisible"]
    return finding


def test_fix_through_sites_is_applied() -> None:
    outcome = apply_fixes(toy(LINE), True)
    assert "tp 4 dp 2 gpus 8 max 4096 copies 2\n" == outcome.project.sources["toy"].text
    assert [("tp-heads-indivisible", "TP 8 → TP 4 × DP 2 on the same 8 GPUs")] == [
        (finding.name, fix.title) for finding, fix in outcome.applied
    ]
    assert ((), frozenset({"toy"})) == (outcome.refused, outcome.changed)
    assert [] == [f for f in outcome.result.findings if f.severity == "error"]


def test_kv_bytes_count_the_layers_without_a_window() -> None:
    """2 layers × 256 bytes per head: 1 head per rank at TP 8, 2 heads at TP 4."""
    wanted = {"kv_bytes_per_token_per_gpu": {"before": 512, "after": 1024}}
    assert [wanted, wanted] == [fix.estimate for fix in heads(toy(LINE)).fixes]


def test_no_fix_is_offered_when_a_site_refuses() -> None:
    assert [{"tp": 4, "gpus_per_pod": 4}] == [f.delta for f in heads(toy(LINE, refused="dp")).fixes]
    fewer = [f.delta for f in heads(toy(LINE, refused="gpus")).fixes]
    assert [{"tp": 4, "dp": 2}, {"tp": 4}] == fewer
    assert () == heads(toy(LINE, refused="tp")).fixes


def test_fix_that_leads_to_another_error_is_taken_back() -> None:
    class NotFour(Rule):
        id, name, severity, needs = "XX1", "not-four", "error", ("layout.tp",)

        def check(self, world: World) -> Iterator[Found]:
            if world.layout.tp == 4:
                yield Found(message="four", at=world.origin("layout.tp"))

    outcome = apply_fixes(toy(LINE, rules=[NotFour]), True)
    assert LINE == outcome.project.sources["toy"].text
    assert ["it leads to another error"] * 2 == reasons(outcome)
    assert ["tp-heads-indivisible"] == [
        f.name for f in outcome.result.findings if f.severity == "error"
    ]


@pytest.mark.parametrize(
    ("also", "fact"),
    [({"tp": "max"}, "max_model_len"), ({"tp": "copies"}, "replicas"), ({"dp": "max"}, None)],
)
def test_fix_that_changes_another_fact_is_taken_back(
    also: dict[str, str], fact: str | None
) -> None:
    outcome = apply_fixes(toy(LINE, also=also), True)
    if fact is None:  # the second fix does not touch it
        assert ["it would also change max_model_len of line 1"] == reasons(outcome)
        assert "tp 4 dp 1 gpus 4 max 4096 copies 2\n" == outcome.project.sources["toy"].text
    else:
        assert [f"it would also change {fact} of line 1"] * 2 == reasons(outcome)
        assert LINE == outcome.project.sources["toy"].text


def test_fix_of_a_value_that_two_plans_share_is_taken_back() -> None:
    text = LINE + LINE.replace("tp 8", "tp 2").replace("gpus 8", "gpus 2")
    outcome = apply_fixes(toy(text, also={"tp": "every line"}), True)
    assert text == outcome.project.sources["toy"].text
    assert ["it would also change tp of line 2"] * 2 == reasons(outcome)
    assert "tp 4" in apply_fixes(toy(text), True).project.sources["toy"].text


def test_fix_whose_edits_meet_is_taken_back() -> None:
    class Meets(Toy):
        def sites(self, lines: Any, number: int) -> Iterator[tuple[str, Site]]:
            for field, site in super().sites(lines, number):
                yield field, Edits([Span(3, 4)]) if field != "tp" else site

    made = Setup(Plugins([engines, Meets()]))
    outcome = apply_fixes(Project.of_texts(made, {"toy": LINE}), True)
    assert ["two edits meet at offset 3"] * 2 == [
        why.rpartition(": ")[2] for why in reasons(outcome)
    ]


def test_fix_after_which_the_file_cannot_be_read_is_taken_back() -> None:
    class Breaks(Toy):
        def sites(self, lines: Any, number: int) -> Iterator[tuple[str, Site]]:
            for field, site in super().sites(lines, number):
                yield field, Breaking(site)

    class Breaking:
        def __init__(self, site: Site) -> None:
            self.site = site

        def set(self, value: str) -> list[Edit] | Refusal:
            return self.site.set(f"{value} broken")

    made = Setup(Plugins([engines, Breaks()]))
    outcome = apply_fixes(Project.of_texts(made, {"toy": LINE}), True)
    assert ["the file cannot be read afterwards"] * 2 == reasons(outcome)
    assert LINE == outcome.project.sources["toy"].text


def test_fix_that_writes_something_else_is_taken_back() -> None:
    class Wrong(Toy):
        def sites(self, lines: Any, number: int) -> Iterator[tuple[str, Site]]:
            for field, site in super().sites(lines, number):
                yield field, Two(site) if field == "tp" else site

    class Two:
        def __init__(self, site: Site) -> None:
            self.site = site

        def set(self, value: str) -> list[Edit] | Refusal:
            return self.site.set("2")

    made = Setup(Plugins([engines, Wrong()]))
    outcome = apply_fixes(Project.of_texts(made, {"toy": LINE}), True)
    assert ["it would also change tp of line 1"] * 2 == reasons(outcome)


def test_fix_that_loses_a_value_of_another_option_is_taken_back() -> None:
    """Two names, of which an insertion between them makes a model."""
    before = project(f"{QWEN} -tp 8 --served-model-name a b\n")
    after = project(f"{QWEN} -tp 4 --served-model-name a -dp 2 b\n")
    finding = next(f for f in with_fixes(lint(before)).findings if f.fixes)
    by_plan = dict.fromkeys(finding.plans, finding.fixes[0])
    change = fixes._other_change(before, after, finding.file, by_plan)
    assert "it would also change the options of script.sh" == change
    right = project(f"{QWEN} -tp 4 -dp 2 --served-model-name a b\n")
    assert fixes._other_change(before, right, finding.file, by_plan) is None


def test_fixes_of_many_plans_are_made_together(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"{QWEN} -tp 8 --port {8000 + at} &\n" for at in range(12))
    runs = []
    real = fixes.lint
    monkeypatch.setattr(fixes, "lint", lambda project: runs.append(1) or real(project))
    outcome = apply_fixes(project(text), unsafe=True)
    assert 12 == len(outcome.applied)
    assert 12 == outcome.project.sources["script.sh"].text.count("-tp 4")
    assert len(runs) < 6


def test_one_fix_that_does_not_hold_keeps_no_other_back() -> None:
    text = f"{QWEN} -tp 8 --port 8000 &\n{QWEN} -tp ${{N:-8}} --port 8001 &\n"
    outcome = apply_fixes(project(text), unsafe=True)
    assert "-tp 4 -dp 2 --port 8000" in outcome.project.sources["script.sh"].text


# -------------------------------------------------------------------------------------- writing


def discovered(folder: Path, name: str, data: bytes) -> Project:
    (folder / name).write_bytes(data)
    return Project.discover(setup(), [name], folder)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_bytes_outside_the_edits_stay(mark: bytes, end: bytes, tmp_path: Path) -> None:
    body = (
        DEPLOYMENT.replace("{name: llm}", "{name: größe 🦙}").encode().replace(b"\n", end or b"\n")
    )
    body = body if end else body.rstrip(b"\n")
    made = apply_fixes(discovered(tmp_path, "d.yaml", mark + body), True)
    assert ["d.yaml"] == write(made.project, made.changed)
    line = end or b"\n"
    more = b'- "4"' + line + b"        - --data-parallel-size" + line + b'        - "2"'
    assert mark + body.replace(b'- "8"', more) == (tmp_path / "d.yaml").read_bytes()


def test_fix_of_a_script_keeps_its_mark_and_line_ends(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + f"{QWEN} \\\r\n  -tp 8 \\\r\n  --port 80\r\n".encode()
    made = apply_fixes(discovered(tmp_path, "s.sh", data), True)
    write(made.project, made.changed)
    assert data.replace(b"-tp 8", b"-tp 4 -dp 2") == (tmp_path / "s.sh").read_bytes()


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600])
def test_mode_is_kept(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "s.sh"
    path.write_bytes(b"old")
    path.chmod(mode)
    replace_file(path, b"new")
    assert (b"new", mode) == (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    assert ["s.sh"] == [item.name for item in tmp_path.iterdir()]


def test_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "s.sh", tmp_path / "s.sh"
    target.write_bytes(b"old")
    link.symlink_to(target)
    replace_file(link, b"new")
    assert link.is_symlink()
    assert (b"new", b"new") == (target.read_bytes(), link.read_bytes())
    assert ["s.sh"] == [item.name for item in (tmp_path / "real").iterdir()]


@pytest.mark.parametrize("broken", ["fsync", "replace", "chmod"])
def test_failure_leaves_the_old_file_and_no_other(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "s.sh"
    path.write_bytes(b"old")
    monkeypatch.setattr(*((os, broken) if broken == "fsync" else (Path, broken)), fails)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    monkeypatch.undo()
    assert b"old" == path.read_bytes()
    assert ["s.sh"] == [item.name for item in tmp_path.iterdir()]


def test_text_that_is_in_no_file_is_not_written() -> None:
    made = apply_fixes(project(f"{QWEN} -tp 8\n"), True)
    assert frozenset({"script.sh"}) == made.changed
    assert [] == write(made.project, made.changed)


# ----------------------------------------------------------------------------------------- diff


def test_diff_shows_the_changed_lines() -> None:
    before = project(f"#!/bin/sh\n{QWEN} -tp 8\n")
    after = apply_fixes(before, True)
    assert diff(before, after.project, after.changed) == (
        "--- a/script.sh\n+++ b/script.sh\n@@ -1,2 +1,2 @@\n"
        f" #!/bin/sh\n-{QWEN} -tp 8\n+{QWEN} -tp 4 -dp 2\n"
    )
    assert "" == diff(before, before, ["script.sh"])


def test_diff_tells_of_a_missing_line_end_and_breaks_at_line_feeds_alone() -> None:
    before = project(f"# a\u2028b\r\n{QWEN} -tp 8")
    after = apply_fixes(before, True)
    assert diff(before, after.project, after.changed) == (
        "--- a/script.sh\n+++ b/script.sh\n@@ -1,2 +1,2 @@\n # a\u2028b\r\n"
        f"-{QWEN} -tp 8\n\\ No newline at end of file\n"
        f"+{QWEN} -tp 4 -dp 2\n\\ No newline at end of file\n"
    )


def test_diff_of_an_absolute_name_has_no_empty_folder() -> None:
    before = Project.of_texts(setup(), {"/tmp/s.sh": f"{QWEN} -tp 8\n"})
    after = apply_fixes(before, True)
    assert diff(before, after.project, after.changed).startswith("--- a/tmp/s.sh\n+++ b/tmp/s.sh\n")


# -------------------------------------------------------------------------------------- corpus


def _files() -> list[Path]:
    corpus, cases = SHARED / "corpus", []
    if corpus.is_dir():
        cases = sorted(path for path in corpus.rglob("*") if path.is_file())
    return cases


def _errors(made: Project) -> int:
    return lint(made).result.count("error")


@pytest.mark.parametrize(
    ("heads", "told"),
    [
        (None, {}),
        (None, {"gpu": "H100", "gpus_per_node": 4, "engine_version": {"vllm": "0.33.0"}}),
        (3, {"gpu": "H100", "gpus_per_node": 8, "engine_version": {"vllm": "0.33.0"}}),
        (28, {"engine_version": {"vllm": "0.8.5"}}),
    ],
    ids=["as it stands", "on four GPUs", "3 heads", "28 heads"],
)
def test_real_files_are_no_worse_after_all_fixes(
    heads: int | None, told: dict[str, Any], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With so many heads in every model, most layouts of several GPUs are wrong."""
    if heads is not None:
        model = ModelFacts(id="m", attention_heads=heads, kv_heads=heads, vocab_size=128_256)
        monkeypatch.setattr("shardlint.models.catalogue.Catalogue.lookup", lambda *_: model)
    changed = 0
    for path in _files():
        before = Project.discover(setup(**told), [str(path)], shared / "corpus")
        outcome = apply_fixes(before, True)
        changed += bool(outcome.changed)
        texts = {name: source.text for name, source in outcome.project.sources.items()}
        after = Project.of_texts(before.setup, texts) if outcome.changed else before
        assert (after.problems, after.skipped) == (before.problems, before.skipped), path
        assert [plan.id for plan in after.plans] == [plan.id for plan in before.plans], path
        assert _errors(after) <= _errors(before), path
        assert frozenset() == apply_fixes(after, True).changed, path
    if heads == 3:
        assert changed > 10


def test_one_option_takes_the_place_of_two_that_mean_it() -> None:
    before = (
        "docker run --ipc=host lmsysorg/sglang:v0.5.23 python3 -m sglang.launch_server"
        " --model-path org/m --tp 8 --dp-size 8 --enable-dp-attention --port 1\n"
    )
    renamed = before.replace("--dp-size", "--attn-dp-size")
    assert renamed == applied(before, unsafe=False)
    assert renamed.replace(" --enable-dp-attention", "") == applied(before)
    older = before.replace("v0.5.23", "v0.5.21")
    assert older == applied(older)

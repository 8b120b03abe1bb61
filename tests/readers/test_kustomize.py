"""Kustomizations: what they build of bases and patches, where each value stands, what is told."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness import setup
from readers.reading import a_setup, names, stated
from ruamel.yaml import YAML
from shardlint.fixes import apply_fixes, with_fixes
from shardlint.library import Asked, Library
from shardlint.linter import lint
from shardlint.plan import Refusal, ServingPlan
from shardlint.platforms.kustomize import image_name, renamed, selected
from shardlint.project import Project
from shardlint.readers.keyed import plain_value
from shardlint.readers.kustomize import Build
from shardlint.readers.kustomize_items import with_references
from shardlint.readers.yaml_tree import documents
from shardlint.source import Source, apply

BASE = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: chat
spec:
  replicas: 2
  selector:
    matchLabels:
      app: chat
  template:
    metadata:
      labels:
        app: chat
    spec:
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.11.2
          args:
            - --model=Qwen/Qwen2.5-7B-Instruct
            - --tensor-parallel-size=4
          resources:
            limits:
              nvidia.com/gpu: 4
        - name: helper
          image: busybox
"""
SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: chat
spec:
  selector:
    app: chat
"""
PATCH = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: chat
spec:
  template:
    spec:
      containers:
        - name: vllm
          resources:
            limits:
              nvidia.com/gpu: 2
"""
OVERLAY = "overlays/a/kustomization.yaml"


def project(kustomization: str = "", **more: str) -> Project:
    """A base with a Deployment and a Service, and an overlay; `__` in names is a slash."""
    texts = {
        "base/deployment.yaml": BASE,
        "base/service.yaml": SERVICE,
        "base/kustomization.yaml": "resources: [deployment.yaml, service.yaml]\n",
        OVERLAY: "resources: [../../base]\n" + kustomization,
        **{f"overlays/a/{name.replace('__', '.')}": text for name, text in more.items()},
    }
    return Project.of_texts(a_setup(), texts)


def built(kustomization: str = "", **more: str) -> ServingPlan:
    (plan,) = project(kustomization, **more).plans
    return plan


def place(of: Project, plan: ServingPlan, path: str) -> tuple[str, str]:
    """The file and the characters that a fact was read from."""
    origin = plan.fact(path).origin
    assert origin is not None
    text = of.sources[origin.file].text
    return origin.file, text[origin.span.start : origin.span.end]


def problems(of: Project) -> list[str]:
    return [f.message for f in lint(of).result.findings if f.name == "parse-error"]


# what is built


def test_a_base_is_read_through_its_overlay_alone() -> None:
    plan = built("namespace: prod\nnamePrefix: big-\n")
    assert plan.id == f"{OVERLAY}#0:/spec/template/spec/containers/0"
    assert (plan.file, plan.name, plan.namespace) == (OVERLAY, "prod/big-chat/vllm", "prod")
    assert stated(plan, "tp") == 4


def test_a_base_that_nobody_uses_is_built_itself() -> None:
    texts = {"k/kustomization.yaml": "resources: [d.yaml]", "k/d.yaml": BASE}
    (plan,) = Project.of_texts(a_setup(), texts).plans
    assert plan.file == "k/kustomization.yaml"


def test_values_keep_their_own_places() -> None:
    found = project(
        "patches: [{path: patch.yaml}]\nreplicas:\n  - {name: chat, count: 6}\n"
        "images:\n  - name: vllm/vllm-openai\n    newTag: v0.10.0\n",
        patch__yaml=PATCH,
    )
    (plan,) = found.plans
    assert place(found, plan, "placement.gpus_per_pod") == ("overlays/a/patch.yaml", "2")
    assert place(found, plan, "layout.tp") == ("base/deployment.yaml", "4")
    assert place(found, plan, "fleet.replicas") == (OVERLAY, "6")
    assert place(found, plan, "image") == (OVERLAY, "v0.10.0")
    assert plan.tag.only == "v0.10.0"


def test_edits_land_where_the_value_stands() -> None:
    found = project("patches: [{path: patch.yaml}]\n", patch__yaml=PATCH)
    (plan,) = found.plans
    for field, file in (("gpus_per_pod", "overlays/a/patch.yaml"), ("tp", "base/deployment.yaml")):
        edits = plan.sites[field].set("8")
        assert not isinstance(edits, Refusal)
        assert [edit.file for edit in edits] == [file]
        changed = found.update(file, apply(found.sources[file].text, edits))
        (again,) = changed.plans
        assert stated(again, field) == 8


def test_what_is_missing_is_written_into_the_patch() -> None:
    found = project("patches: [{path: patch.yaml}]\n", patch__yaml=PATCH)
    (plan,) = found.plans
    edits = plan.sites["shm_bytes"].set(str(2**30))
    assert not isinstance(edits, Refusal)
    assert {edit.file for edit in edits} == {"overlays/a/patch.yaml"}
    text = apply(found.sources["overlays/a/patch.yaml"].text, edits)
    (again,) = found.update("overlays/a/patch.yaml", text).plans
    assert stated(again, "shm_bytes") == 2**30


def test_an_option_is_not_added_to_a_list_of_two_files() -> None:
    plan = built(
        "patches:\n  - target: {kind: Deployment}\n    patch: |-\n      - op: add\n"
        "        path: /spec/template/spec/containers/0/args/-\n        value: --enforce-eager\n"
    )
    assert isinstance(plan.sites["dp"].set("2"), Refusal)


def test_inline_patches_have_places_of_their_own() -> None:
    text = (
        "patches:\n  - target: {kind: Deployment, name: ch.*}\n    patch: |-\n      - op: replace\n"
        "        path: /spec/template/spec/containers/0/args/1\n"
        "        value: --tensor-parallel-size=2\n      - op: replace\n"
        "        path: /spec/template/spec/containers/0/resources/limits/nvidia.com~1gpu\n"
        "        value: 2\n"
    )
    found = project(text)
    (plan,) = found.plans
    assert place(found, plan, "layout.tp") == (OVERLAY, "2")
    edits = plan.sites["tp"].set("1")
    assert not isinstance(edits, Refusal)
    after = apply(found.sources[OVERLAY].text, edits)
    assert after == found.sources[OVERLAY].text.replace("size=2", "size=1")


def test_a_folded_patch_is_read_and_not_edited() -> None:
    plan = built(
        "patches:\n  - target: {kind: Deployment}\n    patch: "
        '"[{op: replace, path: /spec/replicas, value: 5}]"\n'
    )
    assert stated(plan, "replicas") == 5


@pytest.mark.parametrize("key", ["patches", "patchesStrategicMerge"])
def test_a_patch_can_take_away(key: str) -> None:
    entry = "{path: patch.yaml}" if key == "patches" else "patch.yaml"
    gone = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: chat}\n$patch: delete\n"
    assert project(f"{key}: [{entry}]\n", patch__yaml=gone).plans == ()


def test_lists_of_other_kinds_are_replaced() -> None:
    """Kustomize has no schema of a kind that is not its own."""
    body = "spec: {template: {spec: {containers: [{name: %s, args: [a]}]}}}\n"
    head = "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: x}\n"
    source = {"d.yaml": head + body % "one", "p.yaml": head + body % "two"}
    kustomization = "resources: [d.yaml]\npatches: [{path: p.yaml}]\n"
    (made,) = objects(source | {"kustomization.yaml": kustomization})
    assert made["spec"]["template"]["spec"]["containers"] == [{"name": "two", "args": ["a"]}]


def test_components_change_the_objects_above() -> None:
    texts = {
        "c/kustomization.yaml": "kind: Component\npatches: [{path: p.yaml}]\n",
        "c/p.yaml": PATCH,
        "a/kustomization.yaml": "resources: [d.yaml]\ncomponents: [../c]\n",
        "a/d.yaml": BASE,
    }
    (plan,) = Project.of_texts(a_setup(), texts).plans
    assert stated(plan, "gpus_per_pod") == 2


def test_variables_come_from_generated_maps() -> None:
    base = BASE.replace("size=4", "size\n            - $(TP)").replace(
        "          resources:", "          envFrom: [{configMapRef: {name: run}}]\n"
        "          resources:", 1,
    )  # fmt: skip
    texts = {
        "a/kustomization.yaml": "resources: [d.yaml]\nnamePrefix: x-\n"
        "configMapGenerator:\n  - name: run\n    envs: [run.env]\n",
        "a/d.yaml": base,
        "a/run.env": "# the layout\nTP=2\n",
    }
    found = Project.of_texts(a_setup(), texts)
    (plan,) = found.plans
    assert stated(plan, "tp") == 2
    edits = plan.sites["tp"].set("4")
    assert not isinstance(edits, Refusal)
    assert [(edit.file, edit.text) for edit in edits] == [("a/run.env", "4")]


def test_a_variable_whose_file_is_not_there_is_unknown() -> None:
    base = BASE.replace("size=4", "size\n            - $(TP)").replace(
        "          resources:", "          envFrom: [{configMapRef: {name: run}}]\n"
        "          resources:", 1,
    )  # fmt: skip
    texts = {
        "a/kustomization.yaml": "resources: [d.yaml]\n"
        "configMapGenerator:\n  - name: run\n    envs: [run.env]\n    literals: [A=1]\n",
        "a/d.yaml": base,
    }
    (plan,) = Project.of_texts(a_setup(), texts).plans
    assert not plan.layout.tp.is_known
    assert plan.placement.env_open is not None


def test_a_replaced_part_is_unknown() -> None:
    plan = built(
        "replacements:\n  - source: {kind: Service, name: chat, fieldPath: metadata.name}\n"
        "    targets:\n      - select: {kind: Deployment}\n        fieldPaths:\n"
        "          - spec.template.spec.containers.[name=vllm].args.1\n"
        "        options: {delimiter: '=', index: 1}\n"
    )
    assert not plan.layout.tp.is_known
    assert plan.open_ended or not plan.layout.tp.is_unset


def test_a_replacement_of_the_whole_is_read() -> None:
    plan = built(
        "replacements:\n  - source: {kind: Deployment, name: chat, "
        "fieldPath: spec.template.spec.containers.0.args.1}\n    targets:\n"
        "      - select: {kind: Deployment}\n        fieldPaths:\n"
        "          - spec.template.spec.containers.[name=vllm].args.0\n"
    )
    assert not plan.model.is_known


def test_labels_link_a_service_with_its_pods() -> None:
    found = project("labels:\n  - pairs: {tier: x}\n    includeSelectors: true\n")
    (router,), (plan,) = found.routers, found.plans
    assert router.backends == (plan.id,)
    assert router.selector == {"app": "chat", "tier": "x"}
    assert plan.labels == {"app": "chat", "tier": "x"}


def test_namespaces_are_kept_apart() -> None:
    texts = {
        "d.yaml": BASE + "---\n" + SERVICE,
        **{f"{n}/kustomization.yaml": f"resources: [../d.yaml]\nnamespace: {n}\n" for n in "ab"},
    }
    found = Project.of_texts(a_setup(), texts)
    assert {plan.namespace for plan in found.plans} == {"a", "b"}
    assert sorted(router.backends[0].partition("/")[0] for router in found.routers) == ["a", "b"]
    assert len(found.routers) == 2


def test_an_autoscaler_keeps_its_workload() -> None:
    scaler = (
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: chat}\n"
        "spec:\n  maxReplicas: 5\n  scaleTargetRef: {kind: Deployment, name: chat}\n"
    )
    found = project("namePrefix: a-\nnamespace: n\n", hpa__yaml=scaler)
    text = found.sources[OVERLAY].text.replace("[../../base]", "[../../base, hpa.yaml]")
    (plan,) = found.update(OVERLAY, text).plans
    assert plan.fleet.max_replicas.only == 5


# what is not certain


@pytest.mark.parametrize(
    "more",
    [
        "components: [../../elsewhere]\n",
        "patches: [{path: nowhere.yaml}]\n",
        "transformers: [t.yaml]\n",
        "helmCharts: [{name: x}]\n",
    ],
)
def test_what_may_change_an_object_and_is_not_there_leaves_it_alone(more: str) -> None:
    (plan,) = project(more).plans
    assert plan.file == "base/kustomization.yaml"


def test_a_patch_alone_is_partial() -> None:
    texts = {"kustomization.yaml": "resources: ['https://example.org/x']\n"
             "patches: [{path: p.yaml}]\n", "p.yaml": BASE.replace("image:", "x:")}  # fmt: skip
    found = Project.of_texts(a_setup(), texts)
    (plan,) = found.plans
    assert plan.file == "p.yaml"
    assert stated(plan, "gpus_per_pod") == 4
    assert not plan.placement.scheduled
    assert [item for item in lint(found).result.findings if item.severity == "error"] == []


# what is told


def wrong(*overlays: str) -> dict[str, str]:
    bad = BASE.replace("size=4", "size=8").replace("gpu: 4", "gpu: 8")
    texts = {"base/d.yaml": bad, "base/kustomization.yaml": "resources: [d.yaml]\n"}
    made = {f"{n}/kustomization.yaml": f"resources: [../base]\nnamespace: {n}\n" for n in overlays}
    return texts | made


def test_a_finding_in_a_base_is_told_once() -> None:
    result = lint(Project.of_texts(a_setup(), wrong("a", "b", "c"))).result
    (found,) = [each for each in result.findings if each.name == "tp-heads-indivisible"]
    assert found.file == "base/d.yaml"
    assert found.message.endswith(" (in 3 overlays)")
    path = "#0:/spec/template/spec/containers/0"
    assert found.plans == tuple(f"{name}/kustomization.yaml{path}" for name in "abc")
    assert [item.file for item in found.related] == ["b/kustomization.yaml", "c/kustomization.yaml"]


def test_a_finding_of_one_overlay_says_nothing_of_overlays() -> None:
    result = lint(Project.of_texts(a_setup(), wrong("a"))).result
    assert not any("overlays" in each.message for each in result.findings)


def test_a_fix_in_a_base_clears_all_overlays() -> None:
    outcome = apply_fixes(Project.of_texts(a_setup(), wrong("a", "b")), unsafe=True)
    assert outcome.changed == {"base/d.yaml"}
    assert "tp-heads-indivisible" not in names(outcome.result.findings)


def test_a_comment_in_the_base_covers_its_overlays() -> None:
    texts = wrong("a", "b")
    texts["base/d.yaml"] = "# shardlint: ignore[tp-heads-indivisible]\n" + texts["base/d.yaml"]
    found = names(lint(Project.of_texts(a_setup(), texts)).result.findings)
    assert "tp-heads-indivisible" not in found
    assert "unused-suppression" not in found


def test_a_cycle_is_told() -> None:
    texts = {"a/kustomization.yaml": "resources: [../b, d.yaml]\n", "a/d.yaml": BASE,
             "b/kustomization.yaml": "resources: [../a]\n"}  # fmt: skip
    found = Project.of_texts(a_setup(), texts)
    assert any("leads back to the kustomization in a" in message for message in problems(found))
    assert [plan.file for plan in found.plans] == ["a/d.yaml"]


def test_a_broken_base_is_told_once() -> None:
    texts = wrong("a", "b") | {"base/d.yaml": "spec: [vllm\na: b: c\n"}
    assert len(problems(Project.of_texts(a_setup(), texts))) == 1


def test_a_patch_that_does_not_fit_is_told() -> None:
    found = project(
        "patches:\n  - target: {kind: Deployment}\n    patch: |-\n      - op: replace\n"
        "        path: /spec/nothing/here\n        value: 1\n"
    )
    (message,) = problems(found)
    assert "/spec/nothing/here is not in the object that is patched" in message


def test_what_it_builds_on_may_be_outside_of_the_run() -> None:
    texts = {"over/kustomization.yaml": "resources: [../base]\nreplicas: [{name: a, count: 2}]\n"}
    found = Project.of_texts(a_setup(), texts)
    reason = "../base is not among the files that are read"
    assert [("over/kustomization.yaml", reason)] == list(found.skipped)
    remote = {"k/kustomization.yaml": "resources: [https://github.com/o/r//base?ref=v1]\n"}
    assert [] == list(Project.of_texts(a_setup(), remote).skipped)


def test_a_key_that_is_replaced_may_be_missing_but_not_what_holds_it() -> None:
    found = project(
        "patches:\n  - target: {kind: Deployment}\n    patch: |-\n      - op: replace\n"
        "        path: /spec/revisionHistoryLimit\n        value: 1\n"
    )
    assert [] == problems(found)
    assert 1 == len(found.plans)


def test_kustomizations_that_multiply_come_to_an_end() -> None:
    texts = {
        f"{n}{i}/kustomization.yaml": f"resources: [../a{i + 1}, ../b{i + 1}]\n"
        for i in range(30)
        for n in "ab"
    } | {"a30/kustomization.yaml": "resources: [d.yaml]\n", "a30/d.yaml": BASE}
    found = Project.of_texts(a_setup(), texts)
    assert found.broken == ()
    assert any("more than 300 kustomizations" in message for message in problems(found))


def test_anchors_that_multiply_come_to_an_end() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
    )
    thing = "apiVersion: v1\nkind: Thing\nmetadata: {name: x}\n"
    found = project("images: [{name: a, newTag: b}]\n", bomb__yaml=thing + bomb)
    found = found.update(OVERLAY, found.sources[OVERLAY].text.replace(
        "[../../base]", "[../../base, bomb.yaml]"))  # fmt: skip
    assert found.broken == ()
    assert any("steps to build" in message for message in problems(found))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "resources: x", "resources: [[], {}, null]", "patches: [x, {patch: 1}, {path: []}]",
     "images: [{}, x, {name: 1, newTag: []}]", "replicas: [{name: chat, count: []}]",
     "namespace: []", "labels: [{pairs: []}]", "configMapGenerator: [{name: []}, {name: x, envs: "
     "[[]], literals: [{}]}]", "replacements: [{}, {source: {}, targets: [{fieldPaths: ['']}]}]",
     "patches: [{target: {kind: '('}, patch: '- op: add'}]", "commonLabels: x",
     "patches: [{target: {name: '(a+)+$'}, patch: '[{op: test}]'}]"],
)  # fmt: skip
def test_odd_kustomizations_break_nothing(text: str) -> None:
    for name in ("kustomization.yaml", OVERLAY):
        texts = {"base/kustomization.yaml": "resources: [d.yaml]", "base/d.yaml": BASE,
                 name: f"resources: [base, ../../base]\n{text}"}  # fmt: skip
        found = Project.of_texts(a_setup(), texts)
        assert found.broken == ()
        assert not lint(found).result.failed


# files


def test_an_env_file_of_a_folder_is_read_and_edited(tmp_path: Path) -> None:
    base = BASE.replace("size=4", "size\n            - $(TP)").replace(
        "          resources:", "          envFrom: [{configMapRef: {name: run}}]\n"
        "          resources:", 1,
    ).replace("gpu: 4", "gpu: 8")  # fmt: skip
    for name, text in {
        "kustomization.yaml": "resources: [d.yaml]\n"
        "configMapGenerator:\n  - name: run\n    envs: [run.env]\n",
        "d.yaml": base,
        "run.env": "TP=8\n",
        "other/kustomization.yaml": "resources: [x.yaml]\n",
        "other/x.yaml": "kind: ConfigMap\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    found = Project.discover(a_setup(), ["."], tmp_path)
    assert sorted(found.readings) == ["d.yaml", "kustomization.yaml"]
    outcome = apply_fixes(found, unsafe=True)
    assert "run.env" in outcome.changed
    assert outcome.project.sources["run.env"].text == "TP=4\n"
    assert outcome.project.paths["run.env"] == tmp_path.resolve() / "run.env"


# what kustomize does


@pytest.mark.parametrize(
    ("image", "name", "tag", "digest", "wanted"),
    [
        ("a/b:1", None, "2", None, "a/b:2"),
        ("r:5000/a", "c", None, None, "c"),
        ("r:5000/a:1@sha256:0", None, None, "sha256:1", "r:5000/a@sha256:1"),
        ("a@sha256:0", None, "2", None, "a:2"),
        ("a:1", "b", None, None, "b:1"),
    ],
)
def test_images(
    image: str, name: str | None, tag: str | None, digest: str | None, wanted: str
) -> None:
    assert renamed(image, name, tag, digest) == wanted
    assert ":" not in image_name(image).rpartition("/")[2]


def test_selectors_are_whole_words() -> None:
    assert selected("", "a") and selected("ch.*", "chat") and not selected("ha", "chat")
    assert not selected("(", "(a") and not selected("(a+)+", "aaaa")


def objects(texts: Mapping[str, str]) -> list[dict[str, Any]]:
    setup = a_setup()
    source = Source("kustomization.yaml", texts["kustomization.yaml"])
    library = Library(texts={name: Source(name, text) for name, text in texts.items()})

    context = replace(setup.context, files=Asked(library), readers=setup.readers)
    build = Build(source, context)
    items = build.objects(source, documents(source)[0])
    return [plain_value(item.node) for item in with_references(items, build.work)]


KUBECTL = shutil.which("kubectl")


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_what_is_built_is_what_kubectl_builds(tmp_path: Path) -> None:
    texts = {
        "kustomization.yaml": "resources: [d.yaml, s.yaml]\nnamespace: ns\nnamePrefix: p-\n"
        "nameSuffix: -s\nimages: [{name: vllm/vllm-openai, newName: q/vllm, newTag: v1}]\n"
        "replicas: [{name: chat, count: 7}]\ncommonLabels: {l: m}\ncommonAnnotations: {a: b}\n"
        "patches:\n  - path: p.yaml\n  - target: {kind: Deployment, labelSelector: '!x'}\n"
        "    patch: |-\n      - op: add\n        path: /spec/template/spec/containers/1/args\n"
        "        value: [x]\n      - op: remove\n        path: /spec/replicas\n",
        "d.yaml": BASE,
        "s.yaml": SERVICE,
        "p.yaml": PATCH
        + "          env: [{name: A, value: '1'}]\n        - name: new\n          image: i:1\n"
        + "      nodeSelector: {a: b}\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert KUBECTL is not None
    done = subprocess.run([KUBECTL, "kustomize", str(tmp_path)], capture_output=True, check=True)
    theirs = {each["kind"]: each for each in YAML(typ="safe").load_all(done.stdout.decode())}
    ours = {each["kind"]: each for each in objects(texts)}
    assert ours == theirs


def test_torn_trees_break_nothing() -> None:
    """Lines lost, doubled and moved in a base, a patch, a kustomization: no reader fails."""
    chance = random.Random(5)
    texts = {name: source.text for name, source in project(
        "patches:\n  - path: patch.yaml\n  - target: {kind: Deployment}\n    patch: |-\n"
        "      - op: add\n        path: /spec/template/spec/containers/0/args/-\n"
        "        value: --enforce-eager\nimages:\n  - name: vllm/vllm-openai\n    newTag: v0.9.0\n"
        "configMapGenerator:\n  - name: run\n    literals: [A=1]\n",
        patch__yaml=PATCH,
    ).sources.items()}  # fmt: skip
    for _ in range(150):
        torn = dict(texts)
        for name in chance.sample(sorted(texts), 2):
            lines = torn[name].splitlines(keepends=True)
            at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[at : at + 1] = chance.choice(
                [[], [lines[other]], [lines[at], lines[other]], ["  " + lines[at]], ["- x: [\n"]]
            )
            torn[name] = "".join(lines)
        found = Project.of_texts(a_setup(), torn)
        assert found.broken == ()
        assert not lint(found).result.failed


# what is offered


def test_a_base_is_not_changed_for_one_of_its_overlays() -> None:
    """Fewer GPUs in one overlay: the size in the base is that of the other one, too."""
    texts = {
        "base/d.yaml": BASE, "base/kustomization.yaml": "resources: [d.yaml]\n",
        "a/kustomization.yaml": "resources: [../base]\npatches: [{path: patch.yaml}]\n",
        "a/patch.yaml": PATCH, "b/kustomization.yaml": "resources: [../base]\nnamespace: b\n",
    }  # fmt: skip

    def files(of: dict[str, str]) -> set[str]:
        found = with_fixes(lint(Project.of_texts(setup(gpu="H100-SXM-80GB"), of))).findings
        (short,) = [each for each in found if each.name == "gpu-count-short"]
        return {edit.file for fix in short.fixes for edit in fix.edits}

    assert files(texts) == {"a/patch.yaml"}
    alone = {name: text for name, text in texts.items() if not name.startswith("b/")}
    assert files(alone) == {"a/patch.yaml", "base/d.yaml"}


def test_a_base_is_changed_for_all_of_its_overlays() -> None:
    result = with_fixes(lint(Project.of_texts(a_setup(), wrong("a", "b"))))
    (found,) = [each for each in result.findings if each.name == "tp-heads-indivisible"]
    assert found.fixes
    assert {edit.file for fix in found.fixes for edit in fix.edits} == {"base/d.yaml"}

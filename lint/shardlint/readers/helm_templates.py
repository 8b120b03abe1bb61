"""Templates of Helm charts: the literal words of workloads, and nothing that a template decides.

A template is no YAML. Its actions are covered up, each by as many characters, so that every place
stays where it is: what stands in a branch or a loop becomes blank, an expression in a line becomes
a word that is filled in elsewhere, unless `values.yaml` of the chart has a plain value for it. The
rest is read as the workload that it looks like, and rests on the template all the same: no option
that is not there is taken for missing, and nothing that is read can be an error. Of templates of
Jinja only routers are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from shardlint.known import Known, Text
from shardlint.plan import Router, ServingPlan
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.inner_yaml import nodes_of
from shardlint.readers.kubernetes import GROUPS, POD_SPECS, owner_of
from shardlint.readers.objects import Object, kind_of, objects, read_object
from shardlint.readers.plans import finished
from shardlint.readers.pods import pod_plans
from shardlint.readers.resting import resting
from shardlint.readers.yaml_files import read_yaml
from shardlint.readers.yaml_tree import Node, YamlError, documents
from shardlint.source import Source

JINJA = (".j2", ".jinja", ".jinja2")
NAMES = (".yaml", ".yml", ".tpl", ".tmpl", ".template", ".gotmpl", *JINJA)
_KEYS = re.compile(
    r"^[ \t-]*(?:containers|runner):|^kind: *(?:DestinationRule|HTTPRoute|Ingress|InferencePool|"
    r"ConfigMap|LLMInferenceService\w*|EndpointPickerConfig|VLLMRouter)\b|^ *static_resources:",
    re.MULTILINE,
)
_ACTION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_OPENS = re.compile(
    r"\{\{-?\s*(?:if|range|with|define|block)\b|\{%[-+]?\s*(?:if|for|macro|call|filter|raw)\b"
)
_ENDS = re.compile(r"\{\{-?\s*end\b|\{%[-+]?\s*end\w+")
_KIND = re.compile(r"^kind:", re.MULTILINE)
_FIRST = re.compile(r"^[A-Za-z_][\w.-]*:", re.MULTILINE)
_VALUE = re.compile(
    r"\{\{-?\s*(?:\$?\.Values)((?:\.[A-Za-z_]\w*)+)\s*((?:\|\s*(?:quote|squote|toString|int|"
    r"default\s+(?:\"[^\"{}]*\"|[\w.-]+))\s*)*)-?\}\}"
)
_IF_VALUE = re.compile(r"\{\{-?\s*if\s+\$?\.Values((?:\.[A-Za-z_]\w*)+)\s*-?\}\}")
_DEFAULT = re.compile(r"default\s+(?:\"([^\"{}]*)\"|([\w.-]+))")
_MARK = re.compile(r"__T(\d*)_*T?__")

RENDERED = "the template renders what stands here, with the chart's own values"
MORE = "the template can add more"
FILLED = "the template fills it in"


class HelmTemplateReader:
    """Deployments and other workloads of Kubernetes in templates."""

    name = "helm-template"
    kinds = ("template",)
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        suffix = PurePosixPath(source.name.lower().replace("\\", "/")).suffix
        named = suffix in NAMES and ("{{" in source.text or "{%" in source.text)
        return named and _KEYS.search(source.text) is not None

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        _, failed = read_yaml(source)
        if failed is None or failed.skipped is None:
            return ReadResult()
        covered = _Covered(source, _chart_values(source, context))
        roots = list(covered.roots())
        charted = not source.name.lower().endswith(JINJA)
        plans = [plan for root, path in roots if charted for plan in _plans(root, path, context)]
        off = len(roots) == 1 and covered.is_off()
        routers = tuple(_routers(roots, source.text, context)) if not off else ()
        return ReadResult(plans=finished(plans), routers=routers, skipped=failed.skipped)


def _chart_values(source: Source, context: ReadContext) -> Node | None:
    """The values of the chart, where the template is in its folder `templates`."""
    for path in ("../values.yaml", "../../values.yaml"):
        found = context.files.beside(source, path)
        if found is not None:
            try:
                return next(iter(documents(found)), None)
            except YamlError:
                return None
    return None


def _plans(root: Node, path: str, context: ReadContext) -> Iterator[ServingPlan]:
    for node, where in objects(root, path):
        group, kind = kind_of(node)
        spec = node.get(*POD_SPECS[kind]) if kind in POD_SPECS and group in GROUPS else None
        if spec is None or spec.kind != "map":
            continue
        owner = replace(
            owner_of(node, kind, where),
            kind="helm-template",
            whole=False,
            more=(Text.unknown(node.pairs[0][0].origin, MORE, many=True),),
            placement={},
        )
        inside = where + "".join(f"/{step}" for step in POD_SPECS[kind])
        for plan in pod_plans(owner, spec, inside, context):
            yield _told(plan)


def _told(plan: ServingPlan) -> ServingPlan:
    """With no covered word that anybody sees, and without sites: nothing is edited here."""
    found = resting(plan, RENDERED, lambda why: FILLED if _MARK.search(why) else why)
    return replace(found, name=_MARK.sub("{{...}}", plan.name), labels={}, sites={})


def _routers(roots: list[tuple[Node, str]], text: str, context: ReadContext) -> Iterator[Router]:
    """What all readers find of routers, without what a covered word says, and without offers."""
    found = [item for root, path in roots for item in objects(root, path)]
    within = replace(context, siblings=tuple(Object(node, path) for node, path in found))
    for node, path in found:
        for router in read_object(node, path, within).routers:
            yield _open(router, text)


POLICIES = re.compile(
    r"-policy\b|router-mode|ROUTER_MODE|routing-logic|loadBalancer\b|consistentHash|"
    r"upstream-hash-by|request_router|EndpointPickerConfig|\bscheduler\b"
)
"""Words by which a router is told how to choose."""


def _open(router: Router, text: str) -> Router:
    """The values of the chart can overrule what stands here; a part of a selector is none.

    A default is one where no branch of the template says how to choose; where nothing chooses, a
    part that the template fills in may.
    """
    policy = router.policy
    if not router.explicit and (POLICIES.search(text) or router.chooses == "elsewhere"):
        policy = Known.unknown(MORE, policy.origin)
    covered = policy.only is not None and _MARK.search(policy.only) is not None
    if covered or (not policy.is_known and _MARK.search(policy.reason or "")):
        policy = Known.unknown(FILLED, policy.origin)
    said = (*router.selector.items(), *router.labels.items())
    known = not any(_MARK.search(word) for pair in said for word in pair)
    return replace(
        router,
        name=_MARK.sub("{{...}}", router.name),
        policy=policy.assuming(RENDERED),
        sure=router.sure and policy.is_known,
        selector=router.selector if known else {},
        labels=router.labels if known else {},
        targets=tuple(word for word in router.targets if not _MARK.search(word)),
        names=tuple(word for word in router.names if not _MARK.search(word)),
        picks="" if _MARK.search(router.picks or "") else router.picks,
        picker="" if _MARK.search(router.picker or "") else router.picker,
        choices=Known.unknown(RENDERED) if router.choices.is_unset else router.choices,
        assumes=(*router.assumes, RENDERED),
        offers=(),
    )


# ------------------------------------------------------------------------------ covering up


@dataclass
class _Covered:
    """The text of a template with its actions covered up."""

    source: Source
    values: Node | None
    filled: dict[str, str] = field(default_factory=dict)
    """Marks that stand for a value that is known."""

    def roots(self) -> Iterator[tuple[Node, str]]:
        """The documents that can be read, with the values that are known."""
        try:
            roots = documents(Source(self.source.name, self._text()))
        except YamlError:
            return
        for at, root in enumerate(roots):
            for node in nodes_of([root]):
                if node.kind == "scalar" and (match := _MARK.search(node.value)):
                    self._fill(node, match)
            yield root, f"{at}:"

    def is_off(self) -> bool:
        """The object stands in a branch that the chart's own values do not take."""
        kind = _KIND.search(self.source.text)
        open_ones: list[re.Match[str]] = []
        for match in _ACTION.finditer(self.source.text, 0, kind.start() if kind else 0):
            if _step(match.group()) > 0:
                open_ones.append(match)
            elif _step(match.group()) < 0 and open_ones:
                open_ones.pop()
        asked = (_IF_VALUE.fullmatch(match.group()) for match in open_ones)
        said = (
            self.values.get(*found[1].strip(".").split("."))
            for found in asked
            if found is not None and self.values is not None
        )
        return any(
            node is not None and node.style is None and node.value == "false" for node in said
        )

    def _fill(self, node: Node, match: re.Match[str]) -> None:
        """The value in place of its mark; a scalar with another mark stays filled in elsewhere."""
        marks = _MARK.findall(node.value)
        if marks and all(number in self.filled for number in marks):
            node.value = _MARK.sub(lambda found: self.filled[found[1]], node.value)

    def _text(self) -> str:
        """Blank where a branch or a loop is, and a mark for each expression in a line."""
        text = self.source.text
        kind = _KIND.search(text) or _FIRST.search(text)
        parts: list[str] = []
        at, depth, base = 0, 0, 0
        for number, match in enumerate(_ACTION.finditer(text)):
            before = text[at : match.start()]
            if kind is not None and at <= kind.start() < match.start():
                base = depth
            parts += _shown(before, depth <= base), self._covered(match, number, depth <= base)
            at = match.end()
            depth += _step(match.group())
            if depth < base or _starts_document(text, at):
                base = max(0, depth)
        return "".join([*parts, _shown(text[at:], depth <= base)])

    def _covered(self, match: re.Match[str], number: int, shown: bool) -> str:
        action, text = match.group(), match.string
        start = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.end())
        rest = text[match.end() : end if end >= 0 else len(text)]
        alone = not text[start : match.start()].strip() and not rest.strip()
        if alone or not shown or _step(action) or "\n" in action:
            return _blank(action)
        value = _VALUE.fullmatch(action)
        found = _value(self.values, value) if value is not None else None
        mark = f"__T{number}_" if found is not None else "__T"
        if len(mark) + 3 > len(action):
            return "__T__"[: len(action)].ljust(len(action), "_")
        if found is not None:
            self.filled[str(number)] = found
        return mark + "_" * (len(action) - len(mark) - 3) + "T__"


def _step(action: str) -> int:
    """What an action does to the depth of branches and loops."""
    if _ENDS.match(action):
        return -1
    return 1 if _OPENS.match(action) else 0


def _starts_document(text: str, at: int) -> bool:
    return text.startswith("\n---", at)


def _shown(text: str, shown: bool) -> str:
    return text if shown else _blank(text)


def _blank(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)


def _value(values: Node | None, match: re.Match[str]) -> str | None:
    """The plain value of `.Values.a.b`, or its default; None if there is none that is certain."""
    found = values.get(*match[1].strip(".").split(".")) if values is not None else None
    default = _DEFAULT.search(match[2])
    if values is None or (found is not None and found.kind != "scalar"):
        return None
    if found is not None and found.value not in ("", "0", "false"):
        return found.value if "{{" not in found.value else None
    if default is not None:
        return default[1] if default[1] is not None else default[2]
    return found.value if found is not None else None

"""A recommendation for a plan that was read, and what it changes in the files of the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from shardlint.estimates import EstimateError
from shardlint.estimates.lookups import Said, release_within
from shardlint.fixes import diff
from shardlint.hardware.option import LINKS
from shardlint.known import Known
from shardlint.linter import lint
from shardlint.plan import Refusal, ServingPlan
from shardlint.plugins import Finding
from shardlint.project import Project
from shardlint.recommendations import Candidate
from shardlint.source import Edit, EditConflict, apply

DEGREES = ("tp", "pp", "dp", "attention_dp", "ep", "dcp")


class PlannedChange:
    """One plan of a project, as the question and as the place of the answer."""

    def __init__(self, project: Project, plan: ServingPlan) -> None:
        self.project, self.plan = project, plan

    @classmethod
    def of(cls, project: Project, wanted: str | None = None) -> PlannedChange:
        """The plan that is named, else the only one. Raises EstimateError."""
        engines = [plan for plan in project.plans if project.setup.engine(plan.engine) is not None]
        chosen = [plan for plan in engines if wanted in (None, plan.id, plan.name)]
        if not chosen:
            there = ", ".join(plan.name for plan in engines)
            raise EstimateError(f"no plan {wanted!r} was read" if there else "no plan was read")
        if len(chosen) > 1:
            names = ", ".join(plan.id for plan in chosen)
            raise EstimateError(f"several plans were read, name one with --plan: {names}")
        return cls(project, chosen[0])

    def stated(self) -> dict[str, Any]:
        """What the plan says of a question: the model and how it is started."""
        plan, memory = self.plan, self.plan.memory
        name = plan.model.only
        if name is None:
            raise EstimateError(f"the model of {plan.name} is not known: {plan.model.reason}")
        facts = plan.model_facts.only
        found = {
            "model": facts.id if facts is not None else name,
            "engine": plan.engine,
            "engine_version": self._release[0],
            "gpu": _card(plan),
            "quantization": _only(memory.quantization, "quantization"),
            "kv_cache_dtype": _only(memory.kv_cache_dtype, "the type of the KV cache"),
            "max_model_len": _only(memory.max_model_len, "the longest request"),
            "max_num_seqs": _only(memory.max_num_seqs, "the number of requests"),
            "max_num_batched_tokens": _only(memory.max_num_batched_tokens, "the tokens of a step"),
            "enforce_eager": _only(memory.enforce_eager, "enforce_eager"),
            _share(plan): _only(memory.budget.share, "the share of memory"),
        }
        return {key: value for key, value in found.items() if value is not None}

    @property
    def said(self) -> tuple[str, ...]:
        """What was taken for what the plan leaves open."""
        return self._release[1]

    @cached_property
    def _release(self) -> tuple[str | None, Said]:
        """One of those that are possible, as for the memory of a plan."""
        engine, spans = self.project.setup.engine(self.plan.engine), self.plan.versions.values
        if engine is None or not engine.releases() or not spans:
            return None, ()
        return release_within(engine.releases(), spans, engine.label)

    def change(self, item: Candidate, per_node: int) -> tuple[dict[str, int], tuple[Edit, ...]]:
        """The fields that change, and their edits; EstimateError where one cannot be made."""
        delta = self._delta(item, per_node)
        edits: list[Edit] = []
        for name, value in delta.items():
            site = self.plan.sites.get(name)
            if site is None and name == "replicas":
                continue  # `unwritten` tells it
            made = site.set(str(value)) if site is not None else self._spelt(name, item)
            if isinstance(made, Refusal):
                raise EstimateError(f"{name} {value} cannot be written: {made.reason}")
            edits.extend(made)
        return delta, tuple(edits)

    def _spelt(self, name: str, item: Candidate) -> list[Edit] | Refusal:
        """By the options in whose place another release has one of its own: of other fields where
        they have one, else new."""
        unknown = Refusal("no place for it is known")
        engine, made = self.project.setup.engine(self.plan.engine), item.estimate
        if engine is None or name not in DEGREES:
            return unknown
        words = engine.arguments(made.layout, made.release)
        off: dict[str, Any] = {name: 1}
        rest = engine.arguments(replace(made.layout, **off), made.release)
        if words is None or rest is None or words[: len(rest)] != rest:
            return unknown
        edits: list[Edit] = []
        fields = {engine.flag_name(field): field for field in DEGREES}
        for option, *values in _options(words[len(rest) :]):
            field = fields.get(option)
            site = self.plan.sites.get(field or "option")
            if site is None:
                return unknown
            found = site.set(" ".join(values) if field else " ".join((option, *values)))
            if isinstance(found, Refusal):
                return found
            edits.extend(found)
        return edits

    def unwritten(self, item: Candidate) -> str | None:
        """What the files have no place for: how often they are to be started."""
        count = item.fleet.replicas
        if self.plan.sites.get("replicas") is not None or _now(self.plan, "replicas") == count:
            return None
        return f"{count} replicas: {self.plan.file} is one of them, start it as often"

    def diff(self, item: Candidate, per_node: int) -> str:
        """The change as a unified diff, after it was read again. Raises EstimateError."""
        delta, edits = self.change(item, per_node)
        if not delta:
            return ""
        after = self.project
        for name in dict.fromkeys(edit.file for edit in edits):
            text = after.sources[name].text
            try:
                after = after.update(name, apply(text, [e for e in edits if e.file == name]))
            except EditConflict as error:
                raise EstimateError(str(error)) from None
        again = next((plan for plan in after.plans if plan.id == self.plan.id), None)
        if self.unwritten(item) is not None:
            delta = {name: value for name, value in delta.items() if name != "replicas"}
        for name, value in delta.items():
            if again is None or _now(again, name) != value:
                raise EstimateError(f"{name} {value} does not read back from what was written")
        self._check(item, after, again)
        return diff(self.project, after, {edit.file for edit in edits})

    def _check(self, item: Candidate, after: Project, again: ServingPlan | None) -> None:
        """The replica takes the GPUs that were counted, and no error is new."""
        assert again is not None  # it was read back
        engine, layout = after.setup.engine(again.engine), again.effective.world().only
        assert engine is not None
        gpus = engine.ranks(layout, None, None).gpus if layout is not None else None
        if gpus != item.estimate.gpus:
            there = "an unknown number of" if gpus is None else gpus
            raise EstimateError(f"a replica would take {there} GPUs, not {item.estimate.gpus}")
        had = Counter(error.name for error in _errors(self.project))
        for error in _errors(after):
            had[error.name] -= 1
            if had[error.name] < 0:
                raise EstimateError(f"the change leads to {error.name}: {error.message}")

    def _delta(self, item: Candidate, per_node: int) -> dict[str, int]:
        plan, layout = self.plan, item.estimate.layout
        wanted: dict[str, Any] = {name: getattr(layout, name) for name in DEGREES}
        wanted |= self._pods(item.estimate.gpus, per_node)
        wanted["replicas"] = item.fleet.replicas
        wanted |= item.settings
        return {
            name: value for name, value in wanted.items() if not _is(name, _now(plan, name), value)
        }

    def _pods(self, gpus: int, per_node: int) -> dict[str, int]:
        """GPUs of one pod of a replica; the number of pods is left alone."""
        told, now = self.plan.placement.pods_per_group, self.plan.placement.gpus_per_pod.only
        pods = 1 if told.is_unset else told.only
        if pods == 1 and gpus <= per_node:
            return {"gpus_per_pod": gpus} if isinstance(now, int) else {}
        if pods is None or not isinstance(now, int) or pods * now != gpus:
            known = pods is not None and isinstance(now, int)
            there = f"it has {pods} × {now} GPUs now" if known else "its pods are not known"
            raise EstimateError(
                f"a replica of {gpus} GPUs cannot be written: {there}, and a node has {per_node}"
            )
        return {}


def _options(words: Sequence[str]) -> list[list[str]]:
    """Each option with its values."""
    found: list[list[str]] = []
    for word in words:
        if word.startswith("-") or not found:
            found.append([])
        found[-1].append(word)
    return found


def _errors(project: Project) -> list[Finding]:
    return [each for each in lint(project).result.findings if each.severity == "error"]


def _is(name: str, now: Any, value: Any) -> bool:
    """Whether a field has a value already; engines without experts to share say so differently."""
    off = (None, False, 0, 1)
    on = now is True or value is True
    return now == value or (name == "ep" and not on and now in off and value in off)


def _now(plan: ServingPlan, name: str) -> Any:
    if name in DEGREES:
        return getattr(plan.effective, name).only
    if name == "gpus_per_pod":
        return plan.placement.gpus_per_pod.only
    if name == "replicas":
        return 1 if plan.fleet.replicas.is_unset else plan.fleet.replicas.only
    return getattr(plan.memory, name).only


def _only(fact: Known[Any], what: str) -> Any:
    """The value; None where it is not stated."""
    if fact.is_unset:
        return None
    if fact.only is None and (not fact.is_known or len(fact.values) > 1):
        raise EstimateError(f"{what} is not decided: {fact.reason or 'several are possible'}")
    return fact.only


def _card(plan: ServingPlan) -> str | None:
    """With the link that is stated, where the card has another."""
    card, link = plan.placement.gpu.only, plan.placement.link.only
    if card is None:
        return None
    return card.name if link not in LINKS or link == card.link else f"{card.name},link={link}"


def _share(plan: ServingPlan) -> str:
    of = plan.memory.budget.of
    return "gpu_memory_utilization" if of in (None, "total") else "mem_fraction_static"


def stated_over(told: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What the command line says, and what the plan does where that says nothing."""
    return {**own, **{key: value for key, value in told.items() if value is not None}}

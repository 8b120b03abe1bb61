"""Run rules over a project: bind what they need, judge every world, suppress, order.

A rule's `check` sees plain values of one world. Here its findings in all worlds are put together:
one that does not hold in every world, or that rests on an assumption, is no error but a warning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from shardlint import links
from shardlint.config import Settings, ignored_in, selected
from shardlint.demands import Demand, Sizer, demand_of
from shardlint.engine import Engine
from shardlint.known import CONTRADICTION, MAX_WORLDS, Case, Known, worlds
from shardlint.plan import Layout, Offer, Options, Router, ServingPlan
from shardlint.plugins import (
    SEVERITIES,
    BrokenPlugin,
    Finding,
    Found,
    Related,
    Repair,
    Result,
    RouterWorld,
    Rule,
    RunFacts,
    Severity,
    UndecidedRule,
    Unused,
    World,
)
from shardlint.project import Project
from shardlint.record import record
from shardlint.source import Source, Span
from shardlint.suppress import Suppressions, matches

DEMAND = "demand"
"""What a plan asks of memory: a fact that rules need by this name."""


@record
class Cure:
    """What would clear a finding, and the world in which it was found."""

    repair: Repair
    world: World


@record
class Run:
    """The result of one run, and the cures of its findings by fingerprint."""

    result: Result
    project: Project
    cures: Mapping[str, Cure]
    offers: Mapping[str, tuple[Offer, ...]] = field(default_factory=dict)
    """What the routers' readers can write for findings of routers."""
    sizer: Callable[[Engine], Sizer] = Sizer
    """What is asked of the memory and speed of other layouts, with what was asked before."""


@dataclass(slots=True)
class _Hit:
    """One finding put together from worlds, before positions and suppression."""

    rule: type[Rule]
    found: Found
    severity: Severity
    assumes: frozenset[str] = frozenset()
    owner: ServingPlan | Router | None = None
    world: World | None = None


@dataclass(slots=True)
class _Collected:
    hits: list[_Hit] = field(default_factory=list)
    undecided: list[UndecidedRule] = field(default_factory=list)
    broken: list[BrokenPlugin] = field(default_factory=list)
    unheard: set[tuple[str, str]] = field(default_factory=set)
    """Rule ids, and the file in which each was undecided; "" where it failed."""
    certain: dict[str, Options] = field(default_factory=dict)
    workload: Mapping[str, Any] = field(default_factory=dict)
    plans: tuple[ServingPlan, ...] = ()
    demands: dict[str, Known[Demand]] = field(default_factory=dict)
    sizers: dict[str, Sizer] = field(default_factory=dict)

    routed: tuple[RouterWorld, ...] | None = None

    def around(self, project: Project) -> tuple[RouterWorld, ...]:
        """The routers with what stands around them, put together once for all rules."""
        if self.routed is None:
            self.routed = tuple(
                RouterWorld(
                    router=item.router, plans=item.plans, before=item.before, beside=item.beside,
                    turnless=item.turnless, workload=self.workload,
                )
                for item in links.around(project.plans, project.routers)
            )  # fmt: skip
        return self.routed

    def peers(self, plan: ServingPlan) -> int:
        """Plans that the stated requests may go to as well."""
        others = (other for other in self.plans if other is not plan)
        return sum(
            not (other.model.is_known and plan.model.is_known)
            or not set(other.model.values).isdisjoint(plan.model.values)
            for other in others
        )

    def options(self, plan: ServingPlan) -> Options:
        """The options of a plan, taken apart once for all rules."""
        if plan.id not in self.certain:
            self.certain[plan.id] = certain_options(plan)
        return self.certain[plan.id]

    def demand(self, plan: ServingPlan) -> Known[Demand]:
        """What a plan asks of memory, put together once for all rules."""
        if plan.id not in self.demands:
            self.demands[plan.id] = demand_of(plan)
        return self.demands[plan.id]

    def fact(self, plan: ServingPlan, name: str) -> Known[Any]:
        return self.demand(plan) if name == DEMAND else _fact(plan, name)

    def sizer(self, engine: Engine) -> Sizer:
        if engine.name not in self.sizers:
            self.sizers[engine.name] = Sizer(engine)
        return self.sizers[engine.name]

    def undecide(self, rule: Rule, plan: ServingPlan, field: str, reason: str) -> None:
        self.undecided.append(UndecidedRule(plan.id, rule.id, rule.name, field, reason))
        files = (plan.file, *(place.file for place in plan.elsewhere))
        self.unheard.update((rule.id, file) for file in files)

    def failed(self, rule: type[Rule], error: Exception) -> None:
        what = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        self.broken.append(BrokenPlugin(rule.__module__, None, f"rule {rule.name}: {what}"))
        self.unheard.add((rule.id, ""))


def lint(project: Project) -> Run:
    """Run every selected rule over the project."""
    owners: tuple[ServingPlan | Router, ...] = (*project.plans, *project.routers)
    setup, settings = project.setup, project.setup.settings
    available = setup.plugins.rules()
    rules = tuple(rule for rule in available if is_selected(rule, settings))
    collected = _Collected(workload=settings.workload, plans=project.plans)
    for rule in rules:
        _run_rule(rule, project, collected)
    suppressions = Suppressions.of(project.sources)
    for owner in owners:
        suppressions.note(owner)
    known = RunFacts(
        problems=project.problems,
        broken=(*setup.plugins.broken, *project.broken, *collected.broken),
    )
    about = _about_run(rules, known, collected)
    kept, suppressed = _kept([*collected.hits, *about], project, suppressions)
    heard = _heard(rules, project, collected)
    unused = (*suppressions.unused(available, heard), *suppressions.unknown(available))
    late = [hit for hit in _told_last(rules, known, unused, collected) if hit not in about]
    kept_late, more = _kept(late, project, suppressions)
    return _finish(project, rules, [*kept, *kept_late], collected, suppressed + more)


def _told_last(
    rules: tuple[type[Rule], ...],
    known: RunFacts,
    unused: tuple[Unused, ...],
    collected: _Collected,
) -> Iterator[_Hit]:
    """What shows only when all findings are there: suppressions, and rules that failed over it."""
    told = set(known.broken)
    broken = tuple(item for item in collected.broken if item not in told)
    while broken or unused:
        yield from _about_run(rules, RunFacts(broken=broken, unused=unused), collected)
        told, unused = told | set(broken), ()
        broken = tuple(item for item in collected.broken if item not in told)


def _heard(
    rules: tuple[type[Rule], ...], project: Project, collected: _Collected
) -> Callable[[type[Rule], str], bool]:
    """Whether a rule could have found something in a file: it ran, and was decided there."""
    unread = {
        name for name, reading in project.readings.items() if reading.skipped or reading.problems
    }

    def heard(rule: type[Rule], file: str) -> bool:
        silent = {(rule.id, ""), (rule.id, file)} & collected.unheard
        return rule in rules and file not in unread and not silent

    return heard


def is_selected(rule: type[Rule], settings: Settings) -> bool:
    return selected(rule.id, rule.name, settings.select, settings.ignore, enabled=rule.enabled)


# --------------------------------------------------------------------------------- one rule


def _run_rule(rule: type[Rule], project: Project, collected: _Collected) -> None:
    """A fence around one rule: what it raises is a finding, and the other rules go on."""
    try:
        if rule.scope == "plan":
            for plan in project.plans:
                engine = project.setup.engine(plan.engine)
                if engine is not None:
                    _check_plan(rule(), plan, engine, collected)
        elif rule.scope == "router":
            _check_routers(rule, project, collected)
    except Exception as error:  # fence: one rule
        collected.failed(rule, error)


def _check_routers(rule: type[Rule], project: Project, collected: _Collected) -> None:
    for world in collected.around(project):
        for found in rule().check_routing(world):
            severity = found.severity or rule.severity
            assumes = frozenset() if world.plans else frozenset(world.router.assumes)
            collected.hits.append(_Hit(rule, found, severity, assumes, world.router))


def _check_plan(rule: Rule, plan: ServingPlan, engine: Engine, collected: _Collected) -> None:
    if not collected.workload.keys() >= set(rule.told) or not rule.applies(plan, engine):
        return
    elsewhere = _elsewhere(rule, plan, engine)
    alone = World(plan=plan, engine=engine)
    for found in rule.check_plan(alone) if elsewhere is None else ():
        severity = found.severity or rule.severity
        assumes = _taken(plan) if severity == "error" else frozenset()
        severity = "warning" if assumes else severity
        collected.hits.append(_Hit(type(rule), found, severity, assumes, plan, alone))
    names = rule.fields(engine)
    facts = {name: collected.fact(plan, name) for name in names}
    wanted = {name: collected.fact(plan, name) for name in rule.wants if name not in facts}
    facts |= {name: fact for name, fact in wanted.items() if fact.cases}
    missing = elsewhere or _missing(facts)
    lacking = None if missing else _lacking(rule, facts)
    if missing is None and (lacking is None or rule.partial):
        options = collected.options(plan)
        all_worlds = [
            _world(plan, engine, facts, world, options, collected)
            for world in worlds(*facts.values())
        ]
        hits = list(_judge(rule, plan, facts, all_worlds))
        collected.hits.extend(hits)
        if hits:
            lacking = None
        if not all_worlds:
            missing = names[0], CONTRADICTION
    missing = missing or lacking
    if missing is not None and not rule.settled(facts):
        collected.undecide(rule, plan, *missing)


def _elsewhere(rule: Rule, plan: ServingPlan, engine: Engine) -> tuple[str, str] | None:
    """Why a rule says nothing of other accelerators."""
    if rule.anywhere or plan.foreign is None:
        return None
    return "placement.gpu", f"what {engine.label} does on {plan.foreign} was not read"


def _fact(plan: ServingPlan, name: str) -> Known[Any]:
    """A fact as a rule names it; layout fields have the engine's defaults filled in."""
    if name.startswith("layout."):
        fact: Known[Any] = getattr(plan.effective, name.removeprefix("layout."))
        return fact
    return plan.fact(name)


def _missing(facts: Mapping[str, Known[Any]]) -> tuple[str, str] | None:
    """The first fact that is not decided, with the reason."""
    count = 1
    for name, fact in facts.items():
        if not fact.cases:
            return name, fact.reason or "not stated"
        count *= len(fact.cases)
    if count > MAX_WORLDS:
        return next(iter(facts)), "too many combinations"
    return None


def _lacking(rule: Rule, facts: Mapping[str, Known[Any]]) -> tuple[str, str] | None:
    """The first field of the model that is not known, with the reason."""
    if DEMAND in facts:
        for case in facts[DEMAND].cases:
            if lacking := rule.lacks(case.value.model):
                return f"model_facts.{lacking}", f"{case.value.model.id}: {lacking} is not known"
    if "model_facts" in facts:
        for case in facts["model_facts"].cases:
            if lacking := rule.lacks(case.value):
                return f"model_facts.{lacking}", f"{case.value.id}: {lacking} is not known"
    return None


def _world(
    plan: ServingPlan,
    engine: Engine,
    facts: Mapping[str, Known[Any]],
    cases: tuple[Case[Any], ...],
    options: Options,
    collected: _Collected,
) -> World:
    values = {name: case.value for name, case in zip(facts, cases, strict=True)}
    asked = {
        name.removeprefix("layout."): value
        for name, value in values.items()
        if name.startswith("layout.")
    }
    demand: Demand | None = values.get(DEMAND)
    layout = Layout(**asked) if demand is None else demand.layout
    model = values.get("model_facts") if demand is None else demand.model
    devices = values.get("placement.devices")
    ranks = engine.ranks(layout, model, devices) if engine.checked else None
    given = tuple(choice for case in cases for choice in case.given)
    return World(
        plan=plan, engine=engine, layout=layout, model=model, ranks=ranks, devices=devices,
        values=values, given=given, options=options,
        device=values.get("placement.gpu", _certain(plan.placement.gpu))
        if demand is None else demand.device,
        workload=collected.workload,
        peers=collected.peers(plan) if collected.workload else 0,
        sizes=None if demand is None else partial(collected.sizer(engine).sized, demand),
        paces=None if demand is None else partial(collected.sizer(engine).speeds, demand),
    )  # fmt: skip


def _certain(fact: Known[Any]) -> Any:
    """The one value that a fact has whatever is assumed, else None."""
    return None if fact.assumes else fact.only


def certain_options(plan: ServingPlan) -> Options:
    """The options of a plan, apart by whether their value is certain."""
    stated = {name: fact for name, fact in plan.options.items() if not fact.is_unset}
    values = {name: _certain(fact) for name, fact in stated.items()}
    certain = {name: value for name, value in values.items() if value is not None}
    handed_on = {n for n, fact in plan.placement.env.items() if _certain(fact) is None}
    uncertain = frozenset((stated.keys() | handed_on) - certain.keys())
    refused = any(item.kind == "unknown" for item in plan.refused)  # it was meant to set something
    return Options(
        values=certain, unknown=uncertain, open=plan.open_ended is not None or refused,
        releases=plan.versions.values, variables_open=plan.placement.env_open is not None,
    )  # fmt: skip


def _judge(
    rule: Rule, plan: ServingPlan, facts: Mapping[str, Known[Any]], all_worlds: list[World]
) -> Iterator[_Hit]:
    """Findings of all worlds, put together by their place and order there."""
    groups: dict[tuple[Any, int], list[tuple[Found, World]]] = {}
    for world in all_worlds:
        count: dict[Any, int] = {}
        for found in rule.check(world):
            index = count.get(found.at, 0)
            count[found.at] = index + 1
            groups.setdefault((found.at, index), []).append((found, world))
    assumes = frozenset().union(*(fact.assumes for fact in facts.values()))
    for group in groups.values():
        hit = _together(rule, plan, group, assumes, len(group) < len(all_worlds))
        if hit is not None:
            yield hit


def _together(
    rule: Rule,
    plan: ServingPlan,
    group: list[tuple[Found, World]],
    assumes: frozenset[str],
    sometimes: bool,
) -> _Hit | None:
    """One finding of all worlds that have one at a place: the mildest of them."""
    found, world = max(group, key=lambda item: SEVERITIES.index(item[0].severity or rule.severity))
    models = [world.model for _, world in group if found.of_model and world.model is not None]
    assumes = assumes.union(*(model.doubts(found.facts or rule.model) for model in models))
    releases = plan.versions.values
    if found.since or found.until:
        if not any(item.meets(found.since, found.until) for item in releases):
            return None
        if not all(item.within(found.since, found.until) for item in releases):
            assumes |= {_releases(world.engine.label, found)}
    if sometimes:
        assumes |= {" or ".join(sorted({_given(world) for _, world in group}))}
    severity = found.severity or rule.severity
    if severity == "error":
        assumes |= _taken(plan)
    if assumes and severity == "error":
        severity = "warning"
    return _Hit(type(rule), found, severity, assumes, plan, world)


def _taken(plan: ServingPlan) -> frozenset[str]:
    """What a branch of a script rests on."""
    return frozenset({"the script gets to this command"} if plan.placement.branch else ())


def _releases(label: str, found: Found) -> str:
    if found.since and found.until:
        return f"{label} {found.since} up to before {found.until}"
    return f"{label} {found.since} or later" if found.since else f"{label} before {found.until}"


def _given(world: World) -> str:
    return ", ".join(f"{name} is {value}" for name, value in world.given) or "another value"


def _about_run(rules: Iterable[type[Rule]], facts: RunFacts, collected: _Collected) -> list[_Hit]:
    hits: list[_Hit] = []
    for rule in rules:
        try:
            if rule.scope == "run" and (rule.id, "") not in collected.unheard:
                found = rule().check_run(facts)
                hits += [_Hit(rule, item, item.severity or rule.severity) for item in found]
        except Exception as error:  # fence: one rule
            collected.failed(rule, error)
    return hits


# -------------------------------------------------------------------------------- the result


def _kept(hits: list[_Hit], project: Project, suppressions: Suppressions) -> tuple[list[_Hit], int]:
    """Hits that no comment, annotation or setting suppresses, and how many were suppressed."""
    kept: list[_Hit] = []
    for hit in hits:
        source = _source(project, hit.found.at.file)
        by_comment = suppressions.covers(hit.rule, source, hit.found.at.span, hit.owner)
        if not by_comment and not _ignored_in(hit.rule, source.name, project):
            kept.append(hit)
    return kept, len(hits) - len(kept)


def _ignored_in(rule: type[Rule], name: str, project: Project) -> bool:
    path = project.paths.get(name, Path(name))
    selectors = ignored_in(project.setup.settings, path)
    return any(matches(selector, rule) for selector in selectors)


def _source(project: Project, name: str) -> Source:
    return project.sources.get(name) or Source(name, "")


def _finish(
    project: Project,
    rules: tuple[type[Rule], ...],
    hits: list[_Hit],
    collected: _Collected,
    suppressed: int,
) -> Run:
    ordered = sorted(hits, key=lambda hit: (hit.found.at.file, hit.found.at.span, hit.rule.id,
                                            hit.found.message))  # fmt: skip
    findings: list[Finding] = []
    cures: dict[str, Cure] = {}
    offers: dict[str, tuple[Offer, ...]] = {}
    seen: dict[str, int] = {}
    for hit, others in _told_once(ordered):
        finding = _finding(hit, project, seen)
        findings.append(_of_several(finding, [hit, *others], project) if others else finding)
        repair = hit.found.repair
        if repair is not None and repair.kind == "router":
            offers[finding.fingerprint] = tuple(
                offer
                for router in _routers_of(hit, project)
                for offer in router.offers
                if offer.cures == repair.field
            )
        elif repair is not None and hit.world is not None:
            cures[finding.fingerprint] = Cure(repair, hit.world)
    result = Result(
        findings=tuple(findings),
        undecided=tuple(sorted(collected.undecided)),
        suppressed=suppressed,
        files=len(project.readings),
        plans=len(project.plans),
        failed=bool(project.broken or collected.broken),
        skipped=project.skipped,
        sources=project.sources,
        rules=rules,
    )
    return Run(result, project, cures, offers, collected.sizer)


def _routers_of(hit: _Hit, project: Project) -> tuple[Router, ...]:
    """The router that a finding is about, or those in front of the plan that it is about."""
    owner = hit.owner
    if isinstance(owner, Router):
        return (owner,)
    plan = hit.world.plan if hit.world is not None else owner
    return tuple(item for item in project.routers if plan is not None and plan.id in item.backends)


def _told_once(ordered: list[_Hit]) -> Iterator[tuple[_Hit, list[_Hit]]]:
    """Each hit with those that say the same of the same place, in plans that other files make.

    A base that many overlays use is one text: what is wrong there is wrong once. The hit that is
    told is one of the most severe.
    """
    groups: dict[object, list[_Hit]] = {}
    for hit in ordered:
        groups.setdefault((hit.rule.id, hit.found.at, hit.found.message), []).append(hit)
    for group in groups.values():
        if len({hit.owner.file for hit in group if hit.owner is not None}) > 1:
            group.sort(key=lambda hit: (SEVERITIES.index(hit.severity), bool(hit.assumes)))
            yield group[0], group[1:]
        else:
            yield from ((hit, []) for hit in group)


def _of_several(finding: Finding, hits: list[_Hit], project: Project) -> Finding:
    """The finding of several plans: how many files make them, and which."""
    owners = {hit.owner.id: hit.owner for hit in hits if hit.owner is not None}
    files = {owner.file for owner in owners.values()}
    others = [owner for owner in owners.values() if owner.id != finding.plan]
    start = {name: _source(project, name).position(0) for name in files}
    more = [Related(item.file, start[item.file], start[item.file], f"also in {item.id}")
            for item in others]  # fmt: skip
    return replace(
        finding,
        message=f"{finding.message} (in {len(files)} overlays)",
        plans=tuple(owners),
        related=(*finding.related, *more),
    )


def _finding(hit: _Hit, project: Project, seen: dict[str, int]) -> Finding:
    rule, found = hit.rule, hit.found
    source, span = _source(project, found.at.file), found.at.span
    return Finding(
        rule=rule.id,
        name=rule.name,
        severity=hit.severity,
        message=found.message,
        file=source.name,
        start=source.position(span.start),
        end=source.position(span.end),
        span=Span(span.start, span.end),
        plan=hit.owner.id if hit.owner is not None else None,
        plans=(hit.owner.id,) if hit.owner is not None else (),
        path=hit.owner.path if hit.owner is not None else None,
        assumes=tuple(sorted(hit.assumes)),
        related=tuple(_related(hit, project)),
        help=found.help,
        url=rule.url(),
        fingerprint=_fingerprint(hit, seen),
    )


def _related(hit: _Hit, project: Project) -> Iterator[Related]:
    for note in hit.found.related:
        source = _source(project, note.origin.file)
        span = note.origin.span
        yield Related(
            source.name, source.position(span.start), source.position(span.end), note.message
        )


def _fingerprint(hit: _Hit, seen: dict[str, int]) -> str:
    """Rule, file, structural path and a running number: no line, so that edits above keep it."""
    path = hit.owner.path if hit.owner is not None else ""
    key = "|".join((hit.rule.id, hit.found.at.file, path))
    seen[key] = seen.get(key, 0) + 1
    text = f"{key}|{seen[key]}".encode("utf-8", "surrogateescape")  # a name need not be UTF-8
    return hashlib.sha256(text).hexdigest()[:20]

"""The plugin contract: hooks, rules, findings, readers, reports, and how they are loaded.

Built-in rules, engines, readers and reports come in by the same hooks as a third party's. A plugin
that fails to load, or whose rule raises, becomes a finding and does not end the run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from importlib import import_module
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    TextIO,
    TypeAlias,
)

import pluggy

from shardlint.engine import Engine
from shardlint.footprint import Sized
from shardlint.known import Choice, Known
from shardlint.plan import (
    NO_OPTIONS,
    Constraint,
    Device,
    Layout,
    ModelFacts,
    Options,
    Ranks,
    Releases,
    Router,
    Scaler,
    ServingPlan,
    series,
)
from shardlint.record import record
from shardlint.source import Edit, Origin, Position, Source, Span
from shardlint.speeds import Speed

if TYPE_CHECKING:
    from types import ModuleType

GROUP = "shardlint"
INFO = (".dist-info", ".egg-info")
DOCS = "https://github.com/shardlint/shardlint/blob/main/docs"
hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)

Severity: TypeAlias = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
Applicability: TypeAlias = Literal["safe", "unsafe"]
Scope: TypeAlias = Literal["plan", "router", "run"]


# ------------------------------------------------------------------------------ what rules say


@record
class Repair:
    """What would clear a finding, without saying how the file is edited.

    "layout": another layout that the engine accepts, and GPUs to match. "flag": write `value` in
    place of the name of option `field`. "option": the words of `value` in place of the option and
    its values, its own values behind a name that takes them; without `value`, remove it, so that
    the fields in `values` have these values by default. "add": one more option, the words of
    `value`. "fields": give the fields in `values` these values, if the
    engine accepts the layout that results.
    "memory": more ranks, a shorter context or smaller types, so that one GPU holds its part; with
    "requests" and "tokens" in `values`, so that its KV cache holds so many requests of so many
    tokens. "move": what stands at one place is written at another, which the site `field` knows;
    then the fields in `values` have these values.
    "router": what the router's reader offers for the word `field`.
    `certain`: that is what was meant, so that the engine computes the same. `fits`: only where the
    memory model says that a GPU holds its part then. `also`: what else would clear it, in order.
    """

    kind: Literal["layout", "flag", "option", "add", "fields", "memory", "move", "router"]
    field: str = ""
    value: str = ""
    values: tuple[tuple[str, int | float | str | bool], ...] = ()
    certain: bool = True
    fits: bool = False
    also: tuple[Repair, ...] = ()


@record
class Note:
    """A related place and what it says."""

    origin: Origin
    message: str


@record(kw_only=True)
class Found:
    """What a rule found in one world, at one place.

    The linter adds rule, plan, positions, confidence and fixes. `at` is a fact or a place; an error
    that does not hold in every world, or that rests on an assumption, becomes a warning. `facts`
    are the fields of ModelFacts that it rests on; without them, those of the rule. `of_model`:
    False where it holds whatever the model is.
    """

    message: str
    at: Origin
    severity: Severity | None = None
    help: str | None = None
    related: tuple[Note, ...] = ()
    repair: Repair | None = None
    since: str | None = None
    until: str | None = None
    facts: tuple[str, ...] = ()
    of_model: bool = True


USUAL_LENGTHS = (1024, 1024)
"""Tokens in and out of one request, where nothing is said of them."""
USUAL_LOADS = (32, None)
"""Requests at a time for each GPU, where nothing is said of them; None: as many as fit."""


@record(kw_only=True)
class World:
    """One possible world of one plan: plain values of the facts that a rule needs.

    Facts that the rule does not list in `needs` are None, so that it cannot rest on them unseen.
    """

    plan: ServingPlan
    engine: Engine
    layout: Layout = Layout()
    model: ModelFacts | None = None
    ranks: Ranks | None = None
    devices: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    given: tuple[Choice, ...] = ()
    options: Options = NO_OPTIONS
    device: Device | None = None
    """The card, if it is certain or the rule asked for it."""
    workload: Mapping[str, Any] = field(default_factory=dict)
    """What the user says of the requests: `[workload]` of the configuration."""
    peers: int = 0
    """Other plans of the project that serve the same model, or one that is not known."""
    sizes: Callable[[Layout, Mapping[str, Any]], tuple[Sized, ...]] | None = None
    """What a GPU holds with this layout and changed settings, by possible release."""
    paces: Callable[[Layout, int, int, int | None], tuple[Speed, ...]] | None = None
    """How fast this layout is with requests of so many tokens in and out, so many at a time."""

    def constraints(self, rule: str) -> Iterator[Constraint]:
        """Constraints of one rule in this world."""
        return (constraint for constraint in self.all_constraints() if constraint.rule == rule)

    def all_constraints(self) -> Iterator[Constraint]:
        if self.ranks is None:
            return iter(())
        return self.engine.constraints(
            self.model, self.ranks, self.layout, self.options, self.device
        )

    @property
    def starts(self) -> bool:
        """No constraint that is known here refuses the layout; GPU counts are left aside."""
        return not any(item.refuses for item in self.all_constraints())

    @property
    def whole(self) -> Layout | None:
        """The layout with the fields that the rule did not ask for; None if one is undecided."""
        made: dict[str, Any] = {}
        for item in fields(Layout):
            if f"layout.{item.name}" in self.values:
                made[item.name] = getattr(self.layout, item.name)
                continue
            fact: Known[Any] = getattr(self.plan.effective, item.name)
            if fact.is_unset:
                continue  # the engine has no such thing
            known = fact.values
            if len(known) != 1:
                return None
            made[item.name] = known[0]
        return Layout(**made)

    def sized(self, layout: Layout | None = None, **settings: Any) -> tuple[Sized, ...]:
        """What one GPU holds, for each kind of memory that a possible release has.

        Of the layout and the settings of this world, or of others. Empty where that is not known.
        Only for rules that need "demand".
        """
        return self.sizes(layout or self.layout, settings) if self.sizes is not None else ()

    def speeds(
        self, layout: Layout | None = None, *, isl: int, osl: int, concurrency: int | None = None
    ) -> tuple[Speed, ...]:
        """How fast one replica is, for each kind of memory that a possible release has.

        Of the layout of this world or of another one; without `concurrency`, with as many requests
        as fit. Empty where that is not known or not modelled. Only for rules that need "demand".
        """
        told, own = self.plan.placement.link, self.device.link if self.device is not None else None
        if self.paces is None or (not told.is_unset and told.only != own):
            return ()  # the rate of another link than the card's own is not known
        return self.paces(layout or self.layout, isl, osl, concurrency)

    @property
    def lengths(self) -> tuple[int, int]:
        """Tokens in and out of one request: as stated, else the usual ones."""
        told = self.workload
        return told.get("isl", USUAL_LENGTHS[0]), told.get("osl", USUAL_LENGTHS[1])

    @property
    def loads(self) -> tuple[float | None, ...]:
        """Requests at a time for each GPU: as stated, else the usual ones; None: as many as fit."""
        asked, layout = self.workload.get("concurrency"), self.layout
        if asked is None:
            return USUAL_LOADS
        copies = (self.plan.fleet.replicas.only or 1) * layout.dp
        return (asked / (copies * layout.tp * layout.pp),)

    def rate(self, layout: Layout, load: float | None) -> tuple[float, float] | None:
        """Tokens a second for each GPU of one copy, least and most of the possible releases.

        None where layouts of this kind were not measured.
        """
        (isl, osl), alone = self.lengths, replace(layout, dp=1)
        asked = None if load is None else max(1, round(load * alone.tp * alone.pp))
        speeds = self.speeds(alone, isl=isl, osl=osl, concurrency=asked)
        rates = [speed.tok_s_per_gpu for speed in speeds if speed.measured]
        return (min(rates), max(rates)) if rates and len(rates) == len(speeds) else None

    @property
    def card(self) -> str:
        """The card by its name, for people."""
        return self.device.name if self.device is not None else "the card"

    def option_of(self, field: str) -> int | None:
        """The place of the one option that gives a layout field among those of the plan."""
        name = self.engine.flag_name(field)
        found = [at for at, flag in enumerate(self.plan.flags) if flag.flag == name]
        return found[0] if len(found) == 1 else None

    def origin(self, *fields: str) -> Origin:
        """The place of the first of these facts that was read from a file, else of the plan."""
        for name in fields:
            if (origin := self._place(name)) is not None:
                return origin
        return self.plan.origin

    def _place(self, name: str) -> Origin | None:
        """Where the value that counts was read: what is stated may not be what results."""
        if name.startswith("layout."):
            counts = getattr(self.plan.effective, name.removeprefix("layout."))
            if counts.how == "derived" and counts.origin is not None:
                return counts.origin  # type: ignore[no-any-return]
        return self.plan.fact(name).origin


@record(kw_only=True)
class RouterWorld:
    """One router with the plans behind it, also behind further routers.

    `before` are the routers that send it their requests, `beside` those that choose among some of
    the same plans.
    """

    router: Router
    plans: tuple[ServingPlan, ...] = ()
    before: tuple[Router, ...] = ()
    beside: tuple[Router, ...] = ()
    turnless: frozenset[str] = frozenset()
    """Ids of plans whose requests are no turns of a conversation: of vectors, scores, speech."""
    workload: Mapping[str, Any] = field(default_factory=dict)
    """What the user says of the requests: `[workload]` of the configuration."""


class Rule:
    """A check of one plan or one router.

    Subclasses set the class fields and write `check`. The module's docstring is the rule's page.
    `needs` names facts ("layout.tp", "model_facts", "placement.devices"); `check` runs once per
    world in which they are all decided, and otherwise the linter records *undecided*.
    """

    id: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity] = "warning"
    scope: ClassVar[Scope] = "plan"
    needs: ClassVar[tuple[str, ...]] = ()
    wants: ClassVar[tuple[str, ...]] = ()
    """Facts that the rule takes where they are decided, and does without otherwise."""
    told: ClassVar[tuple[str, ...]] = ()
    """Keys of `[workload]` without which the rule has nothing to say."""
    model: ClassVar[tuple[str, ...]] = ()
    """Fields of ModelFacts that the rule rests on; they must be known for it to be decided."""
    enabled: ClassVar[bool] = True
    gate: ClassVar[bool] = False
    partial: ClassVar[bool] = False
    """The rule finds what it can where fields of the model are missing."""
    anywhere: ClassVar[bool] = True
    """It also holds on accelerators for which an engine has other code than for usual GPUs."""
    fix: ClassVar[Applicability | None] = None

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        """Cheap test before anything is asked for; False leaves no trace of *undecided*."""
        return engine.checked

    def fields(self, engine: Engine) -> tuple[str, ...]:
        """The facts this rule needs of a plan of this engine."""
        return self.needs

    def lacks(self, model: ModelFacts) -> str | None:
        """The first field of the model that the rule needs and that is not known."""
        return next((name for name in self.model if getattr(model, name) is None), None)

    def settled(self, facts: Mapping[str, Known[Any]]) -> bool:
        """Whether nothing can be found whatever the missing facts are: no *undecided* then."""
        return False

    def check(self, world: World) -> Iterator[Found]:
        """Findings in one world of a plan; for scope "plan"."""
        yield from ()

    def check_plan(self, world: World) -> Iterator[Found]:
        """Findings that rest on no fact of `needs`, decided or not; for scope "plan".

        The world has nothing but the plan and its engine.
        """
        yield from ()

    def check_router(self, router: Router, plans: Sequence[ServingPlan]) -> Iterator[Found]:
        """Findings of one router and the plans behind it; for scope "router"."""
        yield from ()

    def check_routing(self, world: RouterWorld) -> Iterator[Found]:
        """The same with what stands around the router, and what is said of the requests."""
        return self.check_router(world.router, world.plans)

    def check_run(self, run: RunFacts) -> Iterator[Found]:
        """Findings about the run itself; for scope "run"."""
        yield from ()

    @classmethod
    def url(cls) -> str:
        """Where the page is published."""
        return f"{DOCS}/rules/{cls.name}.md"

    @classmethod
    def page(cls) -> str:
        """The documentation: the docstring of the rule's module."""
        return (sys.modules[cls.__module__].__doc__ or "").strip() + "\n"

    @classmethod
    def summary(cls) -> str:
        """The first paragraph of the page, on one line."""
        return " ".join(cls.page().split("\n\n", 1)[0].split())


class LayoutRule(Rule):
    """A rule about the layout: it needs the fields that the engine declares for its name.

    With fields in `model` it needs the shape of the model too. An engine that declares no field is
    not judged.
    """

    anywhere: ClassVar[bool] = False

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return engine.checked and engine.reads(self.name) is not None

    def fields(self, engine: Engine) -> tuple[str, ...]:
        layout = tuple(f"layout.{name}" for name in engine.reads(self.name) or ())
        return layout + (("model_facts",) if self.model else ()) + self.needs

    def settled(self, facts: Mapping[str, Known[Any]]) -> bool:
        """With every degree at 1 there is nothing to divide or to copy."""
        default = Layout()
        layout = {name: fact for name, fact in facts.items() if name.startswith("layout.")}
        return all(
            fact.cases and set(fact.values) == {getattr(default, name.removeprefix("layout."))}
            for name, fact in layout.items()
        )


class ConstraintRule(LayoutRule):
    """A rule whose numbers, places and refusal come with the engine's constraints of its name.

    A subclass writes a message template over `Constraint` (`{left}`, `{right}`, `{subject}`) plus
    `{says}`: what happens and the engine's own words. A constraint with a sentence of its own is
    told by that.
    """

    severity: ClassVar[Severity] = "error"
    partial: ClassVar[bool] = True
    message: ClassVar[str] = "{sentence}; {says}"

    def check(self, world: World) -> Iterator[Found]:
        for constraint in world.constraints(self.name):
            if not constraint.holds and not constraint.advisory:
                yield self.found(constraint, world)

    def found(self, constraint: Constraint, world: World) -> Found:
        places = constraint.places or tuple(f"layout.{name}" for name in constraint.cures)
        return Found(
            message=self.text(constraint, world),
            at=world.origin(*places),
            severity=None if constraint.severity == "error" else constraint.severity,
            help=remedies(world, constraint),
            repair=self.repair(constraint, world),
            since=constraint.since,
            until=constraint.until,
            facts=constraint.facts,
            of_model=bool(constraint.facts or self.model),
        )

    def repair(self, constraint: Constraint, world: World) -> Repair | None:
        """What the engine names, then another layout; without the option where only that would
        do."""
        found = list(self._repairs(constraint, world))
        return replace(found[0], also=tuple(found[1:])) if found else None

    def _repairs(self, constraint: Constraint, world: World) -> Iterator[Repair]:
        spans = world.plan.versions.values
        known = bool(spans) and all(span.within(constraint.add_since, None) for span in spans)
        if constraint.add and known:
            yield Repair("add", value=constraint.add)
        if constraint.sets:
            yield Repair("fields", values=constraint.sets)
        alone = constraint.cures and set(constraint.cures) <= {"ep", "dcp"}
        if (drop := constraint.drop or (constraint.cures[0] if alone else None)) is not None:
            index = world.option_of(drop)
            if index is not None:
                default = getattr(Layout(), drop, None)
                left = ((drop, default),) if default is not None else ()
                yield Repair("option", f"option:{index}", values=left)
        elif constraint.cures:
            yield Repair("layout")

    def text(self, constraint: Constraint, world: World) -> str:
        if constraint.sentence is not None:
            return f"{filled(constraint.sentence, constraint)}; {says(world, constraint)}"
        told = {"left": constraint.left, "right": constraint.right}
        return self.message.format(**told, subject=constraint.subject, says=says(world, constraint))


def remedies(world: World, constraint: Constraint) -> str | None:
    """The sizes that are accepted where this one is not, and what else there is to do."""
    found = sizes(world, constraint.cures) if constraint.refuses else None
    return "; or ".join(filter(None, (found, constraint.remedy))) or None


def filled(sentence: str, constraint: Constraint) -> str:
    """The sentence with its numbers. It may hold words of a file, so that it is no template."""
    for name, number in (("left", constraint.left), ("right", constraint.right)):
        sentence = sentence.replace(f"{{{name}}}", str(number))
        sentence = sentence.replace(f"{{{name}:,}}", f"{number:,}")
    return sentence


def says(world: World, constraint: Constraint) -> str:
    """What happens, and the engine's own words: "vLLM refuses to start ('must be ...')".

    The words are quoted only if every release that the plan can mean says them.
    """
    since = constraint.refusal_since
    releases = world.plan.versions.values
    certain = not since or (releases and all(item.within(since, None) for item in releases))
    quoted = f" ('{constraint.refusal}')" if constraint.refusal and certain else ""
    return f"{world.engine.label} {constraint.consequence}{quoted}"


WORDS = {"tp": "tensor parallel size", "pp": "pipeline parallel size"}
"""Layout fields as prose names them, where a smaller value is a cure."""

MOST_RANKS = 1024
"""Larger degrees are not tried: no group of GPUs that serves one model comes near."""


def sizes(world: World, cures: tuple[str, ...]) -> str | None:
    """The values up to the present one that satisfy every constraint: "size 4, 2 or 1"."""
    if not cures or cures[0] not in WORDS:
        return None
    present = min(MOST_RANKS, int(getattr(world.layout, cures[0])))
    found = [str(value) for value in accepted(world, cures[0], range(present, 0, -1))][:5]
    if not found:
        return None
    listed = found[0] if len(found) == 1 else f"{', '.join(found[:-1])} or {found[-1]}"
    return f"{WORDS[cures[0]]} {listed}"


def accepted(world: World, field: str, candidates: Iterable[int]) -> list[int]:
    """Values of one layout field that break no constraint but the count of GPUs."""
    found = []
    present = world.whole or world.layout
    for value in candidates:
        change: dict[str, Any] = {field: value}
        layout = replace(present, **change)
        ranks = world.engine.ranks(layout, world.model, None)
        constraints = world.engine.constraints(
            world.model, ranks, layout, world.options, world.device
        )
        if not any(constraint.refuses for constraint in constraints):
            found.append(value)
    return found


# --------------------------------------------------------------------------- what a run yields


@record
class Fix:
    """A change that clears a finding: `delta` says what changes, `edits` how the text changes.

    `estimate` holds exact numbers by name, unit last: {"kv_bytes": {"before": 2, "after": 1}}.
    """

    title: str
    applicability: Applicability
    delta: Mapping[str, Any]
    edits: tuple[Edit, ...]
    estimate: Mapping[str, Any] = field(default_factory=dict)


@record
class Related:
    file: str
    start: Position
    end: Position
    message: str


@record(kw_only=True)
class Finding:
    """One finding, ready to be printed."""

    rule: str
    name: str
    severity: Severity
    message: str
    file: str
    start: Position
    end: Position
    span: Span
    plan: str | None = None
    path: str | None = None
    plans: tuple[str, ...] = ()
    """All plans in which it was found: several where they are made from one file."""
    assumes: tuple[str, ...] = ()
    related: tuple[Related, ...] = ()
    help: str | None = None
    url: str | None = None
    fingerprint: str = ""
    fixes: tuple[Fix, ...] = ()

    @property
    def confidence(self) -> Literal["certain", "assumed"]:
        return "assumed" if self.assumes else "certain"


@record(order=True)
class UndecidedRule:
    """A rule that could not be decided for a plan, the fact it needs and why that is missing."""

    plan: str
    rule: str
    name: str
    needs: str
    reason: str


@record(kw_only=True)
class Result:
    """Everything that one run has to say.

    Findings are in order of file, place, rule; `undecided` and `skipped` are in order too.
    `sources` has every file that a fix edits; `rules` are all that could find something.
    """

    findings: tuple[Finding, ...]
    undecided: tuple[UndecidedRule, ...]
    suppressed: int
    files: int
    plans: int
    failed: bool = False
    """A rule or reader raised while it worked: what it would have found is missing."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Files that were not read, with the reason."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    rules: tuple[type[Rule], ...] = ()

    def count(self, severity: Severity) -> int:
        return sum(1 for finding in self.findings if finding.severity == severity)

    def worst_first(self) -> list[Finding]:
        return sorted(self.findings, key=lambda finding: SEVERITIES.index(finding.severity))

    def reaches(self, severity: Severity) -> bool:
        """Whether a finding is as bad as `severity` or worse."""
        levels = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(finding.severity in levels for finding in self.findings)

    def summary(self) -> dict[str, int]:
        return {
            "files": self.files,
            "plans": self.plans,
            "errors": self.count("error"),
            "warnings": self.count("warning"),
            "infos": self.count("info"),
            "suppressed": self.suppressed,
            "undecided": len(self.undecided),
            "skipped": len(self.skipped),
        }


class Report(Protocol):
    """One output format: a pure function from a result to text."""

    name: str

    def write(self, result: Result, out: TextIO) -> None: ...


# ------------------------------------------------------------------------------------ readers


@record(kw_only=True)
class Hardware:
    """What the user says of the machines; it fills only what the files leave open."""

    gpu: Known[Device] = Known.unset()
    gpus_per_node: Known[int] = Known.unset()
    nodes: Known[int] = Known.unset()
    network: Known[str] = Known.unset()
    link: Known[str] = Known.unset()


class Files(Protocol):
    """The files of the run, for what one file names in another. Nothing else is opened."""

    def beside(self, source: Source, path: str) -> Source | None:
        """The file at a path relative to that of `source`; None where it is not to be read."""
        ...

    def holding(self, kind: str) -> Iterator[Source]:
        """Files that hold Kubernetes objects of a kind."""
        ...

    def below(self, source: Source, path: str) -> tuple[str, ...]:
        """The names of files in a folder that is named relative to `source`, and below it."""
        ...


class NoFiles:
    """There is nothing but the text that is read."""

    def beside(self, source: Source, path: str) -> Source | None:
        return None

    def holding(self, kind: str) -> Iterator[Source]:
        return iter(())

    def below(self, source: Source, path: str) -> tuple[str, ...]:
        return ()


@record(kw_only=True)
class ReadContext:
    """What a reader may ask for: engines, names of devices, other files of the run."""

    engines: tuple[Engine, ...]
    device: Callable[[str], Known[Device]]
    """Name, label or instance type to device; unknown if the name means nothing."""
    labels: Callable[[Mapping[str, tuple[str, ...]]], tuple[str | None, Known[Device]]]
    """Node labels with their possible values to the key that names the card, and the card."""
    node_size: Callable[[Mapping[str, tuple[str, ...]]], Known[int]]
    """Node labels to the number of devices of such a node; unknown if they do not tell."""
    told: Mapping[str, str] = field(default_factory=dict)
    """The release of an engine that the user names; it counts where the file states none."""
    platforms: tuple[Platform, ...] = ()
    told_platforms: Mapping[str, str] = field(default_factory=dict)
    """The release of a platform that the user names, by its name."""
    files: Files = NoFiles()
    readers: tuple[Reader, ...] = ()
    """All readers: some can be asked for one object that another one put together."""
    overlays: tuple[tuple[str, ...], ...] = ()
    """Files of values that are deployed as one, by name: a later one wins."""
    siblings: tuple[Any, ...] = ()
    """The objects of the same file, or built along (`readers.objects.Object`)."""

    def releases(self, engine: Engine, tag: Known[str] | None = None) -> Known[Releases]:
        """The releases that an engine can have: of its image's tag, else as told, else all."""
        found = engine.versions(Known.unset() if tag is None else tag)
        names = [name for name in (engine.name, *engine.aliases) if name in self.told]
        if found.how != "defaulted" or not names:
            return found
        return engine.versions(Known.of(self.told[names[0]]))

    def platform(self, name: str, stated: Known[str] | None = None) -> Known[Releases]:
        """The releases that a platform can have: as a file states, else as told, else as read."""
        found = next((one for one in self.platforms if name in (one.name, *one.aliases)), None)
        if stated is not None and stated.only is not None and (span := series(stated.only)):
            return replace(Known.of(span), origin=stated.origin, related=stated.related)
        told = self.told_platforms.get(found.name if found is not None else name)
        if told is not None and (span := series(told)) is not None:
            return Known.of(span, how="derived")
        if found is None or found.releases is None:
            return Known.unset()
        return Known.of(found.releases, how="defaulted")


@record
class Problem:
    """A place that could not be read, and why."""

    origin: Origin
    message: str
    severity: Severity = "error"


@record
class Absorbed:
    """An object in another file that is seen through this one: what is its own is left out.

    `path` is the start of the paths of its plans and routers; empty: everything in the file.
    """

    file: str
    path: str = ""


@record(kw_only=True)
class ReadResult:
    """What a reader found in one file; `skipped` says why it did not read it at all."""

    plans: tuple[ServingPlan, ...] = ()
    routers: tuple[Router, ...] = ()
    problems: tuple[Problem, ...] = ()
    absorbs: tuple[Absorbed, ...] = ()
    scalers: tuple[Scaler, ...] = ()
    skipped: str | None = None
    instead: bool = False
    """What other readers find in the file does not count."""


@record
class Unused:
    """A suppression that suppressed nothing; `unknown`: it names no rule at all."""

    origin: Origin
    selector: str
    unknown: bool = False


@record(kw_only=True)
class RunFacts:
    """What happened in a run beside plans and routers."""

    problems: tuple[Problem, ...] = ()
    broken: tuple[BrokenPlugin, ...] = ()
    unused: tuple[Unused, ...] = ()


class Platform(Protocol):
    """An operator, a chart or cluster software that makes pods of what a file says.

    `releases` are those that its facts were read in, None where none is named. Readers ask
    `ReadContext.platform` for the release, and decide by it what differs among releases.
    """

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    @property
    def releases(self) -> Releases | None: ...


class Reader(Protocol):
    """One family of file formats.

    `look` are bytes that every file of the format holds: when a folder is searched, only files with
    them, or with the words of the built-in formats, are read. None: the built-in words will do.
    A reader can also have `names`: files of these names are read whatever they hold; and `kinds`:
    what it reads, in the words of the documentation, where each of them has an example.
    """

    name: str
    look: bytes | None

    def accepts(self, source: Source) -> bool:
        """A cheap look at the text: could this reader find a plan in it?"""
        ...

    def read(self, source: Source, context: ReadContext) -> ReadResult: ...


# -------------------------------------------------------------------------------------- hooks


class Hooks:
    """The hooks of the `shardlint` entry-point group."""

    @hookspec
    def shardlint_rules(self) -> Iterable[type[Rule]]:  # type: ignore[empty-body]
        """Rule classes to run beside the built-in ones."""

    @hookspec
    def shardlint_engines(self) -> Iterable[Engine]:  # type: ignore[empty-body]
        """Engines; the first one that recognises a launch reads it."""

    @hookspec
    def shardlint_readers(self) -> Iterable[Reader]:  # type: ignore[empty-body]
        """Readers of further file formats, asked in order."""

    @hookspec
    def shardlint_platforms(self) -> Iterable[Platform]:  # type: ignore[empty-body]
        """Platforms, whose releases the user may tell of."""

    @hookspec
    def shardlint_models(self) -> Iterable[Mapping[str, Any]]:  # type: ignore[empty-body]
        """Model facts to add to the catalogue, one mapping per model with its `id`."""

    @hookspec
    def shardlint_hardware(self) -> Iterable[Device]:  # type: ignore[empty-body]
        """Devices to add to the table."""

    @hookspec
    def shardlint_reports(self) -> Iterable[Report]:  # type: ignore[empty-body]
        """Output formats, selected by their name with `--format`."""


@record
class BrokenPlugin:
    """A plugin that could not be loaded or asked, with what it raised."""

    name: str
    version: str | None
    error: str


class Plugins:
    """All registered plugins. Loaded once per run; a broken one is kept apart and reported."""

    def __init__(self, builtins: Iterable[ModuleType | object] = (), discover: bool = True) -> None:
        self._manager = pluggy.PluginManager(GROUP)
        self._manager.add_hookspecs(Hooks)
        self.broken: list[BrokenPlugin] = []
        for plugin in builtins:
            self._manager.register(plugin)
        if discover:
            self._discover()

    def _discover(self) -> None:
        """Load third parties one by one: a fence, so that one broken plugin stops nobody else."""
        for entry in sorted(entry_points(sys.path)):
            name = f"{entry.distribution} {entry.name}"
            try:
                self._manager.register(entry.load(), name=name)
                self._manager.check_pending()
            except Exception as error:  # fence: a plugin may raise anything
                if self._manager.has_plugin(name):
                    self._manager.unregister(name=name)
                self.broken.append(BrokenPlugin(name, entry.version, _what(error)))

    def _ask(self, hook: str) -> list[Any]:
        """Every item of one hook, plugin by plugin: a fence around each of them."""
        items: list[Any] = []
        for impl in getattr(self._manager.hook, hook).get_hookimpls():
            try:
                items.extend(impl.function())
            except Exception as error:  # fence: a plugin may raise anything
                self._note(BrokenPlugin(impl.plugin_name, None, f"{hook}: {_what(error)}"))
        return items

    def _note(self, broken: BrokenPlugin) -> None:
        """Hooks are asked more than once in a run; what is wrong with them is told once."""
        if broken not in self.broken:
            self.broken.append(broken)

    def rules(self) -> tuple[type[Rule], ...]:
        """All rules in order of their id; a second rule of one id or name is refused."""
        found: dict[str, type[Rule]] = {}
        for rule in self._ask("shardlint_rules"):
            if (fault := _fault(rule, found)) is None:
                found[rule.id] = rule
            else:
                self._note(BrokenPlugin(getattr(rule, "__module__", "a plugin"), None, fault))
        return tuple(found[key] for key in sorted(found))

    def engines(self) -> tuple[Engine, ...]:
        return tuple(self._ask("shardlint_engines"))

    def readers(self) -> tuple[Reader, ...]:
        return tuple(self._ask("shardlint_readers"))

    def platforms(self) -> tuple[Platform, ...]:
        return tuple(self._ask("shardlint_platforms"))

    def models(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self._ask("shardlint_models"))

    def hardware(self) -> tuple[Device, ...]:
        return tuple(self._ask("shardlint_hardware"))

    def reports(self) -> dict[str, Report]:
        return {report.name: report for report in self._ask("shardlint_reports")}


def _fault(rule: Any, others: Mapping[str, type[Rule]]) -> str | None:
    """Why this cannot be one more rule."""
    named = isinstance(rule, type) and issubclass(rule, Rule)
    if not named or not all(isinstance(getattr(rule, key, None), str) for key in ("id", "name")):
        return f"{rule!r} is no rule with an id and a name"
    taken = rule.id in others or any(rule.name == other.name for other in others.values())
    return f"rule {rule.id} {rule.name} exists already" if taken else None


class EntryPoint(NamedTuple):
    """One line of the group in an installed distribution's entry_points.txt."""

    distribution: str
    name: str
    value: str
    version: str | None

    def load(self) -> Any:
        """The module, or the attribute after the colon."""
        module, _, attribute = self.value.partition(":")
        loaded: Any = import_module(module.strip())
        for part in filter(None, attribute.strip().split(".")):
            loaded = getattr(loaded, part)
        return loaded


def entry_points(paths: Iterable[str]) -> set[EntryPoint]:
    """The group's entry points of all distributions on these paths.

    importlib.metadata finds the same and takes longer than linting a file: it parses every
    distribution. Here only the files that name the group are read further.
    """
    found: dict[tuple[str, str], EntryPoint] = {}
    for path in dict.fromkeys(paths):
        try:
            folders = [item.path for item in os.scandir(path or ".") if item.name.endswith(INFO)]
        except OSError:
            continue
        for folder in folders:
            for entry in _entries_of(folder):
                found.setdefault((entry.distribution, entry.name), entry)
    return set(found.values())


def _entries_of(folder: str) -> Iterator[EntryPoint]:
    try:
        with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - half the time of a Path for each of a hundred folders
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return
    if f"[{GROUP}]" not in text:
        return
    section = text.split(f"[{GROUP}]", 1)[1].split("\n[", 1)[0]
    stem = os.path.basename(folder).rpartition(".")[0]  # noqa: PTH119
    distribution, _, version = stem.partition("-")
    for line in section.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.lstrip().startswith(("#", ";")):
            release = version.partition("-")[0] or None
            yield EntryPoint(distribution, name.strip(), value.strip(), release)


def _what(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".strip().splitlines()[0]

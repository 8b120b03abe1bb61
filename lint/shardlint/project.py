"""A snapshot of what is linted: files read, plans linked with models, devices and routers.

A project never changes. `update` gives a new one in which one text is replaced; the readings of all
other files are kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from shardlint import links, relations
from shardlint.config import Settings, excluded
from shardlint.engine import Engine
from shardlint.known import Known
from shardlint.library import LOOK, MAX_BYTES, Asked, Library, kinds
from shardlint.plan import (
    RAY_JOINS,
    RAY_UNASKED,
    Device,
    ModelFacts,
    Neighbour,
    Placement,
    Releases,
    Router,
    Scaler,
    ServingPlan,
    series,
)
from shardlint.plugins import (
    Absorbed,
    BrokenPlugin,
    Hardware,
    Platform,
    Plugins,
    Problem,
    ReadContext,
    Reader,
    ReadResult,
)
from shardlint.record import record
from shardlint.source import DecodeError, Origin, Source, Span

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from shardlint.hardware.pools import Pool, Taken
    from shardlint.hardware.table import Devices
    from shardlint.models.catalogue import Catalogue
    from shardlint.models.hub import Hub

NEVER = frozenset({".git", ".hg", ".svn", "node_modules", ".venv", "venv", "__pycache__", ".tox"})


Owned = TypeVar("Owned", ServingPlan, Router, Scaler)


class PathError(Exception):
    """A given path cannot be read."""


@record
class Setup:
    """Everything that reading needs beside the files: plugins, settings, tables."""

    plugins: Plugins
    settings: Settings = field(default_factory=Settings)
    hardware: Hardware = Hardware()
    """What is said of the machines by the command line, over the table [hardware]."""
    asked: Hardware = Hardware()
    """What of it the command line says, which wins over a pool too."""

    @cached_property
    def engines(self) -> tuple[Engine, ...]:
        return self.plugins.engines()

    @cached_property
    def platforms(self) -> tuple[Platform, ...]:
        return self.plugins.platforms()

    def platform(self, name: str) -> Platform | None:
        """A platform by its name or another name of it."""
        return next((one for one in self.platforms if name in (one.name, *one.aliases)), None)

    @cached_property
    def readers(self) -> tuple[Reader, ...]:
        return self.plugins.readers()

    @cached_property
    def devices(self) -> Devices:
        from shardlint.hardware.table import Devices

        return Devices(extra=self.plugins.hardware(), custom=self.settings.gpus)

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        """The pools of the configuration; raises ConfigError."""
        if not self.settings.pools:
            return ()
        from shardlint.hardware.pools import pools

        return pools(self.settings, self.devices)

    def taken(self, placement: Placement) -> Taken | None:
        """The pools that a plan can run on, None where there are none or it takes no GPU."""
        if not self.pools or not placement.wants_gpu:
            return None
        from shardlint.hardware.pools import taken

        return taken(self.pools, placement, self.asked.gpu)

    @cached_property
    def catalogue(self) -> Catalogue:
        from shardlint.models.catalogue import Catalogue

        return Catalogue(self.settings.models, self.plugins.models(), self.settings.folder)

    @cached_property
    def context(self) -> ReadContext:
        return ReadContext(
            engines=self.engines,
            device=lambda name: self.devices.find(name),
            labels=self._labelled,
            node_size=lambda labels: self.devices.count_from_labels(labels),
            told=self.settings.engines,
            platforms=self.platforms,
            overlays=self.overlays,
            told_platforms={
                platform.name: release
                for name, release in self.settings.platforms.items()
                if (platform := self.platform(name)) is not None
            },
        )

    @cached_property
    def overlays(self) -> tuple[tuple[str, ...], ...]:
        """The names of the files of each [[overlay]]."""
        root, folder = Path.cwd().resolve(), self.settings.folder
        return tuple(
            tuple(
                _display(root / folder / file, root, str(folder / file)) for file in table["files"]
            )
            for table in self.settings.overlays
        )

    @cached_property
    def hub(self) -> Hub:
        from shardlint.models.hub import Hub

        return Hub()

    def resolved(
        self, reference: str, facts: ModelFacts | None, revision: Known[str] | None = None
    ) -> ModelFacts | None:
        """Certain facts as they are, else those of the Hub, if it may be asked, else a guess.

        Raises ModelError if the Hub was asked in vain and there is nothing else.
        """
        if facts is not None and not facts.assumed:
            return facts
        from shardlint.models.errors import ModelError

        try:
            return self._from_hub(reference, revision) or facts or self.catalogue.guess(reference)
        except ModelError as error:
            otherwise = facts or self.catalogue.guess(reference)
            if otherwise is None:
                raise
            return replace(otherwise, assumed=(*otherwise.assumed, str(error)))

    def _from_hub(self, reference: str, revision: Known[str] | None) -> ModelFacts | None:
        """None if the Hub may not be asked, or the reference cannot be an id there."""
        if not self.settings.online:
            return None
        from shardlint.models.catalogue import hub_id
        from shardlint.models.hub import is_hub_id

        id = hub_id(reference)
        return self.hub.facts(id, _decided(revision)) if is_hub_id(id) else None

    def _labelled(self, labels: Mapping[str, tuple[str, ...]]) -> tuple[str | None, Known[Device]]:
        if not labels:
            return None, Known.unset()
        return self.devices.naming_label(labels), self.devices.from_labels(labels)

    def engine(self, name: str | None) -> Engine | None:
        for engine in self.engines:
            if name == engine.name or name in engine.aliases:
                return engine
        return None


def _decided(revision: Known[str] | None) -> str | None:
    """The revision to ask for, None where none is stated; raises ModelError if it is not known."""
    if revision is None or revision.is_unset:
        return None
    if revision.only is None:
        from shardlint.models.errors import ModelError

        raise ModelError(f"its revision is not known: {revision.reason or 'not decided'}")
    return revision.only


@record
class Reading:
    """One file as its readers saw it."""

    source: Source
    plans: tuple[ServingPlan, ...] = ()
    routers: tuple[Router, ...] = ()
    problems: tuple[Problem, ...] = ()
    broken: tuple[BrokenPlugin, ...] = ()
    skipped: str | None = None
    absorbs: tuple[Absorbed, ...] = ()
    scalers: tuple[Scaler, ...] = ()
    names: frozenset[str] = frozenset()
    """Other files that it was read with."""
    kinds: frozenset[str] = frozenset()
    """Kinds of objects that were looked for in all files."""


@record
class Project:
    setup: Setup
    readings: Mapping[str, Reading]
    paths: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))
    library: Library = field(default_factory=Library)
    before: Project | None = None
    """The project at the revision that it is compared with."""

    @classmethod
    def discover(cls, setup: Setup, paths: Iterable[str], root: Path | None = None) -> Project:
        """Read the files at these paths; raises PathError for one that is not there."""
        root = (root or Path.cwd()).resolve()
        listed: dict[str, tuple[Path, bool]] = {}
        for path, name, given in _files(paths, root, setup.settings):
            listed.setdefault(name, (path, given))
        library = Library({name: path for name, (path, _) in listed.items()})
        readings: dict[str, Reading] = {}
        for name, (path, given) in sorted(listed.items()):
            reading = _read_path(setup, path, name, given, library)
            if reading is not None:
                readings[name] = reading
        beside = frozenset().union(*(item.names for item in readings.values()))
        found = {name: path for name, (path, _) in listed.items()
                 if name in readings or name in beside}  # fmt: skip
        return cls(setup, MappingProxyType(readings), MappingProxyType(found), library)

    @classmethod
    def of_texts(cls, setup: Setup, texts: Mapping[str, str]) -> Project:
        """A project of texts that are not in files: standard input, an editor, a test."""
        sources = {name: Source(name, text) for name, text in texts.items()}
        library = Library(texts=sources)
        readings = {name: read_source(setup, item, library) for name, item in sources.items()}
        return cls(setup, MappingProxyType(readings), library=library)

    def update(self, name: str, text: str) -> Project:
        """The project with one text replaced; files that were read with it are read again."""
        old = self.readings.get(name)
        before = old.source if old else self.sources.get(name)
        source = Source(name, text, before.bom if before else False)
        library = self.library.replaced(source)
        touched = kinds(text.encode()) | (kinds(before.text.encode()) if before else frozenset())
        changed = dict(self.readings)
        if old is not None or name not in self.paths:  # else it is no manifest of its own
            changed[name] = read_source(self.setup, source, library)
        for other, reading in self.readings.items():
            if other != name and (name in reading.names or touched & reading.kinds):
                changed[other] = read_source(self.setup, reading.source, library)
        return Project(self.setup, MappingProxyType(changed), self.paths, library, self.before)

    def changed(self, texts: Mapping[str, Source | None]) -> Project:
        """The project with other texts in some of its files; None: the file is not there."""
        library = self.library.changed(texts)
        others = [text.text.encode() for text in texts.values() if text is not None]
        others += [self.sources[name].text.encode() for name in texts if name in self.sources]
        touched = frozenset[str]().union(*(kinds(data) for data in others))
        readings: dict[str, Reading] = {}
        for name, reading in self.readings.items():
            if name not in texts:
                again = texts.keys() & reading.names or touched & reading.kinds
                readings[name] = (
                    read_source(self.setup, reading.source, library) if again else reading
                )
        for name, text in texts.items():
            if text is not None and (name in self.readings or name not in self.sources):
                readings[name] = read_source(self.setup, text, library)
        ordered = MappingProxyType(dict(sorted(readings.items())))
        return Project(self.setup, ordered, self.paths, library)

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """The texts of the files that were read, and of those that they were read with."""
        found: dict[str, Source] = {}
        for name in sorted(frozenset().union(*(item.names for item in self.readings.values()))):
            if (source := self.library.source(name)) is not None:
                found[name] = source
        return MappingProxyType(found | {n: item.source for n, item in self.readings.items()})

    @cached_property
    def plans(self) -> tuple[ServingPlan, ...]:
        """Plans with model facts, devices and versions where the files leave them open."""
        scalers: dict[tuple[str, str, str], list[Scaler]] = {}
        for reading in self.readings.values():
            for scaler in self._own(reading.scalers):
                scalers.setdefault(scaler.target, []).append(scaler)
        read = (_scaled(_enriched(plan, self), scalers) for plan in self._read())
        found = relations.related(tuple(_beside(list(read), self)))
        return found if self.before is None else tuple(_compared(found, self.before.plans))

    @cached_property
    def _hidden(self) -> Mapping[str, tuple[str, ...]]:
        """The starts of the paths that are seen through another file, by their own file."""
        hidden: dict[str, dict[str, None]] = {}
        for reading in self.readings.values():
            for item in reading.absorbs:
                hidden.setdefault(item.file, {})[item.path] = None
        return {name: tuple(paths) for name, paths in hidden.items()}

    def _own(self, items: Iterable[Owned]) -> Iterator[Owned]:
        """Plans, routers or scalers without those that are seen through another file."""
        hidden = self._hidden
        return (item for item in items if not f"{item.path}/".startswith(hidden.get(item.file, ())))

    def _read(self) -> Iterator[ServingPlan]:
        for reading in self.readings.values():
            yield from self._own(reading.plans)

    @cached_property
    def routers(self) -> tuple[Router, ...]:
        """Routers with the plans and routers that stand behind them."""
        every = (router for reading in self.readings.values() for router in reading.routers)
        return links.resolved(tuple(self._own(every)), self.plans, self.setup.engine)

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """Each once: a file that several others use is read for each of them."""
        every = (item for reading in self.readings.values() for item in reading.problems)
        return tuple(dict.fromkeys(every))

    @cached_property
    def broken(self) -> tuple[BrokenPlugin, ...]:
        """Readers that raised, and models of plugins that cannot be used."""
        models = self.setup.catalogue.problems if self.setup.plugins.models() else ()
        readers = (item for reading in self.readings.values() for item in reading.broken)
        return (*readers, *(BrokenPlugin("models of plugins", None, what) for what in models))

    @cached_property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        return tuple((n, item.skipped) for n, item in self.readings.items() if item.skipped)


# ----------------------------------------------------------------------------------- discovery


def _files(
    paths: Iterable[str], root: Path, settings: Settings
) -> Iterator[tuple[Path, str, bool]]:
    """Files to read, their names, and whether each was named itself."""
    for text in paths:
        path = root / text
        if path.is_dir():
            for file in _walk(path, settings):
                below = file.relative_to(path)
                yield file, _display(file, root, f"{text}/{below}"), False
        elif path.exists():
            yield path, _display(path, root, text), True
        else:
            raise PathError(f"{text}: no such file or folder")


def _walk(top: Path, settings: Settings) -> Iterator[Path]:
    """Files below a folder, in order of their names, without what .gitignore leaves out."""
    todo: list[tuple[Path, list[tuple[Path, GitIgnoreSpec]]]] = [(top, _ignores_above(top))]
    while todo:
        folder, inherited = todo.pop()
        own = folder / ".gitignore"
        rules = inherited
        if own.is_file():
            rules = [*inherited, (folder, _spec(_lines(own)))]
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name, reverse=True)
        except OSError:
            continue
        files: list[Path] = []
        for entry in entries:
            path = Path(entry.path)
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name in NEVER or _ignored(path, is_folder, rules):
                continue
            if settings.exclude and excluded(settings, path):
                continue
            if is_folder:
                todo.append((path, rules))
            elif entry.is_file():
                files.append(path)
        yield from reversed(files)


def _ignores_above(top: Path) -> list[tuple[Path, GitIgnoreSpec]]:
    """Ignore files of the folders above, up to the repository's top."""
    found: list[tuple[Path, GitIgnoreSpec]] = []
    for folder in top.parents if not (top / ".git").exists() else ():
        if (folder / ".gitignore").is_file():
            found.append((folder, _spec(_lines(folder / ".gitignore"))))
        if (folder / ".git").exists():
            return list(reversed(found))
    return []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _spec(lines: Iterable[str]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def _ignored(path: Path, is_folder: bool, rules: list[tuple[Path, GitIgnoreSpec]]) -> bool:
    """The last ignore file that has a say decides."""
    verdict = False
    for folder, spec in rules:
        name = path.relative_to(folder).as_posix() + ("/" if is_folder else "")
        result = spec.check_file(name)
        if result.include is not None:
            verdict = result.include
    return verdict


def displayed(path: Path, root: Path) -> str:
    """The name under which a file is told."""
    return _display(path, root, str(path))


def _display(path: Path, root: Path, given: str) -> str:
    """Relative to the working folder with forward slashes, else as it was given."""
    for spelled in (Path(os.path.normpath(path)), path.resolve()):
        if spelled.is_relative_to(root):
            return spelled.relative_to(root).as_posix()
    return Path(given).as_posix()


# ------------------------------------------------------------------------------------- reading


def _read_path(
    setup: Setup, path: Path, name: str, given: bool, library: Library
) -> Reading | None:
    """Read one file; None if it was not named itself and cannot hold a plan."""
    try:
        if path.stat().st_size > MAX_BYTES:
            if not given and path.suffix.lower() not in (".yaml", ".yml"):
                return None
            return _unread(name, f"larger than the {MAX_BYTES // 2**20} MiB that are read")
        data = path.read_bytes()
    except OSError as error:
        if given:
            raise PathError(f"{name}: {error.strerror or error}") from None
        return _unread(name, f"cannot be opened ({error.strerror or error})")
    looks = given or _looks(setup, data)
    if not given and b"\0" in data[:8192] and not (looks and _is_manifest(path)):
        return None
    layered = any(name in files for files in setup.overlays)
    if not looks and not layered and not _named(setup, path):
        return None
    reading = read_bytes(setup, name, data, library)
    told = reading.plans or reading.problems or reading.absorbs or reading.broken
    if not looks and not (told or reading.skipped):
        return None  # its name alone promised something
    return _with_syntax(reading) if given else reading


def _named(setup: Setup, path: Path) -> bool:
    """A reader asks for files of this name."""
    return any(path.name in getattr(reader, "names", ()) for reader in setup.readers)


def _looks(setup: Setup, data: bytes) -> bool:
    """The cheap look: words of the built-in formats, or those of a plugin's reader."""
    if LOOK.search(data):
        return True
    if any(engine.name.encode() in data for engine in setup.engines):
        return True
    return any(reader.look in data for reader in setup.readers if reader.look)


def _with_syntax(reading: Reading) -> Reading:
    """A file named by the user is not passed over in silence when it is no YAML at all."""
    source = reading.source
    silent = not (reading.plans or reading.routers or reading.problems or reading.skipped)
    if not silent or Path(source.name).suffix.lower() not in (".yaml", ".yml", ".json"):
        return reading
    from shardlint.readers.yaml_tree import YamlError, documents

    try:
        documents(source)
    except YamlError as error:
        problem = Problem(Origin(source.name, error.span), str(error))
        return replace(reading, problems=(problem,))
    return reading


def _is_manifest(path: Path) -> bool:
    """By its name: only such a file is missed when it cannot be read."""
    return path.suffix.lower() in (".yaml", ".yml", ".json", ".sh")


def _unread(name: str, message: str) -> Reading:
    source = Source(name, "")
    problem = Problem(Origin(name, Span(0, 0)), message, "warning")
    return Reading(source, problems=(problem,))


def read_bytes(setup: Setup, name: str, data: bytes, library: Library | None = None) -> Reading:
    """Decode and read one file; what cannot be decoded is a problem, not an exception."""
    if b"\0" in data[:8192]:
        return _unread(name, "a binary file")
    try:
        source = Source.from_bytes(name, data)
    except DecodeError as error:
        # The places stay right: one byte that is no UTF-8 becomes one replacement character.
        text = data.decode("utf-8-sig", "replace")
        source = Source(name, text)
        at = source.offset(error.line, error.column)
        problem = Problem(Origin(name, Span(at, at + 1)), str(error), "warning")
        return Reading(source, problems=(problem,))
    return read_source(setup, source, library)


def read_source(setup: Setup, source: Source, library: Library | None = None) -> Reading:
    """Ask every reader that accepts the text. One that raises is reported; the others go on."""
    asked = Asked(library or Library())
    context = replace(setup.context, files=asked, readers=setup.readers)
    results: list[ReadResult] = []
    broken: list[BrokenPlugin] = []
    for reader in setup.readers:
        try:
            if reader.accepts(source):
                results.append(reader.read(source, context))
        except Exception as error:  # fence: one file
            what = f"{source.name}: {type(error).__name__}: {error}"
            broken.append(BrokenPlugin(f"reader {reader.name}", None, what))
    results = [result for result in results if result.instead] or results
    skips = [result.skipped for result in results if result.skipped]
    return Reading(
        source,
        tuple(plan for result in results for plan in result.plans),
        tuple(router for result in results for router in result.routers),
        tuple(dict.fromkeys(problem for result in results for problem in result.problems)),
        tuple(broken),
        skips[0] if skips and not any(result.plans for result in results) else None,
        tuple(item for result in results for item in result.absorbs),
        tuple(item for result in results for item in result.scalers),
        frozenset(asked.names),
        frozenset(asked.kinds),
    )


# ------------------------------------------------------------------------------------ enriching


def _enriched(plan: ServingPlan, project: Project) -> ServingPlan:
    setup = project.setup
    engine = setup.engine(plan.engine)
    placed = replace(
        plan,
        model_facts=_model_facts(plan, project),
        stored_as=_stored_as(plan, project),
        placement=_placement(plan, setup),
        told=_told(plan, setup),
        platform_releases=_platform_releases(plan, setup),
    )
    if engine is None or not engine.checked:
        return placed
    if (unasked := engine.unasked_ray(placed)) is not None:
        placed = _by_ray(placed) if unasked else _without_ray(placed)
    if condition := engine.joins_hosts(placed):
        pods = placed.placement.pods_per_group.assuming(condition)
        placed = replace(placed, placement=replace(placed.placement, pods_per_group=pods))
    why = None if placed.fleet.groups else _spans_pods(placed, engine)
    if why is None or not placed.fleet.replicas.is_known:
        return placed
    unknown: Known[int] = Known.unknown(why, placed.fleet.replicas.origin)
    return replace(placed, fleet=replace(placed.fleet, replicas=unknown))


def _by_ray(plan: ServingPlan) -> ServingPlan:
    """The ranks in the Ray cluster that is there, without a doubt about that."""
    executor = plan.effective.executor
    if RAY_UNASKED not in executor.assumes:
        return plan
    assumes = (executor.assumes - {RAY_UNASKED}) | plan.versions.assumes
    return replace(
        plan, effective=replace(plan.effective, executor=replace(executor, assumes=assumes))
    )


def _without_ray(plan: ServingPlan) -> ServingPlan:
    """The engine on its own devices, whatever Ray cluster is around it."""
    placement, executor = plan.placement, plan.effective.executor
    pods, doubts = placement.pods_per_group, plan.versions.assumes
    alone: Known[int] = Known.of(1, how="defaulted", assumes=doubts)
    if RAY_JOINS in pods.assumes or (not pods.is_known and pods.reason == placement.joined):
        plan = replace(plan, placement=replace(placement, pods_per_group=alone))
    if RAY_UNASKED not in executor.assumes:
        return plan
    own: Known[Any] = Known.of(None, how="defaulted", assumes=doubts)
    return replace(plan, effective=replace(plan.effective, executor=own))


def _spans_pods(plan: ServingPlan, engine: Engine) -> str | None:
    """Why the pods of an object are no replicas of the engine: several of them make up one."""
    pods = plan.placement.pods_per_group
    if plan.fleet.whole:
        return None
    if not pods.is_known:
        return f"how many pods one engine has is not known: {pods.reason}"
    if pods.how != "defaulted":
        return None  # the object counts groups
    layout, devices = plan.effective.world().only, plan.placement.devices.only
    if layout is None or layout.nnodes > 1 or (pods.only or 1) > 1:
        return None
    ranks = engine.ranks(layout, plan.model_facts.only, devices)
    several = ranks.gpus_per_pod != ranks.gpus
    if several and (devices is None or ranks.gpus > devices * (pods.only or 1)):
        return f"one engine of {ranks.gpus} GPUs needs several pods"
    return None


def _told(plan: ServingPlan, setup: Setup) -> Mapping[str, Known[Any]]:
    """What the user says of facts that the file states itself, and otherwise."""
    found = dict(_told_of_nodes(plan.placement, setup))
    stated, platform = plan.platform_releases, setup.platform(plan.platform or "")
    release = setup.context.told_platforms.get(platform.name) if platform is not None else None
    span = series(release) if release is not None else None
    pinned = stated.how == "stated" and stated.is_known
    if release is not None and span is not None and pinned and not _meet(span, stated.values):
        found["platform_version"] = Known.of(release)
    engine = setup.engine(plan.engine)
    names = (engine.name, *engine.aliases) if engine is not None else ()
    for name in names:
        release = setup.settings.engines.get(name)
        if engine is None or release is None or plan.versions.how == "defaulted":
            continue
        said = engine.versions(Known.of(release))
        if said.how != "defaulted" and said.values != plan.versions.values:
            found["engine_version"] = Known.of(release)
    return MappingProxyType(found)


def _meet(one: Releases, others: Iterable[Releases]) -> bool:
    return any(one.meets(item.first, None) and item.meets(one.first, None) for item in others)


def _platform_releases(plan: ServingPlan, setup: Setup) -> Known[Releases]:
    """The releases of its platform: as its reader found, else as told, else as read."""
    if plan.platform is None or not plan.platform_releases.is_unset:
        return plan.platform_releases
    return setup.context.platform(plan.platform)


def _told_of_nodes(stated: Placement, setup: Setup) -> Iterator[tuple[str, Known[Any]]]:
    """What the command line, a pool or the configuration says of the nodes, and otherwise."""
    stated, taken = _taken(stated, setup)
    told = _hardware(taken, setup)
    if taken is not None and taken.denied:
        yield "gpu", Known.of(taken.denied[0])
    elif _elsewhere(stated, told):
        yield "gpu", told.gpu
    elif taken is not None:
        size, own = taken.fact("per_node"), stated.gpus_per_node
        if size.is_known and own.is_known and not set(size.values) & set(own.values):
            yield "gpus_per_node", size


def _taken(stated: Placement, setup: Setup) -> tuple[Placement, Taken | None]:
    """The pools that a plan can run on. What they say of the card wins over an assumption."""
    taken = setup.taken(stated)
    if taken is not None and taken.gpu.is_known and stated.gpu.assumes:
        stated = replace(stated, gpu=Known.unset())
    return stated, taken


def _hardware(taken: Taken | None, setup: Setup) -> Hardware:
    """The machines: the command line over the pool, or over [hardware] where no pool is taken."""
    if taken is None or not taken.pools.is_known:
        return setup.hardware
    line = setup.asked
    return Hardware(
        gpu=line.gpu.or_default(taken.gpu),
        gpus_per_node=line.gpus_per_node.or_default(taken.fact("per_node")),
        nodes=line.nodes.or_default(taken.fact("nodes")),
        network=line.network.or_default(taken.fact("network")),
        link=line.link.or_default(taken.fact("link")),
    )


def _model_facts(plan: ServingPlan, project: Project) -> Known[ModelFacts]:
    model = plan.shape_of.or_default(plan.model)
    if model.is_unset:
        return Known.unknown("the model is not stated")
    from shardlint.models.errors import ModelError

    name = model.only
    if name is None:
        return Known.unknown(model.reason or "the model is not decided", model.origin)
    try:
        facts = _facts(plan, name, project)
    except ModelError as error:
        return Known.unknown(f"{name}: {error}", model.origin)
    if facts is None:
        return Known.unknown(f"{name} is not in the model catalogue", model.origin)
    return Known.of(
        facts, model.origin, how="derived", related=model.related, assumes=model.assumes
    )


def _stored_as(plan: ServingPlan, project: Project) -> Mapping[str, Any] | None:
    """How the weights seem to be stored, by the name of the model that is served."""
    name = plan.model.only
    return project.setup.catalogue.assumed_quantization(name) if name is not None else None


def _facts(plan: ServingPlan, name: str, project: Project) -> ModelFacts | None:
    """The user's word, the catalogue, a folder, the Hub, and at last what the name seems to say."""
    facts = project.setup.catalogue.lookup(name) or _from_folder(plan, name, project)
    return project.setup.resolved(name, facts, _revision(plan))


def _revision(plan: ServingPlan) -> Known[str]:
    """The revision of the model that is served."""
    for flag in plan.flags:
        if flag.flag == "--revision" and flag.value is not None:
            return flag.value.known()
    return Known.unset()


def _from_folder(plan: ServingPlan, name: str, project: Project) -> ModelFacts | None:
    """A model folder on this machine: only for an engine that runs here, not in a container."""
    if not plan.placement.on_host or plan.file not in project.paths:
        return None
    from shardlint.models.config_json import from_folder

    folder = Path(name) if Path(name).is_absolute() else project.paths[plan.file].parent / name
    return from_folder(folder, name)


def _placement(plan: ServingPlan, setup: Setup) -> Placement:
    given, taken = _taken(plan.placement, setup)
    told = _hardware(taken, setup)
    if _elsewhere(given, told):
        told = Hardware()
    gpu = given.gpu.or_default(told.gpu)
    if taken is not None and taken.pools.is_known:
        from shardlint.hardware.pools import narrowed

        gpu = narrowed(gpu, taken.gpu)
        pool, price = taken.pools.map(lambda one: one.name), taken.fact("price")
        given = replace(given, pool=pool, price=price)
    filled = replace(
        given,
        gpu=gpu,
        gpus_per_node=given.gpus_per_node.or_default(told.gpus_per_node),
        nodes=given.nodes.or_default(told.nodes),
        network=given.network.or_default(told.network).or_default(_fabric(given)),
        link=given.link.or_default(told.link).or_default(_of_card(gpu, "link")),
        link_domain=given.link_domain.or_default(_domain(gpu, told.link)),
        pods_per_group=given.pods_per_group.or_default(Known.of(1, how="defaulted")),
    )
    return replace(filled, devices=_devices(filled))


def _elsewhere(given: Placement, told: Hardware) -> bool:
    """The file asks for another card than the machines have that the user tells of."""
    theirs = {device.name for device in told.gpu.values}
    ours = {device.name for device in given.gpu.values}
    return bool(theirs and ours) and theirs.isdisjoint(ours)


def _of_card(gpu: Known[Device], name: str) -> Known[Any]:
    """A fact that every card has that is possible."""
    values = {getattr(device, name) for device in gpu.values}
    if len(values) == 1 and None not in values:
        return Known.of(values.pop(), gpu.origin, how="derived", assumes=gpu.assumes)
    return Known.unknown(f"the card's {name} is not known" if not values else f"{name} differs")


def _fabric(given: Placement) -> Known[str]:
    """Whoever asks for an RDMA device, or names one to NCCL, has such a network."""
    if given.rdma.how == "stated" and given.rdma.only is not None:
        return Known.of("rdma", given.rdma.origin, how="derived")
    named = given.env.get("NCCL_IB_HCA")
    return Known.of("rdma", named.origin, how="derived") if named is not None else Known.unset()


def _domain(gpu: Known[Device], link: Known[str]) -> Known[int]:
    """Devices that reach each other at the speed of their link; PCIe joins none in that way."""
    if link.only == "pcie":
        return Known.of(1, how="derived")
    return _of_card(gpu, "link_domain") if link.is_unset else Known.unknown("the link was told")


def _devices(placement: Placement) -> Known[int]:
    """How many devices the engine process sees in one pod or on its host."""
    count, node = placement.gpus_per_pod, placement.gpus_per_node
    if count.only == "all" or (count.is_unset and placement.on_host):
        if node.is_known:
            return replace(node, origin=count.origin, how="derived")
        return Known.unknown("how many GPUs the host has is not stated", count.origin)
    if count.is_unset:
        return Known.unknown("the file does not say how many GPUs there are")
    if placement.uncounted is not None:
        return Known.unknown(placement.uncounted, count.origin)
    return (
        count.map(lambda value: int(value) if value != "all" else 0)
        if count.is_known
        else (Known.unknown(count.reason or "unresolved", count.origin))
    )


def _beside(plans: list[ServingPlan], project: Project) -> Iterator[ServingPlan]:
    """The plans, each with those before it in its file that run on some of its devices."""
    scopes: dict[str, list[tuple[ServingPlan, tuple[str, ...]]]] = {}
    for plan in plans:
        used = _used(plan, project.setup) if plan.placement.certain else ()
        others = scopes.setdefault(f"{plan.file}#{plan.placement.scope}", [])
        found = tuple(_neighbours(used, others))
        yield replace(plan, placement=replace(plan.placement, neighbours=found)) if found else plan
        if used and plan.placement.detached:
            others.append((plan, used))


def _compared(plans: Iterable[ServingPlan], before: Iterable[ServingPlan]) -> Iterator[ServingPlan]:
    """The plans with what they were: the plan of the same name in the file, else of the same id."""
    named: dict[tuple[str, str, str], list[ServingPlan]] = {}
    by_id = {plan.id: plan for plan in before}
    for plan in by_id.values():
        named.setdefault((plan.file, plan.kind, plan.name), []).append(plan)
    for plan in plans:
        same = named.get((plan.file, plan.kind, plan.name), ())
        yield replace(plan, before=same[0] if len(same) == 1 else by_id.get(plan.id))


def _neighbours(
    used: tuple[str, ...], others: Iterable[tuple[ServingPlan, tuple[str, ...]]]
) -> Iterator[Neighbour]:
    for other, theirs in others:
        if common := tuple(device for device in used if device in theirs):
            budget = other.memory.budget
            stated = Known.unknown("it states bytes") if not budget.bytes.is_unset else budget.share
            yield Neighbour(other.id, other.name, common, other.origin, stated)


def _used(plan: ServingPlan, setup: Setup) -> tuple[str, ...]:
    """The devices on which the ranks of a plan run: the first ones that it sees."""
    engine, ids = setup.engine(plan.engine), plan.placement.device_ids.only
    if ids is None and plan.placement.gpus_per_node.only == 1 and not plan.placement.scheduled:
        ids = ("0",)  # there is no other
    certain = plan.placement.wants_gpu and not plan.placement.device_ids.assumes
    layout = plan.effective.world().only if engine is not None and engine.checked else None
    if engine is None or layout is None or ids is None or not certain:
        return ()
    count = engine.ranks(layout, None, None).gpus_per_pod
    if count is None or plan.effective.world().assumes:
        return ()
    return tuple(str(at) for at in range(min(count, 64))) if ids == ("all",) else ids[:count]


def _scaled(plan: ServingPlan, scalers: Mapping[tuple[str, str, str], list[Scaler]]) -> ServingPlan:
    """With the autoscaler of its object: that of its own file, else of its folder."""
    if plan.owner is None:
        return plan
    found = scalers.get((_namespace(plan), *plan.owner), [])
    near = [item for item in found if item.file == plan.file]
    beside = [item for item in found if _folder(item.file) == _folder(plan.file)]
    chosen = near or beside
    if len(chosen) != 1:
        return plan
    scaler = chosen[0]
    most = plan.fleet.max_replicas.or_default(scaler.maximum)
    return replace(plan, fleet=replace(plan.fleet, scaler=scaler, max_replicas=most))


def _namespace(plan: ServingPlan) -> str:
    """The namespace, as kubectl fills it in where none is stated."""
    return plan.namespace or "default"


def _folder(name: str) -> str:
    return name.rpartition("/")[0]

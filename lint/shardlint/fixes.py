"""From fixes to files that were read and linted again.

Nothing is kept that does not clear its finding, that finds a new error, or that changes another
fact than it says.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

from shardlint import routing
from shardlint.engine import Engine
from shardlint.known import Known
from shardlint.linter import Run, lint
from shardlint.plan import Flag, LayoutFacts, ServingPlan
from shardlint.plugins import Finding, Fix, Result
from shardlint.project import Project, Setup
from shardlint.proposals import offered, proposed
from shardlint.proposals.shared import Sharing
from shardlint.record import record
from shardlint.source import Edit, EditConflict, apply

NO_NEWLINE = "\\ No newline at end of file\n"

MOST_ROUNDS = 1000
"""Fixes applied one after another, each to the texts that the last one left."""


def with_fixes(run: Run) -> Result:
    """The result with the fixes of its findings that leave all other plans as they are."""
    sharing, found = Sharing(run.project), []
    for finding in run.result.findings:
        item = _with_fixes(finding, run)
        if item.fixes and finding.fingerprint in run.cures:
            kept = tuple(fix for fix in item.fixes if not sharing.spills(finding, fix))
            item = replace(item, fixes=kept)
        found.append(item)
    return replace(run.result, findings=tuple(found))


def _with_fixes(finding: Finding, run: Run) -> Finding:
    if (cure := run.cures.get(finding.fingerprint)) is not None:
        sizer = run.sizer(cure.world.engine)
        return replace(finding, fixes=tuple(proposed(cure, finding, sizer)))
    if (offers := run.offers.get(finding.fingerprint)) is not None:
        return replace(finding, fixes=tuple(offered(offers)))
    return finding


BESIDE_OPTIONS = ("gpus_per_pod", "nodes", "shm_bytes", "replicas", "max_replicas")
"""Fields that no option of the engine sets."""


# ------------------------------------------------------------------------------- applying


@record
class Outcome:
    """What applying fixes led to: texts to write, the result after them, fixes taken back."""

    project: Project
    result: Result
    applied: tuple[tuple[Finding, Fix], ...] = ()
    refused: tuple[tuple[Finding, str], ...] = ()
    changed: frozenset[str] = field(default_factory=frozenset)


def apply_fixes(project: Project, unsafe: bool) -> Outcome:
    """Apply fixes, each judged by reading and linting again; nothing is written.

    Those of different plans are tried together, and one by one where that does not hold.
    """
    result = with_fixes(lint(project))
    applied: list[tuple[Finding, Fix]] = []
    refused: dict[tuple[str | None, ...], tuple[Finding, str]] = {}
    seen = {(name, source.text) for name, source in project.sources.items()}
    for _ in range(MOST_ROUNDS):
        step = _several(project, result, unsafe, refused, seen)
        step = step or _step(project, result, unsafe, refused, seen)
        if step is None:
            break
        chosen, project, result = step
        applied += chosen
        files = frozenset().union(*(_files(fix) for _, fix in chosen))
        seen |= {(name, project.sources[name].text) for name in files}
    changed = frozenset().union(*(_files(fix) for _, fix in applied))
    return Outcome(project, result, tuple(applied), tuple(refused.values()), changed)


def _files(fix: Fix) -> frozenset[str]:
    return frozenset(edit.file for edit in fix.edits)


Refused: TypeAlias = dict[tuple[str | None, ...], tuple[Finding, str]]
Step: TypeAlias = tuple[list[tuple[Finding, Fix]], Project, Result]


def _several(
    project: Project, result: Result, unsafe: bool, refused: Refused, seen: set[tuple[str, str]]
) -> Step | None:
    """The first fix of every plan, if all of them together hold what they say."""
    chosen: list[tuple[Finding, Fix]] = []
    by_plan: dict[str, Fix] = {}
    for finding in result.findings:
        fix = next(_allowed(finding, unsafe, refused), None)
        if fix is not None and by_plan.keys().isdisjoint(finding.plans):
            chosen.append((finding, fix))
            by_plan |= dict.fromkeys(finding.plans, fix)
    if len(chosen) < 2:
        return None
    after = _tried(project, [edit for _, fix in chosen for edit in fix.edits])
    if isinstance(after, str):
        return None
    files = frozenset().union(*(_files(fix) for _, fix in chosen))
    if any((name, after.sources[name].text) in seen for name in files):
        return None
    new = _worse(project, result, after, [finding for finding, _ in chosen], by_plan)
    return None if isinstance(new, str) else (chosen, after, new)


def _allowed(finding: Finding, unsafe: bool, refused: Refused) -> Iterator[Fix]:
    for fix in finding.fixes:
        wanted = unsafe or fix.applicability != "unsafe"
        if wanted and _key(finding, fix) not in refused:
            yield fix


def _key(finding: Finding, fix: Fix) -> tuple[str | None, ...]:
    return finding.rule, finding.plan, finding.message, fix.title


def _step(
    project: Project, result: Result, unsafe: bool, refused: Refused, seen: set[tuple[str, str]]
) -> Step | None:
    """The first fix that can be applied, holds what it says, and leads to texts not seen before."""
    for finding in result.findings:
        for fix in _allowed(finding, unsafe, refused):
            after = _tried(project, fix.edits)
            if isinstance(after, str):
                why: str | Result = after
            elif any((name, after.sources[name].text) in seen for name in _files(fix)):
                why = "it takes back another fix"
            else:
                by_plan = dict.fromkeys(finding.plans, fix)
                why = _worse(project, result, after, [finding], by_plan)
            if isinstance(why, str):
                refused[_key(finding, fix)] = (finding, f"{fix.title}: {why}")
                continue
            assert not isinstance(after, str)
            return [(finding, fix)], after, why
    return None


def _tried(project: Project, edits: Sequence[Edit]) -> Project | str:
    """The project after the edits, or why they cannot be made."""
    for name in dict.fromkeys(edit.file for edit in edits):
        source = project.sources[name]
        try:
            text = apply(source.text, [edit for edit in edits if edit.file == name])
        except EditConflict as error:
            return str(error)
        project = project.update(name, text)
    return project


def _worse(
    before: Project,
    old: Result,
    after: Project,
    findings: Sequence[Finding],
    by_plan: Mapping[str, Fix],
) -> str | Result:
    """Why the fixes of some findings are taken back, or the new result."""
    unread = (len(after.problems), len(after.broken)) > (len(before.problems), len(before.broken))
    if unread or len(after.skipped) > len(before.skipped):
        return "the file cannot be read afterwards"
    if (other := _other_change(before, after, findings[0].file, by_plan)) is not None:
        return other
    new = with_fixes(lint(after))
    left, had = _count(new), _count(old)
    keys = [(item.rule, plan) for item in findings for plan in item.plans or (item.plan,)]
    if any(left[key] >= had[key] for key in keys):
        return "the finding is still there afterwards"
    if _errors(after, new) - _errors(before, old):
        return "it leads to another error"
    return new


def _errors(project: Project, result: Result) -> Counter[tuple[str, str | None]]:
    """Errors of all rules, whichever of them the user wants to see."""
    settings = project.setup.settings
    if settings.select or settings.ignore:
        every = replace(settings, select=(), ignore=())
        setup = Setup(project.setup.plugins, every, project.setup.hardware)
        project = Project(setup, project.readings, project.paths, project.library)
        result = lint(project).result
    return _count(result, "error")


def _count(result: Result, *severities: str) -> Counter[tuple[str, str | None]]:
    """Findings by rule and plan."""
    return Counter(
        (item.rule, plan)
        for item in result.findings
        if not severities or item.severity in severities
        for plan in item.plans or (item.plan,)
    )


def _other_change(
    before: Project, after: Project, file: str, by_plan: Mapping[str, Fix]
) -> str | None:
    """What fixes change without saying so, or do not change although they say so."""
    if [plan.id for plan in before.plans] != [plan.id for plan in after.plans]:
        return f"it would change which engines {file} starts"
    routers = {router.id for router in before.routers}
    routed = {name: fix for name, fix in by_plan.items() if name in routers}
    if (other := _other_policy(after, routed)) is not None:
        return other
    for old, new in zip(before.plans, after.plans, strict=True):
        engine = before.setup.engine(old.engine)
        fix = by_plan.get(old.id)
        if fix is not None and engine is not None:
            change = _change(old, new, fix.delta) or _other_option(old, new, fix.delta, engine)
        else:
            change = _change_beside(old, new, routed.values())
        if change is not None:
            return f"it would also change {change} of {old.name}"
    return None


def _other_policy(after: Project, routed: Mapping[str, Fix]) -> str | None:
    """Where a router is not read as the policy that its fix says."""
    for router in after.routers:
        fix = routed.get(router.id)
        wanted = fix.delta.get("routing") if fix is not None else None
        if wanted is not None and routing.word(router) != wanted:
            return f"the policy would be read as {routing.word(router)}"
    return None


def _change_beside(old: ServingPlan, new: ServingPlan, fixes: Iterable[Fix]) -> str | None:
    """The first fact of a plan that none of these fixes of routers says to change."""
    was, now = stated(old), stated(new)
    said = [fix.delta for fix in fixes]
    for name, values in was.items():
        allowed = [(delta[name],) for delta in said if name in delta]
        if now[name] != values and now[name] not in allowed:
            return name
    return None


def _change(old: ServingPlan, new: ServingPlan, delta: Mapping[str, Any]) -> str | None:
    """The first fact that is not what the delta makes of it.

    The option behind a misspelt one sets what nobody could read before, and nothing else.
    """
    renamed, removed = "replace_flag" in delta, "remove_flag" in delta
    added = "add_flag" in delta
    now = stated(new)
    computes = old.effective.world().only
    same = renamed and computes is not None and computes == new.effective.world().only
    for name, values in stated(old).items():
        wanted = (delta[name],) if name in delta else values
        gone = removed and not now[name]
        if same and name in LayoutFacts.__dataclass_fields__:
            continue  # one option says now what two said
        if name in delta and not now[name] and _by_default(new, name) == wanted:
            continue  # a chart leaves the option out where the engine does the same without it
        told = (renamed or added) and not values  # set by what nobody could read before
        if now[name] != wanted and not told and not gone:
            return name
    return None


def _by_default(plan: ServingPlan, name: str) -> tuple[Any, ...]:
    """What is done where nothing is stated."""
    fact = getattr(plan.effective, name, None)
    return fact.values if isinstance(fact, Known) and fact.how == "defaulted" else ()


def _other_option(
    old: ServingPlan, new: ServingPlan, delta: Mapping[str, Any], engine: Engine
) -> str | None:
    """An option beside those of the delta that is read otherwise than before."""
    if "add_flag" in delta:
        return _other_than_added(old, new)
    if "remove_flag" in delta or "replace_flag" in delta:
        return _other_word(old, new, delta)
    ours_by_name = {engine.flag_name(name) for name in delta if name not in BESIDE_OPTIONS}
    kept = [
        [_option(flag) for flag in plan.flags if flag.flag not in ours_by_name]
        for plan in (old, new)
    ]
    return None if kept[0] == kept[1] else "the options"


def _other_than_added(old: ServingPlan, new: ServingPlan) -> str | None:
    """One option is new, and all others are read as before."""
    before, after = ([_option(flag) for flag in plan.flags] for plan in (old, new))
    added = [at for at in range(len(after)) if after[:at] + after[at + 1 :] == before]
    return None if added and new.flags[added[0]].problem is None else "the options"


def _other_word(old: ServingPlan, new: ServingPlan, delta: Mapping[str, Any]) -> str | None:
    """Beside one option, which went or became another, all of them must be read as before."""
    before, after = ([_option(flag) for flag in plan.flags] for plan in (old, new))
    at = next((at for at, pair in enumerate(zip(before, after, strict=False))
               if pair[0] != pair[1]), min(len(before), len(after)))  # fmt: skip
    if "remove_flag" in delta:
        return None if before[:at] + before[at + 1 :] == after else "the options"
    if before == after:
        return None  # an abbreviation is written out
    mended = at < len(after) and new.flags[at].flag is not None and new.flags[at].problem is None
    return None if mended and before[at + 1 :] == after[at + 1 :] else "the options"


def _option(flag: Flag) -> tuple[Any, ...]:
    """An option as the engine reads it, wherever it stands."""
    values = [text.value for text in (flag.value, *flag.more) if text is not None]
    return flag.flag or flag.written.value, flag.negated, flag.dotted, flag.problem, values


def stated(plan: ServingPlan) -> dict[str, tuple[Any, ...]]:
    """The facts that fixes touch, and those beside them that must stay."""
    parts = (plan.layout, plan.memory, plan.memory.budget, plan.fleet)
    facts: dict[str, Known[Any]] = {"model": plan.model, "served_name": plan.served_name}
    facts |= {"image": plan.image, "gpus_per_pod": plan.placement.gpus_per_pod}
    facts |= {"shm_bytes": plan.placement.shm_bytes}
    pods = plan.placement.pods_per_group
    facts |= {"nodes": pods if pods.how == "stated" else Known.unset()}
    for part in parts:
        known = ((item.name, getattr(part, item.name)) for item in fields(part))
        facts |= {name: fact for name, fact in known if isinstance(fact, Known)}
    facts["gpu_memory_utilization"] = facts.pop("share")
    return {name: fact.values for name, fact in facts.items()}


# ------------------------------------------------------------------------------- writing


def write(project: Project, names: Iterable[str]) -> list[str]:
    """Write changed texts, each file at once or not at all; returns the names written."""
    written: list[str] = []
    for name in sorted(names):
        path = project.paths.get(name)
        if path is not None:
            replace_file(path, project.sources[name].to_bytes())
            written.append(name)
    return written


def replace_file(path: Path, data: bytes) -> None:
    """Write beside the file and move it into place, keeping its mode; a link keeps its target."""
    import tempfile

    target = path.resolve()
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(stat.S_IMODE(target.stat().st_mode))
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def diff(before: Project, after: Project, names: Iterable[str]) -> str:
    """A unified diff of the changed texts."""
    import difflib

    parts: list[str] = []
    for name in sorted(names):
        old, new = (_lines(project.sources[name].text) for project in (before, after))
        short = name.lstrip("/")
        lines = difflib.unified_diff(old, new, f"a/{short}", f"b/{short}")
        parts += [line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}" for line in lines]
    return "".join(parts)


def _lines(text: str) -> list[str]:
    """Lines with their ends; str.splitlines would break at more than line feeds."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)

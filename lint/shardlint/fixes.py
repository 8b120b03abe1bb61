"""From a repair to edits, and from edits to files that were read and linted again.

A fix is the smallest change of layout that no constraint of the engine refuses: the same GPUs
first, then fewer. Its edits come from the plan's Sites, all or none. Nothing is kept that does not
clear its finding, that finds a new error, or that changes another fact than it says.
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
from shardlint.asked_layout import Asked
from shardlint.engine import Engine
from shardlint.known import Known
from shardlint.linter import Cure, Run, lint
from shardlint.memory_fixes import layouts_that_fit, settings_that_fit, sizes_after
from shardlint.plan import (
    Flag,
    KvGroup,
    Layout,
    LayoutFacts,
    Offer,
    Refusal,
    ServingPlan,
)
from shardlint.plugins import MOST_RANKS, Applicability, Finding, Fix, Repair, Result, World
from shardlint.project import Project, Setup
from shardlint.record import record
from shardlint.source import Edit, EditConflict, apply

NO_NEWLINE = "\\ No newline at end of file\n"

MOST_ROUNDS = 1000
"""Fixes applied one after another, each to the texts that the last one left."""


def with_fixes(run: Run) -> Result:
    """The result with the fixes of its findings."""
    return replace(
        run.result, findings=tuple(_with_fixes(item, run) for item in run.result.findings)
    )


def _with_fixes(finding: Finding, run: Run) -> Finding:
    if (cure := run.cures.get(finding.fingerprint)) is not None:
        return replace(finding, fixes=tuple(_fixes(cure, finding)))
    if (offers := run.offers.get(finding.fingerprint)) is not None:
        return replace(finding, fixes=tuple(_offered(offers)))
    return finding


def _offered(offers: Iterable[Offer]) -> Iterator[Fix]:
    """What the router's reader can write: none is safe, requests go elsewhere afterwards."""
    for offer in offers:
        try:
            edits = offer.site.set(offer.value)
        except Exception:  # fence: an offer that cannot be written is none
            continue
        if not isinstance(edits, Refusal):
            yield Fix(offer.title, "unsafe", dict(offer.delta), tuple(edits))


def _fixes(cure: Cure, finding: Finding) -> Iterator[Fix]:
    if cure.repair.kind in ("flag", "option"):
        yield from _option_fix(cure, finding)
        return
    if cure.repair.kind == "move":
        yield from _move(cure.world.plan, cure.repair)
        return
    if cure.repair.kind == "fields":
        yield from _fields(cure.world, dict(cure.repair.values))
        return
    if cure.repair.kind == "memory":
        yield from _memory(cure.world)
        return
    if (asked := Asked.of(cure.world)) is not None:
        fixes = (_layout_fix(asked, delta) for delta in _layouts(asked))
        yield from (fix for fix in fixes if fix is not None)


# ------------------------------------------------------------------------------- one option


def _option_fix(cure: Cure, finding: Finding) -> Iterator[Fix]:
    """Another spelling, other words, or none in place of an option.

    Safe only where it is sure what was meant, and the engine refuses the other or reads the same.
    """
    repair, plan = cure.repair, cure.world.plan
    site = plan.sites.get(repair.field)
    edits = site.set(repair.value) if site is not None else Refusal("no site")
    if isinstance(edits, Refusal):
        return
    flag = plan.flags[_place(repair.field)]
    written = flag.written.value or ""
    if flag.problem is None or "explicit" not in flag.problem:
        written = written.split("=", 1)[0]
    safe = repair.value and repair.certain and finding.severity != "warning"
    applicability: Applicability = "safe" if safe else "unsafe"
    if not repair.value:
        delta: dict[str, Any] = {"remove_flag": written}
        yield Fix(f"remove `{written}`", applicability, delta, tuple(edits))
        return
    delta = {"replace_flag": [written, repair.value]}
    yield Fix(f"`{written}` → `{repair.value}`", applicability, delta, tuple(edits))


def _move(plan: ServingPlan, repair: Repair) -> Iterator[Fix]:
    """A setting written where it counts, and not where it stood."""
    site = plan.sites.get(repair.field)
    edits = site.set(repair.value) if site is not None else Refusal("no site")
    if not isinstance(edits, Refusal):
        said = ", ".join(f"{name.upper()} {value}" for name, value in repair.values)
        yield Fix(f"{said}, where it is read", "unsafe", dict(repair.values), tuple(edits))


def _place(field: str) -> int:
    """Where the option of a site stands among those of its plan: "flag:3" is 3."""
    return int(field.partition(":")[2])


# ------------------------------------------------------------------------------- stated fields


def _fields(world: World, delta: Mapping[str, int]) -> Iterator[Fix]:
    """Fields set to the values that the rule names."""
    asked = Asked.of(world)
    layout = {name: value for name, value in delta.items() if name in Layout.__dataclass_fields__}
    if layout:
        after = None if asked is None else replace(asked.layout, **_typed(layout))
        if asked is not None and after is not None and asked.accepts(after):
            fix = _layout_fix(asked, delta)
            if fix is not None:
                rates = _rates(world, asked.layout, after)
                yield replace(fix, estimate={**fix.estimate, **rates})
        return
    edits = _edits(world.plan, delta)
    if edits is not None:
        said = (_setting(name, value) for name, value in delta.items())
        yield Fix(", ".join(said), "unsafe", dict(delta), edits)


def _rates(world: World, before: Layout, after: Layout) -> dict[str, dict[str, int]]:
    """Tokens a second for each GPU where both layouts are of a kind that was measured."""
    load = world.loads[0]
    found = [world.rate(layout, load) for layout in (before, after)]
    rates = [round(sum(pair) / 2) for pair in found if pair is not None]
    if len(rates) < 2 or rates[0] == rates[1]:
        return {}
    return {"output_tok_s_per_gpu": {"before": rates[0], "after": rates[1]}}


BESIDE_OPTIONS = ("gpus_per_pod", "shm_bytes", "replicas", "max_replicas")
"""Fields that no option of the engine sets."""


def _setting(name: str, value: int) -> str:
    return f"{_bytes(value)} for /dev/shm" if name == "shm_bytes" else f"{name} {value}"


def _typed(layout: Mapping[str, int]) -> dict[str, Any]:
    return dict(layout)


def _bytes(value: int) -> str:
    """GiB where it comes out even."""
    return f"{value // 2**30} GiB" if value % 2**30 == 0 else f"{value:,} bytes"


def _edits(plan: ServingPlan, delta: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """The edits of all fields, or None if a Site refuses one of them."""
    edits: list[Edit] = []
    for name, value in delta.items():
        site = plan.sites.get(name)
        made = site.set(str(value)) if site is not None else Refusal("no site")
        if isinstance(made, Refusal):
            return None
        edits.extend(made)
    return tuple(edits)


# -------------------------------------------------------------------------------- memory


def _memory(world: World) -> Iterator[Fix]:
    """A shorter context or a smaller type of the cache; then more ranks, which need more GPUs."""
    for change in settings_that_fit(world):
        edits = _edits(world.plan, change)
        if edits is not None:
            said = ", ".join(f"{WORDS[name]} {_number(value)}" for name, value in change.items())
            yield Fix(said, "unsafe", dict(change), edits, sizes_after(world, None, change))
    asked = Asked.of(world)
    for delta in layouts_that_fit(world, asked) if asked is not None else ():
        assert asked is not None
        fix = _layout_fix(asked, delta)
        if fix is not None:
            layout = {name: value for name, value in delta.items() if name != "gpus_per_pod"}
            after = replace(asked.layout, **_typed(layout))
            yield replace(fix, estimate={**fix.estimate, **sizes_after(world, after, {})})


WORDS = {"max_model_len": "a context of", "kv_cache_dtype": "a KV cache in"}


def _number(value: Any) -> str:
    return f"{value:,} tokens" if isinstance(value, int) else str(value)


# ------------------------------------------------------------------------------- layouts


def _layouts(asked: Asked) -> Iterator[dict[str, int]]:
    """Changes of layout and GPU count that the engine accepts, best first, without repeats."""
    seen: list[dict[str, int]] = []
    if asked.ranks(asked.layout).gpus_per_pod is None:
        return
    accepted = asked.accepts(asked.layout)
    ways = (_other_count,) if accepted else (_other_tp, _other_pp)
    for delta in (delta for way in ways for delta in way(asked)):
        if delta and delta not in seen:
            seen.append(delta)
            yield delta


def _other_tp(asked: Asked) -> Iterator[dict[str, int]]:
    """The largest smaller TP: with more DP on the same GPUs, then with fewer GPUs."""
    layout = asked.layout
    most = min(layout.tp, MOST_RANKS)
    sizes = [tp for tp in range(most, 0, -1) if asked.accepts(replace(layout, tp=tp))]
    for tp in sizes if layout.one_group else ():
        dp, idle = divmod(asked.gpus, tp * layout.pp * layout.pcp)
        if dp and not idle and asked.accepts(replace(layout, tp=tp, dp=dp)):
            yield _changes(layout, tp=tp, dp=dp)
            break
    for tp in sizes[:1]:
        count = asked.count(replace(layout, tp=tp))
        if count is not None:
            yield _changes(layout, tp=tp) | count


def _other_pp(asked: Asked) -> Iterator[dict[str, int]]:
    """Fewer stages: with more TP on the same GPUs, then with fewer GPUs."""
    layout = asked.layout
    wide = layout.tp * layout.pp
    fewer = range(min(layout.pp, MOST_RANKS) - 1, 0, -1)
    for pp in fewer:
        if wide % pp == 0 and asked.accepts(replace(layout, tp=wide // pp, pp=pp)):
            yield _changes(layout, tp=wide // pp, pp=pp)
            break
    for pp in fewer:
        if asked.accepts(replace(layout, pp=pp)):
            count = asked.count(replace(layout, pp=pp))
            if count is not None:
                yield _changes(layout, pp=pp) | count
            break


def _other_count(asked: Asked) -> Iterator[dict[str, int]]:
    """Fewer data-parallel ranks on the GPUs there are, then as many GPUs as are needed."""
    layout = asked.layout
    copies = (asked.devices or 0) // asked.ranks(layout).world_size
    if layout.one_group and 0 < copies < layout.dp and asked.accepts(replace(layout, dp=copies)):
        yield _changes(layout, dp=copies)
    yield asked.count(layout) or {}


def _changes(layout: Layout, **fields: int) -> dict[str, int]:
    return {name: value for name, value in fields.items() if getattr(layout, name) != value}


def _layout_fix(asked: Asked, delta: Mapping[str, int]) -> Fix | None:
    """The fix with its edits, or None if a Site refuses one of them."""
    edits = _edits(asked.plan, delta)
    if edits is None:
        return None
    change: dict[str, Any] = {name: delta[name] for name in delta if name != "gpus_per_pod"}
    after = replace(asked.layout, **change)
    return Fix(_title(asked, delta, after), "unsafe", dict(delta), edits,
               _estimate(asked, after))  # fmt: skip


def _title(asked: Asked, delta: Mapping[str, int], after: Layout) -> str:
    if set(delta) == {"gpus_per_pod"}:
        return f"{asked.stated} → {delta['gpus_per_pod']} GPUs for the same layout"
    title = f"{_written(asked.layout)} → {_written(after)}"
    need = asked.ranks(after).gpus_per_pod
    if need is None or after.nnodes > 1:
        return title
    if "gpus_per_pod" in delta:
        return f"{title} on {need} GPUs instead of {asked.stated}"
    if need > asked.gpus:
        return f"{title} on {need} GPUs"
    same = f"the same {need}" if need == asked.gpus else f"{need} of {asked.gpus}"
    return f"{title} on {same} GPUs"


def _written(layout: Layout) -> str:
    """The degrees above 1: "TP 4 × DP 2"."""
    degrees = (("TP", layout.tp), ("PP", layout.pp), ("PCP", layout.pcp), ("DP", layout.dp))
    return " × ".join(f"{name} {value}" for name, value in degrees if value > 1) or "TP 1"


def _estimate(asked: Asked, after: Layout) -> dict[str, dict[str, int]]:
    """KV cache bytes of one token on one GPU, which the shape gives exactly."""
    model, before = asked.model, asked.layout
    if model is None or after.tp == before.tp or before.dcp > 1:
        return {}
    size = asked.engine.dtype_bytes(asked.plan, model)
    full = [group for group in model.kv_groups if group.window is None]
    if size is None or not full or any(not group.fits(before.tp) for group in model.kv_groups):
        return {}  # nothing is stored by a layout that cannot share the heads out
    return {
        "kv_bytes_per_token_per_gpu": {
            "before": _kv_bytes(full, before.tp, size),
            "after": _kv_bytes(full, after.tp, size),
        }
    }


def _kv_bytes(groups: Iterable[KvGroup], tp: int, size: int) -> int:
    """Of the layers without a window: a full window takes no further bytes."""
    return sum(group.bytes_per_token(tp) for group in groups) * size // 2


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
    now = stated(new)
    computes = old.effective.world().only
    same = renamed and computes is not None and computes == new.effective.world().only
    for name, values in stated(old).items():
        wanted = (delta[name],) if name in delta else values
        gone = removed and not now[name]
        if same and name in LayoutFacts.__dataclass_fields__:
            continue  # one option says now what two said
        if now[name] != wanted and not (renamed and not values) and not gone:
            return name
    return None


def _other_option(
    old: ServingPlan, new: ServingPlan, delta: Mapping[str, Any], engine: Engine
) -> str | None:
    """An option beside those of the delta that is read otherwise than before."""
    if "remove_flag" in delta or "replace_flag" in delta:
        return _other_word(old, new, delta)
    ours_by_name = {engine.flag_name(name) for name in delta if name not in BESIDE_OPTIONS}
    kept = [
        [_option(flag) for flag in plan.flags if flag.flag not in ours_by_name]
        for plan in (old, new)
    ]
    return None if kept[0] == kept[1] else "the options"


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
    for part in parts:
        known = ((item.name, getattr(part, item.name)) for item in fields(part))
        facts |= {name: fact for name, fact in known if isinstance(fact, Known)}
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

"""From a repair to edits, and from edits to files that were read and linted again.

A fix is the smallest change of layout that no constraint of the engine refuses: the same GPUs
first, then fewer. Its edits come from the plan's Sites, all or none. Nothing is kept that does not
clear its finding, that finds a new error, or that changes another fact than it says.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from shardlint.linter import Cure, Run, lint
from shardlint.plan import Layout, ModelFacts, Refusal, ServingPlan
from shardlint.plugins import Applicability, Finding, Fix, Result, World
from shardlint.project import Project
from shardlint.record import record
from shardlint.source import Edit, EditConflict, apply

NO_NEWLINE = "\\ No newline at end of file\n"

USUAL_NODE = 8
"""GPUs of a node whose size nobody states: no fix asks one pod for more."""

MOST_ROUNDS = 20
"""Fixes applied one after another, each to the texts that the last one left."""


def with_fixes(run: Run) -> Result:
    """The result with the fixes of its findings."""
    findings = tuple(
        replace(finding, fixes=tuple(_fixes(run.cures[finding.fingerprint], finding)))
        if finding.fingerprint in run.cures
        else finding
        for finding in run.result.findings
    )
    return replace(run.result, findings=findings)


def _fixes(cure: Cure, finding: Finding) -> Iterator[Fix]:
    if cure.repair.kind == "flag":
        yield from _spelling(cure, finding)
        return
    for delta in _layouts(cure.world):
        fix = _layout_fix(cure.world, delta)
        if fix is not None:
            yield fix


# ------------------------------------------------------------------------------- one spelling


def _spelling(cure: Cure, finding: Finding) -> Iterator[Fix]:
    """The one likely spelling; safe only where the engine certainly refuses the other."""
    site = cure.world.plan.sites.get(cure.repair.field)
    edits = site.set(cure.repair.value) if site is not None else Refusal("no site")
    if isinstance(edits, Refusal):
        return
    index = int(cure.repair.field.removeprefix("flag:"))
    written = (cure.world.plan.flags[index].written.value or "").split("=", 1)[0]
    safe: Applicability = "safe" if finding.severity == "error" else "unsafe"
    delta = {"replace_flag": [written, cure.repair.value]}
    yield Fix(f"`{written}` → `{cure.repair.value}`", safe, delta, tuple(edits))


# ------------------------------------------------------------------------------- layouts


def _layouts(world: World) -> Iterator[dict[str, int]]:
    """Changes of layout and GPU count that the engine accepts, best first, without repeats."""
    seen: list[dict[str, int]] = []
    ranks = world.ranks
    if ranks is None or ranks.gpus_per_pod is None:
        return
    refused = any(not item.holds for item in _without_count(world, world.layout))
    deltas = _other_tp(world) if refused else _other_count(world)
    for delta in deltas:
        if delta and delta not in seen:
            seen.append(delta)
            yield delta


def _other_tp(world: World) -> Iterator[dict[str, int]]:
    """The largest smaller TP: with more DP on the same GPUs, then with fewer GPUs."""
    layout, plan = world.layout, world.plan
    gpus = plan.placement.devices.only
    sizes = [tp for tp in range(layout.tp, 0, -1) if _accepted(world, replace(layout, tp=tp))]
    stated = plan.placement.gpus_per_pod.only
    for tp in sizes:
        unit = tp * layout.pp * layout.pcp
        if gpus and _plain_dp(layout) and gpus % unit == 0 and gpus // unit > 1:
            dp = gpus // unit
            if _accepted(world, replace(layout, tp=tp, dp=dp)):
                yield _changes(layout, tp=tp, dp=dp)
                break
    for tp in sizes[:1]:
        change = _changes(layout, tp=tp)
        need = world.engine.ranks(replace(layout, tp=tp), world.model, None).gpus_per_pod
        if isinstance(stated, int) and need is not None and stated != need:
            change["gpus_per_pod"] = need
        yield change


def _other_count(world: World) -> Iterator[dict[str, int]]:
    """Fewer data-parallel ranks on the GPUs there are, then as many GPUs as are needed."""
    layout, ranks = world.layout, world.ranks
    assert ranks is not None and ranks.gpus_per_pod is not None
    gpus = world.devices or 0
    copies = gpus // ranks.world_size
    if _plain_dp(layout) and 0 < copies < layout.dp:
        yield _changes(layout, dp=copies)
    node = world.plan.placement.gpus_per_node.only
    stated = world.plan.placement.gpus_per_pod.only
    if isinstance(stated, int) and ranks.gpus_per_pod <= (node or USUAL_NODE):
        yield {"gpus_per_pod": ranks.gpus_per_pod}


def _plain_dp(layout: Layout) -> bool:
    """All ranks live in one process group of one node, so that DP can be changed by its size."""
    return layout.dp_local is None and layout.dp_rank is None and layout.nnodes == 1


def _changes(layout: Layout, **fields: int) -> dict[str, int]:
    return {name: value for name, value in fields.items() if getattr(layout, name) != value}


def _without_count(world: World, layout: Layout) -> Iterator[Any]:
    ranks = world.engine.ranks(layout, world.model, None)
    return world.engine.constraints(world.model, ranks, layout)


def _accepted(world: World, layout: Layout) -> bool:
    return all(constraint.holds for constraint in _without_count(world, layout))


def _layout_fix(world: World, delta: Mapping[str, int]) -> Fix | None:
    """The fix with its edits, or None if a Site refuses one of them."""
    edits: list[Edit] = []
    for name, value in delta.items():
        site = world.plan.sites.get(name)
        made = site.set(str(value)) if site is not None else Refusal("no site")
        if isinstance(made, Refusal):
            return None
        edits.extend(made)
    layout = {name: value for name, value in delta.items() if name != "gpus_per_pod"}
    change: dict[str, Any] = dict(layout)
    after = replace(world.layout, **change)
    return Fix(_title(world, delta, after), "unsafe", dict(delta), tuple(edits),
               _estimate(world, after))  # fmt: skip


def _title(world: World, delta: Mapping[str, int], after: Layout) -> str:
    before = world.plan.placement.gpus_per_pod.only
    if set(delta) == {"gpus_per_pod"}:
        return f"{before} → {delta['gpus_per_pod']} GPUs for the same layout"
    title = f"{_written(world.layout)} → {_written(after)}"
    if "gpus_per_pod" in delta:
        return f"{title} on {delta['gpus_per_pod']} GPUs instead of {before}"
    gpus = world.plan.placement.devices.only
    return f"{title} on the same {gpus} GPUs" if gpus else title


def _written(layout: Layout) -> str:
    """The degrees above 1: "TP 4 × DP 2"."""
    degrees = (("TP", layout.tp), ("PP", layout.pp), ("DP", layout.dp))
    return " × ".join(f"{name} {value}" for name, value in degrees if value > 1) or "TP 1"


def _estimate(world: World, after: Layout) -> dict[str, dict[str, int]]:
    """KV cache bytes of one token on one GPU, which the shape gives exactly."""
    model = world.model
    size = world.engine.dtype_bytes(world.plan, model) if model is not None else None
    if model is None or size is None or not model.kv_groups or after.tp == world.layout.tp:
        return {}
    if any(not group.fits(world.layout.tp) for group in model.kv_groups):
        return {}  # nothing is stored by a layout that cannot share the heads out
    before = _kv_bytes(model, world.layout.tp, size)
    return {
        "kv_bytes_per_token_per_gpu": {"before": before, "after": _kv_bytes(model, after.tp, size)}
    }


def _kv_bytes(model: ModelFacts, tp: int, size: int) -> int:
    """Layers with a window keep no further bytes once it is full: only the full ones count."""
    groups = [group for group in model.kv_groups if group.window is None]
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
    """Apply fixes one by one, each judged by reading and linting again; nothing is written."""
    result = with_fixes(lint(project))
    applied: list[tuple[Finding, Fix]] = []
    refused: dict[str, tuple[Finding, str]] = {}
    changed: set[str] = set()
    for _ in range(MOST_ROUNDS):
        step = _step(project, result, unsafe, refused)
        if step is None:
            break
        finding, fix, project, result = step
        applied.append((finding, fix))
        changed |= {edit.file for edit in fix.edits}
    return Outcome(project, result, tuple(applied), tuple(refused.values()), frozenset(changed))


def _step(
    project: Project, result: Result, unsafe: bool, refused: dict[str, tuple[Finding, str]]
) -> tuple[Finding, Fix, Project, Result] | None:
    """The first fix that can be applied and holds what it says."""
    for finding in result.findings:
        for fix in finding.fixes:
            if fix.applicability == "unsafe" and not unsafe:
                continue
            key = f"{finding.fingerprint}|{fix.title}"
            if key in refused:
                continue
            after = _tried(project, fix)
            why = after if isinstance(after, str) else _worse(project, result, after, finding, fix)
            if isinstance(why, str):
                refused[key] = (finding, f"{fix.title}: {why}")
                continue
            assert not isinstance(after, str)
            return finding, fix, after, why
    return None


def _tried(project: Project, fix: Fix) -> Project | str:
    """The project after the edits, or why they cannot be made."""
    for name in dict.fromkeys(edit.file for edit in fix.edits):
        source = project.sources[name]
        try:
            text = apply(source.text, [edit for edit in fix.edits if edit.file == name])
        except EditConflict as error:
            return str(error)
        project = project.update(name, text)
    return project


def _worse(
    before: Project, old: Result, after: Project, finding: Finding, fix: Fix
) -> str | Result:
    """Why the fix is taken back, or the new result."""
    if after.problems != before.problems and len(after.problems) > len(before.problems):
        return "the file cannot be read afterwards"
    new = with_fixes(lint(after))
    same = [item for item in new.findings if (item.rule, item.plan) == (finding.rule, finding.plan)]
    was = [item for item in old.findings if (item.rule, item.plan) == (finding.rule, finding.plan)]
    if len(same) >= len(was):
        return "the finding is still there afterwards"
    if new.count("error") > old.count("error"):
        return "it leads to another error"
    if (other := _other_change(before, after, fix)) is not None:
        return f"it would also change {other}"
    return new


def _other_change(before: Project, after: Project, fix: Fix) -> str | None:
    """A fact that the fix changes without saying so."""
    plans = {plan.id: plan for plan in after.plans}
    for plan in before.plans:
        new = plans.get(plan.id)
        if new is None:
            return f"which engines {plan.file} starts"
        for name, value in stated(plan).items():
            if stated(new)[name] != value and name not in fix.delta:
                return f"{name} of {plan.name}"
    return None


def stated(plan: ServingPlan) -> dict[str, tuple[Any, ...]]:
    """The facts that fixes touch, and those beside them that must stay."""
    names = ("model", "layout.tp", "layout.pp", "layout.dp", "layout.ep", "layout.dp_local",
             "placement.gpus_per_pod", "fleet.replicas", "memory.max_model_len")  # fmt: skip
    return {name.rsplit(".", 1)[-1]: plan.fact(name).values for name in names}


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

"""The project as it was at a revision of its git repository, and what has changed since.

Git is only asked for the names and contents of one tree (rev-parse, ls-tree, cat-file): nothing is
written, no index is touched, and no filter or hook of the repository runs.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path, PurePosixPath
from typing import Any

from shardlint.known import Known, Text
from shardlint.library import MAX_BYTES
from shardlint.plan import Placement, Router, ServingPlan
from shardlint.plugins import Finding, Result
from shardlint.project import Project, displayed
from shardlint.source import DecodeError, Source

KEPT_NAMES = ("", ".yaml", ".yml", ".json", ".env", ".sh", ".conf", ".toml")
"""Endings of files that are looked at although they are not there any more."""


class RevisionError(Exception):
    """The revision cannot be read."""


def since(
    project: Project, revision: str, paths: Iterable[str], root: Path | None = None
) -> Project:
    """The project, in which every plan knows what it was at the revision; raises RevisionError."""
    root = (root or Path.cwd()).resolve()
    given = [root / path for path in paths]
    start = next((p if p.is_dir() else p.parent for p in given), root)
    top = Path(os.fsdecode(_git(start, "rev-parse", "--show-toplevel").rstrip(b"\n"))).resolve()
    name = _git(
        top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
    )
    tree = dict(_tree(top, name.decode().strip()))
    texts = _texts(project, top, tree, given, root)
    return replace(project, before=project.changed(texts))


def _git(folder: Path, *words: str, data: bytes = b"") -> bytes:
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", "--no-pager", *words]
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(command, input=data, capture_output=True, env=quiet, check=False)
    except OSError as error:
        raise RevisionError(f"git cannot be run: {error.strerror or error}") from None
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise RevisionError(
            told[-1].removeprefix("fatal: ") if told else "there is no such revision"
        )
    return done.stdout


def _tree(top: Path, commit: str) -> Iterator[tuple[Path, str]]:
    """The regular files of a commit with the ids of their contents."""
    for row in _git(top, "ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
        head, _, path = row.partition(b"\t")
        if head.startswith(b"100"):
            yield top / os.fsdecode(path), head.split()[2].decode()


def _texts(
    project: Project, top: Path, tree: Mapping[Path, str], given: list[Path], root: Path
) -> dict[str, Source | None]:
    """Files that were otherwise, or not there (None)."""
    texts: dict[str, Source | None] = {}
    wanted: dict[str, str] = {}
    now = {path.resolve(): name for name, path in project.paths.items()}
    for path, name in now.items():
        id = tree.get(path)
        if id is None:
            texts[name] = None
        elif id != _id_of(path, len(id)):
            wanted[name] = id
    folders = [path.resolve() for path in given]
    for path, id in tree.items():
        inside = any(path.is_relative_to(folder) for folder in folders)
        if inside and PurePosixPath(path).suffix.lower() in KEPT_NAMES and not path.exists():
            wanted[displayed(path, root)] = id
    for name, data in zip(wanted, _contents(top, list(wanted.values())), strict=True):
        try:
            texts[name] = Source.from_bytes(name, data)
        except DecodeError:
            texts[name] = None
    return texts


def _id_of(path: Path, length: int) -> str:
    """The id that git gives to the contents of a file."""
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    made = hashlib.sha1(usedforsecurity=False) if length == 40 else hashlib.sha256()
    made.update(b"blob %d\0" % len(data) + data)
    return made.hexdigest()


def _contents(top: Path, ids: list[str]) -> Iterator[bytes]:
    if not ids:
        return
    found = _git(top, "cat-file", "--batch", data="".join(f"{id}\n" for id in ids).encode())
    at = 0
    for _ in ids:
        end = found.index(b"\n", at)
        head = found[at:end].split()
        size = int(head[2]) if len(head) == 3 else -1
        data = found[end + 1 : end + 1 + size] if size >= 0 else b""
        yield data if size <= MAX_BYTES and b"\0" not in data[:8192] else b""
        at = end + size + 2


# ----------------------------------------------------------------------------- what has changed


def only_changed(project: Project, result: Result) -> Result:
    """The result with what it says of plans and routers that are not what they were."""
    plans = {plan.id for plan in project.plans if plan.before is None or _differ(plan)}
    old = {_key(router): router for router in project.before.routers} if project.before else {}
    routers = {
        router.id
        for router in project.routers
        if plans & set(router.backends) or _router(old.get(_key(router))) != _router(router)
    }
    changed = plans | routers
    owners = {plan.id for plan in project.plans} | {router.id for router in project.routers}

    def kept(finding: Finding) -> bool:
        mine = set(finding.plans) & owners
        return bool(mine & changed) if mine else _is_new(project, finding.file)

    return replace(
        result,
        findings=tuple(finding for finding in result.findings if kept(finding)),
        undecided=tuple(row for row in result.undecided if row.plan in changed),
    )


def _is_new(project: Project, file: str) -> bool:
    """The text of a file is not what it was."""
    before = project.before.sources.get(file) if project.before is not None else None
    now = project.sources.get(file)
    return before is None or now is None or before.text != now.text


def _key(router: Router) -> tuple[str, str, str]:
    return router.file, router.kind, router.name


def _router(router: Router | None) -> Any:
    if router is None:
        return None
    return router.policy.values, router.explicit, router.awareness, dict(router.selector)


def _differ(plan: ServingPlan) -> bool:
    return plan.before is None or _says(plan) != _says(plan.before)


def _says(plan: ServingPlan) -> Any:
    """What a plan says, wherever it stands."""
    parts = (plan.layout, plan.effective, plan.memory, plan.memory.budget, plan.fleet)
    return (
        plan.engine,
        *(_value(fact) for fact in (plan.image, plan.versions, plan.model, plan.served_name)),
        dict(plan.labels), plan.namespace, plan.role,
        tuple(_value(word) for word in plan.argv),
        tuple(_value(getattr(part, item.name)) for part in parts for item in fields(part)),
        tuple(_value(getattr(plan.placement, item.name)) for item in fields(Placement)
              if item.name not in ("neighbours", "scope")),
        {name: _value(fact) for name, fact in plan.placement.env.items()},
        tuple(remark.kind for remark in plan.remarks), len(plan.refused),
    )  # fmt: skip


def _value(fact: Any) -> Any:
    if isinstance(fact, Known):
        return fact.values or (None, fact.is_unset)
    return fact.value if isinstance(fact, Text) else fact if isinstance(fact, str | bool) else None

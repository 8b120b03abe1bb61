"""Write what vLLM's model classes do otherwise than the general rules, from two sources.

Pipeline support is read from the published packages with `ast`, release by release, and from the
newest what stands on every stage: nothing of vLLM is imported or run. The exceptions that need a
reader (limits in asserts, encoders, experts) come from a reviewed list.

    python scripts/extract_vllm_architectures.py --reviewed FILE DIR...

DIR is an unpacked sdist or wheel with `vllm/`; its release is the end of its name, as in
`vllm-0.33.0`. FILE is the reviewed list (YAML: `exceptions`, `architectures`).
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
MORE = ROOT / "scripts/vllm_more_exceptions.json"
TABLE = ROOT / "lint/shardlint/engines/data/vllm_architectures.json"
OLDEST = "<=0.11.2"
MARK = "SupportsPP"

CONDITIONS = ("replicates_kv", "max_tp", "max_pp", "tp_le_experts", "experts_must_divide_ep",
              "experts_must_divide_tp", "megamoe_needs_ep", "pp_stage_needs_moe_layer",
              "pp_first_stage_min_layers", "eplb", "dcp", "pads_mlp")  # fmt: skip
"""Keys of exceptions that a constraint is built from."""


class Release:
    """The model classes of one release."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "vllm"
        self.name = folder.name.partition("-")[2]

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """Modules that can hold a model class, by their name below the package."""
        found = {}
        for part in ("model_executor/models", "models"):
            for path in sorted((self.folder / part).rglob("*.py")):
                module = path.relative_to(self.folder).with_suffix("").as_posix()
                found[module.removesuffix("/__init__").replace("/", ".")] = ast.parse(
                    path.read_text(encoding="utf-8")
                )
        return found

    @cached_property
    def classes(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Bases by module and class; marked once more where a decorator or attribute says so."""
        return {
            (module, node.name): tuple(_bases(node))
            for module, tree in self.trees.items()
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        }

    @cached_property
    def imports(self) -> dict[tuple[str, str], tuple[str, str]]:
        """Where a name that a module imports is defined; the last of several."""
        return {name: origins[-1] for name, origins in self.origins.items()}

    @cached_property
    def origins(self) -> dict[tuple[str, str], list[tuple[str, str]]]:
        """Where a name is defined: in several places where platforms have classes of their own."""
        found: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for module, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom):
                    source = self._absolute(module, node)
                    for alias in node.names:
                        key = (module, alias.asname or alias.name)
                        found.setdefault(key, []).append((source, alias.name))
        return found

    def _absolute(self, module: str, node: ast.ImportFrom) -> str:
        if node.level == 0:
            return (node.module or "").removeprefix("vllm.")
        package = (self.folder / module.replace(".", "/")).is_dir()
        parts = module.split(".")
        parts = parts[: len(parts) - node.level + (1 if package else 0)]
        return ".".join([*parts, *(node.module or "").split(".")]).rstrip(".")

    def supports(self, module: str, name: str, seen: frozenset[tuple[str, str]]) -> bool:
        """Whether a class or one of its bases is marked for pipelines."""
        key = (module, name)
        if name == MARK:
            return True
        if key in seen or len(seen) > 40:
            return False
        seen |= {key}
        if key not in self.classes:
            origin = self.imports.get(key)
            return origin is not None and self.supports(*origin, seen)
        return any(self.supports(module, base, seen) for base in self.classes[key])

    def registry(self) -> dict[str, tuple[str, str]]:
        """Architecture to module and class."""
        names = [m for m in ("model_executor.models.registry", "model_executor.models") if
                 m in self.trees]  # fmt: skip
        found: dict[str, tuple[str, str]] = {}
        for name in names:
            for node in ast.walk(self.trees[name]):
                if isinstance(node, ast.Dict):
                    found |= dict(self._entries(node))
        return found

    def _entries(self, node: ast.Dict) -> Iterator[tuple[str, tuple[str, str]]]:
        for key, value in zip(node.keys, node.values, strict=True):
            try:
                entry = ast.literal_eval(value)
            except ValueError:
                continue
            pair = isinstance(entry, tuple) and [type(item) for item in entry] == [str, str]
            if isinstance(key, ast.Constant) and pair:
                yield str(key.value), self._module(*entry)

    def _module(self, module: str, name: str) -> tuple[str, str]:
        for prefix in ("model_executor.models.", ""):
            whole = prefix + module.removeprefix("vllm.")
            if whole in self.trees:
                return whole, name
        return module, name

    def pipelines(self) -> dict[str, bool]:
        """Whether each architecture may be split over stages."""
        if (listed := self._listed()) is not None:
            return {name: name in listed for name in self.registry()}
        return {
            name: self.supports(module, cls, frozenset())
            for name, (module, cls) in self.registry().items()
        }

    def _listed(self) -> frozenset[str] | None:
        """Before the mark: the list in config.py."""
        path = self.folder / "config.py"
        tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else None
        for node in ast.walk(tree) if tree is not None else ():
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(getattr(item, "id", "") == "_PP_SUPPORTED_MODELS" for item in targets):
                return frozenset(ast.literal_eval(node.value))  # type: ignore[attr-defined]
        return None


BUILT: Final = {"VocabParallelEmbedding": "first", "ParallelLMHead": "last"}
"""Layers that stand in front of the stages and behind them."""
BY_STAGE: Final = ("is_first_rank", "is_last_rank", "pp_group", "pp_rank")
REGISTERED: Final = "init_vllm_registered_model"


UNCUT: Final = ("is_sequence_parallel", "use_sequence_parallel", "disable_tp")
"""Arguments of an FFN that is whole on every rank where ranks have parts of a sequence."""
SEQUENCES: Final = ("sequence_parallel", "replicate")
KEPT: Final = ("shared_expert", "dense_ffn")


class Copies:
    """What a class builds on every pipeline stage, though one of them alone needs it.

    Beside that the FFNs ("shared_expert", "dense_ffn") that it does not cut where expert and data
    parallelism meet. The constructor is followed through the classes that it builds; what stands
    under a condition on the stage is left out.
    """

    def __init__(self, release: Release) -> None:
        self.release = release
        self.known = release.registry()
        self.nodes = {
            (module, node.name): node
            for module, tree in release.trees.items()
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        }

    def of_all(self) -> dict[str, list[str]]:
        """Architecture to places; those that build nothing twice are left out."""
        found = {}
        for name, where in self.known.items():
            places: set[str] = set()
            self._class(where, places, set())
            if places:
                found[name] = sorted(places)
        return found

    def _class(self, where: tuple[str, str], places: set[str], seen: set[tuple[str, str]]) -> None:
        where = self._defined(where)
        if where in seen or where not in self.nodes:
            return
        seen.add(where)
        found = self._method(where, "__init__")
        if found is not None:
            self._walk(found[1], found[0], where, places, seen)

    def _defined(self, where: tuple[str, str]) -> tuple[str, str]:
        """Of several, the one for NVIDIA, where platforms have classes of their own."""
        for _ in range(20):
            if where in self.nodes or where not in self.release.origins:
                break
            found = self.release.origins[where]
            where = next((item for item in found if "nvidia" in item[0]), found[0])
        return where

    def _method(
        self, where: tuple[str, str], name: str, own: bool = True
    ) -> tuple[tuple[str, str], ast.AST] | None:
        """A method of a class or of the first base that has it, and who has it."""
        where = self._defined(where)
        node = self.nodes.get(where)
        if node is None:
            return None
        for item in node.body if own else ():
            if isinstance(item, ast.FunctionDef) and item.name == name:
                return where, item
        for base in _bases(node):
            origin = self._defined((where[0], base))
            if origin != where and (found := self._method(origin, name)) is not None:
                return found
        return None

    def _attribute(self, where: tuple[str, str], name: str) -> tuple[str, str] | None:
        """The class that an attribute of a class names."""
        where = self._defined(where)
        node = self.nodes.get(where)
        for item in node.body if node is not None else ():
            value = getattr(item, "value", None)
            targets = getattr(item, "targets", [getattr(item, "target", None)])
            if isinstance(value, ast.Name) and any(getattr(t, "id", "") == name for t in targets):
                return where[0], value.id
        for base in _bases(node) if node is not None else ():
            origin = self._defined((where[0], base))
            if origin != where and (found := self._attribute(origin, name)) is not None:
                return found
        return None

    def _walk(
        self,
        node: ast.AST,
        owner: tuple[str, str],
        of: tuple[str, str],
        places: set[str],
        seen: set[tuple[str, str]],
    ) -> None:
        if isinstance(node, ast.If | ast.IfExp) and _asks_stage(node.test):
            return
        if isinstance(node, ast.Assign | ast.AnnAssign) and (part := _uncut(node)):
            places.add(part)
        if isinstance(node, ast.Call):
            self._call(node, owner, of, places, seen)
            if ast.unparse(node.func) == "super":
                return
        if isinstance(node, ast.Name):
            for named in (node.id, *self._listed(owner[0], node.id)):
                self._class((owner[0], named), places, seen)
        for child in ast.iter_child_nodes(node):
            if not (isinstance(node, ast.arg | ast.AnnAssign) and child is node.annotation):
                self._walk(child, owner, of, places, seen)

    def _listed(self, module: str, name: str) -> Iterator[str]:
        """Classes in a table of the module."""
        for item in self.release.trees[module].body if module in self.release.trees else ():
            table = item.value if isinstance(item, ast.Assign) else None
            if isinstance(table, ast.Dict) and ast.unparse(item.targets[0]) == name:  # type: ignore[attr-defined]
                yield from [v.id for v in table.values if isinstance(v, ast.Name)]

    def _call(
        self,
        node: ast.Call,
        owner: tuple[str, str],
        of: tuple[str, str],
        places: set[str],
        seen: set[tuple[str, str]],
    ) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in BUILT:
            places.add(BUILT[name])
        elif name == REGISTERED:
            for word in node.keywords:
                if word.arg == "architectures" and isinstance(word.value, ast.List):
                    for item in word.value.elts:
                        self._class(
                            self.known.get(getattr(item, "value", ""), ("", "")), places, seen
                        )
        elif isinstance(node.func, ast.Attribute):
            self._of_self(node.func, owner, of, places, seen)

    def _of_self(
        self,
        func: ast.Attribute,
        owner: tuple[str, str],
        of: tuple[str, str],
        places: set[str],
        seen: set[tuple[str, str]],
    ) -> None:
        """A method or a class that the class itself names, or the constructor of a base."""
        left = ast.unparse(func.value)
        if left == "self":
            found = self._method(of, func.attr)
            if found is None and (named := self._attribute(of, func.attr)) is not None:
                self._class(named, places, seen)
        elif left.startswith("super("):
            skipped = left[6:-1].partition(",")[0].strip()
            found = self._method((owner[0], skipped) if skipped else owner, func.attr, own=False)
        else:
            return
        if found is not None and (*found[0], func.attr) not in seen:
            seen.add((*found[0], func.attr))  # type: ignore[arg-type]
            self._walk(found[1], found[0], of, places, seen)


def _asks_stage(test: ast.expr) -> bool:
    return any(word in ast.unparse(test) for word in BY_STAGE)


def _uncut(node: ast.Assign | ast.AnnAssign) -> str | None:
    """The class of matrices that an assignment builds whole for parts of sequences."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    name = ast.unparse(target).removeprefix("self.")
    part = "shared_expert" if "shared" in name else "dense_ffn" if name in FFNS else None
    for call in ast.walk(node.value) if node.value is not None else ():
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("MLP"):
            for word in call.keywords:
                told = ast.unparse(word.value)
                if word.arg in UNCUT and any(item in told for item in SEQUENCES):
                    return part
    return None


FFNS: Final = ("mlp", "feed_forward", "ffn")


def _bases(node: ast.ClassDef) -> Iterator[str]:
    for base in node.bases:
        inner = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield inner.attr
    for item in node.body:
        plain = item.targets[0] if isinstance(item, ast.Assign) else None
        name = getattr(plain or getattr(item, "target", None), "id", "")
        value = getattr(item, "value", None)
        if name == "supports_pp" and isinstance(value, ast.Constant) and value.value is True:
            yield MARK


def spans(states: list[tuple[str, bool | None]]) -> list[dict[str, str]]:
    """Runs of releases without pipelines; a change inside a minor release is not relied on."""
    found = []
    position = 0
    for state, run in groupby(states, key=lambda item: item[1]):
        names = [name for name, _ in run]
        after = states[position + len(names)][0] if position + len(names) < len(states) else None
        position += len(names)
        if state is False:
            first = position - len(names)
            before = states[first - 1][0] if first else None
            absent = first > 0 and states[first - 1][1] is None
            span = {"since": (before or "") if absent else names[0]}
            if after is not None:
                whole = Version(after).release[:2] != Version(names[-1]).release[:2]
                span["until"] = after if whole else names[-1]
            if all(known is None for _, known in states[:first]):
                del span["since"]  # there is no older release that has the class
            if span.get("since") != span.get("until") or not span:
                found.append(span)
    return found


def reviewed_rows(reviewed: Mapping[str, Any]) -> dict[str, Any]:
    """The exceptions that constraints are built from, without what is for readers."""
    rows = {}
    for row in reviewed["exceptions"]:
        reported = row.get("severity") == "error" or row["key"] == "pads_mlp"
        if row["key"] not in CONDITIONS or not reported:
            continue
        since = row["since"].removeprefix("<=")
        until = row.get("until", "")
        absent = until.partition("absent in ")[2].rstrip(")") if until else None
        kept = {"key": row["key"], "value": row["value"], "since": since, "until": absent or None,
                "platform": row.get("platform"), "when": row["when"], "text": row.get("text"),
                "source": row["source"]}  # fmt: skip
        rows[row["id"]] = {key: value for key, value in kept.items() if value is not None}
    return rows


def pipelines_of(
    releases: Iterable[Release],
) -> tuple[list[str], dict[str, Any], dict[str, list[str]]]:
    """Releases, the spans without pipelines of every class, and what the newest build twice."""
    ordered = sorted(releases, key=lambda release: Version(release.name))
    known = [(release.name, release.pipelines()) for release in ordered]
    names = sorted({name for _, classes in known for name in classes})
    spans_by_name = {
        name: spans([(release, classes.get(name)) for release, classes in known]) for name in names
    }
    return [release.name for release in ordered], spans_by_name, Copies(ordered[-1]).of_all()


def first_releases(folders: Iterable[Path]) -> dict[str, str]:
    """The first release of each class that was not always there; only registries are parsed."""
    ordered = sorted(folders, key=lambda folder: Version(folder.name.removeprefix("vllm-")))
    first: dict[str, str] = {}
    for folder in ordered:
        for name in ("registry.py", "__init__.py"):
            path = folder / "vllm" / "model_executor" / "models" / name
            for class_ in _registered(path) if path.is_file() else ():
                first.setdefault(class_, folder.name.removeprefix("vllm-"))
    always = ordered[0].name.removeprefix("vllm-") if ordered else ""
    return {class_: release for class_, release in first.items() if release != always}


def _registered(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
        for key, value in pairs:
            two = isinstance(value, ast.Tuple) and len(value.elts) == 2
            if isinstance(key, ast.Constant) and two:
                yield str(key.value)


def contradicted(spans_now: list[dict[str, str]], row: Mapping[str, Any]) -> bool:
    """The reviewed list was made by asking vLLM itself: where it differs, the source misled."""
    without = any("until" not in span for span in spans_now)
    return "impl" in row and row.get("supports_pp", True) == without


def built(
    reviewed: Mapping[str, Any],
    releases: list[str],
    pipelines: Mapping[str, Any],
    copies: Mapping[str, list[str]],
    first: Mapping[str, str],
) -> dict[str, Any]:
    more = json.loads(MORE.read_text(encoding="utf-8"))
    rows = {**reviewed_rows(reviewed), **more["exceptions"]}
    for name in more["left_out"]:
        del rows[name]
    for name in more["not_certain"]:
        rows[name]["certain"] = False
    architectures: dict[str, dict[str, Any]] = {}
    for name in sorted({*pipelines, *reviewed["architectures"], *more["architectures"], *first}):
        entry: dict[str, Any] = {"first": first[name]} if name in first else {}
        row = reviewed["architectures"].get(name, {})
        without = pipelines.get(name, [])
        if without and not contradicted(without, row):
            entry["no_pp"] = without
        twice = [place for place in copies.get(name, ()) if place not in KEPT]
        if twice:
            entry["every_stage"] = twice
        if whole := [part for part in copies.get(name, ()) if part in KEPT]:
            entry["whole_for_sequences"] = whole
        for key in ("encoder_heads", "encoder_data_mode"):
            if row.get(key):
                entry[key] = row[key]
        if row.get("kind") == "multimodal" and "encoder_heads" not in entry:
            entry["encoder_heads"] = "whole"  # no attention that is cut was found in its towers
        kept = [item for item in row.get("exceptions", ()) if item in rows]
        if kept := [*kept, *more["architectures"].get(name, ())]:
            entry["exceptions"] = kept
        if entry:
            architectures[name] = entry
    return {
        "schema_version": 1,
        "engine": "vllm",
        "source": "vLLM packages on PyPI; pipelines by release, exceptions in 0.33.0 and the"
        " releases that each of them names; every_stage: what the class of 0.33.0 builds on each"
        " pipeline stage",
        "releases": releases,
        "of_model_type": more["of_model_type"],
        "built_as": more["built_as"],
        "experts_by_default": more["experts_by_default"],
        "exceptions": rows,
        "architectures": architectures,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("--reviewed", type=Path, required=True)
    parser.add_argument("--pipelines", type=Path, help="keep what the packages say in this file")
    parser.add_argument("folders", type=Path, nargs="*")
    options = parser.parse_args()
    from ruamel.yaml import YAML

    reviewed = YAML(typ="safe", pure=True).load(options.reviewed)
    kept = options.pipelines
    if kept and kept.is_file() and not options.folders:
        found = json.loads(kept.read_text(encoding="utf-8"))
    else:
        found = pipelines_of([Release(folder) for folder in options.folders])
        found = (*found, first_releases(options.folders))
        if kept:
            kept.write_text(json.dumps(found), encoding="utf-8")
    table = built(reviewed, *found)
    lines = []
    for key, value in table.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            lines.append(f"{json.dumps(key)}: {{\n{inner}\n}}")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(table['architectures'])} architectures, {len(table['exceptions'])} exceptions")
    return 0


if __name__ == "__main__":
    sys.exit(main())

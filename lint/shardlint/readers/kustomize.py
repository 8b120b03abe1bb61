"""Kustomizations: what they make of the objects of other files, read as the objects they become.

Resources, bases, components, patches, images, replicas, names, namespaces, labels and generated
ConfigMaps are put together in memory as kustomize does it (kubernetes-sigs/kustomize), with every
value at its own place: in the base, in a patch, in the kustomization. Only files of the run are
opened. Where something that can change an object is not among them, or is a program, nothing is
said of the result, and its files are read for themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from posixpath import basename, dirname

from shardlint.library import SERVING
from shardlint.plan import Router, ServingPlan
from shardlint.platforms.kustomize import FILES, GROUP, RUN_BY_OTHERS, merges_lists
from shardlint.plugins import Absorbed, Problem, ReadContext, ReadResult
from shardlint.readers.kustomize_items import (
    SELECTION,
    Item,
    Named,
    Target,
    Unsure,
    annotated,
    entries_of,
    env_file,
    imaged,
    in_namespace,
    items_of,
    labelled,
    literal,
    named_anew,
    nameless,
    replicated,
    with_references,
    with_variables,
)
from shardlint.readers.layers import (
    LayerError,
    Work,
    embedded,
    everywhere,
    laid_over,
    made,
    made_map,
    operated,
    places,
    put,
)
from shardlint.readers.objects import Object, kind_of, objects, read_object
from shardlint.readers.plans import absorbed as options_files
from shardlint.readers.plans import finished
from shardlint.readers.replacements import changed, created, field, replacing, steps_of
from shardlint.readers.yaml_files import read_yaml
from shardlint.readers.yaml_tree import Node, YamlError
from shardlint.source import Origin, Source, Span

MOST_FOLDERS = 300
MOST_OBJECTS = 3000
MOST_DEEP = 40
"""More than this is a kustomization that is not meant, or not written by people."""

REMOTE = re.compile(r"^[\w+.-]+://|^git@|^github\.com/|\?ref=|^/|^~")
"""Places that are not below the folder of the kustomization, or beside it."""


class KustomizeReader:
    """Files named kustomization.yaml: the objects that they build."""

    name = "kustomize"
    kinds = ("kustomization",)
    look: bytes | None = None
    names = FILES

    def accepts(self, source: Source) -> bool:
        return basename(source.name.replace("\\", "/")) in FILES

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        root, failed = _kustomization(source)
        if failed is not None or root is None:
            return failed or ReadResult()
        if root.string("kind") == "Component":
            return ReadResult()
        outside = next(_outside(root, source, context), None)
        skipped = f"{outside} is not among the files that are read" if outside else None
        if not _serves(source, context):
            return ReadResult(skipped=skipped)
        build = Build(source, context)
        try:
            items = build.objects(source, root)
        except Unsure:
            return ReadResult(problems=tuple(build.problems), skipped=skipped)
        except LayerError as error:
            problem = Problem(error.origin, str(error), "warning")
            return ReadResult(problems=(*build.problems, problem))
        return _result(source, items, build, context)


def _kustomization(source: Source) -> tuple[Node | None, ReadResult | None]:
    """The kustomization in a file, or why there is none."""
    roots, failed = read_yaml(source)
    if failed is not None:
        return None, failed
    root = roots[0] if len(roots) == 1 and roots[0].kind == "map" else None
    if root is None or kind_of(root)[0] not in (GROUP, ""):
        return None, None
    return (root if root.string("kind") in (None, "Kustomization", "Component") else None), None


def _result(source: Source, items: list[Item], build: Build, context: ReadContext) -> ReadResult:
    items = with_references(with_variables(items, build.work), build.work)
    built = [
        Object(item.node, f"{index}:", item.uses, item.open) for index, item in enumerate(items)
    ]
    context = replace(context, siblings=tuple(built))
    found = [read_object(item.node, item.path, context) for item in built]
    plans = finished(_seen_here(plan, built, source) for each in found for plan in each.plans)
    rest = iter(plans)
    routers = []
    absorbed = dict.fromkeys(build.gone)
    for item, each in zip(built, found, strict=True):
        ids = {old.id: next(rest).id for old in each.plans}
        routers += [_router_here(router, ids, item.node, source) for router in each.routers]
        if each.plans or each.routers or each.scalers:
            parts = (at.parts for at in built if at is item or _holds_any(at, each))
            absorbed |= dict.fromkeys(part for one in parts for part in one)
        absorbed |= dict.fromkeys(
            replace(part, file=part.file or source.name) for part in each.absorbs
        )
    absorbed |= dict.fromkeys((*build.bases, *options_files(plans)))
    return ReadResult(
        plans=plans,
        routers=tuple(routers),
        scalers=tuple(replace(row, file=source.name) for each in found for row in each.scalers),
        problems=(*build.problems, *(problem for each in found for problem in each.problems)),
        absorbs=tuple(absorbed),
    )


def _seen_here(plan: ServingPlan, built: list[Object], source: Source) -> ServingPlan:
    """The plan as one of the kustomization, with the places that have a share in it."""
    item = next(item for item in built if _holds(item, plan))
    shared = tuple(places(item.node, plan.path.removeprefix(item.path)))
    named = f"{source.name}#{plan.path}"
    return replace(plan, id=named, file=source.name, elsewhere=shared)


def _router_here(router: Router, ids: Mapping[str, str], node: Node, source: Source) -> Router:
    return replace(
        router,
        id=f"{source.name}#{router.id.removeprefix(f'{router.file}#')}",
        file=source.name,
        elsewhere=tuple(places(node, "")),
        backends=tuple(ids.get(one, one) for one in router.backends),
    )


def _holds(item: Object, plan: ServingPlan) -> bool:
    return plan.path.startswith(item.path)


def _holds_any(item: Object, found: ReadResult) -> bool:
    """Some plan is one of a part of this object: its reader joined several."""
    return any(_holds(item, plan) for plan in found.plans)


# ------------------------------------------------------------------------------- what is reached


def _serves(source: Source, context: ReadContext) -> bool:
    """Something that a kustomization leads to has words of serving: the others are left alone."""
    todo, seen = [source], {source.name}
    while todo and len(seen) < MOST_FOLDERS * 10:
        current = todo.pop()
        if SERVING.search(current.text.encode("utf-8", "replace")):
            return True
        if basename(current.name) in FILES and (root := _kustomization(current)[0]) is not None:
            for found in _named(root, current, context):
                if found.name not in seen:
                    seen.add(found.name)
                    todo.append(found)
    return False


def _outside(root: Node, source: Source, context: ReadContext) -> Iterator[str]:
    """Files and folders that a kustomization builds on, and that are not in the run."""
    for key in ("resources", "bases", "components"):
        for entry in items_of(root, key):
            local = entry.kind == "scalar" and not REMOTE.search(entry.value)
            if local and not any(True for _ in _source(entry.value, source, context)):
                yield entry.value


def _named(root: Node, source: Source, context: ReadContext) -> Iterator[Source]:
    """The files that a kustomization names, as far as they are in the run."""
    for key in ("resources", "bases", "components", "patchesStrategicMerge"):
        for entry in items_of(root, key):
            yield from _source(entry.value, source, context)
    for key in ("patches", "patchesJson6902"):
        for entry in items_of(root, key):
            yield from _source(entry.string("path") or "", source, context)
    for entry in items_of(root, "configMapGenerator"):
        for each in items_of(entry, "envs"):
            yield from _source(each.value, source, context)


def _source(path: str, source: Source, context: ReadContext) -> Iterator[Source]:
    """The file at a path, or the kustomization of the folder there."""
    if not path or "\n" in path or len(path) > 500 or REMOTE.search(path):
        return
    for name in (path, *(f"{path}/{file}" for file in FILES)):
        if (found := context.files.beside(source, name)) is not None:
            yield found
            return


# ------------------------------------------------------------------------------------- building


class Build:
    """The building of one kustomization, with all that it leads to."""

    def __init__(self, source: Source, context: ReadContext) -> None:
        self.context = context
        self.work = Work(Origin(source.name, Span(0, 0)))
        self.problems: list[Problem] = []
        self.bases: list[Absorbed] = []
        self.gone: list[Absorbed] = []
        self.open: list[str] = []
        self.folders = 0

    def objects(self, source: Source, root: Node, above: list[Item] | None = None) -> list[Item]:
        """What a kustomization builds; of a component, what it makes of the objects above it."""
        self.folders += 1
        if self.folders > MOST_FOLDERS or len(self.open) > MOST_DEEP:
            raise LayerError(f"more than {MOST_FOLDERS} kustomizations", self.work.origin)
        if any(root.get(key) is not None for key in RUN_BY_OTHERS):
            raise Unsure
        self.open.append(source.name)
        items = list(above or ())
        for key in ("resources", "bases"):
            for entry in items_of(root, key):
                items = self._joined(items, self._resource(source, entry), entry)
        for entry in items_of(root, "configMapGenerator"):
            items = self._generated(items, source, entry)
        for entry in items_of(root, "components"):
            items = self._component(items, source, entry)
        items = self._transformed(items, source, root)
        self.open.pop()
        return items

    def _joined(self, items: list[Item], more: Iterable[Item], entry: Node) -> list[Item]:
        known = {(item.type, item.names[-1]) for item in items}
        items = items + [i for i in more if (i.type, i.names[-1]) not in known]
        if len(items) > MOST_OBJECTS:
            raise LayerError(f"more than {MOST_OBJECTS:,} objects", entry.origin)
        return items

    # -- what is read

    def _resource(self, source: Source, entry: Node) -> list[Item]:
        found = next(_source(entry.value if entry.kind == "scalar" else "", source, self.context),
                     None)  # fmt: skip
        if found is None:
            return []
        if basename(found.name) not in FILES:
            return list(self._file(found))
        root = self._folder(found, entry)
        if root is None or root.string("kind") == "Component":
            return []
        kept, before, problems = list(self.open), len(self.bases), len(self.problems)
        try:
            items = self.objects(found, root)
        except Unsure:
            self.open = kept
            del self.bases[before:], self.problems[problems:]
            return []
        self.bases.append(Absorbed(found.name))
        return items

    def _folder(self, found: Source, entry: Node) -> Node | None:
        """The kustomization of a folder, which must not be one of those that are being built."""
        if found.name in self.open:
            where = dirname(found.name) or "."
            raise LayerError(f"{entry.value} leads back to the kustomization in {where}",
                             entry.origin)  # fmt: skip
        root, failed = _kustomization(found)
        if failed is not None:
            self.problems += failed.problems
        return root

    def _file(self, source: Source) -> Iterator[Item]:
        roots, failed = read_yaml(source)
        if failed is not None:
            self.problems += failed.problems
        for index, root in enumerate(roots):
            if root.kind != "map" or root.string("kind") == "Template":
                continue
            for node, path in objects(root, f"{index}:"):
                self.work.spend()
                if node.kind == "map" and node.string("kind") is not None:
                    yield Item.of(node, Absorbed(source.name, f"{path}/"))

    def _component(self, items: list[Item], source: Source, entry: Node) -> list[Item]:
        found = next(_source(entry.value if entry.kind == "scalar" else "", source, self.context),
                     None)  # fmt: skip
        if found is None or basename(found.name) not in FILES:
            raise Unsure
        root = self._folder(found, entry)
        if root is None:
            raise Unsure
        return self.objects(found, root, items)

    # -- generated ConfigMaps

    def _generated(self, items: list[Item], source: Source, entry: Node) -> list[Item]:
        name = entry.get("name")
        if name is None or name.kind != "scalar":
            return items
        data, is_open = self._data(source, entry)
        behavior = entry.string("behavior") or "create"
        at = next((at for at, item in enumerate(items) if item.kind == "ConfigMap"
                   and any(known == name.value for _, known in item.names)), None)  # fmt: skip
        if at is not None and behavior in ("merge", "replace"):
            old = items[at]
            kept = entries_of(old.node.get("data")) if behavior == "merge" else {}
            node = put(old.node, ("data",), made_map({**kept, **data}.items(), name))
            was_open = behavior == "merge" and old.open
            new = replace(old, node=node, open=is_open or was_open)
            return [*items[:at], new, *items[at + 1 :]]
        metadata = [("name", name)]
        if (namespace := entry.get("namespace")) is not None:
            metadata.append(("namespace", namespace))
        node = made_map(
            [
                ("apiVersion", made("v1", name)),
                ("kind", made("ConfigMap", name)),
                ("metadata", made_map(metadata, name)),
                ("data", made_map(data.items(), name)),
            ],
            name,
        )
        return [*items, Item.of(node, open=is_open)]

    def _data(self, source: Source, entry: Node) -> tuple[dict[str, Node], bool]:
        """The entries of a generated ConfigMap, and whether there are more."""
        data: dict[str, Node] = {}
        is_open = entry.get("files") is not None
        envs = [*items_of(entry, "envs"), *filter(None, (entry.get("env"),))]
        for each in envs:
            found = next(_source(each.value, source, self.context), None)
            if found is None:
                is_open = True
            else:
                data |= env_file(found)
        for each in items_of(entry, "literals"):
            key, equals, value = each.value.partition("=")
            if each.kind == "scalar" and equals:
                data[key] = literal(each, len(key) + 1, value)
        return data, is_open

    # -- what is done with them

    def _transformed(self, items: list[Item], source: Source, root: Node) -> list[Item]:
        for entry in items_of(root, "patchesStrategicMerge"):
            items = self._patch(items, source, entry, entry, None)
        for entry in items_of(root, "patches"):
            text = entry.get("patch") or entry.get("path")
            items = self._patch(items, source, text, entry, entry.get("target"))
        items = [in_namespace(item, root.get("namespace")) for item in items]
        items = [named_anew(item, root) for item in items]
        for entry in (*items_of(root, "labels"), root):
            items = [labelled(item, entry, root) for item in items]
        items = [annotated(item, root.get("commonAnnotations")) for item in items]
        for entry in items_of(root, "patchesJson6902"):
            text = entry.get("patch") or entry.get("path")
            items = self._patch(items, source, text, entry, entry.get("target"))
        for entry in items_of(root, "replicas"):
            items = [replicated(item, entry) for item in items]
        if images := [entry for entry in items_of(root, "images") if entry.string("name")]:
            items = [self._with_images(item, images) for item in items]
        for entry in self._replacements(root, source):
            items = self._replaced(items, entry)
        return items

    def _replacements(self, root: Node, source: Source) -> Iterator[Node]:
        for entry in items_of(root, "replacements"):
            if (path := entry.get("path")) is None:
                yield entry
                continue
            found = next(_source(path.value, source, self.context), None)
            roots, failed = read_yaml(found) if found is not None else ((), None)
            if found is None or failed is not None:
                raise Unsure
            for each in roots:
                yield from each.items or [each]

    def _replaced(self, items: list[Item], entry: Node) -> list[Item]:
        """The objects with a field of one of them, or a part of it, in fields of others."""
        start = entry.get("source")
        chooser = Target(start, every=True) if start is not None else None
        found = [item for item in items if chooser is not None and chooser.selects(item)]
        path = start.string("fieldPath") if start is not None else None
        value = field(found[0].node, path or "metadata.name") if len(found) == 1 else None
        value = value if value is not None and value.kind == "scalar" else None
        cut = start is not None and start.get("options") is not None
        for target in items_of(entry, "targets"):
            select = target.get("select")
            chosen = Target(select, every=True) if select is not None else None
            options = target.get("options")
            partly = cut or target.get("reject") is not None
            partly = partly or (options is not None and options.get("delimiter") is not None)
            change = replacing(value, partly, entry)
            made_too = options is not None and options.string("create") == "true"
            for steps in (steps_of(each.value) for each in items_of(target, "fieldPaths")):
                items = [
                    self._with_field(item, steps, change, (value, entry) if made_too else None)
                    if chosen is not None and chosen.selects(item)
                    else item
                    for item in items
                ]
        return items

    def _with_field(
        self,
        item: Item,
        steps: tuple[str, ...],
        change: Callable[[Node], Node],
        made_too: tuple[Node | None, Node] | None,
    ) -> Item:
        if not steps:
            return item
        if made_too is not None and item.node.get(*steps) is None:
            return item.changed(created(item.node, steps, *made_too))
        return item.changed(changed(item.node, steps, change, self.work))

    def _patch(
        self, items: list[Item], source: Source, text: Node | None, entry: Node, target: Node | None
    ) -> list[Item]:
        if text is None or text.kind != "scalar":
            return items
        for patch, used in self._patches(source, text, entry):
            if patch.kind == "list" and target is not None:
                chosen = Target(target)
                items = [self._operated(item, patch, chosen, used) for item in items]
            elif patch.kind == "map":
                named = Target(target) if target is not None else Named(patch)
                items = self._merged(items, patch, named, used, entry)
        return items

    def _patches(
        self, source: Source, text: Node, entry: Node
    ) -> Iterator[tuple[Node, tuple[Absorbed, ...]]]:
        """The documents of a patch, inline or in a file, each with what stands there."""
        inline = entry.get("patch") is text or "\n" in text.value
        if inline:
            try:
                yield from ((root, ()) for root in embedded(text))
            except YamlError as error:
                raise LayerError(f"the patch is not YAML: {error}", text.origin) from None
            return
        found = next(_source(text.value, source, self.context), None)
        if found is None or basename(found.name) in FILES:
            raise Unsure
        roots, failed = read_yaml(found)
        if failed is not None:
            self.problems += failed.problems
            raise Unsure
        for index, root in enumerate(roots):
            yield root, (Absorbed(found.name, f"{index}:/"),)

    def _operated(
        self, item: Item, patch: Node, target: Target, used: tuple[Absorbed, ...]
    ) -> Item:
        self.work.spend(SELECTION)
        if not target.selects(item):
            return item
        return item.changed(operated(item.node, patch, self.work), *used)

    def _merged(
        self,
        items: list[Item],
        patch: Node,
        target: Target | Named,
        used: tuple[Absorbed, ...],
        entry: Node,
    ) -> list[Item]:
        free = entry.get("options", "allowNameChange") is not None
        body = patch if free else nameless(patch)
        done: list[Item] = []
        for item in items:
            self.work.spend(SELECTION)
            if not target.selects(item):
                done.append(item)
                continue
            new = laid_over(item.node, body, merges_lists(*kind_of(item.node)), self.work)
            if new is None:
                self.gone += (*item.uses, *used)
            else:
                done.append(item.changed(new, *used))
        return done

    def _with_images(self, item: Item, images: list[Node]) -> Item:
        if item.kind in ("CustomResourceDefinition", "ConfigMap", "Secret"):
            return item

        def change(node: Node, key: str) -> Node:
            image = node.get("image") if key in ("containers", "initContainers") else None
            if image is None or image.kind != "scalar":
                return node
            new = image
            for entry in images:
                new = imaged(new, entry)
            return node if new is image else put(node, ("image",), new)

        node = everywhere(item.node, change, self.work)
        return item if node is item.node else item.changed(node)

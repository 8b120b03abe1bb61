"""Fixes in a text that several files are made from: whether plans change that nobody asked about.

Within one file the Sites know who else reads a word. A base of kustomize, a ConfigMap or a file of
variables is read once for each file that uses it, and each of them sees only its own plans.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardlint.known import Known, Text
from shardlint.plan import Flag, LayoutFacts, ServingPlan
from shardlint.plugins import Finding, Fix
from shardlint.project import Project
from shardlint.source import Edit, Origin, Span


class Sharing:
    """Who reads what in the files that more than one other file was read with."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._files: frozenset[str] | None = None
        self._places: dict[str, list[tuple[Span, str]]] = {}

    def spills(self, finding: Finding, fix: Fix) -> bool:
        """Whether an edit changes a plan that does not have the finding."""
        ours = {*finding.plans, finding.plan}
        for edit in fix.edits:
            if edit.file in self._shared:
                readers = set(self._readers(edit))
                if not readers & ours:  # a part of the object that nobody stated before
                    readers |= self._made_from(ours)
                if readers - ours:
                    return True
        return False

    def _made_from(self, ours: set[str | None]) -> set[str]:
        """Plans that are made from the same object as one of these."""
        objects = {plan.origin for plan in self.project.plans if plan.id in ours}
        return {plan.id for plan in self.project.plans if plan.origin in objects}

    @property
    def _shared(self) -> frozenset[str]:
        if self._files is None:
            self._files = frozenset(_used_by_several(self.project))
        return self._files

    def _readers(self, edit: Edit) -> Iterator[str]:
        """Plans that read what is replaced, or the word on the same line that is added to."""
        text = self.project.sources[edit.file].text
        for span, plan in self._in(edit.file):
            if _meets(span, edit.span) or _follows(span, edit.span, text):
                yield plan

    def _in(self, file: str) -> list[tuple[Span, str]]:
        if file not in self._places:
            self._places[file] = [
                (place.span, plan.id) for plan in self.project.plans for place in _origins(plan)
                if place.file == file
            ]  # fmt: skip
        return self._places[file]


def _used_by_several(project: Project) -> Iterator[str]:
    users: dict[str, int] = {}
    for name, reading in project.readings.items():
        for file in {name, *reading.names}:
            users[file] = users.get(file, 0) + 1
    return (file for file, count in users.items() if count > 1)


def _meets(one: Span, other: Span) -> bool:
    return one.start < other.end and other.start < one.end


def _follows(word: Span, added: Span, text: str) -> bool:
    """Whether something is inserted behind a word, before the next line of words."""
    if added.start != added.end or word.end > added.start:
        return False
    between = text[word.end : added.start]
    return "\n" not in between.rstrip("\r\n")


def _origins(plan: ServingPlan) -> Iterator[Origin]:
    """The places of its words and of what it is given."""
    for text in (*plan.argv, *(word for flag in plan.flags for word in _words(flag))):
        yield text.origin
        if text.definition is not None:
            yield text.definition
        yield from text.related
    place, fleet = plan.placement, plan.fleet
    given: tuple[Known[Any], ...] = (
        place.gpus_per_pod, place.pods_per_group, place.shm_bytes, fleet.replicas,
        *(getattr(plan.layout, name) for name in LayoutFacts.__dataclass_fields__),
    )  # fmt: skip
    for fact in given:
        if fact.origin is not None:
            yield fact.origin
        yield from fact.related


def _words(flag: Flag) -> Iterator[Text]:
    yield flag.written
    if flag.value is not None:
        yield flag.value
    yield from flag.more

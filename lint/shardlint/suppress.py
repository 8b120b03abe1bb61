"""Suppressions: comments and annotations that switch a rule off at a place, and which were used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from shardlint.plan import Router, ServingPlan
from shardlint.plugins import Rule, Unused
from shardlint.source import Origin, Source, Span

COMMENT = re.compile(r"#[ \t]*shardlint:[ \t]*(ignore|ignore-file)\[([^\]\n]*)\]", re.IGNORECASE)
UNCLEAR = re.compile(
    r"#[ \t]*shardlint:[ \t]*+((?:ignore-file|ignore)\b(?!-file|\[)[^\n#]*)", re.IGNORECASE
)


def matches(selector: str, rule: type[Rule]) -> bool:
    """An id, an id prefix (at least "SL" and a digit) or a name."""
    if selector == rule.name:
        return True
    return bool(re.fullmatch(r"[A-Z]+\d+", selector)) and rule.id.startswith(selector)


@dataclass(slots=True)
class Comment:
    """One selector of one comment; `lines` are those that it covers, None for the whole file."""

    origin: Origin
    selector: str
    lines: tuple[int, ...] | None
    used: bool = False


@dataclass(slots=True)
class Suppressions:
    """All suppressions of a run. Asking `covers` marks those that apply as used."""

    comments: dict[str, list[Comment]] = field(default_factory=dict)
    annotations: dict[tuple[Origin, str], bool] = field(default_factory=dict)
    unclear: list[Unused] = field(default_factory=list)

    @classmethod
    def of(cls, sources: Mapping[str, Source]) -> Suppressions:
        found = cls()
        for name, source in sources.items():
            if "shardlint:" in source.text.lower():
                found.comments[name] = list(_comments(source))
                found.unclear += _unclear(source)
        return found

    def covers(
        self, rule: type[Rule], source: Source, span: Span, owner: ServingPlan | Router | None
    ) -> bool:
        lines = _lines(source, span, owner)
        hits = [
            comment
            for comment in self.comments.get(source.name, ())
            if matches(comment.selector, rule)
            and (comment.lines is None or lines & set(comment.lines))
        ]
        for comment in hits:
            comment.used = True
        return self._annotated(rule, owner) or bool(hits)

    def _annotated(self, rule: type[Rule], owner: ServingPlan | Router | None) -> bool:
        used = False
        for selector, origin in (owner.suppressed if owner is not None else {}).items():
            hit = matches(selector, rule)
            self.annotations[origin, selector] = hit or self.annotations.get(
                (origin, selector), False
            )
            used = used or hit
        return used

    def note(self, owner: ServingPlan | Router) -> None:
        """Annotations count as unused until something asks for them."""
        for selector, origin in owner.suppressed.items():
            self.annotations.setdefault((origin, selector), False)

    def unused(
        self, rules: tuple[type[Rule], ...], heard: Callable[[type[Rule], str], bool]
    ) -> Iterator[Unused]:
        """Selectors that suppressed nothing although all rules of that name could speak there.

        A rule that is off by default need not have been asked.
        """
        entries = [
            (comment.origin, comment.selector, comment.used)
            for comments in self.comments.values()
            for comment in comments
        ]
        entries += [(origin, name, used) for (origin, name), used in self.annotations.items()]
        for origin, selector, used in entries:
            named = [rule for rule in rules if matches(selector, rule)]
            spoke = [rule for rule in named if heard(rule, origin.file)]
            silent = [rule for rule in named if rule.enabled and rule not in spoke]
            if not used and spoke and not silent:
                yield Unused(origin, selector)

    def unknown(self, rules: tuple[type[Rule], ...]) -> Iterator[Unused]:
        """Selectors that name no rule at all, and comments that have none."""
        yield from self.unclear
        places = [(c.origin, c.selector) for found in self.comments.values() for c in found]
        for origin, selector in [*places, *self.annotations]:
            if selector and not any(matches(selector, rule) for rule in rules):
                yield Unused(origin, selector, unknown=True)


def _unclear(source: Source) -> Iterator[Unused]:
    """Comments that address shardlint and suppress nothing, for want of `ignore[...]`."""
    for match in UNCLEAR.finditer(source.text):
        span = Span(match.start(1), max(match.start(1) + 1, match.end(1)))
        yield Unused(Origin(source.name, span), match.group(1).strip() or "nothing", unknown=True)


def _comments(source: Source) -> Iterator[Comment]:
    for match in COMMENT.finditer(source.text):
        line = source.position(match.start()).line
        lines = None if match.group(1).lower() == "ignore-file" else _covered(source, line)
        at = match.start(2)
        for part in match.group(2).split(","):
            selector = part.strip()
            start = at + part.find(selector) if selector else at
            at += len(part) + 1
            origin = Origin(source.name, Span(start, start + max(1, len(selector))))
            if selector:
                yield Comment(origin, selector, lines)


def _covered(source: Source, line: int) -> tuple[int, ...]:
    """The comment's own line, and the next line of text if the comment stands alone."""
    if not source.line_text(line).lstrip().startswith("#"):
        return (line,)
    after = line + 1
    while after <= source.line_count and source.line_text(after).lstrip().startswith("#"):
        after += 1
    return (line, after)


def _lines(source: Source, span: Span, owner: ServingPlan | Router | None) -> set[int]:
    """Lines at which a comment covers a finding: its own, and the first lines of its owner."""
    first, last = (
        source.position(span.start).line,
        source.position(max(span.start, span.end - 1)).line,
    )
    lines = set(range(first, min(last, first + 50) + 1))
    if owner is not None:
        anchors = [place.span for place in owner.elsewhere if place.file == source.name]
        here = owner.file == source.name
        anchors += owner.anchors if here else ()
        options = _options(owner, Origin(source.name, span)) if here or anchors else ()
        lines |= {source.position(anchor.start).line for anchor in (*anchors, *options)}
    return lines


def _options(owner: ServingPlan | Router, place: Origin) -> Iterator[Span]:
    """The options of a plan that hold a place: a value may stand on the line below its option."""
    for flag in owner.flags if isinstance(owner, ServingPlan) else ():
        if flag.written.origin.file == place.file and flag.span.covers(place.span):
            yield flag.span

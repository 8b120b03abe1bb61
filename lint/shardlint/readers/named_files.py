"""Files that a command names: one of the run, an entry of a ConfigMap, what a script writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from posixpath import basename, join, normpath
from typing import TypeAlias

from shardlint.engines.config_files import FORMATS, ConfigFiles, named, with_file
from shardlint.known import Text
from shardlint.plan import Launch, Reading, Refusal, Site
from shardlint.plugins import Files
from shardlint.readers.inner_yaml import inner, is_literal, part_of
from shardlint.readers.keyed import Keyed, KeySite
from shardlint.readers.yaml_files import read_yaml
from shardlint.readers.yaml_tree import Node
from shardlint.record import record
from shardlint.source import Edit, Mapped, Source, Span


@record
class NamedFile:
    """A file by what holds its text: all of a source, one scalar in it, or a part of either.

    `assumes` are sentences that must hold for it to be the file that is meant.
    """

    source: Source
    node: Node | None = None
    assumes: frozenset[str] = frozenset()
    body: Mapped | None = None

    @property
    def alone(self) -> bool:
        """It is a file of its own."""
        return self.node is None and self.body is None

    def script(self) -> Mapped | None:
        """The text with its places, None where a place cannot be told for every character."""
        if self.body is not None:
            return self.body
        if self.node is None:
            return Mapped.slice_of(self.source.text, Span(0, len(self.source.text)))
        return self.node.text().mapped

    def tree(self) -> Node | None:
        """The map that the file holds as YAML."""
        if self.body is not None:
            whole = self.node.text().mapped if self.node is not None else None
            literal = self.node is None or (whole is not None and is_literal(self.node, whole))
            root = part_of(self.body, self.source, literal)
        elif self.node is not None:
            root = inner(self.node)
        else:
            roots, _ = read_yaml(self.source)
            root = roots[0] if len(roots) == 1 else None
        return root if root is not None and root.kind == "map" else None


Find: TypeAlias = Callable[[str], NamedFile | None]
"""The file at a path as the process sees it."""


def nothing(_path: str) -> NamedFile | None:
    return None


def on_host(source: Source, files: Files) -> Find:
    """Files of the run by a path that stands in a script: as seen from its folder.

    Where the script changes its folder first, that is an assumption.
    """
    moves = re.search(r"^[ \t]*(?:cd|pushd)[ \t]", source.text, re.MULTILINE) is not None

    def find(path: str) -> NamedFile | None:
        if path.startswith(("/", "~")):
            return None
        found = files.beside(source, path)
        if found is None:
            return None
        why = f"{path} is meant as seen from the folder of {basename(source.name)}"
        return NamedFile(found, None, frozenset({why} if moves else ()))

    return find


# ------------------------------------------------------------------------- written by a script

_PATH, _TAG = r"[\w./-]+", r"(?P<{0}>(?P<{0}_quote>['\"]?)\w+(?P={0}_quote))"
WRITTEN = re.compile(
    rf"^(?:(?:cat[ \t]*>|tee\b)[ \t]*(?P<first>{_PATH})[ \t]*<<[ \t]*{_TAG.format('tag')}"
    rf"|cat[ \t]*<<[ \t]*{_TAG.format('end')}[ \t]*(?:>|\|[ \t]*tee\b)[ \t]*(?P<then>{_PATH}))"
    r"[ \t]*(?:>[ \t]*/dev/null)?[ \t]*\r?\n",
    re.MULTILINE,
)
"""A file that is written from a heredoc, at the beginning of a line: in no branch of the script."""


def written(texts: Iterable[tuple[Mapped, Source, Node | None]], otherwise: Find) -> Find:
    """Files that a script writes itself before it starts an engine, else those found otherwise."""
    files: dict[str, NamedFile | None] = {}
    for mapped, source, node in texts:
        for path, body in _heredocs(mapped):
            known = path in files  # written twice: which one counts is not known
            files[path] = None if known else NamedFile(source, node, body=body)
    if not files:
        return otherwise

    def find(path: str) -> NamedFile | None:
        full = normpath(path)
        return files[full] if full in files else otherwise(path)

    return find


def scripts_in(*nodes: Node | None) -> Iterator[tuple[Mapped, Source, Node]]:
    """Texts of commands and arguments that may write a file."""
    for node in nodes:
        for item in (node.items or [node]) if node is not None else ():
            mapped = item.text().mapped if item.kind == "scalar" and "<<" in item.value else None
            if mapped is not None:
                yield mapped, item.source, item


def _heredocs(mapped: Mapped) -> Iterator[tuple[str, Mapped]]:
    """Paths, and what is written there; nothing of a text in which the shell replaces anything."""
    text = mapped.text
    for match in WRITTEN.finditer(text) if "<<" in text else ():
        tag = match["tag"] or match["end"]
        word = tag.strip("'\"")
        end = re.compile(rf"^{re.escape(word)}[ \t]*$", re.MULTILINE).search(text, match.end())
        if end is None:
            continue
        path, body = match["first"] or match["then"], mapped.cut(match.end(), end.start())
        rest = text[: match.start()] + text[end.end() :]
        changed = re.search(
            rf"(?:>|\b(?:sed|yq|tee|mv|cp|rm)\b).*{re.escape(path)}(?![\w./-])", rest
        )
        if changed is None and (tag != word or not re.search(r"[$`\\]", body.text)):
            yield normpath(path), body


HERE = re.compile(r"(?:\$\(pwd\)|\$\{?PWD\}?|`pwd`)/?")
"""The folder from which a command is started."""


def bound(mounts: Sequence[tuple[str, str]], outside: Find) -> Find:
    """Files of a container into which paths of the host are mounted, as (host, container)."""
    rows = [(HERE.sub("./", host), inside.rstrip("/")) for host, inside in mounts]

    def find(path: str) -> NamedFile | None:
        full = normpath(path)
        for host, inside in sorted(rows, key=lambda row: -len(row[1])):
            if full == inside:
                return outside(host)
            if full.startswith(f"{inside}/"):
                return outside(join(host, full[len(inside) + 1 :]))
        return None

    return find


# -------------------------------------------------------------------------- files of options


@record(kw_only=True)
class Options:
    """A file of options, and its words."""

    file: NamedFile
    node: Node
    words: tuple[Text, ...]

    def entry(self, written: Text) -> tuple[Node, Node] | None:
        """The key and the value that an option was made of."""
        if not any(written is word for word in self.words):
            return None
        for key, value in self.node.entries():
            if key.span == written.origin.span:
                return key, value
        return None

    def of(self, key: str) -> tuple[Text, ...]:
        """The words that one key became."""
        pair = next(((k, v) for k, v in self.node.entries() if k.value == key), None)
        spans = [node.span for node in pair or ()]
        return tuple(
            word for word in self.words if any(span.covers(word.origin.span) for span in spans)
        )

    @property
    def outside(self) -> str | None:
        """The name of the file, where it is one of its own."""
        return self.file.source.name if self.file.alone else None


def options_of(format: ConfigFiles, file: NamedFile, node: Node) -> Options:
    """The words of a file, in its order; those that rest on an assumption say so."""
    made = _words(format, node)
    words = tuple(replace(word, assumes=word.assumes | file.assumes) for word in made)
    return Options(file=file, node=node, words=words)


def _words(
    format: ConfigFiles, node: Node, prefix: str = "", seen: tuple[str, ...] = ()
) -> Iterator[Text]:
    keyed = Keyed(
        option=lambda key: format.option(prefix + key), off="negate" if format.negates else "drop"
    )
    for pair in node.entries():
        key, value = pair
        inside = value.kind == "map" and not prefix and key.value not in seen
        if inside and key.value in format.nested:
            yield from _words(format, value, format.nested[key.value], (*seen, key.value))
        else:
            yield from keyed.words(replace(node, pairs=[pair]))


def joined(launch: Launch, reading: Reading, find: Find) -> tuple[Launch, Options] | None:
    """The launch with the options of the file that it names; None where there is none to read."""
    format, at = FORMATS.get(reading.engine), len(reading.command)
    word = named(format, launch.argv[at:]) if format is not None else None
    if format is None or word is None or word.value is None:
        return None
    if not word.value.lower().endswith((".yaml", ".yml")):
        return None
    file = find(word.value)
    node = file.tree() if file is not None else None
    if file is None or node is None:
        return None
    found = options_of(format, file, node)
    found = replace(found, words=_kept(found.words, launch.argv[at:]))
    argv = (*launch.argv[:at], *with_file(launch.argv[at:], found.words))
    return replace(launch, argv=argv, config=found.words), found


def _kept(words: tuple[Text, ...], behind: Sequence[Text]) -> tuple[Text, ...]:
    """Without a model where the command line has one."""
    if not behind or (behind[0].value or "-").startswith("-"):
        return words
    at = next((at for at, word in enumerate(words) if word.value == "--model"), None)
    return words if at is None else (*words[:at], *words[at + 2 :])


# -------------------------------------------------------------------------------------- sites


@record
class NameSite:
    """The name of a key that is an option, in the spelling of the file."""

    key: Node

    def set(self, value: str) -> list[Edit] | Refusal:
        name = value.removeprefix("--")
        place = self.key.text().editable
        if place is None or value == name or re.search(r"[^\w-]", name):
            return Refusal("the key cannot be written otherwise here")
        if "_" in self.key.value:
            name = name.replace("-", "_")
        return [Edit(place.file, place.span, name)]


@record
class EntryOfSite:
    """A key with its value: taken out of its map, or named otherwise."""

    node: Node
    key: Node
    value: Node

    def set(self, value: str) -> list[Edit] | Refusal:
        if value:
            return NameSite(self.key).set(value)
        node, text = self.node, self.node.source.text
        if node.alias or node.flow or self.key.alias or len(node.pairs) < 2:
            return Refusal("the key cannot be taken out here")
        source = node.source
        first = source.line_span(source.position(self.key.span.start).line)
        end = max(self.key.span.end, self.value.span.end)
        last = source.line_span(source.position(max(0, end - 1)).line)
        if text[first.start : self.key.span.start].strip(" ") or self.value.style in ("|", ">"):
            return Refusal("the key does not stand on a line of its own")
        if not re.fullmatch(r"[ \t]*(?:#.*)?\r?", text[min(end, last.end) : last.end]):
            return Refusal("the key does not stand on a line of its own")
        following = text.find("\n", last.end)
        start, stop = first.start, following + 1
        if following < 0:  # the last line of a text without an end of line
            start, stop = max(0, start - 1), len(text)
        return [Edit(source.name, Span(start, stop), "")]


@record
class OptionKeySite:
    """A field that stands, or would stand, under a key.

    `words` are what the key became, `beside` what the others of the file did.
    """

    site: KeySite
    words: tuple[Text, ...] = ()
    beside: tuple[Text, ...] = ()

    def set(self, value: str) -> list[Edit] | Refusal:
        return self.site.set(value)


def key_site(options: Options, name: str) -> Site:
    """The site of an option that is not in the file yet, spelled like the keys that are."""
    keys = [key.value for key, _ in options.node.pairs]
    lower = sum("_" in key for key in keys) > sum("-" in key for key in keys)
    key = name.removeprefix("--")
    site = KeySite(options.node, key.replace("-", "_") if lower else key)
    return OptionKeySite(site, beside=options.words)

"""Files that are read with others: what is opened, and what is read again after a change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness import setup
from shardlint.library import Asked, Library, relative
from shardlint.plugins import Absorbed, Plugins, ReadContext, Reader, ReadResult, hookimpl
from shardlint.project import Project, Setup
from shardlint.readers import builtin as readers
from shardlint.source import Source

POD = """apiVersion: v1
kind: Pod
metadata: {name: llm}
spec:
  containers:
  - {name: vllm, image: "vllm/vllm-openai:v0.11.0", args: [--model, Qwen/Qwen3-8B]}
"""


class Naming:
    """A reader of files that name another one, and of all Pods."""

    name, look = "naming", b"# names "

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None, list[str]]] = []

    def accepts(self, source: Source) -> bool:
        return source.text.startswith("# names ")

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        path = source.text.split()[2]
        found = context.files.beside(source, path)
        pods = [item.name for item in context.files.holding("Pod")]
        self.seen.append((source.name, found.text if found else None, pods))
        hidden = (Absorbed(found.name),) if found is not None and "absorb" in source.text else ()
        return ReadResult(absorbs=hidden)


def asking() -> tuple[Setup, Naming]:
    reader = Naming()

    class Plugin:
        @staticmethod
        @hookimpl
        def shardlint_readers() -> Iterator[Reader]:
            yield reader

    from shardlint.engines import builtin as engines

    return Setup(Plugins([engines, readers, Plugin()])), reader


def test_a_file_beside_is_opened_once_and_only_below_the_given_paths(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("# names ./more.txt\n")
    (folder / "b.txt").write_text("# names ../out.txt\n")
    (folder / "more.txt").write_text("here")
    (folder / "pod.yaml").write_text(POD)
    (tmp_path / "out.txt").write_text("not here")
    made, reader = asking()
    Project.discover(made, [str(folder)], folder)
    assert reader.seen == [("a.txt", "here", ["pod.yaml"]), ("b.txt", None, ["pod.yaml"])]


def test_what_was_read_with_a_changed_file_is_read_again() -> None:
    made, reader = asking()
    texts = {"a.txt": "# names b.txt\n", "b.txt": "one", "c.yaml": "two", "pod.yaml": POD}
    project = Project.of_texts(made, texts)
    project.update("c.yaml", "three")
    assert len(reader.seen) == 1
    project.update("b.txt", "four")
    assert reader.seen[1:] == [("a.txt", "four", ["pod.yaml"])]
    project.update("c.yaml", POD)
    assert reader.seen[2:] == [("a.txt", "one", ["c.yaml", "pod.yaml"])]


def test_absorbed_plans_are_left_out_where_they_stand() -> None:
    made, _ = asking()
    texts = {"a.txt": "# names pod.yaml absorb\n", "pod.yaml": POD}
    assert Project.of_texts(made, texts).plans == ()
    assert len(Project.of_texts(setup(), texts).plans) == 1


def test_names_are_relative_to_the_file() -> None:
    assert relative("apps/prod/kustomization.yaml", "../base/x.yaml") == "apps/base/x.yaml"
    assert relative("kustomization.yaml", ".") == "."
    library = Library(
        texts={name: Source(name, "") for name in ("a/b.yaml", "a/c/d.yaml", "ab.yaml")}
    )
    assert Asked(library).below(Source("a/x.yaml", ""), ".") == ("a/b.yaml", "a/c/d.yaml")
    assert len(Asked(library).below(Source("x.yaml", ""), ".")) == 3

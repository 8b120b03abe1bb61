"""Which files are YAML, and their documents or the reason why there are none."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePosixPath

from shardlint.plugins import Problem, ReadResult
from shardlint.readers.yaml_tree import Node, YamlError, documents
from shardlint.source import Origin, Source

TEMPLATE = re.compile(
    r"^[ \t]*\{\{-?[ \t]*(if|else|end|range|with|include|template|define|toYaml)\b", re.M
)

FILLED_IN = re.compile(r"^[ \t]*(\$\{\w+\}|\$\w+|<%.*%>|@\w+@)[ \t]*$", re.MULTILINE)
"""A line that is filled in as a whole, as envsubst does with a block of YAML."""

YAML_NAMES = (".yaml", ".yml", ".json")
UNTELLING = ("", ".tpl", ".tmpl", ".template", ".example", ".sample", ".dist")
_MANIFEST = re.compile(r"""["'](apiVersion|services)["'][ \t]*:""")
_TOP_KEYS = re.compile(
    r"\A\s*\{|^(apiVersion|services|containers|command|args|servingEngineSpec|model_list|"
    r"static_resources):",
    re.MULTILINE,
)


@lru_cache(maxsize=32)
def _documents(source: Source) -> tuple[Node, ...]:
    return tuple(documents(source))


def yaml_like(source: Source) -> bool:
    """YAML or JSON by its name; without a telling name, by a first look at the text."""
    suffix = PurePosixPath(source.name.lower().replace("\\", "/")).suffix
    if suffix in YAML_NAMES:
        return True
    return suffix in UNTELLING and _TOP_KEYS.search(source.text[:4000]) is not None


def read_yaml(source: Source) -> tuple[tuple[Node, ...], ReadResult | None]:
    """The documents, or a result that says why there are none."""
    if TEMPLATE.search(source.text):
        return (), ReadResult(skipped="a Go template")
    try:
        return _documents(source), None
    except YamlError as error:
        if "{{" in source.text or "{%" in source.text or FILLED_IN.search(source.text):
            return (), ReadResult(skipped="a template")
        if source.name.lower().endswith(".json") and not _MANIFEST.search(source.text):
            return (), ReadResult(skipped="not JSON, and no manifest by its keys")
        problem = Problem(Origin(source.name, error.span), str(error))
        return (), ReadResult(problems=(problem,))

"""Files of options that engines read themselves: vLLM, SGLang and TensorRT-LLM.

A file is one if its keys are options of exactly one of them, two at the least; a file that another
one names is read through that. Nothing of what is around the engine stands in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from shardlint.engines.config_files import FORMATS, ConfigFiles, whose
from shardlint.known import Known, Text
from shardlint.plan import Launch, Placement, ServingPlan
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers.named_files import NamedFile, options_of
from shardlint.readers.plans import Host, finished, plan_of
from shardlint.readers.yaml_files import read_yaml
from shardlint.readers.yaml_tree import Node
from shardlint.source import Mapped, Origin, Source, Span

KEYS = re.compile(
    r"^[\"']?[a-z][\w-]*[-_](?:size|len|length|utilization|seqs|tokens|config|static|dp|parallel|"
    r"requests|fraction)[\"']?[ \t]*:",
    re.MULTILINE,
)
MODES = ("prefill", "decode")


class EngineConfigReader:
    """`--config FILE` of vLLM and SGLang, `--extra_llm_api_options FILE` of TensorRT-LLM."""

    name = "engine-config"
    kinds = ("vllm", "sglang", "tensorrt-llm")
    look: bytes | None = b"p_size:"

    def accepts(self, source: Source) -> bool:
        named = source.name.lower().endswith((".yaml", ".yml"))
        return named and KEYS.search(source.text) is not None

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        roots, failed = read_yaml(source)
        if failed is not None or len(roots) != 1 or roots[0].kind != "map":
            return ReadResult()
        engine = whose([key.value for key, _ in roots[0].entries()])
        if engine is None:
            return ReadResult()
        return ReadResult(plans=finished(_plans(FORMATS[engine], roots[0], context)))


def _plans(format: ConfigFiles, root: Node, context: ReadContext) -> Iterator[ServingPlan]:
    options = options_of(format, NamedFile(root.source), root)
    start = Origin(root.source.name, Span(root.span.start, root.span.start))
    before = tuple(Text(Mapped.all_at(word, start.span), start) for word in format.launcher)
    launch = Launch(origin=start, argv=(*before, *options.words), config=options.words)
    host = Host(
        source=root.source,
        kind=f"{format.engine}-config",
        name=PurePosixPath(root.source.name.replace("\\", "/")).name,
        path="0:",
        origin=root.pairs[0][0].origin,
        role=_role(root),
        placement=_placement(root.source),
        options=options,
    )
    plan = plan_of(launch, host, context)
    if plan is not None:
        yield plan


def _placement(source: Source) -> Placement:
    """Some machine; options on a command line may join it with others."""
    alone: Known[int] = Known.of(1, how="defaulted")
    alone = alone.assuming("no option beside this file joins several hosts")
    return Placement(on_host=True, scope=source.name, pods_per_group=alone)


def _role(root: Node) -> str | None:
    """The part of a disaggregated engine that SGLang is told to be."""
    mode = root.string("disaggregation-mode") or root.string("disaggregation_mode")
    return mode if mode in MODES else None

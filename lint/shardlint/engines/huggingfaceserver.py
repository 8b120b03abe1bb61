"""huggingfaceserver: KServe's server around vLLM. It takes vLLM's options beside its own.

kserve, python/huggingfaceserver/huggingfaceserver/__main__.py (v0.13 to v0.20): the options of
python/kserve/kserve/model_server.py and its own are parsed with those of vLLM, words that are
neither are dropped, and the model is what --model_id names, else --model_dir. vllm/vllm_model.py:
where CUDA is there, the tensor parallel size becomes the number of GPUs that are visible, after
parsing. With `--backend=huggingface` vLLM has no part in it.

Its images carry releases of KServe, so that the release of vLLM is not known from them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from shardlint.engines.generic import RecognisedEngine
from shardlint.engines.vllm import ANY_RELEASE, VLLM
from shardlint.known import Known, Text
from shardlint.plan import Launch, LayoutFacts, Memory, Reading, Releases
from shardlint.record import record
from shardlint.source import Mapped, Origin

VALUED = frozenset(
    {"http-port", "grpc-port", "workers", "max-threads", "max-asyncio-workers", "enable-grpc",
     "enable-docs-url", "enable-latency-logging", "configure-logging", "log-config-file",
     "access-log-format", "event-loop", "timeout-keep-alive", "model-name", "predictor-host",
     "protocol", "predictor-protocol", "predictor-use-ssl", "predictor-request-timeout-seconds",
     "grpc-max-send-message-length", "grpc-max-receive-message-length",
     "predictor-request-retries", "model-dir", "model-id", "model-revision", "max-length",
     "tensor-input-names", "backend", "task"}
)  # fmt: skip
"""Options of its own that take a value."""

SWITCHES = frozenset(
    {"enable-predictor-health-check", "disable-lower-case", "disable-special-tokens",
     "return-token-type-ids", "return-offsets-mapping", "return-probabilities",
     "return-raw-logits"}
)  # fmt: skip

DEFAULT_DIR = "/mnt/models"
MODULE = ("python", "-m", "vllm.entrypoints.openai.api_server")
"""What reads the same options: these words stand in front while vLLM's are read."""

OTHER_BACKENDS = ("huggingface",)


class HuggingFaceServer(VLLM):
    """The engine as shardlint asks it: vLLM behind another command line."""

    name = "huggingfaceserver"
    label = "huggingfaceserver"

    def __init__(self) -> None:
        super().__init__()
        self._inner = VLLM()
        self._recognised = RecognisedEngine(self.name, self.label)

    def read(self, launch: Launch, releases: Known[Releases] = ANY_RELEASE) -> Reading | None:
        found = self._recognised.read(launch, releases)
        if found is None:
            return None
        at = len(found.command)
        words = _Words.of(launch.argv[at:])
        if (other := _other_backend(words)) is not None:
            return replace(
                found, layout=_unknown(other), model=_model(words, None), open_ended=other
            )
        origin = launch.argv[at - 1].origin if at else launch.origin
        module = tuple(Text(Mapped.all_at(word, origin.span), origin) for word in MODULE)
        inner = self._inner.read(replace(launch, argv=(*module, *words.others)), releases)
        if inner is None:  # a word asks for help
            return None
        return replace(
            inner,
            engine=self.name,
            command=launch.argv[:at],
            model=_model(words, inner.open_ended),
            served_name=words.value("model-name").or_default(inner.served_name),
            memory=_memory(inner.memory, words),
            refused=(),  # it drops what it does not know
            remarks=(),
            counted=("tp",),
        )

    def versions(self, tag: Known[str]) -> Known[Releases]:
        """Its tags are releases of KServe."""
        return super().versions(tag if tag.origin is None else Known.unset())


@record
class _Words:
    """The words behind the launcher: its own options by name, and all others."""

    own: tuple[tuple[str, Text | None, Origin], ...]
    others: tuple[Text, ...]

    @classmethod
    def of(cls, words: Sequence[Text]) -> _Words:
        own: list[tuple[str, Text | None, Origin]] = []
        others: list[Text] = []
        rest = iter(words)
        for word in rest:
            name, text = _option(word)
            if name in VALUED:
                own.append((name, text if text is not None else next(rest, None), word.origin))
            elif name in SWITCHES:
                own.append((name, None, word.origin))
            else:
                others.append(word)
        return cls(tuple(own), tuple(others))

    def value(self, name: str) -> Known[str]:
        """The value of the last option of a name."""
        found = [(text, origin) for key, text, origin in self.own if key == name]
        if not found:
            return Known.unset()
        text, origin = found[-1]
        return text.known() if text is not None else Known.unknown("it has no value", origin)


def _option(word: Text) -> tuple[str, Text | None]:
    """The name of an option and the value in the same word; empty where it is none."""
    value = word.value or ""
    if not value.startswith("--"):
        return "", None
    name, equals, _ = value.partition("=")
    text = word.part(len(name) + 1) if equals else None
    return re.sub("_", "-", name.removeprefix("--")), text


def _other_backend(words: _Words) -> str | None:
    """Why vLLM is not what runs, or may not be."""
    backend = words.value("backend")
    if backend.only in OTHER_BACKENDS:
        return "the Hugging Face backend runs the model, not vLLM"
    if backend.is_known or backend.is_unset:
        return None
    return f"the backend is not known: {backend.reason}"


def _unknown(reason: str) -> LayoutFacts:
    unknown: Known[Any] = Known.unknown(reason)
    return LayoutFacts(**{item.name: unknown for item in fields(LayoutFacts)})


def _model(words: _Words, open_ended: str | None) -> Known[str]:
    """An id wins over a folder; without either it is the folder where KServe puts models."""
    stated = words.value("model-id").or_default(words.value("model-dir"))
    if not stated.is_unset:
        return stated
    if open_ended is not None:
        return Known.unknown(open_ended)
    return Known.of(DEFAULT_DIR, how="defaulted")


def _memory(memory: Memory, words: _Words) -> Memory:
    """`--max_length` is an older name of `--max_model_len`."""
    older = words.value("max-length")
    if older.is_unset or not memory.max_model_len.is_unset:
        return memory
    if not (older.only or "").isdigit():
        return replace(memory, max_model_len=Known.unknown("no whole number", older.origin))
    return replace(memory, max_model_len=older.map(int))

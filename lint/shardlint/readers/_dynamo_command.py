"""Dynamo's frontend as a command of a script or a container, outside of a graph.

Facts of routing, section 4 (ai-dynamo 1.6.1, `dynamo/frontend/frontend_args.py`): the workers
register themselves, so that the command names none; those of the same script are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

from shardlint.known import Known, Text
from shardlint.platforms import dynamo
from shardlint.readers._dynamo_router import PREDICTS, SYNCS
from shardlint.readers.plans import Process

MODULE: Final = re.compile(r"dynamo\.frontend(\.\w+)*")
WORKERS: Final = re.compile(r"dynamo\.(vllm|sglang|trtllm|mocker)(\.\w+)*")
APART: Final = ("--is-prefill-worker", "--multimodal-encode-worker", "--encode-only")
"""Options of workers that other workers call, and not the frontend."""

WEIGHTS: Final = ("--router-kv-overlap-score-credit", "--router-kv-overlap-score-weight",
                  "--kv-overlap-score-weight")  # fmt: skip


def policy(
    words: Iterable[Text], stated: Text | None, env: Mapping[str, Text]
) -> tuple[Known[str], frozenset[str], bool]:
    """The mode with what it looks at, and whether that is known."""
    found = list(words)
    stated = stated or env.get(dynamo.ROUTER_VARIABLE)
    if stated is None:
        if any(word.value is None for word in found):
            return Known.unknown("an option is not known"), frozenset(), False
        return Known.of(dynamo.DEFAULT_ROUTING, how="defaulted"), frozenset(), True
    word = stated.value
    if word is None or not re.fullmatch(r"[a-z-]+", word):
        return Known.unknown("the mode is filled in elsewhere", stated.origin), frozenset(), False
    looks = dynamo.ROUTING.get(word)
    return Known.of(word, stated.place), _looks(word, found), looks is not None or word == "direct"


def _looks(word: str, words: list[Text]) -> frozenset[str]:
    """What the mode looks at; without events it goes by what it has routed itself."""
    looks = dynamo.ROUTING.get(word, frozenset())
    texts = [text.value or "" for text in words]
    names = {text.partition("=")[0] for text in texts}
    if word != "kv":
        return looks
    if "--load-aware" in names or _is_weightless(texts):
        return looks - {"kv", "prefix"}
    return looks - {"kv"} if names & {*PREDICTS} else looks


def _is_weightless(texts: list[str]) -> bool:
    """The part of a prompt that a worker holds counts nothing."""
    for at, text in enumerate(texts):
        name, equals, value = text.partition("=")
        value = value if equals else "".join(texts[at + 1 : at + 2])
        if name in WEIGHTS and re.fullmatch(r"0+(\.0*)?", value):
            return True
    return False


def is_shared(words: Iterable[Text], env: Mapping[str, Text]) -> bool:
    """Several frontends tell each other what they have routed."""
    names = {(word.value or "").partition("=")[0] for word in words}
    return bool({*names, *env} & {*SYNCS})


def workers(started: Iterable[Process]) -> Known[int]:
    """The workers that a script starts, which the frontend sends requests to."""
    count = 0
    for process in started:
        words = [word.value or "" for word in process.argv]
        if not any(a == "-m" and WORKERS.fullmatch(b) for a, b in pairwise(words)):
            continue
        if process.conditional and process.branch:
            return Known.unknown("how many workers start hangs on a test")
        names = {word.partition("=")[0] for word in words}
        prefill = "prefill" in " ".join(words).partition("--disaggregation-mode")[2][:10]
        count += not (names & {*APART} or prefill)
    if count < 2:
        return Known.unknown("workers may be started elsewhere")
    return Known.of(count, how="derived")

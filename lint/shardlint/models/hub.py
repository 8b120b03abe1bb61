"""The Hugging Face Hub: config.json and hf_quant_config.json of a model, and nothing else.

Asked only when the user says so. `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`, `HF_HOME` and
`HF_HUB_CACHE` mean what they mean to huggingface_hub, which does the work; no code of a repository
is ever run.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from logging import CRITICAL
from pathlib import Path
from typing import Any, Final

from shardlint.models.errors import ModelError
from shardlint.plan import ModelFacts
from shardlint.record import record

PROVENANCE: Final = "hub"
CONFIG: Final = "config.json"
BESIDE: Final = "hf_quant_config.json"
ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?")
MAIN: Final = "main"
LIBRARY: Final = "shardlint"


def is_hub_id(name: str) -> bool:
    """Whether a name can be that of a repository: "name" or "owner/name"."""
    plain = len(name) <= 96 and ".." not in name and "--" not in name
    return plain and ID.fullmatch(name) is not None


class Hub:
    """Answers of the Hub, each asked for once; once it cannot be reached, those of the cache."""

    def __init__(self) -> None:
        self._facts: dict[tuple[str, str], ModelFacts | ModelError] = {}
        self._down: str | None = None

    def facts(self, id: str, revision: str | None = None) -> ModelFacts:
        """The facts of a model at a revision, else at main. Raises ModelError if there are none."""
        key = (id, revision or MAIN)
        if key not in self._facts:
            try:
                self._facts[key] = self._asked(*key)
            except ModelError as error:
                self._facts[key] = error
        found = self._facts[key]
        if isinstance(found, ModelError):
            raise found
        return found

    def _asked(self, id: str, revision: str) -> ModelFacts:
        from shardlint.models.config_json import facts_from_config, read_json

        config = self._file(id, revision, CONFIG)
        if config is None:
            raise ModelError(f"the Hub has no {CONFIG} for it at {revision}")
        beside = self._file(id, revision, BESIDE)
        try:
            facts = facts_from_config(read_json(config), id, read_json(beside) if beside else None)
        except ModelError as error:
            reason = str(error).removeprefix(f"{config.parent}{os.sep}")
            raise ModelError(f"what the Hub has cannot be used: {reason}") from None
        stored = {} if facts.quantization is None else facts.quantization
        return replace(facts, provenance=PROVENANCE, quantization=stored)

    def _file(self, id: str, revision: str, name: str) -> Path | None:
        """The file in the local cache, fetched if it is not there; None if the Hub lacks it.

        One short question comes first: the library itself would try again for half a minute.
        """
        hub = _library()
        if hub.constants.HF_HUB_OFFLINE:
            self._down = "HF_HUB_OFFLINE is set"
        try:
            if self._down is None:
                timeout = hub.constants.HF_HUB_ETAG_TIMEOUT
                url = hub.hf_hub_url(id, name, revision=revision)
                hub.get_hf_file_metadata(url, timeout=timeout, library_name=LIBRARY)
                return Path(
                    hub.hf_hub_download(
                        id, name, revision=revision, etag_timeout=timeout, library_name=LIBRARY
                    )
                )
        except Exception as error:  # fence: what a network can do is not enumerable
            said = _answer(error)
            if said is not None and said.problem is None:
                return None
            if said is not None:
                raise ModelError(f"{said.problem}") from None
            self._down = _trouble(error)
        return self._cached(hub, id, revision, name)

    def _cached(self, hub: Any, id: str, revision: str, name: str) -> Path | None:
        """What is not in the cache beside the config is taken not to exist."""
        try:
            return Path(hub.hf_hub_download(id, name, revision=revision, local_files_only=True))
        except Exception:  # fence: a cache may be damaged in ways that only the library knows
            if name == BESIDE:
                return None
            raise ModelError(f"it is not in the local cache, and {self._down}") from None


@record
class _Answer:
    """What the Hub said: the file does not exist, or why the model cannot be had."""

    problem: str | None


def _answer(error: Exception) -> _Answer | None:
    """None if the Hub did not answer."""
    errors = _library().errors
    status = getattr(getattr(error, "response", None), "status_code", None)
    for kind, problem in (
        (errors.GatedRepoError, "the Hub asks for access to it: set HF_TOKEN"),
        (errors.RevisionNotFoundError, "the Hub has no such revision of it"),
        (errors.RepositoryNotFoundError, "the Hub has no such model, or HF_TOKEN may not see it"),
        (errors.HFValidationError, "not an id of the Hugging Face Hub"),
    ):
        if isinstance(error, kind):
            return _Answer(problem)
    if isinstance(error, errors.EntryNotFoundError) and not isinstance(
        error, errors.LocalEntryNotFoundError
    ):
        return _Answer(None)
    if status in (401, 403):
        return _Answer("the Hub refuses access to it: set HF_TOKEN")
    return _Answer(f"the Hub answers {status}") if status and 400 <= status < 500 else None


def _trouble(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return f"the Hub answers {status}" if status else "the Hub cannot be reached"


def _library() -> Any:
    """huggingface_hub, quiet: no progress bars, no telemetry, no warnings of its own."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    import huggingface_hub
    import huggingface_hub.constants
    import huggingface_hub.errors
    import huggingface_hub.file_download
    from huggingface_hub.utils import logging

    logging.set_verbosity(CRITICAL)
    return huggingface_hub

"""Model id or path to `ModelFacts`."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from shardlint.models.entries import ASSUMED_QUANTIZATION, unpacked
from shardlint.models.errors import ModelError
from shardlint.plan import ModelFacts

__all__ = ["DATA", "Catalogue", "ModelError", "hub_id"]

DATA: Final = Path(__file__).parent / "data" / "catalogue.json"
SCHEME: Final = "hf://"
CACHED: Final = r"(?:^|/)models--([^/]+)(?:/snapshots/[^/]+)?/?$"
"""A folder of the Hugging Face cache."""


SHAPE: Final = (
    "model_type",
    "num_layers",
    "hidden_size",
    "attention_heads",
    "other_attention_heads",
    "kv_heads",
    "other_kv_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "num_experts",
    "moe_intermediate_size",
)


def hub_id(reference: str) -> str:
    """The id on the hub that a reference means: `hf://` and folders of its cache are taken off."""
    if reference.startswith(SCHEME):
        return re.split("[:@]", reference.removeprefix(SCHEME), maxsplit=1)[0].rstrip("/")
    if "models--" in reference and (found := re.search(CACHED, reference)):
        return found.group(1).replace("--", "/", 1)
    return reference


def shape(facts: ModelFacts) -> tuple[Any, ...]:
    """What a layout depends on."""
    return tuple(getattr(facts, name) for name in SHAPE)


TELLS_STORAGE: Final = frozenset(("quantization", "base", "config"))
"""Keys of a user's table of which each says how the weights are stored."""


class Catalogue:
    """Facts of known models. The file is read once, when the first reference is not an override.

    `overrides` are the `[models."id"]` tables of the user's config, with paths relative to
    `folder`. `entries` come from plugins, each with its `id`; those that cannot be read are left
    out and told in `problems`.
    """

    def __init__(
        self,
        overrides: Mapping[str, Mapping[str, Any]] | None = None,
        entries: Iterable[Mapping[str, Any]] = (),
        folder: Path | None = None,
    ) -> None:
        self._folder = folder or Path()
        self._overrides = overrides or {}
        self._resolved: dict[str, ModelFacts] = {}
        self._entries: dict[str, ModelFacts] = {}
        self.problems = tuple(filter(None, [self._add(entry) for entry in entries]))

    def lookup(self, reference: str) -> ModelFacts | None:
        """The facts of a model; exact ids first, then ids that differ only in case.

        Raises ModelError when the user's table for this model cannot be read.
        """
        id = hub_id(reference)
        for name in (reference, id):
            if name in self._overrides:
                return self._override(name)
        return self._known(id)

    def assumed_quantization(self, reference: str) -> Mapping[str, Any] | None:
        """How the weights seem to be stored by the name of the checkpoint. A guess.

        A table of the user's that says nothing of it, and names no base, leaves it to the name.
        """
        id = hub_id(reference)
        tables = [self._overrides[key] for key in (reference, id) if key in self._overrides]
        said = any(TELLS_STORAGE & set(table) for table in tables if isinstance(table, Mapping))
        if said or id in self._entries:
            return None
        name = None if tables else self._name(id)
        if name is None:
            from shardlint.models.names import quantization_of

            return quantization_of(id)
        guess: Mapping[str, Any] | None = self._records[name].get(ASSUMED_QUANTIZATION)
        stated = self._records[name].get("quantization") if name.lower() != id.lower() else None
        return guess or stated

    def guess(self, reference: str) -> ModelFacts | None:
        """The facts of the model that a checkpoint seems to be made from, by its name.

        They are assumed, say so, and leave open how the weights are stored. None if no base has the
        name, or if several with different shapes have it. The name of a folder or a bucket is not
        taken for that of a fine-tune.
        """
        from shardlint.models.hub import is_hub_id
        from shardlint.models.names import last_part

        id = hub_id(reference)
        return self._named_after(id, self._base_of(last_part(id), tuned=is_hub_id(id)))

    def named(self, name: str) -> ModelFacts | None:
        """The model whose id ends in this name, whoever its owner; ids before other names.

        Of several, one whose facts are certain, then the first by its id.
        """
        from shardlint.models.names import last_part

        wanted = name.lower()
        for names in (self.ids(), sorted(self._data["aliases"])):
            found = [self.lookup(id) for id in names if last_part(id) == wanted]
            if known := [facts for facts in found if facts is not None]:
                return min(known, key=lambda facts: (len(facts.assumed) > 0, facts.id.lower()))
        return None

    def variant(self, name: str) -> ModelFacts | None:
        """The shape of a family that the name means, or of a packed checkpoint of that name.

        None if models with different shapes go by it. For questions of people, who write
        "llama-2-7b" and mean Llama-2-7b-chat-hf; how the weights are stored is left open.
        """
        from itertools import product

        from shardlint.models.names import (
            is_packed,
            is_variant,
            last_part,
            stripped,
            without_remarks,
        )

        wanted = last_part(without_remarks(name))
        likenesses: tuple[Callable[[str, str], bool], ...] = (
            operator.eq, is_variant, lambda one, family: is_variant(family, one)
        )  # fmt: skip
        for shorter, packed, same in product(stripped(wanted), (False, True), likenesses):
            ids = self._like(shorter, packed, same)
            if ids:
                named = self._named_after(name, self._agreed(ids))
                own = None if packed or is_packed(wanted) else self._known(min(ids))
                return named and replace(named, quantization=own.quantization if own else None)
        return None

    def _like(self, name: str, packed: bool, same: Callable[[str, str], bool]) -> tuple[str, ...]:
        """Ids whose names are like this one; with `packed` those too that say how they store."""
        from shardlint.models.names import is_packed, stripped

        found: list[str] = []
        for part, ids in self._by_last_part.items():
            forms = list(stripped(part)) if packed else [part]
            if (packed or not is_packed(part)) and any(same(form, name) for form in forms):
                found += ids
        return tuple(dict.fromkeys(found))

    def _named_after(self, name: str, base: ModelFacts | None) -> ModelFacts | None:
        """The shape of a model under another name; how its weights are stored is left open."""
        if base is None:
            return None
        base = self._unpacked(base.id)
        return replace(
            base,
            id=name,
            quantization=None,
            default_context=None,
            least_context=None,
            longest_context=None,
            provenance="name",
            assumed=(f"the shape of {base.id}, guessed from the name", *base.assumed),
            confirmed=(),
        )

    def ids(self) -> tuple[str, ...]:
        """Every id that is known, sorted."""
        return tuple(sorted({*self._records, *self._entries, *self._overrides}, key=str.lower))

    # -------------------------------------------------------------------------------- the file

    @cached_property
    def _data(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(DATA.read_bytes())
        return loaded

    @property
    def _records(self) -> dict[str, Any]:
        records: dict[str, Any] = self._data["models"]
        return records

    @cached_property
    def _lowered(self) -> dict[str, str]:
        names = {**self._data["aliases"], **{id: id for id in self._records}}
        return {name.lower(): id for name, id in names.items()}

    def _name(self, id: str) -> str | None:
        """The id under which the file keeps a model."""
        if id in self._records:
            return id
        alias: str | None = self._data["aliases"].get(id)
        return alias or self._lowered.get(id.lower())

    def _known(self, id: str) -> ModelFacts | None:
        """Facts by id or alias; an alias says nothing of how its weights are stored."""
        if id in self._entries:
            return self._entries[id]
        name = self._name(id)
        if name is None:
            return None
        facts = self._unpacked(name)
        if name.lower() != id.lower():
            return replace(facts, quantization=None)
        known = facts.quantization is not None or ASSUMED_QUANTIZATION in self._records[name]
        return facts if known else replace(facts, quantization={})

    def _unpacked(self, name: str) -> ModelFacts:
        """The facts of a model of the file, with its weights from the file beside it."""
        from shardlint.models.inventories import read

        record = self._records[name]
        return unpacked(name, record, read(*record["weights"]) if "weights" in record else ())

    @cached_property
    def _by_last_part(self) -> dict[str, tuple[str, ...]]:
        """Ids of models by the last part of their names and of their aliases."""
        from shardlint.models.names import last_part

        found: dict[str, list[str]] = {}
        for name, id in self._lowered.items():
            found.setdefault(last_part(name), []).append(id)
        return {part: tuple(dict.fromkeys(ids)) for part, ids in found.items()}

    def _base_of(self, name: str, tuned: bool) -> ModelFacts | None:
        """The model whose whole name this is, but for words of storage or of a fine-tune."""
        from shardlint.models.names import is_fine_tune, stripped

        names = list(stripped(name))
        names += [other.removeprefix("meta-") for other in names if other.startswith("meta-llama")]
        for shorter in names:
            if shorter in self._by_last_part:
                return self._agreed(self._by_last_part[shorter])
        if not tuned:
            return None
        longest = [part for part in self._by_last_part if is_fine_tune(names[-1], part)]
        return self._agreed(self._by_last_part[max(longest, key=len)]) if longest else None

    def _agreed(self, ids: tuple[str, ...]) -> ModelFacts | None:
        """One of several models, if their shapes are the same; a certain one first."""
        found = [unpacked(id, self._records[id]) for id in ids]
        if len({shape(facts) for facts in found}) != 1:
            return None
        return min(found, key=lambda facts: (len(facts.assumed), facts.id))

    # ------------------------------------------------------------------- what others have added

    def _override(self, reference: str) -> ModelFacts:
        """The user's own facts of one model."""
        from shardlint.models.override import stated_facts

        if reference not in self._resolved:
            table, where = self._overrides[reference], f"[models.{json.dumps(reference)}]"
            if not isinstance(table, Mapping):
                raise ModelError(f"{where} must be a table")
            own = {key: value for key, value in table.items() if key not in ("config", "base")}
            base = self._base(table, where)
            self._resolved[reference] = stated_facts(reference, own, where, "override", base)
        return self._resolved[reference]

    def _base(self, table: Mapping[str, Any], where: str) -> ModelFacts | None:
        """The facts that a table starts from."""
        if "config" in table and "base" in table:
            raise ModelError(f"{where} has both config and base")
        if "config" in table:
            return self._configured(table["config"], where)
        return self._found(table["base"], where) if "base" in table else None

    def _configured(self, config: object, where: str) -> ModelFacts:
        """The facts of a config.json, or of the folder that holds it."""
        from shardlint.models.config_json import from_config_file, from_folder

        if not isinstance(config, str | Path):
            raise ModelError(f"config in {where} must be a path")
        path = self._folder / config
        return from_folder(path) or from_config_file(path)

    def _found(self, base: object, where: str) -> ModelFacts:
        from shardlint.models.override import did_you_mean

        facts = self._known(hub_id(base)) if isinstance(base, str) else None
        if facts is None:
            near = did_you_mean(str(base), self._records)
            raise ModelError(f"base {base!r} in {where} is not in the catalogue{near}")
        return facts

    def _add(self, entry: Mapping[str, Any]) -> str | None:
        """Take in one entry of a plugin, or say why not."""
        from shardlint.models.override import stated_facts

        id = entry.get("id") if isinstance(entry, Mapping) else None
        if not isinstance(id, str) or not id:
            return "a model of a plugin has no id"
        where = f"the facts of {id!r}"
        own = {key: value for key, value in entry.items() if key not in ("id", "base")}
        try:
            base = self._found(entry["base"], where) if "base" in entry else None
            self._entries[id] = stated_facts(id, own, where, "plugin", base)
        except ModelError as error:
            return str(error)
        return None

"""What Python's argparse, and the types that engines give it, refuse of one word."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from shardlint.engines.flags import HUMAN, SI_NUMBER, Grammar, Option

HUMAN_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
NUMBERS_IN_JSON = re.compile(r"(?<=[:\s\[,])(\d+(?:\.\d+)?)[kKmMgGtT](?=[\s,}\]])")


def refusal(option: Option, word: str, grammar: Grammar) -> str | None:
    """The parser's words about a value that it refuses; None if it takes it."""
    if option.nullable and word in ("", "None"):
        ok = option.type != "choice" or option.choices is None or None in option.choices
        return None if ok else _no_choice("None", option)
    if option.type == "choice":
        return _choice(option, word)
    if option.type == "json" and grammar.pairs and "=" in word:
        return None  # key=value pairs have rules of their own
    test = TYPES.get(option.type)
    return test(word) if test is not None else None


def _choice(option: Option, word: str) -> str | None:
    choices = option.choices or ()
    if all(isinstance(choice, int) for choice in choices if choice is not None):
        if not _is(int, word):
            return f"invalid int value: {word!r}"
        return None if int(word) in choices else _no_choice(word, option)
    return None if word in choices else _no_choice(repr(word), option)


def _no_choice(word: str, option: Option) -> str:
    names = [str(choice) for choice in option.choices or () if choice is not None]
    return f"invalid choice: {word} (choose from {', '.join(names)})"


def _is(convert: Callable[[str], object], word: str) -> bool:
    try:
        convert(word)
    except (ValueError, RecursionError):
        return False
    return True


def _int(word: str) -> str | None:
    return None if _is(int, word) else f"invalid int value: {word!r}"


def _float(word: str) -> str | None:
    return None if _is(float, word) else f"invalid float value: {word!r}"


def _human(word: str) -> str | None:
    found = HUMAN_NUMBER.fullmatch(word.strip())
    if found is None:
        return None if _is(int, word) else f"invalid human_readable_int value: {word!r}"
    if "." in found[1] and found[2].isupper():
        return f"Decimals are not allowed with binary suffixes like {found[2]}"
    assert found[2] in HUMAN
    return None


def _si(word: str) -> str | None:
    found = SI_NUMBER.fullmatch(word.strip())
    if found is None:
        return None if _is(int, word) else f"Invalid integer value: {word!r}"
    if found[2] and found[3].endswith("i"):
        return f"Decimals are not allowed with IEC suffixes like {found[3]!r}"
    return None


def _auto(word: str) -> str | None:
    return None if word.strip().lower() == "auto" else _human(word)


def _json(word: str) -> str | None:
    """Numbers such as 16k are expanded first where the option holds an object of the engine."""
    if _is(json.loads, word) or _is(json.loads, NUMBERS_IN_JSON.sub(r"\1", word)):
        return None
    return f"Value {word} cannot be converted to JSON"


def _json_or_text(word: str) -> str | None:
    whole = re.fullmatch(r"\s*\{.*\}\s*", word, re.DOTALL)
    return _json(word) if whole is not None else None


def _bool(word: str) -> str | None:
    ok = word.lower() in ("true", "false")
    return None if ok else f"invalid boolean value: {word!r}"


TYPES: dict[str, Callable[[str], str | None]] = {
    "int": _int,
    "float": _float,
    "human_int": _human,
    "human_int_auto": _auto,
    "si_int": _si,
    "json": _json,
    "json_or_text": _json_or_text,
    "bool": _bool,
}

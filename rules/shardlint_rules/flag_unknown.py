"""A word on the command line that the engine's parser does not recognise.

The parser stops at an option that it does not know: "unrecognized arguments". It accepts `_` for
`-`, and a prefix that only one option has; `--data-parallel` could be many and is "ambiguous
option". A second word without an option, such as the `True` of `--enable-prefix-caching True`, is
not recognised either.

The options of 43 vLLM releases from 0.6.0 to 0.33.0 are known. What every possible release refuses
is an error: the release that the image's tag or the configuration states, else all of them. What
only some of them refuse is a warning that names them; where no release is stated, an option of the
newest release is not reported, because whoever uses it has a release that has it. An image that is
not vLLM's own, or `VLLM_PLUGINS`, may bring options: then it is at most a warning.

```sh fails
docker run --gpus 2 vllm/vllm-openai:v0.33.0 Qwen/Qwen3-32B --tensor-paralell-size 2  # flag-unknown
```

```sh passes
docker run --gpus 2 vllm/vllm-openai:v0.33.0 Qwen/Qwen3-32B --tensor-parallel-size 2
```

Fix: the spelling that was meant. A misspelt option with one likely spelling, and one that was
renamed, is a safe fix for a release that refuses it. An option that is gone can be removed; that is
not safe, because what it asked for is not done either way.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, Refused, Repair, Rule, World


class FlagUnknown(Rule):
    id, name = "SL701", "flag-unknown"
    severity = "error"
    fix = "safe"

    def check(self, world: World) -> Iterator[Found]:
        for refused in world.plan.refused:
            if refused.kind == "unknown":
                yield Found(
                    message=_message(refused, world.engine.label, _label(world)),
                    at=refused.at,
                    severity=refused.severity,
                    help=_help(refused),
                    repair=_repair(refused),
                )


def _label(world: World) -> str:
    """The engine, with its release where there is one alone."""
    found = world.plan.versions.values
    alone = len(found) == 1 and found[0].first == found[0].last
    return f"{world.engine.label} {found[0].last}" if alone else world.engine.label


def _name(refused: Refused) -> str:
    return (refused.written.value or "").split("=", 1)[0]


def _message(refused: Refused, engine: str, label: str) -> str:
    name = _name(refused)
    if refused.problem == "ambiguous option":
        count = len(refused.candidates)
        many = str(count) if count > 1 else "several"
        told = f"`{name}` is short for {many} options of {label}"
    elif not name.startswith("-"):
        told = f"`{name}` is neither an option nor the value of one"
    elif refused.known:
        told = f"`{name}` is no option of {label}"
    else:
        told = f"`{name}` is no option of any {engine} release that was checked"
    if refused.when is not None:
        return f"{told} {refused.when}: it refuses to start ('{refused.problem}')"
    if refused.severity == "error":
        return f"{told}; it refuses to start ('{refused.problem}')"
    return told


def _help(refused: Refused) -> str | None:
    if refused.candidates:
        return "did you mean " + " or ".join(f"`{name}`" for name in _meant(refused)[:3]) + "?"
    if refused.replaced_by is not None:
        return f"`{refused.replaced_by}` takes its place"
    if refused.remedy is not None:
        return refused.remedy
    if not refused.known or refused.flag is None:
        return None
    return "remove it" if refused.when is None else "remove it where such a release runs"


def _meant(refused: Refused) -> tuple[str, ...]:
    """What was probably meant; of many that begin so, the one that says how many."""
    size = f"{_name(refused).replace('_', '-')}-size"
    if refused.problem == "ambiguous option" and size in refused.candidates:
        return (size,)
    return refused.candidates


def _repair(refused: Refused) -> Repair | None:
    meant = _meant(refused)
    if refused.flag is None or len(meant) > 1:
        return None
    if meant:
        certain = refused.problem != "ambiguous option" and _is_slip(_name(refused), meant[0])
        return Repair("flag", f"flag:{refused.flag}", meant[0], certain=certain)
    if refused.severity != "error":  # a release that may run here may need it
        return None
    if refused.replaced_by is not None:
        return Repair("option", f"option:{refused.flag}", refused.replaced_by)
    useless = refused.known and refused.remedy is None
    return Repair("option", f"option:{refused.flag}", "") if useless else None


FEW = 2
"""Letters of one word that a slip of the hand changes."""


def _is_slip(written: str, meant: str) -> bool:
    """The same words, but for a few letters of one of them: another word is another thing."""
    one, other = (
        name.partition("=")[0].strip("-").replace("_", "-").split("-") for name in (written, meant)
    )
    if "".join(one) == "".join(other):
        return True
    apart = [pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]]
    if len(one) != len(other) or len(apart) != 1:
        return False
    short, long = sorted(apart[0], key=len)
    if long.startswith(short):
        return True
    kept = _common(short, long)
    kept += _common(short[kept:][::-1], long[kept:][::-1])
    apart_by = len(long) - kept
    swapped = len(long) > FEW and sorted(short) == sorted(long)
    return swapped or (apart_by <= FEW and 2 * apart_by < len(long))  # "min" is not "max"


def _common(one: str, other: str) -> int:
    """Letters that both begin with."""
    pairs = list(zip(one, other, strict=False))
    return next((at for at, (a, b) in enumerate(pairs) if a != b), len(pairs))

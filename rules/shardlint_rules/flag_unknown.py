"""An option that the engine does not have.

The engine's parser stops at an option that it does not know: "unrecognized arguments". It accepts
`_` for `-`, and a prefix that only one option has; `--data-parallel` could be many and is
"ambiguous option". For a release whose options are in the table (vLLM 0.33) this is an error. For
any other release, stated or not, it is a warning, and only for options that no release is known to
have had.

```sh fails
docker run --gpus 2 vllm/vllm-openai:v0.33.0 Qwen/Qwen3-32B --tensor-paralell-size 2  # flag-unknown
```

```sh passes
docker run --gpus 2 vllm/vllm-openai:v0.33.0 Qwen/Qwen3-32B --tensor-parallel-size 2
```

Fix: the spelling that was meant. A misspelt option with one likely spelling is a safe fix for a
release that refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Flag, Found, Repair, Rule, World


class FlagUnknown(Rule):
    id, name = "SL701", "flag-unknown"
    severity = "error"
    fix = "safe"

    def check(self, world: World) -> Iterator[Found]:
        for index, flag in enumerate(world.plan.flags):
            severity = world.engine.flag_refused(flag, world.plan)
            if severity is not None:
                yield Found(
                    message=_message(flag, world, severity == "error"),
                    at=flag.written.place,
                    severity=severity,
                    help=_help(flag),
                    repair=_repair(flag, index),
                )


def _name(flag: Flag) -> str:
    return (flag.written.value or "").split("=", 1)[0]


def _message(flag: Flag, world: World, certain: bool) -> str:
    label = world.engine.label
    if flag.problem == "ambiguous option":
        count = len(flag.candidates)
        return f"`{_name(flag)}` is short for {count} options of {label} ('{flag.problem}')"
    if certain:
        return f"`{_name(flag)}` is no option of {label}; it refuses to start ('{flag.problem}')"
    return f"`{_name(flag)}` is no option of any {label} release that was checked"


def _help(flag: Flag) -> str | None:
    if not flag.candidates:
        return None
    return "did you mean " + " or ".join(f"`{name}`" for name in flag.candidates[:3]) + "?"


def _repair(flag: Flag, index: int) -> Repair | None:
    if flag.problem == "ambiguous option" or len(flag.candidates) != 1:
        return None
    return Repair("flag", f"flag:{index}", flag.candidates[0])

"""A file or a setting that the engine drops without a word.

vLLM looks for `--config` as a word of its own. `--config=serve.yaml` is accepted by the parser and
the file is never opened: the server starts with its defaults. And where an option is given both as
a JSON object and key by key (`--speculative-config '{...}' --speculative-config.method ngram`), the
keys replace the whole object. A list item that holds an option and its value with a blank between
them is one word, and read as no option. The module `vllm.entrypoints.openai.api_server` takes the
model from `--model`; a word without an option is accepted since 0.10 and dropped. SGLang sets the
size of expert parallelism to that of tensor parallelism where `--moe-a2a-backend` spans the group
("The expert parallel size is adjusted"), whatever `--ep-size` says.

```sh fails
vllm serve Qwen/Qwen3-8B --config=serve.yaml  # config-ignored
```

```sh passes
vllm serve Qwen/Qwen3-8B --config serve.yaml
```

Fix: write `--config` and the file as two words; give all keys of one option in one way.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, Note, Rule, World


class ConfigIgnored(Rule):
    id, name = "SL707", "config-ignored"
    severity = "warning"

    def check(self, world: World) -> Iterator[Found]:
        for remark in world.plan.remarks:
            if remark.kind == "ignored":
                yield Found(
                    message=remark.message,
                    at=remark.at,
                    severity=remark.severity,
                    help=remark.help,
                    related=tuple(Note(origin, text) for origin, text in remark.related),
                )

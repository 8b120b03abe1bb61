"""A model is taken from the hub in whatever state it is there today.

Weights, the tokenizer and the chat template of a repository can change under the same name. A pod
that starts tomorrow may then serve something else than one that started today. Off by default:
`--select SL710` turns it on.

```sh fails
vllm serve Qwen/Qwen3-8B  # model-revision-unpinned
```

```sh passes
vllm serve Qwen/Qwen3-8B --revision 0123456789abcdef0123456789abcdef01234567
```

Fix: `--revision` with a commit of the repository, or a folder that you keep yourself.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Engine, Found, Rule, ServingPlan, World


class ModelRevisionUnpinned(Rule):
    id, name = "SL710", "model-revision-unpinned"
    severity = "info"
    enabled = False

    def applies(self, plan: ServingPlan, engine: Engine) -> bool:
        return engine.checked and plan.open_ended is None and plan.fact("options.revision").is_unset

    def check(self, world: World) -> Iterator[Found]:
        model = world.plan.model
        if model.only is not None and _is_of_hub(model.only):
            yield Found(
                message=f"{model.only} is taken from the hub in whatever state it is in",
                at=model.origin or world.plan.origin,
                help="pin it with `--revision COMMIT`",
            )


def _is_of_hub(model: str) -> bool:
    """OWNER/NAME: no path, no address, no placeholder."""
    owner, slash, name = model.partition("/")
    parts = (owner, name)
    plain = all(part.replace("-", "").replace("_", "").replace(".", "").isalnum() for part in parts)
    return bool(slash) and plain and not model.startswith(".")

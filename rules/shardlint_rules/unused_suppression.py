"""A suppression that suppresses nothing.

A comment `# shardlint: ignore[...]` or an annotation `shardlint/ignore` that no finding needs any
more hides the next real one. A selector that names no rule never worked.

```sh fails
vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2  # shardlint: ignore[SL101] # unused-suppression
```

```sh passes
vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 8  # shardlint: ignore[SL101] 28 heads
```

Fix: remove the comment, or correct the id. Rules that did not run in this call (`--select`,
`--ignore`), or that could not be decided for the file, are not counted as unused.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, Rule, RunFacts


class UnusedSuppression(Rule):
    id, name = "SL902", "unused-suppression"
    severity = "warning"
    scope = "run"

    def check_run(self, run: RunFacts) -> Iterator[Found]:
        for item in run.unused:
            message = f"`{item.selector}` is suppressed here and nothing of it was found"
            if item.unknown:
                message = f"`{item.selector}` is suppressed here and names no rule"
            yield Found(message=message, at=item.origin, help="remove the suppression")

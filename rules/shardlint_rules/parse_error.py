"""A file that looks like a serving manifest and cannot be read.

Kubernetes, Compose and Helm refuse a file that is not YAML, and nothing in it was checked. A file
that is not UTF-8, is binary, or is larger or nested deeper than any manifest is a warning: another
tool may read it. Go templates are skipped and counted, not reported.

```yaml fails
apiVersion: v1
kind: Pod
metadata: {name: llm
spec: {}  # parse-error
```

```yaml passes
apiVersion: v1
kind: Pod
metadata: {name: llm}
spec: {}
```

Fix: the place is where the parser gave up, which is at or after the mistake.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, Rule, RunFacts


class ParseError(Rule):
    id, name = "SL901", "parse-error"
    severity = "error"
    scope = "run"

    def check_run(self, run: RunFacts) -> Iterator[Found]:
        for problem in run.problems:
            yield Found(
                message=f"this file was not read: {problem.message}",
                at=problem.origin,
                severity=problem.severity,
            )

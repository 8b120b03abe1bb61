"""A plugin could not be loaded, or raised an error while it worked.

The run goes on without it, so what it would have found is missing. A built-in rule or reader that
fails is reported the same way: that is a fault of shardlint.

```python fails
from shardlint.api import Rule

class Broken(Rule):
    id, name = "XX001", "broken"
    def check(self, world):
        raise ValueError("no")
```

```python passes
from shardlint.api import Found, Rule

class Works(Rule):
    id, name = "XX001", "works"
    def check(self, world):
        yield Found(message="one more plan", at=world.plan.origin)
```

Fix: the message names the plugin, its version and the error. `shardlint rules` lists what is
loaded.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.api import Found, Origin, Rule, RunFacts, Span


class PluginFailed(Rule):
    id, name = "SL904", "plugin-failed"
    severity = "warning"
    scope = "run"

    def check_run(self, run: RunFacts) -> Iterator[Found]:
        for plugin in run.broken:
            version = f" {plugin.version}" if plugin.version else ""
            yield Found(
                message=f"{plugin.name}{version} failed and was left out: {plugin.error}",
                at=Origin("shardlint", Span(0, 0)),
            )

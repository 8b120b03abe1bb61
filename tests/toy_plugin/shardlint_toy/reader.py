"""Files that end in .toy: `model`, `tp` and `gpus` of a vLLM server, one on a line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shardlint.api import (
    Edit,
    Known,
    LayoutFacts,
    Origin,
    Placement,
    ReadContext,
    ReadResult,
    Refusal,
    ServingPlan,
    Source,
    Span,
    by_release,
)

LINE = re.compile(r"^(\w+) *= *(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class TokenSite:
    """One token of the file, which a fix may replace."""

    origin: Origin

    def set(self, value: str) -> list[Edit] | Refusal:
        return [Edit(self.origin.file, self.origin.span, value)]


class ToyReader:
    name = "toy"
    look: bytes | None = b"model = "

    def accepts(self, source: Source) -> bool:
        return source.name.endswith(".toy")

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        found = {match[1]: match for match in LINE.finditer(source.text)}
        engine = next(engine for engine in context.engines if engine.name == "vllm")

        def text(key: str) -> Known[str]:
            """What is written, and where; unset if it is not there."""
            match = found.get(key)
            if match is None:
                return Known.unset()
            return Known.of(match[2], Origin(source.name, Span(*match.span(2))))

        releases = context.platform("toybox")
        gpus = by_release("Toy Box", releases, "2.0.0", text("gpus").map(int), Known.of(1))
        layout = LayoutFacts(tp=text("tp").map(int))
        sites = {"tp": "tp", "gpus_per_pod": "gpus"}
        plan = ServingPlan(
            id=f"{source.name}#toy",
            name="toy",
            kind="toy",
            file=source.name,
            path="0:",
            origin=Origin(source.name, Span(0, 0)),
            engine=engine.name,
            versions=context.releases(engine),
            model=text("model"),
            layout=layout,
            effective=engine.effective(layout),
            placement=Placement(gpus_per_pod=gpus),
            platform="toybox",
            sites={
                field: TokenSite(origin)
                for field, key in sites.items()
                if (origin := text(key).origin) is not None
            },
        )
        return ReadResult(plans=(plan,))

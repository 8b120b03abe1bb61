"""What a recommendation is asked for."""

from __future__ import annotations

from typing import Literal, TypeAlias

from shardlint.estimates import Asked
from shardlint.recommendations.measured import Measured
from shardlint.record import record

Objective: TypeAlias = Literal["throughput", "latency", "context"]


@record(kw_only=True)
class Wanted:
    """A model, the GPUs there are, the requests, and what is aimed at.

    `asked` holds the model, the card, the engine and how it is started; its layout counts for
    nothing, and its `concurrency` is that of the whole fleet. There are `nodes` of `per_node` GPUs.
    `target_tok_s` and `request_rate` (requests a second) are those of the fleet, `headroom` is the
    share of replicas that is added to what the target needs. `price` is that of one GPU for an
    hour. `session` are the tokens of a session that is far longer than the others, `prefix_share`
    is the share of input tokens that an earlier request had too. `said` is what was taken for what
    the question leaves open. Goals that are None are not set.
    """

    asked: Asked
    per_node: int
    nodes: int = 1
    target_tok_s: float | None = None
    request_rate: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    headroom: float = 0.2
    objective: Objective = "throughput"
    price: float | None = None
    measured: tuple[Measured, ...] = ()
    session: int | None = None
    prefix_share: float | None = None
    said: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        return self.per_node * self.nodes

    def room(self, gpus: int) -> int:
        """Replicas of so many GPUs that the nodes hold; one that is larger takes whole nodes."""
        if gpus <= self.per_node:
            return self.nodes * (self.per_node // gpus)
        return self.nodes // -(-gpus // self.per_node)

    @property
    def rate(self) -> float | None:
        """Output tokens a second that are needed."""
        if self.target_tok_s is not None:
            return self.target_tok_s
        if self.request_rate is not None and self.asked.osl:
            return self.request_rate * self.asked.osl
        return None

"""How fast one replica is under a workload, as rules see it."""

from __future__ import annotations

from shardlint.record import record


@record(kw_only=True)
class Speed:
    """One replica in one release.

    `batch` requests run at the same time. `tpot_ms` is the time between two tokens of one request
    with what prefill of others takes of it, `step_ms` without. `measured`: layouts of this kind
    were measured, and nine of ten gave between `low` and `high` times `tok_s`. Without, `why` says
    what is doubtful, and no advice may rest on it.
    """

    release: str
    gpus: int
    batch: float
    tok_s: float
    tpot_ms: float
    step_ms: float
    measured: bool
    why: str
    low: float
    high: float

    @property
    def tok_s_per_gpu(self) -> float:
        return self.tok_s / self.gpus

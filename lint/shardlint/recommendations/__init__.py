"""Recommendations: which layout, how many replicas, and why."""

from shardlint.recommendations.candidates import Candidate, Recommendation, Rejected, recommend
from shardlint.recommendations.measured import Measured, MeasuredError, measured_of
from shardlint.recommendations.question import Wanted

__all__ = [
    "Candidate", "Measured", "MeasuredError", "Recommendation", "Rejected", "Wanted",
    "measured_of", "recommend",
]  # fmt: skip

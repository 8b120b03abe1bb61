"""Recommendations: which layout, how many replicas, and why."""

from shardlint.recommendations.candidates import Candidate, Recommendation, Rejected, recommend
from shardlint.recommendations.measured import Measured, MeasuredError, measured_of
from shardlint.recommendations.question import Wanted
from shardlint.recommendations.traffic import Session

__all__ = [
    "Candidate", "Measured", "MeasuredError", "Recommendation", "Rejected", "Session", "Wanted",
    "measured_of", "recommend",
]  # fmt: skip

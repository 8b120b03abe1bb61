"""Estimates of memory and speed: for flags, for the lines of a batch, for a plan that was read."""

from shardlint.estimates.asked import Asked, EstimateError, asked_of
from shardlint.estimates.estimator import Estimate, Estimator, estimate, estimate_plan
from shardlint.estimates.records import (
    apportioned,
    doubts,
    error_record,
    estimate_record,
    plan_record,
)

__all__ = [
    "Asked", "Estimate", "EstimateError", "Estimator", "apportioned", "asked_of", "doubts",
    "error_record", "estimate", "estimate_plan", "estimate_record", "plan_record",
]  # fmt: skip

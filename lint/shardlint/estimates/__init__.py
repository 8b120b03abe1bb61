"""Estimates of memory: for flags, for the lines of a batch, for a plan that was read."""

from shardlint.estimates.asked import Asked, EstimateError, asked_of
from shardlint.estimates.estimator import Estimate, Estimator, estimate, estimate_plan

__all__ = ["Asked", "Estimate", "EstimateError", "Estimator", "asked_of", "estimate",
           "estimate_plan"]  # fmt: skip

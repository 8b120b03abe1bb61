"""shardlint: a linter for the shape of LLM inference serving configuration."""

__version__ = "0.1.0"

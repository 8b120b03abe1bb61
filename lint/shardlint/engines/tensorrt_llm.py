"""TensorRT-LLM: how a layout becomes ranks, and how it uses memory. Nothing is judged yet.

Read in tensorrt_llm (2026), mapping.py and llmapi/llm_args.py.
"""

from __future__ import annotations

from typing import Final

from shardlint.engines import inner_ranks
from shardlint.engines.generic import RecognisedEngine
from shardlint.engines.tensorrt_llm_memory import TensorRTLLMMemory
from shardlint.footprint import MemoryRules
from shardlint.plan import Layout, ModelFacts, Ranks

RELEASES: Final = ("1.0.0", "1.1.0", "1.2.0", "1.2.1")
"""Releases in which the PyTorch backend is the default; they are taken to be alike."""


class TensorRTLLM(RecognisedEngine):
    """The engine as shardlint asks it; `Layout.tp` are all ranks of a stage."""

    def __init__(self) -> None:
        super().__init__("trtllm", "TensorRT-LLM", ("tensorrt-llm",))

    def ranks(self, layout: Layout, model: ModelFacts | None, devices: int | None) -> Ranks:
        """One attention group is one engine; replicas are processes of their own."""
        return inner_ranks.ranks(layout, model, devices)

    def releases(self) -> tuple[str, ...]:
        return RELEASES

    def spread(
        self, *, tp: int, pp: int, dp: int, attention_dp: int, ep: int | bool, dcp: int
    ) -> Layout:
        """Attention DP is a switch: every rank of TP then has an attention of its own.

        Context parallelism is not modelled.
        """
        ranks = tp * attention_dp
        wide = ranks if attention_dp > 1 else 1
        return Layout(tp=ranks, pp=pp, dp=dp, attention_dp=wide, ep=ep)

    def memory(self, release: str) -> MemoryRules | None:
        return TensorRTLLMMemory()

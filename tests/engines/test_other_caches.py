"""SGLang's and TensorRT-LLM's KV cache against printed pools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shardlint.engines import sglang_cache, tensorrt_llm_cache
from shardlint.footprint import Settings
from shardlint.matrices import StateGroup
from shardlint.models.config_json import facts_from_config
from shardlint.plan import KvGroup, Layout, ModelFacts, Ranks

GIB = 1 << 30
QWEN = ModelFacts(id="q", num_layers=28, kv_groups=(KvGroup(28, 2, 512),))
ROUNDED = 0.011
"""K and V are printed with two places each."""


def ranks(tp: int = 1) -> Ranks:
    return Ranks(
        gpus=tp, gpus_per_pod=None, world_size=tp, engines=1, attention_tp=tp, attention_dp=1,
        dense_tp=tp, moe_tp=tp, ep=1, pp=1, kv_copies=None, coupled=1,
    )  # fmt: skip


def per_token(model: ModelFacts, tp: int = 1, release: str = "0.5.23", **settings: object) -> float:
    found = sglang_cache.cache(model, ranks(tp), Layout(tp=tp), Settings(**settings), release)  # type: ignore[arg-type]
    assert found is not None
    return found.bytes_per_token


@pytest.mark.parametrize(
    ("dtype", "size"), [(None, 28672), ("fp8_e4m3", 14336), ("fp4_e2m1", 8064), ("mxfp8", 14784)]
)
def test_sglang_counts_elements_and_scales(dtype: str | None, size: int) -> None:
    assert size == per_token(QWEN, kv_cache_dtype=dtype)


def test_sglang_copies_heads_beyond_their_number() -> None:
    assert 14336 == per_token(QWEN, tp=2) == per_token(QWEN, tp=8)


def test_sglang_keeps_latent_entries_whole() -> None:
    model = ModelFacts(id="v3", kv_groups=(KvGroup(61, 1, 1152, shared=True),))
    assert 70272 == per_token(model, tp=8)


def test_sglang_packs_sparse_entries_in_fp8() -> None:
    layers = tuple(range(61))
    group = KvGroup(61, 1, 1152, shared=True, index=128, indexers=layers)
    model = ModelFacts(id="v32", kv_groups=(group,))
    assert 61 * (656 + 132) == per_token(model, tp=8, kv_cache_dtype="fp8_e4m3")
    assert 61 * (1152 + 132) == per_token(model, tp=8)
    for release, size in (("0.5.3", 576), ("0.5.4", 708), ("0.5.16", 708), ("0.5.17", 788)):
        assert 61 * size == per_token(model, release=release, kv_cache_dtype="fp8_e4m3")
    blackwell = {"kv_cache_dtype": "fp8_e4m3", "compute_capability": "10.0"}
    assert 61 * 708 == per_token(model, **blackwell)


def test_sglang_keeps_fewer_tokens_of_sliding_layers_in_known_classes() -> None:
    groups = (KvGroup(2, 8, 512), KvGroup(2, 8, 512, window=128))
    known = ModelFacts(id="g", architecture="GptOssForCausalLM", kv_groups=groups)
    assert int((2 + 2 * 0.8) * 8 * 512) == per_token(known)
    assert 4 * 8 * 512 == per_token(known, release="0.5.7")
    assert 4 * 8 * 512 == per_token(ModelFacts(id="o", kv_groups=groups))


def test_sglang_keeps_states_in_a_fixed_ratio_to_tokens() -> None:
    states = (StateGroup(layers=30, kind="delta", channels=8192, conv=3, heads=32, state=16384),)
    model = ModelFacts(id="n", kv_groups=(KvGroup(10, 2, 1024),), states=states)
    assert int(1.9 * 10 * 2 * 1024) == per_token(model)
    for release, settings in (
        ("0.5.3", Settings()), ("0.5.23", Settings(draft="mtp")),
        ("0.5.23", Settings(prefix_caching=False)),
    ):  # fmt: skip
        assert None is sglang_cache.cache(model, ranks(), Layout(), settings, release)


def test_sglang_has_pools_of_several_kinds_for_compressed_entries() -> None:
    model = ModelFacts(id="v4", kv_groups=(KvGroup(2, 1, 1024, shared=True, ratio=4),))
    assert None is sglang_cache.cache(model, ranks(), Layout(), Settings(), "0.5.8")


def test_printed_pools_of_sglang(shared: Path) -> None:
    """Every row that states GiB and tokens, but those that leave scales out of the print."""
    seen = 0
    configs = {path.stem.split("__")[1].lower(): path
               for path in sorted((shared / "models").glob("*.json"))}  # fmt: skip
    for line in (shared / "evidence" / "memory.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        gib, tokens = row.get("available_kv_gib"), row.get("kv_cache_tokens")
        if row["engine"] != "sglang" or not gib or not tokens:
            continue
        if "kv_arithmetic_differs" in row["flags"] or row["family"] == "sliding_window":
            continue
        path = configs.get(row["model"].split("/")[-1].removesuffix("-MTP").lower())
        assert path, row["model"]
        model = facts_from_config(json.loads(path.read_text(encoding="utf-8")), row["model"])
        size = per_token(model, row["tp"], kv_cache_dtype=row.get("kv_cache_dtype"))
        assert abs(size * tokens / GIB - gib) < ROUNDED, (row["id"], size * tokens / GIB, gib)
        seen += 1
    assert seen >= 7


@pytest.mark.parametrize(
    ("dtype", "tp", "size"),
    [("auto", 1, 28672), ("fp8", 1, 14336), ("nvfp4", 1, 8064), ("auto", 8, 14336)],
)
def test_tensorrt_llm_counts_what_a_rank_keeps(dtype: str, tp: int, size: int) -> None:
    found = tensorrt_llm_cache.cache(
        QWEN, ranks(tp), Layout(tp=tp), Settings(kv_cache_dtype=dtype), "1.2.0"
    )
    assert found is not None
    assert (size, 32) == (found.bytes_per_token, found.groups[0].block)

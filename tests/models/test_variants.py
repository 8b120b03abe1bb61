"""Names that people write for a model: families, dates, remarks."""

from __future__ import annotations

import pytest
from shardlint.models.catalogue import Catalogue
from shardlint.models.names import is_variant, pools, without_remarks


@pytest.mark.parametrize(
    ("name", "family", "holds"),
    [
        ("llama-2-7b-chat-hf", "llama-2-7b", True),
        ("deepseek-v4-flash-0731", "deepseek-v4-flash", True),
        ("llama-2-7b", "llama-2-7b", False),
        ("qwen2.5-7b-coder", "qwen2.5-7b", False),
        ("llama-2-70b-chat", "llama-2-7", False),
    ],
)
def test_what_goes_on_behind_a_family(name: str, family: str, holds: bool) -> None:
    assert holds == is_variant(name, family)


def test_remarks_are_no_part_of_a_name() -> None:
    assert "Qwen2.5-7B" == without_remarks("Qwen2.5-7B (named in the title only)")


@pytest.mark.parametrize(
    ("name", "holds"),
    [("Qwen/Qwen3-Embedding-8B", True), ("BAAI/bge-m3", True), ("Qwen/Qwen3-8B", False),
     ("Qwen/Qwen3-Reranker-0.6B", True), ("acme/embedded-llama-7b", False)],
)  # fmt: skip
def test_models_that_sample_nothing(name: str, holds: bool) -> None:
    assert holds == pools(name)


@pytest.mark.parametrize(
    ("name", "layers", "quantized"),
    [("llama-2-7b", 32, False), ("Qwen2.5-VL-72B", 80, None), ("DeepSeek-V4-Flash-0801", 43, True)],
)
def test_family_gives_shape_and_storage(name: str, layers: int, quantized: bool | None) -> None:
    found = Catalogue().variant(name)
    assert found is not None
    assert layers == found.num_layers
    assert found.weights
    assert quantized == (None if found.quantization is None else bool(found.quantization))
    assert found.assumed


@pytest.mark.parametrize("name", ["llama", "Qwen3", "nobody/knows-this-7b", ""])
def test_name_of_several_shapes_gives_none(name: str) -> None:
    assert Catalogue().variant(name) is None

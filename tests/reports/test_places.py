from __future__ import annotations

import pytest
from shardlint.reports.places import relative_uri


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("k8s/llm.yaml", "k8s/llm.yaml"),
        ("größe 1.yaml", "gr%C3%B6%C3%9Fe%201.yaml"),
        ("a:b#c?.yaml", "a%3Ab%23c%3F.yaml"),
        ("100%.yaml", "100%25.yaml"),
        ("caf\udce9.yaml", "caf%E9.yaml"),
        ("../llm.yaml", "../llm.yaml"),
    ],
)
def test_file_name_becomes_a_uri_reference(file: str, uri: str) -> None:
    assert uri == relative_uri(file)

"""The rows of `shardlint gpus`."""

from __future__ import annotations

from shardlint.hardware.table import Devices, Row


def row(name: str, devices: Devices | None = None) -> Row:
    return next(row for row in (devices or Devices()).show() if row.name == name)


def test_memory_is_what_engines_see() -> None:
    assert "79.2 GiB" == row("H100-SXM-80GB").memory


def test_memory_is_the_label_where_engines_were_not_seen() -> None:
    assert "141 GB" == row("H200-NVL-141GB").memory


def test_row_shows_link_domain_and_aliases() -> None:
    expected = Row("L20", "nvidia", "48 GB", "pcie", "1", ("NVIDIA-L20", "NVIDIA L20"))
    assert expected == row("L20")


def test_cards_of_the_config_stand_at_the_end() -> None:
    rows = Devices(custom={"RTX 3060": {"mem_gb": 12.5}}).show()
    assert Row("RTX 3060", "unknown", "12.5 GB", "unknown", "unknown", ()) == rows[-1]


def test_card_without_memory_says_so() -> None:
    from shardlint.plan import Device

    assert "unknown" == row("X", Devices(extra=[Device(name="X", vendor="x")])).memory

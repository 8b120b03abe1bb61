"""The tables themselves: their schemas, their sources, and that every name leads somewhere."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from shardlint.hardware.cards import load
from shardlint.hardware.names import normal
from shardlint.hardware.table import Devices
from shardlint_schemas import schema

TABLES = ("devices", "instances", "labels", "peers")
SCRIPT = Path(__file__).parents[2] / "scripts/build_hardware.py"
DEVICES = Devices()
RECORDS = load("devices")["devices"]
AMBIGUOUS = {normal(record["name"]): record for record in load("devices")["ambiguous"]}


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_hardware", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -------------------------------------------------------------------------------- schemas


@pytest.mark.parametrize("table", TABLES)
def test_table_obeys_its_schema(table: str) -> None:
    validator = Draft202012Validator(schema(table))
    assert [] == [error.message for error in validator.iter_errors(load(table))]


@pytest.mark.parametrize("table", TABLES)
def test_schema_is_one(table: str) -> None:
    Draft202012Validator.check_schema(schema(table))


@pytest.mark.parametrize(
    ("table", "spoil"),
    [
        ("devices", lambda data: data["devices"][0].update(colour="green")),
        ("devices", lambda data: data["devices"][0].pop("source")),
        ("devices", lambda data: data["devices"][0].pop("memory_kind")),
        ("devices", lambda data: data["devices"][0].update(memory_mib=0)),
        ("devices", lambda data: data["devices"][0].update(link="rope")),
        ("instances", lambda data: data["instances"][0].pop("seen")),
        ("instances", lambda data: data["instances"][0].update(fabric="rope")),
        ("instances", lambda data: data["instances"][0].update(count="8")),
        ("labels", lambda data: data["labels"][0].update(value="colour")),
        ("peers", lambda data: data["reports"][0].update(source="somebody said so")),
        ("labels", lambda data: data["labels"][0].pop("source")),
    ],
)
def test_schema_refuses_a_spoilt_table(table: str, spoil: Callable[[Any], Any]) -> None:
    data = json.loads(json.dumps(load(table)))
    spoil(data)
    assert not Draft202012Validator(schema(table)).is_valid(data)


def described(part: dict[str, Any]) -> bool:
    """Every property has a description, all the way down."""
    inner = [part.get("items"), part.get("additionalProperties")]
    properties = part.get("properties", {})
    nested = [*properties.values(), *(item for item in inner if isinstance(item, dict))]
    return all("description" in item for item in properties.values()) and all(
        described(item) for item in nested
    )


@pytest.mark.parametrize("table", TABLES)
def test_schema_describes_every_key(table: str) -> None:
    assert described(schema(table))


# ----------------------------------------------------------------------- every name, every row


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["name"])
def test_every_name_and_alias_leads_to_its_device(record: dict[str, Any]) -> None:
    for alias in (record["name"], *record["aliases"]):
        found = [device.name for device in DEVICES.find(alias).values]
        open_name = AMBIGUOUS.get(normal(alias))
        assert (open_name["candidates"] if open_name else [record["name"]]) == found, alias
        assert record["name"] in found


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["name"])
def test_every_device_id_leads_to_its_device(record: dict[str, Any]) -> None:
    for text in record.get("device_ids", ()):
        found = DEVICES.from_labels({"amd.com/gpu.device-id": text})
        assert [record["name"]] == [device.name for device in found.values]


def test_every_ambiguous_name_leads_to_its_candidates() -> None:
    for record in AMBIGUOUS.values():
        key = "amd.com/gpu.device-id" if record.get("device_id") else "nvidia.com/gpu.product"
        found = DEVICES.from_labels({key: record["name"]})
        assert record["candidates"] == [device.name for device in found.values]


def test_every_likely_meaning_is_a_candidate() -> None:
    assert [] == [
        record["name"]
        for record in AMBIGUOUS.values()
        if "likely" in record and record["likely"] not in record["candidates"]
    ]


@pytest.mark.parametrize("record", load("instances")["instances"], ids=lambda r: r["type"])
def test_every_instance_type_leads_to_a_device(record: dict[str, Any]) -> None:
    found = DEVICES.instance(record["type"])
    assert found is not None
    assert [record["gpu"]] == [device.name for device in found[0].values]
    assert record["seen"] == (not found[0].assumes)


def test_no_instance_type_is_named_twice() -> None:
    types = [normal(record["type"]) for record in load("instances")["instances"]]
    assert len(types) == len(set(types))


def test_every_provider_has_a_source() -> None:
    used = {record["provider"] for record in load("instances")["instances"]}
    bound = {record["provider"] for record in load("labels")["labels"] if "provider" in record}
    assert used == set(load("instances")["providers"])
    assert bound <= used


def test_no_label_is_named_twice() -> None:
    keys = [record["key"] for record in load("labels")["labels"]]
    assert len(keys) == len(set(keys))


# ------------------------------------------------------------------------------- the script


def test_tables_are_what_the_script_makes(build: ModuleType, shared: Path) -> None:
    assert 0 == build.main(["--facts", str(shared / "facts/hardware.yaml"), "--check"])


FACTS = {
    "sources": {"lab": "a bench"},
    "aliases_recalled": ["Card-One", "card_one"],
    "accelerators": [
        {
            "name": "One",
            "vendor": "amd",
            "cc": "gfx1",
            "mem_gb": 8,
            "memory_mib_source": "unknown",
            "aliases": ["74ff", "Card One", "Card-One", "uno"],
            "source": "lab",
        }
    ],
    "ambiguous": {},
    "instances": {"notes": []},
}


def facts(**changes: Any) -> Any:
    copy = json.loads(json.dumps(FACTS))
    return copy | changes


def one(**changes: Any) -> dict[str, Any]:
    first: dict[str, Any] = facts()["accelerators"][0]
    return first | changes


def test_unknown_facts_are_left_out(build: ModuleType) -> None:
    record = json.loads(build.tables(facts())["devices.json"])["devices"][0]
    expected = {
        "name": "One",
        "vendor": "amd",
        "kind": "gpu",
        "compute_capability": "gfx1",
        "mem_gb": 8,
        "aliases": ["Card One", "Card-One", "uno"],
        "device_ids": ["74ff"],
        "source": "lab",
    }
    assert expected == record


def test_recalled_alias_is_marked_unless_its_form_was_seen(build: ModuleType) -> None:
    assert ["HL-1"] == build.unseen(["HL-1", "Card One", "Card-One"], ["HL-1", "Card-One"])


def test_alias_of_two_devices_is_refused(build: ModuleType) -> None:
    two = one(name="Two", aliases=["UNO"])
    with pytest.raises(SystemExit) as error:
        build.tables(facts(accelerators=[one(), two]))
    assert "alias 'UNO' leads to One and Two" == str(error.value)


def test_instance_type_without_a_device_is_refused(build: ModuleType) -> None:
    row = {"gpu": "Three", "count": 1, "fabric": "none", "seen": True}
    cloud = {"source": "lab", "types": {"x1": row}}
    with pytest.raises(SystemExit) as error:
        build.tables(facts(instances={"notes": [], "cloud": cloud}))
    assert "x1: no device 'Three'" == str(error.value)


def test_spellings_of_one_ambiguous_name_are_one_record(build: ModuleType) -> None:
    spellings = {
        "Uno Card": {"candidates": ["One"]},
        "uno_card": {"candidates": ["One"], "likely": "One"},
    }
    table = json.loads(build.tables(facts(ambiguous=spellings))["devices.json"])
    expected = [{"name": "Uno Card", "candidates": ["One"], "likely": "One"}]
    assert expected == table["ambiguous"]


def test_stale_table_fails_the_check(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet = tmp_path / "facts.yaml"
    sheet.write_text(json.dumps(FACTS), encoding="utf-8")
    monkeypatch.setattr(build, "DATA", tmp_path / "data")
    assert 1 == build.main(["--facts", str(sheet), "--check"])
    assert not (tmp_path / "data").exists()


def test_written_table_passes_the_check(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet = tmp_path / "facts.yaml"
    sheet.write_text(json.dumps(FACTS), encoding="utf-8")
    monkeypatch.setattr(build, "DATA", tmp_path / "data")
    assert 0 == build.main(["--facts", str(sheet)])
    assert 0 == build.main(["--facts", str(sheet), "--check"])


@pytest.mark.parametrize(
    ("kept", "note"),
    [
        (
            "public torch errors (178.35 GiB)",
            "public torch errors, item ids 61935438, 63244951 (178.35 GiB)",
        ),
        ("vllm#7553; RLinf#255", "vllm#7553; RLinf#255"),
        (
            "collected engine logs, vllm#16570 (39 GiB)",
            "logs/memory.jsonl mem-203, vllm#16570 (39 GiB)",
        ),
    ],
)
def test_source_notes_keep_what_others_can_follow(build: ModuleType, kept: str, note: str) -> None:
    assert kept == build.public(note)

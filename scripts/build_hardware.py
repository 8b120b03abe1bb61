"""Write the hardware tables from a sheet of facts about accelerators and instance types.

    python scripts/build_hardware.py --facts FILE           write the tables
    python scripts/build_hardware.py --facts FILE --check   exit 1 if a table on disk differs

FILE is YAML: `accelerators` with their names and aliases, `ambiguous` names with candidates,
`instances` by provider, `sources`. A name that leads to no device, or an alias that leads to two,
is an error here, so that the tables can be read without questions. What a name in a label means is
decided by these tables alone; the keys of labels stand in LABELS below.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
MORE = Path(__file__).with_name("more_cards.yaml")
"""Cards that the sheet leaves out; one that it has by now is not read here."""
DATA = ROOT / "lint/shardlint/hardware/data"
MADE_BY = "a sheet of hardware facts, read by scripts/build_hardware.py"

Record: TypeAlias = dict[str, Any]

PREFIXES = {"nvidia": "nvidia", "amd": "amd", "tesla": "nvidia", "geforce": "nvidia"}
"""Words that a name may start with beside what the table says, and whose cards they go with."""

RENAMED = {
    "cc": "compute_capability",
    "domain": "link_domain",
    "memory_mib_kind": "memory_kind",
}
FACTS = (
    "name",
    "vendor",
    "cc",
    "mem_gb",
    "memory_mib",
    "memory_mib_kind",
    "driver_mib",
    "mem_gbps",
    "bf16_tflops",
    "fp8_tflops",
    "fp4_tflops",
    "link",
    "link_gbps_per_dir",
    "domain",
    "pcie_gen",
    "tdp_w",
    "devices_per_card",
    "card_mem_gb",
)
UNKNOWN = (None, "unknown", "-")

KARPENTER = "aws/karpenter-provider-aws, concepts/scheduling: labels of a node"
EKS = "docs.aws.amazon.com eks userguide create-node-pool: EKS Auto Mode supported labels"
AZURE = "learn.microsoft.com azure aks node-auto-provisioning-node-pools: well-known labels"
GKE = "docs.cloud.google.com kubernetes-engine: gpus, timesharing-gpus, gpus-multi, tpus"
GFD = "NVIDIA/k8s-device-plugin: GPU feature discovery"
ROCM = "ROCm/k8s-device-plugin cmd/k8s-node-labeller"
COREWEAVE = "coreweave/kubernetes-cloud; skypilot-org/skypilot CoreWeaveLabelFormatter"
KUBERNETES = "kubernetes.io reference labels-annotations-taints"

LABELS: tuple[tuple[str, str, str | None, str], ...] = (
    ("nvidia.com/gpu.product", "name", None, GFD),
    ("cloud.google.com/gke-accelerator", "name", None, GKE),
    ("cloud.google.com/gke-tpu-accelerator", "name", None, GKE),
    ("gpu.nvidia.com/class", "name", None, COREWEAVE),
    ("gpu.nvidia.com/model", "name", None, COREWEAVE),
    ("amd.com/gpu.product-name", "name", None, ROCM),
    ("beta.amd.com/gpu.product-name", "name", None, ROCM),
    ("karpenter.k8s.aws/instance-gpu-name", "name", "aws", KARPENTER),
    ("eks.amazonaws.com/instance-gpu-name", "name", "aws", EKS),
    ("karpenter.azure.com/sku-gpu-name", "name", None, AZURE),
    ("skypilot.co/accelerator", "name", None, "skypilot-org/skypilot gpu_labeler"),
    ("amd.com/gpu.device-id", "device_id", None, ROCM),
    ("beta.amd.com/gpu.device-id", "device_id", None, ROCM),
    ("node.kubernetes.io/instance-type", "instance", None, KUBERNETES),
    ("beta.kubernetes.io/instance-type", "instance", None, KUBERNETES),
    ("karpenter.azure.com/sku-name", "instance", None, AZURE),
    ("karpenter.k8s.aws/instance-family", "family", "aws", KARPENTER),
    ("eks.amazonaws.com/instance-family", "family", "aws", EKS),
    ("cloud.google.com/gke-gpu-partition-size", "profile", None, GKE),
    ("cloud.google.com/gke-gpu-sharing-strategy", "sharing", None, GKE),
    ("nvidia.com/gpu.sharing-strategy", "sharing", None, GFD),
    ("nvidia.com/gpu.count", "count", None, GFD),
    ("gpu.nvidia.com/count", "count", None, COREWEAVE),
    ("karpenter.k8s.aws/instance-gpu-count", "count", None, KARPENTER),
    ("eks.amazonaws.com/instance-gpu-count", "count", None, EKS),
    ("karpenter.azure.com/sku-gpu-count", "count", None, AZURE),
    ("cloud.google.com/gke-accelerator-count", "count", None, GKE),
)
"""Key, what its value is, provider whose instance types bound what the value can mean, source."""

WORDS = ("gpu", "accelerator", "hardware")
"""A private label may name a card when its key holds one of these words."""

PRIVATE = (
    (re.compile(r",? ?\(?\b\w+ ids? \d{6,}([,; and]+\d{6,})*\)?"), ""),
    (re.compile(r", ids? \d+\)"), ")"),
    (re.compile(r", e\.g\. \d{6,}"), ""),
    (re.compile(r"(?<!/)\b\d{9,} (?=\()"), ""),
    (re.compile(r"\w+/memory\.(jsonl|md)"), "collected engine logs"),
    (re.compile(r"memory from evidence"), "memory from collected engine logs"),
    (re.compile(r",? mem-\d+(?= \(|,|$)"), ""),
    (re.compile(r"\b(\w+)\.md section 5"), r"\1 source"),
    (re.compile(r", NOT re-read here|, the earlier doubt is settled"), ""),
    (re.compile(r"from the earlier reading "), ""),
    (re.compile(r"vendored device lists: "), ""),
    (re.compile(r" in the snapshots read"), ""),
)
"""Notes on how a source was found say nothing to readers of the table."""


def public(text: str) -> str:
    """A source note as others can use it."""
    for pattern, instead in PRIVATE:
        text = pattern.sub(instead, text)
    return text.strip(" ,")


def normal(name: str) -> str:
    """A name as it is compared: the same rule as in shardlint.hardware.names."""
    return re.sub(r"[\s_-]+", "-", name.strip().lower())


# ------------------------------------------------------------------------------------ devices


def kind(fact: Record) -> str:
    """What one schedulable device is."""
    if fact["vendor"] == "google":
        return "tpu"
    return "gcd" if fact.get("devices_per_card", 1) > 1 else "gpu"


def is_device_id(alias: str, vendor: str) -> bool:
    """AMD's labeller writes the PCI device id: four hex digits, meant for that label alone."""
    return vendor == "amd" and re.fullmatch(r"[0-9a-f]{4}", alias) is not None


def unseen(aliases: Sequence[str], recalled: Iterable[str]) -> list[str]:
    """Recalled aliases that no alias from a file equals when names are compared."""
    recalled = set(recalled)
    seen = {normal(alias) for alias in aliases if alias not in recalled}
    return sorted({alias for alias in aliases if alias in recalled and normal(alias) not in seen})


def device(fact: Record, recalled: Iterable[str]) -> Record:
    """One record of devices.json. A fact that is not known is left out."""
    made = {RENAMED.get(key, key): fact[key] for key in FACTS if fact.get(key) not in UNKNOWN}
    made = {"name": made.pop("name"), "vendor": made.pop("vendor"), "kind": kind(fact), **made}
    ids = [alias for alias in fact["aliases"] if is_device_id(alias, fact["vendor"])]
    aliases = [alias for alias in fact["aliases"] if alias not in ids and alias != fact["name"]]
    made["aliases"] = aliases
    optional = {
        "device_ids": ids,
        "recalled_aliases": unseen(aliases, recalled),
        "source": public(fact["source"]),
        "memory_source": public(known(fact.get("memory_mib_source"))),
        "driver_source": public(known(fact.get("driver_mib_source"))),
    }
    return made | {key: value for key, value in optional.items() if value}


def known(text: str | None) -> str:
    return "" if text in UNKNOWN or text is None else text


def ambiguous(name: str, entry: Record, names: Mapping[str, str]) -> Record:
    """One record of a name that several devices go by."""
    candidates = entry["candidates"]
    vendor = names[candidates[0]]
    made: Record = {"name": name, "candidates": candidates}
    if is_device_id(name, vendor):
        made["device_id"] = True
    likely = entry.get("likely")
    if likely in candidates:
        made["likely"] = likely
    elif likely:
        made["note"] = likely
    return made


def open_names(facts: Record, vendors: Mapping[str, str]) -> list[Record]:
    """Ambiguous names, one record for all spellings of a name."""
    found: dict[str, Record] = {}
    for name, entry in facts["ambiguous"].items():
        made = ambiguous(name, entry, vendors)
        first = found.setdefault(normal(name), made)
        if first["candidates"] != made["candidates"]:
            raise SystemExit(f"{name!r}: two lists of candidates")
        first.update({key: made[key] for key in ("likely", "note") if key in made})
    return list(found.values())


def devices_table(facts: Record) -> Record:
    recalled = facts["aliases_recalled"]
    devices = [device(fact, recalled) for fact in facts["accelerators"]]
    vendors = {record["name"]: record["vendor"] for record in devices}
    return {
        "schema_version": 1,
        "made_by": MADE_BY,
        "sources": {key: public(text) for key, text in facts["sources"].items()},
        "prefixes": PREFIXES,
        "devices": devices,
        "ambiguous": open_names(facts, vendors),
    }


# ----------------------------------------------------------------------------- instances, labels


def instance(name: str, provider: str, fact: Record) -> Record:
    """One record of instances.json; `fabric_seen` is `seen` where the sheet does not say."""
    made: Record = {"type": name, "provider": provider, "gpu": fact["gpu"]}
    if fact["count"] is not None:
        made["count"] = fact["count"]
    made["fabric"] = fact["fabric"]
    if "efa" in fact:
        made["efa"] = fact["efa"]
    made["seen"] = fact["seen"]
    made["fabric_seen"] = fact.get("fabric_seen", fact["seen"])
    return made


def instances_table(facts: Record) -> Record:
    providers = {key: entry for key, entry in facts["instances"].items() if key != "notes"}
    return {
        "schema_version": 1,
        "made_by": MADE_BY,
        "providers": {key: public(entry["source"]) for key, entry in providers.items()},
        "notes": [public(note) for note in facts["instances"]["notes"]],
        "instances": [
            instance(name, provider, fact)
            for provider, entry in providers.items()
            for name, fact in entry["types"].items()
        ],
    }


def labels_table() -> Record:
    rows = []
    for key, value, provider, source in LABELS:
        bound = {"provider": provider} if provider else {}
        rows.append({"key": key, "value": value, **bound, "source": source})
    return {
        "schema_version": 1,
        "made_by": "scripts/build_hardware.py",
        "words": list(WORDS),
        "labels": rows,
    }


# -------------------------------------------------------------------------------------- check


def problems(devices: Record, instances: Record) -> Iterator[str]:
    """What would leave a name without a device, or with two."""
    names = {record["name"] for record in devices["devices"]}
    shared = {normal(record["name"]) for record in devices["ambiguous"]}
    owner: dict[str, str] = {}
    for record in devices["devices"]:
        for alias in (record["name"], *record["aliases"]):
            first = owner.setdefault(normal(alias), record["name"])
            if first != record["name"] and normal(alias) not in shared:
                yield f"alias {alias!r} leads to {first} and {record['name']}"
    for record in devices["ambiguous"]:
        for candidate in set(record["candidates"]) - names:
            yield f"{record['name']!r}: no device {candidate!r}"
    for record in instances["instances"]:
        if record["gpu"] not in names:
            yield f"{record['type']}: no device {record['gpu']!r}"


# ------------------------------------------------------------------------------------- output


def text(table: Record) -> str:
    """JSON with one record a line."""
    lines = [f"  {json.dumps(key)}: {block(value)}" for key, value in table.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def block(value: Any) -> str:
    if isinstance(value, list):
        rows = [f"    {json.dumps(item, ensure_ascii=False)}" for item in value]
        return "[\n" + ",\n".join(rows) + "\n  ]"
    if isinstance(value, dict):
        rows = [
            f"    {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in value.items()
        ]
        return "{\n" + ",\n".join(rows) + "\n  }"
    return json.dumps(value, ensure_ascii=False)


def with_more(facts: Record) -> Record:
    """The sheet with the cards that it lacks, and what is known better."""
    more = YAML(typ="safe").load(MORE.read_text(encoding="utf-8"))
    names = {fact["name"] for fact in facts["accelerators"]}
    missing = [fact for fact in more["accelerators"] if fact["name"] not in names]
    cards = [fact | more["corrections"].get(fact["name"], {}) for fact in facts["accelerators"]]
    return {**facts, "accelerators": [*cards, *missing]}


def tables(facts: Record) -> dict[str, str]:
    """The text of every table by its file name; raises SystemExit when names do not add up."""
    devices, instances = devices_table(facts), instances_table(facts)
    if found := list(problems(devices, instances)):
        raise SystemExit("\n".join(found))
    return {
        "devices.json": text(devices),
        "instances.json": text(instances),
        "labels.json": text(labels_table()),
    }


def on_disk(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--facts", type=Path, required=True, help="the sheet of facts, YAML")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    args = parser.parse_args(argv)
    sheet: Record = YAML(typ="safe").load(args.facts.read_text(encoding="utf-8"))
    made = tables(with_more(sheet))
    stale = [name for name, content in made.items() if on_disk(DATA / name) != content]
    for name in stale:
        if args.check:
            print(f"{name} differs: run scripts/build_hardware.py", file=sys.stderr)
        else:
            DATA.mkdir(parents=True, exist_ok=True)
            (DATA / name).write_text(made[name], encoding="utf-8")
            print(f"wrote {name}")
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())

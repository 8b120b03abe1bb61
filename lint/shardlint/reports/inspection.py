"""What was read: `shardlint inspect`, as JSON and as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TextIO

from shardlint.engine import Engine
from shardlint.estimates import Estimate, EstimateError, estimate_plan, plan_record
from shardlint.known import Known
from shardlint.plan import LAST_OF_SERIES, Placement, Ranks, Releases, Router, ServingPlan
from shardlint.project import Project
from shardlint.reports import estimation, gpu_table, group_list
from shardlint.reports.words import counted

FIELDS = {
    "model": "model", "tp": "layout.tp", "pp": "layout.pp", "dp": "layout.dp", "ep": "layout.ep",
    "gpus_per_pod": "placement.gpus_per_pod", "nodes": "placement.pods_per_group",
    "replicas": "fleet.replicas", "gpu_type": "placement.gpu_label",
    "max_model_len": "memory.max_model_len", "quantization": "memory.quantization",
    "kv_cache_dtype": "memory.kv_cache_dtype", "gpu_memory_utilization": "memory.budget.share",
    "dp_local": "layout.dp_local", "dcp": "layout.dcp", "pcp": "layout.pcp",
    "attention_dp": "layout.attention_dp", "nnodes": "layout.nnodes", "moe_tp": "layout.moe_tp",
    "max_replicas": "fleet.max_replicas", "max_num_seqs": "memory.max_num_seqs",
    "max_num_batched_tokens": "memory.max_num_batched_tokens",
    "enforce_eager": "memory.enforce_eager", "block_size": "memory.block_size",
    "shm_bytes": "placement.shm_bytes", "kv_budget": "memory.budget.bytes",
}  # fmt: skip
"""Fields of the JSON and the facts of a plan behind them."""

REPLICATED = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "compose"})


def as_json(project: Project, origins: bool = False) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "plans": [_plan(plan, project, origins) for plan in project.plans],
        "routers": [_router(router) for router in project.routers],
        "groups": group_list.as_records(project),
        "gpus": gpu_table.as_records(gpu_table.rows(project)),
    }


def write_json(project: Project, out: TextIO, origins: bool = False) -> None:
    json.dump(as_json(project, origins), out, indent=2, ensure_ascii=True)
    out.write("\n")


def _plan(plan: ServingPlan, project: Project, origins: bool) -> dict[str, Any]:
    engine = project.setup.engine(plan.engine)
    ranks = plan_ranks(plan, engine)
    gpus = (ranks.gpus if plan.placement.wants_gpu else 0) if ranks is not None else None
    each = None if gpus is None else _reserved(plan, gpus)
    replicas = _effective(plan, "replicas").only
    memory, why = plan_memory(plan, project)
    unknown = [{"field": item.field, "reason": item.reason} for item in plan.unknowns]
    if why is not None:
        unknown.append({"field": "memory", "reason": why})
    record: dict[str, Any] = {
        "id": plan.id,
        "name": plan.name,
        "kind": plan.kind,
        "file": plan.file,
        "role": plan.role,
        "platform": plan.platform,
        "platform_version": _scalar(plan.platform_releases.map(_span)),
        "group": plan.group,
        "stated": {
            "engine": plan.engine,
            "engine_version": plan.tag.only,
            **{name: _stated(plan.fact(path)) for name, path in FIELDS.items()},
        },
        "effective": {
            "engine": plan.engine,
            "engine_version": _scalar(plan.versions.map(str)),
            **{name: _scalar(_effective(plan, name)) for name in FIELDS},
        },
        "gpus_per_replica": gpus,
        "gpus_total": None if each is None or replicas is None else each * replicas,
        "ranks": _ranks(ranks),
        "memory": None if memory is None else plan_record(memory),
        "routing": _routing(plan, project),
        "unknown": unknown,
        "surroundings": _surroundings(plan.placement),
    }
    if origins:
        record["origins"] = dict(_origins(plan, project))
    return record


def plan_memory(plan: ServingPlan, project: Project) -> tuple[Estimate | None, str | None]:
    """The memory of a plan of which enough is decided, else what is not."""
    try:
        return estimate_plan(plan, project.setup), None
    except EstimateError as error:
        return None, str(error)


def _surroundings(placement: Placement) -> dict[str, Any]:
    ids = placement.device_ids.only
    return {
        "pool": _scalar(placement.pool),
        "price_per_gpu_hour": _scalar(placement.price),
        "host_ipc": placement.host_ipc.only,
        "host_network": placement.host_network.only,
        "memory_bytes": placement.memory_bytes.only,
        "device_kind": placement.device_kind.only,
        "device_ids": None if ids is None else list(ids),
        "rdma": placement.rdma.only,
        "interfaces": placement.interfaces.only,
        "packed": placement.packed.only,
        "variables": {name: fact.only for name, fact in sorted(placement.env.items())},
        "beside": [other.plan for other in placement.neighbours],
    }


def _stated(fact: Known[Any]) -> Any:
    """The value that a file states, null without one."""
    return fact.only if fact.is_known and fact.how == "stated" else None


def _scalar(fact: Known[Any]) -> Any:
    values = fact.values
    if not values:
        return None
    return values[0] if len(values) == 1 else {"any_of": list(values)}


def _effective(plan: ServingPlan, name: str) -> Known[Any]:
    """The value that counts: stated, else derived or the engine's default."""
    path = FIELDS[name]
    if path.startswith("layout."):
        fact: Known[Any] = getattr(plan.effective, path.removeprefix("layout."))
        return fact.map(lambda value: value or None) if name == "moe_tp" else fact
    fact = plan.fact(path)
    if name == "replicas":
        return fact.or_default(Known.of(1, how="defaulted"))
    return fact


def plan_ranks(plan: ServingPlan, engine: Engine | None) -> Ranks | None:
    """The ranks of a plan whose layout is decided."""
    layout = plan.effective.world().only if engine is not None and engine.checked else None
    if layout is None or engine is None:
        return None
    return engine.ranks(layout, plan.model_facts.only, plan.placement.devices.only)


def _ranks(ranks: Ranks | None) -> dict[str, Any] | None:
    if ranks is None:
        return None
    return {
        "world_size": ranks.world_size, "engines": ranks.engines,
        "attention_tp": ranks.attention_tp, "attention_dp": ranks.attention_dp,
        "moe_tp": ranks.moe_tp, "ep": ranks.ep, "pp": ranks.pp, "kv_copies": ranks.kv_copies,
        "coupled_ranks": ranks.coupled,
    }  # fmt: skip


def _awareness(router: Router) -> list[str]:
    if router.chooses == "elsewhere":
        return sorted(router.awareness) or ["n/a"]
    if router.chooses == "one":
        return ["none"]
    return sorted(router.awareness) or ["blind"] if router.sure else []


def _routing(plan: ServingPlan, project: Project) -> dict[str, Any] | None:
    """The router that chooses the plan: one of models before a Service, the engine's own last."""
    found = [router for router in project.routers if plan.id in router.backends]
    if not found:
        return None
    router = min(found, key=lambda item: (item.within, item.kind == "service"))
    return {
        "policy": router.policy.only,
        "explicit": _explicit(router),
        "awareness": _awareness(router),
        "router": router.id,
    }


def _explicit(router: Router) -> bool | None:
    """Whether the policy is written in the file; None where it is not known what it is."""
    return True if router.explicit else False if router.policy.is_known else None


def _router(router: Router) -> dict[str, Any]:
    return {
        "file": router.file,
        "kind": router.kind,
        "policy": router.policy.only,
        "explicit": _explicit(router),
        "awareness": _awareness(router),
    }


def _origins(plan: ServingPlan, project: Project) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each known value comes from; a default has no place."""
    for name in FIELDS:
        fact = _effective(plan, name)
        origin = fact.origin
        if not fact.is_known:
            continue
        record: dict[str, Any] = {"file": None, "line": None, "column": None, "how": fact.how}
        if origin is not None and origin.file in project.sources:
            place = project.sources[origin.file].position(origin.span.start)
            record |= {"file": origin.file, "line": place.line, "column": place.column}
        yield name, record


# ---------------------------------------------------------------------------------------- text


def write_text(project: Project, out: TextIO) -> None:
    """A short tree for each plan, then what was not read."""
    for plan in project.plans:
        out.write("\n".join(_lines(plan, project)) + "\n\n")
    for router in project.routers:
        if router.engines and not router.within and not router.backends:
            out.write("\n".join(_router_lines(router, project)) + "\n\n")
    for name, reason in project.skipped:
        out.write(f"{name}: skipped, {reason}\n")
    together = tuple(group_list.lines(project))
    if together:
        out.write("\n".join(together) + "\n\n")
    table = tuple(gpu_table.lines(gpu_table.rows(project)))
    if table:
        out.write("\n".join(table) + "\n\n")
    plans, files = len(project.plans), len(project.readings)
    out.write(f"{counted(plans, 'plan')} in {counted(files, 'file')}\n")


def _lines(plan: ServingPlan, project: Project) -> Iterator[str]:
    place = project.sources[plan.origin.file].position(plan.origin.span.start)
    base = "" if plan.origin.file == plan.file else f", {plan.origin.file}"
    engine = project.setup.engine(plan.engine)
    ranks = plan_ranks(plan, engine)
    label = engine.label if engine is not None else plan.engine
    yield f"{plan.name} ({plan.kind}) {plan.file}{base}:{place.line}"
    releases = " or ".join(str(item) for item in plan.versions.values)
    yield f"  engine    {label} {releases}".rstrip()
    if plan.platform is not None:
        yield f"  platform  {plan.platform}{_platform_release(plan)}"
    if plan.role is not None:
        yield f"  role      {plan.role}"
    yield f"  model     {_model(plan)}"
    if ranks is not None:
        yield f"  layout    {_product(plan, ranks)}"
        yield from _fleet(plan, ranks)
    devices = plan.placement.devices
    gpu = plan.placement.gpu_label.only
    if plan.placement.wants_gpu or devices.is_known:
        count = devices.only if devices.is_known else devices.reason
        yield f"  devices   {count}" + (f" × {gpu}" if gpu else "")
    if plan.placement.pool.is_known:
        yield f"  pool      {_pool(plan.placement)}"
    routing = _routing(plan, project)
    if routing is not None:
        yield f"  router    {routing['policy']}: {', '.join(routing['awareness'])}"
    memory, _ = plan_memory(plan, project)
    for at, line in enumerate(estimation.short(memory) if memory else ()):
        yield f"  {'' if at else 'memory':<9} {line}"
    if (shm := plan.placement.shm_bytes).is_known and not plan.placement.shm_ample:
        default = ", which is the default" if shm.how == "defaulted" else ""
        yield f"  /dev/shm  {(shm.only or 0) / 2**20:,.6g} MiB{default}"
    for item in plan.unknowns:
        yield f"  unknown   {item.field}: {item.reason}"


def _router_lines(router: Router, project: Project) -> Iterator[str]:
    """A router of which no plan tells, because none is known behind it."""
    place = project.sources[router.origin.file].position(router.origin.span.start)
    policy = router.policy.only or router.policy.reason
    default = "" if router.explicit else " (default)"
    yield f"{router.name} ({router.kind}) {router.file}:{place.line}"
    yield f"  router    {policy}{default}: {', '.join(_awareness(router)) or 'not known'}"
    if router.choices.only is not None:
        yield f"  choices   {router.choices.only}"


def _platform_release(plan: ServingPlan) -> str:
    """Which release of its platform counts, and whether that is only what was read."""
    found = plan.platform_releases
    said = " or ".join(_span(span) for span in found.values)
    if not said:
        return ""
    return f" (taken to be {said})" if found.how == "defaulted" else f" {said}"


def _span(releases: Releases) -> str:
    """The releases; a whole series as it is written."""
    if releases.last == f"{releases.first}.{LAST_OF_SERIES}":
        return f"{releases.first}.x"
    return str(releases)


def _pool(placement: Placement) -> str:
    """The pools of which it runs in one, and what is known of that."""
    said = [" or ".join(placement.pool.values)]
    card, size, nodes = placement.gpu, placement.gpus_per_node.only, placement.nodes.only
    name = " or ".join(dict.fromkeys(device.name for device in card.values))
    if card.is_known and name not in said:
        said.append(name)
    if size is not None and nodes is not None:
        said.append(f"{counted(nodes, 'node')} × {counted(size, 'GPU')}")
    if placement.price.only is not None:
        said.append(f"{placement.price.only:,.2f} per GPU-hour")
    return ", ".join(said)


def _model(plan: ServingPlan) -> str:
    name = plan.model.only or plan.model.reason or "not stated"
    facts = plan.model_facts.only
    if facts is None:
        return f"{name} ({plan.model_facts.reason})" if plan.model.is_known else str(name)
    parts = [f"{facts.attention_heads} heads" if facts.attention_heads else ""]
    latent = "a latent KV cache"
    parts.append(latent if facts.mla else f"{facts.kv_heads} KV heads" if facts.kv_heads else "")
    parts.append(f"{facts.num_layers} layers" if facts.num_layers else "")
    parts.append(f"{facts.num_experts} experts" if facts.moe else "")
    return f"{name} ({', '.join(part for part in parts if part)})"


def _product(plan: ServingPlan, ranks: Ranks) -> str:
    """The GPU product written out: "4 independent engines × (TP 8 × PP 2) = 64 GPUs"."""
    layout = plan.effective.world().only
    assert layout is not None
    inside = f"TP {layout.tp} × PP {layout.pp}" + (f" × PCP {layout.pcp}" if layout.pcp > 1 else "")
    if plan.builds:
        return f"{inside} for {counted(ranks.gpus, 'GPU')} of a server"
    if not plan.placement.wants_gpu:
        return f"{inside} × DP {layout.dp} on CPUs" if layout.dp > 1 else f"{inside} on CPUs"
    gpus = counted(ranks.gpus, "GPU")
    if ranks.engines == 1:
        wide = layout.tp * layout.pp * layout.pcp
        copies = f" × DP {layout.dp}" if wide * layout.dp == ranks.gpus > wide else ""
        lost = "; one lost GPU stops all" if ranks.gpus > 1 else ""
        return f"{inside}{copies} = {gpus}{lost if not copies else ''}"
    if ranks.engines * ranks.world_size > ranks.gpus:  # they lie inside of one world
        groups = f"{layout.attention_dp} groups of attention of {ranks.attention_tp}"
        copies = f" × DP {layout.dp}" if layout.dp > 1 else ""
        lost = f"one lost GPU stops {ranks.world_size} of {ranks.gpus}"
        return f"{inside}{copies} = {gpus}: {groups} inside; {lost}"
    kind = "coupled engines" if ranks.coupled > 1 else "independent engines"
    lost = f"one lost GPU stops {ranks.world_size * max(1, ranks.coupled)} of {ranks.gpus}"
    product = f"TP {layout.tp} × PP {layout.pp} × DP {layout.dp} = {gpus}"
    return f"{product}: {ranks.engines} {kind} × ({inside}); {lost}"


def _fleet(plan: ServingPlan, ranks: Ranks) -> Iterator[str]:
    replicas = plan.fleet.replicas.only
    if replicas is not None and replicas != 1 and not plan.placement.wants_gpu:
        yield f"  fleet     {replicas} replicas"
    elif replicas is not None and (replicas != 1 or _reserved(plan, ranks.gpus) != ranks.gpus):
        each, pods = _reserved(plan, ranks.gpus), plan.placement.pods_per_group.only or 1
        one = f"{pods} pods × {each // pods}" if pods > 1 and each % pods == 0 else str(each)
        total = replicas * each
        yield f"  fleet     {counted(replicas, 'replica')} × {one} GPUs = {total} GPUs"


def _reserved(plan: ServingPlan, needed: int) -> int:
    """GPUs that the pods of one replica are given, where that is more than the ranks need."""
    placement = plan.placement
    each, pods = placement.gpus_per_pod.only, placement.pods_per_group.only
    if placement.shared or not isinstance(each, int) or pods is None:
        return needed
    return max(needed, each * pods)

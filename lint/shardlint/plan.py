"""The domain: what is asked of an engine, what the platform gives, what results.

A `ServingPlan` holds what was read, as `Known` facts with origins. Engines work on the plain
dataclasses here (`Layout`, `ModelFacts`, `Device`, `Ranks`, `Constraint`): numbers of one world.
`Known` is opened in one place, by the linter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from shardlint.known import Case, Known, T, Text, combine
from shardlint.matrices import Block, StateGroup
from shardlint.record import record
from shardlint.source import Edit, Origin, Span

if TYPE_CHECKING:
    from packaging.version import Version

# ---------------------------------------------------------------------------------- versions


@lru_cache(maxsize=512)
def version(text: str) -> Version | None:
    """A PEP 440 version, or None."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(text)
    except InvalidVersion:
        return None


@record(order=True)
class Releases:
    """An interval of releases of one engine, both ends included."""

    first: str
    last: str

    def __str__(self) -> str:
        return self.first if self.first == self.last else f"{self.first} to {self.last}"

    def within(self, since: str | None, until: str | None) -> bool:
        """Every release here is since `since` (included) and before `until` (excluded)."""
        low, high = version(self.first), version(self.last)
        since_v, until_v = version(since) if since else None, version(until) if until else None
        assert low is not None and high is not None
        return not (since_v and low < since_v) and not (until_v and high >= until_v)

    def meets(self, since: str | None, until: str | None) -> bool:
        """Some release here is since `since` (included) and before `until` (excluded)."""
        low, high = version(self.first), version(self.last)
        since_v, until_v = version(since) if since else None, version(until) if until else None
        assert low is not None and high is not None
        return not (since_v and high < since_v) and not (until_v and low >= until_v)


def series(text: str) -> Releases | None:
    """The releases that a version means: one, or with two numbers all of that series."""
    plain = re.sub(r"\.[x*]$", "", text.strip())
    found = version(plain)
    if found is None or found.local is not None or len(found.release) < 2:
        return None
    if len(found.release) > 2 or found.is_prerelease:
        return Releases(str(found), str(found))
    return Releases(str(found), f"{found}.{LAST_OF_SERIES}")


LAST_OF_SERIES = 999


def by_release(
    label: str, releases: Known[Releases], since: str, new: Known[T], old: Known[T]
) -> Known[T]:
    """What holds `since` a release, and before: one of the two, or both as what is possible."""
    if not releases.is_known or all(span.within(since, None) for span in releases.values):
        return new
    if not any(span.meets(since, None) for span in releases.values):
        return old
    if not (new.is_known and old.is_known):
        return new if not new.is_known else old
    if new.values == old.values:
        return new
    both = ((new, f"{since} or newer"), (old, f"older than {since}"))
    cases = tuple(
        Case(case.value, (*case.given, (label, when))) for fact, when in both for case in fact.cases
    )
    return replace(new, cases=cases, assumes=new.assumes | old.assumes)


# ------------------------------------------------------------------- plain facts of one world


@record(kw_only=True)
class Layout:
    """What the engine is asked for, as numbers; `ep` is True where the engine has only a switch."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    dp_local: int | None = None
    dp_rank: int | None = None
    ep: int | bool = False
    attention_dp: int = 1
    pcp: int = 1
    dcp: int = 1
    moe_tp: int | None = None
    nnodes: int = 1
    executor: str | None = None

    @property
    def one_group(self) -> bool:
        """All data-parallel ranks are started here, so that DP alone says how many there are."""
        return self.nnodes == 1 and self.dp_local is None and self.dp_rank is None


@record
class KvGroup:
    """Layers with one kind of KV cache entry.

    `bytes_per_head` is what one token costs per KV head and layer in 16-bit elements, K and V
    together. `window` is the number of tokens that a sliding layer keeps; None: all of them.
    `shared` marks a latent cache (MLA): one entry for all heads, whole on every rank.
    `chunk` is the number of tokens of a chunk where attention stays inside of one, and
    `common_window` the window that all layers of the model share: both leave `window` None, because
    not every engine makes use of them. One entry covers `ratio` tokens. `indexers` are the layers
    that keep a key of `index` elements beside it, by which a sparse attention chooses tokens.
    `at` are the layers, from 0; empty where all layers of the model are of this kind.
    """

    layers: int
    heads: int
    bytes_per_head: int
    window: int | None = None
    shared: bool = False
    chunk: int | None = None
    common_window: int | None = None
    ratio: int = 1
    index: int = 0
    indexers: tuple[int, ...] = ()
    at: tuple[int, ...] = field(default=(), compare=False)

    def fits(self, tp: int) -> bool:
        """Each rank can hold the same number of heads."""
        return self.shared or divides_either(self.heads, tp)

    def bytes_per_token(self, tp: int) -> int:
        """Bytes of one token on one rank: heads are split, and copied where TP exceeds them."""
        heads = 1 if self.shared else max(1, self.heads // tp)
        return self.layers * heads * self.bytes_per_head // self.ratio


@record(kw_only=True)
class ModelFacts:
    """The shape of one model; None where it is not known.

    `other_attention_heads` and `other_kv_heads` are further head counts of layers of another kind.
    `dense_ffn` says whether a layer of width `intermediate_size` exists at all (a mixture of
    experts may carry the key without one). `moe_layers` are the layers that are mixtures,
    counted from 0; `mamba_width` is the inner width of the first kind of Mamba;
    `deepstack_levels` are the first layers that the vision tower feeds; `default_context` is
    what engines derive from the config, `least_context` what that is not below, `longest_context`
    the most that they may be asked for, in tokens. `quantization` is empty where the weights are
    stored in the model's own type, None where that is not known. `assumed` gives the reasons not
    to rest an error on these facts, except on the `confirmed` fields alone.
    """

    id: str
    model_type: str | None = None
    architecture: str | None = None
    num_layers: int | None = None
    hidden_size: int | None = None
    attention_heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    intermediate_size: int | None = None
    vocab_size: int | None = None
    num_experts: int | None = None
    experts_per_token: int | None = None
    moe_intermediate_size: int | None = None
    shared_expert_intermediate_size: int | None = None
    moe_layers: tuple[int, ...] | None = None
    kv_lora_rank: int | None = None
    q_lora_rank: int | None = None
    qk_nope_head_dim: int | None = None
    qk_rope_head_dim: int | None = None
    v_head_dim: int | None = None
    linear_num_key_heads: int | None = None
    linear_num_value_heads: int | None = None
    linear_key_head_dim: int | None = None
    linear_value_head_dim: int | None = None
    mamba_heads: int | None = None
    mamba_groups: int | None = None
    mamba_width: int | None = None
    vision_heads: int | None = None
    vision_intermediate_size: int | None = None
    vision_tower: bool | None = None
    deepstack_levels: int | None = None
    max_position_embeddings: int | None = None
    default_context: int | None = None
    least_context: int | None = None
    longest_context: int | None = None
    tie_word_embeddings: bool | None = None
    other_attention_heads: tuple[int, ...] = ()
    other_kv_heads: tuple[int, ...] = ()
    dense_ffn: bool | None = None
    torch_dtype: str | None = None
    quantization: Mapping[str, Any] | None = None
    kv_groups: tuple[KvGroup, ...] = ()
    states: tuple[StateGroup, ...] = ()
    weights: tuple[Block, ...] = ()
    params_total: int | None = None
    params_text: int | None = None
    params_active: int | None = None
    provenance: str = "unknown"
    assumed: tuple[str, ...] = ()
    confirmed: tuple[str, ...] = ()

    @property
    def mla(self) -> bool:
        """Multi-head latent attention: one compressed KV entry per token for all heads."""
        return self.kv_lora_rank is not None

    def doubts(self, fields: tuple[str, ...]) -> frozenset[str]:
        """Reasons not to rest an error on these fields; without fields, on any."""
        if fields and set(fields) <= set(self.confirmed):
            return frozenset()
        return frozenset(f"{self.id}: {reason}" for reason in self.assumed)

    @property
    def moe(self) -> bool:
        return bool(self.num_experts)


@record(kw_only=True)
class Device:
    """One accelerator as the scheduler hands it out; memory in MiB as engines see it, or with
    `memory_kind` "driver" as the driver prints it.

    `driver_mib` is what the driver's tools print of the same card. `link_gbps` are GB/s of the link
    in one direction.

    `peer_report` is a public report of copies from GPU to GPU that hang on this board.
    """

    name: str
    vendor: str
    kind: Literal["gpu", "gcd", "tpu", "mig", "shared"] = "gpu"
    mem_gb: float | None = None
    memory_mib: int | None = None
    memory_kind: str | None = None
    driver_mib: int | None = None
    compute_capability: str | None = None
    link: str | None = None
    link_domain: int | None = None
    link_gbps: float | None = None
    bf16_tflops: float | None = None
    fp8_tflops: float | None = None
    fp4_tflops: float | None = None
    mem_gbps: float | None = None
    peer_report: str | None = None
    aliases: tuple[str, ...] = ()


@record(kw_only=True)
class Ranks:
    """What a layout means: how many processes there are and what each of them splits.

    `gpus` counts one replica; `gpus_per_pod` is what the process in one pod must find, None where a
    cluster places the ranks; `engines` are independent schedulers inside the replica; `kv_copies`
    is the number of ranks that hold the same KV entry (None: the model's KV heads are not known);
    `coupled` data-parallel ranks step together.
    """

    gpus: int
    gpus_per_pod: int | None
    world_size: int
    engines: int
    attention_tp: int
    attention_dp: int
    dense_tp: int
    moe_tp: int
    ep: int
    pp: int
    kv_copies: int | None
    coupled: int
    visible_devices: int | None = None


@record(kw_only=True)
class Options:
    """What else the engine is asked, by the engine's own names: options and variables.

    `values` holds what is certain, without what is not stated; `unknown` are the names that are
    stated with a value that is not certain. `open`: what is not here may be stated elsewhere;
    `variables_open`: so may variables.
    Constraints that no release of `releases` has are not stated; without releases, all are.
    """

    values: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    unknown: frozenset[str] = frozenset()
    open: bool = False
    variables_open: bool = False
    releases: tuple[Releases, ...] = ()

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def sure(self, *names: str) -> bool:
        """Whether each of them is either stated with a certain value or not stated at all."""
        if self.open and any(name not in self.values for name in names):
            return False
        if self.variables_open and any(n.isupper() and n not in self.values for n in names):
            return False
        return self.unknown.isdisjoint(names)

    def reaches(self, since: str | None, until: str | None) -> bool:
        """Whether a possible release is since `since` and before `until`."""
        if not self.releases or not (since or until):
            return True
        return any(_meets(item.first, item.last, since, until) for item in self.releases)


@lru_cache(maxsize=4096)
def _meets(first: str, last: str, since: str | None, until: str | None) -> bool:
    return Releases(first, last).meets(since, until)


NO_OPTIONS = Options()


def divides(left: int, right: int) -> bool:
    return right > 0 and left % right == 0


def divides_either(left: int, right: int) -> bool:
    return divides(left, right) or divides(right, left)


def at_most(left: int, right: int) -> bool:
    return left <= right


@record(kw_only=True)
class SharedMemory:
    """What an engine asks of /dev/shm in one container.

    `least` bytes must be free; the engine checks that from release `since` on and refuses with
    `refusal`. `ample` bytes hold everything that `processes` processes can write there.
    `only_without_peers`: it is asked only where GPUs cannot reach each other's memory.
    `consequence` is what happens, as a clause, where that is known.
    """

    processes: int
    least: int
    ample: int
    since: str | None = None
    refusal: str = ""
    only_without_peers: bool = False
    consequence: str = ""

    def enough(self, limit: int | None) -> int:
        """A usual size in bytes, or half of the container's memory where that is less; 0: it
        cannot be."""
        gib = 2**30
        most = USUAL_SHM if limit is None else min(USUAL_SHM, limit // 2 // gib * gib)
        return most if most >= self.ample else 0


USUAL_SHM = 16 * 2**30
"""What maintained manifests give /dev/shm; it is taken only as it is written."""


@record(kw_only=True)
class Constraint:
    """A sentence with two numbers in it, and what the engine says when it does not hold.

    `test(left, right)` holds for a valid layout. `since`/`until` bound the releases in which the
    engine enforces it (`until` is excluded); None: in every release that was opened. `refusal` is
    the engine's own text without its variable parts (found since release `refusal_since`), and
    `consequence` what happens, as a clause. `facts` are the fields of ModelFacts that the numbers
    rest on. An `advisory` constraint is not certain enough to be reported, but no layout that
    breaks it is ever offered as a cure. One of a milder `severity` than error does not refuse.

    `sentence` says what is wrong where two numbers do not; it may use {left} and {right}. `places`
    are the facts to point at, best first ("layout.dcp", "options.enable_eplb"); without them, the
    layout fields that could cure it. `remedy` is what to do instead, for people. `drop` is the
    field of an option without which it holds, `add` the words of one with which it does, since
    release `add_since`, and `sets` are values of fields with which it does.
    """

    rule: str
    subject: str
    left: int
    right: int
    test: Callable[[int, int], bool]
    refusal: str
    consequence: str
    cures: tuple[str, ...]
    since: str | None = None
    until: str | None = None
    refusal_since: str | None = None
    facts: tuple[str, ...] = ()
    advisory: bool = False
    severity: Literal["error", "warning", "info"] = "error"
    sentence: str | None = None
    places: tuple[str, ...] = ()
    remedy: str | None = None
    drop: str | None = None
    add: str | None = None
    add_since: str | None = None
    sets: tuple[tuple[str, Any], ...] = ()

    @property
    def holds(self) -> bool:
        return self.test(self.left, self.right)

    @property
    def refuses(self) -> bool:
        """The engine does not start, or is not sure to."""
        return self.severity == "error" and not self.holds


# ----------------------------------------------------------------------------- facts of a plan


@record(kw_only=True)
class LayoutFacts:
    """The fields of `Layout` as they were read."""

    tp: Known[int] = Known.unset()
    pp: Known[int] = Known.unset()
    dp: Known[int] = Known.unset()
    dp_local: Known[int | None] = Known.unset()
    dp_rank: Known[int | None] = Known.unset()
    ep: Known[int | bool] = Known.unset()
    attention_dp: Known[int] = Known.unset()
    pcp: Known[int] = Known.unset()
    dcp: Known[int] = Known.unset()
    moe_tp: Known[int | None] = Known.unset()
    nnodes: Known[int] = Known.unset()
    executor: Known[str | None] = Known.unset()

    def world(self, names: tuple[str, ...] | None = None) -> Known[Layout]:
        """One `Layout` per world of the named fields; what is not stated keeps its default."""
        names = names or tuple(item.name for item in fields(Layout))
        default = Layout()
        facts = [
            getattr(self, name).or_default(Known.of(getattr(default, name), how="defaulted"))
            for name in names
        ]
        return combine(lambda *values: Layout(**dict(zip(names, values, strict=True))), *facts)


@record(kw_only=True)
class KvBudget:
    """What the KV cache may take, in the engine's terms: `share` from 0 to 1, `bytes` per GPU."""

    share: Known[float] = Known.unset()
    of: Literal["total", "free_before_load", "free_after_load"] | None = None
    bytes: Known[int] = Known.unset()


@record(kw_only=True)
class Memory:
    """Settings that decide memory.

    `dtype` is the type that is computed in; `offload` are bytes of weights kept in host memory per
    GPU; `draft` is the method that drafts `draft_tokens` tokens per step; `max_loras` is 0 without
    adapters. With `whole_tower` the vision tower is not cut, with `text_only` it is not loaded,
    with `skip_tower` it is left out of the run that memory is measured in. `max_pixels` are those
    of the largest image.
    `capture_sizes` are the batch sizes of CUDA graphs (empty: there are none), `variables` those
    of the engine's variables that matter, by name.
    """

    budget: KvBudget = KvBudget()
    max_model_len: Known[int] = Known.unset()
    max_num_seqs: Known[int] = Known.unset()
    max_num_batched_tokens: Known[int] = Known.unset()
    kv_cache_dtype: Known[str] = Known.unset()
    quantization: Known[str] = Known.unset()
    block_size: Known[int] = Known.unset()
    enforce_eager: Known[bool] = Known.unset()
    prefix_caching: Known[bool] = Known.unset()
    chunked_prefill: Known[bool] = Known.unset()
    dtype: Known[str] = Known.unset()
    offload: Known[int] = Known.unset()
    draft: Known[str | None] = Known.unset()
    draft_tokens: Known[int] = Known.unset()
    max_loras: Known[int] = Known.unset()
    max_lora_rank: Known[int] = Known.unset()
    whole_tower: Known[bool] = Known.unset()
    text_only: Known[bool] = Known.unset()
    skip_tower: Known[bool] = Known.unset()
    max_pixels: Known[int | None] = Known.unset()
    capture_sizes: Known[tuple[int, ...] | None] = Known.unset()
    variables: Mapping[str, Known[str]] = field(default_factory=lambda: MappingProxyType({}))


GpuCount: TypeAlias = int | Literal["all"]


@record
class Neighbour:
    """Another plan that uses some of the same devices at the same time."""

    plan: str
    name: str
    devices: tuple[str, ...]
    origin: Origin
    share: Known[float] = Known.unset()


@record
class Partner:
    """Another plan that serves the same requests in another role."""

    plan: str
    name: str
    role: str
    origin: Origin
    model: Known[str] = Known.unset()
    kv_cache_dtype: Known[str] = Known.unset()
    rdma: Known[str | None] = Known.unset()


OTHER_VENDORS = ("intel", "google")
"""Makers of accelerators for which engines have workers and kernels of their own."""

SHAPE_KEPT = "leaves the shape of the model as it is"
"""End of an assumption about an option that could give the model other sizes."""


RAY_JOINS = "every node is part of one Ray cluster, for one engine"
RAY_UNASKED = "the engine uses the Ray cluster that is there without being asked to"
"""Assumptions about the nodes and the executor of an engine that is told of neither."""


@record
class Asked:
    """What a container writes for one resource."""

    limit: Known[Fraction] = Known.unset()
    request: Known[Fraction] = Known.unset()


@record(kw_only=True)
class Placement:
    """What the platform gives to one replica.

    `pods` are all pods of an object whose pods can be the nodes of one engine (a StatefulSet).
    `group_devices` are those of all pods of one group together, where the file says what each has;
    `joined` is what makes one cluster of several pods or hosts, such as Ray.
    `gpus_per_pod` is what the file states for one pod or host ("all": every device of the host);
    `devices` is how many the engine process can use there, "all" resolved by the node size.
    `gpu_label` is the literal that names the card, `device_kind` what one unit is: "gpu", "mig" (a
    hardware slice), "shared" (a share of a card) or "neuron" (a device with several cores);
    `uncounted` is why such units are not what ranks run on. `claim` is a claim of devices that is
    one and the same for all pods. `device_ids` are the devices of `scope` that
    the process sees, by index or UUID.

    `shm_bytes` is the size of /dev/shm, `memory_bytes` the memory limit of the container; with
    `shm_ample`, /dev/shm holds what the machine does: it is the host's, or without a limit. `rdma`
    names what hands the container an RDMA device, `interfaces` what gives it several network
    interfaces, `packed` what keeps the pods of one group near each other; None: nothing does.
    `env` are variables that collectives look at, `env_open` why there may be more of them.

    `asked` holds limit and request of each resource that stands for devices. `startup_seconds` is
    how long the engine may take to start before a probe ends it, `probe` the one that does, and
    `ready_probe` the one that must succeed before the pod counts as ready;
    `ordered`: pods of one object start one after the other, each when the one before is ready.

    `node_labels` are the labels that a node must have, one map for each way to be taken; a label
    has the values of which one is asked for, none where they are not known. `pool` is the pool of
    the configuration that the plan runs in, `price` what one GPU of it costs in an hour.

    `capacity` is the number of devices of the Ray cluster that must have a place for the ranks, at
    its largest; `driver_devices` that of its node on which the engine itself is started.

    `scheduled`: a scheduler finds a node with so many free devices, and gives them to nobody else.
    `on_host`: the engine runs on a machine, not in a container; `shared`: other engines run in the
    same container; `wants_gpu`: it is no CPU build; `foreign`: accelerators for which an engine has
    other code than for GPUs of NVIDIA and AMD; `certain`: it runs whenever the file is used;
    `branch`: a test of its script decides whether it does;
    `detached`: what follows in the file starts while it runs; `varied`: branches of its script
    start it with different options. `neighbours` run at the same time and use some of its devices.
    """

    pods_per_group: Known[int] = Known.unset()
    pods: Known[int] = Known.unset()
    group_devices: Known[int] = Known.unset()
    joined: str | None = None
    gpus_per_pod: Known[GpuCount] = Known.unset()
    devices: Known[int] = Known.unset()
    capacity: Known[int] = Known.unset()
    driver_devices: Known[int] = Known.unset()
    gpu: Known[Device] = Known.unset()
    gpu_label: Known[str] = Known.unset()
    gpus_per_node: Known[int] = Known.unset()
    nodes: Known[int] = Known.unset()
    node_labels: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    pool: Known[str] = Known.unset()
    price: Known[float] = Known.unset()
    network: Known[str] = Known.unset()
    link: Known[str] = Known.unset()
    link_domain: Known[int] = Known.unset()
    device_kind: Known[str] = Known.unset()
    uncounted: str | None = None
    claim: Known[str] = Known.unset()
    device_ids: Known[tuple[str, ...]] = Known.unset()
    scope: str = ""
    shm_bytes: Known[int] = Known.unset()
    shm_ample: bool = False
    memory_bytes: Known[int] = Known.unset()
    host_ipc: Known[bool] = Known.unset()
    host_network: Known[bool] = Known.unset()
    rdma: Known[str | None] = Known.unset()
    interfaces: Known[str | None] = Known.unset()
    packed: Known[str | None] = Known.unset()
    env: Mapping[str, Known[str]] = field(default_factory=lambda: MappingProxyType({}))
    env_open: str | None = None
    asked: Mapping[str, Asked] = field(default_factory=lambda: MappingProxyType({}))
    startup_seconds: Known[int] = Known.unset()
    probe: str | None = None
    ready_probe: str | None = None
    ordered: Known[bool] = Known.unset()
    wants_gpu: bool = True
    foreign: str | None = None
    branch: bool = False
    scheduled: bool = False
    on_host: bool = False
    shared: bool = False
    certain: bool = True
    detached: bool = False
    varied: bool = False
    neighbours: tuple[Neighbour, ...] = ()

    def variable(self, name: str) -> Known[str | None]:
        """The value of a variable, None where it is certainly not set."""
        found: Known[Any] = self.env.get(name, Known.unset())
        if not found.is_unset:
            return found
        if self.env_open is not None:
            return Known.unknown(f"{name} may be set elsewhere: {self.env_open}")
        unset: Known[str | None] = Known.of(None, how="defaulted")
        return unset.assuming(f"{name} is not set outside the script") if self.on_host else unset


@record(kw_only=True)
class Scaler:
    """What changes the number of replicas of a workload, and by what it decides.

    `target` names the workload: namespace, kind, name. `signals` are what it looks at: "cpu",
    "memory", or the name of a metric; `decided` is False where some of them could not be read.
    """

    file: str
    path: str
    origin: Origin
    kind: str
    target: tuple[str, str, str]
    minimum: Known[int] = Known.unset()
    maximum: Known[int] = Known.unset()
    signals: tuple[str, ...] = ()
    decided: bool = True


@record(kw_only=True)
class Fleet:
    """How many replicas there are. `surge` are those that a rolling update starts before old ones
    stop, where none of those may stop first, and `at_once` how to write that one may (without: it
    cannot be written); with `renewed` an update starts a whole Ray cluster beside the old one.
    `scaler` changes the number. `whole`: one is a whole engine, of as many pods as it
    takes; `groups`: the object makes the group of pods of one."""

    replicas: Known[int] = Known.unset()
    max_replicas: Known[int] = Known.unset()
    surge: Known[int] = Known.unset()
    at_once: str | None = None
    renewed: bool = False
    scaler: Scaler | None = None
    whole: bool = False
    groups: bool = False


@record(kw_only=True)
class Flag:
    """One option of the command line as the engine's parser sees it.

    `flag` is its name in the engine's table, None when the parser would refuse it; `problem` says
    why then, `candidates` what was probably meant. `more` are the further values of an option that
    takes many; `span` covers the option with all of them.
    """

    written: Text
    flag: str | None
    value: Text | None = None
    more: tuple[Text, ...] = ()
    span: Span
    negated: bool = False
    dotted: str | None = None
    problem: str | None = None
    candidates: tuple[str, ...] = ()


@record(kw_only=True)
class Refused:
    """A word that the engine's parser does not accept.

    `kind` "unknown": it does not recognise the word; "value": it knows the option and refuses what
    is given with it; "misplaced": it is an option and stands where none is read. `problem` are the
    engine's own words. `when` names the releases that refuse it
    ("since vLLM 0.18.0"), None: every release that is possible. `certain` is False where a plugin
    or a variable may make it right all the same. `flag` is the option's place among those of the
    plan, `replaced_by` what means the same now, `remedy` what to write, for people.
    """

    kind: Literal["unknown", "value", "misplaced"]
    written: Text
    at: Origin
    problem: str
    when: str | None = None
    certain: bool = True
    flag: int | None = None
    candidates: tuple[str, ...] = ()
    replaced_by: str | None = None
    known: bool = False
    """Some release of the engine has the option."""
    remedy: str | None = None
    by: str | None = None
    """Who refuses it, where that is not the engine: the operator that would start it."""
    move: tuple[str, str, int] | None = None
    """The site that writes it where it belongs, the field that it sets, and the value."""
    cures: str = ""
    """The word of offers that cure it, which the router in front of the plan has."""

    @property
    def severity(self) -> Literal["error", "warning"]:
        return "error" if self.certain and self.when is None else "warning"


@record(kw_only=True)
class Remark:
    """What there is to say about a word that the engine's parser accepts.

    `kind`: "deprecated", "redundant", "abbreviated", "ignored", "conflict" or "upkeep" (of the
    engine itself). `flag` is the option's place among those of the plan, `replaced_by` what to
    write for it.
    """

    kind: str
    at: Origin
    message: str
    severity: Literal["error", "warning", "info"] = "info"
    help: str | None = None
    flag: int | None = None
    replaced_by: str | None = None
    related: tuple[tuple[Origin, str], ...] = ()


@record
class Refusal:
    """Why a place cannot be edited, as a sentence fragment for people."""

    reason: str


class Site(Protocol):
    """The owner of the edits for one field of a plan."""

    def set(self, value: str) -> list[Edit] | Refusal:
        """Edits that give the field this value."""
        ...


@record
class Unknown:
    """A field that could not be read, and why."""

    field: str
    reason: str
    origin: Origin | None = None


@record(kw_only=True)
class ServingPlan:
    """One thing that serves a model.

    `layout` holds what is stated; `effective` the same with the engine's defaults filled in.
    `anchors` are the places where a suppression comment covers the whole plan: the first line of
    its object, the key line that opens its script, its command.
    """

    id: str
    name: str
    kind: str
    file: str
    path: str
    origin: Origin
    engine: str | None = None
    image: Known[str] = Known.unset()
    tag: Known[str] = Known.unset()
    versions: Known[Releases] = Known.unset()
    model: Known[str] = Known.unset()
    model_facts: Known[ModelFacts] = Known.unset()
    stored_as: Mapping[str, Any] | None = None
    """How the weights seem to be stored by the name of the checkpoint, where nothing tells it."""
    shape_of: Known[str] = Known.unset()
    """The model or folder whose config.json gives the shape, where that is not the model itself."""
    served_name: Known[str] = Known.unset()
    owner: tuple[str, str] | None = None
    """Kind and name of the object that its pods belong to."""
    role: str | None = None
    group: str | None = None
    """The id of the group of plans that do its requests together."""
    platform: str | None = None
    """The operator or chart that makes pods of it."""
    platform_releases: Known[Releases] = Known.unset()
    """The releases of it that are possible, where something is known of them."""
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Labels of the pods, which selectors look at."""
    layout: LayoutFacts = LayoutFacts()
    effective: LayoutFacts = LayoutFacts()
    placement: Placement = Placement()
    fleet: Fleet = Fleet()
    memory: Memory = Memory()
    flags: tuple[Flag, ...] = ()
    options: Mapping[str, Known[Any]] = field(default_factory=lambda: MappingProxyType({}))
    """What the engine's constraints look at beside the layout, by the engine's own names."""
    refused: tuple[Refused, ...] = ()
    remarks: tuple[Remark, ...] = ()
    told: Mapping[str, Known[Any]] = field(default_factory=lambda: MappingProxyType({}))
    """What the user says of a fact that the file states too."""
    argv: tuple[Text, ...] = ()
    joined: tuple[str, ...] = ()
    partners: tuple[Partner, ...] = ()
    """Plans of the same object that do the other part of its requests."""
    tp_shared: tuple[str, ...] = ()
    """Names of plans with other models whose tensor parallel size stands at the same place."""
    """Files of options that were read with it and are nothing but that."""
    open_ended: str | None = None
    builds: bool = False
    """It serves nothing: it cuts the model for a server, and needs none of the GPUs."""
    sites: Mapping[str, Site] = field(default_factory=lambda: MappingProxyType({}))
    unknowns: tuple[Unknown, ...] = ()
    anchors: tuple[Span, ...] = ()
    elsewhere: tuple[Origin, ...] = ()
    """Places of the same sense in other files, of which the object is put together."""
    before: ServingPlan | None = None
    """What it was at the revision that it is compared with."""
    suppressed: Mapping[str, Origin] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def foreign(self) -> str | None:
        """The accelerators, where it is no code for GPUs of NVIDIA and AMD that runs the ranks."""
        others = (card.name for card in self.placement.gpu.values if card.vendor in OTHER_VENDORS)
        return self.placement.foreign or next(others, None)

    def fact(self, path: str) -> Known[Any]:
        """A fact by its dotted name, such as "layout.tp" or "placement.gpus_per_pod"."""
        if path.startswith("options."):
            return self.options.get(path.removeprefix("options."), Known.unset())
        if path.startswith("env."):
            return self.placement.variable(path.removeprefix("env."))
        value: Any = self
        for part in path.split("."):
            value = getattr(value, part)
        assert isinstance(value, Known)
        return value


@record
class Group:
    """Plans of one object that serve one name together, each a part of every request."""

    id: str
    name: str
    plans: tuple[ServingPlan, ...]


@record(kw_only=True)
class Offer:
    """A change that a router's reader can write: what it cures, what it says, and the edits.

    `cures` is a word that rules ask for: "routing" (another policy), "skew", "state", "kv_events",
    "prefix_caching", "session_key". `delta` are the fields that it changes; with "routing" there,
    the policy that must be read afterwards, in the words of `routing.word`.
    """

    cures: str
    title: str
    delta: Mapping[str, Any]
    site: Site
    value: str = ""


@record(kw_only=True)
class Router:
    """What stands in front of replicas and chooses among them.

    `awareness` holds what its choice looks at: "prefix" (what the replica holds), "kv" (by the
    engines' own events or a cache controller), "session", "load"; empty: it is blind. `chooses`:
    among replicas; "one" where there is one to choose; "elsewhere" where it leaves the choice to
    another, or makes none. `sure` is False where the awareness of its policy is not known.

    `selector` are the labels that its backends carry, `targets` the hosts that it names, with
    ports; `backends` the ids of the plans and routers found. `choices` is the number of places
    that the file itself lists. `state` is "process" where each router process learns for itself
    what the caches hold, `replicas` the number of such processes. `picker` names the endpoint
    picker that decides for it, `picks` is the name that it goes by itself. `labels` are those of
    its own pods, for Services in front of it, `names` hosts by which others reach it. `remarks` is
    what its reader found: "skew", "kv-events", "prefix-caching-off", "session-key". `engines`: what
    it balances serves models, whatever else is known; a balancer of another kind is only judged
    where it leads to engines. `assumes` is what that rests on, if it is a guess. `within`:
    it is part of an engine, and chooses among its ranks. `spills`: where too little of a prompt is
    held anywhere, the load decides. `serves` are names that clients ask for, each with the model
    that is behind it. `ranks`: it chooses among the data-parallel ranks of an engine too.
    """

    id: str
    name: str
    kind: str
    file: str
    path: str
    origin: Origin
    namespace: str | None = None
    policy: Known[str] = Known.unset()
    explicit: bool = False
    awareness: frozenset[str] = frozenset()
    sure: bool = True
    chooses: Literal["replicas", "one", "elsewhere"] = "replicas"
    selector: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    targets: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    choices: Known[int] = Known.unset()
    state: Literal["process", "shared"] | None = None
    replicas: Known[int] = Known.unset()
    picker: str | None = None
    picks: str | None = None
    names: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    engines: bool = False
    assumes: tuple[str, ...] = ()
    within: bool = False
    spills: bool = False
    serves: tuple[tuple[str, str], ...] = ()
    ranks: bool = False
    remarks: tuple[Remark, ...] = ()
    offers: tuple[Offer, ...] = ()
    anchors: tuple[Span, ...] = ()
    elsewhere: tuple[Origin, ...] = ()
    """Places of the same sense as `anchors`, in other files."""
    suppressed: Mapping[str, Origin] = field(default_factory=lambda: MappingProxyType({}))


# ----------------------------------------------------------------------------------- engines


@record(kw_only=True)
class Launch:
    """A process that a file starts, before anybody knows whether it is an engine.

    `argv` is everything that runs, in order: entrypoint or command, then arguments; `image` is the
    container image. `argv_complete` is False where the image's own entrypoint comes first.
    `engine` is the engine where something else than image and command says which it is.
    `config` are those of its words that stand in a file of options, None if no such file was read.
    """

    origin: Origin
    argv: tuple[Text, ...] = ()
    image: Known[str] = Known.unset()
    env: Mapping[str, Text] = field(default_factory=lambda: MappingProxyType({}))
    argv_complete: bool = True
    engine: str | None = None
    config: tuple[Text, ...] | None = None


@record(kw_only=True)
class Reading:
    """What an engine makes of a launch: where its options start and what they say.

    `counted` are fields of the layout that the engine sets to the number of devices that it sees,
    whatever its options say. `variables` are the facts that a variable states, with its text.
    `tied` are fields whose option says something else here, with the reason. `builds`: the process
    serves nothing, but cuts a model for one that will.
    """

    engine: str
    command: tuple[Text, ...]
    flags: tuple[Flag, ...]
    model: Known[str]
    served_name: Known[str]
    layout: LayoutFacts
    memory: Memory
    open_ended: str | None = None
    shape_of: Known[str] = Known.unset()
    options: Mapping[str, Known[Any]] = field(default_factory=lambda: MappingProxyType({}))
    refused: tuple[Refused, ...] = ()
    remarks: tuple[Remark, ...] = ()
    releases: Known[Releases] = Known.unset()
    """Those of the possible releases that take every word, where only some do."""
    counted: tuple[str, ...] = ()
    variables: Mapping[str, Text] = field(default_factory=lambda: MappingProxyType({}))
    tied: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    builds: bool = False

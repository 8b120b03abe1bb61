"""What a fix of the layout starts from, and whether the engine takes another one."""

from __future__ import annotations

from shardlint.engine import Engine
from shardlint.memory_rule import fits_roughly
from shardlint.plan import NO_OPTIONS, Device, Layout, ModelFacts, Options, Ranks, ServingPlan
from shardlint.plugins import World
from shardlint.record import record

USUAL_NODE = 8
"""GPUs of a node whose size nobody states: no fix asks one pod for more."""
PARTS = ("mig", "shared")
"""Slices and shares of a card, which tensor parallelism does not add up."""


@record
class Asked:
    """What a layout fix starts from: the whole layout of a plan, decided in every field.

    `devices` is what the process sees, `stated` the GPU count that the file holds and a fix can
    change, `node` the most that there can be.
    """

    plan: ServingPlan
    engine: Engine
    layout: Layout
    model: ModelFacts | None
    devices: int | None
    stated: int | None
    node: int | None
    options: Options = NO_OPTIONS
    device: Device | None = None
    world: World | None = None
    """Where the finding was, to ask for memory and speed."""

    @classmethod
    def of(cls, world: World) -> Asked | None:
        """None where a field is not decided: no change could be called valid."""
        layout, placement = world.whole, world.plan.placement
        if layout is None or world.ranks is None:
            return None
        stated = placement.gpus_per_pod.only
        devices = world.devices if world.devices is not None else placement.devices.only
        model = world.model if world.model is not None else world.plan.model_facts.only
        return cls(
            world.plan, world.engine, layout, model, devices,
            stated if isinstance(stated, int) else None, placement.gpus_per_node.only,
            world.options, world.device, world,
        )  # fmt: skip

    @property
    def knows_shape(self) -> bool:
        """All that decides which tensor parallel sizes the model can be cut into."""
        model = self.model
        if model is None or not model.attention_heads:
            return False
        return bool(model.kv_heads or model.mla)

    @property
    def gpus(self) -> int:
        """What the plan has for itself: the GPUs of its pod; on a host, those that it uses."""
        need = self.ranks(self.layout).gpus_per_pod or 0
        if self.stated is not None and self.devices is not None:
            return self.devices
        return need if self.devices is None else min(need, self.devices)

    @property
    def there(self) -> int:
        """GPUs of one pod, or those of one replica where a cluster places the ranks."""
        placed = self.ranks(self.layout).gpus_per_pod is not None
        return self.gpus if placed else self.size(self.layout)

    @property
    def enough_pods(self) -> int | None:
        """Pods that hold the layout, where a replica has more of them than that."""
        pods, ranks = self.plan.placement.pods_per_group.only, self.ranks(self.layout)
        if pods is None or self.layout.nnodes != pods or not self.devices:
            return None
        enough = -(-ranks.gpus // self.devices)
        return enough if enough < pods else None

    def ranks(self, layout: Layout) -> Ranks:
        return self.engine.ranks(layout, self.model, None)

    def accepts(self, layout: Layout) -> bool:
        constraints = self.engine.constraints(
            self.model, self.ranks(layout), layout, self.options, self.device
        )
        return not any(constraint.refuses for constraint in constraints)

    def size(self, layout: Layout) -> int:
        """GPUs that a layout needs, of those that `there` counts."""
        ranks = self.ranks(layout)
        return ranks.gpus if ranks.gpus_per_pod is None else ranks.gpus_per_pod

    def holds(self, layout: Layout) -> bool | None:
        """One GPU holds its part by the estimate; None: that is not known."""
        found = self.world.sized(layout) if self.world is not None else ()
        return all(fits_roughly(sized) for sized in found) if found else None

    def rate(self, layout: Layout) -> float | None:
        """Tokens a second for each GPU under the first load; None: such layouts were not
        measured."""
        if self.world is None or self.world.device is None:
            return None
        found = self.world.rate(layout, self.world.loads[0])
        return sum(found) / 2 if found is not None else None

    def count(self, layout: Layout) -> dict[str, int] | None:
        """The change of the GPU count that a layout needs; None if there cannot be so many."""
        need, there = self.ranks(layout).gpus_per_pod, self.devices
        if need is None:
            return {} if self.size(layout) == self.size(self.layout) else None
        if need > 1 and self.plan.placement.device_kind.only in PARTS:
            return None
        uncounted = self.plan.placement.uncounted is not None
        if self.stated is None or uncounted or need == self.stated:
            most = there if there is not None else max(USUAL_NODE, self.size(self.layout))
            return {} if need <= most else None
        most = self.node or max(USUAL_NODE, self.stated)
        return {"gpus_per_pod": need} if need <= most else None

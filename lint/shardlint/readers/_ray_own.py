"""Applications of Ray Serve that start vLLM by code of somebody's own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from shardlint.known import Known, Text
from shardlint.plan import Launch, ServingPlan, Site
from shardlint.platforms import kuberay
from shardlint.plugins import ReadContext
from shardlint.readers._ray_place import KEYS, Place, fleet_of, image_of
from shardlint.readers.edits import RefusedSite
from shardlint.readers.keyed import KeySite, dashed
from shardlint.readers.plans import plan_of
from shardlint.readers.pods import added
from shardlint.readers.yaml_tree import Node, placeholder
from shardlint.record import record
from shardlint.source import Mapped


@record
class Own:
    """An application that starts vLLM by its own code, told by variables what to ask for."""

    place: Place
    app: Node
    path: str

    @property
    def env(self) -> Node | None:
        found = self.app.get("runtime_env", "env_vars")
        return found if found is not None and found.kind == "map" else None

    def plan(self, context: ReadContext) -> ServingPlan | None:
        name, model = self._model()
        if model is None or model.kind != "scalar" or not self._is_vllm():
            return None
        groups = self.place.groups(Known.unset(), context)
        group = groups[0] if groups else None
        host = self.place.host(self.app, model, self.path, group, context)
        fleet, more = fleet_of(self._deployment())
        placement = self.place.placement(host.placement, groups)
        devices = self.place.cluster.sites(groups) if self.place.cluster is not None else {}
        why = "the application's own code places the ranks"
        host = replace(
            host,
            placement=replace(placement, capacity=Known.unset()),
            fleet=self.place.renewed(fleet),
            effective={"executor": Known.unknown(why)},
            release=self._release(),
            sites={**host.sites, **more, **devices},
            written=self._written(),
        )
        launch = Launch(
            origin=model.origin,
            argv=tuple(self._words(name, model)),
            image=image_of(group.container) if group is not None else Known.unset(),
        )
        plan = plan_of(launch, host, context)
        return replace(plan, refused=(), remarks=host.remarks) if plan is not None else None

    def _is_vllm(self) -> bool:
        """Its packages, its module, the name of its deployment, or the image name the engine."""
        found = self.app.get("deployments")
        names = [node.string("name") for node in (found.items if found is not None else ())]
        cluster = self.place.cluster
        images = [image_of(group.container).only for group in (cluster.groups if cluster else ())]
        words = [self.app.string("import_path"), self.app.string("name"), *names, *images]
        packaged = any(re.match(r"vllm\b", item.value) for item in self._packages())
        return packaged or any("vllm" in (word or "").lower() for word in words)

    def _packages(self) -> list[Node]:
        pip = self.app.get("runtime_env", "pip")
        if pip is not None and pip.kind == "map":
            pip = pip.get("packages")
        return [item for item in (pip.items if pip is not None else ()) if item.kind == "scalar"]

    def _release(self) -> Known[str]:
        for item in self._packages():
            if match := re.fullmatch(r"vllm(?:\[[^\]]*\])?==([\w.]+)", item.value.strip()):
                return item.text().part(match.start(1), match.end(1)).known()
        return Known.unset()

    def _deployment(self) -> Node | None:
        """The deployment with the engine: the only one, or the only one with a GPU."""
        found = self.app.get("deployments")
        items = [item for item in (found.items if found is not None else ()) if item.pairs]
        if len(items) > 1:
            items = [item for item in items if item.get("ray_actor_options", "num_gpus")]
        return items[0] if len(items) == 1 else None

    @property
    def args(self) -> Node | None:
        """Arguments of the application's builder, which may be named like the engine's options."""
        found = self.app.get("args")
        return found if found is not None and found.kind == "map" else None

    def _model(self) -> tuple[str, Node | None]:
        for name in kuberay.MODEL_VARIABLES if self.env is not None else ():
            if self.env is not None and (found := self.env.get(name)) is not None:
                return name, found
        return "model", self.args.get("model") if self.args is not None else None

    def _told(self) -> Iterator[tuple[str, Node, Node]]:
        """Options with the keys and values that tell them: variables, then arguments."""
        for key, value in self.env.entries() if self.env is not None else ():
            if (option := kuberay.OWN_VARIABLES.get(key.value)) is not None:
                yield option, key, value
        for key, value in self.args.entries() if self.args is not None else ():
            if dashed(key.value) in kuberay.OWN_VARIABLES.values():
                yield dashed(key.value), key, value

    def _words(self, name: str, model: Node) -> Iterator[Text]:
        yield from (added(word, model.origin) for word in ("vllm", "serve"))
        yield _assumed(model.text(), name, "--model")
        for option, key, value in self._told():
            if value.kind == "scalar" and not value.is_null:
                yield Text(Mapped.all_at(option, key.span), key.origin)
                yield _assumed(value.text(), key.value, option)

    def _written(self) -> Mapping[str, Site]:
        """Options are edited in their variables; what has none is the application's own matter."""
        sites: dict[str, Site] = {}
        for name in KEYS:
            option = dashed(KEYS[name])
            keys = [key for told, key, _ in self._told() if told == option]
            holders = [node for node in (self.env, self.args) if node is not None]
            found = [n for n in holders for key in keys if n.get(key.value) is not None]
            refused = RefusedSite("the application decides what to ask of the engine")
            sites[name] = KeySite(found[0], keys[0].value) if len(found) == 1 else refused
        return sites


def _assumed(text: Text, name: str, option: str) -> Text:
    if (reason := placeholder(text.value or "")) is not None:
        return Text.unknown(text.origin, reason)
    sentence = f"the application gives {name} to the engine as {option}"
    return replace(text, assumes=text.assumes | {sentence})

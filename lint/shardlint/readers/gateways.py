"""Routers that a command starts: SGLang's and its successors, vLLM's, the production stack's,
Dynamo's frontend.

Facts of routing, sections 1 and 4 (sglang-router 0.3.2, smg 1.13.0, vllm-router 0.1.17, PyPI;
vllm-project/production-stack at a6c01db). Two command lines are called `vllm-router`: the one with
`--routing-logic` is the production stack's. The command is looked for wherever a map has `command`
or `args`, and in scripts. In the values of a chart, `router` with `enabled` and one of their
policies is taken for such a router.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final, Literal

from shardlint.known import Known, Text
from shardlint.plan import Offer, Router
from shardlint.platforms import dynamo, production_stack
from shardlint.plugins import ReadContext, ReadResult
from shardlint.readers import _dynamo_command
from shardlint.readers.docker import container
from shardlint.readers.edits import TextSite
from shardlint.readers.keyed import one_process
from shardlint.readers.objects import kind_of, read_objects
from shardlint.readers.plans import process_of, processes
from shardlint.readers.pods import Owner, added, string_map
from shardlint.readers.yaml_files import yaml_like
from shardlint.readers.yaml_tree import Node, integer
from shardlint.record import record
from shardlint.source import Mapped, Origin, Source, Span

NAMES: Final = re.compile(
    r"sglang[_-]router|sgl[_-](?:model[_-])?(?:router|gateway)|vllm[_-]router|\bsmg\b|"
    r"lmstack-router|--routing-logic|\bcache_aware\b|\bdynamo\.frontend\b|--worker-urls"
)
SCRIPTS: Final = (".sh", ".bash", ".zsh", ".ksh")
SHEBANG: Final = re.compile(r"#!.*\b(ba|da|z|k|a)?sh\b")
DEFAULT: Final = "cache_aware"
POLICIES: Final[Mapping[str, frozenset[str]]] = MappingProxyType({
    "random": frozenset(), "round_robin": frozenset(), "passthrough": frozenset(),
    "power_of_two": frozenset({"load"}), "least_load": frozenset({"load"}),
    "cache_aware": frozenset({"prefix", "load"}), "kv_aware": frozenset({"kv", "prefix", "load"}),
    "prefix_hash": frozenset({"prefix", "load"}), "bucket": frozenset({"load"}),
    "consistent_hash": frozenset({"session"}), "consistent_hashing": frozenset({"session"}),
    "sticky_least_loaded": frozenset({"session", "load"}), "manual": frozenset({"session"}),
})  # fmt: skip
RANKS: Final = ("--dp-aware", "--intra-node-data-parallel-size")
"""Options by which a router sends to a rank of an engine (facts of routing, section 2)."""

MESH: Final = "--enable-mesh"
"""Processes of SMG tell each other what they have seen (lightseekorg/smg, deploy/helm/smg)."""

LEARNS: Final = ("cache_aware", "prefixaware", "manual")
"""Policies that keep in one process what they have seen."""

_MODULES: Final = re.compile(r"(sglang_router|smg|sglang_model_gateway)(\.\w+)*")
_PROGRAMS: Final = re.compile(r"sglang-router|sgl-router|smg|sgl-model-gateway|vllm-router")
_STACK: Final = re.compile(r"vllm_router(\.\w+)*")
_SHELLS: Final = re.compile(r"(?:.*/)?(?:ba|da|z|k|a)?sh")
MAX_DEPTH: Final = 60


class GatewaysReader:
    """Commands of `sglang_router`, `smg`, `vllm-router`; `router.policy` in values of charts."""

    name = "gateways"
    kinds = ()
    look: bytes | None = None

    def accepts(self, source: Source) -> bool:
        if NAMES.search(source.text) is None:
            return False
        return yaml_like(source) or _is_script(source)

    def read(self, source: Source, context: ReadContext) -> ReadResult:
        if _is_script(source):
            return ReadResult(routers=tuple(_in_script(source)))
        return read_objects(self, source, context)

    def read_object(self, node: Node, path: str, context: ReadContext) -> ReadResult:
        return ReadResult(routers=tuple(_in_object(node, path)))


def _is_script(source: Source) -> bool:
    suffix = PurePosixPath(source.name.lower().replace("\\", "/")).suffix
    return suffix in SCRIPTS or SHEBANG.match(source.text) is not None


# ------------------------------------------------------------------------------------ commands


@record
class _Command:
    """A router's own words, and whether it is the production stack's or Dynamo's.

    `launches`: it starts the engines too, whose options stand beside its own, which have a prefix.
    """

    words: tuple[Text, ...]
    stack: bool = False
    launches: bool = False
    dynamo: bool = False
    env: Mapping[str, Text] = field(default_factory=lambda: MappingProxyType({}))
    workers: Known[int] = Known.unset()

    @property
    def kind(self) -> str:
        if self.dynamo:
            return "dynamo-frontend"
        return "production-stack-router" if self.stack else "gateway-router"

    @property
    def prefix(self) -> str:
        return "--router-" if self.launches else "--"

    def values(self, name: str) -> list[Text]:
        """The values of the router's option, as all of its other commands write it."""
        return self.written(self.prefix + name.removeprefix("--"))

    def written(self, name: str) -> list[Text]:
        """The values of an option up to the next one, of all places where it is given."""
        found: list[Text] = []
        taking = False
        for word in self.words:
            text = word.value or ""
            if text.startswith("--"):
                written, equals, _ = text.partition("=")
                taking = written.replace("_", "-") == name
                if taking and equals:
                    found.append(word.part(len(written) + 1))
                    taking = False
            elif taking:
                found.append(word)
        return found

    def value(self, name: str) -> Text | None:
        return next(iter(self.values(name)[-1:]), None)

    def has(self, name: str) -> bool:
        return any((word.value or "").partition("=")[0] == name for word in self.words)


def _command(argv: Sequence[Text]) -> _Command | None:
    """The router that these words start."""
    argv = _behind_env(argv)
    words = [word.value or "" for word in argv]
    for at, word in enumerate(words[:8]):
        name = PurePosixPath(word).name
        module = at > 0 and words[at - 1] == "-m"
        rest = tuple(argv[at + 1 :])
        routing = any(text.startswith("--routing-logic") for text in words[at:])
        if (module and _STACK.fullmatch(word)) or (_PROGRAMS.fullmatch(name) and routing):
            return _Command(rest, stack=True)
        if (module and _MODULES.fullmatch(word)) or (not module and _PROGRAMS.fullmatch(name)):
            launches = module and word == "sglang_router.launch_server"
            return _Command(rest, launches=launches)
        if module and _dynamo_command.MODULE.fullmatch(word):
            return _Command(rest, dynamo=True)
    if argv and argv[0].value is None:
        return _unnamed(tuple(argv[1:]))
    return None


_SETTING: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


def _behind_env(argv: Sequence[Text]) -> Sequence[Text]:
    """The command behind `env` and the variables that it sets."""
    if not argv or argv[0].value != "env":
        return argv
    at = 1
    while at < len(argv) and (argv[at].value is None or _SETTING.fullmatch(argv[at].value or "")):
        at += 1
    return argv[at:]


WORKERS: Final = "--worker-urls"


def _unnamed(words: tuple[Text, ...]) -> _Command | None:
    """A program that is filled in elsewhere, by options that no other one has."""
    found = _Command(words)
    policy = found.value("--policy")
    known = policy is not None and policy.value in POLICIES
    return found if known and found.has(WORKERS) else None


def _bare(words: Sequence[Text], image: str) -> _Command | None:
    """Options of an image that is a router."""
    first = words[0].value if words else None
    if first is None or not first.startswith("--"):
        return None
    if any((word.value or "").startswith("--routing-logic") for word in words):
        return _Command(tuple(words), stack=True)
    named = re.search(r"vllm-router|sglang-router|sgl-model-gateway|/smg(?::|$)", image)
    return _Command(tuple(words)) if named else None


# --------------------------------------------------------------------------------- where it is


def _in_script(source: Source) -> Iterator[Router]:
    from shardlint.readers.bash import read_script

    script = Mapped.slice_of(source.text, Span(0, len(source.text)))
    started = [process_of(item, of_script=False) for item in read_script(script, source.name)]
    workers = _dynamo_command.workers(started)
    for at, process in enumerate(started):
        inside = container(process.argv, source, process.env)
        found = _command(process.argv)
        if inside is not None:
            found = _command(inside.argv) or _bare(inside.argv, inside.image.value or "")
        if found is not None:
            env = inside.env if inside is not None else process.env
            found = replace(found, env=env, workers=workers)
            yield _router(found, source, f"0:/commands/{at}", process.origin, None, Known.unset())


def _in_object(node: Node, path: str) -> Iterator[Router]:
    if node.string("kind") is None and node.string("apiVersion") is None:
        yield from _in_values(node, path)
    own = kind_of(node)[0] == dynamo.GROUP  # whose frontends are read with their graphs
    replicas = integer(node.get("spec", "replicas"))
    for holder, at in _maps(node, path, 0):
        if (found := _of_map(holder)) is not None and not (found.dynamo and own):
            router = _router(found, node.source, at, holder.origin, node, replicas)
            yield replace(router, names=(*router.names, *_hosts(node, holder, at)))


def _hosts(root: Node, holder: Node, path: str) -> tuple[str, ...]:
    """The names of a service of a compose file in its network."""
    found = re.fullmatch(r"\d*:/services/([^/]+)", path)
    if found is None or root.string("kind") is not None:
        return ()
    said = (found[1], holder.string("container_name"), holder.string("hostname"))
    return tuple(dict.fromkeys(name for name in said if name))


def _maps(node: Node, path: str, depth: int) -> Iterator[tuple[Node, str]]:
    if node.alias or depth > MAX_DEPTH:
        return
    if node.kind == "map":
        yield node, path
    for key, value in node.entries():
        yield from _maps(value, f"{path}/{key.value}", depth + 1)
    for at, item in enumerate(node.items):
        yield from _maps(item, f"{path}/{at}", depth + 1)


def _of_map(holder: Node) -> _Command | None:
    """The router that `command` and `args` of a map start."""
    parts = [holder.get(key) for key in ("command", "args")]
    written = [part for part in parts if part is not None]
    text = " ".join(item.value for part in written for item in (part.items or [part]))
    image = holder.string("image") or ""
    if not written or NAMES.search(f"{text} {image}") is None:
        return None
    words: list[Text] = []
    for part in written:
        if part.kind == "list":
            words += [item.text() for item in part.items if item.kind == "scalar"]
        elif part.kind == "scalar":
            shell = words and _SHELLS.fullmatch(words[0].value or "")
            words += [part.text()] if shell else _split(part)
    for process in processes(words, _variables(holder), holder.origin):
        if (found := _command(process.argv) or _bare(process.argv, image)) is not None:
            return replace(found, env=process.env)
    return None


def _variables(holder: Node) -> dict[str, Text]:
    """The variables of a container that are written in it."""
    rows = holder.get("env")
    return {
        name: value.text()
        for row in (rows.items if rows is not None else ())
        if (name := row.string("name")) is not None and (value := row.get("value")) is not None
    }


def _split(node: Node) -> list[Text]:
    """A string that stands for a command, as a shell would take it apart."""
    return [added("sh", node.origin), added("-c", node.origin), node.text()]


# -------------------------------------------------------------------------------------- router


def _router(
    found: _Command,
    source: Source,
    path: str,
    place: Origin,
    owner: Node | None,
    replicas: Known[int],
) -> Router:
    policy, awareness, sure = _policy(found)
    stated = policy.how == "stated"
    of = Owner(node=owner, kind="router", path=path) if owner is not None else None
    targets = tuple(_targets(found))
    first = Origin(source.name, Span(place.span.start, place.span.start))
    return Router(
        id=f"{source.name}#{path}/router",
        name=(of.name if of is not None else "") or "router",
        kind=found.kind,
        file=source.name,
        path=path,
        origin=policy.origin or first,
        namespace=of.namespace if of is not None else None,
        policy=policy,
        explicit=stated,
        awareness=awareness,
        sure=sure,
        targets=targets,
        selector=MappingProxyType(dict(_selector(found))),
        chooses="elsewhere" if found.dynamo and policy.only == "direct" else "replicas",
        choices=_choices(found, targets),
        state=_state(found, policy),
        replicas=replicas,
        names=(of.name,) if of is not None and of.name else (),
        labels=string_map(owner.get("spec", "template", "metadata", "labels"))
        if owner is not None
        else {},
        engines=True,
        spills=found.stack and policy.only in production_stack.SPILLS,
        ranks=(found.dynamo and policy.only == "kv") or any(found.has(name) for name in RANKS),
        anchors=(owner.span if owner is not None else place.span,),
        suppressed=of.suppressed() if of is not None else {},
        offers=(*_offers(found, awareness), *_alone(owner)),
    )


def _policy(found: _Command) -> tuple[Known[str], frozenset[str], bool]:
    if found.dynamo:
        stated = found.value(dynamo.ROUTER_OPTION)
        return _dynamo_command.policy(found.words, stated, found.env)
    return _stack(found) if found.stack else _gateway(found)


def _state(found: _Command, policy: Known[str]) -> Literal["process"] | None:
    """Whether each process learns for itself."""
    if found.dynamo:
        apart = policy.only == "kv" and not _dynamo_command.is_shared(found.words, found.env)
        return "process" if apart else None
    return "process" if policy.only in LEARNS and not found.has(MESH) else None


def _choices(found: _Command, targets: tuple[str, ...]) -> Known[int]:
    """The engines that it names, or starts: one for each data-parallel rank."""
    logic = found.value("--routing-logic")
    if found.stack and logic is not None and logic.value in production_stack.PARTED:
        return Known.unknown("each part of a request has servers of its own")
    if found.dynamo:
        unset: Known[int] = Known.unknown("the workers register themselves")
        return found.workers.or_default(unset)
    if not found.launches:
        return Known.of(len(targets), how="derived") if targets else Known.unset()
    named = [*found.written("--dp-size"), *found.written("--data-parallel-size")]
    count = named[-1].value if named else "1"
    if count is None or not count.isdigit() or len(count) > 4:
        return Known.unknown("the number of engines is filled in elsewhere")
    return Known.of(int(count), how="derived")


def _gateway(found: _Command) -> tuple[Known[str], frozenset[str], bool]:
    parts = [found.value(f"--{role}-policy") for role in ("prefill", "decode")]
    both = [word for word in parts if word is not None]
    if len(both) == 2:  # then `--policy` does not count
        words = [word.value for word in both]
        known = [POLICIES.get(word or "") for word in words]
        if None in words:
            return both[words.index(None)].known(), frozenset(), False
        looks = frozenset().union(*(item for item in known if item is not None))
        names = "+".join(dict.fromkeys(word or "" for word in words))
        return Known.of(names, both[0].origin), looks, None not in known
    stated = found.value("--policy")
    if stated is None:
        if any(word.value is None for word in found.words):
            return Known.unknown("an option is not known"), frozenset(), False
        return Known.of(DEFAULT, how="defaulted"), POLICIES[DEFAULT], True
    if stated.value is None or not re.fullmatch(r"[a-z_]+", stated.value):
        return Known.unknown("the policy is filled in elsewhere", stated.origin), frozenset(), False
    looks_at = POLICIES.get(stated.value)
    return Known.of(stated.value, stated.place), looks_at or frozenset(), looks_at is not None


def _stack(found: _Command) -> tuple[Known[str], frozenset[str], bool]:
    stated = found.value("--routing-logic")
    if stated is None or stated.value is None or not re.fullmatch(r"[a-z_]+", stated.value):
        return Known.unknown("the routing logic is not known"), frozenset(), False
    looks = production_stack.ROUTING.get(stated.value)
    least = found.value("--prefix-min-match-length")
    if stated.value == "prefixaware" and least is not None and least.value not in (None, "0"):
        looks = frozenset({"prefix", "load"})
    return Known.of(stated.value, stated.place), looks or frozenset(), looks is not None


def _targets(found: _Command) -> Iterator[str]:
    """The engines that it is told of; where there are two kinds, those that compute prompts."""
    for name in ("--worker-urls", "--static-backends", "--prefill"):
        for word in found.values(name):
            for part in (word.value or "").split(","):
                if "://" in part:
                    yield part.strip()


def _selector(found: _Command) -> Iterator[tuple[str, str]]:
    for name in ("--selector", "--k8s-label-selector"):
        for word in found.values(name):
            for part in (word.value or "").split(","):
                key, equals, value = part.partition("=")
                if equals and "$" not in value:
                    yield key.strip(), value.strip()


def _alone(owner: Node | None) -> Iterator[Offer]:
    spec = owner.get("spec") if owner is not None else None
    yield from one_process(spec, "replicas") if spec is not None else ()


def _offers(found: _Command, awareness: frozenset[str]) -> Iterator[Offer]:
    stated = found.value("--policy")
    if found.kind == "gateway-router" and stated is not None and not awareness & {"prefix", "kv"}:
        yield Offer(
            cures="routing", title=f"`{found.prefix}policy {DEFAULT}`", value=DEFAULT,
            delta={"routing": "prefix-aware"}, site=TextSite((stated,)),
        )  # fmt: skip


# -------------------------------------------------------------------------------------- values


def _in_values(root: Node, path: str) -> Iterator[Router]:
    """`router` with `enabled` and `policy`; switched off, a Service is what is left."""
    node = root.get("router")
    stated = node.get("policy") if node is not None else None
    enabled = node.string("enabled") if node is not None else None
    if node is None or stated is None or stated.value not in POLICIES:
        return
    off = enabled is not None and enabled.lower() == "false"
    word = "kubernetes-service" if off else stated.value
    meshed = (node.string("mesh", "enabled") or "").lower() == "true"
    count = node.pair("replicaCount") or node.pair("replicas")
    yield Router(
        id=f"{root.source.name}#{path}/router",
        name="router",
        kind="service" if off else "gateway-router",
        file=root.source.name,
        path=f"{path}/router",
        origin=stated.origin,
        policy=Known.of(word, stated.origin, how="defaulted" if off else "stated"),
        explicit=not off,
        awareness=frozenset() if off else POLICIES[stated.value],
        state="process" if not (off or meshed) and word in LEARNS else None,
        replicas=Known.unset() if off else integer(count[1]).at(count[0].origin) if count
        else Known.unset(),
        engines=not off,
        anchors=(node.span,),
        offers=() if off or POLICIES[word] & {"prefix", "kv"} else (
            Offer(cures="routing", title=f"`policy: {DEFAULT}`", value=DEFAULT,
                  delta={"routing": "prefix-aware"}, site=TextSite((stated.text(),))),
        ),
    )  # fmt: skip

"""Write what the documentation takes from the code, or check that it is up to date.

    python scripts/build_docs.py           write docs/ and the marked parts of the other pages
    python scripts/build_docs.py --check   write nothing; exit 1 if something differs

A page of docs/rules is a rule's docstring. A part between `<!-- generated: NAME -->` and
`<!-- end -->` is replaced by what PARTS makes for NAME: a table, a file, or the output of a command
that is run here. Nothing of it is written by hand.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import TextWrapper
from typing import Any, TypeAlias

import click
import kinds_page
from click.testing import CliRunner
from shardlint import cli, config
from shardlint.engines import builtin as engines
from shardlint.platforms import builtin as platforms
from shardlint.plugins import Plugins, Rule
from shardlint.project import Setup
from shardlint.readers import builtin as readers
from shardlint.recommendations import candidates, measured
from shardlint.reports import builtin as reports
from shardlint.sizing import parameters
from shardlint_schemas import schema

ROOT = Path(__file__).resolve().parents[1]
RULES = "docs/rules"
MARKED = ("README.md", "CONTRIBUTING.md")
MARK = re.compile(r"(<!-- generated: ([^\n]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
NOTICE = "<!-- Made by scripts/build_docs.py from {}: change that instead. -->\n\n"
BUILT_IN = Plugins([engines, platforms, readers, reports])

Schema: TypeAlias = Mapping[str, Any]

WORDS = {
    "string": "text",
    "integer": "whole number",
    "object": "table",
    "boolean": "true or false",
}
"""Types of JSON Schema as people call them."""


# -------------------------------------------------------------------------------------- rules


def rules() -> list[type[Rule]]:
    """The rules of this repository, whatever else is installed."""
    return [rule for rule in BUILT_IN.rules() if rule.__module__.startswith("shardlint_rules.")]


def rule_page(rule: type[Rule]) -> str:
    source = f"the docstring of rules/shardlint_rules/{rule.__module__.rpartition('.')[2]}.py"
    switch = "on" if rule.enabled else "off"
    head = f"`{rule.id}` · {rule.severity} · {switch} by default · {_fix(rule)}"
    page = re.sub(r"^```(\w+) told$", r"With this configuration:\n\n```\1", rule.page(), flags=re.M)
    for verdict, words in (("fails", "Reported"), ("passes", "Not reported")):
        page = re.sub(rf"^```(\w+) {verdict}$", rf"{words}:\n\n```\1", page, flags=re.M)
        with_options = rf"{words} with `\2`:\n\n```\1"
        page = re.sub(rf"^```(\w+) {verdict} (--.+)$", with_options, page, flags=re.M)
    return f"{NOTICE.format(source)}# {rule.name}\n\n{head}\n\n{page}"


def _fix(rule: type[Rule]) -> str:
    return f"fix: {rule.fix}" if rule.fix else "no fix"


def rule_index() -> str:
    text = (
        "An error does not start, dies at or before the first request, or is never scheduled. A"
        " warning runs, and is\nwasteful, slow or risky; or it is an error in some of the releases,"
        " models or cards that the file leaves\nopen. Info is advice.\n"
    )
    return f"{NOTICE.format('the rules')}# Rules\n\n{text}\n{rule_table('rules/')}"


def rule_table(folder: str) -> str:
    rows = (
        [rule.id, f"[{rule.name}]({folder}{rule.name}.md)", rule.severity, rule.fix or "",
         rule.summary().removesuffix(".")]
        for rule in rules()
    )  # fmt: skip
    return table(["id", "name", "severity", "fix", "what it finds"], rows)


# -------------------------------------------------------------------------------------- schemas


def configuration() -> str:
    root = schema("config")
    text = [
        NOTICE.format("schemas/shardlint_schemas/config.schema.json"),
        "# Configuration\n\n",
        f"{root['description']}\n\n",
        example_config(),
        "\n## Top level\n\n",
        _properties(root, root, tables=False),
    ]
    for name, value in root["properties"].items():
        if _table_of(value, root):
            text.append(f"\n## {_header(name, value)}\n\n{value['description']}\n\n")
            text.append(_rows_of(_table_of(value, root), root))
    return "".join(text)


def _header(name: str, value: Schema) -> str:
    if value["type"] == "array":
        return f"`[[{name}]]`"
    keyed = {"gpus": '[gpus."NAME"]', "models": '[models."ID"]'}
    return f"`{keyed.get(name, f'[{name}]')}`"


def _table_of(value: Schema, root: Schema) -> Schema | None:
    """What stands in the table of this key; None if the key is no table."""
    if value.get("type") == "object":
        return value
    return value["items"] if resolved(value.get("items", {}), root).get("properties") else None


def _rows_of(value: Schema | None, root: Schema) -> str:
    assert value is not None
    each = resolved(value.get("additionalProperties") or {}, root)
    if each.get("properties"):
        return _properties(each, root)
    if value.get("properties"):
        return _properties(value, root)
    return f"Each value: {_kind(each, root)}.\n"


def _properties(value: Schema, root: Schema, *, tables: bool = True) -> str:
    rows = (
        [f"`{name}`", _kind(item, root), _description(item, root)]
        for name, item in value["properties"].items()
        if tables or not _table_of(item, root)
    )
    return table(["key", "value", "meaning"], rows)


def resolved(value: Schema, root: Schema) -> Schema:
    """A schema with what its reference adds; its own words win."""
    if "$ref" not in value:
        return value
    target = resolved(root["$defs"][value["$ref"].rpartition("/")[2]], root)
    return {**target, **{key: item for key, item in value.items() if key != "$ref"}}


def _description(value: Schema, root: Schema) -> str:
    text = str(resolved(value, root).get("description", ""))
    default = resolved(value, root).get("default")
    return text if default is None else f"{text} Default: `{_literal(default)}`."


def _literal(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(value: Schema, root: Schema) -> str:
    """The type in words: "list of text", "`rdma`, `ethernet` or `none`"."""
    value = resolved(value, root)
    if "enum" in value:
        words = [f"`{word}`" for word in value["enum"]]
        return f"{', '.join(words[:-1])} or {words[-1]}"
    if "const" in value:
        return f"`{value['const']}`"
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_kind(item, root) for item in value["anyOf"]))
    kind = value.get("type", "anything")
    if kind == "array":
        return f"list of {_plural(_kind(value['items'], root))}"
    return " or ".join(
        WORDS.get(name, name) for name in ([kind] if isinstance(kind, str) else kind)
    )


def _plural(words: str) -> str:
    return f"{words}s" if words in ("number", "whole number", "table") else words


def json_formats() -> str:
    text = [
        NOTICE.format("schemas/shardlint_schemas"),
        "# JSON\n\nEach output is one document, alone on standard output. `schema_version` changes"
        " when a field is removed or\nchanges its meaning.\n",
    ]
    for name in ("check", "inspect", "estimate", "recommend", "models_show"):
        root = schema(name)
        text.append(f"\n## {root['title']}\n\n{root['description']}\n\n")
        if "properties" in root:
            text.append(_fields(root, root))
        for part, value in root["$defs"].items():
            about = f"{value['description']}\n\n" if "description" in value else ""
            if value.get("properties"):
                text.append(f"\n### {part}\n\n{about}{_fields(value, root)}")
            elif "enum" in value:
                text.append(f"\n### {part}\n\n{about}{_kind(value, root)}.\n")
    return "".join(text)


def _fields(value: Schema, root: Schema) -> str:
    rows = (
        [f"`{name}`", _linked(item, root), _description(item, root)]
        for name, item in value["properties"].items()
    )
    return table(["field", "value", "meaning"], rows)


def _linked(value: Schema, root: Schema) -> str:
    """The type in words, or a link to the part that it refers to."""
    if value.get("type") == "array":
        return f"list of {_plural(_linked(value['items'], root))}"
    for item in value.get("anyOf", [value]):
        target = item.get("$ref", "").rpartition("/")[2]
        if target and root["$defs"][target].get("properties"):
            return f"[{target}](#{target})" + (" or null" if "anyOf" in value else "")
    return _kind(value, root)


# ------------------------------------------------------------------------------------- estimates

ESTIMATE = """\
`shardlint estimate` says what one GPU of a replica holds, the fullest of them: weights, what the
engine needs beside them, and the KV cache that is left. With `--isl` and `--osl` it says how fast a
replica is. `--format json` gives the same as [JSON](json.md).

## Options and keys

Every option is also a key of a batch, with `_` for `-`. What is not stated is at the default of the
engine's release. Numbers may be written as text; `null` is not stated.

{keys}
## What is taken for what is not stated

Everything that is taken for something else is told under `assumptions`.

- An engine version that is not stated or names no release: a release from the middle of those that
  are known. A build between two releases: the one before it. A release that was not opened: what is
  known to be as old as it.
- A card whose name can mean several: the one that it mostly means, else the smallest. With
  `--gpu-mem-gib`, the one whose memory comes nearest. A card that is not in the table needs
  `--gpu-mem-gib`.
- A bare name of a model: the id that ends in it. A checkpoint that is not known: the model in its
  name.
- `--quantization` is free text. A word of the family that the checkpoint has keeps the checkpoint's
  own record, with the matrices that it leaves in 16 bits. A word of another family is taken for all
  matrices that can have it. A word that names a tool or a container, or nothing that is known, is
  passed over.
- `--tp` is the tensor parallelism of attention, and `--ep` the number of ranks that experts are
  shared out to. An engine that only has a switch shares them out to all.

## Engines

| engine | releases | share of memory |
| --- | --- | --- |
{engines}

Of SGLang the share holds weights and KV cache. Activations and CUDA graphs have to fit into what it
leaves: they are shown as large as the server takes them to be when it chooses the share by itself.
Layers with a sliding window have a smaller pool in some classes of models, and recurrent layers one
of their own, both in a fixed ratio. Tokens of compressed entries are not counted. Of TensorRT-LLM
the PyTorch backend is meant; its activations are estimated from shapes, and tokens of models with
sliding windows, recurrent layers or sparse attention are not counted. Its KV cache is stored as the
checkpoint asks for; where that is not known, weights in FP8 (not in blocks) or NVFP4 are taken to
come with an FP8 cache, as ModelOpt writes them.

## Verdict

`fits`, `tight` or `does_not_fit`: whether one request of the longest length fits. The band is how
far real logs were off in models of the kind; `fits` and `does_not_fit` hold anywhere in it. Plain
attention has logs enough of its own. Of sliding windows, recurrent layers and latent attention few
servers print all that is needed: they take the widest band of all logs, and the report says so.

Where a model has several groups of layers, some releases of vLLM log the tokens of the cache
divided among them. `kv_cache_tokens` is what the log says; requests and the longest context count
what really fits.

## Throughput

With `--isl` and `--osl`: output tokens a second, the time between two tokens of one request, a
bound on the time to the first one, and what holds the replica back. `--concurrency` is the number
of requests at the same time in each replica; without it, as many as fit. `--replicas` multiplies
the tokens a second, nothing else. Where `--max-model-len` is not stated and the default does not
fit, the longest request is taken to be that of the workload.

One decode step is added up: reading weights and KV cache, computing, exchange between ranks, a
fixed price of each layer and request; prefill takes its time from the steps. {rows:,} measured
replicas gave the {count} parameters. Here is how far off it was on models and cards that the
parameters had not seen ({folds} parts, each foretold from the others). Order is the share of pairs
of layouts, at the same number of requests per GPU, that are put in the right order, beside the rule
that the fewest GPUs per replica win; regret is what the chosen layout loses against the best.

{scores}
- `measured`: a plain dense model, with tensor and data parallelism inside of one link domain, on
  {cards},
  with {served}, in 16 bits, FP8 or FP4, with {isl} input
  and {osl} output tokens. Nine of ten measurements lay between {measured} of the estimate.
- `weak`: mixtures of experts, whose layouts are put in no better order than by the simple rule;
  tensor parallelism over PCIe, pipeline stages, other attention, cards, engines, formats,
  workloads outside of those. Nine of ten lay between {weak} of the estimate, where such were
  measured; the report shows only that range.
- `not_modelled`: no number. Ranks that exchange activations over more than one link domain, reuse
  of prefixes, prefill apart from decode, speculative decoding, context parallelism, starts without
  CUDA graphs, weights in host memory, cards that are not by NVIDIA or AMD. Reuse of prefixes is not
  seen at all: a server that has it is faster.

The bound on the time to the first token held for nine of ten measurements; it is about twice what
is usual.

## Batch

`--batch FILE` or `--batch -` reads one JSON object a line and writes one result a line, as soon as
the line is there. `id` is handed through, other keys are passed over, and options of the command
line stand in where a line states nothing. A line that cannot be answered gives
`{{"schema_version": 1, "id": …, "error": …}}`. The exit code is 1 if there was such a line.

```sh
echo '{{"id": 1, "model": "Qwen/Qwen3-32B", "gpu": "H100", "tp": 2}}' | shardlint estimate --batch -
```
"""


def estimates() -> str:
    rows = [[f"`{name}`", f"`{metavar}`", text] for name, metavar, text in cli.ASKED]
    rows.append(["`--enforce-eager`", "", "No CUDA graphs."])
    keys = table(
        ["option", "value", "meaning"], [[a, b.replace("|", " or "), c] for a, b, c in rows]
    )
    text = ESTIMATE.format(keys=keys, engines="\n".join(_engines()), **_throughput())
    return f"{NOTICE.format('scripts/build_docs.py')}# Estimates\n\n{text}"


RECOMMEND = """\
`shardlint recommend` ranks the layouts of a model on some GPUs: how many ranks, how many replicas,
and why. It looks at all that the engine can be asked for, drops what the engine refuses and what
one GPU does not hold, sizes a fleet of each of the others and puts them in order.
`--format json` gives the same as [JSON](json.md).

```sh
shardlint recommend --model Qwen/Qwen3-32B --gpu H100-SXM-80GB:8 --nodes 2 \\
    --isl 4000 --osl 500 --target-tok-s 5000 --tpot 60
shardlint recommend deployment.yaml --gpu H100-SXM-80GB:8 --isl 4000 --osl 500 --diff
```

## Options

{options}
What the question leaves out comes from the manifest, then from the configuration: model, engine
and its settings, the card, `[workload]` with its goals, `[hardware]`, and the only `[[pool]]` with
this card (GPUs of a node, nodes, price). Other options are those of [estimates](estimate.md), and
the same is taken for what is not stated. `--concurrency` is that of all replicas together.

## Layouts

- Ranks that exchange activations in every layer stay in one link domain; stages may stand on
  several nodes.
- The GPUs of a replica divide those of a node, or are a power of two. GPUs that no replica gets are
  told.
- Experts are shared out to all ranks of a stage, with attention split or not. Data parallelism of a
  dense model is a matter of replicas.
- Decode context parallelism is looked at for `--objective context`.
- Layouts that the engine's release has no options for are not there. `--gpu NAME:N,link=pcie`
  states another link than the card has. How fast it is, is not known then: nothing is said of the
  speed of layouts that use it.
- Where the default of the longest request does not fit, one that the workload fits into is tried,
  and its option is part of the answer.

## Fleet

Without a target, replicas take all GPUs. With `--target-tok-s`, or `--request-rate` × `--osl`,
there are as many as the target needs, each with as many requests as the goals allow, and
`--headroom` on top: `replicas × (layout) = GPUs`. With `--concurrency` there are the fewest over
which so many users get the target within the goals.

## Order

First what reaches the goals with the GPUs there are, surely fits, and needs no shorter context.
Then, for `throughput`, output tokens a second and GPU; for `latency`, the time between tokens; for
`context`, the longest request. A rate that is only a rough range counts with its lower end. What
differs by less than {noise} is ordered by how much one lost GPU stops: small replicas first.

The wall is what keeps the first layout from being smaller or faster: `fit` (memory), `latency` (a
goal), `throughput` (neither).

## Measurements

`--measured FILE` is a YAML list of what you measured under this workload:

```yaml
- {{tp: 2, concurrency: 32, output_tok_s: 400, tpot_ms: 40}}
- {{tp: 4, concurrency: 32, output_tok_s: 550, tpot_ms: 30, replicas: 2, hit_rate: 0.3}}
```

Keys are {keys}. `output_tok_s` is that of one replica, `dp` that of attention inside of it. A
measurement replaces the model for its layout. All other layouts are scaled by the geometric mean of
measured ÷ told. Where requests met a prefix cache on one replica alone, a warning says that several
hit less often.

## Unusual traffic

- `--session TOKENS`: the share of a KV cache that one such session takes, how many requests of the
  workload still find room beside it, and the longest one that runs. Told by itself where the
  longest request takes half of a cache or more.
- Stages with fewer requests than stages: how many are always idle, and the bubble, (p − 1) ÷
  (m + p − 1) of p stages and m requests.
- `prefix_share` in `[workload]`: a router that looks at prefixes finds at most that share in a
  cache. A blind one finds about the share ÷ the number of caches where each conversation has a
  prefix of its own, and more where all have the same. No speed counts any of it.

## Change

With a manifest, `--diff` shows the first layout as a change of it: ranks, GPUs of the pod,
replicas, and the longest request where it must be shorter. It is read and linted again before it is
shown: what the file has no place for, what takes other GPUs than were counted and what leads to an
error that was not there is not shown, with the reason. Nothing is written.

## Engines

Those of [estimates](estimate.md#engines). Of LMDeploy, layouts with experts shared out are left
out: its two backends read the option differently.
"""


EVERYWHERE = ("--enforce-eager", "--format", "--online", "--config")
"""Options that other commands have, too."""


def recommendations() -> str:
    own = cli.recommend.params
    rows = []
    asked = {name for name, _, _ in cli.ASKED}
    for option in own:
        name = option.opts[0]
        if not isinstance(option, click.Option) or name in (*asked, *EVERYWHERE):
            continue
        metavar = option.metavar or _choices(option)
        rows.append([f"`{name}`", f"`{metavar}`" if metavar else "", str(option.help)])
    text = RECOMMEND.format(
        options=table(["option", "value", "meaning"], rows),
        keys=", ".join(f"`{key}`" for key in measured.KEYS),
        noise=f"{1 - candidates.NOISE:.0%}",
    )
    return f"{NOTICE.format('scripts/build_docs.py')}# Recommendations\n\n{text}"


def _choices(option: click.Option) -> str:
    """What an option takes, for one without a word of its own."""
    if isinstance(option.type, click.Choice):
        return " or ".join(option.type.choices)
    return "" if option.is_flag else "N"


def _throughput() -> dict[str, Any]:
    """What the parameters of throughput rest on."""
    kept = parameters.table()
    checked, seen = kept["cross_validation"], kept["seen"]
    head = ["", "replicas", "median error", "pairs", "order", "fewest GPUs", "regret",
            "fewest GPUs"]  # fmt: skip
    rows = [
        [name, f"{one['rows']:,}", f"{one['median']:.1%}", f"{one['pairs']:,}",
         *(f"{one[key]:.1%}" for key in ("order", "naive", "regret", "naive_regret"))]
        for name, one in checked.items() if name != "folds"
    ]  # fmt: skip
    *cards, last = seen["cards"]
    ranges = {
        grade: " and ".join(f"{end:.2f}" for end in one["range"])
        for grade, one in kept["error"].items()
    }
    spans = {name: " to ".join(f"{end:,}" for end in seen[name]) for name in ("isl", "osl")}
    return {
        "rows": kept["rows"],
        "count": sum("range" in item for item in kept["parameters"].values()),
        "folds": checked["folds"],
        "scores": table(head, rows),
        "cards": f"{', '.join(cards)} or {last}",
        "served": " or ".join(
            engine.label for engine in engines.shardlint_engines() if engine.name in seen["engines"]
        ),
        **ranges,
        **spans,
    }


SHARE_OF = {
    "total": "of the card",
    "free_before_load": "of what is free before weights are loaded",
    "free_after_load": "of what weights and one batch leave free",
}


def _engines() -> Iterable[str]:
    for engine in engines.shardlint_engines():
        releases = engine.releases()
        rules = engine.memory(releases[-1]) if releases else None
        if rules is not None:
            span = f"{releases[0]} to {releases[-1]}"
            yield f"| {engine.label} (`{engine.name}`) | {span} | {SHARE_OF[rules.share_of]} |"


# -------------------------------------------------------------------------------------- parts


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    cells = (" | ".join(cell.replace("|", "\\|") for cell in line) for line in lines)
    return "".join(f"| {line} |\n" for line in cells)


def fenced(text: str, language: str = "") -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def command(line: str) -> str:
    """A command line and what it prints, run in process at the root."""
    back = Path.cwd()
    os.chdir(ROOT)
    try:
        result = CliRunner().invoke(cli.main, line.split()[1:])
    finally:
        os.chdir(back)
    if result.exit_code not in (0, 1):
        raise SystemExit(f"{line}: exit code {result.exit_code}\n{result.output}")
    return fenced(f"$ {line}\n{result.output}")


def example_config() -> str:
    path = ROOT / "docs/example.toml"
    config.check_rules(config.load(path, path.name), rules())
    return fenced(path.read_text(encoding="utf-8"), "toml")


def file(name: str) -> str:
    languages = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".sh": "sh"}
    path = ROOT / name
    return fenced(path.read_text(encoding="utf-8"), languages.get(path.suffix, ""))


def known() -> str:
    """What is in the tables, counted."""
    checked = [engine.label for engine in BUILT_IN.engines() if engine.checked]
    seen = [engine.label for engine in BUILT_IN.engines() if not engine.checked]
    setup = Setup(BUILT_IN)
    models, cards = len(setup.catalogue.ids()), len(setup.devices.show())
    return bullets(
        f"Engines: the options of {_listed(checked)} are read. {_listed(seen)} are recognised by"
        " image and command: what they are asked is read and shown, and not judged.",
        f"Models: {models:,} ids are in the catalogue. For any other model, rules that need its"
        " shape are undecided, and `model-unresolved` says so, unless `--online` finds it or its"
        " name leads to a known one.",
        f"Accelerators: {cards} are in the table; another card needs `mem=` or `[gpus]`.",
    )


def kinds_of_files() -> str:
    return NOTICE.format(kinds_page.EXAMPLES) + "\n".join(kinds_page.page(BUILT_IN))


def bullets(*items: str) -> str:
    fill = TextWrapper(100, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
    return "".join(f"{fill.fill(item)}\n" for item in items)


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def house() -> str:
    """The rooms of the house with the first line of their docstrings."""
    return table(["room", "what it holds"], _rooms())


def _rooms() -> Iterator[list[str]]:
    for name in ("lint/shardlint", "rules/shardlint_rules", "schemas/shardlint_schemas"):
        yield [f"`{name}/`", _first_line(ROOT / name / "__init__.py")]
        if name != "lint/shardlint":
            continue
        for path in sorted((ROOT / name).iterdir(), key=lambda path: (path.is_file(), path.name)):
            if path.name.startswith("_") or path.suffix not in ("", ".py"):
                continue
            module = path / "__init__.py" if path.is_dir() else path
            shown = f"{path.name}/" if path.is_dir() else path.name
            yield [f"&nbsp;&nbsp;`{shown}`", _first_line(module)]


def _first_line(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n", 1)[0].split())


PARTS: Mapping[str, Callable[[], str]] = {
    "rules": lambda: rule_table(f"{RULES}/"),
    "example configuration": example_config,
    "known": known,
    "house": house,
}
"""Named parts; `$ COMMAND` is a command with its output, `file PATH` a file of the repository."""


def part(name: str) -> str:
    if name.startswith("$ "):
        return command(name.removeprefix("$ "))
    if name.startswith("file "):
        return file(name.removeprefix("file "))
    return PARTS[name]()


def filled(text: str) -> str:
    """A page with its marked parts made anew."""
    return MARK.sub(lambda found: f"{found[1]}\n{part(found[2])}\n{found[3]}", text)


# -------------------------------------------------------------------------------------- files


def pages() -> dict[str, str]:
    """Every generated file with its text."""
    found = {f"{RULES}/{rule.name}.md": rule_page(rule) for rule in rules()}
    found["docs/rules.md"] = rule_index()
    found["docs/configuration.md"] = configuration()
    found["docs/json.md"] = json_formats()
    found["docs/estimate.md"] = estimates()
    found["docs/recommend.md"] = recommendations()
    found["docs/kinds.md"] = kinds_of_files()
    for name in MARKED:
        found[name] = filled((ROOT / name).read_text(encoding="utf-8"))
    return found


def stale(wanted: Mapping[str, str]) -> list[str]:
    """Files that differ from what they should be, and pages of rules that are gone."""
    found = [name for name, text in wanted.items() if _read(ROOT / name) != text]
    pages_on_disk = sorted((ROOT / RULES).glob("*.md"))
    gone = [f"{RULES}/{path.name}" for path in pages_on_disk]
    return found + [name for name in gone if name not in wanted]


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def write(wanted: Mapping[str, str]) -> None:
    for name in stale(wanted):
        path = ROOT / name
        if name not in wanted:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[name], encoding="utf-8", newline="\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if out of date")
    options = parser.parse_args(arguments)
    wanted = pages()
    if not options.check:
        write(wanted)
        return 0
    differing = stale(wanted)
    for name in differing:
        print(f"{name} is out of date: run scripts/build_docs.py", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    raise SystemExit(main())

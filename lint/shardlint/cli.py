"""The command line. Commands parse, call, print and exit; everything heavy is imported inside."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from shardlint import __version__

if TYPE_CHECKING:
    from shardlint.config import Settings
    from shardlint.engine import Engine
    from shardlint.fixes import Outcome
    from shardlint.hardware.option import GpuOption
    from shardlint.hardware.pools import Pool
    from shardlint.plan import ModelFacts
    from shardlint.plugins import Hardware, Plugins, Result, Rule
    from shardlint.project import Project, Setup
    from shardlint.recommendations import Wanted
    from shardlint.recommended_change import PlannedChange

Command = TypeVar("Command", bound=Callable[..., Any])

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Failure(click.ClickException):
    """Something that shardlint cannot do its work with: exit code 2, one line."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        del file
        click.echo(f"shardlint: {self.message}", err=True)


@click.group(context_settings=CONTEXT)
@click.version_option(__version__, prog_name="shardlint")
def main() -> None:
    """Lint LLM inference serving configuration: heads, GPUs, replicas, routing."""
    _open_streams()


def _open_streams() -> None:
    """A stream that the caller has closed is as good as an empty one."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115


# ------------------------------------------------------------------------------------ options


def options(*items: Callable[[Any], Any]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for item in reversed(items):
            command = item(command)
        return command

    return decorate


config_option = click.option(
    "--config", metavar="FILE", help="Configuration file instead of the nearest one."
)

online_option = click.option(
    "--online",
    is_flag=True,
    help="Ask the Hugging Face Hub, or its local cache, for models that are not known.",
)

world_options = options(
    config_option,
    click.option("--gpu", metavar="NAME[:PER_NODE]",
                 help="GPU where the files name none; also mem=32GiB and link=nvlink|pcie."),
    click.option("--nodes", type=click.IntRange(min=1), help="Nodes there are."),
    click.option("--network", type=click.Choice(["rdma", "ethernet", "none"]),
                 help="Network between the nodes."),
    click.option("--engine-version", "versions", multiple=True, metavar="NAME=VERSION",
                 help="Release of an engine or a platform where the files state none."),
    online_option,
    click.option("--stdin-filename", default="stdin", show_default=True,
                 help="Name of the text on standard input."),
)  # fmt: skip

selection_options = options(
    click.option("--select", multiple=True, metavar="RULE", help="Run only these rules."),
    click.option("--ignore", multiple=True, metavar="RULE", help="Leave these rules out."),
)


# -------------------------------------------------------------------------------------- setup


@contextmanager
def explained() -> Iterator[None]:
    """Errors that the user can mend become one line and exit code 2."""
    from shardlint.config import ConfigError
    from shardlint.hardware.errors import HardwareError
    from shardlint.models.errors import ModelError
    from shardlint.project import PathError

    try:
        yield
    except (ConfigError, HardwareError, ModelError, PathError) as error:
        raise Failure(str(error)) from None
    except BrokenPipeError:
        raise  # click ends quietly when the reader of a pipe has gone
    except OSError as error:
        raise Failure(f"{error.filename or 'output'}: {error.strerror or error}") from None


def _plugins() -> Plugins:
    from shardlint.engines import builtin as engines
    from shardlint.platforms import builtin as platforms
    from shardlint.plugins import Plugins
    from shardlint.readers import builtin as readers
    from shardlint.reports import builtin as reports

    return Plugins([engines, platforms, readers, reports])


def _settings(config: str | None) -> Settings:
    from shardlint import config as configuration

    path = Path(config) if config else configuration.find(Path.cwd())
    if path is None:
        return configuration.Settings()
    try:
        display = path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        display = path.as_posix()
    return configuration.load(path, display)


def _setup(
    config: str | None,
    gpu: str | None = None,
    nodes: int | None = None,
    network: str | None = None,
    versions: tuple[str, ...] = (),
    select: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    online: bool = False,
) -> Setup:
    """Plugins, settings with the command line over them, and what is said of the machines."""
    from shardlint import config as configuration
    from shardlint.project import Setup

    plugins, settings = _plugins(), _settings(config)
    _check_rules(settings, plugins, (*_split(select), *_split(ignore)))
    setup = Setup(plugins, settings)
    engines, platforms = _versions(versions, setup)
    settings = configuration.overridden(
        settings, select=_split(select), ignore=_split(ignore), nodes=nodes, network=network,
        engines=engines, platforms=platforms, online=online or None,
    )  # fmt: skip
    _check_names(settings, setup)
    setup = Setup(plugins, settings)
    _check_models(setup)
    _check_overlays(settings)
    setup = Setup(plugins, settings, *_hardware(setup, gpu, nodes, network))
    _ = setup.pools  # a mistake in one is told before anything is read
    return setup


def _check_models(setup: Setup) -> None:
    """The tables of models can be used; a mistake there is shown at its place."""
    from shardlint.models.errors import ModelError

    for name in setup.settings.models:
        try:
            setup.catalogue.lookup(name)
        except ModelError as error:
            raise setup.settings.error(("models", name), str(error), key=True) from None


def _split(selectors: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.strip() for item in selectors for part in item.split(",") if part.strip())


def _check_rules(settings: Settings, plugins: Plugins, named: tuple[str, ...]) -> None:
    from shardlint import config as configuration

    rules = plugins.rules()
    configuration.check_rules(settings, rules)
    for message in configuration.check_selectors(named, rules).values():
        raise Failure(message)


def _versions(versions: tuple[str, ...], setup: Setup) -> tuple[dict[str, str], dict[str, str]]:
    """Releases of engines and of platforms; a name that both have is an engine's."""
    engines: dict[str, str] = {}
    platforms: dict[str, str] = {}
    for item in versions:
        name, equals, release = item.partition("=")
        if not equals or not release:
            raise Failure(f"--engine-version {item}: write NAME=VERSION, such as vllm=0.33.0")
        engine, platform = setup.engine(name), setup.platform(name)
        if engine is not None:
            engines[engine.name] = release
        elif platform is not None:
            platforms[platform.name] = release
        else:
            engine_names = [one.name for one in setup.engines]
            names = ", ".join((*engine_names, *(one.name for one in setup.platforms)))
            raise Failure(
                f"--engine-version {item}: unknown engine or platform {name!r}; known are {names}"
            )
    return engines, platforms


def _check_names(settings: Settings, setup: Setup) -> None:
    for name in settings.engines:
        if setup.engine(name) is None:
            raise settings.error(("engines", name), f"unknown engine {name!r}", key=True)
    for name in settings.platforms:
        if setup.platform(name) is None:
            raise settings.error(("platforms", name), f"unknown platform {name!r}", key=True)


def _check_overlays(settings: Settings) -> None:
    for at, table in enumerate(settings.overlays):
        for place, file in enumerate(table["files"]):
            if not (settings.folder / file).is_file():
                raise settings.error(("overlay", at, "files", place), f"no such file: {file}")


def _hardware(
    setup: Setup, gpu: str | None, nodes: int | None, network: str | None
) -> tuple[Hardware, Hardware]:
    """The machines as the command line says over the table [hardware], and as it says alone."""
    told = setup.settings.hardware
    option = _gpu(setup, gpu)
    per_node = (option.per_node if option else None) or told.gpus_per_node
    link = (option.link if option else None) or told.link
    every = _machines(setup, option, per_node, told.nodes, told.network, link)
    asked = option if gpu is not None else None
    size, joined = (asked.per_node, asked.link) if asked else (None, None)
    return every, _machines(setup, asked, size, nodes, network, joined)


def _machines(
    setup: Setup, option: GpuOption | None, per_node: int | None, nodes: int | None,
    network: str | None, link: str | None,
) -> Hardware:  # fmt: skip
    from shardlint.known import Known
    from shardlint.plugins import Hardware

    def known(value: Any) -> Known[Any]:
        return Known.unset() if value is None else Known.of(value, how="derived")

    return Hardware(
        gpu=setup.devices.device(option) if option else Known.unset(),
        gpus_per_node=known(per_node),
        nodes=known(nodes),
        network=known(network),
        link=known(link),
    )


def _gpu(setup: Setup, text: str | None) -> GpuOption | None:
    """The card of the command line, else of the configuration, where a mistake has a place."""
    from shardlint.hardware.errors import HardwareError

    if text is not None:
        return setup.devices.parse_gpu_option(text)
    told = setup.settings.hardware.gpu
    if told is None:
        return None
    try:
        return setup.devices.parse_gpu_option(told)
    except HardwareError as error:
        message = str(error).removeprefix("--gpu: ")
        raise setup.settings.error(("hardware", "gpu"), message) from None


def _project(setup: Setup, paths: tuple[str, ...], stdin_filename: str) -> Project:
    from shardlint.project import Project, read_bytes

    if "-" not in paths:
        return Project.discover(setup, paths or (".",))
    if len(paths) > 1:
        raise Failure("standard input (-) cannot be linted beside files")
    data = sys.stdin.buffer.read()
    return Project(setup, {stdin_filename: read_bytes(setup, stdin_filename, data)})


# -------------------------------------------------------------------------------------- check


@main.command()
@click.argument("paths", nargs=-1)
@click.option(
    "--format",
    "report",
    default="text",
    metavar="NAME",
    help="text, concise, json, github, sarif, lsp, or a plugin's.",
)
@click.option("--fix", is_flag=True, help="Apply safe fixes.")
@click.option("--unsafe-fixes", is_flag=True, help="Apply all fixes; they change the layout.")
@click.option(
    "--diff", "show_diff", is_flag=True, help="Show what fixes would change, write nothing."
)
@selection_options
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info"]),
    help="Least severity that makes exit code 1 (default: error).",
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever is found.")
@click.option("--strict-unknown", is_flag=True, help="Exit 1 if a rule could not be decided.")
@click.option("--statistics", is_flag=True, help="Count findings by rule instead of listing them.")
@click.option("--output-file", type=click.Path(dir_okay=False), help="Write the report there.")
@click.option(
    "--diff-base",
    metavar="REV",
    help="Tell only of what changed since this git revision, and of changed GPU counts.",
)
@world_options
def check(paths: tuple[str, ...], **given: Any) -> None:
    """Lint serving manifests: files, folders, or - for standard input.

    With a fix, standard input is written back to standard output and the report goes to standard
    error. Exit code 0: nothing as bad as --fail-on; 1: findings; 2: shardlint could not do its
    work.
    """
    gc.disable()  # the process is short and builds trees without cycles: a fifth of its time
    with explained():
        setup = _setup(
            given["config"], given["gpu"], given["nodes"], given["network"], given["versions"],
            given["select"], given["ignore"], given["online"],
        )  # fmt: skip
        project = _project(setup, paths, given["stdin_filename"])
        if given["diff_base"] is not None:
            project = _since(project, paths, given)
        raise SystemExit(_check(setup, project, {**given, "stdin": "-" in paths}))


def _check(setup: Setup, project: Project, given: dict[str, Any]) -> int:
    if given["show_diff"] or given["fix"] or given["unsafe_fixes"]:
        from shardlint import fixes

        unsafe = given["unsafe_fixes"] or (given["show_diff"] and not given["fix"])
        outcome = fixes.apply_fixes(project, unsafe)
        if given["show_diff"]:
            with _output(given["output_file"], sys.stdout) as out:
                out.write(fixes.diff(project, outcome.project, outcome.changed))
            return 0 if given["exit_zero"] or not outcome.changed else 1
        fixes.write(outcome.project, outcome.changed)
        _tell_fixes(outcome, project)
        result = outcome.result
    else:
        result = _result(project)
    _report(setup, result, given)
    return _exit_code(setup, result, given)


def _since(project: Project, paths: tuple[str, ...], given: dict[str, Any]) -> Project:
    """The project beside what it was at a revision."""
    from shardlint.revisions import RevisionError, since

    if "-" in paths:
        raise Failure("--diff-base needs files: standard input has no revisions")
    if given["fix"] or given["unsafe_fixes"] or given["show_diff"]:
        raise Failure("--diff-base only tells: leave out --fix, --unsafe-fixes and --diff")
    try:
        return since(project, given["diff_base"], paths or (".",))
    except RevisionError as error:
        raise Failure(f"--diff-base {given['diff_base']}: {error}") from None


def _result(project: Project) -> Result:
    """Findings with their fixes, whose module is only needed where there is something to cure."""
    from shardlint.linter import lint

    run = lint(project)
    if project.before is not None:
        from dataclasses import replace

        from shardlint.revisions import only_changed

        run = replace(run, result=only_changed(project, run.result))
    if not run.cures and not run.offers:
        return run.result
    from shardlint.fixes import with_fixes

    return with_fixes(run)


def _tell_fixes(outcome: Outcome, project: Project) -> None:
    for finding, fix in outcome.applied:
        click.echo(f"fixed {finding.file}: {fix.title}", err=True)
    for finding, why in outcome.refused:
        click.echo(f"not fixed {finding.file}: {why}", err=True)
    if not project.paths:
        for source in outcome.project.sources.values():
            click.echo(source.text, nl=False)


def _exit_code(setup: Setup, result: Result, given: dict[str, Any]) -> int:
    if result.failed:
        return 2  # something was not checked, so that no other code would be true
    if given["exit_zero"]:
        return 0
    if given["strict_unknown"] and result.undecided:
        return 1
    return int(result.reaches(given["fail_on"] or setup.settings.fail_on or "error"))


def _report(setup: Setup, result: Result, given: dict[str, Any]) -> None:
    reports = setup.plugins.reports()
    report = reports.get(given["report"])
    if report is None:
        raise Failure(f"--format {given['report']}: known are {', '.join(sorted(reports))}")
    fixed = given["fix"] or given["unsafe_fixes"]
    text_on_stdout = fixed and given["stdin"] and not given["show_diff"]
    with _output(given["output_file"], sys.stderr if text_on_stdout else sys.stdout) as out:
        if given["statistics"]:
            _statistics(result, out, as_json=given["report"] == "json")
        else:
            report.write(result, out)


@contextmanager
def _output(path: str | None, stream: TextIO) -> Iterator[TextIO]:
    """The file, or a standard stream with characters that it cannot encode escaped."""
    if path is not None:
        with Path(path).open("w", encoding="utf-8", newline="\n") as file:
            yield file
        return
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    yield stream


def _statistics(result: Result, out: TextIO, as_json: bool) -> None:
    counts: dict[tuple[str, str], int] = {}
    for finding in result.findings:
        key = (finding.rule, finding.name)
        counts[key] = counts.get(key, 0) + 1
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if as_json:
        import json

        json.dump([{"rule": r, "name": n, "count": count} for (r, n), count in rows], out, indent=2)
        out.write("\n")
        return
    for (rule, name), count in rows:
        out.write(f"{count:>6}  {rule}  {name}\n")


# ------------------------------------------------------------------------------------ inspect


@main.command()
@click.argument("paths", nargs=-1)
@click.option("--format", "report", type=click.Choice(["text", "json"]), default="text")
@click.option("--origins", is_flag=True, help="Add file, line and column of each value (JSON).")
@world_options
def inspect(paths: tuple[str, ...], report: str, origins: bool, **given: Any) -> None:
    """Show what was read: model, layout, the GPU product written out, what is unknown."""
    from shardlint.reports import inspection

    with explained():
        setup = _setup(
            given["config"], given["gpu"], given["nodes"], given["network"], given["versions"],
            online=given["online"],
        )  # fmt: skip
        project = _project(setup, paths, given["stdin_filename"])
        with _output(None, sys.stdout) as out:
            if report == "json":
                inspection.write_json(project, out, origins)
            else:
                inspection.write_text(project, out)


# ----------------------------------------------------------------------------------- estimate

ASKED = (
    ("--model", "ID|PATH", "Model: an id, the last part of one, or a folder with config.json."),
    ("--gpu", "NAME", "Card."),
    ("--gpu-mem-gib", "GIB", "Memory of the card as the engine sees it."),
    ("--engine", "NAME", "Engine (default: vllm)."),
    ("--engine-version", "VERSION", "Release of the engine."),
    ("--tp", "N", "Tensor parallelism of attention. GPUs = TP × PP × DP × attention DP."),
    ("--pp", "N", "Pipeline stages."),
    ("--dp", "N", "Data parallelism."),
    ("--attention-dp", "N", "Data parallelism of attention inside a replica."),
    ("--ep", "N", "Ranks that experts are shared out to (1: off)."),
    ("--dcp", "N", "Decode context parallelism."),
    ("--dtype", "TYPE", "Type that is computed in."),
    ("--quantization", "WORDS", "How weights are stored, if not as the checkpoint says."),
    ("--kv-cache-dtype", "TYPE", "Type of the KV cache."),
    ("--gpu-memory-utilization", "SHARE", "Share of the card that the engine uses."),
    (
        "--mem-fraction-static",
        "SHARE",
        "The same for SGLang: of what is free before the load.",
    ),
    ("--max-model-len", "TOKENS", "Longest request."),
    ("--max-num-seqs", "N", "Requests at the same time."),
    ("--max-num-batched-tokens", "TOKENS", "Tokens of one step."),
    ("--isl", "TOKENS", "Input tokens of a request."),
    ("--osl", "TOKENS", "Output tokens of a request."),
    ("--concurrency", "N", "Requests of that length at the same time, in one replica."),
    ("--replicas", "N", "Replicas."),
)
"""Options whose values are read as the keys of a batch are."""

NO_QUESTION = ("--tp", "--pp", "--dp", "--attention-dp", "--ep", "--dcp", "--replicas")
"""What a recommendation answers and does not ask."""

asked_options = options(
    *(click.option(name, metavar=metavar, help=text) for name, metavar, text in ASKED),
    click.option("--enforce-eager", is_flag=True, default=None, help="No CUDA graphs."),
)


@main.command()
@asked_options
@click.option(
    "--batch",
    metavar="FILE|-",
    help="One JSON object a line, with these options as keys and an id; one result a line.",
)
@click.option("--format", "report", type=click.Choice(["text", "json"]), default="text")
@online_option
@config_option
def estimate(
    batch: str | None, report: str, online: bool, config: str | None, **given: Any
) -> None:
    """Estimate the memory of one GPU, and with --isl and --osl how fast a replica is.

    With --batch, options stand in where a line states nothing, and the exit code is 1 if some line
    could not be answered.
    """
    stated = {name: value for name, value in given.items() if value is not None}
    with explained():
        setup = _setup(config, online=online)
        stated = _told(setup, stated)
        if batch is not None:
            raise SystemExit(_batch(setup, batch, stated))
        _estimate(setup, stated, report)


def _told(setup: Setup, stated: dict[str, Any]) -> dict[str, Any]:
    """With the card and the release of the configuration, where nothing else is stated."""
    told: dict[str, Any] = {}
    machines = setup.settings.hardware
    if machines.gpu is not None and "gpu_mem_gib" not in stated:
        link = f",link={machines.link}" if machines.link and "link=" not in machines.gpu else ""
        told["gpu"] = machines.gpu + link
    release = setup.settings.engines.get(str(stated.get("engine", "vllm")))
    if release is not None:
        told["engine_version"] = release
    return {**told, **stated}


def _estimate(setup: Setup, stated: dict[str, Any], report: str) -> None:
    from shardlint import estimates
    from shardlint.reports import estimation

    try:
        found = estimates.estimate(setup, estimates.asked_of(stated))
    except estimates.EstimateError as error:
        raise Failure(f"estimate: {error}") from None
    if report == "json":
        _json(estimates.estimate_record(found))
        return
    with _output(None, sys.stdout) as out:
        estimation.write(found, out)


def _batch(setup: Setup, name: str, stated: dict[str, Any]) -> int:
    """Answer line by line, so that a pipe gets each answer when it is asked for."""
    import json

    from shardlint.estimates import Estimator
    from shardlint.estimates.batch import answers

    failed = False
    with sys.stdin.buffer if name == "-" else Path(name).open("rb") as lines:
        for answer in answers(lines, Estimator(setup), stated):
            failed = failed or "error" in answer
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    return int(failed)


# ---------------------------------------------------------------------------------- recommend


class Finite(click.FloatRange):
    """A number of the range that is one: nan and inf are none."""

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        import math

        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return found


recommend_options = options(
    *(click.option(name, metavar=metavar, help=text) for name, metavar, text in ASKED
      if name not in (*NO_QUESTION, "--concurrency")),
    click.option("--concurrency", metavar="N",
                 help="Requests of that length at the same time, in all replicas."),
    click.option("--enforce-eager", is_flag=True, default=None, help="No CUDA graphs."),
    click.option("--nodes", type=click.IntRange(1, 4096), help="Nodes there are (default: 1)."),
    click.option("--target-tok-s", type=Finite(min=0, min_open=True), metavar="N",
                 help="Output tokens a second of all replicas."),
    click.option("--request-rate", type=Finite(min=0, min_open=True), metavar="N",
                 help="Requests a second of all replicas."),
    click.option("--ttft", type=Finite(min=0, min_open=True), metavar="MS",
                 help="Goal: time to the first token."),
    click.option("--tpot", type=Finite(min=0, min_open=True), metavar="MS",
                 help="Goal: time between two tokens."),
    click.option("--headroom", type=Finite(0, 10), default=0.2, show_default=True,
                 help="Replicas to spare, as a share of what the target needs."),
    click.option("--objective", type=click.Choice(["throughput", "latency", "context"]),
                 default="throughput", show_default=True, help="What layouts are ranked by."),
    click.option("--price", type=Finite(min=0), metavar="USD",
                 help="Price of one GPU for an hour."),
    click.option("--session", type=click.IntRange(min=1), metavar="TOKENS",
                 help="Tokens of one very long session: what it leaves for the others."),
    click.option("--measured", metavar="FILE",
                 help="YAML list of what was measured: tp, pp, dp, ep, output_tok_s, tpot_ms, …"),
)  # fmt: skip


@main.command()
@click.argument("manifest", required=False)
@recommend_options
@click.option("--plan", metavar="NAME", help="The plan that is meant, where several are read.")
@click.option("--diff", is_flag=True, help="Show the first layout as a change of the manifest.")
@click.option("--format", "report", type=click.Choice(["text", "json"]), default="text")
@online_option
@config_option
def recommend(manifest: str | None, **given: Any) -> None:
    """Rank the layouts of a model on some GPUs: how many ranks, how many replicas, and why.

    --gpu takes NAME:N for N GPUs a node; the model and how it is started are those of MANIFEST,
    or told by --model and other options. --concurrency is that of all replicas together.
    """
    from shardlint import estimates
    from shardlint.recommendations import MeasuredError, recommend
    from shardlint.reports import recommendation

    report, diff, plan = given.pop("report"), given.pop("diff"), given.pop("plan")
    config, online = given.pop("config"), given.pop("online")
    if manifest is None and (diff or plan is not None):
        raise Failure(f"recommend: --{'diff' if diff else 'plan'} needs a manifest")
    if given["target_tok_s"] is not None and given["request_rate"] is not None:
        raise Failure("recommend: --target-tok-s and --request-rate say the same: leave one out")
    with explained():
        given["gpu"] = _with_memory(given["gpu"], given["gpu_mem_gib"])
        setup = _setup(config, given["gpu"], given["nodes"], online=online)
        try:
            change = _manifest(setup, manifest, plan) if manifest is not None else None
            release = given["engine_version"]
            if change is not None and manifest is not None and release is not None:
                told = (f"{change.plan.engine}={release}",)  # options are spelt as it takes them
                setup = _setup(config, given["gpu"], given["nodes"], versions=told, online=online)
                change = _manifest(setup, manifest, plan)
            wanted = _wanted(setup, given, change)
            found = recommend(estimates.Estimator(setup), wanted)
            if diff and not found.found:
                raise estimates.EstimateError("no layout holds the model")
            shown = change.diff(found.found[0], wanted.per_node) if diff and change else None
        except (estimates.EstimateError, MeasuredError) as error:
            raise Failure(f"recommend: {error}") from None
        if shown is not None and change is not None:
            more = change.unwritten(found.found[0])
            if more is not None:
                click.echo(f"not in the change: {more}", err=True)
        if report == "json":
            _json(recommendation.record(found, shown))
            return
        with _output(None, sys.stdout) as out:
            if shown is not None:
                out.write(shown)
            else:
                recommendation.write(found, out)


def _with_memory(gpu: str | None, gib: str | None) -> str | None:
    """The card with the memory that an option of its own gives, which unknown cards need."""
    number = gib is not None and gib.replace(".", "", 1).isdecimal()
    return f"{gpu},mem={gib}GiB" if gpu is not None and number and "mem=" not in gpu else gpu


def _manifest(setup: Setup, path: str, plan: str | None) -> PlannedChange:
    from shardlint.recommended_change import PlannedChange

    return PlannedChange.of(_project(setup, (path,), "stdin"), plan)


def _wanted(setup: Setup, given: dict[str, Any], change: PlannedChange | None) -> Wanted:
    """The question, from the command line over the manifest over the configuration."""
    from shardlint import estimates
    from shardlint.recommendations import Wanted, measured_of
    from shardlint.recommended_change import stated_over

    goals = {name: given.pop(name) for name in GOALS}
    told, rows = setup.settings.workload, given.pop("measured")
    nodes = given.pop("nodes")
    stated = stated_over(given, change.stated() if change is not None else {})
    stated = _told(setup, stated)
    for name in ("isl", "osl", "concurrency"):
        stated.setdefault(name, told.get(name))
    asked = estimates.asked_of(stated)
    if goals["request_rate"] is not None and not asked.osl:
        raise Failure("recommend: --request-rate needs --osl, the output tokens of a request")
    if goals["target_tok_s"] is None and goals["request_rate"] is None:
        goals["target_tok_s"] = told.get("target_tok_s")
    per_node, there, price = _there(setup, asked.gpu, change)
    if per_node is None:
        raise Failure("recommend: how many GPUs a node has is not known; write --gpu NAME:N")
    return Wanted(
        asked=asked,
        per_node=per_node,
        nodes=nodes or there or 1,
        target_tok_s=goals["target_tok_s"],
        request_rate=goals["request_rate"],
        ttft_ms=goals["ttft"] or told.get("ttft_ms"),
        tpot_ms=goals["tpot"] or told.get("tpot_ms"),
        headroom=goals["headroom"],
        objective=goals["objective"],
        price=price if goals["price"] is None else goals["price"],
        measured=measured_of(_yaml(rows)) if rows is not None else (),
        session=goals["session"],
        prefix_share=told.get("prefix_share"),
        said=change.said if change is not None and given["engine_version"] is None else (),
    )


def _there(
    setup: Setup, gpu: str | None, change: PlannedChange | None
) -> tuple[int | None, int | None, float | None]:
    """GPUs of a node, nodes, and the price of a GPU: of the plan, where it is known of it, else by
    the command line over the pool over the configuration."""
    pool, told = _pool(setup, gpu), setup.hardware
    place = change.plan.placement if change is not None else None
    price = pool.price if pool is not None else None
    return (
        (place and place.gpus_per_node.only)
        or setup.asked.gpus_per_node.only
        or (pool and pool.per_node)
        or told.gpus_per_node.only,
        (place and place.nodes.only) or (pool and pool.nodes) or told.nodes.only,
        place.price.only if place is not None and place.price.is_known else price,
    )


def _pool(setup: Setup, gpu: str | None) -> Pool | None:
    """The pool of the configuration whose card is the one that is asked for, if it is the only."""
    name = (gpu or "").partition(",")[0].partition(":")[0]
    card = setup.devices.find(name).only
    found = [pool for pool in setup.pools if card is not None and pool.gpu.only is not None
             and pool.gpu.only.name == card.name]  # fmt: skip
    return found[0] if len(found) == 1 else None


GOALS = (
    "target_tok_s", "request_rate", "ttft", "tpot", "headroom", "objective", "price", "session",
)  # fmt: skip


def _yaml(name: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(Path(name).read_text(encoding="utf-8"))
    except (YAMLError, UnicodeError) as error:
        raise Failure(f"{name}: {str(error).splitlines()[0]}") from None


# ------------------------------------------------------------------------- rules, models, gpus


@main.command()
@click.argument("rule", required=False)
@click.option("--all", "everything", is_flag=True, help="Every rule.")
@click.option("--format", "report", type=click.Choice(["text", "json"]), default="text")
def explain(rule: str | None, everything: bool, report: str) -> None:
    """Print the page of a rule, by id or name."""
    rules = _plugins().rules()
    chosen = [item for item in rules if everything or rule in (item.id, item.name)]
    if not chosen:
        from shardlint import config as configuration

        if rule is None:
            raise Failure("explain: name a rule, or use --all")
        raise Failure(next(iter(configuration.check_selectors([rule], rules).values()), rule))
    if report == "json":
        _json([{**_rule_record(item), "page": item.page()} for item in chosen])
        return
    for item in chosen:
        click.echo(f"{item.id} {item.name} ({item.severity})\n\n{item.page()}")


@main.command()
@click.option("--format", "report", type=click.Choice(["text", "json"]), default="text")
def rules(report: str) -> None:
    """List all rules."""
    found = _plugins().rules()
    if report == "json":
        _json([_rule_record(rule) for rule in found])
        return
    for rule in found:
        click.echo(f"{rule.id}  {rule.severity:<8} {rule.name:<26} {rule.summary()}")


def _rule_record(rule: type[Rule]) -> dict[str, Any]:
    return {
        "rule": rule.id, "name": rule.name, "severity": rule.severity, "summary": rule.summary(),
        "fix": rule.fix, "enabled": rule.enabled, "url": rule.url(),
    }  # fmt: skip


@main.command()
@click.argument("action", type=click.Choice(["show"]), required=False)
@click.argument("model", required=False)
@click.option("--format", "report", type=click.Choice(["text", "json"]), default="text")
@online_option
@config_option
def models(
    action: str | None, model: str | None, report: str, online: bool, config: str | None
) -> None:
    """List known models; `models show ID` or `models show PATH` prints the facts of one."""
    with explained():
        setup = _setup(config, online=online)
        if action is None:
            ids = setup.catalogue.ids()
            _json(list(ids)) if report == "json" else click.echo("\n".join(ids))
            return
        if model is None:
            raise Failure("models show: name a model or a path to its config.json")
        _record(_model_record(setup, model), report)


MOST_TP = 64


def _model_record(setup: Setup, reference: str) -> dict[str, Any]:
    """The facts of a model, and the sizes of tensor parallelism that engines take it with."""
    from shardlint.models.show import show

    facts = _known_facts(setup, reference)
    checked = [engine for engine in setup.engines if engine.checked]
    valid = {engine.name: _valid_tp(engine, facts) for engine in checked}
    reason = "the number of attention heads is not known"
    unknown = [
        {"field": f"valid_tp.{name}", "reason": reason}
        for name, sizes in valid.items()
        if sizes is None
    ]
    return {"schema_version": 1, **show(facts), "valid_tp": valid, "unknown": unknown}


def _known_facts(setup: Setup, reference: str) -> ModelFacts:
    """What is known of an id or a path, else guessed from the name."""
    from shardlint.models.config_json import from_config_file, from_folder
    from shardlint.models.errors import ModelError

    facts, path = setup.catalogue.lookup(reference), Path(reference)
    if facts is None and path.exists():
        facts = from_folder(path) if path.is_dir() else from_config_file(path)
    try:
        facts = setup.resolved(reference, facts)
    except ModelError as error:
        raise Failure(f"models show: {reference}: {error}") from None
    if facts is None:
        raise Failure(f"models show: {reference} is neither in the catalogue nor a path")
    return facts


def _valid_tp(engine: Engine, facts: ModelFacts) -> list[int] | None:
    """Sizes that the engine's newest release takes on one node, with nothing else split."""
    from shardlint.engine import refuses
    from shardlint.known import Known
    from shardlint.plan import Layout, Options, Releases

    if facts.attention_heads is None:
        return None
    newest = tuple(
        Releases(item.last, item.last) for item in engine.versions(Known.unset()).values[-1:]
    )
    told = Options(releases=newest)
    sizes = range(1, MOST_TP + 1)
    return [n for n in sizes if refuses(engine, Layout(tp=n), facts, options=told) is None]


@main.command()
@click.option("--format", "report", type=click.Choice(["text", "json"]), default="text")
@config_option
def gpus(report: str, config: str | None) -> None:
    """List known accelerators, with memory as engines see it."""
    from dataclasses import asdict

    with explained():
        rows = _setup(config).devices.show()
    if report == "json":
        _json([asdict(row) for row in rows])
        return
    for row in rows:
        click.echo(f"{row.name:<24} {row.vendor:<8} {row.memory:<24} {row.link or '-':<8}")


def _record(record: dict[str, Any], report: str) -> None:
    if report == "json":
        _json(record)
        return
    for name, value in record.items():
        if (words := _words(value)) and name != "schema_version":
            click.echo(f"{name:<24} {words}")


def _words(value: Any) -> str:
    """A value on one line, for people; nothing for what is not known."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {text}" for key, item in value.items() if (text := _words(item)))
    if isinstance(value, list):
        return ", ".join(_words(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _json(value: Any) -> None:
    import json

    click.echo(json.dumps(value, indent=2))


if __name__ == "__main__":
    main()

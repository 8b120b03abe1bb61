"""Buffers of routed experts in a profile run, and whose tokens meet in them.

With data parallelism the tokens of all ranks are gathered before the experts, or sent to those that
hold the experts they chose; `--all2all-backend` says how (device_communicators/all2all.py).
"""

from __future__ import annotations

from shardlint.engines.vllm_kernels import is_mxfp4
from shardlint.engines.vllm_run import MOST_SEEN, Run, table


def buffers(run: Run) -> int:
    """Buffers of the experts' kernels, and the gathered tokens, in bytes."""
    if not run.model.moe:
        return 0
    together = run.ranks.attention_dp if gathers(run) else 1
    there_and_back = 2 * _tokens(run, together) if together > 1 else 0
    return _rooms(run, together) + there_and_back


def least(run: Run) -> int:
    """What is surely needed of that.

    A rank that gathers holds the tokens of all ranks once, whatever kernel it runs; logs show all
    of it for up to eight ranks, where kernels take the tokens in chunks. How many tokens are sent
    to a rank hangs on what they choose.
    """
    ranks = run.ranks.attention_dp
    seen = gathers(run) and ranks <= MOST_SEEN and run.told["experts"]["chunk"]
    if not run.model.moe or ranks == 1 or seen:
        return buffers(run)
    return min(buffers(run), _rooms(run, 1) + _tokens(run, ranks)) if gathers(run) else 0


def assumed(run: Run) -> tuple[str, ...]:
    if not run.model.moe or run.ranks.attention_dp == 1 or gathers(run):
        return ()
    return (
        f"with {backend(run)}, experts are taken to get as many tokens as a rank sends; its"
        " buffers are left out",
    )


def gathers(run: Run) -> bool:
    """Every rank's experts see the tokens of all ranks."""
    return backend(run) in run.told["all2all"]["gathers"]


def backend(run: Run) -> str:
    """What is stated, by the option or the variable that this release looks at first."""
    span, stated = run.told["all2all"], run.settings.extra
    found = (stated[name] for name in span.get("named", ()) if stated.get(name))
    return str(next(found, span["value"]))


def in_triton(run: Run) -> bool:
    """Experts in MXFP4 run in Triton's kernels: some classes, on capability 9.0."""
    model, family = run.model, (run.capability or "").partition(".")[0]
    if family != "9" or model.architecture not in table()["triton_mxfp4"]:
        return False
    return is_mxfp4(model.quantization or {}) and run.settings.quantization is None


def _tokens(run: Run, ranks: int) -> int:
    """Bytes of the tokens of so many ranks."""
    return run.tokens * ranks * run.hidden * run.element


def _rooms(run: Run, ranks: int) -> int:
    """Both products in one place, the activation in another, for the tokens of so many ranks.

    Kernels that keep them (fused_moe.py, TritonExperts.workspace_shapes) give the activation room
    for a product and put the output into the first.
    """
    model = run.model
    each = model.experts_per_token or 1
    chunk: int = run.told["experts"]["chunk"]
    width = (model.moe_intermediate_size or model.intermediate_size or 0) // run.ranks.moe_tp
    tokens = run.tokens * ranks
    if in_triton(run):  # one product, activated as it is made (gpt_oss_triton_kernels_moe.py)
        return tokens * (each * width + run.hidden) * run.element
    if chunk:
        tokens = min(tokens, chunk)
    if run.told["experts"]["kept"]:
        rooms = max(2 * width, run.hidden) + max(width, run.hidden)
        return tokens * each * rooms * run.element
    rooms = max(2 * width, run.hidden) + width
    return (tokens * each * rooms + run.tokens * run.hidden) * run.element

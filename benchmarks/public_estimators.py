"""What public estimators say of the memory that real starts of vLLM printed.

    python benchmarks/public_estimators.py --evidence FILE --models FOLDER [--predictions FILE]

FILE has one start a line, FOLDER has the configs and an index.yaml (see evidence.py). Every
estimator gets the same facts of a row, in an environment of its own that the first run makes from
PyPI with pinned versions; while they answer they are kept from the Hub. Predictions are written one
a line, tables are printed. Estimators that need the tensors of a checkpoint are told what
`storage` makes of its config.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from memory_logs import (
    Checkpoint,
    Checkpoints,
    Row,
    cell,
    error,
    is_unified,
    memory_gib,
    rows,
    strict,
    utilization,
)
from shardlint.hardware.table import Devices
from shardlint.record import record

GIB = 2**30

ADAPTERS = Path(__file__).with_name("estimators")


@record
class Estimator:
    """A package of PyPI and the pins that make its answers the same tomorrow."""

    name: str
    adapter: str
    pins: tuple[str, ...]


ESTIMATORS = (
    Estimator(
        "llm-d-planner 0.3.3",
        "ask_llm_d_planner.py",
        ("llm-d-planner==0.3.3", "transformers==5.24.0", "huggingface-hub==2.4.0"),
    ),
    Estimator(
        "aiconfigurator 0.12.0",
        "ask_aiconfigurator.py",
        ("aiconfigurator-core==0.12.0", "numpy==2.4.6", "pandas==3.1.1"),
    ),
    Estimator(
        "vramscout 0.7.0", "ask_vramscout.py", ("vramscout==0.7.0", "huggingface-hub==2.4.0")
    ),
    Estimator("kvfit 0.3.0", "ask_kvfit.py", ("kvfit==0.3.0",)),
    Estimator("vllm-wizard 0.2.0", "ask_vllm_wizard.py", ("vllm-wizard==0.2.0",)),
)

QUANTITIES: Mapping[str, Callable[[Row], float | None]] = {
    "weights_gib": lambda row: row.weights_gib_per_gpu,
    "kv_gib": lambda row: row.available_kv_gib,
    "kv_tokens": lambda row: row.kv_cache_tokens,
    "concurrency": lambda row: row.max_concurrency,
}
"""The keys of a prediction, and what the row printed of each."""


# ------------------------------------------------------------------------------------ questions


def bits(checkpoint: Checkpoint) -> int:
    """Of most weights: 16, 8 or 4."""
    told = checkpoint.quantization
    text = json.dumps(told).lower() if told else ""
    if not text:
        return 16
    four = re.search(r'fp4|int4|"(num_)?bits": 4|"(awq|gptq)"', text)
    return 4 if four else 8


def storage(checkpoint: Checkpoint) -> dict[str, int] | None:
    """Elements by dtype, as the headers of the checkpoint's files count them, from its config.

    Embeddings, the head and, where the list of what is not converted names them, the attention's
    matrices stay in 16 bits; all else is in the scheme's own type, with one scale a group.
    """
    total, text, told = checkpoint.parameters, checkpoint.text, checkpoint.quantization
    if total is None or "expert_dtype" in text:  # two low-bit schemes in one checkpoint
        return None
    if told is None:
        return {"BF16": total}
    width, words = text["hidden_size"], text["vocab_size"]
    tied = text.get("tie_word_embeddings", checkpoint.config.get("tie_word_embeddings", False))
    kept = width * words * (1 if tied else 2)
    if "self_attn" in json.dumps([told.get(key) for key in ("ignore", "modules_to_not_convert")]):
        heads, head = text["num_attention_heads"], text.get("head_dim")
        head = head or width // heads
        kv = text.get("num_key_value_heads", heads)
        kept += text["num_hidden_layers"] * width * head * 2 * (heads + kv)
    packed, scheme = max(0, total - kept), json.dumps(told).lower()
    if bits(checkpoint) == 8:
        kind = "I8" if '"type": "int"' in scheme else "F8_E4M3"
        return {"BF16": kept, kind: packed}
    if "mxfp4" in scheme:
        return {"BF16": kept, "U8": packed // 2 + packed // 32}
    if "fp4" in scheme:
        return {"BF16": kept, "U8": packed // 2, "F8_E4M3": packed // 16}
    return {"BF16": kept + packed // 128, "I32": packed // 8}


SIZES = {"BF16": 2, "F8_E4M3": 1, "I8": 1, "U8": 1, "I32": 4}


def config_json(checkpoint: Checkpoint, row: Row) -> dict[str, Any]:
    """The config as a checkpoint has it.

    What a config that was put together from facts lacks is filled in from the index and the row.
    `auto_map` names code that lies beside a config on the Hub and is not needed for its numbers.
    """
    config = {key: value for key, value in checkpoint.config.items() if key != "auto_map"}
    if not {"dtype", "torch_dtype"} & {*config, *checkpoint.text}:
        config["torch_dtype"] = row.dtype or "bfloat16"
    if "architectures" not in config and (architecture := checkpoint.entry.get("architecture")):
        config["architectures"] = [architecture]
    return config


def quantization_json(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """hf_quant_config.json, where the quantization is told beside the config and not in it."""
    told = checkpoint.entry.get("quantization") or {}
    if "quantization_config" in checkpoint.config or "quant_algo" not in told:
        return None
    keys = ("quant_algo", "kv_cache_quant_algo", "group_size")
    return {"quantization": {key: told[key] for key in keys if key in told}}


def question(
    row: Row, checkpoint: Checkpoint, memory: float | None, folder: Path
) -> dict[str, Any]:
    """What every estimator is told of a start, with the config in a folder of its own."""
    folder.mkdir()
    config = json.dumps(config_json(checkpoint, row))
    (folder / "config.json").write_text(config, encoding="utf-8")
    if beside := quantization_json(checkpoint):
        text = json.dumps(beside)
        (folder / "hf_quant_config.json").write_text(text, encoding="utf-8")
    elements = storage(checkpoint)
    return {
        "id": row.id,
        "model": checkpoint.id,
        "folder": str(folder),
        "parameters": checkpoint.parameters,
        "bits": bits(checkpoint),
        "storage": elements,
        "bytes": sum(SIZES[k] * n for k, n in elements.items()) if elements else None,
        "tp": row.tp,
        "ep": bool(row.ep),
        "gpu": row.gpu,
        "gpu_gib": memory,
        "utilization": utilization(row),
        "kv_dtype": "fp8" if "fp8" in (row.kv_cache_dtype or "") else "auto",
        "max_model_len": row.max_model_len,
        # vLLM's own defaults, by the size of the card (vllm/engine/arg_utils.py)
        "max_num_batched_tokens": row.max_num_batched_tokens
        or (8192 if (memory or 0) >= 70 else 2048),
        "max_num_seqs": row.max_num_seqs or (1024 if (memory or 0) >= 70 else 256),
    }


# -------------------------------------------------------------------------------------- answers


def baseline(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters × bytes ÷ TP, K and V of every layer, a tenth of the budget for all else."""
    text = json.loads((Path(asked["folder"]) / "config.json").read_text(encoding="utf-8"))
    text = text.get("text_config", text)
    tp = asked["tp"]
    if asked["parameters"] is None:
        return {"refused": "no count of parameters"}
    weights = asked["parameters"] * asked["bits"] / 8 / tp / GIB
    found: dict[str, Any] = {"weights_gib": weights}
    if asked["gpu_gib"] is None or asked["utilization"] is None:
        return found
    pool = asked["gpu_gib"] * asked["utilization"] * 0.9 - weights
    heads = text["num_attention_heads"]
    head = text.get("head_dim") or text["hidden_size"] // heads
    values = 2 * max(1, text.get("num_key_value_heads", heads) // tp) * head
    if rank := text.get("kv_lora_rank"):
        values = rank + text.get("qk_rope_head_dim", 0)
    per_token = values * text["num_hidden_layers"] * (1 if asked["kv_dtype"] == "fp8" else 2)
    tokens, length = max(0.0, pool) * GIB / per_token, asked["max_model_len"]
    return found | {
        "kv_gib": pool,
        "kv_tokens": tokens,
        "concurrency": tokens / length if length else None,
    }


def interpreter(estimator: Estimator, cache: Path) -> Path:
    """The Python of the estimator's environment, made if it is not there."""
    folder = cache / re.sub(r"[^\w.]+", "-", "+".join(estimator.pins))
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done = folder / "complete"
    if not done.is_file():
        print(f"installing {' '.join(estimator.pins)}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip: list[str | Path] = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, *estimator.pins], check=True, stdout=sys.stderr)
        done.touch()
    return python


def answers(
    estimator: Estimator, questions: Sequence[Mapping[str, Any]], cache: Path
) -> list[dict[str, Any]]:
    """One answer to each question, in their order, with the Hub out of reach."""
    away = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    run = subprocess.run(
        [interpreter(estimator, cache), ADAPTERS / estimator.adapter],
        input="".join(json.dumps(asked) + "\n" for asked in questions),
        env=kept | away,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    found = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode or len(found) != len(questions):
        raise SystemExit(f"{estimator.name} failed:\n{run.stderr[-2000:]}")
    return found


def predictions(
    questions: Sequence[Mapping[str, Any]], cache: Path
) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    """The name of each estimator with its predictions."""
    yield "baseline", [{"id": asked["id"], **baseline(asked)} for asked in questions]
    for estimator in ESTIMATORS:
        yield estimator.name, answers(estimator, questions, cache)


# --------------------------------------------------------------------------------------- tables


def table(
    title: str, chosen: Mapping[str, Row], found: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    """One line for each estimator: median / 90th percentile / within 12 % (rows)."""
    print(f"\n{title}")
    print(f"{'':24}" + "".join(f"{name:>28}" for name in QUANTITIES))
    for name, made in found.items():
        cells = []
        for key, printed_in in QUANTITIES.items():
            errors = [
                error(one[key], printed)
                for one in made
                if one["id"] in chosen and one.get(key) is not None
                if (printed := printed_in(chosen[one["id"]])) is not None and printed > 0
            ]
            cells.append("{:.3f} / {:.3f} / {:.2f}".format(*cell(errors)) if errors else "-")
            cells[-1] += f" ({len(errors)})"
        print(f"{name:24}" + "".join(f"{text:>28}" for text in cells))


def default_cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "shardlint-benchmarks"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--evidence", type=Path, required=True, metavar="FILE")
    parser.add_argument("--models", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--predictions", type=Path, metavar="FILE", help="where to write them")
    parser.add_argument("--cache", type=Path, default=default_cache(), metavar="FOLDER")
    told = parser.parse_args()

    devices, checkpoints = Devices(), Checkpoints(told.models)
    groups: dict[str, dict[str, Row]] = {"strict": {}, "every row": {}, "unified memory": {}}
    with TemporaryDirectory() as name:
        questions = []
        for number, row in enumerate(rows(told.evidence)):
            checkpoint = checkpoints.find(row)
            if row.engine != "vllm" or row.tp is None or checkpoint is None:
                continue
            memory = memory_gib(row, devices)
            folder = Path(name) / f"config-{number}"  # a model's name would be looked up
            questions.append(question(row, checkpoint, memory, folder))
            groups["unified memory" if is_unified(row) else "every row"][row.id] = row
            if strict(row, checkpoint, memory):
                groups["strict"][row.id] = row
        found = dict(predictions(questions, told.cache))
    for title, chosen in groups.items():
        table(f"{title}: {len(chosen)} starts", chosen, found)
    if told.predictions:
        lines = [
            {"id": one["id"], "estimator": name}
            | {key: one.get(key) for key in QUANTITIES}
            | {key: one[key] for key in ("refused", "way") if key in one}
            for name, made in found.items()
            for one in made
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        told.predictions.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

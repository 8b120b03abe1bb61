"""The Hub is asked when told to, and only for two files; what it cannot answer becomes a reason.

A small server answers like the Hub. Every command runs in a process of its own: huggingface_hub
reads its environment when it is imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from shardlint.models.hub import is_hub_id

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 768,
    "num_attention_heads": 12, "num_key_value_heads": 4, "num_hidden_layers": 2,
    "intermediate_size": 3072, "vocab_size": 32000, "tie_word_embeddings": False,
    "auto_map": {"AutoConfig": "configuration_evil.EvilConfig"},
}  # fmt: skip
MODELOPT = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}
COMMITS = {"main": "a" * 40, "v2": "b" * 40}
GATED = {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to model acme/gated is restricted"}
MISSING = {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository Not Found"}
NO_ENTRY = {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"}
NO_REVISION = {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"}

FILES: dict[tuple[str, str], dict[str, Any]] = {
    ("acme/plain", "main"): {"config.json": CONFIG},
    ("acme/plain", "v2"): {"config.json": CONFIG | {"num_attention_heads": 24}},
    ("acme/fp8", "main"): {"config.json": CONFIG, "hf_quant_config.json": MODELOPT},
    ("acme/private", "main"): {"config.json": CONFIG},
    ("acme/empty", "main"): {},
    ("acme/broken", "main"): {"config.json": "{"},
    ("acme/Qwen3-8B-odd", "main"): {"config.json": CONFIG},
    ("openai-community/gpt2-xl", "main"): {"config.json": CONFIG},
    ("Qwen/Qwen3-8B", "main"): {"config.json": CONFIG},
}
TOKEN = "hf_secret"


class Answers(BaseHTTPRequestHandler):
    """`/owner/name/resolve/revision/file`, and trouble for some names."""

    asked: list[str]
    closing: threading.Event

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args

    def _answer(self, with_body: bool) -> None:
        type(self).asked.append(f"{self.command} {self.path}")
        parts = self.path.lstrip("/").split("/")
        if len(parts) != 5 or parts[2] != "resolve":
            return self._send(404, MISSING)
        model, revision, name = "/".join(parts[:2]), parts[3], parts[4]
        if model == "acme/down":
            return self._send(500, {})
        if model == "acme/slow":
            self.closing.wait(60)
            self.close_connection = True
            return None
        if model == "acme/gated":
            return self._send(401, GATED)
        if model == "acme/forbidden":
            return self._send(403, {})
        if model == "acme/private" and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._send(401, MISSING)
        if not any(known == model for known, _ in FILES):
            return self._send(404, MISSING)
        branch = next((b for b, commit in COMMITS.items() if commit == revision), revision)
        if (model, branch) not in FILES:
            return self._send(404, NO_REVISION)
        return self._send_file(model, branch, name, with_body)

    def _send_file(self, model: str, branch: str, name: str, with_body: bool) -> None:
        content = FILES[model, branch].get(name)
        commit = {"X-Repo-Commit": COMMITS[branch]}
        if content is None:
            return self._send(404, {**NO_ENTRY, **commit})
        body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        etag = f'"{abs(hash((model, branch, name))):040x}"'
        return self._send(200, {"ETag": etag, **commit}, body, with_body)

    def _send(
        self, status: int, headers: dict[str, str], body: bytes = b"", with_body: bool = True
    ) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)


class Listening(ThreadingHTTPServer):
    """Waits for its threads when closed, and is silent when a client went away: what a thread
    prints later would stand in the output of whichever test runs then."""

    daemon_threads = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@dataclass
class Served:
    """The server, and commands that take it for the Hub."""

    endpoint: str
    asked: list[str]
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.upper().startswith(("HF_", "HUGGING"))}
        return subprocess.run(
            [sys.executable, "-m", "shardlint.cli", *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env={
                **kept,
                "HF_ENDPOINT": self.endpoint,
                "HF_HOME": str(self.folder / "hf"),
                "NO_PROXY": "*",
                **environment,
            },
        )

    def show(self, model: str, *arguments: str, **environment: str) -> dict[str, Any]:
        done = self.run(
            "models", "show", model, "--online", "--format", "json", *arguments, **environment
        )
        assert ("", 0) == (done.stderr, done.returncode)
        shown: dict[str, Any] = json.loads(done.stdout)
        return shown

    def failure(self, model: str, **environment: str) -> str:
        done = self.run("models", "show", model, "--online", **environment)
        assert (2, "") == (done.returncode, done.stdout)
        lines = done.stderr.splitlines()
        assert len(lines) == 1
        return lines[0].removeprefix(f"shardlint: models show: {model}: ")


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, list[str]]]:
    Answers.asked = []
    Answers.closing = threading.Event()
    listening = Listening(("127.0.0.1", 0), Answers)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{listening.server_port}", Answers.asked
    Answers.closing.set()
    listening.shutdown()
    listening.server_close()


@pytest.fixture
def hub(server: tuple[str, list[str]], tmp_path: Path) -> Served:
    endpoint, asked = server
    asked.clear()
    return Served(endpoint, asked, tmp_path)


# ------------------------------------------------------------------------------------ one model


def test_facts_come_from_the_hub(hub: Served) -> None:
    shown = hub.show("acme/plain")
    assert (12, 4, {}, "hub", "certain") == (
        shown["attention_heads"],
        shown["kv_heads"],
        shown["quantization"],
        shown["provenance"],
        shown["confidence"],
    )
    assert [1, 2, 4] == shown["valid_tp"]["vllm"][:3]


def test_two_files_are_asked_for_and_nothing_else(hub: Served) -> None:
    hub.show("acme/plain")
    names = {path.rsplit("/", 1)[-1] for path in hub.asked}
    assert {"config.json", "hf_quant_config.json"} == names
    assert sum(path.startswith("GET ") for path in hub.asked) == 1


def test_quantization_beside_the_config_is_read(hub: Served) -> None:
    quantization = hub.show("acme/fp8")["quantization"]
    assert {
        "method": "modelopt",
        "quant_algo": "FP8",
        "bits": 8,
        "beside": "modelopt",
    } == quantization


def test_token_is_used(hub: Served) -> None:
    assert "the Hub has no such model, or HF_TOKEN may not see it" == hub.failure("acme/private")
    assert 12 == hub.show("acme/private", HF_TOKEN=TOKEN)["attention_heads"]


def test_without_being_told_nothing_is_asked(hub: Served) -> None:
    done = hub.run("models", "show", "acme/plain")
    assert 2 == done.returncode
    assert [] == hub.asked


def test_a_certain_entry_of_the_catalogue_is_not_asked_for(hub: Served) -> None:
    assert 32 == hub.show("Qwen/Qwen3-8B")["attention_heads"]
    assert [] == hub.asked


def test_an_assumed_entry_of_the_catalogue_gives_way(hub: Served) -> None:
    shown = hub.show("openai-community/gpt2-xl")
    assert (12, "hub") == (shown["attention_heads"], shown["provenance"])


def test_an_assumed_entry_stays_when_the_hub_has_no_answer(hub: Served) -> None:
    assert "assumed" == hub.show("openai-community/gpt2-xl", HF_HUB_OFFLINE="1")["confidence"]


def test_a_guess_stays_when_the_hub_has_no_answer_and_says_why(hub: Served) -> None:
    assert [
        "the shape of Qwen/Qwen3-8B, guessed from the name",
        "the Hub has no such model, or HF_TOKEN may not see it",
    ] == hub.show("acme/Qwen3-8B-gone")["assumes"]


def test_the_hub_wins_over_the_name(hub: Served) -> None:
    assert 12 == hub.show("acme/Qwen3-8B-odd")["attention_heads"]


def test_the_users_word_wins_over_the_hub(hub: Served) -> None:
    (hub.folder / "shardlint.toml").write_text(
        'online = true\n[models."acme/plain"]\nattention_heads = 48\n', encoding="utf-8"
    )
    assert 48 == hub.show("acme/plain")["attention_heads"]
    assert [] == hub.asked


# --------------------------------------------------------------------------------------- cache


def test_cache_answers_offline(hub: Served) -> None:
    hub.show("acme/fp8")
    hub.asked.clear()
    shown = hub.show("acme/fp8", HF_HUB_OFFLINE="1")
    assert (12, "FP8") == (shown["attention_heads"], shown["quantization"]["quant_algo"])
    assert [] == hub.asked


def test_cache_answers_when_the_hub_is_away(hub: Served) -> None:
    hub.show("acme/plain")
    assert 12 == hub.show("acme/plain", HF_ENDPOINT="http://127.0.0.1:9")["attention_heads"]


def test_cache_is_found_where_the_variables_say(hub: Served) -> None:
    hub.show("acme/plain", HF_HUB_CACHE=str(hub.folder / "elsewhere"))
    assert (hub.folder / "elsewhere" / "models--acme--plain").is_dir()
    reason = "it is not in the local cache, and HF_HUB_OFFLINE is set"
    assert reason == hub.failure("acme/plain", HF_HUB_OFFLINE="1")


# ------------------------------------------------------------------------------------- trouble


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("acme/gated", "the Hub asks for access to it: set HF_TOKEN"),
        ("acme/forbidden", "the Hub refuses access to it: set HF_TOKEN"),
        ("acme/none", "the Hub has no such model, or HF_TOKEN may not see it"),
        ("acme/empty", "the Hub has no config.json for it at main"),
        ("acme/broken", "what the Hub has cannot be used: config.json: not JSON"),
        ("acme/down", "it is not in the local cache, and the Hub answers 500"),
    ],
)
def test_trouble_is_a_reason(hub: Served, model: str, reason: str) -> None:
    assert reason == hub.failure(model)


def test_slow_answer_is_not_waited_for(hub: Served) -> None:
    start = time.monotonic()
    reason = "it is not in the local cache, and the Hub cannot be reached"
    assert reason == hub.failure("acme/slow", HF_HUB_ETAG_TIMEOUT="1")
    assert time.monotonic() - start < 20


def test_hub_that_is_away_is_a_reason(hub: Served) -> None:
    reason = "it is not in the local cache, and the Hub cannot be reached"
    assert reason == hub.failure("acme/plain", HF_ENDPOINT="http://127.0.0.1:9")


@pytest.mark.parametrize("model", ["/models/plain", "a/b/c", "a//b", "-x/y", "a/b c", "../plain"])
def test_what_cannot_be_an_id_is_not_asked_for(hub: Served, model: str) -> None:
    done = hub.run("models", "show", "--online", "--", model)
    assert 2 == done.returncode
    assert "Traceback" not in done.stderr
    assert [] == hub.asked


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("gpt2", True), ("acme/plain-7B.v1", True), ("a/b/c", False), ("/a", False),
        ("a/", False), ("a--b/c", False), ("a/b..c", False), ("a" * 97, False), ("", False),
    ],
)  # fmt: skip
def test_ids_are_told_from_paths(name: str, fits: bool) -> None:
    assert fits == is_hub_id(name)


# ---------------------------------------------------------------------------------- manifests


def checked(hub: Served, command: str, *arguments: str, **environment: str) -> dict[str, Any]:
    (hub.folder / "run.sh").write_text(f"{command}\n", encoding="utf-8")
    done = hub.run("check", "run.sh", "--format", "json", *arguments, **environment)
    assert "" == done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def found(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    keys = ("name", "severity", "confidence")
    return [tuple(finding[key] for key in keys) for finding in report["findings"]]  # type: ignore[misc]


SERVE = "vllm serve acme/plain --tensor-parallel-size 8"
INDIVISIBLE = ("tp-heads-indivisible", "error", "certain")


def test_check_asks_when_told(hub: Served) -> None:
    assert [("model-unresolved", "info", "certain")] == found(checked(hub, SERVE))
    assert INDIVISIBLE in found(checked(hub, SERVE, "--online"))


def test_configuration_tells_it_too(hub: Served) -> None:
    (hub.folder / "shardlint.toml").write_text("online = true\n", encoding="utf-8")
    assert INDIVISIBLE in found(checked(hub, SERVE))


def test_revision_of_the_plan_is_asked_for(hub: Served) -> None:
    assert INDIVISIBLE not in found(checked(hub, f"{SERVE} --revision v2", "--online"))
    assert any("/resolve/v2/" in path for path in hub.asked)


def test_revision_that_is_not_known_leaves_the_model_open(hub: Served) -> None:
    report = checked(hub, f"{SERVE} --revision $REVISION", "--online")
    assert [("model-unresolved", "info", "certain")] == found(report)
    assert "its revision is not known" in report["findings"][0]["message"]
    assert [] == hub.asked


@pytest.mark.parametrize("model", ["acme/gated", "acme/none", "acme/broken", "acme/down"])
def test_trouble_is_a_finding(hub: Served, model: str) -> None:
    report = checked(hub, f"vllm serve {model} -tp 8", "--online")
    assert [("model-unresolved", "info", "certain")] == found(report)


def test_inspect_asks_when_told(hub: Served) -> None:
    (hub.folder / "run.sh").write_text(f"{SERVE}\n", encoding="utf-8")
    assert "12 heads, 4 KV heads" in hub.run("inspect", "run.sh", "--online").stdout


def test_each_model_is_asked_for_once(hub: Served) -> None:
    checked(hub, "\n".join([SERVE] * 5), "--online")
    heads = [path for path in hub.asked if path.startswith("HEAD ") and "/config.json" in path]
    assert len(heads) <= 2


def test_a_guess_by_the_name_makes_no_error(hub: Served) -> None:
    report = checked(hub, "vllm serve acme/Qwen2.5-7B-Instruct-AWQ --tensor-parallel-size 8")
    assert ("tp-heads-indivisible", "warning", "assumed") in found(report)
    assert [] == [finding for finding in found(report) if finding[1] == "error"]

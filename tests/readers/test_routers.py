"""Routers of many products: policy, awareness, places, and what their fixes read as."""

from __future__ import annotations

import shutil
import subprocess
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from harness import setup
from readers.reading import routers
from shardlint import fixes, routing
from shardlint.linter import lint
from shardlint.plan import Router
from shardlint.project import Project
from shardlint.reports import inspection
from shardlint.source import apply

CHAT = {"kind": "chat"}


def findings(text: str, name: str, **more: str) -> list[tuple[str, str]]:
    project = Project.of_texts(setup(workload=CHAT), {name: text, **more})
    return [
        (item.name, item.severity)
        for item in fixes.with_fixes(lint(project)).findings
        if item.name.startswith(("routing", "session-key"))
    ]


def facts(router: Router) -> tuple[str | None, bool, set[str]]:
    return router.policy.only, router.explicit, set(router.awareness)


def fixed(text: str, name: str, rule: str, at: int = 0) -> tuple[str, str]:
    """The text after a fix of a finding, and the policy that is read then."""
    before = Project.of_texts(setup(workload=CHAT), {name: text})
    result = fixes.with_fixes(lint(before))
    finding = next(item for item in result.findings if item.name == rule)
    fix = finding.fixes[at]
    after = apply(text, [edit for edit in fix.edits if edit.file == name])
    again = Project.of_texts(setup(workload=CHAT), {name: after})
    by_plan = dict.fromkeys(finding.plans, fix)
    assert not isinstance(fixes._worse(before, result, again, [finding], by_plan), str)
    return after, next(routing.word(item) for item in again.routers if item.id == finding.plan)


# --------------------------------------------------------------------------------------- nginx

NGINX = """\
events {}
http {
    upstream llm {
        METHOD
        server 127.0.0.1:8001;
        server 127.0.0.1:8002;  # the second one; not {a block}
    }
    server {
        listen 8080;
        location / { proxy_pass http://llm; }
    }
}
"""


@pytest.mark.parametrize(
    ("method", "policy", "explicit", "awareness"),
    [
        ("", "round_robin", False, set()),
        ("least_conn;", "least_conn", True, {"load"}),
        ("ip_hash;", "ip_hash", True, {"session"}),
        ("random;", "random", True, set()),
        ("random two least_conn;", "random", True, {"load"}),
        ("hash $http_x_session_id consistent;", "hash", True, {"session"}),
        ("hash $remote_addr;", "ip_hash", True, {"session"}),
        ("hash $request_uri;", "hash", True, set()),
        ('hash "$http_a;b" consistent;', "hash", True, {"session"}),
    ],
)
def test_nginx(method: str, policy: str, explicit: bool, awareness: set[str]) -> None:
    (router,) = routers(NGINX.replace("METHOD", method), "nginx.conf")
    assert facts(router) == (policy, explicit, awareness)
    assert router.choices.only == 2
    assert router.targets == ("127.0.0.1:8001", "127.0.0.1:8002")


@pytest.mark.parametrize("method", ["", "least_conn;", "random;", "hash $request_uri;"])
def test_nginx_is_given_a_hash_of_a_session(method: str) -> None:
    text = NGINX.replace("METHOD", method)
    rules = {"least_conn;": "routing-load-only", "hash $request_uri;": "session-key-missing"}
    after, word = fixed(text, "nginx.conf", rules.get(method, "routing-blind"))
    assert word == "session-hash"
    assert "        hash $http_x_session_id consistent;\n" in after
    assert method == "" or method not in after
    accepted_by_nginx(after)


def test_a_hash_of_the_path_sends_all_requests_to_one_server() -> None:
    text = NGINX.replace("METHOD", "hash $request_uri;")
    (finding,) = lint(Project.of_texts(setup(workload=CHAT), {"nginx.conf": text})).result.findings
    assert ("session-key-missing", "warning") == (finding.name, finding.severity)
    assert "one server gets them all" in finding.message


def test_nginx_gets_a_zone_and_a_short_timeout() -> None:
    many = "worker_processes 4;\n" + NGINX.replace("METHOD", "least_conn;")
    assert findings(many, "nginx.conf") == [("routing-skew", "warning")]
    after, _ = fixed(many, "nginx.conf", "routing-skew")
    assert "        zone llm 64k;\n        least_conn;" in after
    accepted_by_nginx(after)
    long = NGINX.replace("METHOD", "").replace("8002;", "8002 max_fails=3 fail_timeout=1h;")
    after, _ = fixed(long, "nginx.conf", "routing-skew")
    assert "8002 max_fails=3 fail_timeout=10s;" in after
    accepted_by_nginx(after)


def accepted_by_nginx(text: str) -> None:
    """Where nginx is installed, it takes the configuration."""
    program = shutil.which("nginx")
    if program is None:
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "nginx.conf"
        path.write_text(text)
        command = [program, "-t", "-p", folder, "-c", str(path), "-e", "stderr",
                   "-g", f"pid {folder}/pid;"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "syntax is ok" in done.stderr, done.stderr


def test_one_server_leaves_nothing_to_choose() -> None:
    text = "upstream llm { server a:8000; server b:8000 backup; }\n"
    (router,) = routers(text, "nginx.conf")
    assert router.chooses == "one"
    assert findings(text, "nginx.conf") == []


def test_what_another_file_holds_of_an_upstream_is_open() -> None:
    text = NGINX.replace("METHOD", "include servers.conf;")
    (router,) = routers(text, "nginx.conf")
    assert (router.sure, router.choices.only) == (False, None)
    assert findings(text, "nginx.conf") == []


def test_nginx_takes_the_last_of_two_methods() -> None:
    text = NGINX.replace("METHOD", "least_conn; hash $http_x_a;")
    (router,) = routers(text, "nginx.conf")
    assert facts(router) == ("hash", True, {"session"})
    (router,) = routers(text.replace("least_conn; hash $http_x_a", "random; least_conn"), "a.conf")
    assert (router.policy.only, [offer.cures for offer in router.offers]) == (
        "least_conn",
        ["skew"],
    )


def test_a_server_that_is_listed_twice_is_one() -> None:
    text = NGINX.replace("METHOD", "").replace("8002", "8001")
    (router,) = routers(text, "nginx.conf")
    assert (router.choices.only, router.chooses) == (1, "one")


def test_streams_have_no_headers() -> None:
    block = NGINX.replace("METHOD", "").replace("http {", "stream {")
    text = block.replace("location / { proxy_pass http://llm; }", "proxy_pass llm;")
    (router,) = routers(text, "nginx.conf")
    assert (router.engines, [offer.cures for offer in router.offers]) == (False, ["skew"])
    assert findings(text, "nginx.conf") == []


@pytest.mark.parametrize("word", ["backup", "slow_start=30s"])
def test_no_hash_beside_what_nginx_refuses_with_it(word: str) -> None:
    text = NGINX.replace("METHOD", "server 127.0.0.1:8000;").replace("8002;", f"8002 {word};")
    (router,) = routers(text, "nginx.conf")
    assert [offer.cures for offer in router.offers] == ["skew"]
    assert findings(text, "nginx.conf") == [("routing-blind", "warning")]


def test_a_single_upstream_of_no_such_name_is_assumed_to_serve() -> None:
    for name, confidence in (("web", "assumed"), ("llm", "certain")):
        text = NGINX.replace("METHOD", "").replace("llm", name)
        (finding,) = lint(Project.of_texts(setup(workload=CHAT), {"a.conf": text})).result.findings
        assert (finding.name, finding.confidence) == ("routing-blind", confidence)
    text = NGINX.replace("METHOD", "").replace("8002", "5432")
    assert findings(text, "nginx.conf") == []


def test_servers_that_a_template_fills_in_are_not_counted() -> None:
    text = "upstream llm {\n{% for h in hosts %}\n    server {{ h }}:80;\n{% endfor %}\n}\n"
    (router,) = routers(text, "nginx.conf.j2")
    assert facts(router) == ("round_robin", False, set())
    assert router.choices.only is None
    assert findings(text, "nginx.conf.j2") == []


def test_nginx_in_a_config_map_is_edited_there() -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: front}\ndata:\n  nginx.conf: |\n"
        "    upstream llm {\n      server a:8000;\n      server b:8000;\n    }\n"
    )
    after, word = fixed(text, "cm.yaml", "routing-blind")
    assert word == "session-hash"
    line = "      hash $http_x_session_id consistent;\n      server a:8000;\n"
    assert f"    upstream llm {{\n{line}" in after


@pytest.mark.parametrize(
    "odd",
    ["upstream a {", "upstream a { server; }", 'upstream a { server "x; }', "upstream a {{}}",
     "upstream a { } }", "upstream a { server x:1; { } }", "upstream a {" * 80,
     "upstream a { {% if x %} server b; }"],
)  # fmt: skip
def test_odd_nginx_is_survived(odd: str) -> None:
    assert Project.of_texts(setup(), {"nginx.conf": odd}).broken == ()


# ------------------------------------------------------------------------------------- HAProxy

HAPROXY = """\
defaults
    mode http
    timeout connect 5s
    timeout client 1h
    timeout server 1h
frontend llm
    bind 127.0.0.1:8000
    default_backend vllm
backend vllm
    BALANCE
    server gpu0 127.0.0.1:8001 check   # the first
    server gpu1 127.0.0.1:8002 check
"""


@pytest.mark.parametrize(
    ("balance", "policy", "awareness"),
    [
        ("balance roundrobin", "roundrobin", set()),
        ("balance leastconn", "leastconn", {"load"}),
        ("balance random(1)", "random", set()),
        ("balance random(2)", "random", {"load"}),
        ("balance source", "source", {"session"}),
        ("balance hdr(x-session-id)", "hdr", {"session"}),
        ("balance uri", "uri", set()),
    ],
)
def test_haproxy(balance: str, policy: str, awareness: set[str]) -> None:
    (router,) = routers(HAPROXY.replace("BALANCE", balance), "haproxy.cfg")
    assert facts(router) == (policy, True, awareness)
    assert router.choices.only == 2


def test_the_default_of_haproxy_depends_on_its_release() -> None:
    text = HAPROXY.replace("    BALANCE\n", "")
    (router,) = routers(text, "haproxy.cfg")
    assert router.policy.only is None
    assert "3.3" in (router.policy.reason or "")
    assert findings(text, "haproxy.cfg") == []


def test_defaults_count_until_a_section_says_otherwise() -> None:
    text = HAPROXY.replace("    BALANCE\n", "").replace("mode http", "mode http\n    balance first")
    (router,) = routers(text, "haproxy.cfg")
    assert facts(router) == ("first", True, {"load"})


@pytest.mark.parametrize("balance", ["balance roundrobin", "balance leastconn"])
def test_haproxy_is_given_a_hash_of_a_session(balance: str) -> None:
    rule = "routing-blind" if "robin" in balance else "routing-load-only"
    after, word = fixed(HAPROXY.replace("BALANCE", balance), "haproxy.cfg", rule)
    assert word == "session-hash"
    assert "    balance hdr(x-session-id)\n    hash-type consistent\n    server" in after
    program = shutil.which("haproxy")
    if program is not None:
        done = subprocess.run([program, "-c", "-f", "/dev/stdin"], input=after, text=True,
                              capture_output=True, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mode", ["mode tcp", "option tcplog"])
def test_a_backend_that_sees_no_requests_gets_no_hash_of_a_header(mode: str) -> None:
    for balance in ("balance roundrobin", "balance leastconn", "balance uri", "balance hdr(x-a)"):
        text = HAPROXY.replace("BALANCE", balance).replace("mode http", mode)
        (router,) = routers(text, "haproxy.cfg")
        assert (router.offers, router.remarks) == ((), ())
        assert router.engines is (mode != "mode tcp")
        told = {"balance roundrobin": "routing-blind", "balance leastconn": "routing-load-only"}
        found = [(told[balance], "warning")] if router.engines and balance in told else []
        assert findings(text, "haproxy.cfg") == found
        own = text.replace("backend vllm\n    b", "backend vllm\n    mode http\n    b")
        (router,) = routers(own, "haproxy.cfg")
        assert router.engines


def test_defaults_by_their_name() -> None:
    text = "defaults web\n  mode http\n" + HAPROXY.replace("mode http", "mode tcp")
    text = text.replace("BALANCE", "balance roundrobin")
    assert findings(text, "haproxy.cfg") == []
    text = text.replace("backend vllm\n", "backend vllm from web\n")
    assert findings(text, "haproxy.cfg") == [("routing-blind", "warning")]


@pytest.mark.parametrize(
    "change",
    [("check\n", "check\n    option pgsql-check\n"), ("8002", "5432")],
)
def test_a_database_of_that_name_is_no_engine(change: tuple[str, str]) -> None:
    text = HAPROXY.replace("BALANCE", "balance roundrobin").replace(*change)
    assert findings(text, "haproxy.cfg") == []


@pytest.mark.parametrize(
    ("more", "bounded"),
    [("hash-type consistent\n    hash-balance-factor 150", True),
     ("hash-type consistent\n    hash-balance-factor 0", False),
     ("hash-type consistent", False), ("hash-balance-factor 150", False)],
)  # fmt: skip
def test_a_bound_on_the_load_of_haproxy(more: str, bounded: bool) -> None:
    text = HAPROXY.replace("BALANCE", f"balance hdr(x-a)\n    {more}")
    (router,) = routers(text, "haproxy.cfg")
    assert router.awareness == ({"session", "load"} if bounded else {"session"})
    whale = {"kind": "chat", "isl": 64_000}
    found = lint(Project.of_texts(setup(workload=whale), {"haproxy.cfg": text})).result.findings
    assert [item.name for item in found] == ([] if bounded else ["whale-session"])


def in_config_map(text: str, key: str) -> str:
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: front}\ndata:\n"
    return f"{head}  {key}: |\n{lines}"


def test_haproxy_in_a_config_map_is_edited_there() -> None:
    plain = HAPROXY.replace("BALANCE", "balance roundrobin")
    after, word = fixed(in_config_map(plain, "haproxy.cfg"), "cm.yaml", "routing-blind")
    assert word == "session-hash"
    alone, _ = fixed(plain, "haproxy.cfg", "routing-blind")
    assert after == in_config_map(alone, "haproxy.cfg")
    folded = in_config_map(plain, "haproxy.cfg").replace(": |", ": >")
    assert all(not router.offers for router in routers(folded, "cm.yaml"))


# --------------------------------------------------------------------------------------- Envoy


def envoy(policy: str = "", hashes: str = "") -> str:
    return f"""\
static_resources:
  listeners:
  - name: main
    filter_chains:
    - filters:
      - typed_config:
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{prefix: /}}
                route:
                  cluster: llm
{hashes}  clusters:
  - name: llm
{policy}    type: STATIC
    load_assignment:
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 10.0.0.1, port_value: 8000}}}}}}
        - endpoint: {{address: {{socket_address: {{address: 10.0.0.2, port_value: 8000}}}}}}
  - name: other
    type: STATIC
"""


HASHED = "                  hash_policy: [{header: {header_name: x-a}}]\n"


@pytest.mark.parametrize(
    ("policy", "hashes", "expected", "found"),
    [
        ("", "", ("ROUND_ROBIN", False, set()), ["routing-blind"]),
        ("LEAST_REQUEST", "", ("LEAST_REQUEST", True, {"load"}), ["routing-load-only"]),
        ("MAGLEV", HASHED, ("MAGLEV", True, {"session"}), []),
        ("RING_HASH", "", ("RING_HASH", True, set()), ["session-key-missing"]),
    ],
)
def test_envoy(policy: str, hashes: str, expected: Any, found: list[str]) -> None:
    text = envoy(f"    lb_policy: {policy}\n" if policy else "", hashes)
    (router,) = routers(text, "envoy.yaml")
    assert facts(router) == expected
    assert [name for name, _ in findings(text, "envoy.yaml")] == found
    for rule in found:
        _, word = fixed(text, "envoy.yaml", rule)
        assert word == "session-hash"


def test_envoy_in_a_config_map_is_edited_there() -> None:
    text = in_config_map(envoy(), "envoy.yaml")
    after, word = fixed(text, "cm.yaml", "routing-blind")
    assert word == "session-hash"
    alone, _ = fixed(envoy(), "envoy.yaml", "routing-blind")
    assert after == in_config_map(alone, "envoy.yaml")


def test_a_bound_on_the_load_of_envoy() -> None:
    bound = "    common_lb_config: {consistent_hashing_lb_config: {hash_balance_factor: 120}}\n"
    (router,) = routers(envoy(f"    lb_policy: MAGLEV\n{bound}", HASHED), "envoy.yaml")
    assert router.awareness == {"session", "load"}


def test_a_cluster_that_a_picker_chooses_for_is_not_judged() -> None:
    text = envoy("    lb_policy: CLUSTER_PROVIDED\n").replace(
        "          route_config:",
        "          http_filters: [{name: envoy.filters.http.ext_proc}]\n          route_config:",
    )
    (router,) = routers(text, "envoy.yaml")
    assert (router.policy.only, router.chooses) == ("ext_proc", "elsewhere")
    assert findings(text, "envoy.yaml") == []


# ------------------------------------------------------------------------- Kubernetes' own ways

PODS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 4
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.0
        args: ["Qwen/Qwen3-8B"]
        resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: llm}
spec: {selector: {app: llm}, ports: [{port: 80, targetPort: 8000}]}
---
"""


def ingress(annotations: str = "", more: str = "") -> str:
    return f"""\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: llm
  annotations:
    nginx.ingress.kubernetes.io/proxy-body-size: 8m
{annotations}spec:
  rules: [{{http: {{paths: [{{path: /, backend: {{service: {{name: llm}}}}}}]}}}}]
{more}"""


NOTE = "    nginx.ingress.kubernetes.io/{}\n"


@pytest.mark.parametrize(
    ("note", "expected", "found"),
    [
        ("", ("round_robin", False, set()), [("routing-blind", "warning")]),
        ("load-balance: ewma", ("ewma", True, {"load"}), [("routing-load-only", "warning")]),
        ("upstream-hash-by: $http_x_a", ("hash", True, {"session"}), []),
        ("affinity: cookie", ("cookie", True, {"session"}), []),
    ],
)
def test_the_ingress_of_nginx_chooses_in_place_of_the_service(
    note: str, expected: Any, found: list[tuple[str, str]]
) -> None:
    text = PODS + ingress(NOTE.format(note) if note else "")
    (router,) = [item for item in routers(text, "k.yaml") if item.kind == "ingress-nginx"]
    assert facts(router) == expected
    assert findings(text, "k.yaml") == found
    for rule, _ in found:
        after, word = fixed(text, "k.yaml", rule)
        assert word == "session-hash"
        assert 'nginx.ingress.kubernetes.io/upstream-hash-by: "$http_x_session_id"' in after


@pytest.mark.parametrize(
    "words",
    ["Qwen/Qwen3-Embedding-8B", "BAAI/bge-reranker-v2-m3", "openai/whisper-large-v3",
     'Qwen/Qwen3-8B", "--task", "embed', 'Qwen/Qwen3-8B", "--runner", "pooling',
     'Qwen/Qwen3-8B", "--convert=embed', "Qwen/Qwen3-ASR-1.7B"],
)  # fmt: skip
def test_servers_of_vectors_and_transcripts_have_no_turns(words: str) -> None:
    assert findings(PODS, "k.yaml") == [("routing-blind", "warning")]
    pods = PODS.replace("v0.33.0", "v0.11.0") if "--task" in words else PODS
    assert findings(pods.replace("Qwen/Qwen3-8B", words), "k.yaml") == []


def test_ranks_of_an_embedding_server_have_no_turns() -> None:
    command = "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --dp 4"
    assert findings(f"{command}\n", "run.sh") == [("routing-blind", "warning")]
    assert findings(f"{command} --is-embedding\n", "run.sh") == []


@pytest.mark.parametrize("name", ["embeddings-of-vllm", "vllm-reranker", "tei"])
def test_a_balancer_of_embeddings_by_its_name(name: str) -> None:
    text = NGINX.replace("METHOD", "").replace("llm", name)
    assert findings(text, "nginx.conf") == []
    text = HAPROXY.replace("BALANCE", "balance roundrobin").replace("vllm", name)
    assert findings(text, "haproxy.cfg") == []


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [("kv_producer", "kv_consumer", []), ("kv_both", "kv_both", [("routing-blind", "warning")])],
)
def test_a_prefill_and_a_decode_pod_are_no_replicas_of_each_other(
    first: str, second: str, found: list[tuple[str, str]]
) -> None:
    pods, service, _ = PODS.replace("replicas: 4", "replicas: 1").split("---\n")
    parts = [service]
    for at, role in enumerate((first, second)):
        config = f', --kv-transfer-config, \'{{"kv_connector":"C","kv_role":"{role}"}}\']'
        made = pods.replace("{name: llm}", f"{{name: llm-{at}}}")
        parts.append(made.replace('"Qwen/Qwen3-8B"]', f'"Qwen/Qwen3-8B"{config}'))
    assert findings("---\n".join(parts), "k.yaml") == found


def test_the_gateway_of_aibrix_chooses_by_itself() -> None:
    text = PODS.replace("app: llm}", '"model.aibrix.ai/name": llm}')
    assert findings(text, "k.yaml") == []


def test_an_embedding_model_of_kubeai() -> None:
    text = (
        "apiVersion: kubeai.org/v1\nkind: Model\nmetadata: {name: m}\nspec:\n"
        "  features: [FEATURE]\n  url: hf://Qwen/Qwen3-8B\n  engine: VLLM\n"
        "  resourceProfile: nvidia-gpu-l4:1\n  minReplicas: 8\n  maxReplicas: 8\n"
    )
    of = {word: findings(text.replace("FEATURE", word), "m.yaml")
          for word in ("TextGeneration", "TextEmbedding")}  # fmt: skip
    assert of["TextGeneration"] == [("routing-load-only", "warning")]
    assert of["TextEmbedding"] == []


def test_nobody_asks_a_model_at_the_port_of_its_metrics() -> None:
    text = PODS.replace("{port: 80,", "{name: metrics, port: 80,")
    assert findings(text, "k.yaml") == []
    text = PODS.replace("{port: 80,", "{name: http, port: 80,")
    assert findings(text, "k.yaml") == [("routing-blind", "warning")]


ROUTE = """\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r}
spec:
  parentRefs: [{name: front}]
  rules: [{backendRefs: [{name: llm, port: 80}]KEEPS}]
"""
POLICY = """\
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: p}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: KIND, name: NAME}]
  loadBalancer: {type: ConsistentHash, consistentHash: {type: SourceIP}}
"""
BLIND = [("routing-blind", "warning")]


def test_a_route_with_a_policy_leaves_the_choice_open() -> None:
    plain = PODS + ROUTE.replace("KEEPS", "")
    assert findings(plain, "k.yaml") == BLIND
    keeps = ROUTE.replace("KEEPS", ", sessionPersistence: {type: Header}")
    assert findings(PODS + keeps, "k.yaml") == []
    for kind, name, found in (
        ("HTTPRoute", "r", []), ("Gateway", "front", []), ("Service", "llm", []),
        ("HTTPRoute", "other", BLIND), ("Gateway", "other", BLIND), ("Service", "other", BLIND),
    ):  # fmt: skip
        policy = POLICY.replace("KIND", kind).replace("NAME", name)
        assert findings(plain + policy, "k.yaml") == found
        assert findings(plain + policy.replace("BackendTraffic", "Security"), "k.yaml") == BLIND


def test_a_route_of_traefik_leaves_the_choice_open() -> None:
    route = (
        "apiVersion: traefik.io/v1alpha1\nkind: IngressRoute\nmetadata: {name: r}\n"
        "spec: {routes: [{match: Host(`a`), kind: Rule, services: [{name: NAME, port: 80}]}]}\n"
    )
    assert findings(PODS + route.replace("NAME", "llm"), "k.yaml") == []
    assert findings(PODS + route.replace("NAME", "web"), "k.yaml") == BLIND


@pytest.mark.parametrize(
    ("name", "found"), [("alb", []), ("haproxy", []), ("nginx", ["ingress-nginx"])]
)
def test_an_ingress_of_another_class_leaves_the_choice_open(name: str, found: list[str]) -> None:
    plain = ingress().replace("nginx.ingress.kubernetes.io/proxy-body-size: 8m", "a: b")
    classed = plain.replace("spec:\n", f"spec:\n  ingressClassName: {name}\n")
    noted = plain.replace("a: b", f"kubernetes.io/ingress.class: {name}")
    for text in (classed, noted):
        kinds = [item.kind for item in routers(PODS + text, "k.yaml")]
        assert [kind for kind in kinds if kind == "ingress-nginx"] == found
        assert findings(PODS + text, "k.yaml") == (BLIND if found else [])
    assert findings(PODS + plain, "k.yaml") == BLIND


def test_an_ingress_that_sends_to_the_service_makes_addresses_useless() -> None:
    note = NOTE.format('service-upstream: "true"')
    sticky = PODS.replace("ports:", "sessionAffinity: ClientIP, ports:")
    assert findings(sticky + ingress(note), "k.yaml") == [("routing-skew", "warning")]
    assert findings(sticky, "k.yaml") == []
    other = ingress().replace("nginx.ingress.kubernetes.io/proxy-body-size: 8m", "a: b")
    assert findings(sticky + other, "k.yaml") == []


@pytest.mark.parametrize(
    ("balancer", "expected", "found"),
    [
        ("{simple: ROUND_ROBIN}", ("ROUND_ROBIN", True, set()), ["routing-blind"]),
        ("{simple: LEAST_REQUEST}", ("LEAST_REQUEST", True, {"load"}), ["routing-load-only"]),
        ("{consistentHash: {httpHeaderName: x-a}}", ("consistentHash", True, {"session"}), []),
        ("{simple: RANDOM}", ("RANDOM", True, set()), ["routing-blind"]),
        ("{consistentHash: {useSourceIp: true}}", ("useSourceIp", True, {"session"}), []),
    ],
)
def test_istio(balancer: str, expected: Any, found: list[str]) -> None:
    rule = (
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: llm}\n"
        f"spec:\n  host: llm.default.svc.cluster.local\n  trafficPolicy:\n"
        f"    loadBalancer: {balancer}\n"
    )
    text = PODS + rule
    (router,) = [item for item in routers(text, "k.yaml") if item.kind == "istio"]
    assert facts(router) == expected
    assert [name for name, _ in findings(text, "k.yaml")] == found
    for name in found:
        after, word = fixed(text, "k.yaml", name)
        assert word == "session-hash"
        assert "{consistentHash: {httpHeaderName: x-session-id}}" in after


def test_a_port_or_a_subset_has_a_balancer_of_its_own() -> None:
    head = (
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: llm}\n"
        "spec:\n  host: llm\n"
    )
    port = "{portLevelSettings: [{port: {number: 80}, loadBalancer: {simple: RANDOM}}]}"
    subset = "{name: a, trafficPolicy: {loadBalancer: {simple: RANDOM}}}"
    for part in (f"  trafficPolicy: {port}\n", f"  subsets: [{subset}]\n"):
        (router,) = routers(head + part, "d.yaml")
        assert facts(router) == ("RANDOM", True, set())


BY_PORT = """\
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: llm}
spec:
  host: llm
  trafficPolicy:
    loadBalancer: {simple: ROUND_ROBIN}
    portLevelSettings:
    - port: {number: 80}
      loadBalancer: {consistentHash: {httpHeaderName: x-a}}
"""


@pytest.mark.parametrize(
    ("ports", "policy", "found"),
    [
        ("{port: 80}", "consistentHash", []),
        ("{port: 81}", "ROUND_ROBIN", ["routing-blind"]),
        ("{name: a, port: 80}, {name: b, port: 81}", None, []),
    ],
)
def test_the_balancer_of_the_port_of_a_service(
    ports: str, policy: str | None, found: list[str]
) -> None:
    text = PODS.replace("{port: 80, targetPort: 8000}", ports) + BY_PORT
    (router,) = [item for item in routers(text, "k.yaml") if item.kind == "istio"]
    assert router.policy.only == policy
    assert [name for name, _ in findings(text, "k.yaml")] == found
    (alone,) = routers(BY_PORT, "d.yaml")
    assert alone.policy.only is None


def test_a_rule_of_istio_for_many_hosts() -> None:
    rule = BY_PORT.split("    portLevel")[0].replace("ROUND_ROBIN", "RANDOM")
    wild = rule.replace("host: llm", 'host: "*.default.svc.cluster.local"')
    hashed = wild.replace("simple: RANDOM", "consistentHash: {httpHeaderName: x-a}")
    assert findings(PODS + hashed, "k.yaml") == []
    other = hashed.replace("*.default", "*.other")
    assert findings(PODS + other, "k.yaml") == [("routing-blind", "warning")]
    own = rule.replace("simple: RANDOM", "consistentHash: {httpHeaderName: x-a}")
    assert findings(f"{PODS}{wild}---\n{own}", "k.yaml") == []
    (said,) = lint(Project.of_texts(setup(workload=CHAT), {"k.yaml": PODS + wild})).result.findings
    assert said.message.startswith("RANDOM spreads requests over 4 replicas")


def test_a_rule_of_istio_without_a_balancer_chooses_nothing() -> None:
    text = (
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: llm}\n"
        "spec: {host: llm, trafficPolicy: {tls: {mode: DISABLE}}}\n"
    )
    (router,) = routers(text, "d.yaml")
    assert (router.policy.only, router.chooses) == ("none", "elsewhere")


POOL = """\
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: llm}
spec:
  selector: {matchLabels: {app: llm}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: llm-epp, port: {number: 9002}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: llm-epp}
data:
  config.yaml: |
    apiVersion: inference.networking.x-k8s.io/v1alpha1
    kind: EndpointPickerConfig
    plugins:
    - type: SCORER
    - type: max-score-picker
    schedulingProfiles:
    - name: default
      plugins:
      - pluginRef: SCORER
      - pluginRef: max-score-picker
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: llm}
spec:
  rules:
  - backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: llm}]
"""


@pytest.mark.parametrize(
    ("scorer", "awareness", "found"),
    [
        ("prefix-cache-scorer", {"prefix"}, ["routing-prefix-only"]),
        ("queue-scorer", {"load"}, ["routing-load-only"]),
        ("session-affinity-scorer", {"session"}, []),
        ("scorer-of-somebody-scorer", set(), []),
    ],
)
def test_a_pool_is_chosen_from_by_its_picker(
    scorer: str, awareness: set[str], found: list[str]
) -> None:
    text = PODS + POOL.replace("SCORER", scorer)
    every = {item.kind: item for item in routers(text, "k.yaml")}
    assert every["inferencepool"].chooses == "elsewhere"
    assert every["epp-config"].awareness == awareness
    assert len(every["epp-config"].backends) == 1
    assert every["gateway"].backends == (every["inferencepool"].id,)
    assert [name for name, _ in findings(text, "k.yaml") if name != "routing-blind"] == found
    for name in found:
        after, word = fixed(text, "k.yaml", name)
        assert word == "prefix-aware"
        assert "\n      - pluginRef: " in after


PRECISE = """\
kind: EndpointPickerConfig
plugins:
- type: precise-prefix-cache-producer
  parameters: {kvEventsConfig: {topicFilter: kv@}}
- type: prefix-cache-scorer
- type: queue-scorer
"""


def test_a_precise_picker_needs_engines_that_publish() -> None:
    pool = POOL.split("---\n")[0]
    files = {"epp.yaml": PRECISE}
    assert findings(PODS + pool, "k.yaml", **files) == [("routing-kv-events-missing", "warning")]
    told = PODS.replace('["Qwen/Qwen3-8B"]', "[Qwen/Qwen3-8B, --kv-events-config, '{}']")
    assert findings(told + pool, "k.yaml", **files) == []


def test_a_random_picker_takes_no_notice_of_scores() -> None:
    text = POOL.split("---\n")[1].replace("SCORER", "queue-scorer")
    (router,) = routers(text.replace("max-score-picker", "random-picker"), "cm.yaml")
    assert facts(router) == ("random-picker", True, set())


def test_without_profiles_all_that_is_declared_has_a_say() -> None:
    text = (
        "kind: EndpointPickerConfig\nplugins: [{type: queue-scorer}, {type: prefix-cache-scorer}]\n"
    )
    (router,) = routers(text, "epp.yaml")
    assert facts(router) == ("queue-scorer+prefix-cache-scorer", True, {"prefix", "load"})
    (router,) = routers("kind: EndpointPickerConfig\n", "epp.yaml")
    assert facts(router) == ("epp-default", False, {"prefix", "load"})


# ------------------------------------------------------------------------------ proxies of LLMs

LITELLM = """\
model_list:
- model_name: chat
  litellm_params: {model: hosted_vllm/m, api_base: http://vllm-0:8000/v1}
- model_name: chat
  litellm_params: {model: hosted_vllm/m, api_base: http://vllm-1:8000/v1}
"""


@pytest.mark.parametrize(
    ("settings", "expected", "found"),
    [
        ("", ("simple-shuffle", False, set()), ["routing-blind"]),
        ("routing_strategy: least-busy", ("least-busy", True, {"load"}), ["routing-load-only"]),
        (
            "optional_pre_call_checks: [session_affinity]",
            ("simple-shuffle", False, {"session"}), [],
        ),
        ("routing_strategy: os.environ/STRATEGY", (None, True, set()), []),
    ],
)  # fmt: skip
def test_litellm(settings: str, expected: Any, found: list[str]) -> None:
    text = LITELLM + (f"router_settings:\n  {settings}\n" if settings else "")
    (router,) = routers(text, "litellm.yaml")
    assert facts(router) == expected
    assert router.choices.only == 2
    assert [name for name, _ in findings(text, "litellm.yaml")] == found
    for name in found:
        _, word = fixed(text, "litellm.yaml", name)
        assert word == "session-hash"


def test_deployments_of_a_provider_are_not_ours_to_balance() -> None:
    text = "model_list:\n" + "- {model_name: gpt, litellm_params: {model: azure/gpt}}\n" * 3
    assert findings(text, "litellm.yaml") == []


@pytest.mark.parametrize(
    ("first", "second", "choices"),
    [
        ("order: 1", "order: 2", 1),
        ("order: 1", "order: 1", 2),
        ("order: 2", "rpm: 5", 1),
        ("weight: 1", "weight: 0", None),
        ("api_base: http://one:8000/v1/", "api_base: http://one:8000/v1", 1),
        ("model: azure/m", "model: azure/m", 0),
        ("model: openai/bge-m3", "model: openai/bge-m3", 0),
        ("api_base: https://api.deepseek.com/v1", "api_base: https://a.openai.azure.com", 0),
    ],
)
def test_what_is_no_choice_of_litellm(first: str, second: str, choices: int | None) -> None:
    text = LITELLM
    for part in (first, second):
        key = part.partition(":")[0]
        kept = {"model": "hosted_vllm/m", "api_base": f"http://h{len(text)}:8000/v1"}
        lines = [f"{name}: {value}" for name, value in kept.items() if name != key]
        text += "- model_name: x\n  litellm_params: {" + ", ".join([*lines, part]) + "}\n"
    text = "model_list:\n" + text.removeprefix(LITELLM)
    (router,) = routers(text, "litellm.yaml")
    assert router.choices.only == choices
    assert findings(text, "litellm.yaml") == (
        [("routing-blind", "warning")] if choices == 2 else []
    )


def test_a_key_without_a_value_is_not_written_twice() -> None:
    text = f"{LITELLM}router_settings:\n"
    result = fixes.with_fixes(lint(Project.of_texts(setup(workload=CHAT), {"l.yaml": text})))
    (finding,) = result.findings
    assert (finding.name, finding.fixes) == ("routing-blind", ())


def test_embeddings_of_litellm_have_no_turns() -> None:
    text = LITELLM.replace("/v1}", "/v1}\n  model_info: {mode: embedding}")
    assert findings(text, "litellm.yaml") == []
    text = text.replace("mode: embedding", "mode: chat")
    assert findings(text, "litellm.yaml") == [("routing-blind", "warning")]


def test_litellm_in_a_config_map_is_edited_there() -> None:
    after, word = fixed(in_config_map(LITELLM, "config.yaml"), "cm.yaml", "routing-blind")
    assert word == "session-hash"
    alone, _ = fixed(LITELLM, "litellm.yaml", "routing-blind")
    assert after == in_config_map(alone, "config.yaml")


TRAEFIK = """\
http:
  services:
    llm:
      loadBalancer:
        LINE
        servers:
        - url: http://10.0.0.1:8000
        - url: http://10.0.0.2:8000
"""


@pytest.mark.parametrize(
    ("line", "expected", "found"),
    [
        ("passHostHeader: true", ("wrr", False, set()), ["routing-blind"]),
        ("strategy: p2c", ("p2c", True, {"load"}), ["routing-load-only"]),
        ("strategy: hrw", ("hrw", True, {"session"}), []),
        ("sticky: {cookie: {name: a}}", ("wrr", False, {"session"}), []),
    ],
)
def test_traefik(line: str, expected: Any, found: list[str]) -> None:
    text = TRAEFIK.replace("LINE", line)
    (router,) = routers(text, "traefik.yaml")
    assert facts(router) == expected
    assert [name for name, _ in findings(text, "traefik.yaml")] == found
    for name in found:
        _, word = fixed(text, "traefik.yaml", name)
        assert word == "session-hash"


COMPOSE = """\
services:
  vllm:
    image: vllm/vllm-openai:v0.33.0
    command: [--model, Qwen/Qwen3-8B]
    deploy: {replicas: 3}
    labels:
      - traefik.enable=true
      - traefik.http.services.chat.loadbalancer.server.port=8000
"""
STRATEGY = "      - traefik.http.services.chat.loadbalancer.strategy=p2c\n"
STICKY = "      - traefik.http.services.chat.loadbalancer.sticky.cookie=true\n"


@pytest.mark.parametrize(
    ("label", "expected", "found"),
    [
        ("", ("wrr", False, set()), ["routing-blind"]),
        (STRATEGY, ("p2c", True, {"load"}), ["routing-load-only"]),
        (STICKY, ("wrr", False, {"session"}), []),
    ],
)
def test_traefik_by_labels(label: str, expected: Any, found: list[str]) -> None:
    text = COMPOSE + label
    (router,) = routers(text, "compose.yaml")
    assert facts(router) == expected
    assert len(router.backends) == 1
    assert [name for name, _ in findings(text, "compose.yaml")] == found
    for name in found:
        _, word = fixed(text, "compose.yaml", name)
        assert word == "session-hash"


# --------------------------------------------------------------------------------- by a command

URLS = "--worker-urls http://a:8000 http://b:8000"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (f"python3 -m sglang_router.launch_router {URLS}", ("cache_aware", False)),
        (f"python -m sglang_router.launch_router --policy round_robin {URLS}",
         ("round_robin", True)),
        (f"vllm-router --policy=power_of_two {URLS}", ("power_of_two", True)),
        ("vllm-router --routing-logic roundrobin --static-backends http://a:8000,http://b:8000",
         ("roundrobin", True)),
        ("python3 -m vllm_router.app --routing-logic session --session-key x", ("session", True)),
        (f"smg launch --policy $POLICY {URLS}", (None, True)),
        (f"smg --prefill-policy cache_aware --decode-policy power_of_two --policy random {URLS}",
         ("cache_aware+power_of_two", True)),
        (f"docker run -p 1:1 lmsysorg/sglang python3 -m sglang_router.launch_router {URLS}",
         ("cache_aware", False)),
    ],
)  # fmt: skip
def test_a_command_in_a_script(command: str, expected: Any) -> None:
    (router,) = routers(f"#!/bin/bash\n{command} \\\n  --port 8080\n", "run.sh")
    assert (router.policy.only, router.explicit) == expected
    if "worker-urls" in command or "static" in command:
        assert router.choices.only == 2


def test_a_router_that_starts_its_engines_is_the_one_that_chooses() -> None:
    command = "python3 -m sglang_router.launch_server --model-path Qwen/Qwen3-8B --dp-size 4"
    (router,) = routers(f"{command}\n", "run.sh")
    assert facts(router) == ("cache_aware", False, {"prefix", "load"})
    assert router.choices.only == 4
    assert findings(f"{command}\n", "run.sh") == []
    blind = f"{command} --router-policy round_robin\n"
    assert findings(blind, "run.sh") == [("routing-blind", "warning")]
    after, word = fixed(blind, "run.sh", "routing-blind")
    assert (word, after) == ("prefix-aware", f"{command} --router-policy cache_aware\n")


def test_two_programs_of_one_name_are_told_apart() -> None:
    stack, own = "vllm-router --routing-logic session", "vllm-router --policy random"
    kinds = [routers(f"#!/bin/sh\n{command}\n", "r.sh")[0].kind for command in (stack, own)]
    assert kinds == ["production-stack-router", "gateway-router"]


def test_a_command_gets_another_policy() -> None:
    text = f"#!/bin/bash\npython3 -m sglang_router.launch_router --policy random {URLS}\n"
    after, word = fixed(text, "run.sh", "routing-blind")
    assert (word, after) == ("prefix-aware", text.replace("random", "cache_aware"))


GATEWAY = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: router}
spec:
  replicas: 2
  selector: {matchLabels: {app: router}}
  template:
    metadata: {labels: {app: router}}
    spec:
      containers:
      - name: router
        image: lmsysorg/sgl-model-gateway:v0.3.2
        args:
        - --policy
        - cache_aware
        - --service-discovery
        - --selector
        - app=llm
"""


def test_several_processes_that_learn_for_themselves() -> None:
    (router,) = routers(GATEWAY, "r.yaml")
    assert (router.state, router.replicas.only) == ("process", 2)
    assert findings(GATEWAY, "r.yaml") == [("routing-state-not-shared", "warning")]
    found = [item for item in routers(PODS + GATEWAY, "r.yaml") if item.kind == "gateway-router"]
    assert [item.selector for item in found] == [{"app": "llm"}]
    assert len(found[0].backends) == 1
    assert findings(PODS + GATEWAY.replace("replicas: 2", "replicas: 1"), "r.yaml") == []


def test_values_that_switch_the_router_off() -> None:
    text = "router: {enabled: false, policy: cache_aware, replicaCount: 2}\n"
    (router,) = routers(text, "values.yaml")
    assert facts(router) == ("kubernetes-service", False, set())
    (router,) = routers(text.replace("false", "true"), "values.yaml")
    assert facts(router) == ("cache_aware", True, {"prefix", "load"})


# ------------------------------------------------------------------------------ inside of engines


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("vllm serve m --data-parallel-size 4", ("internal-lb", False, {"load"})),
        ("vllm serve m --data-parallel-size 4 --data-parallel-hybrid-lb",
         ("hybrid-lb", True, {"load"})),
        ("python3 -m sglang.launch_server --model-path m --dp-size 4",
         ("round_robin", False, set())),
        ("python3 -m sglang.launch_server --model-path m --dp 4"
         " --load-balance-method total_tokens", ("total_tokens", True, {"load"})),
    ],
)  # fmt: skip
def test_data_parallel_ranks(command: str, expected: Any) -> None:
    (router,) = routers(f"#!/bin/sh\n{command}\n", "s.sh")
    assert router.within
    assert facts(router) == expected


def test_ranks_of_an_engine_are_told_of_where_requests_share() -> None:
    text = "#!/bin/sh\nvllm serve m --data-parallel-size 4\n"
    assert findings(text, "s.sh") == [("routing-load-only", "warning")]
    untold = lint(Project.of_texts(setup(), {"s.sh": text})).result.findings
    assert [item for item in untold if item.name == "routing-load-only"] == []


@pytest.mark.parametrize(
    "command",
    ["vllm serve m", "vllm serve m --data-parallel-size 4 --data-parallel-external-lb",
     "vllm serve m --data-parallel-size 4 --data-parallel-rank 1",
     "python3 -m sglang.launch_server --model-path m"],
)  # fmt: skip
def test_ranks_that_nobody_chooses_among_inside(command: str) -> None:
    assert routers(f"#!/bin/sh\n{command}\n", "s.sh") == ()


# ----------------------------------------------------------------------------- others' own words

TRT = """\
context_servers:
  num_instances: 2
  ROUTER
  urls: ["localhost:8001", "localhost:8003"]
generation_servers:
  num_instances: 1
  urls: ["localhost:8002"]
"""


def test_servers_of_tensorrt_llm() -> None:
    text = TRT.replace("  ROUTER\n", "")
    first, second = routers(text, "disagg.yaml")
    assert (facts(first), first.choices.only) == (("round_robin", False, set()), 2)
    assert second.choices.only == 1
    assert findings(text, "disagg.yaml") == [("routing-blind", "warning")]
    aware = TRT.replace("ROUTER", "router: {type: kv_cache_aware}")
    assert facts(routers(aware, "disagg.yaml")[0])[0] == "kv_cache_aware"
    assert findings(aware, "disagg.yaml") == []


def test_the_annotation_of_aibrix_is_edited_in_its_text() -> None:
    note = (
        "  annotations:\n    model.aibrix.ai/config: |\n      {\n"
        '        "profiles": {"default": {"routingStrategy": "random"}}\n      }\n'
    )
    text = PODS.replace("metadata: {name: llm}\nspec:\n  replicas",
                        f"metadata:\n  name: llm\n{note}spec:\n  replicas")  # fmt: skip
    (router,) = [item for item in routers(text, "k.yaml") if item.kind == "aibrix-annotation"]
    assert facts(router) == ("random", True, set())
    after, word = fixed(text, "k.yaml", "routing-blind")
    assert (word, after) == ("prefix-aware", text.replace('"random"', '"prefix-cache"'))


def test_a_variable_of_the_gateway_of_aibrix() -> None:
    text = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: gateway}\nspec:\n"
        "  template: {spec: {containers: [{name: g, image: aibrix/gateway-plugins:v0.5.0,\n"
        "    env: [{name: ROUTING_ALGORITHM, value: least-request}]}]}}\n"
    )
    (router,) = routers(text, "g.yaml")
    assert facts(router) == ("least-request", True, {"load"})
    after, word = fixed(text, "g.yaml", "routing-load-only")
    assert (word, after) == ("prefix-aware", text.replace("least-request", "prefix-cache"))


def test_an_object_of_the_production_stacks_router() -> None:
    text = (
        "apiVersion: production-stack.vllm.ai/v1alpha1\nkind: VLLMRouter\n"
        "metadata: {name: r}\nspec:\n  routingLogic: roundrobin\n  k8sLabelSelector: app=llm\n"
    )
    (router,) = routers(text, "r.yaml")
    assert (facts(router), router.selector) == (("roundrobin", True, set()), {"app": "llm"})
    after, word = fixed(text, "r.yaml", "routing-blind", at=1)
    assert word == "session-hash"
    assert "routingLogic: session\n" in after
    assert "  sessionKey: x-user-id\n" in after


DYNAMO = """\
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: chat}
spec:
  services:
    Frontend:
      componentType: frontend
      replicas: 1
FRONT      extraPodSpec:
        mainContainer: {image: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.1"}
    Worker:
      componentType: worker
      replicas: 4
      resources: {limits: {gpu: "1"}}
      extraPodSpec:
        mainContainer:
          image: nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.1
          command: [python3, -m, dynamo.vllm]
          args:
          - --model
          - Qwen/Qwen3-8B
"""
MODE = "      envs:\n      - {name: DYN_ROUTER_MODE, value: MODE}\n"


@pytest.mark.parametrize(
    ("mode", "rule"),
    [
        ("", "routing-blind"),
        ("random", "routing-blind"),
        ("least-loaded", "routing-load-only"),
        ("kv", "routing-kv-events-missing"),
    ],
)
def test_a_frontend_of_dynamo_and_its_workers_are_changed_together(mode: str, rule: str) -> None:
    text = DYNAMO.replace("FRONT", MODE.replace("MODE}", f"{mode}}}") if mode else "")
    assert findings(text, "g.yaml") == [(rule, "warning")]
    after, word = fixed(text, "g.yaml", rule)
    assert word == "kv-aware"
    assert '          - --kv-events-config\n          - \'{"enable_kv_cache_events":true,' in after
    assert findings(after, "g.yaml") == []


def test_workers_of_tensorrt_llm_have_another_option() -> None:
    text = DYNAMO.replace("FRONT", MODE.replace("MODE}", "kv}"))
    text = text.replace("dynamo.vllm", "dynamo.trtllm").replace("--model\n", "--model-path\n")
    text = text.replace("vllm-runtime", "tensorrtllm-runtime")
    after, _ = fixed(text, "g.yaml", "routing-kv-events-missing")
    assert after.endswith("          - Qwen/Qwen3-8B\n          - --publish-events-and-metrics\n")


@pytest.mark.parametrize("tag", ["0.8.0", "0.6.1"])
def test_workers_before_1_0_publish_by_themselves(tag: str) -> None:
    text = DYNAMO.replace("FRONT", MODE.replace("MODE}", "kv}")).replace("1.3.1", tag)
    assert findings(text, "g.yaml") == []


def test_a_frontend_that_predicts_needs_no_events() -> None:
    text = DYNAMO.replace("FRONT", MODE.replace("MODE}", "kv}"))
    text = text.replace('runtime:1.3.1"}', 'runtime:1.3.1", args: [--no-router-kv-events]}')
    assert findings(text, "g.yaml") == []


def test_frontends_that_tell_each_other_share_their_state() -> None:
    text = DYNAMO.replace("FRONT", MODE.replace("MODE}", "kv}"))
    text = text.replace("replicas: 1", "replicas: 2")
    assert findings(text, "g.yaml") == [("routing-state-not-shared", "warning")]
    synced = text.replace('runtime:1.3.1"}', 'runtime:1.3.1", args: [--router-replica-sync]}')
    assert "routing-state-not-shared" not in dict(findings(synced, "g.yaml"))


STACK = """\
servingEngineSpec:
  modelSpec:
  - name: llama3
    repository: vllm/vllm-openai
    tag: v0.11.2
    modelURL: meta-llama/Llama-3.1-8B-Instruct
    replicaCount: 4
    requestGPU: 1
    vllmConfig: {CONFIG}
"""


@pytest.mark.parametrize(
    ("spec", "rule", "word", "written"),
    [
        ("", "routing-blind", "prefix-aware", "routerSpec:\n  routingLogic: prefixaware\n"),
        ("routerSpec:\n  routingLogic: prefixaware\n", "routing-prefix-only", "prefix-aware",
         "  prefixMinMatchLength: 128\n"),
    ],
)  # fmt: skip
def test_values_of_the_production_stack(spec: str, rule: str, word: str, written: str) -> None:
    text = STACK.replace("CONFIG", "enablePrefixCaching: true") + spec
    assert findings(text, "values.yaml") == [(rule, "warning")]
    after, read = fixed(text, "values.yaml", rule)
    assert (read, written in after) == (word, True)
    assert findings(after, "values.yaml") == []


@pytest.mark.parametrize("config", ["enablePrefixCaching: false", "maxModelLen: 4096"])
def test_the_chart_turns_prefix_caching_off(config: str) -> None:
    spec = "routerSpec: {routingLogic: prefixaware, prefixMinMatchLength: 128}\n"
    text = STACK.replace("CONFIG", config) + spec
    assert findings(text, "values.yaml") == [("routing-prefix-caching-off", "warning")]
    after, _ = fixed(text, "values.yaml", "routing-prefix-caching-off")
    assert "enablePrefixCaching: true" in after
    assert findings(after, "values.yaml") == []


def test_a_session_without_a_key_is_refused_by_the_stacks_router() -> None:
    text = STACK.replace("CONFIG", "enablePrefixCaching: true")
    for spec, severity in (('sessionKey: ""', "error"), ("enableRouter: true", "warning")):
        named = text + f"routerSpec:\n  routingLogic: session\n  {spec}\n"
        result = lint(Project.of_texts(setup(), {"values.yaml": named})).result
        found = [item.severity for item in result.findings if item.name == "flag-conflict"]
        assert found == [severity]
    keyed = text + "routerSpec: {routingLogic: session, sessionKey: x-user-id}\n"
    assert findings(keyed, "values.yaml") == []


KSERVE = """\
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata: {name: qwen}
spec:
  model: {uri: "hf://Qwen/Qwen2.5-7B-Instruct", name: qwen}
  replicas: 3
  router:
    route: {}
    gateway: {}
  template:
    containers:
    - name: main
      resources: {limits: {nvidia.com/gpu: "1"}}
"""


def test_the_controller_is_asked_for_its_scheduler() -> None:
    after, word = fixed(KSERVE, "q.yaml", "routing-blind")
    assert (word, "    scheduler: {}\n" in after) == ("prefix-aware", True)


def test_a_session_of_long_prompts_is_a_whale() -> None:
    text = STACK.replace("CONFIG", "enablePrefixCaching: true")
    text += "routerSpec: {routingLogic: session, sessionKey: x-user-id}\n"
    told = setup(workload={"kind": "agent", "isl": 100_000})
    found = lint(Project.of_texts(told, {"values.yaml": text})).result.findings
    assert [item.severity for item in found if item.name == "whale-session"] == ["warning"]


# -------------------------------------------------------------------------------------- chains


def test_a_service_in_front_of_a_router_is_no_choice_of_replicas() -> None:
    one = GATEWAY.replace("replicas: 2", "replicas: 3")
    service = (
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: front}\n"
        "spec: {selector: {app: router}, ports: [{port: 80}]}\n"
    )
    every = {item.name: item for item in routers(PODS + one + service, "r.yaml")}
    assert every["front"].backends == (every["router"].id,)
    names = [name for name, _ in findings(PODS + one + service, "r.yaml")]
    assert names == ["routing-state-not-shared"]


def test_one_name_stands_for_all_replicas_of_a_service() -> None:
    compose = """\
services:
  vllm:
    image: vllm/vllm-openai:v0.33.0
    command: [--model, Qwen/Qwen3-8B]
    deploy: {replicas: 3}
"""
    text = "upstream llm { server vllm:8000; }\n"
    found = findings(text, "nginx.conf", **{"compose.yaml": compose})
    assert found == [("routing-blind", "warning")]
    assert findings(text, "nginx.conf", **{"compose.yaml": compose.replace("3}", "1}")}) == []


def test_a_server_of_pages_is_taken_for_no_router_of_models() -> None:
    text = "upstream app { server a:80; server b:80; }\nserver { root /www; index index.html; }\n"
    assert findings(text, "nginx.conf") == []


def test_a_comment_suppresses_a_finding_in_nginx() -> None:
    text = NGINX.replace("METHOD", "random;  # shardlint: ignore[routing-blind] it is a test")
    assert findings(text, "nginx.conf") == []


def test_a_router_in_the_base_of_an_overlay_is_read_once() -> None:
    config = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: front}\ndata:\n  nginx.conf: |\n"
        "    upstream llm {\n      server a:8000;\n      server b:8000;\n    }\n"
    )
    files = {
        "base/kustomization.yaml": "resources: [front.yaml, router.yaml]\n",
        "base/front.yaml": config,
        "base/router.yaml": PODS + GATEWAY,
        "over/kustomization.yaml": "resources: [../base]\nnamePrefix: a-\n",
    }
    project = Project.of_texts(setup(), files)
    kinds = sorted(item.kind for item in project.routers)
    assert kinds == ["gateway-router", "nginx", "service"]
    assert {item.file for item in project.routers} == {"over/kustomization.yaml"}


def test_a_chain_is_followed_to_the_router_that_chooses() -> None:
    compose = """\
services:
  front: {image: nginx}
  litellm: {image: ghcr.io/berriai/litellm}
  vllm-0: {image: "vllm/vllm-openai:v0.33.0", command: [--model, Qwen/Qwen3-8B]}
  vllm-1: {image: "vllm/vllm-openai:v0.33.0", command: [--model, Qwen/Qwen3-8B]}
"""
    front = (
        "upstream llm { server litellm:4000; }\nserver { location / { proxy_pass http://llm; } }\n"
    )
    files = {"compose.yaml": compose, "nginx.conf": front, "litellm.yaml": LITELLM}
    project = Project.of_texts(setup(workload=CHAT), files)
    by_kind = {item.kind: item for item in project.routers}
    assert by_kind["nginx"].backends == (by_kind["litellm"].id,)
    assert len(by_kind["litellm"].backends) == 2
    found = [item for item in lint(project).result.findings if item.name == "routing-blind"]
    assert [(item.file, item.message.split(",")[0]) for item in found] == [
        ("litellm.yaml", "simple-shuffle")
    ]


def test_a_router_without_plans_is_shown() -> None:
    out = StringIO()
    text = "upstream llm { least_conn; server a:1; server b:1; }\n"
    inspection.write_text(Project.of_texts(setup(), {"nginx.conf": text}), out)
    assert (
        "llm (nginx) nginx.conf:1\n  router    least_conn: load\n  choices   2\n" in out.getvalue()
    )


@pytest.mark.parametrize(
    "odd",
    [
        "kind: Ingress\nspec: []\n", "model_list: x\n", "static_resources: []\n",
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nspec: {trafficPolicy: x}\n",
        "kind: EndpointPickerConfig\nplugins: {a: b}\nschedulingProfiles: [x, {plugins: y}]\n",
        "context_servers: []\ngeneration_servers: {router: x}\n",
        "frontend: {args: []}\nbackend: {type: vllm, vllm_config: []}\n",
        "http: {services: {a: {loadBalancer: {servers: x}}}}\nloadBalancer: 1\n",
        "a: {annotations: {model.aibrix.ai/config: '{'}}\n",
        "x: {command: [[sglang_router]], args: {a: sglang_router}}\n",
    ],
)  # fmt: skip
def test_odd_values_are_survived(odd: str) -> None:
    project = Project.of_texts(setup(), {"odd.yaml": odd})
    lint(project)
    assert project.broken == ()

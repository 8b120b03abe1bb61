"""Routers by what starts them and what is mounted in them: pickers, commands, templates, chains."""

from __future__ import annotations

import pytest
from harness import setup
from readers.reading import routers
from readers.test_routers import CHAT, facts, findings, fixed
from shardlint import fixes
from shardlint.linter import lint
from shardlint.plan import Router
from shardlint.project import Project
from shardlint.source import apply

SILENT: list[tuple[str, str]] = []


def by_kind(text: str, name: str, kind: str) -> Router:
    (found,) = [item for item in routers(text, name) if item.kind == kind]
    return found


# --------------------------------------------------------------------------- endpoint pickers

PICKER = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: prefix-cache-scorer
PLUGINS- type: PICKER
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: QUEUE}
  - {pluginRef: prefix-cache-scorer, weight: PREFIX}
REFS  - pluginRef: PICKER
"""


def picker(queue: str = "2", prefix: str = "3", more: str = "", kind: str = "max-score-picker",
           ) -> str:  # fmt: skip
    text = PICKER.replace("QUEUE", queue).replace("PREFIX", prefix).replace("PICKER", kind)
    declared = f"- type: {more}\n" if more else ""
    used = f"  - pluginRef: {more}\n" if more else ""
    return text.replace("PLUGINS", declared).replace("REFS", used)


@pytest.mark.parametrize(
    ("queue", "prefix", "policy", "awareness"),
    [
        ("2", "3", "queue-scorer+prefix-cache-scorer", {"prefix", "load"}),
        ("0", "3", "prefix-cache-scorer", {"prefix"}),
        ("2", "0.0", "queue-scorer", {"load"}),
        ("0", "0", "max-score-picker", set()),
    ],
)
def test_a_scorer_of_weight_0_has_no_say(
    queue: str, prefix: str, policy: str, awareness: set[str]
) -> None:
    (router,) = routers(picker(queue, prefix), "epp.yaml")
    assert facts(router) == (policy, True, awareness)


def test_the_weight_of_a_scorer_that_has_none_is_raised() -> None:
    after, word = fixed(picker(queue="0"), "epp.yaml", "routing-prefix-only")
    assert (word, after) == ("prefix-aware", picker(queue="1"))


def test_a_scorer_that_is_not_known_takes_nothing_from_the_others() -> None:
    (router,) = routers(picker(more="our-own-scorer"), "epp.yaml")
    assert router.sure
    (router,) = routers(picker(prefix="0", more="our-own-scorer"), "epp.yaml")
    assert not router.sure
    assert findings(picker(prefix="0", more="our-own-scorer"), "epp.yaml") == SILENT


def test_what_reads_and_admits_requests_is_no_choice() -> None:
    text = (
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n"
        "- type: openai-parser\n- type: probabilistic-admitter\n- type: random-picker\n"
        "schedulingProfiles:\n- name: default\n  plugins:\n  - pluginRef: random-picker\n"
    )
    (router,) = routers(text, "epp.yaml")
    assert facts(router) == ("random-picker", True, set())
    assert findings(text, "epp.yaml") == [("routing-blind", "warning")]
    after, word = fixed(text, "epp.yaml", "routing-blind")
    assert word == "prefix-aware"
    assert "random-picker" not in after
    assert "- pluginRef: max-score-picker\n" in after


def test_a_random_picker_is_replaced_where_scorers_are_declared() -> None:
    text = picker(kind="random-picker")
    assert findings(text, "epp.yaml") == [("routing-blind", "warning")]
    after, word = fixed(text, "epp.yaml", "routing-blind")
    assert (word, after) == ("prefix-aware", picker())


def test_events_alone_bound_no_load() -> None:
    text = (
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
        "plugins:\n- type: precise-prefix-cache-scorer\n"
    )
    (router,) = routers(text, "epp.yaml")
    assert router.awareness == {"prefix", "kv"}
    assert findings(text, "epp.yaml") == [("routing-prefix-only", "warning")]


def indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


CLUSTER = """\
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: llm}
spec:
  selector: {matchLabels: {app: llm}}
  targetPorts: [{number: 8000}]
  endpointPickerRef: {name: SERVICE, port: {number: 9002}}
---
apiVersion: v1
kind: Service
metadata: {name: llm-epp}
spec: {selector: {app: epp}, ports: [{port: 9002}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: picker}
spec:
  replicas: 1
  selector: {matchLabels: {app: epp}}
  template:
    metadata: {labels: {app: epp}}
    spec:
      containers:
      - name: epp
        image: ghcr.io/llm-d/llm-d-inference-scheduler:v0.5.0
        args: [--pool-name, llm, --config-file, /config/FILE]
        volumeMounts: [{name: plugins, mountPath: /config}]
      volumes: [{name: plugins, configMap: {name: plugins}}]
---
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
      - name: v
        image: vllm/vllm-openai:v0.11.2
        args: [--model, Qwen/Qwen3-8B]
        resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: plugins}
data:
  good.yaml: |
GOOD  bad.yaml: |
BAD"""
BOTH = CLUSTER.replace("GOOD", indented(picker(), 4)).replace(
    "BAD", indented(picker(prefix="0"), 4)
)


@pytest.mark.parametrize(
    ("file", "awareness", "rules"),
    [
        ("good.yaml", {"prefix", "load"}, SILENT),
        ("bad.yaml", {"load"}, [("routing-load-only", "warning")]),
    ],
)
def test_the_entry_that_the_pickers_deployment_names_is_the_policy(
    file: str, awareness: set[str], rules: list[tuple[str, str]]
) -> None:
    text = BOTH.replace("SERVICE", "llm-epp").replace("FILE", file)
    project = Project.of_texts(setup(workload=CHAT), {"all.yaml": text})
    (router,) = [item for item in project.routers if item.kind == "epp-config"]
    assert router.awareness == awareness
    assert [plan.name for plan in project.plans if plan.id in router.backends] == ["llm/v"]
    pool = next(item for item in project.routers if item.kind == "inferencepool")
    assert (pool.chooses, pool.backends) == ("elsewhere", (router.id,))
    assert findings(text, "all.yaml") == rules


def test_a_pool_of_another_picker_takes_nothing_from_this_one() -> None:
    text = BOTH.replace("SERVICE", "other-epp").replace("FILE", "bad.yaml")
    text += (
        "---\napiVersion: v1\nkind: Service\nmetadata: {name: other-epp}\n"
        "spec: {selector: {app: other}, ports: [{port: 9002}]}\n"
    )
    project = Project.of_texts(setup(), {"all.yaml": text})
    pool = next(item for item in project.routers if item.kind == "inferencepool")
    assert pool.awareness == {"prefix", "load"}


def test_all_entries_count_where_no_deployment_is_known() -> None:
    text = BOTH[BOTH.index("apiVersion: v1\nkind: ConfigMap") :]
    assert [item.path for item in routers(text, "c.yaml")] == [
        "0:/data/good.yaml", "0:/data/bad.yaml"
    ]  # fmt: skip


def test_the_picker_of_a_graph_of_dynamo() -> None:
    text = (
        "apiVersion: nvidia.com/v1beta1\nkind: DynamoGraphDeployment\nmetadata: {name: g}\nspec:\n"
        "  components:\n  - name: Epp\n    type: epp\n    eppConfig:\n      config:\n"
        "        plugins: [{name: d, type: dyn-decode-scorer}]\n"
        "        schedulingProfiles: [{name: decode, plugins: [{pluginRef: d}]}]\n"
    )
    router = by_kind(text, "g.yaml", "epp-config")
    assert facts(router) == ("dyn-decode-scorer", True, {"prefix", "kv", "load"})


# ---------------------------------------------------------------------------------- commands

WORKER = "python3 -m dynamo.vllm --model Qwen/Qwen3-8B &\n"


@pytest.mark.parametrize(
    ("words", "policy", "explicit", "awareness"),
    [
        ("", "round-robin", False, set()),
        ("--router-mode kv", "kv", True, {"kv", "prefix", "load"}),
        ("--router-mode=kv --no-kv-events", "kv", True, {"prefix", "load"}),
        ("--router-mode kv --router-kv-overlap-score-weight 0", "kv", True, {"load"}),
        ("--router-mode least-loaded", "least-loaded", True, {"load"}),
        ('--router-mode "$MODE"', None, True, set()),
    ],
)
def test_a_frontend_of_dynamo_in_a_script(
    words: str, policy: str | None, explicit: bool, awareness: set[str]
) -> None:
    text = f"#!/bin/bash\npython -m dynamo.frontend {words} &\n{WORKER}{WORKER}wait\n"
    (router,) = routers(text, "run.sh")
    assert (router.kind, facts(router)) == ("dynamo-frontend", (policy, explicit, awareness))
    assert router.choices.only == 2


def test_the_mode_of_a_frontend_is_a_variable_too() -> None:
    text = "export DYN_ROUTER_MODE=kv\npython -m dynamo.frontend --http-port 8000\n"
    (router,) = routers(text, "run.sh")
    assert facts(router)[0] == "kv"


@pytest.mark.parametrize(("more", "rules"), [(WORKER, 1), ("", 0), (
    WORKER.replace("--model", "--is-prefill-worker --model"), 0)])  # fmt: skip
def test_workers_of_a_script_are_counted(more: str, rules: int) -> None:
    text = f"python -m dynamo.frontend &\n{WORKER}{more}"
    found = findings(text, "run.sh")
    assert found == [("routing-blind", "warning")] * rules


def test_a_frontend_in_a_container_of_a_deployment() -> None:
    text = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: front}\nspec:\n  replicas: 2\n"
        "  template: {spec: {containers: [{name: f, image: dynamo, env: [{name: DYN_ROUTER_MODE,"
        " value: kv}],\n    command: [python3, -m, dynamo.frontend]}]}}\n"
    )
    assert findings(text, "f.yaml") == [("routing-state-not-shared", "warning")]
    synced = text.replace("dynamo.frontend]", "dynamo.frontend, --router-replica-sync]")
    assert findings(synced, "f.yaml") == SILENT


def test_a_router_whose_program_is_filled_in() -> None:
    text = (
        'if [ "$DP" = 1 ]; then ROUTER=(python3 -m sglang_router.launch_router); fi\n'
        '"${ROUTER[@]}" --worker-urls http://a:1 http://b:1 --policy consistent_hashing\n'
    )
    (router,) = routers(text, "run.sh")
    assert (facts(router), router.choices.only) == (("consistent_hashing", True, {"session"}), 2)
    other = text.replace("--worker-urls", "--urls")
    assert routers(other, "run.sh") == ()


@pytest.mark.parametrize("logic", ["disaggregated_prefill", "disaggregated_prefill_orchestrated"])
def test_parts_of_a_request_have_servers_of_their_own(logic: str) -> None:
    text = (
        f"vllm-router --routing-logic {logic} --static-backends"
        " http://prefill:8000,http://decode:8000\n"
    )
    (router,) = routers(text, "run.sh")
    assert facts(router) == (logic, True, set())
    assert findings(text, "run.sh") == SILENT


# ---------------------------------------------------------------------------- production stack

STACK = """\
servingEngineSpec:
  modelSpec:
  - name: llama3
    repository: vllm/vllm-openai
    tag: v0.11.2
    modelURL: meta-llama/Llama-3.1-8B-Instruct
    replicaCount: 2
    requestGPU: 1
    vllmConfig: {enablePrefixCaching: true}
routerSpec:
  routingLogic: session
  sessionKey: ""
"""


@pytest.mark.parametrize(
    ("at", "delta", "old", "new"),
    [
        (0, {"session_key": "x-user-id"}, 'sessionKey: ""', "sessionKey: x-user-id"),
        (1, {"routing": "prefix-aware"}, "routingLogic: session", "routingLogic: prefixaware"),
    ],
)
def test_a_session_without_a_key_is_cured(
    at: int, delta: dict[str, str], old: str, new: str
) -> None:
    before = Project.of_texts(setup(), {"values.yaml": STACK})
    result = fixes.with_fixes(lint(before))
    (finding,) = [item for item in result.findings if item.name == "flag-conflict"]
    assert (finding.severity, dict(finding.fixes[at].delta)) == ("error", delta)
    after = apply(STACK, finding.fixes[at].edits)
    assert STACK.replace(old, new) in after
    again = Project.of_texts(setup(), {"values.yaml": after})
    assert "flag-conflict" not in {item.name for item in lint(again).result.findings}


def test_an_object_with_sessions_and_no_key_does_not_start() -> None:
    text = (
        "apiVersion: production-stack.vllm.ai/v1alpha1\nkind: VLLMRouter\nmetadata: {name: r}\n"
        "spec:\n  routingLogic: session\n  k8sLabelSelector: app=llm\n"
    )
    assert findings(text, "r.yaml") == [("session-key-missing", "error")]
    after, word = fixed(text, "r.yaml", "session-key-missing")
    assert (word, after) == ("session-hash", f"{text}  sessionKey: x-user-id\n")
    keyed = f"{text}  extraArgs: [--session-key, x-user-id]\n"
    assert findings(keyed, "r.yaml") == SILENT


def test_the_charts_own_values_have_a_policy_and_nothing_to_choose_among() -> None:
    text = "servingEngineSpec:\n  modelSpec: []\nrouterSpec:\n  routingLogic: roundrobin\n"
    (router,) = routers(text, "values.yaml")
    assert facts(router) == ("roundrobin", True, set())
    assert findings(text, "values.yaml") == SILENT


# ------------------------------------------------------------------------------------ recipes

RECIPE = """\
name: r
frontend:
  type: FRONT
resources: {prefill_workers: 4, decode_workers: 1}
backend:
  sglang_config:
    prefill:
      served-model-name: m
      RADIX: true
      load-balance-method: METHOD
      dp-size: 8
    decode:
      dp-size: 8
"""


def recipe(front: str = "dynamo", method: str = "round_robin", radix: str = "trust-remote-code",
           ) -> str:  # fmt: skip
    return RECIPE.replace("FRONT", front).replace("METHOD", method).replace("RADIX", radix)


@pytest.mark.parametrize(
    ("front", "policy", "awareness"),
    [("dynamo", "round-robin", set()), ("sglang", "cache_aware", {"prefix", "load"})],
)
def test_a_recipe_is_of_sglang_where_no_backend_is_named(
    front: str, policy: str, awareness: set[str]
) -> None:
    router = by_kind(recipe(front), "r.yaml", "srt-slurm-frontend")
    assert (facts(router), router.choices.only) == ((policy, False, awareness), 4)
    inner = [item for item in routers(recipe(front), "r.yaml") if item.kind == "data-parallel"]
    assert [facts(item)[0] for item in inner] == ["round_robin", "round_robin"]
    assert [item.explicit for item in inner] == [True, False]


def test_without_prefix_caches_there_is_nothing_to_look_at() -> None:
    assert ("routing-blind", "warning") in findings(recipe(), "r.yaml")
    assert findings(recipe(radix="disable-radix-cache"), "r.yaml") == SILENT
    aware = recipe("sglang", radix="disable-radix-cache")
    assert findings(aware, "r.yaml") == [("routing-prefix-caching-off", "warning")]
    assert findings(aware.replace("prefill_workers: 4", "prefill_workers: 1"), "r.yaml") == SILENT


# ---------------------------------------------------------------------------------- templates

TEMPLATE = """\
{{- if .Values.router.enabled }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "x.name" . }}
spec:
  replicas: {{ .Values.router.replicas }}
  template:
    metadata:
      labels:
        {{- include "x.labels" . | nindent 8 }}
    spec:
      containers:
      - name: router
        image: "{{ .Values.image }}"
        command: [python3, -m, sglang_router.launch_router]
        args:
        - --service-discovery
        POLICY
{{- end }}
"""


@pytest.mark.parametrize(
    ("policy", "word", "explicit"),
    [
        ("- --policy={{ .Values.router.policy }}", None, True),
        ("- --policy=round_robin", "round_robin", True),
        ("- --port=80", "cache_aware", False),
        ("{{- if .Values.policy }}\n        - --policy=random\n        {{- end }}", None, False),
    ],
)
def test_a_router_in_a_template(policy: str, word: str | None, explicit: bool) -> None:
    name = "chart/templates/router.yaml"
    (router,) = routers(TEMPLATE.replace("POLICY", policy), name)
    assert (router.policy.only, router.explicit, router.offers) == (word, explicit, ())
    assert router.sure == (word is not None)
    assert "__T" not in router.name


def test_values_of_the_chart_stand_in_a_template() -> None:
    text = TEMPLATE.replace("POLICY", "- --policy={{ .Values.router.policy }}")
    values = "router: {enabled: true, policy: power_of_two, replicas: 2}\n"
    files = {"chart/templates/router.yaml": text, "chart/values.yaml": values}
    found = Project.of_texts(setup(), files).routers
    read = [item for item in found if item.file.endswith("router.yaml")]
    assert [facts(item)[0] for item in read] == ["power_of_two"]


@pytest.mark.parametrize(("enabled", "count"), [("true", 1), ("false", 0), ('"no"', 1)])
def test_a_branch_that_the_charts_values_do_not_take(enabled: str, count: int) -> None:
    text = TEMPLATE.replace("POLICY", "- --policy=cache_aware")
    values = f"router:\n  enabled: {enabled}\n  replicas: 2\n"
    files = {"chart/templates/router.yaml": text, "chart/values.yaml": values}
    found = lint(Project.of_texts(setup(workload=CHAT), files)).result.findings
    assert [item.name for item in found] == ["routing-state-not-shared"] * count


def test_an_object_in_a_branch_is_read_as_it_is_where_it_is() -> None:
    text = (
        '{{- if eq .Values.mesh "istio" }}\napiVersion: networking.istio.io/v1\n'
        "kind: DestinationRule\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n"
        "  host: {{ .Release.Name }}.{{ .Release.Namespace }}\n  trafficPolicy:\n"
        "    tls: {mode: SIMPLE}\n{{- end }}\n"
    )
    (router,) = routers(text, "istio.tpl")
    assert (router.policy.only, router.chooses, router.targets) == (None, "elsewhere", ())


def test_a_template_of_jinja() -> None:
    text = "{% if epp %}\n{# notes #}\n" + picker() + "{% endif %}\n"
    (router,) = routers(text, "epp.yaml.j2")
    assert facts(router)[2] == {"prefix", "load"}


# ----------------------------------------------------------------------------------- proxies


def test_the_endpoints_of_another_cluster_are_an_alias() -> None:
    text = (
        "static_resources:\n  listeners:\n  - route: {cluster: llm}\n  - route: {cluster: batch}\n"
        "  clusters:\n  - name: llm\n    lb_policy: LEAST_REQUEST\n    load_assignment: &workers\n"
        "      endpoints:\n      - lb_endpoints:\n"
        "        - endpoint: {address: {socket_address: {address: vllm-0, port_value: 8000}}}\n"
        "        - endpoint: {address: {socket_address: {address: vllm-1, port_value: 8000}}}\n"
        "  - name: batch\n    lb_policy: ROUND_ROBIN\n    load_assignment: *workers\n"
    )
    first, second = routers(text, "envoy.yaml")
    assert first.targets == second.targets == ("vllm-0:8000", "vllm-1:8000")
    assert second.engines


LITELLM = """\
proxy_config:
  model_list:
  - model_name: NAME
    litellm_params: {model: hosted_vllm/meta-llama/MODEL, api_base: http://vllm-0:8000/v1}
  - model_name: NAME
    litellm_params: {model: hosted_vllm/meta-llama/MODEL, api_base: http://vllm-1:8000/v1}
  router_settings: {routing_strategy: simple-shuffle}
"""


@pytest.mark.parametrize(
    ("name", "model", "severity"),
    [
        ("chat", "Llama-3.1-8B-Instruct", "warning"),
        ("support-agent", "Llama-3.1-8B-Instruct", "warning"),
        ("llama-2-7b-chat", "Llama-2-7b-chat-hf", "info"),
        ("llama", "Llama-3.1-8B-Instruct", "info"),
        ("chatter", "Llama-3.1-8B-Instruct", "info"),
    ],
)
def test_a_name_says_that_conversations_are_held(name: str, model: str, severity: str) -> None:
    text = LITELLM.replace("NAME", name).replace("MODEL", model)
    project = Project.of_texts(setup(), {"values.yaml": text})
    (finding,) = lint(project).result.findings
    assert (finding.name, finding.severity) == ("routing-blind", severity)
    assert (f"`{name}` is asked in conversations" in finding.message) == (severity == "warning")


def test_what_is_said_of_the_requests_counts_before_a_name() -> None:
    text = LITELLM.replace("NAME", "chat").replace("MODEL", "Llama-3.1-8B-Instruct")
    project = Project.of_texts(setup(workload={"kind": "batch"}), {"values.yaml": text})
    assert lint(project).result.findings == ()


TRAEFIK = """\
services:
  lb: {image: "traefik:v3", command: [--providers.docker]}
  vllm-0:
    image: vllm/vllm-openai:v0.11.2
    command: --model mistralai/Mistral-7B-v0.1
    labels:
      traefik.http.services.llm.loadbalancer.server.port: 8000
  vllm-1:
    image: vllm/vllm-openai:v0.11.2
    command: --model mistralai/Mistral-7B-v0.1
    labels:
      traefik.http.services.llm.loadbalancer.server.port: 8000
"""


def test_services_with_labels_of_one_name_are_its_servers() -> None:
    router = by_kind(TRAEFIK, "compose.yaml", "traefik")
    assert (router.targets, router.choices.only) == (("vllm-0", "vllm-1"), 2)
    assert findings(TRAEFIK, "compose.yaml") == [("routing-blind", "warning")]
    after, word = fixed(TRAEFIK, "compose.yaml", "routing-blind")
    assert (word, after.count("loadbalancer.sticky.cookie")) == ("session-hash", 2)


INGRESS = """\
apiVersion: v1
kind: Service
metadata: {name: llm}
spec:
  selector: {app: llm}
  sessionAffinity: ClientIP
  ports: [{port: 80}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: llm
  annotations:
    nginx.ingress.kubernetes.io/service-upstream: "true"
spec:
  rules: [{http: {paths: [{path: /, backend: {service: {name: llm, port: {number: 80}}}}]}}]
"""


def test_an_ingress_chooses_by_a_header_in_place_of_a_service_by_its_own_address() -> None:
    assert findings(INGRESS, "i.yaml") == [("routing-skew", "warning")]
    after, word = fixed(INGRESS, "i.yaml", "routing-skew")
    assert word == "session-hash"
    assert after == INGRESS.replace(
        'service-upstream: "true"', 'upstream-hash-by: "$http_x_session_id"'
    )
    assert findings(after, "i.yaml") == SILENT


GATEWAY = """\
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: llm}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: llm}]
  loadBalancer:
    type: TYPE
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: llm}
spec: {rules: [{backendRefs: [{name: llm, port: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: llm}
spec: {selector: {app: llm}, ports: [{port: 80}]}
---
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
      - {name: v, image: "vllm/vllm-openai:v0.11.2", args: [--model, Qwen/Qwen3-8B]}
"""


@pytest.mark.parametrize(
    ("word", "rules"),
    [
        ("RoundRobin", [("routing-blind", "warning")]),
        ("LeastRequest", [("routing-load-only", "warning")]),
        ("ConsistentHash\n    consistentHash: {type: Header, header: {name: x-a}}", SILENT),
        ("BackendUtilization", SILENT),
    ],
)
def test_the_policy_of_envoy_gateway_chooses_among_the_pods_of_a_service(
    word: str, rules: list[tuple[str, str]]
) -> None:
    assert findings(GATEWAY.replace("TYPE", word), "g.yaml") == rules


@pytest.mark.parametrize("flow", [False, True])
def test_a_header_is_hashed_in_place_of_the_type(flow: bool) -> None:
    text = GATEWAY.replace("TYPE", "RoundRobin")
    text = text.replace("loadBalancer:\n    type: RoundRobin", "loadBalancer: {type: RoundRobin}"
                        ) if flow else text  # fmt: skip
    after, word = fixed(text, "g.yaml", "routing-blind")
    assert word == "session-hash"
    assert findings(after, "g.yaml") == SILENT


# ------------------------------------------------------------------------------------- ranks

RANKS = "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --tp 1 --dp-size 4\n"


def test_ranks_that_take_turns_get_the_router_of_their_own_project() -> None:
    assert findings(RANKS, "run.sh") == [("routing-blind", "warning")]
    before = Project.of_texts(setup(workload=CHAT), {"run.sh": RANKS})
    result = fixes.with_fixes(lint(before))
    (finding,) = [item for item in result.findings if item.name == "routing-blind"]
    (fix,) = finding.fixes
    after = apply(RANKS, fix.edits)
    assert after == RANKS.replace("sglang.launch_server", "sglang_router.launch_server")
    (router,) = routers(after, "run.sh")
    assert (facts(router), router.choices.only) == (
        ("cache_aware", False, {"prefix", "load"}), 4)  # fmt: skip
    assert findings(after, "run.sh") == SILENT


@pytest.mark.parametrize("more", ["--enable-dp-attention", "--nnodes 2 --node-rank 0"])
def test_ranks_of_one_engine_are_no_servers_of_their_own(more: str) -> None:
    text = RANKS.replace("--tp 1", f"--tp 4 {more}")
    project = Project.of_texts(setup(workload=CHAT), {"run.sh": text})
    found = fixes.with_fixes(lint(project)).findings
    assert [item.fixes for item in found if item.name == "routing-blind"] == [()]


@pytest.mark.parametrize(("more", "count"), [("", 1), ("--dp-aware", 0)])
def test_a_router_that_sends_to_ranks_leaves_the_engine_no_choice(more: str, count: int) -> None:
    text = (
        "services:\n  router:\n    image: lmsysorg/sgl-model-gateway:v0.3.2\n    command: python -m"
        f" sglang_router.launch_router --worker-urls http://w:8000 {more}\n"
        "  w: {image: 'lmsysorg/sglang:v0.5.6', command: python3 -m sglang.launch_server"
        " --model-path m --tp 4 --dp-size 4 --enable-dp-attention}\n"
    )
    assert findings(text, "compose.yaml") == [("routing-blind", "warning")] * count


@pytest.mark.parametrize(("mode", "count"), [("prefill", 1), ("decode", 0)])
def test_ranks_that_go_on_with_prompts_meet_no_prefix(mode: str, count: int) -> None:
    text = RANKS.replace("--tp 1", f"--disaggregation-mode {mode} --tp 1")
    found = findings(text, "run.sh")
    assert found == [("routing-blind", "warning")] * count


# ------------------------------------------------------------------------------------- state

BUSY = LITELLM.replace("simple-shuffle", "least-busy").replace("NAME", "llama")
BUSY = f"replicaCount: 2\n{BUSY}".replace("MODEL", "Llama-3.1-8B-Instruct")
NOT_SHARED = ("routing-state-not-shared", "warning")


def test_instances_that_count_loads_for_themselves() -> None:
    assert findings(BUSY, "values.yaml")[0] == NOT_SHARED
    for other in (
        BUSY.replace("least-busy", "simple-shuffle"),
        BUSY.replace("replicaCount: 2", "replicaCount: 1"),
        BUSY.replace("least-busy}", "least-busy, redis_host: redis}"),
        BUSY.replace("http://vllm-1", "http://vllm-0"),
    ):
        assert NOT_SHARED not in findings(other, "values.yaml")


def test_the_deployment_of_a_config_map_says_how_many_there_are() -> None:
    config = BUSY.partition("proxy_config:\n")[2]
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  config.yaml: |\n"
        f"{indented(config, 2)}---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: l}}\n"
        "spec:\n  replicas: 3\n  template: {spec: {containers: [{name: l, image: litellm:main}],\n"
        "    volumes: [{name: c, configMap: {name: c}}]}}\n"
    )
    assert NOT_SHARED in findings(text, "l.yaml")
    assert NOT_SHARED not in findings(text.replace("litellm:main", "other"), "l.yaml")


@pytest.mark.parametrize(
    ("count", "more", "rules"),
    [(1, "", SILENT), (2, "", [NOT_SHARED]), (2, ", --ha-enable-leader-election", SILENT)],
)
def test_pickers_with_an_index_each(count: int, more: str, rules: list[tuple[str, str]]) -> None:
    text = BOTH.replace("SERVICE", "llm-epp").replace("/config/FILE", f"/config/good.yaml{more}")
    assert findings(text.replace("replicas: 1", f"replicas: {count}"), "all.yaml") == rules


ROUTERS = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: router}
spec:
  replicas: 2
  template:
    spec:
      containers:
      - name: r
        image: ghcr.io/lightseekorg/smg:v1.13.0
        command: [smg, --service-discovery, --policy, cache_aware]
"""


def test_one_router_process_is_offered() -> None:
    assert findings(ROUTERS, "r.yaml") == [NOT_SHARED]
    after, _ = fixed(ROUTERS, "r.yaml", "routing-state-not-shared")
    assert after == ROUTERS.replace("replicas: 2", "replicas: 1")
    assert findings(ROUTERS.replace("[smg,", "[smg, --enable-mesh,"), "r.yaml") == SILENT


@pytest.mark.parametrize(("mesh", "rules"), [("true", SILENT), ("false", [NOT_SHARED])])
def test_gateways_of_a_chart_in_a_mesh(mesh: str, rules: list[tuple[str, str]]) -> None:
    text = f"router:\n  replicas: 2\n  policy: cache_aware\n  mesh: {{enabled: {mesh}}}\n"
    assert findings(text, "values.yaml") == rules


# ------------------------------------------------------------------------------------- chains

COMPOSE = """\
services:
  router-0:
    image: lmsysorg/sgl-model-gateway:v0.3.2
    command: python -m sglang_router.launch_router --worker-urls http://w0:8000 http://w1:8000
  router-1:
    image: lmsysorg/sgl-model-gateway:v0.3.2
    command: python -m sglang_router.launch_router --worker-urls http://w0:8000 http://w1:8000
  w0: {image: "lmsysorg/sglang:v0.5.6", command: python3 -m sglang.launch_server --model-path m}
  w1: {image: "lmsysorg/sglang:v0.5.6", command: python3 -m sglang.launch_server --model-path m}
"""
PROXY = """\
events {}
http {
  upstream llm { server SERVERS-0:8000; server SERVERS-1:8000; }
  server { listen 80; location / { proxy_pass http://llm; } }
}
"""


def test_a_proxy_before_routers_does_not_choose_among_engines() -> None:
    files = {"compose.yaml": COMPOSE, "nginx.conf": PROXY.replace("SERVERS", "router")}
    project = Project.of_texts(setup(workload=CHAT), files)
    assert {item.name for item in lint(project).result.findings} & {"routing-blind"} == set()
    alone = Project.of_texts(setup(workload=CHAT), {"nginx.conf": PROXY.replace("SERVERS", "vllm")})
    assert [item.name for item in lint(alone).result.findings] == ["routing-blind"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nginx.conf", "upstream shop { server a:80; server b:80; }\n"
         "upstream cart { server c:80; server d:80; }\n"),
        ("haproxy.cfg", "defaults\n  mode http\nbackend web\n  balance roundrobin\n"
         "  server a 10.0.0.1:8000\n  server b 10.0.0.2:8000\n"),
        ("t.yaml", "http:\n  services:\n    shop:\n      loadBalancer:\n        servers:\n"
         "        - url: http://a:80\n        - url: http://b:80\n"),
        ("s.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: pool}\n"
         "spec: {selector: {app: pool}, ports: [{port: 8081, targetPort: 8000}]}\n"),
        ("d.yaml", "apiVersion: networking.istio.io/v1\nkind: DestinationRule\n"
         "metadata: {name: shop}\nspec: {host: shop, trafficPolicy: {loadBalancer:"
         " {simple: ROUND_ROBIN}}}\n"),
    ],
)  # fmt: skip
def test_balancers_of_other_things_are_not_judged(name: str, text: str) -> None:
    assert findings(text, name) == SILENT

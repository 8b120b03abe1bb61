"""The built-in readers, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Iterable

from shardlint.plugins import Reader, hookimpl
from shardlint.readers.aibrix import AibrixReader
from shardlint.readers.aibrix_router import AibrixRouterReader
from shardlint.readers.compose import ComposeReader
from shardlint.readers.dynamo import DynamoReader
from shardlint.readers.endpoint_picker import EndpointPickerReader
from shardlint.readers.engine_config import EngineConfigReader
from shardlint.readers.envoy import EnvoyReader
from shardlint.readers.gateways import GatewaysReader
from shardlint.readers.gitops import GitopsReader
from shardlint.readers.grove import GroveReader
from shardlint.readers.haproxy import HaproxyReader
from shardlint.readers.helm_templates import HelmTemplateReader
from shardlint.readers.helm_values import HelmValuesReader
from shardlint.readers.kaito import KaitoReader
from shardlint.readers.knative import KnativeReader
from shardlint.readers.kserve import KServeReader
from shardlint.readers.kserve_llm import KServeLLMReader
from shardlint.readers.kthena import KthenaReader
from shardlint.readers.kubeai import KubeAIReader
from shardlint.readers.kubernetes import KubernetesReader
from shardlint.readers.kustomize import KustomizeReader
from shardlint.readers.leaderworkerset import LeaderWorkerSetReader
from shardlint.readers.litellm import LiteLLMReader
from shardlint.readers.llmaz import LlmazReader
from shardlint.readers.llmd import LlmdReader
from shardlint.readers.nginx import NginxReader
from shardlint.readers.nim import NimReader
from shardlint.readers.ome import OmeReader
from shardlint.readers.overlays import OverlayReader
from shardlint.readers.production_stack import ProductionStackReader
from shardlint.readers.ray import RayReader
from shardlint.readers.routes import RoutesReader
from shardlint.readers.shell import ShellReader
from shardlint.readers.skypilot import SkyPilotReader
from shardlint.readers.slurm import SlurmReader
from shardlint.readers.srt_slurm import SrtSlurmReader
from shardlint.readers.systemd import SystemdReader
from shardlint.readers.traefik import TraefikReader
from shardlint.readers.trtllm_disagg import TrtllmDisaggReader
from shardlint.readers.vllmruntime import VLLMRuntimeReader


@hookimpl
def shardlint_readers() -> Iterable[Reader]:
    return (
        KubernetesReader(),
        GitopsReader(),
        HelmTemplateReader(),
        HelmValuesReader(),
        LlmdReader(),
        ProductionStackReader(),
        VLLMRuntimeReader(),
        LeaderWorkerSetReader(),
        KnativeReader(),
        KthenaReader(),
        OmeReader(),
        LlmazReader(),
        ComposeReader(),
        ShellReader(),
        RayReader(),
        AibrixReader(),
        KubeAIReader(),
        KaitoReader(),
        DynamoReader(),
        GroveReader(),
        NimReader(),
        SlurmReader(),
        EngineConfigReader(),
        SkyPilotReader(),
        SystemdReader(),
        KServeReader(),
        KServeLLMReader(),
        KustomizeReader(),
        EndpointPickerReader(),
        NginxReader(),
        HaproxyReader(),
        RoutesReader(),
        TraefikReader(),
        AibrixRouterReader(),
        GatewaysReader(),
        SrtSlurmReader(),
        TrtllmDisaggReader(),
        LiteLLMReader(),
        EnvoyReader(),
        OverlayReader(),
    )

"""Write the table of weight and KV cache bytes that vLLM itself computes.

vLLM's own classes are built on a machine without a GPU: the parameters live on torch's `meta`
device, the process groups and the CUDA platform are pretended, the compiled kernels are stubs.
What is written down is the sum of the registered parameters of rank 0 of the first and of the last
pipeline stage (after construction, before post-load repacking; buffers such as rotary tables are
not weights), and the KV cache layout as `vllm.v1.core.kv_cache_planning` plans it.

    python scripts/dump_vllm_memory.py --configs DIR                measure the table's rows again
    python scripts/dump_vllm_memory.py --configs DIR --check        exit 1 if the table differs
    python scripts/dump_vllm_memory.py --configs DIR --add MODEL... measure more models as well

DIR holds the configurations: `<owner>__<name>.json` for every model, in the form of config.json
(a `_hf_quant_config_json` key in it stands for the file hf_quant_config.json).

To be installed in the Python that runs it (Linux, Python 3.11):

    pip install torch==2.13.0 torchvision --index-url https://download.pytorch.org/whl/cpu
    pip download vllm==0.33.0 --no-deps --no-binary :all:   and put its `vllm/` on PYTHONPATH, and
    pip install -r requirements/common.txt                  of that sdist (transformers 5.20.2)

Where kernels are chosen by what a GPU or an optional package offers, the answers are those of the
platform named in a row (`capability` 8.0: A100, 9.0: H100, 10.0: B200), with vLLM's bundled
triton_kernels and without FlashInfer's experts.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import json
import multiprocessing
import os
import sys
import tempfile
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from itertools import groupby
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests/engines/data/vllm_memory.json"
ABOUT = (
    "Bytes per rank as vLLM's own classes compute them, written by scripts/dump_vllm_memory.py: "
    "weights = [first stage, last stage] (draft_weights: the draft's, before it shares the "
    "embedding and the head); cache = the same for the KV cache, groups = [spec, layers, tokens "
    "per block], blocks = per group, of one request of max_model_len tokens; in_flight = tokens. "
    "A layout says only what is not tp = pp = dp = 1, ep = false, no options, capability 9.0"
)
RELEASE = "0.33.0"

T = TypeVar("T")

GIB = 2**30
VISIBLE_DEVICES = 4096  # no layout fails for want of GPUs


class Device(NamedTuple):
    """A GPU as vLLM asks for it; memory in bytes."""

    name: str
    memory: int
    processors: int


DEVICES = {
    "8.0": Device("NVIDIA A100-SXM4-80GB", 80 * GIB, 108),
    "9.0": Device("NVIDIA H100 80GB HBM3", 80 * GIB, 132),
    "10.0": Device("NVIDIA B200", 180 * GIB, 148),
}
USUAL = "9.0"  # what a row is of that does not say its capability
BLACKWELL_ONLY = ("NVFP4", "MXFP4", "DeepSeek-V4", "Kimi-K3")

WITHOUT_DRAFT = {"ngram", "ngram_gpu", "suffix"}  # methods that load no second model

# How wide the rows of a model added by hand are: tp, pp, dp, ep.
DENSE_LAYOUTS = [(1, 1, 1, False), (2, 1, 1, False), (8, 1, 1, False), (1, 2, 1, False)]
EXPERT_LAYOUTS = [(8, 1, 1, True), (2, 1, 4, True)]

# Extension modules that vLLM imports for their side effects, and operator namespaces they fill.
EXTENSIONS = {
    "vllm._C",
    "vllm._C_stable_libtorch",
    "vllm._deepselect_C",
    "vllm._flashkda_C",
    "vllm._flashmla_C",
    "vllm._flashmla_extension_C",
    "vllm._moe_C",
    "vllm._moe_C_stable_libtorch",
    "vllm.cumem_allocator",
    "vllm.vllm_flash_attn._vllm_fa2_C",
    "vllm.vllm_flash_attn._vllm_fa3_C",
}
NAMESPACES = {
    "_C",
    "_C_cache_ops",
    "_C_cuda_utils",
    "_C_custom_ar",
    "_C_stable_libtorch",
    "_flashkda_C",
    "_moe_C",
    "_vllm_fa2_C",
    "_vllm_fa3_C",
}
ABSENT_OPERATORS = {"minimax_allreduce_rms_qk"}  # vLLM tests for it, and takes another way
GPU_PACKAGES = {  # used by none of what is measured: a stub where they are not installed
    "cuda",
    "cutlass",
    "deep_gemm",
    "llguidance",
    "lmformatenforcer",
    "outlines_core",
    "quack",
    "tilelang",
    "torchvision",
    "triton_kernels",
    "tvm_ffi",
    "xgrammar",
}
GPU_MODULES = ("vllm.third_party.flashmla.flash_mla_interface", "vllm.vllm_flash_attn.cute")


class Row(NamedTuple):
    """A layout of a model and the engine arguments beside it."""

    tp: int
    pp: int
    dp: int
    ep: bool
    options: Mapping[str, Any]


MEASURED = ("weights", "draft_weights", "cache", "max_model_len", "in_flight")
DEFAULT: dict[str, Any] = {"tp": 1, "pp": 1, "dp": 1, "ep": False, "options": {}}


Found = tuple[Row, dict[str, Any]]


class Job(NamedTuple):
    """What is measured of a model: `told` are keys added to its configuration.

    `without`: keys that its class of transformers does not take.
    `plain`: transformers does not know its type, so it gets a configuration class of ours.
    """

    model_id: str
    capability: str
    told: Mapping[str, Any]
    without: Sequence[str]
    plain: bool
    rows: Sequence[Row]


# ---- what a machine without a GPU lacks


class Operator:
    """Stands for a compiled operator: says yes to every question, and any size is 1024."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: object, **kwargs: object) -> int:
        return 1024 if "size" in self.__name__ else True

    def __getattr__(self, name: str) -> Operator:
        if name.startswith("__"):
            raise AttributeError(name)
        return Operator(f"{self.__name__}.{name}")


class Anything(type):
    """A class whose attributes are classes of the same sort, for names in annotations and bases."""

    def __getattr__(cls, name: str) -> Anything:
        if name.startswith("_"):
            raise AttributeError(name)
        return Anything(name, (cls,), {})

    def __getitem__(cls, key: object) -> Anything:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __or__(cls, other: object) -> Anything:
        return cls

    __ror__ = __or__

    def _number(cls, other: object) -> int:
        return 1  # a width in bits, from which a kernel's shape is worked out

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _number
    __floordiv__ = __rfloordiv__ = __mod__ = __lshift__ = _number


def _first_argument(self: object, *args: Any, **_kwargs: object) -> Any:
    return args[0] if args else self  # so that a decorator leaves the function as it is


class Always:
    """Gives one answer, whatever it is asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __call__(self, *_args: object, **_kwargs: object) -> Any:
        return self.answer


class GpuModule(types.ModuleType):
    """A package that only a GPU needs: any name in it is a class that does nothing."""

    __version__ = "0.0"

    def __getattr__(self, name: str) -> Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        made = Anything(name, (), {"__init__": Always(None), "__call__": _first_argument})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives modules of one sort to whoever imports a name that `wanted` says yes to."""

    def __init__(
        self, wanted: Callable[[str], bool], make: Callable[[str], types.ModuleType] | None
    ) -> None:
        self.wanted = wanted
        self.make = make

    def find_spec(
        self, fullname: str, path: object, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not self.wanted(fullname):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=self.make is not None)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self.make(spec.name) if self.make else None

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def _is_gpu_module(name: str) -> bool:
    return name.split(".")[0] in GPU_PACKAGES or name.startswith(GPU_MODULES)


def _pretend_operators() -> None:
    """Let every operator of vLLM's namespaces exist."""
    import torch
    import torch.library

    found = torch._ops._OpNamespace.__getattr__
    register = torch.library.register_fake

    def operator(self: Any, name: str) -> Any:
        try:
            return found(self, name)
        except AttributeError:
            ours = self.name in NAMESPACES and name not in ABSENT_OPERATORS
            if ours and not name.startswith("__"):
                return Operator(f"{self.name}::{name}")
            raise

    def register_fake(op: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(op, str) and op.split("::")[0] in NAMESPACES:
            return lambda function: function
        return register(op, *args, **kwargs)

    torch._ops._OpNamespace.__getattr__ = operator
    torch.library.register_fake = register_fake


def _pretend_cuda(capability: tuple[int, int], device: Device) -> None:
    """Let torch and vLLM see GPUs of one sort."""
    import torch
    import torch.accelerator

    class Properties:
        name = device.name
        total_memory = device.memory
        multi_processor_count = device.processors
        major, minor = capability
        is_integrated = False
        warp_size = 32
        shared_memory_per_block_optin = 232448
        max_threads_per_multi_processor = 2048
        regs_per_multiprocessor = 65536
        L2_cache_size = 50 * 2**20
        uuid = "0"
        gcnArchName = ""  # noqa: N815 (torch's name)

    class Stream:
        def __init__(self, *_args: object, **_kwargs: object) -> None: ...

        def __getattr__(self, name: str) -> Always:
            return Always(None)

    answers: dict[str, Any] = {
        "get_device_properties": Properties,
        "get_device_capability": capability,
        "get_device_name": device.name,
        "current_device": 0,
        "device_count": VISIBLE_DEVICES,
        "is_available": True,
        "is_initialized": False,
        "mem_get_info": (device.memory - GIB, device.memory),
        "current_stream": Stream(),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, Always(answer))
    torch.cuda.Stream = torch.cuda.Event = Stream
    torch.version.cuda = "13.0"
    accelerator: dict[str, Any] = {
        "device_count": VISIBLE_DEVICES,
        "current_accelerator": torch.device("cuda"),
        "is_available": True,
        "current_device_index": 0,
        "current_device_idx": 0,
        "empty_cache": None,
    }
    for name, answer in accelerator.items():
        setattr(torch.accelerator, name, Always(answer))


def _pretend_platform(capability: tuple[int, int], device: Device) -> None:
    import vllm.platforms
    from vllm.platforms.cuda import NonNvmlCudaPlatform
    from vllm.platforms.interface import DeviceCapability

    class Platform(NonNvmlCudaPlatform):  # type: ignore[misc]
        pass

    answers: dict[str, Any] = {
        "get_device_capability": DeviceCapability(*capability),
        "get_device_name": device.name,
        "get_device_total_memory": device.memory,
        "is_fully_connected": True,
        "device_count": VISIBLE_DEVICES,
        "num_compute_units": device.processors,
        "is_integrated_gpu": False,
    }
    for name, answer in answers.items():
        setattr(Platform, name, Always(answer))
    vllm.platforms._current_platform = Platform()


def pretend(capability: str) -> None:
    """Make this process look like one on a GPU of this compute capability."""
    major, minor = (int(part) for part in capability.split("."))
    os.environ |= {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "ERROR"),
        "VLLM_PLUGINS": "",
        "VLLM_HOST_IP": "127.0.0.1",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(VISIBLE_DEVICES))),
    }
    device = DEVICES[capability]
    _pretend_operators()
    sys.meta_path.insert(0, Finder(EXTENSIONS.__contains__, None))
    sys.meta_path.append(Finder(_is_gpu_module, GpuModule))
    _pretend_cuda((major, minor), device)
    _pretend_platform((major, minor), device)

    import vllm.distributed.parallel_state as state
    import vllm.model_executor.models.registry as registry
    import vllm.triton_utils
    import vllm.utils.import_utils as optional
    import vllm.v1.attention.ops.cp_common as context_parallel
    from vllm.model_executor.models.utils import PPMissingLayer

    class Tuning:
        """triton.Config, which is made at import."""

        def __init__(self, kwargs: Any = None, **others: Any) -> None:
            self.kwargs = kwargs or {}
            self.__dict__.update({"num_warps": 4, "num_stages": 3} | others)

    vllm.triton_utils.triton.Config = Tuning
    optional.has_triton_kernels = lambda: True
    optional.get_triton_kernels_version = lambda: "3.6"
    # The class is looked at here and not in a process of its own, which would see no GPU.
    registry._LazyRegisteredModel.inspect_model_cls = lambda self: (
        registry._ModelInfo.from_model_cls(self.load_model_cls())
    )
    registry._try_inspect_model_cls = lambda _, model: model.inspect_model_cls()
    PPMissingLayer.ffn_all_reduce_deferred = False
    for module in (state, context_parallel):  # ranks on other nodes: no kernels across GPUs
        module.in_the_same_node_as = lambda group, **_: [False] * group.world_size


class Group:
    """A process group of `size` ranks of which this process is number `rank`."""

    def __init__(self, size: int, rank: int = 0) -> None:
        import torch

        self.world_size = size
        self.rank = self.rank_in_group = rank
        self.local_rank = self.device_index = 0
        self.ranks = list(range(size))
        self.group_ranks = [self.ranks]
        self.group_name = self.unique_name = "pretended"
        self.device_group = self.cpu_group = _Members(size)
        self.device_communicator = self.mq_broadcaster = None
        self.use_device_communicator = self.use_custom_op_call = False
        self.device = torch.device("meta")
        self.is_first_rank, self.is_last_rank = rank == 0, rank == size - 1
        self.first_rank, self.last_rank = 0, size - 1
        self.next_rank, self.prev_rank = (rank + 1) % size, (rank - 1) % size


class _Members:
    def __init__(self, size: int) -> None:
        self.group_name = "pretended"
        self.world_size = self._size = size

    def size(self) -> int:
        return self._size

    def rank(self) -> int:
        return 0


def form_groups(row: Row, stage: int) -> None:
    """Give vLLM the process groups of a rank in pipeline stage `stage`."""
    import vllm.distributed.parallel_state as state

    dcp = row.options.get("decode_context_parallel_size", 1)
    sizes = {
        "_WORLD": row.tp * row.pp * row.dp,
        "_INNER_DP_WORLD": row.tp * row.pp,
        "_TP": row.tp,
        "_ETP": row.tp,
        "_DP": row.dp,
        "_EP": row.tp * row.dp,
        "_EPLB": row.tp * row.dp,
        "_DCP": dcp,
        "_PCP": 1,
    }
    for name, size in sizes.items():
        setattr(state, name, Group(size))
    state._PP = Group(row.pp, stage)
    state._NODE_COUNT = 1


@contextmanager
def on_meta(dtype: Any) -> Iterator[None]:
    """Everything made within lives on `meta`, also what asks for a GPU."""
    import torch
    from torch.overrides import TorchFunctionMode
    from vllm.utils.torch_utils import set_default_torch_dtype

    def is_gpu(wanted: Any) -> bool:
        named = isinstance(wanted, str) and wanted.startswith("cuda")
        return named or (isinstance(wanted, torch.device) and wanted.type == "cuda")

    class Meta(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = dict(kwargs or {})
            wanted = kwargs.get("device")
            if wanted is not None and (isinstance(wanted, int) or is_gpu(wanted)):
                kwargs["device"] = "meta"
            name = getattr(function, "__name__", "")
            if name == "cuda" or (name == "cpu" and args[0].device.type == "meta"):
                return args[0]
            if name == "device" and args and (isinstance(args[0], int) or args[0] == "cuda"):
                return torch.device("meta")
            if name in ("item", "__float__") and args[0].device.type == "meta":
                return 0.0
            if name == "tolist" and args[0].device.type == "meta":
                return [0.0] * args[0].numel()
            if name == "to":
                args = tuple("meta" if is_gpu(arg) else arg for arg in args)
            return function(*args, **kwargs)

    with set_default_torch_dtype(dtype), torch.device("meta"), Meta():
        yield


# ---- measuring


def weight_bytes(model: Any) -> int:
    """Bytes of the parameters, a tied one counted once."""
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())


def build_draft(config: Any) -> Any:
    """The draft model of speculative decoding, if there is one, and its layers marked."""
    from vllm.compilation.backends import set_model_tag
    from vllm.model_executor.model_loader.utils import initialize_model

    speculative = config.speculative_config
    if speculative is None or speculative.method in WITHOUT_DRAFT:
        return None
    layers = config.compilation_config.static_forward_context
    before = set(layers)
    with set_model_tag("eagle_head"):
        draft = initialize_model(config, model_config=speculative.draft_model_config)
    for name in set(layers) - before:
        layers[name].is_draft_layer = True
    return draft


def cache_specs(config: Any) -> dict[str, Any]:
    """What each layer wants of the KV cache, as the GPU worker collects it."""
    from vllm.config.vllm import get_layers_from_vllm_config
    from vllm.model_executor.layers.attention import Attention
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
    from vllm.v1.kv_cache_interface import AttentionSpec
    from vllm.v1.worker.utils import customize_attention_spec

    specs = {}
    for name, layer in get_layers_from_vllm_config(config, AttentionLayerBase).items():
        if isinstance(layer, Attention) and layer.kv_sharing_target_layer_name:
            continue
        spec = layer.get_kv_cache_spec(config)
        if not spec:
            continue
        if isinstance(spec, AttentionSpec):
            spec = customize_attention_spec(layer.get_attn_backend(), spec)
        specs[name] = replace(spec, is_draft=True) if layer.is_draft_layer else spec
    return specs


def plan_cache(config: Any, stages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The layout of the pool of each pipeline stage, and what one request takes of it."""
    from vllm.utils.math_utils import cdiv
    from vllm.v1.attention.backends.utils import resolve_kv_cache_layout
    from vllm.v1.core import kv_cache_planning as planning
    from vllm.v1.core.kv_cache_config_builder import get_kv_cache_config_builder
    from vllm.v1.kv_cache_interface import UniformTypeKVCacheSpecs
    from vllm.v1.worker import worker_base

    def blocks(spec: Any) -> int:
        if isinstance(spec, UniformTypeKVCacheSpecs):
            return int(spec.max_memory_usage_pages(config))
        return int(cdiv(spec.max_memory_usage_bytes(config), spec.page_size_bytes))

    backends = worker_base.get_current_attn_backends(config)
    layouts = [layout.name for layout in worker_base.get_supported_kv_cache_layouts(backends)]
    resolve_kv_cache_layout(config, [layouts], [spec for one in stages for spec in one.values()])
    everywhere = planning.get_global_kv_cache_groups(config, list(stages))
    config.adjust_dcp_kv_cache_interleave_size(everywhere)
    builder = get_kv_cache_config_builder(config)
    plans = []
    for specs in stages:
        groups = planning._project_kv_cache_groups_to_worker(everywhere, specs)
        per_block = planning._pool_bytes_per_block_from_builder(builder, config, groups)
        plans.append(
            {
                "block_size": config.cache_config.block_size,
                "bytes_per_block": per_block,
                "groups": [
                    [
                        type(group.kv_cache_spec).__name__,
                        len(group.layer_names),
                        group.kv_cache_spec.block_size,
                    ]
                    for group in groups
                ],
                "blocks": [blocks(group.kv_cache_spec) for group in groups],
            }
        )
    return plans


def ends(items: Sequence[T]) -> list[T]:
    """The first and the last of them, once if there is one."""
    return [items[0], items[-1]] if len(items) > 1 else list(items)


def measure(folder: Path, job: Job, row: Row) -> dict[str, Any]:
    """One row of the table: what rank 0 of the first and of the last stage hold."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.platforms import current_platform
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
    from vllm.v1.worker import workspace

    config = EngineArgs(
        model=str(folder),
        served_model_name=job.model_id,
        trust_remote_code=job.plain,
        tensor_parallel_size=row.tp,
        pipeline_parallel_size=row.pp,
        data_parallel_size=row.dp,
        enable_expert_parallel=row.ep,
        load_format="dummy",
        **row.options,
    ).create_engine_config(UsageContext.OPENAI_API_SERVER)
    dtype = config.model_config.dtype
    if not workspace.is_workspace_manager_initialized():
        workspace.init_workspace_manager(torch.device("meta"))
    register_all_kvcache_specs(config)
    weights, stages, draft = [], [], None
    for stage in range(row.pp):
        config.compilation_config.static_forward_context.clear()
        form_groups(row, stage)
        with on_meta(dtype), set_current_vllm_config(config):
            model = initialize_model(config, model_config=config.model_config)
            if stage == row.pp - 1:
                draft = build_draft(config)
        weights.append(weight_bytes(model))
        with set_current_vllm_config(config):
            current_platform.update_block_size_for_backend(config)
            with on_meta(dtype):
                stages.append(cache_specs(config))
    with on_meta(dtype), set_current_vllm_config(config):
        plans = plan_cache(config, stages)
    return {
        "arch": config.model_config.architecture,
        "quant": config.model_config.quantization,
        "weights": ends(weights),
        "draft_weights": weight_bytes(draft) if draft is not None else None,
        "cache": ends(plans) if any(stages) else [],
        "max_model_len": config.model_config.max_model_len,
        "in_flight": config.max_in_flight_tokens,
    }


# ---- models, each in a process of its own


# For a model type that transformers has no class of; vLLM's model reads it like the real one.
PLAIN_CONFIG = """from transformers import PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES


def part(told):
    known = told.get("model_type")
    made = CONFIG_MAPPING[known](**told) if known in CONFIG_MAPPING else PretrainedConfig(**told)
    if not made.architectures and known in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        made.architectures = [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[known]]
    return made


class PlainConfig(PretrainedConfig):
    model_type = MODEL_TYPE

    def __init__(self, **kwargs):
        for name in ("llm_config", "text_config", "vision_config"):
            if isinstance(kwargs.get(name), dict):
                kwargs[name] = part(kwargs[name])
        super().__init__(**kwargs)
        if not getattr(self, "rope_parameters", None):
            theta = kwargs.get("rope_theta") or 10000.0
            self.rope_parameters = dict(rope_type="default", rope_theta=theta)
"""


def write_folder(folder: Path, configs: Path, job: Job) -> None:
    """A model folder as vLLM wants it, from the configuration in `configs`."""
    config = json.loads(config_path(configs, job.model_id).read_text())
    config.pop("auto_map", None)  # no code of others
    quantization = config.pop("_hf_quant_config_json", None)
    if quantization is not None:
        (folder / "hf_quant_config.json").write_text(json.dumps(quantization))
    config |= job.told
    for key in job.without:
        config.pop(key, None)
    if job.plain:
        config["auto_map"] = {"AutoConfig": "plain_config.PlainConfig"}
        code = PLAIN_CONFIG.replace("MODEL_TYPE", repr(config["model_type"]))
        (folder / "plain_config.py").write_text(code)
    (folder / "config.json").write_text(json.dumps(config))


def _measure_rows(sink: Connection, configs: Path, job: Job) -> None:
    with tempfile.TemporaryDirectory() as name:
        write_folder(Path(name), configs, job)
        for row in job.rows:
            try:
                sink.send(measure(Path(name), job, row))
            except Exception as error:
                sink.send({"error": f"{type(error).__name__}: {error}".splitlines()[0]})
    sink.close()


def _measure_models(sink: Connection, configs: Path, jobs: Sequence[Job], limit: float) -> None:
    """Measure models that run on one sort of GPU; a fork per model keeps vLLM imported."""
    pretend(jobs[0].capability)
    import vllm.engine.arg_utils
    import vllm.model_executor.model_loader  # noqa: F401 (imported once for all forks)

    fork = multiprocessing.get_context("fork")
    for job in jobs:
        source, inner = fork.Pipe(duplex=False)
        worker = fork.Process(target=_measure_rows, args=(inner, configs, job))
        worker.start()
        inner.close()
        for row in job.rows:
            try:
                found = source.recv() if source.poll(limit) else {"error": "no answer in time"}
            except EOFError:
                found = {"error": "the process ended"}
            sink.send(((job.model_id, job.capability), row, found))
            if found.get("error") == "no answer in time":
                worker.kill()
        worker.join()
    sink.close()


def measure_all(
    configs: Path, jobs: Iterable[Job], limit: float
) -> Iterator[tuple[tuple[str, str], Row, dict[str, Any]]]:
    """The answers for every row of every job, one process at a time."""
    fork = multiprocessing.get_context("fork")
    for _, same in groupby(sorted(jobs, key=lambda job: job.capability), lambda j: j.capability):
        source, sink = fork.Pipe(duplex=False)
        server = fork.Process(target=_measure_models, args=(sink, configs, list(same), limit))
        server.start()
        sink.close()
        while True:
            try:
                yield source.recv()
            except EOFError:
                break
        server.join()


# ---- the table


def config_path(configs: Path, model_id: str) -> Path:
    return configs / f"{model_id.replace('/', '__')}.json"


def jobs_of(table: Mapping[str, Any]) -> list[Job]:
    """A job for each model and platform of the table."""
    jobs = []
    for model_id, model in table["models"].items():
        by_platform: dict[str, list[Row]] = {}
        for row in model["rows"]:
            layout = Row(**{key: row.get(key, value) for key, value in DEFAULT.items()})
            by_platform.setdefault(row.get("capability", USUAL), []).append(layout)
        told = (model.get("told", {}), model.get("without", []), model.get("plain", False))
        jobs += [Job(model_id, platform, *told, rows) for platform, rows in by_platform.items()]
    return jobs


def new_job(model_id: str, configs: Path, architecture: str | None, plain: bool) -> Job:
    """The usual rows of a model that the table lacks."""
    text = config_path(configs, model_id).read_text()
    layouts = DENSE_LAYOUTS + (EXPERT_LAYOUTS if "expert" in text else [])
    capability = "10.0" if any(word in model_id for word in BLACKWELL_ONLY) else USUAL
    told = {"architectures": [architecture]} if architecture else {}
    return Job(model_id, capability, told, [], plain, [Row(*layout, {}) for layout in layouts])


def table_of(jobs: Sequence[Job], found: Mapping[tuple[str, str], list[Found]]) -> Any:
    """The table of the rows that vLLM built; the others are told on stderr."""
    models: dict[str, Any] = {}
    for job in sorted(jobs, key=lambda job: (job.model_id.lower(), job.capability != USUAL)):
        for row, answer in found.get((job.model_id, job.capability), []):
            if "error" in answer:
                print(f"{job.model_id} {tuple(row)}: {answer['error']}", file=sys.stderr)
                continue
            facts: dict[str, Any] = {"arch": answer["arch"], "quant": answer["quant"]}
            said = {"told": dict(job.told), "without": list(job.without), "plain": job.plain}
            facts |= {key: value for key, value in said.items() if value}
            model = models.setdefault(job.model_id, facts | {"rows": []})
            layout = {key: value for key, value in row._asdict().items() if value != DEFAULT[key]}
            if job.capability != USUAL:
                layout["capability"] = job.capability
            model["rows"].append(layout | {key: answer[key] for key in MEASURED if answer[key]})
    return {"about": ABOUT, "vllm": RELEASE, "models": models}


def text_of(table: Mapping[str, Any]) -> str:
    """JSON with a row per line, so that a difference can be read."""
    head = {key: value for key, value in table.items() if key != "models"}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    blocks = []
    for model_id, model in table["models"].items():
        facts = json.dumps({key: value for key, value in model.items() if key != "rows"})[1:-1]
        rows = ",\n".join(f"      {json.dumps(row)}" for row in model["rows"])
        blocks.append(f'    {json.dumps(model_id)}: {{{facts}, "rows": [\n{rows}\n    ]}}')
    return "\n".join(["{", *lines, '  "models": {', ",\n".join(blocks), "  }", "}"]) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write what vLLM says of bytes per rank.")
    parser.add_argument("--configs", type=Path, required=True, metavar="DIR")
    parser.add_argument("--check", action="store_true", help="compare with the table on disk")
    parser.add_argument("--add", nargs="+", default=[], metavar="MODEL", help="models to add")
    parser.add_argument("--architecture", help="of the added models, if their files lack it")
    parser.add_argument("--plain", action="store_true", help="transformers lacks the added types")
    parser.add_argument("--only", nargs="+", metavar="MODEL", help="leave all others as they are")
    parser.add_argument("--limit", type=float, default=120, help="seconds that a row may take")
    parser.add_argument("--table", type=Path, default=TABLE)
    options = parser.parse_args(argv)
    if version("vllm") != RELEASE:
        parser.error(f"the table is of vLLM {RELEASE}, installed is {version('vllm')}")

    empty: dict[str, Any] = {"models": {}}
    before = json.loads(options.table.read_text()) if options.table.exists() else empty
    jobs = [job for job in jobs_of(before) if not options.only or job.model_id in options.only]
    known = {job.model_id for job in jobs}
    jobs += [
        new_job(name, options.configs, options.architecture, options.plain)
        for name in options.add
        if name not in known
    ]
    found: dict[tuple[str, str], list[Found]] = {}
    for job_of, row, answer in measure_all(options.configs, jobs, options.limit):
        found.setdefault(job_of, []).append((row, answer))
    after = table_of(jobs, found)
    if options.only:
        kept = {name: model for name, model in before["models"].items() if name not in known}
        together = kept | after["models"]
        after["models"] = dict(sorted(together.items(), key=lambda item: item[0].lower()))
    text = text_of(after)
    if options.check:
        same = options.table.exists() and options.table.read_text() == text
        print("the table agrees" if same else "the table differs")
        return 0 if same else 1
    options.table.parent.mkdir(parents=True, exist_ok=True)
    options.table.write_text(text)
    print(f"{len(after['models'])} models, {sum(len(m['rows']) for m in after['models'].values())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

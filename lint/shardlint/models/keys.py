"""Where published configs keep the shape of a model: data, in order of preference.

The names of keys are the vendors'. A dotted key is a path into nested mappings. Model types end
with `*` where a whole family is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

T = TypeVar("T")

OUTER: Final = ("thinker_config",)
TEXT: Final = ("text_config", "llm_config", "language_config")

TYPE_OF: Final = {"Longcat*": "longcat_flash"}
"""Model types of architectures whose configs leave them out."""

LAYERS: Final = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "decoder_layers")
HIDDEN: Final = ("hidden_size", "n_embd", "d_model")
VOCAB: Final = ("vocab_size", "padded_vocab_size")
HEADS: Final = ("num_attention_heads", "n_head", "n_heads", "encoder_attention_heads")
OTHER_HEADS: Final = (
    "swa_num_attention_heads",
    "num_sliding_attention_heads",
    "attention_other_setting.num_attention_heads",
)
KV_HEADS: Final = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_head_kv",
    "num_attention_groups",
    "attn_config.kv_n_heads",
)
KV_HEADS_PER_LAYER: Final = "num_key_value_heads_per_layer"
GLOBAL_KV_HEADS: Final = ("num_global_key_value_heads",)
SLIDING_KV_HEADS: Final = (
    "swa_num_key_value_heads",
    "attention_other_setting.num_attention_groups",
)
HEAD_DIM: Final = ("head_dim", "attention_head_dim", "kv_channels")
GLOBAL_HEAD_DIM: Final = ("global_head_dim",)
SLIDING_HEAD_DIM: Final = ("swa_head_dim", "attention_other_setting.head_dim")
SLIDING_V_HEAD_DIM: Final = ("swa_v_head_dim",)
PER_LAYER: Final = "per_layer_config"

FFN: Final = (
    "intermediate_size",
    "n_inner",
    "ffn_hidden_size",
    "ffn_dim",
    "block_ff_dim",
    "ff_intermediate_size",
    "encoder_ffn_dim",
)
DENSE_FFN: Final = ("intermediate_size_mlp", "dense_intermediate_size")
"""Width of the dense layers where the plain key means the experts."""
EXPERTS: Final = (
    "num_local_experts",
    "n_routed_experts",
    "num_routed_experts",
    "num_experts",
    "moe_num_experts",
    "ffn_config.moe_num_experts",
)
TOP_K: Final = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_k",
    "moe_topk",
    "moe_top_k",
    "top_k_experts",
    "ffn_config.moe_top_k",
)
EXPERT_FFN: Final = (
    "moe_intermediate_size",
    "expert_ffn_hidden_size",
    "ffn_config.ffn_hidden_size",
)
SHARED_FFN: Final = (
    "shared_expert_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "share_expert_dim",
    "shared_intermediate_size",
)
SHARED_EXPERTS: Final = (
    "n_shared_experts",
    "num_shared_experts",
    "moe_num_shared_experts",
    "num_shared_expert",
)
FIRST_DENSE: Final = (
    "first_k_dense_replace",
    "moe_layer_start_index",
    "moe_layer_num_skipped",
    "num_dense_layers",
)
MOE_LAYERS: Final = ("moe_layers", "moe_layers_enum")
EVERY_NTH_IS_MOE: Final = (
    "interleave_moe_layer_step",
    "expert_layer_period",
    "decoder_sparse_step",
    "moe_layer_freq",
)

MAX_LENGTH: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_target_positions",
)
WINDOW: Final = ("sliding_window", "sliding_window_size", "sliding_window_attention_size")
PATTERN: Final = ("sliding_window_pattern", "_sliding_window_pattern")
DTYPE: Final = ("torch_dtype", "dtype")
VISION: Final = ("vision_config", "img_processor", "vision_cfg", "visual")
AUDIO: Final = ("audio_config", "num_mel_bins")
TAKES_MORE_THAN_TEXT: Final = "ForConditionalGeneration"
VISION_HEADS: Final = (
    "num_heads",
    "num_attention_heads",
    "attention_heads",
    "vt_num_attention_heads",
)

LAYER_WORDS: Final = {
    "full_attention": "full",
    "attention": "full",
    "chunked_attention": "chunked",
    "deepseek_sparse_attention": "full",
    "sliding_attention": "window",
    "linear_attention": "none",
    "mamba": "none",
    "conv": "none",
    "mlp": "none",
    "moe": "none",
}
"""What a word of `layer_types` or `layers_block_type` keeps per token."""
HYBRID_MARKS: Final = ("mamba", "ssm_", "linear_attn", "linear_num_", "rwkv", "conv_kernel", "lru_")
"""Parts of keys that tell of layers with a state of fixed size."""

NO_CACHE: Final = (
    "bert",
    "roberta",
    "xlm-roberta",
    "whisper",
    "mamba",
    "mamba2",
    "falcon_mamba",
)
"""No self-attention cache that grows with the text (encoders, pure state space models)."""
WITHOUT_CACHE: Final = tuple(item for item in NO_CACHE if item != "whisper")
"""Nothing is kept per token; what the decoder of Whisper keeps is not counted here."""
STATE_SPACE: Final = ("mamba", "mamba2", "falcon_mamba")
ATTENTION_BESIDE_STATE: Final = ("falcon_h1",)
"""Attention and a state space block in every layer."""
TWO_ATTENTIONS: Final = ("longcat*",)
FALCON: Final = ("falcon",)

SLIDING_EVERY: Final = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3_text": 6,
    "gemma3n_text": 5,
    "gemma4_text": 6,
    "gpt_oss": 2,
    "cohere2": 4,
    "exaone4": 4,
    "olmo3": 4,
}
"""Every n-th layer is full, the others slide, where the config does not say so itself."""
WINDOW_OF: Final = {"gpt_oss": 128, "gemma2": 4096, "olmo3": 4096}
"""The window where the config leaves the key out."""
ALL_SLIDE: Final = ("mistral", "mixtral", "phi3*", "phi4", "phimoe", "starcoder2")
"""A window that the config names without a pattern is one for all layers."""
CHUNK_OF: Final = {"llama4*": 8192}
"""Tokens of a chunk of attention where the config leaves the key out."""
NO_ROPE_EVERY: Final = 4
"""Every n-th layer of Llama 4 has no positions, where the config does not list them."""
INDEXED_RATIO: Final = 4
"""Layers of DeepSeek-V4 with this ratio choose among their entries by a key."""
FULL_EVERY: Final = {"qwen3_next": 4, "qwen3_5*": 4}
"""Every n-th layer is attention, the others keep a fixed state."""

ALL_MOE: Final = (
    "mixtral",
    "olmoe",
    "phimoe",
    "qwen2_moe",
    "qwen3_moe",
    "qwen3_vl_moe*",
    "qwen3_next",
    "qwen3_5_moe*",
    "gpt_oss",
    "minimax_m2",
    "minimax_text_01",
    "dbrx",
    "granitemoe",
    "granitemoehybrid",
    "deepseek_v4",
)
"""Every layer is a mixture of experts unless the config names dense ones."""
DENSE_BESIDE_MOE: Final = ("gemma4_text", "longcat*")
"""Every layer has a dense block beside its experts."""
LLAMA4: Final = ("llama4*",)
"""One shared expert of the experts' width in every mixture layer, without a key for it."""
TWICE_THE_FFN: Final = ("qwen",)
"""`intermediate_size` is twice the width of each of the two parts."""
FOUR_TIMES_HIDDEN: Final = ("gpt2", "gptj", "gpt_bigcode", "phi-msft")
"""The FFN is 4 × hidden where its key is null."""
OWN_HEAD_DIM: Final = ("gemma*", "qwen3*", "gpt_oss", "mimo_v2*", "deepseek_v4")
"""The default of the class is a number of its own, not hidden / heads."""
LENGTH_IN_TOKENIZER_KEY: Final = ("cohere*",)
"""`model_max_length` is the true length, `max_position_embeddings` an older one."""

TIED: Final = (
    "gemma*",
    "cohere*",
    "gpt2",
    "gpt_bigcode",
    "bloom",
    "opt",
    "mpt",
    "falcon",
    "starcoder2",
    "lfm2*",
    "bitnet",
    "hunyuan*",
    "ernie4_5*",
    "smollm3",
    "whisper",
)
UNTIED: Final = ("llama*", "qwen2*", "qwen3*", "mistral*", "phi3*", "deepseek*", "glm*")
"""Defaults of `tie_word_embeddings`."""

NESTED_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "llama": {
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "intermediate_size": 11008,
        "vocab_size": 32000,
        "max_position_embeddings": 2048,
    }
}
"""What a nested text part leaves out when it equals the default of its class."""


def is_one_of(model_type: str | None, types: tuple[str, ...]) -> bool:
    return model_type is not None and any(fnmatchcase(model_type, item) for item in types)


def by_type(model_type: str | None, table: Mapping[str, T]) -> T | None:
    """What a table gives for a model type or its family."""
    if model_type is None:
        return None
    return next((value for item, value in table.items() if fnmatchcase(model_type, item)), None)

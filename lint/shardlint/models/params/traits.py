"""What sets one model type apart from the plain decoder: data, by the type of the text part."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal, TypeAlias

from shardlint.matrices import Where
from shardlint.models.keys import by_type
from shardlint.record import record

Keys: TypeAlias = tuple[str, ...]

Say: TypeAlias = tuple[Keys, bool]
"""Keys that say yes or no, and what holds when none of them is there."""

YES: Final[Say] = ((), True)
NO: Final[Say] = ((), False)


@record(kw_only=True)
class Traits:
    """A decoder with grouped attention and a gated FFN, and how a type differs from it.

    `norms` counts the norms of one layer that are as wide as the model; `norm_bias`: each has a
    bias too. `state` names the block of layers without attention, `beside` that block in the layers
    with it. `window_heads` are the query heads of sliding layers where an abridged config leaves
    them out. `own` names the stack of a type that is not built of such layers at all.

    Where vllm 0.33.0 differs by class: a `qk_norm` as wide as all heads is whole on each rank
    ("full") or cut with them ("cut"); `router_element` is the number of bytes of an element of the
    router where it is not in the type of the model; `cut_draft`: the matrix that joins the inputs
    of a draft block is cut; `embedded_twice`: the vision tower holds the embedding once more;
    `whole_ffn`: the FFN is not cut.
    """

    norms: int = 2
    norm_bias: bool = False
    final_norm: bool = True
    qkv_bias: Say = (("attention_bias",), False)
    out_bias: Say = (("attention_bias",), False)
    qk_norm: Literal["head", "full", "cut"] | None = None
    qk_norm_said: Say = YES
    mla: bool = False
    indexer: bool = False
    query_gate: Say = NO
    sinks: Say = NO
    gated: bool = True
    mlp_bias: Say = (("mlp_bias",), False)
    head_bias: Where | None = None
    positions: bool = False
    router_bias: Say = NO
    router_element: int = 0
    shared_gate: bool = False
    expert_bias: bool = False
    state: Literal["delta", "kda", "mamba", "mamba2", "lightning", "conv"] | None = None
    beside: Literal["mamba2"] | None = None
    per_layer: int = 0
    head_gate: bool = False
    block_indexer: bool = False
    window_sinks: Say | None = None
    window_heads: int | None = None
    draft: Literal["copies", "plain", "heads"] | None = None
    always_drafts: bool = False
    cut_draft: bool = False
    embedded_twice: bool = False
    whole_ffn: bool = False
    own: str | None = None


PLAIN: Final = Traits()
BIASED: Final = Traits(qkv_bias=YES, out_bias=YES, mlp_bias=YES, gated=False, norm_bias=True)
"""Biases everywhere, an FFN without a gate, norms with a bias: the older decoders."""
QKV: Final = Traits(qkv_bias=YES, out_bias=NO)
QKV_SAID: Final = Traits(out_bias=NO)
HEAD_NORM: Final = Traits(qk_norm="head")
FULL_NORM: Final = Traits(qk_norm="full")
LATENT: Final = Traits(mla=True, router_bias=YES, draft="copies")
SPARSE: Final = replace(LATENT, indexer=True)
MOE_QKV: Final = replace(QKV, shared_gate=True)
DELTA: Final = Traits(
    qk_norm="head", query_gate=YES, state="delta", shared_gate=True, draft="plain", cut_draft=True
)
EXAONE: Final = replace(HEAD_NORM, draft="plain", cut_draft=True)
STEP: Final = Traits(
    qk_norm="head", router_bias=YES, router_element=4, draft="heads", head_gate=True,
    window_heads=96,
)  # fmt: skip
BAILING: Final = Traits(
    qkv_bias=(("use_qkv_bias",), False),
    out_bias=(("use_bias",), False),
    qk_norm="head",
    qk_norm_said=(("use_qk_norm",), False),
    router_bias=(("moe_router_enable_expert_bias",), False),
    draft="plain",
)

TRAITS: Final[dict[str, Traits]] = {
    **dict.fromkeys(("llama", "mistral", "ministral3", "granite", "granitemoe", "smollm3"), PLAIN),
    **dict.fromkeys(("phi3", "phi4", "minicpm", "baichuan", "exaone", "deepseek"), PLAIN),
    **dict.fromkeys(("yi", "deci", "mixtral", "dbrx", "gemma", "llama4_text"), PLAIN),
    "granitemoeshared": PLAIN,
    "phi3_v": Traits(embedded_twice=True),
    **dict.fromkeys(("qwen2", "qwen2_vl*", "qwen2_5_vl*", "qwen2_5_omni_text"), QKV),
    "mimo": replace(QKV_SAID, draft="plain"),
    "seed_oss": Traits(qkv_bias=(("attention_bias",), True),
                       out_bias=(("attention_out_bias",), False)),
    "qwen": QKV,
    "chatglm": Traits(qkv_bias=(("add_qkv_bias",), True), out_bias=NO),
    "glm": Traits(qkv_bias=(("attention_bias",), True), out_bias=NO),
    "glm4": replace(QKV_SAID, norms=4),
    "glm4v_text": replace(QKV, norms=4),
    "glm4v_moe_text": replace(QKV, router_bias=YES, router_element=4),
    "internlm": Traits(qkv_bias=(("bias",), True), out_bias=(("bias",), True)),
    "internlm2": Traits(qkv_bias=(("bias",), False), out_bias=(("bias",), False)),
    "internlm3": Traits(qkv_bias=(("qkv_bias",), False), out_bias=(("bias",), False),
                        mlp_bias=(("bias",), False)),
    "ernie4_5": Traits(qkv_bias=(("use_bias",), False), out_bias=(("use_bias",), False),
                       mlp_bias=(("use_bias",), False)),
    "ernie4_5_moe": Traits(qkv_bias=(("use_bias",), False), out_bias=(("use_bias",), False),
                            mlp_bias=(("use_bias",), False), router_bias=YES,
                            router_element=4),
    **dict.fromkeys(("qwen3", "qwen3_vl_text", "qwen3_moe", "qwen3_vl_moe_text"), HEAD_NORM),
    **dict.fromkeys(("qwen3_omni_moe_text", "hunyuan_v1_dense", "hunyuan_v1_moe"), HEAD_NORM),
    "hunyuan": replace(HEAD_NORM, qk_norm_said=(("use_qk_norm",), True)),
    "gemma2": Traits(norms=4),
    **dict.fromkeys(("gemma3", "gemma3_text"), replace(HEAD_NORM, norms=4)),
    "gemma3n_text": Traits(own="gemma3n"),
    "gemma4_text": Traits(own="gemma4"),
    **dict.fromkeys(("cohere", "cohere2"),
                    Traits(norms=1, qk_norm="cut", qk_norm_said=(("use_qk_norm",), False))),
    "olmo": Traits(norms=0, final_norm=False),
    **dict.fromkeys(("olmo2", "olmo3", "olmoe"), FULL_NORM),
    "exaone4": HEAD_NORM,
    "exaone4_5_text": EXAONE,
    "exaone_moe": replace(EXAONE, router_bias=YES),
    "orion": Traits(norm_bias=True),
    "stablelm": Traits(qkv_bias=(("use_qkv_bias",), False), out_bias=NO, norm_bias=True,
                       qk_norm="full", qk_norm_said=(("qk_layernorm",), False)),
    "phi": replace(BIASED, norms=1, head_bias="checkpoint"),
    "phi-msft": replace(BIASED, norms=1, head_bias="checkpoint"),
    "phi3small": replace(BIASED, gated=True),
    "phimoe": Traits(qkv_bias=(("attention_bias",), True), out_bias=(("attention_bias",), True),
                     norm_bias=True, head_bias="both"),
    "gpt_neox": BIASED,
    "gpt2": replace(BIASED, positions=True),
    "gpt_bigcode": replace(BIASED, positions=True, whole_ffn=True),
    "gptj": Traits(gated=False, norms=1, norm_bias=True, mlp_bias=YES, head_bias="both"),
    "opt": Traits(own="opt"),
    "bloom": Traits(own="bloom"),
    "starcoder2": Traits(qkv_bias=(("use_bias",), True), out_bias=(("use_bias",), True),
                         mlp_bias=(("use_bias",), True), gated=False, norm_bias=True),
    "falcon": Traits(own="falcon"),
    "mpt": Traits(gated=False),
    "nemotron": Traits(gated=False, norm_bias=True),
    "arcee": Traits(gated=False),
    "apertus": replace(HEAD_NORM, gated=False, per_layer=2),
    "bitnet": Traits(own="bitnet"),
    "nemotron-nas": Traits(own="nemotron_nas"),
    "qwen2_moe": MOE_QKV,
    "gpt_oss": Traits(qkv_bias=(("attention_bias",), True), out_bias=(("attention_bias",), True),
                      sinks=YES, expert_bias=True),
    "deepseek_v2": replace(LATENT, router_bias=NO, draft=None),
    **dict.fromkeys(("deepseek_v3", "kimi_k2"), LATENT),
    "glm4_moe_lite": replace(LATENT, draft="copies"),
    "mistral4": replace(LATENT, router_bias=NO, draft=None),
    "deepseek_v32": SPARSE,
    "glm_moe_dsa": replace(SPARSE, draft="plain"),
    **dict.fromkeys(("deepseek_v4", "deepseek_ref"), Traits(own="deepseek_v4")),
    "glm4_moe": Traits(out_bias=NO, qk_norm="head", qk_norm_said=(("use_qk_norm",), False),
                       router_bias=YES, router_element=4, draft="copies"),
    "minimax_m2": Traits(qk_norm="cut", router_bias=(("use_routing_bias",), True),
                         router_element=4),
    **dict.fromkeys(("minimax_m3", "minimax_m3_vl*"),
                    replace(HEAD_NORM, router_bias=(("use_routing_bias",), True),
                            router_element=4, block_indexer=True)),
    **dict.fromkeys(("minimax_text_01", "minimax_m1", "minimax"), Traits(state="lightning")),
    **dict.fromkeys(("bailing_moe", "bailing_moe_v2"), BAILING),
    "mimo_v2*": Traits(out_bias=NO, router_bias=YES, router_element=4,
                       window_sinks=(("add_swa_attention_sink_bias",), False),
                       sinks=(("add_full_attention_sink_bias",), False)),
    **dict.fromkeys(("step3p5", "step3p7*"), STEP),
    "qwen3_next": replace(DELTA, always_drafts=True),
    "qwen3_5*": DELTA,
    "kimi_linear": Traits(mla=True, router_bias=YES, state="kda"),
    "granitemoehybrid": Traits(state="mamba2"),
    "jamba": Traits(state="mamba"),
    "falcon_h1": Traits(beside="mamba2"),
    "falcon_mamba": Traits(own="mamba"),
    "mamba": Traits(own="mamba"),
    "mamba2": Traits(own="mamba2"),
    "nemotron_h": Traits(own="nemotron_h"),
    "lfm2*": Traits(qk_norm="head", state="conv", router_bias=(("use_expert_bias",), False)),
    "longcat_flash": Traits(own="longcat", router_element=4),
    "mllama_text_model": Traits(own="mllama"),
    **dict.fromkeys(("bert", "roberta", "xlm-roberta"), Traits(own="bert")),
    "whisper": Traits(own="whisper"),
}  # fmt: skip


def traits_of(model_type: str | None) -> Traits | None:
    """None for a type whose formula is not known."""
    if model_type in TRAITS:
        return TRAITS[model_type or ""]
    return by_type(model_type, TRAITS)

"""Models whose blocks carry a state from token to token: LFM2 (Liquid AI 2025) with experts and without, Mamba and
Mamba-2 (Gu and Dao 2023, 2024), Falcon Mamba (TII 2024), RWKV 4 (Peng et al. 2023).

LFM2 has short convolutions in most layers, and attention in the others. Mamba has neither attention nor feed-forward
layers. A layer of RWKV is two blocks here, each with a state of its own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.features.open.architecture import Architecture, Change, Rule, Setting, Tensor, weight_and_bias
from chainrule.features.open.architectures.llama import LLAMA, MIXTRAL, QUERY_KEY_GAINS, with_experts
from chainrule.features.open.architectures.llama_kin import with_defaults, with_settings
from chainrule.features.open.architectures.shared_experts import ROUTED, after_dense
from chainrule.features.open.network.config import OpenSettings, OpenTransformerConfig
from chainrule.features.open.positions import rotary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Json = dict[str, Any]

_BLOCK, _LAYER = "encoder.blocks.{layer}.", "model.layers.{layer}."
_FED = _BLOCK + "feed_forward."
_FULL = "full_attention"


def mixers(other: str, ours: str, is_full: Callable[[Json, int], bool], *fields: str) -> Rule:
    """Return the rule of layer_types. other: their name of the layers without attention. is_full: where there is
    none.
    """

    def read(config: Json) -> Json:
        layers, types = config["num_hidden_layers"], config.get("layer_types")
        if types is None:
            types = [_FULL if is_full(config, layer) else other for layer in range(layers)]
        if len(types) != layers or not {_FULL, other} >= set(types):
            raise ValueError(f"they name {len(types)} layers, or other types than {_FULL} and {other}")
        return {"mixers": tuple("attention" if kind == _FULL else ours for kind in types)}

    def write(config: OpenSettings) -> Json:
        types = [_FULL if config.mixer(layer) == "attention" else other for layer in range(config.layers)]
        return {"layer_types": types}

    return Rule(("layer_types", *fields), read, write)


def _read_width(config: Json) -> Json:
    """Return the width of LFM2's feed-forward layers: two thirds of the number in the file, rounded up."""
    width = config.get("block_ff_dim") or config.get("intermediate_size", 12_288)
    if config.get("block_auto_adjust_ff_dim", True):
        width = int(2 * width / 3)
        multiplier = config.get("block_ffn_dim_multiplier")
        width = width if multiplier is None else int(multiplier * width)
        step = config.get("block_multiple_of", 256)
        width = step * -(-width // step)
    return {"feed_forward_width": width}


def _write_width(config: OpenSettings) -> Json:
    return {"intermediate_size": config.hidden_width, "block_auto_adjust_ff_dim": False}


_OF_MIXTURE = ("num_dense_layers", "num_experts", "moe_intermediate_size", "intermediate_size")
_WIDTHS = ("intermediate_size", "block_ff_dim", "block_auto_adjust_ff_dim", "block_ffn_dim_multiplier")


def _renamed(names: Mapping[str, str], rows: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    def rename(name: str) -> str:
        for old, new in names.items():
            name = name.replace(old, new)
        return name

    return tuple(
        row._replace(theirs=rename(row.theirs) if isinstance(row.theirs, str) else tuple(map(rename, row.theirs)))
        for row in rows
    )


_LFM2_NAMES = {
    "input_layernorm": "operator_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.o_proj": "self_attn.out_proj",
    "self_attn.q_norm": "self_attn.q_layernorm",
    "self_attn.k_norm": "self_attn.k_layernorm",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.up_proj": "feed_forward.w3",
    "mlp.down_proj": "feed_forward.w2",
    "model.norm": "model.embedding_norm",
}

LFM2 = replace(
    LLAMA,
    model_type="lfm2",
    class_name="Lfm2ForCausalLM",
    implied={**LLAMA.implied, "query_key_norm": True, "feed_forward": "swiglu"},
    settings=(
        Setting("num_hidden_layers", "layers"),
        Setting("hidden_size", "width"),
        Setting("num_attention_heads", "heads"),
        Setting("num_key_value_heads", "key_value_heads", 8),
        Rule((*_WIDTHS, "block_multiple_of"), _read_width, _write_width),
        Setting("max_position_embeddings", "context", 128_000),
        Setting("norm_eps", "norm_epsilon", 1e-5),
        Rule(
            ("tie_word_embeddings", "tie_embedding"),
            lambda config: {"tied": config.get("tie_embedding", config.get("tie_word_embeddings", True))},
            lambda config: {"tie_word_embeddings": config.tied},
        ),
        Setting("conv_bias", "recurrence_biases", False),
        Setting("conv_L_cache", "recurrence_kernel", 3),
        mixers(
            *("conv", "convolution", lambda config, layer: layer in (config.get("full_attn_idxs") or [layer])),
            "full_attn_idxs",
        ),
        rotary(base=1e6),
    ),
    tensors=(
        *_renamed(_LFM2_NAMES, (*LLAMA.tensors, *QUERY_KEY_GAINS)),
        *weight_and_bias(_BLOCK + "recurrence.into", _LAYER + "conv.in_proj"),
        *weight_and_bias(_BLOCK + "recurrence.convolution", _LAYER + "conv.conv"),
        *weight_and_bias(_BLOCK + "recurrence.out", _LAYER + "conv.out_proj"),
    ),
    ignored=(
        *("block_mlp_init_scale", "block_norm_eps", "block_out_init_scale", "block_use_swiglu", "block_dim"),
        *("block_use_xavier_init", "conv_dim", "conv_dim_out", "conv_use_xavier_init", "use_pos_enc", "num_heads"),
    ),
)


LFM2_MOE = replace(
    LFM2,
    model_type="lfm2_moe",
    class_name="Lfm2MoeForCausalLM",
    implied={**LFM2.implied, "router": "sigmoid", "expert_epsilon": 1e-6},
    settings=(
        *with_settings(LFM2.settings, leave_out=_WIDTHS),
        after_dense(2, 32, 1792, 7168, fields=_OF_MIXTURE),
        *with_settings(with_defaults(ROUTED, {"num_experts_per_tok": 4}), leave_out=("n_group", "topk_group")),
        Setting("use_expert_bias", "router_shift", True),
    ),
    tensors=(
        *LFM2.tensors,
        *(
            row
            for row in with_experts("feed_forward.gate", "feed_forward.experts.{expert}", ("w1", "w3", "w2"))
            if row.ours.startswith(_FED)
        ),
        Tensor(_FED + "shift", _LAYER + "feed_forward.expert_bias"),
    ),
    ignored=(*LFM2.ignored, *MIXTRAL.ignored),
)

# A matrix that no product uses, as the first and only one of its kind.
_ALONE = Change(lambda tensors, config: tensors[0][None], lambda array, config: [array[0]])


def _read_steps(config: Json) -> Json:
    width, rank = config["hidden_size"], config.get("time_step_rank", "auto")
    return {
        "recurrence_width": int(config.get("expand", 2) * width),
        "step_rank": math.ceil(width / 16) if rank == "auto" else rank,
        "mixers": ("mamba",) * config["num_hidden_layers"],
    }


def _write_steps(config: OpenSettings) -> Json:
    return {
        "expand": config.recurrence_width / config.width,
        "intermediate_size": config.recurrence_width,
        "time_step_rank": config.step_rank,
    }


_SELECTION, _STEP, _DECAY = (_BLOCK + f"recurrence.{name}" for name in ("selection", "step", "log_decay"))
_MIXER = "backbone.layers.{layer}.mixer."

MAMBA = Architecture(
    model_type="mamba",
    class_name="MambaForCausalLM",
    family="transformer",
    config=OpenTransformerConfig,
    implied={
        **LLAMA.implied,
        "has_feed_forward": False,
        "heads": 1,
        "context": 2048,
        "positions": "none",
        "biases": False,
    },
    settings=(
        Setting("num_hidden_layers", "layers"),
        Setting("hidden_size", "width"),
        Setting("state_size", "state_width", 16),
        Setting("conv_kernel", "recurrence_kernel", 4),
        Setting("layer_norm_epsilon", "norm_epsilon", 1e-5),
        Setting("use_bias", "recurrence_biases", False),
        Setting("use_conv_bias", "kernel_bias", True),
        Setting("tie_word_embeddings", "tied", True),
        Rule(("expand", "time_step_rank", "intermediate_size"), _read_steps, _write_steps),
    ),
    tensors=(
        Tensor("embedding.weight", "backbone.embeddings.weight", by_token=True),
        Tensor(_BLOCK + "norms.0.weight", "backbone.layers.{layer}.norm.weight"),
        *weight_and_bias(_BLOCK + "recurrence.into", _MIXER + "in_proj"),
        *weight_and_bias(_BLOCK + "recurrence.convolution", _MIXER + "conv1d"),
        Tensor(_BLOCK + "recurrence.selection.weight", _MIXER + "x_proj.weight"),
        *weight_and_bias(_BLOCK + "recurrence.step", _MIXER + "dt_proj"),
        Tensor(_BLOCK + "recurrence.log_decay", _MIXER + "A_log", _ALONE),
        Tensor(_BLOCK + "recurrence.skip", _MIXER + "D"),
        *weight_and_bias(_BLOCK + "recurrence.out", _MIXER + "out_proj"),
        Tensor("encoder.norm.weight", "backbone.norm_f.weight"),
        Tensor("output.weight", "lm_head.weight", by_token=True),
    ),
    fixed={"hidden_act": "silu"},
    ignored=(
        *("residual_in_fp32", "rescale_prenorm_residual", "use_mambapy", "use_associative_scan", "time_step_scale"),
        *("time_step_min", "time_step_max", "time_step_init_scheme", "time_step_floor", "d_inner", "d_model"),
        *("fused_add_norm", "n_layer", "rms_norm", "ssm_cfg", "pad_vocab_size_multiple"),
    ),
    prefix="backbone.",
)


FALCON_MAMBA = replace(
    MAMBA,
    model_type="falcon_mamba",
    class_name="FalconMambaForCausalLM",
    settings=(*MAMBA.settings, Setting("mixer_rms_eps", "selection_epsilon", 1e-6)),
    ignored=(*MAMBA.ignored, "use_falcon_mambapy"),
)


def check_steps(config: Json) -> None:
    """Raise ValueError where steps have limits."""
    low, high = config.get("time_step_limit") or (0.0, math.inf)
    high = math.inf if isinstance(high, dict) else high  # transformers' spelling of infinity
    if (low, high) != (0.0, math.inf):
        raise ValueError(f"{low} and {high} are not supported; expected 0 and infinity")


def _read_heads(config: Json) -> Json:
    check_steps(config)
    width, heads = int(config.get("expand", 2) * config["hidden_size"]), config.get("num_heads", 128)
    if heads * config.get("head_dim", 64) != width:
        raise ValueError(
            f"{heads} heads of {config.get('head_dim', 64)} numbers are not {width}, expand times the width"
        )
    return {
        "recurrence_width": width,
        "recurrence_heads": heads,
        "mixers": ("mamba2",) * config["num_hidden_layers"],
    }


def _write_heads(config: OpenSettings) -> Json:
    heads, width = config.recurrence_heads, config.recurrence_width
    return {"expand": width / config.width, "num_heads": heads, "head_dim": width // heads}


def mamba2_heads(mixer: str) -> tuple[Tensor, ...]:
    """Return the tensors that Mamba-2 has for heads. mixer: what their names begin with."""
    return (
        Tensor(_BLOCK + "recurrence.step_bias", mixer + "dt_bias"),
        Tensor(_DECAY, mixer + "A_log"),
        Tensor(_BLOCK + "recurrence.gain", mixer + "norm.weight"),
    )


def mamba2(mixer: str) -> tuple[Tensor, ...]:
    """Return the tensors of Mamba-2 in a block. mixer: as above."""
    return (
        *weight_and_bias(_BLOCK + "recurrence.into", mixer + "in_proj"),
        *weight_and_bias(_BLOCK + "recurrence.convolution", mixer + "conv1d"),
        Tensor(_BLOCK + "recurrence.skip", mixer + "D"),
        *weight_and_bias(_BLOCK + "recurrence.out", mixer + "out_proj"),
        *mamba2_heads(mixer),
    )


MAMBA2 = replace(
    MAMBA,
    model_type="mamba2",
    class_name="Mamba2ForCausalLM",
    settings=(
        *(row for row in MAMBA.settings if isinstance(row, Setting) and row.theirs not in ("tie_word_embeddings",)),
        Setting("tie_word_embeddings", "tied", False),
        Setting("n_groups", "recurrence_key_heads", 8),
        Rule(("expand", "num_heads", "head_dim", "time_step_limit"), _read_heads, _write_heads),
    ),
    tensors=(
        *(row for row in MAMBA.tensors if not row.ours.startswith((_SELECTION, _STEP, _DECAY))),
        *mamba2_heads(_MIXER),
    ),
    ignored=(*MAMBA.ignored, "chunk_size", "time_step_rank", "intermediate_size"),
)


def _read_halves(config: Json) -> Json:
    layers, width = config["num_hidden_layers"], config["hidden_size"]
    return {
        "layers": 2 * layers,
        "mixers": ("rwkv", "rwkv_channels") * layers,
        "recurrence_width": config.get("attention_hidden_size") or width,
        "feed_forward_width": config.get("intermediate_size") or 4 * width,
    }


def _write_halves(config: OpenSettings) -> Json:
    return {
        "num_hidden_layers": config.layers // 2,
        "attention_hidden_size": config.recurrence_width,
        "intermediate_size": config.hidden_width,
    }


_SHARES = Change(lambda tensors, config: np.concatenate(tensors), lambda array, config: np.split(array, len(array)))


def _is_first_half(config: OpenSettings, layer: int) -> bool:
    return layer % 2 == 0


def _is_second_half(config: OpenSettings, layer: int) -> bool:
    return layer % 2 == 1


def _half(part: str, norm: str, is_own: Callable[[OpenSettings, int], bool], **names: str) -> tuple[Tensor, ...]:
    """Return the tensors of one of two blocks. part, norm: their names in a layer of theirs. names: theirs, by ours."""
    theirs, ours = f"rwkv.blocks.{{half}}.{part}.", _BLOCK + "recurrence."
    shares = ("key", "value", "receptance") if part == "attention" else ("key", "receptance")
    own = {"key.weight": "key.weight", "value.weight": "value.weight", "gate.weight": "receptance.weight", **names}
    return (
        *(
            Tensor(f"{_BLOCK}norms.0.{kind}", f"rwkv.blocks.{{half}}.{norm}.{kind}", in_layer=is_own)
            for kind in ("weight", "bias")
        ),
        Tensor(f"{ours}shift.shares", tuple(f"{theirs}time_mix_{name}" for name in shares), _SHARES, in_layer=is_own),
        *(Tensor(ours + name, theirs + other, in_layer=is_own) for name, other in own.items()),
    )


RWKV = Architecture(
    model_type="rwkv",
    class_name="RwkvForCausalLM",
    family="transformer",
    config=OpenTransformerConfig,
    implied={
        **LLAMA.implied,
        "has_feed_forward": False,
        "heads": 1,
        "context": 2048,
        "positions": "none",
        "norm": "layer",
        "biases": True,
        "embedding_norm": True,
    },
    settings=(
        Setting("hidden_size", "width"),
        Setting("layer_norm_epsilon", "norm_epsilon", 1e-5),
        Setting("tie_word_embeddings", "tied", False),
        Rule(("num_hidden_layers", "attention_hidden_size", "intermediate_size"), _read_halves, _write_halves),
    ),
    tensors=(
        Tensor("embedding.weight", "rwkv.embeddings.weight", by_token=True),
        *weight_and_bias("embedding.norm", "rwkv.blocks.0.pre_ln"),
        *_half(
            "attention",
            "ln1",
            _is_first_half,
            **{"log_decay": "time_decay", "first": "time_first", "out.weight": "output.weight"},
        ),
        *_half("feed_forward", "ln2", _is_second_half),
        *weight_and_bias("encoder.norm", "rwkv.ln_out"),
        Tensor("output.weight", "head.weight", by_token=True),
    ),
    ignored=("context_length", "max_position_embeddings", "rescale_every"),  # the last halves all, against float16
    prefix="rwkv.",
)

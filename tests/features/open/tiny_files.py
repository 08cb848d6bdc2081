"""Tiny models of transformers, written as ggml and llama2.c have them."""

from __future__ import annotations

import json
import struct
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from tiny_models import CAUSAL, save, shaken, tiny

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tokenizers import Tokenizer

# Where llama.cpp's converter puts the halves of heads that rotate together beside each other.
_PAIRED = ("llama", "smollm3", "granite", "olmo")
_KINDS = {"gemma3_text": "gemma3", "phi": "phi2", "cohere": "command-r", "olmo3": "olmo2", "mixtral": "llama"}
_KINDS |= {"qwen3_moe": "qwen3moe", "gpt_neox": "gptneox", "gpt_oss": "gpt-oss", "qwen3_5_text": "qwen35"}
_KINDS |= {"gemma4_text": "gemma4"}
# Fields of a configuration -> the writer's methods, where the file says them.
_FIELDS = {
    "num_hidden_layers": "add_block_count",
    "max_position_embeddings": "add_context_length",
    "hidden_size": "add_embedding_length",
    "intermediate_size": "add_feed_forward_length",
    "num_attention_heads": "add_head_count",
    "num_key_value_heads": "add_head_count_kv",
    "rms_norm_eps": "add_layer_norm_rms_eps",
    "norm_eps": "add_layer_norm_rms_eps",
    "conv_L_cache": "add_shortconv_l_cache",
    "layer_norm_eps": "add_layer_norm_eps",
    "norm_epsilon": "add_layer_norm_eps",
    "sliding_window": "add_sliding_window",
    "attn_logit_softcapping": "add_attn_logit_softcapping",
    "final_logit_softcapping": "add_final_logit_softcapping",
    "embedding_multiplier": "add_embedding_scale",
    "residual_multiplier": "add_residual_scale",
    "attention_multiplier": "add_attention_scale",
    "logits_scaling": "add_logit_scale",
    "logit_scale": "add_logit_scale",
    "moe_intermediate_size": "add_expert_feed_forward_length",
    "num_experts_per_tok": "add_expert_used_count",
    "num_local_experts": "add_expert_count",
    "num_experts": "add_expert_count",
    "top_k_experts": "add_expert_used_count",
    "use_parallel_residual": "add_parallel_residual",
    "layer_types": "add_sliding_window_pattern",
    "layer_norm_epsilon": "add_layer_norm_eps",
    "seq_length": "add_context_length",
    "linear_conv_kernel_dim": "add_ssm_conv_kernel",
    "linear_key_head_dim": "add_ssm_state_size",
    "linear_num_key_heads": "add_ssm_group_count",
    "linear_num_value_heads": "add_ssm_time_step_rank",
    "full_attention_interval": "add_full_attention_interval",
}


def _add_scored_pieces(writer: gguf.GGUFWriter, pieces: dict[str, int], rows: int) -> None:
    """A tokenizer of SentencePiece's kind: these pieces with their types, and one for each byte, up to so many rows."""
    kinds = {"</s>": 3, "<s>": 3, "<unk>": 2, **pieces, **{f"<0x{byte:02X}>": 6 for byte in range(256)}}
    kinds |= {f"<unused{number}>": 5 for number in range(len(kinds), rows)}
    writer.add_tokenizer_model("llama")
    writer.add_token_list(list(kinds))
    writer.add_token_types(list(kinds.values()))
    writer.add_token_scores([-float(number) for number in range(len(kinds))])
    writer.add_unk_token_id(2)


def _add_gemma4(writer: gguf.GGUFWriter, config: Any) -> None:
    """What Gemma 4's layers have of their own, as llama.cpp's converter writes it."""
    full, sliding = (config.rope_parameters[kind] for kind in ("full_attention", "sliding_attention"))
    writer.add_rope_freq_base(full["rope_theta"])
    writer.add_rope_freq_base_swa(sliding["rope_theta"])
    own = next(iter(config.per_layer_config.values()))
    widths = own["head_dim"], config.head_dim
    for width, ending in zip(widths, ("", "_swa"), strict=True):
        getattr(writer, f"add_key_length{ending}")(width)
        getattr(writer, f"add_value_length{ending}")(width)
    writer.add_rope_dimension_count(widths[0])
    writer.add_rope_dimension_count_swa(widths[1])
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input or 0)
    types, width, heads = config.layer_types, config.intermediate_size, config.num_key_value_heads
    borrowing = len(types) - config.num_kv_shared_layers
    wide = [width * (1 + (layer >= borrowing)) for layer in range(len(types))]
    writer.add_feed_forward_length(wide if config.use_double_wide_mlp else width)
    fewer = own.get("num_key_value_heads")
    grouped = [heads if kind == "sliding_attention" else fewer for kind in types]
    writer.add_head_count_kv(heads if fewer is None else grouped)
    turning = int(widths[0] * full["partial_rotary_factor"] / 2)
    divisors = [1.0] * turning + [1e30] * (widths[0] // 2 - turning)
    writer.add_tensor("rope_freqs.weight", np.array(divisors, np.float32))


def _add_positions(writer: gguf.GGUFWriter, config: Any) -> None:
    if config.model_type == "gemma4_text":
        _add_gemma4(writer, config)
        return
    rope = config.rope_parameters
    if "full_attention" in rope:
        writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
        rope = rope["full_attention"]
    writer.add_rope_freq_base(rope["rope_theta"])
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head)
    writer.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1.0)))
    if rope.get("rope_type") in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope.get("rope_type") in ("longrope", "yarn"):
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if rope.get("rope_type") == "longrope":
        for name in ("long", "short"):
            writer.add_tensor(f"rope_factors_{name}.weight", np.array(rope[f"{name}_factor"], np.float32))
    if rope.get("rope_type") == "llama3":  # as llama.cpp's converter computes them
        divisors = []
        trained = rope["original_max_position_embeddings"]
        for pair in range(head // 2):
            wave = 2 * np.pi * rope["rope_theta"] ** (2 * pair / head)
            share = (trained / wave - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
            divisors.append(1 / (min(max(share, 0), 1) * (1 - 1 / rope["factor"]) + 1 / rope["factor"]))
        writer.add_tensor("rope_freqs.weight", np.array(divisors, np.float32))


def _own_names(names: gguf.TensorNameMap, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """By the package's own table of names; the matrices of experts become one array."""
    renamed: dict[str, np.ndarray] = {}
    experts: dict[str, list[np.ndarray]] = {}
    for name, array in weights.items():
        stem, _, rest = name.partition(".experts.")
        if rest[:1].isdigit():
            experts.setdefault(f"{stem}.experts.{rest.split('.', 1)[1]}", []).append(array)
        else:
            own = name if name.startswith("blk.") else names.get_name(name, (".weight", ".bias"))
            renamed[own] = array  # with the same ending, if it has one
    for name, arrays in experts.items():
        renamed[names.get_name(name, (".weight",))] = np.stack(arrays)
    return renamed


def converted(config: Any, weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights as llama.cpp's converter changes them, before it renames them."""
    changed: dict[str, np.ndarray] = {}
    for name, array in weights.items():
        if config.model_type == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            changed[name] = array.T
        elif name.endswith(("query_key_value.weight", "query_key_value.bias")):
            heads, groups = config.num_attention_heads, _groups_of_heads(config)
            rows = array.reshape(groups, heads // groups + 2, config.hidden_size // heads, *array.shape[1:])
            parts = rows[:, :-2], rows[:, -2], rows[:, -1]
            joined = np.concatenate([part.reshape(-1, *array.shape[1:]) for part in parts])
            changed[name.removeprefix("transformer.") if config.model_type == "bloom" else name] = joined
        elif "mlp.experts.gate_up_proj" in name and config.model_type == "gpt_oss":
            stem, ending = name.removesuffix("gate_up_proj").removesuffix("gate_up_proj_bias"), "weight"
            if name.endswith("_bias"):
                ending = "bias"
            else:
                array = array.swapaxes(1, 2)
            changed |= {f"{stem}gate_proj.{ending}": array[:, ::2], f"{stem}up_proj.{ending}": array[:, 1::2]}
        elif name.endswith("mlp.experts.down_proj"):
            changed[f"{name}.weight"] = array.swapaxes(1, 2)
        elif name.endswith("mlp.experts.down_proj_bias"):
            changed[name.replace("_bias", ".bias")] = array
        elif name.endswith(("sinks", "layer_scalar")):
            changed[f"{name}.weight"] = array
        elif name.endswith(("router.scale", "router.per_expert_scale")):
            kind = "ffn_gate_inp" if name.endswith("router.scale") else "ffn_down_exps"
            changed[f"blk.{name.split('.')[2]}.{kind}.scale"] = array  # which the package's table lacks
        elif ".experts." in name and config.model_type == "gemma4_text":
            changed[f"{name}.weight"] = array
        elif "linear_attn." in name:
            changed |= _with_values_in_turn(config, name, array)
        elif config.model_type == "mamba2" and name.endswith("mixer.norm.weight"):
            changed[name] = array.reshape(config.n_groups, -1)
        else:
            name = name.removeprefix("transformer.") if config.model_type == "bloom" else name
            changed[name.replace(".dt_bias", ".dt_proj.bias")] = array
    return changed


def _groups_of_heads(config: Any) -> int:
    """Heads of keys and values."""
    if config.model_type != "falcon":
        return int(config.num_attention_heads)
    return int(config.num_kv_heads) if config.new_decoder_architecture or not config.multi_query else 1


def _with_values_in_turn(config: Any, name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """Qwen 3.5's heads of values, k0 v0, k0 v1, k1 v0, k1 v1, as k0 v0, k1 v0, k0 v1, k1 v1."""
    keys, values = config.linear_num_key_heads, config.linear_num_value_heads
    order = [key * (values // keys) + turn for turn in range(values // keys) for key in range(keys)]
    kind = name.rpartition("linear_attn.")[2].removesuffix(".weight")
    width = {"in_proj_a": 1, "in_proj_b": 1, "A_log": 1, "dt_bias": 1}.get(kind, config.linear_value_head_dim)
    places = np.concatenate([np.arange(head * width, (head + 1) * width) for head in order])
    before = 2 * keys * config.linear_key_head_dim
    if kind in ("in_proj_qkv", "conv1d"):
        array = np.concatenate([array[:before], array[before:][places]])
    elif kind == "out_proj":
        array = array[:, places]
    elif kind != "norm":
        array = array[places]
    return {name.replace(".dt_bias", ".dt_proj.bias"): array}


def write_gguf(path: Path, model: Any, tokenizer: Tokenizer, **changes: Any) -> Path:
    """A tiny model as llama.cpp's converter writes it, by the names that the package gguf has for its tensors."""
    config = model.config
    if config.model_type == "gemma4_text":  # which refuses to tell what differs by layer
        config = SimpleNamespace(**config.to_dict())
    architecture = _KINDS.get(config.model_type, config.model_type)
    writer = gguf.GGUFWriter(path, changes.get("architecture", architecture))
    for field, method in _FIELDS.items():
        value = getattr(config, field, None)
        if field == "num_key_value_heads" and config.model_type == "lfm2":
            value = [value * (kind == "full_attention") for kind in config.layer_types]
        if field == "layer_types" and value is not None:
            windows = getattr(config, "sliding_window", None)
            value = [kind == "sliding_attention" for kind in value] if windows else None
        if config.model_type.startswith("mamba") and field == "layer_norm_epsilon":
            continue
        if field == "num_experts" and config.model_type != "gemma4_text":  # which others have as num_local_experts
            continue
        if config.model_type == "gemma4_text" and field in ("intermediate_size", "num_key_value_heads"):
            continue
        if config.model_type == "falcon" and field in ("num_key_value_heads", "layer_types"):
            continue
        if value is not None and not (config.model_type == "qwen3_5_text" and field == "layer_types"):
            getattr(writer, method)(value)
    if config.model_type in ("mamba", "mamba2"):
        rank = {"mamba": 1, "mamba2": getattr(config, "num_heads", 0)}[config.model_type]
        for method, value in {"inner_size": 32, "state_size": 6, "conv_kernel": 4, "time_step_rank": rank}.items():
            getattr(writer, f"add_ssm_{method}")(value)
        if config.model_type == "mamba2":
            writer.add_ssm_group_count(config.n_groups)
        writer.add_head_count(0)
        writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)
    elif config.model_type not in ("gpt2", "falcon", "bloom"):
        _add_positions(writer, config)
    else:
        writer.add_feed_forward_length(getattr(config, "ffn_hidden_size", 4 * config.hidden_size))
    if config.model_type == "falcon":
        writer.add_head_count_kv(_groups_of_heads(config))
    if config.model_type == "qwen3_5_text":
        writer.add_ssm_inner_size(config.linear_num_value_heads * config.linear_value_head_dim)
        writer.add_rope_dimension_sections([1, 0, 0, 0])
    names = tokenizer.get_vocab()
    pieces = sorted(names, key=names.__getitem__)
    pieces += [f"<unused{number}>" for number in range(len(pieces), config.vocab_size)]
    if changes.get("scored"):
        _add_scored_pieces(writer, changes["scored"], config.vocab_size)
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(changes.get("pre", "gpt-2"))
        writer.add_token_list(pieces)
        writer.add_token_types([3 if piece.startswith("<") and len(piece) > 1 else 1 for piece in pieces])
        merges = json.loads(tokenizer.to_str())["model"]["merges"]
        writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    for name, value in changes.get("scaling", {}).items():
        add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}[type(value)]
        add(f"{architecture}.rope.scaling.{name}", value)
    if "turn_end" in changes:
        writer.add_eot_token_id(changes["turn_end"])
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)  # which names tensors as files do
        weights = load_file(f"{folder}/model.safetensors")
    numbers = {number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture}
    names = gguf.get_tensor_name_map(numbers.pop(), config.num_hidden_layers)
    for name, array in _own_names(names, converted(config, weights)).items():
        of_heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}.get(name.split(".")[-2])
        if of_heads is not None and architecture in _PAIRED:
            heads = getattr(config, of_heads)
            array = array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
        is_above_one = architecture in ("gemma", "gemma2", "gemma3") or (
            architecture == "qwen35" and "ssm_norm" not in name
        )
        if is_above_one and name.endswith("norm.weight"):
            array = array + np.float32(1)
        if name.endswith(("conv.weight", "conv1d.weight")):
            array = array.squeeze(1)
        if name.endswith("ssm_a"):
            array = -np.exp(array)
        if architecture == "mamba2" and name.endswith(("ssm_a", "ssm_d")):
            array = array[:, None]
        half = name.startswith("blk") and array.ndim == 2 and changes.get("half")
        writer.add_tensor(name, np.ascontiguousarray(array).astype(np.float16 if half else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def packed(shape: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random blocks and scales of MXFP4, (experts, rows, blocks), small enough that none is infinite."""
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (*shape, 16), np.uint8), random.integers(115, 130, shape, np.uint8)


def save_mxfp4(quantised: Path, plain: Path) -> Path:
    """A tiny gpt-oss with weights in MXFP4, and the same one with the weights that transformers unpacks."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    size = {"hidden_size": 32, "intermediate_size": 32, "num_local_experts": 2, "num_experts_per_tok": 1, "head_dim": 8}
    save(shaken(lambda: tiny("gpt_oss", **size)), plain)
    tensors: dict[str, Any] = load_file(plain / "model.safetensors")
    for seed, name in enumerate([name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]):
        experts, _, rows = tensors[name].shape
        tensors[f"{name}_blocks"], tensors[f"{name}_scales"] = packed((experts, rows, 1), seed)
        both = (torch.from_numpy(tensors[f"{name}_{part}"]) for part in ("blocks", "scales"))
        tensors[name] = convert_moe_packed_tensors(*both, dtype=torch.float32).contiguous().numpy()
    quantised.mkdir()
    (quantised / "tokenizer.json").write_bytes((plain / "tokenizer.json").read_bytes())
    config = json.loads((plain / "config.json").read_text())
    kind = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    (quantised / "config.json").write_text(json.dumps({**config, "quantization_config": kind}))
    halves = {name.rpartition("_")[0] for name in tensors if name.endswith("_blocks")}
    save_file({n: t for n, t in tensors.items() if n not in halves}, quantised / "model.safetensors")
    save_file({n: t for n, t in tensors.items() if not n.endswith(("_blocks", "_scales"))}, plain / "model.safetensors")
    return quantised


def llama_of_512() -> Any:
    """A tiny llama for the tokenizer tok512.bin, with what llama2.c takes for granted."""

    def build() -> Any:
        model = CAUSAL["llama"]()
        model.config.vocab_size, model.config.rms_norm_eps = 512, 1e-5
        return type(model)(model.config)

    return shaken(build)


def write_llama2c(path: Path, model: Any) -> Path:
    """A model of transformers in version 0 of llama2.c's format, neighbours rotating together."""
    config, weights = model.config, {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    heads, key_heads = config.num_attention_heads, config.num_key_value_heads
    sizes = (config.hidden_size, config.intermediate_size, config.num_hidden_layers, heads, key_heads)

    def of_layers(name: str, groups: int | None = None) -> bytes:
        rows = [weights[f"model.layers.{layer}.{name}.weight"] for layer in range(config.num_hidden_layers)]
        if groups is not None:
            rows = [row.reshape(groups, 2, -1, row.shape[1]).swapaxes(1, 2).reshape(row.shape) for row in rows]
        return np.stack(rows).astype("<f4").tobytes()

    head = config.hidden_size // heads
    parts = [
        struct.pack("<7i", *sizes, -config.vocab_size, config.max_position_embeddings),
        weights["model.embed_tokens.weight"].tobytes(),
        of_layers("input_layernorm"),
        of_layers("self_attn.q_proj", heads),
        of_layers("self_attn.k_proj", key_heads),
        of_layers("self_attn.v_proj"),
        of_layers("self_attn.o_proj"),
        of_layers("post_attention_layernorm"),
        of_layers("mlp.gate_proj"),
        of_layers("mlp.down_proj"),
        of_layers("mlp.up_proj"),
        weights["model.norm.weight"].tobytes(),
        bytes(4 * config.max_position_embeddings * head),
        weights["lm_head.weight"].tobytes(),
    ]
    path.write_bytes(b"".join(parts))
    return path


def written_anew(path: Path, writer: gguf.GGUFWriter, changed: Callable[[Any], tuple[Any, Any]]) -> None:
    """Writes a file once more. changed: of a tensor, its data and type."""
    reader = gguf.GGUFReader(path)
    for name, field in reader.fields.items():
        if not name.startswith(("GGUF.", "general.architecture")):
            kind = field.types[0]
            of = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, of)
    for tensor in reader.tensors:
        data, kind = changed(tensor)
        writer.add_tensor(tensor.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

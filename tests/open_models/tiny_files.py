"""Tiny models of transformers, written as ggml and llama2.c have them."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
from tiny_models import CAUSAL, shaken

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Tokenizer

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
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


def write_gguf(path: Path, model: Any, tokenizer: Tokenizer, **changes: Any) -> Path:
    """A tiny llama as ggml has it: q and k with neighbours that rotate together."""
    config = model.config
    writer = gguf.GGUFWriter(path, changes.get("architecture", "llama"))
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
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
    for name, tensor in model.state_dict().items():
        array = tensor.numpy()
        base, kind = name.rsplit(".", 1)
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(base.split(".")[-1])
        if heads is not None:
            array = array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
        layer = f"blk.{base.split('.')[2]}." if base.startswith("model.layers.") else ""
        own = _NAMES[base.split(".", 3)[3] if layer else base]
        half = layer and array.ndim == 2 and changes.get("half")
        writer.add_tensor(
            f"{layer}{own}.{kind}", np.ascontiguousarray(array).astype(np.float16 if half else np.float32)
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


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

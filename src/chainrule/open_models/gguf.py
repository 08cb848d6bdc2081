"""Opens GGUF files of the llama architecture as Hugging Face checkpoints: fields, tensors and tokenizer.

ggml rotates neighbouring pairs of a head, Hugging Face its halves, so the rows of q and k are reordered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import ModelFormatError
from chainrule.open_models.sentencepiece import definition_of_bytes, definition_of_scored
from chainrule.storage.gguf import open_gguf
from chainrule.storage.hugging_face import Checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray

    Json = dict[str, Any]

_LAYER = "model.layers.{layer}."
# GGUF's names of tensors -> Hugging Face's; those of a block follow blk.0. and so on; .weight or .bias follows them.
_TENSORS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# Metadata -> fields of config.json.
_FIELDS = {
    "llama.block_count": "num_hidden_layers",
    "llama.context_length": "max_position_embeddings",
    "llama.embedding_length": "hidden_size",
    "llama.feed_forward_length": "intermediate_size",
    "llama.attention.head_count": "num_attention_heads",
    "llama.attention.head_count_kv": "num_key_value_heads",
    "llama.attention.key_length": "head_dim",
    "llama.attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "llama.rope.freq_base": "rope_theta",
    "llama.vocab_size": "vocab_size",
}
_ROPE = ("llama.rope.dimension_count", "llama.rope.scaling.type", "llama.rope.scaling.factor")
_ALSO_KNOWN = {"llama.attention.value_length", "llama.rope.scaling.original_context_length", *_ROPE}
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _in_sequence(first: Json, *, use_regex: bool) -> Json:
    return {"type": "Sequence", "pretokenizers": [first, {**_BYTE_LEVEL, "use_regex": use_regex}]}


def _split_by(pattern: str) -> Json:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return _in_sequence(split, use_regex=False)


_DIGITS = _in_sequence({"type": "Digits", "individual_digits": True}, use_regex=True)
# Pre-tokenizers, which split text into words, by the name in tokenizer.ggml.pre.
_PRE_TOKENIZERS: dict[str, Json] = {
    "gpt-2": {**_BYTE_LEVEL, "use_regex": True},
    "smollm": _DIGITS,
    "starcoder": _DIGITS,
    "refact": _DIGITS,
    "command-r": _DIGITS,
    "llama-bpe": _split_by(_LLAMA3 % "{1,3}"),
    "qwen2": _split_by(_LLAMA3 % ""),
}
_TOKENIZER = "tokenizer.ggml."
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4  # kinds of tokens


def open_gguf_checkpoint(path: Path) -> Checkpoint:
    """Opens a file of the llama architecture. Raises ModelFormatError."""
    metadata, tensors = open_gguf(path)
    architecture = metadata.get("general.architecture")
    if architecture != "llama":
        raise ModelFormatError(f"{path}: its general.architecture is {architecture!r}; expected llama")
    names = {_named(path, name): name for name in tensors}
    config = _config(path, metadata, tied="lm_head.weight" not in names)
    begin, end = (metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos"))
    kinds, template = tensors.kinds(), metadata.get("tokenizer.chat_template")
    return Checkpoint(
        str(path),
        {**config, "bos_token_id": begin, "eos_token_id": end},
        _HalvesTogether(tensors, names, config),
        {name: f"{path} ({kinds[own]} {own!r})" for name, own in names.items()},
        _definition(path, metadata),
        chat_template=template if isinstance(template, str) else None,
    )


class _HalvesTogether(Mapping[str, "ndarray"]):
    """Tensors by Hugging Face's names, with the rows of q and k in its order."""

    def __init__(self, tensors: Mapping[str, ndarray], names: Mapping[str, str], config: Json) -> None:
        """names: Hugging Face's -> those in the file."""
        self._tensors, self._names = tensors, names
        heads = config["num_attention_heads"]
        self._heads = {"q_proj": heads, "k_proj": config.get("num_key_value_heads") or heads}

    def __getitem__(self, name: str) -> ndarray:
        tensor = self._tensors[self._names[name]]
        heads = self._heads.get(name.split(".")[-2])
        return tensor if heads is None else deinterleave_rotary(tensor, heads)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def deinterleave_rotary(rows: ndarray, heads: int) -> ndarray:
    """Rows (n, d/2, 2), where neighbours rotate together, as (n, 2, d/2); as they are, where they cannot be."""
    if not heads or len(rows) % (2 * heads):
        return rows
    return rows.reshape(heads, -1, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def _named(path: Path, name: str) -> str:
    """Hugging Face's name of a tensor. Raises ModelFormatError."""
    match = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", name)
    layer, part, kind = match.groups() if match else (None, None, None)
    stem = (_TENSORS if layer is None else _BLOCK).get(part or "")
    if stem is None:
        raise ModelFormatError(f"{path}: has the tensor {name!r}, which a llama does not have here")
    return f"{stem}.{kind}" if layer is None else f"{_LAYER.format(layer=layer)}{stem}.{kind}"


def _config(path: Path, metadata: Json, *, tied: bool) -> Json:
    """Raises ModelFormatError."""
    config: Json = {"model_type": "llama", "tie_word_embeddings": tied}
    for name, value in metadata.items():
        if name in _FIELDS:
            config[_FIELDS[name]] = float(str(np.float32(value))) if isinstance(value, float) else value
        elif name.startswith("llama.") and name not in _ALSO_KNOWN and value:
            raise ModelFormatError(f"{path}: {name} is {value!r:.80}, which is not supported")
    for name in ("llama.embedding_length", "llama.attention.head_count", "llama.block_count"):
        if type(metadata.get(name)) is not int or metadata[name] < 1:
            raise ModelFormatError(f"{path}: {name} is {metadata.get(name)!r}; expected a number above 0")
    rotated, scaling, factor = (metadata.get(name) for name in _ROPE)
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    if rotated not in (None, width):
        raise ModelFormatError(f"{path}: {_ROPE[0]} is {rotated}; expected {width}, the width of a head")
    if scaling not in (None, "none"):
        config["rope_scaling"] = {"rope_type": scaling, "factor": factor}
    return config


def _definition(path: Path, metadata: Json) -> bytes:
    """The tokenizer as a tokenizer.json. Raises ModelFormatError."""
    own = {name.removeprefix(_TOKENIZER): value for name, value in metadata.items() if name.startswith(_TOKENIZER)}
    kind, pre_tokenizer = own.get("model"), own.get("pre")
    if kind not in ("llama", "gpt2"):
        raise ModelFormatError(f"{path}: {_TOKENIZER}model is {kind!r}; expected llama or gpt2")
    pieces = _strings(path, own, "tokens")
    types = own.get("token_type", [_NORMAL] * len(pieces))
    scores: Any = own.get("scores", []) if kind == "llama" else pieces
    if not isinstance(types, list) or not isinstance(scores, list) or not len(types) == len(scores) == len(pieces):
        raise ModelFormatError(
            f"{path}: {_TOKENIZER}tokens has {len(pieces):,} values; expected as many in token_type and scores"
        )
    unknown = own.get("unknown_token_id", 0 if kind == "llama" else None)
    if unknown is not None and not (type(unknown) is int and 0 <= unknown < len(pieces)):
        raise ModelFormatError(f"{path}: {_TOKENIZER}unknown_token_id is {unknown!r}; there is no such token")
    special = [i for i, type_of in enumerate(types) if type_of in (_UNKNOWN, _CONTROL)]
    added = [i for i, type_of in enumerate(types) if type_of == _USER_DEFINED]
    if kind == "llama":
        adds_space = bool(own.get("add_space_prefix", True))
        return definition_of_scored(
            pieces, scores, unknown=unknown or 0, special=special, added=added, adds_space=adds_space
        )
    if not isinstance(pre_tokenizer, str) or pre_tokenizer not in _PRE_TOKENIZERS:
        raise ModelFormatError(
            f"{path}: {_TOKENIZER}pre is {pre_tokenizer!r}; expected one of {', '.join(_PRE_TOKENIZERS)}"
        )
    merges = _strings(path, own, "merges")
    return definition_of_bytes(
        pieces, merges, _PRE_TOKENIZERS[pre_tokenizer], unknown=unknown, special=special, added=added
    )


def _strings(path: Path, own: Json, name: str) -> list[str]:
    """A list of strings in the metadata. Raises ModelFormatError."""
    values = own.get(name)
    if not isinstance(values, list) or not values or not isinstance(values[0], str):
        raise ModelFormatError(f"{path}: {_TOKENIZER}{name} is missing, or not an array of strings")
    return values

"""The files of llama2.c (Karpathy 2023), version 0, in Hugging Face's terms.

Seven int32: width, feed-forward width, layers, heads, heads of keys and values, tokens (negative: the output is not
tied), positions. Then float32, each of all layers before the next. Beside it lies its tokenizer: int32, the longest
piece; then for each token a float32 score, an int32 length, its bytes. Neighbouring rows of q and k rotate together.
"""

from __future__ import annotations

import math
import os
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.files import open_regular, read_file
from chainrule.errors import ModelFormatError
from chainrule.features.open.gguf.reading import deinterleave_rotary
from chainrule.features.open.tokens.sentencepiece import SPACE, definition_of_merged, merges_of_scores
from chainrule.storage.hugging_face import Checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray

    Json = dict[str, Any]

_HEADER = struct.Struct("<7i")
_MOST = 1 << 24  # of any of the seven numbers
_UNKNOWN, _BEGIN, _END = 0, 1, 2


class _Header(NamedTuple):
    width: int
    feed_forward_width: int
    layers: int
    heads: int
    key_heads: int
    tokens: int
    positions: int

    def parts(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return the arrays after the header, in their order; an empty name stands for tables of angles."""
        head = self.width // self.heads
        layer, keys = "model.layers.{layer}.", self.key_heads * head
        return [
            ("model.embed_tokens.weight", (abs(self.tokens), self.width)),
            (layer + "input_layernorm.weight", (self.layers, self.width)),
            (layer + "self_attn.q_proj.weight", (self.layers, self.width, self.width)),
            (layer + "self_attn.k_proj.weight", (self.layers, keys, self.width)),
            (layer + "self_attn.v_proj.weight", (self.layers, keys, self.width)),
            (layer + "self_attn.o_proj.weight", (self.layers, self.width, self.width)),
            (layer + "post_attention_layernorm.weight", (self.layers, self.width)),
            (layer + "mlp.gate_proj.weight", (self.layers, self.feed_forward_width, self.width)),
            (layer + "mlp.down_proj.weight", (self.layers, self.width, self.feed_forward_width)),
            (layer + "mlp.up_proj.weight", (self.layers, self.feed_forward_width, self.width)),
            ("model.norm.weight", (self.width,)),
            ("", (self.positions, head)),
            *[("lm_head.weight", (abs(self.tokens), self.width))] * (self.tokens < 0),
        ]

    @property
    def bytes(self) -> int:
        """The size of the whole file."""
        return _HEADER.size + 4 * sum(math.prod(shape) for _, shape in self.parts())


def is_llama2c(path: Path) -> bool:
    """Return whether a file is as large as its first seven numbers say."""
    try:
        header = _header(path) if path.suffix == ".bin" and path.is_file() else None
        return header is not None and header.bytes == os.path.getsize(path)
    except OSError:
        return False


def describe_wrong_size(path: Path) -> str | None:
    """Return how the size of a file that begins as one of llama2.c differs from the expected size, for a message.

    Raises OSError.
    """
    header = _header(path) if path.suffix == ".bin" and path.is_file() else None
    if header is None:
        return None
    return (
        f"has {os.path.getsize(path):,} bytes; if it is a file of llama2.c, its first numbers ask for "
        f"{header.bytes:,}: it was cut off or damaged; get it again"
    )


def _header(path: Path) -> _Header | None:
    """Return the first seven numbers; None where no model has such. Raises OSError."""
    with open_regular(path) as file:
        data = file.read(_HEADER.size)
    if len(data) < _HEADER.size:
        return None
    header = _Header(*_HEADER.unpack(data))
    sane = all(0 < abs(number) < _MOST for number in header) and min(header[:5]) > 0 and header.positions > 0
    return header if sane and header.width % header.heads == 0 and header.heads % header.key_heads == 0 else None


def open_llama2c(path: Path, tokenizer: Path | None = None) -> Checkpoint:
    """Open a file of llama2.c.

    tokenizer: its file; by default tokenizer.bin, or tok and the number of tokens, in the same folder. Raises
    ModelFormatError.
    """
    header = _header(path)
    assert header is not None
    beside = [path.with_name("tokenizer.bin"), path.with_name(f"tok{abs(header.tokens)}.bin")]
    tokenizer = tokenizer or next((each for each in beside if each.is_file()), None)
    if tokenizer is None:
        raise ModelFormatError(
            f"{path}: its tokenizer is missing: put {' or '.join(each.name for each in beside)} beside it, or name it "
            "as the tokenizer"
        )
    data = np.memmap(path, "<f4", "c", _HEADER.size)
    tensors: dict[str, ndarray] = {}
    position = 0
    for name, shape in header.parts():
        whole = data[position : position + math.prod(shape)].reshape(shape)
        position += whole.size
        for layer in range(header.layers if "{layer}" in name else 1):
            tensors[name.format(layer=layer)] = whole[layer] if "{layer}" in name else whole
    tensors.pop("")
    for name in tensors:
        part = name.split(".")[-2]
        if part in ("q_proj", "k_proj"):
            tensors[name] = deinterleave_rotary(tensors[name], header.heads if part == "q_proj" else header.key_heads)
    config: Json = {
        "model_type": "llama",
        "hidden_size": header.width,
        "intermediate_size": header.feed_forward_width,
        "num_hidden_layers": header.layers,
        "num_attention_heads": header.heads,
        "num_key_value_heads": header.key_heads,
        "max_position_embeddings": header.positions,
        "vocab_size": abs(header.tokens),
        "tie_word_embeddings": header.tokens > 0,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "bos_token_id": _BEGIN,
        "eos_token_id": _END,
    }
    definition = _definition(tokenizer, abs(header.tokens))
    files = dict.fromkeys(tensors, str(path))
    return Checkpoint(str(path), config, tensors, files, definition, tokenizer_config={"add_bos_token": True})


def _definition(path: Path, tokens: int) -> bytes:
    """Return a tokenizer.json. Raises ModelFormatError."""
    cut_off = f"{path}: ends before its {tokens:,} tokens do; it was cut off, or is of another model"
    try:
        data = read_file(path)
        pieces, scores, position = [], [], 4
        for _ in range(tokens):
            score, length = struct.unpack_from("<fi", data, position)
            position += 8 + length
            if length < 0 or position > len(data):
                raise ModelFormatError(cut_off)
            scores.append(score)
            pieces.append(data[position - length : position].decode())
    except struct.error as error:
        raise ModelFormatError(cut_off) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFormatError(f"{path}: is not a llama2.c tokenizer with {tokens:,} tokens: {error}") from error
    markers = {_UNKNOWN: "<unk>", _BEGIN: "<s>", _END: "</s>"}
    named = [markers.get(number, piece.replace(" ", SPACE)) for number, piece in enumerate(pieces)]
    return definition_of_merged(
        named, merges_of_scores(named, scores), unknown=_UNKNOWN, special=list(markers), adds_space=True
    )

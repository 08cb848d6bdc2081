"""Writes a GGUF file of a known shape with random weights, for measuring speed where no such file is at hand.

    python bench/random_gguf.py SHAPE OUTPUT.gguf --like FILE.gguf [--type Q4_0] [--seed N]

SHAPE: qwen3-0.6b, qwen2.5-0.5b or gemma3-270m. --like: the file whose tokens are taken, with others that no text has up
to the shape's number. Weights are even numbers between two bounds; what such a model writes says nothing. Vectors of
tokens have eight bits. The same seed gives the same file. Needs the package gguf.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gguf
import numpy as np

if TYPE_CHECKING:
    from numpy import ndarray

_SIZES = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}  # bytes of a block of 32


class Shape(NamedTuple):
    """What the file says of itself. norms: of a block, with their widths: of hidden states, or of a head."""

    architecture: str
    layers: int
    width: int
    heads: int
    key_heads: int
    head_width: int
    hidden: int
    vocabulary: int
    rotary_base: float
    norms: tuple[str, ...]
    has_biases: bool = False
    window: int | None = None


_BEFORE, _OF_HEADS = ("attn_norm", "ffn_norm"), ("attn_q_norm", "attn_k_norm")
SHAPES = {
    "qwen3-0.6b": Shape("qwen3", 28, 1024, 16, 8, 128, 3072, 151_936, 1e6, (*_BEFORE, *_OF_HEADS)),
    "qwen2.5-0.5b": Shape("qwen2", 24, 896, 14, 2, 64, 4864, 151_936, 1e6, _BEFORE, has_biases=True),
    "gemma3-270m": Shape(
        *("gemma3", 18, 640, 4, 1, 256, 2048, 262_144, 1e6),
        (*_BEFORE, *_OF_HEADS, "post_attention_norm", "post_ffw_norm"),
        window=512,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("output", type=Path)
    parser.add_argument("--like", type=Path, required=True)
    parser.add_argument("--type", choices=_SIZES, default="Q4_0")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shape, random = SHAPES[options.shape], np.random.default_rng(options.seed)
    writer: Any = gguf.GGUFWriter(options.output, shape.architecture)
    writer.add_block_count(shape.layers)
    writer.add_context_length(4096)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.key_heads)
    writer.add_key_length(shape.head_width)
    writer.add_value_length(shape.head_width)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(shape.rotary_base)
    if shape.window is not None:
        writer.add_sliding_window(shape.window)
    add_tokens(writer, gguf.GGUFReader(options.like), shape.vocabulary)

    def add(name: str, rows: int, columns: int, kind: str = options.type) -> None:
        blocks = random_blocks(random, kind, rows, columns)
        writer.add_tensor(f"{name}.weight", blocks, raw_dtype=gguf.GGMLQuantizationType[kind])

    def add_vector(name: str, width: int, mean: float = 1.0) -> None:
        writer.add_tensor(name, (mean + 0.1 * random.standard_normal(width)).astype(np.float32))

    add("token_embd", shape.vocabulary, shape.width, "Q8_0")
    add_vector("output_norm.weight", shape.width)
    of_queries, of_keys = shape.heads * shape.head_width, shape.key_heads * shape.head_width
    for layer in range(shape.layers):
        block = f"blk.{layer}."
        for name in shape.norms:
            add_vector(f"{block}{name}.weight", shape.head_width if name in _OF_HEADS else shape.width)
        for name, rows in (("attn_q", of_queries), ("attn_k", of_keys), ("attn_v", of_keys)):
            add(block + name, rows, shape.width)
            if shape.has_biases:
                add_vector(f"{block}{name}.bias", rows, 0.0)
        add(f"{block}attn_output", shape.width, of_queries)
        add(f"{block}ffn_gate", shape.hidden, shape.width)
        add(f"{block}ffn_up", shape.hidden, shape.width)
        add(f"{block}ffn_down", shape.width, shape.hidden)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{options.output}: {options.output.stat().st_size / 1e6:,.1f} MB")


def random_blocks(random: np.random.Generator, kind: str, rows: int, columns: int) -> ndarray:
    """Blocks whose numbers are even around 0, with a variance of 1 / columns."""
    blocks = np.empty((rows, columns // 32, _SIZES[kind]), np.uint8)
    most = 127 if kind == "Q8_0" else 7  # the numbers that are as often above 0 as below it
    scale = np.float16(math.sqrt(3 / columns) / most)
    blocks[..., :2] = np.array([scale]).view(np.uint8)
    if kind == "Q8_0":
        blocks[..., 2:] = random.integers(-127, 128, blocks[..., 2:].shape, dtype=np.int8).view(np.uint8)
        return blocks.reshape(rows, -1)
    begin = _SIZES[kind] - 16
    if kind == "Q4_1":
        blocks[..., 2:4] = np.array([-np.float32(scale) * 8]).astype(np.float16).view(np.uint8)
    low, high = random.integers(1, 16, (2, *blocks[..., begin:].shape), dtype=np.uint8)
    blocks[..., begin:] = low | high << 4
    return blocks.reshape(rows, -1)


def add_tokens(writer: Any, like: Any, vocabulary: int) -> None:
    """The tokens of another file, and as many more as are missing."""
    fields = {name: field.contents() for name, field in like.fields.items() if name.startswith("tokenizer.ggml.")}
    tokens, kinds = (fields.pop(f"tokenizer.ggml.{name}") for name in ("tokens", "token_type"))
    missing = range(vocabulary - len(tokens))
    writer.add_tokenizer_model(fields.pop("tokenizer.ggml.model"))
    writer.add_tokenizer_pre(fields.pop("tokenizer.ggml.pre"))
    writer.add_token_list([*tokens, *(f"<unused{number}>" for number in missing)])
    writer.add_token_types([*kinds, *[int(gguf.TokenType.UNUSED)] * len(missing)])
    writer.add_token_merges(fields.pop("tokenizer.ggml.merges"))
    for name, value in fields.items():
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)


if __name__ == "__main__":
    main()

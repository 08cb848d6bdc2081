"""Known architectures, as functions that return a configuration:

preset("llama", layers=6, width=384)
"""

from __future__ import annotations

from chainrule.neural.config.transformer import TransformerConfig


def vaswani() -> TransformerConfig:
    """Return the decoder of Attention Is All You Need (2017)."""
    return TransformerConfig(
        norm="layer",
        norm_place="post",
        norm_gain=True,
        embedding_norm=False,
        positions="sinusoidal",
        feed_forward="relu",
        query_key_norm=False,
        biases=True,
        tied=True,
        scaled_embedding=True,
        zero_projections=False,
        initialisation="xavier",
        dropout=0.1,
    )


def gpt2() -> TransformerConfig:
    """Return GPT-2 (Radford 2019): norms first, learned positions, GELU."""
    return TransformerConfig(
        norm="layer",
        norm_gain=True,
        embedding_norm=False,
        positions="learned",
        feed_forward="gelu",
        query_key_norm=False,
        biases=True,
        tied=True,
        zero_projections=False,
        initialisation="gpt2",
    )


def palm() -> TransformerConfig:
    """Return PaLM (Chowdhery 2022): parallel blocks, one head of keys and values, SwiGLU, rotary positions."""
    return TransformerConfig(
        norm="layer",
        norm_gain=True,
        embedding_norm=False,
        positions="rotary",
        feed_forward="swiglu",
        feed_forward_width=None,
        key_value_heads=1,
        query_key_norm=False,
        parallel=True,
        tied=True,
        zero_projections=False,
        initialisation="fan_in",
    )


def llama() -> TransformerConfig:
    """Return LLaMA (Touvron 2023): RMSNorm, SwiGLU, rotary positions, no biases."""
    return TransformerConfig(
        norm_gain=True,
        embedding_norm=False,
        positions="rotary",
        feed_forward="swiglu",
        query_key_norm=False,
        zero_projections=False,
        initialisation="gpt2",
    )


def modern() -> TransformerConfig:
    """Return today's small recipe, and the default: RMSNorm without gains, rotary positions, QK-norm, ReLU squared."""
    return TransformerConfig()

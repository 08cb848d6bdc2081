"""Small networks with random weights: what a model promises, it promises with any."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from chainrule.features.open.network.config import opened
from chainrule.features.seq2seq.network.config import CaptionConfig, Seq2SeqConfig
from chainrule.features.seq2seq.network.model import NeuralSeq2SeqModel, SourceConditionedModel
from chainrule.features.seq2seq.network.network import build_seq2seq
from chainrule.features.trees.config import TreeConfig
from chainrule.features.trees.language_model import TreeModel, TreeNetwork
from chainrule.features.vision.network.grid_config import GridConfig
from chainrule.neural.build import build
from chainrule.neural.config import (
    BagConfig,
    BilinearConfig,
    ConvolutionConfig,
    FeedforwardConfig,
    RecurrentConfig,
    TransformerConfig,
    gpt2,
    llama,
    palm,
    vaswani,
)
from chainrule.neural.device import _runs_lstm_in_bfloat16
from chainrule.neural.language_model import NeuralModel

if TYPE_CHECKING:
    import pytest

    from chainrule.neural.config import NetworkConfig
    from chainrule.neural.network import Network

VOCABULARY_SIZE = 29
torch.set_num_threads(1)  # more of them would only wait for one another


def small(config: TransformerConfig, **changes: object) -> TransformerConfig:
    """Of few numbers, and with a context that fills again and again; with settings of opened ones, it is such a one."""
    if not changes.keys() <= {field.name for field in fields(config)}:
        config = opened(config)
    return replace(config, **{"layers": 2, "width": 16, "heads": 4, "context": 6, **changes})


MODERN = small(TransformerConfig())
DOCUMENT_NETWORKS: dict[str, NetworkConfig] = {
    "Transformer, modern, of documents": small(MODERN, memory="document"),
    "Transformer, learned positions, of documents": small(gpt2(), memory="document", context=5),
    "Transformer, ALiBi in a window, of documents": small(MODERN, positions="alibi", window=3, memory="document"),
    "Transformer, llama, begun, with two ends": small(
        llama(),
        memory="document",
        begins_with="<s>",
        ends=(5,),
        banned=(7,),
        head_width=6,
        rotary_width=4,
        rotary_scaling="llama3",
        rotary_factor=8.0,
        rotary_trained_context=4,
        norm_epsilon=0.01,
    ),
    "Transformer, windows in every other block": small(
        gpt2(), memory="document", context=9, window=3, window_every=2, score="dot", position_offset=2
    ),
    "Transformer, parallel with two norms": small(
        gpt2(),
        memory="document",
        positions="rotary",
        rotary_width=2,
        parallel=True,
        shared_norm=False,
        feed_forward="gelu_exact",
        without_biases=("query_key_value",),
    ),
    "Transformer, convolutions beside attention, of documents": small(
        llama(), memory="document", layers=3, mixers=("convolution", "attention", "mamba"), recurrence_width=12
    ),
    "Transformer, two bases, norms after, capped": small(
        llama(),
        memory="document",
        layers=3,
        window=3,
        full_layers=(1,),
        unrotated_layers=(2,),
        window_rotary_base=50.0,
        sublayer_norms="both",
        gains_above_one=True,
        score_cap=2.0,
        logit_cap=3.0,
    ),
    "Transformer, sinks in attention, experts with clamped gates and biases": small(
        llama(),
        memory="document",
        layers=3,
        window=3,
        full_layers=(1,),
        biases=True,
        attention_sinks=True,
        feed_forward="clamped_swiglu",
        experts=3,
        chosen_experts=2,
        router_bias=True,
        rotary_scaling="yarn",
        rotary_factor=4.0,
        rotary_trained_context=4,
        rotary_whole_pairs=False,
    ),
    "Transformer, wider heads that see all, shared keys, vectors for blocks, experts beside": small(
        llama(),
        memory="document",
        layers=4,
        key_value_heads=2,
        window=3,
        full_layers=(1, 3),
        full_head_width=6,
        full_key_value_heads=1,
        keys_as_values=True,
        value_norm=True,
        shared_key_layers=2,
        wide_shared_blocks=True,
        layer_input_width=3,
        experts=3,
        expert_width=5,
        block_scales=True,
        rotary_turning=1,
        window_rotary_base=50.0,
        query_key_norm=True,
        sublayer_norms="both",
    ),
    "Transformer, two blocks for four": small(MODERN, memory="document", layers=4, block_groups=2),
    "Transformer, LongRoPE": small(
        llama(),
        memory="document",
        context=9,
        rotary_scaling="longrope",
        rotary_trained_context=4,
        rotary_divisors=(1.0, 1.5),
        rotary_long_divisors=(2.0, 7.0),
    ),
    "log-bilinear, of documents": BilinearConfig(width=12, window=3, memory="document"),
    "bag of all, of documents": BagConfig(width=12, embedding_width=8, window=None, memory="document"),
    "feed-forward, of documents": FeedforwardConfig(width=12, embedding_width=6, window=4, memory="document"),
    "convolution, of documents": ConvolutionConfig(width=12, layers=2, kernel=2, memory="document"),
    "LSTM of documents": RecurrentConfig(width=12, layers=2, memory="document"),
    "LSTM of documents, with intra-attention": RecurrentConfig(
        width=12, embedding_width=8, layers=2, tied=True, intra_attention=5, memory="document"
    ),
    "LSTM over pictures": GridConfig(width=12, columns=3, layers=2),
    "Grid LSTM over pictures": GridConfig(width=12, columns=2, cell="grid", embedding_width=8, tied=True),
}
STREAM_NETWORKS: dict[str, NetworkConfig] = {
    "Transformer, vaswani": small(vaswani()),
    "Transformer, gpt2": small(gpt2(), context=1),
    "Transformer, palm": small(palm()),
    "Transformer, llama, grouped": small(llama(), key_value_heads=2, context=64),
    "Transformer, modern, in a window": small(MODERN, window=3),
    "Transformer, additive score": small(MODERN, score="additive"),
    "Transformer, general score, ALiBi": small(vaswani(), score="general", positions="alibi"),
    "Transformer, no positions, post-norm, parallel": small(MODERN, positions="none", norm_place="post", parallel=True),
    "Transformer, relative positions, grouped": small(MODERN, positions="relative", key_value_heads=2, context=7),
    "Transformer, learned positions in a window": small(gpt2(), window=2, output="adaptive", tied=False),
    "Transformer, experts": small(MODERN, experts=3, chosen_experts=2),
    "Mamba, the gated delta rule, and RWKV": small(
        llama(),
        mixers=("mamba", "delta", "mamba2", "rwkv", "rwkv_channels"),
        layers=5,
        has_feed_forward=False,
        recurrence_width=12,
        recurrence_heads=2,
        positions="none",
        state_width=8,
    ),
    "RNN": RecurrentConfig(cell="rnn_tanh", width=12, layers=1),
    "RNN with ReLU": RecurrentConfig(cell="rnn_relu", width=12, layers=2, residual=True),
    "GRU, trained by sampling": RecurrentConfig(cell="gru", width=12, layers=3, residual=True, output="sampled"),
    "log-bilinear, tied, diagonal": BilinearConfig(
        width=12, window=4, position_weights="diagonal", tied=True, output="nce"
    ),
    "skip-gram": BilinearConfig(width=12, window=1, position_weights="none"),
    "bag of a window": BagConfig(width=12, layers=3, window=4, output="sampled"),
    "bag of all": BagConfig(width=12, embedding_width=8, window=None, tied=True),
    "feed-forward, with direct connections": FeedforwardConfig(width=12, embedding_width=6, window=3, direct=True),
    "feed-forward, deep, tied": FeedforwardConfig(width=12, embedding_width=6, layers=2, window=2, tied=True),
    "convolution, dilated": ConvolutionConfig(width=12, layers=3, kernel=3, output="adaptive"),
    "convolution without gates": ConvolutionConfig(width=12, layers=2, kernel=4, dilation=1, gate="none"),
    "LSTM with intra-attention": RecurrentConfig(width=12, intra_attention=3, residual=True),
    "LSTM, tied": RecurrentConfig(width=12, embedding_width=8, tied=True, output="nce"),
}


def random_network(config: NetworkConfig, vocabulary_size: int = VOCABULARY_SIZE, seed: int = 1) -> Network:
    """Every number of it is random, those too that training begins with at 0 or 1."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        network = build(config, vocabulary_size)
        with torch.no_grad():
            for weight in network.parameters():
                weight.add_(torch.randn_like(weight) * 0.2)
    return network


def random_model(config: NetworkConfig, vocabulary_size: int = VOCABULARY_SIZE, seed: int = 1) -> NeuralModel:
    return NeuralModel(random_network(config, vocabulary_size, seed))


def random_tree_model(vocabulary_size: int = VOCABULARY_SIZE, seed: int = 1) -> TreeModel:
    """As `random_network`; two tokens are brackets."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        network = TreeNetwork(TreeConfig(width=12, layers=2, brackets=(5, 9)), vocabulary_size)
        with torch.no_grad():
            for weight in network.parameters():
                weight.add_(torch.randn_like(weight) * 0.2)
    return TreeModel(network)


def pair(**settings: object) -> Seq2SeqConfig:
    """Of few numbers."""
    small = {"encoder_layers": 1, "decoder_layers": 2, "width": 16, "heads": 2, "max_source": 40}
    return Seq2SeqConfig(**{**small, **settings})  # type: ignore[arg-type]


PAIRS: dict[str, Seq2SeqConfig] = {
    "Transformer given a source": pair(),
    "Transformer that reads several tokens before a target": pair(
        positions="none",
        learned_positions=60,
        learned_source_positions=40,
        position_offset=2,
        embedding_norm=True,
        before_source=(4,),
        after_source=(5, 6),
        before_target=(7, 3),
    ),
    "post-norm Transformer given what an LSTM read": pair(encoder="lstm", norm_place="post", score="additive"),
    "modern Transformer given what convolutions read": pair(encoder="convolution", style="modern", positions="rotary"),
    "LSTM of Luong with input feeding": pair(encoder="lstm", decoder="lstm", score="general"),
    "LSTM of Luong without": pair(encoder="lstm", decoder="lstm", score="dot", input_feeding=False),
    "GRU of Bahdanau": pair(encoder="gru", decoder="gru", score="additive", attends="before"),
    "GRU given a Transformer's source, by location": pair(decoder="gru", score="location"),
    "LSTM without attention": pair(encoder="lstm", decoder="lstm", attention="none"),
    "LSTM with a window": pair(decoder="lstm", attention="local", score="content"),
    "LSTM with a predicted window": pair(decoder="lstm", attention="local", center="predicted", window=2),
    "GRU with hard attention, summed over": pair(decoder="gru", attention="hard", input_feeding=False),
    "LSTM with hard attention that goes on": pair(decoder="lstm", attention="hard"),
    "convolutions given a source": pair(encoder="convolution", decoder="convolution"),
    "GRU given the tokens themselves, gated, with deep output": pair(
        encoder="none", decoder="gru", attends="before", gate=True, deep_output=True
    ),
}


def caption(**settings: object) -> CaptionConfig:
    """Of few numbers, for pictures of 2 x 3 places with 5 numbers each."""
    small = {"width": 16, "heads": 2, "max_source": 6, "source_grid": (2, 3), "source_width": 5}
    return CaptionConfig(**{**small, **settings})  # type: ignore[arg-type]


CAPTIONERS: dict[str, CaptionConfig] = {
    "LSTM given a picture": caption(),
    "GRU of Xu given a picture": caption(
        decoder="gru", score="additive", attends="before", gate=True, deep_output=True
    ),
    "LSTM given a picture, hard": caption(attention="hard", gate=True),
    "LSTM given a picture, hard, fed": caption(
        attention="hard", estimator="reinforce", soft_share=0.5, entropy=0.01, input_feeding=True, placed=False
    ),
    "LSTM given a picture's mean": caption(attention="none"),
    "paragraphs given a picture": caption(decoder="hierarchical", sentence_end=5),
    "paragraphs given a picture, fed": caption(decoder="hierarchical", sentence_end=7, attends="before", gate=True),
    "Transformer given a picture": caption(decoder="transformer", decoder_layers=2),
    "LSTM given regions": caption(source_grid=(), max_source=9, source_width=12),
    "paragraphs given regions and phrases": caption(
        decoder="hierarchical", sentence_end=5, source_grid=(), max_source=9, source_width=12, phrase_width=3
    ),
    "paragraphs given regions that a Transformer reads": caption(
        decoder="hierarchical", encoder="transformer", sentence_end=5, source_grid=(), max_source=9, source_width=12
    ),
}
REGIONS = np.random.default_rng(4).normal(size=(7, 12)).astype(np.float32)
PICTURE = np.random.default_rng(3).normal(size=(6, 5)).astype(np.float32)


def random_pair(config: Seq2SeqConfig, vocabulary_size: int = VOCABULARY_SIZE, seed: int = 1) -> NeuralSeq2SeqModel:
    """As `random_network`; source and target have vocabularies of one size."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        network = build_seq2seq(config, vocabulary_size, vocabulary_size)
        with torch.no_grad():
            for weight in network.parameters():
                weight.add_(torch.randn_like(weight) * 0.2)
    return NeuralSeq2SeqModel(network)


def given_a_source(config: Seq2SeqConfig) -> SourceConditionedModel:
    picture = REGIONS if config.reads_regions else PICTURE
    source = picture if config.reads_vectors else np.array([5, 9, 3, 17, 5], np.int32)
    return random_pair(config).given([source])


def refuse_lstm_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every LSTM in bfloat16 fail, as oneDNN's do on processors that have none."""
    forward = torch.nn.LSTM.forward

    def refusing(self: torch.nn.LSTM, x: torch.Tensor, *more: object) -> object:
        if torch.is_autocast_enabled(x.device.type):
            raise RuntimeError("could not create a primitive descriptor for the LSTM forward propagation primitive")
        return forward(self, x, *more)

    _runs_lstm_in_bfloat16.cache_clear()
    monkeypatch.setattr(torch.nn.LSTM, "forward", refusing)

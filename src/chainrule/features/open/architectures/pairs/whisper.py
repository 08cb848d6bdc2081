"""Whisper (Radford et al. 2022): BART's Transformer with norms before each sub-layer, on convolved log-mel frames.

Keys have no bias; ours is 0. The encoder's positions are sinusoids, which files contain.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.bfloat16 import widen
from chainrule.features.open.architecture import SAME, Change, Rule, Setting, Tensor
from chainrule.features.open.architectures.pairs.bart import M2M_100, MBART
from chainrule.features.open.architectures.pairs.marian import MARIAN

if TYPE_CHECKING:
    from numpy import ndarray

    from chainrule.features.seq2seq.network.config import Seq2SeqConfig

    Json = dict[str, Any]

_TOKENS, _OUTPUT = "model.decoder.embed_tokens.weight", "proj_out.weight"


def _read_length(config: Json) -> Json:
    longest = config.get("max_source_positions", 1500)
    return {"max_source": longest, "learned_source_positions": longest, "source_grid": (1, longest)}


def _with_zeros(tensors: list[ndarray], config: Any) -> ndarray:
    """Return the biases of queries and values, or of values alone, with zeros for those of keys before the last."""
    return np.concatenate([*tensors[:-1], np.zeros_like(tensors[-1]), tensors[-1]])


def _without_zeros(array: ndarray, config: Seq2SeqConfig) -> list[ndarray]:
    *queries, _, values = np.split(array, len(array) // config.width)
    return [*queries, values]


_NO_KEY_BIAS = Change(_with_zeros, _without_zeros)
_WIDENED = Change(lambda tensors, config: np.asarray(widen(tensors[0]), np.float32), SAME.to_theirs)


def _row(row: Tensor) -> Tensor:
    """Return a row of BART's, without the bias of keys."""
    if not row.ours.endswith(("query_key_value.bias", "key_value.bias")):
        return row
    return row._replace(theirs=tuple(name for name in row.theirs if "k_proj" not in name), change=_NO_KEY_BIAS)


WHISPER = replace(
    MARIAN,
    model_type="whisper",
    class_name="WhisperForConditionalGeneration",
    family="whisper",
    prefix="model.",
    implied={
        "style": "vaswani",
        "norm_place": "pre",
        "positions": "none",
        "scaled_embedding": False,
        "output_bias": False,
        "shared": "target",
        "convolved_source": True,
    },
    settings=(
        *(row for row in MARIAN.settings if isinstance(row, Rule) and "tie_word_embeddings" not in row.fields),
        *(
            row
            for row in MARIAN.settings
            if isinstance(row, Setting) and row.theirs not in ("max_position_embeddings", "scale_embedding")
        ),
        Setting("num_mel_bins", "source_width", 80),
        Setting("max_target_positions", "learned_positions", 448),
        Rule(("max_source_positions",), _read_length, lambda config: {"max_source_positions": config.max_source}),
    ),
    tensors=(
        Tensor("output.weight", _TOKENS, by_token=True),
        *(_row(row) for row in MARIAN.tensors if ".blocks." in row.ours),
        *(row for row in MBART.tensors if "places" in row.ours),
        *(row for row in M2M_100.tensors if row.ours.startswith(("reader.norm.", "decoder.norm."))),
        *(
            Tensor(f"source_embedding.convolutions.{ours}.{kind}", f"model.encoder.{theirs}.{kind}", _WIDENED)
            for ours, theirs in (("first", "conv1"), ("second", "conv2"))
            for kind in ("weight", "bias")
        ),
    ),
    fixed={"is_encoder_decoder": True, "tie_word_embeddings": True, "scale_embedding": False},
    ignored=(
        *("dropout", "attention_dropout", "activation_dropout", "encoder_layerdrop", "decoder_layerdrop", "init_std"),
        *("num_hidden_layers", "classifier_proj_size", "use_weighted_layer_sum", "apply_spec_augment"),
        *("mask_time_prob", "mask_time_length", "mask_time_min_masks", "median_filter_width", "forced_decoder_ids"),
        *("mask_feature_prob", "mask_feature_length", "mask_feature_min_masks", "_num_labels"),
    ),
    aliases={_TOKENS: (_OUTPUT,)},
    computed={},
)

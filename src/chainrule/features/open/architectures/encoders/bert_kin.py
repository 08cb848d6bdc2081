"""BERT's relatives that read in other ways: ALBERT and DeBERTa, with their masked-LM heads.

ALBERT (Lan et al. 2020): groups of blocks share their weights, and vectors of tokens are narrower. DeBERTa 2 and 3 (He
et al. 2021, 2023): scores of attention depend on contents and distances.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.features.open.architecture import ACTIVATIONS, QUERY_KEY_VALUE, Rule, Setting, Tensor, weight_and_bias
from chainrule.features.open.architectures.encoders.bert import BERT, TIED, rename_row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chainrule.features.open.network.config import OpenSettings

    Json = dict[str, Any]

_BLOCK = "encoder.blocks.{layer}."
_LAYER = "albert.encoder.albert_layer_groups.{layer}.albert_layers.0."
_ATTENTION = tuple(f"{_LAYER}attention.{name}" for name in ("query", "key", "value"))

ALBERT = replace(
    BERT,
    model_type="albert",
    class_name="AlbertForMaskedLM",
    settings=(
        *(row for row in BERT.settings if not isinstance(row, Setting) or row.theirs != "hidden_act"),
        Setting("hidden_act", "feed_forward", "gelu_new", ACTIVATIONS),
        Setting("embedding_size", "embedding_width", 128),
        Rule(
            ("num_hidden_groups",),
            lambda config: {"block_groups": config.get("num_hidden_groups", 1)},
            lambda config: {"num_hidden_groups": config.distinct_blocks},
        ),
    ),
    tensors=(
        Tensor("embedding.weight", "albert.embeddings.word_embeddings.weight", by_token=True),
        Tensor("encoder.places.vectors", "albert.embeddings.position_embeddings.weight"),
        Tensor("encoder.segments", "albert.embeddings.token_type_embeddings.weight"),
        *weight_and_bias("encoder.input_norm", "albert.embeddings.LayerNorm"),
        *weight_and_bias("encoder.projection", "albert.encoder.embedding_hidden_mapping_in"),
        *weight_and_bias(_BLOCK + "attention.query_key_value", _ATTENTION, QUERY_KEY_VALUE),
        *weight_and_bias(_BLOCK + "attention.out", _LAYER + "attention.dense"),
        *weight_and_bias(_BLOCK + "norms.0", _LAYER + "attention.LayerNorm"),
        *weight_and_bias(_BLOCK + "feed_forward.up", _LAYER + "ffn"),
        *weight_and_bias(_BLOCK + "feed_forward.down", _LAYER + "ffn_output"),
        *weight_and_bias(_BLOCK + "norms.1", _LAYER + "full_layer_layer_norm"),
        *weight_and_bias("output.transform.linear", "predictions.dense"),
        *weight_and_bias("output.transform.norm", "predictions.LayerNorm"),
        Tensor("output.weight", "predictions.decoder.weight", by_token=True),
        Tensor("output.bias", "predictions.bias", by_token=True),
    ),
    fixed={**BERT.fixed, "inner_group_num": 1},
    ignored=(*BERT.ignored, "classifier_dropout_prob", "gap_size", "net_structure_type", "num_memory_blocks"),
    ignored_tensors=(
        r"albert\.embeddings\.position_ids",
        r"albert\.pooler\.(weight|bias)",
        r"(albert\.)?sop_classifier\..*",
    ),
    prefix="albert.",
    aliases={"predictions.bias": ("predictions.decoder.bias",)},
)

_DEBERTA_NAMES = {
    "bert.": "deberta.",
    "attention.self.query": "attention.self.query_proj",
    "attention.self.key": "attention.self.key_proj",
    "attention.self.value": "attention.self.value_proj",
}
_OWN_HEAD = {
    "cls.predictions.transform.dense.": "lm_predictions.lm_head.dense.",
    "cls.predictions.transform.LayerNorm.": "lm_predictions.lm_head.LayerNorm.",
    "cls.predictions.": "lm_predictions.lm_head.",
}


def _rename_for_deberta(name: str) -> str:
    for old, new in _DEBERTA_NAMES.items():
        name = new + name.removeprefix(old) if name.startswith(old) else name.replace(f".{old}", f".{new}")
    return name


def _rename_head(name: str) -> str:
    for old, new in _OWN_HEAD.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


_KINDS = ("relative_attention", "pos_att_type", "share_att_key", "norm_rel_ebd", "position_biased_input")
_SIZES = ("position_buckets", "max_relative_positions", "max_position_embeddings")
_VERSION_3 = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
}


def _parts(value: object) -> set[str]:
    """Return names in a list, or between bars."""
    names: Iterable[Any] = value if isinstance(value, list) else str(value).lower().split("|")
    return {str(name).strip() for name in names}


def _read_distances(config: Json) -> Json:
    """Return the buckets of distances. Raises ValueError."""
    for name, expected in _VERSION_3.items():
        value, is_list = config.get(name), isinstance(expected, list)
        if _parts(value) != _parts(expected) if is_list else value != expected:
            raise ValueError(f"{name} is {value!r}; expected {expected!r}, as in DeBERTa 3")
    buckets, limit = config.get("position_buckets", -1), config.get("max_relative_positions", -1)
    if buckets < 1:
        raise ValueError(f"position_buckets is {buckets}; expected 1 or more, as in DeBERTa 2 and 3")
    context = config.get("max_position_embeddings", 512)
    return {"context": context, "distance_buckets": buckets, "distance_limit": context if limit < 1 else limit}


def _write_distances(config: OpenSettings) -> Json:
    limit = -1 if config.distance_limit == config.context else config.distance_limit
    sizes = {"max_position_embeddings": config.context, "max_relative_positions": limit}
    return {**_VERSION_3, **sizes, "position_buckets": config.distance_buckets}


DEBERTA_V2 = replace(
    BERT,
    model_type="deberta-v2",
    class_name="DebertaV2ForMaskedLM",
    implied={**BERT.implied, "positions": "none"},
    settings=(
        Setting("num_hidden_layers", "layers"),
        Setting("hidden_size", "width"),
        Setting("num_attention_heads", "heads"),
        Setting("intermediate_size", "feed_forward_width"),
        Setting("type_vocab_size", "segments", 0),
        Setting("layer_norm_eps", "norm_epsilon", 1e-7),
        Setting("hidden_act", "feed_forward", "gelu", ACTIVATIONS),
        Rule((*_KINDS, *_SIZES), _read_distances, _write_distances),
        TIED,
    ),
    tensors=(
        *(rename_row(row, _rename_for_deberta) for row in BERT.tensors if row.ours != "encoder.places.vectors"),
        Tensor("encoder.distances.vectors", "deberta.encoder.rel_embeddings.weight"),
        *weight_and_bias("encoder.distances.norm", "deberta.encoder.LayerNorm"),
    ),
    fixed={"conv_kernel_size": 0, "legacy": True},
    ignored=(*BERT.ignored, "pooler_dropout", "pooler_hidden_act", "pooler_hidden_size"),
    ignored_tensors=(
        r"deberta\.embeddings\.position_(ids|embeddings\.weight)",
        r"(deberta\.)?mask_predictions\..*",
        r"(deberta\.)?pooler\..*",
    ),
    prefix="deberta.",
    old_endings={},
)
# With the head of Microsoft's files.
DEBERTA_V2_LM = replace(
    DEBERTA_V2,
    tensors=tuple(rename_row(row, _rename_head) for row in DEBERTA_V2.tensors),
    fixed={**DEBERTA_V2.fixed, "legacy": False},
)


def has_own_head(config: Json, names: Iterable[str]) -> bool:
    """Return whether a DeBERTa has the head of Microsoft's files, not that of BERT. names: of its tensors."""
    return config.get("legacy") is False or any(name.startswith("lm_predictions.") for name in names)

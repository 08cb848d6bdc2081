"""BERT and its relatives, with their masked-LM heads.

BERT (Devlin et al. 2019). DistilBERT (Sanh et al. 2019): without segments. RoBERTa (Liu et al. 2019), XLM-R
(Conneau et al. 2020) and CamemBERT (Martin et al. 2020): the first position is the row after that of padding. MPNet
(Song et al. 2020): biases by distance beside positions. ELECTRA (Clark et al. 2020), its generator: narrower vectors of
tokens. ModernBERT (Warner et al. 2024): norms first, rotary positions, and a window in two of three layers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.features.open.architecture import (
    ACTIVATIONS,
    QUERY_KEY_VALUE,
    Architecture,
    Rule,
    Setting,
    Tensor,
    weight_and_bias,
)
from chainrule.features.open.network.config import OpenMaskedConfig, OpenSettings
from chainrule.features.open.positions import layer_types, rotary

if TYPE_CHECKING:
    from collections.abc import Callable

    Json = dict[str, Any]

TIED = Setting("tie_word_embeddings", "tied", True)
_ALWAYS_IGNORED = (r"bert\.embeddings\.position_ids",)  # 0, 1, 2, ...
_NEXT_SENTENCE = (r"bert\.pooler\.dense\.(weight|bias)", r"(bert\.)?cls\.seq_relationship\.(weight|bias)")
_BLOCK, _LAYER = "encoder.blocks.{layer}.", "bert.encoder.layer.{layer}."
_ATTENTION = tuple(f"{_LAYER}attention.self.{name}" for name in ("query", "key", "value"))
_DISTIL_LAYER = "distilbert.transformer.layer.{layer}."
_DISTIL_ATTENTION = tuple(f"{_DISTIL_LAYER}attention.{name}_lin" for name in "qkv")


def _read_types(config: Json) -> Json:
    """Return the number of token types. Raises ValueError."""
    if (types := config.get("type_vocab_size", 2)) == 0:
        raise ValueError("there are no token types; expected 1 or more")
    return {"segments": types}


BERT = Architecture(
    model_type="bert",
    class_name="BertForMaskedLM",
    family="masked",
    config=OpenMaskedConfig,
    implied={
        "norm": "layer",
        "norm_place": "post",
        "norm_gain": True,
        "embedding_norm": False,
        "input_norm": True,
        "positions": "learned",
        "query_key_norm": False,
        "biases": True,
        "output_transform": True,
        "output_bias": True,
    },
    settings=(
        Setting("num_hidden_layers", "layers"),
        Setting("hidden_size", "width"),
        Setting("num_attention_heads", "heads"),
        Setting("intermediate_size", "feed_forward_width"),
        Setting("max_position_embeddings", "context", 512),
        Rule(("type_vocab_size",), _read_types, lambda config: {"type_vocab_size": max(1, config.segments)}),
        Setting("layer_norm_eps", "norm_epsilon", 1e-12),
        Setting("hidden_act", "feed_forward", "gelu", ACTIVATIONS),
        TIED,
    ),
    tensors=(
        Tensor("embedding.weight", "bert.embeddings.word_embeddings.weight", by_token=True),
        Tensor("encoder.places.vectors", "bert.embeddings.position_embeddings.weight"),
        Tensor("encoder.segments", "bert.embeddings.token_type_embeddings.weight"),
        *weight_and_bias("encoder.input_norm", "bert.embeddings.LayerNorm"),
        *weight_and_bias(_BLOCK + "attention.query_key_value", _ATTENTION, QUERY_KEY_VALUE),
        *weight_and_bias(_BLOCK + "attention.out", _LAYER + "attention.output.dense"),
        *weight_and_bias(_BLOCK + "norms.0", _LAYER + "attention.output.LayerNorm"),
        *weight_and_bias(_BLOCK + "feed_forward.up", _LAYER + "intermediate.dense"),
        *weight_and_bias(_BLOCK + "feed_forward.down", _LAYER + "output.dense"),
        *weight_and_bias(_BLOCK + "norms.1", _LAYER + "output.LayerNorm"),
        *weight_and_bias("output.transform.linear", "cls.predictions.transform.dense"),
        *weight_and_bias("output.transform.norm", "cls.predictions.transform.LayerNorm"),
        Tensor("output.weight", "cls.predictions.decoder.weight", by_token=True),
        Tensor("output.bias", "cls.predictions.bias", by_token=True),
    ),
    fixed={"position_embedding_type": "absolute"},
    ignored=(
        *("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "directionality"),
        *("pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head"),
        "pooler_type",
    ),
    ignored_tensors=(*_ALWAYS_IGNORED, *_NEXT_SENTENCE),
    prefix="bert.",
    old_endings={".gamma": ".weight", ".beta": ".bias"},
    aliases={"cls.predictions.bias": ("cls.predictions.decoder.bias",)},
)

BERT_WITH_PAIRS = replace(
    BERT,
    class_name="BertForPreTraining",
    implied={**BERT.implied, "next_sentence": True},
    tensors=(
        *BERT.tensors,
        *weight_and_bias("next_sentence.pooler", "bert.pooler.dense"),
        *weight_and_bias("next_sentence.output", "cls.seq_relationship"),
    ),
    ignored_tensors=_ALWAYS_IGNORED,
)

DISTILBERT = Architecture(
    model_type="distilbert",
    class_name="DistilBertForMaskedLM",
    family="masked",
    config=OpenMaskedConfig,
    implied={**BERT.implied, "norm_epsilon": 1e-12},
    settings=(
        Setting("n_layers", "layers"),
        Setting("dim", "width"),
        Setting("n_heads", "heads"),
        Setting("hidden_dim", "feed_forward_width"),
        Setting("max_position_embeddings", "context", 512),
        Setting("activation", "feed_forward", "gelu", ACTIVATIONS),
        TIED,
    ),
    tensors=(
        Tensor("embedding.weight", "distilbert.embeddings.word_embeddings.weight", by_token=True),
        Tensor("encoder.places.vectors", "distilbert.embeddings.position_embeddings.weight"),
        *weight_and_bias("encoder.input_norm", "distilbert.embeddings.LayerNorm"),
        *weight_and_bias(_BLOCK + "attention.query_key_value", _DISTIL_ATTENTION, QUERY_KEY_VALUE),
        *weight_and_bias(_BLOCK + "attention.out", _DISTIL_LAYER + "attention.out_lin"),
        *weight_and_bias(_BLOCK + "norms.0", _DISTIL_LAYER + "sa_layer_norm"),
        *weight_and_bias(_BLOCK + "feed_forward.up", _DISTIL_LAYER + "ffn.lin1"),
        *weight_and_bias(_BLOCK + "feed_forward.down", _DISTIL_LAYER + "ffn.lin2"),
        *weight_and_bias(_BLOCK + "norms.1", _DISTIL_LAYER + "output_layer_norm"),
        *weight_and_bias("output.transform.linear", "vocab_transform"),
        *weight_and_bias("output.transform.norm", "vocab_layer_norm"),
        Tensor("output.weight", "vocab_projector.weight", by_token=True),
        Tensor("output.bias", "vocab_projector.bias", by_token=True),
    ),
    # Sinusoids only initialise its table of positions, which the file contains.
    fixed={"tie_weights_": True},
    ignored=("sinusoidal_pos_embds", "dropout", "attention_dropout", "qa_dropout", "seq_classif_dropout"),
    ignored_tensors=(r"distilbert\.embeddings\.position_ids",),
    prefix="distilbert.",
)

_ROBERTA_NAMES = {
    "cls.predictions.transform.dense.": "lm_head.dense.",
    "cls.predictions.transform.LayerNorm.": "lm_head.layer_norm.",
    "cls.predictions.": "lm_head.",
    "bert.": "roberta.",
}


def _read_positions(config: Json) -> Json:
    """Return the context, and the row of the first position: the table has max_position_embeddings rows; those up to
    the row of padding are not used.

    Raises ValueError.
    """
    rows, padding = config.get("max_position_embeddings", 512), config.get("pad_token_id", 1)
    if not isinstance(padding, int) or not isinstance(rows, int) or not 0 <= padding < rows - 1:
        raise ValueError(f"there are {rows!r} rows of positions, but padding is row {padding!r}; expected a lower one")
    return {"position_offset": padding + 1, "context": rows - padding - 1}


def _write_positions(config: OpenSettings) -> Json:
    offset = max(1, config.position_offset)  # there is always a row of padding
    return {"max_position_embeddings": config.context + offset, "pad_token_id": offset - 1}


def _rename(name: str) -> str:
    for old, new in _ROBERTA_NAMES.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def rename_row(row: Tensor, rename: Callable[[str], str] = _rename) -> Tensor:
    """Return the row of a table with other names of theirs."""
    theirs = row.theirs
    return row._replace(theirs=rename(theirs) if isinstance(theirs, str) else tuple(map(rename, theirs)))


ROBERTA = replace(
    BERT,
    model_type="roberta",
    class_name="RobertaForMaskedLM",
    settings=(
        *(row for row in BERT.settings if not isinstance(row, Setting) or row.ours != "context"),
        Rule(("max_position_embeddings", "pad_token_id"), _read_positions, _write_positions),
    ),
    tensors=tuple(map(rename_row, BERT.tensors)),
    ignored_tensors=(
        r"roberta\.pooler\.dense\.(weight|bias)",
        r"roberta\.embeddings\.position_ids",
    ),
    prefix="roberta.",
    old_endings={},
    aliases={"lm_head.bias": ("lm_head.decoder.bias",)},
)

XLM_ROBERTA = replace(ROBERTA, model_type="xlm-roberta", class_name="XLMRobertaForMaskedLM")
CAMEMBERT = replace(ROBERTA, model_type="camembert", class_name="CamembertForMaskedLM")

_MPNET_NAMES = {
    "roberta.": "mpnet.",
    "attention.self.query": "attention.attn.q",
    "attention.self.key": "attention.attn.k",
    "attention.self.value": "attention.attn.v",
    "attention.output.dense": "attention.attn.o",
    "attention.output.LayerNorm": "attention.LayerNorm",
}


def _rename_for_mpnet(name: str) -> str:
    for old, new in _MPNET_NAMES.items():
        name = name.replace(old, new)
    return name


MPNET = replace(
    ROBERTA,
    model_type="mpnet",
    class_name="MPNetForMaskedLM",
    implied={**ROBERTA.implied, "relative_bias": True},
    settings=tuple(row for row in ROBERTA.settings if not isinstance(row, Rule) or "type_vocab_size" not in row.fields),
    tensors=(
        *(rename_row(row, _rename_for_mpnet) for row in ROBERTA.tensors if row.ours != "encoder.segments"),
        Tensor("encoder.bias.numbers", "mpnet.encoder.relative_attention_bias.weight"),
    ),
    fixed={"relative_attention_num_buckets": 32},
    ignored_tensors=(
        r"mpnet\.pooler\.dense\.(weight|bias)",
        r"mpnet\.embeddings\.position_ids",
    ),
    prefix="mpnet.",
)

_ELECTRA_NAMES = {
    "bert.": "electra.",
    "cls.predictions.transform.dense": "generator_predictions.dense",
    "cls.predictions.transform.LayerNorm": "generator_predictions.LayerNorm",
    "cls.predictions.decoder.weight": "generator_lm_head.weight",
    "cls.predictions.bias": "generator_lm_head.bias",
}


def _rename_for_electra(name: str) -> str:
    for old, new in _ELECTRA_NAMES.items():
        name = new + name.removeprefix(old) if name.startswith(old) else name
    return name


ELECTRA = replace(
    BERT,
    model_type="electra",
    class_name="ElectraForMaskedLM",
    settings=(
        *(row for row in BERT.settings if not isinstance(row, Setting) or row.ours != "feed_forward"),
        Setting("embedding_size", "embedding_width", 128),
        Setting("hidden_act", "feed_forward", "gelu", {"gelu": "gelu_exact"}),  # the generator's in any case
    ),
    tensors=(
        *(rename_row(row, _rename_for_electra) for row in BERT.tensors),
        *weight_and_bias("encoder.projection", "electra.embeddings_project"),
    ),
    ignored=(*BERT.ignored, "summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout"),
    ignored_tensors=(r"electra\.embeddings\.position_ids", r"(electra\.)?generator_lm_head\.bias_"),
    prefix="electra.",
    aliases={},
)

_MODERN_LAYER = "model.layers.{layer}."


def _has_window(config: Json, layer: int) -> bool:
    return layer % (config.get("global_attn_every_n_layers") or 3) != 0


_TYPES = layer_types(_has_window, "global_attn_every_n_layers", keeps=True)
_ROPE = rotary(base=160_000.0, local="local_rope_theta")


def _read_layers(config: Json) -> Json:
    """Return the kinds of the layers: a token sees half of local_attention on either side."""
    return _TYPES.read({**config, "sliding_window": config.get("local_attention", 128) // 2 + 1})


def _write_layers(config: OpenSettings) -> Json:
    written = _TYPES.write(config)
    return {"layer_types": written["layer_types"], "local_attention": 2 * ((config.window or 1) - 1)}


def _read_bases(config: Json) -> Json:
    base = config.get("global_rope_theta")
    return _ROPE.read(config if base is None else {**config, "rope_theta": base})


def _write_bases(config: OpenSettings) -> Json:
    written = _ROPE.write(config)
    both = {"global_rope_theta": config.rotary_base, "local_rope_theta": written["local_rope_theta"]}
    return {**both, "rope_parameters": written["rope_parameters"]}


_MODERN_ACTIVATIONS = {"gelu": "geglu_exact", "silu": "swiglu"}


def _read_activation(config: Json) -> Json:
    """Return the activation: our networks have one for blocks and for the layer before an output, which an encoder
    lacks.
    """
    name, before_output = config.get("hidden_activation", "gelu"), config.get("classifier_activation", "gelu")
    if name not in _MODERN_ACTIVATIONS:
        raise ValueError(f"{name!r} is not supported; expected one of {', '.join(_MODERN_ACTIVATIONS)}")
    if name != before_output and "ModernBertModel" not in (config.get("architectures") or ()):
        raise ValueError(f"{name!r} in blocks and {before_output!r} before an output are not supported together")
    return {"feed_forward": _MODERN_ACTIVATIONS[name]}


def _write_activation(config: OpenSettings) -> Json:
    name = next((theirs for theirs, ours in _MODERN_ACTIVATIONS.items() if ours == config.feed_forward), "gelu")
    return {"hidden_activation": name, "classifier_activation": name}  # of others, what is read again differs


MODERNBERT = Architecture(
    model_type="modernbert",
    class_name="ModernBertForMaskedLM",
    family="masked",
    config=OpenMaskedConfig,
    implied={
        "norm": "layer",
        "norm_gain": True,
        "embedding_norm": True,
        "first_norm": False,
        "query_key_norm": False,
        "biases": False,
        "output_transform": True,
        "output_bias": True,
    },
    settings=(
        Setting("num_hidden_layers", "layers"),
        Setting("hidden_size", "width"),
        Setting("num_attention_heads", "heads"),
        Setting("intermediate_size", "feed_forward_width"),
        Setting("max_position_embeddings", "context", 8192),
        Setting("norm_eps", "norm_epsilon", 1e-5),
        Rule(("hidden_activation", "classifier_activation"), _read_activation, _write_activation),
        Rule(("layer_types", "local_attention", "global_attn_every_n_layers"), _read_layers, _write_layers),
        Rule((*_ROPE.fields, "global_rope_theta"), _read_bases, _write_bases),
        TIED,
    ),
    tensors=(
        Tensor("embedding.weight", "model.embeddings.tok_embeddings.weight", by_token=True),
        Tensor("embedding.norm.weight", "model.embeddings.norm.weight"),
        Tensor(_BLOCK + "norms.0.weight", _MODERN_LAYER + "attn_norm.weight"),
        Tensor(_BLOCK + "attention.query_key_value.weight", _MODERN_LAYER + "attn.Wqkv.weight"),
        Tensor(_BLOCK + "attention.out.weight", _MODERN_LAYER + "attn.Wo.weight"),
        Tensor(_BLOCK + "norms.1.weight", _MODERN_LAYER + "mlp_norm.weight"),
        Tensor(_BLOCK + "feed_forward.up.weight", _MODERN_LAYER + "mlp.Wi.weight"),
        Tensor(_BLOCK + "feed_forward.down.weight", _MODERN_LAYER + "mlp.Wo.weight"),
        Tensor("encoder.norm.weight", "model.final_norm.weight"),
        Tensor("output.transform.linear.weight", "head.dense.weight"),
        Tensor("output.transform.norm.weight", "head.norm.weight"),
        Tensor("output.weight", "decoder.weight", by_token=True),
        Tensor("output.bias", "decoder.bias", by_token=True),
    ),
    fixed={
        **dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"), False),
        "decoder_bias": True,
    },
    ignored=(
        *("attention_dropout", "embedding_dropout", "mlp_dropout", "classifier_dropout", "classifier_pooling"),
        *("deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index", "initializer_cutoff_factor"),
        *("cls_token_id", "repad_logits_with_grad", "reference_compile", "position_embedding_type", "layer_norm_eps"),
    ),
    prefix="model.",
)

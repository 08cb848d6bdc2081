"""BART (Lewis et al. 2020) and its multilingual kin: mBART (Liu et al. 2020), and M2M-100 and NLLB (Fan et al. 2021).

Their tensors are those of Marian. What is read before and after a text is no setting of config.json: it follows from
the tokenizer and from the language of each side.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.features.open.architecture import Rule, Setting, Tensor, weight_and_bias
from chainrule.features.open.architectures.pairs.marian import MARIAN

if TYPE_CHECKING:
    from chainrule.features.seq2seq.network.config import Seq2SeqConfig

    Json = dict[str, Any]

_SIDES = (("reader", "encoder"), ("decoder", "decoder"))
_OFFSET = 2  # rows of positions before the first


def _read_length(config: Json) -> Json:
    longest = config.get("max_position_embeddings", 1024)
    return dict.fromkeys(("max_source", "learned_positions", "learned_source_positions"), longest)


def _write_length(config: Seq2SeqConfig) -> Json:
    return {"max_position_embeddings": config.learned_positions}


BART = replace(
    MARIAN,
    model_type="bart",
    class_name="BartForConditionalGeneration",
    implied={
        "style": "vaswani",
        "norm_place": "post",
        "positions": "none",
        "position_offset": _OFFSET,
        "embedding_norm": True,
        "output_bias": True,
        "shared": "all",
    },
    settings=(
        *(
            row
            for row in MARIAN.settings
            if not {"max_position_embeddings", "share_encoder_decoder_embeddings"}
            & set((row.theirs,) if isinstance(row, Setting) else row.fields)
        ),
        Rule(("max_position_embeddings",), _read_length, _write_length),
    ),
    tensors=(
        *MARIAN.tensors,
        *(Tensor(f"{ours}.places.weight", f"model.{theirs}.embed_positions.weight") for ours, theirs in _SIDES),
        *(
            row
            for ours, theirs in _SIDES
            for row in weight_and_bias(f"{ours}.embedding_norm", f"model.{theirs}.layernorm_embedding")
        ),
    ),
    fixed={
        "is_encoder_decoder": True,
        "tie_word_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": True,
        "add_final_layer_norm": False,
        "static_position_embeddings": False,
    },
    ignored=(*MARIAN.ignored, "force_bos_token_to_be_generated", "gradient_checkpointing"),
    computed={},
)
_FINAL_NORMS = tuple(
    row for ours, theirs in _SIDES for row in weight_and_bias(f"{ours}.norm", f"model.{theirs}.layer_norm")
)
MBART = replace(
    BART,
    model_type="mbart",
    class_name="MBartForConditionalGeneration",
    implied={**BART.implied, "norm_place": "pre"},
    tensors=(*BART.tensors, *_FINAL_NORMS),
    fixed={**BART.fixed, "normalize_before": True, "add_final_layer_norm": True},
)
M2M_100 = replace(
    MBART,
    model_type="m2m_100",
    class_name="M2M100ForConditionalGeneration",
    implied={
        **MBART.implied,
        "positions": "sinusoidal",
        "interleaved_sinusoids": False,
        "inclusive_sinusoids": True,
        "embedding_norm": False,
        "output_bias": False,
    },
    settings=(
        *BART.settings[:-1],
        Setting("max_position_embeddings", "max_source", 1024),
        Rule(
            ("pad_token_id",),
            lambda config: {"position_offset": config.get("pad_token_id", 1) + 1},
            lambda config: {"pad_token_id": config.position_offset - 1},
        ),
    ),
    tensors=(
        *(
            row
            for row in BART.tensors
            if row.ours != "output.bias" and "places" not in row.ours and "_norm" not in row.ours
        ),
        *_FINAL_NORMS,
    ),
    ignored_tensors=(r"model\.(encoder|decoder)\.embed_positions\.weights?",),  # sinusoids, of any length
)

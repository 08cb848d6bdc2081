"""RoBERTa (Liu et al. 2019): BERT with byte-level BPE; its first position is the row after that of padding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chainrule.open_models.architecture import Rule, Setting, Tensor
from chainrule.open_models.architectures.bert import BERT

if TYPE_CHECKING:
    from chainrule.neural.config import MaskedConfig

    Json = dict[str, Any]

_HEAD = {
    "cls.predictions.transform.dense.": "lm_head.dense.",
    "cls.predictions.transform.LayerNorm.": "lm_head.layer_norm.",
    "cls.predictions.": "lm_head.",
    "bert.": "roberta.",
}


def _read_positions(config: Json) -> Json:
    """The table has max_position_embeddings rows; those up to the row of padding are not used. Raises ValueError."""
    rows, padding = config.get("max_position_embeddings", 512), config.get("pad_token_id", 1)
    if not isinstance(padding, int) or not isinstance(rows, int) or not 0 <= padding < rows - 1:
        raise ValueError(f"there are {rows!r} rows of positions, but padding is row {padding!r}; expected a lower one")
    return {"position_offset": padding + 1, "context": rows - padding - 1}


def _write_positions(config: MaskedConfig) -> Json:
    offset = max(1, config.position_offset)  # there is always a row of padding
    return {"max_position_embeddings": config.context + offset, "pad_token_id": offset - 1}


def _rename(name: str) -> str:
    for old, new in _HEAD.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def _rename_row(row: Tensor) -> Tensor:
    theirs = row.theirs
    return row._replace(theirs=_rename(theirs) if isinstance(theirs, str) else tuple(map(_rename, theirs)))


ROBERTA = replace(
    BERT,
    model_type="roberta",
    class_name="RobertaForMaskedLM",
    settings=(
        *(row for row in BERT.settings if not isinstance(row, Setting) or row.ours != "context"),
        Rule(("max_position_embeddings", "pad_token_id"), _read_positions, _write_positions),
    ),
    tensors=tuple(map(_rename_row, BERT.tensors)),
    ignored_tensors=(
        r"roberta\.pooler\.dense\.(weight|bias)",
        r"(roberta\.)?lm_head\.decoder\.bias",
        r"roberta\.embeddings\.position_ids",
    ),
    prefix="roberta.",
    old_endings={},
)

"""Beams and attention, as numbers and as drawings."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.api.attend import AttentionMaps, attend
from chainrule.api.causal_model import CausalModel
from chainrule.api.model import Model, as_kind
from chainrule.api.pair_model import TextPairModel
from chainrule.decoding.beam_config import BeamConfig
from chainrule.decoding.limits import Limits
from chainrule.errors import SettingError
from chainrule.report.beam_tree import compare_with_greedy, tree_json, tree_svg

if TYPE_CHECKING:
    Json = dict[str, Any]

_MOST_TOKENS = 512  # of a text whose attention is shown


def beams(model: object, text: str, size: int, max_tokens: int) -> Json:
    """All that a beam search considers after a text, or for a source: its tree, a drawing of it, and a sentence.

    Raises SettingError, MarkerError.
    """
    search = BeamConfig(size=size)
    if isinstance(model, TextPairModel):
        tree = model.beam_tree(text, search, max_tokens=max_tokens)
    elif isinstance(model, Model):
        tree = as_kind(model, CausalModel).beam_tree(text, search, Limits(max_tokens=max_tokens))
    else:
        raise SettingError("this model writes no texts; expected one that continues or translates them")
    vocabulary = tree.tokenizer.vocabulary

    def name(token: int) -> str:
        return tree.tokenizer.shown([token])[0]

    return {
        **json.loads(tree_json(tree.title, text, tree.tree, vocabulary.token)),
        "shown": [name(node.token) for node in tree.tree.nodes],
        "finding": compare_with_greedy(tree.tree, name),
        "svg": tree_svg(tree.title, text, tree.tree, lambda token: name(token).strip() or name(token)),
    }


def attention(model: object, text: str, target: str | None = None, layer: int = 0) -> Json:
    """The attention maps of one layer, and the titles of all.

    weights: float32, little-endian, in base64: a head after another, each row by row. Raises SettingError, MarkerError.
    """
    if not isinstance(model, Model | TextPairModel):
        raise SettingError("this model has no attention to show; expected a Transformer or a model of pairs")
    drawn = attend(model, text, target or None)
    assert isinstance(drawn, AttentionMaps)
    if not 0 <= layer < len(drawn.maps):
        raise SettingError(f"layer is {layer}; expected 0 to {len(drawn.maps) - 1}")
    shown = drawn.maps[layer]
    longest = max(len(shown.rows), len(shown.columns))
    if longest > _MOST_TOKENS:
        raise SettingError(f"the text has {longest:,} tokens; attention is shown of up to {_MOST_TOKENS}")
    weights = np.nan_to_num(shown.weights).astype("<f4")
    return {
        "heading": drawn.heading,
        "layers": [own.title for own in drawn.maps],
        "layer": layer,
        "rows": list(shown.rows),
        "columns": list(shown.columns),
        "heads": len(weights),
        "weights": base64.b64encode(weights.tobytes()).decode(),
    }

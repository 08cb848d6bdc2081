"""Beam searches and attention maps for the explorer, as numbers and as drawings."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.progress import silent
from chainrule.decoding.config import BeamConfig, Limits
from chainrule.drawing.attention import AttentionMaps
from chainrule.errors import SettingError
from chainrule.features.inspect.beam_tree import compare_with_greedy, tree_json, tree_svg
from chainrule.features.seq2seq.model import Seq2SeqModel
from chainrule.features.serve.explorer.heads import is_special, overview
from chainrule.features.serve.explorer.records import LONGEST, chosen
from chainrule.features.vision.attend import attend_picture
from chainrule.features.vision.attention_page import panel_records
from chainrule.features.vision.model import CaptionModel
from chainrule.models.any_model import check_kind
from chainrule.models.language_models import CausalModel
from chainrule.models.model import Model
from chainrule.protocol import END
from chainrule.verbs.attend import attend

if TYPE_CHECKING:
    from chainrule.features.vision.pictures.picture import Picture
    from chainrule.models.language_models import BeamTree

    Json = dict[str, Any]

_MOST_TOKENS = 512  # of a text whose attention is shown
_MOST_READ = 4096  # tokens, over all readings without a head, that are read for all layers


def beams(
    model: object, text: str, size: int, max_tokens: int, *, given: str | None = None, picture: Picture | None = None
) -> Json:
    """Return all that a beam search considers: its tree, a drawing of it, and a sentence.

    text: the beginning of all hypotheses; if it is longer than `LONGEST`, its end is read. given, picture: as for
    `text_model`. Raises SettingError, TextError, MarkerError.
    """
    search, read = BeamConfig(size=size), text[-LONGEST:]
    searched = _search(model, read, search, max_tokens, given, picture)
    tree, vocabulary = searched.tree, searched.tokenizer.vocabulary

    def name(token: int) -> str:
        return searched.tokenizer.shown([token])[0]

    return {
        **json.loads(tree_json(searched.title, searched.prompt, tree, vocabulary.token)),
        "shown": [name(node.token) for node in tree.nodes],
        "texts": _texts(searched),
        "finding": compare_with_greedy(tree, name),
        "svg": tree_svg(
            searched.title, searched.prompt, tree, lambda token: name(token).strip() or name(token), in_page=True
        ),
        "left_out": len(text) - len(read),
    }


def _texts(searched: BeamTree) -> list[str]:
    """Return the text of each hypothesis after the prompt, with the marks of boundaries."""
    nodes, decode = searched.tree.nodes, searched.tokenizer.decode
    paths: list[list[int]] = []
    for node in nodes:  # parents come before their children
        paths.append([*(paths[node.parent] if node.parent >= 0 else []), node.token])
    return [f"{decode(path[:-1])} </s>" if path[-1] == END else decode(path) for path in paths]


def _search(
    model: object, text: str, search: BeamConfig, max_tokens: int, given: str | None, picture: Picture | None
) -> BeamTree:
    if isinstance(model, Seq2SeqModel):
        return model.beam_tree(given or "", search, begin=text, max_tokens=max_tokens)
    if isinstance(model, CaptionModel):
        return model.beam_tree(chosen(picture), search, max_tokens=max_tokens)
    if isinstance(model, Model):
        return check_kind(model, CausalModel).beam_tree(text, search, Limits(max_tokens=max_tokens))
    raise SettingError("this model writes no texts; expected one that continues or translates them")


def attention(
    model: object,
    text: str,
    layer: int | None = 0,
    *,
    without: bool = False,
    given: str | None = None,
    picture: Picture | None = None,
) -> Json:
    """Return the attention maps of one layer, an overview of all heads, and the titles of all layers; for captions, the
    picture as each token attends to it.

    layer: None for that of the head that tells most, see `overview`. special: the rows, and the columns, of tokens that
    stand for boundaries, not for text. text: for seq2seq models and captioners, the target; by default what the model
    writes. given, picture: as for `text_model`. weights: float32, little-endian, in base64: head by head, each row by
    row. without: whether to read the text again without each head, for the change in its log P, in nats, below 0 where
    the head helps: by layer and head, where heads are removable, which are those of Transformers that continue texts;
    where all would take long, of the layer alone, and null for the others. Raises SettingError,
    TextError, MarkerError.
    """
    if isinstance(model, CaptionModel):
        shown = attend_picture(model, chosen(picture), text or None)
        [caption] = shown.captions
        return {"kind": "picture", "caption": caption.text, "panels": panel_records(shown.picture, caption)}
    if isinstance(model, Seq2SeqModel):
        texts = [model.sources([given or ""])[0], model.target.encode_texts([text]).ids[:-1]]
        longest = max(map(len, texts))
        if longest > _MOST_TOKENS:
            raise SettingError(f"the text has {longest:,} tokens; this is shown of up to {_MOST_TOKENS}: shorten it")
        drawn = attend(model, given or "", text or None)
    elif isinstance(model, Model):
        _check_length(model, text)
        drawn = attend(model, text)
    else:
        raise SettingError(
            "this model has no attention to show; expected a Transformer, a seq2seq model, or a captioner"
        )
    assert isinstance(drawn, AttentionMaps)
    seen = overview(drawn.maps)
    record = {**_maps(drawn, seen["chosen"][0] if layer is None else layer), **seen}
    if not isinstance(model, CausalModel):
        return record
    return {**record, **_without_heads(model, text, record["layer"], without)}


def _without_heads(model: CausalModel, text: str, layer: int, is_wanted: bool) -> Json:
    """Return whether heads can be removed and, if that is wanted, what each is worth."""
    from chainrule.features.inspect.intervention import has_units, log_probs_without, units_of

    engine, tokens = model.engine, model.tokenizer.encode_texts([text]).ids[:-1]
    if not (has_units(engine) and len(tokens)):
        return {"removable": False}
    if not is_wanted:
        return {"removable": True}
    layers = [[unit for unit in own if isinstance(unit.part, int)] for own in units_of(engine)]
    reads_all = sum(map(len, layers)) * len(tokens) <= _MOST_READ
    read = layers if reads_all else layers[layer : layer + 1]
    groups = [[], *([head] for own in read for head in own)]
    rows = log_probs_without(engine, tokens, groups, "zero", silent).astype(np.float64)
    changes = (rows[1:] - rows[0]).sum(1).reshape(len(read), -1).tolist()
    if not reads_all:
        changes = [*[None] * layer, *changes, *[None] * (len(layers) - layer - 1)]
    return {"removable": True, "without": changes}


def _check_length(model: Model, text: str) -> None:
    """Raise SettingError, of a model that does not attend whatever the length."""
    from chainrule.neural.inspection import attending_network
    from chainrule.neural.network import check_length

    network = attending_network(model.require_engine("continue", "fill", "embed"))
    check_length(network, len(model.tokenizer.encode_texts([text]).ids) - 1, _MOST_TOKENS)


def _maps(drawn: AttentionMaps, layer: int) -> Json:
    if not 0 <= layer < len(drawn.maps):
        raise SettingError(f"layer is {layer}; expected 0 to {len(drawn.maps) - 1}")
    shown = drawn.maps[layer]
    weights = np.nan_to_num(shown.weights).astype("<f4")
    return {
        "kind": "maps",
        "heading": drawn.heading,
        "layers": [own.title for own in drawn.maps],
        "layer": layer,
        "rows": list(shown.rows),
        "columns": list(shown.columns),
        "special": [[i for i, token in enumerate(side) if is_special(token)] for side in (shown.rows, shown.columns)],
        "heads": len(weights),
        "weights": base64.b64encode(weights.tobytes()).decode(),
    }

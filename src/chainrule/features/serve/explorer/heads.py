"""What each head of a text's attention looks at, and a small picture of it: the overview of layers by heads.

A head's entropy and shares are means over the tokens that look, of those that have a choice: the first row of a model
that reads from left to right has none. Kinds of heads as in Clark et al., What Does BERT Look At? (2019), and
Voita et al., Analyzing Multi-Head Self-Attention (2019).
"""

from __future__ import annotations

import base64
import re
import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float32
    from numpy import ndarray

    from chainrule.drawing.attention import AttentionMap

    Json = dict[str, Any]
    Weights = Float32[ndarray, "heads rows columns"]

_PICTURE = 32  # the most rows and columns of a small picture
_ROWS = 64  # the most rows that figures are means of
_CLEAR = 0.4  # a share of the weight that is worth a name

_SPECIAL = re.compile(
    r"</?s>|<(unk|pad|bos|eos|mask|sep|cls|start_of_\w+|end_of_\w+)>|<\|[^|]+\|>|\[(CLS|SEP|PAD|MASK|UNK)\]",
    re.IGNORECASE,
)


def is_special(token: str) -> bool:
    """Return whether a token, as it is shown, stands for a boundary or a gap, not for text."""
    return _SPECIAL.fullmatch(token) is not None


def overview(maps: Sequence[AttentionMap]) -> Json:
    """Return, of each head of each layer, a small picture, the entropy of a row in nats, and the shares of what it
    looks at.

    picture: bytes in base64, `height` rows of `width`, 255 for the largest weight of all, 1. looks: the shares of the
    weight on the previous token, the first, the token itself, others that are the same, and separators (special tokens
    but the first, and punctuation); where rows and columns are of different texts, only the last two and the first.
    Shares overlap: the previous token may be the first. most: the token at the place with the most weight but the
    first, and its share. kind: the largest share, if it is at least 0.4, or "one" if that of `most` is, else "broad" or
    "mixed", for an entropy of more or less than half of what is possible. chosen: the layer and the head that
    tell most: with the least entropy of those that look at neither the first token nor separators, broad ones last.
    """
    layers = [_layer(one) for one in maps]
    heads = [(layer, head) for layer, own in enumerate(layers) for head in range(len(own))]
    telling = [(i, j) for i, j in heads if layers[i][j]["kind"] not in ("first", "separators")]

    def order(at: tuple[int, int]) -> tuple[bool, float]:
        own = layers[at[0]][at[1]]
        return own["kind"] == "broad", own["entropy"]

    chosen = min(telling or heads, key=order)
    return {"overview": layers, "chosen": list(chosen)}


def _layer(own: AttentionMap) -> list[Json]:
    weights = own.weights
    rows = weights.shape[1]
    is_square = list(own.rows) == list(own.columns)
    # Rows that see more than one column, evenly spread.
    read = np.flatnonzero((weights[0] > 0).sum(1) > 1) if weights.size else np.arange(0)
    read = read if len(read) else np.arange(rows)
    read = read[np.unique(np.linspace(0, len(read) - 1, min(_ROWS, len(read))).astype(int))]
    chosen = np.nan_to_num(weights[:, read])  # (heads, read, columns)
    entropies = -np.einsum("hrc,hrc->h", chosen, np.log(np.maximum(chosen, 1e-30))) / len(read)
    possible = float(np.log(np.maximum((chosen[0] > 0).sum(1), 1)).mean())
    masks = {name: mask[read].astype(np.float32) for name, mask in _masks(own, is_square=is_square).items()}
    looks = {name: np.einsum("hrc,rc->h", chosen, mask) / len(read) for name, mask in masks.items()}
    by_column = chosen[:, :, 1:].mean(1)
    pictures, height, width = _pictures(weights)
    return [
        {
            "picture": base64.b64encode(pictures[head].tobytes()).decode(),
            "height": height,
            "width": width,
            "entropy": round(float(entropies[head]), 4),
            "looks": (shares := {name: round(float(share[head]), 4) for name, share in looks.items()}),
            "most": (most := _most(own.columns, by_column[head])),
            "kind": _kind(shares, most, float(entropies[head]), possible),
        }
        for head in range(len(weights))
    ]


def _most(columns: Sequence[str], by_column: Float32[ndarray, " columns-1"]) -> Json | None:
    if not len(by_column):
        return None
    place = int(by_column.argmax())
    return {"token": columns[place + 1], "place": place + 1, "share": round(float(by_column[place]), 4)}


def _kind(shares: dict[str, float], most: Json | None, entropy: float, possible: float) -> str:
    name, share = max([*shares.items(), ("one", most["share"] if most else 0.0)], key=lambda pair: pair[1])
    return name if share >= _CLEAR else "broad" if entropy > possible / 2 else "mixed"


def _masks(own: AttentionMap, *, is_square: bool) -> dict[str, Bool[ndarray, "rows columns"]]:
    """Return, by what a head may look at, which columns these are, for each row."""
    shape = rows, columns = len(own.rows), len(own.columns)
    i, j = np.arange(rows)[:, None], np.arange(columns)[None]
    separators = np.array([k > 0 and _separates(token) for k, token in enumerate(own.columns)])
    first = np.broadcast_to(j == 0, shape)
    beside = {"first": first, "separators": np.broadcast_to(separators, shape)}
    if not is_square:
        return beside
    numbers = {token: number for number, token in enumerate(own.columns)}
    ids = np.array([numbers[token] for token in own.columns])
    return {"previous": j == i - 1, "itself": j == i, "same": (ids[:, None] == ids[None]) & (i != j), **beside}


def _separates(token: str) -> bool:
    text = token.strip("·¶‿ ")
    return is_special(token) or (not text and token != "") or all(unicodedata.category(c)[0] == "P" for c in text)


def _pictures(weights: Weights) -> tuple[ndarray, int, int]:
    """Return the maps, the largest weight of each square of them in a pixel, so that thin lines stay; their height and
    width.

    Weights from 0 to 1 become 0 to 255.
    """
    heads, rows, columns = weights.shape
    height, width = min(rows, _PICTURE), min(columns, _PICTURE)
    if not weights.size:
        return np.zeros((heads, height, width), np.uint8), height, width
    edges = [i * rows // height for i in range(height + 1)]
    bands = [np.fmax.reduce(weights[:, start:stop], 1) for start, stop in pairwise(edges)]
    small = np.fmax.reduceat(np.stack(bands, 1), np.arange(width) * columns // width, axis=2)
    return np.rint(255 * np.clip(np.nan_to_num(small), 0, 1)).astype(np.uint8), height, width

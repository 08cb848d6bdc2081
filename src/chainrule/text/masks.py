"""Texts with gaps: a mask stands for one token, which is to be found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import SettingError
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.text.tokenizer import Tokenizer

MASK = "[MASK]"


def masked_tokens(tokenizer: Tokenizer, text: str, mask: str = MASK) -> Int32[ndarray, " T"]:
    """The tokens of a text, <s> in place of what each mask was cut into.

    Raises SettingError if there is no mask in the text, or the tokenizer does not keep it apart; MarkerError.
    """
    if not mask.strip():
        raise SettingError("the mask is empty; expected something to look for in the text, such as [MASK]")
    number = text.count(mask)
    if not number:
        raise SettingError(
            f"there is no {mask} in {text!r}; put one where a token is to be found, or name it: mask=..."
        )
    encoded = tokenizer.encode_texts([text])
    aligned = tokenizer.align(encoded)
    written = tokenizer.align(tokenizer.encode_texts([mask])).text.tobytes()[:-1]
    whole = aligned.text.tobytes()
    ids, owners = encoded.ids[:-1].copy(), np.zeros(encoded.ids.size - 1, np.int64)
    spaces_apart = tokenizer.name in ("character", "byte")  # other tokens are made with the space before them, if any
    place = -1
    for gap in range(1, number + 1):
        place = whole.find(written, place + 1)
        if place < 0 or not written:
            raise SettingError(f"the {tokenizer.name} tokenizer does not keep {mask}; say mask=... and a word it knows")
        before = place if spaces_apart else len(whole[:place].rstrip(b" "))
        inside = (aligned.starts[:-1] < place + len(written)) & (aligned.stops[:-1] > before)
        around = (
            whole[aligned.starts[:-1][inside].min() : place]
            + whole[place + len(written) : aligned.stops[:-1][inside].max()]
        )
        if around.strip():
            raise SettingError(f"a token of {text!r} holds more than {mask}; put spaces around it")
        owners[inside] = gap
    ids[owners > 0] = BEGIN
    return np.asarray(ids[(owners == 0) | (np.diff(owners, prepend=0) != 0)])

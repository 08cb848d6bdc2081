"""Texts with masks: each stands for one token to be predicted."""

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
    """The tokens of a text, with one <s> in place of the tokens of each mask.

    Raises SettingError if the text has no mask, or the tokenizer does not separate it from its neighbours; MarkerError.
    """
    if not mask.strip():
        raise SettingError("the mask is empty; expected a string that occurs in the text, such as [MASK]")
    masks = text.count(mask)
    if not masks:
        raise SettingError(
            f"there is no {mask} in {text!r}; put one in place of each token to predict, or name another: mask=..."
        )
    encoded = tokenizer.encode_texts([text])
    aligned = tokenizer.align(encoded)
    written = tokenizer.align(tokenizer.encode_texts([mask])).text.tobytes()[:-1]
    whole = aligned.text.tobytes()
    ids, mask_of = encoded.ids[:-1].copy(), np.zeros(encoded.ids.size - 1, np.int64)  # mask_of: from 1; 0 for none
    has_space_tokens = tokenizer.name in ("character", "byte")  # other tokens include the space before them, if any
    start = -1
    for number in range(1, masks + 1):
        start = whole.find(written, start + 1)
        if start < 0 or not written:
            raise SettingError(f"the {tokenizer.name} tokenizer does not keep {mask}; use mask=... and a word it knows")
        before = start if has_space_tokens else len(whole[:start].rstrip(b" "))
        inside = (aligned.starts[:-1] < start + len(written)) & (aligned.stops[:-1] > before)
        around = (
            whole[aligned.starts[:-1][inside].min() : start]
            + whole[start + len(written) : aligned.stops[:-1][inside].max()]
        )
        if around.strip():
            raise SettingError(f"a token of {text!r} contains more than {mask}; put spaces around it")
        mask_of[inside] = number
    ids[mask_of > 0] = BEGIN
    return np.asarray(ids[(mask_of == 0) | (np.diff(mask_of, prepend=0) != 0)])

"""Tokens that say the language of a source or a target: mBART, M2M-100 and NLLB have one for each."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_LISTED = 8  # in a message


def is_language(token: str) -> bool:
    """Return whether a token says the language of a text: en_XX of mBART, eng_Latn of NLLB, __en__ of M2M-100."""
    return re.fullmatch(r"[a-z]{2,3}_[A-Z][A-Za-z]{1,3}|__[a-z]{2,3}__", token) is not None


def language_token(code: str, tokens: Iterable[str]) -> str:
    """Return the token of a language, from it or from its beginning: fr for fr_XX, eng for eng_Latn, en for __en__.

    tokens: the special tokens of a model. Raises SettingError.
    """
    languages = {token: token.strip("_").partition("_")[0] for token in tokens if is_language(token)}
    if not languages:
        raise SettingError("the model has no tokens of languages; leave out its languages")
    matching = [code] if code in languages else [token for token, short in languages.items() if short == code]
    if len(matching) == 1:
        return matching[0]
    like = [token for token, short in languages.items() if short[:2] == code[:2].lower()]
    near = matching or [*dict.fromkeys([*get_close_matches(code, languages), *like])]
    listed = ", ".join((near or sorted(languages))[:_MOST_LISTED])
    problem = "is the beginning of several of its languages" if matching else "is none of its languages"
    raise SettingError(f"{code!r} {problem}; expected one of {len(languages):,}, such as {listed}")

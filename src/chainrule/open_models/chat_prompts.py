"""What a checkpoint says of chat: its template, the names of its special tokens, and the ids of conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.open_models.vocabulary import Numbering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.text.tokenization.subword import Subword

    Json = dict[str, Any]


def template_of(origin: Json) -> str | None:
    """The chat template of a model that was opened; None: it has none. origin: its record of Hugging Face's files."""
    template = origin.get("chat_template") or (origin.get("tokenizer_config") or {}).get("chat_template")
    if isinstance(template, list):  # several by name
        named = {each.get("name"): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get("default") or next(iter(named.values()), None)
    return template if isinstance(template, str) and template else None


def variables_of(origin: Json, splitter: Subword) -> dict[str, str]:
    """The special tokens that a template may write by their names, such as bos_token."""
    numbering = Numbering(**origin["tokens"])
    names: dict[int | None, str] = {number: name for name, number in splitter.numbers.items()}
    begin = numbering.end if numbering.begin is None else numbering.begin
    variables = {"bos_token": names.get(begin), "eos_token": names.get(numbering.end)}
    for name, token in (origin.get("tokenizer_config") or {}).items():
        if name.endswith("_token"):
            variables[name] = token.get("content") if isinstance(token, dict) else token
    return {name: token for name, token in variables.items() if isinstance(token, str)}


class OpenPromptEncoder:
    """A `PromptEncoder`, by a model's own tokenizer."""

    def __init__(self, origin: Json, splitter: Subword) -> None:
        self.special: Sequence[str] = splitter.special_tokens
        self.added: Sequence[str] = splitter.added_tokens
        self._splitter, self._ours = splitter, Numbering(**origin["tokens"]).ours()

    def encode(self, text: str) -> Int32[ndarray, " T"]:
        """As `PromptEncoder.encode`."""
        numbers = self._splitter.encode_with_special_tokens(text)
        return self._ours[np.array(numbers, np.int64)].astype(np.int32)

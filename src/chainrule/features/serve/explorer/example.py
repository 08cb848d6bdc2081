"""What the views show before anything is typed: a text in the language of the model.

That is the sentence that the model's folder keeps from its training. A folder without one gives a sentence in English,
the language of the page, if the model knows most of its tokens, and else a text that the model writes itself, where it
does so quickly.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.decoding.chat.messages import Message
from chainrule.decoding.config import Limits, SamplingConfig
from chainrule.errors import ChainruleError
from chainrule.features.seq2seq.model import Seq2SeqModel
from chainrule.models.families.table import FAMILIES
from chainrule.models.language_models import CausalModel
from chainrule.models.model import Model
from chainrule.protocol import UNKNOWN
from chainrule.text.tokenization.tokenizer import MASK

if TYPE_CHECKING:
    from chainrule.decoding.chat.template import ChatTemplate

    Json = dict[str, Any]

_ENGLISH = "The children went down to the river, and the water was cold."
_UNKNOWN = 0.34  # the largest share of unknown tokens with which the English sentence is still an example
_LONGEST = 400  # characters of what a folder of somebody else may hold
_WRITTEN = 16  # tokens of a text that the model writes
_MESSAGE = "MESSAGE"  # stands for a message, to see what a template writes around it


def example_of(model: object) -> Json | None:
    """Return an example for all views.

    text: a sentence. begin: its first half, without the white space after it. gap: the sentence with [MASK] in place of
    the word in the middle. given: for a seq2seq model, the source. None for models that read no texts.
    """
    if (kept := _kept(model)) is not None:
        return _parts(*kept)
    if isinstance(model, Seq2SeqModel):
        return _parts("", _ENGLISH)
    return _parts(_written(model), None) if isinstance(model, Model) else None


def message_of(model: CausalModel, template: ChatTemplate) -> str | None:
    """Return a message to begin a conversation with: what the user says in the sentence that the model's folder keeps,
    or the whole sentence where that is no conversation.

    None without such a sentence.
    """
    if (kept := _kept(model)) is None:
        return None
    text, _ = kept
    try:
        written = " ".join(template.render([Message("user", _MESSAGE)]).split())
    except ChainruleError:
        return text
    before, _, after = written.partition(_MESSAGE)
    begins = " ".join(before.split())
    if not begins or not text.startswith(begins):
        return text
    return text.removeprefix(begins).partition(after.strip() or "\0")[0].strip() or text


def _kept(model: object) -> tuple[str, str | None] | None:
    """Return the sentence of a folder, and the source that it was given, if any."""
    kept = getattr(model, "record", {}).get("example")
    if not (isinstance(kept, dict) and isinstance(kept.get("text"), str) and kept["text"].strip()):
        return None
    given = kept.get("given")
    return kept["text"][:_LONGEST], given[:_LONGEST] if isinstance(given, str) else None


def _written(model: Model) -> str:
    """Return the English sentence, or what the model writes."""
    ids = model.tokenizer.encode_texts([_ENGLISH]).ids
    if np.count_nonzero(ids == UNKNOWN) <= _UNKNOWN * len(ids) or not isinstance(model, CausalModel):
        return _ENGLISH
    if FAMILIES[model.family].embeds:  # a network: it may be large and slow
        return ""
    try:
        [text] = model.generate("", 1, SamplingConfig(temperature=0.8), Limits(max_tokens=_WRITTEN), seed=1)
    except ChainruleError:
        return ""
    return text


def _parts(text: str, given: str | None) -> Json:
    words = list(re.finditer(r"\S+", text))
    begin, gap = text, text
    if len(words) > 1:
        middle = words[len(words) // 2]
        begin = text[: words[(len(words) - 1) // 2].end()]
        bare = re.fullmatch(r"(\W*)(.*?)(\W*)", middle[0], re.DOTALL)
        assert bare is not None
        gap = text[: middle.start()] + bare[1] + MASK + bare[3] + text[middle.end() :]
    elif text:
        begin, gap = text[: (len(text) + 1) // 2], f"{text} {MASK}"
    return {"text": text, "begin": begin, "gap": gap, "given": given}

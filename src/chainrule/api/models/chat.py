"""Chat with a model: its template, or one that is given, and its tokenizer."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from chainrule.applications.chat import ChatModel
from chainrule.applications.chat_template import ChatFormat, ChatTemplate
from chainrule.decoding.text_generator import TextDecoder
from chainrule.errors import SettingError
from chainrule.families.table import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.api.models.model_contents import ModelParts
    from chainrule.text.tokenization.tokenizer import Tokenizer


class TextEncoder:
    """A `PromptEncoder` without control tokens, for models that were not taught to talk: a conversation is a text."""

    special: Sequence[str] = ()
    added: Sequence[str] = ()

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> Int32[ndarray, " T"]:
        """As `PromptEncoder.encode`."""
        return self._tokenizer.encode_texts([text]).ids[:-1]


def chat_model(parts: ModelParts, template: str | None = None) -> ChatModel:
    """parts: of a model that continues texts. template: Jinja in place of the model's own.

    Raises SettingError if there is no template, ModelFormatError if it is damaged.
    """
    origin: dict[str, Any] | None = parts.record.get("hugging_face")
    decoder = TextDecoder(parts.engine, parts.tokenizer, lambda: parts.speller)
    # Networks that continue texts are PromptReaders.
    family, location = FAMILIES[parts.family], "the model"
    settings: dict[str, Any] = {"context": family.context(parts.engine), "reads_prompts": family.embeds}
    if origin is not None and family.embeds:
        from chainrule.open_models.importing import OpenPromptEncoder, template_of, variables_of

        splitter: Any = parts.tokenizer.splitter
        source = template or template_of(origin)
        if source is not None:
            written = ChatTemplate(source, variables_of(origin, splitter), location, datetime.now)
            chat_format = ChatFormat(written, OpenPromptEncoder(origin, splitter))
            return ChatModel(decoder, chat_format, begins_texts=False, **settings)
    elif template is not None:
        written = ChatTemplate(template, {}, location, datetime.now)
        return ChatModel(decoder, ChatFormat(written, TextEncoder(parts.tokenizer)), begins_texts=True, **settings)
    raise SettingError(
        "the model has no chat template, so it was not taught to talk; let it continue texts, or give it a template "
        "that writes a conversation as its training text had it"
    )

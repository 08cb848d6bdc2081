"""A plugin for the command line tool llm (https://llm.datasette.io): every model of ours as chainrule:PATH.

llm asks its plugins for the models that there are. These are the ones that its command line names, its default, and
those that it has used before, which a file in its folder lists.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llm
from pydantic import Field

from chainrule.decoding.config import Limits, SamplingConfig
from chainrule.errors import ChainruleError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chainrule.decoding.chat.conversation import Answering
    from chainrule.models.language_models import CausalModel

_PREFIX = "chainrule:"
_USED = "chainrule-models.txt"  # in llm's folder: absolute paths
_MOST_TOKENS = 256


@llm.hookimpl
def register_models(register: Callable[..., None]) -> None:
    """Register models by their absolute paths, so that a conversation can go on elsewhere; as aliases, as named."""
    aliases: dict[str, list[str]] = {path: [] for path in _used_paths()}
    for name in _named():
        path = os.path.abspath(name)
        if os.path.exists(path):
            aliases.setdefault(path, [])
            if name != path:
                aliases[path].append(_PREFIX + name)
    for path, names in aliases.items():
        register(ChainruleModel(path), aliases=names)


def _named() -> list[str]:
    """Return the paths after chainrule: among the arguments, in LLM_MODEL, or as llm's default model."""
    names = [*sys.argv[1:], os.environ.get("LLM_MODEL", ""), llm.get_default_model()]
    parts = [name.partition(_PREFIX) for name in names]
    return list(dict.fromkeys(path for before, _, path in parts if path and before in ("", "-m", "--model=")))


def _used_paths() -> list[str]:
    try:
        return (llm.user_dir() / _USED).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


class ChainruleModel(llm.Model):
    """A model that answers by its chat template or, without one, continues the prompt."""

    can_stream = True

    class Options(llm.Options):
        """How texts are drawn, and where they end."""

        temperature: float | None = Field(None, description="Below 1 sharper, above 1 flatter; 0: the likeliest token")
        top_k: int | None = Field(None, description="Sample from this many likeliest tokens")
        top_p: float | None = Field(None, description="Sample from the likeliest tokens with this total probability")
        min_p: float | None = Field(None, description="Sample from tokens with this share of the likeliest one's")
        max_tokens: int = Field(_MOST_TOKENS, description="Cut a text after this many tokens")
        stop: str | None = Field(None, description="End a text before this string")
        seed: int | None = Field(None, description="The same seed gives the same text")
        log_prob: bool = Field(False, description="Log the tokens and their log-probability in nats; nothing streams")

    def __init__(self, path: str) -> None:
        """Store the path, which is absolute. The model is opened when it is first asked."""
        self.model_id, self.path = _PREFIX + path, path

    def __str__(self) -> str:
        return f"chainrule: {self.path}"

    def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any = None, **_: Any) -> Iterator[str]:
        """Yield the text, piece by piece. Raises llm.ModelError."""
        try:
            yield from self._pieces(prompt, response)
        except (ChainruleError, OSError) as error:
            raise llm.ModelError(str(error)) from error
        with suppress(OSError):  # then llm -c does not know it
            _remember(self.path)

    def _pieces(self, prompt: Any, response: Any) -> Iterator[str]:
        """Yield the text in parts. Raises ChainruleError."""
        options = prompt.options
        given = {name: getattr(options, name) for name in ("temperature", "top_k", "top_p", "min_p")}
        drawn = {name: value for name, value in given.items() if value is not None}
        sampling = SamplingConfig(**drawn) if drawn else None
        limits = Limits(max_tokens=options.max_tokens, stop=() if options.stop is None else (options.stop,))
        if self._answering is not None:
            if options.log_prob:
                raise SettingError("log_prob is for models that continue texts; leave it out")
            yield from self._answering.answer(_messages(prompt), sampling, limits, seed=options.seed)
            return
        if prompt.system:
            raise SettingError(f"{self.path} has no chat template, so it takes no system prompt; leave it out")
        if not options.log_prob:
            pieces = self._model.stream(prompt.prompt, sampling, limits, seed=options.seed)
            next(pieces)  # the prompt
            yield from pieces
            return
        [text] = self._model.sample(prompt.prompt, 1, sampling, limits, seed=options.seed)
        response.response_json = {"log_prob": text.log_prob, "tokens": text.tokens, "ending": text.ending}
        yield text.continuation

    @cached_property
    def _model(self) -> CausalModel:
        from chainrule.models.any_model import check_kind
        from chainrule.models.files.opening import load
        from chainrule.models.language_models import CausalModel

        return check_kind(load(Path(self.path)), CausalModel)

    @cached_property
    def _answering(self) -> Answering | None:
        """What answers conversations; None for a model that continues texts only."""
        from chainrule.features.seq2seq.model import PairChat, Seq2SeqModel
        from chainrule.models.files.opening import load
        from chainrule.models.files.recognition import model_class_at

        if model_class_at(Path(self.path)) is Seq2SeqModel:
            return PairChat(load(self.path, Seq2SeqModel).generator)
        try:
            return self._model.chat_model
        except SettingError:  # it has no template
            return None


def _messages(prompt: Any) -> list[dict[str, str]]:
    """Return the conversation that a prompt ends, as texts."""
    messages = []
    for message in prompt.messages:
        text = "".join(getattr(part, "text", None) or "" for part in message.parts)
        messages.append({"role": message.role, "content": text})
    return messages


def _remember(path: str) -> None:
    """Add a path to those used before."""
    if path not in _used_paths():
        with (llm.user_dir() / _USED).open("a", encoding="utf-8") as file:
            file.write(f"{path}\n")

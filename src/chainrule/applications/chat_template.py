"""Chat templates: messages to text by a model's Jinja template, run in a sandbox; conversations to token ids.

A template may loop, compare and join strings; it reaches no file, no attribute of Python and no code. Its environment
is that of transformers, so that every conversation is written as there. Loops over `range` and repeated strings are
limited, since both could take all time and memory.

No message can forge a role or an end. Special tokens are control tokens only where the template writes them. Where a
message spells one, a mark is put after its first character before the template runs; afterwards the text is cut at the
marks, and its parts are encoded one by one, so that the spelling stays text. A template could still join parts of
messages to a special token. So the conversation is rendered a second time, with a mark after every character with which
a special token begins; if the two differ in their special tokens, the second is taken.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from chainrule.applications.messages import Message, with_system_role
from chainrule.errors import ModelFormatError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from jaxtyping import Int32
    from jinja2.nodes import Node
    from jinja2.parser import Parser
    from jinja2.runtime import Context
    from numpy import ndarray

_MOST_STEPS = 100_000  # of all loops over `range` while one conversation is written
_LONGEST = 1 << 20  # characters or items of a repeated string or list


class ChatTemplate:
    """How a conversation is written."""

    def __init__(self, source: str, variables: Mapping[str, str], location: str, now: Callable[[], datetime]) -> None:
        """variables: names that the template may use, such as bos_token. location: the model's path, for messages.

        now: the time, for templates that write the date. Raises ModelFormatError if the source is no template.
        """
        self.source, self._variables, self._location = source, dict(variables), location
        self._sandbox = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
        self._sandbox.filters["tojson"] = _tojson
        self._sandbox.globals |= {
            "raise_exception": _refuse,
            "strftime_now": lambda form: now().strftime(form),
            "range": self._sandbox.counted_range,
        }
        if not source.strip():
            raise ModelFormatError(f"{location}: its chat template is empty; expected one in Jinja")
        try:
            self._template = self._sandbox.from_string(source)
        except (TemplateSyntaxError, RecursionError) as error:
            raise ModelFormatError(f"{location}: its chat template is not valid Jinja: {error}") from error

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation as the model reads it, up to where its answer begins.

        Raises SettingError if the template refuses these messages, ModelFormatError if it fails.
        """
        self._sandbox.steps = 0
        try:
            return self._template.render(
                messages=[message._asdict() for message in messages],
                tools=None,
                documents=None,
                add_generation_prompt=True,
                **self._variables,
            )
        except _RefusedError as error:
            raise SettingError(f"{self._location}: its chat template refuses these messages: {error}") from None
        except Exception as error:  # whatever a template does with values of the wrong kind
            raise ModelFormatError(f"{self._location}: its chat template failed: {error}") from error


class _RefusedError(TemplateError):
    """A template's message about a conversation that it refuses to write."""


class _Sandbox(ImmutableSandboxedEnvironment):
    """steps: of loops over `range` so far."""

    intercepted_binops = frozenset({"*", "**"})
    steps = 0

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        for one, other in ((left, right), (right, left)):
            if operator == "*" and isinstance(one, str | list | tuple) and isinstance(other, int):
                if len(one) * other > _LONGEST:
                    raise SecurityError(f"it repeats something to a length above {_LONGEST:,}")
            elif operator == "**" and abs(other) > 64:
                raise SecurityError("it computes a power above 64")
        return super().call_binop(context, operator, left, right)

    def counted_range(self, *arguments: int) -> range:
        numbers = range(*arguments)
        self.steps += len(numbers)
        if self.steps > _MOST_STEPS:
            raise SecurityError(f"its loops take more than {_MOST_STEPS:,} steps")
        return numbers


class _Generation(Extension):
    """{% generation %} ... {% endgeneration %}: marks, for training, what the model says; here it changes nothing."""

    tags = {"generation"}  # noqa: RUF012  # Jinja's own declaration

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _refuse(message: object) -> None:
    raise _RefusedError(str(message))


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The filter tojson as in transformers: Jinja's own escapes what HTML must not contain."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class PromptEncoder(Protocol):
    """Encodes rendered conversations. special: the texts of control tokens. added: other texts that are one token."""

    special: Sequence[str]
    added: Sequence[str]

    def encode(self, text: str) -> Int32[ndarray, " T"]:
        """The ids of a text, control tokens included; nothing is added. Raises MarkerError."""


class Rendered(NamedTuple):
    """text: as the model reads it. tokens: its ids."""

    text: str
    tokens: Int32[ndarray, " T"]


class ChatFormat:
    """A template and an encoder."""

    def __init__(self, template: ChatTemplate, encoder: PromptEncoder) -> None:
        """Raises ModelFormatError if the template fails."""
        self.template, self.encoder = template, encoder
        try:
            written = template.render([Message("user", "Hello")])
        except SettingError:  # it wants other messages
            written = ""
        # Some checkpoints do not call their control tokens special: those that this template writes are.
        self._control = sorted({*encoder.special, *(text for text in encoder.added if text in written)} - {""})
        self._occurs = _any_of(self._control)

    def encode(self, messages: Sequence[Message]) -> Rendered:
        """Raises SettingError if the template refuses the messages, ModelFormatError if it fails; MarkerError."""
        if "developer" not in self.template.source:
            messages = with_system_role(messages)
        mark = _unused_character([self.template.source, *(message.content for message in messages)])
        text, strict = (
            self.template.render([Message(role, spell(content, mark)) for role, content in messages])
            for spell in (self._marked_where_spelled, self._marked_everywhere)
        )
        if self._control_tokens(text, mark) != self._control_tokens(strict, mark):
            text = strict
        parts = [self.encoder.encode(part) for part in text.split(mark) if part]
        return Rendered(text.replace(mark, ""), np.concatenate([np.empty(0, np.int32), *parts]))

    def _marked_where_spelled(self, content: str, mark: str) -> str:
        """Raises SettingError for a control token of a single character, which cannot be cut."""
        short = next((text for text in self._control if len(text) == 1 and text in content), None)
        if short is not None:
            raise SettingError(f"a message has {short!r}, which is a control token of the model; leave it out")
        return re.sub(f"(?={self._occurs.pattern})(.)", rf"\1{mark}", content, flags=re.DOTALL)

    def _marked_everywhere(self, content: str, mark: str) -> str:
        return re.sub(_any_of(sorted({text[0] for text in self._control})), rf"\g<0>{mark}", content)

    def _control_tokens(self, text: str, mark: str) -> list[str]:
        return [token for part in text.split(mark) for token in self._occurs.findall(part)]


def _any_of(texts: Sequence[str]) -> re.Pattern[str]:
    """Matches the longest of the texts; without any, nothing."""
    alternatives = "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))
    return re.compile(f"(?:{alternatives})" if texts else "(?!)")


def _unused_character(texts: Sequence[str]) -> str:
    """A private-use character of Unicode that occurs in none of the texts."""
    used = set().union(*texts)
    return next(character for character in map(chr, range(0xE000, 0xF900)) if character not in used)

"""Chat templates: the Jinja in which Hugging Face's models say how a conversation is written, run in a sandbox.

A template may loop, compare and join strings; it reaches no file, no attribute of Python and no code. Its environment
is that of transformers, so that every conversation is written as there. Loops over `range` and repeated strings are
limited, since both could take all time and memory.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from chainrule.errors import ModelFormatError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from jinja2.nodes import Node
    from jinja2.parser import Parser
    from jinja2.runtime import Context

    from chainrule.applications.chat.messages import Message

_MOST_STEPS = 100_000  # of all loops over `range` while one conversation is written
_LONGEST = 1 << 20  # characters or items of a repeated string or list


class ChatTemplate:
    """How a conversation is written."""

    def __init__(self, source: str, variables: Mapping[str, str], location: str, now: Callable[[], datetime]) -> None:
        """variables: what the template may use, such as bos_token. location: the model, for messages.

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
            raise ModelFormatError(f"{location}: its chat template is no Jinja: {error}") from error

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
    """What a template says about messages that it cannot write."""


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
    """As transformers has it: Jinja's own escapes what HTML must not contain."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

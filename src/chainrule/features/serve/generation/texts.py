"""Texts as they are generated for requests: their tokens, log-probabilities and pieces, and a scheduler's work."""

from __future__ import annotations

import json
import math
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.decoding.config import FORMS, Limits, SamplingConfig
from chainrule.decoding.form import form_of, form_of_grammar, rule_of
from chainrule.decoding.limits import Constraints, GrowingText
from chainrule.decoding.sampling import Row
from chainrule.errors import SettingError
from chainrule.features.serve.bodies import ApiError
from chainrule.features.serve.generation.tokens import finite
from chainrule.features.serve.generation.tools import call_grammar
from chainrule.features.serve.generation.work import Generation
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.decoding.form import Form
    from chainrule.features.serve.bodies import SamplingBody
    from chainrule.features.serve.config import ServerLimits
    from chainrule.features.serve.generation.tokens import TokenNames
    from chainrule.features.serve.generation.tools import ToolChoice
    from chainrule.features.serve.generation.work import PendingRequest, Top
    from chainrule.features.serve.models import ServedModel
    from chainrule.text.tokenization.tokenizer import Tokenizer

FINISH = {"end": "stop", "stop": "stop", "length": "length"}

_NO_TOOLS: tuple[Any, ...] = (None, [], "none", "auto")
_FORMATS = "text, json_object, json_schema"


class ChosenToken(NamedTuple):
    """A token with the model's own log-probability of it, those of others in its place, and where its text begins."""

    token: int
    log_prob: float
    top: Top | None
    offset: int


class Chunk(NamedTuple):
    """The new part of a text. finish_reason: None while the text grows."""

    text: str
    tokens: list[ChosenToken]
    finish_reason: str | None


class Choice:
    """A `TokenSink` that writes the text. The scheduler's thread adds; the event loop takes.

    offset: how many characters come before it. is_live: whether chunks are taken while the text grows. shows_tokens:
    whether the answer says where tokens begin; if not, and nothing is needed before the end, the text is decoded as a
    whole.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        names: TokenNames,
        before: Sequence[bytes],
        stops: Sequence[str],
        *,
        stop_tokens: Sequence[int] = (),
        offset: int = 0,
        is_live: bool = False,
        shows_tokens: bool = True,
    ) -> None:
        self._tokenizer, self._stop_tokens, self._is_live = tokenizer, frozenset(stop_tokens), is_live
        self._has_stops = bool(stops or stop_tokens)
        self._is_written_at_once = not (is_live or self._has_stops or shows_tokens)
        restore = tokenizer.restore if self._is_written_at_once else names.restore
        self._growing = GrowingText(restore, before, stops)
        self._offset = offset
        self._pieces: list[str] = []
        self._tokens: list[ChosenToken] = []
        self._pending: list[tuple[int, float, Top | None]] = []  # without their text
        self._taken_tokens = self._taken_pieces = 0
        self._before = 0  # characters before the last token that was written
        self._finish_reason: str | None = None
        self.row: Row | None = None

    def until(self, tokens: Sequence[int]) -> bool:
        """Return whether the text has reached a stop string or token: the row's `until`, if there are some.

        A stop token is no part of the text.
        """
        if tokens[-1] in self._stop_tokens:
            self._before = self._growing.length
            return True
        self._write(tokens[-1])
        return self._growing.is_stopped

    def add(self, token: int, log_prob: float, top: Top | None) -> bool:
        """Implement `TokenSink.add`."""
        assert self.row is not None
        offset = self._offset + (self._before if self._has_stops and token != END else self._growing.length)
        if self._has_stops or self._is_live:
            if not self._has_stops and token != END:
                self._write(token)
            self._tokens.append(ChosenToken(token, finite(log_prob), top, offset))
        else:
            self._pending.append((token, log_prob, top))
        if self.row.ending is not None:
            self._finish_reason = FINISH[self.row.ending]  # last, since the event loop may look at any time
        return self._is_live

    def take(self) -> Chunk:
        """Return the chunk that is new since the last call."""
        finish_reason = self._finish_reason
        if finish_reason is not None:
            self._write_pending()
            self._pieces.append(self._growing.rest())
        tokens, pieces = self._tokens[self._taken_tokens :], self._pieces[self._taken_pieces :]
        self._taken_tokens += len(tokens)
        self._taken_pieces += len(pieces)
        return Chunk("".join(pieces), tokens, finish_reason)

    def _write(self, token: int) -> None:
        self._before = self._growing.length
        self._pieces.append(self._growing.add(self._tokenizer.vocabulary.token_bytes(token)))

    def _write_pending(self) -> None:
        if self._is_written_at_once:
            spell = self._tokenizer.vocabulary.token_bytes
            if written := b" ".join(spell(token) for token, _, _ in self._pending if token != END):
                self._pieces.append(self._growing.add(written))
            self._tokens = [ChosenToken(token, finite(log_prob), None, 0) for token, log_prob, _ in self._pending]
            return
        for token, log_prob, top in self._pending:
            self._tokens.append(ChosenToken(token, finite(log_prob), top, self._offset + self._growing.length))
            if token != END:
                self._write(token)
        self._pending = []


_COLDEST = 1e-4  # temperatures below it take the most probable token
_STRONGEST_BIAS = 100  # which, negative, bans


class TextSettings(NamedTuple):
    """How a request's texts are drawn.

    choices: how many for each prompt. shows_tokens: whether the answer lists tokens.
    """

    config: SamplingConfig
    constraints: Constraints
    stops: list[str]
    stop_tokens: Sequence[int]
    seed: int
    choices: int
    top: int
    is_live: bool
    shows_tokens: bool


def text_settings(
    body: SamplingBody,
    served: ServedModel,
    *,
    max_tokens: int,
    choices: int,
    top: int | None = None,
    form: Form | None = None,
    defaults: SamplingConfig | None = None,
) -> TextSettings:
    """Return the settings of a request's texts.

    top: how many of the likeliest tokens to show; None shows no tokens at all. form: see `form_of_request`. defaults:
    values of fields that the request leaves out. Raises ApiError.
    """
    limits = served.limits
    check_max_tokens(max_tokens, limits)
    check_alternatives(top or 0, limits, "logprobs")
    stops = [body.stop] if isinstance(body.stop, str) else list(body.stop or [])
    if len(stops) > limits.stops:
        raise ApiError(400, f"there are {len(stops):,} stop strings; expected at most {limits.stops}", param="stop")
    least = max_tokens if body.ignore_eos else min(body.min_tokens or 0, max_tokens)
    try:
        config = sampling_config(body, served.tokenizer.vocabulary_size, defaults)
        constraints = Constraints(max_tokens=max_tokens, min_tokens=least, banned=served.banned, form=form)
        if max_tokens:
            constraints.check(served.causal.language_model)
    except SettingError as error:
        raise ApiError(400, str(error)) from None
    seed = secrets.randbits(63) if body.seed is None else body.seed % 2**64
    return TextSettings(
        config,
        constraints,
        [stop for stop in stops if stop],
        _stop_tokens(body.stop_token_ids or [], served.tokenizer.vocabulary_size),
        seed,
        choices,
        top or 0,
        bool(body.stream),
        top is not None,
    )


def _stop_tokens(tokens: list[int], vocabulary_size: int) -> list[int]:
    """Return the stop tokens, if all are in the vocabulary. Raises ApiError."""
    if wrong := [token for token in tokens if not 0 <= token < vocabulary_size]:
        message = (
            f"stop_token_ids has {wrong[0]}; expected token ids below {vocabulary_size:,}, as /tokenize gives them"
        )
        raise ApiError(400, message, param="stop_token_ids")
    return tokens


def sampling_config(body: SamplingBody, vocabulary_size: int, defaults: SamplingConfig | None = None) -> SamplingConfig:
    """Return the sampling settings, without those that have no effect, since clients send every setting.

    Raises SettingError, ApiError.
    """
    defaults = defaults or SamplingConfig()
    temperature = defaults.temperature if body.temperature is None else body.temperature
    top_p = defaults.top_p if body.top_p is None else body.top_p
    top_k = body.top_k if body.top_k is not None and body.top_k > 0 else None
    is_greedy = temperature < _COLDEST or top_k == 1 or top_p == 0
    return SamplingConfig(
        temperature=0 if is_greedy else temperature,
        top_k=None if is_greedy else top_k,
        top_p=None if is_greedy or top_p is None or top_p >= 1 else top_p,
        min_p=None if is_greedy or not body.min_p else body.min_p,
        typical=None if is_greedy or body.typical_p is None or body.typical_p >= 1 else body.typical_p,
        repetition_penalty=body.repetition_penalty or 1.0,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        logit_bias=_biases(body.logit_bias or {}, vocabulary_size),
    )


def _biases(biases: dict[str, float], vocabulary_size: int) -> tuple[tuple[int, float], ...]:
    """Return the biases as pairs of a token and a number. Raises ApiError."""
    pairs = []
    for token, bias in biases.items():
        if not token.isascii() or not token.isdigit() or len(token) > 9 or int(token) >= vocabulary_size:
            raise ApiError(
                400,
                f"logit_bias has {token[:20]!r}; expected token ids below {vocabulary_size:,}, as /tokenize gives them",
                param="logit_bias",
            )
        if not abs(bias) <= _STRONGEST_BIAS:
            raise ApiError(400, f"logit_bias of token {token} is {bias}; expected -100 to 100", param="logit_bias")
        if bias:
            pairs.append((int(token), -math.inf if bias == -_STRONGEST_BIAS else bias))
    return tuple(sorted(pairs))


def check_size(prompts: int, tokens: int, settings: TextSettings, limits: ServerLimits) -> None:
    """Raise ApiError if a request asks for too much. tokens: the number of tokens of all prompts."""
    texts = prompts * settings.choices
    if texts > limits.choices:
        raise ApiError(400, f"the request asks for {texts:,} texts; expected at most {limits.choices:,}", param="n")
    most = tokens * settings.choices + texts * settings.constraints.max_tokens
    if most > limits.waiting_tokens:
        raise ApiError(
            400,
            f"prompts and max_tokens come to {most:,} tokens; expected at most {limits.waiting_tokens:,}. Send fewer "
            "prompts at a time",
            param="max_tokens",
        )


def check_alternatives(top: int, limits: ServerLimits, param: str) -> None:
    """Raise ApiError if a position has more alternatives than are shown."""
    if top > limits.logprobs:
        raise ApiError(400, f"{param} is {top:,}; expected at most {limits.logprobs}", param=param)


def check_max_tokens(max_tokens: int, limits: ServerLimits) -> None:
    """Raise ApiError if a text may have fewer tokens."""
    if max_tokens > limits.max_tokens:
        raise ApiError(400, f"max_tokens is {max_tokens:,}; expected at most {limits.max_tokens:,}", param="max_tokens")


def check_room(served: ServedModel, tokens: int, max_tokens: int, param: str) -> None:
    """Raise ApiError unless a prompt and the text after it fit into what the model reads at once.

    tokens: of the prompt. param: the field that has it. Raises ApiError, in words that clients look for.
    """
    if served.context is None or tokens + max_tokens <= served.context:
        return
    message = (
        f"This model's maximum context length is {served.context:,} tokens. However, you requested "
        f"{tokens + max_tokens:,} tokens ({tokens:,} in the {param}, {max_tokens:,} for the answer). Send a shorter "
        "one, ask for fewer, or set truncate_prompt_tokens to -1, so that the last ones that fit are read"
    )
    raise ApiError(400, message, param=param, code="context_length_exceeded")


def kept_tokens(served: ServedModel, body: SamplingBody, max_tokens: int) -> int | None:
    """Return how many tokens of a prompt a request wants read at most; None for all. -1 stands for as many as fit.

    Raises ApiError.
    """
    most = body.truncate_prompt_tokens
    if most == 0:
        expected = "expected 1 or more, or -1 for as many as the model reads"
        raise ApiError(400, f"truncate_prompt_tokens is 0; {expected}", param="truncate_prompt_tokens")
    room = None if served.context is None else max(served.context - max_tokens, 1)
    if most is None or (most == -1 and room is None):
        return None
    return room if most == -1 else most


def generation(
    served: ServedModel,
    ticket: PendingRequest,
    prompt: Int32[ndarray, " T"],
    settings: TextSettings,
    *,
    before: Sequence[bytes] = (),
    offset: int = 0,
    is_exact: bool = False,
) -> tuple[Generation, list[Choice]]:
    """Return the work for the texts after one prompt.

    before: its last token as written. offset: its length in characters. Text i is text i of `generate` with the same
    seed, whatever else the request asks for.
    """
    rows, sinks = [], []
    for number in range(settings.choices):
        sink = Choice(
            served.tokenizer,
            served.names,
            before,
            settings.stops,
            stop_tokens=settings.stop_tokens,
            offset=offset,
            is_live=settings.is_live,
            shows_tokens=settings.shows_tokens,
        )
        generator = np.random.default_rng([settings.seed, number])
        until = sink.until if settings.stops or settings.stop_tokens else None
        tokens = prompt.tolist()
        form = settings.constraints.begin_form()
        row = Row(tokens, settings.config, settings.constraints, generator, len(tokens), until, settings.top, form=form)
        sink.row = row
        rows.append(row)
        sinks.append(sink)
    return Generation(ticket, prompt, rows, sinks, is_exact), sinks


def form_of_request(body: SamplingBody, served: ServedModel, tools: ToolChoice | None = None) -> Form | None:
    """Return the form that a request asks for. It may take seconds for the first request of a model. Raises ApiError.

    tools: functions that the answer may call; without any, a request must not offer some. Beside functions, another
    form is that of an answer that calls none.
    """
    for name in ("functions", "function_call", *(() if tools is not None else ("tools", "tool_choice"))):
        if getattr(body, name) not in _NO_TOOLS:
            where = "tools" if name.startswith("function") else "/v1/chat/completions"
            raise ApiError(400, f"{name}: not supported here; use {where}", param=name, code="unsupported_parameter")
    asked = {name: getattr(body, name) for name in FORMS if getattr(body, name) is not None}
    if (schema := _schema_of(body.response_format)) is not None:
        asked["response_format"] = schema
    if len(asked) > 1:
        first, second, *_ = asked
        raise ApiError(400, f"{first} and {second} both say which form a text has; send one", param=second)
    [(name, value)] = asked.items() or [("tools", None)]
    text: dict[str, str] = {}
    try:
        limits = None if value is None else Limits(**{"json_schema" if name == "response_format" else name: value})
        form = None if limits is None else form_of(limits, served.tokenizer, "")
        if tools is None or not tools.tools:
            return form
        if limits is not None and not tools.is_required:
            rule = rule_of(limits)
            if rule is None:
                raise ApiError(400, "grammar and tools both say which form a text has; send one", param=name)
            text = {"text": rule}
        name = "tools"
        grammar = call_grammar(tools, several=bool(body.parallel_tool_calls), **text)
        return form_of_grammar(grammar, served.tokenizer, name)
    except SettingError as error:
        message = str(error).replace("json_schema", name, 1)
        raise ApiError(400, message, param=name, code="form_not_enforceable") from None


def _schema_of(asked: Any) -> Any:
    """Return the JSON schema of a response_format; None for any text. Raises ApiError."""
    match asked:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "object"}
        case {"type": "json_schema", "json_schema": {"name": str(name), "schema": dict(schema)}} if 0 < len(name) <= 64:
            return schema
    expected = f"expected its type, one of {_FORMATS}, the last with a name and a schema"
    message = f"response_format is {json.dumps(asked)[:80]}; {expected}"
    raise ApiError(400, message, param="response_format")

"""Texts for requests: how they are drawn, and the work that a scheduler does for them."""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.decoding.config import SamplingConfig
from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import Row
from chainrule.errors import SettingError
from chainrule.serving.api_error import ApiError
from chainrule.serving.choice import Choice
from chainrule.serving.work import Generation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.serving.limits import ServerLimits
    from chainrule.serving.requests import SamplingBody
    from chainrule.serving.served_model import ServedModel
    from chainrule.serving.ticket import Ticket

_COLDEST = 1e-4  # temperatures below it take the most probable token
_STRONGEST_BIAS = 100  # which, negative, bans


class TextSettings(NamedTuple):
    """How a request's texts are drawn. choices: for each prompt. shows_tokens: whether the answer lists tokens."""

    config: SamplingConfig
    constraints: Constraints
    stops: list[str]
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
    defaults: SamplingConfig | None = None,
) -> TextSettings:
    """The settings of a request's texts. top: likeliest tokens to show; None shows no tokens at all. defaults: of what
    the request leaves out. Raises ApiError.
    """
    limits = served.limits
    if body.response_format not in (None, {"type": "text"}):
        message = 'response_format: texts of a given form are not supported; leave it out, or send {"type": "text"}'
        raise ApiError(400, message, param="response_format", code="unsupported_parameter")
    if max_tokens > limits.max_tokens:
        raise ApiError(400, f"max_tokens is {max_tokens:,}; expected at most {limits.max_tokens:,}", param="max_tokens")
    if (top or 0) > limits.logprobs:
        raise ApiError(400, f"logprobs is {top:,}; expected at most {limits.logprobs}", param="logprobs")
    stops = [body.stop] if isinstance(body.stop, str) else list(body.stop or [])
    if len(stops) > limits.stops:
        raise ApiError(400, f"there are {len(stops):,} stop strings; expected at most {limits.stops}", param="stop")
    try:
        config = _sampling_config(body, served.tokenizer.vocabulary_size, defaults or SamplingConfig())
        constraints = Constraints(
            max_tokens=max_tokens, min_tokens=min(body.min_tokens or 0, max_tokens), banned=served.banned
        )
        if max_tokens:
            constraints.check(served.causal.language_model)
    except SettingError as error:
        raise ApiError(400, str(error)) from None
    seed = secrets.randbits(63) if body.seed is None else body.seed % 2**64
    return TextSettings(
        config,
        constraints,
        [stop for stop in stops if stop],
        seed,
        choices,
        top or 0,
        bool(body.stream),
        top is not None,
    )


def _sampling_config(body: SamplingBody, vocabulary_size: int, defaults: SamplingConfig) -> SamplingConfig:
    """What has no effect is left out: clients send every setting. Raises SettingError, ApiError."""
    temperature = defaults.temperature if body.temperature is None else body.temperature
    top_p = defaults.top_p if body.top_p is None else body.top_p
    top_k = body.top_k if body.top_k is not None and body.top_k > 0 else None
    if top_p is not None and top_p <= 0:
        top_k, top_p = 1, None
    is_greedy = temperature < _COLDEST or top_k == 1
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
    """Raises ApiError."""
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
    """tokens: of all prompts. Raises ApiError if a request asks for too much."""
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


def generation(
    served: ServedModel,
    ticket: Ticket,
    prompt: Int32[ndarray, " T"],
    settings: TextSettings,
    *,
    before: Sequence[bytes] = (),
    offset: int = 0,
    is_exact: bool = False,
) -> tuple[Generation, list[Choice]]:
    """The work for the texts after one prompt. before: its last token as written. offset: its characters.

    Text i is text i of `generate` with the same seed, whatever else the request asks for.
    """
    rows, sinks = [], []
    for number in range(settings.choices):
        sink = Choice(
            served.tokenizer,
            served.names,
            before,
            settings.stops,
            offset=offset,
            is_live=settings.is_live,
            shows_tokens=settings.shows_tokens,
        )
        generator = np.random.default_rng([settings.seed, number])
        until = sink.until if settings.stops else None
        tokens = prompt.tolist()
        row = Row(tokens, settings.config, settings.constraints, generator, len(tokens), until, settings.top)
        sink.row = row
        rows.append(row)
        sinks.append(sink)
    return Generation(ticket, prompt, rows, sinks, is_exact), sinks

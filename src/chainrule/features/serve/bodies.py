"""The bodies of requests, and errors as clients of OpenAI's interface read them.

null means "not given". A field that nobody here knows is refused, unless clients of other servers send it and no answer
depends on it: then it is reported.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from difflib import get_close_matches
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    ValidationError,
    create_model,
    model_validator,
)

from chainrule.base.options import describe_bounds, hints_of
from chainrule.decoding.config import MAX_FORM_BYTES, Limits, SamplingConfig
from chainrule.errors import SettingError
from chainrule.features.correct.options import CorrectOptions
from chainrule.features.seq2seq.options import CaptionOptions, LanguageOptions, TargetBeam, WriteOptions
from chainrule.features.serve.other_servers import in_our_words
from chainrule.models.config import GenerateOptions
from chainrule.verbs.text_options import SurprisalOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

    from chainrule.base.options import Options

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class ApiError(Exception):
    """An answer that is an error.

    param: the field of the request that is wrong. retry_after: seconds after which the same request may succeed.
    closes: whether the connection ends with it, since the bytes after it cannot be trusted.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code, self.retry_after = status, message, param, code, retry_after
        self.closes = closes

    def body(self) -> dict[str, Any]:
        """Return the JSON of the answer."""
        kind = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def headers(self) -> dict[str, str]:
        """Return the headers of the answer, which tell clients whether to try again."""
        if self.closes:
            return {"connection": "close"}
        if self.retry_after is not None:
            return {"retry-after": str(self.retry_after)}
        return {"x-should-retry": "false"} if self.status >= 500 or self.status in (408, 409, 429) else {}


_MOST = 2**31 - 1
_THEIRS = {"least": "ge", "above": "gt", "below": "lt", "most": "le"}  # bounds, as pydantic names them


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("expected a number, not a truth value")
    return value


Whole = Annotated[int, BeforeValidator(_no_truth_value)]
Number = Annotated[float, BeforeValidator(_no_truth_value)]
Truth = StrictBool  # no 1, no "yes"
Texts = Annotated[str | list[str], Field(union_mode="left_to_right")]


# What clients of OpenAI's and other interfaces send for the server's own ends: no answer depends on it.
WITHOUT_EFFECT = frozenset({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"})
WITHOUT_EFFECT |= {"prompt_cache_retention", "prediction", "cache_prompt", "priority", "request_id"}


class Body(BaseModel):
    """The fields that all bodies share. A field that nobody here knows is refused, unless no answer depends on it."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    model: str | None = None

    @property
    def ignored(self) -> list[str]:
        """The names of fields that have no effect."""
        return sorted(self._given_extra() & WITHOUT_EFFECT)

    @property
    def unknown(self) -> list[str]:
        """The names of fields that would change the answer elsewhere, or that are misspelled."""
        return sorted(self._given_extra() - WITHOUT_EFFECT)

    def _given_extra(self) -> set[str]:
        return {name for name, value in (self.model_extra or {}).items() if value is not None}


class OwnBody(Body):
    """The base of bodies for routes that are ours alone: an unknown field is a mistake."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    def options(self) -> dict[str, Any]:
        """Return the options that were given."""
        return self.model_dump(exclude={"model", "input"}, exclude_none=True)


def options_body(*options: type[Options], base: type[Body] = OwnBody) -> type[Body]:
    """Return a body with the fields of `options` that requests may set, named as flags, within the bounds of
    `served`.
    """
    served: dict[str, Any] = {}
    for field, hint in ((field, hints_of(kind)[field.name]) for kind in options for field in fields(kind)):
        allowed, bounds = field.metadata.get("served"), field.metadata
        if not allowed:
            continue
        if allowed is True or isinstance(allowed[0], str):
            limits = {_THEIRS[name]: bounds[name] for name in _THEIRS if bounds[name] not in (None, inf)}
        else:
            limits = dict(zip(("ge", "le"), allowed, strict=True))
        kind = Literal[allowed] if isinstance(allowed, tuple) and isinstance(allowed[0], str) else hint
        served[field.metadata["flag"] or field.name] = (_json_type(kind) | None, Field(None, **limits))
    return create_model(f"{options[0].__name__}Body", __base__=base, **served)


def _json_type(hint: Any) -> Any:
    """Return the type in JSON of an option."""
    if get_origin(hint) is tuple:
        return list[get_args(hint)[0]]  # type: ignore[misc]
    kinds = {kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)}
    if kinds == {int}:
        return Whole
    if kinds == {bool}:
        return Truth
    return Number if kinds <= {int, float} else hint


class StreamOptions(BaseModel):
    """Options of streams. include_usage: whether a last chunk has the numbers of tokens. include_obfuscation: OpenAI's
    padding of chunks, which nothing here adds.
    """

    model_config = ConfigDict(extra="forbid")

    include_usage: Truth | None = None
    include_obfuscation: Truth | None = None


class SamplingBody(Body if TYPE_CHECKING else options_body(GenerateOptions, SamplingConfig, Limits, base=Body)):  # type: ignore[misc]
    """How texts are drawn, and where they end: our options, and what other servers name or write otherwise."""

    @model_validator(mode="before")
    @classmethod
    def _in_our_words(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        try:
            return in_our_words(fields)
        except SettingError as error:
            name = re.split(r"[. :]", str(error), maxsplit=1)[0]
            raise ApiError(400, str(error), param=name, code="invalid_value") from None

    typical_p: Number | None = Field(None, gt=0, le=1)  # `typical`, as other servers name it
    logit_bias: dict[str, Number] | None = None
    stop: Texts | None = None
    stop_token_ids: list[Whole] | None = None
    ignore_eos: Truth | None = None
    response_format: Any = None
    json_schema: dict[str, Any] | None = None
    regex: str | None = Field(None, max_length=MAX_FORM_BYTES)
    grammar: str | None = Field(None, max_length=MAX_FORM_BYTES)
    choices: list[str] | None = None
    tools: Any = None
    tool_choice: Any = None
    functions: Any = None
    function_call: Any = None
    parallel_tool_calls: Truth | None = None
    stream: Truth | None = None
    stream_options: StreamOptions | None = None
    truncate_prompt_tokens: Whole | None = Field(None, ge=-1, le=_MOST)

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the numbers of tokens."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class CompletionBody(SamplingBody):
    """The body of /v1/completions."""

    prompt: Any = Field(None, description="A text, several texts, token ids, or several lists of token ids.")
    suffix: str | None = None
    logprobs: Whole | None = Field(None, ge=0, le=_MOST)
    echo: Truth | None = None
    best_of: Whole | None = Field(None, ge=1, le=_MOST)
    prompt_logprobs: Whole | None = Field(None, ge=0, le=_MOST)


class ChatBody(SamplingBody):
    """The body of /v1/chat/completions. Pictures in messages are for models that caption them."""

    messages: list[dict[str, Any]]
    max_completion_tokens: Whole | None = Field(None, ge=0, le=_MOST)
    logprobs: Truth | None = None
    top_logprobs: Whole | None = Field(None, ge=0, le=_MOST)
    chat_template: Any = None
    prompt_logprobs: Any = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    _unread: list[str] = PrivateAttr(default_factory=list)

    def template_variables(self, is_read: Callable[[str], bool]) -> dict[str, Any]:
        """Return the variables that the request sets in the model's template; those that it does not read are
        `ignored`.

        is_read: whether the template reads a variable.
        """
        asked = {} if self.reasoning_effort is None else {"reasoning_effort": self.reasoning_effort}
        asked |= self.chat_template_kwargs or {}
        fields = {name: f"chat_template_kwargs.{name}" for name in self.chat_template_kwargs or ()}
        self._unread = [fields.get(name, name) for name in asked if not is_read(name)]
        return {name: value for name, value in asked.items() if is_read(name)}

    @property
    def ignored(self) -> list[str]:
        """As `Body.ignored`; fields of messages, too, such as a speaker's name; the texts beside a picture; variables
        that the template does not read.
        """
        given = {name for message in self.messages for name, value in message.items() if value is not None}
        return [
            *super().ignored,
            *self._unread,
            *sorted(f"messages.{name}" for name in given - _OF_MESSAGES),
            *(_ignored_beside_pictures(self, "messages") if self.pictures else []),
        ]

    @property
    def pictures(self) -> list[str]:
        """The pictures of the last message, as addresses with data."""
        return _pictures_of(self.messages)


_OF_MESSAGES = {"role", "content", "tool_calls", "tool_call_id"}
_OF_DRAWN = ("frequency_penalty", "logit_bias", "presence_penalty", "seed", "temperature", "top_k", "top_p")  # texts


def _ignored_beside_pictures(body: SamplingBody, field: str) -> list[str]:
    """Return the fields that a model that captions pictures does not read. field: that with the pictures."""
    return [f"{field}.text", *(name for name in _OF_DRAWN if getattr(body, name) is not None)]


def _pictures_of(messages: Any) -> list[str]:
    """Return the pictures of the last of some messages."""
    last = messages[-1] if isinstance(messages, list) and messages else None
    content = last.get("content") if isinstance(last, dict) else None
    found = []
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "image_url", "image_url": {"url": str(address)}}:
                found.append(address)
            case {"type": "input_image", "image_url": str(address)}:
                found.append(address)
    return found


class ResponseBody(SamplingBody):
    """The body of /v1/responses. Nothing is stored: the whole conversation is the input."""

    input: Any = Field(description="A text, or a list of messages, calls of functions and what they gave.")
    instructions: str | None = None
    max_output_tokens: Whole | None = Field(None, ge=1, le=_MOST)
    text: dict[str, Any] | None = None
    top_logprobs: Whole | None = Field(None, ge=0, le=_MOST)
    include: list[str] | None = None
    truncation: Literal["auto", "disabled"] | None = None
    previous_response_id: Any = None
    conversation: Any = None
    prompt: Any = None
    background: Truth | None = None
    metadata: dict[str, Any] | None = None
    store: Truth | None = None

    @property
    def ignored(self) -> list[str]:
        """As `Body.ignored`. store: answers say that they were not stored."""
        stored = ["store"] if self.store else []
        return [
            *super().ignored,
            *stored,
            *(_ignored_beside_pictures(self, "input") if _pictures_of(self.input) else []),
        ]


class EmbeddingBody(Body):
    """The body of /v1/embeddings."""

    input: Any = Field(description="A text, several texts, token ids, or several lists of token ids.")
    encoding_format: str | None = None
    dimensions: Whole | None = None


class TokenizeBody(Body):
    """The body of /tokenize. The markers of the model are never added."""

    prompt: str
    add_special_tokens: Literal[False] | None = None


class DetokenizeBody(Body):
    """The body of /detokenize."""

    tokens: list[Any]


class ScoreBody(OwnBody if TYPE_CHECKING else options_body(SurprisalOptions)):  # type: ignore[misc]
    """The body of /v1/score. given: a text before each input, or one for all. words: whether the surprisal of each word
    is asked for, too, as `score --words --output` writes it, by the convention of where words end.
    """

    input: Texts
    given: Texts | None = None
    words: Truth | None = None


class CompleteBody(OwnBody):
    """The body of /complete: a text as it is typed, for editors."""

    text: str
    n: Whole | None = Field(None, ge=1, le=100)


class InfillBody(Body):
    """The body of /infill: a text up to the cursor, as llama.cpp's editor plugins send it. What follows is not read."""

    input_prefix: str = ""
    prompt: str = ""
    n_predict: Whole | None = None

    @property
    def ignored(self) -> list[str]:
        """As `Body.ignored`. The plugins send the settings of llama.cpp's samplers with every request."""
        return sorted(self._given_extra())

    @property
    def unknown(self) -> list[str]:
        """As `Body.unknown`."""
        return []


class SearchBody(OwnBody if TYPE_CHECKING else options_body(TargetBeam)):  # type: ignore[misc]
    """How the likeliest texts given each input are found."""

    input: Texts


class LanguagesBody(SearchBody if TYPE_CHECKING else options_body(LanguageOptions, base=SearchBody)):  # type: ignore[misc]
    """The languages of texts that a seq2seq model reads and writes."""


class TranslateBody(LanguagesBody if TYPE_CHECKING else options_body(WriteOptions, base=LanguagesBody)):  # type: ignore[misc]
    """The body of /v1/translate: source texts for a seq2seq model."""


class CaptionBody(SearchBody if TYPE_CHECKING else options_body(CaptionOptions, base=SearchBody)):  # type: ignore[misc]
    """The body of /v1/caption. input: pictures, each the base64 data of a PNG or JPEG file."""


class CorrectBody(OwnBody if TYPE_CHECKING else options_body(CorrectOptions)):  # type: ignore[misc]
    """The body of /v1/correct: texts with errors. keep: words that are never changed."""

    input: Texts


_SHOWN = 60  # characters of a wrong value

BodyType = TypeVar("BodyType", bound=Body)


def parse_body(data: bytes, kind: type[BodyType]) -> BodyType:
    """Parse a body. Raises ApiError that names the field."""
    try:
        body = kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"][:1]) or None
        message = _in_our_words(first, kind)
        if first["type"] == "missing" and isinstance(first["input"], dict):
            other = next((name for name in first["input"] if name not in kind.model_fields), None)
            message += "" if other is None else f", and there is no field {str(other)[:_SHOWN]}; is it {field}?"
        raise ApiError(400, message, param=field, code="invalid_value") from None
    if body.unknown:
        name = body.unknown[0]
        known = get_close_matches(name, kind.model_fields, 1, 0.8) or _within(name, kind)
        hint = f"; is it {known[0]}" if known else "; leave it out"
        message = f"{name[:60]}: this server has no such field, and ignores none that may change an answer{hint}"
        raise ApiError(400, message + ("?" if known else ""), param=name[:60], code="unknown_parameter")
    return body


def _within(name: str, kind: type[Body]) -> list[str]:
    """Return the fields of which an unknown one has all words: max_tokens, of max_completion_tokens."""
    words = set(name.split("_"))
    return [field for field in kind.model_fields if "_" in field and words.issuperset(field.split("_"))]


_TEXTS = {"input", "stop", "prompt", "given"}  # a text, or several
_EXPECTED = {"int": "a whole number", "float": "a number", "finite": "a finite number", "string": "a text"}
_EXPECTED |= {"bool": "true or false", "list": "a list", "dict": "an object", "model": "an object"}
_BOUNDS = {"greater_than_equal", "greater_than", "less_than", "less_than_equal"}


def _in_our_words(error: ErrorDetails, kind: type[Body]) -> str:
    """Describe what pydantic found wrong in a body: what was found where, and what was expected."""
    place, found = error["loc"], json.dumps(error["input"], ensure_ascii=False, default=repr)
    name = ".".join(map(str, place[:1] if place[1:] == ("str",) else place))
    found = found if len(found) <= _SHOWN else found[:_SHOWN] + "..."
    if error["type"] == "json_invalid":
        return f"the body is no JSON: {error['ctx']['error']}"
    if error["type"] == "missing":
        return f"the field {name} is missing"
    if error["type"] == "extra_forbidden":
        return f"{name}: there is no such field; expected {', '.join(sorted(kind.model_fields))}"
    if error["type"] in _BOUNDS:
        return f"{name} is {found}; expected {_bounds_of(kind.model_fields[str(place[0])])}"
    if error["type"] == "literal_error":
        return f"{name} is {found}; expected {error['ctx']['expected'].replace('False', 'false')}"
    expected = _EXPECTED.get(error["type"].partition("_")[0])
    if expected == "a text" and place[0] in _TEXTS:
        expected = "a text, or a list of texts"
    if expected is not None:
        return f"{name or 'the body'} is {found}; expected {expected}"
    return f"{name}: {error['msg'].removeprefix('Value error, ')}"


def _bounds_of(field: FieldInfo) -> str:
    bounds: dict[str, Any] = {"least": None, "above": None, "below": inf, "most": None}
    for part in field.metadata:
        bounds |= {ours: getattr(part, theirs) for ours, theirs in _THEIRS.items() if hasattr(part, theirs)}
    return describe_bounds(bounds)

"""The bodies of requests, and errors as clients of OpenAI's interface read them.

null means "not given". Fields that nobody here knows are kept apart and reported where clients of other servers send
them, and refused on routes that are ours alone. Pictures are base64 data of PNG or JPEG files: no path and no address
is ever opened.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import fields
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from chainrule.api.models.config import GenerateOptions
from chainrule.api.seq2seq.config import CaptionOptions, LanguageOptions, TargetBeam, WriteOptions
from chainrule.api.texts.config import CorrectOptions
from chainrule.base.options import describe_bounds, hints_of
from chainrule.decoding.config import MAX_FORM_BYTES, Limits, SamplingConfig
from chainrule.errors import TextError
from chainrule.pictures.codec import decode_bytes, pixel_count
from chainrule.pictures.picture import Picture

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        """The JSON of the answer."""
        kind = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def headers(self) -> dict[str, str]:
        """The headers of the answer, which tell clients whether to try again."""
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
Texts = Annotated[str | list[str], Field(union_mode="left_to_right")]


class Body(BaseModel):
    """The fields that all bodies share."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    model: str | None = None

    @property
    def ignored(self) -> list[str]:
        """The names of fields that have no effect."""
        return sorted(self.model_extra or {})


class OwnBody(Body):
    """The base of bodies for routes that are ours alone: an unknown field is a mistake."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    def options(self) -> dict[str, Any]:
        """The options that were given."""
        return self.model_dump(exclude={"model", "input"}, exclude_none=True)


def options_body(*options: type[Options], base: type[Body] = OwnBody) -> type[Body]:
    """A body with the fields of `options` that requests may set, named as flags, within the bounds of `served`."""
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
    """What JSON has for a type of an option."""
    if get_origin(hint) is tuple:
        return list[get_args(hint)[0]]  # type: ignore[misc]
    kinds = {kind for kind in (get_args(hint) or (hint,)) if kind is not type(None)}
    if kinds == {int}:
        return Whole
    return Number if kinds <= {int, float} else hint


class StreamOptions(BaseModel):
    """Options of streams. include_usage: whether a last chunk has the numbers of tokens."""

    include_usage: bool | None = None


class SamplingBody(Body if TYPE_CHECKING else options_body(GenerateOptions, SamplingConfig, Limits, base=Body)):  # type: ignore[misc]
    """How texts are drawn, and where they end: our options, and what other servers name or write otherwise."""

    typical_p: Number | None = Field(None, gt=0, le=1)  # `typical`, as other servers name it
    logit_bias: dict[str, Number] | None = None
    stop: Texts | None = None
    response_format: Any = None
    json_schema: dict[str, Any] | None = None
    regex: str | None = Field(None, max_length=MAX_FORM_BYTES)
    grammar: str | None = Field(None, max_length=MAX_FORM_BYTES)
    choices: list[str] | None = None
    tools: Any = None
    tool_choice: Any = None
    functions: Any = None
    function_call: Any = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with the numbers of tokens."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class CompletionBody(SamplingBody):
    """The body of /v1/completions."""

    prompt: Any = Field(None, description="A text, several texts, token ids, or several lists of token ids.")
    suffix: str | None = None
    logprobs: Whole | None = Field(None, ge=0, le=_MOST)
    echo: bool | None = None
    best_of: Whole | None = Field(None, ge=1, le=_MOST)


class ChatBody(SamplingBody):
    """The body of /v1/chat/completions."""

    messages: list[dict[str, Any]]
    max_completion_tokens: Whole | None = Field(None, ge=0, le=_MOST)
    logprobs: bool | None = None
    top_logprobs: Whole | None = Field(None, ge=0, le=_MOST)
    chat_template: Any = None


class EmbeddingBody(Body):
    """The body of /v1/embeddings."""

    input: Any = Field(description="A text, several texts, token ids, or several lists of token ids.")
    encoding_format: str | None = None
    dimensions: Whole | None = None


class TokenizeBody(Body):
    """The body of /tokenize. The markers of the model are never added."""

    prompt: str
    add_special_tokens: bool | None = None


class DetokenizeBody(Body):
    """The body of /detokenize."""

    tokens: list[Any]


class ScoreBody(OwnBody):
    """The body of /v1/score. given: a text before each input, or one for all. words: whether the surprisal of each word
    is asked for, too, as `score --words --output` writes it.
    """

    input: Texts
    given: Texts | None = None
    words: bool | None = None


class CompleteBody(OwnBody):
    """The body of /complete: a text as it is typed, for editors."""

    text: str
    n: Whole | None = Field(None, ge=1, le=100)


class InfillBody(Body):
    """The body of /infill: a text up to the cursor, as llama.cpp's editor plugins send it. What follows is not read."""

    input_prefix: str = ""
    prompt: str = ""
    n_predict: Whole | None = None


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
    """Raises ApiError that names the field."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"][:1]) or None
        raise ApiError(400, _in_our_words(first, kind), param=field, code="invalid_value") from None


_TEXTS = {"input", "stop", "prompt", "given"}  # a text, or several
_EXPECTED = {"int": "a whole number", "float": "a number", "finite": "a finite number", "string": "a text"}
_EXPECTED |= {"bool": "true or false", "list": "a list", "dict": "an object", "model": "an object"}
_BOUNDS = {"greater_than_equal", "greater_than", "less_than", "less_than_equal"}


def _in_our_words(error: ErrorDetails, kind: type[Body]) -> str:
    """What pydantic found wrong in a body: what was found where, and what was expected."""
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
        return f"{name} is {found}; expected {error['ctx']['expected']}"
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


_DATA_ADDRESS = re.compile(r"data:image/(?:png|jpeg);base64,")  # as web pages and OpenAI's clients write pictures


def picture_of(data: str, number: int, most_pixels: int) -> Picture:
    """Decodes a picture.

    number: its index among the request's pictures, from 0. Raises ApiError; SettingError without Pillow.
    """
    name, file = _name(number), _file_of(data, number)
    try:
        return Picture(decode_bytes(file, name, most_pixels), name)
    except TextError as error:
        raise ApiError(400, str(error), param="input") from None


def check_pixels(pictures: Sequence[str], most_pixels: int) -> None:
    """Raises ApiError if pictures have more pixels together, by their headers; SettingError without Pillow."""
    pixels = 0
    for number, data in enumerate(pictures):
        try:
            pixels += pixel_count(_file_of(data, number), _name(number))
        except TextError as error:
            raise ApiError(400, str(error), param="input") from None
    if pixels > most_pixels:
        message = f"the pictures have {pixels:,} pixels together; expected at most {most_pixels:,}"
        raise ApiError(400, f"{message}. Send fewer at a time, or make them smaller", param="input", code="too_large")


def _file_of(data: str, number: int) -> bytes:
    """Raises ApiError."""
    begin = match.end() if (match := _DATA_ADDRESS.match(data)) else 0
    try:
        return base64.b64decode(data[begin:].encode(), validate=True)
    except (binascii.Error, ValueError):
        message = f"{_name(number)}: is not base64; send the data of a PNG or JPEG file"
        raise ApiError(400, message, param="input") from None


def _name(number: int) -> str:
    return f"picture {number}"

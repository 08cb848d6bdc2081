"""A client of servers with OpenAI's interface: conversations and completions over HTTP."""

from __future__ import annotations

import json
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from chainrule.decoding.chat.conversation import CHAT_LIMITS, DROPPED_TOGETHER, Answer
from chainrule.decoding.chat.messages import as_messages, exchanges, split_system
from chainrule.decoding.completion import Completion
from chainrule.decoding.config import SamplingConfig
from chainrule.decoding.text_generator import Piece
from chainrule.errors import ServerError, SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from http.client import HTTPResponse

    from chainrule.decoding.chat.messages import Message
    from chainrule.decoding.completion import LastWordCorrector
    from chainrule.decoding.config import Limits

    Json = dict[str, Any]

_WAIT_SECONDS = 300  # for a model that is being opened
_LONGEST_LINE = 1 << 24  # bytes of an event or an answer
_TOO_LONG = "maximum context length"  # in the message of OpenAI's interface, vLLM's and ours
_MOST_NAMES = 10  # of models in a message
# The names of settings in requests; those that the interface lacks are vLLM's and ours.
_NAMES = {"top_k": "top_k", "top_p": "top_p", "min_p": "min_p", "typical": "typical_p"}
_PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")


class Client:
    """A server. Methods raise ServerError where it cannot be reached, refuses, or answers nonsense."""

    def __init__(self, url: str, model: str | None = None, key: str | None = None) -> None:
        """Check the address, and store it.

        url: that of the interface, such as http://127.0.0.1:8000/v1; /v1 may be left out. model: the model's name on
        the server. Raises SettingError.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise SettingError(f"url is {url!r}; expected an address such as http://127.0.0.1:8000/v1")
        self.base = url.rstrip("/") + ("/v1" if parts.path in ("", "/") else "")
        self._key, self._model = key, model

    @property
    def model(self) -> str:
        """The name that was given, or that of the only model. Raises SettingError if the server has several."""
        if self._model is None:
            names = [str(entry["id"]) for entry in _list(self._answer("models").get("data")) if "id" in entry]
            if len(names) != 1:
                shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
                raise SettingError(f"{self.base} has {len(names):,} models ({shown}); name one")
            [self._model] = names
        return self._model

    def complete(self, text: str, n: int = 5, *, corrector: LastWordCorrector | None = None) -> list[Completion]:
        """Return the completions of `Completer.complete`, by a server of ours.

        corrector: ignored, since the server only completes.
        """
        answer = self._answer("complete", {"model": self._model, "text": text, "n": n})
        try:
            return [
                Completion(
                    str(one["text"]),
                    str(one["added"]),
                    float("-inf") if one["log_prob"] is None else float(one["log_prob"]),
                    int(one["replaces"]),
                )
                for one in answer["completions"]
            ]
        except (KeyError, TypeError, ValueError):
            raise ServerError(
                f"{self.base}/complete: the answer has no completions; is it a chainrule server?"
            ) from None

    def completions(self, body: Mapping[str, Any]) -> list[Json]:
        """Return the choices of an answer to prompts. body: fields of the request."""
        return _list(self._answer("completions", {"model": self.model, **body}).get("choices"))

    def stream_chat(self, settings: Json) -> Iterator[Piece]:
        """Yield the answer to a conversation, piece by piece; the last piece says why it ended.

        settings: fields of the request.
        """
        with self._open("chat/completions", {"model": self.model, "stream": True, **settings}) as response:
            ending = "stop"
            for event in self._events(response):
                if "error" in event:
                    raise ServerError(f"{self.base}: {_message_of(event) or 'the answer broke off'}")
                for choice in _list(event.get("choices"))[:1]:
                    part = choice.get("delta") or choice.get("message") or {}
                    if text := part.get("content"):
                        yield Piece(str(text))
                    ending = choice.get("finish_reason") or ending
        yield Piece("", "length" if ending == "length" else "end")

    def _events(self, response: HTTPResponse) -> Iterator[Json]:
        """Yield the events of a stream, or the whole answer of a server that does not stream."""
        if not response.headers.get_content_type().startswith("text/event-stream"):
            yield self._parsed(self._read(response, whole=True))
            return
        while line := self._read(response, whole=False):
            data = line.strip().removeprefix(b"data:").strip()
            if data == b"[DONE]":
                return
            if data and line.startswith(b"data:"):
                yield self._parsed(data)

    def _read(self, response: HTTPResponse, *, whole: bool) -> bytes:
        try:
            data = response.read(_LONGEST_LINE) if whole else response.readline(_LONGEST_LINE)
        except (OSError, HTTPException) as error:
            raise ServerError(f"{self.base}: the answer broke off: {_reason(error)}") from error
        if len(data) == _LONGEST_LINE:
            raise ServerError(f"{self.base}: a line of the answer has more than {_LONGEST_LINE >> 20} MB")
        return data

    def _answer(self, path: str, body: Json | None = None) -> Json:
        with self._open(path, body) as response:
            return self._parsed(self._read(response, whole=True))

    def _parsed(self, data: bytes) -> Json:
        try:
            parsed = json.loads(data)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise ServerError(f"{self.base}: the answer is not a JSON object; is this the address of the API?")
        return parsed

    def _open(self, path: str, body: Json | None) -> HTTPResponse:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.base}/{path}", data, {"content-type": "application/json"})
        if self._key is not None:
            request.add_unredirected_header("authorization", f"Bearer {self._key}")  # no other server sees it
        try:
            response: HTTPResponse = urlopen(request, timeout=_WAIT_SECONDS)
        except HTTPError as error:
            with error:
                said = _error_message(error)
            raise ServerError(f"{self.base}/{path}: {error.code} {error.reason}{said}") from None
        except (OSError, HTTPException) as error:
            raise ServerError(f"{self.base}: cannot be reached: {_reason(error)}; is the server running?") from None
        return response


class RemoteChat:
    """A model on a server that answers conversations, as a `ChatModel` here does."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def answer(
        self,
        messages: Iterable[Mapping[str, Any] | Message],
        sampling: SamplingConfig | None = None,
        limits: Limits | None = None,
        *,
        seed: int | None = None,
        number: int = 0,
    ) -> Answer:
        """Return the answer, as `ChatModel.answer` does.

        Settings that are None are the server's; its template writes the conversation. The earliest messages are left
        out where the server says that all are too long: see `Answer.dropped` at the end.
        """
        given, limits = as_messages(messages), limits or CHAT_LIMITS
        settings: Json = {"max_tokens": limits.max_tokens}
        if limits.stop:
            settings["stop"] = list(limits.stop)
        if sampling is not None:
            settings |= sampling_settings(sampling)
        if seed is not None:
            settings["seed"] = (seed + number) % 2**63
        system, rest = split_system(given)

        def pieces() -> Iterator[Piece]:
            later = exchanges(rest)[1:]
            while True:
                sent = [message._asdict() for message in (*system, *rest[answer.dropped :])]
                try:
                    yield from self.client.stream_chat({"messages": sent, **settings})
                    return
                except ServerError as error:
                    if _TOO_LONG not in str(error) or not later:
                        raise
                answer.dropped = later[min(DROPPED_TOGETHER, len(later)) - 1]
                later = [begin for begin in later if begin > answer.dropped]

        answer = Answer(pieces(), 0)
        return answer


def sampling_settings(sampling: SamplingConfig) -> Json:
    """Return the sampling settings as fields of a request: the temperature, and all that differ from the defaults of
    `SamplingConfig`.
    """
    plain = SamplingConfig()
    named = {**_NAMES, **{name: name for name in _PENALTIES}}
    changed = {
        written: getattr(sampling, name)
        for name, written in named.items()
        if getattr(sampling, name) != getattr(plain, name)
    }
    return {"temperature": sampling.temperature, **changed}


def _error_message(error: HTTPError) -> str:
    try:
        said = _message_of(json.loads(error.read(1 << 16)))
    except (ValueError, OSError, HTTPException):
        return ""
    return f": {said}" if said else ""


def _message_of(body: Any) -> str:
    """Return the error message in a body, in OpenAI's form or FastAPI's."""
    if not isinstance(body, dict):
        return ""
    inner = body.get("error", body.get("detail"))
    said = inner.get("message") if isinstance(inner, dict) else inner
    return said if isinstance(said, str) else ""


def _list(value: Any) -> list[Json]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, URLError) else error
    return getattr(reason, "strerror", None) or str(reason) or type(reason).__name__

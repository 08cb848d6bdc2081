"""Answers of /v1/responses: the answer to a conversation, in the records and events of OpenAI's newer interface.

Nothing is stored, so the input is the whole conversation; each answer says so.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from chainrule.features.serve.bodies import ApiError, ChatBody, SamplingBody, StreamOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from chainrule.features.serve.bodies import ResponseBody
    from chainrule.features.serve.generation.completions import Answer

    Json = dict[str, Any]

_LOGPROBS = "message.output_text.logprobs"
_NEEDS_STATE = ("previous_response_id", "conversation", "prompt")
_ELSEWHERE = {"max_tokens": "max_output_tokens", "response_format": "text.format", "n": ""}
# The fields of the conversation that a request becomes, as the request names them.
_NAMES = {"messages": "input", "response_format": "text.format", "max_tokens": "max_output_tokens"}
_NAMES |= {"logprobs": "top_logprobs"}


def _unsupported(param: str, why: str) -> ApiError:
    return ApiError(400, f"{param}: {why}", param=param, code="unsupported_parameter")


def chat_body_of(body: ResponseBody) -> ChatBody:
    """Return a request as one of /v1/chat/completions. Raises ApiError."""
    for name in _NEEDS_STATE:
        if getattr(body, name) is not None:
            raise _unsupported(name, "nothing is stored here; send the whole conversation as input")
    if body.background:
        raise _unsupported("background", "nothing is stored here; leave it out, and wait for the answer or stream it")
    for name, other in _ELSEWHERE.items():
        if getattr(body, name) not in (None, 1):
            raise _unsupported(name, f"use {other}" if other else "there is one answer; ask several times")
    if others := [name for name in body.include or [] if name != _LOGPROBS]:
        raise _unsupported("include", f"{others[0]:.60} is not there; expected {_LOGPROBS}")
    if body.top_logprobs is not None and not body.include:
        raise _unsupported("top_logprobs", f"only with include: [{_LOGPROBS!r}]")
    own = {"messages", "functions", "function_call", *_ELSEWHERE, "tools", "tool_choice", "stream_options"}
    own |= {"truncate_prompt_tokens", "top_logprobs"}
    sampling = {name: getattr(body, name) for name in SamplingBody.model_fields if name not in own}
    try:
        return ChatBody(
            **{name: value for name, value in sampling.items() if value is not None},
            messages=_messages(body),
            max_completion_tokens=body.max_output_tokens,
            response_format=_response_format(body.text or {}),
            tools=None if body.tools is None else [_tool(tool) for tool in _listed("tools", body.tools)],
            tool_choice=_tool_choice(body.tool_choice),
            logprobs=bool(body.include),
            top_logprobs=body.top_logprobs,
            truncate_prompt_tokens=-1 if body.truncation == "auto" else body.truncate_prompt_tokens,
            stream_options=StreamOptions(include_usage=True),
        )
    except ValidationError as error:
        raise ApiError(400, f"input: {error.errors()[0]['msg']}", param="input") from None


def _listed(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ApiError(400, f"{name}: expected a list", param=name)
    return value


def _response_format(text: Json) -> Json | None:
    if unknown := sorted(name for name, value in text.items() if name != "format" and value is not None):
        raise _unsupported(f"text.{unknown[0][:40]}", "the models here have no such setting; leave it out")
    match text.get("format"):
        case {"type": "json_schema", **schema}:
            return {"type": "json_schema", "json_schema": schema}
        case other:
            return other  # read where all formats are


def _tool(tool: Any) -> Any:
    match tool:
        case {"type": "function", "name": _, **function}:
            return {"type": "function", "function": {"name": tool["name"], **function}}
        case {"type": str(kind)} if kind != "function":
            raise _unsupported("tools", f"{kind:.40} is not there; expected functions")
    return tool


def _tool_choice(choice: Any) -> Any:
    match choice:
        case {"type": "function", "name": name}:
            return {"type": "function", "function": {"name": name}}
    return choice


def _messages(body: ResponseBody) -> list[Json]:
    """Return the conversation, which begins with the instructions. Raises ApiError."""
    items = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else _listed("input", body.input)
    messages: list[Json] = []
    for number, item in enumerate(items, 1):
        match item:
            case {"type": "function_call", "call_id": call, "name": name, "arguments": arguments}:
                entry = {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}
                if messages and "tool_calls" in messages[-1]:
                    messages[-1]["tool_calls"].append(entry)
                else:
                    messages.append({"role": "assistant", "content": None, "tool_calls": [entry]})
            case {"type": "function_call_output", "call_id": call, "output": output}:
                messages.append({"role": "tool", "tool_call_id": call, "content": output})
            case {"role": role, "content": content} if item.get("type", "message") == "message":
                messages.append({"role": role, "content": content})
            case _:
                kind = item.get("type", "object without role") if isinstance(item, dict) else type(item).__name__
                expected = "expected message, function_call or function_call_output, each with its fields"
                raise ApiError(400, f"input: item {number} is a {kind!s:.40}; {expected}", param="input")
    if body.instructions:
        given = body.instructions
        if messages and messages[0]["role"] in ("system", "developer") and isinstance(messages[0]["content"], str):
            given = f"{given}\n\n{messages.pop(0)['content']}"
        messages.insert(0, {"role": "system", "content": given})
    return messages


class ResponseAnswer:
    """The answer to a request: an `Answer` to a conversation, in other words."""

    @classmethod
    async def of(cls, body: ResponseBody, ask: Callable[[ChatBody], Awaitable[Answer]]) -> ResponseAnswer:
        """Submit a request as a conversation, and return its answer.

        ask: submits a conversation. Raises ApiError, which names the fields of this request.
        """
        conversation = chat_body_of(body)
        try:
            return cls(body, await ask(conversation))
        except ApiError as error:
            if error.param in _NAMES:
                theirs = _NAMES[error.param]
                message = error.message.replace(f"{error.param}", theirs, 1)
                raise ApiError(error.status, message, param=theirs, code=error.code) from None
            raise

    def __init__(self, body: ResponseBody, answer: Answer) -> None:
        self._body, self._answer = body, answer
        self._id, self._created = f"resp_{uuid.uuid4().hex}", int(time.time())
        self._number = 0

    async def record(self) -> Json:
        """Implement `Answer.record`."""
        record = await self._answer.record()
        [choice] = record["choices"]
        message, output = choice["message"], []
        calls = message.get("tool_calls") or []
        if message["content"] or not calls:
            item = _Message(bool(self._body.include))
            item.add(message["content"] or "", (choice["logprobs"] or {}).get("content") or [])
            output.append(item.record("completed"))
        for call in calls:
            function = call["function"]
            output.append(_Call(call["id"], function["name"], function["arguments"]).record("completed"))
        return self._response(record["model"], output, choice["finish_reason"], record["usage"])

    async def chunks(self) -> AsyncIterator[Json]:
        """Yield the events of the answer. Raises what the work raised."""
        output: list[Json] = []
        item: _Message | _Call | None = None
        reason, usage, model = "stop", None, self._body.model
        pending: list[Json] = []
        has_begun = False
        async for chunk in self._answer.chunks():
            if not has_begun:
                has_begun, model = True, chunk["model"]
                yield self._event("response.created", response=self._response(model, [], None, None))
                yield self._event("response.in_progress", response=self._response(model, [], None, None))
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"]:
                delta = choice["delta"]
                reason = choice["finish_reason"] or reason
                pending += (choice["logprobs"] or {}).get("content") or []
                if delta.get("content"):
                    if item is None:
                        item = _Message(bool(self._body.include))
                        for event in item.opened(len(output)):
                            yield self._event(**event)
                    yield self._event(**item.add(delta["content"], pending), output_index=len(output))
                    pending = []
                for part in delta.get("tool_calls") or []:
                    if "id" in part:
                        if item is not None:
                            for event in item.closed(len(output)):
                                yield self._event(**event)
                            output.append(item.record("completed"))
                        item = _Call(part["id"], part["function"]["name"], "")
                        for event in item.opened(len(output)):
                            yield self._event(**event)
                    if part["function"]["arguments"] and item is not None:
                        yield self._event(**item.add(part["function"]["arguments"], []), output_index=len(output))
        if item is None:
            item = _Message(bool(self._body.include))
            for event in item.opened(len(output)):
                yield self._event(**event)
        if isinstance(item, _Message):
            item.logprobs += pending
        for event in item.closed(len(output)):
            yield self._event(**event)
        output.append(item.record("completed"))
        response = self._response(model, output, reason, usage)
        yield self._event(f"response.{response['status']}", response=response)

    def abandon(self) -> None:
        """Implement `Answer.abandon`."""
        self._answer.abandon()

    def _event(self, type: str, **fields: Any) -> Json:
        self._number += 1
        return {"type": type, "sequence_number": self._number - 1, **fields}

    def _response(self, model: str | None, output: list[Json], reason: str | None, usage: Json | None) -> Json:
        """Return the fields of the response. reason: why the answer ended; None while it grows."""
        body = self._body
        status = {None: "in_progress", "length": "incomplete"}.get(reason, "completed")
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "completed_at": None if reason is None else int(time.time()),
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if reason == "length" else None,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "metadata": body.metadata or {},
            "model": model,
            "output": output,
            "parallel_tool_calls": bool(body.parallel_tool_calls),
            "previous_response_id": None,
            "store": False,
            "temperature": body.temperature,
            "text": {"format": (body.text or {}).get("format") or {"type": "text"}},
            "tool_choice": body.tool_choice or "auto",
            "tools": body.tools or [],
            "top_logprobs": body.top_logprobs or 0,
            "top_p": body.top_p,
            "truncation": body.truncation or "disabled",
            "usage": None
            if usage is None
            else {
                "input_tokens": usage["prompt_tokens"],
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": usage["completion_tokens"],
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage["total_tokens"],
            },
        }


class _Message:
    """The item of an answer that is a text."""

    def __init__(self, shows_logprobs: bool) -> None:
        self._id, self._text = f"msg_{uuid.uuid4().hex}", ""
        self.logprobs: list[Json] = []
        self._shows_logprobs = shows_logprobs

    def record(self, status: str) -> Json:
        """Return the item, as answers have it."""
        return {"type": "message", "id": self._id, "status": status, "role": "assistant", "content": [self._part()]}

    def opened(self, index: int) -> Iterator[Json]:
        """Yield the events with which it begins. index: of the item in the answer."""
        yield {
            "type": "response.output_item.added",
            "output_index": index,
            "item": {**self.record("in_progress"), "content": []},
        }
        yield {"type": "response.content_part.added", **self._place(index), "part": self._part()}

    def add(self, text: str, logprobs: list[Json]) -> Json:
        """Add to the text, and return the event of it, without the item's index."""
        self._text += text
        self.logprobs += logprobs
        place = {"item_id": self._id, "content_index": 0}
        return {"type": "response.output_text.delta", **place, "delta": text, "logprobs": list(logprobs)}

    def closed(self, index: int) -> Iterator[Json]:
        """Yield the events with which it ends."""
        done = {"text": self._text, "logprobs": self.logprobs}
        yield {"type": "response.output_text.done", **self._place(index), **done}
        yield {"type": "response.content_part.done", **self._place(index), "part": self._part()}
        yield {"type": "response.output_item.done", "output_index": index, "item": self.record("completed")}

    def _place(self, index: int) -> Json:
        return {"item_id": self._id, "output_index": index, "content_index": 0}

    def _part(self) -> Json:
        logprobs = self.logprobs if self._shows_logprobs else []
        return {"type": "output_text", "text": self._text, "annotations": [], "logprobs": list(logprobs)}


class _Call:
    """The item of an answer that calls a function."""

    def __init__(self, call: str, name: str, arguments: str) -> None:
        self._id, self._call, self._name, self._arguments = f"fc_{uuid.uuid4().hex}", call, name, arguments

    def record(self, status: str) -> Json:
        """Return the item, as `_Message.record` does."""
        function = {"call_id": self._call, "name": self._name, "arguments": self._arguments}
        return {"type": "function_call", "id": self._id, "status": status, **function}

    def opened(self, index: int) -> Iterator[Json]:
        """Yield the events with which it begins, as `_Message.opened` does."""
        yield {"type": "response.output_item.added", "output_index": index, "item": self.record("in_progress")}

    def add(self, text: str, logprobs: list[Json]) -> Json:
        """Add to the arguments, as `_Message.add` does to the text."""
        self._arguments += text
        return {"type": "response.function_call_arguments.delta", "item_id": self._id, "delta": text}

    def closed(self, index: int) -> Iterator[Json]:
        """Yield the events with which it ends, as `_Message.closed` does."""
        done = {"item_id": self._id, "output_index": index, "name": self._name, "arguments": self._arguments}
        yield {"type": "response.function_call_arguments.done", **done}
        yield {"type": "response.output_item.done", "output_index": index, "item": self.record("completed")}

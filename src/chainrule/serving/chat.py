"""/v1/chat/completions: answers to conversations, by the model's chat template."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from chainrule.applications.chat import CHAT_LIMITS
from chainrule.applications.config import CHAT_SAMPLING
from chainrule.errors import SettingError
from chainrule.serving.answering import answer_head, chunks_of, token_usage
from chainrule.serving.api_error import ApiError
from chainrule.serving.generating import check_size, generation, text_settings
from chainrule.serving.ticket import Ticket
from chainrule.serving.token_names import finite

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chainrule.serving.choice import Choice, ChosenToken
    from chainrule.serving.requests import ChatBody
    from chainrule.serving.served_model import ServedModel

    Json = dict[str, Any]


_TOOL_FIELDS = ("tools", "tool_choice", "functions", "function_call")  # the last two are OpenAI's older names
_NO_TOOLS: tuple[Any, ...] = (None, [], "none")


class ChatAnswer:
    """The answer to a request, whose work has been submitted."""

    def __init__(
        self, served: ServedModel, body: ChatBody, ticket: Ticket, choices: list[Choice], prompt_tokens: int
    ) -> None:
        self._served, self._body, self._ticket, self._choices = served, body, ticket, choices
        self._prompt_tokens = prompt_tokens
        kind = "chat.completion.chunk" if body.stream else "chat.completion"
        self._head = answer_head(served, "chatcmpl", kind)

    @classmethod
    async def of(cls, served: ServedModel, body: ChatBody) -> ChatAnswer:
        """Raises ApiError."""
        if body.chat_template is not None:
            raise ApiError(400, "chat_template: templates of requests are not run; leave it out", param="chat_template")
        _check_no_tools(body)
        given = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
        max_tokens = CHAT_LIMITS.max_tokens if given is None else given
        if max_tokens < 1:
            raise ApiError(400, "max_tokens is 0; expected 1 or more", param="max_tokens")
        top = (body.top_logprobs or 0) if body.logprobs else None
        settings = text_settings(
            body, served, max_tokens=max_tokens, choices=body.n or 1, top=top, defaults=CHAT_SAMPLING
        )
        try:
            chat_model = served.causal.chat_model
            prompt = await asyncio.to_thread(chat_model.prompt, body.messages, max_tokens)
        except (SettingError, TypeError) as error:
            raise ApiError(400, str(error), param="messages") from None
        check_size(1, len(prompt.tokens), settings, served.limits)
        ticket = Ticket(settings.choices)
        part, choices = generation(served, ticket, prompt.tokens, settings, is_exact=served.reads_prompts)
        served.scheduler.submit([part])
        return cls(served, body, ticket, choices, len(prompt.tokens))

    async def record(self) -> Json:
        """The whole answer, once all texts have ended. Raises what the work raised."""
        try:
            await self._ticket.wait_until_done()
        finally:
            self.abandon()
        entries, used = [], 0
        for index, chunk in enumerate(choice.take() for choice in self._choices):
            used += len(chunk.tokens)
            message = {"role": "assistant", "content": chunk.text, "refusal": None}
            logprobs = self._logprobs(chunk.tokens)
            entries.append(
                {"index": index, "message": message, "logprobs": logprobs, "finish_reason": chunk.finish_reason}
            )
        return {**self._head, "choices": entries, "usage": token_usage(self._prompt_tokens, used)}

    async def chunks(self) -> AsyncIterator[Json]:
        """The answer, piece by piece. Raises what the work raised."""
        try:
            used = 0
            for index in range(len(self._choices)):
                yield self._chunk(index, {"role": "assistant", "content": ""}, None, None)
            async for index, chunk in chunks_of(self._ticket, dict(enumerate(self._choices))):
                used += len(chunk.tokens)
                delta = {"content": chunk.text} if chunk.text or not chunk.finish_reason else {}
                yield self._chunk(index, delta, self._logprobs(chunk.tokens), chunk.finish_reason)
            if self._body.wants_usage:
                yield {**self._head, "choices": [], "usage": token_usage(self._prompt_tokens, used)}
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Drops what is left of the work."""
        self._served.abandon(self._ticket)

    def _chunk(self, index: int, delta: Json, logprobs: Json | None, reason: str | None) -> Json:
        return {
            **self._head,
            "choices": [{"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}],
        }

    def _logprobs(self, chosen: list[ChosenToken]) -> Json | None:
        if not self._body.logprobs:
            return None
        content = []
        for token in chosen:
            entry = self._entry(token.token, token.log_prob)
            tops = [] if token.top is None else list(zip(*(column.tolist() for column in token.top), strict=True))
            entry["top_logprobs"] = [
                self._entry(other, token.log_prob if other == token.token else log_prob) for log_prob, other in tops
            ]
            content.append(entry)
        return {"content": content, "refusal": None}

    def _entry(self, token: int, log_prob: float) -> Json:
        text = self._served.names.restore(self._served.tokenizer.vocabulary.token_bytes(token))
        return {
            "token": self._served.names.name(token),
            "logprob": finite(log_prob),
            "bytes": list(text),
        }


def _check_no_tools(body: ChatBody) -> None:
    """Raises ApiError if a request offers tools, or asks for a call of one."""
    for name in _TOOL_FIELDS:
        if getattr(body, name) not in _NO_TOOLS:
            message = f"{name}: calling tools is not supported; leave {name} out"
            raise ApiError(400, message, param=name, code="unsupported_parameter")

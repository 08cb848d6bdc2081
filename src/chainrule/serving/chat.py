"""/v1/chat/completions: answers to conversations, by the model's chat template."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING, Any

from chainrule.applications.chat.chat_model import CHAT_LIMITS, CHAT_SAMPLING
from chainrule.errors import SettingError
from chainrule.serving.api_error import ApiError
from chainrule.serving.generating import check_size, generation, text_settings
from chainrule.serving.ticket import Ticket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chainrule.serving.choice import Choice, ChosenToken
    from chainrule.serving.requests import ChatBody
    from chainrule.serving.served_model import ServedModel

    Json = dict[str, Any]


class ChatAnswer:
    """The answer to a request, whose work has been submitted."""

    def __init__(
        self, served: ServedModel, body: ChatBody, ticket: Ticket, choices: list[Choice], prompt_tokens: int
    ) -> None:
        self._served, self._body, self._ticket, self._choices = served, body, ticket, choices
        self._prompt_tokens = prompt_tokens
        self._head = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion.chunk" if body.stream else "chat.completion",
            "created": int(time.time()),
            "model": served.name,
            "system_fingerprint": served.fingerprint,
        }

    @classmethod
    async def of(cls, served: ServedModel, body: ChatBody) -> ChatAnswer:
        """Raises ApiError."""
        if body.chat_template is not None:
            raise ApiError(400, "chat_template: templates of requests are not run; leave it out", param="chat_template")
        if body.tools:
            raise ApiError(400, "tools: calling tools is not supported; leave tools out", param="tools")
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
        return {**self._head, "choices": entries, "usage": self._usage(used)}

    async def chunks(self) -> AsyncIterator[Json]:
        """The answer, piece by piece. Raises what the work raised."""
        try:
            open_choices = dict(enumerate(self._choices))
            used = 0
            for index in open_choices:
                yield self._chunk(index, {"role": "assistant", "content": ""}, None, None)
            while open_choices:
                await self._ticket.wait()
                for index, choice in list(open_choices.items()):
                    chunk = choice.take()
                    used += len(chunk.tokens)
                    if chunk.text or chunk.tokens or chunk.finish_reason:
                        delta = {"content": chunk.text} if chunk.text or not chunk.finish_reason else {}
                        yield self._chunk(index, delta, self._logprobs(chunk.tokens), chunk.finish_reason)
                    if chunk.finish_reason is not None:
                        del open_choices[index]
            if self._body.stream_options is not None and self._body.stream_options.include_usage:
                yield {**self._head, "choices": [], "usage": self._usage(used)}
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Drops what is left of the work."""
        if self._ticket.open_parts > 0 or self._ticket.error is not None:
            self._served.scheduler.cancel(self._ticket)

    def _chunk(self, index: int, delta: Json, logprobs: Json | None, reason: str | None) -> Json:
        return {
            **self._head,
            "choices": [{"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}],
        }

    def _usage(self, completion_tokens: int) -> Json:
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": self._prompt_tokens + completion_tokens,
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
            "logprob": max(log_prob, -9999.0),
            "bytes": list(text),
        }

"""Answers of /v1/completions (texts after prompts, with log-probabilities) and of /v1/chat/completions, as they grow.

Conversations are written by the model's chat template. Both answers share their head, their growing texts, and the
tokens that they cost.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from chainrule.decoding.chat.conversation import CHAT_LIMITS
from chainrule.decoding.options import CHAT_SAMPLING
from chainrule.errors import SettingError
from chainrule.features.serve.bodies import ApiError
from chainrule.features.serve.generation.filling import gap_prompts, with_suffix
from chainrule.features.serve.generation.prompts import encode_prompts
from chainrule.features.serve.generation.texts import (
    Choice,
    ChosenToken,
    Chunk,
    check_alternatives,
    check_max_tokens,
    check_room,
    check_size,
    form_of_request,
    generation,
    kept_tokens,
    text_settings,
)
from chainrule.features.serve.generation.tokens import TokenRows, finite, join_rows, token_arrays
from chainrule.features.serve.generation.tools import CallReader, joined_calls, messages_with_tools, read_tools
from chainrule.features.serve.generation.work import PendingRequest, Scoring

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from chainrule.decoding.chat.conversation import ChatPrompt
    from chainrule.decoding.form import Form
    from chainrule.features.serve.bodies import ChatBody, CompletionBody
    from chainrule.features.serve.generation.tools import ToolChoice
    from chainrule.features.serve.generation.work import Generation
    from chainrule.features.serve.models import ServedModel

    Json = dict[str, Any]


def answer_head(served: ServedModel, id_prefix: str, kind: str) -> Json:
    """Return the fields that an answer and all its chunks begin with."""
    return {
        "id": f"{id_prefix}-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": served.name,
        "system_fingerprint": served.fingerprint,
    }


def token_usage(prompt_tokens: int, completion_tokens: int) -> Json:
    """Return the numbers of tokens that a request has used."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


async def chunks_of(ticket: PendingRequest, choices: Mapping[int, Choice]) -> AsyncIterator[tuple[int, Chunk]]:
    """Yield the new chunks of all texts, each with its text's index, until all have ended. Raises what the work
    raised.
    """
    open_choices = dict(choices)
    while open_choices:
        await ticket.wait()
        for index, choice in list(open_choices.items()):
            chunk = choice.take()
            if chunk.text or chunk.tokens or chunk.finish_reason:
                yield index, chunk
            if chunk.finish_reason is not None:
                del open_choices[index]


DEFAULT_MAX_TOKENS = 16  # as in OpenAI's interface


class Answer(Protocol):
    """An answer whose work has been submitted."""

    async def record(self) -> Json:
        """Return the whole answer. Raises what the work raised."""

    def chunks(self) -> AsyncIterator[Json]:
        """Return the answer, piece by piece. Raises what the work raised."""

    def abandon(self) -> None:
        """Drop what is left of the work."""


class CompletionAnswer:
    """The answer to a request, whose work has been submitted. Raises ApiError when made."""

    @classmethod
    async def of(cls, served: ServedModel, body: CompletionBody) -> CompletionAnswer:
        """Submit the work of a request, and return its answer. Raises ApiError."""
        body = with_suffix(served, body)
        return cls(served, body, await asyncio.to_thread(form_of_request, body, served))

    def __init__(self, served: ServedModel, body: CompletionBody, form: Form | None = None) -> None:
        self._served, self._body = served, body
        if body.suffix and (body.echo or body.truncate_prompt_tokens is not None):
            name = "echo" if body.echo else "truncate_prompt_tokens"
            raise ApiError(400, f"{name}: not with suffix; leave one of the two out", param=name)
        self._n = body.n or 1
        best_of = body.best_of or self._n
        if best_of < self._n:
            raise ApiError(400, f"best_of is {best_of}, less than n, {self._n}; raise it", param="best_of")
        if best_of > self._n and body.stream:
            raise ApiError(400, "best_of cannot be streamed: the best text is known at the end", param="best_of")
        max_tokens = DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens
        if body.prompt_logprobs is not None and (body.echo or body.stream or body.suffix):
            raise ApiError(
                400, "prompt_logprobs: not with echo, stream or suffix; leave it out", param="prompt_logprobs"
            )
        check_alternatives(body.prompt_logprobs or 0, served.limits, "prompt_logprobs")
        settings = text_settings(body, served, max_tokens=max_tokens, choices=best_of, top=body.logprobs, form=form)
        self._prompts = encode_prompts(body.prompt, served.causal.tokenizer, served.limits.prompts)
        if body.suffix:
            self._prompts = gap_prompts(served, self._prompts, body.suffix)
        elif (most := kept_tokens(served, body, max_tokens)) is not None:
            self._prompts = [prompt.last(most) for prompt in self._prompts]
        if not (body.echo and body.logprobs is not None and max_tokens <= 1):  # scoring cuts nothing: see Scheduler
            check_room(served, max(len(prompt.read) for prompt in self._prompts), max_tokens, "prompt")
        check_size(len(self._prompts), sum(len(prompt.ids) for prompt in self._prompts), settings, served.limits)
        self._shows_logprobs = body.logprobs is not None
        is_scored = (bool(body.echo) and self._shows_logprobs) or body.prompt_logprobs is not None
        self._is_empty = max_tokens == 0
        texts = 0 if self._is_empty else len(self._prompts) * best_of
        self.ticket = PendingRequest(texts + is_scored)
        self.scoring: Scoring | None = None
        self._choices: list[list[Choice]] = [[] for _ in self._prompts]
        work: list[Generation | Scoring] = []
        if is_scored:
            sequences = [prompt.read for prompt in self._prompts]
            top = body.logprobs if body.prompt_logprobs is None else body.prompt_logprobs
            self.scoring = Scoring(self.ticket, sequences, top or 0)
            work.append(self.scoring)
        for i, prompt in enumerate(self._prompts if not self._is_empty else []):
            part, self._choices[i] = generation(
                served,
                self.ticket,
                prompt.read,
                settings,
                before=prompt.surfaces,
                offset=len(prompt.text),
                is_exact=bool(body.suffix),
            )
            work.append(part)
        self._head = answer_head(served, "cmpl", "text_completion")
        if work:
            served.scheduler.submit(work)

    async def record(self) -> Json:
        """Return the whole answer, once all texts have ended. Raises what the work raised."""
        try:
            await self.ticket.wait_until_done()
        finally:
            self.abandon()
        texts: list[str] = []
        reasons: list[str | None] = []
        rows: list[TokenRows] = []
        used = 0
        for i, prompt in enumerate(self._prompts):
            chunks = [choice.take() for choice in self._choices[i]] or [Chunk("", [], "length")] * self._n
            used += sum(len(chunk.tokens) for chunk in chunks)
            if len(chunks) > self._n:
                chunks = sorted(chunks, key=_mean_log_prob, reverse=True)[: self._n]
            texts += [prompt.text + chunk.text if self._body.echo else chunk.text for chunk in chunks]
            reasons += [chunk.finish_reason for chunk in chunks]
            if self._shows_logprobs:
                rows += [self._rows(i if self._body.echo else None, chunk.tokens) for chunk in chunks]
        logprobs = token_arrays(self._served.names, rows) if rows else [None] * len(texts)
        columns = zip(texts, logprobs, reasons, strict=True)
        entries = [self._entry(index, *column) for index, column in enumerate(columns)]
        if self._body.prompt_logprobs is not None:
            prompts = [self._prompt_logprobs(i) for i in range(len(self._prompts))]
            entries = [{**entry, "prompt_logprobs": prompts[i // self._n]} for i, entry in enumerate(entries)]
        return {**self._head, "choices": entries, "usage": self._usage(used)}

    async def chunks(self) -> AsyncIterator[Json]:
        """Yield the answer, piece by piece. Raises what the work raised."""
        try:
            while self.scoring is not None and not self.scoring.is_done:
                await self.ticket.wait()
            used = 0
            for index in range(len(self._prompts) * self._n):
                reason = "length" if self._is_empty else None
                if self._body.echo:
                    i = index // self._n
                    rows = self._prompt_rows(i) if self._shows_logprobs else None
                    yield self._chunk(index, self._prompts[i].text, rows, reason)
                elif reason:
                    yield self._chunk(index, "", None, reason)
            choices = dict(enumerate(choice for of_prompt in self._choices for choice in of_prompt))
            async for index, chunk in chunks_of(self.ticket, choices):
                used += len(chunk.tokens)
                rows = _chosen_rows(chunk.tokens) if self._shows_logprobs else None
                yield self._chunk(index, chunk.text, rows, chunk.finish_reason)
            if self._body.wants_usage:
                yield {**self._head, "choices": [], "usage": self._usage(used)}
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Drop what is left of the work."""
        self._served.abandon(self.ticket)

    def _chunk(self, index: int, text: str, rows: TokenRows | None, reason: str | None) -> Json:
        logprobs = None if rows is None else token_arrays(self._served.names, [rows])[0]
        return {**self._head, "choices": [self._entry(index, text, logprobs, reason)]}

    @staticmethod
    def _entry(index: int, text: str, logprobs: Any, reason: str | None) -> Json:
        return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": reason}

    def _usage(self, completion_tokens: int) -> Json:
        return token_usage(sum(len(prompt.ids) for prompt in self._prompts), completion_tokens)

    def _rows(self, prompt: int | None, chosen: list[ChosenToken]) -> TokenRows:
        """Return the tokens of a prompt, if its index is given, and of a text after it."""
        if prompt is None:
            return _chosen_rows(chosen)
        rows = self._prompt_rows(prompt)
        return join_rows([rows, _chosen_rows(chosen)])._replace(unknown=rows.unknown) if chosen else rows

    def _prompt_rows(self, index: int) -> TokenRows:
        """Return a prompt's tokens. The first has no log-probability, since clients take it for the beginning."""
        assert self.scoring is not None
        prompt, log_probs = self._prompts[index], self.scoring.log_probs[index]
        tops = self.scoring.tops[index] if self.scoring.top else None
        if prompt.is_marked:  # the marker was not scored
            log_probs = np.insert(log_probs, 0, 0)
            if tops is not None:
                tops = np.insert(tops[0], 0, 0, axis=0), np.insert(tops[1], 0, 0, axis=0)
        return TokenRows(prompt.ids, log_probs, tops, prompt.offsets, unknown=min(1, len(prompt.ids)))

    def _prompt_logprobs(self, index: int) -> list[Json | None]:
        """Return a prompt's tokens as vLLM shows them: by id, with the likeliest ones in their places.

        rank: None if it is not among them.
        """
        rows, names = self._prompt_rows(index), self._served.names
        shown: list[Json | None] = []
        for i, (token, log_prob) in enumerate(zip(rows.ids.tolist(), rows.log_probs.tolist(), strict=True)):
            tops = [] if rows.tops is None else list(zip(*(column[i].tolist() for column in rows.tops), strict=True))
            ranks = {other: rank for rank, (_, other) in enumerate(tops, 1)}
            values = {other: value for value, other in tops} | {token: log_prob}
            entry = {
                str(other): {
                    "logprob": finite(value),
                    "rank": ranks.get(other),
                    "decoded_token": names.text(other, rows.ids[i - 1] if i else None)[0],
                }
                for other, value in values.items()
            }
            shown.append(entry if i >= rows.unknown else None)
        return shown


def _chosen_rows(chosen: list[ChosenToken]) -> TokenRows:
    ids, log_probs, tops, offsets = zip(*chosen, strict=True) if chosen else ((), (), (), ())
    columns = None
    if tops and tops[0] is not None:
        best, others = zip(*tops, strict=True)
        columns = np.stack(best), np.stack(others)
    return TokenRows(np.array(ids, np.int32), np.array(log_probs, np.float64), columns, np.array(offsets, np.int64))


def _mean_log_prob(chunk: Chunk) -> float:
    return sum(token.log_prob for token in chunk.tokens) / max(len(chunk.tokens), 1)


class WholeAnswer:
    """An answer that is whole from the start, such as captions: a stream of it has one chunk for each choice."""

    def __init__(self, head: Json, entries: list[Json], usage: Json, *, wants_usage: bool, is_chat: bool) -> None:
        """Store the parts of the answer.

        entries: the text and the reason why it ended, of each choice. is_chat: whether it answers a conversation.
        """
        self._head, self._entries, self._usage = head, entries, usage
        self._wants_usage, self._is_chat = wants_usage, is_chat

    async def record(self) -> Json:
        """Implement `Answer.record`."""
        return {**self._head, "choices": self._choices("message"), "usage": self._usage}

    async def chunks(self) -> AsyncIterator[Json]:
        """Implement `Answer.chunks`."""
        for choice in self._choices("delta"):
            yield {**self._head, "choices": [choice]}
        if self._wants_usage:
            yield {**self._head, "choices": [], "usage": self._usage}

    def abandon(self) -> None:
        """Implement `Answer.abandon`."""

    def _choices(self, name: str) -> list[Json]:
        choices = []
        for index, entry in enumerate(self._entries):
            content = {name: {"role": "assistant", "content": entry["text"]}}
            own = content if self._is_chat else {"text": entry["text"]}
            choices.append({"index": index, **own, "logprobs": None, "finish_reason": entry["finish_reason"]})
        return choices


def _finish_reason(chunk: Chunk, reader: CallReader) -> str | None:
    return "tool_calls" if reader.calls and chunk.finish_reason == "stop" else chunk.finish_reason


def _default_max_tokens(context: int | None, prompt_tokens: int) -> int:
    """Return how long an answer to a conversation may be where the request does not say: as long as there is room."""
    most = CHAT_LIMITS.max_tokens
    return most if context is None else max(1, min(most, context - prompt_tokens))


def _chat_prompt(served: ServedModel, body: ChatBody, messages: list[Any], given: int | None) -> ChatPrompt:
    """Return what the model reads: all messages, or the last ones, where the request says so.

    Raises SettingError, ApiError. given: the most tokens of the answer, if the request says it.
    """
    chat_model, context = served.causal.chat_model, served.context
    if variables := body.template_variables(chat_model.format.template.reads):
        chat_model = chat_model.with_variables(variables)
    answer = min(CHAT_LIMITS.max_tokens, context // 2) if given is None and context is not None else given or 0
    most = kept_tokens(served, body, answer)
    return chat_model.whole_prompt(messages) if most is None else chat_model.prompt(messages, answer, most=most)


class ChatAnswer:
    """The answer to a request, whose work has been submitted."""

    def __init__(
        self,
        served: ServedModel,
        body: ChatBody,
        ticket: PendingRequest,
        choices: list[Choice],
        prompt_tokens: int,
        tools: ToolChoice,
    ) -> None:
        self._served, self._body, self._ticket, self._choices = served, body, ticket, choices
        self._prompt_tokens, self._tools = prompt_tokens, tools.tools
        kind = "chat.completion.chunk" if body.stream else "chat.completion"
        self._head = answer_head(served, "chatcmpl", kind)

    @classmethod
    async def of(cls, served: ServedModel, body: ChatBody) -> ChatAnswer:
        """Submit the work of a request, and return its answer. Raises ApiError."""
        if body.chat_template is not None:
            raise ApiError(400, "chat_template: templates of requests are not run; leave it out", param="chat_template")
        if body.prompt_logprobs is not None:
            raise ApiError(400, "prompt_logprobs: only in /v1/completions; leave it out", param="prompt_logprobs")
        if body.top_logprobs is not None and not body.logprobs:
            raise ApiError(400, "top_logprobs is given without logprobs: true; send both", param="top_logprobs")
        given = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
        if given is not None and given < 1:
            raise ApiError(400, "max_tokens is 0; expected 1 or more", param="max_tokens")
        check_max_tokens(given or 0, served.limits)
        try:
            tools = read_tools(body.tools, body.tool_choice)
        except SettingError as error:
            param = "tool_choice" if str(error).startswith("tool_choice") else "tools"
            raise ApiError(400, str(error), param=param) from None
        form = await asyncio.to_thread(form_of_request, body, served, tools)
        try:
            messages = messages_with_tools(body.messages, tools.tools)
            prompt = await asyncio.to_thread(_chat_prompt, served, body, messages, given)
        except (SettingError, TypeError) as error:
            raise ApiError(400, str(error), param="messages") from None
        max_tokens = given if given is not None else _default_max_tokens(served.context, len(prompt.tokens))
        check_room(served, len(prompt.tokens), max_tokens, "messages")
        top = (body.top_logprobs or 0) if body.logprobs else None
        settings = text_settings(
            body, served, max_tokens=max_tokens, choices=body.n or 1, top=top, form=form, defaults=CHAT_SAMPLING
        )
        check_size(1, len(prompt.tokens), settings, served.limits)
        ticket = PendingRequest(settings.choices)
        part, choices = generation(served, ticket, prompt.tokens, settings, is_exact=served.reads_prompts)
        served.scheduler.submit([part])
        return cls(served, body, ticket, choices, len(prompt.tokens), tools)

    async def record(self) -> Json:
        """Return the whole answer, once all texts have ended. Raises what the work raised."""
        try:
            await self._ticket.wait_until_done()
        finally:
            self.abandon()
        entries, used = [], 0
        for index, chunk in enumerate(choice.take() for choice in self._choices):
            used += len(chunk.tokens)
            reader = CallReader(self._tools)
            content, parts = reader.feed(chunk.text, is_last=True)
            message: Json = {"role": "assistant", "content": content, "refusal": None}
            if parts:
                message |= {"content": None, "tool_calls": joined_calls(parts)}
            reason = _finish_reason(chunk, reader)
            logprobs = self._logprobs(chunk.tokens, None)
            entries.append({"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason})
        return {**self._head, "choices": entries, "usage": token_usage(self._prompt_tokens, used)}

    async def chunks(self) -> AsyncIterator[Json]:
        """Yield the answer, piece by piece. Raises what the work raised."""
        try:
            used = 0
            for index in range(len(self._choices)):
                yield self._chunk(index, {"role": "assistant", "content": ""}, None, None)
            readers = [CallReader(self._tools) for _ in self._choices]
            last: dict[int, int] = {}  # the last token of each text
            async for index, chunk in chunks_of(self._ticket, dict(enumerate(self._choices))):
                used += len(chunk.tokens)
                content, parts = readers[index].feed(chunk.text, is_last=chunk.finish_reason is not None)
                for part in parts:
                    yield self._chunk(index, {"tool_calls": [part]}, None, None)
                delta = {"content": content} if content or not (chunk.finish_reason or self._tools) else {}
                reason = _finish_reason(chunk, readers[index])
                if delta or reason or self._body.logprobs:
                    yield self._chunk(index, delta, self._logprobs(chunk.tokens, last.get(index)), reason)
                if chunk.tokens:
                    last[index] = chunk.tokens[-1].token
            if self._body.wants_usage:
                yield {**self._head, "choices": [], "usage": token_usage(self._prompt_tokens, used)}
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Drop what is left of the work."""
        self._served.abandon(self._ticket)

    def _chunk(self, index: int, delta: Json, logprobs: Json | None, reason: str | None) -> Json:
        return {
            **self._head,
            "choices": [{"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}],
        }

    def _logprobs(self, chosen: list[ChosenToken], before: int | None) -> Json | None:
        """Return the log-probabilities of tokens; None if the request does not ask for them.

        before: the token before them, if there is one.
        """
        if not self._body.logprobs:
            return None
        content = []
        for token in chosen:
            entry = self._entry(token.token, token.log_prob, before)
            tops = [] if token.top is None else list(zip(*(column.tolist() for column in token.top), strict=True))
            entry["top_logprobs"] = [
                self._entry(other, token.log_prob if other == token.token else log_prob, before)
                for log_prob, other in tops
            ]
            content.append(entry)
            before = token.token
        return {"content": content, "refusal": None}

    def _entry(self, token: int, log_prob: float, before: int | None) -> Json:
        text, data = self._served.names.text(token, before)
        return {"token": text, "logprob": finite(log_prob), "bytes": list(data)}

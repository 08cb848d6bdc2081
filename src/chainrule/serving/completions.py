"""/v1/completions: texts after prompts, with log-probabilities of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.serving.answering import answer_head, chunks_of, token_usage
from chainrule.serving.api_error import ApiError
from chainrule.serving.choice import Choice, ChosenToken, Chunk
from chainrule.serving.generating import check_size, generation, text_settings
from chainrule.serving.prompts import encode_prompts
from chainrule.serving.ticket import Ticket
from chainrule.serving.token_arrays import TokenRows, joined, token_arrays
from chainrule.serving.work import Scoring

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chainrule.serving.requests import CompletionBody
    from chainrule.serving.served_model import ServedModel
    from chainrule.serving.work import Generation

    Json = dict[str, Any]

DEFAULT_MAX_TOKENS = 16  # as in OpenAI's interface


class CompletionAnswer:
    """The answer to a request, whose work has been submitted. Raises ApiError when made."""

    def __init__(self, served: ServedModel, body: CompletionBody) -> None:
        self._served, self._body = served, body
        if body.suffix:
            raise ApiError(400, "suffix: this model does not fill in the middle; leave suffix out", param="suffix")
        self._n = body.n or 1
        best_of = body.best_of or self._n
        if best_of < self._n:
            raise ApiError(400, f"best_of is {best_of}, less than n, {self._n}; raise it", param="best_of")
        if best_of > self._n and body.stream:
            raise ApiError(400, "best_of cannot be streamed: the best text is known at the end", param="best_of")
        max_tokens = DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens
        settings = text_settings(body, served, max_tokens=max_tokens, choices=best_of, top=body.logprobs)
        self._prompts = encode_prompts(body.prompt, served.causal.tokenizer, served.limits.prompts)
        check_size(len(self._prompts), sum(len(prompt.ids) for prompt in self._prompts), settings, served.limits)
        self._shows_logprobs = body.logprobs is not None
        is_scored = bool(body.echo) and self._shows_logprobs
        self._is_empty = max_tokens == 0
        texts = 0 if self._is_empty else len(self._prompts) * best_of
        self.ticket = Ticket(texts + is_scored)
        self.scoring: Scoring | None = None
        self._choices: list[list[Choice]] = [[] for _ in self._prompts]
        work: list[Generation | Scoring] = []
        if is_scored:
            sequences = [prompt.read for prompt in self._prompts]
            self.scoring = Scoring(self.ticket, sequences, body.logprobs or 0)
            work.append(self.scoring)
        for i, prompt in enumerate(self._prompts if not self._is_empty else []):
            part, self._choices[i] = generation(
                served, self.ticket, prompt.read, settings, before=prompt.surfaces, offset=len(prompt.text)
            )
            work.append(part)
        self._head = answer_head(served, "cmpl", "text_completion")
        if work:
            served.scheduler.submit(work)

    async def record(self) -> Json:
        """The whole answer, once all texts have ended. Raises what the work raised."""
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
        return {**self._head, "choices": entries, "usage": self._usage(used)}

    async def chunks(self) -> AsyncIterator[Json]:
        """The answer, piece by piece. Raises what the work raised."""
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
        """Drops what is left of the work."""
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
        """The tokens of a prompt, if its index is given, and of a text after it."""
        if prompt is None:
            return _chosen_rows(chosen)
        rows = self._prompt_rows(prompt)
        return joined([rows, _chosen_rows(chosen)])._replace(unknown=rows.unknown) if chosen else rows

    def _prompt_rows(self, index: int) -> TokenRows:
        """A prompt's tokens. The first counts as unknown, since clients take it for the beginning."""
        assert self.scoring is not None
        prompt, log_probs = self._prompts[index], self.scoring.log_probs[index]
        tops = self.scoring.tops[index] if self.scoring.top else None
        if prompt.is_marked:  # the marker was not scored
            log_probs = np.insert(log_probs, 0, 0)
            if tops is not None:
                tops = np.insert(tops[0], 0, 0, axis=0), np.insert(tops[1], 0, 0, axis=0)
        return TokenRows(prompt.ids, log_probs, tops, prompt.offsets, unknown=min(1, len(prompt.ids)))


def _chosen_rows(chosen: list[ChosenToken]) -> TokenRows:
    ids, log_probs, tops, offsets = zip(*chosen, strict=True) if chosen else ((), (), (), ())
    columns = None
    if tops and tops[0] is not None:
        best, others = zip(*tops, strict=True)
        columns = np.stack(best), np.stack(others)
    return TokenRows(np.array(ids, np.int32), np.array(log_probs, np.float64), columns, np.array(offsets, np.int64))


def _mean_log_prob(chunk: Chunk) -> float:
    return sum(token.log_prob for token in chunk.tokens) / max(len(chunk.tokens), 1)

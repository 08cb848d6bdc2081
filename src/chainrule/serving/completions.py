"""/v1/completions: texts after prompts, with log-probabilities of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.serving.answering import answer_head, chunks_of, token_usage
from chainrule.serving.api_error import ApiError
from chainrule.serving.choice import Choice, ChosenToken, Chunk
from chainrule.serving.generating import check_size, generation, text_settings
from chainrule.serving.prompts import Prompt, encode_prompts
from chainrule.serving.ticket import Ticket
from chainrule.serving.token_arrays import TokenRows, token_arrays
from chainrule.serving.work import Scoring

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chainrule.serving.requests import CompletionBody
    from chainrule.serving.served_model import ServedModel
    from chainrule.serving.work import Generation, Top

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
        is_scored = bool(body.echo) and body.logprobs is not None
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
            self._served.abandon(self.ticket)
        entries: list[Json] = []
        used = 0
        for i, prompt in enumerate(self._prompts):
            chunks = [choice.take() for choice in self._choices[i]] or [Chunk("", [], "length")] * self._n
            used += sum(len(chunk.tokens) for chunk in chunks)
            if len(chunks) > self._n:
                chunks = sorted(chunks, key=_mean_log_prob, reverse=True)[: self._n]
            for chunk in chunks:
                echo = self._body.echo
                text = prompt.text + chunk.text if echo else chunk.text
                logprobs = self._logprobs(i if echo else None, chunk.tokens)
                entries.append(self._entry(len(entries), text, logprobs, chunk.finish_reason))
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
                    yield self._chunk(index, self._prompts[i].text, self._logprobs(i, []), reason)
                elif reason:
                    yield self._chunk(index, "", None, reason)
            choices = dict(enumerate(choice for of_prompt in self._choices for choice in of_prompt))
            async for index, chunk in chunks_of(self.ticket, choices):
                used += len(chunk.tokens)
                yield self._chunk(index, chunk.text, self._logprobs(None, chunk.tokens), chunk.finish_reason)
            if self._body.wants_usage:
                yield {**self._head, "choices": [], "usage": self._usage(used)}
        finally:
            self._served.abandon(self.ticket)

    def _chunk(self, index: int, text: str, logprobs: Json | None, reason: str | None) -> Json:
        return {**self._head, "choices": [self._entry(index, text, logprobs, reason)]}

    @staticmethod
    def _entry(index: int, text: str, logprobs: Json | None, reason: str | None) -> Json:
        return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": reason}

    def _usage(self, completion_tokens: int) -> Json:
        return token_usage(sum(len(prompt.ids) for prompt in self._prompts), completion_tokens)

    def _logprobs(self, prompt: int | None, chosen: list[ChosenToken]) -> Json | None:
        """The arrays for a prompt, if its index is given, and for tokens after it."""
        if self._body.logprobs is None:
            return None
        parts = [] if prompt is None else [self._prompt_rows(prompt, self._prompts[prompt])]
        ids, log_probs, tops, offsets = zip(*chosen, strict=True) if chosen else ((), (), (), ())
        parts.append(TokenRows(ids, log_probs, tops, offsets))
        return token_arrays(self._served.names, parts, first_is_unknown=prompt is not None and bool(parts[0].ids))

    def _prompt_rows(self, index: int, prompt: Prompt) -> TokenRows:
        """A prompt's tokens. The first counts as unknown, since clients take it for the beginning."""
        assert self.scoring is not None
        log_probs, ids = self.scoring.log_probs[index], prompt.ids.tolist()
        tops: list[Top | None] = [None] * len(ids)
        if self.scoring.top:
            tops = list(zip(*self.scoring.tops[index], strict=True))
        if prompt.is_marked:  # the marker was not scored
            log_probs, tops = np.append(np.float32(0), log_probs), [None, *tops][: len(ids)]
        return TokenRows(ids, log_probs, tops, [0, *prompt.stops][: len(ids)])


def _mean_log_prob(chunk: Chunk) -> float:
    return sum(token.log_prob for token in chunk.tokens) / max(len(chunk.tokens), 1)

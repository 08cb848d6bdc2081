"""The thread that owns a model: requests join and leave one batch, prompts are read in pieces, scoring takes turns.

Knows models only through `LanguageModel` and `PromptReader`, and nothing of HTTP.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.threads import Slices
from chainrule.decoding.sampling import Batch, Row
from chainrule.decoding.shared_prefixes import PromptCache, position_tops
from chainrule.features.serve.bodies import ApiError
from chainrule.features.serve.generation.work import Call, Generation, PendingRequest, Scoring, wake_all
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chainrule.features.serve.config import ServerLimits
    from chainrule.protocol import LanguageModel

_PIECE = 256  # tokens of prompts that are read between two steps, at most
_FIRST_PIECE, _LEAST_PIECE = 64, 16
_READING_SECONDS = 0.5  # for which reading may hold up a step: pieces become shorter where they take longer
_SCORING_SECONDS = 0.03  # for which scoring, or a slice of a long call, may hold up a step
_SHORT_SCORING = 1024  # tokens of a sequence that is scored at once; a longer one is scored in slices
_SLICED = 16  # calls that are begun and not done, at most: each has a thread
_FAILURES = 3  # in a row, of the scheduler itself, after which the model counts as broken


class _Sliced(NamedTuple):
    """Work that is done in slices. on_end: called when all is done."""

    part: Scoring | Call
    slices: Slices
    on_end: Callable[[], Any]


class Scheduler:
    """Works for requests, on a separate thread. Methods but `_run` and below are called from other threads."""

    def __init__(
        self,
        model: LanguageModel[Any],
        limits: ServerLimits,
        *,
        reads_prompts: bool,
        context: int | None = None,
        on_broken: Callable[[], None] | None = None,
    ) -> None:
        """Start without work.

        reads_prompts: whether the model is a `PromptReader`. context: the most tokens that it reads at once. on_broken:
        a callback, called on the scheduler's thread when the model counts as broken.
        """
        self.model, self.limits, self._on_broken = model, limits, on_broken
        self._reads_prompts, self._context = reads_prompts, context
        self._ready = threading.Condition()
        self._new: deque[Generation | Scoring | Call] = deque()
        self._cancelled: set[PendingRequest] = set()
        self._is_closing = False
        self._abort_error: Exception | None = None
        self._reading: deque[Generation] = deque()
        self._scoring: deque[tuple[Scoring, int]] = deque()  # with the next sequence of each
        self._sliced: deque[_Sliced] = deque()  # what takes turns by slices; the last ones may wait to begin
        self._batch = Batch(model, isolates_errors=True)
        self._of_row: dict[Row, tuple[Generation, int]] = {}
        self._cache = PromptCache()
        self._scored_per_second = 1e4
        self._piece = min(_FIRST_PIECE, _PIECE)
        self._failures = 0
        self._answered = 0  # requests, by the last step
        self._stepped_at = self._step_seconds = 0.0
        self._woken: set[PendingRequest] = set()
        self.accepted_tokens = 0  # of all work that is not done
        self.generated_tokens = 0
        self.scored_tokens = 0
        self.read_tokens = 0
        self.thread = threading.Thread(target=self._run, name="scheduler", daemon=True)
        self.thread.start()

    @property
    def is_alive(self) -> bool:
        return self.thread.is_alive() and self._failures < _FAILURES

    @property
    def rows_in_use(self) -> int:
        return len(self._batch.rows)

    @property
    def is_idle(self) -> bool:
        return not (self._new or self._reading or self._scoring or self._sliced or self._batch.rows)

    def submit(self, work: Sequence[Generation | Scoring | Call]) -> None:
        """Accept work. Raises ApiError with status 429 if there is too much already, 503 if the thread has ended."""
        cost = sum(part.cost for part in work)
        with self._ready:
            if self._is_closing or not self.is_alive:
                raise ApiError(503, "the model is not available; try again later", code="unavailable", retry_after=5)
            if self.accepted_tokens and self.accepted_tokens + cost > self.limits.waiting_tokens:
                raise ApiError(
                    429,
                    f"the server works on {self.accepted_tokens:,} tokens and accepts {self.limits.waiting_tokens:,}; "
                    "try again later",
                    code="overloaded",
                    retry_after=1,
                )
            self.accepted_tokens += cost
            self._new.extend(work)
            self._ready.notify()

    def cancel(self, ticket: PendingRequest) -> None:
        """Drop what is left of a request's work, before the next step."""
        ticket.is_cancelled = True
        with self._ready:
            self._cancelled.add(ticket)
            self._ready.notify()

    def close(self) -> None:
        """Stop accepting work; the thread ends when all is done."""
        with self._ready:
            self._is_closing = True
            self._ready.notify()

    def abort(self, error: Exception) -> None:
        """End all work with an error, before the next step, and accept no more."""
        with self._ready:
            self._is_closing, self._abort_error = True, error
            self._ready.notify()

    def _run(self) -> None:
        while True:
            with self._ready:
                while self.is_idle and not self._cancelled and not self._is_closing:
                    self._ready.wait()
                self._await_successors()
                if self.is_idle and self._is_closing:
                    return
                new, cancelled = list(self._new), self._cancelled
                self._new.clear()
                self._cancelled = set()
            try:
                self._work(new, cancelled)
            except Exception as error:
                self._fail(error)
            if self._abort_error is not None:
                self._end_all(self._abort_error)
            wake_all(self._woken)
            self._woken.clear()

    def _await_successors(self) -> None:
        """Wait a moment for further prompts to begin together, when several requests have just been answered.

        Clients often send their next prompts at once, and a network reads all of them for little more than the first.
        It waits only if there is a prompt to read, and less than a step's time after the last one.
        """
        until = self._stepped_at + self._step_seconds
        while self._reads_prompts and 0 < len(self._new) < self._answered and not self._is_closing:
            arrived, rest = len(self._new), until - time.perf_counter()
            self._ready.wait(max(0, min(rest, self._step_seconds / 4)))
            if len(self._new) == arrived:
                return

    def _work(self, new: list[Generation | Scoring | Call], cancelled: set[PendingRequest]) -> None:
        """Do one round: new requests, a piece of the prompts, a block of scores, and a step of the batch."""
        for part in new:
            if isinstance(part, Generation):
                self._reading.append(part)
            elif isinstance(part, Scoring):
                self._scoring.append((part, 0))
        if cancelled:
            self._drop(cancelled)
        for part in new:
            if isinstance(part, Call) and not part.ticket.is_cancelled:
                self._call(part)
        self._read_prompts()
        self._score()
        self._next_slice()
        if self._batch.rows:
            self._step()

    def _drop(self, cancelled: set[PendingRequest]) -> None:
        for reading in [part for part in self._reading if part.ticket in cancelled]:
            self._reading.remove(reading)
            self._release(reading.cost)
        for scoring in [pair for pair in self._scoring if pair[0].ticket in cancelled]:
            self._scoring.remove(scoring)
            self._release(scoring[0].cost)
        for work in [work for work in self._sliced if work.part.ticket in cancelled]:
            self._sliced.remove(work)
            work.slices.end()
            self._release(work.part.cost)
        rows = {row for row, (part, _) in self._of_row.items() if part.ticket in cancelled}
        if rows:
            self._batch.remove(rows)
            for row in rows:
                self._forget(row)

    def _forget(self, row: Row) -> None:
        """Forget a row that has left the batch."""
        part, _ = self._of_row.pop(row)
        self._release(len(part.prompt) + row.constraints.max_tokens)

    def _release(self, cost: int) -> None:
        with self._ready:
            self.accepted_tokens -= cost

    def _finish(self, ticket: PendingRequest, error: Exception | None = None) -> None:
        """Note that a part of a request is done."""
        ticket.open_parts -= 1
        if error is not None:
            ticket.error = error
        if ticket.is_done:
            self._woken.add(ticket)

    def _fail(self, error: Exception) -> None:
        """Fail all work: the state of the batch is unknown."""
        self._failures += 1
        self._end_all(error)
        if self._failures == _FAILURES and self._on_broken is not None:
            self._on_broken()

    def _end_all(self, error: Exception) -> None:
        tickets = {part.ticket for part, _ in self._of_row.values()} | {part.ticket for part, _ in self._scoring}
        tickets |= {part.ticket for part in self._reading} | {work.part.ticket for work in self._sliced}
        with self._ready:
            tickets |= {part.ticket for part in self._new}
            self._new.clear()
            self.accepted_tokens = 0
        self._reading.clear()
        self._scoring.clear()
        for work in self._sliced:
            work.slices.end()
        self._sliced.clear()
        self._of_row.clear()
        self._batch = Batch(self.model, isolates_errors=True)
        for ticket in tickets:
            ticket.error = error
        self._woken |= tickets

    def _call(self, part: Call) -> None:
        if part.is_long:
            slices = Slices(part.function, _SCORING_SECONDS)
            self._sliced.append(_Sliced(part, slices, lambda: self._end_call(part, slices.result)))
        else:
            self._end_call(part, part.function)

    def _end_call(self, part: Call, function: Callable[[], Any]) -> None:
        error = None
        try:
            part.result = function()
        except Exception as raised:
            error = raised
        self._release(part.cost)
        self._finish(part.ticket, error)

    def _next_slice(self) -> None:
        """Do a slice of the long work; calls take turns, those that were begun and those that come next."""
        if not self._sliced:
            return
        work = self._sliced[0]
        if work.slices.resume():
            self._sliced.popleft()
            work.on_end()
        else:  # behind all that were begun
            begun = min(len(self._sliced), _SLICED)
            self._sliced.popleft()
            self._sliced.insert(begun - 1, work)

    def _read_prompts(self) -> None:
        """Read a piece of the waiting prompts, in their order, while the batch has room."""
        if not self._reading:
            return
        began = time.perf_counter()
        budget = self._piece if self._reads_prompts else 1 << 20
        together: list[Generation] = []
        used = sum(len(part.prompt) + row.constraints.max_tokens for row, (part, _) in self._of_row.items())
        rows = len(self._batch.rows)
        while self._reading and budget > 0:
            part = self._reading[0]
            has_room = used + part.cost <= self.limits.running_tokens and rows + len(part.rows) <= self.limits.rows
            if not has_room and rows:
                break
            if part.ticket.error is not None:  # another part of the request has failed
                self._reading.popleft()
                self._release(part.cost)
                continue
            if self._reads_prompts and part.state is None:
                part.read, part.state = self._cache.longest(part.prompt, is_exact=part.is_exact)
            if part.state is None and not part.is_exact and len(part.prompt) <= budget:
                together.append(part)
                budget -= len(part.prompt) + 1
            else:
                budget -= self._read_piece(part, budget)
                if part.read < len(part.to_read):
                    break
                self._join(part)
            self._reading.popleft()
            used += part.cost
            rows += len(part.rows)
        if together:
            self._start_together(together)
        self._piece = _next_piece(self._piece, time.perf_counter() - began)

    def _start_together(self, parts: list[Generation]) -> None:
        """Start short prompts in one call."""
        places = np.arange(len(parts), dtype=np.int32).repeat([len(part.rows) for part in parts])
        rows = [row for part in parts for row in part.rows]
        try:
            state = self.model.start([part.prompt for part in parts])
            if self._reads_prompts:
                for i, part in enumerate(parts):
                    part.state = self.model.select(state, np.array([i], np.int32))
                    self._cache.add(part.prompt, part.state, is_exact=part.is_exact)
            self._batch.add(self.model.select(state, places), rows)
        except Exception as error:
            if len(parts) > 1:
                for part in parts:
                    self._start_together([part])
            else:
                self._release(parts[0].cost)
                self._finish_all_rows(parts[0], error)
            return
        self.read_tokens += sum(len(part.prompt) for part in parts)
        self._of_row |= {row: (part, i) for part in parts for i, row in enumerate(part.rows)}

    def _read_piece(self, part: Generation, budget: int) -> int:
        """Read the next piece of a prompt; return its number of tokens."""
        model = self.model
        try:
            if part.state is None and not part.is_exact and self._needs_window(part.prompt):
                part.window = model.last_window(part.prompt)  # type: ignore[attr-defined]  # a PromptReader
            rest = part.to_read[part.read :]
            size = min(len(rest), max(budget, 1)) if self._reads_prompts else len(rest)
            if part.is_exact or part.window is not None or part.state is not None:
                if size:
                    part.state = model.read([rest[:size]], part.state)  # type: ignore[attr-defined]  # a PromptReader
            else:
                part.state = model.start([rest[:size]])
        except Exception as error:
            part.read = len(part.to_read)
            self._finish_all_rows(part, error)
            return 0
        part.read += size
        self.read_tokens += size
        if self._reads_prompts and part.read == len(part.to_read):
            self._cache.add(part.prompt, part.state, is_exact=part.is_exact)
        return max(size, 1)

    def _needs_window(self, tokens: np.ndarray) -> bool:
        """Return whether a network reads less than all of a prompt, since it has several documents or fills the
        context.
        """
        is_long = self._context is not None and len(tokens) >= self._context
        return self._reads_prompts and (is_long or bool((tokens == END).any()))

    def _finish_all_rows(self, part: Generation, error: Exception) -> None:
        part.ticket.error = error
        self._woken.add(part.ticket)

    def _join(self, part: Generation) -> None:
        """Add the rows of a prompt that has been read to the batch."""
        if part.ticket.error is not None:
            self._release(part.cost)
            return
        self._batch.add(self.model.select(part.state, np.zeros(len(part.rows), np.int32)), part.rows)
        self._of_row |= {row: (part, i) for i, row in enumerate(part.rows)}
        part.state = None

    def _score(self) -> None:
        """Score a block of the sequences that wait; requests take turns."""
        if not self._scoring:
            return
        part, first = self._scoring.popleft()
        most = max(1, int(self._scored_per_second * _SCORING_SECONDS))
        last, size = first, 0
        while last < len(part.sequences) and (last == first or size + len(part.sequences[last]) <= most):
            size += len(part.sequences[last])
            last += 1
        block = part.sequences[first:last]

        def score() -> None:
            part.log_probs += self.model.score(block, end=False)
            if part.top and self._reads_prompts:
                part.tops += self.model.position_tops(block, part.top)  # type: ignore[attr-defined]  # a PromptReader
            elif part.top:
                part.tops += position_tops(self.model, block, part.top)

        if size > max(_SHORT_SCORING, most):
            slices = Slices(score, _SCORING_SECONDS)
            self._sliced.append(_Sliced(part, slices, lambda: self._end_block(part, last, slices.result)))
            return
        began = time.perf_counter()
        if self._end_block(part, last, score):
            rate = max(size, 1) / max(time.perf_counter() - began, 1e-6)
            self._scored_per_second += 0.3 * (rate - self._scored_per_second)
        self.scored_tokens += size

    def _end_block(self, part: Scoring, last: int, function: Callable[[], Any]) -> bool:
        """Score the sequences before `last`; return whether that went well."""
        try:
            function()
        except Exception as error:
            self._release(part.cost)
            self._finish(part.ticket, error)
            return False
        if last < len(part.sequences):
            self._scoring.append((part, last))
        else:
            part.is_done = True
            self._release(part.cost)
            self._finish(part.ticket)
            self._woken.add(part.ticket)  # a stream begins with its prompt's scores
        return True

    def _step(self) -> None:
        began = time.perf_counter()
        step = self._batch.step()
        self._stepped_at = time.perf_counter()
        if self._batch.rows:  # the network was asked
            self._step_seconds = self._stepped_at - began
        self._failures = 0
        log_probs, tokens = step.log_probs.tolist(), step.tokens.tolist()
        self.generated_tokens += len(tokens)
        for i, row in enumerate(step.rows):
            part, position = self._of_row[row]
            if row.error is not None:
                self._forget(row)
                self._finish(part.ticket, row.error)
                continue
            top = None if step.tops is None or not row.top else step.tops[i]
            if part.sinks[position].add(tokens[i], log_probs[i], top):
                self._woken.add(part.ticket)
            if not row.is_open:
                self._forget(row)
                self._finish(part.ticket)
        self._answered = len({ticket for ticket in self._woken if ticket.is_done})


def _next_piece(piece: int, seconds: float) -> int:
    """Return how many tokens to read at once, given how long the last piece took: fewer on a busy machine."""
    if seconds > _READING_SECONDS:
        return max(int(piece * _READING_SECONDS / seconds), min(piece, _LEAST_PIECE))
    return min(2 * piece, _PIECE) if seconds < _READING_SECONDS / 2 else piece

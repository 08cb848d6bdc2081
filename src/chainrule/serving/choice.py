"""A text as it is generated for a request: its tokens, log-probabilities and pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chainrule.decoding.limits import GrowingText
from chainrule.protocol import END
from chainrule.serving.token_names import finite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.decoding.sampling import Row
    from chainrule.serving.token_names import TokenNames
    from chainrule.serving.work import Top
    from chainrule.text.tokenization.tokenizer import Tokenizer

FINISH = {"end": "stop", "stop": "stop", "length": "length"}


class ChosenToken(NamedTuple):
    """A token with the model's own log-probability of it, those of others in its place, and where its text begins."""

    token: int
    log_prob: float
    top: Top | None
    offset: int


class Chunk(NamedTuple):
    """What is new of a text. finish_reason: None while it grows."""

    text: str
    tokens: list[ChosenToken]
    finish_reason: str | None


class Choice:
    """A `TokenSink` that writes the text. The scheduler's thread adds; the event loop takes.

    offset: the characters before it. is_live: whether chunks are taken while the text grows. shows_tokens: whether
    anybody asks where tokens begin; if not, and nothing is needed before the end, the text is written at once.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        names: TokenNames,
        before: Sequence[bytes],
        stops: Sequence[str],
        *,
        offset: int = 0,
        is_live: bool = False,
        shows_tokens: bool = True,
    ) -> None:
        self._tokenizer, self._has_stops, self._is_live = tokenizer, bool(stops), is_live
        self._is_written_at_once = not (is_live or stops or shows_tokens)
        restore = tokenizer.restore if self._is_written_at_once else names.restore
        self._growing = GrowingText(restore, before, stops)
        self._offset = offset
        self._pieces: list[str] = []
        self._tokens: list[ChosenToken] = []
        self._pending: list[tuple[int, float, Top | None]] = []  # without their text
        self._taken_tokens = self._taken_pieces = 0
        self._before = 0  # characters before the last token that was written
        self._finish_reason: str | None = None
        self.row: Row | None = None

    def until(self, tokens: Sequence[int]) -> bool:
        """Whether the text has come to a stop string. To be given to its row if there are any."""
        self._write(tokens[-1])
        return self._growing.is_stopped

    def add(self, token: int, log_prob: float, top: Top | None) -> bool:
        """As `TokenSink.add`."""
        assert self.row is not None
        offset = self._offset + (self._before if self._has_stops and token != END else self._growing.length)
        if self._has_stops or self._is_live:
            if not self._has_stops and token != END:
                self._write(token)
            self._tokens.append(ChosenToken(token, finite(log_prob), top, offset))
        else:
            self._pending.append((token, log_prob, top))
        if self.row.ending is not None:
            self._finish_reason = FINISH[self.row.ending]  # last, since the event loop may look at any time
        return self._is_live

    def take(self) -> Chunk:
        """What is new since the last call."""
        finish_reason = self._finish_reason
        if finish_reason is not None:
            self._write_pending()
            self._pieces.append(self._growing.rest())
        tokens, pieces = self._tokens[self._taken_tokens :], self._pieces[self._taken_pieces :]
        self._taken_tokens += len(tokens)
        self._taken_pieces += len(pieces)
        return Chunk("".join(pieces), tokens, finish_reason)

    def _write(self, token: int) -> None:
        self._before = self._growing.length
        self._pieces.append(self._growing.add(self._tokenizer.vocabulary.token_bytes(token)))

    def _write_pending(self) -> None:
        if self._is_written_at_once:
            spell = self._tokenizer.vocabulary.token_bytes
            if written := b" ".join(spell(token) for token, _, _ in self._pending if token != END):
                self._pieces.append(self._growing.add(written))
            self._tokens = [ChosenToken(token, finite(log_prob), None, 0) for token, log_prob, _ in self._pending]
            return
        for token, log_prob, top in self._pending:
            self._tokens.append(ChosenToken(token, finite(log_prob), top, self._offset + self._growing.length))
            if token != END:
                self._write(token)
        self._pending = []

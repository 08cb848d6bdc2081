"""A network that sees at most so many words of a text before each word, or tokens before each token.

It reads a window of the text for each of them, as if the rest were not there. The beginning of a text is read as a
token, and counts as one that is seen; where the model's own tokenizer adds it, it stands before each window instead,
and does not count.

With a limit in words, the end of a word and the first token of the next one are expected in different windows. So that
probabilities sum to one over all texts, the first token of a word w has

    P(the word before ends | its own window) P(token | the window of w, and that a word begins)

in sums over texts. A word's own surprisal needs no such product: it has its own end, in its own window.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from chainrule.base.arguments import after_prefixes, as_tokens, check_tokens
from chainrule.errors import SettingError, WrongModelError
from chainrule.evaluation.surprisal import Contexts, fill_contexts, no_contexts, word_borders
from chainrule.models.open_options import parts_of
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.scoring import Piece, documents_of, reads_alone, stream_rows
from chainrule.protocol import END, UNKNOWN
from chainrule.text.corpus.block import byte_array
from chainrule.text.units import words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Bool, Float32, Int32
    from numpy import ndarray

    from chainrule.models.config import ContextOptions
    from chainrule.models.scoring_model import ScoringModel
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Tokens = Int32[ndarray, " T"]

_ROWS = 64  # distributions computed at a time


class Window(NamedTuple):
    """Tokens `seen` to `stop` of a row, of which those from `first` on are expected, and those before are seen.

    begins: whether what texts begin with is read before them.
    """

    seen: int
    first: int
    stop: int
    begins: bool


class LimitedNetwork:
    """A network as a `Scorer` that sees at most `most` words before each word, or tokens before each token."""

    end = END

    def __init__(self, model: NeuralModel, tokenizer: Tokenizer, most: int, *, words: bool, keeps_begin: bool) -> None:
        """Take a network. words: whether words are counted, not tokens. keeps_begin: whether what texts begin with is
        always seen.
        """
        self.network, self.vocabulary_size = model.network, model.vocabulary_size
        self._tokenizer, self._most, self._words, self._keeps_begin = tokenizer, most, words, keeps_begin
        self._borders = word_borders(tokenizer) if words else None
        self.stream_signature = f"{model.stream_signature}|sees:{most} {'words' if words else 'tokens'}"

    def __getattr__(self, name: str) -> NoReturn:
        """Raise WrongModelError: it scores texts, and does nothing else."""
        raise WrongModelError(f"a network with a limited context scores texts; {name} is of the network itself")

    def score(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " T"]]:
        """As `Scorer.score`; a prefix is seen like the text, within the limit."""
        return self._score(sequences, prefixes, end=end)[0]

    def unknown_log_probs(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " T"]]:
        """As `LanguageModel.unknown_log_probs`."""
        return self._score(sequences, prefixes, end=end)[1]

    def score_stream(self, stream: Tokens) -> Float32[ndarray, " T"]:
        """As `Scorer.score_stream`; if the memory is a stream's, earlier documents are seen, too, within the limit."""
        return self.score_stream_with_unknown(stream)[0]

    def score_stream_with_unknown(
        self, stream: Tokens, on_share: Callable[[float], None] | None = None, *, unknown: bool = True
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
        """Return the log-probabilities of a stream's tokens, and of <unk> at their positions, as a `NeuralModel` does.

        on_share: a callback for the share of the stream that is done, from 0 to 1.
        """
        stream = as_tokens(stream)
        check_tokens(stream, self.vocabulary_size)
        rows = [stream] if self.network.memory == "stream" and len(stream) else documents_of(stream)
        read = self._read(rows, on_share=on_share)
        return _joined([own.log_probs for own in read]), _joined([own.unknown for own in read])

    def read_contexts(
        self,
        texts: Sequence[Tokens],
        *,
        borders: Bool[ndarray, " V"] | None = None,
        entropy: bool = False,
        banned: bool = False,
    ) -> list[Contexts]:
        """As `chainrule.evaluation.surprisal.read_contexts`; windows share passes with those of the same text alone."""
        ended = [np.append(as_tokens(text), np.int32(END)) for text in texts]
        return [self._read([text], borders, entropy=entropy, banned=banned)[0] for text in ended]

    def _score(
        self, sequences: Sequence[Tokens], prefixes: Sequence[Tokens] | None, *, end: bool
    ) -> tuple[list[Float32[ndarray, " T"]], list[Float32[ndarray, " T"]]]:
        """Return the log-probabilities of each sequence's tokens, and of <unk> at their positions."""
        texts = after_prefixes(sequences, prefixes, self.vocabulary_size, end=end)
        rows = [[text] if self.network.memory == "stream" else documents_of(text) for text, _ in texts]
        read = iter(self._read([part for own in rows for part in own]))
        scores, others = [], []
        for (_, own), parts in zip(texts, rows, strict=True):
            some = [next(read) for _ in parts]
            scores.append(_joined([one.log_probs for one in some])[own])
            others.append(_joined([one.unknown for one in some])[own])
        return scores, others

    def _read(
        self,
        rows: Sequence[Tokens],
        borders: Bool[ndarray, " V"] | None = None,
        *,
        entropy: bool = False,
        banned: bool = False,
        on_share: Callable[[float], None] | None = None,
    ) -> list[Contexts]:
        """Return what is expected before each token of some rows, of which each begins a text."""
        borders = self._borders if borders is None else borders
        contexts = [no_contexts(len(row) - 1) for row in rows]
        windows = [(number, window) for number, row in enumerate(rows) for window in self._windows(row)]
        seen = [rows[number][window.seen : window.stop] for number, window in windows]
        pieces = [
            Piece(i, 0 if own.begins else 1, own.first - own.seen, own.stop - own.seen)
            for i, (_, own) in enumerate(windows)
        ]
        numbers = np.repeat([number for number, _ in windows], [own.stop - own.first for _, own in windows])
        places = np.concatenate([np.empty(0, np.int64), *(np.arange(own.first, own.stop) for _, own in windows)])
        # A token that begins a word comes twice: in the window of the word before, then in that of its own word.
        is_again = np.append(False, (np.diff(numbers) == 0) & (np.diff(places) == 0))[: len(places)]

        def fill(part: ndarray, visits: Sequence[tuple[int, int]], chosen: ndarray) -> None:
            some = [*itertools.compress(visits, chosen)]
            visited = [number for number, _ in some], [place for _, place in some]
            fill_contexts(contexts, rows, *visited, part[chosen], borders, entropy=entropy)

        done, alone = 0, reads_alone(self.network)
        for part in stream_rows(self.network, seen, _ROWS, alone=alone, banned=banned, pieces=pieces):
            visits = [*zip(numbers[done:][: len(part)].tolist(), places[done:][: len(part)].tolist(), strict=True)]
            again = is_again[done:][: len(part)]
            fill(part, visits, ~again)
            begun = [(contexts[number], place) for number, place in itertools.compress(visits, again)]
            before = [(own.log_word_ends[place], own.unknown[place]) for own, place in begun]
            fill(part, visits, again)
            for (own, place), (end, unknown) in zip(begun, before, strict=True):
                _begin_word(own, place, end, unknown, unknown_begins=borders is not None and bool(borders[UNKNOWN]))
            done += len(part)
            if on_share is not None:
                on_share(done / len(places))
        for own in contexts:
            own.log_word_ends[0] = 0
        return contexts

    def _windows(self, row: Tokens) -> Iterator[Window]:
        """Yield the windows in which the tokens of a row are expected, in order."""
        starts = np.flatnonzero(_begins_words(self._tokenizer, row)) if self._words else np.arange(len(row))
        if not len(row):
            return
        sees_ends = int(self._borders is not None)  # whether a window also expects what comes after its word
        stops = np.minimum(np.append(starts[1:], len(row)) + sees_ends, len(row)).tolist()
        head = min(self._most + self._keeps_begin, len(stops))  # words whose windows begin with the text
        yield from self._fitting(Window(0, 0, stops[head - 1], begins=True))
        for seen, first, stop in zip(
            starts[head - self._most :].tolist(), starts[head:].tolist(), stops[head:], strict=False
        ):
            yield from self._fitting(Window(seen, first, stop, self._keeps_begin))

    def _fitting(self, window: Window) -> Iterator[Window]:
        """Yield a window, or one for each token where it is longer than the network reads at once."""
        context = self.network.encoder.context
        if context is None or window.stop - 1 - window.seen + window.begins <= context:
            yield window
            return
        for place in range(window.first, window.stop):
            begins = self._keeps_begin or (window.begins and place < context)
            yield Window(max(window.seen, place + begins - context), place, place + 1, begins)


def _begins_words(tokenizer: Tokenizer, row: Tokens) -> Bool[ndarray, " T"]:
    """Return whether each token of a row is the first of a word."""
    spelled = [b"\n" if token == END else tokenizer.vocabulary.token_bytes(token) for token in row.tolist()]
    text = b" ".join(spelled).replace(b" \n", b"\n").replace(b"\n ", b"\n")
    if not text.endswith(b"\n"):
        text += b"\n"
    ids = row if len(row) and row[-1] == END else np.append(row, np.int32(END))
    aligned = tokenizer.splitter.align(byte_array(text))
    begins: ndarray = np.diff(words_of(ids, aligned).of_tokens, prepend=-1)[: len(row)] > 0
    return begins


def _begin_word(own: Contexts, place: int, end: float, unknown: float, *, unknown_begins: bool) -> None:
    """Join what two windows expect at a place: that of the word before, and the last one noted, of the word there.

    end, unknown: of the word before: log P(it ends), and of <unk>. unknown_begins: whether <unk> begins a word.
    """
    begins = own.log_word_ends[place]
    own.log_word_ends[place] = end
    shift = begins - end if np.isfinite(begins) and np.isfinite(end) else 0.0
    own.shifts[place] = shift
    own.log_probs[place] -= shift
    own.unknown[place] = own.unknown[place] - shift if unknown_begins else unknown


def _joined(parts: Sequence[ndarray]) -> Float32[ndarray, " T"]:
    return np.concatenate([np.empty(0, np.float32), *parts], dtype=np.float32, casting="same_kind")


def limit(model: ScoringModel, options: ContextOptions) -> ScoringModel:
    """Return a model that sees at most so many words or tokens; the same one where there is no limit.

    Raises SettingError where it has no limit, or reads less at once.
    """
    name = "context_tokens" if options.context_words is None else "context_words"
    most = getattr(options, name)
    if most is None:
        return model
    engine = model.engine
    if (order := getattr(engine, "order", None)) is not None:
        raise SettingError(
            f"an n-gram model of order {order} sees {order - 1} tokens before each: its order is its limit; "
            f"leave {name} out, or train one of another order"
        )
    if not isinstance(engine, NeuralModel):
        is_limited = " with a limit" if isinstance(engine, LimitedNetwork) else ""
        parts = "; limit its networks one by one" if parts_of(engine) else ""
        raise SettingError(
            f"{name} is for networks that continue texts, and this is a model of family {model.family!r}{is_limited}"
            f"{parts}"
        )
    keeps_begin = bool((model.record.get("hugging_face") or {}).get("tokens", {}).get("adds_begin"))
    context, reach = engine.network.encoder.context, engine.network.reach
    longest = context - keeps_begin if context is not None else reach
    if longest is not None and most > longest:
        raise SettingError(
            f"{name} is {most:,}; expected 1 to {longest:,}, the tokens that the network sees at once without a limit"
        )
    limited = LimitedNetwork(engine, model.tokenizer, most, words=name == "context_words", keeps_begin=keeps_begin)
    return type(model)(model.family, limited, model.tokenizer, model.record, model.speller)

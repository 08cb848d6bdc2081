"""The interface between models and all code that uses them.

An n-gram table, a network and a mixture are all a `LanguageModel`. Sampling, beam search, evaluation, rescoring and the
command line call its methods and nothing else, so that what works with one model works with every model. Token ids go
in and log-probabilities come out, all as NumPy arrays.

    Scorer          scores given texts
    LanguageModel   a Scorer that also predicts: it gives the distribution of the next token and draws from it
    Embedder        gives each token a vector

The whole project names array dimensions alike; every other dimension is a word:

    B  batch: rows, each with a sequence of its own
    T  time: the tokens of a sequence
    V  vocabulary: token ids, 0 to V - 1
    D  width of a network's vectors
    H  attention heads
    N  order of an n-gram model

Log-probabilities are natural logarithms (nats).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Bool, Float32, Float64, Int, Int32
    from numpy import ndarray

UNKNOWN, BEGIN, END = 0, 1, 2  # the ids of <unk>, <s> and </s> in every vocabulary


State = TypeVar("State")


class Scorer(Protocol):
    """Scores given texts. The scores need not be a distribution: stupid backoff is a Scorer, but no LanguageModel."""

    def score(
        self,
        sequences: Sequence[Int32[ndarray, " T"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " T"]]:
        """Return the log-probability of each token, given <s>, the prefix and all tokens before it.

        sequences: token ids without <s> and </s>.
        prefixes: for each sequence, ids to condition on; they get no score.
        end: also score </s> after each sequence; its row is then one longer than the sequence.
        Raises SettingError if there are not as many prefixes as sequences, or an id is outside the vocabulary.
        """

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """Return the scores of a stream of documents, each ending with </s>: those of `score`, faster for many
        documents.

        Raises SettingError if an id is outside the vocabulary.
        """


class StreamScores(NamedTuple):
    """An n-gram model's scores of the tokens of a stream."""

    log_probs: Float32[ndarray, " T"]
    lengths: Int[ndarray, " T"]  # of the longest n-gram in the model that ends at each token; 1 if only the token is
    unknown_log_probs: Float32[ndarray, " T"]  # log P(<unk> | context) at each position


class LanguageModel(Scorer, Protocol[State]):
    """P(w1) P(w2|w1) P(w3|w1,w2) ... for a batch of growing sequences.

    A state stands for the tokens that each row has so far. Callers hold it and pass it in; the model keeps none.

    good:  state = model.advance(model.select(state, parents), tokens)
    bad:   model.advance(state, tokens); model.next_log_probs(state)      # `advance` may overwrite its argument
    """

    vocabulary_size: int
    end: int  # the id of </s>

    def start(self, prefixes: Sequence[Int32[ndarray, " prefix"]]) -> State:
        """Return the state after <s> and a prefix, one row for each prefix."""

    def next_log_probs(self, state: State) -> Float32[ndarray, "B V"]:
        """Return log P(w | row) for every token w.

        Probabilities of a row sum to one; <s> is -inf: it is never predicted.
        """

    def log_probs_of(
        self, state: State, rows: Int32[ndarray, " pairs"], tokens: Int32[ndarray, " pairs"]
    ) -> Float32[ndarray, " pairs"]:
        """Return log P(tokens[i] | row rows[i]): what `next_log_probs` holds there, without the rest of the row."""

    def unknown_log_probs(
        self,
        sequences: Sequence[Int32[ndarray, " T"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " T"]]:
        """Return log P(<unk> | context) at each position where `score`, with the same arguments, gives log P(token |
        context).

        With it, the probability of an unknown word can be shared among spellings.
        """

    def top(self, state: State, k: int) -> tuple[Float32[ndarray, "B k"], Int32[ndarray, "B k"]]:
        """Return the log-probabilities and ids of each row's k most probable tokens, best first; ties go to the lower
        id.
        """

    def draw(
        self, state: State, uniforms: Float64[ndarray, " B"], banned: Sequence[int] = ()
    ) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
        """Draw a token for each row, never a banned one; return its log-probability in the full distribution, and its
        id.

        uniforms: one number in [0, 1) for each row, at which the cumulative distribution is inverted, so that the same
        number always draws the same token. Raises SettingError if no token is left to draw.
        """

    def advance(self, state: State, tokens: Int32[ndarray, " B"]) -> State:
        """Return the state after one more token in each row; </s> starts a new document. The given state is used up."""

    def select(self, state: State, rows: Int32[ndarray, " new_B"]) -> State:
        """Return the state of the given rows, which may repeat, reorder or leave out rows.

        The given state stays usable.
        """

    def join(self, states: Sequence[State]) -> State:
        """Return the state of the rows of one or more states, one after the other. The given states stay usable."""


class PromptReader(LanguageModel[State], Protocol[State]):
    """A LanguageModel that reads tokens exactly as they are given, as a chat template writes them."""

    def read(self, sequences: Sequence[Int32[ndarray, " T"]], state: State | None = None) -> State:
        """Return the state after these tokens, one row for each sequence, with nothing before them but what `state` has
        read.

        <s> and </s> among them are read like other tokens, and begin no document. The given state stays usable.
        Raises SettingError if a sequence is empty, or sequences that continue a state differ in length.
        """

    def last_window(self, prefix: Int32[ndarray, " T"]) -> Int32[ndarray, " inputs"]:
        """Return what `start` reads of a prefix: </s> and the prefix, without what its last token does not reach.

        `read` gives the state of `start` for it, in any number of pieces.
        """

    def position_tops(
        self, sequences: Sequence[Int32[ndarray, " T"]], k: int
    ) -> list[tuple[Float32[ndarray, "T k"], Int32[ndarray, "T k"]]]:
        """Return what `top` gives at each position of several texts, in the contexts of `score`."""


class AheadReader(LanguageModel[State], Protocol[State]):
    """A LanguageModel that reads several tokens of a row in one pass, with the bits of one after the other."""

    reads_ahead: bool  # whether it can at all

    def room_ahead(self, state: State) -> int:
        """Return how many tokens `read_ahead` may read after a state; 0 where it cannot read ahead, as of several
        rows.
        """

    def read_ahead(self, state: State, tokens: Int32[ndarray, " T"]) -> list[State]:
        """Return what `advance` gives after each of the tokens, for a state of one row. The given state stays
        usable.
        """

    def forget_ahead(self, state: State) -> None:
        """Say that those of the states of `read_ahead` that come after this one are not used any more, so that this one
        can be advanced without a copy.
        """


class StreamReader(LanguageModel[State], Protocol[State]):
    """A LanguageModel that gives whole distributions along a stream, many positions at a time."""

    def stream_rows(self, stream: Int32[ndarray, " T"], size: int) -> Iterator[Float32[ndarray, "part V"]]:
        """Return the distribution of each token of a stream, as stepping through it gives them: `size` positions at a
        time, in order; the last part has the rest.
        """


class TextVectors(NamedTuple):
    """A vector for each of some texts. are_cut: whether the rest of a text was too long to be read."""

    vectors: Float32[ndarray, "texts D"]
    are_cut: Bool[ndarray, " texts"]


class Embedder(Protocol):
    """Gives vectors to tokens: any network, whether it is a language model or not."""

    def vectors(
        self,
        sequences: Sequence[Int32[ndarray, " T"]],
        layer: int | None = None,
        *,
        bfloat16: bool = False,
    ) -> list[Float32[ndarray, "T D"]]:
        """Return a vector for each token of each sequence, in its context.

        sequences: token ids without <s> and </s>.
        layer: 0 is the input embedding, which ignores context; 1 and up are the outputs of layers; None is the last.
        bfloat16: whether the network computes in bfloat16; the vectors are float32 all the same.
        Raises SettingError if there is no such layer, or an id is outside the vocabulary.
        """

    def text_vectors(
        self,
        sequences: Sequence[Int32[ndarray, " T"]],
        layer: int | None = None,
        *,
        dimensions: int | None = None,
        bfloat16: bool = False,
    ) -> TextVectors | None:
        """Return the vectors of whole texts as a sentence encoder has learned to make them; None: of any other network.

        dimensions: how many numbers of a vector are kept, the first ones; its length is then what the encoder's is. The
        other arguments are those of `vectors`. Raises SettingError where a vector has fewer.
        """

    def static_vectors(self) -> Float32[ndarray, "V D"]:
        """Return the vectors of layer 0 for the whole vocabulary."""

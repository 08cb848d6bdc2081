"""The speller: a distribution over the spellings of unknown tokens, so that every model is one over strings.

It is an n-gram model over characters and bytes with Witten-Bell smoothing, which gives every byte string a probability.
The probabilities of known tokens and of the empty string are removed:

    P(spelling | unknown) = P(spelling) / (1 - P(empty) - sum over known tokens t of P(t))

so they sum to one over all unknown tokens. It is trained on the rarest words, which are most like unknown ones. A
mixture of spellers has P(spelling | unknown) = sum of weight_i P_i(spelling | unknown).

A text may itself have <unk> in place of words, as Penn Treebank does. This literal is a spelling of the unknown token,
too: its probability is its share of the unknown tokens in the training text, and all other spellings have the rest.

The Alphabet has known characters, and single bytes for everything else. Every byte string has exactly one spelling,
since bytes must not form a known character, which has a symbol of its own. Symbols are token ids of an n-gram model:
3 + i is the i-th known character, </s> ends a token, and <unk> stands for a byte; all bytes that are possible at that
position are equally likely.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from chainrule.errors import ModelFormatError
from chainrule.ngram.config import MAX_ORDER
from chainrule.ngram.estimation.estimates import table_of
from chainrule.ngram.trie.table import Table
from chainrule.protocol import END, UNKNOWN
from chainrule.text.tokenization.splitters import SEPARATORS
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import Bool, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.text.tokenization.tokenizer import Tokenizer

FIRST = 3  # the symbol of the first known character


class Alphabet:
    """The symbols in which a speller spells.

    characters: ascending code points. never: ASCII bytes that no token contains, such as white space.
    """

    def __init__(self, characters: Int32[ndarray, " known"], never: bytes) -> None:
        self.characters, self.never = characters, never
        self._known = frozenset(characters.tolist())
        self._impossible = set(never) | {code for code in self._known if code < 0x80}
        self._completions = defaultdict[bytes, set[int]](set)  # last bytes of known characters, by their other bytes
        for spelled in (chr(code).encode() for code in characters[characters >= 0x80].tolist()):
            self._completions[spelled[:-1]].add(spelled[-1])
        self._prefixes = {start[:n] for start in self._completions for n in range(1, len(start) + 1)}

    @classmethod
    def of(cls, spellings: Sequence[bytes], never: bytes) -> Alphabet:
        """Return the alphabet of all characters that occur at least twice; from the others, a model learns to expect
        bytes.
        """
        codes, counts = np.unique(_code_points(map(_decode, spellings)), return_counts=True)
        known = (counts > 1) & ~_is_lone_byte(codes) & ~np.isin(codes, list(never))
        return cls(codes[known].astype(np.int32), never)

    def __len__(self) -> int:
        """Return the number of symbols, with <unk>, <s> and </s>."""
        return FIRST + self.characters.size

    def symbols(self, tokens: Sequence[bytes]) -> Int32[ndarray, " symbols"]:
        """Return the symbols of all tokens, with </s> after each."""
        texts = [_decode(token) for token in tokens]
        codes = _code_points(texts)
        index = np.searchsorted(self.characters, codes)
        known = np.append(self.characters, -1)[index] == codes
        widths = np.where(known, 1, _utf8_widths(codes))
        symbols = np.repeat(np.where(known, FIRST + index, UNKNOWN).astype(np.int32), widths)
        starts = np.concatenate([[0], np.cumsum(widths)])
        ends = starts[np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))]
        return np.insert(symbols, ends, END)

    def character(self, symbol: int) -> bytes:
        """Return the UTF-8 of a known character."""
        return chr(self.characters[symbol - FIRST]).encode()

    def log_prob_of_bytes(self, token: bytes) -> float:
        """Return log P of the bytes in a token's spelling, given that the symbols there are bytes."""
        log_prob, prefix = 0.0, b""
        for character in _decode(token):
            if ord(character) in self._known:  # has a symbol, whose probability the model gives
                prefix = b""
                continue
            for byte in character.encode("utf-8", "surrogateescape"):
                if byte in self._impossible:
                    return -math.inf
                log_prob -= math.log(256 - len(self._impossible) - len(self._completions.get(prefix, ())))
                prefix = self.prefix_after(prefix, byte)
        return log_prob

    def possible_bytes(self, prefix: bytes) -> list[int]:
        """Return the bytes that can follow `prefix`, the last bytes that could begin a known character."""
        return sorted(set(range(256)) - self._impossible - self._completions.get(prefix, set()))

    def prefix_after(self, prefix: bytes, byte: int) -> bytes:
        """Return the new prefix after one more byte: the last bytes that could begin a known character."""
        longer, alone = prefix + bytes([byte]), bytes([byte])
        return longer if longer in self._prefixes else alone if alone in self._prefixes else b""


def _decode(token: bytes) -> str:
    return token.decode("utf-8", "surrogateescape")


def _code_points(texts: Iterable[str]) -> Int64[ndarray, " characters"]:
    joined = "".join(texts).encode("utf-32-le", "surrogatepass")
    return np.frombuffer(joined, "<u4").astype(np.int64)


def _utf8_widths(codes: Int64[ndarray, " characters"]) -> Int64[ndarray, " characters"]:
    """Return the number of bytes of each character; an escaped byte counts as one."""
    return np.where(_is_lone_byte(codes), 1, 1 + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000))


def _is_lone_byte(codes: Int64[ndarray, " characters"]) -> Bool[ndarray, " characters"]:
    """Return whether a code point is a byte that is not UTF-8, as Python's "surrogateescape" decodes it."""
    return (codes >= 0xDC80) & (codes < 0xDD00)


ORDER = 6
ENOUGH = 100_000  # spellings to train on
_LITERAL_SHARE = "literal_share"  # the name of an array
_MIN_OPEN = 1e-6  # the smallest mass left to unknown tokens, against rounding
_MIN_LOG = -745.0  # of a positive float64
LITERAL = MARKER_TOKENS[UNKNOWN].encode()  # the unknown token, as texts write it


class HasTokens(Protocol):
    """A vocabulary, as the bytes of its tokens."""

    def tokens(self) -> list[bytes]: ...


class Speller:
    """P(spelling) of tokens outside the vocabulary, and an estimate of the number of such types."""

    name = f"characters{ORDER}"  # in signatures

    def __init__(
        self,
        table: Table,
        alphabet: Alphabet,
        vocabulary: HasTokens,
        *,
        unseen_types: int,
        log_open: float = 0.0,
        literal_share: float = 0.0,
    ) -> None:
        """Store the parts of the speller. log_open: log of 1 - P(empty) - P(known tokens), in nats.

        literal_share: P(the literal <unk> | unknown); if 0, the literal is spelled like any other token.
        """
        from chainrule.ngram.models.table_models import NGramModel

        self._model, self._alphabet, self._vocabulary = NGramModel(table), alphabet, vocabulary
        self.unseen_types, self._log_open, self.literal_share = unseen_types, log_open, literal_share

    @classmethod
    def train(
        cls,
        spellings: Sequence[bytes],
        vocabulary: HasTokens,
        *,
        unseen_types: int,
        never: bytes = b"",
        literal_share: float = 0.0,
    ) -> Speller:
        """Train on spellings, and remove the mass of the whole vocabulary.

        never: ASCII bytes that no token can contain, such as white space; a token with one has no probability.
        literal_share: the share of the literal <unk> in the unknown tokens, from 0 to 1; a millionth, at least, is left
        to other spellings, so that no token is impossible.
        """
        from chainrule.ngram.counting.count import count_ngrams
        from chainrule.ngram.estimation.backoff_and_additive import witten_bell

        literal_share = min(literal_share, 1 - _MIN_OPEN)
        alphabet = Alphabet.of(spellings, never)
        stream = alphabet.symbols(spellings or [b""])
        counts = count_ngrams(stream, len(alphabet), ORDER)
        table = table_of(counts, witten_bell(counts))
        unnormalised = cls(table, alphabet, vocabulary, unseen_types=unseen_types)
        known = [token for token in vocabulary.tokens() if token != LITERAL or literal_share]
        closed = math.fsum(np.exp(unnormalised.log_probs([b"", *known])).tolist())
        return cls(
            table,
            alphabet,
            vocabulary,
            unseen_types=unseen_types,
            log_open=math.log(max(1 - closed, _MIN_OPEN)),
            literal_share=literal_share,
        )

    @classmethod
    def of_vocabulary(cls, tokenizer: Tokenizer, *, literal_share: float = 0.0) -> Speller:
        """Train for a model without its training text, such as an ARPA file, on all known types equally.

        Assumes half as many unseen types as known ones, which is about the ratio of words in English novels. Where
        the tokenizer can write no others, as with subwords, <unk> is the token of all that they cannot spell.
        """
        known = tokenizer.vocabulary.tokens()[END + 1 :]
        unseen = 1 if tokenizer.splitter.alphabet else max(1, len(known) // 2)
        if tokenizer.spells_everything:
            unseen = 0
        return cls.train(
            known, tokenizer.vocabulary, unseen_types=unseen, never=SEPARATORS, literal_share=literal_share
        )

    def log_prob(self, token: bytes) -> float:
        """Return log P(spelling | the token is unknown), in nats.

        Undefined for known tokens other than the literal <unk>.
        """
        return float(self.log_probs([token])[0])

    def log_probs(self, tokens: Sequence[bytes]) -> Float64[ndarray, " tokens"]:
        """Return the numbers of `log_prob`, for many tokens at once."""
        if not tokens:
            return np.empty(0, np.float64)
        symbols = self._alphabet.symbols(tokens)
        scores = self._model.score_stream(symbols).astype(np.float64)
        starts = np.concatenate([[0], np.flatnonzero(symbols == END)[:-1] + 1])
        log_probs = np.add.reduceat(scores, starts) - self._log_open + math.log1p(-self.literal_share)
        for i in np.flatnonzero(np.add.reduceat(symbols == UNKNOWN, starts)).tolist():
            log_probs[i] += self._alphabet.log_prob_of_bytes(tokens[i])
        if self.literal_share:
            log_probs[[i for i, token in enumerate(tokens) if token == LITERAL]] = math.log(self.literal_share)
        return log_probs

    def sample(self, rng: np.random.Generator) -> bytes:
        """Draw a token outside the vocabulary from the distribution; rarely, it is not UTF-8."""
        while True:
            spelling = self._draw_spelling(rng)
            if spelling and spelling not in self._known:
                return spelling

    def arrays(self) -> dict[str, ndarray]:
        """Return the arrays that `from_arrays` takes."""
        literal = {_LITERAL_SHARE: np.array([self.literal_share], np.float64)} if self.literal_share else {}
        return {
            **literal,
            **self._model.table.arrays(),
            "level_sizes": np.array(self._model.table.level_sizes, np.int64),
            "characters": self._alphabet.characters,
            "never": np.frombuffer(self._alphabet.never, np.uint8),
            "log_open": np.array([self._log_open], np.float64),
            "unseen_types": np.array([self.unseen_types], np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, ndarray], vocabulary: HasTokens) -> Speller:
        """Return the speller that gave `arrays`.

        Raises ModelFormatError where they are inconsistent; KeyError if one is missing.
        """
        sizes, characters = arrays["level_sizes"], arrays["characters"]
        never, log_open, unseen = arrays["never"], arrays["log_open"], arrays["unseen_types"]
        if sizes.dtype != np.int64 or sizes.ndim != 1 or not 1 <= sizes.size <= MAX_ORDER or sizes.min() < 0:
            raise ModelFormatError("the speller's level_sizes are not those of an n-gram table; the file is damaged")
        if characters.dtype != np.int32 or characters.shape != (sizes[0] - FIRST,) or not _are_characters(characters):
            raise ModelFormatError("the speller's characters are not ascending code points; the file is damaged")
        if never.dtype != np.uint8 or never.ndim != 1 or np.any(never >= 0x80):
            raise ModelFormatError("the speller's array 'never' is not ASCII; the file is damaged")
        if log_open.dtype != np.float64 or log_open.shape != (1,) or not _MIN_LOG <= log_open[0] <= 0:
            raise ModelFormatError("the speller's log_open is not the logarithm of a probability; the file is damaged")
        if unseen.dtype != np.int64 or unseen.shape != (1,) or unseen[0] < 0:
            raise ModelFormatError("the speller's unseen_types is not a count; the file is damaged")
        share = arrays.get(_LITERAL_SHARE, np.zeros(1))  # which folders of texts without the literal lack
        if share.dtype != np.float64 or share.shape != (1,) or not 0 <= share[0] < 1:
            raise ModelFormatError("the speller's literal_share is not a share below 1; the file is damaged")
        alphabet = Alphabet(np.array(characters), never.tobytes())
        table = Table.from_arrays(sizes.tolist(), arrays)
        return cls(
            table,
            alphabet,
            vocabulary,
            unseen_types=int(unseen[0]),
            log_open=float(log_open[0]),
            literal_share=float(share[0]),
        )

    @cached_property
    def _known(self) -> frozenset[bytes]:
        return frozenset(self._vocabulary.tokens())

    def _draw_spelling(self, rng: np.random.Generator) -> bytes:
        spelling = prefix = b""
        state = self._model.start([np.empty(0, np.int32)])
        while True:
            _, drawn = self._model.draw(state, rng.random(1))
            symbol = int(drawn[0])
            if symbol == END:
                return spelling
            if symbol == UNKNOWN:
                byte = int(rng.choice(self._alphabet.possible_bytes(prefix)))
                spelling += bytes([byte])
                prefix = self._alphabet.prefix_after(prefix, byte)
            else:
                spelling += self._alphabet.character(symbol)
                prefix = b""
            state = self._model.advance(state, drawn)


def rare_spellings(tokens: Sequence[bytes], counts: Int64[ndarray, " vocab"]) -> list[bytes]:
    """Return the types seen once; if they are fewer than ENOUGH, also those seen twice, and so on.

    counts: by token; 0 for unseen ones. If there are too many types of one count, every n-th is used.
    """
    seen = np.sort(counts[counts > 0])
    limit = seen[min(ENOUGH, seen.size) - 1] if seen.size else 0
    rare = np.flatnonzero((counts > 0) & (counts <= limit))
    step = max(1, rare.size // (2 * ENOUGH))
    return [tokens[i] for i in rare[::step].tolist()]


def unseen_types(counts: Int64[ndarray, " vocab"]) -> int:
    """Return a lower bound of the expected number of unseen types, from the numbers of types seen once and twice; at
    least 1.

    n1 (n1 - 1) / (2 (n2 + 1)): Chao (1984), Nonparametric estimation of the number of classes in a population, in its
    bias-corrected form.
    """
    once, twice = (int(np.count_nonzero(counts == k)) for k in (1, 2))
    return max(1, once * (once - 1) // (2 * (twice + 1)))


def _are_characters(codes: ndarray) -> bool:
    is_surrogate = (codes >= 0xD800) & (codes < 0xE000)
    in_range = not codes.size or (codes[0] >= 0 and codes[-1] < 0x110000)
    return bool(np.all(codes[1:] > codes[:-1]) and in_range and not is_surrogate.any())


_UNSEEN, _WEIGHTS = "unseen_types", "weights"  # names of arrays


class MixedSpeller:
    """A weighted mixture of spellers over one vocabulary; their own unseen_types are ignored."""

    name = f"mixed-{Speller.name}"  # in signatures

    def __init__(self, parts: Sequence[Speller], weights: Float64[ndarray, " parts"], *, unseen_types: int) -> None:
        """Store the spellers and their weights. weights: above 0; must sum to one."""
        self.parts, self.weights, self.unseen_types = tuple(parts), weights, unseen_types

    @property
    def literal_share(self) -> float:
        """P(the literal <unk> | unknown)."""
        return math.fsum(self.weights * [part.literal_share for part in self.parts])

    def log_prob(self, token: bytes) -> float:
        """Implement `Speller.log_prob`."""
        return float(self.log_probs([token])[0])

    def log_probs(self, tokens: Sequence[bytes]) -> Float64[ndarray, " tokens"]:
        """Implement `Speller.log_probs`."""
        weighted = [
            part.log_probs(tokens) + weight for part, weight in zip(self.parts, np.log(self.weights), strict=True)
        ]
        mixed: Float64[ndarray, " tokens"] = np.logaddexp.reduce(weighted, axis=0)
        return mixed

    def sample(self, rng: np.random.Generator) -> bytes:
        """Implement `Speller.sample`."""
        return self.parts[int(rng.choice(len(self.parts), p=self.weights))].sample(rng)

    def arrays(self) -> dict[str, ndarray]:
        """Return the arrays that `speller_from_arrays` takes; those of part i are named `i.name`."""
        named = {f"{i}.{name}": array for i, part in enumerate(self.parts) for name, array in part.arrays().items()}
        return {**named, _WEIGHTS: self.weights, _UNSEEN: np.array([self.unseen_types], np.int64)}


def mixed_speller(
    spellers: Sequence[Speller | MixedSpeller], weights: Sequence[float], vocabulary: HasTokens, *, unseen_types: int
) -> Speller | MixedSpeller:
    """Mix spellers; equal ones are merged, and those of weight 0 are left out. weights: not all 0."""
    parts: list[tuple[Speller, dict[str, ndarray]]] = []
    shares: list[float] = []
    for speller, weight in zip(spellers, weights, strict=True):
        inner = (
            zip(speller.parts, speller.weights, strict=True) if isinstance(speller, MixedSpeller) else [(speller, 1.0)]
        )
        for part, share in inner:
            arrays = part.arrays()
            same = [i for i, (_, others) in enumerate(parts) if _are_equal(arrays, others)]
            if same:
                shares[same[0]] += weight * share
            elif weight > 0:
                parts.append((part, arrays))
                shares.append(weight * share)
    if len(parts) > 1:
        return MixedSpeller([part for part, _ in parts], np.array(shares) / sum(shares), unseen_types=unseen_types)
    [(only, arrays)] = parts
    if only.unseen_types == unseen_types:
        return only
    return Speller.from_arrays({**arrays, _UNSEEN: np.array([unseen_types], np.int64)}, vocabulary)


def speller_from_arrays(arrays: dict[str, ndarray], vocabulary: HasTokens) -> Speller | MixedSpeller:
    """Return the speller, of either kind, that gave `arrays`. Raises as `Speller.from_arrays` does."""
    if _WEIGHTS not in arrays:
        return Speller.from_arrays(arrays, vocabulary)
    weights, unseen = arrays[_WEIGHTS], arrays[_UNSEEN]
    if weights.dtype != np.float64 or weights.ndim != 1 or not weights.size or not np.all(weights > 0):
        raise ModelFormatError("the weights of the spellers are not positive numbers; the file is damaged")
    if abs(weights.sum() - 1) > 1e-6:
        raise ModelFormatError("the weights of the spellers do not sum to 1; the file is damaged")
    if unseen.dtype != np.int64 or unseen.shape != (1,) or unseen[0] < 0:
        raise ModelFormatError("the spellers' unseen_types is not a count; the file is damaged")
    parts = []
    for i in range(weights.size):
        part_arrays = {name.removeprefix(f"{i}."): array for name, array in arrays.items() if name.startswith(f"{i}.")}
        parts.append(Speller.from_arrays(part_arrays, vocabulary))
    return MixedSpeller(parts, weights, unseen_types=int(unseen[0]))


def _are_equal(one: dict[str, ndarray], other: dict[str, ndarray]) -> bool:
    return one.keys() == other.keys() and all(
        name == _UNSEEN or np.array_equal(array, other[name]) for name, array in one.items()
    )

"""The speller: every token has one spelling, and what the unknown ones cost sums to one."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule
from chainrule.errors import ModelFormatError
from chainrule.ngram import speller as speller_module
from chainrule.ngram.speller import FIRST, Alphabet, Speller, rare_spellings, unseen_types
from chainrule.protocol import END, UNKNOWN
from chainrule.text.tokenization.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WHITE = b"\0\t\n\r "
ALL_BUT_A_AND_B = bytes(set(range(128)) - set(b"ab"))
WORDS = "an ananas banana bandana naïve naïf été étape ôté çà 日本 日光 😀😀".encode().split()


def alphabet_of(characters: str, never: bytes = WHITE) -> Alphabet:
    return Alphabet(np.array(sorted(map(ord, characters)), np.int32), never)


def trained(words: list[bytes], never: bytes = WHITE) -> Speller:
    return Speller.train(words, Vocabulary(words), unseen_types=1, never=never)


def test_symbols_are_known_characters_and_bytes_for_all_else() -> None:
    alphabet = alphabet_of("aé日")
    tokens = ["aéb".encode(), b"", "日本".encode(), b"\xc3a\xa9", b"\xe6\x97\xc3\xa9"]
    a, e, sun, byte = FIRST, FIRST + 1, FIRST + 2, UNKNOWN
    expected = [[a, e, byte], [], [sun, byte, byte, byte], [byte, a, byte], [byte, byte, e]]
    assert alphabet.symbols(tokens).tolist() == [symbol for token in expected for symbol in [*token, END]]
    assert len(alphabet) == 6


def test_what_a_byte_costs_depends_on_how_many_could_stand_there() -> None:
    alphabet = alphabet_of("abéê日")  # é is C3 A9, ê is C3 AA
    free = 256 - len(WHITE) - 2
    assert alphabet.log_prob_of_bytes("aé日b".encode()) == 0
    assert alphabet.log_prob_of_bytes(b"c") == pytest.approx(-math.log(free))
    # After the byte C3, neither A9 nor AA can come: they would have made é or ê.
    assert alphabet.log_prob_of_bytes("à".encode()) == pytest.approx(-math.log(free * (free - 2)))
    assert alphabet.log_prob_of_bytes(b"\xc3\xc3\xff") == pytest.approx(-math.log(free * (free - 2) ** 2))
    # 日 is E6 97 A5; 旦 is E6 97 A6
    assert alphabet.log_prob_of_bytes("旦".encode()) == pytest.approx(-math.log(free * free * (free - 1)))
    assert alphabet.log_prob_of_bytes(b"a b") == -math.inf


@given(st.binary(max_size=12) | st.text("aéê日c\x80", max_size=8).map(str.encode))
def test_a_token_is_the_bytes_of_its_symbols(token: bytes) -> None:
    alphabet = alphabet_of("aéê日")
    symbols = alphabet.symbols([token]).tolist()
    assert symbols.pop() == END
    left = token
    for symbol in symbols:
        piece = left[:1] if symbol == UNKNOWN else alphabet.character(symbol)
        assert left.startswith(piece)
        left = left[len(piece) :]
    assert left == b""


@given(st.lists(st.sampled_from([FIRST, FIRST + 1, FIRST + 2, 0xC3, 0xA9, 0xAA, 0xE6, 0x97, 0xA5, 0xFF]), max_size=9))
def test_symbols_that_may_follow_each_other_are_the_spelling_of_their_bytes(pieces: list[int]) -> None:
    """So no byte string has two spellings: what is no spelling is not possible either."""
    alphabet = alphabet_of("aé日")
    spelled, prefix, possible = b"", b"", True
    for piece in pieces:
        if piece < 0x80:
            spelled, prefix = spelled + alphabet.character(piece), b""
        else:
            possible &= piece in alphabet.possible_bytes(prefix)
            spelled, prefix = spelled + bytes([piece]), alphabet.prefix_after(prefix, piece)
    symbols = [piece if piece < 0x80 else UNKNOWN for piece in pieces]
    assert (alphabet.symbols([spelled]).tolist() == [*symbols, END]) == possible


def test_characters_that_occur_once_are_spelled_in_bytes() -> None:
    alphabet = Alphabet.of([b"aab", "bé".encode(), b"\xff\xff", b"  "], WHITE)
    assert [chr(code) for code in alphabet.characters] == ["a", "b"]


def test_all_strings_of_a_small_alphabet_sum_to_one() -> None:
    """Strings of a, b and x, where x is any of the 128 bytes that are not ASCII, which are all alike here.

    What is longer than n has the mass of all beginnings of n pieces.
    """
    words = [b"a", b"ab", b"ba", b"aab", b"b\xff", b"abab"]
    speller = trained(words, ALL_BUT_A_AND_B)
    n = 7
    strings = [b"".join(pieces) for k in range(n) for pieces in itertools.product([b"a", b"b", b"\xff"], repeat=k)]
    unknown = [128 ** string.count(b"\xff") - (string in words or string == b"") for string in strings]  # alike
    open_mass = 1 - sum(plain_prob(speller, word) for word in [b"", *Vocabulary(words).tokens()])
    short = np.dot(np.exp(speller.log_probs(strings)), unknown)
    symbols = [np.array(pieces, np.int32) for pieces in itertools.product([FIRST, FIRST + 1, UNKNOWN], repeat=n)]
    long = sum(math.exp(row.sum(dtype=float)) for row in speller._model.score(symbols, end=False))
    assert 0.001 < long < 0.2
    assert short + long / open_mass == pytest.approx(1, abs=1e-5)


def plain_prob(speller: Speller, word: bytes) -> float:
    """P(spelling) with the known tokens' share still in it."""
    return math.exp(speller.log_prob(word) + speller._log_open)


def test_the_probability_of_known_tokens_is_excluded() -> None:
    speller = trained(WORDS)
    known = [b"", *Vocabulary(WORDS).tokens()]
    assert math.exp(speller._log_open) == pytest.approx(1 - sum(plain_prob(speller, word) for word in known))
    assert 0.1 < math.exp(speller._log_open) < 0.9


@given(st.lists(st.binary(max_size=8), max_size=5))
def test_many_tokens_cost_what_each_costs_alone(tokens: list[bytes]) -> None:
    speller = trained(WORDS)
    actual = speller.log_probs(tokens)
    assert actual.tolist() == [speller.log_prob(token) for token in tokens]
    for token, log_prob in zip(tokens, actual.tolist(), strict=True):
        assert math.isfinite(log_prob) == (not set(token) & set(WHITE))


def test_likely_spellings_cost_less() -> None:
    speller = trained(WORDS)
    cost = speller.log_probs([b"anana", b"nnaaa", b"xyzzy"])
    assert cost[0] > cost[1] > cost[2]


def test_what_is_drawn_is_unknown_and_as_frequent_as_it_is_probable() -> None:
    words = [b"a", b"ab", b"ba", b"aab", b"bb", b"abab"]
    speller = trained(words, ALL_BUT_A_AND_B)
    rng = np.random.default_rng(5)
    drawn = Counter(speller.sample(rng) for _ in range(3000))
    assert not set(drawn) & {b"", *words}
    for token, count in drawn.most_common(8):
        expected = 3000 * math.exp(speller.log_prob(token))
        assert abs(count - expected) < 4.5 * math.sqrt(expected)


def test_no_spellings_at_all_still_make_a_speller() -> None:
    speller = Speller.train([], Vocabulary(), unseen_types=1)
    assert math.isfinite(speller.log_prob("日".encode()))


def test_it_comes_back_from_its_arrays() -> None:
    speller = Speller.train(WORDS, Vocabulary(WORDS), unseen_types=7, never=WHITE)
    again = Speller.from_arrays(speller.arrays(), Vocabulary(WORDS))
    tokens = [b"xyz", "日".encode(), b"\xff", b"a b"]
    assert again.log_probs(tokens).tolist() == speller.log_probs(tokens).tolist()
    assert again.unseen_types == 7
    assert again.sample(np.random.default_rng(1)) == speller.sample(np.random.default_rng(1))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("level_sizes", lambda a: a.astype(np.int32)),
        ("level_sizes", lambda a: a[:0]),
        ("level_sizes", lambda a: -a),
        ("characters", lambda a: a[:-1]),
        ("characters", lambda a: a[::-1]),
        ("characters", lambda a: a + 0xD800 - a[0]),
        ("characters", lambda a: a + 0x10FFFF),
        ("characters", lambda a: np.where(np.arange(a.size) == 1, np.int32(-(2**31)), a)),  # whose differences overflow
        ("characters", lambda a: np.where(np.arange(a.size) == 1, np.int32(2**31 - 1), a)),
        ("log_open", lambda a: a * 0 - 1e308),
        ("never", lambda a: a + 128),
        ("log_open", lambda a: -a),
        ("log_open", lambda a: a * np.nan),
        ("unseen_types", lambda a: -a),
        ("unseen_types", lambda a: a.astype(float)),
        ("nodes", lambda a: a[:-1]),
    ],
)
def test_damaged_arrays_are_an_error(name: str, damage: Callable[[np.ndarray], np.ndarray]) -> None:
    arrays = trained(WORDS).arrays()
    arrays[name] = damage(arrays[name])
    with pytest.raises(ModelFormatError, match=r"speller|table"):
        Speller.from_arrays(arrays, Vocabulary(WORDS))


def test_rare_spellings_are_those_seen_once_or_a_little_more_often_where_they_are_few(monkeypatch) -> None:
    tokens = [bytes([65 + i]) for i in range(8)]
    counts = np.array([0, 9, 1, 2, 1, 5, 2, 1])
    for enough, expected in ((2, b"CEH"), (3, b"CEH"), (4, b"CDEGH"), (6, b"CDEFGH"), (99, b"BCDEFGH")):
        monkeypatch.setattr(speller_module, "ENOUGH", enough)
        assert b"".join(rare_spellings(tokens, counts)) == expected
    assert rare_spellings(tokens, np.zeros(8, np.int64)) == []


def test_of_too_many_rare_spellings_every_nth_is_used(monkeypatch) -> None:
    monkeypatch.setattr(speller_module, "ENOUGH", 2)
    tokens = [str(i).encode() for i in range(12)]
    assert rare_spellings(tokens, np.ones(12, np.int64)) == [b"0", b"3", b"6", b"9"]


def test_unseen_types_by_hand() -> None:
    # four types once, one twice: 4 * 3 / (2 * (1 + 1)) = 3
    assert unseen_types(np.array([1, 1, 0, 1, 2, 1, 7])) == 3
    assert unseen_types(np.array([5, 6])) == 1  # at least one


@pytest.mark.parametrize(
    ("kind", "unseen"),
    [("byte", lambda size: 0), ("wordpiece", lambda size: 1), ("word", lambda size: (size - 3) // 2)],
)
def test_only_tokenizers_that_write_any_token_have_many_unseen_types(
    kind: str, unseen: Callable[[int], int], fixtures: Path
) -> None:
    """A fixed set of tokens has <unk> alone for the rest, or nothing where it spells every text."""
    config = chainrule.TokenizerConfig(kind=kind, vocabulary_size=None if kind != "wordpiece" else 300)
    tokenizer = chainrule.train(fixtures / "train.txt", chainrule.UniformConfig(), tokenizer=config).tokenizer
    assert Speller.of_vocabulary(tokenizer).unseen_types == unseen(tokenizer.vocabulary_size)

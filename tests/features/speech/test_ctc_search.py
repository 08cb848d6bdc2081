"""The prefix beam search: equal to a sum over all alignments where nothing is pruned, and its language models."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule
from chainrule.errors import SettingError
from chainrule.features.speech import ctc
from chainrule.features.speech.options import TranscribeOptions
from chainrule.features.speech.search import language_model
from chainrule.features.speech.search.alphabet import Alphabet
from chainrule.features.speech.search.beams import START, LMBeam, prune_history
from chainrule.features.speech.search.language_model import ShallowFusion, words_of
from chainrule.features.speech.search.search import Labels, Limits, Search
from chainrule.features.speech.search.search_kernels import TEXTS, best_of
from chainrule.features.speech.search.words import NO_WORDS, Hotwords, Words

if TYPE_CHECKING:
    from pathlib import Path

LABELS = ["", " ", "a", "b"]
EVERYTHING = Limits(width=10_000, prune=-1e9, least=-1e9)
LN_10 = math.log(10)


def random_log_probs(frames: int, labels: int, seed: int) -> np.ndarray:
    logits = np.random.default_rng(seed).normal(0, 2, (frames, labels))
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def by_brute_force(log_probs: np.ndarray, labels: list[str]) -> dict[str, float]:
    """log P of each text: over all alignments, repeated labels become one, then blanks are left out (Graves 2006)."""
    totals: defaultdict[str, float] = defaultdict(float)
    for path in itertools.product(range(len(labels)), repeat=len(log_probs)):
        text = "".join(labels[label] for label, _ in itertools.groupby(path))
        totals[" ".join(text.split())] += math.exp(sum(row[label] for row, label in zip(log_probs, path, strict=True)))
    return {text: math.log(total) for text, total in totals.items()}


def decode(log_probs: np.ndarray, labels: list[str], model=None, limits: Limits = EVERYTHING, hotwords=Hotwords()):  # noqa: B008
    search = Search(Labels(Alphabet.build_alphabet(labels)), model, limits, hotwords)
    cache = {("", False): (0.0, 0.0, None)}
    search.load([START], cache)
    search.run(log_probs)
    return search.finish(cache, is_end=True)


@pytest.mark.parametrize("hotwords", [(), ("ab", "ba")])
def test_what_no_text_goes_back_to_is_forgotten_and_changes_nothing(hotwords: tuple[str, ...]) -> None:
    log_probs = random_log_probs(400, len(LABELS), 5)
    text = chainrule.Lines(["ab a b", "a ba b ab", "b b a"] * 9)
    model = chainrule.train(text, chainrule.NGramConfig(order=3), tokenizer="whitespace")
    found = []
    for piece in (400, 7):
        decoder = ctc.Decoder(model, TranscribeOptions(hotwords=hotwords), Alphabet.build_alphabet(LABELS))
        decoding = decoder.begin(decoder.labels_of(tuple(LABELS)))
        for begin in range(0, 400, piece):
            decoding.run(log_probs[begin : begin + piece])
            if piece < 400:
                decoding._search.forget_states()
                decoding._search.forget()
        found.append(decoding.finish(log_probs))
        held = decoding._search._counts[TEXTS]
    assert found[0] == found[1]
    assert held < 1_000  # of more than ten times as many


@given(st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_without_pruning_every_text_has_the_sum_of_its_alignments(frames: int, seed: int) -> None:
    log_probs = random_log_probs(frames, len(LABELS), seed)
    expected = by_brute_force(log_probs, LABELS)
    beams = decode(log_probs, LABELS)
    assert {beam.text: beam.logit_score for beam in beams} == pytest.approx(expected)
    assert [beam.lm_score for beam in beams] == sorted((beam.lm_score for beam in beams), reverse=True)


@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_pieces_that_spell_the_same_text_are_one(frames: int, seed: int) -> None:
    """aa may be a a or aa: its alignments are of both."""
    labels = ["▁a", "▁aa", "a", ""]
    log_probs = random_log_probs(frames, len(labels), seed)
    totals: defaultdict[str, float] = defaultdict(float)
    for path in itertools.product(range(len(labels)), repeat=frames):
        text = "".join(labels[label] for label, _ in itertools.groupby(path)).replace("▁", " ")
        totals[" ".join(text.split())] += math.exp(sum(row[label] for row, label in zip(log_probs, path, strict=True)))
    found = {beam.text: math.exp(beam.logit_score) for beam in decode(log_probs, labels)}
    assert found == pytest.approx(totals)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "train.txt"
    path.write_text("a b a\nb a\nab a b\nba\na b\nabba ab\n" * 20)
    return path


def models(texts: Path) -> dict[str, chainrule.Model]:
    network = chainrule.TransformerConfig(layers=1, width=16, heads=2, context=16)
    one_step = chainrule.TrainingConfig(steps=1, compile="no")
    unigrams = chainrule.NGramConfig(order=1)
    words = chainrule.train(texts, chainrule.NGramConfig(order=3), tokenizer="whitespace")
    return {
        "words": words,
        "characters": chainrule.train(texts, chainrule.NGramConfig(order=4), tokenizer="character"),
        "network": chainrule.train(texts, network, tokenizer="whitespace", training=one_step),
        "network of bytes": chainrule.train(texts, network, tokenizer="byte", training=one_step),
        "mixture": chainrule.mix([words, chainrule.train(texts, unigrams, tokenizer="whitespace")]),
    }


def test_the_score_of_any_model_is_that_of_the_whole_text(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """log P + alpha x (ln P + ln 10 x offset x unknown words) + beta x words, whatever states are dropped."""
    log_probs = random_log_probs(3, len(LABELS), 3)
    expected = by_brute_force(log_probs, LABELS)
    for name, model in models(texts).items():
        known = words_of(model.tokenizer)
        assert (known is None) == ("characters" in name or "bytes" in name)
        totals = model.score(list(expected))
        for rows in (1 << 10, 1) if name == "network" else (1 << 10,):
            monkeypatch.setattr(language_model, "_ROWS", rows)
            fusion = ShallowFusion(model.language_model, model.tokenizer, alpha=0.7, beta=0.4, unknown_offset=-2.0)
            found = {beam.text: beam for beam in decode(log_probs, LABELS, fusion)}
            assert found.keys() == expected.keys(), name
            for text, total in zip(expected, totals, strict=True):
                words = text.split()
                unknown = [word for word in words if known is not None and word not in known]
                if not unknown:  # of which `score` counts the spelling, too
                    bonus = 0.7 * float(total) + 0.4 * len(words)
                    assert found[text].logit_score == pytest.approx(expected[text])
                    assert found[text].lm_score == pytest.approx(expected[text] + bonus, rel=1e-4), (name, text)


def test_unknown_words_and_their_beginnings_cost(texts: Path) -> None:
    model = chainrule.train(texts, chainrule.NGramConfig(order=2), tokenizer="whitespace")
    free, dear = (
        {
            beam.text: beam.lm_score
            for beam in decode(
                random_log_probs(3, 4, 1),
                LABELS,
                ShallowFusion(model.language_model, model.tokenizer, unknown_offset=offset),
            )
        }
        for offset in (0.0, -3.0)
    )
    for text in free:
        unknown = sum(word not in ("a", "b", "ab", "ba", "abba") for word in text.split())
        assert free[text] - dear[text] == pytest.approx(0.5 * LN_10 * 3 * unknown)
    only = ShallowFusion(model.language_model, model.tokenizer, words=["a"], unknown_offset=-3.0)
    narrow = decode(random_log_probs(3, 4, 1), LABELS, only, Limits(width=3))
    assert all(set(beam.text.split()) <= {"a"} for beam in narrow)
    with pytest.raises(SettingError, match="the list of words is empty"):
        ShallowFusion(model.language_model, model.tokenizer, words=[])


def test_hotwords_add_their_weight_and_beginnings_a_part_of_it() -> None:
    log_probs = random_log_probs(4, 4, 2)
    plain, hot = (
        {beam.text: beam for beam in decode(log_probs, LABELS, hotwords=own)}
        for own in (Hotwords(), Hotwords.of(["a ab"], 3.0))
    )
    for text, beam in plain.items():
        count = sum(word in ("a", "ab") for word in text.split())
        assert hot[text].lm_score == pytest.approx(beam.lm_score + 3 * count)
    search = Search(Labels(Alphabet.build_alphabet(LABELS)), None, EVERYTHING, Hotwords.of(["abab", "b"], 3.0))
    search.load([START])
    search.run(np.log(np.array([[0.1, 0.1, 0.7, 0.1]])))
    cache: dict = {}
    unfinished = {beam.partial_word: beam.lm_score - beam.logit_score for beam in search.finish(cache)}
    assert unfinished == pytest.approx({"": 0, "a": 3 / 4, "b": 3})


def test_a_hotword_in_another_form_is_that_of_the_labels() -> None:
    """The trie of "caf\u00e9" and "don't" has every beginning of these words, whatever characters the list has."""
    words = Hotwords.of(["cafe\u0301", "don\u2019t", "func\u00adtion"], 3.0).words
    assert all(words.has_node(word) for word in ("caf\u00e9", "don't", "function", "cafe\u0301"))


@given(st.lists(st.integers(-5, 5), max_size=60), st.integers(-5, 5), st.integers(1, 20))
def test_the_best_are_sorted_and_of_equal_ones_the_first_stay(numbers: list[int], least: int, width: int) -> None:
    scores, order = np.array(numbers, np.float64), np.zeros(max(len(numbers), 1), np.int64)
    count = best_of(scores, len(numbers), float(least), width, order)
    rows = sorted((row for row in range(len(numbers)) if numbers[row] >= least), key=lambda row: (-numbers[row], row))
    assert order[:count].tolist() == rows[:width]


@given(st.lists(st.text(alphabet="abé😀", max_size=5), max_size=20), st.text(alphabet="abé😀", max_size=5))
def test_a_set_of_words_knows_their_beginnings(words: list[str], prefix: str) -> None:
    trie = Words(words)
    longer = [len(word) for word in words if word and word.startswith(prefix)]
    assert trie.has_node(prefix) == bool(longer)
    assert trie.shortest_after(prefix) == (min(longer) if prefix and longer else 0)
    assert not NO_WORDS.has_node(prefix)


def test_trees_grow_beyond_their_first_room_and_parts_are_the_whole() -> None:
    log_probs, labels = random_log_probs(150, 4, 5), Labels(Alphabet.build_alphabet(LABELS))
    limits = Limits(width=200, prune=-1e9, least=-1e9)
    whole = Search(labels, None, limits, Hotwords())
    whole.load([START])
    whole.run(log_probs)
    assert whole._counts[TEXTS] > 1 << 12
    beams = [START]
    for first in range(0, 150, 40):
        part = Search(labels, None, limits, Hotwords())
        part.load(beams)
        part.run(log_probs[first : first + 40], first)
        beams = part.beams()
    assert beams == whole.beams()
    assert part.finish({}, is_end=True) == whole.finish({}, is_end=True)


def test_pruning_by_history_keeps_the_best_of_what_no_word_can_tell_apart() -> None:
    """The compiled pruning, against that of a list of beams."""
    log_probs = random_log_probs(7, 4, 6)
    labels = Labels(Alphabet.build_alphabet(LABELS))

    def last_beams(*, prunes: bool) -> list:
        search = Search(labels, None, Limits(300, -1e9, -1e9, prunes_history=prunes), Hotwords())
        beams = [START]
        for frame, row in enumerate(log_probs):
            search.load(beams)
            search.run(row[None], frame)
            beams = search.beams()
            if not prunes:
                beams = prune_history([LMBeam(**vars(beam), lm_score=0.0) for beam in beams], 1)
        return beams

    assert last_beams(prunes=True) == last_beams(prunes=False)

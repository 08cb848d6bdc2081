"""Relative frequencies against worked examples that the field teaches from, and a naive count."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

import chainrule
from chainrule.errors import SettingError
from chainrule.features.reading.word_frequencies import WordFrequencies

POTATO = ["i say tomato", "you say tomato", "i like potatoes", "you like potatoes", "tomato tomato", "potato potato"]


def frequencies(lines: list[str], order: int = 3, *, count_markers: bool = True) -> chainrule.Frequencies:
    return chainrule.Frequencies(chainrule.Lines(lines), order=order, count_markers=count_markers)


def test_unigrams_with_markers_counted_as_words() -> None:
    found = frequencies(POTATO, 1)
    assert found.total == 28
    assert found.prob("i") * found.prob("say") * found.prob("potato") == 0.0003644314868804664
    assert found.count("<s>") == found.count("</s>") == 6


def test_unigrams_without_markers() -> None:
    found = frequencies(POTATO, 1, count_markers=False)
    assert found.total == 16
    assert found.prob("tomato") == 4 / 16
    assert found.count("<s>") == found.count("</s>") == 0
    assert sum(found.prob(word) for word in set(" ".join(POTATO).split())) == pytest.approx(1)


def test_a_conditional_probability_is_a_ratio_of_counts() -> None:
    found = frequencies(["the dog saw the cat", "the dog", "a dog the"], 2)
    assert (found.count("the", "dog"), found.count("the")) == (2, 4)
    assert found.prob("dog", "the") == 2 / 4
    assert found.prob("the", "<s>") == 2 / 3
    assert found.prob("</s>", "the") == 1 / 4


def test_every_count_is_the_naive_one() -> None:
    found = frequencies(POTATO)
    naive: Counter[tuple[str, ...]] = Counter()
    for line in POTATO:
        words = ["<s>", *line.split(), "</s>"]
        naive.update(tuple(words[i : i + n]) for n in (1, 2, 3) for i in range(len(words) - n + 1))
    kinds = sorted({word for ngram in naive for word in ngram})
    for n in (1, 2, 3):
        for ngram in itertools.product(kinds, repeat=n):
            assert found.count(*ngram) == naive[ngram]


def test_followers_of_growing_contexts() -> None:
    lines = ["i want to go to bed", "i have to go to work", "you want to go to work"]
    text = frequencies(lines, 5)
    assert text.followers("to") == {"go": 3, "work": 2, "bed": 1}
    assert text.followers("go", "to") == {"work": 2, "bed": 1}
    assert text.followers("want", "to", "go", "to") == {"bed": 1, "work": 1}
    assert text.followers("bed") == {"</s>": 1}
    assert frequencies(lines, 5, count_markers=False).followers("bed") == {}
    assert text.followers("banana") == {}
    assert text.followers()["to"] == 6
    assert "<s>" not in text.followers()
    with pytest.raises(SettingError, match="5 words of context; expected at most 4, order - 1"):
        text.followers("i", "want", "to", "go", "to")


def test_what_was_not_seen_has_no_probability() -> None:
    found = frequencies(POTATO)
    assert found.prob("banana") == found.prob("like", "banana") == found.prob("banana", "like") == 0
    assert found.count("i", "you") == 0


@pytest.mark.parametrize("words", [(), ("i", "say", "tomato", "</s>")])
def test_no_more_words_than_the_order(words: tuple[str, ...]) -> None:
    with pytest.raises(SettingError, match=f"{len(words)} words cannot be counted; expected 1 to 3"):
        frequencies(POTATO).count(*words)


@pytest.mark.parametrize(
    ("word", "count"),
    [
        ("“Hello”,", 4),
        ("«bonjour»", 3),
        ("hello…", 4),
        ("don’t", 2),
        ("“Don’t!”", 2),
        ("it's", 1),  # the counts have ’
        ("€5", 5),
        ("(hello)", 4),
        ("…", 7),  # counted itself
        ("„", None),
        ("o’hello", None),
    ],
)
def test_words_are_found_without_the_marks_around_them(word: str, count: int | None) -> None:
    counts = {"hello": 4, "bonjour": 3, "don't": 2, "it’s": 1, "5": 5, "…": 7}
    expected = None if count is None else pytest.approx(math.log(count / 22))
    assert WordFrequencies(counts).log_frequencies([word]) == [expected]


def test_words_are_counted_in_looked_up_form() -> None:
    found = WordFrequencies({"don\u2019t": 2, "don't": 1, "caf\u00e9": 4, "the": 1})
    words = ["don't", "don\u00b4t", "cafe\u0301", "ca\u00adf\u00e9", "cafe"]
    assert found.log_frequencies(words)[:4] == pytest.approx(np.log([3 / 8, 3 / 8, 4 / 8, 4 / 8]))
    assert found.log_frequencies(words)[4] is None

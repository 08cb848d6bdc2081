"""The noisy channel against the sum over all that can happen, and what it proposes against trying every text."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.errors import SettingError
from chainrule.features.correct.channel.character_channel import CONFUSIONS, Channel, Rule, channel_named, neighbours
from chainrule.features.correct.channel.lexicon import Lexicon, prior_of
from chainrule.features.correct.channel.proposals import ProposalConfig, Proposer
from chainrule.ngram.config import NGramConfig
from chainrule.text.corpus.corpus import Lines
from chainrule.verbs.training.train import train

TOY = Channel(
    "toy",
    [
        Rule("a", "b", 0.1),
        Rule("a", "", 0.05),
        Rule("ab", "ba", 0.2),
        Rule("b", "bb", 0.15),
        Rule("b", "cd", 0.1),
        Rule("ca", "b", 0.3),
        Rule("c", "c ", 0.1),
        Rule(" ", "", 0.25),
    ],
)


def prob(channel: Channel, observed: str, source: str) -> float:
    """By the definition: every step at every place."""
    if not source:
        return float(not observed)
    applicable = [rule for rule in channel.rules if source.startswith(rule.source)]
    total = 0.0
    for rule in applicable:
        if observed.startswith(rule.observed):
            total += rule.prob * prob(channel, observed[len(rule.observed) :], source[len(rule.source) :])
    if observed[:1] == source[0]:
        total += (1 - sum(rule.prob for rule in applicable)) * prob(channel, observed[1:], source[1:])
    return total


TEXTS = st.text("abcd ", max_size=6)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=6))
def test_probabilities_are_the_sum_over_all_ways(pairs: list[tuple[str, str]]) -> None:
    found = TOY.log_probs([observed for observed, _ in pairs], [source for _, source in pairs])
    assert np.exp(found).tolist() == pytest.approx([prob(TOY, *pair) for pair in pairs], abs=1e-15)


@pytest.mark.parametrize("source", ["", "a", "ab", "ca b", "bab"])
def test_the_probabilities_of_all_observed_texts_sum_to_one(source: str) -> None:
    texts = ["".join(text) for n in range(2 * len(source) + 1) for text in itertools.product("abcd ", repeat=n)]
    texts = texts if len(texts) < 500_000 else [text for text in texts if len(text) <= 6]
    assert np.exp(TOY.log_probs(texts, [source] * len(texts))).sum() == pytest.approx(1, abs=0.005)


@pytest.mark.parametrize("name", CONFUSIONS)
def test_what_comes_out_is_as_frequent_as_it_is_likely(name: str) -> None:
    channel, source = channel_named(name, 0.3), "th rn"
    rng = np.random.default_rng(3)
    counts = Counter(channel.corrupted(source, rng) for _ in range(20_000))
    texts = [text for text, _ in counts.most_common(12)]
    for text, log_prob in zip(texts, channel.log_probs(texts, [source] * len(texts)), strict=True):
        expected = math.exp(log_prob)
        assert counts[text] / 20_000 == pytest.approx(expected, abs=5 * math.sqrt(expected / 20_000))
    seen = list(counts)
    assert np.isfinite(channel.log_probs(seen, [source] * len(seen))).all()


def test_neighbours_on_the_keyboard() -> None:
    assert sorted(neighbours("s")) == list("adewxz")
    assert sorted(neighbours("Q")) == list("AW")
    for a, b in itertools.permutations("abcdefghijklmnopqrstuvwxyz", 2):
        assert (a in neighbours(b)) == (b in neighbours(a))


def test_the_rate_is_how_much_goes_wrong() -> None:
    text = "the quick brown fox jumps over the lazy dog and runs away from all of them " * 20
    for rate in (0.01, 0.1):
        channel = channel_named("keyboard", rate)
        assert channel.log_prob("qqqq", "the") == -math.inf
        per_character = channel.log_prob(text[:75], text[:75]) / 75
        assert -1.3 * rate < per_character < -0.6 * rate


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Rule("", "a", 0.1), "is not a rule"),
        (Rule("a", "a", 0.1), "is not a rule"),
        (Rule("abc", "a", 0.1), "is not a rule"),
        (Rule("a", "abc", 0.1), "is not a rule"),
        (Rule("😀", "a", 0.1), "has a character above"),
        (Rule("a", "b", 0.0), "has the probability"),
        (Rule("a", "b", float("nan")), "has the probability"),
        (Rule("a", "b", 0.99), "sum to 0.990"),
    ],
)
def test_bad_rules_are_errors(rule: Rule, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Channel("x", [rule])


@pytest.mark.parametrize("rate", [0.0, -0.1, 0.6, float("nan")])
def test_bad_rates_are_errors(rate: float) -> None:
    with pytest.raises(SettingError, match="the rate of errors is"):
        channel_named("keyboard", rate)
    with pytest.raises(SettingError, match="there is no channel called"):
        channel_named("typewriter", 0.1)  # type: ignore[arg-type]


def flat(words: list[str]) -> np.ndarray:
    """A prior that likes short words."""
    return np.array([-1.0 - 0.5 * len(word) for word in words])


def outcomes(channel: Channel, text: str, errors: int) -> set[str]:
    """All that can come out of a text with at most so many rules at work."""

    @cache
    def of(rest: str, left: int) -> frozenset[str]:
        if not rest:
            return frozenset([""])
        found = {rest[0] + tail for tail in of(rest[1:], left)}
        for rule in channel.rules if left else ():
            if rest.startswith(rule.source):
                found |= {rule.observed + tail for tail in of(rest[len(rule.source) :], left - 1)}
        return frozenset(found)

    return set(of(text, errors))


@pytest.mark.parametrize("errors", [0, 1, 2])
@given(
    st.lists(st.text("abcd", min_size=1, max_size=5), min_size=1, max_size=12).map(set),
    st.text("abcd", min_size=1, max_size=6),
)
def test_candidates_are_all_words_that_the_errors_can_have_spoilt(errors: int, words: set[str], observed: str) -> None:
    [found] = Lexicon(words, flat).candidates(TOY, [observed], [errors], 100)
    expected = {word for word in words if observed in outcomes(TOY, word, errors)} | {observed}
    if TOY.log_prob(observed, observed) > -math.inf:
        assert {candidate.text for candidate in found} == expected
    for candidate in found:
        assert candidate.channel == pytest.approx(TOY.log_prob(observed, candidate.text))
        assert candidate.prior == flat([candidate.text])[0]


def test_candidates_are_the_likeliest_first_and_no_more_than_asked_for() -> None:
    lexicon = Lexicon(["the", "then", "she", "they", "thee", "tie"], flat)
    channel = channel_named("keyboard", 0.1)
    [found] = lexicon.candidates(channel, ["teh"], [2], 2)
    totals = [candidate.channel + candidate.prior for candidate in found]
    assert found[0].text == "the"
    assert found[-1].text == "teh"  # itself, though it is no word
    assert len(found) == 3
    assert totals[:2] == sorted(totals[:2], reverse=True)


def test_lexicons_hold_words_alone() -> None:
    lexicon = Lexicon(["don't", "a", "￭,", "<unk>", "x" * 41, "3rd", "naïve", "a_b", "'s"], flat)
    assert lexicon.words.tolist() == ["3rd", "a", "don't", "naïve"]
    assert "don't" in lexicon
    assert "a_b" not in lexicon
    with pytest.raises(SettingError, match="there is no word among the tokens"):
        Lexicon(["￭,", "</s>"], flat)


def test_the_prior_of_a_word_is_that_of_the_unigrams_and_of_its_spelling() -> None:
    model = train(Lines(["a b c", "b a", "a a b"]), NGramConfig(order=3), tokenizer="whitespace")
    prior = prior_of(model.language_model, model.tokenizer, model.speller)
    found = prior(["a", "zebra", "b", "q"])
    unigrams = model.language_model.next_log_probs(model.language_model.start([np.array([0], np.int32)]))[0]
    spelled = model.speller.log_probs([b"zebra", b"q"]) + math.log(model.speller.unseen_types) + unigrams[0]
    expected = [unigrams[model.tokenizer.vocabulary.id_of("a")], spelled[0]]
    expected += [unigrams[model.tokenizer.vocabulary.id_of("b")], spelled[1]]
    assert found.tolist() == pytest.approx(expected, rel=1e-5)


def liked(words: list[str]) -> np.ndarray:
    """A prior that likes short words of the lexicon, and no others."""
    return np.array([-1.0 - 0.5 * len(word) if word in WORDS else -40.0 for word in words])


WORDS = ["at", "a", "cat", "that", "hat", "the", "he", "t"]


@pytest.mark.parametrize(
    "observed", ["teh cat", "thecat", "th e hat", "a at", "cat , th at", "tha t.", "", " - ", "xyzzy the"]
)
def test_proposals_are_what_trying_all_texts_finds(observed: str) -> None:
    channel = channel_named("keyboard", 0.2)
    proposer = Proposer(channel, Lexicon(WORDS, liked), ProposalConfig(best=200, candidates=50))
    [found] = proposer.propose([observed])
    totals = [proposal.channel + proposal.prior for proposal in found]
    assert totals == sorted(totals, reverse=True)
    assert len({proposal.text for proposal in found}) == len(found)
    exact = channel.log_probs([observed] * len(found), [proposal.text for proposal in found])
    for proposal, log_prob in zip(found, exact, strict=True):
        assert log_prob - 0.7 < proposal.channel <= log_prob + 1e-9  # the one likeliest way, of all
    if set(observed) <= set("cathe "):
        texts = [" ".join(words) for n in range(4) for words in itertools.product(WORDS, repeat=n)]
        log_probs = channel.log_probs([observed] * len(texts), texts)
        sums = [log_prob + liked(text.split()).sum() for log_prob, text in zip(log_probs, texts, strict=True)]
        assert found[0].text == texts[int(np.argmax(sums))]


def test_what_stands_between_words_may_have_lost_a_space() -> None:
    proposer = Proposer(channel_named("keyboard", 0.2), Lexicon(WORDS, flat))
    [found] = proposer.propose(["the cat -a hat."])
    texts = {proposal.text for proposal in found}
    assert {"the cat - a hat.", "the cat -a hat .", "the cat -a hat."} <= texts
    assert not any(text != text.strip() for text in texts)


@pytest.mark.parametrize("setting", [{"best": 0}, {"candidates": 0}, {"errors": 3}, {"unknown_errors": -1}])
def test_bad_settings_are_errors(setting: dict[str, int]) -> None:
    with pytest.raises(SettingError, match=r"is -?\d; expected"):
        ProposalConfig(**setting)

"""Errors of grammar: their channel against its rules, learning against what made the errors, corrections in context."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.errors import ModelFormatError, SettingError, TextError
from chainrule.features.correct.channel.files import read_grammar
from chainrule.features.correct.channel.inflections import Inflections, english_inflections, read_inflections
from chainrule.features.correct.channel.learning import align, learn_grammar
from chainrule.features.correct.channel.word_channel import (
    WordChannel,
    WordRule,
    english_grammar,
    is_spaced,
    words_and_marks,
)
from chainrule.features.correct.corrector.candidates import Grammar, Proposal
from chainrule.features.correct.corrector.corrector import add_rewrites
from chainrule.features.correct.corrector.spans import chunks_of
from chainrule.features.correct.corrector.word_index import WordIndex

if TYPE_CHECKING:
    from pathlib import Path

SENTENCES = [
    "He goes to the river every day .",
    "She went to the house , and he went home .",
    "The dog is in the house .",
    "There are several reasons for this .",
    "We walked from the house to the river .",
    "I saw a dog in the house .",
    "The dogs are in the river .",
    "He is a good man .",
]
NONE = Inflections(())


@pytest.fixture(scope="module")
def lm() -> chainrule.Model:
    return chainrule.train(chainrule.Lines(SENTENCES * 5), chainrule.NGramConfig(order=4), tokenizer="whitespace")


def test_forms_come_from_rules_a_list_and_files(tmp_path: Path) -> None:
    words = {"stop", "stops", "stopped", "go", "went", "city", "cities", "even", "this", "thi", "large", "largest"}
    forms = english_inflections(words)
    assert set(forms.others("stopped")) == {"stop", "stops"}
    assert forms.others("went") == ["go"]
    assert forms.others("cities") == ["city"]
    assert forms.others("largest") == ["large"]
    assert forms.others("this") == forms.others("even") == []
    agid = "lie V: lied {fib}, lay {recline} | lain | lying | lies 2\nleaf N: leaves~ 1.2\n"
    (tmp_path / "agid.txt").write_text(agid)
    (tmp_path / "plain.txt").write_text("lie lay lain\nleaf leaves\n")
    assert read_inflections(tmp_path / "agid.txt").others("lay") == ["lie", "lied", "lain", "lying", "lies"]
    assert read_inflections(tmp_path / "plain.txt").others("leaves") == ["leaf"]
    for content in (b"", b"one\ntwo\n", b"\xff go"):
        (tmp_path / "bad.txt").write_bytes(content)
        with pytest.raises(TextError, match=r"bad\.txt"):
            read_inflections(tmp_path / "bad.txt")


def test_errors_are_drawn_as_often_as_the_rules_say() -> None:
    rules = (WordRule("the", "", 0.3), WordRule("the", "a", 0.1), WordRule("", "of", 0.02))
    channel = WordChannel("test", rules, inflected=0.5)
    rng = np.random.default_rng(0)
    draws = 4000
    texts = [channel.corrupted("see the dog", Inflections([["dog", "dogs"]]), rng).split() for _ in range(draws)]
    for share, prob in (
        (sum("the" in text for text in texts), 0.6),
        (sum("a" in text for text in texts), 0.1),
        (sum("dogs" in text for text in texts), 0.5),
        (sum(text.count("of") for text in texts), 0.04),
    ):
        assert abs(share / draws - prob) < 5 * math.sqrt(prob * (1 - prob) / draws)


def test_texts_keep_their_spaces_and_capitals() -> None:
    sure = WordChannel("test", (WordRule("the", "", 0.9), WordRule(",", "", 0.9), WordRule("a", "an", 0.9)))
    rng = np.random.default_rng(1)
    plain = {sure.corrupted("A dog, the man.", NONE, rng) for _ in range(60)}
    assert "An dog man." in plain
    spaced = {sure.corrupted("The dog , a man .  ", NONE, rng) for _ in range(60)}
    assert "dog an man .  " in spaced
    assert words_and_marks("do n't, he 's (so)") == ["do", "n't", ",", "he", "'s", "(", "so", ")"]
    assert is_spaced("so , it")
    assert not is_spaced("so, it")


@pytest.mark.parametrize(
    "rules",
    [
        (WordRule("a", "a", 0.1),),
        (WordRule("a", "b", 0.0),),
        (WordRule("a", "b", math.nan),),
        (WordRule("a", "b", 0.5), WordRule("a", "c", 0.5)),
    ],
)
def test_wrong_rules_are_errors(rules: tuple[WordRule, ...]) -> None:
    with pytest.raises(SettingError):
        WordChannel("test", rules)
    for rate in (0.0, 0.6, math.nan):
        with pytest.raises(SettingError, match="rate"):
            english_grammar(rate)


def test_learning_finds_the_rates_of_the_channel_that_made_the_errors() -> None:
    rules = (WordRule("the", "", 0.3), WordRule("in", "on", 0.2), WordRule("", "of", 0.02))
    forms = Inflections([["dog", "dogs"], ["walk", "walks", "walked"]])
    channel = WordChannel("test", rules, inflected=0.1, uncapitalised=0.25)
    rng = np.random.default_rng(0)
    rights = ["The dog walks in the park , and the man sleeps ."] * 1500
    pairs = [(channel.corrupted(right, forms, rng), right) for right in rights]
    prior = WordChannel("prior", (WordRule("in", "at", 0.02), WordRule("in", "on", 0.02)), inflected=0.3)
    learned = learn_grammar(pairs, forms, prior)
    probs = {(rule.meant, rule.written): rule.prob for rule in learned.rules}
    for rule in rules:
        assert probs[rule.meant, rule.written] == pytest.approx(rule.prob, abs=0.03)
    assert 0 < probs["in", "at"] < 0.02
    assert learned.inflected == pytest.approx(0.1, abs=0.03)
    with pytest.raises(SettingError, match="no pair"):
        learn_grammar([("a b", "a b")], forms, prior)


def test_alignment_prefers_forms_of_one_word() -> None:
    forms = Inflections([["go", "goes", "went"]])

    def alike(meant: str, written: str) -> bool:
        return written in forms.others(meant)

    assert list(align(["he", "go", "home"], ["he", "also", "went", "home"], alike))[::-1] == [
        ("he", "he"),
        ("also", ""),
        ("went", "go"),
        ("home", "home"),
    ]


def test_a_file_is_read_back_and_broken_ones_are_named(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    learned = chainrule.train_grammar([("he go home", "he goes home"), ("I go to home", "I go home")], path)
    assert read_grammar(path) == learned
    content = path.read_text()
    other, wrong_rule = content.replace('"chainrule_grammar"', '"x"'), content.replace('"the",', "3,", 1)
    endless = re.sub(r'"inflected": [\d.]+', f'"inflected": {10**400}', content)
    for broken in ("", "[]", other, wrong_rule, content[:99], endless):
        path.write_text(broken)
        with pytest.raises(ModelFormatError, match=r"g\.json"):
            read_grammar(path)


def test_proposals_cost_what_the_channel_says() -> None:
    channel = WordChannel("test", (WordRule("the", "", 0.3), WordRule("in", "on", 0.2), WordRule("", "of", 0.05)))
    words = WordIndex({"the": -1.0, "in": -1.0, "on": -1.0, "of": -1.0, "dog": -2.0})
    text = "on dog of dog"
    chunks = chunks_of(text)
    rows = [[Proposal(1, chunk.text, 0.0)] for chunk in chunks]
    first, second, third, _ = Grammar(channel, NONE, words).propose(text, chunks, rows)
    assert {(one.chunks, one.text): round(math.exp(one.log_prob), 9) for one in first} == {
        (1, "on"): 1.0,
        (1, "in"): 0.2,
        (1, "The on"): 0.3,
    }
    assert (1, "the dog") in {(one.chunks, one.text) for one in second}
    [lost] = [one for one in third if one.chunks == 2]
    assert (lost.text, round(math.exp(lost.log_prob), 9)) == ("dog", 0.05)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("He go to the river every day .", "He goes to the river every day ."),
        ("There are several reason for this .", "There are several reasons for this ."),
        ("She went to house , and he went home .", "She went to the house , and he went home ."),
        ("He is the good man .", "He is a good man ."),
        ("He is good man .", "He is a good man ."),
        ("There are every several reasons for this .", "There are several reasons for this ."),
        ("i saw a dog in the house .", "I saw a dog in the house ."),
        ("She went to the house , and he went home", "She went to the house , and he went home ."),
        ("The dogs is in teh river .", "The dogs are in the river ."),
    ],
)
def test_grammar_is_put_right_in_context(lm: chainrule.Model, wrong: str, right: str) -> None:
    grammar = WordChannel(
        "test", (*english_grammar(0.1).rules, WordRule("", "every", 0.05)), inflected=0.05, uncapitalised=0.1
    )
    corrector = chainrule.corrector(lm, grammar=grammar)
    [one] = corrector.correct([wrong])
    assert one.corrected == right
    assert one.with_changes(one.changes) == right
    assert all(wrong[change.start : change.stop] == change.before for change in one.changes)
    [same] = chainrule.corrector(lm, grammar=grammar).correct([right])
    assert same.corrected == right


def test_a_model_of_text_with_spaces_before_marks_reads_marks_without_them(lm: chainrule.Model) -> None:
    corrector = chainrule.corrector(lm, grammar=english_grammar(0.1))
    [spaced] = corrector.correct(["She went to the house , and he go home ."])
    [one] = corrector.correct(["She went to the house, and he go home."])
    assert one.corrected == spaced.corrected.replace(" ,", ",").replace(" .", ".")
    assert [change.after for change in one.changes] == [change.after for change in spaced.changes] == ["went"]


def test_what_follows_a_title_or_an_initial_begins_no_sentence() -> None:
    chunks = chunks_of('"Dear Mr. Nguyen and J. Smith. Was it I. Perhaps')
    assert [chunk.text for chunk in chunks if chunk.begins_sentence] == ['"Dear', "Was", "Perhaps"]


def test_of_for_have_is_grammar() -> None:
    text = chainrule.Lines(["he could have seen the house of a man", "they should have known"] * 5)
    lm = chainrule.train(text, chainrule.NGramConfig(order=3))
    [one] = chainrule.corrector(lm, grammar=english_grammar(0.1)).correct(["they could of seen the house of a man"])
    assert one.corrected == "they could have seen the house of a man"


class _Stub:
    """A corrector that rewrites one text and likes one word."""

    def __init__(self, rewriting: str, word: str) -> None:
        self._rewriting, self._word = rewriting, word

    def propose(self, texts: list[str]) -> list[list[str]]:
        return [[self._rewriting] for _ in texts]

    def log_probs(self, texts: list[str], meant: list[str]) -> np.ndarray:
        return np.array([50.0 if self._word in text else 0.0 for text in meant])


def test_a_learnt_corrector_proposes_and_weighs(lm: chainrule.Model) -> None:
    text = "He goes to the cinema every day ."
    corrector = chainrule.corrector(lm, config=chainrule.CorrectionConfig(learned_weight=2.0, beam=8))
    assert "river" not in corrector.correct([text])[0].corrected
    corrector._learned = _Stub("He goes to the river every day .", "river")  # type: ignore[assignment]
    assert corrector.correct([text])[0].corrected == "He goes to the river every day ."
    corrector._learned = _Stub("He goes to the river every day .", "cinema")  # type: ignore[assignment]
    assert "cinema" in corrector.correct([text])[0].corrected


@pytest.mark.parametrize(
    ("rewriting", "proposed"),
    [
        ("b c", (0, 2, "b")),
        ("a x c", (1, 1, "x")),
        ("a x b c", (1, 1, "x b")),
        ("a b c d", (2, 1, "c d")),
        ("a b", (2, 1, "")),
        ("a", (1, 2, "")),
        ("", None),
    ],
)
def test_rewritings_become_short_proposals(rewriting: str, proposed: tuple[int, int, str] | None) -> None:
    chunks = chunks_of("a b c")
    rows = [[Proposal(1, chunk.text, 0.0)] for chunk in chunks]
    found = add_rewrites(chunks, rows, [rewriting])
    new = [(i, one.chunks, one.text) for i, row in enumerate(found) for one in row[1:]]
    assert new == ([] if proposed is None else [proposed])


def test_a_pair_model_is_a_corrector(lm: chainrule.Model) -> None:
    pairs = chainrule.Pairs([text.lower() for text in SENTENCES], SENTENCES)
    config = chainrule.Seq2SeqConfig(width=8, heads=2, encoder_layers=1, decoder_layers=1, max_source=12)
    learned = chainrule.train_pairs(
        pairs, config, tokenizer="whitespace", training=chainrule.TrainingConfig(steps=2, valid_share=0)
    )
    weight = chainrule.CorrectionConfig(learned_weight=0.0)
    marked = f"{SENTENCES[0]} </s> <unk>"
    texts = [*SENTENCES, "", "so " * 40, marked]  # the last but one is longer than the model reads
    with_it = chainrule.corrector(lm, learned=learned, config=weight).correct(texts)
    assert [one.corrected for one in with_it[:8]] == SENTENCES
    assert with_it[8].corrected == ""
    assert with_it[10].corrected == marked


def test_wrong_settings_are_clear_errors(lm: chainrule.Model, tmp_path: Path) -> None:
    for arguments, message in (
        ({"grammar": "german"}, "german"),
        ({"grammar_rate": 0.1}, "grammar"),
        ({"grammar": "english", "grammar_rate": 0.9}, "rate"),
        ({"grammar": english_grammar(0.1), "grammar_rate": 0.1}, "of its own"),
        ({"inflections": tmp_path}, "grammar"),
    ):
        with pytest.raises(SettingError, match=message):
            chainrule.corrector(lm, **arguments)

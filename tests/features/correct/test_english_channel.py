"""The channel of English spelling, the rate of errors that is estimated, and words that stand alone."""

from __future__ import annotations

from importlib.resources import files
from string import ascii_lowercase
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule
from chainrule.features.correct.channel.english import common_edits, english_channel, read_rules, write_rules
from chainrule.features.correct.channel.learning import mark_ends
from chainrule.features.correct.corrector.error_models import WordErrorModel
from chainrule.features.correct.corrector.error_rate import estimate_rate
from chainrule.features.correct.corrector.lattice import NOTHING, Variants, local_log_probs
from chainrule.features.correct.corrector.word_index import WordIndex
from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Float64
    from numpy import ndarray

SENTENCES = [
    "I definitely think that this is relevant",
    "she is an independent woman and likes him a lot",
    "he read all the documents in the office",
    "it was of great benefit to the poor",
    "they walked to the cemetery",
    "we have to separate the two",
    "a man was desperate in the desert",
    "I don't know what happened to him",
    "many thanks , he paid for the book",
]
WRONG = {
    "thanx": "thanks",
    "payed": "paid",
    "definately": "definitely",
    "relevent": "relevant",
    "independant": "independent",
    "documants": "documents",
    "benifit": "benefit",
    "cemetary": "cemetery",
    "seperate": "separate",
    "dont": "don't",
    "happend": "happened",
}


@pytest.fixture(scope="module")
def lm() -> chainrule.Model:
    return chainrule.train(chainrule.Lines(SENTENCES * 5), chainrule.NGramConfig(order=3))


@given(word=st.text(ascii_lowercase, min_size=1, max_size=12), data=st.data())
def test_every_edit_of_a_word_is_possible(word: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(word) - 1))
    letter = data.draw(st.sampled_from(ascii_lowercase))
    edits = [word[:at] + word[at + 1 :], word[:at] + letter + word[at + 1 :], word[:at] + letter + word[at:]]
    edits += [
        word[:at] + word[at : at + 2][::-1] + word[at + 2 :],
        word + letter,
        f"{word[:at]}'{word[at:]}"[at == 0 :],
    ]
    log_probs = english_channel().log_probs([mark_ends(edit) for edit in edits], [mark_ends(word)] * len(edits))
    assert np.isfinite(log_probs).all()
    assert (log_probs < 0).all()


def test_endings_that_sound_alike_are_likelier_than_keys_that_are_far_apart() -> None:
    def log_prob(wrong: str, right: str) -> float:
        return english_channel().log_prob(mark_ends(wrong), mark_ends(right))

    assert log_prob("independant", "independent") > log_prob("independpnt", "independent") + 2
    assert log_prob("acomodate", "accommodate") > log_prob("accohmodape", "accommodate") + 2
    assert log_prob("recieve", "receive") > log_prob("rceeive", "receive")


def test_the_file_of_rules_has_no_words_and_reads_as_it_is_written() -> None:
    text = files("chainrule.features.correct.channel").joinpath("english_rules.txt").read_text("utf-8")
    rules = read_rules(text)
    assert len(text) < 10_000
    assert len(rules) == 1500
    assert max(len(side) for sides in rules for side in sides) == 2
    assert read_rules(write_rules(rules)) == rules
    halves = read_rules(write_rules(dict(common_edits())))
    assert all(abs(np.log2(prob / halves[sides])) <= 0.2501 for sides, prob in common_edits())


def flat(words: list[str]) -> Float64[ndarray, " words"]:
    return np.array([-3.3 * len(word) - 5 for word in words])  # a letter among 27, a tenth of a thousandth new


@pytest.mark.parametrize(
    ("texts", "least", "most"),
    [
        (sorted(WRONG), 0.3, 0.95),
        (SENTENCES, 0.001, 0.01),
        ([f"{sentence} seperate definately" for sentence in SENTENCES], 0.15, 0.3),  # 16 of 71 words
        (["He met Wilberforce in Samarkand"] * 9, 0.001, 0.01),  # names count as right
        ([], 0.02, 0.02),
    ],
    ids=["a list of errors", "right texts", "some errors", "names", "nothing"],
)
def test_the_rate_of_errors_is_that_of_the_texts(texts: list[str], least: float, most: float) -> None:
    counts: dict[str, int] = {}
    for word in " ".join(SENTENCES * 50 + ["he met in"] * 9).split():
        counts[word] = counts.get(word, 0) + 1
    total = sum(counts.values())
    words = WordIndex({word: float(np.log(count / total)) for word, count in counts.items()})
    rate = estimate_rate(texts, words, WordErrorModel(english_channel(), 0.2, by_length=True), flat)
    assert least <= rate <= most


def test_noise_misspells_so_many_words_and_correction_finds_them(lm: chainrule.Model) -> None:
    texts = ["We have to separate the two DOCUMENTS in 1999"] * 400
    lines = list(chainrule.noise(chainrule.Lines(texts), channel="english", rate=0.1, seed=3))
    words = texts[0].split()
    wrong = [[a != b for a, b in zip(words, line.observed.split(" "), strict=True)] for line in lines]
    shares = np.mean(wrong, axis=0)
    expected = np.array([1 - 0.9 ** (len(word) / 5) for word in words])
    expected[-1] = 0  # a number
    assert np.abs(shares - expected).max() < 4 * np.sqrt(0.15 * 0.85 / 400)
    assert all(line.observed.split(" ")[6].isupper() and line.observed.split(" ")[0][0].isupper() for line in lines)
    again = list(chainrule.noise(chainrule.Lines(texts), channel="english", rate=0.1, seed=3))
    assert [line.observed for line in again] == [line.observed for line in lines]
    observed = [
        line.observed.replace("DOCUMENTS", "documents") for line in lines if line.observed.split()[6] == "DOCUMENTS"
    ]
    mended = [one.corrected for one in chainrule.corrector(lm).correct(observed)]
    right = "We have to separate the two documents in 1999"
    assert np.mean([one == right for one in mended]) > np.mean([one == right for one in observed]) + 0.3


def test_longer_words_are_wrong_more_often() -> None:
    errors = WordErrorModel(english_channel(), 0.1, by_length=True)
    words = ["of", "there", "incomprehensible"]
    right = np.exp(errors.log_probs(words, words))
    assert right == pytest.approx([0.9 ** (len(word) / 5) for word in words])


@pytest.mark.parametrize("wrong", sorted(WRONG))
def test_misspellings_are_mended_in_lists_and_in_sentences(lm: chainrule.Model, wrong: str) -> None:
    sentence = next(one for one in SENTENCES if WRONG[wrong] in one.split())
    corrector = chainrule.corrector(lm)
    alone, inside = corrector.correct([wrong, sentence.replace(WRONG[wrong], wrong)])
    assert alone.corrected == WRONG[wrong]
    assert inside.corrected == sentence


def test_a_lost_space_after_a_short_frequent_word_is_put_back(lm: chainrule.Model) -> None:
    [one] = chainrule.corrector(lm).correct(["she is an independent woman and likes him alot"])
    assert one.corrected == "she is an independent woman and likes him a lot"


def test_a_word_alone_has_no_context(lm: chainrule.Model) -> None:
    """`the` never begins or ends a text, and still is the likeliest source of a misspelling of it."""
    [one] = chainrule.corrector(lm, rate=0.9).correct(["thhe"])
    assert one.corrected == "the"


def test_local_log_probs_are_those_of_the_model(lm: chainrule.Model) -> None:
    texts = ["she is", " the cemetery", " an independent", " woman", " to the two"]
    encoded = lm.tokenizer.encode_texts([text.strip() for text in texts])
    variants = Variants(
        {text: i for i, text in enumerate(texts)}, encoded.ids, np.flatnonzero(encoded.ids == END), np.zeros(len(texts))
    )
    before, middle, after = [0, 0, NOTHING], [2, 1, 3], [3, NOTHING, 4]
    rows = [variants.of(text)[0] for text in texts]
    expected = []
    for b, m, a in zip(before, middle, after, strict=True):
        prefix = rows[b] if b >= 0 else ()
        tokens = [*rows[m], *(rows[a][:1] if a >= 0 else ())]
        [scores] = lm.language_model.score(
            [np.array(tokens, np.int32)], prefixes=[np.array(prefix, np.int32)], end=False
        )
        expected.append(scores.sum())
    assert local_log_probs(lm.language_model, variants, before, middle, after) == pytest.approx(expected, abs=1e-5)


def test_a_short_line_of_misspelled_words_is_not_taken_for_another_language() -> None:
    lm = chainrule.train(chainrule.Lines(["I received the letter from my friend"] * 9))
    corrector = chainrule.corrector(lm)
    assert corrector.correct(["I recieved teh leter"])[0].corrected == "I received the letter"
    assert corrector.correct(["Ich habe gestern geschlafen"])[0].note is not None


def test_code_is_left_alone(lm: chainrule.Model) -> None:
    [one] = chainrule.corrector(lm).correct(['documants("seperate") he read the documants'])
    assert one.corrected == 'documants("seperate") he read the documents'

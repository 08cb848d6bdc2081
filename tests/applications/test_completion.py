from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule import Lines, Model, NGramConfig
from chainrule.errors import SettingError, TextError

if TYPE_CHECKING:
    from pathlib import Path

LINES = [
    "the cat sat on the mat",
    "the cat sat on the map",
    "the cattle sat down",
    "the catalogue (well-known) lists cats",
    "she said: the cat's mat",
] * 5


def trained(tokenizer: str, order: int = 3) -> Model:
    return chainrule.train(Lines(LINES), NGramConfig(order=order), tokenizer=tokenizer)


@pytest.fixture(scope="module")
def words() -> Model:
    return trained("word")


@pytest.fixture(scope="module")
def novel(fixtures: Path) -> Model:
    return chainrule.train(fixtures / "train.txt", NGramConfig(order=3), tokenizer="whitespace")


def shown(model: Model, text: str, n: int = 5) -> list[str]:
    return [completion.text for completion in model.complete(text, n)]


@pytest.mark.parametrize("typed", ["", "k", "ka", "ka vi n", "unseen v", "n"])
def test_words_are_those_that_begin_so_ranked_by_the_model(typed: str, novel: Model) -> None:
    *before, partial = typed.split(" ")
    vocabulary = novel.tokenizer.vocabulary
    context = np.array([vocabulary.id_of(word) for word in before], np.int32)
    [row] = novel.language_model.next_log_probs(novel.language_model.start([context])).astype(float)
    fitting = [i for i, token in enumerate(vocabulary.tokens()) if i > 2 and token.startswith(partial.encode())]
    best = sorted(fitting, key=lambda i: (-row[i], i))[:4]
    total = math.log(sum(math.exp(row[i]) for i in fitting)) if partial else 0.0
    found = novel.complete(typed, 4)
    first_words = [completion.text.split()[0] for completion in found]
    # What is typed already is shown only with a word after it.
    is_shown = {word: word != partial or partial in first_words for word in map(vocabulary.token, best)}
    assert first_words == [word for word, shown in is_shown.items() if shown]
    for completion in found:
        if " " not in completion.text:
            assert completion.log_prob == pytest.approx(row[vocabulary.id_of(completion.text)] - total, abs=1e-4)


@pytest.mark.parametrize("tokenizer", ["word", "character", "byte"])
def test_what_is_added_continues_what_is_typed(tokenizer: str) -> None:
    model = trained(tokenizer, 5)
    for line in LINES[:5]:
        for end in range(len(line) + 1):
            for completion in model.complete(line[:end]):
                assert completion.added.strip()
                stem = line[:end].split(" ")[-1]
                assert completion.text == (stem + completion.added).strip()
                assert completion.log_prob <= 1e-6


def test_each_tokenizer_completes_words(words: Model) -> None:
    assert shown(words, "the ca")[:3] == ["cat sat on the", "cattle sat down", "catalogue (well-known) lists cats"]
    assert shown(words, "the catt") == ["cattle sat down"]
    for tokenizer in ("character", "byte"):
        model = trained(tokenizer, 6)
        assert shown(model, "the ca")[0].split()[0] == "cat"
        assert shown(model, "the catt")[0].startswith("cattle")


def test_a_phrase_goes_on_while_its_next_word_is_likelier_than_not(words: Model) -> None:
    assert shown(words, "she sa")[0].startswith("said: the cat")
    [sat, *_] = words.complete("the cat ", 1)
    assert sat.text.startswith("sat on the")


def test_after_a_space_come_the_next_words(words: Model) -> None:
    assert shown(words, "the cat sat on ")[0].split()[0] == "the"
    assert all(not completion.added.startswith(" ") for completion in words.complete("the cat sat "))


def test_after_a_whole_word_that_nothing_longer_begins_with_come_the_next_words_with_their_space(words: Model) -> None:
    [best, *_] = words.complete("the cattle", 1)
    assert best.added.startswith(" sat")
    assert best.text.startswith("cattle sat")


def test_words_that_touch_others_are_completed_in_their_place(words: Model) -> None:
    assert shown(words, "the catalogue (we")[0].startswith("(well-known)")
    assert shown(words, "the catalogue (well-kn")[0].startswith("(well-known)")


def test_a_word_that_the_vocabulary_lacks_has_no_completion(words: Model) -> None:
    assert words.complete("the zzz") == []


def test_no_marker_is_ever_shown(novel: Model) -> None:
    for typed in ("", "ka ", "<", "ka", "zzz "):
        assert not any("<unk>" in text or "</s>" in text or "<s>" in text for text in shown(novel, typed, 50))


def test_impossible_wishes_are_errors(words: Model) -> None:
    with pytest.raises(SettingError, match="n is 0; expected 1 or more"):
        words.complete("the", 0)
    with pytest.raises(TextError, match="<s>"):
        words.complete("the <s> cat")


@pytest.fixture(scope="module")
def letters() -> Model:
    lines = ["I received the letter from my friend", "there is something wrong with the letter", "he went from home"]
    return chainrule.train(Lines([*lines, "please fill in the form"] * 9), NGramConfig(order=3))


def test_the_word_just_typed_is_corrected_once_it_has_ended(letters: Model) -> None:
    corrector = chainrule.corrector(letters)
    for typed in ("I recieved", "I recieved ", "teh\nI recieved  "):  # no word begins so; or a space has ended it
        *others, last = letters.complete(typed, 3, corrector=corrector)
        assert others == letters.complete(typed, 3)
        assert last.text == "received"
        assert typed[: len(typed) - last.replaces] + last.added == typed.replace("recieved", "received")
        assert math.log(0.5) <= last.log_prob <= 0
    for typed in ("I rec", "I received ", "", " ", "the form ", "see http://recieved.com "):
        assert letters.complete(typed, 3, corrector=corrector) == letters.complete(typed, 3)


def test_a_known_word_that_does_not_fit_is_corrected_in_its_context(letters: Model) -> None:
    corrector = chainrule.corrector(letters, config=chainrule.CorrectionConfig(weight=3.0))
    *_, last = letters.complete("the letter form ", 3, corrector=corrector)
    assert (last.text, last.replaces) == ("from", len("form "))
    # As the whole beam corrects it where nothing stands before or after that could change, too.
    [whole] = corrector.correct(["the letter form my friend"])
    assert whole.corrected == "the letter from my friend"


def test_completions_in_a_form_are_those_that_can_still_have_it() -> None:
    text = chainrule.Lines(["the man was old", "the woman went home", "the child was young", "the man had it"] * 3)
    model = chainrule.train(text, chainrule.NGramConfig(order=3))
    form = "the (man|woman) (was|went) [a-z]{3,5}"

    def words(typed: str) -> set[str]:
        return {completion.text.split()[0] for completion in model.complete(typed, 9, regex=form)}

    assert words("") == {"the"}
    assert words("the ") == {"man", "woman"}
    assert words("the m") == {"man"}
    assert words("the man ") == {"was", "went"}
    assert words("the man was ") <= {"old", "home", "young", "the", "man", "was", "went", "had", "woman", "child"}
    assert words("the child ") == set()
    assert words("a") == set()
    with pytest.raises(SettingError, match="regex cannot be enforced"):
        model.complete("the", regex="(")

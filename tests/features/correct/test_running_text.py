"""Texts of several lines: read as running text, corrected in their lines."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import chainrule
from chainrule.features.correct.corrector.spans import Change, apply_changes, in_lines, running_texts

if TYPE_CHECKING:
    from chainrule.features.correct.corrector.corrector import Corrector
    from chainrule.models.language_models import CausalModel

WORDS = {"motion", "well", "known", "the", "some", "times", "sometimes", "letter", "from"}


@pytest.fixture(scope="module")
def model() -> CausalModel:
    lines = ["I received the letter from my friend", "there is something wrong with the letter", "he sometimes ran"]
    return chainrule.train(chainrule.Lines(lines * 9), chainrule.NGramConfig(order=3))


@pytest.fixture(scope="module")
def corrector(model: CausalModel) -> Corrector:
    return chainrule.corrector(model)


def test_lines_are_put_together_and_words_that_a_hyphen_cuts() -> None:
    text = "  the mo-\n tion, well-\r\nknown\n\n \nsome\nmore\n"
    first, second = running_texts(text, WORDS.__contains__)
    assert (first.text, second.text) == ("the motion, well-known", "some more")
    assert text[first.start :].startswith("the mo-")
    assert text[second.start :] == "some\nmore\n"
    assert [one.text for one in running_texts("one line", WORDS.__contains__)] == ["one line"]
    assert running_texts("\n \n", WORDS.__contains__) == []


def _changed(text: str, before: str, after: str) -> str:
    """A text after a change of its running text."""
    [running] = running_texts(text, WORDS.__contains__)
    start = running.text.index(before)
    change = in_lines(Change(start, start + len(before), before, after, 1.0), running, text)
    assert change.before == text[change.start : change.stop]
    return apply_changes(text, [change])


@pytest.mark.parametrize(
    ("text", "before", "after", "expected"),
    [
        ("the motoin\nof it", "motoin", "motion", "the motion\nof it"),
        ("of\nthe motoin", "motoin", "motion", "of\nthe motion"),
        ("the me-\ntion of it", "metion", "motion", "the mo-\ntion of it"),
        ("the me-\n  tion of it", "metion", "motion", "the mo-\n  tion of it"),
        ("well-\nknown to", "well-known", "ill-known", "ill-\nknown to"),
        ("he some\ntimes ran", "some times", "sometimes", "he sometimes\nran"),
        ("he some\ntimes", "some times", "sometimes", "he sometimes"),
        ("he a\nlot of", "a lot", "much a lot", "he much\na lot of"),
        ("fromthe-\nletter", "fromtheletter", "from the letter", "from the\nletter"),
        ("a-\nb c", "ab", "x", "x\nc"),
    ],
)
def test_changes_keep_the_lines(text: str, before: str, after: str, expected: str) -> None:
    assert _changed(text, before, after) == expected


def test_random_changes_do_what_they_do_in_running_text() -> None:
    rng = random.Random(0)
    for _ in range(500):
        parts = [rng.choice(["the", "letter", "mo", "tion", "well", "x"]) for _ in range(rng.randint(2, 8))]
        text = parts[0] + "".join(rng.choice([" ", "\n", "-\n", " \n  "]) + part for part in parts[1:])
        [running] = running_texts(text, WORDS.__contains__)
        start = rng.randrange(len(running.text))
        stop = rng.randint(start + 1, len(running.text))
        change = Change(start, stop, running.text[start:stop], rng.choice(["y", "some thing", "longer-word"]), 1.0)
        expected = "".join(apply_changes(running.text, [change]).split())
        result = apply_changes(text, [in_lines(change, running, text)])
        # Without white space, and without hyphens at the ends of lines, both are the same.
        assert "".join(result.replace("-\n", "\n").split()).replace("-", "") == expected.replace("-", "")


def test_a_page_keeps_its_lines_and_its_empty_ones(corrector: Corrector) -> None:
    page = "I recieved teh let-\nter form my\nfreind\n\n\nthere is some-\nthnig wrong\n"
    [one] = corrector.correct([page])
    assert one.corrected == "I received the let-\nter from my\nfriend\n\n\nthere is some-\nthing wrong\n"
    assert [change.before for change in one.changes] == ["recieved", "teh", "form", "freind", "some-\nthnig"]
    assert all(page[change.start : change.stop] == change.before for change in one.changes)
    paragraphs = ["I recieved teh letter form my freind", "there is somethnig wrong"]
    assert [one.corrected.replace("-\n", "").split() for one in corrector.correct([page])] == [
        " ".join(part.corrected for part in corrector.correct(paragraphs)).split()
    ]


def test_lines_given_from_python_keep_their_newlines(model: CausalModel) -> None:
    texts = ["the letetr\nfrom my friend", "from my freind\n"]
    [first, second] = chainrule.correct(chainrule.Lines(texts), model)
    assert (first.text, first.corrected) == (texts[0], "the letter\nfrom my friend")
    assert (second.text, second.corrected) == ("from my freind", "from my friend")

"""Scanned texts: a channel that knows of marks corrects them, and signs that were letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import chainrule

if TYPE_CHECKING:
    from chainrule.features.correct.channel.character_channel import Channel
    from chainrule.features.correct.corrector.corrector import Corrector

LINES = [
    "I received the letter, and I left.",
    "He went away; she stayed here.",
    "There is a dog in the house, and a man.",
    "He saw her--it was late.",
]


@pytest.fixture(scope="module")
def lm() -> chainrule.Model:
    return chainrule.train(chainrule.Lines(LINES * 9), chainrule.NGramConfig(order=3), tokenizer="word")


@pytest.fixture(scope="module")
def channel() -> Channel:
    pairs = [("He saw it: _", "He saw it."), ("| was here", "I was here"), ("a dag", "a dog"), ("4 man", "a man")]
    pairs += [
        ("'he is, here", "he is here"),
        ("out; there", "out, there"),
        ("d0g 1eft", "dog left"),
        ("so-now", "so--now"),
        ("he; she", "he: she"),
        ("I: he", "I; he"),
        ("Twent", "I went"),
    ]
    return chainrule.train_channel(pairs * 3, prior="ocr")


@pytest.fixture(scope="module")
def corrector(lm: chainrule.Model, channel: Channel) -> Corrector:
    return chainrule.corrector(lm, channel, rate=0.1)


@pytest.mark.parametrize(
    ("read", "meant"),
    [
        ("| received the letter, and I left.", "I received the letter, and I left."),
        ("I received the letter; and I left.", "I received the letter, and I left."),
        ("He went away: she stayed here.", "He went away; she stayed here."),
        ("He went away; 'she stayed here.", "He went away; she stayed here."),
        ("There is 4 d0g in the house, and a man.", "There is a dog in the house, and a man."),
        ("| recieved the leter; and I left.", "I received the letter, and I left."),
        ("He saw her-it was 1ate.", "He saw her--it was late."),
        ("He went away; she stayed here. Ileft.", "He went away; she stayed here. I left."),
        ("He went away; she stayed here. Tleft.", "He went away; she stayed here. I left."),
        ("_ There is a dog in the house, and a man.", "There is a dog in the house, and a man."),
        ("There is a dog in the house, and a man. _", "There is a dog in the house, and a man."),
    ],
)
def test_marks_and_signs_are_corrected(corrector: Corrector, read: str, meant: str) -> None:
    assert [one.corrected for one in corrector.correct([read, meant])] == [meant, meant]


def test_a_lone_sign_is_in_no_other_script(corrector: Corrector) -> None:
    assert [one.note is None for one in corrector.correct(["|", "1", "он"])] == [True, True, False]


def test_numbers_links_and_markers_are_left_alone(corrector: Corrector) -> None:
    texts = ["see http://a.b/_c, 1847 </s> and x@y.com", "</s>", "<unk> 12"]
    assert [one.corrected for one in corrector.correct(texts)] == texts


def test_other_channels_leave_marks_alone(lm: chainrule.Model) -> None:
    text = "I received teh letter; and | left: _ 4"
    [one] = chainrule.corrector(lm).correct([text])
    assert one.corrected == text.replace("teh", "the")

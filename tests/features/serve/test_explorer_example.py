"""The text that views open with: what a folder keeps of its training, and what stands in for it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule
from chainrule.decoding.chat.template import ChatTemplate
from chainrule.features.serve.explorer.example import example_of, message_of
from chainrule.text.tokenization.tokenizer import Tokenizer
from chainrule.verbs.training.example import LAST, sentence_of, shorten

if TYPE_CHECKING:
    from pathlib import Path

LINES = [f"the cat number {i} sat on the mat" for i in range(40)]
TRAINING = chainrule.TrainingConfig(steps=1, compile="no", valid_share=0.1)
SMALL: dict[str, Any] = {"layers": 1, "width": 8, "heads": 1, "context": 16}


def stream_of(lines: list[str]) -> tuple[Tokenizer, np.ndarray]:
    tokenizer = Tokenizer.untrained("word")
    tokenizer.encode(np.frombuffer("\n".join([*lines, ""]).encode(), np.uint8), grow=True)
    return tokenizer, tokenizer.encode_texts(lines).ids


def test_an_example_is_the_first_document_that_is_read_at_a_glance() -> None:
    long = "word " * 300
    tokenizer, stream = stream_of(["", "short", long, "a sentence of a good length .", "another of a good length ."])
    assert sentence_of(tokenizer, stream) == "a sentence of a good length ."
    assert sentence_of(tokenizer, stream[:2]) == "short"  # for want of a better one
    assert sentence_of(tokenizer, stream[:1]) is None
    assert sentence_of(tokenizer, stream[:0]) is None
    only_long = sentence_of(tokenizer, tokenizer.encode_texts([long]).ids)
    assert only_long is not None
    assert only_long.startswith("word word")
    assert len(only_long) <= 140
    assert shorten(f"A first sentence, of some length. {long}") == "A first sentence, of some length."


def test_a_document_that_has_lost_its_beginning_is_left_out() -> None:
    tokenizer, stream = stream_of([f"beginning {'word ' * 19_990}end", "a sentence of a good length ."])
    assert sentence_of(tokenizer, stream[-LAST:]) == "a sentence of a good length ."


def test_unknown_words_are_not_in_it() -> None:
    tokenizer, _ = stream_of(["a known sentence that is good"])
    stream = tokenizer.encode_texts(["an unheard-of sentence that is good", "a known sentence that is good"]).ids
    assert sentence_of(tokenizer, stream) == "a known sentence that is good"


def test_folders_keep_held_out_text_of_networks_and_a_line_of_what_others_counted(tmp_path: Path) -> None:
    text = chainrule.Lines(LINES)
    network = chainrule.train(text, chainrule.TransformerConfig(**SMALL), training=TRAINING)
    assert network.record["example"]["held_out"]
    assert int(network.record["example"]["text"].split()[3]) >= 34  # the last tenth is held out
    counted = chainrule.train(text, chainrule.NGramConfig(order=2))
    assert counted.record["example"] == {"text": LINES[0], "held_out": False}
    tuned = chainrule.train(text, chainrule.NGramConfig(order=2), tune=chainrule.Lines(LINES[7:9]))
    assert tuned.record["example"] == {"text": LINES[7], "held_out": True}
    counted.save(tmp_path / "lm")
    assert chainrule.load(tmp_path / "lm").record["example"]["text"] == LINES[0]
    assert json.loads((tmp_path / "lm" / "config.json").read_text())["record"]["example"]["text"] == LINES[0]


def test_pairs_keep_a_source_and_its_target() -> None:
    pairs = chainrule.Pairs(["ein Hund", "eine Katze"] * 10, ["a dog", "a cat"] * 10)
    model = chainrule.train_pairs(pairs, chainrule.Seq2SeqConfig(width=8, heads=1), training=TRAINING)
    kept = model.record["example"]
    assert (kept["given"], kept["text"]) in {("ein Hund", "a dog"), ("eine Katze", "a cat")}
    assert example_of(model) == {"text": kept["text"], "begin": "a", "gap": "a [MASK]", "given": kept["given"]}


def test_an_example_has_a_beginning_and_a_gap() -> None:
    model = chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=2))
    model.record["example"] = {"text": "The dog (bit) the man.", "held_out": True}
    assert example_of(model) == {
        "text": "The dog (bit) the man.",
        "begin": "The dog (bit)",
        "gap": "The dog ([MASK]) the man.",
        "given": None,
    }
    model.record["example"] = {"text": "日本語の文章", "held_out": True}  # a script without spaces
    assert example_of(model) == {"text": "日本語の文章", "begin": "日本語", "gap": "日本語の文章 [MASK]", "given": None}


def test_a_first_message_is_what_the_user_says_in_the_models_own_text() -> None:
    model = chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=2))
    source = "{% for one in messages %}<{{ one.role }}> {{ one.content }}\n{% endfor %}<assistant>"
    template = ChatTemplate(source, {}, "the model", datetime.now)
    for text, message in (
        ("<user> Wie geht es dir? <assistant> Gut, danke.", "Wie geht es dir?"),
        ("<user> Wie geht es", "Wie geht es"),
        ("Der Hund beißt den Mann.", "Der Hund beißt den Mann."),
    ):
        model.record["example"] = {"text": text, "held_out": True}
        assert message_of(model, template) == message
    del model.record["example"]
    assert message_of(model, template) is None


@pytest.mark.parametrize("damaged", [None, {}, {"text": 3}, {"text": " "}, "a text"])
def test_without_one_a_model_writes_its_own_or_shows_english(damaged: Any) -> None:
    foreign = chainrule.train(chainrule.Lines(["der Hund beißt den Mann"] * 9), chainrule.NGramConfig(order=2))
    foreign.record["example"] = damaged
    shown = example_of(foreign)
    assert shown is not None
    assert set(shown["text"].split()) <= {"der", "Hund", "beißt", "den", "Mann"}
    letters = chainrule.train(chainrule.Lines(LINES), chainrule.NGramConfig(order=2), tokenizer="byte")
    letters.record["example"] = damaged
    shown = example_of(letters)
    assert shown is not None
    assert shown["text"].startswith("The children")  # bytes know everything

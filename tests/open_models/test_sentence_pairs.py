"""Pairs of sentences as BERT reads them, [CLS] a [SEP] b [SEP], against transformers; and classifiers of pairs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tiny_models import MASKED, save, shaken, tokenizer_of

import chainrule
from chainrule.applications.labelled_pairs import LabelledPair, Pair
from chainrule.neural.classifier import Classifier
from chainrule.neural.sentence_pairs import join_sentences
from chainrule.text.document_units import UnitTokens

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = [("the dog ran", "a dog"), ("a cat", "the cat sat on the mat and ran"), ("the", "the")]


def units(tokens: list[int]) -> UnitTokens:
    return UnitTokens(np.array(tokens, np.int32), np.zeros(len(tokens), np.int64), 1)


@pytest.fixture
def bert(tmp_path: Path) -> tuple[Any, Any, Path]:
    """A tiny BERT of transformers, the same one opened here, and its folder."""
    theirs = shaken(MASKED["bert"])
    folder = save(theirs, tmp_path / "bert", tokenizer_of("bert"))
    return theirs, chainrule.load(folder), folder


def test_a_pair_is_read_with_the_types_of_bert(bert: tuple[Any, Any, Path]) -> None:
    from transformers import AutoTokenizer

    theirs, ours, folder = bert
    network = ours.engine.network
    classifier = Classifier(network, ["no", "yes"], "pair", width=network.config.width).eval()
    encoded = [tuple(units(ours.tokenizer.encode_texts([side]).ids[:-1].tolist()) for side in pair) for pair in PAIRS]
    with torch.inference_mode():
        parts = classifier._parts([classifier._joined(pair) for pair in encoded])
        found = classifier._add_vectors(parts, torch.zeros(len(PAIRS), network.config.width))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for row, part, (first, second) in zip(found, parts, PAIRS, strict=True):
        ids = tokenizer(first, add_special_tokens=False).input_ids
        others = tokenizer(second, add_special_tokens=False).input_ids
        inputs = [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id, *others, tokenizer.sep_token_id]
        types = [0] * (len(ids) + 2) + [1] * (len(others) + 1)
        assert len(part.inputs) == len(inputs)
        with torch.inference_mode():
            hidden = theirs.bert(torch.tensor([inputs]), token_type_ids=torch.tensor([types])).last_hidden_state[0]
        torch.testing.assert_close(row, hidden.sum(0), atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("first", "second", "longest", "expected"),
    [
        ("abcdef", "xy", 8, "abcdef|xy"),
        ("abcdef", "xy", 6, "abcd|xy"),
        ("abcdef", "xy", 3, "a|xy"),
        ("ab", "uvwxyz", 5, "ab|uvw"),
        ("abcd", "wxyz", 5, "ab|wxy"),
        ("abcd", "wxyz", 4, "ab|wx"),
    ],
)
def test_the_longer_sentence_is_cut_token_by_token(first: str, second: str, longest: int, expected: str) -> None:
    network: Any = SimpleNamespace(config=SimpleNamespace(closed_by=ord("|")))
    joined = join_sentences(units([*map(ord, first)]), units([*map(ord, second)]), network, longest)
    assert "".join(map(chr, joined.tokens)) == expected
    assert joined.second == expected.index("|") + 1


def test_pairs_are_learned_kept_and_labelled(bert: tuple[Any, Any, Path], tmp_path: Path) -> None:
    """Whether both sentences are the same word: no side by itself tells."""
    _, ours, _ = bert
    words = ["dog", "cat"]
    examples = [
        LabelledPair(Pair(f"the {one}", f"a {other}"), ("same" if one == other else "different",))
        for one in words
        for other in words
    ] * 8
    config = chainrule.FineTuningConfig(epochs=12, batch=8, learning_rate=0.003, valid_share=0, dropout=0.0)
    learned = chainrule.finetune(ours, examples, "pair", config)
    given = [Pair("the dog", "a dog"), Pair("the dog", "a cat"), Pair("the cat", "a cat"), Pair("the cat", "a dog")]
    assert [one.best[0][0] for one in learned.classify(given)] == ["same", "different"] * 2
    assert learned.assess(examples).accuracy.share == 1
    learned.save(tmp_path / "classifier")
    again = chainrule.load(tmp_path / "classifier", chainrule.ClassifierModel)
    for one, other in zip(again.classify(given), learned.classify(given), strict=True):
        np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-5)
    before = ours.engine.network.encoder.segments.detach()
    after = learned.classifier.network.encoder.segments.detach()
    assert (after[1] != before[1]).any()  # the second type is learned, too


def test_a_network_without_types_reads_pairs(tmp_path: Path) -> None:
    texts = ["the dog ran", "a cat sat", "the cat ran"] * 4
    training = chainrule.TrainingConfig(steps=2, seed=1)
    model = chainrule.train(
        chainrule.Lines(texts),
        chainrule.RecurrentConfig(width=16, layers=1, context=8),
        training=training,
        tokenizer="whitespace",
    )
    examples = [LabelledPair(Pair("the dog", "the cat"), ("a",)), LabelledPair(Pair("the cat", "ran"), ("b",))] * 4
    learned = chainrule.finetune(model, examples, "pair", chainrule.FineTuningConfig(epochs=1, valid_share=0))
    assert len(learned.classify([Pair("the dog", "ran")])[0].log_probs[0]) == 2

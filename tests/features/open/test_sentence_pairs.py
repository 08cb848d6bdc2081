"""Pairs of sentences as BERT reads them, [CLS] a [SEP] b [SEP], against transformers; and classifiers of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from tiny_models import MASKED, save, shaken, transformers
from tiny_tokenizers import tokenizer_of

import chainrule
from chainrule.features.classify.labelled.pairs import LabelledPair, Pair
from chainrule.features.classify.network.classifier import FineTunedClassifier
from chainrule.models.files.origin import TokenIdMap
from chainrule.neural.sentence_pairs import join_sentences
from chainrule.text.units import UnitTokens
from chainrule.training.defaults import Recipe
from chainrule.training.device import machine_on
from chainrule.training.distributed import Processes
from chainrule.training.job import Setup
from chainrule.training.objectives.next_sentence import NextSentenceObjective, SentencePairs

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
    theirs, ours, folder = bert
    network = ours.engine.network
    classifier = FineTunedClassifier(network, ["no", "yes"], "pair", width=network.config.width).eval()
    encoded = [tuple(units(ours.tokenizer.encode_texts([side]).ids[:-1].tolist()) for side in pair) for pair in PAIRS]
    with torch.inference_mode():
        parts = classifier._parts([classifier._joined(pair) for pair in encoded])
        found = classifier._add_vectors(parts, torch.zeros(len(PAIRS), network.config.width))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
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
        ("abcdef", "xy", 8, "abcdef|xy|"),
        ("abcdef", "xy", 6, "abcd|xy|"),
        ("abcdef", "xy", 3, "a|xy|"),
        ("ab", "uvwxyz", 5, "ab|uvw|"),
        ("abcd", "wxyz", 5, "ab|wxy|"),
        ("abcd", "wxyz", 4, "ab|wx|"),
    ],
)
def test_the_longer_sentence_is_cut_token_by_token(first: str, second: str, longest: int, expected: str) -> None:
    joined = join_sentences(units([*map(ord, first)]), units([*map(ord, second)]), ord("|"), longest)
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


@pytest.fixture(scope="module")
def with_head(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, chainrule.MaskedModel, Path]:
    """A tiny BERT of transformers with both heads of its pre-training, the same one opened here, and its folder."""
    theirs = shaken(lambda: transformers.BertForPreTraining(MASKED["bert"]().config))
    folder = save(theirs, tmp_path_factory.mktemp("bert"), tokenizer_of("bert"))
    return theirs, chainrule.load(folder, chainrule.MaskedModel), folder


def test_whether_a_sentence_follows_is_as_bert_says(with_head: tuple[Any, chainrule.MaskedModel, Path]) -> None:
    theirs, ours, folder = with_head
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for first, second in PAIRS:
        ids = [tokenizer(side, add_special_tokens=False).input_ids for side in (first, second)]
        inputs = [tokenizer.cls_token_id, *ids[0], tokenizer.sep_token_id, *ids[1], tokenizer.sep_token_id]
        types = torch.tensor([[0] * (len(ids[0]) + 2) + [1] * (len(ids[1]) + 1)])
        with torch.inference_mode():
            logits = theirs(torch.tensor([inputs]), token_type_ids=types).seq_relationship_logits
        assert ours.follows(first, second) == pytest.approx(float(logits.softmax(-1)[0, 0]), abs=1e-5)


def test_the_loss_of_both_objectives_is_that_of_bert(with_head: tuple[Any, chainrule.MaskedModel, Path]) -> None:
    """Of the same rows, masks and drawn parts: the mean over masked tokens plus the mean over pairs.

    Only [MASK] has no probability here, so what transformers gives to it is shared out among the others.
    """
    theirs, ours, folder = with_head
    tokenizer, network = transformers.AutoTokenizer.from_pretrained(folder), ours.engine.network
    stream = ours.tokenizer.encode_texts([text for pair in PAIRS * 6 for text in pair]).ids
    setup = Setup(chainrule.TrainingConfig(steps=1), Recipe(6, 0.1, 0.1, 0), machine_on("cpu", "float32"), Processes())
    pairs = SentencePairs(stream, 14, 0)
    objective = NextSentenceObjective(network, setup, pairs, pairs, np.ones(network.vocabulary_size, np.bool_))
    [part] = objective.parts(0)
    assert set(part.classes.tolist()) == {0, 1}
    with torch.inference_mode():
        loss = float(objective.loss(0, part, network, 0.0)) / objective.weight(0)
    to_theirs = torch.from_numpy(TokenIdMap(**ours.record["hugging_face"]["tokens"]).theirs())
    is_read = torch.arange(part.inputs.shape[1]) < part.lengths[:, None]
    inputs = to_theirs[part.inputs].masked_fill(~is_read, 0)
    assert (inputs == tokenizer.sep_token_id).sum(1).tolist() == [2] * 6
    with torch.inference_mode():
        answer = theirs(
            inputs,
            attention_mask=is_read.long(),
            token_type_ids=((torch.arange(inputs.shape[1]) >= part.second[:, None]) & is_read).long(),
            labels=to_theirs[part.targets].masked_fill(~part.predicted, -100),
            next_sentence_label=part.classes,
        )
    masks = answer.prediction_logits[part.predicted].softmax(-1)[:, tokenizer.mask_token_id]
    assert loss == pytest.approx(float(answer.loss + torch.log1p(-masks).mean()), rel=1e-4)
    validated = objective.validate(1 << 20)
    assert validated.figures["pairs"] == len(pairs.runs)


def test_a_bert_with_both_heads_goes_out_as_it_came(
    with_head: tuple[Any, chainrule.MaskedModel, Path], tmp_path: Path
) -> None:
    theirs, ours, folder = with_head
    ours.save(tmp_path / "lm")
    chainrule.convert(tmp_path / "lm", tmp_path / "out", to="hugging-face")
    came, went = (load_file(place / "model.safetensors") for place in (folder, tmp_path / "out"))
    assert came.keys() == went.keys()
    for name, array in came.items():
        np.testing.assert_array_equal(array, went[name], err_msg=name)
    again = transformers.BertForPreTraining.from_pretrained(tmp_path / "out")
    assert torch.equal(again.cls.seq_relationship.weight, theirs.cls.seq_relationship.weight)


def test_a_network_of_ours_with_both_heads_is_a_bert_to_transformers(tmp_path: Path) -> None:
    config = chainrule.preset("bert", layers=1, width=16, heads=2, context=32, next_sentence=True)
    model = chainrule.train(
        chainrule.Lines([text for pair in PAIRS * 4 for text in pair]),
        config,
        tokenizer=chainrule.TokenizerConfig(kind="bpe", vocabulary_size=280),
        training=chainrule.TrainingConfig(steps=2, batch=2, valid_share=0),
    )
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        for weight in model.engine.network.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    model.save(tmp_path / "lm")
    chainrule.convert(tmp_path / "lm", tmp_path / "out", to="hugging-face")
    theirs = transformers.BertForPreTraining.from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for first, second in PAIRS:
        with torch.inference_mode():
            logits = theirs(**tokenizer(first, second, return_tensors="pt")).seq_relationship_logits
        assert model.follows(first, second) == pytest.approx(float(logits.softmax(-1)[0, 0]), abs=1e-5)

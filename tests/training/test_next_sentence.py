"""Pairs of parts of a text, half of which follow each other, and the loss of both objectives of BERT."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_runs import QUICK, trained

import chainrule
from chainrule.errors import SettingError, TextError
from chainrule.neural.config import MaskedConfig
from chainrule.protocol import END
from chainrule.training.job import Validation
from chainrule.training.objectives.next_sentence import PairRows, SentencePairs

if TYPE_CHECKING:
    from pathlib import Path

ROOM = 12  # tokens of both parts
SMALL = MaskedConfig(layers=1, width=16, heads=2, context=16, next_sentence=True, segments=2, masks="tokens")


def numbered(lengths: list[int]) -> np.ndarray:
    """A text of lines of these lengths, in which each token is the number of its place, from 10 on."""
    numbers = iter(range(10, 10 + sum(lengths)))
    return np.array([token for length in lengths for token in (*(next(numbers) for _ in range(length)), END)], np.int32)


def parts(rows: PairRows, row: int) -> tuple[list[int], list[int]]:
    """Both parts of a pair, after checks of its form."""
    tokens, second, length = rows.tokens[row].tolist(), int(rows.second[row]), int(rows.lengths[row])
    assert tokens[0] == tokens[second - 1] == tokens[length - 1] == END
    assert set(tokens[length:]) <= {END}
    return tokens[1 : second - 1], tokens[second : length - 1]


@given(st.lists(st.integers(0, 9), min_size=6, max_size=40), st.integers(0, 99))
def test_pairs_are_lines_of_the_text(lengths: list[int], seed: int) -> None:
    """Naively: empty lines stand between documents; a part follows if it begins the next line."""
    documents: list[list[list[int]]] = [[]]
    numbers = iter(range(10, 1000))
    for length in lengths:
        line = [next(numbers) for _ in range(length)]
        documents = [*documents[:-1], [*documents[-1], line]] if line else [*documents, []]
    lines_of = {token: document for document in documents for line in document for token in line}
    try:
        pairs = SentencePairs(numbered(lengths), ROOM + 3, seed)
    except TextError:
        assert sum(len(document) > 1 for document in documents) < 2
        return
    rows = pairs.rows(list(range(len(pairs.runs))), np.random.default_rng(seed))
    for row, follows in enumerate(rows.follows.tolist()):
        a, b = parts(rows, row)
        assert 2 <= len(a) + len(b) <= ROOM
        for part in (a, b):
            assert part[0] in [line[0] for line in lines_of[part[0]]]
            assert part == list(range(part[0], part[0] + len(part)))
            assert lines_of[part[-1]] is lines_of[part[0]]
        next_line = min(line[0] for line in lines_of[a[0]] if line[0] > a[-1])
        assert follows == (b[0] == next_line)
        assert not set(a) & set(b)


def test_about_half_follow_and_length_does_not_tell_which() -> None:
    lengths = np.random.default_rng(0).integers(3, 12, 4000).tolist()
    pairs = SentencePairs(numbered(lengths), 64, 1)
    rows = pairs.rows(list(range(len(pairs.runs))), np.random.default_rng(2))
    assert rows.follows.mean() == pytest.approx(0.5, abs=0.06)
    means = [rows.lengths[rows.follows == follows].mean() for follows in (True, False)]
    assert means[0] == pytest.approx(means[1], abs=1)
    assert min(means) > 50


def test_every_epoch_reads_each_run_once() -> None:
    pairs = SentencePairs(numbered([4] * 60), ROOM + 3, 3)
    runs = len(pairs.runs)
    steps = [pairs.runs_of_step(step, 4) for step in range(runs)]
    order = [run for step in steps for run in step]
    for epoch in range(4):
        assert sorted(order[epoch * runs : (epoch + 1) * runs]) == list(range(runs))
    assert order[:runs] != order[runs : 2 * runs]


@pytest.mark.parametrize("lengths", [[4], [3, 0, 3, 0, 3], [4, 4], [4, 4, 0, 4]])
def test_a_text_without_lines_that_follow_each_other(lengths: list[int]) -> None:
    with pytest.raises(TextError, match="the training text has fewer than two pairs of lines that follow each other"):
        SentencePairs(numbered(lengths), ROOM + 3, 0)


def test_what_does_not_suit_pairs() -> None:
    with pytest.raises(SettingError, match="three markers and at least one token each, but context is 4"):
        replace(SMALL, context=4)
    with pytest.raises(SettingError, match="next_sentence needs a full output, but output is adaptive"):
        replace(SMALL, output="adaptive")


def topics(documents: int, seed: int) -> np.ndarray:
    """Documents of three lines, each with two tokens of its own, of four such pairs."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(documents):
        topic = 3 + 2 * int(rng.integers(4))
        rows += [[*rng.integers(topic, topic + 2, rng.integers(2, 4)), END] for _ in range(3)] + [[END]]
    return np.concatenate(rows).astype(np.int32)


@pytest.mark.thorough
def test_a_network_learns_which_line_follows() -> None:
    """Drawn lines have the same topic in a quarter of all cases, so 88 % is the most."""
    training = replace(QUICK, steps=250, batch=16, validate_every=None, learning_rate=0.02)
    held_out = Validation(stream=topics(400, 2), bytes=1)
    network, record, _ = trained(SMALL, training, topics(1000, 1), validation=held_out)
    figures = record["validation"]
    assert figures["next_sentence_accuracy"] > 0.7
    assert figures["next_sentence_loss"] < 0.55 < np.log(2)
    assert figures["pairs"] == len(SentencePairs(held_out.stream, SMALL.context, 0).runs)
    assert network.next_sentence is not None


def test_the_head_is_kept_and_asked(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("the cat sat\non the mat\nand slept\n\nthe dog ran\nto the door\nand barked\n\n" * 20)
    config = MaskedConfig(layers=1, width=16, heads=2, context=16, next_sentence=True)
    model = chainrule.train(file, config, tokenizer="whitespace", training=chainrule.TrainingConfig(steps=3, batch=4))
    assert 0 <= model.record["validation"]["next_sentence_accuracy"] <= 1
    model.save(tmp_path / "lm")
    again = chainrule.load(tmp_path / "lm", chainrule.MaskedModel)
    chance = again.follows("the cat sat", "on the mat")
    assert chance == pytest.approx(model.follows("the cat sat", "on the mat"), abs=1e-6)
    assert 0 < chance < 1
    encoded = [again.tokenizer.encode_texts([text]).ids[:-1] for text in ("the cat sat", "and", "on the mat and slept")]
    alone = [float(again.engine.score_following([encoded[0]], [second])[0]) for second in encoded]
    together = again.engine.score_following([encoded[0]] * 3, encoded)
    np.testing.assert_allclose(together, alone, atol=1e-5)
    without = chainrule.train(
        file,
        replace(config, next_sentence=False),
        tokenizer="whitespace",
        training=chainrule.TrainingConfig(steps=1, batch=4),
    )
    with pytest.raises(SettingError, match="was not trained to say whether a sentence follows another"):
        without.follows("the cat sat", "on the mat")

"""One step of each loss against its formula in NumPy; co-occurrences, trees and draws against naive ones."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from chainrule.base.progress import silent
from chainrule.features.vectors.learning.config import CooccurrenceConfig, VectorsConfig
from chainrule.features.vectors.learning.cooccurrences import Cooccurrences, _merged, count_stream
from chainrule.features.vectors.learning.fasttext import Ngrams
from chainrule.features.vectors.learning.glove import glove_matrices
from chainrule.features.vectors.learning.glove_kernels import learn_counts
from chainrule.features.vectors.learning.learning import (
    TrainingText,
    random_rows,
    sigmoid_table,
    word_matrices,
    zero_rows,
)
from chainrule.features.vectors.learning.row_kernels import product
from chainrule.features.vectors.learning.training import training_on_cooccurrences
from chainrule.features.vectors.learning.word2vec import NO_PATHS, PairLearner, huffman_paths, noise_of
from chainrule.features.vectors.learning.word2vec_kernels import (
    HIERARCHICAL,
    NEGATIVE,
    SOFTMAX,
    draw_noise,
    learn_pairs,
    learn_windows,
    predict,
)
from chainrule.text.tokenization.vocabulary_kernels import FIRST_ORDINARY

WORDS, WIDTH, RATE = 12, 20, 0.1
COUNTS = np.arange(WORDS, 0, -1) ** 2
SEED = np.uint64(7)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.fixture
def rows():
    """Inputs and outputs, of numbers that are not small."""
    rng = np.random.default_rng(5)
    return random_rows(WORDS, WIDTH, 0.8, rng), random_rows(WORDS, WIDTH, 0.8, rng)


@pytest.fixture
def noise():
    return noise_of(COUNTS**0.75, np.zeros(WORDS, np.int32), 1)


def drawn_rows(noise, outputs, seed, number):
    """What the next draws are, and the state after them."""
    drawn = np.empty(number, np.int64)
    after = draw_noise(noise.members, noise.shares, noise.aliases, 0, WORDS, seed, drawn, outputs)
    return drawn, np.uint64(after)


def logistic_step(hidden, outputs, targets, *, at_once=False):
    """The new outputs and the error of the hidden vector, in float64. targets: rows with labels, in order.

    at_once: all probabilities are those before the first row is moved.
    """
    outputs, error, cost = outputs.astype(np.float64).copy(), np.zeros(hidden.size), 0.0
    before = outputs.copy()
    for row, label in targets:
        likely = sigmoid(hidden @ (before if at_once else outputs)[row])
        gain = RATE * (label - likely)
        error += gain * outputs[row]
        outputs[row] += gain * hidden
        cost -= math.log(likely if label else 1 - likely)
    return outputs, error, cost


def foretold(loss, hidden, outputs, target, noise, paths=NO_PATHS, negatives=3):
    errors, logits = zero_rows(1, WIDTH), np.empty(len(outputs))
    drawn = np.empty(negatives, np.int64)
    cost, _ = predict(
        *(hidden, target, loss, outputs, np.float32(RATE), SEED, noise.members, noise.shares, noise.aliases, *paths),
        *(logits, errors, drawn, sigmoid_table()),
    )
    return cost, errors[0]


def test_negative_sampling_is_logistic_regression_of_the_context_against_the_drawn(rows, noise) -> None:
    inputs, outputs = rows
    negatives, _ = drawn_rows(noise, outputs, SEED, 3)
    targets = [(4, 1), *((row, 0) for row in negatives if row != 4)]
    expected, error, cost = logistic_step(inputs[2].astype(np.float64), outputs, targets)
    found, errors = foretold(NEGATIVE, inputs[2:3].copy(), outputs, 4, noise)
    assert np.allclose(outputs, expected, atol=1e-6)
    assert np.allclose(errors, error, atol=1e-6)
    assert found == pytest.approx(cost, abs=1e-5)


@pytest.mark.parametrize(("number", "width"), [(1, 3), (5, 6), (40, 42)])
def test_a_pair_of_skip_gram_changes_its_word_and_its_context(number: int, width: int, rows, noise) -> None:
    inputs, outputs = rows
    negatives, _ = drawn_rows(noise, outputs, SEED, number)
    targets = [(4, 1), *((row, 0) for row in negatives if row != 4)]
    expected, error, cost = logistic_step(inputs[2].astype(np.float64), outputs, targets, at_once=True)
    new_input = inputs[2] + error
    pairs = np.array([[2, 4]], np.int32)
    loss, noted = learn_pairs(
        *(pairs, 0, 1, inputs, outputs, np.float32(RATE), SEED, noise.members, noise.shares, noise.aliases, 0, WORDS),
        *(number, zero_rows(1, WIDTH), np.empty((2, width), np.int64), np.empty(width, np.float32), sigmoid_table()),
    )
    assert np.allclose(outputs, expected, atol=1e-6)
    assert np.allclose(inputs[2], new_input, atol=1e-6)
    assert (loss, noted) == (pytest.approx(cost, abs=1e-4), 1)


def test_hierarchical_softmax_goes_down_the_tree_and_sums_to_one(rows, noise) -> None:
    inputs, outputs = rows
    paths = huffman_paths(COUNTS)
    hidden = inputs[2].astype(np.float64)
    nodes = slice(paths.starts[4], paths.starts[5])
    targets = list(zip(paths.nodes[nodes], paths.labels[nodes], strict=True))
    before = outputs.astype(np.float64).copy()
    expected, error, cost = logistic_step(hidden, outputs, targets)
    found, errors = foretold(HIERARCHICAL, inputs[2:3].copy(), outputs, 4, noise, paths)
    assert np.allclose(outputs, expected, atol=1e-6)
    assert np.allclose(errors, error, atol=1e-6)
    assert found == pytest.approx(cost, abs=1e-5)
    likely = []
    for start, stop in zip(paths.starts[:-1], paths.starts[1:], strict=True):
        ways = sigmoid(before[paths.nodes[start:stop]] @ hidden)
        likely.append(np.prod(np.where(paths.labels[start:stop] == 1, ways, 1 - ways)))
    assert sum(likely) == pytest.approx(1, abs=1e-12)


def test_a_huffman_tree_has_the_least_mean_length() -> None:
    # 5 2 1 1: 1 + 1 -> 2, 2 + 2 -> 4, 4 + 5: lengths 1, 2, 3, 3
    paths = huffman_paths(np.array([5, 2, 1, 1]))
    assert np.diff(paths.starts).tolist() == [1, 2, 3, 3]
    assert paths.nodes.max() == 2


def test_softmax_follows_the_gradient_of_the_log_probability(rows, noise) -> None:
    inputs, outputs = rows
    hidden = inputs[2].astype(np.float64)
    likely = np.exp(outputs.astype(np.float64) @ hidden)
    likely /= likely.sum()
    gains = RATE * (np.eye(WORDS)[4] - likely)
    expected, error = outputs + np.outer(gains, hidden), gains @ outputs
    found, errors = foretold(SOFTMAX, inputs[2:3].copy(), outputs, 4, noise)
    assert np.allclose(outputs, expected, atol=1e-6)
    assert np.allclose(errors, error, atol=1e-6)
    assert found == pytest.approx(-math.log(likely[4]), abs=1e-6)


@pytest.mark.parametrize("is_cbow", [False, True])
def test_windows_with_subwords_equal_a_loop(rows, noise, is_cbow) -> None:
    """With a window of 1, which is never drawn, and the tree, which draws nothing; corrected after each target."""
    inputs, outputs = rows
    paths = huffman_paths(COUNTS[:8])
    units = [[0, 8], [1], [2, 8, 9], [3, 11], [4], [5, 10], [6], [7, 9, 9] if is_cbow else [7, 9]]  # an n-gram twice
    starts = np.concatenate([[0], np.cumsum(list(map(len, units)))]).astype(np.int64)
    document = [2, 0, 7, 5, 3]
    x, y = inputs.astype(np.float64), outputs.astype(np.float64)
    cost = 0.0
    for i, word in enumerate(document):
        around = [document[j] for j in (i - 1, i + 1) if 0 <= j < len(document)]
        sources, targets = (around, [word]) if is_cbow else ([word], around)
        for target in targets:
            hidden = np.mean([np.mean(x[units[source]], axis=0) for source in sources], axis=0)
            error = np.zeros(hidden.size)
            for k in range(paths.starts[target], paths.starts[target + 1]):
                node, label = paths.nodes[k], paths.labels[k]
                likely = sigmoid(hidden @ y[node])
                cost -= math.log(likely if label else 1 - likely)
                error += RATE * (label - likely) * y[node]
                y[node] += RATE * (label - likely) * hidden
            for source in sources:
                for unit in units[source]:
                    x[unit] += error
    stream = np.array([*(FIRST_ORDINARY + word for word in document), 2], np.int32)
    loss, _ = learn_windows(
        *(stream, 0, stream.size, np.full(WORDS, 1 << 32, np.uint64), 1, is_cbow, HIERARCHICAL, starts),
        *(np.concatenate(units).astype(np.int32), inputs, outputs, np.float32(RATE), SEED),
        *(noise.members, noise.shares, noise.aliases, *paths, np.empty(stream.size, np.int32), np.empty(0)),
        *(*(zero_rows(1, WIDTH) for _ in range(3)), np.empty(1, np.int64), sigmoid_table()),
    )
    assert np.allclose(inputs, x, atol=1e-5)
    assert np.allclose(outputs, y, atol=1e-5)
    assert loss == pytest.approx(cost, abs=1e-4)


def test_glove_is_adagrad_on_weighted_squares_of_logarithms() -> None:
    config = VectorsConfig(method="glove", dimensions=WIDTH).resolved()
    matrices = glove_matrices(config, WORDS, np.random.default_rng(3))
    names = "words", "contexts", "word_squares", "context_squares", "word_biases", "context_biases"
    before = {name: matrices[name].astype(np.float64).copy() for name in names}
    w, c = before["words"][3, :WIDTH], before["contexts"][5, :WIDTH]
    # f(x) = (7 / 100)^0.75; the squares begin as 1
    error = w @ c + before["word_biases"][0, 3] + before["context_biases"][0, 5] - math.log(7)
    weighted = (7 / 100) ** 0.75 * error
    cost = learn_counts(
        *(np.array([[3, 5]], np.int32), np.array([7], np.float32), 0, 1),
        *(*(matrices[name] for name in names), config.rate, config.x_max, config.power),
    )
    assert cost == pytest.approx(0.5 * weighted * error, rel=1e-6)
    assert np.allclose(matrices["words"][3, :WIDTH], w - 0.05 * weighted * c, atol=1e-6)
    assert np.allclose(matrices["contexts"][5, :WIDTH], c - 0.05 * weighted * w, atol=1e-6)
    assert np.allclose(matrices["word_squares"][3, :WIDTH], 1 + (0.05 * weighted * c) ** 2, atol=1e-6)
    assert matrices["word_biases"][0, 3] == pytest.approx(before["word_biases"][0, 3] - weighted)
    assert matrices["word_biases"][1, 3] == pytest.approx(1 + weighted**2)


def test_passes_of_glove_cost_what_they_do_in_a_random_order() -> None:
    """As in glove.c, which shuffles all pairs. Whole cells cost 2.5 % more in the first pass."""
    words, rng = 2048, np.random.default_rng(3)
    shares = np.cumsum(1 / np.arange(1, words + 1))
    drawn = np.searchsorted(shares / shares[-1], rng.random((1_000_000, 2)))
    cells, counts = np.unique(drawn @ [words, 1], return_counts=True)
    pairs = np.stack(np.divmod(cells, words), axis=1).astype(np.int32)
    starts = np.searchsorted(pairs[:, 0], np.arange(words + 1))
    counted = Cooccurrences(starts, pairs[:, 1].copy(), counts.astype(np.int64) << 32)
    config = VectorsConfig(method="glove", epochs=4, dimensions=32, x_max=10.0).resolved()
    training = training_on_cooccurrences(counted, config)
    matrices = {name: matrix.copy() for name, matrix in training.matrices.items()}
    while training.step < training.steps:
        training.advance()

    order = rng.permutation(counts.size)
    names = "words", "contexts", "word_squares", "context_squares", "word_biases", "context_biases"
    arguments = (*(matrices[name] for name in names), config.rate, config.x_max, config.power)
    shuffled = pairs[order], counts[order].astype(np.float32)
    costs = [learn_counts(*shuffled, 0, order.size, *arguments) / order.size for _ in range(4)]
    assert training.state.epoch_losses == pytest.approx(costs, rel=0.01)


def test_inputs_begin_as_gensims_and_fasttexts() -> None:
    """Uniform between -1/D and 1/D; word2vec.c's are half as large, from which skip-gram learns less."""
    for settings in ({}, {"method": "cbow"}, {"subwords": "3-6"}):
        config = VectorsConfig(dimensions=20, **settings)
        matrices = word_matrices(config, 1000, 10, np.random.default_rng(0))
        inputs = matrices["inputs"][:, :20]
        assert 0.99 / 20 < np.abs(inputs).max() <= 1 / 20
        assert np.abs(inputs).mean() == pytest.approx(0.5 / 20, rel=0.02)
        assert not matrices["outputs"].any()


def test_blocks_of_skip_gram_change_once_for_as_many_tokens_as_there_are_words() -> None:
    words, tokens = 50_000, 1_000_000
    text = TrainingText(
        np.full(tokens, FIRST_ORDINARY, np.int32), [str(word).encode() for word in range(words)], np.ones(words, int)
    )
    config = VectorsConfig(dimensions=4).resolved()
    learner = PairLearner(text, config, word_matrices(config, words, words, np.random.default_rng(0)))
    assert learner.steps == tokens // words


def test_noise_is_drawn_as_often_as_its_weight_says(rows) -> None:
    weights = COUNTS.astype(float)
    block_of = (np.arange(WORDS) % 3).astype(np.int32)
    noise = noise_of(weights, block_of, 3)
    drawn = np.empty(200_000, np.int64)
    for block in range(3):
        draw_noise(
            *(noise.members, noise.shares, noise.aliases, noise.starts[block], noise.starts[block + 1], SEED, drawn),
            rows[1],
        )
        found = np.bincount(drawn, minlength=WORDS) / drawn.size
        expected = np.where(block_of == block, weights, 0) / weights[block_of == block].sum()
        assert np.abs(found - expected).max() < 0.01


def test_a_product_has_one_order_of_sums_whatever_the_machine() -> None:
    """Sixteen running sums, fused, then halves to halves: in float64, rounded once a step."""
    rng = np.random.default_rng(1)
    a, b = random_rows(1, 37, 1.0, rng), random_rows(1, 37, 1.0, rng)
    lanes = np.zeros(16, np.float32)
    for column in range(0, 48, 16):
        part = slice(column, column + 16)
        lanes = (a[0, part].astype(np.float64) * b[0, part] + lanes).astype(np.float32)
    while lanes.size > 1:
        lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
    assert product(a, 0, b, 0) == lanes[0]


def naive_cooccurrences(documents, config):
    found = Counter()
    for document in documents:
        for i, word in enumerate(document):
            for j, other in enumerate(document):
                wanted = {"both": i != j, "left": j < i, "right": j > i}[config.sides]
                if wanted and abs(i - j) <= config.window:
                    found[word, other] += 1 / abs(i - j) if config.weighting == "distance" else 1
    return found


@pytest.mark.parametrize("sides", ["both", "left", "right"])
@pytest.mark.parametrize("weighting", ["distance", "flat"])
def test_cooccurrences_equal_naive_ones(sides, weighting) -> None:
    rng = np.random.default_rng(8)
    words = 150  # more than two words of the bit sets
    documents = [rng.integers(0, words, size).tolist() for size in (40, 1, 0, 25, 60)]
    config = CooccurrenceConfig(window=4, weighting=weighting, sides=sides)
    stream = np.array([token for row in documents for token in [*(FIRST_ORDINARY + w for w in row), 2]], np.int32)
    unknown = np.insert(stream, [3, 7], 0)  # which are left out and no distance counts
    counted = count_stream(unknown, words, config, silent)
    rows = np.repeat(np.arange(words), np.diff(counted.starts))
    found = dict(zip(zip(rows.tolist(), counted.columns.tolist(), strict=True), counted.sums / 2**32, strict=True))
    expected = naive_cooccurrences(documents, config)
    assert found.keys() == expected.keys()
    assert all(found[pair] == pytest.approx(expected[pair], abs=1e-8) for pair in expected)
    ends = np.flatnonzero(stream == 2) + 1
    halves = (count_stream(part, words, config, silent) for part in np.split(stream, [ends[2]]))
    merged = _merged(*halves)
    assert all(np.array_equal(a, b) for a, b in zip(merged, counted, strict=True))


def fasttext_hash(text: bytes) -> int:
    """As in fastText's papers' program: FNV-1a over signed bytes."""
    state = 2166136261
    for byte in text:
        signed = byte - 256 if byte > 127 else byte
        state = ((state ^ (signed & 0xFFFFFFFF)) * 16777619) & 0xFFFFFFFF
    return state


@pytest.mark.parametrize("word", ["é§x", "naïve", "日本語", "a", "ab", "𝔘nicode"])
@pytest.mark.parametrize("lengths", [(3, 6), (1, 2), (3, 3)])
def test_ngrams_are_of_characters_and_hashed_as_fasttext_does(word, lengths) -> None:
    shown = f"<{word}>"
    expected = []
    for i in range(len(shown)):
        for size in range(lengths[0], lengths[1] + 1):
            gram = shown[i : i + size]
            if len(gram) == size and not (size == 1 and (i == 0 or i + size == len(shown))):
                expected.append(fasttext_hash(gram.encode()) % 2_000_000)
    assert Ngrams(*lengths, 2_000_000).of(word.encode()).tolist() == expected


def test_ngrams_have_the_numbers_that_fasttext_0_9_3_gives() -> None:
    """get_subwords of a model with 5,409 words, less those."""
    found = [1277261, 1506653, 1873607, 121991, 434473, 1606541]
    assert Ngrams(3, 5, 2_000_000).of("é§x".encode()).tolist() == [bucket - 5409 for bucket in found]

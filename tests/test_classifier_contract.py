"""What every network that labels promises, whatever its inputs: see `Body` in `features/classify/network/`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from labelled_inputs import ANIMALS, FOODS, INPUTS_OF, QUICK, log_probs, quick, small, texts
from samples import sampled

import chainrule
from chainrule.errors import SettingError, TextError
from chainrule.features.classify.labelled.texts import Labelled
from chainrule.features.classify.network.config import LABELLING
from chainrule.features.trees.structures import graph
from chainrule.features.trees.structures.tree import Tree, labelled
from chainrule.features.vision.pictures.picture import LabelledPicture
from chainrule.protocol import UNKNOWN

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.models.model import Model


def with_label(example: Any, label: str) -> Any:
    """An example of which all that is labelled has this label."""
    if isinstance(example, Labelled | LabelledPicture):
        return example._replace(labels=(label,))
    if isinstance(example, graph.LabelledGraph):
        return graph.labelled(replace(example.input, label=label), "graph", example.place)
    tree = example.input
    return labelled(Tree(tree.words, tuple(label for _ in tree.labels), tree.parents), "tree", example.place)


# Left to make thorough: networks that share their layers with others.
ALIKE = {"gru", "rnn", "convolution-bag", "alexnet", "vgg", "googlenet"}


@pytest.fixture(scope="module", params=sampled(LABELLING, [name for name in LABELLING if name not in ALIKE]))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def trained(name: str) -> Model:
    """A model that has learned its inputs."""
    inputs = INPUTS_OF[LABELLING[name].reads]()
    return chainrule.train_classifier(inputs, small(name), training=quick(name), progress=False)


def inputs_of(model: Model) -> list[Any]:
    return [example.input for example in INPUTS_OF[model.classifier.reads]()][:12]


@pytest.mark.spread(6)
def test_it_learns_what_can_be_learnt(trained: Model, name: str) -> None:
    assert trained.assess(INPUTS_OF[LABELLING[name].reads]()).accuracy.share > 0.95


def test_the_probabilities_of_a_unit_sum_to_one(trained: Model) -> None:
    for rows in log_probs(trained, inputs_of(trained)):
        np.testing.assert_allclose(np.exp(rows).sum(1), 1, atol=1e-5)


def test_neighbours_and_order_change_nothing(trained: Model) -> None:
    inputs = inputs_of(trained)
    together = log_probs(trained, inputs)
    for item, own in zip(inputs, together, strict=True):
        np.testing.assert_allclose(log_probs(trained, [item])[0], own, atol=1e-5)
    for own, other in zip(together, reversed(log_probs(trained, inputs[::-1])), strict=True):
        np.testing.assert_allclose(other, own, atol=1e-5)


@pytest.mark.spread(6)
def test_a_saved_model_labels_as_before(trained: Model, name: str, tmp_path: Path) -> None:
    trained.save(tmp_path / "model")
    again = chainrule.load(tmp_path / "model")
    assert type(again.classifier.config) is LABELLING[name]
    inputs = inputs_of(again)
    for own, other in zip(log_probs(trained, inputs), log_probs(again, inputs), strict=True):
        np.testing.assert_array_equal(own, other)


def test_vectors_are_what_labels_are_read_from(trained: Model) -> None:
    model, inputs = trained, inputs_of(trained)
    head = {key: weight.numpy() for key, weight in model.classifier.head.state_dict().items()}
    logits = model.embed(inputs) @ head["weight"].T + head["bias"]
    wanted = np.concatenate(log_probs(model, inputs))
    np.testing.assert_allclose(logits - np.logaddexp.reduce(logits, 1)[:, None], wanted, atol=1e-4)
    assert [own.units for own in model.embed_units(inputs)] == [own.units for own in model.classify(inputs)]


def test_a_label_that_training_has_not_seen_counts_as_wrong(trained: Model, name: str) -> None:
    examples = INPUTS_OF[LABELLING[name].reads]()
    first = examples[0]
    strange = with_label(first, "never seen")
    found = trained.assess([strange, *examples[1:]])
    assert found.unseen == {"never seen": len(first.labels)}
    assert found.accuracy.share < 1
    with pytest.raises(TextError, match="'never seen' was not seen in training"):
        trained.assess([strange])


@pytest.mark.spread(6)
def test_a_resumed_run_has_the_same_weights(name: str, tmp_path: Path) -> None:
    examples, training = INPUTS_OF[LABELLING[name].reads]()[:40], replace(quick(name), epochs=2, save_every=2)
    config = replace(small(name), dropout=0.3)

    def train(**options: Any) -> list[torch.Tensor]:
        model = chainrule.train_classifier(examples, config, training=training, progress=False, **options)
        return list(model.classifier.state_dict().values())

    whole = train()

    def interrupt(report: Any) -> None:
        if report.step >= 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(folder=tmp_path, on_report=interrupt)
    resumed = train(folder=tmp_path, resume=True)
    assert all(torch.equal(a, b) for a, b in zip(whole, resumed, strict=True))


def test_networks_of_words_label_each_word() -> None:
    examples = [
        Labelled(each.text, tuple("THING" if word in ANIMALS + FOODS else "X" for word in each.text.split()), "a line")
        for each in texts()
    ]
    for name in ("lstm", "convolution", "transformer", "bag"):
        config = small(name)
        config = replace(config, directions="both") if name == "lstm" else config
        model = chainrule.train_classifier(examples, config, unit="word", training=QUICK, progress=False)
        if name != "bag":
            assert model.assess(examples).accuracy.share > 0.99
        [found] = model.classify(["I saw the dog"])
        assert found.units == ["I", "saw", "the", "dog"]


def test_vectors_are_fixed_tuned_or_fresh(tmp_path: Path) -> None:
    words = sorted({word for each in texts() for word in each.text.split()})
    rows = np.random.default_rng(1).normal(size=(len(words), 7)).astype(np.float32)
    file = tmp_path / "words.vec"
    file.write_text(
        "".join(f"{word} {' '.join(map(repr, row.tolist()))}\n" for word, row in zip(words, rows, strict=True))
    )
    for fixed in (True, False):
        model = chainrule.train_classifier(
            texts(), "bag", training=QUICK, vectors=file, fixed_vectors=fixed, progress=False
        )
        weight = model.classifier.body.embedding.detach().numpy()
        own = weight[[model.tokenizer.vocabulary.id_of(word) for word in words]]
        assert own.shape[1] == 7  # as wide as the file's
        assert np.array_equal(own, rows) == fixed
        assert model.record["vectors"] == (f"{file}, fixed" if fixed else str(file))
    with pytest.raises(SettingError, match="no vectors to be fixed"):
        chainrule.train_classifier(texts(), "bag", fixed_vectors=True)


def test_with_fixed_vectors_all_their_words_are_known(tmp_path: Path) -> None:
    """Unseen words are labelled by their vectors; where these are tuned, they stay unknown, and <unk> is all zeros."""
    file = tmp_path / "words.vec"
    directions = {**dict.fromkeys((*ANIMALS, "horse"), "1 0 0"), **dict.fromkeys((*FOODS, "cheese", "<s>"), "0 1 0")}
    file.write_text("".join(f"{word} {numbers}\n" for word, numbers in directions.items()))
    for fixed in (True, False):
        model = chainrule.train_classifier(
            texts(), "bag", training=QUICK, vectors=file, fixed_vectors=fixed, progress=False
        )
        vocabulary, weight = model.tokenizer.vocabulary, model.classifier.body.embedding.detach()
        assert (b"horse" in vocabulary.tokens()) == fixed
        assert not weight[UNKNOWN].any()
        if fixed:
            assert weight[vocabulary.id_of("cheese")].tolist() == [0, 1, 0]
            assert [found.best[0][0] for found in model.classify(["horse", "cheese"])] == ["animal", "food"]
    pieces = chainrule.TokenizerConfig(kind="character")
    model = chainrule.train_classifier(
        texts(), "bag", tokenizer=pieces, training=QUICK, vectors=_letters(tmp_path), fixed_vectors=True, progress=False
    )
    assert b"horse" not in model.tokenizer.vocabulary.tokens()


def _letters(folder: Path) -> Path:
    file = folder / "letters.vec"
    file.write_text("a 1 0\ne 0 1\nhorse 1 1\n")
    return file


def test_a_recurrent_network_in_both_directions_reads_each_row_backwards_within_its_length() -> None:
    """Against torch's own, one row at a time without any padding."""
    from chainrule.features.classify.network.config import LSTMLabelling
    from chainrule.features.classify.network.texts import RecurrentLayers

    torch.manual_seed(0)
    layers = RecurrentLayers(LSTMLabelling(width=6, embedding_width=5, directions="both", layers=2, dropout=0.0))
    lengths = [4, 1, 7]
    x = torch.randn(3, 7, 5)
    hidden = layers(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        h = x[row : row + 1, :length]
        for ahead, back in zip(layers.ahead, layers.back, strict=True):
            h = torch.cat((ahead(h)[0], back(h.flip(1))[0].flip(1)), 2)
        torch.testing.assert_close(hidden[row : row + 1, :length], h, atol=1e-6, rtol=0)


def test_a_convolution_beside_a_bag_gives_maxima_and_the_scaled_sum_of_the_vectors() -> None:
    """Against a loop over positions and filters, one text at a time without any padding but that of the windows."""
    from chainrule.features.classify.network.build import build_classifier
    from chainrule.features.classify.network.config import ConvolutionBagLabelling
    from chainrule.text.units import UnitTokens

    torch.manual_seed(0)
    config = ConvolutionBagLabelling(width=4, embedding_width=3, filters=(1, 2), dropout=0.0)
    body = build_classifier(config, ("a", "b"), "text", 9).eval().body
    one, two = (np.asarray(layer.weight.detach()) for layer in body.layers.filters)
    bias_one, bias_two = (np.asarray(layer.bias.detach()) for layer in body.layers.filters)
    rows = [[3, 5, 4, 8], [7]]
    inputs = [UnitTokens(np.array(row), np.zeros(len(row), np.int64), 1) for row in rows]
    found = body(inputs).detach().numpy()
    for row, vector in zip(rows, found, strict=True):
        x = [np.asarray(body.embedding[token].detach()) for token in row]
        after = [*x[1:], np.zeros(3)]
        singles = [np.maximum(one[:, :, 0] @ at + bias_one, 0) for at in x]
        windows = [
            np.maximum(two[:, :, 0] @ at + two[:, :, 1] @ then + bias_two, 0) for at, then in zip(x, after, strict=True)
        ]
        expected = [np.max(singles, 0), np.max(windows, 0), np.sum(x, 0) / len(row) ** 0.5]
        np.testing.assert_allclose(vector, np.concatenate(expected), atol=1e-6)


def test_unknown_networks_units_and_single_labels_are_refused() -> None:
    for network, message in (("resnext", "there is no network called 'resnext'"), (5, "expected one of bag, lstm")):
        with pytest.raises((SettingError, TypeError), match=message):
            chainrule.train_classifier(texts(), network)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="unit is 'root'; of texts, expected text or word"):
        chainrule.train_classifier(texts(), "bag", unit="root")
    with pytest.raises(TextError, match="expected at least two different ones"):
        chainrule.train_classifier([each for each in texts() if each.labels == ("food",)], "bag")


def test_networks_in_one_table_with_vectors_fresh_tuned_and_fixed(tmp_path: Path) -> None:
    file = tmp_path / "words.vec"
    file.write_text("".join(f"{word} {i} {-i} 1\n" for i, word in enumerate((*ANIMALS, *FOODS))))
    table = chainrule.compare_labels(
        texts(), texts(), ("bag", "convolution"), vectors=file, training=replace(QUICK, epochs=1)
    )
    assert [(row.network, row.vectors) for row in table.rows] == [
        (name, way) for name in ("bag", "convolution") for way in ("fresh", "tuned", "fixed")
    ]
    assert all(row.result.accuracy.pairs == len(texts()) for row in table.rows)
    assert len(str(table).splitlines()) == 7
    with pytest.raises(SettingError, match="these networks read different inputs, text and tree"):
        chainrule.compare_labels(texts(), texts(), ("bag", "tree"))

"""What every network that labels promises, whatever its inputs: see `Body` of `chainrule.neural.labelling.classifier`.

A new network is one more line in INPUTS_OF, unless it reads inputs of a kind that is there.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import chainrule
from chainrule.applications.labelled_pairs import LabelledPair, Pair
from chainrule.errors import SettingError, TextError
from chainrule.neural.config.labelling import LABELLING
from chainrule.neural.config.pictures import PictureLabelling
from chainrule.pictures.picture import LabelledPicture, Picture
from chainrule.protocol import UNKNOWN
from chainrule.structures import graph
from chainrule.structures.brackets import trees_in_brackets
from chainrule.structures.tree import Tree, labelled
from chainrule.text.document_units import UnitTokens
from chainrule.text.labelled import Labelled
from chainrule.training.label_config import LabelTraining

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chainrule.api.model import Model
    from chainrule.structures.graph import LabelledGraph
    from chainrule.structures.tree import LabelledTree

ANIMALS, FOODS = ("dog", "cat", "bird"), ("bread", "soup", "rice")
# Further settings of networks for pictures of 16 x 16 pixels.
SMALL_PICTURES: dict[str, dict[str, Any]] = {
    "lenet": {"hidden": (16,)},
    "alexnet": {"channels": (8, 8, 8, 8, 8), "hidden": (16,)},
    "vgg": {"channels": (8, 8, 8, 8, 8), "hidden": (16,), "size": (32,)},
    "googlenet": {"width": 16, "blocks": (1, 1, 1)},
    "resnet": {"width": 8, "blocks": (1, 1, 1)},
    "vit": {"layers": 1},
    "efficientnet": {"stages": 2},
}
QUICK = LabelTraining(epochs=6, batch=8, learning_rate=0.02)


def texts() -> list[Labelled]:
    """Of several lengths."""
    return [
        Labelled(f"{'so ' * (i % 3)}I saw the {thing} {when}", (label,), f"line {i}")
        for i in range(6)
        for label, things in (("animal", ANIMALS), ("food", FOODS))
        for thing in things
        for when in ("today", "again and again")
    ]


def trees() -> list[LabelledTree]:
    """A tree is what its deepest word is."""
    lines = [
        f"({label} {'(x (y so) ' * (i % 3)}(x (y the) (z {thing})){')' * (i % 3)} (y {when}))"
        for i in range(6)
        for label, things in (("animal", ANIMALS), ("food", FOODS))
        for thing in things
        for when in ("today", "again")
    ]
    placed = [found for found in trees_in_brackets(lines) if not isinstance(found, TextError)]
    return [labelled(found.tree, "tree", f"line {found.line}") for found in placed]


def graphs() -> list[LabelledGraph]:
    """Rings with a tail of two nodes: a graph is what the node two steps from its "start" is."""
    examples = []
    for i in range(72):
        thing = (ANIMALS + FOODS)[i % 6]
        ring = 3 + i % 4
        words = ("start", *("so",) * (ring - 1), "the", thing)
        edges = [(node, (node + 1) % ring, "ring") for node in range(ring)] + [
            (0, ring, "tail"),
            (ring, ring + 1, "tail"),
        ]
        label = "animal" if thing in ANIMALS else "food"
        examples.append(graph.labelled(graph.Graph(words, tuple(edges), label=label), "graph", f"line {i}"))
    return examples


def pictures() -> list[LabelledPicture]:
    """Noise in which the upper half, or the lower one, is bright; some of a size that must be changed."""
    random = np.random.default_rng(3)
    examples = []
    for i in range(60):
        side = (16, 16, 20)[i % 3]
        pixels = random.integers(0, 90, (side, side, 3), np.uint8)
        is_upper = i % 2 == 0
        pixels[: side // 2] += np.uint8(150 * is_upper)
        pixels[side // 2 :] += np.uint8(150 * (not is_upper))
        examples.append(LabelledPicture(Picture(pixels, f"picture {i}"), ("above" if is_upper else "below",)))
    return examples


# Labelled inputs of several sizes that a network of each kind can learn, by what it reads.
INPUTS_OF: dict[str, Callable[[], list[Any]]] = {"text": texts, "tree": trees, "graph": graphs, "picture": pictures}


def with_label(example: Any, label: str) -> Any:
    """An example of which all that is labelled has this label."""
    if isinstance(example, Labelled | LabelledPicture):
        return example._replace(labels=(label,))
    if isinstance(example, graph.LabelledGraph):
        return graph.labelled(replace(example.input, label=label), "graph", example.place)
    tree = example.input
    return labelled(Tree(tree.words, tuple(label for _ in tree.labels), tree.parents), "tree", example.place)


def small(name: str) -> Any:
    config = LABELLING[name](width=16, dropout=0.0)
    if isinstance(config, PictureLabelling):
        return replace(config, **{"size": (16,), **SMALL_PICTURES.get(name, {})})
    return replace(config, embedding_width=12) if hasattr(config, "embedding_width") else config


def quick(name: str) -> LabelTraining:
    """Training in a second or two."""
    if not issubclass(LABELLING[name], PictureLabelling):
        return QUICK
    return replace(QUICK, learning_rate=0.01 if name == "vit" else 0.004, epochs=8)


@pytest.fixture(scope="module")
def trained() -> dict[str, Model]:
    """A model of each network, which has learned its inputs."""
    return {
        name: chainrule.train_classifier(INPUTS_OF[config.reads](), small(name), training=quick(name), progress=False)
        for name, config in LABELLING.items()
    }


def log_probs(model: Model, inputs: list[Any]) -> list[np.ndarray]:
    return [found.log_probs for found in model.classify(inputs)]


def inputs_of(model: Model) -> list[Any]:
    return [example.input for example in INPUTS_OF[model.classifier.reads]()][:12]


@pytest.mark.parametrize("name", LABELLING)
def test_it_learns_what_can_be_learnt(trained: dict[str, Model], name: str) -> None:
    assert trained[name].assess(INPUTS_OF[LABELLING[name].reads]()).accuracy.share > 0.95


@pytest.mark.parametrize("name", LABELLING)
def test_the_probabilities_of_a_unit_sum_to_one(trained: dict[str, Model], name: str) -> None:
    for rows in log_probs(trained[name], inputs_of(trained[name])):
        np.testing.assert_allclose(np.exp(rows).sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("name", LABELLING)
def test_neighbours_and_order_change_nothing(trained: dict[str, Model], name: str) -> None:
    inputs = inputs_of(trained[name])
    together = log_probs(trained[name], inputs)
    for item, own in zip(inputs, together, strict=True):
        np.testing.assert_allclose(log_probs(trained[name], [item])[0], own, atol=1e-5)
    for own, other in zip(together, reversed(log_probs(trained[name], inputs[::-1])), strict=True):
        np.testing.assert_allclose(other, own, atol=1e-5)


@pytest.mark.parametrize("name", LABELLING)
def test_a_saved_model_labels_as_before(trained: dict[str, Model], name: str, tmp_path: Path) -> None:
    trained[name].save(tmp_path / "model")
    again = chainrule.load(tmp_path / "model")
    assert type(again.classifier.config) is LABELLING[name]
    inputs = inputs_of(again)
    for own, other in zip(log_probs(trained[name], inputs), log_probs(again, inputs), strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("name", LABELLING)
def test_vectors_are_what_labels_are_read_from(trained: dict[str, Model], name: str) -> None:
    model, inputs = trained[name], inputs_of(trained[name])
    head = {key: weight.numpy() for key, weight in model.classifier.head.state_dict().items()}
    logits = model.embed(inputs) @ head["weight"].T + head["bias"]
    wanted = np.concatenate(log_probs(model, inputs))
    np.testing.assert_allclose(logits - np.logaddexp.reduce(logits, 1)[:, None], wanted, atol=1e-4)
    assert [own.units for own in model.embed_units(inputs)] == [own.units for own in model.classify(inputs)]


@pytest.mark.parametrize("name", LABELLING)
def test_a_label_that_training_has_not_seen_counts_as_wrong(trained: dict[str, Model], name: str) -> None:
    examples = INPUTS_OF[LABELLING[name].reads]()
    first = examples[0]
    strange = with_label(first, "never seen")
    found = trained[name].assess([strange, *examples[1:]])
    assert found.unseen == {"never seen": len(first.labels)}
    assert found.accuracy.share < 1
    with pytest.raises(TextError, match="'never seen' was not seen in training"):
        trained[name].assess([strange])


@pytest.mark.parametrize("name", LABELLING)
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
    from chainrule.neural.config.labelling import LSTMLabelling
    from chainrule.neural.labelling.text_layers import RecurrentLayers

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
    table = chainrule.compare_labels(texts(), texts(), ("bag", "convolution"), vectors=file, training=QUICK)
    assert [(row.network, row.vectors) for row in table.rows] == [
        (name, way) for name in ("bag", "convolution") for way in ("fresh", "tuned", "fixed")
    ]
    assert all(row.result.accuracy.pairs == len(texts()) for row in table.rows)
    assert len(str(table).splitlines()) == 7
    with pytest.raises(SettingError, match="these networks read different inputs, text and tree"):
        chainrule.compare_labels(texts(), texts(), ("bag", "tree"))


def pairs_of(reads: str, unit: str) -> list[LabelledPair]:
    """A pair has the label of its first side; it is rated 4.5 if both sides are of animals or of food, else 1.5."""
    inputs = INPUTS_OF[reads]()[::3]
    pairs = []
    for i, first in enumerate(inputs):
        for second in inputs[i % 3 :: 3]:
            rating = "4.5" if first.labels == second.labels else "1.5"
            [label] = first.labels if unit == "pair" else (rating,)
            pairs.append(LabelledPair(Pair(first.input, second.input), (label,), "a pair"))
    return pairs


@pytest.mark.parametrize("unit", ["pair", "rating"])
@pytest.mark.parametrize(("name", "reads"), [("bag", "text"), ("tree", "tree")])
def test_two_inputs_have_a_label_or_a_rating(name: str, reads: str, unit: str, tmp_path: Path) -> None:
    pairs = pairs_of(reads, unit)
    longer = replace(QUICK, epochs=20, patience=20)
    model = chainrule.train_classifier(pairs, small(name), unit=unit, training=longer, progress=False)
    model.save(tmp_path / "model")
    again = chainrule.load(tmp_path / "model")
    inputs = [pair.input for pair in pairs][:20]
    together = log_probs(model, inputs)
    for pair, own, other in zip(inputs, together, log_probs(again, inputs), strict=True):
        np.testing.assert_array_equal(own, other)
        np.testing.assert_allclose(log_probs(model, [pair])[0], own, atol=1e-5)
        if unit == "rating":  # the same with the sides exchanged
            np.testing.assert_allclose(log_probs(model, [Pair(pair.second, pair.first)])[0], own, atol=1e-5)
    if unit == "pair":
        if name == "bag":  # trees need smaller steps, and so more of them, to learn which side is asked for
            assert model.assess(pairs).accuracy.share > 0.95
        with pytest.raises(SettingError, match="this classifier labels"):
            model.assess_ratings(pairs)
        return
    result = model.assess_ratings(pairs)
    assert result.pearson > 0.95
    assert result.mean_squared_error < 0.3
    assert model.classifier.labels == ("1", "2", "3", "4", "5")
    [found] = model.classify([pairs[0].input])
    assert found.means[0] == pytest.approx(4.5, abs=0.5)
    with pytest.raises(SettingError, match="measure them with assess_ratings"):
        model.assess(pairs)


def test_the_divergence_from_ratings_is_that_of_the_formula() -> None:
    """KL(p || q) of Tai et al. 2015, equation 16, spelled out, from scores that are all 0: the head begins at 0."""
    from chainrule.evaluation.ratings import shares_of
    from chainrule.neural.labelling.build import build_classifier
    from chainrule.training.labels import Example, LabelData, LabelObjective

    network = build_classifier(small("bag"), ["1", "2", "3"], "rating", 20)
    tokens = UnitTokens(np.array([4, 5]), np.array([0, 0]), 1)
    shares = shares_of(np.array([1.25, 3.0]), ["1", "2", "3"])
    examples = [Example((tokens, tokens), share[None]) for share in shares]
    setup = SimpleNamespace(
        processes=SimpleNamespace(number=1, rank=0, add=lambda tensors: None),
        training=SimpleNamespace(accumulate=1, label_smoothing=0.0, seed=0),
        recipe=SimpleNamespace(batch=2),
        machine=SimpleNamespace(device="cpu", precision=nullcontext),
    )
    objective = LabelObjective(network, setup, LabelData(examples, examples))  # type: ignore[arg-type]
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    expected = (np.log(3) - entropy) + np.log(3)
    loss = sum(float(objective.loss(0, part, network, 0.0).detach()) for part in objective.parts(0))
    assert loss == pytest.approx(expected, abs=1e-5)
    assert objective.weight(0) == 2
    assert objective.validated(10**9).loss == pytest.approx(expected / 2, abs=1e-5)


def test_pairs_that_are_none_and_ratings_that_are_no_numbers() -> None:
    with pytest.raises(TypeError, match="this takes labelled pairs"):
        chainrule.train_classifier(texts(), "bag", unit="pair")
    with pytest.raises(TypeError, match="this takes labelled pairs"):
        chainrule.train_classifier(pairs_of("tree", "pair"), "bag", unit="pair")
    with pytest.raises(TextError, match="the rating is 'animal'; expected a number"):
        chainrule.train_classifier(pairs_of("text", "pair"), "bag", unit="rating")
    with pytest.raises(SettingError, match="graphs are not labelled in pairs"):
        chainrule.train_classifier(texts(), "graph", unit="pair")

"""A language model of trees through the training loop: it learns, goes on where it stopped, is saved, and is drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import chainrule
from chainrule.errors import SettingError, TextError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("one_thread")  # the networks are tiny

TRAINING = chainrule.TrainingConfig(steps=100, batch=8, learning_rate=0.03, validate_every=50, precision="float32")
TREE = chainrule.TreeConfig(width=12, dropout=0.1)


@pytest.fixture(scope="module")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> chainrule.Treebank:
    """Verbs decide their objects: she sees dogs, he eats bread, perhaps much of it."""
    file = tmp_path_factory.mktemp("treebank") / "trees.txt"
    lines = ("(S she (VP sees (NP dogs)))", "(S he (VP eats (NP bread)))", "(S he (VP eats (NP much (N bread) now)))")
    file.write_text("\n".join(lines * 20) + "\n")
    return chainrule.Treebank.of(file)


def train(treebank: chainrule.Treebank, **options: Any) -> Any:
    return chainrule.train(
        treebank, TREE, tokenizer="whitespace", training=TRAINING, validation=treebank, progress=False, **options
    )


@pytest.fixture(scope="module")
def model(treebank: chainrule.Treebank) -> Any:
    return train(treebank)


def test_it_learns_is_saved_and_writes_only_trees(model: Any, treebank: chainrule.Treebank, tmp_path: Path) -> None:
    assert model.record["validation"]["loss"] < 0.8
    right, wrong, no_tree = model.score(["( S she ( VP sees dogs ) )", "( S she ( VP eats dogs ) )", "( S she"])
    assert right > wrong + 2
    assert no_tree == -np.inf
    model.save(tmp_path / "model")
    again = chainrule.load(tmp_path / "model")
    assert again.score(["( S she ( VP sees dogs ) )"])[0] == pytest.approx(right, abs=1e-4)
    assert again.record["reading"] == {"document": "tree"}
    assert np.isfinite(model.score(again.generate(n=8, seed=1))).all()
    assert again.evaluate(treebank, progress=False).bits_per_byte < 1


def test_a_run_goes_on_where_it_stopped(model: Any, treebank: chainrule.Treebank, tmp_path: Path) -> None:
    whole = model.language_model.network.state_dict()

    def interrupt(report: Any) -> None:
        if report.step >= 60:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(treebank, folder=tmp_path / "run", on_report=interrupt)
    resumed = train(treebank, folder=tmp_path / "run", resume=True).language_model.network.state_dict()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_texts_that_are_no_trees(tmp_path: Path) -> None:
    training = chainrule.TrainingConfig(steps=2)
    with pytest.raises(SettingError, match="the text has no brackets"):
        chainrule.train(chainrule.Lines(["a b"] * 90), TREE, tokenizer="whitespace", training=training)
    with pytest.raises(TextError, match=r"document 3: token 3 is \(; expected|document 3: .* a bracket is left open"):
        chainrule.train(
            chainrule.Lines([*["( a b )"] * 2, "( a b", *["( a b )"] * 90]),
            TREE,
            tokenizer="whitespace",
            training=training,
        )


def test_trees_are_drawn_with_the_bits_of_each_node(model: Any, tmp_path: Path) -> None:
    drawings = chainrule.draw_trees(model, "(S she (VP sees (NP dogs)))")
    [drawing] = drawings.drawings
    total = -float(model.score(["( S she ( VP sees dogs ) )"])[0]) / np.log(2)
    assert drawing.about.startswith(f"{total:.1f} bits")
    assert sum(float(node.note.removesuffix(" bits")) for node in drawing.nodes) == pytest.approx(total, abs=0.3)
    for name in ("tree.svg", "tree.html"):
        drawings.save(tmp_path / name)
        drawn = (tmp_path / name).read_text()
        assert all(word in drawn for word in ("she", "sees", "dogs"))
        assert "http://" not in drawn.replace("http://www.w3.org/2000/svg", "")
    with pytest.raises(SettingError, match=r"must end in \.html or \.svg"):
        drawings.save(tmp_path / "tree.png")
    with pytest.raises(TextError, match="neither a file nor a tree"):
        chainrule.draw_trees(model, "")


def test_trees_are_drawn_with_labels_and_gates() -> None:
    from chainrule.features.trees.structures.tree import labelled
    from chainrule.features.trees.structures.tree_files import trees_in_brackets

    lines = ["(good (bad not) (bad <bad>))", "(bad (bad not) (good good))"] * 4
    trees = [labelled(placed.tree, "node") for placed in trees_in_brackets(lines) if not isinstance(placed, TextError)]
    training = chainrule.ClassifierTrainingConfig(epochs=2)
    model = chainrule.train_classifier(trees, "tree", unit="node", training=training, progress=False)
    [drawing] = chainrule.draw_trees(model, [trees[0].input]).drawings
    assert [node.strength is None for node in drawing.nodes] == [False, False, True]
    assert all(0 < node.strength < 1 for node in drawing.nodes if node.strength is not None)
    page = chainrule.draw_trees(model, "(good (bad not) (bad <bad>))")._repr_html_()
    assert "&lt;bad&gt;" in page
    with pytest.raises(SettingError, match="reads no trees"):
        chainrule.draw_trees(chainrule.train(chainrule.Lines(["a b"])), "(a b)")


def test_no_tree_is_cut_to_validate_on(tmp_path: Path) -> None:
    """The last tree is more than a twentieth of three trees, and is split off as it is."""
    three, last = tmp_path / "three.txt", tmp_path / "last.txt"
    last.write_text("(S he (VP eats (NP much (N bread) now)))\n")
    three.write_text("(S she (VP sees (NP dogs)))\n(S he (VP eats (NP bread)))\n" + last.read_text())
    once = replace(TRAINING, steps=1)
    model = chainrule.train(chainrule.Treebank.of(three), TREE, tokenizer="whitespace", training=once, progress=False)
    assert model.record["validation"]["tokens"] == model.evaluate(chainrule.Treebank.of(last)).tokens
    with pytest.raises(TextError, match="is one document, so that nothing is left to validate on; give a text for it"):
        chainrule.train(
            chainrule.Treebank.of(last),
            TREE,
            tokenizer="whitespace",
            training=replace(once, valid_share=0.5),
            progress=False,
        )

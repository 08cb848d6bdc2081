"""The types that `load` promises: mypy checks the assertions here, pytest that they hold when they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

import pytest

import chainrule
from chainrule import (
    AnyModel,
    CaptionModel,
    CausalModel,
    CausalNetwork,
    ClassifierModel,
    EmbeddingModel,
    MaskedModel,
    Model,
    ScoringModel,
    Seq2SeqModel,
)

if TYPE_CHECKING:
    from pathlib import Path

TEXT = chainrule.Lines(["a text", "another text"])


def test_a_kind_that_is_named_is_the_type(tmp_path: Path) -> None:
    path = tmp_path / "lm"
    chainrule.train(TEXT, chainrule.NGramConfig(order=2)).save(path)
    causal = assert_type(chainrule.load(path, CausalModel), CausalModel)
    assert assert_type(causal.perplexity(TEXT), float) > 1
    assert isinstance(assert_type(chainrule.load(path, ScoringModel), ScoringModel), CausalModel)
    assert isinstance(assert_type(chainrule.load(path, Model), Model), CausalModel)


def test_without_a_kind_it_is_any_of_them(tmp_path: Path) -> None:
    path = tmp_path / "lm"
    chainrule.train(TEXT, chainrule.NGramConfig(order=2)).save(path)
    model = assert_type(chainrule.load(path), AnyModel)
    assert isinstance(model, CausalModel)
    assert model.next("a", top=1)


def other_kinds(path: Path) -> None:
    """Checked by mypy alone: what is at the path cannot be all of these."""
    assert_type(chainrule.load(path, CausalNetwork), CausalNetwork)
    assert_type(chainrule.load(path, MaskedModel), MaskedModel)
    assert_type(chainrule.load(path, EmbeddingModel), EmbeddingModel)
    assert_type(chainrule.load(path, ClassifierModel), ClassifierModel)
    assert_type(chainrule.load(path, Seq2SeqModel), Seq2SeqModel)
    assert_type(chainrule.load(path, CaptionModel), CaptionModel)
    chainrule.load(path).fill("a [MASK]")  # type: ignore[attr-defined]  # not all kinds fill gaps
    chainrule.load(path, CausalModel).embed(["a text"])  # type: ignore[attr-defined]


def test_a_channel_may_stand_without_its_name() -> None:
    model = chainrule.train(TEXT, chainrule.NGramConfig(order=2))
    assert_type(chainrule.corrector(model, "ocr", beam=3).correct(["a txt"])[0].text, str)
    with pytest.raises(TypeError, match="has no option 'channels'"):
        chainrule.corrector(model, "ocr", channels="ocr")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        chainrule.correct(TEXT, model, "ocr")  # type: ignore[call-arg, arg-type]


def test_the_class_of_the_config_is_that_of_the_model() -> None:
    assert_type(chainrule.train(TEXT), CausalModel)
    assert_type(chainrule.train(source=TEXT, config=chainrule.NGramConfig(order=2), markers="skip"), CausalModel)
    with pytest.raises(TypeError, match=r"train\(\) has no option 'marker'"):
        chainrule.train(TEXT, marker="skip")  # type: ignore[call-overload]


def kinds_that_are_trained(training: chainrule.TrainingConfig) -> None:
    """Checked by mypy alone: training takes a while."""
    assert_type(chainrule.train(TEXT, chainrule.TransformerConfig(), training=training, folder="lm/"), CausalNetwork)
    assert_type(chainrule.train(TEXT, chainrule.MaskedConfig(), training=training), MaskedModel)
    assert_type(chainrule.train(TEXT, chainrule.BidirectionalConfig()), MaskedModel)
    chainrule.train(TEXT, chainrule.TransformerConfig(), training=3)  # type: ignore[call-overload]
    assert_type(chainrule.adapt("lm/", TEXT, training=training), Model)

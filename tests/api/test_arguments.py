"""Arguments of a wrong type, or that no file has: one line that names the argument."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import chainrule
from chainrule.errors import SettingError
from chainrule.features.classify.inputs import INPUTS

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = Path(__file__).parents[1] / "fixtures" / "train.txt"


@pytest.fixture(scope="module")
def model() -> chainrule.CausalModel:
    return chainrule.train(TEXT, chainrule.NGramConfig(order=2), tokenizer="whitespace")


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        (None, TypeError, "path is None; expected a path"),
        (5, TypeError, "path is 5; expected a path"),
        ("", SettingError, "path is empty; expected that of a file or folder"),
        ("a\0b", SettingError, r"path is 'a\x00b', with a NUL character"),
        ("a" * 5000, SettingError, "which is longer than names of files may be"),
    ],
)
def test_a_path_that_no_file_has(model: Any, path: Any, error: type[Exception], message: str) -> None:
    for verb in (chainrule.load, chainrule.load_vectors, chainrule.verify, chainrule.info, model.save):
        if verb is chainrule.info and isinstance(path, int | None):
            continue  # it takes a model, too
        with pytest.raises(error, match=re.escape(message)):
            verb(path)
    with pytest.raises(error, match=re.escape(message.replace("path is", "target is"))):
        chainrule.convert("lm", path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.generate(5), "prompt is 5; expected a string"),
        (lambda model: list(model.stream(5)), "prompt is 5; expected a string"),
        (lambda model: model.complete(5), "this takes text, each a str; found 5"),
        (lambda model: model.unknown_words(5), "this takes text, each a str; found 5"),
    ],
)
def test_a_prompt_that_is_no_text(model: Any, call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call(model)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n": "2"}, SettingError, "n is '2'; expected a whole number, 1 to 1,000,000"),
        ({"n": 2.5}, SettingError, "n is 2.5; expected a whole number, 1 to 1,000,000"),
        ({"n": 0}, SettingError, "n is 0; expected 1 to 1,000,000"),
        ({"n": 99999999999999}, SettingError, "n is 99999999999999; expected 1 to 1,000,000"),
        ({"seed": "x"}, SettingError, "seed is 'x'; expected a whole number, 0 or more, or nothing"),
        ({"seed": -1}, SettingError, "seed is -1; expected 0 or more"),
        ({"limits": 5}, TypeError, "limits is 5; expected a Limits"),
        ({"sampling": 5}, TypeError, "sampling is 5; expected a SamplingConfig"),
    ],
)
def test_settings_of_generating(model: Any, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        model.generate("ka", **arguments)


def test_several_are_expected(model: Any) -> None:
    for text in (None, 5, [None]):
        with pytest.raises(TypeError, match=r"this takes the path of a text, or several in a list; found"):
            chainrule.train(text, chainrule.NGramConfig())
        with pytest.raises(TypeError, match=r"this takes the path of a text, or several in a list; found"):
            model.evaluate(text)
    for examples in ("path", None, Path("x")):
        with pytest.raises(TypeError, match=r"examples is .*; expected several, in a list"):
            chainrule.train_classifier(examples, "bag")
    with pytest.raises(TypeError, match=r"models is 5; expected several, in a list"):
        chainrule.mix(5)
    with pytest.raises(TypeError, match=r"this takes a model, as chainrule.load gives one; found 5"):
        chainrule.mix([model, 5])


def test_pairs_are_two_texts_each() -> None:
    examples = [chainrule.LabelledPair(chainrule.Pair("a b", word), (str(i),)) for i, word in enumerate("abcd")]
    training = chainrule.ClassifierTrainingConfig(epochs=1, valid_share=0.0)
    raters = chainrule.train_classifier(examples, "bag", unit="rating", training=training)
    assert raters.classify([("a", "b")])[0].units == ["a / b"]
    for inputs in (["a"], ["ab"], chainrule.Pair("a", "b"), [("a", 5)]):  # ab was read as a and b
        with pytest.raises(TypeError, match=r"this takes pairs, each a Pair of two str; found"):
            raters.classify(inputs)
    for reads, kind in (("tree", "Tree"), ("graph", "Graph")):
        with pytest.raises(TypeError, match=f"this takes {reads}s, each a {kind}, in a list; found 'a'"):
            INPUTS[reads].given(["a"])
    for train in (chainrule.train_grammar, chainrule.train_channel):
        with pytest.raises(TypeError, match=r"pairs have \('a', 'b', 3\); expected two texts each, such as \('"):
            train([("a", "b", 3)])


def test_models_words_and_counts_of_another_type(model: Any, tmp_path: Path) -> None:
    vectors = chainrule.train_vectors(TEXT, chainrule.VectorsConfig(dimensions=4, epochs=1))
    for call, message in (
        (
            lambda: chainrule.map_vectors("vectors/", tmp_path / "x.html"),
            "vectors is 'vectors/'; expected a WordVectors",
        ),  # type: ignore[arg-type]
        (
            lambda: chainrule.detect("the man", model),
            "this takes a model, as chainrule.load gives one; found 'the man'",
        ),
        (lambda: chainrule.corrector(model, lexicon=5), "lexicon is 5; expected the path of a file, or words with"),
        (lambda: vectors.nearest(5), "word is 5; expected a str"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=message):
            call()
    rows = chainrule.surprisal(chainrule.Lines(["the"]), model, frequencies={"the": -1})
    with pytest.raises(SettingError, match="frequencies have 'the': -1; expected a word and its count, 0 or more"):
        rows.to_records()

"""Arguments of a wrong type, or that no file has: one line that names the argument."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import chainrule
from chainrule.errors import SettingError

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

"""Messages in the words of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chainrule.cli.main import app
from chainrule.cli.wrong_usage import in_options

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("top_p is 2.0; expected more than 0", "--top-p is 2.0; expected more than 0"),
        ("alpha is 9; expected 0 to 4", "--alpha is 9; expected 0 to 4"),
        ("n is 0; expected 1 or more", "--number is 0; expected 1 or more"),
        ("top_p and min_p are both given", "--top-p and --min-p are both given"),
        ("take another markers='keep' or must_end=True", "take another --markers keep or --must-end"),
        ("use json=False, or stop=...", "use --no-json, or --stop"),
        ("use max_tokens=5.", "use --max-tokens 5."),
        # What the verb has no option for, and what only looks like a setting.
        ("learning_rate is 0; say steps=4", "learning_rate is 0; say steps=4"),
        (
            "lm/top_p/x: 'top_p' is no word; see --top_p, min_p.txt",
            "lm/top_p/x: 'top_p' is no word; see --top_p, min_p.txt",
        ),
        ("the beam of 3 is too wide: alpha is fine", "the beam of 3 is too wide: alpha is fine"),
    ],
)
def test_settings_are_named_as_the_options_of_the_verb(message: str, expected: str) -> None:
    assert in_options(message, app["generate"]) == expected


def test_options_of_several_words_take_them_one_after_the_other(chainrule, model: Path) -> None:
    common = ("generate", model, "-n", 3, "--seed", 1, "--max-tokens", 4)
    assert chainrule(*common, "--allow", "ka", "vi").out == chainrule(*common, "--allow", "ka", "--allow", "vi").out
    assert set(chainrule(*common, "--allow", "ka", "vi", "--min-tokens", 1).out.split()) <= {"ka", "vi"}
    assert "ka" not in chainrule(*common, "--ban", "ka", "vi").out.split()
    assert chainrule(*common, "--stop=--x").status == 1  # the value of an option, and no option


@pytest.fixture
def masked(chainrule, corpus: Path, tmp_path: Path) -> Path:
    """A network that continues no texts, with the tokenizer of `model`."""
    path = tmp_path / "masked"
    sizes = ("--layers", 1, "--width", 8, "--heads", 1, "--context", 16, "--steps", 1, "--compile", "no")
    assert chainrule("train", "masked", corpus, "--tokenizer", "whitespace", "-o", path, *sizes).status == 0
    return path


def test_an_error_about_one_of_several_models_says_about_which(
    chainrule, model: Path, masked: Path, heldout: Path, tmp_path: Path
) -> None:
    lists = tmp_path / "lists.jsonl"
    lists.write_text('{"hypotheses": [{"text": "ka vi"}, {"text": "vi"}]}\n')
    for command in (
        ("compare", model, masked, "--text", heldout),
        ("filter", heldout, "--model", model, "--difference", masked, "--below", 9),
        ("filter", heldout, "--model", masked, "--difference", model, "--below", 9),
        ("mix", model, masked, "-o", tmp_path / "mix"),
        ("mix", model, masked, "-o", tmp_path / "mix", "--static"),
        ("rescore", lists, "--model", model, "--model", f"other={masked}"),
    ):
        message = chainrule(*command).error
        assert message.startswith(f"{masked}: a model of family 'masked' fills gaps in texts"), command


def test_an_error_about_a_marker_names_the_model_that_refuses_it(
    chainrule, corpus: Path, model: Path, tmp_path: Path
) -> None:
    keeps, text = tmp_path / "keeps", tmp_path / "a.txt"
    text.write_text("ka <unk>\n")
    train = ("train", "ngram", corpus, "--tokenizer", "whitespace", "--markers", "keep", "--order", 1)
    assert chainrule(*train, "-o", keeps).status == 0
    message = chainrule("compare", keeps, model, "--text", text).error
    assert message.startswith(f"{model}: {text}, line 1: <unk> occurs in the text")
    assert "or set --markers skip, which removes markers, or --markers keep, which" in message
    missing = tmp_path / "missing.txt"  # a fault of the text is of no model
    assert chainrule("compare", keeps, model, "--text", missing).error.startswith(f"{missing}: ")


@pytest.mark.parametrize("prompt", ["a " * 5000, "nul\0byte", ""])
def test_a_text_is_no_model_whatever_is_in_it(prompt: str, chainrule, tmp_path: Path) -> None:
    missing = tmp_path / "lm"
    assert chainrule("next", missing, prompt).error.startswith(f"{missing}: there is no such folder or file")

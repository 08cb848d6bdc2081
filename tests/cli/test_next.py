"""chainrule next: the distribution after a prompt."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

import chainrule as library

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("prompt", ["", "ka vi", "ka unseen", "unseen"])
def test_the_likeliest_tokens_come_first_with_their_probabilities_and_bits(prompt: str, chainrule, model: Path) -> None:
    result = chainrule("next", model, prompt, "--top", 5)
    note = "note: the model does not know unseen of the prompt; each counts as <unk>\n"
    assert (result.status, result.err) == (0, note if "unseen" in prompt else "")
    header, *rows = [line.split() for line in result.lines]
    assert header == ["token", "probability", "bits"]
    assert len(rows) == 5
    for (token, prob, bits), (name, value) in zip(rows, library.load(model).next(prompt, top=5), strict=True):
        assert token == name
        assert prob == f"{value:.6f}"
        assert float(bits) == pytest.approx(-math.log2(value), abs=0.006)


def test_json_holds_token_probability_and_log_probability(chainrule, model: Path) -> None:
    rows = chainrule("next", model, "ka", "--json").json
    assert [(row["token"], row["prob"]) for row in rows] == library.load(model).next("ka")
    assert [row["log_prob"] for row in rows] == [math.log(row["prob"]) for row in rows]


def test_more_than_the_vocabulary_gives_all_of_it_and_it_sums_to_one(chainrule, model: Path, corpus: Path) -> None:
    rows = chainrule("next", model, "ka", "--top", 10**9, "--json").json
    assert {row["token"] for row in rows} == {*corpus.read_text().split(), "<unk>", "</s>"}  # <s> is never predicted
    assert sum(row["prob"] for row in rows) == pytest.approx(1, abs=1e-4)


def test_without_a_prompt_a_line_begins(chainrule, model: Path) -> None:
    assert chainrule("next", model).out == chainrule("next", model, "").out


@pytest.mark.parametrize("arguments", [["-x"], ["--", "--x"], ["-"], ["--", "--top"], ["--", "-h"]])
def test_a_prompt_may_begin_with_a_hyphen(arguments: list[str], chainrule, model: Path) -> None:
    assert chainrule("next", model, *arguments).out == chainrule("next", model, "unseen").out


def test_what_has_no_probability_is_not_listed(chainrule, impossible: Path) -> None:
    rows = chainrule("next", impossible, "--json").json
    assert [(row["token"], pytest.approx(row["prob"], rel=1e-6)) for row in rows] == [("</s>", 0.5), ("a", 0.5)]


def test_a_prompt_with_a_marker_is_refused_unless_a_rule_is_given(chainrule, model: Path) -> None:
    assert "--markers" in chainrule("next", model, "<s> ka").error
    assert chainrule("next", model, "<s> ka", "--markers", "skip").out == chainrule("next", model, "ka").out


def test_white_space_as_a_token_has_a_symbol_that_every_font_has(chainrule, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a b\tc\n" * 3)
    model = tmp_path / "characters"
    assert chainrule("train", "ngram", text, "-o", model, "--order", 2, "--tokenizer", "character").status == 0
    tokens = {line.split()[0] for line in chainrule("next", model, "a").lines[1:]}
    assert tokens == {"a", "b", "c", "·", "→", "<unk>", "</s>"}
    assert {"␠", "␉"} <= {row["token"] for row in chainrule("next", model, "a", "--json").json}


@pytest.mark.parametrize("kind", ["bpe", "unigram", "wordpiece"])
def test_pieces_are_shown_as_people_read_them(kind: str, chainrule, tmp_path: Path) -> None:
    """Of bytes, `next` printed Ġaustin, and a piece within a word looked like a word."""
    lines = ["the capital is austin", "the capitals are austin and boston"] * 20
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    model = tmp_path / "model"
    chainrule("train", "ngram", tmp_path / "text.txt", "-o", model, "--tokenizer", kind, "--vocabulary-size", 300)
    shown = {line.split()[0] for line in chainrule("next", model, "the capital is", "--top", 5).lines[1:]}
    assert shown & {"austin", "a", "·austin", "·a"}  # the unigram tokenizer has learned no longer piece
    table = [line.split()[0] for line in chainrule("next", model, "the capital", "--top", 300).lines[1:]]
    assert not {token[0] for token in table if len(token) > 1} & {"Ġ", "▁", "#"}

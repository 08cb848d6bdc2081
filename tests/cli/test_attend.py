"""chainrule attend: where seq2seq models and language models look."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest

from chainrule.drawing import attention as attention_maps

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.drawing.attention import AttentionMap

pytestmark = pytest.mark.usefixtures("one_thread")


def test_where_a_model_of_pairs_looks_is_a_page_and_a_picture(chainrule, mt: Path, tmp_path: Path) -> None:
    page, picture = tmp_path / "a.html", tmp_path / "a.svg"
    result = chainrule("attend", mt, "zwei <b>hunde", "two <script>dogs", "-o", page)
    assert result.out.endswith("6 maps\n"), result.err  # source, target, and the one on the other; two heads
    text = page.read_text()
    assert "<script" not in text
    assert "<b>" not in text
    assert "target on source, layer 1" in text
    assert chainrule("attend", mt, "zwei hunde", "-o", picture).status == 0
    ElementTree.fromstring(picture.read_text())
    assert "exists already" in chainrule("attend", mt, "zwei", "-o", page).error
    assert chainrule("attend", mt, "zwei", "-o", tmp_path / "a.png").status == 2
    assert "the source is empty" in chainrule("attend", mt, "", "-o", tmp_path / "b.svg").error


def test_a_row_of_a_target_is_the_token_that_is_written_there(
    chainrule, mt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels and weights are those of translate --json, whose rows are the tokens written."""
    drawn: list[AttentionMap] = []
    monkeypatch.setitem(attention_maps._DRAWN, ".html", lambda heading, maps: str(drawn.extend(maps)))
    (tmp_path / "in").write_text("zwei hunde\n")
    texts = chainrule("translate", mt, tmp_path / "in", "--json", "--nbest", 9, "--max-tokens", 4).json["texts"]
    written = max(texts, key=lambda text: len(text["tokens"]))  # the model has learned little, and may write nothing
    assert chainrule("attend", mt, "zwei hunde", written["text"], "-o", tmp_path / "a.html").status == 0
    maps = {each.title: each for each in drawn}
    across, own = maps["target on source, layer 1"], maps["target, layer 1"]
    assert across.rows == own.rows == [*written["tokens"], "</s>"]
    assert across.columns == [*written["source_tokens"], "</s>"]
    assert own.columns == ["<s>", *written["tokens"]]
    attention = np.array(written["attention"])
    np.testing.assert_allclose(across.weights.mean(0)[: len(attention)], attention, atol=1e-4)
    assert len(attention) >= len(written["tokens"]) > 0


def test_where_a_language_model_looks(chainrule, corpus: Path, model: Path, tmp_path: Path) -> None:
    tiny = ["--tokenizer", "character", "--layers", 2, "--width", 16, "--context", 8, "--steps", 1, "--compile", "no"]
    assert chainrule("train", "transformer", corpus, "-o", tmp_path / "lm", *tiny).status == 0
    result = chainrule("attend", tmp_path / "lm", "a man", "-o", tmp_path / "a.html")
    assert result.out.endswith("8 maps\n"), result.err
    assert (
        "reads at most 7 at once; shorten it"
        in chainrule("attend", tmp_path / "lm", "a long man", "-o", tmp_path / "b.svg").error
    )
    assert "leave out the target, 'x'" in chainrule("attend", tmp_path / "lm", "a", "x", "-o", tmp_path / "b.svg").error
    without = chainrule("attend", model, "picture.png", "-o", tmp_path / "b.svg").error
    assert "has no attention" in without
    assert without.endswith("a seq2seq model, or a captioner")
    assert not (tmp_path / "b.svg").exists()

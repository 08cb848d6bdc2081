"""compare --smoothing: a row for each smoothing, a column for each order, in the figures of models trained alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import chainrule as library
from chainrule.ngram.config import SMOOTHINGS

if TYPE_CHECKING:
    from pathlib import Path


def test_all_smoothings_stand_in_one_table(chainrule, corpus, heldout, tmp_path: Path) -> None:
    result = chainrule(
        "compare", corpus, "--heldout", heldout, "--order", 2, "--smoothing", "all", "-o", tmp_path / "r"
    )
    assert result.status == 0
    assert [line.split()[0] for line in result.lines if line.split()[:1] and line.split()[0] in SMOOTHINGS] == [
        *SMOOTHINGS,
        *SMOOTHINGS,
    ]
    rows = {line.split()[0]: line.split()[1:] for line in result.lines if line.split()[:1]}
    assert rows["smoothing"] == ["order", "1", "order", "2"]
    assert rows["maximum-likelihood"] == ["inf", "inf"]
    assert all(cell.endswith("*") for cell in rows["stupid-backoff"])
    assert "inf: maximum-likelihood gave words of the text no probability" in result.lines
    assert "modified-kneser-ney" in (tmp_path / "r/table.md").read_text()
    figures = json.loads((tmp_path / "r/table.json").read_text())
    assert len(figures) == 2 * len(SMOOTHINGS)
    for name, order in (("modified-kneser-ney", 2), ("good-turing", 1), ("jelinek-mercer", 2)):
        config = library.NGramConfig(order=order, smoothing=name)
        expected = library.train(corpus, config).evaluate(heldout)
        [found] = [row for row in figures if (row["smoothing"], row["order"]) == (name, order)]
        assert found["perplexity"] == pytest.approx(expected.perplexity, rel=1e-9)
        assert found["bits_per_byte"] == pytest.approx(expected.bits_per_byte, rel=1e-9)
        assert found["signature"] == expected.signature


def test_some_smoothings_may_be_named(chainrule, corpus, heldout) -> None:
    given = ("compare", corpus, "--heldout", heldout, "--order", 1, "--smoothing", "laplace", "kneser-ney", "--json")
    assert [row["smoothing"] for row in chainrule(*given).json] == ["laplace", "kneser-ney"]
    wrong = ("compare", corpus, "--heldout", heldout, "--smoothing", "laplac")
    assert "--smoothing takes all, or some of maximum-likelihood" in chainrule(*wrong).error
    models = ("compare", corpus, "--text", heldout, "--smoothing", "all")
    assert "--smoothing is for training models" in chainrule(*models).error

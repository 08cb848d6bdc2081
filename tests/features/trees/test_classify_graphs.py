"""Graphs from a file to a model, its labels, a page, and what is wrong with files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from chainrule.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path


def written(path: Path, unit: str) -> Path:
    """Paths whose last node says what the graph, or its first node, is."""
    rows = []
    for i in range(24):
        end = ("sea", "hill")[i % 2]
        nodes = ["start", *["road"] * (i % 3), end]
        edges = [[k, k + 1, "leads"] for k in range(len(nodes) - 1)]
        labels = {"label": end} if unit == "graph" else {"labels": [end, *[None] * (len(nodes) - 1)]}
        rows.append(json.dumps({"nodes": nodes, "edges": edges, **labels}))
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize(("unit", "cell"), [("graph", "gated"), ("node", "lstm")])
def test_graphs_are_learned_labelled_measured_and_drawn(
    unit: str, cell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, model, page = written(tmp_path / "a.jsonl", unit), str(tmp_path / "model"), tmp_path / "page.html"
    small = ["--width", "16", "--embedding-width", "8", "--dropout", "0", "--epochs", "12", "--learning-rate", "0.03"]
    kind = ["--network", "graph", "--cell", cell, "--unit", unit]
    assert run(["train", "classifier", str(data), "-o", model, *kind, *small]) == 0
    capsys.readouterr()
    assert run(["evaluate", model, str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1
    assert run(["classify", model, str(data), "--page", str(page)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("\t")[0] == "sea"
    assert lines[0].split("\t")[2] == ("start sea" if unit == "graph" else "start")
    assert page.read_text().count("<svg ") == 24
    assert run(["classify", model, str(data), "--page", str(page)]) == 1
    assert "use --overwrite" in capsys.readouterr().err
    vectors = tmp_path / "vectors.npy"
    assert run(["embed", model, str(data), "-o", str(vectors)]) == 0
    assert np.load(vectors).shape == (24 if unit == "graph" else 24 * 3, 16)
    assert run(["embed", model, str(data)]) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[0])
    assert row.keys() == ({"input", "vector"} if unit == "graph" else {"units", "vectors"})
    other = tmp_path / "other.jsonl"
    other.write_text(
        '{"nodes": ["start", "sea"], "edges": [[0, 1, "flies"]], "label": "sea", "labels": ["sea", null]}\n'
    )
    assert run(["evaluate", model, str(other)]) == 1
    message = capsys.readouterr().err
    assert f"{other}, line 1: no graph in training had an edge of the type 'flies'; known are leads" in message


def test_a_page_of_texts_is_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "a.tsv"
    data.write_text("ka vi\tfirst\nvi ka\tsecond\n" * 5)
    model = str(tmp_path / "model")
    assert run(["train", "classifier", str(data), "-o", model, "--network", "bag", "--epochs", "1"]) == 0
    assert run(["classify", model, str(data), "--page", str(tmp_path / "p.html")]) == 1
    assert "this classifier reads a text; pages are drawn of a graph" in capsys.readouterr().err

"""The notebooks run from top to bottom, and show what their texts say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

DOCS = Path(__file__).parents[1] / "docs"


def outputs_of(name: str) -> list[dict[str, Any]]:
    notebook = nbformat.read(DOCS / name, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()  # raises where a cell does
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.mark.thorough
def test_the_tour_runs_and_shows_its_results() -> None:
    outputs = outputs_of("tour.ipynb")
    tables = [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert len(tables) == 4  # two models, a comparison, a measurement
    assert all("<table>" in table for table in tables)
    assert any("5-gram" in table and "bits/byte" in table for table in tables)


@pytest.mark.thorough
def test_reading_times_that_were_made_by_a_rule_show_it() -> None:
    shown = [output["text"] for output in outputs_of("reading.ipynb") if output.get("name") == "stdout"]
    own, mended = (next(line for line in text.splitlines() if line.startswith("5-gram")) for text in shown[2:4])
    low, high = own.split()[-4:-1:2]
    assert float(low) < 6 < float(high)  # ms a bit
    assert "they may stand one word early; try a shift of 1" in shown[3]
    assert own == mended

"""The notebook runs from top to bottom, and its models and comparisons show themselves as tables."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

TOUR = Path(__file__).parents[1] / "docs" / "tour.ipynb"


@pytest.mark.thorough
def test_the_tour_runs_and_shows_its_results() -> None:
    notebook = nbformat.read(TOUR, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()  # raises where a cell does
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    tables = [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert len(tables) == 4  # two models, a comparison, a measurement
    assert all("<table>" in table for table in tables)
    assert any("5-gram" in table and "bits/byte" in table for table in tables)

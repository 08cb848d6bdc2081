"""chainrule prompt: the screen, JSON, the file of answers, and errors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.tsv"
    path.write_text("text\tlabel\nvi sa man\t1\nka vi\t0\nvi ma\t1\n")
    return path


def test_a_table_with_shares_of_answers(chainrule, model: Path, data: Path) -> None:
    result = chainrule("prompt", model, "--template", "{text} it was", "--choices", "ka=1", "vi=0", "--data", data)
    assert (result.status, result.err) == (0, "")
    assert result.lines[0].split() == ["template", "accuracy", "95", "%", "macro", "F1", "calibration", "error"]
    assert result.lines[-2] == "3 examples"
    assert result.lines[-1].startswith("answers: 0 ")


def test_seeds_orders_json_and_every_answer(chainrule, model: Path, data: Path, tmp_path: Path) -> None:
    settings = ["--template", "{text}:", "{text} is", "--choices", "ka=1", "vi=0", "--data", data, "--examples", data]
    settings += ["--shots", "2", "--seeds", "2", "--orders", "2", "--calibrate", "pmi", "--normalise", "bytes"]
    result = chainrule("prompt", model, *settings, "--json", "-o", tmp_path / "answers.jsonl")
    figures = [json.loads(line) for line in result.lines]
    assert [len(one["runs"]) for one in figures] == [4, 4]
    assert set(figures[0]["runs"][0]) >= {"accuracy", "low", "high", "before_calibration", "changed_by_calibration"}
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert len(answers) == 2 * 4 * 3
    right = [one["right"] for one in answers if one["template"] == "{text}:" and one["seed"] == one["order"] == 1]
    assert sum(right) / 3 == figures[0]["runs"][0]["accuracy"]
    again = chainrule("prompt", model, *settings, "-o", tmp_path / "answers.jsonl")
    assert "exists already" in again.error


def test_prompts_as_sent_and_line_ends(chainrule, model: Path, data: Path) -> None:
    given = ["--template", r"{text}\nso", "--choices", "ka=1", "vi=0", "--data", data, "--show", 1]
    assert chainrule("prompt", model, *given).out.endswith("\n--- prompt\nvi sa man\nso\n---\n")


def test_written_answers(chainrule, model: Path, data: Path) -> None:
    given = ["--template", "{text}", "--data", data, "--match", "number", "--max-tokens", 4]
    result = chainrule("prompt", model, *given)
    assert result.lines[2] == "3 examples"
    assert result.lines[3].startswith("expected '1', answered ")


def test_answers_do_not_replace_the_data(chainrule, model: Path, data: Path) -> None:
    given = ["--template", "{text}", "--choices", "ka=1", "vi=0", "--data", data, "-o", data, "--overwrite"]
    assert "is one of the files to read" in chainrule("prompt", model, *given).error
    assert data.read_text().startswith("text\tlabel\n")


def test_a_choice_that_begins_another_is_noted(chainrule, model: Path, data: Path) -> None:
    given = ["--template", "{text}", "--choices", "ka=1", "ka vi=0", "--data", data]
    assert "the choice 'ka vi' begins with 'ka'" in chainrule("prompt", model, *given).err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--template", "so", "--choices", "a", "b"], "names no field"),
        (["--template", "{txt}", "--choices", "ka=1", "vi=0"], "there is no field 'txt'"),
        (["--template", "{text}", "--choices", "ka=1"], "only one choice; expected at least two"),
        (["--template", "{text}", "--choices", "ka=1", "=0"], "the choice '' for '0' is empty"),
        (["--template", "{text}", "--choices", "ka=1", "vi=2"], "line 3: the right answer is '0'"),
        (["--template", "{text}", "--choices", "ka=1", "vi=0", "--shots", "2"], "--shots needs --examples"),
        (["--template", "{text} is {label}", "--choices", "ka=1", "vi=0"], "the field with the right answer"),
        (
            ["--template", "{text}", "--choices", "ka=1", "vi=0", "--match", "number"],
            "--match and --max-tokens are for",
        ),
        (["--template", "{text}", "--shots", "2", "--examples", "-x"], "There is no option -x"),
        (["--template", "{text}", "--examples", "-"], "--examples needs --shots"),
        (["--template", "{text}", "--calibrate", "pmi"], "are for choices; there are none"),
    ],
)
def test_wrong_settings_are_one_line(given: list[str], message: str, chainrule, model: Path, data: Path) -> None:
    assert message in chainrule("prompt", model, *given, "--data", data).error

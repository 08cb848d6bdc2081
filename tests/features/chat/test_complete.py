"""chainrule complete: at a terminal and line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from command_line import strict_json
from prompt_toolkit import PromptSession
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import chainrule as library
from chainrule.features.chat.shell_complete import Suggestions, talk

if TYPE_CHECKING:
    from pathlib import Path


def test_each_line_gets_a_line_of_completions(chainrule, stdin, model: Path) -> None:
    stdin(b"ka v\nka \n\nzzz\nlast")
    result = chainrule("complete", model, "-n", 3, "--no-correct")
    assert (result.status, result.err) == (0, "")
    loaded = library.load(model)
    expected = [[each.text for each in loaded.complete(line, 3)] for line in ("ka v", "ka ", "", "zzz", "last")]
    assert [line.split("\t") if line else [] for line in result.out.split("\n")[:-1]] == expected
    assert len(expected[0]) == 3
    assert expected[3] == []


def test_json_has_the_completions_with_their_probabilities(chainrule, stdin, model: Path) -> None:
    stdin(b"ka v\nzzz\n")
    rows = [strict_json(line) for line in chainrule("complete", model, "--json", "--no-correct").lines]
    assert [row.keys() for row in rows[0]] == [{"text", "added", "log_prob", "replaces"}] * len(rows[0])
    assert rows[0][0]["text"] == "v" + rows[0][0]["added"]
    assert rows[1] == []


@pytest.mark.parametrize(
    ("data", "arguments", "message"),
    [
        (b"ka <s> vi\n", [], "<s>"),
        (b"\xff\xfe\n", [], "standard input: not UTF-8"),
        (b"", ["-n", 0], "--number is 0; expected 1 or more"),
    ],
)
def test_what_cannot_be_completed_is_an_error(
    data: bytes, arguments: list, message: str, chainrule, stdin, model: Path
) -> None:
    stdin(data)
    result = chainrule("complete", model, *arguments)
    assert result.status == 1
    assert message in result.error


def test_a_prompt_takes_lines_until_it_is_closed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, prompt = [], PromptSession.prompt
    monkeypatch.setattr(PromptSession, "prompt", lambda *arguments: lines.append(prompt(*arguments)))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("ka v\rka\r\x04never read\r")
        talk(library.load(model).completer, 4)
    assert lines == ["ka v", "ka"]


def test_a_menu_shows_completions_and_errors_below(model: Path) -> None:
    completer = library.load(model).completer
    menu = Suggestions(completer, 4)
    found = list(menu.get_completions(Document("ka v"), CompleteEvent()))
    expected = completer.complete("ka v", 4)
    assert [each.text for each in found] == [each.added for each in expected]
    assert [each.display_text for each in found] == [each.text for each in expected]
    assert menu.status.endswith(" ms")
    assert list(menu.get_completions(Document("ka <s> "), CompleteEvent())) == []
    assert "<s>" in menu.status


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("letters") / "lm"
    lines = ["I received the letter from my friend", "there is something wrong with the letter"] * 9
    library.train(library.Lines(lines), library.NGramConfig(order=3)).save(folder)
    return folder


def test_the_word_just_typed_is_corrected_by_one_more_suggestion(chainrule, stdin, letters: Path) -> None:
    stdin(b"I recieved\nI recieved \n")
    first, second = chainrule("complete", letters, "-n", 2).lines
    assert first == "recieved -> received"
    assert second.split("\t")[-1] == "recieved -> received"
    stdin(b"I recieved \n")
    [row] = chainrule("complete", letters, "--json").lines
    *others, last = strict_json(row)
    assert all(other["replaces"] == 0 for other in others)
    assert (last["text"], last["added"], last["replaces"]) == ("received", "received ", len("recieved "))
    stdin(b"I recieved\n")
    assert chainrule("complete", letters, "--no-correct").lines == [""]


def test_corrections_need_words(chainrule, stdin, tmp_path: Path) -> None:
    library.train(library.Lines(["the letter"] * 200), tokenizer="character").save(tmp_path / "lm")
    (tmp_path / "words.txt").write_text("the\nletter\n")
    stdin(b"the leter \n")
    assert "->" not in chainrule("complete", tmp_path / "lm").out
    stdin(b"the leter \n")
    assert "leter -> letter" in chainrule("complete", tmp_path / "lm", "--lexicon", tmp_path / "words.txt").out
    stdin(b"the leter \n")
    result = chainrule("complete", tmp_path / "lm", "--correct")
    assert (result.status, "name a lexicon" in result.error) == (1, True)
    result = chainrule("complete", tmp_path / "lm", "--no-correct", "--channel", "ocr")
    assert (result.status, "--no-correct" in result.error) == (2, True)


def test_a_menu_replaces_the_word_by_its_correction(letters: Path) -> None:
    model = library.load(letters)
    menu = Suggestions(model.completer, 3, library.corrector(model))
    *_, last = menu.get_completions(Document("I recieved "), CompleteEvent())
    assert (last.text, last.start_position, last.display_text) == ("received ", -len("recieved "), "received")
    assert last.display_meta_text.startswith("correction ")

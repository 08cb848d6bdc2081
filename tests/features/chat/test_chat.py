"""chainrule chat: line by line, at a terminal, and its commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from command_line import strict_json
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import chainrule as library
from chainrule.decoding.chat.conversation import Answer
from chainrule.decoding.chat.messages import Message
from chainrule.decoding.text_generator import Piece
from chainrule.errors import ChainruleError
from chainrule.features.chat.shell_chat import ChatSession, show_answer, talk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEMPLATE = "{% for m in messages %}{{ m.content }} {% endfor %}"
LIMITS = library.Limits(max_tokens=4)


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "talk.jinja"
    path.write_text(TEMPLATE)
    return path


def test_each_line_gets_an_answer_to_the_whole_conversation(chainrule, stdin, model: Path, template: Path) -> None:
    """Oracle: the answers by the library, each to the messages before it."""
    stdin(b"ka vi\n\n/temperature 0.5\nsa man\n")
    result = chainrule(
        *("chat", model, "--template", template, "--seed", 3, "--max-tokens", 4, "--system", "ma", "--json")
    )
    assert result.status == 0
    rows = [strict_json(line) for line in result.lines]
    chat = library.load(model).chat_model_with(TEMPLATE)
    messages: list[Any] = [{"role": "system", "content": "ma"}]
    for number, (said, temperature, row) in enumerate(zip(["ka vi", "sa man"], [0.7, 0.5], rows, strict=True)):
        messages.append({"role": "user", "content": said})
        sampling = library.SamplingConfig(temperature=temperature, top_p=0.9)
        answer = chat.answer(messages, sampling, LIMITS, seed=3, number=number)
        text = "".join(answer)
        assert row == {"role": "assistant", "content": text, "ending": answer.ending}
        messages.append({"role": "assistant", "content": text})
    assert "the temperature is 0.5" in result.err


def test_a_temperature_that_is_the_librarys_default_is_kept(chainrule, stdin, model: Path, template: Path) -> None:
    """Oracle: the library's answers at that temperature, without the top-p of chats."""
    chat = library.load(model).chat_model_with(TEMPLATE)
    sampling = library.SamplingConfig(temperature=1.0)
    messages = [{"role": "user", "content": "ka vi"}]
    expected = ["".join(chat.answer(messages, sampling, LIMITS, seed=seed, number=0)) for seed in range(6)]
    of_chats = ["".join(chat.answer(messages, None, LIMITS, seed=seed, number=0)) for seed in range(6)]
    assert expected != of_chats
    found = []
    for seed in range(6):
        stdin(b"ka vi\n")
        command = (
            "chat",
            model,
            "--template",
            template,
            "--seed",
            seed,
            "--max-tokens",
            4,
            "--temperature",
            1,
            "--json",
        )
        found.append(strict_json(chainrule(*command).lines[0])["content"])
    assert found == expected


def test_answers_stream_as_text_and_the_seed_is_named(chainrule, stdin, model: Path, template: Path) -> None:
    stdin(b"ka vi\n/quit\nsa\n")
    result = chainrule("chat", model, "--template", template, "--max-tokens", 4)
    assert result.status == 0
    assert result.out.endswith("\n\n")
    assert result.out.count("\n\n") == 1
    seed = result.err.rpartition("--seed ")[2].split()[0]
    stdin(b"ka vi\n")
    assert chainrule("chat", model, "--template", template, "--max-tokens", 4, "--seed", seed).out == result.out
    stdin(b"ka vi\n")
    assert "--seed" not in chainrule("chat", model, "--template", template, "--temperature", 0).err


@pytest.mark.parametrize(
    ("line", "arguments", "message"),
    [
        (b"/nonsense\n", [], "there is no command /nonsense"),
        (b"/temperature hot\n", [], "/temperature takes a number, not 'hot'"),
        (b"/temperature -1\n", [], "--temperature is -1.0"),
        (b"/seed -1\n", [], "/seed takes a whole number"),
        (b"/regen\n", [], "there is no message to answer again"),
        (b"/save\n", [], "/save needs the name of a file"),
        (b"\xff\n", [], "standard input: not UTF-8"),
        (b"ka\n", ["--max-tokens", -1], "--max-tokens is -1"),
    ],
)
def test_what_cannot_be_done_is_an_error(
    line: bytes, arguments: list, message: str, chainrule, stdin, model: Path, template: Path
) -> None:
    stdin(line)
    result = chainrule("chat", model, "--template", template, "--seed", 1, *arguments)
    assert result.status == 1
    assert message in result.error


def test_a_model_without_a_template_says_what_to_do(chainrule, stdin, model: Path, tmp_path: Path) -> None:
    stdin(b"ka\n")
    told = chainrule("chat", model).error
    assert "the model has no chat template" in told
    assert "--template" in told
    result = chainrule("chat", model, "--template", tmp_path / "none.jinja")
    assert result.status == 2
    assert "none.jinja: cannot be read" in result.err
    (tmp_path / "empty.jinja").write_text("\n")
    result = chainrule("chat", model, "--template", tmp_path / "empty.jinja")
    assert "its chat template is empty" in result.error


class Scripted:
    """A chat model that answers with the number of the answer, in three pieces, and then is interrupted or not."""

    def __init__(self, *, interrupted: bool = False) -> None:
        self.asked: list[tuple[list[Message], float, int, int]] = []
        self.interrupted = interrupted

    def answer(self, messages: list[Message], sampling: Any, limits: Any, *, seed: int, number: int) -> Answer:
        self.asked.append((list(messages), sampling.temperature, seed, number))

        def pieces() -> Iterator[Piece]:
            yield Piece("answer")
            yield Piece("\x1b[31m")
            if self.interrupted:
                raise KeyboardInterrupt
            yield Piece(f" {number}", "end")

        return Answer(pieces(), 0)


def session_of(model: Any) -> ChatSession:
    return ChatSession(model, "", library.SamplingConfig(temperature=0.7, top_p=0.9), LIMITS, 5)


def test_commands_change_what_is_asked(tmp_path: Path) -> None:
    model = Scripted()
    session = session_of(model)

    def said(line: str) -> str:
        return "".join(session.respond(line))

    path = tmp_path / "talk.json"
    assert said("one") == "answer\x1b[31m 0"
    assert said("/regen") == "answer\x1b[31m 1"
    assert said("/system be brief") == said("/temperature 0") == said("/seed 9") == ""
    assert said("//two") == "answer\x1b[31m 0"
    said(f"/save {path}")
    with pytest.raises(ChainruleError, match=r"overwrite"):
        said(f"/save {path}")
    said("/reset")
    said("/system")
    said("three")
    said("/help")
    first = Message("user", "one")
    regenerated = Message("assistant", "answer\x1b[31m 1")
    assert model.asked == [
        ([first], 0.7, 5, 0),
        ([first], 0.7, 5, 1),
        ([Message("system", "be brief"), first, regenerated, Message("user", "/two")], 0, 9, 0),
        ([Message("user", "three")], 0, 9, 1),
    ]
    saved = json.loads(path.read_text())
    assert [message["role"] for message in saved["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert "/regen" in session.take_reports()[-1]
    assert not session.is_over
    said("/quit")
    assert session.is_over


def test_an_interrupted_answer_ends_alone_and_escapes_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    session = session_of(Scripted(interrupted=True))
    show_answer(session, "one")
    assert capsys.readouterr().out == "answer\\x1b[31m ...\n"
    assert session.history == [Message("user", "one"), Message("assistant", "answer\x1b[31m")]
    show_answer(session, "/seed x")
    assert "takes a whole number" in capsys.readouterr().err


def test_a_terminal_takes_messages_until_it_is_closed(capsys: pytest.CaptureFixture[str]) -> None:
    model = Scripted()
    session = session_of(model)
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("one\r\rtwo\x03three\r\x04")
        talk(session)
    assert [asked[0][-1].content for asked in model.asked] == ["one", "three"]
    assert "answer" in capsys.readouterr().out

"""The verb chat: talks with a model by its chat template, at a terminal (prompt_toolkit) or line by line.

A ChatSession holds the history, the settings, and the commands that change them. The log is a file to which every
message is added as it is said. Since this module imports prompt_toolkit, no other verb may import it: it would wait.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import CycloptsError, Parameter
from prompt_toolkit import PromptSession

from chainrule.base.files import read_text
from chainrule.base.tables import count_of, printable_lines
from chainrule.cli.shared.models import note_drafts, open_model
from chainrule.cli.shared.options import (
    NO_FLAGS,
    Draft,
    Json,
    SamplingFlags,
    Seed,
    WholeNumber,
    draw_seed,
    given_settings,
)
from chainrule.cli.shared.screen import note, print_json, progress_bar
from chainrule.cli.shared.server_options import ModelOrName, ServerOptions
from chainrule.decoding.chat.messages import Message
from chainrule.decoding.config import SamplingConfig
from chainrule.decoding.options import CHAT_SAMPLING
from chainrule.errors import ChainruleError, OutputError, SettingError, TextError, prefix_errors
from chainrule.text.numbers import number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chainrule.decoding.chat.conversation import Answering
    from chainrule.decoding.config import Limits
    from chainrule.decoding.sampling import Ending
    from chainrule.models.drafting import Drafting


def chat(
    model: ModelOrName = None,
    /,
    *,
    server: ServerOptions = ServerOptions(),  # noqa: B008
    system: Annotated[str, Parameter(help="A message before all others: how the model should answer.")] = "",
    template: Annotated[
        Path | None, Parameter(help="A Jinja template in place of the model's own, or where it has none.")
    ] = None,
    max_tokens: Annotated[int, WholeNumber, Parameter(help="Cut an answer after this many tokens.")] = 512,
    stop: Annotated[
        tuple[str, ...],
        Parameter(help="End an answer before any of these strings.", consume_multiple=True, negative=()),
    ] = (),
    log: Annotated[
        Path | None, Parameter(help="Append every message to this file, as JSON lines. By default, none is kept.")
    ] = None,
    seed: Seed = None,
    draft: Draft = None,
    sampling: SamplingFlags = NO_FLAGS,
    json: Json = False,
) -> None:
    """Talk with a model that was trained on conversations, by its chat template.

        $ chainrule chat lm/ --template talk.jinja

    At a terminal, /help lists the commands, Ctrl-C stops an answer, and Ctrl-D
    quits. Otherwise, each line of standard input is a message, and each answer
    is printed with a line after it. Without sampling options, temperature is
    0.7 and top-p 0.9. Opened models have a template; --template is for others.
    --url asks a server, which uses its own settings and template.

    A seq2seq model that was trained on conversations reads the history as its
    source. If that is too long, the oldest messages are left out.
    """
    from chainrule.decoding.config import Limits
    from chainrule.features.chat.client import RemoteChat
    from chainrule.models.files.opening import open_drafting

    given = given_settings(sampling)
    config = SamplingConfig(**given) if given else None
    limits = Limits(max_tokens=max_tokens, stop=stop)
    client = server.client(model)
    if client is not None and template is not None:
        raise CycloptsError(msg="--template is for models on this machine; the server has its own.")
    if client is not None and draft is not None:
        raise CycloptsError(msg="--draft is for models on this machine; for a server, give it to chainrule serve.")
    drafting = None if draft is None else open_drafting(draft)
    answering = _open(cast("Path", model), template, drafting) if client is None else RemoteChat(client)
    drawn = draw_seed(seed) if client is None else seed
    session = ChatSession(answering, system, config, limits, drawn, None if log is None else ChatLog(log).add)
    if sys.stdin.isatty() and sys.stdout.isatty() and not json:
        talk(session)
    else:
        _answer_lines(session, json=json)
    if session.answers:
        note_drafts(drafting)
    if seed is None and drawn is not None and session.answers and (config or CHAT_SAMPLING).temperature:
        note(f"--seed {drawn} gives these answers again")


def _open(model: Path, template: Path | None, drafting: Drafting | None) -> Answering:
    """A model on this machine. Raises ChainruleError, CycloptsError."""
    from chainrule.models.any_model import AnyModel

    with progress_bar() as progress:
        loaded = open_model(model, None, None, progress, kind=AnyModel)
        with prefix_errors(str(model)):
            return loaded.answering(None if template is None else _text_of(template), drafting)


def _text_of(template: Path) -> str:
    """Raises CycloptsError, TextError."""
    try:
        return read_text(template)
    except UnicodeDecodeError as error:
        raise TextError(f"{template}: not UTF-8 ({error.reason}); convert it first") from error
    except OSError as error:
        raise CycloptsError(msg=f"--template {template}: cannot be read: {error.strerror}.") from error


def _answer_lines(session: ChatSession, *, json: bool) -> None:
    """Answers the lines of standard input. Raises as `ChatSession.respond`; TextError."""
    show = printable_lines if sys.stdout.isatty() else str
    for line in filter(str.strip, _lines()):
        before, text = session.answers, ""
        for piece in session.respond(line):
            text += piece
            if not json:
                print(show(piece), end="", flush=True)
        if session.answers > before:
            if json:
                print_json({"role": "assistant", "content": text, "ending": session.ending})
            else:
                print("\n")
        sys.stdout.flush()
        for report in session.take_reports():
            for part in report.split("\n"):
                note(part)
        if session.is_over:
            return


def _lines() -> Iterator[str]:
    """Raises TextError."""
    try:
        for line in sys.stdin:
            yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise TextError(f"standard input: not UTF-8 ({error.reason}); convert it first") from error


HELP = """\
/system TEXT      set the message that comes before all others; without TEXT, remove it
/reset            forget the conversation, but not the system message
/regen            answer the last message again
/temperature T    below 1 sharper, above 1 flatter; 0 picks the likeliest token
/seed N           the same seed gives the same answers
/save FILE        write the conversation to a new file, a line of JSON
/quit             end, as Ctrl-D does
// at the beginning of a message is a single /"""


class ChatSession:
    """A conversation. reports: notes on the answers, kept until `take_reports`."""

    def __init__(
        self,
        model: Answering,
        system: str,
        sampling: SamplingConfig | None,
        limits: Limits,
        seed: int | None,
        log: Callable[[Message], None] | None = None,
    ) -> None:
        """sampling, seed: None leaves them to the model. log: a callback that gets every message."""
        self.model, self.system, self.sampling, self.limits, self.seed = model, system, sampling, limits, seed
        self._drawing = CHAT_SAMPLING if sampling is None else sampling
        self._log = log
        if system:
            self._record(Message("system", system))
        self.reports: list[str] = []
        self.history: list[Message] = []
        self.answers = 0  # since the seed was set: each is drawn from a random stream of its own
        self.dropped = 0  # messages, as last reported
        self.ending: Ending | None = None
        self.is_over = False
        self._commands: dict[str, Callable[[str], None]] = {
            "help": lambda _: self.reports.append(HELP),
            "system": self._set_system,
            "reset": self._reset,
            "temperature": self._set_temperature,
            "seed": self._set_seed,
            "save": self._save,
            "quit": self._quit,
        }

    def respond(self, line: str) -> Iterator[str]:
        """The answer to a line, piece by piece; none if the line is a command. Raises SettingError, OutputError.

        An answer that is interrupted stays in the history as far as it came.
        """
        if line.startswith("//"):
            line = line[1:]
        elif line.startswith("/"):
            name, _, value = line[1:].partition(" ")
            if name == "regen":
                yield from self._answer(self._last_question())
            elif name in self._commands:
                self._commands[name](value.strip())
            else:
                raise SettingError(f"there is no command /{name}; /help lists them, and // begins a message with /")
            return
        self._record(Message("user", line))
        yield from self._answer([*self.history, Message("user", line)])

    def take_reports(self) -> list[str]:
        """The reports since the last call."""
        reports, self.reports = self.reports, []
        return reports

    def _answer(self, messages: list[Message]) -> Iterator[str]:
        """Answers the last message; all messages become the history."""
        answer = self.model.answer(
            self._with_system(messages), self.sampling, self.limits, seed=self.seed, number=self.answers
        )
        self.answers += 1
        try:
            yield from answer
        finally:
            if answer.dropped > self.dropped:  # known at the end, where a server decides it
                self.reports.append(f"the first {count_of(answer.dropped, 'message')} no longer fit into the context")
            self.dropped = answer.dropped
            self.ending = answer.ending
            if answer.text or answer.ending:
                self.history = [*messages, Message("assistant", answer.text)]
                self._record(self.history[-1])
        if answer.ending == "length":
            self.reports.append(
                f"the answer was cut after {count_of(self.limits.max_tokens, 'token')}; see --max-tokens"
            )

    def _record(self, message: Message) -> None:
        if self._log is not None:
            self._log(message)

    def _with_system(self, messages: list[Message]) -> list[Message]:
        return [Message("system", self.system), *messages] if self.system else messages

    def _last_question(self) -> list[Message]:
        """The history up to the user's last message. Raises SettingError."""
        if not self.history:
            raise SettingError("there is no message to answer again")
        return self.history[:-1]

    def _set_system(self, value: str) -> None:
        self.system = value
        self._record(Message("system", value))
        self.reports.append("the system message is set" if value else "there is no system message now")

    def _reset(self, value: str) -> None:
        self.history, self.dropped = [], 0
        self.reports.append("the conversation is forgotten")

    def _set_temperature(self, value: str) -> None:
        """Raises SettingError."""
        temperature = _number(value, "temperature")
        if temperature:
            self.sampling = replace(self._drawing, temperature=temperature)
        else:  # nothing is drawn, so that nothing can be cut off
            self.sampling = SamplingConfig(temperature=0, repetition_penalty=self._drawing.repetition_penalty)
        self.reports.append(f"the temperature is {temperature:g}")

    def _set_seed(self, value: str) -> None:
        """Raises SettingError."""
        if not value.isdecimal():
            raise SettingError(f"/seed takes a whole number, 0 or more, not {value!r}")
        self.seed, self.answers = int(value), 0
        self.reports.append(f"the seed is {self.seed}")

    def _save(self, value: str) -> None:
        """Raises SettingError, OutputError."""
        import json

        from chainrule.base.files import check_new_file, replace_file

        if not value:
            raise SettingError("/save needs the name of a file")
        path = Path(value)
        check_new_file(path, overwrite=False)
        rows = [message._asdict() for message in self._with_system(self.history)]
        with replace_file(path) as file:
            file.write((json.dumps({"messages": rows}, ensure_ascii=False) + "\n").encode("utf-8", "replace"))
        self.reports.append(f"{count_of(len(rows), 'message')} written to {path}")

    def _quit(self, value: str) -> None:
        self.is_over = True


def _number(value: str, name: str) -> float:
    """Raises SettingError."""
    try:
        return number_of(value)
    except ValueError:
        raise SettingError(f"/{name} takes a number, not {value!r}") from None


def talk(session: ChatSession) -> None:
    """Reads messages from a terminal and streams the answers, until end of input. Nothing is kept after that."""
    terminal: PromptSession[str] = PromptSession()
    print("/help lists the commands; Ctrl-C stops an answer, Ctrl-D quits.")
    while not session.is_over:
        try:
            line = terminal.prompt("> ")
        except KeyboardInterrupt:  # only the line is given up
            continue
        except EOFError:
            return
        if line.strip():
            show_answer(session, line)


def show_answer(session: ChatSession, line: str) -> None:
    """Streams the answer to a line. Ctrl-C stops it; an error is shown, and ends nothing."""
    shown = False
    try:
        for piece in session.respond(line):
            print(printable_lines(piece), end="", flush=True)
            shown = True
    except KeyboardInterrupt:
        print(" ...", end="")
        shown = True
    except ChainruleError as error:
        note(str(error))
    if shown:
        print()
    for report in session.take_reports():
        print(report, file=sys.stderr)


class ChatLog:
    """Adds a line of JSON to a file for each message: time, role and content."""

    def __init__(self, path: Path) -> None:
        """Raises OutputError if the file cannot be written."""
        self._path = path
        self._append("")

    def add(self, message: Message) -> None:
        """Raises OutputError."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._append(json.dumps({"time": now, **message._asdict()}, ensure_ascii=False) + "\n")

    def _append(self, text: str) -> None:
        try:
            with self._path.open("ab") as file:
                file.write(text.encode("utf-8", "replace"))
        except OSError as error:
            raise OutputError(f"{self._path}: cannot be written: {error.strerror}") from error

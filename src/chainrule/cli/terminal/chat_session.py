"""One conversation of `chainrule chat`: its history, its settings, and the commands that change them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.applications.config import CHAT_SAMPLING
from chainrule.applications.messages import Message
from chainrule.cli.shared.screen import count_of
from chainrule.decoding.config import SamplingConfig
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chainrule.applications.chat import Answering
    from chainrule.decoding.limits import Limits
    from chainrule.decoding.sampling import Ending

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
    """A conversation. reports: what is to be known beside the answers, until `take_reports`."""

    def __init__(
        self,
        model: Answering,
        system: str,
        sampling: SamplingConfig | None,
        limits: Limits,
        seed: int | None,
        log: Callable[[Message], None] | None = None,
    ) -> None:
        """sampling, seed: None leaves them to the model. log: is called with every message."""
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
        """The answer to a line, piece by piece; a command has none. Raises SettingError, OutputError.

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
        """Answers the last message, and takes all of them as the history."""
        answer = self.model.answer(
            self._with_system(messages), self.sampling, self.limits, seed=self.seed, number=self.answers
        )
        self.answers += 1
        if answer.dropped > self.dropped:
            self.reports.append(f"the first {count_of(answer.dropped, 'message')} no longer fit into the context")
        self.dropped = answer.dropped
        try:
            yield from answer
        finally:
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
        return float(value)
    except ValueError:
        raise SettingError(f"/{name} takes a number, not {value!r}") from None

"""chainrule chat MODEL: talks with a model by its chat template, at a terminal or line by line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from cyclopts import CycloptsError, Parameter

from chainrule.base.files import read_file
from chainrule.base.tables import printable_lines
from chainrule.cli.shared.arguments import Json, Seed, WholeNumber, draw_seed
from chainrule.cli.shared.decoding_options import SamplingOptions
from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.screen import note, print_json, progress_bar
from chainrule.cli.shared.server_options import ModelOrName, ServerOptions
from chainrule.errors import TextError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.applications.chat import Answering
    from chainrule.cli.terminal.chat_session import ChatSession


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
        Path | None, Parameter(help="Add every message to this file, a line of JSON each. By default, none is kept.")
    ] = None,
    seed: Seed = None,
    sampling: SamplingOptions = SamplingOptions(),  # noqa: B008
    json: Json = False,
) -> None:
    """Talk with a model that was taught to, by its chat template.

        $ chainrule chat lm/ --template talk.jinja

    At a terminal, /help lists the commands, Ctrl-C stops an answer, and Ctrl-D
    quits. Otherwise, each line of standard input is a message, and each answer
    is printed with a line after it. Without sampling options, temperature is
    0.7 and top-p 0.9. Open models bring their template; --template is for others.
    --url asks a server, which has settings and templates of its own.

    A model of pairs that was trained on conversations reads the history as its
    source; where that is too long, from its front on, messages are left out.
    """
    from chainrule.cli.terminal.chat_log import ChatLog
    from chainrule.cli.terminal.chat_session import ChatSession
    from chainrule.decoding.config import SamplingConfig
    from chainrule.decoding.limits import Limits
    from chainrule.serving.client import RemoteChat

    given = sampling.config()
    config = None if given == SamplingConfig() else given
    limits = Limits(max_tokens=max_tokens, stop=stop)
    client = server.client(model)
    if client is not None and template is not None:
        raise CycloptsError(msg="--template is for models on this machine; the server has its own.")
    answering = _open(cast("Path", model), template) if client is None else RemoteChat(client)
    drawn = draw_seed(seed) if client is None else seed
    session = ChatSession(answering, system, config, limits, drawn, None if log is None else ChatLog(log).add)
    if sys.stdin.isatty() and sys.stdout.isatty() and not json:
        from chainrule.cli.terminal.chat_terminal import talk

        talk(session)
    else:
        _answer_lines(session, json=json)
    if seed is None and drawn is not None and session.answers:
        note(f"--seed {drawn} gives these answers again")


def _open(model: Path, template: Path | None) -> Answering:
    """A model on this machine. Raises ChainruleError, CycloptsError."""
    from chainrule.api.models.language_models import CausalModel
    from chainrule.api.seq2seq.seq2seq_model import PairChat, holds_pairs, load_pairs

    with progress_bar() as progress:
        if not holds_pairs(model):
            loaded = open_model(model, None, None, progress, kind=CausalModel)
            return loaded.chat_model_with(None if template is None else _text_of(template))
        if template is not None:
            raise CycloptsError(msg=f"--template is for models that continue texts; {model} reads conversations.")
        return PairChat(load_pairs(model, progress=progress).generator)


def _text_of(template: Path) -> str:
    """Raises CycloptsError, TextError."""
    try:
        return read_file(template).decode()
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

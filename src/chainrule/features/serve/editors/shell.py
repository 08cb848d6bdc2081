"""The verb lsp: completes and corrects in editors, by the Language Server Protocol."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.shared.models import open_model
from chainrule.cli.shared.options import ModelPath, ModelTokenizerName, WholeNumber
from chainrule.cli.shared.screen import note, progress_bar
from chainrule.errors import SettingError
from chainrule.features.correct.shell_typing import TypingOptions

if TYPE_CHECKING:
    from pygls.lsp.server import LanguageServer


_DELAY_OF_NETWORKS = 150  # milliseconds


def lsp(
    model: ModelPath,
    /,
    *,
    number: Annotated[int, WholeNumber, Parameter(name=("--number", "-n"), help="How many completions to offer.")] = 5,
    delay: Annotated[
        int | None,
        WholeNumber,
        Parameter(
            help="Complete once no key has been pressed for this many milliseconds; by default 0, for networks 150."
        ),
    ] = None,
    typing: TypingOptions = TypingOptions(),  # noqa: B008
    keep: Annotated[
        Path | None,
        Parameter(help="A file of words that are never changed, one on each line; editors can add to it."),
    ] = None,
    tokenizer: ModelTokenizerName = None,
) -> None:
    """Complete and correct in editors, as a language server.

        $ chainrule lsp lm/

    Editors start it, and talk with it by standard input and output: the guide,
    docs/editors.md, has the lines for Neovim, Helix, Emacs and VS Code. It
    completes words and goes on with the next ones; corrections are remarks in
    the text, with quick fixes. It reads what the editor has open, and no file.
    Needs pygls: pip install 'chainrule[lsp]'.
    """
    from chainrule.models.families.table import FAMILIES
    from chainrule.models.language_models import CausalModel

    try:
        from chainrule.features.serve.editors.language_server import language_server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise SettingError("the language server needs the package pygls: pip install 'chainrule[lsp]'") from None

    typing.check()
    typing.check_files()
    if number < 1:
        raise CycloptsError(msg=f"--number is {number}; give 1 or more.")
    if delay is not None and delay < 0:
        raise CycloptsError(msg=f"--delay is {delay}; give 0 or more milliseconds.")
    kept = _words_in(keep)
    with progress_bar() as progress:
        loaded = open_model(model, tokenizer, "skip", progress, kind=CausalModel)
    if delay is None:
        delay = _DELAY_OF_NETWORKS if FAMILIES[loaded.family].embeds else 0
    wanted = typing.wants_corrector(loaded)
    logging.getLogger("pygls").setLevel(logging.CRITICAL)  # it reports what editors cancel
    if sys.stdin.isatty():
        note("this is for editors, which start it themselves; Ctrl-D ends it")
    build_corrector = (lambda: typing.corrector(loaded, kept)) if wanted else None
    _run(language_server(loaded, number=number, delay=delay / 1000, build_corrector=build_corrector, kept=keep))


def _run(server: LanguageServer) -> None:
    """Talk with the editor until it says goodbye."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")  # which the server closes at the end
    with redirect_stdout(sys.stderr):  # standard output is the editor's
        server.start_io(sys.stdin.buffer, output)


def _words_in(file: Path | None) -> list[str]:
    """Return the words of a file; none if the file does not exist yet. Raises TextError."""
    from chainrule.text.corpus.plain_text import lines_of

    if file is None or not file.exists():
        return []
    return [word for line in lines_of(file) for word in line.split()]

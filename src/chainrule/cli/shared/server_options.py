"""Options of verbs that can ask a server in place of a model on this machine.

The server's key is read from a file: on the command line, others could read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import CycloptsError, Parameter

from chainrule.base.files import read_text
from chainrule.cli.shared.options import Needs
from chainrule.errors import TextError
from chainrule.kinds import rows

_LARGEST = 1 << 16  # bytes of a file


def key_in(file: Path, *, shortest: int = 1) -> str:
    """The key in a file. shortest: the fewest characters that it may have. Raises TextError, CycloptsError."""
    try:
        key = read_text(file, _LARGEST, pipes=True).strip()
    except UnicodeDecodeError as error:
        raise TextError(f"{file}: not UTF-8 ({error.reason}); expected one line, the key") from error
    except OSError as error:
        raise CycloptsError(msg=f"--api-key-file {file}: cannot be read: {error.strerror}.") from error
    if len(key) < shortest or not key.isascii() or not key.isprintable() or " " in key:
        raise TextError(f"{file}: expected one line with a key of {shortest} or more visible ASCII characters")
    return key


ModelOrName = Annotated[
    Path | None,
    Parameter(
        help="A model: our folder or one of Hugging Face; an ARPA, KenLM binary, GGUF or llama2.c file. With --url, "
        "the name of one on the server; not needed if it has only one."
    ),
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """A server, and the key to it."""

    url: Annotated[
        str | None, Parameter(help="Ask a server with OpenAI's interface, such as http://127.0.0.1:8000/v1.")
    ] = None
    api_key_file: Annotated[
        Path | None, Parameter(help="With --url: a file with the key that the server wants."), Needs("url")
    ] = None

    def client(self, model: Path | None) -> Any:
        """Return a client of the server; None if there is none. Raises CycloptsError, SettingError, TextError."""
        if self.url is not None:
            key = None if self.api_key_file is None else key_in(self.api_key_file)
            return rows("servers")["client"].get()(self.url, None if model is None else str(model), key)
        if model is None:
            raise CycloptsError(msg="A model is missing: name one, or a server with --url.")
        return None

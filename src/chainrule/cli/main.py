"""The entry point: finds the verb, and turns every error into one line and an exit status.

Exit status: 0 done; 1 an error in the data, a model or a setting; 2 wrong usage; 130 interrupted.
"""

# ruff: noqa: E402
from __future__ import annotations

import gc

gc.disable()  # while modules load: they leave no garbage, and looking for it takes a sixth of the time

import os
import sys
from contextlib import suppress

from cyclopts import App, CycloptsError, MissingArgumentError, UnusedCliTokensError

from chainrule import __version__
from chainrule.cli.verbs import FAMILIES, VERBS
from chainrule.errors import ChainruleError

gc.freeze()
gc.enable()

app = App(
    name="chainrule",
    help="Language models from the n-gram to the Transformer: train, measure, compare and use them.",
    version=__version__,
    help_epilogue="With --threads N, any verb runs on N threads; with --debug, an error shows its traceback.",
    help_format="plaintext",  # <unk> is no markup
    suppress_keyboard_interrupt=False,
)
train = App(name="train", help="Train a model on text.")
app.command(train)
for commands, verbs in ((app, VERBS), (train, FAMILIES)):
    for name, (function, summary) in verbs.items():
        commands.command(f"chainrule.cli.{function}", name=name, help=summary)


_TAKE_ALL = (
    "--prune",
    "--discount",
    "--smoothing",
    "--counts",
    "--weights",
    "--into",
    "--minimal-pairs",
    "--mix",
    "--suffixes",
    "--cutoffs",
    "--weight",
    "--scores",
    "--costs",
)  # options that take all the words that follow them


def main() -> None:
    """The command `chainrule`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # whoever started us closed it
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    # What the terminal's encoding lacks, and file names that are no text, are shown as escapes.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    status = run(sys.argv[1:])
    gc.freeze()  # the process ends: its memory goes back as a whole
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Runs one command; its exit status."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        arguments = _with_threads_set(arguments)
        _load_verb(arguments)
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        verbs = " ".join(["chainrule", *_verbs(arguments)])
        return _told(f"{_usage(error, arguments)} Try: {verbs} --help", 2, debug)
    except ChainruleError as error:
        return _told(str(error), 1, debug)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return _told("networks need torch, which is not installed: pip install 'chainrule[neural]'", 1, debug)
    except MemoryError as error:
        found = f" ({error})" if str(error) else ""
        return _told(f"out of memory{found}; ask for less at once: a shorter text, a lower order", 1, debug)
    except (BrokenPipeError, SystemExit):  # whoever read our output has had enough; rich exits where help is cut off
        _give_output_up()
        return 0
    except OSError as error:
        failed = f"{error.filename}: cannot be read or written" if error.filename else "reading or writing failed"
        return _told(f"{failed}: {error.strerror or error}", 1, debug)
    except KeyboardInterrupt as interrupt:
        return _told(str(interrupt) or "interrupted; nothing half-written is left", 130, debug)
    return 0


def _load_verb(arguments: list[str]) -> None:
    """Imports the verb that the arguments name, whose help is now its docstring and not the one line of the table."""
    here = app
    for name in _verbs(arguments):
        here = here[name]
        if here is not train:
            here.help = None  # then cyclopts takes the docstring


def _with_threads_set(arguments: list[str]) -> list[str]:
    """The arguments without --threads N, which any verb may have. Raises CycloptsError."""
    rest: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        if argument == "--":
            return [*rest, argument, *waiting]
        option, is_joined, number = argument.partition("=")
        if option != "--threads":
            rest.append(argument)
            continue
        number = number if is_joined else next(waiting, "")
        if not number.isdecimal() or int(number) < 1:
            raise CycloptsError(msg=f"--threads takes a whole number from 1 on, not {number or 'nothing'}.")
        os.environ["CHAINRULE_THREADS"] = number
    return rest


def _told(message: str, status: int, debug: bool) -> int:
    """Prints an error in one line; under --debug, raises it anew."""
    try:
        sys.stdout.flush()
    except OSError:
        _give_output_up()
    if debug:
        raise
    from chainrule.report.tables import printable

    print(f"chainrule: {printable(message)}", file=sys.stderr)
    return status


def _give_output_up() -> None:
    """What is not printed yet goes nowhere: Python must not try again at exit."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: CycloptsError, arguments: list[str]) -> str:
    """What is wrong with the arguments, in one line."""
    if isinstance(error, MissingArgumentError) and error.argument is not None and error.keyword is None:
        name = error.argument.name
        greedy = [option for option in _TAKE_ALL if option in arguments] if name == "TEXTS" else []
        return f"{name} is missing{f': put it before {greedy[0]}' if greedy else ''}."
    if isinstance(error, UnusedCliTokensError):
        return f"There is no use for {' '.join(error.unused_tokens or [])}."
    return _one_line(str(error))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _verbs(arguments: list[str]) -> list[str]:
    """The commands that the arguments begin with."""
    verbs = []
    here = app
    for argument in arguments:
        if argument.startswith("-") or argument not in here:
            break
        verbs.append(argument)
        if argument != "train":
            break
        here = train
    return verbs

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

from cyclopts import App, CycloptsError, Group

from chainrule import __version__
from chainrule.cli.verbs import FAMILIES, GROUPS, INSTALL, VERBS
from chainrule.errors import ChainruleError, ModelFormatError, TextError

gc.freeze()
gc.enable()

app = App(
    name="chainrule",
    help="Language models from the n-gram to the Transformer: train, measure, compare and use them.",
    version=__version__,
    help_epilogue="With --threads N, any verb runs on N threads; with --debug, an error shows its traceback.",
    help_format="plaintext",  # <unk> is no markup
    suppress_keyboard_interrupt=False,
    group_commands=Group("Options", sort_key=len(GROUPS)),
)
train = App(name="train", help="Train a model on text.")
for place, (title, names) in enumerate(GROUPS.items()):
    group = Group(title, sort_key=place)
    for rank, name in enumerate(names):
        if name == "train":
            train.group, train.sort_key = group, rank
            app.command(train)
        else:
            function, summary = VERBS[name]
            app.command(f"chainrule.cli.{function}", name=name, help=summary, group=group, sort_key=rank)
models = Group("Models", sort_key=0)
for rank, (name, (function, summary)) in enumerate(FAMILIES.items()):
    train.command(f"chainrule.cli.{function}", name=name, help=summary, group=models, sort_key=rank)
app.command(f"chainrule.cli.{INSTALL[0]}", name="--install-completion", help=INSTALL[1])


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
    bound = None
    try:
        arguments = _with_threads_set(arguments)
        verb = _verb(arguments)
        _load(verb)
        command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
        if verb is not app:
            from chainrule.cli.wrong_usage import check_no_option_is_text

            check_no_option_is_text(bound, verb, arguments)
        command(*bound.args, **bound.kwargs)
        sys.stdout.flush()
    except CycloptsError as error:
        from chainrule.cli.wrong_usage import usage_message

        return _told(f"{usage_message(error, _verb(arguments), arguments)} {_advice(arguments)}", 2, debug)
    except ChainruleError as error:
        from chainrule.cli.wrong_usage import in_options, misplaced_model

        if bound is not None and isinstance(error, TextError | ModelFormatError):
            misplaced = misplaced_model(bound)
            if misplaced is not None:
                return _told(f"{misplaced} {_advice(arguments)}", 2, debug)
        return _told(in_options(str(error), _verb(arguments)), 1, debug)
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
        from chainrule.cli.wrong_usage import in_options

        message = in_options(str(interrupt), _verb(arguments))
        return _told(message or "interrupted; nothing half-written is left", 130, debug)
    return 0


def _load(verb: App) -> None:
    """Imports a verb, whose help is now its docstring and not the one line of the table."""
    if verb not in (app, train):
        verb.help = None  # then cyclopts takes the docstring


def _advice(arguments: list[str]) -> str:
    return f"Try: {' '.join(['chainrule', *_words(arguments)])} --help"


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


def _words(arguments: list[str]) -> list[str]:
    """The names of the commands that the arguments begin with."""
    words = []
    here = app
    for argument in arguments:
        if argument.startswith("-") or argument not in here:
            break
        words.append(argument)
        if argument != "train":
            break
        here = train
    return words


def _verb(arguments: list[str]) -> App:
    """The last command that the arguments begin with."""
    verb = app
    for word in _words(arguments):
        verb = verb[word]
    return verb

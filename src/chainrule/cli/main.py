"""Finds the verb, runs it, and turns every error into one line and an exit status.

Exit status: 0 done; 1 an error in the data, a model or a setting; 2 wrong usage; 130 interrupted. Also
`chainrule --install-completion`, which makes the shell complete verbs and options.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from contextlib import suppress
from typing import Any

from cyclopts import App, CycloptsError, Group

from chainrule import __version__, kinds
from chainrule.base.progress import COMMAND_BEGAN
from chainrule.base.threads import MOST_THREADS
from chainrule.cli.verbs import (
    DESCRIPTION,
    EVERYWHERE,
    FAMILIES,
    FORMER_FAMILIES,
    GROUPS,
    INSTALL,
    TRAIN,
    VERBS,
)
from chainrule.errors import ChainruleError, ModelFormatError, SettingError, TextError, installing

_was_collecting = gc.isenabled()
gc.disable()  # while modules load: they leave no garbage, and collecting takes a sixth of the time


gc.freeze()
if _was_collecting:
    gc.enable()

app = App(
    name="chainrule",
    help=DESCRIPTION,
    version=__version__,
    help_epilogue=EVERYWHERE,
    help_format="plaintext",  # <unk> is not markup
    suppress_keyboard_interrupt=False,
    group_commands=Group("Options", sort_key=len(GROUPS)),
)
train = App(name="train", help=TRAIN)
groups = {title: Group(title, sort_key=position) for position, title in enumerate((*GROUPS, "Models"))}
for title, names in GROUPS.items():
    group = groups[title]
    for rank, name in enumerate(names):
        if name == "train":
            train.group, train.sort_key = group, rank
            app.command(train)
        else:
            verb = VERBS[name]
            app.command(verb.function.target, name=name, help=verb.help, group=group, sort_key=rank)
for rank, (name, verb) in enumerate(FAMILIES.items()):
    train.command(verb.function.target, name=name, help=verb.help, group=groups["Models"], sort_key=rank)
app.command(INSTALL[0], name="--install-completion", help=INSTALL[1])


_END_SECONDS = 0.6  # that a process takes to end after its work, with torch in it; minutes count them, too


def main() -> None:
    """The command `chainrule`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    # Characters that the terminal's encoding lacks, and file names that are not text, are shown as escapes.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    status = run(sys.argv[1:], time.process_time())  # its start takes about as long as the work in it
    gc.freeze()  # the process ends: its memory is freed as a whole
    sys.exit(status)


def run(arguments: list[str], start_seconds: float = 0.0) -> int:
    """Runs one command and returns its exit status. start_seconds: those that starting the process took."""
    COMMAND_BEGAN.set(time.monotonic() - start_seconds - _END_SECONDS)
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    bound = None
    try:
        kinds.tell_problems_to(_tell_of_plugin)
        arguments = _with_new_names(_with_settings_made(arguments))
        if arguments[:1] == ["--version"] and arguments[1:]:
            raise CycloptsError(msg=f"There is no use for {' '.join(arguments[1:])} after --version.")
        try:
            _add_verbs_of_plugins(arguments)
        except SettingError as error:  # there is no verb yet whose options it may name
            return _fail(str(error), 1, debug)
        if any(word[:1] == "-" and word[1:].isalpha() and word[2:] for word in arguments) and _answer(arguments):
            raise CycloptsError  # -order would be -o rder
        verb = _verb(arguments)
        _load(verb)
        command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
        if verb is not app:
            from chainrule.cli.shared.wrong_usage import check_needs, check_no_option_is_text, check_values

            check_no_option_is_text(bound, verb, arguments)
            if not command.__module__.startswith("cyclopts."):  # which shows its help
                check_values(command, arguments)
                check_needs(bound, command)
        command(*bound.args, **bound.kwargs)
        sys.stdout.flush()
        from chainrule.cli.shared.screen import end_notes

        end_notes()
    except CycloptsError as error:
        from chainrule.cli.shared.wrong_usage import usage_message

        answer = _answer(arguments)
        message = answer or f"{usage_message(error, _verb(arguments), arguments)} {_advice(arguments)}"
        return _fail(str(message), 2, debug)
    except ChainruleError as error:
        from chainrule.cli.shared.wrong_usage import in_options, misplaced_model

        if bound is not None and isinstance(error, TextError | ModelFormatError):
            misplaced = misplaced_model(bound)
            if misplaced is not None:
                return _fail(f"{misplaced} {_advice(arguments)}", 2, debug)
        message = in_options(str(error), _verb(arguments))
        answer = _answer(arguments)
        advice = "" if answer is None or answer.word not in message else f". Try: {answer.command}"
        return _fail(f"{message}{advice}", 1, debug)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return _fail(f"networks need torch, which is not installed: {installing('neural')}", 1, debug)
    except MemoryError as error:
        detail = f" ({error})" if str(error) else ""
        advice = "ask for less at once: a shorter text, a smaller batch, a lower order"
        return _fail(f"out of memory{detail}; {advice}", 1, debug)
    except (BrokenPipeError, SystemExit):  # the reader of our output closed it; rich exits where help is cut off
        _discard_output()
        return 0
    except OSError as error:
        failed = f"{error.filename}: cannot be read or written" if error.filename else "reading or writing failed"
        return _fail(f"{failed}: {error.strerror or error}", 1, debug)
    except KeyboardInterrupt as interrupt:
        from chainrule.cli.shared.wrong_usage import in_options

        message = in_options(str(interrupt), _verb(arguments))
        return _fail(message or "interrupted; no half-written file is left", 130, debug)
    return 0


def _tell_of_plugin(problem: str) -> None:
    from chainrule.cli.shared.screen import note

    note(problem)


def _add_verbs_of_plugins(arguments: list[str]) -> None:
    """Where our table lacks the verb, look for it in the plug-ins of other packages, whose problems are noted."""
    parent, words = (train, arguments[1:]) if arguments[:1] == ["train"] else (app, arguments)
    if not words or words[0].startswith("-") or words[0] in parent:
        return
    plugins, _ = kinds.read_plugins()
    for verb in (verb for name, plugin in plugins.items() if name != "chainrule" for verb in plugin.verbs):
        function: Any = verb.function.target
        if verb.function == kinds.TRAIN_ON_TEXT:
            function = kinds.TRAIN_ON_TEXT.get()(verb)
        elif verb.name == " ".join(arguments[: 1 + (parent is train)]):
            function = verb.function.get()  # raises SettingError
        home, _, name = verb.name.rpartition(" ")
        group = groups.setdefault(verb.group, Group(verb.group))
        (train if home else app).command(function, name=name, help=verb.help, group=group)


def _load(verb: App) -> None:
    """Imports a verb, so that its help is its docstring and not only the line in the table."""
    if verb not in (app, train):
        verb.help = None  # then cyclopts takes the docstring


def _advice(arguments: list[str]) -> str:
    return f"Try: {' '.join(['chainrule', *_command_names(arguments)])} --help"


def _answer(arguments: list[str]) -> Any:
    """What to say about names of other programs in a command; None if there are none, or nobody knows them."""
    from chainrule.cli.shared.wrong_usage import names_of

    answer = kinds.rows("other names").get("answer")
    return answer and answer.get()(arguments, lambda words: names_of(_verb(list(words))))


def _with_settings_made(arguments: list[str]) -> list[str]:
    """Sets the number of threads, and how models read: takes --threads N, --exact, --alone, --window-stride N,
    --bos TOKEN, --cache-bits 8 and --float64-layers N from the arguments. Raises CycloptsError.
    """
    rest: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument == "--":
            return [*rest, argument, *remaining]
        if argument in ("--exact", "--alone"):
            os.environ[f"CHAINRULE_{argument[2:].upper()}"] = "1"
            continue
        option, is_joined, value = argument.partition("=")
        if option not in ("--threads", "--window-stride", "--bos", "--cache-bits", "--float64-layers"):
            rest.append(argument)
            continue
        value = value if is_joined else next(remaining, "")
        if option == "--bos":
            if not value:
                raise CycloptsError(msg="--bos takes a token, such as '<|endoftext|>'; nothing comes after it.")
        elif option == "--cache-bits":
            if value != "8":
                wrong = f"not {value}" if value else "and nothing comes after it"
                raise CycloptsError(msg=f"{option} takes 8, {wrong}; without it, keys and values have 32 bits.")
        elif not value.isdecimal() or int(value) < 1 or (option == "--threads" and int(value) > MOST_THREADS):
            wrong = f", not {value}" if value else "; nothing comes after it"
            bounds = f"from 1 to {MOST_THREADS:,}" if option == "--threads" else "of 1 or more"
            raise CycloptsError(msg=f"{option} takes a whole number {bounds}{wrong}.")
        os.environ[f"CHAINRULE_{option[2:].replace('-', '_').upper()}"] = value
    return rest


def _with_new_names(arguments: list[str]) -> list[str]:
    """The arguments with the name that a model of `train` has now in place of a former one, which a note names."""
    if arguments[:1] != ["train"] or len(arguments) < 2 or arguments[1] not in FORMER_FAMILIES:
        return arguments
    name = FORMER_FAMILIES[arguments[1]]
    print(f"note: train {arguments[1]} is now called train {name}", file=sys.stderr)
    return ["train", name, *arguments[2:]]


def _fail(message: str, status: int, debug: bool) -> int:
    """Prints an error in one line and returns the status; under --debug, raises it again."""
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()
    if debug:
        raise
    from chainrule.base.tables import printable
    from chainrule.cli.shared.screen import end_notes

    end_notes(shown=False)
    print(f"chainrule: {printable(message)}", file=sys.stderr)
    return status


def _discard_output() -> None:
    """Discards output that is not printed yet, so that Python does not try again at exit."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _command_names(arguments: list[str]) -> list[str]:
    """The names of commands at the start of the arguments."""
    words = []
    parent = app
    for argument in arguments:
        if argument.startswith("-") or argument not in parent:
            break
        words.append(argument)
        if argument != "train":
            break
        parent = train
    return words


def _verb(arguments: list[str]) -> App:
    """The command that the arguments name."""
    verb = app
    for word in _command_names(arguments):
        verb = verb[word]
    return verb


def __getattr__(name: str) -> Any:
    """The function of `--install-completion`, made when it is asked for: its imports would slow every other command."""
    if name != "install":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cyclopts.completion.install import create_install_completion_command

    return create_install_completion_command(app.install_completion, add_to_startup=False)

"""The entry point: finds the verb, and turns every error into one line and an exit status.

Exit status: 0 done; 1 an error in the data, a model or a setting; 2 wrong usage; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from cyclopts import App, CycloptsError

from chainrule import __version__
from chainrule.cli.attend import attend
from chainrule.cli.classify import classify
from chainrule.cli.compare import compare
from chainrule.cli.complete import complete
from chainrule.cli.convert import convert
from chainrule.cli.count import count
from chainrule.cli.embed import embed
from chainrule.cli.evaluate import evaluate
from chainrule.cli.experiment import experiment
from chainrule.cli.fill import fill
from chainrule.cli.filter import filter_texts
from chainrule.cli.finetune import finetune
from chainrule.cli.generate import generate
from chainrule.cli.lmplz import lmplz
from chainrule.cli.mix import mix
from chainrule.cli.nearest import nearest_words
from chainrule.cli.next import next_tokens
from chainrule.cli.noise import noise
from chainrule.cli.prune import prune
from chainrule.cli.rescore import rescore
from chainrule.cli.score import score
from chainrule.cli.split import split
from chainrule.cli.train import ngram, uniform
from chainrule.cli.train_neural import VERBS as NETWORK_VERBS
from chainrule.cli.train_neural import adapt
from chainrule.cli.train_translation import translation
from chainrule.cli.translate import translate
from chainrule.cli.verify import verify
from chainrule.cli.wrong_usage import check_no_option_is_text, in_options, misplaced_model, usage_message
from chainrule.errors import ChainruleError, ModelFormatError, TextError
from chainrule.report.tables import printable

app = App(
    name="chainrule",
    help="Language models from the n-gram to the Transformer: train, measure, compare and use them.",
    version=__version__,
    help_epilogue="With --threads N, any verb runs on N threads; with --debug, an error shows its traceback.",
    help_format="plaintext",  # <unk> is no markup
    suppress_keyboard_interrupt=False,
)
train = App(name="train", help="Train a model on text.")
train.command(ngram, name="ngram")
for name, verb in NETWORK_VERBS.items():
    train.command(verb, name=name)
train.command(translation, name="translation")
train.command(uniform, name="uniform")
app.command(train)
app.command(evaluate, name="evaluate")
app.command(score, name="score")
app.command(next_tokens, name="next")
app.command(generate, name="generate")
app.command(complete, name="complete")
app.command(fill, name="fill")
app.command(adapt, name="adapt")
app.command(finetune, name="finetune")
app.command(classify, name="classify")
app.command(embed, name="embed")
app.command(nearest_words, name="nearest")
app.command(translate, name="translate")
app.command(attend, name="attend")
app.command(compare, name="compare")
app.command(experiment, name="experiment")
app.command(filter_texts, name="filter")
app.command(rescore, name="rescore")
app.command(noise, name="noise")
app.command(split, name="split")
app.command(count, name="count")
app.command(convert, name="convert")
app.command(lmplz, name="lmplz")
app.command(prune, name="prune")
app.command(mix, name="mix")
app.command(verify, name="verify")
app.register_install_completion_command(add_to_startup=False, help="Install completion for your shell.")


def main() -> None:
    """The command `chainrule`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # whoever started us closed it
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    # What the terminal's encoding lacks, and file names that are no text, are shown as escapes.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs one command; its exit status."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    bound = None
    try:
        arguments = _with_threads_set(arguments)
        command, bound, _ = app.parse_args(arguments, exit_on_error=False, print_error=False)
        check_no_option_is_text(bound, _verb(arguments), arguments)
        command(*bound.args, **bound.kwargs)
        sys.stdout.flush()
    except CycloptsError as error:
        words = " ".join(["chainrule", *_words(arguments)])
        return _told(f"{usage_message(error, _verb(arguments), arguments)} Try: {words} --help", 2, debug)
    except ChainruleError as error:
        misplaced = (
            misplaced_model(bound) if bound is not None and isinstance(error, TextError | ModelFormatError) else None
        )
        if misplaced is not None:
            words = " ".join(["chainrule", *_words(arguments)])
            return _told(f"{misplaced} Try: {words} --help", 2, debug)
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
        return _told(str(interrupt) or "interrupted; nothing half-written is left", 130, debug)
    return 0


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

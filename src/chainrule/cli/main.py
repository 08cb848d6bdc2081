"""The entry point: finds the verb, and turns every error into one line and an exit status.

Exit status: 0 done; 1 an error in the data, a model or a setting; 2 wrong usage; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from cyclopts import App, CycloptsError, MissingArgumentError, UnusedCliTokensError

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
from chainrule.cli.info import info
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
from chainrule.errors import ChainruleError
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
app.command(info, name="info")
app.command(verify, name="verify")
app.register_install_completion_command(add_to_startup=False, help="Install completion for your shell.")


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
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs one command; its exit status."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        arguments = _with_threads_set(arguments)
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

"""The entry point: finds the verb, and turns every error into one line and an exit status.

Exit status: 0 done; 1 an error in the data, a model or a setting; 2 wrong usage; 130 interrupted.
"""

from __future__ import annotations

import os
import sys

from cyclopts import App, CycloptsError

from chainrule import __version__
from chainrule.errors import ChainruleError

app = App(
    name="chainrule",
    help="Language models from the n-gram to the Transformer: train, measure, compare and use them.",
    version=__version__,
    help_epilogue="With --debug, an error shows its traceback.",
    help_format="plaintext",  # <unk> is no markup
    suppress_keyboard_interrupt=False,
)
train = App(name="train", help="Train a model on text.")
train.command("chainrule.cli.train:ngram", name="ngram", help="An n-gram model, modified Kneser-Ney smoothing.")
train.command("chainrule.cli.train:uniform", name="uniform", help="Every token alike: the floor for any comparison.")
app.command(train)
app.command("chainrule.cli.evaluate:evaluate", name="evaluate", help="Perplexity and bits per byte of a text.")
app.command("chainrule.cli.score:score", name="score", help="Log-probabilities of sentences or tokens.")
app.command("chainrule.cli.next:next_tokens", name="next", help="The next-token distribution after a prompt.")
app.command("chainrule.cli.generate:generate", name="generate", help="Sample texts.")
app.command("chainrule.cli.compare:compare", name="compare", help="Train every model on a text; one table.")
app.command("chainrule.cli.convert:convert", name="convert", help="Between model folders and ARPA files.")
app.command("chainrule.cli.verify:verify", name="verify", help="Check the checksums of a model folder.")
app.register_install_completion_command(add_to_startup=False, help="Install completion for your shell.")


def main() -> None:
    """The command `chainrule`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs one command; its exit status."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        return _told(f"{_one_line(str(error))} Try: {' '.join(['chainrule', *_verbs(arguments)])} --help", 2, debug)
    except ChainruleError as error:
        return _told(str(error), 1, debug)
    except MemoryError as error:
        return _told(f"out of memory: {error}. A shorter text or a lower --order needs less", 1, debug)
    except BrokenPipeError:
        # Whoever read our output has had enough; Python must not try to flush the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _told("interrupted; nothing was written", 130, debug)
    return 0


def _told(message: str, status: int, debug: bool) -> int:
    """Prints an error in one line; under --debug, raises it anew."""
    if debug:
        raise
    print(f"chainrule: {message}", file=sys.stderr)
    return status


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

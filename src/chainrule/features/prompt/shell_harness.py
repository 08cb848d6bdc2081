"""chainrule harness: the command line of lm-evaluation-harness, with our models in it."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.errors import ChainruleError, SettingError

_CHOOSE_MODEL = ("--model", "-M", "--config", "-C")
_NO_RUN = ("ls", "validate", "-h", "--help")


def harness(
    *arguments: Annotated[
        str,
        Parameter(
            allow_leading_hyphen=True,
            help="The arguments of lm-eval; see -- run --help, -- ls --help and -- validate --help.",
        ),
    ],
) -> None:
    """Run lm-evaluation-harness, with its tasks and options, on any of our models.

        $ chainrule harness --model_args pretrained=lm/ --tasks lambada_openai --limit 100

    Needs the package lm_eval: pip install 'chainrule[harness]'. --model_args
    names the model, pretrained=lm/, and after commas tokenizer, markers (as for
    chainrule evaluate), ends=true (predict </s> after each continuation) and
    seed=0. Tasks on this machine need no network: name their folder with
    --include_path.
    """
    from chainrule.features.prompt.harness import check_lm_eval

    if not arguments:
        raise CycloptsError(
            msg="The arguments of lm-eval are missing, such as --model_args pretrained=lm/ --tasks lambada."
        )
    check_lm_eval()
    from lm_eval.__main__ import cli_evaluate

    import chainrule.features.prompt.lm_eval_model  # noqa: F401  # registers the model

    before = sys.argv
    sys.argv = ["chainrule harness", *_with_our_model(arguments)]
    try:
        cli_evaluate()
    except SystemExit as exit:
        if exit.code:  # it has printed why
            raise CycloptsError(msg="lm-eval does not take these arguments.") from None
    except ChainruleError:
        raise
    except Exception as error:
        raise SettingError(f"lm-evaluation-harness stopped: {_in_one_line(error)}") from error
    finally:
        sys.argv = before


def _with_our_model(arguments: tuple[str, ...]) -> list[str]:
    """Add `--model chainrule`, unless the arguments choose a model or run none."""
    is_chosen = any(argument.partition("=")[0] in _CHOOSE_MODEL for argument in arguments)
    if is_chosen or arguments[0] in _NO_RUN:
        return list(arguments)
    return [*arguments, "--model", "chainrule"]


def _in_one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__

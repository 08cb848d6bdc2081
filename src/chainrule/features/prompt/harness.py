"""`harness`: a model as an `LM` of lm-evaluation-harness."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from chainrule.errors import SettingError
from chainrule.features.prompt.lm_eval_answers import open_answering
from chainrule.features.seq2seq.model import Seq2SeqModel
from chainrule.models.model import Model

if TYPE_CHECKING:
    from lm_eval.api.model import LM

    from chainrule.text.tokenization.vocabulary import Markers


def harness(
    model: Model | Seq2SeqModel | str | os.PathLike[str],
    *,
    tokenizer: str | None = None,
    markers: Markers | None = None,
    ends: bool = False,
    seed: int = 0,
) -> LM:
    """Return a model, or the one at a path, as an `LM` of lm-evaluation-harness, whose package lm_eval has to be
    installed.

    tokenizer, markers: as `load` takes them. ends: whether </s> is predicted after a continuation, as `judge_pairs`
    does; the harness itself leaves it out. seed: for sampled texts. Raises SettingError where lm_eval is missing, or
    the model is a classifier; ModelFormatError.

    good:  lm_eval.simple_evaluate(model=chainrule.harness("lm/"), tasks=["lambada_openai"])
    """
    check_lm_eval()
    from chainrule.features.prompt.lm_eval_model import ChainruleLM

    if not isinstance(model, Model | Seq2SeqModel):
        model = open_answering(os.fspath(model), tokenizer=tokenizer, markers=markers)
    elif (tokenizer, markers) != (None, None):
        raise SettingError("tokenizer and markers are for a path; a model that is open has its own")
    return ChainruleLM(model, ends=ends, seed=seed)


def check_lm_eval() -> None:
    """Raise SettingError where lm-evaluation-harness is not installed."""
    if find_spec("lm_eval") is None:
        raise SettingError("this needs lm-evaluation-harness, which is not installed: pip install 'chainrule[harness]'")

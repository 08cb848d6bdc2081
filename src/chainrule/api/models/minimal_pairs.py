"""Minimal pairs, BLiMP's: which sentence of each a model finds likelier."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, get_args

from chainrule.errors import SettingError
from chainrule.evaluation.minimal_pairs import judge, read_pairs
from chainrule.evaluation.pseudo_likelihood import Pseudo, pseudo_log_likelihoods
from chainrule.evaluation.token_scores import score_documents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.api.models.model_contents import ModelParts
    from chainrule.base.progress import Progress
    from chainrule.evaluation.minimal_pairs import GroupAccuracy
    from chainrule.text.corpus.corpus import Paths
    from chainrule.text.corpus.records import OnBad


def judge_pairs(
    parts: ModelParts,
    files: Paths,
    *,
    ends: bool,
    fills: bool,
    pseudo: Pseudo | None,
    on_bad: OnBad,
    progress: Progress,
) -> list[GroupAccuracy]:
    """As `Model.judge_pairs`. fills: whether the model reads both sides."""
    names = [files] if isinstance(files, str | os.PathLike) else files
    if pseudo is not None and pseudo not in get_args(Pseudo):
        raise SettingError(f"pseudo is {pseudo!r}; expected {' or '.join(get_args(Pseudo))}")
    if pseudo is not None and not fills:
        raise SettingError(
            f"a model of family {parts.family!r} has no pseudo-log-likelihoods; leave pseudo out, which is for "
            "networks that see both sides"
        )

    def score(texts: Sequence[str]) -> tuple[Float64[ndarray, " texts"], Int64[ndarray, " texts"]]:
        if fills:
            return pseudo_log_likelihoods(parts.engine, parts.speller, parts.tokenizer, texts, pseudo)
        return score_documents(parts.engine, parts.speller, parts.tokenizer.encode_texts(texts), end=ends)

    pairs = read_pairs((os.fspath(name) for name in names), on_bad)
    return judge(pairs, score, progress, ends=ends and not fills, tokenizer=parts.tokenizer)

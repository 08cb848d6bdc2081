"""Scores the documents of data frames with a model's folder, which all workers must see."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import SettingError
from chainrule.features.spark.documents import documents_of, only_column
from chainrule.features.spark.session import check_packages, explain_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """The likelihood of a text, with unknown words spelled out; log_prob: nats."""

    documents: int
    tokens: int
    bytes: int
    log_prob: float

    @property
    def bits_per_byte(self) -> float:
        return -self.log_prob / math.log(2) / self.bytes

    @property
    def bits_per_token(self) -> float:
        """The cross-entropy in bits per token, with </s> and the spelling of unknown words."""
        return -self.log_prob / math.log(2) / self.tokens


def evaluate(
    session: SparkSession, texts: Any, model: str | os.PathLike[str], *, column: str | None = None
) -> Likelihood:
    """Return the likelihood of a text under the model in a folder, in exact sums: the same for any number of tasks.

    texts, column: as for `train`. Raises TextError, ModelFormatError, EstimationError.
    """
    from chainrule.features.spark.workers import SCORES, likelihoods

    folder = _checked(model)
    with explain_failures("evaluating on Spark"):
        documents = documents_of(session, texts, column)
        work = partial(likelihoods, folder=folder, are_lines=documents.are_lines)
        found = documents.frame.mapInArrow(work, SCORES).toArrow()
    from chainrule.errors import TextError

    errors = [error for error in found.column("error").to_pylist() if error is not None]
    if errors or not found.num_rows:
        raise TextError(errors[0] if errors else "there is no text in it; at least one document is needed")
    columns = {name: found.column(name).to_numpy() for name in ("log_prob", "tokens", "bytes")}
    return Likelihood(
        documents=found.num_rows,
        tokens=int(columns["tokens"].sum()),
        bytes=int(columns["bytes"].sum()),
        log_prob=math.fsum(columns["log_prob"].tolist()),
    )


def score(
    frame: DataFrame,
    model: str | os.PathLike[str],
    *,
    column: str | None = None,
    difference: str | os.PathLike[str] | None = None,
    name: str = "score",
) -> DataFrame:
    """Return the rows of a data frame with one more column: the score that `chainrule.filter` gives, in bits per token.

    model, difference: folders of models. Lazy, as data frames are. Raises SettingError, ModelFormatError.
    """
    from pyspark.sql.types import DoubleType, StructField, StructType

    from chainrule.features.spark.workers import score_rows

    text = column or only_column(frame)
    if text not in frame.columns or name in frame.columns:
        wrong = f"no column {text!r}" if text not in frame.columns else f"a column {name!r} already"
        raise SettingError(f"the data frame has {wrong}; it has {', '.join(frame.columns)}")
    work = partial(
        score_rows,
        folder=_checked(model),
        other=None if difference is None else _checked(difference),
        column=frame.columns.index(text),
        names=[*frame.columns, name],
    )
    return frame.mapInArrow(work, StructType([*frame.schema.fields, StructField(name, DoubleType())]))


def filter(
    frame: DataFrame,
    model: str | os.PathLike[str],
    *,
    below: float,
    column: str | None = None,
    difference: str | os.PathLike[str] | None = None,
) -> DataFrame:
    """Return the rows of a data frame whose score is at most `below`, in bits per token; see `score`."""
    scored = score(frame, model, column=column, difference=difference, name="_score")
    return scored.where(scored["_score"] <= float(np.float32(below))).drop("_score")


def _checked(model: str | os.PathLike[str]) -> str:
    """Return the absolute path of a model's folder, which is opened here once, so that errors come early."""
    from chainrule.models.files.opening import load

    check_packages()
    load(model)
    return os.path.abspath(model)

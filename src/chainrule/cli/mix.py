"""chainrule mix MODELS -o MIX: several models as one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import (
    Json,
    ModelMarkerRule,
    ModelOutput,
    ModelTokenizerName,
    Overwrite,
    TextFile,
    WholeNumber,
)
from chainrule.cli.models import check_model_target, opened, save_or_keep
from chainrule.cli.screen import note, print_json, progress
from chainrule.cli.texts import AS_USUAL, TextOptions, note_repairs, text_for
from chainrule.errors import SettingError
from chainrule.mixture.config import CacheConfig, Kind, MixtureConfig
from chainrule.report.tables import text_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_FEW_UNKNOWN = 0.1  # of the tokens of a text, with which a mixture is as good as its models


def mix(
    *models: Annotated[Path, Parameter(help="Model folders, or ARPA files.", required=True)],
    output: ModelOutput,
    tune: Annotated[
        TextFile | None, Parameter(help="Choose the weights that make this held-out text likeliest.")
    ] = None,
    weights: Annotated[
        tuple[float, ...],
        Parameter(
            help="A weight for each model, the cache last: 0.7 0.3. Those of a linear mixture must sum to 1.",
            consume_multiple=True,
            negative=(),
        ),
    ] = (),
    kind: Annotated[
        Kind, Parameter(help="A weighted sum of probabilities, or their weighted product, normalised.")
    ] = "linear",
    buckets: Annotated[
        int, WholeNumber, Parameter(help="Weights for so many classes of the token before, by frequency.")
    ] = 1,
    cache: Annotated[
        int | None, WholeNumber, Parameter(help="Add a cache of the last so many tokens of the document, such as 500.")
    ] = None,
    static: Annotated[
        bool, Parameter(negative=(), help="Merge n-gram models into one n-gram model; vocabularies may differ.")
    ] = False,
    tokenizer: ModelTokenizerName = None,
    markers: ModelMarkerRule = None,
    reading: TextOptions = AS_USUAL,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Mix models of one tokenizer and vocabulary into one.

    Models of any families, mixtures too. The result is a model as any other:
    a folder that holds all of them. Without --tune and --weights, all weigh
    alike. To train a model on the tokens of another, say --tokenizer OTHER/;
    of two texts, take the vocabulary of the one that is more like what will be
    read, since words that it lacks are spelled out.

    With --static, n-gram models become one n-gram model, with the
    interpolation of all for the n-grams of each. A word that a model lacks has
    nothing from it; what it gives to <unk> stays there.

    A log-linear mixture is normalised over the whole vocabulary at each token:
    it is slow, and its weights are tuned on a part of the text.
    """
    from chainrule.api.merge import merge
    from chainrule.api.mix import mix as mixed

    if static and (kind != "linear" or buckets != 1 or cache is not None):
        raise CycloptsError(msg="--static is for linear mixtures, with neither --buckets nor --cache.")
    if tune is not None and weights:
        raise CycloptsError(msg="Say either --tune or --weights.")
    config = MixtureConfig(kind=kind, weights=tuple(weights) or None, buckets=buckets)
    cached = None if cache is None else CacheConfig(words=cache)
    heldout = None if tune is None else text_for(models, reading, tune)
    _check_all_differ(models)
    check_model_target(output, overwrite=overwrite)
    began = time.perf_counter()
    with progress() as told:
        parts = [
            opened(path, tokenizer if path.is_file() or len(models) == 1 else None, markers, told) for path in models
        ]
        names = [str(path) for path in models]
        if static:
            model = merge(parts, config.weights, heldout=heldout, names=names, progress=told)
        else:
            model = mixed(parts, config, heldout=heldout, cache=cached, names=names, progress=told)
        save_or_keep(model, output, overwrite=overwrite, told=told)
    if heldout is not None:
        note_repairs(heldout)
        if not static:
            _note_unknown(model.record["tuned_on"])
    elif not weights:
        note("all models weigh alike; say --tune and a held-out text to choose their weights")
    summary = {"model": str(output), "kind": kind, "seconds": time.perf_counter() - began}
    if json:
        print_json({**summary, "models": model.record["models"], "weights": model.record["weights"]})
    else:
        print(_described(model.record, kind))
        print(f"{output}: {summary['seconds']:.1f} s")


def _note_unknown(tuned_on: dict[str, Any]) -> None:
    """Says where the vocabulary that all share lacks so much of a text that another one would be better."""
    share = tuned_on["unknown_tokens"] / tuned_on["tokens"]
    if share > _FEW_UNKNOWN:
        note(
            f"the vocabulary lacks {share:.1%} of the tokens of {', '.join(tuned_on['data'])}, which are spelled out; "
            "on the vocabulary of a text like that a mixture does better (--tokenizer in training), and so may --static"
        )


def _check_all_differ(models: Sequence[Path]) -> None:
    """Raises SettingError where a model is named twice."""
    seen: set[Path] = set()
    for path in models:
        if path.resolve() in seen:
            raise SettingError(f"{path} is named twice; name each model once, and say --weights for how much it counts")
        seen.add(path.resolve())


def _described(record: dict[str, Any], kind: Kind) -> str:
    """A line a model, with its weight; with buckets, a column for each class of the token before."""
    rows = record["weights"] if kind == "linear" else [record["weights"]]
    columns = [f"{i}" for i in range(1, len(rows))] + ["begin"] if len(rows) > 1 else ["weight"]
    lines = [
        [model["name"], model["family"], *(f"{row[i]:.4f}" for row in rows)] for i, model in enumerate(record["models"])
    ]
    return text_table(["model", "family", *columns], lines)

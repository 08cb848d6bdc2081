"""Merges n-gram models into one that stores their interpolation."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule import __version__
from chainrule.api.editing.mix import difference_of, fewest_unseen, heldout_stream, speller_of
from chainrule.api.models.causal_model import CausalModel
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.errors import SettingError, prefix_errors
from chainrule.families.table import why_no_table
from chainrule.mixture.config import MixtureConfig
from chainrule.mixture.tuning import linear_weights
from chainrule.ngram.config import COMPACT
from chainrule.ngram.editing.merging import merge_tables, renumber, scale_unknown
from chainrule.ngram.kenlm.probing import HashedModel
from chainrule.ngram.models.table_models import NGramModel
from chainrule.ngram.speller import Speller, mixed_speller
from chainrule.text.corpus.corpus import source_of
from chainrule.text.corpus.reading import document_in
from chainrule.text.tokenization.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.api.models.model import Model
    from chainrule.ngram.trie.table import Table
    from chainrule.text.corpus.corpus import Paths, Source
    from chainrule.text.tokenization.tokenizer import Tokenizer


@shows_progress
def merge(
    models: Sequence[Model],
    weights: Sequence[float] | None = None,
    *,
    heldout: Source | Paths | None = None,
    names: Sequence[str] | None = None,
    progress: ProgressOption = None,
) -> CausalModel:
    """Merges n-gram models into one that stores their linear interpolation (SRILM's -mix-lm).

    All must have the same kind of tokenizer. The vocabulary is the union; a model gives probability 0 to words that it
    lacks, and keeps its probability of <unk>. weights: one for each model; by default tuned on the held-out text, or
    equal without one. <unk> and the speller are as in `mix`; if vocabularies differ, a speller is trained on the union.
    Raises SettingError, TextError, EstimationError, ModelFormatError.
    """
    progress = callback(progress)
    names = [f"model {i}" for i in range(1, len(models) + 1)] if names is None else names
    if weights is not None and heldout is not None:
        raise SettingError("weights and heldout are both given; give weights, or a text to tune them on")
    if weights is not None:
        MixtureConfig(weights=tuple(weights))
        if len(weights) != len(models):
            raise SettingError(
                f"{len(weights)} weights for {len(models)} models ({', '.join(names)}); give one for each"
            )
    models = [model.unpack(progress) if model.layout == COMPACT else model for model in models]
    tokenizer, tables = _over_one_vocabulary(models, names)
    fewest = fewest_unseen(models)
    ratios = [model.speller.unseen_types / max(fewest, 1) for model in models]
    tables = [scale_unknown(table, ratio) if ratio > 1 else table for table, ratio in zip(tables, ratios, strict=True)]
    document = document_in(*(model.record for model in models))
    source = None if heldout is None else source_of(heldout, document)
    if source is not None:
        stream = heldout_stream(source, tokenizer, progress)
        scores = np.stack([NGramModel(table).score_stream(stream) for table in tables])
        [tuned] = linear_weights(scores, progress=progress)
        weights = tuned.tolist()
    weights = [1 / len(models)] * len(models) if weights is None else list(weights)
    table = merge_tables(tables, [weight / sum(weights) for weight in weights], progress)
    record: dict[str, Any] = {
        "family": "ngram",
        "merged": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "chainrule": __version__,
        "models": [
            {"name": name, "family": "ngram", "ngrams": list(part.level_sizes)}
            for name, part in zip(names, tables, strict=True)
        ],
        "weights": [weights],
        "ngrams": list(table.level_sizes),
        **({} if document is None else {"reading": {"document": document}}),
        **({} if source is None else {"tuned_on": source.record}),
    }
    if tokenizer.vocabulary is models[0].tokenizer.vocabulary:
        speller = speller_of(models, np.array(weights))
    else:
        learned = Speller.of_vocabulary(tokenizer)
        speller = mixed_speller([learned], [1.0], tokenizer.vocabulary, unseen_types=fewest)
    return CausalModel("ngram", NGramModel(table), tokenizer, record, speller)


def _over_one_vocabulary(models: Sequence[Model], names: Sequence[str]) -> tuple[Tokenizer, list[Table]]:
    """A tokenizer with the union of the vocabularies, and the tables in its ids. Raises SettingError."""
    if len(models) < 2:
        raise SettingError("merging needs two models or more")
    tables = []
    for name, model in zip(names, models, strict=True):
        with prefix_errors(name):
            language_model = model.language_model
        if not isinstance(language_model, NGramModel | HashedModel):
            raise SettingError(
                f"{name} cannot be merged into an n-gram model: {why_no_table(model.family, language_model)}"
            )
        tables.append(language_model.table)
    first = models[0].tokenizer
    if all(difference_of(first, model.tokenizer) is None for model in models[1:]):
        return first, tables
    vocabulary = Vocabulary()
    new_ids = []
    for name, model in zip(names, models, strict=True):
        difference = difference_of(first, model.tokenizer.with_vocabulary(first.vocabulary))
        if difference:
            raise SettingError(f"{names[0]} and {name} cannot be merged: {difference}")
        new_ids.append(vocabulary.absorb(model.tokenizer.vocabulary))
    size = len(vocabulary)
    return first.with_vocabulary(vocabulary), [
        renumber(table, own, size) for table, own in zip(tables, new_ids, strict=True)
    ]

"""Prunes n-gram models: by entropy, to a number of n-grams, to a vocabulary or to a text."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from chainrule.errors import SettingError, TextError
from chainrule.models.families.table import why_no_table
from chainrule.models.language_models import CausalModel
from chainrule.models.progress_line import ProgressOption, callback, shows_progress
from chainrule.ngram.config import COMPACT
from chainrule.ngram.counting.counts import pad_documents
from chainrule.ngram.editing.pruning import (
    by_chain_rule,
    by_discounts,
    by_frequency,
    check_ngrams,
    check_threshold,
    score_ngrams,
    to_text,
    to_words,
)
from chainrule.ngram.layouts import model_from_settings
from chainrule.ngram.models.padded_model import PaddedModel
from chainrule.ngram.models.table_models import NGramModel
from chainrule.ngram.speller import ENOUGH, Speller
from chainrule.protocol import UNKNOWN
from chainrule.text.corpus.corpus import source_of
from chainrule.text.tokenization.build import listed_tokens
from chainrule.text.tokenization.splitters import SEPARATORS
from chainrule.text.tokenization.tokenizer import encode_stream
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS, Vocabulary

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.models.model import Model
    from chainrule.ngram.editing.pruning import Histories
    from chainrule.ngram.layouts import AnyNGram
    from chainrule.ngram.trie.table import Table
    from chainrule.text.corpus.corpus import Paths, Source


@shows_progress
def prune_by_entropy(
    model: Model,
    *,
    threshold: float | None = None,
    ngrams: int | None = None,
    histories: Literal["discounts", "chain"] | Source | Paths = "discounts",
    progress: ProgressOption = None,
) -> CausalModel:
    """Remove the n-grams that change the model least (Stolcke 1998). Give either threshold or ngrams.

    threshold: removes an n-gram if that alone would raise the perplexity by less than this share. ngrams: how many
    n-grams to keep, of all orders together. histories: how contexts are weighed: "discounts", by their counts in
    training, recovered from the mass that discounting gave to the lower order, which is exact for Kneser-Ney and other
    discounting methods before any pruning; "chain", by the model's own probabilities, as Stolcke and SRILM do; or a
    text, best the training text, by their frequencies in it. Raises SettingError, TextError, ModelFormatError.
    """
    progress = callback(progress)
    model = _unpack(model, progress)
    table = _table(model)
    if threshold is not None and ngrams is None:
        check_threshold(threshold)
    elif ngrams is not None and threshold is None:
        check_ngrams(ngrams, table)
    else:
        raise SettingError("give either threshold or ngrams")
    text = None if histories in ("discounts", "chain") else source_of(histories, model.document)
    scored = score_ngrams(table, _choose_weights(model, text or histories, progress), progress)
    small = scored.above(threshold, progress) if threshold is not None else scored.best(ngrams or 0, progress)
    how = {"entropy": threshold} if threshold is not None else {"to_ngrams": ngrams}
    return _with_table(model, small, {**how, "histories": histories if text is None else text.record})


@shows_progress
def prune_to_vocabulary(model: Model, path: str | os.PathLike[str], progress: ProgressOption = None) -> CausalModel:
    """Keep only the tokens listed in a file, one a line; <unk> gets the probability of all others.

    Tokens that the model does not know are ignored. Raises TextError, SettingError, ModelFormatError.
    """
    progress = callback(progress)
    model = _unpack(model, progress)
    table, tokenizer = _table(model), model.tokenizer
    if tokenizer.spells_everything:
        raise SettingError(
            f"the {tokenizer.name} tokenizer needs all of its tokens to spell every text, so its vocabulary cannot be "
            "pruned"
        )
    listed = listed_tokens(path, tokenizer.normaliser)
    wanted, tokens = set(listed), tokenizer.vocabulary.tokens()
    is_kept = np.array([i < len(MARKER_TOKENS) or token in wanted for i, token in enumerate(tokens)])
    kept = [tokens[i] for i in np.flatnonzero(is_kept).tolist()]
    if len(kept) == len(MARKER_TOKENS):
        raise SettingError(
            f"{os.fspath(path)}: none of its {len(listed):,} tokens is in the vocabulary of the model; expected one a "
            f"line, as the {tokenizer.name} tokenizer writes them"
        )
    small, how = to_words(table, is_kept, progress), {"to_vocabulary": os.fspath(path)}
    if is_kept.all():
        return _with_table(model, small, how)
    vocabulary = Vocabulary(kept[len(MARKER_TOKENS) :])
    removed = [tokens[i] for i in np.flatnonzero(~is_kept).tolist()]
    # From now on, <unk> has the mass of all unknown words; the removed words are the best sample of their spelling.
    share_before = math.exp(float(table.log_probs[1 + UNKNOWN]) - float(small.log_probs[1 + UNKNOWN]))
    speller = Speller.train(
        removed[:: max(1, len(removed) // (2 * ENOUGH))],
        vocabulary,
        unseen_types=1,
        never=SEPARATORS,
        literal_share=model.speller.literal_share * min(share_before, 1.0),
    )
    record = _record(model, small, how)
    return CausalModel("ngram", _as_model_of(model, small), tokenizer.with_vocabulary(vocabulary), record, speller)


@shows_progress
def prune_to_text(model: Model, source: Source | Paths, progress: ProgressOption = None) -> CausalModel:
    """Keep only the n-grams that scoring a text can need, so that its scores stay the same.

    Other texts may score differently, and distributions no longer sum to one. Raises TextError, SettingError,
    ModelFormatError.
    """
    progress = callback(progress)
    model = _unpack(model, progress)
    table, source = _table(model), source_of(source, model.document)
    small = to_text(table, _padded(model, encode_stream(model.tokenizer, source, progress)))
    if small.order == 1 and table.order > 1:
        raise TextError(
            f"{', '.join(source.sources)}: none of the model's n-grams of two or more tokens occurs in it; "
            f"expected text for the {model.tokenizer.name} tokenizer"
        )
    return _with_table(model, small, {"for_text": source.record})


def _unpack(model: Model, progress: Progress) -> Model:
    """Return the model in the fast layout, which pruning needs."""
    return model.unpack(progress) if model.layout == COMPACT else model


def _table(model: Model) -> Table:
    if not isinstance(model.language_model, NGramModel | PaddedModel):
        raise SettingError(f"the model cannot be pruned: {why_no_table(model.family, model.engine)}")
    return model.language_model.table


def _choose_weights(model: Model, histories: Any, progress: Progress) -> Histories:
    if histories == "chain":
        return by_chain_rule
    if histories == "discounts":
        return by_discounts
    stream = _padded(model, encode_stream(model.tokenizer, histories, progress))
    return lambda table, suffixes: by_frequency(table, stream)


def _as_model_of(model: Model, table: Table) -> AnyNGram:
    """Return a table as a model of the same class and settings."""
    assert isinstance(model.language_model, NGramModel | PaddedModel)
    return model_from_settings(model.language_model.settings, NGramModel(table))


def _padded(model: Model, stream: Int32[ndarray, " tokens"]) -> Int32[ndarray, " tokens"]:
    """Return the stream with as many <s> before each document as the model was trained with."""
    return pad_documents(stream, getattr(model.language_model, "begins", 1) - 1)[0]


def _with_table(model: Model, table: Table, how: dict[str, Any]) -> CausalModel:
    return CausalModel("ngram", _as_model_of(model, table), model.tokenizer, _record(model, table, how), model.speller)


def _record(model: Model, table: Table, how: dict[str, Any]) -> dict[str, Any]:
    before = {"ngrams_before": list(_table(model).level_sizes)}
    pruned = [*model.record.get("pruned", []), {**how, **before}]
    return {**model.record, "ngrams": list(table.level_sizes), "pruned": pruned}

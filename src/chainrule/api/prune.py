"""From an n-gram model to a smaller one: pruned by entropy, to a number of n-grams, to a vocabulary or to a text."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from chainrule.api.causal_model import CausalModel
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.errors import SettingError, TextError
from chainrule.families import why_no_table
from chainrule.ngram.config import COMPACT
from chainrule.ngram.counting.padding import padded
from chainrule.ngram.editing.history_weights import by_chain_rule, by_discounts, by_frequency
from chainrule.ngram.editing.prune_by_entropy import check_ngrams, check_threshold, score_ngrams
from chainrule.ngram.editing.prune_to_text import to_text
from chainrule.ngram.editing.prune_to_vocabulary import to_words
from chainrule.ngram.kenlm.hashed_model import HashedModel
from chainrule.ngram.model_class import model_from_settings
from chainrule.ngram.models.ngram_model import NGramModel
from chainrule.ngram.models.padded_model import PaddedModel
from chainrule.ngram.spelling.speller import ENOUGH, Speller
from chainrule.text.corpus import source_of
from chainrule.text.prepare_tokenizer import listed_tokens
from chainrule.text.splitters import SEPARATORS
from chainrule.text.tokenizer import encoded_stream
from chainrule.text.vocabulary import MARKER_TOKENS, Vocabulary

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.api.model import Model
    from chainrule.base.progress import Progress
    from chainrule.ngram.editing.prune_by_entropy import Histories
    from chainrule.ngram.model_class import AnyNGram
    from chainrule.ngram.trie.table import Table
    from chainrule.text.corpus import Paths, Source


@shows_progress
def prune_by_entropy(
    model: Model,
    *,
    threshold: float | None = None,
    ngrams: int | None = None,
    histories: Literal["discounts", "chain"] | Source | Paths = "discounts",
    progress: ProgressOption = None,
) -> CausalModel:
    """Without the n-grams that change the model least (Stolcke 1998). Say either the threshold or the number.

    threshold: an n-gram goes where its loss alone would raise the perplexity by less than this share. ngrams: so many
    stay, of all orders together. histories: how contexts are weighed. discounts: by their counts in training, found
    again from what discounting took from them; right for Kneser-Ney and other discounts, where nothing has been pruned
    yet. chain: by the model's own probabilities, as Stolcke and SRILM do. Or a text, best the one that the model was
    trained on: by frequencies in it. Raises SettingError, TextError, ModelFormatError.
    """
    progress = callback(progress)
    model = _unpacked(model, progress)
    table = _table(model)
    if threshold is not None and ngrams is None:
        check_threshold(threshold)
    elif ngrams is not None and threshold is None:
        check_ngrams(ngrams, table)
    else:
        raise SettingError("give either a threshold or a number of n-grams")
    text = None if histories in ("discounts", "chain") else source_of(histories, model.document)
    found = score_ngrams(table, _weighed(model, text or histories, progress), progress)
    small = found.above(threshold, progress) if threshold is not None else found.best(ngrams or 0, progress)
    how = {"entropy": threshold} if threshold is not None else {"to_ngrams": ngrams}
    return _smaller(model, small, {**how, "histories": histories if text is None else text.record})


@shows_progress
def prune_to_vocabulary(model: Model, path: str | os.PathLike[str], progress: ProgressOption = None) -> CausalModel:
    """To the tokens of a file, one a line; all that the others had goes to <unk>.

    What the model does not know does not count. Raises TextError, SettingError, ModelFormatError.
    """
    progress = callback(progress)
    model = _unpacked(model, progress)
    table, tokenizer = _table(model), model.tokenizer
    if tokenizer.spells_everything:
        raise SettingError(
            f"the {tokenizer.name} tokenizer writes every text in its tokens; without some of them it could not, so a "
            "vocabulary cannot be pruned"
        )
    listed = listed_tokens(path, tokenizer.normaliser)
    wanted, tokens = set(listed), tokenizer.vocabulary.tokens()
    staying = np.array([place < len(MARKER_TOKENS) or token in wanted for place, token in enumerate(tokens)])
    left = [tokens[place] for place in np.flatnonzero(staying).tolist()]
    if len(left) == len(MARKER_TOKENS):
        raise SettingError(
            f"{os.fspath(path)}: none of its {len(listed):,} tokens is in the vocabulary of the model; expected one a "
            f"line as the {tokenizer.name} tokenizer writes them"
        )
    small, how = to_words(table, staying, progress), {"to_vocabulary": os.fspath(path)}
    if staying.all():
        return _smaller(model, small, how)
    vocabulary = Vocabulary(left[len(MARKER_TOKENS) :])
    gone = [tokens[place] for place in np.flatnonzero(~staying).tolist()]
    # <unk> has what all unknown words have together from now on, and they are best spelled as those that went.
    speller = Speller.train(gone[:: max(1, len(gone) // (2 * ENOUGH))], vocabulary, unseen_types=1, never=SEPARATORS)
    record = _record(model, small, how)
    return CausalModel("ngram", _of_kind(model, small), tokenizer.with_vocabulary(vocabulary), record, speller)


@shows_progress
def prune_to_text(model: Model, source: Source | Paths, progress: ProgressOption = None) -> CausalModel:
    """To the n-grams that a text can need: it gets the same scores as before.

    Other texts do not, and distributions no longer sum to one. Raises TextError, SettingError, ModelFormatError.
    """
    progress = callback(progress)
    model = _unpacked(model, progress)
    table, source = _table(model), source_of(source, model.document)
    small = to_text(table, _padded(model, encoded_stream(model.tokenizer, source, progress)))
    if small.order == 1 and table.order > 1:
        raise TextError(
            f"{', '.join(source.sources)}: no n-gram of two tokens or more that the model knows stands in it; is it "
            f"text for the {model.tokenizer.name} tokenizer?"
        )
    return _smaller(model, small, {"for_text": source.record})


def _unpacked(model: Model, progress: Progress) -> Model:
    """In the fast layout, which can be pruned."""
    return model.unpack(progress) if model.layout == COMPACT else model


def _table(model: Model) -> Table:
    if not isinstance(model.language_model, NGramModel | PaddedModel | HashedModel):
        raise SettingError(f"the model cannot be pruned: {why_no_table(model.family, model.engine)}")
    return model.language_model.table


def _weighed(model: Model, histories: Any, progress: Progress) -> Histories:
    if histories == "chain":
        return by_chain_rule
    if histories == "discounts":
        return by_discounts
    stream = _padded(model, encoded_stream(model.tokenizer, histories, progress))
    return lambda table, suffixes: by_frequency(table, stream)


def _of_kind(model: Model, table: Table) -> AnyNGram:
    """A table as a model that begins its documents as another does."""
    assert isinstance(model.language_model, NGramModel | PaddedModel | HashedModel)
    return model_from_settings(model.language_model.settings, table)


def _padded(model: Model, stream: Int32[ndarray, " tokens"]) -> Int32[ndarray, " tokens"]:
    """With as many <s> before each document as the model has seen there."""
    return padded(stream, getattr(model.language_model, "begins", 1) - 1)[0]


def _smaller(model: Model, table: Table, how: dict[str, Any]) -> CausalModel:
    return CausalModel("ngram", _of_kind(model, table), model.tokenizer, _record(model, table, how), model.speller)


def _record(model: Model, table: Table, how: dict[str, Any]) -> dict[str, Any]:
    before = {"ngrams_before": list(_table(model).level_sizes)}
    pruned = [*model.record.get("pruned", []), {**how, **before}]
    return {**model.record, "ngrams": list(table.level_sizes), "pruned": pruned}

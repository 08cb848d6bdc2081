"""Tokenizers for training and loading: learned from a text, or saved with a model; and how two of them differ."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import ModelFormatError, SettingError, opening_folder
from chainrule.kinds import openers
from chainrule.protocol import END
from chainrule.storage.config_json import TokenizerEntry
from chainrule.storage.model_folder import TOKENIZER, VOCABULARY_ARRAYS, base_of, open_model
from chainrule.text.tokenization.config import BUILT_IN, LEARNED, TokenizerConfig, as_config
from chainrule.text.tokenization.splitters import Normaliser, splitter_named
from chainrule.text.tokenization.tokenizer import Tokenizer, encode_stream
from chainrule.text.tokenization.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from numpy import ndarray

    from chainrule.text.corpus.corpus import Source
    from chainrule.text.tokenization.build import Tokenized
    from chainrule.text.tokenization.splitters import Splitter
    from chainrule.text.tokenization.vocabulary import Markers


def tokenizer_from(
    entry: TokenizerEntry, arrays: dict[str, ndarray], prefix: str, definition: bytes | None
) -> Tokenizer:
    """Return the tokenizer of a model folder.

    prefix: the one that the names of its arrays begin with. definition: its tokenizer.json. Raises KeyError if an array
    is missing; ModelFormatError, SettingError.
    """
    vocabulary = Vocabulary.from_arrays(*(arrays[prefix + name] for name in ("text", "offsets", "slots")))
    splitter: Splitter
    if definition is not None:
        from chainrule.text.tokenization.subword import Subword

        splitter = Subword(definition, TOKENIZER)
    elif entry.kind not in BUILT_IN:
        raise ModelFormatError(
            f"its {entry.kind} tokenizer needs a {TOKENIZER}, which is missing; the model is incomplete"
        )
    else:
        splitter = splitter_named(entry.kind)
    return Tokenizer(splitter, vocabulary, entry.markers, Normaliser(entry.normalise))


def tokenizer_entry(tokenizer: Tokenizer) -> TokenizerEntry:
    """Return what config.json says of a tokenizer; `tokenizer_from` opens it."""
    return TokenizerEntry(
        kind=tokenizer.name,
        markers=tokenizer.markers,
        normalise=tokenizer.normaliser.steps,
        unicode=unicodedata.unidata_version,
    )


def saved_tokenizer(config: TokenizerConfig) -> Tokenizer | None:
    """Open the tokenizer of a model, if the configuration names its folder, or a file of others that has one.

    Raises ModelFormatError, SettingError.
    """
    folder = Path(config.kind)
    if config.kind in (*BUILT_IN, *LEARNED) or not folder.exists():
        return None
    opener = next((own for own in openers() if own.tokenizer is not None and own.recognises.get()(folder)), None)
    if opener is None and not folder.is_dir():
        return None
    if config.normalise:
        raise SettingError(f"{folder}: its tokenizer has a normalisation of its own; leave normalise out")
    if opener is not None and opener.tokenizer is not None:
        own: Tokenizer = opener.tokenizer.get()(folder)
        return own
    entry, arrays, texts, mapped = open_model(folder)
    if isinstance(said := entry.settings.get("adapter"), dict):  # its base has the tokenizer
        return saved_tokenizer(TokenizerConfig(kind=str(base_of(folder, said.get("beside"), said.get("base")))))
    weights = {name: array.copy() for name, array in arrays.items() if name.startswith(VOCABULARY_ARRAYS)}
    mapped.check()
    with opening_folder(folder):
        return tokenizer_from(entry.tokenizer, weights, VOCABULARY_ARRAYS, texts.get(TOKENIZER))


def tokenize_source(
    source: Source,
    tokenizer: TokenizerConfig | str,
    markers: Markers = "error",
    progress: Progress = silent,
    expecting: Callable[[int], None] | None = None,
    file: BinaryIO | None = None,
) -> Tokenized:
    """Learn a tokenizer from a source, or open a saved one; return it with the source as one stream of ids.

    A saved tokenizer keeps its vocabulary. The words of the source that it does not know are returned for a speller to
    learn from. expecting, file: as in `encode_stream`.

    Raises TextError, EstimationError, SettingError, ModelFormatError.
    """
    from chainrule.text.tokenization.build import keep_tokens, limit_vocabulary, prepare_tokenizer

    config = as_config(tokenizer)
    saved = saved_tokenizer(config)
    learner = (saved or prepare_tokenizer(config, markers, source, progress)).with_markers(markers)
    if saved is None or not TokenizerConfig(kind=saved.name).learns_words:
        stream = encode_stream(learner, source, progress, grow=config.learns_words, expecting=expecting, file=file)
        return limit_vocabulary(learner, stream, config)
    known = saved.vocabulary.tokens()[END + 1 :]
    growing = learner.with_vocabulary(Vocabulary(known))  # which collects the words that are left out
    stream = encode_stream(growing, source, progress, grow=True, expecting=expecting, file=file)
    return keep_tokens(known, growing, stream)


def splitting_difference(one: Tokenizer, other: Tokenizer) -> str | None:
    """Return how two tokenizers differ in how they cut texts, in words, whatever their vocabularies; None if not."""
    if one.name != other.name or one.splitter.definition != other.splitter.definition:
        detail = f"{one.name} and {other.name}" if one.name != other.name else f"two {one.name} tokenizers"
        return f"they use {detail}; retrain one of them with the tokenizer of the other"
    if one.normaliser.steps != other.normaliser.steps:
        steps = [",".join(tokenizer.normaliser.steps) or "nothing" for tokenizer in (one, other)]
        return f"their texts are normalised by {steps[0]} and by {steps[1]}; retrain one of them"
    return None


def difference_of(one: Tokenizer, other: Tokenizer) -> str | None:
    """Return how two tokenizers differ, in words; None if they do not."""
    if difference := splitting_difference(one, other):
        return difference
    if any(not np.array_equal(a, other.vocabulary.arrays()[name]) for name, a in one.vocabulary.arrays().items()):
        ours, theirs = (set(tokenizer.vocabulary.tokens()) for tokenizer in (one, other))
        sizes = f"{len(ours):,} and {len(theirs):,} tokens, {len(ours & theirs):,} of them in both"
        advice = (
            "merge n-gram models into a static mixture (chainrule.merge, or mix --static), or retrain one with the "
            "tokenizer of the other, preferably the one whose vocabulary covers more of the texts to come: "
            "spelling out unknown words costs more than a mixture gains"
        )
        return (
            f"their vocabularies have {sizes}; {advice}"
            if ours != theirs
            else (f"their vocabularies give the same {len(ours):,} tokens other ids; {advice}")
        )
    return None

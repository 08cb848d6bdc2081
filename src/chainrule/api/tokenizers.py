"""Tokenizers for training and loading: learnt from a text, or taken from a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.base.progress import Progress, silent
from chainrule.errors import ModelFormatError, SettingError
from chainrule.open_models.importing import import_tokenizer
from chainrule.protocol import END
from chainrule.storage.hugging_face import is_hugging_face, open_folder
from chainrule.storage.model_folder import TOKENIZER, VOCABULARY_ARRAYS, open_model
from chainrule.text.normalising import Normaliser
from chainrule.text.prepare_tokenizer import Tokenized, keep_tokens, limit_vocabulary, prepare_tokenizer
from chainrule.text.splitters import splitter_named
from chainrule.text.tokenizer import Tokenizer, encoded_stream
from chainrule.text.tokenizer_config import BUILT_IN, LEARNT, TokenizerConfig, as_config
from chainrule.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from numpy import ndarray

    from chainrule.storage.config_json import TokenizerEntry
    from chainrule.text.corpus import Source
    from chainrule.text.splitters import Splitter
    from chainrule.text.vocabulary import Markers


def tokenizer_from(
    entry: TokenizerEntry, arrays: dict[str, ndarray], prefix: str, definition: bytes | None
) -> Tokenizer:
    """A tokenizer of a model folder. prefix: of the names of its arrays. definition: what its tokenizer.json holds.

    Raises KeyError where an array is missing, ModelFormatError, SettingError.
    """
    vocabulary = Vocabulary.from_arrays(*(arrays[prefix + name] for name in ("text", "offsets", "slots")))
    splitter: Splitter
    if definition is not None:
        from chainrule.text.subword import Subword

        splitter = Subword(definition, TOKENIZER)
    elif entry.kind not in BUILT_IN:
        raise ModelFormatError(f"its {entry.kind} tokenizer needs a {TOKENIZER}, but none is named")
    else:
        splitter = splitter_named(entry.kind)
    return Tokenizer(splitter, vocabulary, entry.markers, Normaliser(entry.normalise))


def saved_tokenizer(config: TokenizerConfig) -> Tokenizer | None:
    """That of the model folder that a configuration names, if it names one."""
    folder = Path(config.kind)
    if config.kind in (*BUILT_IN, *LEARNT) or not folder.is_dir():
        return None
    if config.normalise:
        raise SettingError(f"{folder}: its tokenizer has a normalisation of its own; leave normalise out")
    if is_hugging_face(folder):
        return import_tokenizer(open_folder(folder))
    entry, arrays, texts, mapped = open_model(folder)
    own = {name: array.copy() for name, array in arrays.items() if name.startswith(VOCABULARY_ARRAYS)}
    mapped.check()
    try:
        return tokenizer_from(entry.tokenizer, own, VOCABULARY_ARRAYS, texts.get(TOKENIZER))
    except KeyError as error:
        raise ModelFormatError(f"{folder}: the array {error} is missing; the model is incomplete") from error
    except (ModelFormatError, SettingError) as error:
        raise ModelFormatError(f"{folder}: {error}") from error


def tokenized(
    source: Source,
    tokenizer: TokenizerConfig | str,
    markers: Markers = "error",
    progress: Progress = silent,
    expecting: Callable[[int], None] | None = None,
    file: BinaryIO | None = None,
) -> Tokenized:
    """A tokenizer, learned from a source where it has to be, and the source as one stream of ids.

    One that a saved model has learns nothing more; which words of the source it does not know is what a speller is
    learned from, as in the training of that model.

    expecting, file: as `encoded_stream` has them.

    Raises TextError, EstimationError, SettingError, ModelFormatError.
    """
    config = as_config(tokenizer)
    saved = saved_tokenizer(config)
    learner = (saved or prepare_tokenizer(config, markers, source, progress)).with_markers(markers)
    if saved is None or not TokenizerConfig(kind=saved.name).learns_words:
        stream = encoded_stream(learner, source, progress, grow=config.learns_words, expecting=expecting, file=file)
        return limit_vocabulary(learner, stream, config)
    known = saved.vocabulary.tokens()[END + 1 :]
    growing = learner.with_vocabulary(Vocabulary(known))  # to find what is left out
    stream = encoded_stream(growing, source, progress, grow=True, expecting=expecting, file=file)
    return keep_tokens(known, growing, stream)

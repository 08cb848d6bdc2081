"""chainrule convert SOURCE TARGET: between model folders and ARPA files, and from KenLM's binaries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import CycloptsError, Parameter

from chainrule.cli.arguments import ModelPath, ModelTokenizerName, Normalise, Overwrite, steps_of
from chainrule.cli.models import check_model_target, opened, save_or_keep
from chainrule.cli.screen import note, progress
from chainrule.ngram.config import COMPACT


def convert(
    source: ModelPath,
    target: Annotated[
        Path,
        Parameter(
            help="A new model folder, or a file that ends in .arpa, .arpa.gz, .zst, .xz or .bz2; of word vectors, in "
            ".vec, .txt or .bin."
        ),
    ],
    /,
    *,
    tokenizer: ModelTokenizerName = None,
    normalise: Normalise = None,
    compact: Annotated[
        bool, Parameter(negative=(), help="Write a compact n-gram model: quantised, a fifth of the size.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Between model folders, fast and compact, and ARPA files; from KenLM's binaries; and word vectors.

    Such a file does not say how its text was cut into tokens. The marks of our
    own tokenizers are recognised; else it is taken to be cut at white space.
    A compact model becomes a fast one without --compact; its probabilities stay
    quantised.

    Word vectors go to and from folders, word2vec's text (.vec), GloVe's (.txt),
    and .bin: fastText's, where they have n-grams, else word2vec's binary.
    """
    from chainrule.api.convert import in_layout
    from chainrule.text.tokenizer_config import TokenizerConfig

    if normalise and tokenizer is None:
        raise CycloptsError(msg="--normalise needs --tokenizer, which says how the normalised text is cut.")
    if _are_vectors(source, target):
        if tokenizer is not None or compact:
            raise CycloptsError(msg="Word vectors take no --tokenizer, --normalise or --compact.")
        _convert_vectors(source, target, overwrite=overwrite)
        return
    check_model_target(target, overwrite=overwrite, compact=compact)
    with progress() as told:
        config = tokenizer and TokenizerConfig(kind=tokenizer, normalise=steps_of(normalise))
        model = opened(source, config, None, told)
        if model.layout == COMPACT and not compact:
            note(f"{source}: its probabilities were quantised when it was made compact, and stay so")
        save_or_keep(in_layout(model, compact=compact, progress=told), target, overwrite=overwrite, told=told)


def _are_vectors(source: Path, target: Path) -> bool:
    """Whether word vectors are to be converted: a folder of them, or a file that is none of a model."""
    from chainrule.api.word_vectors import is_vectors_folder, suffix_of
    from chainrule.ngram.kenlm.header import is_binary

    if source.is_dir():
        return is_vectors_folder(source)
    return suffix_of(source) is not None and not (source.is_file() and is_binary(source))


def _convert_vectors(source: Path, target: Path, *, overwrite: bool) -> None:
    from chainrule.api.convert import convert_vectors
    from chainrule.api.word_vectors import suffix_of
    from chainrule.cli.texts import check_text_target
    from chainrule.storage.model_folder import check_target

    if suffix_of(target) is None:
        check_target(target, overwrite=overwrite)
    else:
        check_text_target(target, None, overwrite=overwrite)
    with progress() as told:
        vectors = convert_vectors(source, target, overwrite=overwrite, progress=told)
    print(f"{target}: {len(vectors):,} words, {vectors.vectors.shape[1]:,} dimensions")

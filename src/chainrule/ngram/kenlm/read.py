"""Reads a binary of KenLM's build_binary: tries become n-gram tables, hash tables are queried as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.base.progress import Progress, silent
from chainrule.ngram.kenlm.header import PROBING, REST_PROBING, open_binary
from chainrule.ngram.kenlm.probing import read_probing
from chainrule.ngram.kenlm.trie import read_trie
from chainrule.ngram.models.ngram_model import NGramModel

if TYPE_CHECKING:
    import os

    from chainrule.ngram.kenlm.hashed_model import HashedModel
    from chainrule.text.tokenization.vocabulary import Vocabulary


def read_binary(
    path: str | os.PathLike[str], progress: Progress = silent
) -> tuple[NGramModel | HashedModel, Vocabulary]:
    """The model and the vocabulary of a binary. Raises ModelFormatError."""
    binary = open_binary(path)
    if binary.kind in (PROBING, REST_PROBING):
        return read_probing(binary)
    table, vocabulary = read_trie(binary, progress)
    return NGramModel(table), vocabulary

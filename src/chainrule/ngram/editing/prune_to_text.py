"""Keeps the n-grams that occur in a text, with their probabilities and backoffs unchanged.

That text gets the same scores as before. Other texts do not, and the distributions no longer sum to one: like KenLM's
`filter`, this is for scoring texts that are known in advance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.ngram.editing.history_weights import occurrences
from chainrule.ngram.editing.prune_by_entropy import select_ngrams
from chainrule.ngram.trie.suffixes import check_trie

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.ngram.trie.table import Table


def to_text(table: Table, stream: Int32[ndarray, " tokens"]) -> Table:
    """The table of all unigrams and of the n-grams that occur in a stream of documents.

    Raises SettingError where an id is outside the vocabulary, ModelFormatError where the table is damaged.
    """
    check_trie(table)
    kept = occurrences(table, stream, table.order) > 0
    kept[: table.level(1).stop] = True
    return select_ngrams(table, kept, table.log_backoffs)

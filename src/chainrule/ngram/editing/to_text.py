"""The n-grams that a text can need: those that stand in it, with the numbers that they had, back-off weights too.

So that text gets the same scores as before. Others do not, and the distributions no longer sum to one: as KenLM's
`filter`, this is for scoring what is known beforehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.ngram.editing.entropy import selected
from chainrule.ngram.editing.history_weights import occurrences
from chainrule.ngram.trie.suffixes import check_trie

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.ngram.trie.table import Table


def to_text(table: Table, stream: Int32[ndarray, " tokens"]) -> Table:
    """The table of all unigrams and of the n-grams that stand in a stream of documents.

    Raises SettingError where an id is no word's, ModelFormatError where the table is damaged.
    """
    check_trie(table)
    kept = occurrences(table, stream, table.order) > 0
    kept[: table.level(1).stop] = True
    return selected(table, kept, table.log_backoffs)

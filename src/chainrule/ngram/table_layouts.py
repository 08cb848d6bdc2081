"""The two layouts of an n-gram table, fast and compact, and the conversion between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import SettingError
from chainrule.ngram.compact.building import compact_table, unpack_table
from chainrule.ngram.config import COMPACT, FAST
from chainrule.ngram.kenlm.hashed_model import HashedModel
from chainrule.ngram.models.compact_model import CompactNGramModel
from chainrule.ngram.models.ngram_model import NGramModel
from chainrule.ngram.models.sharded_model import ShardedModel

if TYPE_CHECKING:
    from chainrule.base.progress import Progress


def layout_of(model: Any) -> str:
    return COMPACT if isinstance(model, CompactNGramModel) else FAST


def compact(model: Any, progress: Progress) -> CompactNGramModel:
    """The model in the compact layout, quantised unless it already is.

    Raises SettingError where the model is more than its table, ModelFormatError where the table is damaged,
    EstimationError where there is not enough memory.
    """
    model = plain_table_model(model, "has no compact form")
    return model if isinstance(model, CompactNGramModel) else CompactNGramModel(compact_table(model.table, progress))


def fast(model: Any, progress: Progress) -> NGramModel | HashedModel:
    """The model in the fast layout. Raises as `compact` does."""
    model = plain_table_model(model, "has no compact form")
    return NGramModel(unpack_table(model.compact, progress)) if isinstance(model, CompactNGramModel) else model


def plain_table_model(model: Any, problem: str) -> NGramModel | HashedModel | CompactNGramModel:
    """The model, if it consists of its table alone. Raises SettingError with the `problem` that any other one has."""
    if isinstance(model, ShardedModel):
        raise SettingError(f"a model in shards {problem}; take the model that was cut into shards")
    if not isinstance(model, NGramModel | HashedModel | CompactNGramModel):
        raise SettingError(
            f"a model of stupid backoff, or of documents that begin with several <s>, {problem}; save it as a folder"
        )
    return model

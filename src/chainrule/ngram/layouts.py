"""How an n-gram model's table lies in memory and on disk, fast or compact, and how one becomes the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chainrule.errors import SettingError
from chainrule.ngram.compact.building import compacted, unpacked
from chainrule.ngram.config import COMPACT, FAST
from chainrule.ngram.kenlm.hashed_model import HashedModel
from chainrule.ngram.models.compact_model import CompactNGramModel
from chainrule.ngram.models.ngram_model import NGramModel

if TYPE_CHECKING:
    from chainrule.base.progress import Progress


def layout_of(model: Any) -> str:
    return COMPACT if isinstance(model, CompactNGramModel) else FAST


def compact(model: Any, progress: Progress) -> CompactNGramModel:
    """Quantised, unless it was. Raises SettingError where the model is more than a table, ModelFormatError where it is
    damaged, EstimationError where there is not enough memory.
    """
    model = of_a_table(model, "has no compact form")
    return model if isinstance(model, CompactNGramModel) else CompactNGramModel(compacted(model.table, progress))


def fast(model: Any, progress: Progress) -> NGramModel | HashedModel:
    """Raises as `compact` does."""
    model = of_a_table(model, "has no compact form")
    return NGramModel(unpacked(model.compact, progress)) if isinstance(model, CompactNGramModel) else model


def of_a_table(model: Any, otherwise: str) -> NGramModel | HashedModel | CompactNGramModel:
    """The model, if its table is all that there is to it. Raises SettingError, which says what is `otherwise`."""
    if not isinstance(model, NGramModel | HashedModel | CompactNGramModel):
        raise SettingError(
            f"a model of stupid backoff, or of documents that begin with several <s>, {otherwise}; save it as a folder"
        )
    return model

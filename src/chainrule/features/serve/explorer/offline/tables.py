"""N-gram tables and spellers as arrays for a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import SettingError
from chainrule.features.serve.explorer.offline.arrays import store_log_probs, whole_numbers
from chainrule.ngram.layouts import base_of
from chainrule.ngram.models.padded_model import PaddedModel
from chainrule.ngram.models.stupid_backoff import StupidBackoff
from chainrule.ngram.models.table_models import CompactNGramModel, NGramModel
from chainrule.ngram.speller import Speller
from chainrule.ngram.trie.table import Table, level_slice

if TYPE_CHECKING:
    from numpy import ndarray

    from chainrule.models.language_models import CausalModel

    Arrays = dict[str, ndarray]
    Json = dict[str, Any]


def is_table(engine: object) -> bool:
    """Return whether a page can hold a model as an n-gram table."""
    return isinstance(engine, NGramModel | CompactNGramModel | PaddedModel | StupidBackoff)


def table_model(model: CausalModel, arrays: Arrays) -> Json:
    """Add an n-gram model to the arrays, and return what the page needs to read it. Raises SettingError."""
    engine, base = model.engine, base_of(model.engine)
    if not isinstance(base, NGramModel | CompactNGramModel):
        raise SettingError("the model is in shards, which a page cannot hold; train it again without shards")
    return {
        "kind": "ngram",
        **store_table(base.table, arrays, ""),
        "begins": engine.begins,
        "backoff_weight": engine.weight if isinstance(engine, StupidBackoff) else None,
        "smoothing": model.record.get("settings", {}).get("smoothing"),
        "discounts": {str(entry["order"]): entry["values"] for entry in model.record.get("discounts", [])},
    }


def store_table(table: Table, arrays: Arrays, prefix: str) -> Json:
    """Add a table to the arrays, whose names begin with a prefix, a level at a time."""
    begin = np.asarray(table.begin).astype(np.int64)
    arrays[f"{prefix}children"] = whole_numbers(np.diff(begin))
    forms: Json = {"log_probs": [], "log_backoffs": []}
    # The columns of a record are not contiguous.
    words, log_probs = np.array(table.words), np.array(table.log_probs)
    backoffs = np.array(table.log_backoffs)
    arrays[f"{prefix}words"] = whole_numbers(words[1 + table.vocabulary_size :])
    for order in range(1, table.order + 1):
        level = level_slice(table.level_sizes, order)
        forms["log_probs"].append(store_log_probs(arrays, f"{prefix}log_probs_{order}", log_probs[level]))
        if order < table.order:
            form = store_log_probs(arrays, f"{prefix}log_backoffs_{order}", backoffs[level])
            forms["log_backoffs"].append(form)
    return {"order": table.order, "level_sizes": [int(size) for size in table.level_sizes], "forms": forms}


def speller_of(model: CausalModel, arrays: Arrays) -> Json:
    """Add the speller to the arrays, unless no token is ever unknown, and return what the page needs of it.

    Raises SettingError.
    """
    if model.tokenizer.spells_everything:
        return {"unseen_types": int(model.speller.unseen_types)}
    speller = model.speller
    if not isinstance(speller, Speller):
        raise SettingError("the model spells unknown words with several models, which a page cannot hold")
    parts = speller.arrays()
    arrays["speller.characters"] = parts["characters"]
    return {
        "unseen_types": int(speller.unseen_types),
        "log_open": float(parts["log_open"][0]),
        "never": parts["never"].tolist(),
        "literal_share": speller.literal_share,
        **store_table(Table.from_arrays(parts["level_sizes"].tolist(), parts), arrays, "speller."),
    }

"""A small model for tests of decoding."""

from __future__ import annotations

import pytest
from oracles import random_backoff_grams, table_of

from chainrule.ngram.models.table_models import NGramModel


@pytest.fixture(scope="module")
def trigram() -> NGramModel:
    return NGramModel(table_of(random_backoff_grams(8, 30, 3), 3))

"""The family of classifiers. No network is loaded before a function here is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.models.families.family import Family

if TYPE_CHECKING:
    from chainrule.features.classify.network.build import Classifier
    from chainrule.models.families.family import Arrays, Json


def _take_apart(model: Classifier) -> tuple[Json, Arrays]:
    from chainrule.features.classify.network.build import to_state

    return to_state(model)


def _put_together(settings: Json, arrays: Arrays, vocabulary_size: int) -> Classifier:
    from chainrule.features.classify.network.build import from_state

    return from_state(settings, arrays, vocabulary_size)


CLASSIFIER = Family(token_bytes=4, to_state=_take_apart, from_state=_put_together, job="classify")

"""The table of model families."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.models.families.family import name_of_family
from chainrule.models.families.mixtures import CACHE, UNIFORM, mixture_family
from chainrule.models.families.networks import (
    CAPTION,
    CONDITIONAL,
    LANGUAGE_MODELS,
    MASKED,
    SPEECH,
    TEXT_ENCODER,
    TREE,
    classifier_family,
)
from chainrule.models.families.ngram import NGRAM

if TYPE_CHECKING:
    from chainrule.models.families.family import Family

FAMILIES: dict[str, Family] = {}
FAMILIES |= {
    "uniform": UNIFORM,
    "cache": CACHE,
    "mixture": mixture_family(FAMILIES),
    "ngram": NGRAM,
    "conditional": CONDITIONAL,
    "caption": CAPTION,
    "speech": SPEECH,
    **LANGUAGE_MODELS,
    **MASKED,
    "tree": TREE,
    "text-encoder": TEXT_ENCODER,
    "classifier": classifier_family(FAMILIES),
}


def why_no_table(family: str, engine: object) -> str:
    """Why a model does not consist of an n-gram table alone, in words."""
    return FAMILIES[family].why_no_table(engine) or f"it is of family {family!r}, which has no n-grams"


def family_of(config: object) -> str:
    """The name of the family of a configuration. Raises TypeError if it is not a configuration of any."""
    return name_of_family(config, FAMILIES)

"""How the shell trains a model of any family on text: what a plug-in's `train NAME` runs."""

from __future__ import annotations

from inspect import getdoc
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from chainrule.cli.shared.options import (
    NO_FLAGS,
    Json,
    MarkerRule,
    Output,
    Overwrite,
    TextFiles,
    TokenizerFlags,
    flags_of,
    given_settings,
)
from chainrule.cli.shared.texts import DEFAULT_READING, NO_MIX, MixOptions, TextOptions
from chainrule.cli.train.networks import network_verb
from chainrule.cli.train.ngram import train_from_counts
from chainrule.kinds import CAUSAL_NETWORK, kinds
from chainrule.models.families.table import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from chainrule.kinds import Verb


def train_on_text(verb: Verb) -> Callable[..., None]:
    """Return the function of a verb that trains models on text; its flags are the settings of the verb's config."""
    assert verb.config is not None  # as `Verb` asks for
    config = verb.config.get()
    kind = next(kind for kind in kinds().values() if verb.config in kind.configs)
    if FAMILIES[kind.family].trains_in_steps:
        return network_verb(verb.name.removeprefix("train "), config, is_causal=kind.model == CAUSAL_NETWORK)

    def train(
        *texts: Annotated[TextFiles, Parameter(required=False)],
        output: Output,
        settings: Any = NO_FLAGS,
        tokenizer: TokenizerFlags = NO_FLAGS,
        markers: MarkerRule = "error",
        reading: TextOptions = DEFAULT_READING,
        mixing: MixOptions = NO_MIX,
        overwrite: Overwrite = False,
        json: Json = False,
    ) -> None:
        source = mixing.source(texts, reading)
        own = config(**given_settings(settings))
        train_from_counts(source, own, output, tokenizer, markers, overwrite=overwrite, json=json, ngrams=False)

    train.__annotations__["settings"] = flags_of(config)
    train.__doc__ = getdoc(config)
    return train

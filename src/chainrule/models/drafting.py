"""Drafting: what guesses the next tokens of a network's texts, and how many guesses were right."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from chainrule.decoding.drafters import Drafter, ModelDrafter, NGramLookup, PromptLookup, SurestDrafter
from chainrule.decoding.drafting import DraftCounts, DraftedModel, DraftLength
from chainrule.errors import SettingError
from chainrule.models.model import Model

if TYPE_CHECKING:
    from chainrule.models.model_info import ModelParts

NAMED_DRAFTERS: dict[str, type[PromptLookup] | type[NGramLookup]] = {"prompt": PromptLookup, "ngram": NGramLookup}


class Drafting:
    """What guesses the next tokens, and counts of the guesses, over all texts that were drafted with it.

    good:  drafting = chainrule.Drafting("prompt")
           model.generate(prompt, draft=drafting)
           print(drafting.accepted, "of", drafting.drafted)
    """

    def __init__(self, source: Model | str = "prompt", *, name: str | None = None) -> None:
        """Store the model or the name.

        source: `prompt`, what came after the longest earlier match in the text so far; `ngram`, counts of its n-grams;
        or a model of the same tokens, such as an n-gram model, beside those counts. name: of the model, for errors.
        Raises SettingError, WrongModelError.
        """
        self._model: Model | None = None
        if isinstance(source, Model):
            source.require_engine("continue")
            self._model = source
        elif source not in NAMED_DRAFTERS:
            raise SettingError(f"draft is {source!r}; expected {', '.join(NAMED_DRAFTERS)} or a model")
        self.name = name or (source if isinstance(source, str) else f"a model, {source.family}")
        self.counts = DraftCounts()
        self._drafted: dict[int, tuple[Any, DraftedModel]] = {}  # by the address of the model, which is kept

    @property
    def drafted(self) -> int:
        """How many tokens were guessed and read."""
        return self.counts.drafted

    @property
    def accepted(self) -> int:
        """How many of them the texts have."""
        return self.counts.accepted

    @property
    def passes(self) -> int:
        """How many passes the texts took, over one token or more."""
        return self.counts.passes

    def __repr__(self) -> str:
        return f"<Drafting by {self.name}: {self.accepted:,} of {self.drafted:,} tokens accepted>"

    def drafted_model(self, parts: ModelParts) -> DraftedModel:
        """Return the model of some parts, drafted.

        Raises SettingError if it cannot be, or the drafter has other tokens.
        """
        engine = parts.engine
        if id(engine) not in self._drafted:
            if why := why_not_drafted(parts):
                raise SettingError(why)
            drafted = DraftedModel(engine, self._drafter(parts), DraftLength(time.thread_time), self.counts)
            self._drafted[id(engine)] = engine, drafted
        return self._drafted[id(engine)][1]

    def _drafter(self, parts: ModelParts) -> Drafter:
        if self._model is None:
            return NAMED_DRAFTERS[self.name]()
        own, others = self._model.tokenizer.vocabulary, parts.tokenizer.vocabulary
        if own is not others and own.tokens() != others.tokens():
            raise SettingError(
                f"the draft model, {self.name}, has other tokens than the model, {len(own):,} and "
                f"{len(others):,}; train it with the model's own: train ngram TEXT --tokenizer MODEL"
            )
        return SurestDrafter(ModelDrafter(self._model.language_model), NGramLookup())


def why_not_drafted(parts: ModelParts) -> str | None:
    """Return why a model cannot be drafted, in words; None if it can."""
    if getattr(parts.engine, "reads_ahead", False):
        return None
    return (
        f"this model, {parts.family}, cannot be drafted: only Transformers with attention in each block, "
        "on the processor, read several tokens in a pass without choosing others; leave draft out"
    )


def as_drafting(draft: Drafting | Model | str) -> Drafting:
    """Return the drafting itself, or one of that name. Raises as `Drafting`."""
    return draft if isinstance(draft, Drafting) else Drafting(draft)

"""A model with its tokenizer, as what answers prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.applications.prompting.choices import ChoiceScores, choice_log_probs, filled_log_probs
from chainrule.decoding.config import GREEDY
from chainrule.decoding.limits import Limits, possible_stops
from chainrule.decoding.text_generator import TextDecoder
from chainrule.families.table import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.api.models.model_contents import ModelParts
    from chainrule.base.progress import Progress

_WRITTEN_TOGETHER = 64  # prompts


class ModelAnswerer:
    """A model as an `Answerer`."""

    def __init__(self, parts: ModelParts) -> None:
        """parts: those of a model that continues texts or fills gaps in them."""
        family = FAMILIES[parts.family]
        self.engine, self.tokenizer, self.speller = parts.engine, parts.tokenizer, parts.speller
        self.fills = family.job == "fill"
        self._reads_prompts = family.embeds and not self.fills  # networks that continue texts are PromptReaders
        self.context: int | None = family.context(parts.engine)

    def length(self, text: str) -> int:
        """As `Answerer.length`."""
        return len(self.tokenizer.encode_texts([text]).ids) - 1

    def score(self, prompts: Sequence[str], choices: Sequence[str], separator: str, progress: Progress) -> ChoiceScores:
        """As `Answerer.score`."""
        if self.fills:
            return filled_log_probs(self.engine, self.speller, self.tokenizer, prompts, choices, progress)
        return choice_log_probs(
            self.engine,
            self.speller,
            self.tokenizer,
            prompts,
            choices,
            progress,
            separator=separator,
            reads_prompts=self._reads_prompts,
            context=self.context,
        )

    def write(self, prompts: Sequence[str], max_tokens: int, stop: Sequence[str], progress: Progress) -> list[str]:
        """As `Answerer.write`."""
        decoder = TextDecoder(self.engine, self.tokenizer, lambda: self.speller)
        limits = Limits(max_tokens=max_tokens, stop=possible_stops(stop, self.tokenizer))
        written = []
        for first in range(0, len(prompts), _WRITTEN_TOGETHER):
            progress("writing", first, len(prompts))
            some = prompts[first : first + _WRITTEN_TOGETHER]
            texts = decoder.sample_each(some, 1, GREEDY, limits, seed=0)
            written += [text.continuation for text in texts]
        return written

"""How CTC's outputs are decoded. Imports nothing heavy, so that help is shown at once."""

from __future__ import annotations

from dataclasses import dataclass

from chainrule.base.options import Options, option


@dataclass(frozen=True, kw_only=True)
class CtcConfig(Options):
    """How beams are searched and ranked; names and defaults are those of pyctcdecode.

    A beam's score is log P of its labels, plus alpha x ln P of its words, plus beta for each word.
    """

    alpha: float = option(0.5, "the weight of the language model")
    beta: float = option(1.5, "what each word adds to the score")
    beam: int = option(100, "how many hypotheses to keep; of Whisper, by default 5", least=1, most=100_000)
    beam_prune_logp: float = option(
        -10.0, "drop beams whose score is this far below the best", least=-1e9, most=0, hyphens=True
    )
    token_min_logp: float = option(
        -5.0, "ignore labels with a lower log-probability, except the best of a frame", least=-1e9, most=0, hyphens=True
    )
    unk_score_offset: float = option(
        -10.0, "what a word that is not in the vocabulary adds to its log10 P", least=-1e9, most=1e9, hyphens=True
    )
    hotword_weight: float = option(10.0, "what each hotword adds to the score", least=-1e9, most=1e9, hyphens=True)


DEFAULTS = CtcConfig()
AVERAGE_WORD = 6  # characters; an unknown word that is longer costs more while it is being spelled
LEAST_PROB = 1e-15  # probabilities below count as this

"""Models that score texts, and choose among them: those that continue texts, and those that fill gaps."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from chainrule.api.models.answerer import ModelAnswerer
from chainrule.api.models.minimal_pairs import judge_pairs
from chainrule.api.models.model import Model
from chainrule.api.models.predict import score_texts, unknown_words
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.applications.continuations import score_continuations
from chainrule.applications.prompting.choices import Choice, check_choices, log_shares
from chainrule.base.arguments import as_texts
from chainrule.evaluation.token_scores import SentenceScores, score_sentences
from chainrule.text.corpus.records import raise_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.evaluation.minimal_pairs import GroupAccuracy
    from chainrule.evaluation.pseudo_likelihood import Pseudo
    from chainrule.protocol import Scorer
    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Paths


class ScoringModel(Model):
    """A model that gives texts probabilities or, if it sees both sides, pseudo-log-likelihoods."""

    wanted: ClassVar[str] = "continues texts or fills gaps in texts"

    def score(self, texts: Iterable[str], *, given: str | Iterable[str] | None = None) -> Float64[ndarray, " texts"]:
        """log P of each text with its </s>, in nats; an unknown word counts as <unk>, without its spelling.

        given: a prompt that comes before each text, or one for all: log P(text | prompt). The two are joined as they
        are, so that a text after a word begins with its space. Of a network that sees both sides,
        pseudo-log-likelihoods. Raises MarkerError; SettingError if there are not as many prompts as texts.

        good:  model.score([" great", " terrible"], given="Overall, the movie was")
        """
        texts = as_texts(texts)
        if given is not None:
            prompts = [given] * len(texts) if isinstance(given, str) else as_texts(given)
            return score_continuations(self.scorer, self.tokenizer, prompts, texts)
        return score_texts(self.scorer, self.tokenizer, texts)

    @shows_progress
    def choose(
        self, prompt: str, choices: Iterable[str], *, separator: str = " ", progress: ProgressOption = None
    ) -> dict[str, float]:
        """How likely the model finds each choice after a prompt, relative to the others: probabilities that sum to one.

        The prompt is read once. separator: what comes between, unless there is white space. A network that sees both
        sides needs a [MASK] in the prompt. Raises SettingError, MarkerError.

        good:  model.choose("Overall, the movie was", ["great", "terrible"])
        """
        choices = as_texts(choices)
        [row] = self.choice_log_probs([prompt], choices, separator=separator, progress=progress)
        return dict(zip(choices, np.exp(log_shares(row[None])[0]).tolist(), strict=True))

    @shows_progress
    def choice_log_probs(
        self,
        prompts: Iterable[str],
        choices: Iterable[str],
        *,
        separator: str = " ",
        progress: ProgressOption = None,
    ) -> Float64[ndarray, "prompts choices"]:
        """log P of each choice after each prompt, in nats, unknown words with their spelling; as `choose`.

        Raises SettingError, MarkerError.
        """
        prompts, choices = as_texts(prompts), as_texts(choices)
        check_choices([Choice(choice, choice) for choice in choices])
        return self.answerer.score(prompts, choices, separator, callback(progress)).log_probs

    def sentence_scores(self, block: Block) -> SentenceScores:
        """As `score`, for the documents of a block, with their numbers of tokens. Raises MarkerError."""
        return score_sentences(self.scorer, self.tokenizer.encode_block(block).ids)

    @shows_progress
    def judge_pairs(
        self,
        files: Paths,
        progress: ProgressOption = None,
        *,
        ends: bool = True,
        pseudo: Pseudo | None = None,
        strict: bool = False,
        warn: Callable[[str], None] = warnings.warn,
    ) -> list[GroupAccuracy]:
        """Judges minimal pairs, BLiMP's JSON lines: how often the good sentence is likelier, by set, field and in all.

        ends: whether </s> is predicted and counted; never of a network that sees both sides.
        pseudo: how such a network scores, see `pseudo_log_likelihoods`. warn: gets file and line of each pair
        that cannot be judged, which is left out, and of each whose sentences are equal, which is a tie; strict: these
        are errors.
        Raises TextError, SettingError.
        """
        progress = callback(progress)
        return judge_pairs(
            self.parts,
            files,
            ends=ends,
            fills=self.sees_both_sides,
            pseudo=pseudo,
            on_bad=raise_error if strict else lambda error: warn(str(error)),
            progress=progress,
        )

    def unknown_words(self, text: str) -> list[str]:
        """The tokens of a text that the vocabulary lacks, each once, as they are written. Raises MarkerError."""
        return unknown_words(self.tokenizer, text)

    @property
    def scorer(self) -> Scorer:
        """The engine as a Scorer, perhaps of pseudo-log-likelihoods. Raises ModelFormatError as `engine`."""
        return cast("Scorer", self.engine)

    @property
    def answerer(self) -> ModelAnswerer:
        """The model as what answers prompts."""
        return ModelAnswerer(self.parts)

"""ScoringModel: scores texts, predicts next tokens, fills masks, judges minimal pairs (BLiMP), and answers prompts.

The base of causal and masked models.
"""

from __future__ import annotations

import math
import os
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from chainrule.base.arguments import as_texts
from chainrule.base.options import takes
from chainrule.base.threads import map_in_order
from chainrule.decoding.config import GREEDY, Limits
from chainrule.errors import SettingError
from chainrule.kinds import rows
from chainrule.models.config import ContextOptions, DynamicOptions
from chainrule.models.families.table import FAMILIES
from chainrule.models.model import Model
from chainrule.models.progress_line import ProgressOption, callback, shows_progress
from chainrule.protocol import UNKNOWN
from chainrule.text.corpus.bad_records import collecting
from chainrule.text.corpus.reading import UTF_8

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtyping import Float32, Float64, Int32
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.evaluation.choices import ChoiceScores
    from chainrule.evaluation.pseudo_likelihood import Pseudo
    from chainrule.evaluation.token_scores import SentenceScores
    from chainrule.models.model_info import ModelParts
    from chainrule.protocol import Scorer
    from chainrule.text.corpus.bad_records import BadRecords
    from chainrule.text.corpus.block import Block
    from chainrule.text.corpus.corpus import Paths
    from chainrule.text.corpus.reading import BadRule

_WRITTEN_TOGETHER = 64  # prompts


class ModelAnswerer:
    """A model as an `Answerer`."""

    def __init__(self, parts: ModelParts) -> None:
        """Store the parts. parts: those of a model that continues texts or fills gaps in them."""
        family = FAMILIES[parts.family]
        self.engine, self.tokenizer, self.speller = parts.engine, parts.tokenizer, parts.speller
        self.fills = family.job == "fill"
        self._reads_prompts = family.embeds and not self.fills  # networks that continue texts are PromptReaders
        self.context: int | None = family.context(parts.engine)

    def length(self, text: str) -> int:
        """Implement `Answerer.length`."""
        return len(self.tokenizer.encode_texts([text]).ids) - 1

    def score(self, prompts: Sequence[str], choices: Sequence[str], separator: str, progress: Progress) -> ChoiceScores:
        """Implement `Answerer.score`."""
        from chainrule.evaluation.choices import choice_log_probs, filled_log_probs

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
        """Implement `Answerer.write`."""
        from chainrule.decoding.limits import possible_stops
        from chainrule.decoding.text_generator import TextDecoder

        decoder = TextDecoder(self.engine, self.tokenizer, lambda: self.speller)
        limits = Limits(max_tokens=max_tokens, stop=possible_stops(stop, self.tokenizer))
        written = []
        for first in range(0, len(prompts), _WRITTEN_TOGETHER):
            progress("writing", first, len(prompts))
            some = prompts[first : first + _WRITTEN_TOGETHER]
            texts = decoder.sample_each(some, 1, GREEDY, limits, seed=0)
            written += [text.continuation for text in texts]
        return written


_BATCH = 1 << 10  # texts, for one thread


class ScoringModel(Model):
    """A model that gives texts probabilities or, if it is bidirectional, pseudo-log-likelihoods."""

    capability: ClassVar[str] = "continues texts or fills gaps in texts"

    def score(
        self, texts: Iterable[str], *, given: str | Iterable[str] | None = None, running: bool = False
    ) -> Float64[ndarray, " texts"]:
        """Return log P of each text with its </s>, in nats; an unknown word counts as <unk>, without its spelling.

        given: a prompt that comes before each text, or one for all: log P(text | prompt). The two are joined unchanged,
        so that a text after a word begins with its space. running: whether the texts are one running text, of which a
        network trained with memory="stream" reads the earlier ones as context; by default, each text is scored by
        itself. A bidirectional network gives pseudo-log-likelihoods. Raises MarkerError; SettingError if there are not
        as many prompts as texts, or both options are given.

        good:  model.score([" great", " terrible"], given="Overall, the movie was")
        """
        from chainrule.evaluation.continuations import score_continuations
        from chainrule.evaluation.token_scores import score_sentences

        texts = as_texts(texts)
        if given is not None and running:
            raise SettingError("a prompt begins each text anew; give either given or running=True")
        if given is not None:
            prompts = [given] * len(texts) if isinstance(given, str) else as_texts(given)
            return score_continuations(self.scorer, self.tokenizer, prompts, texts)
        size = max(len(texts), 1) if running else _BATCH
        batches = (texts[first : first + size] for first in range(0, len(texts), size))
        scores = map_in_order(
            lambda batch: score_sentences(self.scorer, self.tokenizer.encode_texts(batch).ids, running=running), batches
        )
        return np.concatenate([np.empty(0), *(batch.log_probs for batch in scores)])

    @takes(ContextOptions)
    def limited(self, options: ContextOptions) -> Self:
        """Return the same network, which sees less of a text before each word or token: for scores and surprisal alone.

        Raises SettingError if the model is no network that continues texts, or sees less than that anyway.

        good:  chainrule.surprisal("items.csv", {f"{k} words": model.limited(context_words=k) for k in (1, 2, 4)})
        """
        return cast("Self", rows("context")["limit"].get()(self, options))

    @takes(DynamicOptions)
    def dynamic(self, options: DynamicOptions) -> ScoringModel:
        """Return a model that learns from a text as this network reads it (dynamic evaluation, Krause et al. 2018).

        Every probability depends on earlier tokens alone. This network does not change. Raises SettingError if the
        model is no network that continues texts.

        good:  chainrule.mix([model.dynamic(), ngram], chainrule.MixtureConfig(adaptive=True), heldout="valid.txt")
        """
        return cast("ScoringModel", rows("context")["dynamic"].get()(self, options))

    @shows_progress
    def choose(
        self, prompt: str, choices: Iterable[str], *, separator: str = " ", progress: ProgressOption = None
    ) -> dict[str, float]:
        """Return how likely the model finds each choice after a prompt, relative to the others: probabilities that sum
        to one.

        The prompt is read once. separator: the text between prompt and choice, unless there is white space already. A
        bidirectional network needs a [MASK] in the prompt. Raises SettingError, MarkerError.

        good:  model.choose("Overall, the movie was", ["great", "terrible"])
        """
        from chainrule.evaluation.choices import log_shares

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
        """Return log P of each choice after each prompt, in nats, unknown words with their spelling; as `choose`.

        Raises SettingError, MarkerError.
        """
        from chainrule.evaluation.choices import Choice, check_choices

        prompts, choices = as_texts(prompts), as_texts(choices)
        check_choices([Choice(choice, choice) for choice in choices])
        return self.answerer.score(prompts, choices, separator, callback(progress)).log_probs

    def sentence_scores(self, block: Block, *, running: bool = False) -> SentenceScores:
        """Return the scores of `score`, for the documents of a block, with their numbers of tokens. Raises
        MarkerError.
        """
        from chainrule.evaluation.token_scores import score_sentences

        return score_sentences(self.scorer, self.tokenizer.encode_block(block).ids, running=running)

    @shows_progress
    def judge_pairs(
        self,
        files: Paths,
        progress: ProgressOption = None,
        *,
        ends: bool = True,
        pseudo: Pseudo | None = None,
        fields: tuple[str, str] | None = None,
        encoding: str = UTF_8,
        bad_records: BadRule | BadRecords = "skip",
        warn: Callable[[str], None] = warnings.warn,
    ) -> Any:
        """Judges minimal pairs: how often the good sentence is likelier, by set, field and in all, over which the
        result iterates; and pair by pair, its rows (`to_records`).

        files: BLiMP's JSON lines, CSV, TSV or Parquet, or folders of them. fields: the names of the good and the bad
        sentence there; a table of two columns needs none. ends: whether </s> is predicted and counted; it never is by a
        bidirectional network. pseudo: how such a network scores, see `pseudo_log_likelihoods`. bad_records: whether a
        pair that cannot be read stops the reading, or is left out; or what collects such pairs. warn: a callback that
        gets what is wrong with these. Raises TextError, SettingError.

        good:  model.judge_pairs("pairs.tsv").to_records()
        """
        names = [os.fspath(name) for name in ([files] if isinstance(files, str | os.PathLike) else files)]
        with collecting(bad_records, warn) as bad:
            judge = rows("judging")["pairs"].get()
            return judge(self, names, callback(progress), ends, pseudo, fields, encoding, bad)

    def unknown_words(self, text: str) -> list[str]:
        """Return the tokens of a text that the vocabulary lacks, each once, as they are written. Raises MarkerError."""
        encoded = self.tokenizer.encode_texts([text])
        positions = np.flatnonzero(encoded.ids == UNKNOWN).tolist()
        return list(dict.fromkeys(encoded.surface(i).decode("utf-8", "replace") for i in positions))

    def _named_probs(
        self, tokens: Int32[ndarray, " tokens"], log_probs: Float32[ndarray, " tokens"]
    ) -> list[tuple[str, float]]:
        """Return the tokens as text with their probabilities, without those of probability zero."""
        probs = zip(tokens.tolist(), map(math.exp, log_probs.tolist()), strict=True)
        return [(self.tokenizer.vocabulary.token(token), prob) for token, prob in probs if prob > 0]

    @property
    def scorer(self) -> Scorer:
        """The engine as a Scorer; that of a bidirectional network gives pseudo-log-likelihoods.

        Raises ModelFormatError as `engine`.
        """
        return cast("Scorer", self.engine)

    @property
    def answerer(self) -> ModelAnswerer:
        """The model as an `Answerer` of prompts."""
        return ModelAnswerer(self.parts)

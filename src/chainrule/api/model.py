"""What users hold: a model with its tokenizer, its speller, and the record of its training.

model = chainrule.train("corpus.txt", chainrule.NGramConfig(order=5))
model.score(["a sentence", "another one"])
model.save("lm/")
chainrule.load("lm/").perplexity("heldout.txt")
"""

from __future__ import annotations

import secrets
import warnings
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.api.answerer import ModelAnswerer
from chainrule.api.embed import embed_blocks, embed_texts, embed_vocabulary, embed_whole_texts
from chainrule.api.judge import judge_pairs
from chainrule.api.model_info import info_of_model, size_of
from chainrule.api.model_parts import ModelParts
from chainrule.api.predict import fill_masks, next_tokens, score_texts, unknown_words
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.api.save import save_arpa, save_folder
from chainrule.applications.completion import Completer, Completion
from chainrule.applications.continuation_scores import score_continuations
from chainrule.applications.embedding_config import EmbeddingConfig, Pooling, VectorPrecision
from chainrule.applications.prompting.choices import Choice, check_choices, log_shares
from chainrule.base.arguments import as_texts
from chainrule.decoding.text_decoder import Text, TextDecoder
from chainrule.errors import SettingError
from chainrule.evaluation.likelihood import measure
from chainrule.evaluation.sentence_scores import SentenceScores, score_sentences
from chainrule.families import FAMILIES, Compaction, Job
from chainrule.ngram.arpa.lines import ARPA_SUFFIXES
from chainrule.text.corpus import source_of
from chainrule.text.masks import MASK
from chainrule.text.reading import document_in
from chainrule.text.records import raise_error

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from jaxtyping import Float32, Float64, Int64
    from numpy import ndarray

    from chainrule.applications.embedding import Embedded
    from chainrule.applications.labelling import Predicted
    from chainrule.decoding.beam import BeamConfig
    from chainrule.decoding.limits import Limits
    from chainrule.decoding.sampling import SamplingConfig
    from chainrule.evaluation.acceptability import GroupAccuracy
    from chainrule.evaluation.classification import Classification
    from chainrule.evaluation.measurement import Measurement
    from chainrule.evaluation.pseudo_likelihood import Pseudo
    from chainrule.evaluation.ratings import RatingMeasurement
    from chainrule.neural.classifier import Classifier
    from chainrule.neural.two_sided_model import TwoSidedModel
    from chainrule.ngram.spelling.mixed_speller import MixedSpeller
    from chainrule.ngram.spelling.speller import Speller
    from chainrule.protocol import Embedder, LanguageModel, Scorer
    from chainrule.storage.safetensors import MappedFile
    from chainrule.text.block import Block
    from chainrule.text.corpus import Paths, Source
    from chainrule.text.reading import Document
    from chainrule.text.tokenizer import Tokenizer
    from chainrule.text.vocabulary import Markers

_DOES: dict[Job, str] = {
    "continue": "continues texts",
    "fill": "fills gaps in texts",
    "embed": "gives vectors of texts and predicts no tokens",
    "classify": "labels texts",
}


class Model:
    """A model of text, usually a language model. `record` holds its data, settings, versions and times."""

    def __init__(
        self,
        family: str,
        engine: Any,
        tokenizer: Tokenizer,
        record: dict[str, Any] | None = None,
        speller: Speller | MixedSpeller | None = None,
        *,
        mapped: MappedFile | None = None,
    ) -> None:
        """engine: what the family trains, usually a LanguageModel. speller: by default learned from the vocabulary.

        mapped: the file that the arrays are mapped from.
        """
        self.family, self._engine, self._tokenizer = family, engine, tokenizer
        self._mapped = mapped
        self.record = record or {}
        self._speller = speller

    def __repr__(self) -> str:
        size = size_of(self.record)
        return f"<Model: {self.family}, {self.tokenizer.name} tokenizer, {self.vocabulary_size:,} tokens{size}>"

    def _repr_html_(self) -> str:
        return info_of_model(self.parts)._repr_html_()

    @property
    def engine(self) -> Any:
        """What the family trains. Raises ModelFormatError if its file has changed since it was opened."""
        self._check_file()
        return self._engine

    @property
    def parts(self) -> ModelParts:
        return ModelParts(self.family, self.engine, self.tokenizer, self.speller, self.record)

    @property
    def language_model(self) -> LanguageModel[Any]:
        """The engine, if it continues texts. Raises SettingError if not; ModelFormatError as `engine`."""
        return cast("LanguageModel[Any]", self.engine_that("continue"))

    def engine_that(self, *jobs: Job) -> Any:
        """The engine, if it does one of these jobs. Raises SettingError if not; ModelFormatError as `engine`."""
        job = FAMILIES[self.family].job
        if job not in jobs:
            others = "; it can score, embed and judge minimal pairs" if job == "fill" else ""
            raise SettingError(
                f"a model of family {self.family!r} {_DOES[job]}; this takes one that "
                f"{' or '.join(_DOES[wanted] for wanted in jobs)}{others}"
            )
        return self.engine

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer. Raises ModelFormatError as `engine`: the vocabulary is in the same file."""
        self._check_file()
        return self._tokenizer

    def _check_file(self) -> None:
        if self._mapped is not None:
            self._mapped.check()

    @property
    def document(self) -> Document | None:
        """What part of a file was a document in training; None if the record does not say, or file names decided."""
        return document_in(self.record)

    def set_markers(self, markers: Markers) -> None:
        """Sets the rule for literal <s>, </s> and <unk> in texts: error, skip or keep. Raises SettingError."""
        self._tokenizer = self.tokenizer.with_markers(markers)

    @property
    def vocabulary_size(self) -> int:
        return self.tokenizer.vocabulary_size

    @property
    def speller(self) -> Speller | MixedSpeller:
        """The model of the spelling of unknown tokens."""
        if self._speller is None:
            from chainrule.ngram.spelling.speller import Speller

            self._speller = Speller.of_vocabulary(self.tokenizer)
        return self._speller

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

    @property
    def answerer(self) -> ModelAnswerer:
        """What answers prompts. Raises SettingError if the model is a classifier."""
        self.engine_that("continue", "fill")
        return ModelAnswerer(self.parts)

    def sentence_scores(self, block: Block) -> SentenceScores:
        """As `score`, for the documents of a block, with their numbers of tokens. Raises MarkerError."""
        return score_sentences(self.scorer, self.tokenizer.encode_block(block).ids)

    @shows_progress
    def evaluate(
        self,
        source: Source | Paths,
        progress: ProgressOption = None,
        *,
        ends: bool = True,
        frequencies: Int64[ndarray, " vocab"] | None = None,
    ) -> Measurement:
        """Measures the model on a text. ends: whether </s> is predicted and counted.

        Files are cut into documents as in training. frequencies: the count of each token in the training text, to
        report the cost of rare ones. Raises TextError.
        """
        progress = callback(progress)
        source = source_of(source, self.document)
        model = self.language_model
        return measure(
            model,
            self.tokenizer,
            self.speller,
            source,
            progress,
            stream_scoring=FAMILIES[self.family].stream_scoring(model),
            ends=ends,
            frequencies=frequencies,
            **FAMILIES[self.family].measure_options(model),
        )

    @property
    def is_distribution(self) -> bool:
        """Whether its probabilities sum to one: those of stupid backoff are scores. Raises as `language_model` does."""
        return bool(FAMILIES[self.family].measure_options(self.language_model).get("is_distribution", True))

    def perplexity(self, source: Source | Paths) -> float:
        """Per token, </s> predicted, unknown words as <unk>."""
        return self.evaluate(source).perplexity

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
        Raises TextError; SettingError if the model has no such scores.
        """
        progress = callback(progress)
        self.engine_that("continue", "fill")
        return judge_pairs(
            self.parts,
            files,
            ends=ends,
            fills=self.sees_both_sides,
            pseudo=pseudo,
            on_bad=raise_error if strict else lambda error: warn(str(error)),
            progress=progress,
        )

    def fill(self, text: str, top: int = 5, *, mask: str = MASK) -> list[list[tuple[str, float]]]:
        """The likeliest tokens for each mask of a text, with their probabilities, best first, none of them zero.

        Raises SettingError if the text has no mask, or the model does not fill gaps.

        good:  model.fill("the [MASK] bit the man")
        """
        model: TwoSidedModel = self.engine_that("fill")
        return fill_masks(model, self.tokenizer, text, top, mask)

    @property
    def classifier(self) -> Classifier:
        """The engine as a Classifier. Raises SettingError if the model is not one."""
        return cast("Classifier", self.engine_that("classify"))

    def classify(self, inputs: Iterable[Any]) -> list[Predicted]:
        """The labels of inputs, such as texts, or of their units, such as words.

        Raises SettingError if the model is not a classifier; MarkerError.

        good:  [predicted] = classifier.classify(["a text"]); predicted.best
        """
        from chainrule.applications.labelled_inputs import PAIR_UNITS, inputs_of

        kind = inputs_of(self.classifier)
        are_texts = self.classifier.reads == "text" and self.classifier.unit not in PAIR_UNITS
        inputs = as_texts(inputs) if are_texts else list(inputs)
        return kind.predict(self.classifier, self.tokenizer, inputs)

    @shows_progress
    def assess(self, examples: Iterable[Any], progress: ProgressOption = None) -> Classification:
        """How well a classifier does on labelled inputs; a label that training has not seen counts as wrong.

        examples: as `read_labelled` gives them for texts. Raises SettingError; TextError where it knows none of the
        labels.

        good:  classifier.assess(chainrule.read_labelled("heldout.tsv")).accuracy
        """
        progress = callback(progress)
        from chainrule.applications.labelled_inputs import assessed

        return assessed(self.classifier, self.tokenizer, examples, progress)

    @shows_progress
    def assess_ratings(self, pairs: Iterable[Any], progress: ProgressOption = None) -> RatingMeasurement:
        """How well a classifier of the unit rating predicts those of pairs.

        pairs: as `read_labelled_pairs` gives them, with ratings. Raises SettingError; TextError where a rating is no
        number.
        """
        progress = callback(progress)
        from chainrule.applications.labelled_inputs import assessed_ratings

        return assessed_ratings(self.classifier, self.tokenizer, pairs, progress)

    @property
    def sees_both_sides(self) -> bool:
        """Whether its scores are pseudo-log-likelihoods, and it fills gaps."""
        return FAMILIES[self.family].job == "fill"

    @property
    def scorer(self) -> Scorer:
        """The engine as a Scorer, perhaps of pseudo-log-likelihoods. Raises as `language_model`."""
        return cast("Scorer", self.engine_that("continue", "fill"))

    @property
    def embedder(self) -> Embedder:
        """The engine as an Embedder. Raises SettingError if the model is not a network."""
        if not FAMILIES[self.family].embeds:
            advice = FAMILIES[self.family].vectors_advice
            raise SettingError(f"a model of family {self.family!r} has no vectors; {advice}")
        return cast("Embedder", self.engine)

    def embed(
        self,
        texts: Iterable[str],
        *,
        layer: int | None = None,
        pooling: Pooling | None = None,
        precision: VectorPrecision = "float32",
    ) -> Float32[ndarray, "texts D"]:
        """A vector for each text, from a network; options as in `EmbeddingConfig`. Raises SettingError."""
        config = EmbeddingConfig(layer=layer, pooling=pooling, precision=precision)
        return embed_whole_texts(self.embedder, self.tokenizer, as_texts(texts), config)

    def embed_units(self, texts: Iterable[str], config: EmbeddingConfig | None = None) -> list[Embedded]:
        """The vectors of each text's words, or of what the configuration says, by text. Raises SettingError.

        good:  [text] = model.embed_units(["the bank of the river"]); text.units, text.vectors
        """
        config, texts = config or EmbeddingConfig(unit="word"), as_texts(texts)
        return embed_texts(self.embedder, self.tokenizer, texts, config)

    def embed_blocks(self, blocks: Iterable[Block], config: EmbeddingConfig) -> Iterator[Embedded]:
        """As `embed_units`, of the documents of blocks as they come. Raises SettingError, MarkerError."""
        yield from embed_blocks(self.embedder, self.tokenizer, blocks, config)

    def embed_vocabulary(self) -> Iterator[Embedded]:
        """The tokens of the vocabulary, each a text of its own, with their vectors in no context; as `embed_units`."""
        yield from embed_vocabulary(self.embedder, self.tokenizer)

    def next(self, prompt: str = "", top: int = 10) -> list[tuple[str, float]]:
        """The likeliest next tokens after a prompt with their probabilities, none of them zero. Raises SettingError."""
        return next_tokens(self.language_model, self.tokenizer, prompt, top)

    def generate(
        self,
        prompt: str = "",
        n: int = 1,
        sampling: SamplingConfig | None = None,
        limits: Limits | None = None,
        *,
        seed: int | None = None,
        progress: ProgressOption = None,
    ) -> list[str]:
        """n sampled texts that begin with the prompt, as normalised.

        seed: the same one gives the same texts; without one, each call gives others. Raises SettingError.

        good:  model.generate("I visited San", 5, SamplingConfig(temperature=0.8), Limits(max_tokens=20), seed=1)
        """
        return [text.text for text in self.sample(prompt, n, sampling, limits, seed=seed, progress=progress)]

    @shows_progress
    def sample(
        self,
        prompt: str = "",
        n: int = 1,
        sampling: SamplingConfig | None = None,
        limits: Limits | None = None,
        *,
        seed: int | None = None,
        progress: ProgressOption = None,
    ) -> list[Text]:
        """As `generate`; each text with its log-probability, its tokens, and why it ended."""
        progress = callback(progress)
        if n < 1:
            raise SettingError(f"n is {n}; expected 1 or more")
        seed = secrets.randbits(32) if seed is None else seed
        return self.decoder.sample(prompt, n, sampling, limits, seed=seed, progress=progress)

    def stream(
        self,
        prompt: str = "",
        sampling: SamplingConfig | None = None,
        limits: Limits | None = None,
        *,
        seed: int | None = None,
    ) -> Iterator[str]:
        """The first text of `generate`, piece by piece while it is drawn; the first piece is the prompt."""
        seed = secrets.randbits(32) if seed is None else seed
        return self.decoder.stream(prompt, sampling, limits, seed=seed)

    @shows_progress
    def beam(
        self,
        prompt: str = "",
        search: BeamConfig | None = None,
        limits: Limits | None = None,
        *,
        progress: ProgressOption = None,
    ) -> list[Text]:
        """The likeliest texts that begin with the prompt, with their scores, best first. Raises SettingError."""
        progress = callback(progress)
        return self.decoder.search(prompt, search, limits, progress=progress).texts

    def unknown_words(self, text: str) -> list[str]:
        """The tokens of a text that the vocabulary lacks, each once, as they are written. Raises MarkerError."""
        return unknown_words(self.tokenizer, text)

    def complete(self, text: str, n: int = 5) -> list[Completion]:
        """The likeliest completions of the last word of a text, or of its next words after a space.

        Raises SettingError.
        """
        return self.completer.complete(text, n)

    @cached_property
    def completer(self) -> Completer:
        """Completes texts; the vocabulary is sorted at its first use."""
        return Completer(self.language_model, self.tokenizer)

    @property
    def decoder(self) -> TextDecoder:
        """All ways to get text out of the model."""
        return TextDecoder(self.language_model, self.tokenizer, lambda: self.speller)

    @property
    def layout(self) -> str | None:
        """The layout of an n-gram table, in memory and on disk: fast or compact; None for other models."""
        return FAMILIES[self.family].layout(self.engine)

    @shows_progress
    def compact(self, progress: ProgressOption = None) -> Model:
        """The same model, quantised: an n-gram model in a fifth of the room, its probabilities 256 values an order; a
        Transformer in little more than a quarter, its matrices in int8 with a scale for every 32 weights.

        Raises SettingError where it has no compact form, ModelFormatError where it is damaged, EstimationError where
        there is not enough memory.

        good:  chainrule.load("lm/").compact().save("small/")
        """
        engine = self._compaction.compact(self.engine, callback(progress))
        return self._with_engine(engine, {**self.record, "quantised": True})

    @shows_progress
    def unpack(self, progress: ProgressOption = None) -> Model:
        """The fast layout of a compact model, quantised as it was. Raises as `compact` does."""
        return self._with_engine(self._compaction.unpack(self.engine, callback(progress)), self.record)

    @property
    def is_compact(self) -> bool:
        """Whether `unpack` would change it."""
        compaction = FAMILIES[self.family].compaction
        return compaction is not None and compaction.is_compact(self.engine)

    @property
    def _compaction(self) -> Compaction:
        """Raises SettingError."""
        compaction = FAMILIES[self.family].compaction
        if compaction is None:
            raise SettingError(
                f"a model of family {self.family!r} has no compact form; expected an n-gram model or a Transformer"
            )
        return compaction

    def _with_engine(self, engine: Any, record: dict[str, Any]) -> Model:
        if engine is self._engine:
            return self
        return Model(self.family, engine, self.tokenizer, record, self.speller)

    @shows_progress
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, progress: ProgressOption = None) -> None:
        """Writes a model folder, or an ARPA file if the path ends in .arpa, .arpa.gz, .zst, .xz or .bz2.

        Raises OutputError; SettingError if the model has no ARPA form.
        """
        progress = callback(progress)
        path = Path(path)
        save = save_arpa if path.name.endswith(ARPA_SUFFIXES) else save_folder
        save(self.parts, path, overwrite=overwrite, progress=progress)


def check_model(model: object, *kinds: type) -> None:
    """Raises TypeError if this is not a model of these kinds: usually it is a path."""
    if not isinstance(model, kinds or Model):
        raise TypeError(f"this takes a model, as chainrule.load gives one; found {model!r}")

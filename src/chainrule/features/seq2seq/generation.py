"""Scores and generates texts from sources with a seq2seq model, by beam search or sampling.

Sources of similar length are read together. `sentence_slices` and `with_sentence_end` serve decoders that write
sentence by sentence.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from chainrule.decoding.beam import Hypothesis, SearchTree, search, with_greedy
from chainrule.decoding.config import Limits, SamplingConfig
from chainrule.decoding.limits import constraints_for
from chainrule.decoding.sampling import Sample, sample
from chainrule.errors import SettingError
from chainrule.features.seq2seq.options import TargetBeam
from chainrule.text.parallel import Shortened, shorten
from chainrule.text.tokenization.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Float64, Int32, Shaped
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.decoding.config import BeamConfig
    from chainrule.decoding.limits import Constraints
    from chainrule.decoding.sampling import Ending
    from chainrule.features.seq2seq.network.config import Seq2SeqConfig
    from chainrule.features.seq2seq.network.model import NeuralSeq2SeqModel
    from chainrule.features.seq2seq.options import SampleOptions, WriteOptions, WriteTreeOptions
    from chainrule.text.tokenization.tokenizer import Tokenizer

    Tokens = Int32[ndarray, " T"]

BATCH = 64  # sources that are searched for at once
_PREFIX = np.empty(0, np.int32)


def score_targets(
    model: NeuralSeq2SeqModel,
    sources: Sequence[Shaped[ndarray, "S ..."]],
    targets: Sequence[Int32[ndarray, " tokens"]],
    progress: Progress,
) -> Float64[ndarray, " pairs"]:
    """Return log P of each target with its </s>, given its source, in nats. Raises SettingError."""
    scores = np.zeros(len(targets))
    order = sorted(range(len(targets)), key=lambda i: (len(sources[i]), targets[i].size))
    for first in range(0, len(order), BATCH):
        progress("scoring", first, len(order))
        chosen = order[first : first + BATCH]
        given = model.given([sources[i] for i in chosen])
        token_scores = given.score([targets[i] for i in chosen])
        scores[chosen] = [log_probs.sum(dtype=np.float64) for log_probs in token_scores]
    return scores


def search_sources(
    model: NeuralSeq2SeqModel,
    sources: Sequence[Shaped[ndarray, "S ..."]],
    beam: BeamConfig,
    constraints: Constraints,
    progress: Progress,
    *,
    limit: Callable[[Any], int] | None = None,
    alignments: bool = False,
) -> list[list[Hypothesis]]:
    """Return the likeliest targets of each source, best first; none for a source without tokens.

    limit: a function from a source to the most tokens of its target, in place of max_tokens. alignments: whether to
    keep attention weights. Raises SettingError.
    """
    hypotheses: list[list[Hypothesis]] = [[] for _ in sources]
    order = sorted((i for i, source in enumerate(sources) if len(source)), key=lambda i: len(sources[i]))
    for first in range(0, len(order), BATCH):
        progress("writing", first, len(order))
        chosen = order[first : first + BATCH]
        given = model.given([sources[i] for i in chosen], alignments=alignments)
        searches = search(
            given,
            [_PREFIX] * len(chosen),
            beam,
            constraints,
            limits=None if limit is None else [limit(sources[i]) for i in chosen],
            attention=given.attention if alignments else None,
        )
        for i, result in zip(chosen, searches, strict=True):
            hypotheses[i] = list(result.hypotheses)
    return hypotheses


BEAM = TargetBeam()
MAX_TOKENS = 1 << 20  # of a target


class GeneratedText(NamedTuple):
    """A text that was written from a source.

    log_prob: in nats. score: what hypotheses are ranked by; of a sample, log_prob. ending: end, if </s> was written,
    which log_prob then includes; length, if the text was cut at the limit. tokens, source_tokens: as the tokenizers
    mark them. attention: the weights of each token, and of </s> if it was written, over the source's tokens and its
    </s>; None unless alignments were asked for.
    """

    text: str
    log_prob: float
    score: float
    ending: Ending
    tokens: list[str]
    source_tokens: list[str]
    attention: Float32[ndarray, "tokens source"] | None

    def as_json(self) -> dict[str, Any]:
        """Return all of it for JSON, with the weights of attention to four decimals."""
        rows = None if self.attention is None else [[round(float(x), 4) for x in row] for row in self.attention]
        return {**self._asdict(), "attention": rows}


class Seq2SeqGenerator:
    """What generates texts with a seq2seq model: by beam search or sampling."""

    def __init__(self, model: NeuralSeq2SeqModel, source: Tokenizer, target: Tokenizer) -> None:
        self.model, self.source, self.target = model, source, target

    def search(self, texts: Sequence[str], options: WriteOptions, progress: Progress) -> list[list[GeneratedText]]:
        """Return the likeliest texts, as `Seq2SeqModel.write` does."""
        sources, limit = self.encode(texts), self.longest_target if options.max_tokens is None else None
        constraints = self.constraints(options.begin, options.max_tokens)
        searched = search_sources(
            self.model,
            sources,
            options.beam or BEAM,
            constraints,
            progress,
            limit=limit,
            alignments=options.alignments,
        )
        return [
            [self._written(one, source) for one in several] for source, several in zip(sources, searched, strict=True)
        ]

    def search_tree(self, text: str, options: WriteTreeOptions) -> SearchTree:
        """Return all that a search considers, with the path of greedy search.

        Raises SettingError, also of an empty source.
        """
        [source] = self.encode([text])
        if not source.size:
            raise SettingError("the source is empty; give a text with a token in it at least")
        given, beam = self.model.given([source]), options.beam or BEAM
        constraints = self.constraints(options.begin, options.max_tokens or self.longest_target(source))
        [result] = search(given, [_PREFIX], beam, constraints, keep_tree=True)
        return with_greedy(given, _PREFIX, result.tree, beam, constraints)

    def sample(self, texts: Sequence[str], options: SampleOptions, progress: Progress) -> list[list[GeneratedText]]:
        """Return sampled texts, as `Seq2SeqModel.sample` does."""
        sources, n, max_tokens = self.encode(texts), options.n, options.max_tokens
        seed = secrets.randbits(32) if options.seed is None else options.seed
        written: list[list[GeneratedText]] = []
        for low in range(0, len(texts), BATCH):
            progress("sampling", low, len(texts))
            batch = sources[low : low + BATCH]
            number = (options.first + low) * n  # of the first text
            limits = [max_tokens or self.longest_target(source) for source in batch]

            def is_cut(text: int, tokens: Sequence[int], number: int = number, limits: Sequence[int] = limits) -> bool:
                return len(tokens) >= limits[(text - number) // n]

            samples = sample(
                self.model.given(batch),
                [_PREFIX] * len(batch),
                options.sampling or SamplingConfig(),
                self.constraints(options.begin, max(limits)),
                seed=seed,
                texts_per_prefix=n,
                first=number,
                until=is_cut,
            )
            for i, source in enumerate(batch):
                own = samples[i * n : (i + 1) * n] if source.size else []
                written.append([self._written(drawn, source) for drawn in own])
        return written

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the ids of source texts, shortened as the model's settings say; none for white space alone.

        Raises MarkerError.
        """
        return self.shorten(texts).rows

    def encode_whole(self, texts: Sequence[str]) -> list[Tokens]:
        """Return the ids of source texts, as `encode` does, whatever their lengths."""
        return documents_of(self.source.encode_texts([text if text.strip() else "" for text in texts]).ids)

    def shorten(self, texts: Sequence[str]) -> Shortened:
        """Return the ids of `encode`, and how many sources were too long. Raises MarkerError."""
        config = self.model.network.config
        rows = self.encode_whole(texts)
        return shorten(texts, rows, config.most_source_tokens, config.long_sources, self.encode_whole)

    def longest_target(self, source: Tokens) -> int:
        """Return the most tokens that are written from a source, unless a limit is given: no more than have a
        position.
        """
        config = self.model.network.config
        most = max(1, config.learned_positions - len(config.before_target) - 1)
        return min(max_target_length(source), most) if config.learned_positions else max_target_length(source)

    def constraints(self, begin: str, max_tokens: int | None) -> Constraints:
        """Return the limits of the texts. max_tokens: None for any number. Raises SettingError."""
        return constraints_for(Limits(begin=begin, max_tokens=max_tokens or MAX_TOKENS), self.target, "")

    def _written(self, output: Hypothesis | Sample, source: Tokens) -> GeneratedText:
        score, attention = (output.log_prob, None) if isinstance(output, Sample) else (output.score, output.attention)
        return GeneratedText(
            self.target.decode(output.tokens),
            output.log_prob,
            score,
            "length" if output.ending == "stop" else output.ending,
            [self.target.vocabulary.token(token) for token in output.tokens.tolist()],
            [self.source.vocabulary.token(token) for token in source.tolist()],
            None if attention is None else attention[:, : source.size + 1],
        )


def max_target_length(source: Tokens) -> int:
    """Return twice as many tokens as a source has, and 20 more."""
    return 2 * source.size + 20


Config = TypeVar("Config", bound="Seq2SeqConfig")
PERIOD = b"."


def sentence_slices(tokens: Int32[ndarray, " T"], tokenizer: Tokenizer) -> list[slice]:
    """Return the positions of each sentence: up to a period, or to the end."""
    vocabulary = tokenizer.vocabulary.tokens()
    period = vocabulary.index(PERIOD) if PERIOD in vocabulary else -1
    ends = (np.flatnonzero(tokens == period) + 1).tolist()
    if len(tokens) and (not ends or ends[-1] != len(tokens)):
        ends.append(len(tokens))
    return [slice(first, stop) for first, stop in pairwise([0, *ends])]


def with_sentence_end(config: Config, tokenizer: Tokenizer) -> Config:
    """Return the configuration with the id of the period, if the decoder is hierarchical."""
    if config.decoder != "hierarchical" or config.sentence_end is not None:
        return config
    tokens = tokenizer.vocabulary.tokens()
    if PERIOD not in tokens:
        raise SettingError(
            "a hierarchical decoder writes sentences, but the vocabulary has no period as a token of its own; end "
            "sentences with one, and choose the tokenizer word"
        )
    return replace(config, sentence_end=tokens.index(PERIOD))

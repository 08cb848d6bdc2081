"""Answers the three kinds of requests of lm-evaluation-harness, without importing it."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule import __version__
from chainrule.decoding.config import GREEDY, Limits, SamplingConfig
from chainrule.decoding.limits import possible_stops
from chainrule.errors import SettingError, WrongModelError
from chainrule.evaluation.continuations import Pair
from chainrule.evaluation.likelihood import model_signature, token_signature
from chainrule.evaluation.measurement import NO_DISTRIBUTION
from chainrule.features.prompt.continuations import (
    continuation_log_probs,
    document_log_probs,
    pseudo_continuation_log_probs,
)
from chainrule.features.seq2seq.model import Seq2SeqModel
from chainrule.models.any_model import check_kind
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.opening import load
from chainrule.models.language_models import CausalModel
from chainrule.models.model import Model
from chainrule.models.progress_line import ProgressOption, callback, shows_progress

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from chainrule.evaluation.likelihood import StreamScoring
    from chainrule.text.tokenization.config import TokenizerConfig
    from chainrule.text.tokenization.vocabulary import Markers

MAX_TOKENS = 256  # of a generated text where the task does not say, as the harness has it
_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")  # the first that is there counts
_SAMPLING = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "typical_p": "typical",
    "repetition_penalty": "repetition_penalty",
}
_WRITTEN_TOGETHER = 64  # texts


class Request(NamedTuple):
    """A prompt, and how to continue it: `until`, `max_gen_toks`, `do_sample` and sampling settings."""

    context: str
    settings: dict[str, Any]


def open_answering(
    path: str | os.PathLike[str], *, tokenizer: TokenizerConfig | str | None = None, markers: Markers | None = None
) -> Model | Seq2SeqModel:
    """Open a model whose answers are wanted. Raises WrongModelError if it captions or hears; what `load` raises."""
    model = load(path, tokenizer=tokenizer, markers=markers)
    if not isinstance(model, Model | Seq2SeqModel):
        raise WrongModelError(f"{path}: {model.does()}; this takes a model that continues texts")
    return model


class Answers:
    """A model's answers to requests, in their order."""

    def __init__(self, model: Model | Seq2SeqModel, *, ends: bool = False, seed: int = 0) -> None:
        """Store the model, if it scores texts.

        ends: whether </s> after a continuation counts. Raises SettingError if the model does not score texts.
        """
        if isinstance(model, Model):
            model.require_engine("continue", "fill")
        self.model, self.ends, self.seed = model, ends, seed

    @property
    def is_bidirectional(self) -> bool:
        return isinstance(self.model, Model) and self.model.is_bidirectional

    @shows_progress
    def continuations(self, pairs: Sequence[Pair], progress: ProgressOption = None) -> list[tuple[float, bool]]:
        """Return log P(continuation | context) in nats, and whether greedy search would write it.

        A seq2seq model takes the context as its source. A bidirectional network gives pseudo-log-likelihoods, and none
        of its continuations counts as greedy. Raises MarkerError.
        """
        progress = callback(progress)
        answers: list[tuple[float, bool]] = [(0.0, True)] * len(pairs)
        for model, own in self._by_source([pair.context for pair in pairs]):
            asked = [Pair("", pairs[i].continuation) if self._has_source else pairs[i] for i in own]
            if model.is_bidirectional:
                log_probs = pseudo_continuation_log_probs(model.engine, model.speller, model.tokenizer, asked)
                is_greedy = np.zeros(len(own), np.bool_)
            else:
                log_probs, is_greedy = continuation_log_probs(
                    model.language_model,
                    model.speller,
                    model.tokenizer,
                    asked,
                    progress,
                    end=self.ends,
                    greedy=check_kind(model, CausalModel).is_distribution,
                )
            for i, log_prob, greedy in zip(own, log_probs.tolist(), is_greedy.tolist(), strict=True):
                answers[i] = log_prob, greedy
        return answers

    @shows_progress
    def documents(self, texts: Sequence[str], progress: ProgressOption = None) -> list[float]:
        """Return log P of each text by itself in nats, without its </s>.

        Raises MarkerError; SettingError if the model gives whole texts no probability.
        """
        progress = callback(progress)
        if not isinstance(self.model, Model) or self.is_bidirectional:
            kind = "is bidirectional" if self.is_bidirectional else "needs a source"
            raise SettingError(
                f"a model that {kind} gives texts by themselves no probability; choose tasks without perplexity"
            )
        model = self.model
        log_probs = document_log_probs(
            model.language_model, model.speller, model.tokenizer, texts, progress, running=self._running
        )
        return [float(log_prob) for log_prob in log_probs]

    @shows_progress
    def texts(self, requests: Sequence[Request], progress: ProgressOption = None) -> list[str]:
        """Return the model's continuation of each context, up to the stop string.

        Raises MarkerError; SettingError if the model cannot write, or a setting is unknown.
        """
        progress = callback(progress)
        if self.is_bidirectional:
            raise SettingError("a bidirectional model writes no texts; choose multiple-choice tasks")
        written = [""] * len(requests)
        by_settings: dict[str, list[int]] = {}
        for i, request in enumerate(requests):
            by_settings.setdefault(json.dumps(request.settings, sort_keys=True, default=str), []).append(i)
        for alike in by_settings.values():
            sampling, limits = _decoding(requests[alike[0]].settings)
            for model, own in self._by_source([requests[i].context for i in alike]):
                stops = possible_stops(limits.stop, model.tokenizer)
                possible = Limits(max_tokens=limits.max_tokens, stop=stops)
                for first in range(0, len(own), _WRITTEN_TOGETHER):
                    progress("writing", first, len(own))
                    some = [alike[i] for i in own[first : first + _WRITTEN_TOGETHER]]
                    prompts = ["" if self._has_source else requests[i].context for i in some]
                    decoder = check_kind(model, CausalModel).decoder
                    sampled = decoder.sample_each(prompts, 1, sampling, possible, seed=self.seed)
                    for i, text in zip(some, sampled, strict=True):
                        written[i] = text.continuation
        return written

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before comparing figures."""
        notes = []
        if isinstance(self.model, CausalModel) and not self.model.is_distribution:
            notes.append(f"the figures are {NO_DISTRIBUTION}; no continuation counts as greedy")
        if self.is_bidirectional:
            notes.append("scores are pseudo-log-likelihoods, and no continuation counts as greedy")
        if self._tokenizer.loses != "nothing":
            notes.append(
                f"the tokenizer loses {self._tokenizer.loses}, so that the texts that are scored have fewer bytes than "
                "the harness divides by"
            )
        return notes

    @property
    def info(self) -> dict[str, Any]:
        """The settings that the figures depend on, for the record."""
        settings = {"chainrule_version": __version__, "ends": self.ends, "seed": self.seed}
        signature = token_signature(self._tokenizer)
        if not isinstance(self.model, Model):
            return {**settings, "family": "conditional", "signature": signature}
        if not self.is_bidirectional:
            options = FAMILIES[self.model.family].measure_options(self.model.language_model)
            scoring = {name: options[name] for name in ("context", "is_distribution") if name in options}
            signature += "|" + model_signature(self.model.speller, self._running, **scoring)
        return {**settings, "family": self.model.family, "signature": signature}

    @cached_property
    def _running(self) -> StreamScoring | None:
        assert isinstance(self.model, Model)
        return FAMILIES[self.model.family].stream_scoring(self.model.language_model)

    @property
    def _tokenizer(self) -> Any:
        return self.model.tokenizer if isinstance(self.model, Model) else self.model.target

    @property
    def _has_source(self) -> bool:
        return isinstance(self.model, Seq2SeqModel)

    def _by_source(self, contexts: Sequence[str]) -> Iterator[tuple[Model, list[int]]]:
        """Yield each model, with the contexts that it answers: a single one answers all, unless contexts are
        sources.
        """
        if isinstance(self.model, Model):
            if contexts:
                yield self.model, list(range(len(contexts)))
            return
        numbers: dict[str, list[int]] = {}
        for number, context in enumerate(contexts):
            numbers.setdefault(context, []).append(number)
        for context, own in numbers.items():
            yield self.model.given(context), own


def _decoding(settings: dict[str, Any]) -> tuple[SamplingConfig, Limits]:
    """Return the settings of a request in ours. Raises SettingError where one is not known here."""
    known = {"until", "do_sample", "num_beams", *_LENGTHS, *_SAMPLING}
    unknown = sorted(set(settings) - known)
    if unknown or settings.get("num_beams", 1) != 1:
        name = unknown[0] if unknown else "num_beams"
        raise SettingError(
            f"the task's generation_kwargs hold {name} = {settings[name]!r}; expected any of "
            f"{', '.join(sorted(known))}, and one beam"
        )
    until = settings.get("until") or []
    stops = [until] if isinstance(until, str) else [stop for stop in until if stop]
    lengths = [settings[name] for name in _LENGTHS if settings.get(name) is not None]
    limits = Limits(max_tokens=int(lengths[0] if lengths else MAX_TOKENS), stop=stops)
    temperature = settings.get("temperature")
    is_drawn = settings.get("do_sample")
    if is_drawn is None:
        is_drawn = bool(temperature)
    if not is_drawn or temperature == 0:
        penalty = settings.get("repetition_penalty")
        return GREEDY if penalty is None else SamplingConfig(temperature=0, repetition_penalty=penalty), limits
    chosen = {ours: settings[name] for name, ours in _SAMPLING.items() if settings.get(name) is not None}
    return SamplingConfig(**chosen), limits

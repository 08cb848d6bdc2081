"""Trains a network on pairs of answers, of which one is preferred (`adapt` with `preferred`)."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import SettingError, TextError, prefix_errors
from chainrule.features.preferences.answers import digest_of_preferences, read_preferences
from chainrule.models.any_model import check_kind
from chainrule.models.files.adapters import adapter_record, check_no_adapter
from chainrule.models.files.folders import build_model
from chainrule.models.files.opening import load
from chainrule.models.language_models import CausalNetwork, TextEncoder, chat_model
from chainrule.models.model import Model
from chainrule.models.run import record_header, seconds_since, training_run
from chainrule.protocol import END
from chainrule.text.corpus.bad_records import collecting
from chainrule.training.config import TrainingConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chainrule.base.progress import Progress
    from chainrule.features.preferences.answers import Preference
    from chainrule.features.preferences.objective import Pair, Row
    from chainrule.training.config import AdapterConfig
    from chainrule.verbs.training.options import AdaptOptions


def train_on_preferences(options: AdaptOptions, adapter: AdapterConfig | None, progress: Progress) -> Model:
    """`adapt` with `preferred`. Raises TextError, SettingError, and as `train`."""
    from chainrule.features.preferences.objective import preference_job
    from chainrule.neural.saving import engine_of
    from chainrule.training.run import run_job

    assert options.preferred is not None
    start_time = time.perf_counter()
    if options.source is not None:
        raise SettingError("a text and preferred are both given; a network learns from one of them at a time")
    path, run, training = Path(options.model), training_run(options, progress), options.training or TrainingConfig()
    model = load(path, Model)
    check_no_adapter(model, path)
    with prefix_errors(os.fspath(path)):
        check_kind(model, CausalNetwork)
    network = model.engine.network if adapter is not None else model.engine.network.float()
    skipped: list[str] = []
    with collecting(options.bad_records, skipped.append) as bad:
        given = read_preferences(os.fspath(options.preferred), bad)
        if options.validation is None:
            learned, kept = _divided(given, training)
        else:
            learned, kept = given, read_preferences(str(options.validation), bad)
    encode = _encoder(model)
    pairs, held_out = ([encode(pair) for pair in _counted(part, progress)] for part in (learned, kept))
    fitting, fitting_kept = (
        [pair for pair in part if max(len(row.tokens) for row in pair) <= network.config.context + 1]
        for part in (pairs, held_out)
    )
    if not fitting:
        raise TextError(f"{options.preferred}: no pair fits the network's context of {network.config.context:,} tokens")
    text = {
        "family": model.family,
        "start": os.fspath(options.model),
        "tokens": sum(pair.size for pair in fitting),
        "ids": digest_of_preferences(learned),
        "validation": digest_of_preferences(kept),
    }
    job = preference_job(network, fitting, fitting_kept, training, options.beta, text, adapter)
    job = replace(job, notes=(*job.notes, *skipped))
    if missing := len(pairs) + len(held_out) - len(fitting) - len(fitting_kept):
        note = f"{missing:,} pairs are longer than the network's context of {network.config.context:,} tokens: left out"
        job = replace(job, notes=(*job.notes, note))
    trained, learned_record = run_job(job, run)
    if adapter is not None:
        learned_record |= adapter_record(trained, adapter, os.fspath(options.model))
    record = {
        **record_header(model.family, trained.config),
        "seconds": seconds_since(start_time, learned_record),
        "tokenizer": {"kind": os.fspath(options.model)},
        "data": {os.fspath(options.preferred): digest_of_preferences(given)},
        "preferred": os.fspath(options.preferred),
        "pairs": len(fitting),
        "beta": options.beta,
        "start": os.fspath(options.model),
        "tokens": text["tokens"],
        **({"hugging_face": model.record["hugging_face"]} if "hugging_face" in model.record else {}),
        **learned_record,
    }
    return build_model(model.family, engine_of(trained), model.tokenizer, record, model.speller)


def _divided(
    pairs: Sequence[Preference], training: TrainingConfig
) -> tuple[Sequence[Preference], Sequence[Preference]]:
    """Pairs to learn from, and the last share, to validate on."""
    count = int(training.valid_share * len(pairs))
    return (pairs[:-count], pairs[-count:]) if count else (pairs, [])


def _counted(pairs: Sequence[Preference], progress: Progress) -> Iterator[Preference]:
    for done, pair in enumerate(pairs):
        progress("reading pairs", done, len(pairs))
        yield pair


def _encoder(model: Model) -> Callable[[Preference], Pair]:
    """A function from a pair to what the network reads. It raises TextError with the pair's place."""
    from chainrule.features.preferences.objective import Pair, Row

    begin = model.engine.network.first_token
    texts = TextEncoder(model.tokenizer)
    chat: list[Any] = []

    def prompt_of(pair: Preference) -> np.ndarray[Any, Any]:
        if isinstance(pair.prompt, str):
            return np.concatenate([[begin], texts.encode(pair.prompt)])
        from chainrule.decoding.chat.messages import as_messages

        if not chat:
            chat.append(chat_model(model.parts).format)
        tokens: np.ndarray[Any, Any] = chat[0].encode(as_messages(pair.prompt)).tokens
        return tokens

    def encode(pair: Preference) -> Pair:
        try:
            prompt = prompt_of(pair)
            rows = [_row(prompt, texts.encode(answer), Row) for answer in (pair.chosen, pair.rejected)]
        except (SettingError, TextError) as error:
            raise TextError(f"{pair.place}: {error}") from error
        return Pair(*rows)

    return encode


def _row(prompt: np.ndarray[Any, Any], answer: np.ndarray[Any, Any], kind: type[Row]) -> Row:
    return kind(np.concatenate([prompt, answer, [END]]).astype(np.int64), len(prompt))

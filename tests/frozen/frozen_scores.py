"""The bits of what small models answer: scores, measurements, samples, beams, corrections, choices, vectors."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from frozen_machine import MACHINE, bits, machine, text_by_bits
from frozen_models import FIXTURES, SOURCES, STEPS, TARGETS
from labelled_inputs import QUICK, small, texts

import chainrule

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_SHOWN = 40  # numbers of an array that is written as such; of a larger one, its digest
_PROMPT = "ka"
_LIMITS = chainrule.Limits(max_tokens=8)
_QUIET = {"progress": False}


def scores() -> dict[str, Any]:
    chainrule.set_threads(1)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        return {MACHINE: machine(), "answers": dict(_answers(Path(folder)))}


def _answers(folder: Path) -> Iterator[tuple[str, Any]]:
    for name, model in _models():
        for verb, answer in _of_a_model(model, folder):
            yield f"{name}: {verb}", bits_of(answer)
    network = chainrule.train(FIXTURES / "heldout.txt", chainrule.MaskedConfig(width=16, heads=2, context=16), **_TINY)
    lines = _lines()
    yield "masked: score", bits_of(network.score(lines))
    yield "masked: fill", bits_of(network.fill(f"{lines[0]} [MASK]", 3))
    pairs = chainrule.Pairs(SOURCES, TARGETS)
    for name, config in {
        "Transformer": chainrule.Seq2SeqConfig(width=16, heads=2, encoder_layers=1, decoder_layers=1),
        "LSTM": chainrule.Seq2SeqConfig(width=16, encoder="lstm", decoder="lstm", score="general"),
    }.items():
        model = chainrule.train_pairs(pairs, config, **_TINY)
        yield f"pairs, {name}: score", bits_of(model.score(pairs))
        yield f"pairs, {name}: write", bits_of(model.write(SOURCES[:3], alignments=True, max_tokens=6))
        yield f"pairs, {name}: evaluate", bits_of(model.evaluate(pairs, max_tokens=4))
    labelling = chainrule.train_classifier(texts(), small("lstm"), training=QUICK, **_QUIET)
    inputs = [each.text for each in texts()[:4]]
    yield "labelling: classify", bits_of([found.log_probs for found in labelling.classify(inputs)])
    yield "labelling: assess", bits_of(labelling.assess(texts()))
    yield "labelling: embed", bits_of(labelling.embed(inputs))
    vectors = chainrule.train_vectors(FIXTURES / "train.txt", chainrule.VectorsConfig(dimensions=8, epochs=1), **_QUIET)
    yield "vectors: nearest", bits_of(vectors.nearest("ba", top=3))


_TINY: dict[str, Any] = {"training": STEPS, "tokenizer": "whitespace", **_QUIET}


def _models() -> Iterator[tuple[str, Any]]:
    text = FIXTURES / "train.txt"
    trigram = chainrule.train(text, chainrule.NGramConfig(order=3), tokenizer="whitespace", **_QUIET)
    unigram = chainrule.train(text, chainrule.NGramConfig(order=1), tokenizer="whitespace", **_QUIET)
    yield "trigram", trigram
    backing_off = chainrule.NGramConfig(order=4, smoothing="kneser-ney-backoff", prune=(0, 0, 1))
    yield "pruned 4-gram", chainrule.train(text, backing_off, tokenizer="whitespace", **_QUIET)
    yield "5-gram of bytes", chainrule.train(text, chainrule.NGramConfig(order=5), tokenizer="byte", **_QUIET)
    yield "cache", chainrule.train(text, chainrule.CacheConfig(words=6), tokenizer="whitespace", **_QUIET)
    yield "mixture", chainrule.mix([trigram, unigram], heldout=FIXTURES / "heldout.txt", **_QUIET)
    small_network = chainrule.TransformerConfig(layers=1, width=16, heads=2, context=16)
    yield "Transformer", chainrule.train(text, small_network, **_TINY)
    yield "LSTM", chainrule.train(text, chainrule.RecurrentConfig(layers=1, width=16), **_TINY)


def _of_a_model(model: Any, folder: Path) -> Iterator[tuple[str, Any]]:
    lines = _lines()
    yield "score", model.score([*lines, "", "words it never saw"])
    yield "score, given", model.score([f" {line}" for line in lines], given=lines[0])
    yield "evaluate", model.evaluate(FIXTURES / "heldout.txt", **_QUIET)
    yield "next", model.next(lines[0], 5)
    sampling = chainrule.SamplingConfig(temperature=0.8, top_k=20)
    yield "generate", model.generate(lines[0], 3, sampling, _LIMITS, seed=5, **_QUIET)
    yield "beam", model.beam(lines[0], chainrule.BeamConfig(size=4, best=3), _LIMITS, **_QUIET)
    yield "complete", model.complete(f"{lines[0][:-2]}", 3)
    if hasattr(type(model), "embed"):
        yield "embed", model.embed(lines)
    if model.tokenizer.name == "whitespace":
        wrong = ["".join([line[0], *line[2:]]) for line in lines]
        yield "correct", list(chainrule.correct(chainrule.Lines(wrong), model, **_QUIET))
    yield "rescore", chainrule.rescore(str(_lists(folder)), model, weights={"words": 0.5}, bleu=False, **_QUIET).best


def _lines() -> list[str]:
    return (FIXTURES / "heldout.txt").read_text(encoding="utf-8").splitlines()[:5]


def _lists(folder: Path) -> Path:
    """A file of hypotheses: each line, and the next one in its place."""
    path = folder / "nbest.jsonl"
    records = [
        {
            "id": f"u{i}",
            "hypotheses": [{"text": other, "score": -1.0}, {"text": line, "score": -1.5}],
            "reference": line,
        }
        for i, (line, other) in enumerate(pairwise(_lines()))
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


_LEFT_OUT = ("seconds", "items")  # fields: what differs from run to run, and what repeats the other figures


def bits_of(value: Any) -> Any:
    """An answer as JSON, its floating-point numbers in hexadecimal; seconds are left out."""
    if isinstance(value, float | np.floating):
        return bits(float(value).hex())
    if isinstance(value, np.ndarray):
        if value.size <= _MOST_SHOWN:
            return bits_of(value.tolist())
        data = np.ascontiguousarray(value).tobytes()
        return f"{value.dtype} {list(value.shape)} {bits(hashlib.sha256(data).hexdigest()[:32])}"
    if isinstance(value, str):
        value = re.sub(r"\bv:\d+\.\d+\.\d+$", "v:any", value)  # of signatures
        return text_by_bits(value)  # what is chosen may depend on the last bit of a score
    if value is None or isinstance(value, bool | int | np.integer):
        return value if value is None or isinstance(value, bool) else int(value)
    if dataclasses.is_dataclass(value):
        return {f.name: bits_of(getattr(value, f.name)) for f in dataclasses.fields(value) if f.name not in _LEFT_OUT}
    if hasattr(value, "_asdict"):
        return {name: bits_of(each) for name, each in value._asdict().items() if name != "seconds"}
    if isinstance(value, dict):
        return {str(name): bits_of(each) for name, each in value.items()}
    return [bits_of(each) for each in value]

"""Digests of models and checkpoints, trained tiny with a seed, and what else their files say.

Times, versions, paths and digests of files are masked; arrays count bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from coloured_discs import NETWORK, SMALL, write_scenes
from contract_models import DYNAMIC, MODELS, NEIGHBOURS
from frozen_machine import MACHINE, bits, machine
from labelled_inputs import INPUTS_OF, small
from random_networks import (
    CAPTIONERS,
    DOCUMENT_NETWORKS,
    PAIRS,
    STREAM_NETWORKS,
    random_model,
    random_pair,
    random_tree_model,
)
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch_file
from training_runs import FINE_TUNING, QUICK, RECURRENT, TRANSFORMER, trained

import chainrule
from chainrule.features.classify.network.config import LABELLING, LSTMLabelling
from chainrule.models.families.table import FAMILIES, family_of
from chainrule.neural.config import BidirectionalConfig, MaskedConfig, MaskedRecurrentConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = Path(__file__).parents[1] / "fixtures"
STEPS = chainrule.TrainingConfig(steps=2, batch=2, compile="no", precision="float32", validate_every=1)
EXACT = ("uniform", "ngram")  # families whose arrays are the same on every machine
SOURCES = ["ein hund rennt", "eine katze schläft", "zwei hunde rennen", "ein mann liest"] * 8
TARGETS = ["a dog runs", "a cat sleeps", "two dogs run", "a man reads"] * 8
_TIMES = (
    "trained",
    "seconds",
    "training_seconds",
    "run_seconds",
    "token_seconds",
    "elapsed",
    "total_seconds",
    "earlier_seconds",
)
_PLACES = (
    "command",
    "versions",
    "torch",
    "host",
    "checksum",
    "sha256",
    "machine",
    "log_bytes",
    "mixed",
    "words_per_second",
    "chainrule",
)


def digests() -> dict[str, Any]:
    chainrule.set_threads(1)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        return {
            MACHINE: machine(),
            "engines": dict(_engines()),
            "folders": dict(_folders(Path(folder))),
            "checkpoints": dict(_checkpoints(Path(folder))),
        }


def _engines() -> Iterator[tuple[str, Any]]:
    """What models of the contract tests are taken apart into, but for those that are not saved by themselves."""
    for name, make in MODELS.items():
        if name.startswith("part of") or "with a stream" in name or "KenLM" in name or name in DYNAMIC | NEIGHBOURS:
            continue
        if name in PAIRS | CAPTIONERS:
            weights = random_pair((PAIRS | CAPTIONERS)[name]).network.state_dict()
            yield name, {"arrays": _arrays({key: weight.numpy() for key, weight in weights.items()}, "")}
            continue
        family, engine = _engine(name, make)
        settings, arrays = FAMILIES[family].to_state(engine)
        yield name, {"family": family, "settings": _lines(settings), "arrays": _arrays(arrays, family)}


def _engine(name: str, make: Any) -> tuple[str, Any]:
    """The family of a model, and what is saved of it."""
    networks = DOCUMENT_NETWORKS | STREAM_NETWORKS
    if name in networks:
        return family_of(networks[name]), random_model(networks[name])
    if name == "LSTM of trees":
        return "tree", random_tree_model()
    family = next((each for each in ("uniform", "mixture", "cache") if each in name), "ngram")
    return family, make(FIXTURES / "train.txt")


def _folders(home: Path) -> Iterator[tuple[str, Any]]:
    """Folders of trained models of all kinds."""
    for number, (name, model) in enumerate(_trained_models(home)):
        path = home / f"model{number}"
        model.save(path)
        yield name, folder_record(path)


def _trained_models(home: Path) -> Iterator[tuple[str, Any]]:
    text, options = FIXTURES / "heldout.txt", {"training": STEPS, "tokenizer": "whitespace", "progress": False}
    for order in (1, 3):
        yield (
            f"{order}-gram of {('words', 'bytes')[order > 1]}",
            chainrule.train(text, chainrule.NGramConfig(order=order), tokenizer=("word", "byte")[order > 1]),
        )
    words = [chainrule.train(text, chainrule.NGramConfig(order=order), tokenizer="word") for order in (1, 2)]
    yield "mixture", chainrule.mix(words, heldout=FIXTURES / "train.txt", progress=False)
    for method in ("skipgram", "cbow", "glove"):
        config = chainrule.VectorsConfig(method=method, dimensions=8, epochs=2)
        yield f"vectors, {method}", chainrule.train_vectors(FIXTURES / "train.txt", config, progress=False)
    networks = DOCUMENT_NETWORKS | STREAM_NETWORKS
    for name, config in networks.items():
        # Some need ids of another vocabulary; one with windows and memory cannot be trained.
        if not any(words in name for words in ("begun, with two ends", "pictures", "in a window")):
            yield name, chainrule.train(text, config, **options)
    masked = MaskedConfig(layers=1, width=16, heads=2, context=16)
    yield "masked", chainrule.train(text, masked, **options)
    yield "masked pairs", chainrule.train(text, replace(masked, next_sentence=True, segments=2), **options)
    yield "masked recurrent", chainrule.train(text, MaskedRecurrentConfig(layers=1, width=16, context=16), **options)
    yield "two-sided", chainrule.train(text, BidirectionalConfig(layers=1, width=16, context=16), **options)
    pairs = chainrule.Pairs(SOURCES, TARGETS)
    for name, pair in PAIRS.items():
        yield name, chainrule.train_pairs(pairs, pair, **options)
    brackets = home / "trees.txt"
    brackets.write_text("(S she (VP sees (NP dogs)))\n(S he (VP eats (NP bread)))\n" * 20, encoding="utf-8")
    trees = chainrule.Treebank.of(brackets)
    yield "tree", chainrule.train(trees, chainrule.TreeConfig(layers=1, width=16), validation=trees, **options)
    write_scenes(home)
    scenes = chainrule.read_captions(home / "captions.jsonl")
    for attention in ("soft", "hard"):
        captioner = replace(SMALL, attention=attention)
        yield (
            f"captioner, {attention}",
            chainrule.train_captions(scenes, captioner, encoder=NETWORK, training=STEPS, progress=False),
        )
    for name, network in LABELLING.items():
        examples = INPUTS_OF[network.reads]()[:20]
        learning = chainrule.ClassifierTrainingConfig(epochs=1, batch=8, precision="float32")
        yield f"labelling: {name}", chainrule.train_classifier(examples, small(name), training=learning, progress=False)


def _checkpoints(home: Path) -> Iterator[tuple[str, Any]]:
    """Checkpoints at the end of runs whose model is not saved."""
    masked = MaskedConfig(layers=1, width=16, heads=2, context=8, masks="spans", dropout=0.1)
    runs = {
        "recurrent, averaged": (RECURRENT, replace(QUICK, ema=0.9)),
        "recurrent, asgd": (RECURRENT, replace(QUICK, optimiser="asgd", validate_every=2, patience=1)),
        "transformer": (TRANSFORMER, QUICK),
        "transformer, accumulated": (TRANSFORMER, replace(QUICK, accumulate=2)),
        "masked": (masked, QUICK),
        "fine-tuning": (FINE_TUNING, QUICK),
        "labels from scratch": (LSTMLabelling(width=8, embedding_width=6, directions="both", layers=2), QUICK),
    }
    for number, (name, (config, training)) in enumerate(runs.items()):
        folder = home / f"run{number}"
        trained(config, training, folder=folder)
        yield name, folder_record(folder / "checkpoints")


def folder_record(folder: Path) -> dict[str, Any]:
    """What the files of a folder hold, by name without the digest in it."""
    record: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        name = re.sub(r"-[0-9a-f]{16}\b", "", path.name)
        if path.suffix == ".safetensors":
            config = folder / "config.json"
            family = json.loads(config.read_text(encoding="utf-8"))["family"] if config.exists() else ""
            record[name] = _arrays(_load(path), family)
        elif path.suffix == ".json":
            record[name] = _lines(masked(json.loads(path.read_text(encoding="utf-8"))))
        else:
            record[name] = path.stat().st_size and "text"
    return record


def _load(path: Path) -> dict[str, Any]:
    try:
        return load_file(path)
    except (TypeError, KeyError):  # bfloat16
        return {name: each.view(torch.int16).numpy() for name, each in load_torch_file(path).items()}


def _arrays(arrays: dict[str, Any], family: str) -> dict[str, str]:
    """Type, shape and digest of each array."""
    described = {}
    for name, array in arrays.items():
        array = np.ascontiguousarray(array)
        digest = hashlib.sha256(array.tobytes()).hexdigest()[:32]
        is_exact = family in EXACT or array.dtype.kind not in "fV"
        described[name] = f"{array.dtype} {list(array.shape)} {digest if is_exact else bits(digest)}"
    return described


def masked(value: Any, name: str = "") -> Any:
    """A record without times, versions and paths."""
    if name in (*_TIMES, *_PLACES):
        return "..."
    if isinstance(value, dict):
        return {_without_path(key): masked(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [masked(each) for each in value]
    if isinstance(value, str):
        return re.sub(r"-[0-9a-f]{8,16}\b", "", _without_path(value))
    return value


def _without_path(text: str) -> str:
    return re.sub(r"(?:/[\w.-]+)+/([\w.-]+)", r"\1", text)


def _lines(value: dict[str, Any]) -> list[str]:
    """A record as text, each part from a line of its own on. Marks numbers whose digits depend on the machine."""
    lines = []
    for name, part in value.items():
        inner = part.items() if name == "record" else [("", part)]
        for key, each in inner:
            text = json.dumps(each, ensure_ascii=False, default=str)
            text = re.sub(r"-?\d+\.\d{6,}(?:e-?\d+)?|-?\d+(?:\.\d+)?e-\d+", lambda match: bits(match[0]), text)
            named = f"{name}.{key}: {text}" if key else f"{name}: {text}"
            lines += textwrap.wrap(named, 110, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return lines

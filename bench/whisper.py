"""Whisper beside transformers' pipeline, on the same sounds: texts, word error rates, and seconds.

    python bench/whisper.py WHISPER SAID.tsv [--beams 1 5] [--turns 10]

WHISPER is a folder of transformers. SAID.tsv has the path of a sound and its text in each line; docs/speech.md says how
espeak-ng makes such sounds. Both get the same samples at 16 kHz, and write no times. Seconds are of processor time, on
one thread, in turns of a few sounds, so that a machine's other work falls on both. Those of encoders are measured by
themselves; the rest is the search, with frames and texts.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers
from machine import circumstances

import chainrule
from chainrule.features.metrics.error_rates import WordErrors
from chainrule.features.speech.sounds.sound import read_sound
from chainrule.features.speech.whisper.frames import FrameStream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chainrule.features.speech.sounds.sound import Sound


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("said", type=Path)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--turns", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    print(circumstances(), f"transformers {transformers.__version__}", flush=True)
    lines = [line.split("\t") for line in options.said.read_text(encoding="utf-8").splitlines()]
    references = [text for _, text in lines]
    model = chainrule.load(options.folder)
    sounds = [read_sound(options.said.parent / path, model.network.rate) for path, _ in lines]
    seconds = sum(sound.seconds for sound in sounds)
    print(f"{len(sounds)} sounds, {seconds:.1f} s, {sum(len(text.split()) for text in references)} words")
    pipeline = pipeline_of(options.folder)
    print_encoders(model, pipeline, sounds)
    for beam in options.beams:
        sides: dict[str, Callable[[Sequence[Sound]], list[str]]] = {
            "chainrule": lambda part, beam=beam: ours(model, part, beam),
            "transformers": lambda part, beam=beam: theirs(pipeline, part, beam),
        }
        texts, spent = in_turns(sides, sounds, options.turns)
        same = sum(one == other for one, other in zip(*texts.values(), strict=True))
        print(f"beam {beam}: {same} of {len(sounds)} texts are the same; processor seconds " + shown(spent))
        for name, written in texts.items():
            print(f"  {name}: WER {rate(written, references):.2f} %; in small letters, without signs "
                  f"{rate([plain(text) for text in written], [plain(text) for text in references]):.2f} %")  # fmt: skip
        for one, other in zip(*texts.values(), strict=True):
            if one != other:
                print(f"    {one!r}\n    {other!r}")


def ours(model: Any, sounds: Sequence[Sound], beam: int) -> list[str]:
    options = {"beam": beam, "texts": 1, "timestamps": False, "temperatures": (0,), "no_speech_threshold": None}
    return [heard.text for heard in model.transcribe(sounds, **options)]


def theirs(pipeline: Any, sounds: Sequence[Sound], beam: int) -> list[str]:
    found = []
    for sound in sounds:
        given = {"raw": sound.samples.astype(np.float32), "sampling_rate": sound.rate}
        found.append(pipeline(given, generate_kwargs={"num_beams": beam})["text"].strip())
    return found


def pipeline_of(folder: Path) -> Any:
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    described = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    ids = {token["content"]: token["id"] for token in described["added_tokens"]}
    if getattr(model.generation_config, "no_timestamps_token_id", None) is None:
        model.generation_config.no_timestamps_token_id = ids["<|notimestamps|>"]
    return transformers.pipeline(
        "automatic-speech-recognition",
        model=model,
        tokenizer=transformers.WhisperTokenizerFast.from_pretrained(folder),
        feature_extractor=transformers.WhisperFeatureExtractor.from_pretrained(folder),
    )


def print_encoders(model: Any, pipeline: Any, sounds: Sequence[Sound]) -> None:
    network = model.network
    stream = FrameStream(network.config)
    stream.add(sounds[0].samples)
    frames, _ = stream.end()
    features = torch.from_numpy(frames.T[None].copy())

    @torch.inference_mode()
    def encode(_: Sequence[Sound]) -> list[str]:
        pipeline.model.model.encoder(features)
        return []

    def encode_ours(_: Sequence[Sound]) -> list[str]:
        network.model.given([frames])
        return []

    _, spent = in_turns({"chainrule": encode_ours, "transformers": encode}, sounds, len(sounds))
    print("encoders of as many windows: processor seconds " + shown(spent))


def in_turns(
    sides: dict[str, Callable[[Sequence[Sound]], list[str]]], sounds: Sequence[Sound], turns: int
) -> tuple[dict[str, list[str]], dict[str, float]]:
    """The texts and the processor seconds of each side; what runs first alternates."""
    for side in sides.values():
        side(sounds[:1])
    texts: dict[str, list[str]] = {name: [] for name in sides}
    spent = dict.fromkeys(sides, 0.0)
    size = -(-len(sounds) // turns)
    for turn, first in enumerate(range(0, len(sounds), size)):
        for name in list(sides)[:: 1 if turn % 2 else -1]:
            began = time.process_time()
            texts[name] += sides[name](sounds[first : first + size])
            spent[name] += time.process_time() - began
    return texts, spent


def shown(spent: dict[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.1f}" for name, seconds in spent.items())


def plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9']+", text.lower()))


def rate(texts: Sequence[str], references: Sequence[str]) -> float:
    measure = WordErrors()
    return 100 * float(measure.value(measure.statistics(texts, references).sum(0).astype(float)))


if __name__ == "__main__":
    main()

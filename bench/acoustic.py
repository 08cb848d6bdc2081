"""Encoders of wav2vec 2.0, HuBERT and WavLM beside transformers: processor time; and an hour of sound, and its memory.

    python bench/acoustic.py              # networks of the usual base size, of random numbers
    python bench/acoustic.py --hour       # an hour by a tiny one: time, and memory beyond that of a minute

Both read the same 10 s of noise, in turns, with as many threads as OMP_NUM_THREADS says.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
import wave
from pathlib import Path

import numpy as np
import torch
import transformers
from machine import circumstances

import chainrule

KINDS = ("Wav2Vec2", "Hubert", "WavLM")
TOKENS = ("<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ")
RATE, SECONDS, TURNS = 16_000, 10, 7


def write_model(kind: str, folder: Path, **settings: object) -> None:
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(vocab_size=len(TOKENS), **settings)
    getattr(transformers, f"{kind}ForCTC")(config).save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(TOKENS)}))
    transformers.Wav2Vec2FeatureExtractor().save_pretrained(folder)


def measure(kind: str, folder: Path) -> None:
    """Prints the medians of both, and how much their log-probabilities differ at most."""
    write_model(kind, folder)
    ours = chainrule.load(folder, chainrule.SpeechModel)
    theirs = transformers.AutoModelForCTC.from_pretrained(folder).eval()
    extractor = transformers.Wav2Vec2FeatureExtractor()
    samples = np.random.default_rng(0).normal(0, 0.1, RATE * SECONDS).astype(np.float32)
    sound = chainrule.Sound(samples.astype(float), RATE)

    def by_transformers() -> np.ndarray:
        with torch.inference_mode():
            given = extractor(samples, sampling_rate=RATE, return_tensors="pt").input_values
            return theirs(given).logits[0].log_softmax(-1).numpy()

    readers = {"chainrule": lambda: ours.log_probs(sound), "transformers": by_transformers}
    found = {name: read() for name, read in readers.items()}
    times: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(TURNS):
        for name, read in readers.items():
            began = time.process_time()
            read()
            times[name].append(time.process_time() - began)
    medians = {name: statistics.median(own) for name, own in times.items()}
    ratio = medians["transformers"] / medians["chainrule"]
    shown = ", ".join(f"{name} {own:.2f} s" for name, own in medians.items())
    difference = np.abs(found["chainrule"] - found["transformers"]).max()
    print(f"{kind}: {shown} for {SECONDS} s of sound, {ratio:.2f} times as fast; they differ by {difference:.1e}")


def measure_hour(folder: Path) -> None:
    """Prints the time for an hour of sound, and how much more memory it takes than a minute."""
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    write_model("Wav2Vec2", folder / "model", conv_dim=(16,) * 7, num_conv_pos_embedding_groups=2, **small)
    model = chainrule.load(folder / "model", chainrule.SpeechModel)
    random = np.random.default_rng(0)
    for name, seconds in (("minute", 60), ("hour", 3600)):
        path = folder / f"{name}.wav"
        with wave.open(str(path), "wb") as file:
            file.setnchannels(2)
            file.setsampwidth(2)
            file.setframerate(44_100)
            for _ in range(seconds):
                file.writeframes(random.normal(0, 3000, (44_100, 2)).astype("<i2").tobytes())
        began = time.process_time()
        [heard] = model.transcribe([path], greedy=True)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        spent = time.process_time() - began
        size = path.stat().st_size / 1e6
        print(f"{name} ({size:.0f} MB): {spent:.1f} s, {peak:.0f} MB of memory, {len(heard.text):,} characters")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hour", action="store_true")
    options = parser.parse_args()
    print(circumstances())
    with tempfile.TemporaryDirectory() as folder:
        if options.hour:
            measure_hour(Path(folder))
            return
        for kind in KINDS:
            measure(kind, Path(folder) / kind)


if __name__ == "__main__":
    main()

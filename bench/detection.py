"""Detection: how well samples of models are told from sentences of people, by those models.

    python bench/detection.py --models lm/ small/ --masked masked/ --texts test.txt [--number 150] [--perturbations 20]

Each model writes sentences from nothing, at temperature 1; of these and of the texts, those of 10 to 30 words that end
by themselves are taken. The model that wrote them measures; the masked model makes the perturbations.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from machine import circumstances

import chainrule

LEAST, MOST = 10, 30  # words


def of_usual_length(texts: list[str], number: int) -> list[str]:
    return [text for text in texts if LEAST <= len(text.split()) <= MOST][:number]


def measure(name: str, masked: chainrule.MaskedModel, people: list[str], number: int, perturbations: int) -> None:
    model = chainrule.load(name)
    limits = chainrule.Limits(min_tokens=LEAST, max_tokens=4 * MOST)
    sampled = model.sample("", 4 * number, None, limits, seed=1)
    machine = of_usual_length([text.text for text in sampled if text.ending == "end"], number)
    tokenizer = model.tokenizer  # as the model writes, with its spaces
    human = tokenizer.align(tokenizer.encode_texts(people)).text.tobytes().decode().splitlines()
    for kind, texts in (("people", human), (name, machine)):
        words = np.mean([len(text.split()) for text in texts])
        shares = np.mean([found.ranked.shares for found in chainrule.detect(model, texts)], axis=0)
        print(
            f"{kind}: {len(texts)} texts of {words:.1f} words; "
            f"top 10, 100, 1000, rest: {', '.join(f'{share:.1%}' for share in shares)}"
        )
    measured = chainrule.measure_detection(model, human, machine, masked=masked, perturbations=perturbations)
    for row in measured.to_records():
        print(f"  {row['statistic']}: {row['area']:.3f} ({row['low']:.3f} to {row['high']:.3f} at 95 %)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--masked", required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--number", type=int, default=150)
    parser.add_argument("--perturbations", type=int, default=20)
    given = parser.parse_args()
    print(circumstances())
    masked = chainrule.load(given.masked, chainrule.MaskedModel)
    people = of_usual_length(given.texts.read_text(encoding="utf-8").splitlines(), given.number)
    for name in given.models:
        measure(name, masked, people, given.number, given.perturbations)


if __name__ == "__main__":
    main()

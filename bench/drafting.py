"""Drafts: tokens a second with and without them, for texts that copy their prompt, and texts like a corpus.

    python bench/drafting.py MODEL [--like TEXT] [--tokens N] [--rounds N] [--texts N] [--compact]

MODEL: a Transformer, better one that was tuned on instructions. Copies: it is to repeat each of some paragraphs. Like a
corpus: with --like, the n-gram model of MODEL's own answers to all lines of TEXT but the last --texts ones, which are
the prompts that are measured: what a server has written is what it will write. Runs take turns; ratios are of
the least processor times, which other programs disturb less. Every text is compared with the undrafted one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from machine import circumstances

import chainrule
from chainrule.decoding.config import GREEDY

if TYPE_CHECKING:
    from collections.abc import Sequence

_PARAGRAPHS = (
    "The lighthouse of Grindel Point was built in 1850 from grey granite, and its keeper, Gilbert Pendleton, lit ten "
    "lamps every evening with whale oil. In 1934 the state switched it off; in 1987 the town lit it again.",
    "To reset the pump, close valve B4, wait for ninety seconds, and press the green switch twice. If the lamp blinks, "
    "note the number on the display, 311 or 317, and call the workshop in Leer before you open the lid.",
    "Member states shall bring into force the laws, regulations and administrative provisions necessary to comply with "
    "this directive by 30 June 2027, and shall forthwith inform the Commission of the text of those provisions.",
)


def seconds() -> tuple[float, float]:
    """By the clock, and of the processor."""
    times = os.times()
    return time.perf_counter(), times.user + times.system


def run(
    model: chainrule.CausalModel, prompts: Sequence[str], tokens: int, drafting: chainrule.Drafting | None
) -> tuple[list[str], int, float, float]:
    """Texts, their tokens, and what they took."""
    limits = chainrule.Limits(max_tokens=tokens, min_tokens=tokens)
    began = seconds()
    texts = [model.sample(prompt, 1, GREEDY, limits, seed=1, draft=drafting)[0] for prompt in prompts]
    clock, processor = (after - before for before, after in zip(began, seconds(), strict=True))
    return [text.text for text in texts], sum(len(text.tokens) for text in texts), clock, processor


def compare(
    name: str,
    model: chainrule.CausalModel,
    prompts: Sequence[str],
    drafters: dict[str, str | chainrule.Model],
    tokens: int,
    rounds: int,
) -> None:
    speeds: dict[str, list[float]] = {way: [] for way in ("undrafted", *drafters)}
    times: dict[str, list[float]] = {way: [] for way in speeds}
    accepted: dict[str, str] = {}
    plain: list[str] = []
    for _ in range(rounds):
        for way in speeds:
            drafting = None if way == "undrafted" else chainrule.Drafting(drafters[way])
            texts, count, clock, processor = run(model, prompts, tokens, drafting)
            plain = plain or texts
            assert texts == plain, f"{name}, {way}: other texts"
            speeds[way].append(count / clock)
            times[way].append(processor)
            if drafting is not None:
                accepted[way] = f"{drafting.accepted} of {drafting.drafted} right, {drafting.passes} passes"
    print(f"{name}: undrafted {statistics.median(speeds['undrafted']):.1f} tokens/s", flush=True)
    for way in drafters:
        ratio = min(times["undrafted"]) / min(times[way])
        print(
            f"  {way}: {statistics.median(speeds[way]):.1f} tokens/s; {ratio:.2f} times as fast by processor time; "
            f"{accepted[way]}; the same texts",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--like", type=Path)
    parser.add_argument("--tokens", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--texts", type=int, default=3)
    parser.add_argument("--compact", action="store_true")
    args = parser.parse_args()
    print(circumstances())
    with tempfile.TemporaryDirectory() as folder:
        if args.compact:
            chainrule.convert(args.model, Path(folder) / "compact", compact=True)
        model = chainrule.load(Path(folder) / "compact" if args.compact else args.model, chainrule.CausalModel)
        run(model, ["a"], 4, chainrule.Drafting("ngram"))  # compiles
        copies = [f"Repeat this paragraph.\n\n{text}\n\nThe paragraph again:\n\n" for text in _PARAGRAPHS]
        compare("copying", model, copies, {"prompt": "prompt", "ngram": "ngram"}, args.tokens, args.rounds)
        others = ["The harbour was quiet when", "My three favourite numbers are", "Dear Sir or Madam,"]
        compare("nothing to copy", model, others, {"prompt": "prompt", "ngram": "ngram"}, args.tokens, args.rounds)
        if args.like is not None:
            prompts = args.like.read_text().splitlines()
            earlier, rest = prompts[: -args.texts], prompts[-args.texts :]
            limits = chainrule.Limits(max_tokens=args.tokens, min_tokens=args.tokens)
            written = model.decoder.sample_each(earlier, 1, GREEDY, limits, seed=1)
            model.save(Path(folder) / "tokens")
            corpus = Path(folder) / "written.jsonl"
            corpus.write_text("".join(json.dumps({"text": text.text}) + "\n" for text in written))
            drafter = chainrule.train(corpus, chainrule.NGramConfig(order=5), tokenizer=str(Path(folder) / "tokens"))
            compare("like what it wrote", model, rest, {"an n-gram model": drafter}, args.tokens, args.rounds)


if __name__ == "__main__":
    main()

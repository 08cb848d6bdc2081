"""Drafts: tokens a second with and without them, for texts that copy their prompt, and texts like a corpus.

    python bench/drafting.py MODEL [--tokens N] [--rounds N] [--compact]

MODEL: a Transformer, better one that was tuned on instructions; greedy, and drawn at temperature 0.7. Copying: it goes
on with a paragraph that its prompt has twice, to the paragraph's end, as edits and quotations do. Like a corpus: the
n-gram model of MODEL's own answers to questions about things, on the same questions about other things: what a server
has written is what it will write. Nothing to copy: a few beginnings.

Runs take turns. Times are those of texts less those of their prompts and first tokens; ratios are of the least
processor times, which other programs disturb less. Every text is compared with the undrafted one.
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
from chainrule.decoding.config import GREEDY, SamplingConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Write = Callable[[SamplingConfig, chainrule.Drafting | None, int | None], list[str]]

_PARAGRAPHS = (
    "The lighthouse of Grindel Point was built in 1850 from grey granite, and its keeper, Gilbert Pendleton, lit ten "
    "lamps every evening with whale oil. In 1934 the state switched it off; in 1987 the town lit it again.",
    "To reset the pump, close valve B4, wait for ninety seconds, and press the green switch twice. If the lamp blinks, "
    "note the number on the display, 311 or 317, and call the workshop in Leer before you open the lid.",
    "Member states shall bring into force the laws, regulations and administrative provisions necessary to comply with "
    "this directive by 30 June 2027, and shall forthwith inform the Commission of the text of those provisions.",
)


DRAWN = SamplingConfig(temperature=0.7)
_BEGINNINGS = ("The harbour was quiet when", "My three favourite numbers are", "Dear Sir or Madam,")
_QUESTIONS = (
    "What is a {} used for?",
    "Where can I buy a {}, and what should I look for?",
    "How do I clean a {}?",
    "Write a short product description of a {}.",
)
_THINGS = (
    *(
        "kettle",
        "ladder",
        "telescope",
        "bicycle",
        "typewriter",
        "compass",
        "lantern",
        "violin",
        "toaster",
        "sewing machine",
    ),
    *(
        "lawn mower",
        "microscope",
        "hammer",
        "drum",
        "fountain pen",
        "camera",
        "wheelbarrow",
        "radio",
        "mirror",
        "saddle",
    ),
    *("barometer", "piano", "printer", "kayak", "raincoat", "blender", "helmet", "screwdriver", "tent", "wristwatch"),
    *(
        "stove",
        "fishing rod",
        "guitar",
        "backpack",
        "flashlight",
        "calculator",
        "vacuum cleaner",
        "loom",
        "anvil",
        "sled",
    ),
)
_NEW = ("corkscrew", "snow shovel", "harmonica")  # of which the corpus has nothing


def questions(things: Sequence[str]) -> list[str]:
    """All questions about some things."""
    return [question.format(thing) for thing in things for question in _QUESTIONS]


def seconds() -> tuple[float, float]:
    """By the clock, and of the processor."""
    times = os.times()
    return time.perf_counter(), times.user + times.system


def continuations(model: chainrule.CausalModel, prompts: Sequence[tuple[str, int]]) -> Write:
    """What goes on with each prompt, in so many tokens."""

    def write(config: SamplingConfig, draft: chainrule.Drafting | None, most: int | None) -> list[str]:
        lengths = [most or tokens for _, tokens in prompts]
        limits = [chainrule.Limits(max_tokens=tokens, min_tokens=tokens) for tokens in lengths]
        return [
            model.sample(prompt, 1, config, own, seed=1, draft=draft)[0].text[len(prompt) :]
            for (prompt, _), own in zip(prompts, limits, strict=True)
        ]

    return write


def answers(model: chainrule.CausalModel, asked: Sequence[str], tokens: int) -> Write:
    """The answers to questions, of at most so many tokens."""

    def write(config: SamplingConfig, draft: chainrule.Drafting | None, most: int | None) -> list[str]:
        chat, limits = model.chat_model_with(None, draft), chainrule.Limits(max_tokens=most or tokens)
        return [
            "".join(chat.answer([{"role": "user", "content": question}], config, limits, seed=1)) for question in asked
        ]

    return write


def compare(
    name: str, model: chainrule.CausalModel, write: Write, drafters: dict[str, str | chainrule.Model], rounds: int
) -> None:
    for config, choice in ((GREEDY, "greedy"), (DRAWN, "drawn")):
        speeds: dict[str, list[float]] = {way: [] for way in ("undrafted", *drafters)}
        times: dict[str, list[float]] = {way: [] for way in speeds}
        accepted: dict[str, str] = {}
        plain: list[str] = []
        for _ in range(rounds):
            for way in speeds:
                drafting = None if way == "undrafted" else chainrule.Drafting(drafters[way])
                began = seconds()
                write(config, None, 1)
                middle = seconds()
                texts = write(config, drafting, None)
                marks = zip(began, middle, seconds(), strict=True)
                clock, processor = (end - middle - (middle - begin) for begin, middle, end in marks)
                plain = plain or texts
                assert texts == plain, f"{name}, {way}: other texts"
                tokens = sum(tokenized.ids.size - 1 for tokenized in map(model.tokenizer.encode_texts, zip(texts)))
                speeds[way].append(tokens / clock)
                times[way].append(processor)
                if drafting is not None:
                    accepted[way] = f"{drafting.accepted} of {drafting.drafted} right, {drafting.passes} passes"
        print(f"{name}, {choice}: undrafted {statistics.median(speeds['undrafted']):.1f} tokens/s", flush=True)
        for way in drafters:
            ratio = min(times["undrafted"]) / min(times[way])
            print(
                f"  {way}: {statistics.median(speeds[way]):.1f} tokens/s; {ratio:.2f} times as fast by processor time; "
                f"{accepted[way]}; the same texts",
                flush=True,
            )


def copies(model: chainrule.CausalModel) -> list[tuple[str, int]]:
    """A paragraph twice, and its first words, to go on with until it ends; the tokens of its end."""
    prompts = []
    for paragraph in _PARAGRAPHS:
        first, rest = " ".join(paragraph.split()[:4]), " ".join(paragraph.split()[4:])
        tokens = model.tokenizer.encode_texts([" " + rest]).ids.size - 1
        prompts.append((f"{paragraph}\n\n{paragraph}\n\n{first}", int(tokens)))
    return prompts


def answered(model: chainrule.CausalModel, tokens: int, folder: Path) -> chainrule.Model:
    """The n-gram model of the answers to all questions about what is old."""
    written = answers(model, questions(_THINGS), tokens)(DRAWN, None, None)
    model.save(folder / "tokens")
    corpus = folder / "written.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in written))
    return chainrule.train(corpus, chainrule.NGramConfig(order=5), tokenizer=str(folder / "tokens"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compact", action="store_true")
    args = parser.parse_args()
    print(circumstances(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        if args.compact:
            chainrule.convert(args.model, Path(folder) / "compact", compact=True)
        model = chainrule.load(Path(folder) / "compact" if args.compact else args.model, chainrule.CausalModel)
        continuations(model, [("a", 4)])(GREEDY, chainrule.Drafting("ngram"), None)  # compiles
        by_text: dict[str, str | chainrule.Model] = {"prompt": "prompt", "ngram": "ngram"}
        compare("copying", model, continuations(model, copies(model)), by_text, args.rounds)
        others = [(text, args.tokens) for text in _BEGINNINGS]
        compare("nothing to copy", model, continuations(model, others), by_text, args.rounds)
        drafter = answered(model, args.tokens, Path(folder))
        asked = answers(model, questions(_NEW), args.tokens)
        compare("like a corpus", model, asked, {"an n-gram model": drafter, "prompt": "prompt"}, args.rounds)


if __name__ == "__main__":
    main()

"""Drafts: tokens a second with and without them, for texts that copy their prompt, and texts like a corpus.

    python bench/drafting.py MODEL [--tokens N] [--rounds N] [--compact] [--exact] [--cases CASE ...] [--things N]

MODEL: a Transformer, better one that was tuned on instructions; greedy, and drawn at temperature 0.7. Copying: it goes
on with a paragraph that its prompt has twice, to the paragraph's end, as edits and quotations do. Like a corpus: the
n-gram model of MODEL's own answers to questions about 40 things, or 160, on the same questions about other things: what
a server has written is what it will write. Nothing to copy: a few beginnings. Passes: over one token and over several.

Runs take turns. Times are those of texts less those of their prompts and first tokens; ratios are of the sums of each
text's least processor times, which other programs disturb less. Every text is compared with the undrafted one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from machine import circumstances

import chainrule
from chainrule.decoding.config import GREEDY, SamplingConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Write = Callable[[SamplingConfig, chainrule.Drafting | None, int | None], Iterator[str]]

_PARAGRAPHS = (
    "The lighthouse of Grindel Point was built in 1850 from grey granite, and its keeper, Gilbert Pendleton, lit ten "
    "lamps every evening with whale oil. In 1934 the state switched it off; in 1987 the town lit it again.",
    "To reset the pump, close valve B4, wait for ninety seconds, and press the green switch twice. If the lamp blinks, "
    "note the number on the display, 311 or 317, and call the workshop in Leer before you open the lid.",
    "Member states shall bring into force the laws, regulations and administrative provisions necessary to comply with "
    "this directive by 30 June 2027, and shall forthwith inform the Commission of the text of those provisions.",
)


DRAWN = SamplingConfig(temperature=0.7)
_CASES = ("passes", "copying", "nothing", "corpus")
_BEGINNINGS = ("The harbour was quiet when", "My three favourite numbers are", "Dear Sir or Madam,")
_QUESTIONS = (
    "What is a {} used for?",
    "Where can I buy a {}, and what should I look for?",
    "How do I clean a {}?",
    "Write a short product description of a {}.",
)
_THINGS = (
    """
kettle, ladder, telescope, bicycle, typewriter, compass, lantern, violin, toaster, sewing machine, lawn mower,
microscope, hammer, drum, fountain pen, camera, wheelbarrow, radio, mirror, saddle, barometer, piano, printer, kayak,
raincoat, blender, helmet, screwdriver, tent, wristwatch, stove, fishing rod, guitar, backpack, flashlight,
calculator, vacuum cleaner, loom, anvil, sled, spoon, fork, bucket, broom, mop, vacuum flask, teapot, frying pan,
saucepan, whisk, cutting board, rolling pin, pepper mill, toothbrush, hairbrush, comb, razor, towel, soap dish, shower
head, bathtub, sink, faucet, doorbell, lock, padlock, key ring, hinge, saw, drill, wrench, pliers, chisel, axe,
shovel, rake, hoe, garden hose, watering can, greenhouse, bird feeder, hammock, lawn chair, parasol, umbrella, scarf,
glove, hat, belt, wallet, handbag, suitcase, briefcase, sleeping bag, lantern stand, binoculars, magnifying glass,
globe, atlas, notebook, pencil, eraser, stapler, scissors, ruler, protractor, abacus, keyboard, mouse pad, monitor,
headphones, microphone, loudspeaker, record player, tape recorder, trumpet, trombone, flute, clarinet, saxophone,
harp, cello, banjo, ukulele, accordion, tambourine, xylophone, bagpipe, chess set, dart board, tennis racket, golf
club, baseball bat, hockey stick, skateboard, roller skate, surfboard, snowboard, ski, canoe, paddle, anchor, life
jacket, buoy, sextant, sundial, hourglass, alarm clock, pendulum clock, thermometer, hygrometer, scale, tape measure,
spirit level, ladle, colander, grater, tin opener, waffle iron, coffee grinder
""".strip()
    .replace("\n", " ")
    .split(", ")
)
_NEW = ("corkscrew", "snow shovel", "harmonica")  # of which the corpus has nothing


def questions(things: Sequence[str]) -> list[str]:
    """All questions about some things."""
    return [question.format(thing) for thing in things for question in _QUESTIONS]


def timed(texts: Iterator[str]) -> list[tuple[str, float, float]]:
    """Each text, and the seconds that it took by the clock and of the processor."""
    written, marks = [], (time.perf_counter(), time.process_time())
    for text in texts:
        now = time.perf_counter(), time.process_time()
        written.append((text, now[0] - marks[0], now[1] - marks[1]))
        marks = now
    return written


def continuations(model: chainrule.CausalModel, prompts: Sequence[tuple[str, int]]) -> Write:
    """What goes on with each prompt, in so many tokens."""

    def write(config: SamplingConfig, draft: chainrule.Drafting | None, most: int | None) -> Iterator[str]:
        lengths = [most or tokens for _, tokens in prompts]
        limits = [chainrule.Limits(max_tokens=tokens, min_tokens=tokens) for tokens in lengths]
        for (prompt, _), own in zip(prompts, limits, strict=True):
            yield model.sample(prompt, 1, config, own, seed=1, draft=draft)[0].text[len(prompt) :]

    return write


def answers(model: chainrule.CausalModel, asked: Sequence[str], tokens: int) -> Write:
    """The answers to questions, of at most so many tokens."""

    def write(config: SamplingConfig, draft: chainrule.Drafting | None, most: int | None) -> Iterator[str]:
        chat, limits = model.chat_model_with(None, draft), chainrule.Limits(max_tokens=most or tokens)
        for question in asked:
            yield "".join(chat.answer([{"role": "user", "content": question}], config, limits, seed=1))

    return write


def passes(model: chainrule.CausalModel, rounds: int) -> None:
    """The least processor time of passes over one token and over several, after a hundred."""
    reader, clock = model.language_model, time.thread_time
    tokens = np.random.default_rng(1).integers(10, reader.vocabulary_size, 160).astype(np.int32)
    state = reader.read_ahead(reader.start([tokens[:100]]), tokens[100:101])[0]
    times: dict[int, list[float]] = {size: [] for size in (1, 2, 3, 4, 6, 8, 12, 16)}
    for _ in range(8 * rounds):
        for size, own in times.items():
            began = clock()
            reader.read_ahead(state, tokens[120 : 120 + size])
            own.append(1000 * (clock() - began))
            reader.forget_ahead(state)
    least = {size: min(own) for size, own in times.items()}
    parts = [f"{size} {own:.2f} ({own / least[1]:.2f})" for size, own in least.items()]
    print(f"milliseconds of a pass by its tokens (of one): {', '.join(parts)}", flush=True)


def compare(
    name: str, model: chainrule.CausalModel, write: Write, drafters: dict[str, str | chainrule.Model], rounds: int
) -> None:
    for config, choice in ((GREEDY, "greedy"), (DRAWN, "drawn")):
        speeds: dict[str, list[float]] = {way: [] for way in ("undrafted", *drafters)}
        times: dict[str, list[list[float]]] = {way: [] for way in ("first tokens", *speeds)}  # of each round and text
        accepted: dict[str, str] = {}
        plain: list[str] = []
        for _ in range(rounds):
            for way in speeds:
                drafting = None if way == "undrafted" else chainrule.Drafting(drafters[way])
                firsts, whole = timed(write(config, None, 1)), timed(write(config, drafting, None))
                texts = [text for text, _, _ in whole]
                plain = plain or texts
                assert texts == plain, f"{name}, {way}: other texts"
                tokens = sum(tokenized.ids.size - 1 for tokenized in map(model.tokenizer.encode_texts, zip(texts)))
                clock = sum(own[1] for own in whole) - sum(own[1] for own in firsts)
                speeds[way].append(tokens / clock)
                times["first tokens"].append([own[2] for own in firsts])
                times[way].append([own[2] for own in whole])
                if drafting is not None:
                    accepted[way] = f"{drafting.accepted} of {drafting.drafted} right, {drafting.passes} passes"
        least = {way: sum(map(min, zip(*own, strict=True))) for way, own in times.items()}
        print(f"{name}, {choice}: undrafted {statistics.median(speeds['undrafted']):.1f} tokens/s", flush=True)
        for way in drafters:
            ratio = (least["undrafted"] - least["first tokens"]) / (least[way] - least["first tokens"])
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


def answered(model: chainrule.CausalModel, things: int, tokens: int, folder: Path) -> chainrule.Model:
    """The n-gram model of the answers to all questions about some of what is old."""
    written = answers(model, questions(_THINGS[:things]), tokens)(DRAWN, None, None)
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
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--cases", nargs="+", choices=_CASES, default=_CASES)
    parser.add_argument("--things", type=int, default=40, help="of which the corpus tells, at most 160")
    args = parser.parse_args()
    print(circumstances(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "compact" if args.compact else args.model
        if args.compact:
            chainrule.convert(args.model, path, compact=True)
        model = chainrule.load(path, chainrule.CausalModel, exact=args.exact)
        list(continuations(model, [("a", 4)])(GREEDY, chainrule.Drafting("ngram"), None))  # compiles
        if "passes" in args.cases:
            passes(model, args.rounds)
        by_text: dict[str, str | chainrule.Model] = {"prompt": "prompt", "ngram": "ngram"}
        if "copying" in args.cases:
            compare("copying", model, continuations(model, copies(model)), by_text, args.rounds)
        if "nothing" in args.cases:
            others = [(text, args.tokens) for text in _BEGINNINGS]
            compare("nothing to copy", model, continuations(model, others), by_text, args.rounds)
        if "corpus" in args.cases:
            drafter = answered(model, args.things, args.tokens, Path(folder))
            asked = answers(model, questions(_NEW), args.tokens)
            compare("like a corpus", model, asked, {"an n-gram model": drafter, "prompt": "prompt"}, args.rounds)


if __name__ == "__main__":
    main()

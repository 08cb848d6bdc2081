"""Correction: single words against Norvig's functions, running text with JamSpell's typing errors, schoolchildren's
texts, learners' sentences, scanned pages.

    python bench/correction.py words --counts big_words.txt.gz --errors birkbeck.dat.gz
    python bench/correction.py sentences --text novels.txt --output sentences.txt
    python bench/correction.py text --model lm/ --text sherlockholmes.txt.gz --train sentences.txt

`words`: misspellings of nine tenths of the right words (by word, seed 0) teach the channel; those of the others are
corrected without context. counts: `word count` lines. errors: `$right`, then its misspellings, a line each.

`text`: JamSpell's protocol. Text is put in lower case, and only a to z and the ends of sentences are left; a word of n
letters goes wrong with probability 1 - 0.97^n (twice with a fifth of that), by a random letter in the place of one
(0.7), one put in, one lost, or two swapped (0.1 each). model: an n-gram model of such sentences;
`sentences` writes them.
train: sentences whose words teach the channel, with errors by the same rules and another seed.

    python bench/correction.py holbrook --model lm/ --text holbrook-tagged.dat.gz --errors birkbeck.dat.gz

`holbrook`: errors marked in context, normalised as in `text`, with the same model. Every second page is corrected with
what the others teach the channel, together with those of `errors` that are nowhere in the text. Without context, a word
becomes what it meant likeliest by channel and unigram; Norvig's functions have the same words and frequencies.
Intervals draw pages. Rates, weight and threshold are tuned, and probabilities calibrated, on
the other pages.

    python bench/correction.py tokens --text novels/train.txt --output tokens.txt
    chainrule train ngram tokens.txt -o lm/ --tokenizer whitespace --vocabulary-min-count 2
    python bench/correction.py jfleg --model lm/ --jfleg jfleg/ --errors birkbeck.dat.gz --inflections infl.txt.gz

`jfleg`: GLEU of JFLEG's sentences, a line of tokens each, with dev.src.gz, dev.spellchecked.src.gz and dev.ref0.gz to
dev.ref3.gz. model: an n-gram model of text cut into tokens as there, which `tokens` writes. Words known are the model's
and those of `inflections` (AGID); errors teach the channel of letters. Learned rates of grammar are those of the
even sentences for the odd ones, and of the odd ones for the even ones. corrector: a folder of `train seq2seq`.
With rescore-by, a second model weighs the beam's best ways, and only that is measured.

    python bench/correction.py printed --text novels/train.txt --output printed.txt
    chainrule train ngram printed.txt -o lm/ --tokenizer word --vocabulary-min-count 2
    python bench/correction.py pages --text novels/train.txt --output train.jsonl --pages 40 --seed 2
    python bench/correction.py pages --text novels/test.txt --output test.jsonl --pages 24
    python bench/correction.py ocr --model lm/ --pages test.jsonl --train train.jsonl

`ocr`: pages of novels, printed, blurred, with noise, and read by tesseract (Debian's tesseract-ocr and
tesseract-ocr-eng), which `pages` does; quotes and dashes count alike in all shapes. The channel is learned on other
pages, and its settings are tuned there. `printed` writes the text as a page has it. Intervals draw pages.
"""

from __future__ import annotations

import argparse
import bisect
import random
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from holbrook import measure_holbrook
from machine import circumstances
from misspellings import LETTERS, birkbeck_pairs, norvigs_choice, read
from ocr_pages import Scan, measure_ocr, paragraphs_of, write_pages

import chainrule
from chainrule.features.correct.channel.inflections import read_inflections
from chainrule.features.correct.channel.learning import learn_channel
from chainrule.features.correct.correct import _log_priors
from chainrule.features.correct.corrector.error_models import WordErrorModel
from chainrule.features.correct.corrector.word_index import WordIndex
from chainrule.features.correct.measures import measure_corrections

_PAIRS = 60_000
_RATE = 0.12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    words = parts.add_parser("words")
    words.add_argument("--counts", type=Path, required=True)
    words.add_argument("--errors", type=Path, required=True)
    text = parts.add_parser("text")
    text.add_argument("--model", type=Path, required=True)
    text.add_argument("--text", type=Path, required=True)
    text.add_argument("--train", type=Path, required=True)
    text.add_argument("--sentences", type=int, help="the first ones only")
    text.add_argument("--beam", type=int, default=4)
    text.add_argument("--candidates", type=int, default=6)
    holbrook = parts.add_parser("holbrook")
    for name in ("--model", "--text", "--errors"):
        holbrook.add_argument(name, type=Path, required=True)
    jfleg = parts.add_parser("jfleg")
    for name in ("--model", "--jfleg", "--errors", "--inflections"):
        jfleg.add_argument(name, type=Path, required=True)
    jfleg.add_argument("--corrector", type=Path)
    jfleg.add_argument("--corrector-weight", type=float, default=0.1)
    jfleg.add_argument("--rescore-by", type=Path)
    jfleg.add_argument("--rescore-weight", type=float, default=0.5)
    pages = parts.add_parser("pages")
    for name in ("--text", "--output"):
        pages.add_argument(name, type=Path, required=True)
    pages.add_argument("--pages", type=int, default=24)
    pages.add_argument("--seed", type=int, default=1)
    pages.add_argument("--font", type=Path, default=Path("/usr/share/fonts/truetype/dejavu/DejaVuSerif.ttf"))
    pages.add_argument("--scan", type=float, nargs=5, metavar=("SIZE", "BLUR", "NOISE", "FADE", "DEGREES"))
    ocr = parts.add_parser("ocr")
    for name in ("--model", "--pages", "--train"):
        ocr.add_argument(name, type=Path, required=True)
    printed = parts.add_parser("printed")
    for name in ("--text", "--output"):
        printed.add_argument(name, type=Path, required=True)
    tokens = parts.add_parser("tokens")
    tokens.add_argument("--text", type=Path, required=True)
    tokens.add_argument("--output", type=Path, required=True)
    sentences = parts.add_parser("sentences")
    sentences.add_argument("--text", type=Path, required=True)
    sentences.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    if args.part == "sentences":
        args.output.write_text("".join(" ".join(line) + "\n" for line in normalised_sentences(read(args.text))))
        return
    if args.part == "tokens":
        args.output.write_text(cut_endings(read(args.text)))
        return
    if args.part == "printed":
        args.output.write_text(paragraphs_of(read(args.text).splitlines()))
        return
    if args.part == "pages":
        scan = Scan() if args.scan is None else Scan(int(args.scan[0]), *args.scan[1:])
        write_pages(read(args.text).splitlines(), args.output, args.font, scan, args.pages, args.seed)
        return
    print(circumstances())
    if args.part == "ocr":
        measure_ocr(args.model, args.pages, args.train)
    elif args.part == "jfleg":
        measure_jfleg(args)
    elif args.part == "holbrook":
        measure_holbrook(args.model, args.text, args.errors)
    elif args.part == "words":
        measure_words(args.counts, args.errors)
    else:
        config = chainrule.CorrectionConfig(beam=args.beam, candidates=args.candidates)
        measure_text(args.model, args.text, args.train, args.sentences, config)


def measure_words(counts_file: Path, errors_file: Path) -> None:
    counts = {word: int(count) for word, count in (line.split() for line in read(counts_file).splitlines())}
    pairs = birkbeck_pairs(errors_file)
    rights = sorted({right for _, right in pairs})
    random.Random(0).shuffle(rights)
    held_out = set(rights[: len(rights) // 10])
    test = [pair for pair in pairs if pair[1] in held_out]
    channel = learn_channel([pair for pair in pairs if pair[1] not in held_out])
    total = sum(counts.values())
    index = WordIndex({word: float(np.log(count / total)) for word, count in counts.items()})
    errors = WordErrorModel(channel, 0.9)  # what is given is known to be wrong, mostly
    wrong = [pair[0] for pair in test]
    index.candidates_for(wrong[:9], errors, 1)
    began = time.perf_counter()
    best = [
        row[0].word if row else word for row, word in zip(index.candidates_for(wrong, errors, 1), wrong, strict=True)
    ]
    seconds = time.perf_counter() - began
    near = index._near.within(wrong, [2] * len(wrong))
    began = time.perf_counter()
    index._near.within(wrong, [2] * len(wrong))
    looking = time.perf_counter() - began
    norvig = [norvigs_choice(word, counts, index, near.words[near.of(i)].tolist()) for i, word in enumerate(wrong)]
    print(f"{len(test):,} misspellings of {len(held_out):,} words; {len(counts):,} words known")
    for name, chosen in (("chainrule", best), ("Norvig's functions", norvig)):
        share = np.mean([one == right for one, (_, right) in zip(chosen, test, strict=True)])
        print(f"{name:20} {share:.1%}")
    print(f"not among the words known: {np.mean([right not in counts for _, right in test]):.1%}")
    print(f"{len(test) / seconds:,.0f} words/s; all words within distance 2: {1e6 * looking / len(test):.1f} us a word")


def normalised_sentences(text: str) -> list[list[str]]:
    """Lower case; letters and the ends of sentences alone."""
    cleaned = re.sub("[.?!]", " . ", re.sub("[^a-z.?!]", " ", text.lower()))
    return [words for words in (sentence.split() for sentence in cleaned.split(".")) if words]


def misspell(word: str, rng: random.Random) -> str:
    """JamSpell's errors."""
    chance, needed = rng.random(), 1 - 0.97 ** len(word)
    for _ in range((chance < needed) + (chance < 0.2 * needed)):
        kind = bisect.bisect([0.7, 0.8, 0.9, 1.0], rng.random())
        if kind == 1:
            at = rng.randint(0, len(word))
            word = word[:at] + rng.choice(LETTERS) + word[at:]
            continue
        if not word:
            continue
        at = rng.randint(0, len(word) - 1)
        if kind == 0:
            word = word[:at] + rng.choice(LETTERS) + word[at + 1 :]
        elif kind == 2:
            word = word[:at] + word[at + 1 :]
        else:
            distance = bisect.bisect([0.8, 0.95, 0.99, 1.0], rng.random()) + 1
            first = max(0, at - distance // 2)
            last = min(len(word) - 1, first + distance)
            letters = list(word)
            letters[first], letters[last] = letters[last], letters[first]
            word = "".join(letters)
    return word


def measure_text(model: Path, text: Path, train: Path, most: int | None, config: chainrule.CorrectionConfig) -> None:
    rng = random.Random(1)
    pairs: list[tuple[str, str]] = []
    for line in read(train).splitlines():
        pairs += [(wrong, word) for word in line.split() if (wrong := misspell(word, rng)) not in (word, "")]
        if len(pairs) >= _PAIRS:
            break
    channel = learn_channel(pairs[:_PAIRS], rounds=4)
    rng = random.Random(42)
    right = normalised_sentences(read(text))[:most]
    wrong = [[misspell(word, rng) for word in sentence] for sentence in right]
    lm = chainrule.load(model)
    chainrule.corrector(lm, channel, rate=_RATE, config=config).correct(["teh"])  # compiles
    corrector = chainrule.corrector(lm, channel, rate=_RATE, config=config)
    began = time.perf_counter()
    lines = [" ".join(sentence) for sentence in wrong]
    corrected = [one for i in range(0, len(lines), 256) for one in corrector.correct(lines[i : i + 256])]
    seconds = time.perf_counter() - began
    words = errors = left = fixed = broken = 0
    for meant, given, one in zip(right, wrong, corrected, strict=True):
        result = _by_word(given, one.changes)
        for word, seen, now in zip(meant, given, result, strict=True):
            words += 1
            errors += seen != word
            left += now != word
            fixed += seen != word and now == word
            broken += seen == word and now != word
    print(f"{words:,} words, {errors / words:.2%} of them wrong; order {lm.language_model.order} from {model.name}")
    print(f"errors left {left / words:.2%}, fixed {fixed / errors:.2%}, broken {broken / (words - errors):.2%}")
    print(f"{words / seconds:,.0f} words/s")


def cut_endings(text: str) -> str:
    """Text of tokens with endings cut off, and hyphens not: do n't, John 's, well-known."""
    text = re.sub(r"(?i)(?<=\w)(n't|'(?:s|ll|re|ve|d|m))(?=\s|$)", r" \1", text)
    return re.sub(r"(\w) - (\w)", r"\1-\2", text)


def measure_jfleg(args: argparse.Namespace) -> None:
    lines = {name: read(args.jfleg / f"dev.{name}.gz").splitlines() for name in ("src", "spellchecked.src")}
    texts = lines["src"]
    references = [read(args.jfleg / f"dev.ref{i}.gz").splitlines() for i in range(4)]
    model = chainrule.load(args.model)
    with tempfile.TemporaryDirectory() as folder:
        inflections = Path(folder, "inflections.txt")
        inflections.write_text(read(args.inflections))
        known = {word: float(np.exp(log_prob)) for word, log_prob in _log_priors(model, None).items()}
        rare, lowered = min(known.values()), {word.lower() for word in known}
        forms = read_inflections(inflections)
        common = {"channel": learn_channel(birkbeck_pairs(args.errors)), "rate": 0.1, "lexicon": known}
        common["lexicon"] |= {form: rare / 2 for form in forms.forms() if form not in lowered}

        def show(name: str, corrected: list[str]) -> None:
            measures = measure_corrections(texts, corrected, references)
            print(f"{name:46} GLEU {measures.gleu[1].percent()}  WER {measures.word_errors[1].percent()}", flush=True)

        def correct(some: list[str], **options: Any) -> list[str]:
            ready = chainrule.corrector(model, **common, **options)
            return [one.corrected for i in range(0, len(some), 128) for one in ready.correct(some[i : i + 128])]

        show("untouched", texts)
        show("spelling by enchant, as shipped", lines["spellchecked.src"])
        show("spelling", correct(texts))
        grammar: dict[str, Any] = {"grammar": "english", "inflections": inflections}
        if args.rescore_by is not None:
            config = chainrule.CorrectionConfig(beam=8, rescore_weight=args.rescore_weight)
            show("stated rates, beam 8", correct(texts, config=config, **grammar))
            name = f"the same, rescored by {args.rescore_by.name} ({args.rescore_weight})"
            show(name, correct(texts, config=config, rescore_by=args.rescore_by, **grammar))
            return
        began = time.perf_counter()
        show("spelling and grammar, stated rates", correct(texts, **grammar))
        print(f"{sum(len(text.split()) for text in texts) / (time.perf_counter() - began):,.0f} tokens/s")
        halves = [
            [(text, one[i]) for i, text in enumerate(texts) if i % 2 != half for one in references] for half in (0, 1)
        ]
        learned = [chainrule.train_grammar(pairs, inflections=inflections) for pairs in halves]
        grammar.pop("grammar")
        of_halves = [iter(correct(texts[half::2], grammar=learned[half], **grammar)) for half in (0, 1)]
        show("rates learned on the other half", [next(of_halves[i % 2]) for i in range(len(texts))])
        if args.corrector is not None:
            config = chainrule.CorrectionConfig(learned_weight=args.corrector_weight)
            options = {"grammar": "english", "learned": args.corrector, "config": config, **grammar}
            show(f"stated rates, the learned corrector ({args.corrector_weight})", correct(texts, **options))


def _by_word(given: list[str], changes: tuple) -> list[str]:
    """The words afterwards, one for each word given; a change of two words stands for both."""
    starts = np.cumsum([0, *(len(word) + 1 for word in given)])
    result = list(given)
    for change in changes:
        for i in np.flatnonzero((starts[:-1] >= change.start) & (starts[1:] - 1 <= change.stop)).tolist():
            result[i] = change.after
    return result


if __name__ == "__main__":
    main()

"""Makes a larger text from a smaller one, to measure speed and memory where no text of that size is available.

    python bench/multiplied.py novels.txt large.txt --tokens 76900000

The text itself comes first, then copies of it with random swaps of words within sentences, one swap per eight words.
So the vocabulary stays the same, and new n-grams appear as in a longer text.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS_PER_SWAP = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="tokenised, a sentence a line")
    parser.add_argument("output")
    parser.add_argument("--tokens", type=int, default=76_900_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    sentences = [line.split() for line in Path(options.text).read_text(encoding="utf-8").splitlines()]
    tokens = lines = 0
    with open(options.output, "w", encoding="utf-8") as file:
        for sentence in copies(sentences, options.seed):
            file.write(" ".join(sentence) + "\n")
            tokens, lines = tokens + len(sentence), lines + 1
            if tokens >= options.tokens:
                break
    print(f"{lines:,} sentences, {tokens:,} tokens")


def copies(sentences: list[list[str]], seed: int) -> Iterator[list[str]]:
    """The sentences as they are, then again and again with words swapped."""
    yield from sentences
    generator = random.Random(seed)
    while True:
        yield from (swap_words(sentence, generator) for sentence in sentences)


def swap_words(sentence: list[str], generator: random.Random) -> list[str]:
    words = list(sentence)
    for _ in range(0, len(words), WORDS_PER_SWAP):
        i, j = int(generator.random() * len(words)), int(generator.random() * len(words))
        words[i], words[j] = words[j], words[i]
    return words


if __name__ == "__main__":
    main()

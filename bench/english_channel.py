"""Learns the rules of the channel of English spelling from lists of misspellings that may be shipped.

    python bench/english_channel.py main.json > src/chainrule/features/correct/channel/english_rules.txt

main.json: the right words, each with its misspellings, of the tool misspell (github.com/client9/misspell, MIT). The
rules that change the probabilities of these misspellings most are kept; the words are not.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from math import log
from pathlib import Path

from chainrule.features.correct.channel.character_channel import Channel, Rule
from chainrule.features.correct.channel.english import common_edits, write_rules
from chainrule.features.correct.channel.learning import learn_channel, mark_ends

_KEPT = 1500
_FLOOR = 2e-5  # of a rule that is no single edit, before anything is learned
_HEAD = """\
# Probabilities of spelling errors: -log2 of the probability, and rules meant>written; ^ and $ are a word's ends.
# Learned by bench/english_channel.py from the 28,000 misspellings of misspell (github.com/client9/misspell),
# Copyright (c) 2015-2017 Nick Galbreath, MIT licence. None of its words is here.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("misspellings", type=Path)
    lists = json.loads(parser.parse_args().misspellings.read_text("utf-8"))
    pairs = [(wrong.lower(), right.lower()) for right, several in lists.items() for wrong in several]
    pairs = [(wrong, right) for wrong, right in pairs if wrong != right and " " not in wrong + right]
    before = dict(common_edits())
    prior = Channel("edits", [Rule(*sides, prob) for sides, prob in before.items()])
    learned = {(rule.source, rule.observed): rule.prob for rule in learn_channel(pairs, rounds=4, prior=prior).rules}
    visits: Counter[str] = Counter()
    for _, right in pairs:
        marked = mark_ends(right)
        visits.update(marked)
        visits.update(marked[i : i + 2] for i in range(len(marked) - 1))

    def weight(sides: tuple[str, str]) -> float:
        """How much the rule adds to the log-probability of the misspellings, roughly."""
        prob, other = learned[sides], before.get(sides, _FLOOR)
        return visits[sides[0]] * abs(prob * log(prob / other) - (prob - other))

    kept = sorted(learned, key=weight, reverse=True)[:_KEPT]
    print(_HEAD + write_rules({sides: learned[sides] for sides in kept}), end="")


if __name__ == "__main__":
    main()

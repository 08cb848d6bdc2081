"""A channel of grammar learned from pairs of a wrong and a right text, by counting what became of each word.

Words are aligned by a cheapest edit script in which forms of one word, words that begin alike, and those that the prior
confuses replace each other for less. A probability is

    (count + k prior) / (visits + k)

with the prior of another channel, which so keeps what no pair shows. What replaces a word is
counted if it stands in some right text, or the prior has it: all else is a matter of spelling.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from chainrule.applications.channel.grammar import GrammarChannel, WordRule, words_and_marks
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from chainrule.applications.channel.inflections import Inflections

_STRENGTH = 50.0  # visits that the prior counts as
_LEAST = 2  # times that an error is seen which the prior does not have
_ALIKE, _REPLACED, _LOST = 0.5, 1.2, 0.7  # costs of edits
_BEGINNING = 3  # letters that are equal in words that begin alike
_MOST = 0.85  # of what happens to a word may be errors


def learn_grammar(
    pairs: Sequence[tuple[str, str]], inflections: Inflections, prior: GrammarChannel, *, strength: float = _STRENGTH
) -> GrammarChannel:
    """pairs: (wrong, right) texts. Raises SettingError where no pair has an error."""
    visits: Counter[str] = Counter()
    errors: Counter[tuple[str, str]] = Counter()
    words = {word.lower() for _, right in pairs for word in words_and_marks(right)}
    known_rules = {(rule.meant, rule.written) for rule in prior.rules}

    def alike(meant: str, written: str) -> bool:
        begin_alike = meant[:_BEGINNING] == written[:_BEGINNING] and len(meant) > 1 < len(written)
        return begin_alike or (meant, written) in known_rules or written in inflections.others(meant)

    inflectable = inflected = capitals = small = 0
    for wrong, right in pairs:
        for meant, written in aligned(words_and_marks(wrong), words_and_marks(right), alike):
            one, other = meant.lower(), written.lower()
            visits[one] += bool(one)
            has_forms = bool(inflections.others(one))
            inflectable += has_forms
            capitals += meant[:1].isupper()
            if one == other:
                small += meant[:1].isupper() and written[:1].islower()
            elif (one, other) not in known_rules and other in inflections.others(one):
                inflected += 1
            elif not one or not other or other in words or (one, other) in known_rules:
                errors[one, other] += 1
        visits[""] += len(words_and_marks(right)) + 1
    if not errors and not inflected and not small:
        raise SettingError("no pair has an error of grammar; expected pairs of a wrong and a right text that differ")
    priors = {(rule.meant, rule.written): rule.prob for rule in prior.rules}
    seen = {sides for sides, count in errors.items() if count >= _LEAST}
    probs = {
        sides: (errors[sides] + strength * priors.get(sides, 0.0)) / (visits[sides[0]] + strength)
        for sides in sorted(seen | priors.keys())
    }
    sums: Counter[str] = Counter()
    for (meant, _), prob in probs.items():
        sums[meant] += prob  # type: ignore[assignment]
    rules = tuple(WordRule(*sides, prob * min(1.0, _MOST / sums[sides[0]])) for sides, prob in probs.items())
    return GrammarChannel(
        "learnt",
        rules,
        (inflected + strength * prior.inflected) / (inflectable + strength),
        (small + strength * prior.uncapitalised) / (capitals + strength),
    )


def aligned(wrong: Sequence[str], right: Sequence[str], alike: Callable[[str, str], bool]) -> Iterator[tuple[str, str]]:
    """Pairs (meant, written) by a cheapest edit script, from the end on; one is empty where a word was lost or put in.

    alike: whether words in lower case replace each other for less.
    """
    costs = np.zeros((len(right) + 1, len(wrong) + 1))
    costs[0] = _LOST * np.arange(len(wrong) + 1)
    costs[:, 0] = _LOST * np.arange(len(right) + 1)
    replaced = [[_cost(meant.lower(), written.lower(), alike) for written in wrong] for meant in right]
    for i in range(1, len(right) + 1):
        for j in range(1, len(wrong) + 1):
            costs[i, j] = min(
                costs[i - 1, j - 1] + replaced[i - 1][j - 1], costs[i - 1, j] + _LOST, costs[i, j - 1] + _LOST
            )
    i, j = len(right), len(wrong)
    while i or j:
        if i and j and costs[i, j] == costs[i - 1, j - 1] + replaced[i - 1][j - 1]:
            i, j = i - 1, j - 1
            yield right[i], wrong[j]
        elif i and (not j or costs[i, j] == costs[i - 1, j] + _LOST):
            i -= 1
            yield right[i], ""
        else:
            j -= 1
            yield "", wrong[j]


def _cost(meant: str, written: str, alike: Callable[[str, str], bool]) -> float:
    return 0.0 if meant == written else _ALIKE if alike(meant, written) else _REPLACED

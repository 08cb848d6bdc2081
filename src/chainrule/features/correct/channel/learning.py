"""Learns channels from pairs of wrong and right texts: of characters by EM over rules, of grammar by counting.

Characters: words are put between marks (`mark_ends`), so that rules can distinguish the beginning and the end of a word
from its middle: `e` lost at the end, `k` before `n` at the beginning. Candidate rules come from around the differences
of a shortest edit script; EM then weighs all ways to rewrite one spelling as the other (Brill and Moore, An improved
error model for noisy channel spelling correction, 2000, take the counts of one alignment). Single edits that occur in
no pair keep a small probability, so that no word is impossible. A prior channel counts as some visits to each left
side, in which its rules were used as often as it says: the maximum a posteriori under Dirichlet priors. A space that
was lost or inserted is counted apart: the rule that loses it has the share of wrong words that differ in one, and EM
sees words without it.

Grammar: words are aligned by a cheapest edit script in which forms of one word, words that begin alike, and those that
the prior confuses replace each other for less. A probability is

    (count + k prior) / (visits + k)

with the prior of another channel, which so keeps what no pair shows. What replaces a word is counted if it stands in
some right text, or the prior has it: all else is a matter of spelling.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.arguments import check_least
from chainrule.base.progress import Progress, silent
from chainrule.errors import SettingError
from chainrule.features.correct.channel.channel_kernels import expect
from chainrule.features.correct.channel.character_channel import MOST_ERRORS, Channel, Rule, concatenate
from chainrule.features.correct.channel.word_channel import WordChannel, WordRule, words_and_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from chainrule.features.correct.channel.inflections import Inflections

BEGIN_MARK, END_MARK = "\x02", "\x03"
SPACE = " "
USUAL_LENGTH = 5.0  # letters of a word
MARKS = "\x04"  # begins what stands before or after a word, to learn from as if it were one
_FLOOR = 2e-5  # probability of a single edit that occurs in no pair
_LEAST_USES = 0.3  # expected uses below which a rule of two characters is dropped
_VISITS = 5.0  # without an error, added for every left side: rules seen once stay unlikely
_VISITS_OF_PRIOR = 20.0  # added instead, with the errors of a prior; by trial: docs/decisions/correction.md


def mark_ends(text: str) -> str:
    """Return a word between marks of its beginning and end."""
    return f"{BEGIN_MARK}{text}{END_MARK}"


def marks_as_word(marks: str) -> str:
    """Return the marks before or after a word, as a separate word."""
    return MARKS + marks


def learn_channel(
    pairs: Sequence[tuple[str, str]],
    *,
    weights: Sequence[float] | None = None,
    rounds: int = 8,
    prior: Channel | None = None,
    name: str = "learned",
    progress: Progress = silent,
) -> Channel:
    """Return a channel for marked words, from pairs (wrong, right). weights: of the pairs, such as their counts.

    Pairs may be of marks (`marks_as_word`), right ones among them, so that the probabilities of their errors are those
    of all marks, not of wrong ones. Pairs may differ in a space. prior: a channel of words in lower case, towards which
    estimates from few pairs are smoothed.

    Raises SettingError if there is no pair, or none with an error, or rounds < 1.
    """
    check_least("rounds", rounds, 1)
    weights = [1.0] * len(pairs) if weights is None else weights
    spaces = _share_with_spaces(pairs, weights)
    pairs = [(wrong.replace(SPACE, ""), right.replace(SPACE, "")) for wrong, right in pairs]
    kept = [i for i, (wrong, right) in enumerate(pairs) if wrong and right]
    observed = [mark_ends(pairs[i][0]) for i in kept]
    sources = [mark_ends(pairs[i][1]) for i in kept]
    of_pairs = np.array([weights[i] for i in kept], np.float64)
    counts: defaultdict[tuple[str, str], float] = defaultdict(float)
    for wrong, right, weight in zip(observed, sources, of_pairs.tolist(), strict=True):
        for rule in dict.fromkeys(_rules_around_edits(right, wrong)):
            counts[rule] += weight
    if not counts and not spaces:
        raise SettingError("no pair has an error; expected pairs of a wrong and a right spelling that differ")
    expected = {} if prior is None else _of_lower_case(prior)
    in_prior = (side for rule in expected for side in rule)
    letters = sorted(
        {letter for text in (*observed, *sources, *in_prior) for letter in text} - {BEGIN_MARK, END_MARK, MARKS}
    )
    rules = dict.fromkeys([*counts, *_single_edits(letters), *expected], 0.0)
    visits = Counter(
        side for source in sources for i in range(len(source)) for side in (source[i], source[i : i + 2]) if side
    )
    added = _VISITS if prior is None else _VISITS_OF_PRIOR
    probs = {
        rule: max(_FLOOR, (0.5 * counts[rule] + added * expected.get(rule, 0.0)) / (visits[rule[0]] + added))
        for rule in rules
    }
    texts = *concatenate(observed), *concatenate(sources), of_pairs
    for done in range(rounds):
        progress("learning a channel", done, rounds)
        channel = Channel(name, within_bounds(probs))
        probs = _reestimated(channel, texts, expected, added)
    of_spaces = [Rule(SPACE, "", min(spaces, MOST_ERRORS))] if spaces else []
    return Channel(name, within_bounds(probs) + of_spaces)


def _share_with_spaces(pairs: Sequence[tuple[str, str]], weights: Sequence[float]) -> float:
    """Return the share of wrong words in which a space is lost or inserted."""
    of_words = [
        (weight, wrong.count(SPACE) != right.count(SPACE))
        for (wrong, right), weight in zip(pairs, weights, strict=True)
        if wrong != right and not right.startswith(MARKS)
    ]
    total = sum(weight for weight, _ in of_words)
    return sum(weight for weight, differs in of_words if differs) / total if total else 0.0


def _of_lower_case(channel: Channel) -> dict[tuple[str, str], float]:
    """Return the probabilities of a channel's rules for words in lower case."""
    probs: dict[tuple[str, str], float] = {}
    for rule in channel.rules:
        source, observed = rule.source.lower(), rule.observed.lower()
        if source != observed and " " not in source + observed:
            probs[source, observed] = max(rule.prob, probs.get((source, observed), 0.0))
    return probs


def _reestimated(
    channel: Channel, texts: tuple[Any, ...], expected: Mapping[tuple[str, str], float], added: float
) -> dict[tuple[str, str], float]:
    """Return one round of EM: each rule's expected uses, divided by the expected visits to positions where it could
    apply.

    expected: the probabilities of rules in the prior. added: its visits to each left side.
    """
    tables = channel.by_source
    uses, visits = np.zeros(tables.probs.size), np.zeros(tables.copied.shape)
    arguments: tuple[Any, ...] = (*texts, *tables[:-1], uses, visits)
    expect(*arguments)
    visits_of_first = visits.sum(axis=1)
    probs = {}
    for i, used in zip(tables.order.tolist(), uses.tolist(), strict=True):
        rule = channel.rules[i]
        first, last = (int(tables.symbols[ord(character)]) for character in (rule.source[0], rule.source[-1]))
        visited = visits_of_first[first] if len(rule.source) == 1 else visits[first, last]
        is_single = len(rule.source) == 1 and (len(rule.observed) <= 1 or rule.observed[0] == rule.source)
        key = rule.source, rule.observed
        if used >= _LEAST_USES or is_single or key in expected:
            probs[key] = max(_FLOOR, (used + added * expected.get(key, 0.0)) / (float(visited) + added))
    return probs


def within_bounds(probs: dict[tuple[str, str], float]) -> list[Rule]:
    """Return the rules; those of a first character are scaled down if they would leave too little probability to
    copying.
    """
    alone: defaultdict[str, float] = defaultdict(float)
    by_two: defaultdict[str, float] = defaultdict(float)
    for (source, _), prob in probs.items():
        (alone if len(source) == 1 else by_two)[source] += prob
    sums = dict(alone)
    for source, prob in by_two.items():
        sums[source[0]] = max(sums.get(source[0], 0.0), alone[source[0]] + prob)
    bound = MOST_ERRORS - 1e-6
    return [
        Rule(source, seen, prob * min(1.0, bound / sums[source[0]])) for (source, seen), prob in sorted(probs.items())
    ]


def _single_edits(letters: list[str]) -> Iterator[tuple[str, str]]:
    """Yield every deletion, substitution and doubling; every letter inserted after another, or at the beginning."""
    for letter in letters:
        yield letter, ""
        for other in letters:
            if other != letter:
                yield letter, other
            yield letter, letter + other
        yield BEGIN_MARK, BEGIN_MARK + letter


def _rules_around_edits(source: str, observed: str) -> Iterator[tuple[str, str]]:
    """Yield rules of one or two characters that explain an edit, with and without a neighbour on either side."""
    script = [(a, b, c, d) for tag, a, b, c, d in _edits(source, observed) if tag]
    for a, b, c, d in script:
        for before in range(3):
            for after in range(3):
                left, right = max(0, a - before), min(len(source), b + after)
                seen_left, seen_right = c - (a - left), d + (right - b)
                if seen_left < 0 or seen_right > len(observed):
                    continue
                one, other = source[left:right], observed[seen_left:seen_right]
                if 1 <= len(one) <= 2 and len(other) <= 2 and one != other:
                    yield one, other


def _edits(source: str, observed: str) -> list[tuple[bool, int, int, int, int]]:
    """Return a shortest edit script as runs: whether they differ, and the spans of the source and the observed text."""
    height, width = len(source), len(observed)
    cost = np.zeros((height + 1, width + 1), np.int64)
    cost[:, 0], cost[0] = np.arange(height + 1), np.arange(width + 1)
    for i in range(1, height + 1):
        for j in range(1, width + 1):
            cost[i, j] = min(
                cost[i - 1, j - 1] + (source[i - 1] != observed[j - 1]), cost[i - 1, j] + 1, cost[i, j - 1] + 1
            )
    runs: list[tuple[bool, int, int, int, int]] = []
    i, j = height, width
    while i or j:
        if i and j and cost[i, j] == cost[i - 1, j - 1] + (source[i - 1] != observed[j - 1]):
            step = (source[i - 1] != observed[j - 1], i - 1, i, j - 1, j)
        elif i and cost[i, j] == cost[i - 1, j] + 1:
            step = (True, i - 1, i, j, j)
        else:
            step = (True, i, i, j - 1, j)
        i, j = step[1], step[3]
        if runs and runs[-1][0] == step[0]:
            runs[-1] = (step[0], step[1], runs[-1][2], step[3], runs[-1][4])
        else:
            runs.append(step)
    return runs[::-1]


_STRENGTH = 50.0  # visits that the prior counts as
_LEAST = 2  # times that an error is seen which the prior does not have
_ALIKE, _REPLACED, _LOST = 0.5, 1.2, 0.7  # costs of edits
_BEGINNING = 3  # letters that are equal in words that begin alike
_MOST = 0.85  # of what happens to a word may be errors


def learn_grammar(
    pairs: Sequence[tuple[str, str]], inflections: Inflections, prior: WordChannel, *, strength: float = _STRENGTH
) -> WordChannel:
    """Learn a channel of grammar. pairs: (wrong, right) texts. Raises SettingError where no pair has an error."""
    visits: Counter[str] = Counter()
    errors: Counter[tuple[str, str]] = Counter()
    words = {word.lower() for _, right in pairs for word in words_and_marks(right)}
    known_rules = {(rule.meant, rule.written) for rule in prior.rules}

    def alike(meant: str, written: str) -> bool:
        begin_alike = meant[:_BEGINNING] == written[:_BEGINNING] and len(meant) > 1 < len(written)
        return begin_alike or (meant, written) in known_rules or written in inflections.others(meant)

    inflectable = inflected = capitals = small = 0
    for wrong, right in pairs:
        for meant, written in align(words_and_marks(wrong), words_and_marks(right), alike):
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
    return WordChannel(
        "learnt",
        rules,
        (inflected + strength * prior.inflected) / (inflectable + strength),
        (small + strength * prior.uncapitalised) / (capitals + strength),
    )


def align(wrong: Sequence[str], right: Sequence[str], alike: Callable[[str, str], bool]) -> Iterator[tuple[str, str]]:
    """Yield pairs (meant, written) by a cheapest edit script, from the end on; one is empty where a word was lost or
    put in.

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

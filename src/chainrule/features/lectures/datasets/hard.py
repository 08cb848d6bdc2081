"""The harder forms of the made texts, on which models differ: longer, with more that misleads.

sentence      a subject with nouns of either number behind it, and in half of all sentences a reason, which French
              puts first: the dogs behind the cat sleep because a boy falls, comme un garçon tombe , les chiens
              derrière le chat dorment. What is written next may stand anywhere in the source; and where French has
              several translations, the likeliest does not begin with the likeliest word
agreement     the key that the teachers near the cars want is lost: two to four nouns of the other number between
review        denied again and again, and with a second opinion that agrees or does not: it is not true that
              nobody says that the film was good , although the plot was dull
written_date  in words: the twenty-first of March nineteen hundred and five
conversation  who lives where is told by name, and asked by relation: an answer combines two turns
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from chainrule.features.lectures.datasets import sentences as easy
from chainrule.features.lectures.datasets.sentences import NEGATIVE, POSITIVE, MinimalPair, Node, Phrase

if TYPE_CHECKING:
    from chainrule.features.lectures.datasets.random import Random

_BEHIND = (("behind", "derrière"), ("with", "avec"), ("without", "sans"), ("under", "sous"))

# In three of five cases, French says longer what English says in a word, in one of three ways that begin alike. So the
# likeliest first word begins none of the likeliest translations, and greedy search cannot undo it.
_LONGER = {
    "sleeps": ("au lit", "en train de dormir", "en plein sommeil"),
    "arrives": ("en route", "en train de venir", "bientôt là"),
    "falls": ("par terre", "en train de tomber", "en pleine chute"),
}
_SHORTEST = 2


def sentence(chance: Random) -> Phrase:
    """Return a random sentence with its translation, and in half of all cases the reason for it."""
    main = _clause(chance)
    if chance.below(2):
        return main
    reason = _clause(chance)
    return Phrase(f"{main.english} because {reason.english}", f"comme {reason.french} , {main.french}")


def _clause(chance: Random) -> Phrase:
    subject = _noun_phrase(chance)
    verb = _verb_phrase(chance, is_plural=subject.is_plural)
    return Phrase(f"{subject.english} {verb.english}", f"{subject.french} {verb.french}")


def _verb_phrase(chance: Random, *, is_plural: bool) -> Phrase:
    if chance.below(3) == 0:
        verb = chance.choice(easy.INTRANSITIVE)
        french = verb.french[is_plural]
        if chance.below(_SHORTEST + len(_LONGER[verb.english[0]])) >= _SHORTEST:
            french = f"{('est', 'sont')[is_plural]} {chance.choice(_LONGER[verb.english[0]])}"
        return Phrase(verb.english[is_plural], french)
    verb, object_ = chance.choice(easy.TRANSITIVE), easy.noun_phrase(chance)
    return Phrase(f"{verb.english[is_plural]} {object_.english}", f"{verb.french[is_plural]} {object_.french}")


def _noun_phrase(chance: Random) -> Phrase:
    """Return a noun, and up to two things that are said of it, each with nouns of any number."""
    noun = easy.noun_phrase(chance)
    english, french = noun.english, noun.french
    for _ in range(chance.below(3)):
        if chance.below(2):
            preposition, other = chance.choice(_BEHIND), easy.noun_phrase(chance)
            english, french = f"{english} {preposition[0]} {other.english}", f"{french} {preposition[1]} {other.french}"
        else:
            verb = _verb_phrase(chance, is_plural=noun.is_plural)
            return Phrase(f"{english} that {verb.english}", f"{french} qui {verb.french}", noun.is_plural)
    return Phrase(english, french, noun.is_plural)


_SUBJECTS = (("key", "keys"), ("flight", "flights"), ("author", "authors"), ("picture", "pictures"), ("dog", "dogs"))
_PEOPLE = (("teacher", "teachers"), ("boy", "boys"), ("king", "kings"), ("girl", "girls"))
_PLACES = (("house", "houses"), ("city", "cities"), ("garden", "gardens"), ("car", "cars"))
_PREPOSITIONS = ("near", "behind", "from", "of")
_WANTS = (("wants", "want"), ("sees", "see"), ("likes", "like"))
_VERBS = (("is", "are"), ("was", "were"), ("has been", "have been"))
_ENDS = ("old", "late", "famous", "expensive", "lost")


def agreement(chance: Random, *, is_misleading: bool) -> MinimalPair:
    """Return a pair of sentences: the verb agrees with a subject that clauses separate from it, or does not.

    is_misleading: whether all nouns between have the other number; otherwise each has either.
    """
    plural = chance.below(2)

    def number() -> int:
        return 1 - plural if is_misleading else chance.below(2)

    words = ["the", chance.choice(_SUBJECTS)[plural]]
    for _ in range(1 + chance.below(2)):
        words += [chance.choice(_PREPOSITIONS), "the", chance.choice(_PLACES)[number()]]
    person = number()
    words += ["that", "the", chance.choice(_PEOPLE)[person]]
    if chance.below(2):
        words += [chance.choice(_PREPOSITIONS), "the", chance.choice(_PLACES)[number()]]
    words.append(chance.choice(_WANTS)[person])
    start, verb, end = " ".join(words), chance.choice(_VERBS), chance.choice(_ENDS)
    return MinimalPair(f"{start} {verb[plural]} {end}", f"{start} {verb[1 - plural]} {end}", "agreement_across_clauses")


_MOST_DENIALS = 3
_SAYS = (
    ("it is not true that", True),
    ("nobody says that", True),
    ("it is true that", False),
    ("everybody says that", False),
)


def review(chance: Random) -> Node:
    """Return a random review; the label of the whole is positive or negative.

    `and` joins what agrees, `but` and `although` what does not, so that texts without labels tell of opinions, too.
    """
    first = _denied(chance)
    if chance.below(2):
        return first
    second, kind = _denied(chance), chance.below(4)
    while (second.label == first.label) != (kind == 0):
        second = _denied(chance)
    if kind <= 1:
        return _joined(second.label, first, _word(","), _word("but" if kind else "and"), second)
    if kind == 2:
        return _joined(second.label, _word("although"), first, _word(","), second)
    return _joined(first.label, first, _word(","), _word("although"), second)


def _denied(chance: Random) -> Node:
    """Return a clause, said or denied up to three times."""
    clause = easy.review_clause(chance)
    for _ in range(chance.below(_MOST_DENIALS + 1)):
        says, denies = chance.choice(_SAYS)
        label = {POSITIVE: NEGATIVE, NEGATIVE: POSITIVE}[clause.label] if denies else clause.label
        clause = _joined(label, *map(_word, says.split()), clause)
    return clause


def _word(word: str) -> Node:
    return Node(easy.NEUTRAL, word)


def _joined(label: str, *children: Node) -> Node:
    return Node(label, "", children)


_UNITS: tuple[str, ...] = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_UNITS += ("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth"}


def written_date(chance: Random) -> tuple[str, str]:
    """Return a date of 1900 to 2099 in words, and in ISO's form."""
    day = easy.draw_day(chance)
    month, year = easy.MONTHS[day.month - 1], _year(day.year)
    text = (
        f"the {_ordinal(day.day)} of {month} {year}" if chance.below(2) else f"{month} the {_ordinal(day.day)} , {year}"
    )
    return text, day.isoformat()


def _below_hundred(number: int) -> str:
    """Return a number below a hundred in words, with a hyphen: twenty-one."""
    if number < len(_UNITS):
        return _UNITS[number]
    tens, unit = divmod(number, 10)
    return f"{_TENS[tens]}-{_UNITS[unit]}" if unit else _TENS[tens]


def _ordinal(number: int) -> str:
    """Return an ordinal number in words: twenty-first."""
    head, hyphen, last = _below_hundred(number).rpartition("-")
    if last in _ORDINALS:
        ordinal = _ORDINALS[last]
    elif last.endswith("y"):
        ordinal = f"{last[:-1]}ieth"
    else:
        ordinal = "twelfth" if last == "twelve" else f"{last}th"
    return head + hyphen + ordinal


def _year(year: int) -> str:
    """Return a year in words: nineteen hundred and five, nineteen eighty-four, two thousand and five, twenty
    twenty-four.
    """
    century, rest = divmod(year, 100)
    start = "two thousand" if century == 20 and rest < 10 else f"{_below_hundred(century)} hundred"
    if rest < 10:
        return f"{start} and {_UNITS[rest]}" if rest else start
    return f"{_below_hundred(century)} {_below_hundred(rest)}"


_RELATIONS = ("friend", "neighbour", "teacher", "cousin", "doctor", "partner")
_ASIDES = (("how are you ?", "fine , thanks ."), ("nice weather today .", "yes , very ."))


def conversation(chance: Random) -> str:
    """Return a line of JSON with its messages: three people by relation and by town, in any order, and two
    questions.
    """
    names, towns, relations = (_several(chance, options) for options in (easy.NAMES, easy.TOWNS, _RELATIONS))
    people = list(zip(names, towns, relations, strict=True))
    facts = [(f"{name} is my {relation} .", f"your {relation} {name} .") for name, _, relation in people]
    facts += [(f"{name} lives in {town} .", f"{name} in {town} .") for name, town, _ in people]
    turns = []
    while facts:
        turns.append(facts.pop(chance.below(len(facts))))
        if chance.below(4) == 0:
            turns.append(chance.choice(_ASIDES))
    for _ in range(2):
        name, town, relation = people.pop(chance.below(len(people)))
        turns.append((f"where does my {relation} live ?", f"your {relation} {name} lives in {town} ."))
    return json.dumps({"messages": easy.messages_of(turns)})


def _several(chance: Random, options: tuple[str, ...]) -> list[str]:
    """Return three different options."""
    left = list(options)
    return [left.pop(chance.below(len(left))) for _ in range(3)]

"""Texts made by rule: sentences with translations, minimal pairs, reviews, dates, conversations.

sentence      simple English with its French translation, in words that agree. The French adjective follows its
              noun, and agrees with it in gender and number, as does the article; so a translation is more than a
              word for a word
MinimalPair   two sentences that differ in one word, of which one is grammatical; and sentences to learn from
review        a tree with the opinion of each phrase: good and bad words, turned by `not`, and outweighed after
              `but`. A bag of words cannot tell `good , but not funny` from `not good , but funny`
written_date  a date as people write it, with its ISO form: 5 March 2021 is 2021-03-05
conversation  a name and a town are mentioned, and asked for later: an answer has to look back for them
"""

from __future__ import annotations

import json
from datetime import date, timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.features.lectures.datasets.random import Random


class Noun(NamedTuple):
    english: tuple[str, str]  # singular, plural
    french: tuple[str, str]
    is_feminine: bool


class Adjective(NamedTuple):
    english: str
    french: tuple[tuple[str, str], tuple[str, str]]  # masculine and feminine, each singular and plural


class Verb(NamedTuple):
    english: tuple[str, str]
    french: tuple[str, str]


class Phrase(NamedTuple):
    """The same noun phrase, or sentence, in both languages."""

    english: str
    french: str
    is_plural: bool = False


def _adjective(english: str, masculine: str, feminine: str) -> Adjective:
    plural = masculine if masculine.endswith("s") else f"{masculine}s"
    return Adjective(english, ((masculine, plural), (feminine, f"{feminine}s")))


NOUNS = (
    Noun(("dog", "dogs"), ("chien", "chiens"), False),
    Noun(("cat", "cats"), ("chat", "chats"), False),
    Noun(("boy", "boys"), ("garçon", "garçons"), False),
    Noun(("girl", "girls"), ("fille", "filles"), True),
    Noun(("king", "kings"), ("roi", "rois"), False),
    Noun(("queen", "queens"), ("reine", "reines"), True),
    Noun(("horse", "horses"), ("cheval", "chevaux"), False),
    Noun(("cow", "cows"), ("vache", "vaches"), True),
    Noun(("car", "cars"), ("voiture", "voitures"), True),
    Noun(("book", "books"), ("livre", "livres"), False),
    Noun(("house", "houses"), ("maison", "maisons"), True),
    Noun(("boat", "boats"), ("bateau", "bateaux"), False),
)
ADJECTIVES = (
    _adjective("black", "noir", "noire"),
    _adjective("green", "vert", "verte"),
    _adjective("white", "blanc", "blanche"),
    _adjective("grey", "gris", "grise"),
    Adjective("red", (("rouge", "rouges"), ("rouge", "rouges"))),
)
TRANSITIVE = (
    Verb(("sees", "see"), ("voit", "voient")),
    Verb(("loves", "love"), ("aime", "aiment")),
    Verb(("finds", "find"), ("trouve", "trouvent")),
    Verb(("wants", "want"), ("veut", "veulent")),
    Verb(("follows", "follow"), ("suit", "suivent")),
)
INTRANSITIVE = (
    Verb(("sleeps", "sleep"), ("dort", "dorment")),
    Verb(("arrives", "arrive"), ("arrive", "arrivent")),
    Verb(("falls", "fall"), ("tombe", "tombent")),
)
_DEFINITE = (("le", "les"), ("la", "les"))
_INDEFINITE = (("un", "des"), ("une", "des"))


def sentence(chance: Random) -> Phrase:
    """Return a random sentence: a subject, a verb, and with some verbs an object."""
    subject = noun_phrase(chance)
    if chance.below(4) == 0:
        verb = chance.choice(INTRANSITIVE)
        return Phrase(
            f"{subject.english} {verb.english[subject.is_plural]}", f"{subject.french} {verb.french[subject.is_plural]}"
        )
    verb, object_ = chance.choice(TRANSITIVE), noun_phrase(chance)
    return Phrase(
        f"{subject.english} {verb.english[subject.is_plural]} {object_.english}",
        f"{subject.french} {verb.french[subject.is_plural]} {object_.french}",
    )


def noun_phrase(chance: Random) -> Phrase:
    """Return an article, an adjective in half of all cases, and a noun."""
    noun, plural, is_definite = chance.choice(NOUNS), bool(chance.below(2)), bool(chance.below(2))
    adjective = chance.choice(ADJECTIVES) if chance.below(2) else None
    english_article = "the" if is_definite else ("some" if plural else "a")
    french_article = (_DEFINITE if is_definite else _INDEFINITE)[noun.is_feminine][plural]
    english = [english_article, *([adjective.english] if adjective else []), noun.english[plural]]
    french = [french_article, noun.french[plural], *([adjective.french[noun.is_feminine][plural]] if adjective else [])]
    return Phrase(" ".join(english), " ".join(french), plural)


_SUBJECTS = (("dog", "dogs"), ("key", "keys"), ("flight", "flights"), ("author", "authors"), ("picture", "pictures"))
_OTHERS = (("house", "houses"), ("city", "cities"), ("teacher", "teachers"), ("garden", "gardens"), ("car", "cars"))
_PREPOSITIONS = ("near", "behind", "from", "of")
_VERBS = (("is", "are"), ("was", "were"), ("has been", "have been"))
_ENDS = ("old", "late", "famous", "expensive", "lost")
_PEOPLE = (("boy", "himself"), ("king", "himself"), ("girl", "herself"), ("queen", "herself"))
_REFLEXIVE_VERBS = ("saw", "helped", "hurt", "praised")
_DEMONSTRATIVES = (("this", "these"), ("that", "those"))


class MinimalPair(NamedTuple):
    """A minimal pair. good, bad: the sentences. set: the name of their difference."""

    good: str
    bad: str
    set: str


def agreement(chance: Random) -> MinimalPair:
    """Return a pair such as: the dogs were old / the dogs was old"""
    plural = chance.below(2)
    start, verb, end = f"the {chance.choice(_SUBJECTS)[plural]}", chance.choice(_VERBS), chance.choice(_ENDS)
    return MinimalPair(f"{start} {verb[plural]} {end}", f"{start} {verb[1 - plural]} {end}", "agreement")


def agreement_across_nouns(chance: Random) -> MinimalPair:
    """Return a pair such as the key near the car is lost / the key near the car are lost: the nouns between may have
    either number.
    """
    return _agreement_across(chance, is_misleading=False)


def agreement_at_a_distance(chance: Random) -> MinimalPair:
    """Return a pair such as the key near the cars is lost / the key near the cars are lost: the nouns between have the
    other number.
    """
    return _agreement_across(chance, is_misleading=True)


def _agreement_across(chance: Random, *, is_misleading: bool) -> MinimalPair:
    plural = chance.below(2)
    start = f"the {chance.choice(_SUBJECTS)[plural]}"
    for _ in range(1 + chance.below(2)):
        other = 1 - plural if is_misleading else chance.below(2)
        start += f" {chance.choice(_PREPOSITIONS)} the {chance.choice(_OTHERS)[other]}"
    verb, end = chance.choice(_VERBS), chance.choice(_ENDS)
    return MinimalPair(f"{start} {verb[plural]} {end}", f"{start} {verb[1 - plural]} {end}", "agreement_at_a_distance")


def reflexive(chance: Random) -> MinimalPair:
    """Return a pair such as: the girl near the house saw herself / the girl near the house saw himself"""
    person, right = chance.choice(_PEOPLE)
    wrong = "herself" if right == "himself" else "himself"
    where = f" {chance.choice(_PREPOSITIONS)} the {chance.choice(_OTHERS)[chance.below(2)]}" if chance.below(2) else ""
    start = f"the {person}{where} {chance.choice(_REFLEXIVE_VERBS)}"
    return MinimalPair(f"{start} {right}", f"{start} {wrong}", "reflexive")


def demonstrative(chance: Random) -> MinimalPair:
    """Return a pair such as: these dogs were old / this dogs were old"""
    plural = chance.below(2)
    word, end = chance.choice(_DEMONSTRATIVES), chance.choice(_ENDS)
    rest = f"{chance.choice(_SUBJECTS)[plural]} {chance.choice(_VERBS)[plural]} {end}"
    return MinimalPair(f"{word[plural]} {rest}", f"{word[1 - plural]} {rest}", "demonstrative")


TESTED = (agreement, agreement_at_a_distance, reflexive, demonstrative)
LEARNED = (agreement, agreement_across_nouns, reflexive, demonstrative)

POSITIVE, NEGATIVE, NEUTRAL = "positive", "negative", "neutral"
GOOD = ("good", "great", "funny", "moving", "clever", "beautiful")
BAD = ("bad", "dull", "silly", "slow", "weak", "ugly")
_ARTICLES, _THINGS = ("the", "this"), ("film", "movie", "book", "story", "play", "plot")
_DEGREES = ("very", "really", "rather")


class Node(NamedTuple):
    """A phrase with its label: of a word, or of the phrases that it consists of."""

    label: str
    word: str = ""
    children: tuple[Node, ...] = ()

    def text(self) -> str:
        return self.word or " ".join(child.text() for child in self.children)

    def brackets(self) -> str:
        """Return the phrase as a treebank writes it: (positive (neutral very) (positive good))."""
        return f"({self.label} {self.word or ' '.join(child.brackets() for child in self.children)})"


def review(chance: Random) -> Node:
    """Return a random review; the label of the whole is positive or negative."""
    subject = _subject(chance)
    opinion = _opinion(chance)
    if chance.below(2):
        later = _opinion(chance)
        opinion = _joined(later.label, opinion, _neutral(","), _neutral("but"), later)
    return _joined(opinion.label, subject, _joined(opinion.label, _neutral("was"), opinion))


def review_clause(chance: Random) -> Node:
    """Return a review of one opinion: the film was not very good."""
    subject, opinion = _subject(chance), _opinion(chance)
    return _joined(opinion.label, subject, _joined(opinion.label, _neutral("was"), opinion))


def _subject(chance: Random) -> Node:
    return _joined(NEUTRAL, _neutral(chance.choice(_ARTICLES)), _neutral(chance.choice(_THINGS)))


def _opinion(chance: Random) -> Node:
    is_good = chance.below(2) == 0
    opinion = Node(POSITIVE if is_good else NEGATIVE, chance.choice(GOOD if is_good else BAD))
    if chance.below(2):
        opinion = _joined(opinion.label, _neutral(chance.choice(_DEGREES)), opinion)
    if chance.below(2):
        opposite = NEGATIVE if opinion.label == POSITIVE else POSITIVE
        opinion = _joined(opposite, _neutral("not"), opinion)
    return opinion


def _neutral(word: str) -> Node:
    return Node(NEUTRAL, word)


def _joined(label: str, *children: Node) -> Node:
    return Node(label, "", children)


MONTHS: tuple[str, ...] = ("January", "February", "March", "April", "May", "June")
MONTHS += ("July", "August", "September", "October", "November", "December")
_FORMATS = (
    "{day} {month} {year}",
    "{month} {day}, {year}",
    "{day}. {number}. {year}",
    "{short} {day} {year}",
    "the {day}{suffix} of {month} {year}",
    "{day:02}/{number:02}/{year}",
)
_FIRST, _DAYS = date(1900, 1, 1), 73_049  # to 2099-12-31


def written_date(chance: Random) -> tuple[str, str]:
    """Return a date of 1900 to 2099 in one of six formats, and in ISO's."""
    day = draw_day(chance)
    month = MONTHS[day.month - 1]
    text = chance.choice(_FORMATS).format(
        day=day.day, month=month, short=month[:3], number=day.month, year=day.year, suffix=_suffix(day.day)
    )
    return text, day.isoformat()


def draw_day(chance: Random) -> date:
    """Return a day of 1900 to 2099."""
    return _FIRST + timedelta(days=chance.below(_DAYS))


def _suffix(day: int) -> str:
    if day in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


NAMES = (
    *("Ann", "Bob", "Cid", "Dan", "Eve", "Fay", "Gus", "Hal", "Ida", "Jim"),
    *("Kim", "Leo", "Mia", "Ned", "Ola", "Pam", "Ray", "Sue", "Tom", "Una"),
)
TOWNS = (
    *("Baku", "Bern", "Bonn", "Cork", "Doha", "Gent", "Graz", "Kyiv", "Lima", "Lyon"),
    *("Nice", "Oslo", "Pisa", "Riga", "Rome", "Sofia", "Tula", "Turin", "Vigo", "York"),
)
_SMALL_TALK = (
    ("how are you ?", "fine , thanks ."),
    ("nice weather today .", "yes , very ."),
    ("what can you do ?", "i can remember ."),
)


def conversation(chance: Random) -> str:
    """Return a line of JSON with its messages."""
    name, town = chance.choice(NAMES), chance.choice(TOWNS)
    facts = [(f"my name is {name} .", f"hello {name} ."), (f"i live in {town} .", f"{town} is nice .")]
    questions = [("what is my name ?", f"your name is {name} ."), ("where do i live ?", f"you live in {town} .")]
    turns = [
        *(facts if chance.below(2) else facts[::-1]),
        *(chance.choice(_SMALL_TALK) for _ in range(chance.below(4))),
        *(questions if chance.below(2) else questions[::-1]),
    ]
    return json.dumps({"messages": messages_of(turns)})


def messages_of(turns: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Return what a user and an assistant say in turn, as messages."""
    roles = ("user", "assistant")
    return [{"role": role, "content": text} for turn in turns for role, text in zip(roles, turn, strict=True)]

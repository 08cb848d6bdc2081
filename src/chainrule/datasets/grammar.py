"""A grammar of simple English sentences with their French translations, in words that agree.

The French adjective follows its noun, and agrees with it in gender and number, as does the article; so a translation is
more than a word for a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from chainrule.datasets.chance import Chance


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


def sentence(chance: Chance) -> Phrase:
    """A random sentence: a subject, a verb, and with some verbs an object."""
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


def noun_phrase(chance: Chance) -> Phrase:
    """An article, an adjective in half of all cases, and a noun."""
    noun, plural, is_definite = chance.choice(NOUNS), bool(chance.below(2)), bool(chance.below(2))
    adjective = chance.choice(ADJECTIVES) if chance.below(2) else None
    english_article = "the" if is_definite else ("some" if plural else "a")
    french_article = (_DEFINITE if is_definite else _INDEFINITE)[noun.is_feminine][plural]
    english = [english_article, *([adjective.english] if adjective else []), noun.english[plural]]
    french = [french_article, noun.french[plural], *([adjective.french[noun.is_feminine][plural]] if adjective else [])]
    return Phrase(" ".join(english), " ".join(french), plural)

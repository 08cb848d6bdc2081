"""Pairs of sentences that differ in one word, of which one is grammatical; and sentences to learn the grammar from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from chainrule.datasets.chance import Chance

_SUBJECTS = (("dog", "dogs"), ("key", "keys"), ("flight", "flights"), ("author", "authors"), ("picture", "pictures"))
_OTHERS = (("house", "houses"), ("city", "cities"), ("teacher", "teachers"), ("garden", "gardens"), ("car", "cars"))
_PREPOSITIONS = ("near", "behind", "from", "of")
_VERBS = (("is", "are"), ("was", "were"), ("has been", "have been"))
_ENDS = ("old", "late", "famous", "expensive", "lost")
_PEOPLE = (("boy", "himself"), ("king", "himself"), ("girl", "herself"), ("queen", "herself"))
_REFLEXIVE_VERBS = ("saw", "helped", "hurt", "praised")
_DEMONSTRATIVES = (("this", "these"), ("that", "those"))


class MinimalPair(NamedTuple):
    """good, bad: the sentences. set: what they differ in."""

    good: str
    bad: str
    set: str


def agreement(chance: Chance) -> MinimalPair:
    """the dogs were old / the dogs was old"""
    plural = chance.below(2)
    start, verb, end = f"the {chance.choice(_SUBJECTS)[plural]}", chance.choice(_VERBS), chance.choice(_ENDS)
    return MinimalPair(f"{start} {verb[plural]} {end}", f"{start} {verb[1 - plural]} {end}", "agreement")


def agreement_across_nouns(chance: Chance) -> MinimalPair:
    """the key near the car is lost / the key near the car are lost: the nouns between may have either number."""
    return _agreement_across(chance, is_misleading=False)


def agreement_at_a_distance(chance: Chance) -> MinimalPair:
    """the key near the cars is lost / the key near the cars are lost: the nouns between have the other number."""
    return _agreement_across(chance, is_misleading=True)


def _agreement_across(chance: Chance, *, is_misleading: bool) -> MinimalPair:
    plural = chance.below(2)
    start = f"the {chance.choice(_SUBJECTS)[plural]}"
    for _ in range(1 + chance.below(2)):
        other = 1 - plural if is_misleading else chance.below(2)
        start += f" {chance.choice(_PREPOSITIONS)} the {chance.choice(_OTHERS)[other]}"
    verb, end = chance.choice(_VERBS), chance.choice(_ENDS)
    return MinimalPair(f"{start} {verb[plural]} {end}", f"{start} {verb[1 - plural]} {end}", "agreement_at_a_distance")


def reflexive(chance: Chance) -> MinimalPair:
    """the girl near the house saw herself / the girl near the house saw himself"""
    person, right = chance.choice(_PEOPLE)
    wrong = "herself" if right == "himself" else "himself"
    where = f" {chance.choice(_PREPOSITIONS)} the {chance.choice(_OTHERS)[chance.below(2)]}" if chance.below(2) else ""
    start = f"the {person}{where} {chance.choice(_REFLEXIVE_VERBS)}"
    return MinimalPair(f"{start} {right}", f"{start} {wrong}", "reflexive")


def demonstrative(chance: Chance) -> MinimalPair:
    """these dogs were old / this dogs were old"""
    plural = chance.below(2)
    word, end = chance.choice(_DEMONSTRATIVES), chance.choice(_ENDS)
    rest = f"{chance.choice(_SUBJECTS)[plural]} {chance.choice(_VERBS)[plural]} {end}"
    return MinimalPair(f"{word[plural]} {rest}", f"{word[1 - plural]} {rest}", "demonstrative")


TESTED = (agreement, agreement_at_a_distance, reflexive, demonstrative)
LEARNED = (agreement, agreement_across_nouns, reflexive, demonstrative)

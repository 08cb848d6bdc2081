"""Conversations in which a name and a town are told, and asked for later: an answer has to look back for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chainrule.datasets.chance import Chance

_NAMES = (
    *("Ann", "Bob", "Cid", "Dan", "Eve", "Fay", "Gus", "Hal", "Ida", "Jim"),
    *("Kim", "Leo", "Mia", "Ned", "Ola", "Pam", "Ray", "Sue", "Tom", "Una"),
)
_TOWNS = (
    *("Baku", "Bern", "Bonn", "Cork", "Doha", "Gent", "Graz", "Kyiv", "Lima", "Lyon"),
    *("Nice", "Oslo", "Pisa", "Riga", "Rome", "Sofia", "Tula", "Turin", "Vigo", "York"),
)
_SMALL_TALK = (
    ("how are you ?", "fine , thanks ."),
    ("nice weather today .", "yes , very ."),
    ("what can you do ?", "i can remember ."),
)


def conversation(chance: Chance) -> str:
    """A line of JSON with its messages."""
    name, town = chance.choice(_NAMES), chance.choice(_TOWNS)
    facts = [(f"my name is {name} .", f"hello {name} ."), (f"i live in {town} .", f"{town} is nice .")]
    questions = [("what is my name ?", f"your name is {name} ."), ("where do i live ?", f"you live in {town} .")]
    turns = [
        *(facts if chance.below(2) else facts[::-1]),
        *(chance.choice(_SMALL_TALK) for _ in range(chance.below(4))),
        *(questions if chance.below(2) else questions[::-1]),
    ]
    roles = ("user", "assistant")
    messages = [{"role": role, "content": text} for turn in turns for role, text in zip(roles, turn, strict=True)]
    return json.dumps({"messages": messages})

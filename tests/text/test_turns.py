from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from chainrule.errors import TextError
from chainrule.text.parallel import pairs_of, pairs_of_turns

if TYPE_CHECKING:
    from pathlib import Path

TALK = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "hello\nyou"},
    {"role": "assistant", "content": "hi"},
    {"role": "user", "content": "bye"},
    {"role": "assistant", "content": "see\r\nyou"},
]


def test_each_answer_is_the_target_of_all_turns_before_it() -> None:
    assert list(pairs_of_turns({"messages": TALK}, "here")) == [
        ("system: be kind user: hello you", "hi"),
        ("system: be kind user: hello you assistant: hi user: bye", "see you"),
    ]
    assert list(pairs_of_turns({"messages": [{"role": "assistant", "content": "hello"}]}, "here")) == []


def test_conversations_are_read_as_pairs(tmp_path: Path) -> None:
    file = tmp_path / "talks.jsonl"
    file.write_text(json.dumps({"messages": TALK}) + "\n" + json.dumps({"source": "a", "target": "b"}) + "\n")
    pairs = pairs_of([str(file)], ("source", "target"))
    assert pairs.targets == ["hi", "see you", "b"]
    assert pairs.lines == [1, 1, 2]


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ("hello", "here: messages is not a list of turns"),
        ([], "here: messages is not a list of turns"),
        ([{"role": "user"}], "here: message 1 is not a turn; expected its role, which is system, user, assistant"),
        ([TALK[1], {"role": "robot", "content": "x"}], "here: message 2 is not a turn"),
        ([3], "here: message 1 is not a turn"),
    ],
)
def test_what_is_no_conversation_is_refused(messages: object, message: str) -> None:
    with pytest.raises(TextError, match=message):
        list(pairs_of_turns({"messages": messages}, "here"))

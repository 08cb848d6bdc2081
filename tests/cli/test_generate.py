"""chainrule generate: texts that a seed gives again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from command_line import strict_json

import chainrule as library

if TYPE_CHECKING:
    from pathlib import Path


def test_the_same_seed_gives_the_same_texts_and_another_gives_others(chainrule, model: Path) -> None:
    first, again, other = (chainrule("generate", model, "ka", "-n", 5, "--seed", seed) for seed in (1, 1, 2))
    assert (first.status, first.err) == (0, "")
    assert len(first.lines) == 5
    assert first.out == again.out != other.out
    assert first.lines == library.load(model).generate("ka", 5, seed=1)
    assert all(line.split()[0] == "ka" for line in first.lines)


def test_without_a_seed_the_one_drawn_is_told(chainrule, model: Path) -> None:
    drawn = chainrule("generate", model, "-n", 3)
    note = re.fullmatch(r"note: --seed (\d+) gives these texts again\n", drawn.err)
    assert note is not None
    assert chainrule("generate", model, "-n", 3, "--seed", note[1]) == (0, drawn.out, "")


def test_json_gives_an_object_a_text(chainrule, model: Path) -> None:
    plain = chainrule("generate", model, "-n", 3, "--seed", 7)
    rows = [strict_json(line) for line in chainrule("generate", model, "-n", 3, "--seed", 7, "--json").lines]
    assert rows == [{"text": line} for line in plain.lines]


def test_the_prompt_stays_as_it_is_and_no_more_tokens_come_than_asked_for(chainrule, model: Path) -> None:
    assert chainrule("generate", model, "-x unseen ka", "--max-tokens", 0, "--seed", 1).out == "-x unseen ka\n"
    texts = chainrule("generate", model, "ka", "--max-tokens", 3, "--seed", 1, "-n", 20).lines
    assert max(len(text.split()) for text in texts) == 4


def test_temperature_zero_takes_the_likeliest_token(chainrule, model: Path) -> None:
    likeliest = next(name for name, _ in library.load(model).next("ka", top=1))
    text = chainrule("generate", model, "ka", "--temperature", 0, "--max-tokens", 1, "--seed", 1).out
    assert text == f"ka {likeliest}\n"


def test_no_line_is_lost_where_a_text_is_empty(chainrule, impossible: Path) -> None:
    result = chainrule("generate", impossible, "--temperature", 0, "-n", 2, "--seed", 1)  # </s> at once: ids break ties
    assert result.out == "\n\n"

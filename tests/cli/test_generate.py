"""chainrule generate: texts that a seed gives again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from command_line import strict_json

import chainrule as library
from chainrule import BeamConfig, Limits

if TYPE_CHECKING:
    from pathlib import Path


def test_the_same_seed_gives_the_same_texts_and_another_gives_others(chainrule, model: Path) -> None:
    first, again, other = (chainrule("generate", model, "ka", "-n", 5, "--seed", seed) for seed in (1, 1, 2))
    assert (first.status, first.err) == (0, "")
    assert len(first.lines) == 5
    assert first.out == again.out != other.out
    assert first.lines == library.load(model).generate("ka", 5, seed=1)
    assert all(line.split()[0] == "ka" for line in first.lines)


def test_without_a_seed_the_drawn_one_is_printed(chainrule, model: Path) -> None:
    drawn = chainrule("generate", model, "-n", 3)
    note = re.fullmatch(r"note: --seed (\d+) gives these texts again\n", drawn.err)
    assert note is not None
    assert chainrule("generate", model, "-n", 3, "--seed", note[1]) == (0, drawn.out, "")


def test_json_gives_an_object_a_text(chainrule, model: Path) -> None:
    plain = chainrule("generate", model, "-n", 3, "--seed", 7)
    rows = [strict_json(line) for line in chainrule("generate", model, "-n", 3, "--seed", 7, "--json").lines]
    assert [row["text"] for row in rows] == plain.lines
    for row in rows:
        assert row.keys() == {"text", "log_prob", "ending", "tokens"}
        assert row["text"].split() == row["tokens"]
        assert row["ending"] in ("end", "length")
        assert row["log_prob"] < 0


def test_a_stream_prints_the_same_texts(chainrule, model: Path) -> None:
    arguments = ("generate", model, "ka", "-n", 4, "--seed", 3, "--stop", "vi n", "--top-k", 20)
    assert chainrule(*arguments, "--stream") == chainrule(*arguments)


def test_a_beam_gives_the_best_texts_with_their_scores(chainrule, model: Path) -> None:
    result = chainrule("generate", model, "ka", "--beam", 6, "-n", 4, "--rank-by", "mean", "--max-tokens", 6)
    assert result.err == ""
    rows = [line.split("\t") for line in result.lines]
    scores = [float(score) for score, _ in rows]
    assert scores == sorted(scores, reverse=True)
    assert len({text for _, text in rows}) == 4
    assert all(text.startswith("ka") for _, text in rows)
    found = library.load(model).beam("ka", BeamConfig(size=6, best=4, rank_by="mean"), Limits(max_tokens=6))
    assert [text for _, text in rows] == [text.text for text in found]
    as_json = chainrule("generate", model, "ka", "--beam", 6, "--max-tokens", 6, "--json").json
    assert as_json.keys() == {"text", "log_prob", "score", "proven", "ending", "tokens"}


def test_the_tree_of_a_beam_is_written_as_json_or_as_a_picture(chainrule, model: Path, tmp_path: Path) -> None:
    arguments = ("generate", model, "ka", "--beam", 3, "--max-tokens", 4)
    plain = chainrule(*arguments)
    assert chainrule(*arguments, "--tree", tmp_path / "tree.json") == plain
    tree = strict_json((tmp_path / "tree.json").read_text(encoding="utf-8"))
    assert tree["prompt"] == "ka"
    assert [node["id"] for node in tree["nodes"]] == list(range(len(tree["nodes"])))
    assert {node["parent"] for node in tree["nodes"]} <= {None, *range(len(tree["nodes"]))}
    assert chainrule(*arguments, "--tree", tmp_path / "tree.svg") == plain
    assert (tmp_path / "tree.svg").read_text(encoding="utf-8").startswith("<svg")
    assert chainrule(*arguments, "--tree", tmp_path / "tree.html") == plain
    assert 'type="range"' in (tmp_path / "tree.html").read_text(encoding="utf-8")
    assert "exists already" in chainrule(*arguments, "--tree", tmp_path / "tree.svg").error
    for target, message in ((tmp_path / "none" / "tree.json", "there is no folder"), (tmp_path, "this is a folder")):
        assert message in chainrule(*arguments, "--tree", target).error


def test_unknown_words_in_a_prompt_are_noted(chainrule, model: Path) -> None:
    result = chainrule("generate", model, "xyzzy ka plugh", "--seed", 1)
    assert result.err == "note: the model does not know xyzzy, plugh of the prompt; each counts as <unk>\n"
    assert result.out.startswith("xyzzy ka plugh")


def test_options_bear_on_the_texts(chainrule, model: Path) -> None:
    banned = chainrule("generate", model, "-n", 20, "--seed", 1, "--ban", "ka", "--ban", "vi", "--min-tokens", 2).lines
    assert not any({"ka", "vi"} & set(line.split()) for line in banned)
    assert min(len(line.split()) for line in banned) >= 2
    allowed = chainrule("generate", model, "--seed", 1, "--allow", "ka", "--allow", "vi", "--no-repeat", 2).out
    assert set(allowed.split()) <= {"ka", "vi"}
    begun = chainrule("generate", model, "vi", "--seed", 1, "--begin", "ka nin").out
    assert begun.startswith("vi ka nin")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--beam 0", "--beam is 0; expected 1 or more"),
        ("--beam 2 -n 3", "a beam of 2 cannot return the 3 best texts; widen it"),
        ("--stop nonsense", "the stop string 'nonsense' never occurs"),
        ("--min-tokens 5 --max-tokens 2", "--min-tokens is 5, more than --max-tokens, 2"),
        ("--top-k 0", "--top-k is 0"),
        ("--allow xyzzy", "the allowed word 'xyzzy' is not a token"),
        ("--beam 2 --unknown spelled", "beam search cannot spell unknown words"),
    ],
)
def test_impossible_wishes_are_errors(arguments: str, message: str, chainrule, model: Path) -> None:
    result = chainrule("generate", model, "ka", *arguments.split())
    assert result.status == 1
    assert message in result.error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--beam 2 --top-k 3", "--top-k has no effect with --beam, which does not sample."),
        ("--beam 2 --seed 3", "--seed has no effect with --beam, which does not sample."),
        ("--beam 2 --stream", "--stream has no effect with --beam, which does not sample."),
        ("--groups 2", "--groups needs --beam."),
        ("--tree t.json", "--tree needs --beam."),
        ("--beam 2 --alpha 0.3", "--alpha needs --rank-by wu."),
        ("--beam 2 --diversity 0.3", "--diversity needs --groups."),
        ("--stream --json", "--stream prints text; leave out --json and --output."),
    ],
)
def test_options_that_contradict_each_other_are_wrong_usage(
    arguments: str, message: str, chainrule, model: Path
) -> None:
    result = chainrule("generate", model, "ka", *arguments.split())
    assert result.status == 2
    assert message in result.error


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


def test_a_tree_has_a_name_that_says_how_it_is_drawn(chainrule, model: Path, tmp_path: Path) -> None:
    done = chainrule("generate", model, "", "--beam", "2", "--tree", tmp_path / "tree.png")
    assert done.status == 2
    assert "its name must end in .json, .svg or .html" in done.error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("how", [["--seed", 1], ["--seed", 1, "--stream"], ["--beam", 3], ["--seed", 1, "--json"]])
def test_a_prompt_that_is_a_whole_line_is_continued_with_nothing_and_the_note_says_why(
    chainrule, tmp_path: Path, how: list[object]
) -> None:
    (tmp_path / "play.txt").write_text("ROMEO:\nIs the day so young?\n" * 30)
    for name, more in (("lines", []), ("file", ["--document", "file"])):
        chainrule("train", "ngram", tmp_path / "play.txt", "--tokenizer", "character", "-o", tmp_path / name, *more)
    told = chainrule("generate", tmp_path / "lines", "ROMEO:", *how, "--max-tokens", 9).err
    assert "note: the text ended right after the prompt, since each line" in told
    assert "train with --document file" in told
    assert chainrule("generate", tmp_path / "file", "ROMEO:", *how, "--max-tokens", 9).err == ""


def test_without_a_draw_no_seed_is_named(chainrule, model: Path, stdin) -> None:
    assert chainrule("generate", model, "ka", "--temperature", 0).err == ""
    assert chainrule("generate", model, "ka", "--temperature", 0, "--stream").err == ""
    assert "--seed" in chainrule("generate", model, "ka").err


@pytest.mark.parametrize("how", [[], ["--stream"]])
def test_a_form_that_the_limit_cut_is_told(chainrule, model: Path, how: list[str]) -> None:
    form = ["--regex", "(ka )+vi", "--max-tokens", 1, "-n", 2, "--seed", 1]
    assert (
        "2 of 2 texts reached --max-tokens 1 before the form's end; raise it"
        in chainrule("generate", model, *form, *how).err
    )
    whole = ["--regex", "ka", "--max-tokens", 5, "--seed", 1]
    assert "reached" not in chainrule("generate", model, *whole, *how).err


@pytest.fixture
def network(tmp_path: Path, corpus: Path, one_thread: None) -> Path:
    config = library.TransformerConfig(layers=1, width=16, heads=2, context=64)
    training = library.TrainingConfig(steps=1, compile="no")
    library.train(corpus, config, training=training, tokenizer="whitespace").save(tmp_path / "net")
    return tmp_path / "net"


def test_drafts_change_no_text_and_say_how_many_were_right(chainrule, refused, network: Path, tmp_path: Path) -> None:
    arguments = ("generate", network, "ka vi", "--max-tokens", 30, "--seed", 2)
    plain = chainrule(*arguments)
    drafted = chainrule(*arguments, "--draft", "prompt")
    assert drafted.out == plain.out
    some, none = r"\d+ of \d+ drafted tokens were right; \d+ passes", r"nothing was drafted: in \d+ passes, no draft .*"
    assert re.fullmatch(f"note: ({some}|{none})\n", drafted.err)  # as fast as this machine is
    library.train(
        library.Lines(["ka"]), library.NGramConfig(order=2), tokenizer=library.TokenizerConfig(kind=str(network))
    ).save(tmp_path / "ngrams")
    by_model = chainrule(*arguments, "-n", 2, "--stream", "--draft", tmp_path / "ngrams")
    assert by_model.out == chainrule(*arguments, "-n", 2).out
    together = chainrule(*arguments[:3], "-n", 2, "--max-tokens", 1, "--draft", "ngram")
    assert "nothing was drafted: drafting works for one text of two tokens or more at a time" in together.err
    with_beam = refused(2, [*arguments[:3], "--draft", "ngram", "--beam", 2])
    assert "--draft has no effect with --beam, whose texts grow together." in with_beam
    unknown = refused(1, [*arguments[:3], "--draft", "promt"])
    assert "--draft is 'promt'; expected prompt, ngram, or a model: there is no such folder or file" in unknown


def test_models_that_cannot_be_drafted_are_refused(chainrule, refused, model: Path, network: Path) -> None:
    assert "this model, ngram, cannot be drafted" in refused(1, ["generate", model, "ka", "--draft", "ngram"])
    library.train(library.Lines(["ka vi"]), library.NGramConfig(order=2)).save(network.parent / "others")
    message = refused(1, ["generate", network, "ka", "--draft", network.parent / "others"])
    assert f"the draft model, {network.parent / 'others'}, has other tokens than the model, 5 and" in message

"""chainrule score: sentences and tokens, as text and as JSON lines, as they come."""

from __future__ import annotations

import gzip
import math
import os
from typing import TYPE_CHECKING

import pytest
from command_line import strict_json
from samples import sampled

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "ka vi nin\n\nka zzz\tvi unseen\n ka  vi\tnin \n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def test_each_line_gets_its_columns_and_tabs_stay_in_the_last(chainrule, model: Path, text: Path) -> None:
    result = chainrule("score", model, text)
    assert (result.status, result.err) == (0, "")
    rows = [line.split("\t", 3) for line in result.out.split("\n")[:-1]]
    assert [(int(tokens), int(oov)) for _, tokens, oov, _ in rows] == [(4, 0), (1, 0), (5, 2), (4, 0)]
    assert [sentence for *_, sentence in rows] == TEXT.split("\n")[:-1]
    assert rows[0][0] == rows[3][0]  # white space does not matter


def test_tokens_add_up_to_their_sentences_and_unknown_ones_are_marked(chainrule, model: Path, text: Path) -> None:
    sentences = [line.split("\t") for line in chainrule("score", model, text).lines]
    groups = chainrule("score", model, text, "--tokens").out.split("\n\n")
    assert groups.pop() == ""
    tokens = [[line.split("\t") for line in group.split("\n")] for group in groups]
    for row, group in zip(sentences, tokens, strict=True):
        assert sum(float(log_prob) for log_prob, *_ in group) == pytest.approx(float(row[0]), abs=1e-4)
    assert [[cells[5] for cells in group] for group in tokens] == [
        ["ka", "vi", "nin", "</s>"],
        ["</s>"],
        ["ka", "zzz", "vi", "unseen", "</s>"],
        ["ka", "vi", "nin", "</s>"],
    ]
    assert [cells[2:] for group in tokens for cells in group if len(cells) != 6] == [
        ["3", "6", "1", "zzz", "<unk>"],
        ["10", "16", "1", "unseen", "<unk>"],
    ]
    assert all(float(price) < float(log_prob) for group in tokens for log_prob, price, *rest in group if len(rest) == 5)


def test_words_characters_and_bytes_add_up_to_the_texts_price_and_know_their_places(
    chainrule, model: Path, text: Path
) -> None:
    whole = chainrule("evaluate", model, text, "--json").json
    for option in ("tokens", "words", "characters", "bytes"):
        rows = [strict_json(line) for line in chainrule("score", model, text, f"--{option}", "--json").lines]
        assert sum(row["text_log_prob"] for row in rows) == pytest.approx(whole["text_log_prob"], rel=1e-9)
        assert sum(row["log_prob"] for row in rows) == pytest.approx(whole["log_prob"], rel=1e-9)
        for row in rows:
            name = option.removesuffix("s")
            *units, end = row[f"{name}_scores"]
            assert end[name] == "</s>"
            assert (end["start"], end["stop"]) == (len(row["normalised"]), len(row["normalised"]))
            for unit in units:
                data = row["normalised"].encode()[unit["start_byte"] : unit["stop_byte"]]
                assert data.decode("utf-8", "backslashreplace") == unit[name]
                assert option == "bytes" or row["normalised"][unit["start"] : unit["stop"]] == unit[name]
            assert sum(unit["text_log_prob"] for unit in [*units, end]) == pytest.approx(row["text_log_prob"])


def test_words_are_the_same_whatever_the_tokens(chainrule, corpus: Path, stdin, tmp_path: Path) -> None:
    import chainrule as library

    for tokenizer in ("word", "character", "byte", "bpe"):
        config = library.TokenizerConfig(kind=tokenizer, vocabulary_size=300 if tokenizer == "bpe" else None)
        library.train(corpus, library.NGramConfig(order=2), tokenizer=config).save(tmp_path / tokenizer)
        stdin("ka vi-nin, zżz\n".encode())
        words = [line.split("\t") for line in chainrule("score", tmp_path / tokenizer, "--words").lines[:-1]]
        assert [[*cells[2:4], cells[5]] for cells in words] == [
            ["0", "2", "ka"],
            ["3", "10", "vi-nin,"],
            ["11", "14", "zżz"],
            ["14", "14", "</s>"],
        ]


def test_white_space_among_characters_is_shown_in_one_line(chainrule, corpus: Path, stdin, tmp_path: Path) -> None:
    import chainrule as library

    library.train(corpus, library.NGramConfig(order=2), tokenizer="character").save(tmp_path / "lm")
    stdin(b"a\t b\n")
    rows = [line.split("\t") for line in chainrule("score", tmp_path / "lm", "--characters").lines[:-1]]
    assert [row[4] for row in rows] == ["a", "\\t", " ", "b", "</s>"]


def test_two_kinds_of_units_at_once_are_wrong_usage(chainrule, model: Path, text: Path) -> None:
    result = chainrule("score", model, text, "--tokens", "--words")
    assert result.status == 2
    assert "Choose one of --tokens and --words." in result.error


def test_json_lines_hold_the_same_as_the_text(chainrule, model: Path, text: Path) -> None:
    rows = [line.split("\t") for line in chainrule("score", model, text).lines]
    plain = [strict_json(line) for line in chainrule("score", model, text, "--json").lines]
    detailed = [strict_json(line) for line in chainrule("score", model, text, "--json", "--tokens").lines]
    assert [sentence["text"] for sentence in plain] == TEXT.split("\n")[:-1]
    for row, short, long in zip(rows, plain, detailed, strict=True):
        assert f"{short['log_prob']:.6f}" == row[0]
        assert (short["tokens"], short["oov"]) == (int(row[1]), int(row[2]))
        assert long["log_prob"] == pytest.approx(short["log_prob"], rel=1e-9)
        assert {name: long[name] for name in ("text", "tokens", "oov")} == {
            name: short[name] for name in ("text", "tokens", "oov")
        }
        assert len(long["token_scores"]) == short["tokens"]
        assert sum(token["log_prob"] for token in long["token_scores"]) == pytest.approx(short["log_prob"], rel=1e-9)
        assert [token["token"] for token in long["token_scores"] if not token["known"]] == (
            ["zzz", "unseen"] if short["oov"] else []
        )


def kenlm_scores(fixtures: Path) -> list[list[list[str]]]:
    """What KenLM's query prints of each word of each line: log10 P, the length of the n-gram, and whether unknown."""
    with gzip.open(fixtures / "order3.scores.tsv.gz", "rt") as file:
        texts = [line.split("\t")[1].split() for line in file.read().splitlines()[1:]]
    return [[word.split(":") for word in words] for words in texts]


def test_every_token_has_the_score_that_kenlm_gives_it(chainrule, model: Path, heldout: Path, fixtures: Path) -> None:
    found = [
        strict_json(line)["token_scores"] for line in chainrule("score", model, heldout, "--json", "--tokens").lines
    ]
    for tokens, kenlm in zip(found, kenlm_scores(fixtures), strict=True):
        for token, (log10, length, oov) in zip(tokens, kenlm, strict=True):
            assert token["log_prob"] / math.log(10) == pytest.approx(float(log10), abs=1e-5)
            assert (token["ngram_length"], token["known"]) == (int(length), oov == "0")


def test_lines_have_names_and_decimal_logarithms_like_kenlms_query(
    chainrule, model: Path, heldout: Path, fixtures: Path, tmp_path: Path
) -> None:
    expected = kenlm_scores(fixtures)
    say = ("score", model, heldout, "--log10")
    header, *lines = chainrule(*say, "--tokens", "--header").out.split("\n")
    assert header == "log10_prob\ttext_log10_prob\tstart\tstop\tngram_length\ttoken\tunknown"
    rows = [line.split("\t") for line in lines if line]
    words = [word for words in expected for word in words]
    assert [float(row[0]) for row in rows] == pytest.approx([float(word[0]) for word in words], abs=1e-5)
    assert [(row[4], row[6:]) for row in rows] == [(word[1], ["<unk>"] * (word[2] == "1")) for word in words]
    header, *lines = chainrule(*say, "--header").lines
    assert header == "log10_prob\ttokens\tunknown_tokens\ttext"
    sums = [sum(float(word[0]) for word in words) for words in expected]
    assert [float(line.split("\t")[0]) for line in lines] == pytest.approx(sums, abs=1e-4)
    assert chainrule("score", model, heldout, "--nats").out == chainrule("score", model, heldout).out
    assert chainrule(*say, "--words", "-o", tmp_path / "t.jsonl", "--ends").status == 0
    table = [strict_json(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    known = [(-float(log10), int(length)) for log10, length, oov in words if oov == "0"]
    found = [(row["surprisal_log10"], row["ngram_length"]) for row in table if row["known"]]
    assert [length for _, length in found] == [length for _, length in known]
    assert [bits for bits, _ in found] == pytest.approx([bits for bits, _ in known], abs=1e-5)


@pytest.mark.parametrize("options", [["--words"], ["--tokens", "-o"]])
def test_unknown_words_are_counted_after_a_table_of_words(
    options: list[str], chainrule, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "t.txt").write_text("ka zzz vi zzz\n\nqq zzz\n")
    told = chainrule("score", model, tmp_path / "t.txt", *options, *[tmp_path / "t.csv"] * ("-o" in options)).err
    assert f"4 of 6 {options[0][2:]} (66.7%) are unknown: zzz (3), qq" in told
    assert "unknown" not in chainrule("score", model, tmp_path / "t.txt").err


def test_what_has_no_probability_is_infinite_for_people_and_null_for_programs(
    chainrule, impossible: Path, stdin
) -> None:
    stdin(b"a zz\n")
    assert chainrule("score", impossible).out == "-inf\t3\t1\ta zz\n"
    stdin(b"a zz\n")
    sentence = chainrule("score", impossible, "--json", "--tokens").json
    assert sentence["log_prob"] is None
    assert [token["log_prob"] is None for token in sentence["token_scores"]] == [False, True, False]


def test_standard_input_is_read_where_no_text_is_named(chainrule, stdin, model: Path, text: Path) -> None:
    expected = chainrule("score", model, text).out
    for arguments in ([], ["-"]):
        stdin(TEXT.encode())
        assert chainrule("score", model, *arguments).out == expected
    stdin(TEXT.rstrip("\n").encode())  # the last line need not end
    assert chainrule("score", model).out == expected
    stdin(b"")
    assert chainrule("score", model) == (0, "", "")


def test_what_was_scored_before_an_error_is_printed(chainrule, process, model: Path, tmp_path: Path) -> None:
    started = process("score", model)
    assert started.stdin is not None
    assert started.stdout is not None
    assert started.stderr is not None
    with started:
        started.stdin.write(b"ka vi\n")
        started.stdin.flush()
        answer = started.stdout.readline()
        started.stdin.write(b"ka \xff vi\n")
        started.stdin.close()
        error = started.stderr.read().decode()
    assert answer.endswith(b"\tka vi\n")
    assert started.returncode == 1
    assert error.startswith("chainrule: -, line 2: byte 0xff at offset 9 is not UTF-8; ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "options", sampled([[], ["--json"], ["--tokens"], ["--words", "--json"]], [["--tokens"], ["--words", "--json"]])
)
def test_a_line_gets_its_answer_before_the_pipe_closes(options: list[str], process, model: Path) -> None:
    started = process("score", model, *options)
    assert started.stdin is not None
    assert started.stdout is not None
    with started:
        for line in (b"ka vi\n", b"da zzz\n"):
            started.stdin.write(line)
            started.stdin.flush()
            answer = started.stdout.readline()
            assert line.split()[0] in answer
            while options == ["--tokens"] and answer.strip():
                answer = started.stdout.readline()
        started.stdin.close()
        assert started.stdout.read() == b""
    assert started.returncode == 0


def test_a_record_with_newlines_is_one_line(chainrule, model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "ka vi\\nka"}\n{"text": "vi"}\n')
    result = chainrule("score", model, tmp_path / "a.jsonl")
    assert [line.split("\t")[1:] for line in result.lines] == [["4", "0", "ka vi ka"], ["2", "0", "vi"]]
    rows = [strict_json(line) for line in chainrule("score", model, tmp_path / "a.jsonl", "--json").lines]
    assert [row["text"] for row in rows] == ["ka vi\nka", "vi"]


def test_any_number_of_threads_gives_the_same_lines(chainrule, model: Path, heldout: Path, monkeypatch) -> None:
    monkeypatch.setenv("CHAINRULE_THREADS", "2")  # so that it is put back
    one = chainrule("score", model, heldout, "--threads", "1")
    assert os.environ["CHAINRULE_THREADS"] == "1"
    assert chainrule("--threads=3", "score", model, heldout).lines == one.lines
    assert os.environ["CHAINRULE_THREADS"] == "3"


def test_form_feeds_and_vertical_tabs_are_inside_words(chainrule, tmp_path: Path) -> None:
    """The whitespace tokenizer, like KenLM's lmplz, does not cut at them: each word is one token, and costs its own."""
    (tmp_path / "t.txt").write_text("the end\fChapter one\vtwo\nthe end\n")
    chainrule("train", "ngram", tmp_path / "t.txt", "-o", tmp_path / "lm", "--tokenizer", "whitespace", "--order", "2")
    say = ("score", tmp_path / "lm", tmp_path / "t.txt", "--json")
    by_words, by_tokens = (
        [strict_json(line)[f"{unit}_scores"] for line in chainrule(*say, f"--{unit}s").lines]
        for unit in ("word", "token")
    )
    assert [[unit["word"] for unit in units] for units in by_words] == [
        ["the", "end\fChapter", "one\vtwo", "</s>"],
        ["the", "end", "</s>"],
    ]
    for words, tokens in zip(by_words, by_tokens, strict=True):
        assert [word["text_log_prob"] for word in words] == [token["text_log_prob"] for token in tokens]
        assert all(word["text_log_prob"] < -0.01 for word in words)

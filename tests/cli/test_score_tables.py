"""chainrule score --output: tables that pandas reads, with the fields of records; and the same from Python."""

from __future__ import annotations

import csv
import io
import json
import math
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

import chainrule as library

if TYPE_CHECKING:
    from pathlib import Path

ITEMS = [
    {"item": 7, "sentence": "ka vi nin", "condition": "a", "position": "first", "tags": ["x"]},
    {"item": 8, "sentence": "", "condition": "b", "position": None, "tags": []},
    {"item": 9, "sentence": 'zzz, "vi"\nka', "condition": "a", "position": "last", "tags": ["y", "z"]},
]


@pytest.fixture
def items(tmp_path: Path) -> Path:
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    return path


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory, fixtures: Path) -> Path:
    """A model whose tokens are letters."""
    path = tmp_path_factory.mktemp("letters") / "lm"
    library.train(fixtures / "train.txt", library.NGramConfig(order=2), tokenizer="character").save(path)
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    pandas = pytest.importorskip("pandas")
    if path.suffix == ".parquet":
        return pandas.read_parquet(path).to_dict("records")  # type: ignore[no-any-return]
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    tab = {".csv": ",", ".tsv": "\t"}[path.suffix]
    return pandas.read_csv(path, sep=tab, keep_default_na=False).to_dict("records")  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.parquet"])
def test_a_table_has_a_row_for_each_word_and_keeps_the_fields(
    name: str, chainrule, pieces: Path, items: Path, tmp_path: Path
) -> None:
    result = chainrule("score", pieces, items, "--words", "--field", "sentence", "-o", tmp_path / name)
    assert (result.status, result.out) == (0, "")
    empty = "1 text without words, of which the table has no rows: number 2; --ends has a row for each"
    assert result.err == f'note: 3 of 6 words (50.0%) are unknown: zzz,, "vi", ka\nnote: {empty}\n'
    rows = rows_of(tmp_path / name)
    expected = [(i, k, word) for i, one in enumerate(ITEMS, 1) for k, word in enumerate(one["sentence"].split(), 1)]
    assert [(row["sentence"], row["position"], row["word"]) for row in rows] == expected
    for row in rows:
        item = ITEMS[row["sentence"] - 1]
        assert (row["item"], row["condition"], row["record_position"]) == (
            item["item"],
            item["condition"],
            item["position"],
        )
        assert row["known"] in (True, False)
        text = " ".join(item["sentence"].split("\n"))
        assert text[row["start"] : row["stop"]] == row["word"]
    header = ["item", "condition", "record_position", "tags", "sentence", "position", "word"]
    assert all(row["length"] == len(row["word"]) for row in rows)
    figures = ["length", "surprisal_bits", "uncorrected_bits", "known", "ngram_length", "start", "stop"]
    assert list(rows[0]) == [*header, *figures]


def test_bits_nats_and_the_end_are_those_that_score_prints(
    chainrule, pieces: Path, items: Path, tmp_path: Path
) -> None:
    say = ("score", pieces, items, "--field", "sentence", "--words")
    printed, plain = (chainrule(*say, *more).out.split("\n\n")[:-1] for more in ([], ["--no-word-ends"]))
    assert chainrule(*say, "-o", tmp_path / "bits.csv", "--ends").status == 0
    assert chainrule(*say, "-o", tmp_path / "nats.csv", "--ends", "--nats").status == 0
    bits, nats = ([*csv.DictReader(io.StringIO((tmp_path / f"{unit}.csv").read_text()))] for unit in ("bits", "nats"))
    lines = [line.split("\t") for group in printed for line in group.splitlines()]
    for one, other, line in zip(bits, nats, lines, strict=True):
        assert float(other["surprisal_nats"]) == pytest.approx(-float(line[1]), abs=1e-6)
        assert float(one["surprisal_bits"]) == pytest.approx(float(other["surprisal_nats"]) / math.log(2))
        assert other["word"] == line[5].replace("\\n", "\n")
        assert other["ngram_length"] == line[4]
    raw = [line.split("\t") for group in plain for line in group.splitlines()]
    assert [-float(line[1]) for line in raw] == pytest.approx(
        [float(row["uncorrected_nats"]) for row in nats], abs=1e-6
    )
    for _, rows in groupby(bits, key=lambda row: row["sentence"]):
        own = list(rows)
        assert own[-1]["word"] == "</s>"
        sums = [sum(float(row[name]) for row in own) for name in ("surprisal_bits", "uncorrected_bits")]
        assert sums[0] == pytest.approx(sums[1])  # the ends only move from word to word
    assert any(row["surprisal_bits"] != row["uncorrected_bits"] for row in bits)
    page = library.load(pieces)
    from chainrule.features.serve.explorer.records import surprisals

    shown = surprisals(page, ITEMS[0]["sentence"], "words")["units"]
    assert [unit["whole_log_prob"] for unit in shown] == pytest.approx(
        [-float(row["surprisal_nats"]) for row in nats if row["sentence"] == "1"], abs=1e-6
    )


@pytest.mark.parametrize("by", ["words", "tokens", "characters", "bytes", "texts"])
def test_python_gives_the_rows_that_the_command_writes(
    by: str, chainrule, model: Path, items: Path, tmp_path: Path
) -> None:
    options = [] if by == "texts" else [f"--{by}"]
    written = chainrule("score", model, items, "--field", "sentence", *options, "-o", tmp_path / "t.jsonl")
    assert written.status == 0
    source = library.Corpus.of(items, library.Reading(field="sentence"))
    table = library.surprisal(source, library.load(model), by=by)  # type: ignore[arg-type]
    assert rows_of(tmp_path / "t.jsonl") == table.to_records() == list(table)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table)
    assert set(frame["item"]) <= {7, 8, 9}
    if by == "texts":
        assert frame["text"].tolist() == [item["sentence"] for item in ITEMS]


def test_lines_in_memory_have_no_fields(model: Path) -> None:
    rows = library.surprisal(library.Lines(["ka vi", "nin"]), library.load(model)).to_records()
    assert [(row["sentence"], row["position"], row["word"]) for row in rows] == [
        (1, 1, "ka"),
        (1, 2, "vi"),
        (2, 1, "nin"),
    ]
    assert all(row["surprisal_bits"] == row["uncorrected_bits"] for row in rows)  # tokens are words
    bare = library.surprisal(library.Lines(["ka"]), library.load(model), word_ends=False).to_records()
    places = ["ngram_length", "start", "stop"]
    assert list(bare[0]) == ["sentence", "position", "word", "length", "uncorrected_bits", "known", *places]


def test_several_models_are_columns_beside_what_a_study_needs(
    chainrule, model: Path, pieces: Path, items: Path, tmp_path: Path
) -> None:
    (tmp_path / "counts.txt").write_text("ka\t3\nvi\t1\nka vi\t9\n")
    library.load(pieces).save(tmp_path / "letters")
    pieces = tmp_path / "letters"
    say = ("score", model, items, "--field", "sentence", "--words", "--also", pieces, "--entropy", "--previous", "1")
    result = chainrule(*say, "--frequencies", tmp_path / "counts.txt", "-o", tmp_path / "t.jsonl")
    assert result.status == 0
    rows = rows_of(tmp_path / "t.jsonl")
    for path in (model, pieces):
        source = library.Corpus.of(items, library.Reading(field="sentence"))
        alone = library.surprisal(source, library.load(path), entropy=True)
        for row, own in zip(rows, alone, strict=True):
            for column in ("surprisal_bits", "uncorrected_bits", "entropy_bits", "rank", "known"):
                assert row[f"{column}_{path.name}"] == pytest.approx(own[column])
    by_place = {(row["sentence"], row["position"]): row for row in rows}
    for (sentence, position), row in by_place.items():
        before = by_place.get((sentence, position - 1), {})
        for column in ("length", "log_frequency", f"surprisal_bits_{model.name}", f"entropy_bits_{pieces.name}"):
            assert row[f"{column}_prev1"] == before.get(column)
        share = {"ka": 3 / 4, "vi": 1 / 4, '"vi"': 1 / 4}.get(row["word"])
        assert row["log_frequency"] == (None if share is None else pytest.approx(math.log(share)))


def test_a_unigram_model_gives_frequencies(fixtures: Path, model: Path) -> None:
    unigram = library.train(fixtures / "train.txt", library.NGramConfig(order=1))
    rows = library.surprisal(library.Lines(["ka vi ka"]), library.load(model), frequencies=unigram).to_records()
    ended = library.surprisal(library.Lines(["ka vi ka"]), library.load(model), frequencies=unigram, ends=True)
    assert [row["log_frequency"] for row in ended.to_records()] == [*(row["log_frequency"] for row in rows), None]
    probs = dict(unigram.next("", unigram.vocabulary_size))
    expected = [math.log(probs[word]) for word in ("ka", "vi", "ka")]
    assert [row["log_frequency"] for row in rows] == pytest.approx(expected, abs=1e-6)
    with pytest.raises(library.SettingError, match="is an n-gram model of order 3; frequencies come from one"):
        library.surprisal(library.Lines(["ka"]), unigram, frequencies=library.load(model)).to_records()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "bytes", "entropy": True}, "the entropy of the next token is for words and tokens, not for bytes"),
        ({"by": "tokens", "previous": 1}, "frequencies and previous words are for words, not for tokens"),
        ({"by": "tokens", "frequencies": {"a": 1}}, "frequencies and previous words are for words"),
        ({"by": "characters", "word_ends": False}, "word ends are those of words, not of characters"),
    ],
)
def test_columns_that_make_no_sense_are_refused(options: dict[str, Any], message: str, model: Path) -> None:
    with pytest.raises(library.SettingError, match=message):
        library.surprisal(library.Lines(["ka"]), library.load(model), **options)


def test_models_share_rows_of_tokens_where_their_tokens_are_the_same(model: Path, pieces: Path) -> None:
    lm, letters = library.load(model), library.load(pieces)
    rows = library.surprisal(library.Lines(["ka vi"]), {"a": lm, "b": lm}, by="tokens").to_records()
    assert [row["surprisal_bits_a"] == row["surprisal_bits_b"] for row in rows] == [True, True]
    with pytest.raises(library.SettingError, match="a and b have different tokenizers, so their tokens cannot share"):
        library.surprisal(library.Lines(["ka"]), {"a": lm, "b": letters}, by="tokens")
    rows = library.surprisal(library.Lines(["ka", "vi"]), {"a": lm, "b": letters}, by="tokens", long=True).to_records()
    assert [(row["model"], row["sentence"], row["token"]) for row in rows] == [
        ("a", 1, "ka"), ("b", 1, "k"), ("b", 1, "a"), ("a", 2, "vi"), ("b", 2, "v"), ("b", 2, "i"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ka\tx\n", "counts.txt, line 1: is 'ka.tx'; expected a word"),
        ("ka\t3\nvi\t1\nka\t4\n", "counts.txt, line 3: 'ka' was counted on line 1 already; give each word one line"),
        ("", "no word is counted"),
    ],
)
def test_a_bad_file_of_counts_is_told(text: str, message: str, model: Path, tmp_path: Path) -> None:
    (tmp_path / "counts.txt").write_text(text)
    with pytest.raises(library.TextError, match=message):
        library.surprisal(library.Lines(["ka"]), library.load(model), frequencies=tmp_path / "counts.txt").to_records()


@pytest.mark.parametrize("options", [[], ["--words"]])
def test_json_keeps_all_fields(options: list[str], chainrule, model: Path, items: Path, stdin) -> None:
    say = ("score", model, "--field", "sentence", "--json", *options)
    rows = [json.loads(line) for line in chainrule(*say[:2], items, *say[2:]).lines]
    for row, item in zip(rows, ITEMS, strict=True):
        assert {name: row[name] for name in item} == item
        assert row["text"] == item["sentence"]
        assert row["log_prob"] < 0
    stdin(items.read_bytes())
    piped = chainrule(*say, "--document", "record")
    assert [json.loads(line) for line in piped.lines] == rows


def test_a_table_is_a_table_whatever_the_input(chainrule, model: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('id,text\nx1,"ka, vi"\n')
    assert chainrule("score", model, tmp_path / "t.csv", "-o", tmp_path / "out.csv").status == 0
    [row] = rows_of(tmp_path / "out.csv")
    assert (row["id"], row["sentence"], row["text"], row["tokens"]) == ("x1", 1, "ka, vi", 3)
    evaluated = chainrule("evaluate", model, tmp_path / "t.csv", "--json").json
    own = evaluated["log_prob"] + evaluated["spelling_log_prob"]  # P(<unk>) with the spelling of "ka,"
    assert row["surprisal_bits"] == pytest.approx(-own / math.log(2))


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["-o", "t.txt"], 1, "the name of a table ends in .csv, .tsv, .jsonl or .parquet"),
        (["-o", "t.parquet.gz"], 1, "Parquet is compressed already"),
        (["--long"], 2, "--long is for tables; give --output."),
        (["--nats", "--log10"], 1, "--nats and --log10 are both given; choose one"),
        (["--log10", "--json"], 2, "--log10 is for lines and tables: the fields of JSON are in nats"),
        (["--header", "--json"], 2, "--header is for lines: tables and JSON name their columns"),
        (["--header", "-o", "t.csv"], 2, "--header is for lines: tables and JSON name their columns"),
        (["--context-words", "2"], 1, "an n-gram model of order 3 sees 2 tokens before each: its order is its limit"),
        (["--context-tokens", "0"], 1, "--context-tokens is 0; expected 1 or more"),
        (["--no-word-ends"], 2, "--no-word-ends is for tables; give --output, or --words."),
        (["-o", "t.csv", "--json"], 2, "Give either --output or --json"),
        (["--words", "--running"], 2, "--words does not go with --running"),
        (["--words", "--convention", "minicons", "--no-word-ends"], 1, "the convention minicons says how words end"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: list[str], status: int, message: str, refused, model: Path, items: Path, tmp_path: Path
) -> None:
    given = [str(tmp_path / option) if option.startswith("t.") else option for option in options]
    assert message in refused(status, ["score", model, items, "--field", "sentence", *given])


def test_an_existing_file_and_fields_that_differ_are_told(chainrule, model: Path, tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text('{"text": "ka", "a": 1}\n{"text": "vi", "a": "x", "b": 2}\n')
    say = ("score", model, tmp_path / "items.jsonl", "-o", tmp_path / "t.csv")
    assert "row 2 has the column 'b', which the first row lacks" in chainrule(*say).error
    assert not (tmp_path / "t.csv").exists()
    (tmp_path / "t.csv").write_text("mine")
    assert "--overwrite" in chainrule(*say).error
    (tmp_path / "items.jsonl").write_text('{"text": "ka", "a": 1}\n{"text": "vi", "a": "x"}\n')
    assert chainrule(*say, "--overwrite").status == 0
    assert [row["a"] for row in rows_of(tmp_path / "t.csv")] == ["1", "x"]
    pytest.importorskip("pyarrow")
    (tmp_path / "more.jsonl").write_text('{"text": "ka"}\n{"text": "vi"}\n{"text": "su", "b": 2}\n')
    parquet = chainrule("score", model, tmp_path / "more.jsonl", "-o", tmp_path / "t.parquet")
    assert "row 3 has the column 'b', which the first row lacks" in parquet.error
    assert "has values of several types" in chainrule(*say[:4], tmp_path / "t.parquet").error


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet"])
def test_a_table_of_empty_texts_has_its_columns(name: str, chainrule, pieces: Path, tmp_path: Path) -> None:
    say = ["score", pieces, tmp_path / "items.csv", "--field", "s", "--words", "--previous", "1", "--entropy"]
    (tmp_path / "items.csv").write_text("id,s\n" + 'x1,""\n' * 12)
    result = chainrule(*say, "-o", tmp_path / name)
    assert result.status == 0
    assert "12 texts without words" in result.err
    assert "number 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more" in result.err
    pandas = pytest.importorskip("pandas")
    path = tmp_path / name
    found = (
        pandas.read_parquet(path) if name.endswith("t") else pandas.read_csv(path, sep="\t" if "tsv" in name else ",")
    )
    (tmp_path / "items.csv").write_text("id,s\nx1,ka vi\n")
    assert chainrule(*say, "-o", tmp_path / "full.csv").err == ""
    assert (len(found), list(found.columns)) == (0, list(pandas.read_csv(tmp_path / "full.csv").columns))


def test_an_option_without_effect_is_told(
    chainrule, pieces: Path, items: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WINDOW_STRIDE", "BOS", "CACHE_BITS"):
        monkeypatch.setenv(f"CHAINRULE_{name}", "")  # which the options set
    plain = ("score", pieces, items, "--field", "sentence")
    options = ("--markers", "error", "--window-stride", "4", "--bos", "<s>", "--cache-bits", "8")
    told = chainrule(*plain, *options).err
    assert f"--cache-bits has no effect on {pieces}, which keeps no keys and values of tokens" in told
    assert f"--bos has no effect on {pieces}, which does not read each text from a beginning token" in told
    assert "--bos takes a token" in chainrule(*plain, "--bos").err
    with pytest.raises(
        library.SettingError, match="does not read each text from a beginning token, so there is no bos"
    ):
        library.load(pieces, bos="<s>")
    assert f"--markers has no effect on {pieces}, whose tokens are subwords or characters" in told
    assert f"--window-stride has no effect on {pieces}, which does not read texts in windows" in told
    assert "literal markers in a text: read like any other text)" in chainrule("info", pieces).out
    with pytest.raises(library.SettingError, match="lm: this model does not read texts in windows"):
        library.load(pieces, window_stride=4)


def test_a_convention_is_named_by_its_column_and_told_where_it_has_no_effect(
    chainrule, pieces: Path, model: Path, items: Path, tmp_path: Path
) -> None:
    say = ("score", pieces, items, "--field", "sentence", "--words", "--convention", "minicons")
    result = chainrule(*say, "--previous", "1", "-o", tmp_path / "t.csv")
    assert "--convention" not in result.err
    names = [name for name in rows_of(tmp_path / "t.csv")[0] if name.startswith("surprisal")]
    assert names == ["surprisal_minicons_bits", "surprisal_minicons_bits_prev1"]
    told = f"--convention minicons has no effect on {model}, whose tokens are whole words"
    for more in ([], ["-o", tmp_path / "u.csv"]):
        assert told in chainrule("score", model, *say[2:], *more).err


def test_words_without_a_frequency_are_counted(chainrule, model: Path, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("ka vi su\nvi su\n")
    (tmp_path / "counts.txt").write_text("ka\t5\nvi\t0\n")
    say = ("score", model, tmp_path / "t.txt", "--words", "--ends", "--frequencies", tmp_path / "counts.txt")
    told = chainrule(*say, "-o", tmp_path / "t.csv").err
    assert "4 of 5 words (80.0%) have no frequency, or a count of 0; their cells are empty: vi (2), su (2)" in told


def test_models_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    from chainrule.cli.measure.score import names_of

    paths = tuple(tmp_path / name for name in ("small/5g", "large/5g", "lstm"))
    assert names_of(paths) == ["small-5g", "large-5g", "lstm"]
    deeper = tuple(tmp_path / name for name in ("a/x/5g", "b/x/5g"))
    assert names_of(deeper) == ["a-x-5g", "b-x-5g"]


def test_records_with_different_fields_keep_their_own(chainrule, model: Path, tmp_path: Path) -> None:
    """Also a text without words, which has no rows, and previous words, which end at the text."""
    records = [{"text": "ka vi", "id": 1}, {"text": "", "id": 2}, {"text": "vi ka vi", "other": [3]}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    say = ("score", model, tmp_path / "t.jsonl", "--words", "--previous", "1")
    assert chainrule(*say, "-o", tmp_path / "out.jsonl").status == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(row["sentence"], row["position"], row["word"]) for row in rows] == [
        (1, 1, "ka"), (1, 2, "vi"), (3, 1, "vi"), (3, 2, "ka"), (3, 3, "vi"),
    ]  # fmt: skip
    assert [row.get("id") for row in rows] == [1, 1, None, None, None]
    assert [row.get("other") for row in rows] == [None, None, [3], [3], [3]]
    bits = [row["surprisal_bits"] for row in rows]
    assert [row["surprisal_bits_prev1"] for row in rows] == [None, bits[0], None, bits[2], bits[3]]
    result = chainrule(*say, "-o", tmp_path / "out.csv")
    assert result.status == 1
    assert "row 3 has the column 'other', which the first row lacks" in result.error

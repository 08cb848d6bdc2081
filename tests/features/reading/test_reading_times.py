"""chainrule reading: made times, whose figures are worked out again from the design matrix; joins, shifts, refusals."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule as library
from chainrule.features.reading.options import ReadingTimesOptions
from chainrule.features.reading.tables import join_times

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from command_line import Result

STORIES, LENGTH = 10, 72
COUNTS = "ka\t300\nvi\t200\nnin\t100\nporo\t40\nmalita\t9\nsu\t150\n"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder: a text of ten stories, counts, two models, and times that follow the surprisals of the first."""
    folder = tmp_path_factory.mktemp("study")
    rng = np.random.default_rng(5)
    names = [line.split("\t")[0] for line in COUNTS.splitlines()]
    shares = np.array([0.3, 0.25, 0.15, 0.1, 0.05, 0.15])
    stories = [rng.choice(names, LENGTH, p=shares).tolist() for _ in range(STORIES)]
    training = [" ".join(rng.choice(names, 20, p=shares).tolist()) for _ in range(60)]
    lm = library.train(library.Lines(training), library.NGramConfig(order=2))
    lm.save(folder / "lm")
    library.train(library.Lines(training), library.NGramConfig(order=1)).save(folder / "unigram")
    (folder / "counts.txt").write_text(COUNTS)
    rows = library.surprisal(library.Lines([" ".join(story) for story in stories]), lm).to_records()
    text, times = ["word\tzone\titem"], []
    for row in rows:
        text.append(f"{row['word']}\t{row['position']}\t{row['sentence']}")
        before = rows[rows.index(row) - 1]["surprisal_bits"] if row["position"] > 1 else 2.0
        time = 250 + 6 * row["surprisal_bits"] + 3 * before + 2 * row["length"] + rng.normal(0, 8)
        times.append((row["word"], row["position"], row["sentence"], round(time, 3)))
    (folder / "text.tsv").write_text("\n".join(text) + "\n")
    write_times(folder / "times.tsv", [times[i] for i in rng.permutation(len(times))])
    early = [(*one[:3], after[3]) for one, after in pairwise(times) if one[2] == after[2]]
    ends = [(*one[:3], 900.0) for one in times if one[1] == LENGTH]  # no word's time
    write_times(folder / "early.tsv", early + ends)
    return folder


def write_times(path: Path, rows: list[Any]) -> None:
    path.write_text("word\tzone\titem\tRT\n" + "".join("\t".join(map(str, row)) + "\n" for row in rows))


def say(study: Path, times: str = "times.tsv", *more: object) -> list[object]:
    models = (study / "lm", study / "unigram")
    base = ["reading", study / times, *models, "--text", study / "text.tsv", "--time", "RT", "--frequencies"]
    return [*base, study / "counts.txt", *more]


@pytest.mark.parametrize("ends", ["--word-ends", "--no-word-ends"])
def test_sizes_of_context_are_rows(ends: str, chainrule, study: Path, tmp_path: Path) -> None:
    lines = library.Lines((study / "counts.txt").read_text().split() * 5)
    network = library.train(
        lines,
        library.RecurrentConfig(width=8, layers=1),
        tokenizer="character",
        training=library.TrainingConfig(steps=1, compile="no"),
    )
    network.save(tmp_path / "net")
    base = ["reading", study / "times.tsv", tmp_path / "net", "--text", study / "text.tsv", "--time", "RT", "--json"]
    found = chainrule(*base, "--frequencies", study / "counts.txt", "--context-words", 1, 3, ends).json["models"]
    assert [row["model"] for row in found] == ["net-words-1", "net-words-3"]
    with (study / "text.tsv").open() as file:
        words = [(row["item"], row["word"]) for row in csv.DictReader(file, delimiter="\t")]
    stories = [" ".join(word for item, word in words if item == str(number)) for number in range(1, STORIES + 1)]
    for row, most in zip(found, (1, 3), strict=True):
        texts = library.surprisal(library.Lines(stories), network.limited(context_words=most), by="texts")
        bits = sum(text["surprisal_bits"] for text in texts) / sum(len(story) + 1 for story in stories)
        assert row["bits_per_byte"] == pytest.approx(bits, rel=1e-6)
        assert row["signature"].endswith(f"|sees:{most} words")


def test_unknown_words_are_noted(chainrule, study: Path, tmp_path: Path) -> None:
    library.train(library.Lines(["ka vi nin poro su"] * 9), library.NGramConfig(order=2)).save(tmp_path / "few")
    base = ["reading", study / "times.tsv", tmp_path / "few", "--text", study / "text.tsv", "--time", "RT"]
    told = chainrule(*base, "--frequencies", study / "counts.txt").err
    count = (study / "text.tsv").read_text().count("malita")
    assert f"note: {count} of 720 words ({count / 720:.1%}) are unknown to few: malita ({count})" in told


def test_the_figures_are_those_of_the_design_matrix(chainrule, study: Path, tmp_path: Path) -> None:
    result = chainrule(*say(study, "times.tsv", "--json", "--folds", 3, "-o", tmp_path / "design.csv", "--previous", 1))
    assert (result.status, result.err) == (0, "")
    record = result.json
    with (tmp_path / "design.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert record["counts"] == {
        "times": 720,
        "joined by zone and item": 720,
        "texts by item": STORIES,
        "left out (no word before)": STORIES,
        "used": 710,
    }
    times = np.array([float(row["RT"]) for row in rows])
    base = ["position", "length", "log_frequency", "length_x_log_frequency"]
    base += ["length_prev1", "log_frequency_prev1", "length_x_log_frequency_prev1"]
    by_name = {
        "lm": ["lm_surprisal", "lm_surprisal_prev1"],
        "unigram": ["unigram_surprisal", "unigram_surprisal_prev1"],
    }
    fold = np.array([(int(row["item"]) - 1) % 3 for row in rows])

    def log_density(names: list[str]) -> tuple[np.ndarray, float]:
        """By the normal equations, fold by fold; and the coefficient of surprisal on all words."""
        design = np.array([[1.0, *(float(row[name]) for name in names)] for row in rows])
        out = np.empty(len(rows))
        for held in range(3):
            train, test = fold != held, fold == held
            weights = np.linalg.pinv(design[train]) @ times[train]
            variance = np.mean((times[train] - design[train] @ weights) ** 2)
            errors = times[test] - design[test] @ weights
            out[test] = -0.5 * np.log(2 * np.pi * variance) - errors**2 / (2 * variance)
        return out, (np.linalg.pinv(design) @ times)[len(base) + 1] if len(names) > len(base) else 0.0

    baseline, _ = log_density(base)
    gains = {}
    for model in record["models"]:
        own, coefficient = log_density([*base, *by_name[model["model"]]])
        gains[model["model"]] = own - baseline
        assert model["gain"] == pytest.approx(gains[model["model"]].mean(), abs=1e-9)
        assert model["gain_low"] < model["gain"] < model["gain_high"]
        assert model["slope"] == pytest.approx(coefficient, rel=1e-7)
    lm, unigram = record["models"]
    assert lm["gain"] > max(0, unigram["gain"])
    assert lm["slope_low"] < 6 < lm["slope_high"]
    assert lm["behind_the_best"] is None
    assert unigram["behind_the_best"] == pytest.approx((gains["lm"] - gains["unigram"]).mean(), abs=1e-9)
    with (study / "text.tsv").open() as file:
        words = [(row["item"], row["word"]) for row in csv.DictReader(file, delimiter="\t")]
    text = [" ".join(word for item, word in words if item == str(story)) for story in range(1, STORIES + 1)]
    measured = library.load(study / "lm").evaluate(library.Lines(text))
    assert lm["bits_per_byte"] == pytest.approx(measured.bits_per_byte, rel=1e-6)
    assert measured.signature.endswith(lm["signature"])


def test_a_shift_is_noticed_and_mended(chainrule, study: Path) -> None:
    right = chainrule(*say(study, "times.tsv", "--json"))
    assert right.err == ""
    early = chainrule(*say(study, "early.tsv", "--json"))
    assert "so each may be in the row before its word; try a shift of 1" in early.err
    mended = chainrule(*say(study, "early.tsv", "--json", "--shift", "1"))
    assert mended.err == ""
    assert mended.json["shift"] == 1
    assert mended.json["counts"]["shifted out of their story"] == STORIES
    assert mended.json["models"] == right.json["models"]  # the first two words are left out in both
    assert mended.json["models"][0]["gain"] > early.json["models"][0]["gain"]


def test_the_table_shows_counts_powers_and_lags(chainrule, study: Path) -> None:
    lines = chainrule(*say(study, "early.tsv", "--shift", "1", "--log")).out.splitlines()
    assert lines[0].startswith("720 times, 720 joined by zone and item, 10 texts by item, 10 shifted out of their")
    assert lines[0].endswith("700 used; times shifted by 1")
    assert [line.split()[0] for line in lines[2:6]] == ["model", "baseline", "lm", "unigram"]
    assert "ln ms/bit" in lines[2]
    assert lines[-4].split() == ["correlation", "of", "times", "with", "z+2", "z+1", "z", "z-1", "z-2"]


def test_surprisals_of_others_stand_beside_models(chainrule, study: Path, tmp_path: Path) -> None:
    lm = library.load(study / "lm")
    with (study / "text.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    stories = [" ".join(row["word"] for row in rows if row["item"] == str(i)) for i in range(1, STORIES + 1)]
    bits = [row["surprisal_bits"] for row in library.surprisal(library.Lines(stories), lm)]
    table = [{**row, "theirs": value} for row, value in zip(rows, bits, strict=True)]
    (tmp_path / "text.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    options: dict[str, Any] = {"time": "RT", "frequencies": study / "counts.txt", "surprisals": ["theirs"]}
    measured = library.reading_times(study / "times.tsv", tmp_path / "text.jsonl", {"lm": lm}, **options)
    theirs, own = measured.powers
    assert (theirs.gain, theirs.slope, theirs.bits_per_byte) == (own.gain, own.slope, None)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("ka", 999, 1, 300)], "times.tsv, line 2: the text has no word with the key zone 999, item 1"),
        ([("ka", "", 1, 300)], "times.tsv, line 2: the text has no word with the key zone (empty), item 1"),
        ([("word", 1, 1, 300)], "times.tsv, line 2: the word with the key zone 1, item 1 is 'word', and in"),
        ([(None, 1, 1, 300), (None, 1, 1, 300)], "times.tsv, line 3: has the same key, zone 1, item 1, as "),
        ([(None, 1, 1, "slow")], "times.tsv, line 2: RT is 'slow'; expected a number"),
        (
            [(None, 1, 1, "")],
            "times.tsv, line 2: RT is empty; expected a number: leave out the rows of words that have",
        ),
        ([(None, 1, 1, "NA")], "times.tsv, line 2: RT is 'NA'; expected a number"),
        ([(None, 1, 1, "nan")], "times.tsv, line 2: RT is 'nan'; expected a number"),
        ([(None, 1, 1, 0)], "times.tsv, line 2: RT is 0; expected a time above 0: leave out the rows of words that"),
        ([(None, 1, 1, -3)], "times.tsv, line 2: RT is -3; expected a time above 0"),
        ([(None, 1, 1, 300)], "no word is left: 1 times, 1 joined by zone and item, 10 texts by item, 1 left"),
    ],
)
def test_bad_times_are_told_with_their_row(rows: list[Any], message: str, refused, study: Path, tmp_path: Path) -> None:
    first = (study / "text.tsv").read_text().splitlines()[1].split("\t")[0]
    write_times(tmp_path / "times.tsv", [(first if row[0] is None else row[0], *row[1:]) for row in rows])
    command = say(study)
    assert message in refused(1, [command[0], tmp_path / "times.tsv", *command[2:]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("word\tzone\titem\nka\t1\t1\nvi\t1\t1\n", "line 3: has the same key, zone 1, item 1, as"),
        ("word\tzone\titem\nka vi\t1\t1\n", "line 2: the word is 'ka vi'; expected one word"),
        (
            "word\tzone\titem\nka\t1\t1\nvi\t1\t2\nvi\t2\t1\nka\t1\t3\n",
            "the rows of one zone are not contiguous; sort the rows in the order of reading, or name the column that "
            "says which words are one text: --story, one of word, zone, item",
        ),
        ("word\tplace\nka\t1\n", "has no column in common with"),
        (
            "word\tzone\titem\nka\t1\t1\nvi\t3\t1\nvi\t2\t1\nka\t1\t2\n",
            "line 4: zone 2 comes after zone 3 of the same item; expected the words in the order of reading: sort the",
        ),
        ("", "text.tsv: there is no row in it"),
    ],
)
def test_a_bad_text_is_told(text: str, message: str, refused, study: Path, tmp_path: Path) -> None:
    (tmp_path / "text.tsv").write_text(text)
    command = [study / "lm" if part == study / "lm" else part for part in say(study)]
    command[command.index(study / "text.tsv")] = tmp_path / "text.tsv"
    assert message in refused(1, command)


def test_a_story_whose_rows_are_apart_is_answered_with_one_that_fits(refused, study: Path) -> None:
    told = refused(1, say(study, "times.tsv", "--story", "zone"))
    assert told.endswith("text.tsv: the rows of one zone are not contiguous; did you mean --story item?")


def test_times_that_are_all_equal_are_refused(refused, study: Path, tmp_path: Path) -> None:
    with (study / "times.tsv").open() as file:
        rows = [(row["word"], row["zone"], row["item"], 300) for row in csv.DictReader(file, delimiter="\t")]
    write_times(tmp_path / "times.tsv", rows)
    command = say(study)
    told = refused(1, [command[0], tmp_path / "times.tsv", *command[2:]])
    assert told.endswith("RT is the same for all words; expected times that differ")


def test_options_that_do_not_fit_are_refused(refused, study: Path, tmp_path: Path) -> None:
    bare, lm = ["reading", study / "times.tsv", "--text", study / "text.tsv"], study / "lm"
    assert "--frequencies is missing" in refused(2, [*bare, lm])
    told = refused(1, say(study, "times.tsv", "--word", "nope"))
    assert told.endswith("there is no field 'nope'; there are 'word', 'zone', 'item'")
    told = refused(1, [*bare, lm, "--frequencies", study / "counts.txt", "--time", "nope"])
    assert told.endswith("there is no field 'nope'; there are 'word', 'zone', 'item', 'RT'")
    assert "lm: is an n-gram model of order" in refused(1, [*bare, lm, "--time", "RT", "--frequencies", lm])
    same = [study / "unigram", "--time", "RT", "--frequencies", study / "unigram"]
    assert "unigram: a predictor follows from the others" in refused(1, [*bare, *same])
    assert f"The models are {lm} twice" in refused(2, [*bare, lm, lm, "--frequencies", study / "counts.txt"])
    assert "MODELS are missing" in refused(2, [*bare, "--frequencies", study / "counts.txt"])
    assert "has no column 'sentence'; it has word, zone, item" in refused(
        1, say(study, "times.tsv", "--by", "sentence")
    )
    bare = (study / "text.tsv").read_text().replace("\n", "\t \n").replace("item\t ", "item\tpart", 1)
    (tmp_path / "text.tsv").write_text(bare)
    command = [tmp_path / "text.tsv" if part == study / "text.tsv" else part for part in say(study)]
    assert "text.tsv, line 2: part is empty; expected the group of each word (by)" in refused(
        1, [*command, "--by", "part"]
    )
    told = refused(1, say(study, "times.tsv", "--by", "RT"))
    assert told.endswith(
        "has no column 'RT'; it has word, zone, item; " + f"{study / 'times.tsv'} has it, but this table must"
    )
    told = refused(1, say(study, "times.tsv", "--key", "item", "zone", "item"))
    assert "key: names the column 'item' twice; name each column of the key once" in told
    (tmp_path / "d.csv").write_text("mine")
    assert "--overwrite" in refused(1, say(study, "times.tsv", "-o", tmp_path / "d.csv"))


def test_the_plot_has_a_point_for_each_model(chainrule, study: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert chainrule(*say(study, "times.tsv", "--plot", tmp_path / "power.svg")).status == 0
    drawn = (tmp_path / "power.svg").read_text()
    assert "unigram" in drawn
    assert "bits per byte" in drawn
    assert "least squares" not in drawn  # a line through two points says nothing
    third = library.train(library.Lines(["ka vi", "nin ka"]), library.NGramConfig(order=1))
    models = {name: library.load(study / name) for name in ("lm", "unigram")} | {"third": third}
    options: dict[str, Any] = {"time": "RT", "frequencies": study / "counts.txt"}
    measured = library.reading_times(study / "times.tsv", study / "text.tsv", models, **options)
    [axes] = measured.plot().axes
    line, *points = axes.lines
    bits, gains = zip(*((power.bits_per_byte, 1000 * power.gain.value) for power in measured.powers), strict=True)
    assert [point.get_xydata().tolist() for point in points] == [
        [pair] for pair in map(list, zip(bits, gains, strict=True))
    ]
    slope = np.cov(bits, gains, ddof=0)[0, 1] / np.var(bits)  # type: ignore[arg-type]
    (x1, y1), (x2, y2) = line.get_xydata()
    assert (y2 - y1) / (x2 - x1) == pytest.approx(slope)
    bars = [bar.get_segments()[0][:, 1].tolist() for bar in axes.collections]
    assert bars == [[1000 * bound for bound in power.gain.interval] for power in measured.powers]


def test_keys_without_words_are_told_since_they_cannot_be_checked(chainrule, study: Path, tmp_path: Path) -> None:
    header, *rows = [line.split("\t") for line in (study / "times.tsv").read_text().splitlines()]
    place = header.index("word")
    bare = ["\t".join(row[:place] + row[place + 1 :]) for row in (header, *rows)]
    (tmp_path / "times.tsv").write_text("\n".join(bare) + "\n")
    command = say(study)
    whole = chainrule(*command, "--json")
    told = chainrule(command[0], tmp_path / "times.tsv", *command[2:], "--json")
    assert told.json["models"] == whole.json["models"]
    assert whole.json["unguarded"] is None
    assert told.json["unguarded"].startswith("720 of 720 times come without their word, so it could not be checked")
    assert told.json["unguarded"] in told.err
    theirs = chainrule(*command, "--json", "--convention", "minicons")
    assert theirs.json["models"] == whole.json["models"]  # tokens are words
    assert (whole.json["convention"], theirs.json["convention"]) == ("chainrule", "minicons")
    assert "; surprisals: uncorrected\n" in chainrule(*command, "--no-word-ends").out


def test_few_groups_are_told(chainrule, study: Path, tmp_path: Path) -> None:
    header, *rows = (study / "text.tsv").read_text().splitlines()
    halves = [f"{row}\t{int(row.split()[2]) % 2}" for row in rows]
    (tmp_path / "text.tsv").write_text("\n".join([f"{header}\thalf", *halves]) + "\n")
    command = say(study, "times.tsv", "--story", "item", "--by", "item", "--json")
    command[command.index(study / "text.tsv")] = tmp_path / "text.tsv"
    assert chainrule(*command, "--folds", "10").json["coarse"] is None
    more = chainrule(*command, "--folds", "12")
    assert more.json["coarse"] == "there are 10 groups by item, so that the folds are 10, not 12"
    assert (more.json["folds"], more.json["groups"]) == (10, 10)
    times = (study / "times.tsv").read_text().splitlines()
    few = [times[0], *(row for row in times[1:] if row.split("\t")[2] in "1234")]
    (tmp_path / "few.tsv").write_text("\n".join(few) + "\n")
    told = chainrule(command[0], tmp_path / "few.tsv", *command[2:-1]).err
    assert "there are 4 groups by item, so that the folds are 4, not 10; intervals of so few groups are unsure" in told


def test_keys_of_several_columns_may_rise_in_any_order(tmp_path: Path) -> None:
    """Sentences and words of a story: the numbers of words begin anew in each sentence."""
    rows = [(f"{story}", f"{sentence}", f"{word}") for story in (1, 2) for sentence in (1, 2, 10) for word in (1, 2)]
    for name in ("word\tstory\tsentence\tplace", "word\tplace\tsentence\tstory"):
        own = [row if name.endswith("place") else row[::-1] for row in rows]
        (tmp_path / "text.tsv").write_text(name + "\n" + "".join("ka\t" + "\t".join(row) + "\n" for row in own))
        times = "".join("ka\t" + "\t".join(row) + "\t300\n" for row in own)
        (tmp_path / "times.tsv").write_text(name + "\ttime\n" + times)
        options = ReadingTimesOptions(story="story")
        assert join_times(tmp_path / "times.tsv", tmp_path / "text.tsv", options).counts["texts by story"] == 2


def joined(folder: Path, text: str, times: str, **options: Any) -> Any:
    (folder / "text.csv").write_text(text)
    (folder / "times.csv").write_text(times)
    return join_times(folder / "times.csv", folder / "text.csv", ReadingTimesOptions(**options))


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "...1", "X"])
def test_row_numbers_of_r_and_pandas_are_no_part_of_the_key(name: str, tmp_path: Path) -> None:
    text = f"{name},word,zone,item\n1,ka,1,1\n2,vi,2,1\n3,ka,1,2\n"
    times = f"{name},word,zone,item,time\n1,ka,1,2,300\n2,ka,1,1,200\n3,vi,2,1,250\n"
    found = joined(tmp_path, text, times)
    assert found.times.tolist() == [200, 250, 300]
    assert found.stories.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("columns", "rows", "story"),
    [
        ("sentence,pos", ["1,1", "1,2", "2,1", "2,2", "3,1", "3,2"], "sentence"),  # pos has fewer values
        ("list,sentence,pos", ["a,1,1", "a,1,2", "a,2,1", "a,2,2"], "sentence"),  # list has the same everywhere
        ("item,zone", ["1,1", "1,2", "1,3"], "item"),  # one text
        ("story,sentence,pos", ["1,1,1", "1,1,2", "1,2,1", "2,3,1", "2,3,2"], "story"),  # sentences of a story
    ],
)
def test_texts_are_told_apart_by_a_column_whose_values_are_contiguous(
    columns: str, rows: list[str], story: str, tmp_path: Path
) -> None:
    text = f"word,{columns}\n" + "".join(f"ka,{row}\n" for row in rows)
    times = f"word,{columns},time\n" + "".join(f"ka,{row},300\n" for row in rows)
    assert joined(tmp_path, text, times).story == story


def test_a_word_may_have_no_break_spaces(tmp_path: Path) -> None:
    text = "word,zone,item\nvraiment\u00a0?,1,1\nOui\u202f!,2,1\n"
    found = joined(tmp_path, text, text.replace("item", "item,time").replace(",1\n", ",1,300\n"))
    assert found.words == ["vraiment\u00a0?", "Oui\u202f!"]


def test_a_model_that_follows_from_the_baseline_is_left_out_with_a_note(
    chainrule: Callable[..., Result], study: Path, tmp_path: Path
) -> None:
    """Frequencies of the unigram model itself: its surprisals are the log frequencies."""
    command = say(study)
    command[command.index(study / "counts.txt")] = study / "unigram"
    done = chainrule(*command)
    assert "note: unigram is left out: a predictor follows from the others" in done.err
    record = json.loads(chainrule(*command, "--json").out)
    assert [power["model"] for power in record["models"]] == ["lm"]
    assert list(record["left_out"]) == ["unigram"]
    command.remove(study / "lm")
    assert "unigram: a predictor follows from the others" in chainrule(*command).err


def test_keys_and_words_are_compared_in_looked_up_form(tmp_path: Path) -> None:
    (tmp_path / "text.tsv").write_text("word\tstory\tplace\ndon\u2019t\tcaf\u00e9\t1\nka\tcaf\u00e9\t2\n")
    (tmp_path / "times.tsv").write_text("word\tstory\tplace\ttime\ndon't\tcafe\u0301\t1\t300\n")
    found = join_times(tmp_path / "times.tsv", tmp_path / "text.tsv", ReadingTimesOptions(story="story", log=False))
    assert (found.words, found.times[0]) == (["don\u2019t", "ka"], 300)


def test_rows_have_the_likelihoods_whose_differences_are_the_gain(study: Path, tmp_path: Path) -> None:
    """A fold's densities are those of a normal law around a fit to the other folds, by NumPy's least squares."""
    lm = library.load(study / "lm")
    options = {"frequencies": study / "counts.txt", "time": "RT", "story": "item"}
    measured = library.reading_times(study / "times.tsv", study / "text.tsv", {"lm": lm}, **options)
    rows = list(measured.rows)
    gain = np.mean([row["lm_log_density"] - row["log_density"] for row in rows])
    assert gain == pytest.approx(measured.powers[0].gain.value)
    names = [name for name in rows[0] if name == "position" or name.startswith(("length", "log_frequency"))]
    design = np.array([[1.0, *(row[name] for name in names)] for row in rows])
    times, folds = (np.array([row[name] for row in rows]) for name in ("RT", "fold"))
    held = folds == folds[0]
    fitted, *_ = np.linalg.lstsq(design[~held], times[~held], rcond=None)
    deviation = np.sqrt(np.mean((times[~held] - design[~held] @ fitted) ** 2))
    errors = (times[held] - design[held] @ fitted) / deviation
    expected = -(errors**2) / 2 - np.log(deviation * np.sqrt(2 * np.pi))
    assert [row["log_density"] for row in rows if row["fold"] == folds[0]] == pytest.approx(expected.tolist(), rel=1e-6)


def test_times_that_cannot_be_joined_are_skipped_where_asked(
    study: Path, tmp_path: Path, chainrule: Callable[..., Result]
) -> None:
    times = (study / "times.tsv").read_text()
    (tmp_path / "times.tsv").write_text(times + "ka\t999\t0\t250\nka\t1\t1\t0\nbroken\n")
    say = ["reading", tmp_path / "times.tsv", study / "lm", "--text", study / "text.tsv", "--time", "RT"]
    say += ["--frequencies", study / "counts.txt", "--story", "item", "--json"]
    assert "found 1 column; expected 4" in chainrule(*say).error
    done = chainrule(*say, "--bad-records", "skip", "--bad-records-out", tmp_path / "bad.csv")
    whole = chainrule("reading", study / "times.tsv", *say[2:]).json
    assert done.json["models"] == whole["models"]
    with (tmp_path / "bad.csv").open(newline="") as file:
        kept = {row["record"]: row["error"].partition(";")[0] for row in csv.DictReader(file)}
    assert list(kept) == ["broken", "ka\t999\t0\t250", "ka\t1\t1\t0"]
    assert kept["ka\t999\t0\t250"].startswith("the text has no word with the key")
    assert "has no row" not in done.err

"""chainrule rescore: lists in, the best hypotheses out, and what the choices are worth."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest

import chainrule as library
from chainrule.features.metrics import bleu

if TYPE_CHECKING:
    from pathlib import Path

SCORES = {"score": -1.0}


@pytest.fixture
def texts(heldout: Path) -> list[str]:
    return [line for line in heldout.read_text().splitlines() if line.strip()][:30]


def noisy(text: str) -> str:
    """The same words in another order, which a trigram model likes less."""
    return " ".join(reversed(text.split()))


@pytest.fixture
def lists(texts: list[str], tmp_path: Path) -> Path:
    """The right text second, a little less likely by its own score; the third is as good by the model."""
    path = tmp_path / "nbest.jsonl"
    records = [
        {
            "id": f"u{i}",
            "hypotheses": [
                {"text": noisy(text), "score": -1.0, "mark": i},
                {"text": text, "score": -1.5},
                {"text": text + " zzz", "score": -9.0},
            ],
            "reference": text,
        }
        for i, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def best_by_hand(path: Path, model: Path, weight: float, words: float = 0.0) -> list[str]:
    """The choices by the facade's own scores, list by list."""
    loaded = library.load(model)
    found = []
    for line in path.read_text().splitlines():
        texts, scores = zip(*((h["text"], h["score"]) for h in json.loads(line)["hypotheses"]), strict=True)
        totals = [
            score + weight * log_prob + words * len(text.split())
            for text, score, log_prob in zip(texts, scores, loaded.score(texts), strict=True)
        ]
        found.append(texts[totals.index(max(totals))])
    return found


@pytest.mark.parametrize(("weight", "words"), [(1.0, 0.0), (0.3, 0.0), (1.0, 9.0), (0.0, 0.0)])
def test_the_best_sums_are_chosen(
    weight: float, words: float, chainrule, lists: Path, model: Path, tmp_path: Path
) -> None:
    weights = ["--weight", f"lm={weight}", f"words={words}"]
    result = chainrule("rescore", lists, "--model", model, "--no-spelling", *weights, "-o", tmp_path / "best.txt")
    assert (result.status, result.err) == (0, "")
    expected = best_by_hand(lists, model, weight, words)
    assert (tmp_path / "best.txt").read_text() == "".join(text + "\n" for text in expected)
    assert result.lines[1] == f"weights  score 1, lm {weight:.4g}, words {words:.4g}"


def test_tuning_on_few_lists_is_told(chainrule, lists: Path, model: Path, tmp_path: Path) -> None:
    best = ["-o", tmp_path / "best.txt", "--overwrite"]
    told = chainrule("rescore", lists, "--model", model, "--tune", lists, *best).out
    assert "on 30 lists" in told
    [first, *_] = lists.read_text().splitlines()
    record = json.loads(first)
    record["hypotheses"] = [{"text": record["reference"], "score": -1.0}, {"text": "zzz", "score": -9.0}]
    (tmp_path / "one.jsonl").write_text(json.dumps(record) + "\n")
    one = ["rescore", tmp_path / "one.jsonl", "--model", model, "--tune", tmp_path / "one.jsonl", *best]
    assert "tuning on 1 list found no better weights" in chainrule(*one).out


def test_error_rates_before_and_after_are_printed(
    chainrule, lists: Path, model: Path, texts: list[str], tmp_path: Path
) -> None:
    result = chainrule("rescore", lists, "--model", model, "-o", tmp_path / "best.jsonl", "--json")
    assert result.status == 0
    best = [json.loads(line) for line in (tmp_path / "best.jsonl").read_text().splitlines()]
    assert [record["id"] for record in best] == [f"u{i}" for i in range(30)]
    found = result.json
    assert (found["lists"], found["hypotheses"]) == (30, 90)
    assert found["changed"] == sum(record["text"] != noisy(text) for record, text in zip(best, texts, strict=True))
    rates = found["word_error_rate"]
    assert rates["oracle"] == {"value": 0, "interval": [0, 0]}
    assert rates["after"]["value"] < rates["before"]["value"]
    assert rates["change"]["value"] == pytest.approx(rates["after"]["value"] - rates["before"]["value"])
    assert rates["before"]["interval"][0] < rates["before"]["value"] < rates["before"]["interval"][1]
    assert found["bleu"]["oracle"]["value"] == pytest.approx(100)
    assert found["bleu"]["signature"].startswith("nrefs:1|case:mixed|")
    assert found["character_error_rate"]["oracle"]["value"] == 0
    printed = chainrule("rescore", lists, "--model", model, "-o", tmp_path / "best.txt", "--no-bleu").lines
    assert printed[3].split() == ["WER", "95", "%", "CER", "95", "%"]
    assert [line.split()[0] for line in printed[4:]] == ["before", "after", "change", "oracle"]
    assert f"{100 * rates['after']['value']:.2f} %" in printed[5]


def test_references_may_come_from_a_file_and_the_choices_go_to_the_screen(
    chainrule, stdin, lists: Path, model: Path, texts: list[str], tmp_path: Path
) -> None:
    bare = [json.dumps({**json.loads(line), "reference": None}) for line in lists.read_text().splitlines()]
    (tmp_path / "refs").write_text("".join(text + "\n" for text in texts))
    stdin("".join(line + "\n" for line in bare).encode())
    result = chainrule("rescore", "-", "--model", model, "--references", tmp_path / "refs", "--no-spelling")
    assert result.out.splitlines() == best_by_hand(lists, model, 1.0)
    assert "oracle" in result.err


@pytest.mark.parametrize("objective", ["wer", "cer", "bleu", "likelihood"])
def test_tuned_weights_are_kept_in_a_file(objective: str, chainrule, lists: Path, model: Path, tmp_path: Path) -> None:
    kept = tmp_path / "weights.json"
    say = ["rescore", lists, "--model", model, "-o", tmp_path / "best.txt", "--json", "--overwrite"]
    plain = chainrule(*say).json
    tuned = chainrule(*say, "--tune", lists, "--objective", objective, "--restarts", 2, "--weights-out", kept)
    assert (tuned.status, tuned.err) == (0, "")
    assert tuned.json["tuned"]["number"] == 30
    assert tuned.json["word_error_rate"]["after"]["value"] <= plain["word_error_rate"]["after"]["value"]
    assert json.loads(kept.read_text())["weights"] == tuned.json["weights"]
    best = (tmp_path / "best.txt").read_text()
    again = chainrule(*say, "--weights", kept)
    assert again.json["weights"] == tuned.json["weights"]
    assert again.json["word_error_rate"] == tuned.json["word_error_rate"] or objective == "likelihood"
    assert (tmp_path / "best.txt").read_text() == best


def test_tuning_on_other_lists_is_tuning_on_a_file_of_references(
    chainrule, lists: Path, model: Path, texts: list[str], tmp_path: Path
) -> None:
    (tmp_path / "refs").write_text("".join(f"u{i} {text}\n" for i, text in enumerate(texts)))
    other = tmp_path / "other.jsonl"
    other.write_text(lists.read_text())
    found = [
        chainrule("rescore", lists, "--model", model, "-o", tmp_path / f"{i}", "--tune", tune, "--json").json["weights"]
        for i, tune in enumerate((lists, other, tmp_path / "refs"))
    ]
    assert found[0] == found[1] == found[2]


def test_lists_are_written_with_their_new_scores(chainrule, lists: Path, model: Path, tmp_path: Path) -> None:
    say = ["rescore", lists, "--model", f"a={model}", "--model", f"b={model}", "-o", tmp_path / "best"]
    assert chainrule(*say, "--nbest-out", tmp_path / "out.jsonl.gz", "--no-spelling").status == 0
    [first, *_] = [found["hypotheses"] for found in read_json(tmp_path / "out.jsonl.gz")]
    loaded = library.load(model)
    for hypothesis in first:
        scores = hypothesis["scores"]
        assert list(scores) == ["score", "a", "b", "total"]
        assert scores["a"] == scores["b"] == pytest.approx(loaded.score([hypothesis["text"]])[0])
        assert scores["total"] == pytest.approx(scores["score"] + scores["a"] + scores["b"])
    totals = [hypothesis["scores"]["total"] for hypothesis in first]
    assert totals == sorted(totals, reverse=True)
    assert [hypothesis.get("mark") for hypothesis in first if "mark" in hypothesis] == [0]


def read_json(path: Path) -> list[dict]:
    import gzip

    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def test_moses_lists_get_a_feature_more(chainrule, model: Path, tmp_path: Path) -> None:
    (tmp_path / "nbest").write_text("0 ||| ka vi ||| TM= -1 -2 ||| -4\n0 ||| vi ka ||| TM= -1 -3 ||| -5 ||| 0-1\n")
    say = ["rescore", tmp_path / "nbest", "--model", model, "-o", tmp_path / "best"]
    assert chainrule(*say, "--nbest-out", tmp_path / "out", "--weight", "lm=0").status == 0
    ka, vi = library.load(model).score(["ka vi", "vi ka"])
    assert (tmp_path / "out").read_text() == (
        f"0 ||| ka vi ||| TM= -1 -2 score= -4 lm= {ka:.6g} ||| -4\n"
        f"0 ||| vi ka ||| TM= -1 -3 score= -5 lm= {vi:.6g} ||| -5 ||| 0-1\n"
    )
    assert (tmp_path / "best").read_text() == "ka vi\n"


def test_kaldis_files_become_a_folder_of_such(chainrule, model: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("u1-1 ka vi\nu1-2 vi ka\nu2-1 ka\n")
    (tmp_path / "costs").write_text("u1-1 5\nu1-2 4\nu2-1 1\n")
    (tmp_path / "refs").write_text("u2 ka\nu1 ka vi\n")
    say = ["rescore", tmp_path / "text", "--costs", f"am={tmp_path / 'costs'}", "--model", model, "--weight", "lm=0"]
    result = chainrule(
        *say, "-o", tmp_path / "best", "--nbest-out", tmp_path / "out", "--references", tmp_path / "refs"
    )
    assert (result.status, result.err) == (0, "")
    assert (tmp_path / "best").read_text() == "u1 vi ka\nu2 ka\n"
    assert (tmp_path / "out" / "text").read_text() == "u1-1 vi ka\nu1-2 ka vi\nu2-1 ka\n"
    assert (tmp_path / "out" / "am").read_text() == "u1-1 -4.000000\nu1-2 -5.000000\nu2-1 -1.000000\n"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["am", "lm", "text", "total"]


def test_srilms_lists_get_the_models_score(chainrule, model: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "u1").write_text("-10 -2 2 ka vi\n-11 -3 2 vi ka\n")
    say = ["rescore", tmp_path / "in", "--model", model, "--weight", "language=0", "--nbest-out", tmp_path / "out"]
    assert chainrule(*say, "-o", tmp_path / "best").status == 0
    rows = [line.split() for line in (tmp_path / "out" / "u1").read_text().splitlines()]
    scores = dict(zip(["ka vi", "vi ka"], library.load(model).score(["ka vi", "vi ka"]), strict=True))
    for row, acoustic in ((row, {"ka": -10, "vi": -11}[row[3]]) for row in rows):
        assert float(row[0]) == acoustic
        assert float(row[1]) == pytest.approx(scores[" ".join(row[3:])] / math.log(10), rel=1e-5)
        assert row[2] == "2"
    result = chainrule(
        *say, "--model", f"other={model}", "-o", tmp_path / "b2", "--overwrite", "--nbest-out", tmp_path / "o2"
    )
    assert result.status != 0


def test_without_sacrebleu_it_is_left_out_with_a_note(
    chainrule, lists: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bleu, "find_spec", lambda name: None)
    result = chainrule("rescore", lists, "--model", model, "-o", tmp_path / "a")
    assert result.status == 0
    assert result.err.startswith("note: BLEU was not measured: it needs pip install 'chainrule[bleu]'")
    assert chainrule("rescore", lists, "--model", model, "-o", tmp_path / "b", "--no-bleu").err == ""
    tuned = ("rescore", lists, "--tune", lists, "--objective", "bleu", "--model", model, "-o", tmp_path / "c")
    assert "pip install 'chainrule[bleu]'" in chainrule(*tuned).error


@pytest.mark.parametrize("threads", ["1", "3"])
def test_no_result_depends_on_threads(
    threads: str, chainrule, lists: Path, model: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("chainrule.features.rescore.features._HYPOTHESES_AT_ONCE", 4)
    monkeypatch.setenv("CHAINRULE_THREADS", threads)
    say = ["rescore", lists, "--model", model, "--tune", lists, "--no-spelling"]
    result = chainrule(*say, "--weight", "lm=1", "--restarts", 1, "-o", tmp_path / "best", "--json")
    monkeypatch.undo()
    whole = chainrule(*say, "--weight", "lm=1", "--restarts", 1, "-o", tmp_path / "whole", "--json")
    assert result.json == whole.json
    assert (tmp_path / "best").read_text() == (tmp_path / "whole").read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--weight", "lm"], 2, "--weight takes NAME=VALUE, such as lm=0.8, not lm."),
        (["--weight", "lm=x"], 2, "The weight of lm is x; expected a number."),
        (["--weight", "lm=1", "lm=2"], 2, "--weight names lm twice."),
        (["--weight", "lm=nan"], 1, "the weight of lm is nan; expected a finite number"),
        (["--weight", "ml=1"], 1, "there is a weight for ml, but no such score; expected some of score, lm, words"),
        (["--weight", "score=0", "--tune", "LISTS"], 1, "the weight of score is 0, and tuning keeps it"),
        (["--json"], 2, "With --json, the best hypotheses need a file: give --output."),
        (["-o", "LISTS"], 1, "is one of the files to read; choose another name"),
        (["-o", "there"], 1, "there: exists already; use --overwrite"),
        (["-o", "no/such"], 1, "there is no folder no to write it in"),
        (["-o", "x", "--nbest-out", "x"], 1, "x: is given for two outputs"),
        (["--weights", "there"], 1, "there: has no weights; expected a file that rescoring wrote"),
        (["--weights", "nowhere"], 1, "nowhere: cannot be read"),
        (["--references", "nowhere"], 1, "nowhere"),
        (["--references", "there"], 1, "there: has 1 lines, but there are more lists"),
        (["--tune", "bare.jsonl"], 1, "bare.jsonl: the lists have no references, and tuning needs them"),
        (["--tune", "LISTS", "--restarts", "-1"], 1, "restarts is -1"),
        (["--model", "x=nowhere"], 1, "nowhere: there is no such folder or file"),
        (["--model", "score=MODEL", "-o", "x"], 1, "two scores are named 'score'"),
        (["--model", "MODEL"], 1, "two models are named 'lm'"),
    ],
)
def test_bad_input_is_an_error_and_writes_nothing(
    arguments: list[str], status: int, message: str, chainrule, lists: Path, model: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("mine\n")
    (tmp_path / "bare.jsonl").write_text('{"hypotheses": [{"text": "a", "score": 1}]}\n')
    before = sorted(path.name for path in tmp_path.iterdir())
    given = [word.replace("LISTS", lists.name).replace("MODEL", str(model)) for word in arguments]
    output = [] if "-o" in given or "--json" in given else ["-o", "best.txt"]
    result = chainrule("rescore", lists.name, "--model", model, *given, *output)
    assert result.status == status
    assert message in result.error
    assert (tmp_path / "there").read_text() == "mine\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_before_is_by_own_scores_whatever_weights_are_loaded_or_tuned(
    chainrule, lists: Path, model: Path, texts: list[str], tmp_path: Path
) -> None:
    kept = tmp_path / "weights.json"
    say = ["rescore", lists, "--model", model, "-o", tmp_path / "best", "--overwrite", "--json", "--no-bleu"]
    plain = chainrule(*say).json["word_error_rate"]["before"]
    weighed = chainrule(*say, "--tune", lists, "--weights-out", kept).json["word_error_rate"]["before"]
    content = json.loads(kept.read_text())
    content["weights"]["score"] = -1.0  # by which the third would be the choice
    kept.write_text(json.dumps(content))
    loaded = chainrule(*say, "--weights", kept).json["word_error_rate"]["before"]
    said = chainrule(*say, "--weights", kept, "--weight", "score=-1").json["word_error_rate"]["before"]
    assert plain == weighed == loaded
    assert said["value"] == pytest.approx(30 / sum(len(text.split()) for text in texts))


def test_scores_that_lists_call_priors_have_no_weight_beside_a_model(chainrule, model: Path, tmp_path: Path) -> None:
    hypothesis = {"text": "ka vi", "scores": {"channel": -1, "unigram": -2}}
    lists = tmp_path / "lists.jsonl"
    lists.write_text(json.dumps({"hypotheses": [hypothesis], "priors": ["unigram"]}) + "\n")
    beside = chainrule("rescore", lists, "--model", model, "-o", tmp_path / "a")
    assert beside.lines[1] == "weights  channel 1, unigram 0, lm 1, words 0"
    assert "note: the lists mark unigram as the score of a weaker language model" in beside.err
    said = chainrule("rescore", lists, "--model", model, "--weight", "unigram=0.5", "-o", tmp_path / "b")
    assert (said.lines[1], said.err) == ("weights  channel 1, unigram 0.5, lm 1, words 0", "")
    alone = chainrule("rescore", lists, "-o", tmp_path / "c")
    assert (alone.lines[1], alone.err) == ("weights  channel 1, unigram 1, words 0", "")
    for wrong in ('"unigram"', '["bigram"]', "[1]"):
        lists.write_text(json.dumps({"hypotheses": [hypothesis]})[:-1] + f', "priors": {wrong}}}\n')
        result = chainrule("rescore", lists, "--model", model, "-o", tmp_path / "d")
        assert "lists.jsonl, line 1: priors is not a list of score names" in result.error


def test_impossible_hypotheses_are_counted_and_marked(chainrule, heldout: Path, tmp_path: Path) -> None:
    likeliest = ["--order", 1, "--smoothing", "maximum-likelihood", "--no-open-vocabulary"]
    assert chainrule("train", "ngram", heldout, "-o", tmp_path / "ml", *likeliest).status == 0
    word = heldout.read_text().split()[0]
    hypotheses = [{"text": "qqqq", "score": -1}, {"text": word, "score": -2}]
    lists, out = tmp_path / "lists.jsonl", tmp_path / "out.jsonl"
    lists.write_text(json.dumps({"hypotheses": hypotheses}) + "\n")
    say = ["rescore", lists, "--model", tmp_path / "ml", "--overwrite", "-o", tmp_path / "best", "--nbest-out"]
    result = chainrule(*say, out)
    assert "ml gives 1 hypotheses no probability: each counts as -1,000,000 nats" in result.out
    likely, impossible = json.loads(out.read_text())["hypotheses"]
    assert (likely["text"], impossible["text"]) == (word, "qqqq")
    assert impossible["scores"] == {"score": -1, "ml": None, "total": None}
    assert chainrule(*say, out, "--weight", "ml=0", "--json").json["impossible"] == {"ml": 1}
    assert json.loads(out.read_text())["hypotheses"][0]["scores"] == {"score": -1, "ml": None, "total": -1}
    assert (
        "'ml' of hypothesis 1 is null, which means probability 0"
        in chainrule("rescore", out, "-o", tmp_path / "x").error
    )
    (tmp_path / "nbest").write_text("0 ||| qqqq ||| TM= -1 ||| -1\n")
    chainrule("rescore", tmp_path / "nbest", *say[2:], tmp_path / "moses")
    assert (tmp_path / "moses").read_text() == "0 ||| qqqq ||| TM= -1 score= -1 ml= -inf ||| -inf\n"


def test_an_error_at_the_end_leaves_nothing(chainrule, lists: Path, model: Path, tmp_path: Path) -> None:
    with lists.open("a") as file:
        file.write('{"hypotheses": [{"text": "a", "score": NaN}], "reference": "a"}\n')
    targets = ["-o", tmp_path / "best", "--nbest-out", tmp_path / "out.jsonl", "--weights-out", tmp_path / "weights"]
    result = chainrule("rescore", lists, "--model", model, *targets)
    assert "nbest.jsonl, line 31: the score of hypothesis 1 is nan" in result.error
    assert [path.name for path in tmp_path.iterdir()] == ["nbest.jsonl"]


def test_standard_input_cannot_be_tuned_on(chainrule, stdin, model: Path) -> None:
    stdin(b"")
    assert "can be read only once" in chainrule("rescore", "-", "--model", model, "--tune", "refs").error


def test_figures_of_the_lists_that_weights_were_tuned_on_come_with_a_warning(
    chainrule, lists: Path, model: Path, texts: list[str], tmp_path: Path
) -> None:
    warning = "the weights were tuned on these lists, so the figures are too good; measure on other lists"
    (tmp_path / "copy.jsonl").write_bytes(lists.read_bytes())
    (tmp_path / "refs").write_text("".join(text + "\n" for text in texts))
    (tmp_path / "others.jsonl").write_text("".join(line + "\n" for line in lists.read_text().splitlines()[:10]))
    say = ("rescore", lists, "--model", model, "-o", tmp_path / "best.txt", "--overwrite", "--tune")
    for same in (lists, tmp_path / "copy.jsonl", tmp_path / "refs"):
        assert warning in chainrule(*say, same).out
    some = warning.replace("these", "10 of these 30")
    assert some in chainrule(*say, tmp_path / "others.jsonl").out
    more = lists.read_text() + lists.read_text().replace("-", "-1")  # all of the lists, and others
    (tmp_path / "more.jsonl").write_text(more)
    assert warning in chainrule(*say, tmp_path / "more.jsonl").out
    (tmp_path / "others.jsonl").write_text(lists.read_text().replace("-", "-1"))
    assert "tuned on" not in chainrule(*say, tmp_path / "others.jsonl").out


LATTICES = """u1
0 1 so 0,1,
1 2 it 0,1,
1 2 eat 0,0.9,
2 3 goes 0,1,
3

cut
0 1 so 0,1,

u2
0 1 it 0,2,
0 1 eat 0,1,
1 2 goes 0,1,
2 3 so 0,1,
3

"""


@pytest.fixture
def small_model(chainrule, tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text("so it goes\nit goes so\nso so it goes\n" * 3)
    folder = tmp_path / "small"
    assert chainrule("train", "ngram", tmp_path / "text.txt", "-o", folder, "--order", 3).status == 0
    return folder


def test_lattices_are_rescored_with_references_and_a_wrong_one_is_named(
    chainrule, small_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "lat.txt").write_text(LATTICES)
    (tmp_path / "refs").write_text("u1 so it goes\ncut so\nu2 it goes so\n")
    say = ["rescore", tmp_path / "lat.txt", "--model", small_model, "--references", tmp_path / "refs", "--overwrite"]
    result = chainrule(*say, "-o", tmp_path / "best.txt", "--json", "--nbest-out", tmp_path / "nbest.jsonl")
    assert result.status == 1
    assert "line 8: the lattice of cut has no final node" in result.err
    assert "1 of 3 lattices could not be read; see above" in result.err
    assert (tmp_path / "best.txt").read_text() == "u1 so it goes\nu2 it goes so\n"
    rates = json.loads(result.out)["word_error_rate"]
    assert (rates["before"]["value"], rates["after"]["value"]) == (pytest.approx(2 / 6), 0)
    assert json.loads(result.out)["search"] == {"nbest": 100, "without": []}
    again = chainrule("rescore", tmp_path / "nbest.jsonl", "--model", f"lm={small_model}")
    assert "two scores are named" not in again.err
    tuned = chainrule(*say, "--tune", tmp_path / "refs", "--restarts", 1, "-o", tmp_path / "best.txt")
    assert (tuned.status, tuned.out.count("tuned on these lists")) == (1, 1)


def test_symbols_are_for_numbered_lattices(chainrule, small_model: Path, tmp_path: Path) -> None:
    (tmp_path / "lat.txt").write_text("u1\n0 1 2 0,1,\n1 2 1 0,1,\n2\n\n")
    (tmp_path / "words.txt").write_text("<eps> 0\nit 1\nso 2\n")
    say = ["rescore", tmp_path / "lat.txt", "--model", small_model]
    assert chainrule(*say).error.endswith("name the table of their symbols with --symbols words.txt")
    assert chainrule(*say, "--symbols", tmp_path / "words.txt").out == "u1 so it\n"
    lists = tmp_path / "lists.jsonl"
    lists.write_text('{"hypotheses": [{"text": "so", "score": 1}]}\n')
    assert "are for Kaldi's lattices" in chainrule("rescore", lists, "--symbols", tmp_path / "words.txt").error


def test_models_come_before_the_lists(chainrule, refused, model: Path, tmp_path: Path) -> None:
    lists = tmp_path / "nbest.jsonl"
    lists.write_text('{"hypotheses": [{"text": "ka vi", "score": -1}, {"text": "vi", "score": -1.5}]}\n')
    before = chainrule("rescore", lists, "--model", f"first={model}", "--model", f"second={model}")
    assert chainrule("rescore", f"first={model}", f"second={model}", lists) == before
    assert chainrule("rescore", f"first={model}", lists, "--model", f"second={model}") == before
    assert "weights  score 1, first 1, second 1" in before.err
    told = refused(2, ["rescore", lists, model])
    assert told.startswith(f"{lists} is not a model, and {model} is: the models come first, then the lists.")
    assert refused(2, ["rescore", model]).startswith(f"{model} is a model; after it, the n-best lists are missing.")

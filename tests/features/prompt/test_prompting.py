"""Prompting: templates, choices against whole texts scored, calibration by hand, shots, free answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.base.progress import silent
from chainrule.errors import SettingError, TextError
from chainrule.evaluation.choices import ChoiceScores, log_shares
from chainrule.features.prompt.choices import normalise, parse_choices
from chainrule.features.prompt.experiment import PromptConfig, agrees, calibrate, run_prompts
from chainrule.features.prompt.prompt import prompt
from chainrule.features.prompt.prompts import Shots, Template, few_shot_prompt
from chainrule.text.corpus.records import Record, read_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PROMPTS = ["vi sa man", "ka vi zyzzyva", "vi ma", "", "vi sa man"]
CHOICES = ["ka", "ka vi", "zyzzyva", "n"]


@pytest.fixture(scope="module", params=["word", "character", "bpe", "transformer"])
def model(request: pytest.FixtureRequest, fixtures: Path) -> chainrule.Model:
    if request.param == "transformer":
        return transformer_of(fixtures)
    tokenizer = chainrule.TokenizerConfig(kind="bpe", vocabulary_size=400) if request.param == "bpe" else request.param
    return chainrule.train(fixtures / "train.txt", chainrule.NGramConfig(order=3), tokenizer=tokenizer)


@pytest.fixture(scope="module")
def network(fixtures: Path) -> chainrule.Model:
    return transformer_of(fixtures)


def transformer_of(fixtures: Path) -> chainrule.Model:
    config = chainrule.TransformerConfig(layers=1, width=16, heads=2, context=24)
    pieces = chainrule.TokenizerConfig(kind="bpe", vocabulary_size=300)
    training = chainrule.TrainingConfig(steps=3)
    return chainrule.train(fixtures / "train.txt", config, tokenizer=pieces, training=training)


def test_choices_cost_what_the_joint_texts_cost_after_their_prompts(model: chainrule.Model) -> None:
    """Oracle: each joint text scored as a whole, without shared states, and the part after the prompt added up."""
    log_probs = model.choice_log_probs(PROMPTS, CHOICES)
    assert log_probs.shape == (5, 4)
    for i, text in enumerate(PROMPTS):
        for j, choice in enumerate(CHOICES):
            joint = f"{text} {choice}" if text else choice
            encoded, context = model.tokenizer.encode_texts([joint]), model.tokenizer.encode_texts([text])
            ids, before = encoded.ids[:-1], context.ids[:-1]
            given = next((k for k in range(len(before)) if k >= len(ids) or ids[k] != before[k]), len(before))
            [rows] = model.language_model.score([ids], end=False)
            [unknown] = model.language_model.unknown_log_probs([ids], end=False)
            kinds = model.speller.unseen_types
            expected = 0.0
            for k in range(given, len(ids)):
                expected += float(rows[k]) - math.log1p((kinds - 1) * math.exp(float(unknown[k])))
                if ids[k] == 0:
                    expected += math.log(kinds) + float(model.speller.log_probs([encoded.surface(k)])[0])
            assert log_probs[i, j] == pytest.approx(expected, abs=2e-5)


def test_choosing_gives_the_shares_of_the_choices(model: chainrule.Model) -> None:
    shares = model.choose("vi sa man", CHOICES)
    probs = np.exp(model.choice_log_probs(["vi sa man"], CHOICES)[0])
    assert list(shares) == CHOICES
    assert list(shares.values()) == pytest.approx((probs / probs.sum()).tolist(), rel=1e-5)
    assert sum(shares.values()) == pytest.approx(1)


def test_a_prompt_does_not_depend_on_its_neighbours(model: chainrule.Model) -> None:
    alone = [model.choice_log_probs([text], CHOICES)[0] for text in PROMPTS]
    np.testing.assert_allclose(model.choice_log_probs(PROMPTS, CHOICES), alone, atol=2e-5)


@pytest.mark.parametrize("family", ["transformer", "recurrent"])
def test_what_all_prompts_begin_with_is_read_once(family: str, fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the examples of few-shot prompts are. Oracle: each prompt by itself, read from its beginning."""
    configs = {
        "transformer": chainrule.TransformerConfig(layers=1, width=16, heads=2, context=80),
        "recurrent": chainrule.RecurrentConfig(layers=1, width=16),
    }
    training = chainrule.TrainingConfig(steps=3)
    model = chainrule.train(fixtures / "train.txt", configs[family], training=training)
    examples = " ".join(["ka vi sa man"] * 10)
    prompts = [f"{examples} {rest}".strip() for rest in ("vi ma", "sa", "bu ka", "vi zyzzyva", "")]
    alone = [model.choice_log_probs([text], CHOICES)[0] for text in prompts]
    read: list[int] = []
    network, start, go_on = type(model.language_model), model.language_model.start, model.language_model.read
    monkeypatch.setattr(network, "start", lambda _, rows: read.extend(map(len, rows)) or start(rows))
    monkeypatch.setattr(network, "read", lambda _, rows, state: read.extend(map(len, rows)) or go_on(rows, state))
    np.testing.assert_allclose(model.choice_log_probs(prompts, CHOICES), alone, atol=2e-5)
    assert sorted(read) == sorted(2 * [1, 2, 2, 2, 40])  # the second time for P(<unk>)
    read.clear()
    long = [f"{examples} {examples} {rest}" for rest in ("vi ma", "sa")]
    model.choice_log_probs(long, CHOICES)
    # What is longer than the context is read whole.
    assert sorted(read) == sorted(2 * ([81, 82] if family == "transformer" else [1, 2, 80]))


def test_scores_of_texts_given_prompts_are_differences_of_scores(model: chainrule.Model) -> None:
    """log P(b | a) = log P(a b) - log P(a), with </s> only at the end; the last is from a step at the waist."""
    [score] = model.score([" ka vi"], given="vi sa man")
    ids = model.tokenizer.encode_texts(["vi sa man ka vi"]).ids
    given = len(model.tokenizer.encode_texts(["vi sa man"]).ids) - 1
    state, total = model.language_model.start([ids[:given]]), 0.0
    for token in ids[given:]:
        total += float(model.language_model.next_log_probs(state)[0, token])
        state = model.language_model.advance(state, np.array([token], np.int32))
    assert score == pytest.approx(total, abs=2e-5)
    assert model.score([" ka", " vi"], given=["vi", "sa"]).shape == (2,)
    with pytest.raises(SettingError, match="1 prompts for 2 texts"):
        model.score([" ka", " vi"], given=["vi"])


@pytest.mark.parametrize(
    ("choices", "message"),
    [(["ka"], "only one choice; expected at least two"), (["ka", " "], "is empty"), (["ka", "ka"], "is given twice")],
)
def test_wrong_choices_are_refused(choices: list[str], message: str, model: chainrule.Model) -> None:
    with pytest.raises(SettingError, match=message):
        model.choose("vi", choices)


def test_templates_fill_fields_and_nothing_else() -> None:
    template = Template("{{{a}}} and {b}: {a}?")
    assert template.fields == ("a", "b")
    assert template.fill(Record({"a": "{b}", "b": "2", "c": "3"})) == "{{b}} and 2: {b}?"
    assert (template.tail, template.fill_all_with("N/A")) == ("?", "{N/A} and N/A: N/A?")
    with pytest.raises(TextError, match=r"line 3: there is no field 'b' for the template; the fields are 'a'"):
        template.fill(Record({"a": "1"}, "x.tsv, line 3"))


@pytest.mark.parametrize("text", ["no field", "{a.__class__}", "{0}", "{}", "{a!r}", "{a:>9}", "{a", "a}"])
def test_templates_that_name_no_field_or_hold_code_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match="the template"):
        Template(text)


def test_calibration_by_hand() -> None:
    scores = np.log(np.array([[0.6, 0.2], [0.1, 0.3]]))
    assert np.exp(calibrate(scores, "none")).tolist() == [pytest.approx([0.75, 0.25]), pytest.approx([0.25, 0.75])]
    without = np.log(np.array([[0.5, 0.125], [0.3, 0.1], [0.13, 0.07]]))  # shares 0.8, 0.75 and 0.65: mean 2.2 / 3
    first, second = 0.75 / (2.2 / 3), 0.25 / (0.8 / 3)
    expected = [first / (first + second), second / (first + second)]
    assert np.exp(calibrate(scores, "content-free", without))[0].tolist() == pytest.approx(expected)
    pmi = [0.6 / 0.5, 0.2 / 0.125]
    assert np.exp(calibrate(scores, "pmi", without))[0].tolist() == pytest.approx([share / sum(pmi) for share in pmi])
    # Both columns have a mean of 0.5, so that nothing moves.
    np.testing.assert_allclose(calibrate(scores, "batch"), calibrate(scores, "none"))


def test_impossible_choices_stay_impossible_and_none_is_not_a_number() -> None:
    shares = np.exp(log_shares(np.array([[-np.inf, -3.0], [-np.inf, -np.inf]])))
    assert shares.tolist() == [[0.0, 1.0], [0.5, 0.5]]
    row = np.array([[-np.inf, -1.0]])
    assert np.exp(calibrate(row, "pmi", row))[0].tolist() == [0.0, 1.0]


def test_sizes_of_choices_divide() -> None:
    scores = ChoiceScores(np.array([[-6.0, -12.0]]), np.array([[1.0, 2.0]]))
    sizes = {"none": [-6, -12], "tokens": [-6, -6], "characters": [-1.5, -4], "bytes": [-1.2, -4]}
    for by, expected in sizes.items():
        assert normalise(scores, ["café", "tea"], by)[0].tolist() == pytest.approx(expected)  # type: ignore[arg-type]


def test_choices_are_written_with_their_labels() -> None:
    assert parse_choices(["great=1", "so so", "a=b=c"]) == [("great", "1"), ("so so", "so so"), ("a", "b=c")]


def test_shots_are_drawn_by_seed_and_shuffled_by_order() -> None:
    def drawn(seed: int, order: int, but: int = -1) -> list[int]:
        return Shots(20, 5, seed, order).draw(lambda i: i != but)

    first = drawn(3, 1)
    assert first == drawn(3, 1)
    assert len(set(first)) == 5
    assert sorted(drawn(3, 2)) == sorted(first)
    assert drawn(3, 2) != first
    assert sorted(drawn(4, 1)) != sorted(first)
    without = drawn(3, 1, but=first[0])  # another takes the place of one that is not allowed
    assert len(set(without)) == 5
    assert set(first) - set(without) == {first[0]}
    with pytest.raises(SettingError, match="5 shots need as many examples, and there are 4"):
        Shots(4, 5, seed=1, order=1)
    with pytest.raises(SettingError, match="besides the question itself, and there are 4"):
        Shots(5, 5, seed=1, order=1).draw(lambda i: i != 2)


def test_examples_are_dropped_where_a_prompt_is_too_long_and_the_question_never() -> None:
    def prompt_in(room: int) -> tuple[str, int]:
        return tuple(few_shot_prompt(["aa", "bb", "cc"], "dd", "|", lambda text: len(text) <= room))

    assert [prompt_in(room) for room in (11, 10, 5, 4, 0)] == [
        ("aa|bb|cc|dd", 0),
        ("bb|cc|dd", 1),
        ("cc|dd", 2),
        ("dd", 3),
        ("dd", 3),
    ]


@pytest.mark.parametrize(
    ("answer", "expected", "match", "right"),
    [
        (" 143", "143 ", "exact", True),
        ("143.", "143", "exact", False),
        ("143. And", " 143", "begins", True),
        ("It is 1,043.0, not 7", "so #### 1043", "number", True),
        ("3-5", "-5", "number", False),
        ("no idea", "5", "number", False),
        ("-5 degrees", "-5", "number", True),
    ],
)
def test_free_answers(answer: str, expected: str, match: str, right: bool) -> None:
    assert agrees(answer, expected, match) is right  # type: ignore[arg-type]


class Fixed:
    """An answerer whose choices are as likely as their length says."""

    fills, context = False, None

    def __init__(self) -> None:
        self.asked: list[str] = []

    def length(self, text: str) -> int:
        return len(text)

    def score(self, prompts: Sequence[str], choices: Sequence[str], separator: str, progress: object) -> ChoiceScores:
        self.asked += prompts
        row = np.log([len(choice) for choice in choices])
        return ChoiceScores(np.tile(row, (len(prompts), 1)), np.ones((len(prompts), len(choices))))

    def write(self, prompts: Sequence[str], max_tokens: int, stop: Sequence[str], progress: object) -> list[str]:
        return [prompt.split()[-1] for prompt in prompts]


def test_an_experiment_in_figures() -> None:
    records = [Record({"text": f"t{i}", "label": "yes" if i < 3 else "no"}) for i in range(4)]
    config = PromptConfig(
        template="{text}:", choices=tuple(parse_choices(["aaa=yes", "b=no"])), shots=2, seeds=2, orders=2
    )
    answerer = Fixed()
    result = run_prompts(answerer, config, records, records, silent)
    assert [(run.seed, run.order) for run in result.runs] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert (result.mean_accuracy, result.spread) == (0.75, 0.0)
    first = answerer.asked[0].split("\n\n")
    assert len(first) == 3
    assert first[-1] == "t0:"  # and no solved example is the question itself
    assert all(shot in ("t1: aaa", "t2: aaa", "t3: b") for shot in first[:2])
    figures = result.as_json()
    assert figures["runs"][0]["answered"] == {"no": 0, "yes": 4}
    assert figures["runs"][0]["macro_f1"] == pytest.approx((0 + 6 / 7) / 2)
    assert result.to_records()[0]["probabilities"] == pytest.approx({"yes": 0.75, "no": 0.25})


def test_calibration_says_what_it_moved() -> None:
    records = [Record({"text": f"t{i}", "label": "no"}) for i in range(4)]
    choices = tuple(parse_choices(["aaa=yes", "b=no"]))
    [run] = run_prompts(
        Fixed(), PromptConfig(template="{text}:", choices=choices, calibrate="content-free"), records, [], silent
    ).runs
    before, changed = run.moved or (None, None)
    assert before is not None
    assert before.share == 0
    assert changed == 4 * (run.predicted[0] == "no")


def test_written_answers_are_matched() -> None:
    records = [Record({"text": "say 7", "label": "7"}), Record({"text": "say 8", "label": "9"})]
    config = PromptConfig(template="{text}", match="number")
    [run] = run_prompts(Fixed(), config, records, [], silent).runs
    assert (run.predicted, run.is_right, run.classification) == (["7", "8"], [True, False], None)


def test_long_prompts_of_a_network_lose_examples_first(network: chainrule.Model) -> None:
    answerer = network.answerer
    assert answerer.context == 24
    records = [{"text": "vi sa man ka", "label": "ka"}]
    examples = [{"text": "vi sa", "label": "ka"} for _ in range(20)]
    [run] = prompt(network, records, "{text}", ["ka", "vi"], examples=examples, shots=20).runs
    assert 0 < run.dropped < 20
    assert answerer.length(run.prompts[0]) < answerer.context
    assert run.prompts[0].endswith("vi sa man ka")
    [run] = prompt(network, [{"text": "vi sa man " * 20, "label": "ka"}], "{text}", ["ka", "vi"]).runs
    assert (run.dropped, run.cut) == (0, 1)


def test_wrong_labels_and_templates_for_other_models_are_refused(model: chainrule.Model) -> None:
    with pytest.raises(TextError, match="example 1: the right answer is 'x', the label of no choice"):
        prompt(model, [{"text": "vi", "label": "x"}], "{text}", ["ka", "vi"])
    with pytest.raises(SettingError, match=r"continues the prompt; leave \[MASK\] out"):
        prompt(model, [{"text": "vi", "label": "ka"}], "{text} [MASK]", ["ka", "vi"])


def test_masked_models_fill_in_their_choices(fixtures: Path) -> None:
    """Oracle: for choices of one token, what `fill` gives at the mask, up to the share of </s>, which it leaves out."""
    config = chainrule.MaskedConfig(layers=1, width=16, heads=2)
    training = chainrule.TrainingConfig(steps=3)
    model = chainrule.train(fixtures / "train.txt", config, training=training)
    log_probs = model.choice_log_probs(["vi sa [MASK] man", "ka [MASK]"], ["ka", "vi"])
    for row, text in zip(log_probs, ["vi sa [MASK] man", "ka [MASK]"], strict=True):
        filled = dict(model.fill(text, top=model.vocabulary_size)[0])
        assert row[0] - row[1] == pytest.approx(np.log(filled["ka"] / filled["vi"]), abs=1e-4)
    with pytest.raises(SettingError, match=r"has 0 \[MASK\]"):
        model.choose("vi sa", ["ka", "vi"])


def test_tables_of_all_formats(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "x y", "label": 1}\n{"text": "z", "label": "no"}\n')
    (tmp_path / "b.tsv").write_text("label\ttext\n1\tx y\nno\tz\n")
    (tmp_path / "c.csv").write_text('text,label\n"x y",1\n"z",no\n')
    (tmp_path / "d.tsv").write_text("x y\t1\nz\tno\n")
    for name in ("a.jsonl", "b.tsv", "c.csv", "d.tsv"):
        records = read_table(tmp_path / name, ["text", "label"])
        assert [dict(record.fields) for record in records] == [
            {"text": "x y", "label": "1"},
            {"text": "z", "label": "no"},
        ]
    (tmp_path / "quoted.csv").write_text('text,label\n"two\nlines, ""quoted""",1\n')
    assert read_table(tmp_path / "quoted.csv", ["text"])[0].fields["text"] == 'two\nlines, "quoted"'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "x\ty\tz\n", "line 1: found 3 columns, none of them called 'text' or 'label'"),
        ("a.tsv", "text\tlabel\nx\n", r"line 2: found 1 column; expected 2: text, label"),
        ("a.csv", 'text,label\n"x,1\n', "is not CSV"),
        ("a.jsonl", '{"text": "x"}\n', "line 1: there is no field 'label'; there are 'text'"),
        ("a.tsv", "text\tlabel\n", "there is no example in it"),
        ("a.tsv", "text\ttext\nx\ty\n", "line 1: two columns are called 'text'"),
        ("a.jsonl", '{"text": null, "label": "x"}\n', "line 1: the field 'text' is None; expected a string"),
        ("a.jsonl", '{"text": ["a"], "label": "x"}\n', "line 1: the field 'text' is"),
        ("a.jsonl", '{"text": NaN, "label": "x"}\n', "line 1: the field 'text' is nan"),
    ],
)
def test_damaged_tables_name_file_and_line(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(TextError, match=message):
        read_table(tmp_path / name, ["text", "label"])


def test_prompts_and_texts_of_other_types(network: chainrule.Model) -> None:
    with pytest.raises(TypeError, match="texts, each a str; found None"):
        network.choose(None, ["ka", "vi"])  # type: ignore[arg-type]
    assert network.score([], given="vi").shape == (0,)
    with pytest.raises(SettingError, match="the choice '' is empty; expected some text"):
        network.choose("vi", ["ka", ""])

"""lm-evaluation-harness itself, with tasks from files: `make test-harness`, since its packages are 300 MB.

Its figures are those of `evaluate`: a task of choices those of minimal pairs, a rolling one bits per byte.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import lm_eval
import pytest
import yaml
from lm_eval.api.model import TemplateLM
from lm_eval.tasks import TaskManager

import chainrule
from chainrule.cli.main import run
from chainrule.errors import SettingError
from chainrule.evaluation.continuations import Pair

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs

PAIRS = [
    ("ka vi nin bu gi", "ka nin vi gi bu"),
    ("vi sa man to", "to man sa vi"),
    ("ke di ba fi", "ke di ba ba zyzzyva"),
    ("ga bo", "bo bo ga ga ga"),
    ("san", "ben"),
]
TASKS: dict[str, dict[str, Any]] = {
    "minimal_pairs": {
        "output_type": "multiple_choice",
        "doc_to_text": "",
        "doc_to_target": 0,
        "doc_to_choice": "{{[sentence_good, sentence_bad]}}",
        "target_delimiter": "",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    },
    "rolling": {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{sentence_good}}",
        "metric_list": [{"metric": "bits_per_byte"}],
    },
    "written": {
        "output_type": "generate_until",
        "doc_to_text": "{{sentence_bad}}",
        "doc_to_target": "{{sentence_good}}",
        "generation_kwargs": {"until": ["\n", " ka"], "max_gen_toks": 5},
        "metric_list": [{"metric": "exact_match"}],
    },
}


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.setenv(name, "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, fixtures: Path) -> Path:
    """A model, lm, whose tokens write any text; pairs.jsonl; and tasks of it."""
    folder = tmp_path_factory.mktemp("harness")
    model = chainrule.train(fixtures / "train.txt", chainrule.NGramConfig(order=3), tokenizer="byte")
    model.save(folder / "lm")
    rows = [json.dumps({"sentence_good": good, "sentence_bad": bad}) for good, bad in PAIRS]
    (folder / "pairs.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": good}) + "\n" for good, _ in PAIRS))
    (folder / "tasks").mkdir()
    for name, task in TASKS.items():
        place = {"dataset_path": "json", "test_split": "test"}
        files = {"dataset_kwargs": {"data_files": {"test": str(folder / "pairs.jsonl")}}}
        (folder / "tasks" / f"{name}.yaml").write_text(yaml.safe_dump({"task": name, **place, **files, **task}))
    return folder


def evaluated(folder: Path, model: Any) -> dict[str, dict[str, Any]]:
    manager = TaskManager(include_path=str(folder / "tasks"), include_defaults=False)
    found = lm_eval.simple_evaluate(model=model, tasks=[*TASKS], task_manager=manager, bootstrap_iters=0)
    assert found is not None
    return {"config": found["config"], "samples": found["samples"], **found["results"]}


@pytest.mark.parametrize("ends", [True, False])
def test_figures_are_those_of_evaluate(ends: bool, folder: Path) -> None:
    model = chainrule.load(folder / "lm")
    found = evaluated(folder, chainrule.harness(model, ends=ends))
    [*_, everything] = model.judge_pairs(folder / "pairs.jsonl", ends=ends)
    assert everything.by_rule["sum"].ties == 0
    assert found["minimal_pairs"]["acc,none"] == everything.by_rule["sum"].share
    expected = model.evaluate(folder / "texts.jsonl", ends=False)
    assert found["rolling"]["bits_per_byte,none"] == pytest.approx(expected.bits_per_byte, rel=1e-12)
    if not ends:  # the end is a character for us, and none for them
        assert found["minimal_pairs"]["acc_norm,none"] == everything.by_rule["character"].share


def test_texts_are_those_of_generate(folder: Path) -> None:
    model = chainrule.load(folder / "lm")
    found = evaluated(folder, chainrule.harness(model))
    greedy, limits = chainrule.SamplingConfig(temperature=0), chainrule.Limits(max_tokens=5, stop=[" ka"])
    for sample, (_, bad) in zip(found["samples"]["written"], PAIRS, strict=True):
        assert model.generate(bad, 1, greedy, limits, seed=0) == [bad + sample["resps"][0][0]]


def test_runs_are_the_same_and_signed(folder: Path) -> None:
    first, second = (evaluated(folder, chainrule.harness(folder / "lm")) for _ in range(2))
    assert all(first[name] == second[name] for name in TASKS)
    assert first["config"]["signature"].startswith("tok:byte|")


def test_borders_are_those_of_their_own_base_class(folder: Path) -> None:
    """Where a tokenizer cuts before spaces, and the continuation begins with one."""
    model = chainrule.load(folder / "lm")

    class Theirs(TemplateLM):  # type: ignore[misc]
        eot_token_id = 2

        def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
            return model.tokenizer.encode_texts([string]).ids[:-1].tolist()

        def _loglikelihood_tokens(self, requests: Any, **kwargs: Any) -> list[tuple[float, bool]]:
            found = []
            for _, context, continuation in requests:
                given = [token for token in context if token != self.eot_token_id]
                prices = model.language_model.score([continuation], prefixes=[given], end=False)
                best = [
                    int(model.language_model.top(model.language_model.start([[*given, *continuation[:i]]]), 1)[1][0, 0])
                    for i in range(len(continuation))
                ]
                found.append((float(prices[0].sum(dtype=float)), best == continuation))
            return found

        def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> list[float]:
            raise NotImplementedError

        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            raise NotImplementedError

    pairs = [Pair("ka vi", " nin"), Pair("ka vi ", "nin"), Pair("", "ka"), Pair("vi sa man to ke", " di ba")]
    requests = [lm_eval.api.instance.Instance("loglikelihood", {}, tuple(pair), 0) for pair in pairs]
    ours = chainrule.harness(model).loglikelihood(requests)
    for (one, is_greedy), (other, as_well) in zip(
        ours, Theirs().loglikelihood(requests, disable_tqdm=True), strict=True
    ):
        assert one == pytest.approx(
            other, rel=1e-3
        )  # <unk>, which bytes never need, has a little mass of its own there
        assert is_greedy == as_well


def test_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tasks = ["--include_path", str(folder / "tasks"), "--tasks", "rolling"]
    arguments = ["--model_args", f"pretrained={folder / 'lm'}", *tasks, "--output_path", str(tmp_path)]
    assert run(["harness", *arguments]) == 0
    assert "bits_per_byte" in capsys.readouterr().out
    [written] = tmp_path.rglob("results_*.json")
    figures = json.loads(written.read_text())
    assert figures["config"]["family"] == "ngram"
    expected = chainrule.load(folder / "lm").evaluate(folder / "texts.jsonl", ends=False)
    assert figures["results"]["rolling"]["bits_per_byte,none"] == pytest.approx(expected.bits_per_byte)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--model_args", "pretrained=missing", "--tasks", "rolling"], 1, "missing: there is no such folder"),
        (["--model_args", "pretrained=LM,batch=3", "--tasks", "rolling"], 1, "model_args have no batch"),
        (["--model_args", "ends=true", "--tasks", "rolling"], 1, "model_args need pretrained"),
        (["--model_args", "pretrained=LM,ends=3", "--tasks", "rolling"], 1, "expected true or false"),
        (["--model_args", "pretrained=LM", "--tasks", "nothing"], 1, "Tasks not found: nothing"),
        (["--model_arg", "pretrained=LM", "--tusks", "rolling"], 2, "lm-eval does not take these arguments"),
    ],
)
def test_errors_are_a_line(
    arguments: list[str], status: int, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [argument.replace("LM", str(folder / "lm")) for argument in arguments]
    assert run(["harness", "--include_path", str(folder / "tasks"), *given]) == status
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("chainrule: ")
    assert message in last


def test_what_a_model_cannot_do_is_said(folder: Path, fixtures: Path) -> None:
    config = chainrule.MaskedConfig(layers=1, width=16, heads=2, context=16)
    masked = chainrule.train(fixtures / "train.txt", config, training=chainrule.TrainingConfig(steps=1, compile="no"))
    with pytest.raises(SettingError, match="is bidirectional"):
        evaluated(folder, chainrule.harness(masked))

"""The help of every verb, and completion for every shell."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from dataclasses import fields

import pytest
from rich.console import Console

from chainrule.base.settings import is_rare
from chainrule.cli import verbs as cli_verbs
from chainrule.cli.main import app, train
from chainrule.neural.config import NETWORKS, TWO_SIDED
from chainrule.neural.config.caption import CaptionConfig
from chainrule.neural.config.conditional import ConditionalConfig
from chainrule.neural.config.labelling import LABELLING
from chainrule.neural.config.pictures import ResNetLabelling, ViTLabelling
from chainrule.neural.config.tree import TreeConfig
from chainrule.training.config import TrainingConfig
from chainrule.training.finetuning_config import FineTuningConfig
from chainrule.training.label_config import LabelTraining
from chainrule.vectors.config import VectorsConfig


def flag(name: str) -> str:
    """Of a field of a configuration."""
    return "--output-layer" if name == "output" else "--" + name.replace("_", "-")


MIXING = {"--mix", "--mix-bytes", "--mix-seed"}
READING = {"--document", "--field", "--encoding-errors", "--suffixes"}  # of all verbs that take texts
TOKENIZER = {"--tokenizer", "--normalise", "--vocabulary", "--vocabulary-size", "--vocabulary-min-count", "--markers"}
NETWORK = (
    {"--output", "--valid", "--resume", "--vectors", "--fixed-vectors", *TOKENIZER, "--overwrite", "--json"}
    | READING
    | MIXING
)
TRAINING = {flag(each.name) for each in fields(TrainingConfig)}
VERBS = {
    **{
        f"train {name}": {
            "TEXTS",
            *NETWORK,
            *TRAINING,
            *(flag(each.name) for each in fields(config) if not is_rare(each)),
        }
        | ({"--preset"} if name in ("transformer", "masked") else set())
        for name, config in {**NETWORKS, **TWO_SIDED, "tree": TreeConfig}.items()
    },
    "train ngram": {"TEXTS", "--output", "--order", *TOKENIZER, "--prune", "--interpolate-unigrams", "--smoothing"}
    | {
        "--counts",
        "--tune",
        "--discount",
        "--pseudocount",
        "--weights",
        "--weights-by",
        "--backoff-weight",
        "--open-vocabulary",
        "--begins",
        "--compact",
        "--memory",
        "--spark",
        "--shards",
    }
    | {"--strict-discounts", "--kenlm-compatible", "--overwrite", "--json"}
    | READING
    | MIXING,
    "train channel": {"PAIRS", "--output", "--rounds", "--channel", "--grammar", "--inflections", "--overwrite"},
    "train translation": {"--source", "--target", "--pairs", "--source-field", "--target-field", "--valid", "--output"}
    | {"--resume", "--source-tokenizer", "--vectors", "--source-vectors", "--fixed-vectors", "--overwrite", "--json"}
    | TOKENIZER
    | TRAINING
    | {flag(each.name) for each in fields(ConditionalConfig) if not is_rare(each)},
    "train paragraph": {"--pictures", "--encoder", "--regions", "--phrases", "--valid", "--output", "--resume"}
    | {"--overwrite", "--json"}
    | TOKENIZER
    | TRAINING
    | {flag(each.name) for each in fields(CaptionConfig) if not is_rare(each) and each.name != "decoder"},
    "train caption": {"--pictures", "--encoder", "--tuned", "--features", "--valid", "--output", "--resume"}
    | {"--overwrite", "--json", "--regions", "--phrases"}
    | TOKENIZER
    | TRAINING
    | {flag(each.name) for each in fields(CaptionConfig) if not is_rare(each)}
    | {
        f"--encoder-{each.name.replace('_', '-')}"
        for config in (ResNetLabelling, ViTLabelling)
        for each in fields(config)
        if not is_rare(each) and each.name not in ("flip", "shift")
    },
    "train classifier": {"DATA", "--output", "--network", "--unit", "--test", "--strict", "--resume"}
    | {"--vectors", "--fixed-vectors", "--overwrite", "--json"}
    | TOKENIZER
    | {flag(each.name) for kind in LABELLING.values() for each in fields(kind) if not is_rare(each)}
    | {flag(each.name) for each in fields(LabelTraining)},
    "train uniform": {"TEXTS", "--output", *TOKENIZER, "--overwrite", "--json"} | READING | MIXING,
    "harness": {"ARGUMENTS"},
    "train vectors": {"TEXTS", "--counts", "--output", "--resume", *TOKENIZER, "--overwrite", "--json"}
    | {flag(each.name) for each in fields(VectorsConfig)}
    | READING
    | MIXING,
    "evaluate": {"MODEL", "TEXTS", "--minimal-pairs", "--pseudo", "--strict", "--tokenizer", "--markers", "--ends"}
    | {"--source", "--target", "--pairs", "--pictures", "--vectors", "--beam", "--max-tokens"}
    | {"--similarity", "--analogies", "--restrict", "--rule", "--unknown", "--json"}
    | READING,
    "score": {"MODEL", "TEXT", "--tokens", "--words", "--characters", "--bytes", "--tokenizer", "--markers", "--json"}
    | READING,
    "adapt": {"MODEL", "TEXTS", "--output", "--valid", "--resume", "--markers", "--overwrite", "--json"}
    | READING
    | MIXING
    | TRAINING,
    "finetune": {"MODEL", "--data", "--output", "--test", "--strict", "--pairs", "--words", "--resume", "--markers"}
    | {"--overwrite", "--json"}
    | {flag(each.name) for each in fields(FineTuningConfig)},
    "prompt": {"MODEL", "--template", "--data", "--choices", "--answer", "--shots", "--examples", "--seeds", "--orders"}
    | {"--between", "--calibrate", "--normalise", "--match", "--max-tokens", "--show", "--output", "--overwrite"}
    | {"--markers", "--json"},
    "rank": {
        "MODEL",
        "--queries",
        "--documents",
        "--by",
        "--mu",
        "--lambda",
        "--top",
        "--judgements",
        "--markers",
        "--json",
    },
    "classify": {"MODEL", "TEXT", "--data", "--strict", "--markers", "--page", "--overwrite", "--json"} | READING,
    "fill": {"MODEL", "TEXT", "--top", "--mask", "--markers", "--json"},
    "embed": {"MODEL", "TEXT", "--output", "--layer", "--pooling", "--precision", "--words", "--tokens", "--vocabulary"}
    | {"--markers", "--overwrite"}
    | READING,
    "nearest": {"MODEL", "SENTENCE", "TEXT", "--top", "--layer", "--pooling", "--markers", "--json"}
    | {"--restrict", "--contexts"}
    | READING,
    "analogy": {"VECTORS", "A", "B", "C", "--rule", "--top", "--restrict", "--json"},
    "odd": {"VECTORS", "WORDS", "--json"},
    "map": {"VECTORS", "--output", "--words", "--method", "--seed", "--overwrite"},
    "next": {"MODEL", "PROMPT", "--top", "--tokenizer", "--markers", "--json"},
    "generate": {
        "MODEL",
        "PROMPT",
        "--number",
        "--seed",
        "--stream",
        "--tree",
        "--overwrite",
        "--tokenizer",
        "--markers",
        "--json",
    }
    | {"--max-tokens", "--min-tokens", "--begin", "--stop", "--allow", "--ban", "--no-repeat", "--unknown"}
    | {"--temperature", "--top-k", "--top-p", "--min-p", "--typical", "--repetition-penalty"}
    | {"--beam", "--rank-by", "--alpha", "--groups", "--diversity", "--must-end"},
    "caption": {"MODEL", "PICTURES", "--beam", "--rank-by", "--alpha", "--nbest", "--max-tokens", "--tree"}
    | {"--overwrite", "--json", "--paragraph"},
    "translate": {
        "MODEL",
        "TEXT",
        "--beam",
        "--rank-by",
        "--alpha",
        "--nbest",
        "--alignments",
        "--references",
        "--begin",
        "--max-tokens",
        "--sample",
        "--seed",
        "--tree",
        "--overwrite",
        "--json",
    }
    | {"--temperature", "--top-k", "--top-p", "--min-p", "--typical", "--repetition-penalty"}
    | READING,
    "draw": {"MODELS", "--output", "--show", "--overwrite"},
    "attend": {"MODEL", "TEXT", "TARGET", "--output", "--beside", "--overwrite"},
    "inspect": {"MODEL", "INPUT", "--output", "--units", "--unit", "--picture", "--patches", "--overwrite"},
    "lsp": {"MODEL", "--number", "--delay", "--correct", "--channel", "--lexicon", "--keep", "--tokenizer"},
    "serve": {
        "MODELS",
        "--host",
        "--port",
        "--api-key-file",
        "--no-key",
        "--workers",
        "--memory",
        "--max-tokens",
        "--exit-on-failure",
        "--log-requests",
    },
    "shard-serve": {"MODEL", "--shards", "--host", "--port"},
    "explore": {"MODELS", "--port", "--no-browser"},
    "chat": {
        "MODEL",
        "--url",
        "--api-key-file",
        "--log",
        "--system",
        "--template",
        "--max-tokens",
        "--stop",
        "--seed",
        "--json",
    }
    | {"--temperature", "--top-k", "--top-p", "--min-p", "--typical", "--repetition-penalty"},
    "detect": {"MODEL", "TEXT", "--machine", "--masked", "--perturbations", "--output", "--quiz", "--plot", "--number"}
    | {"--seed", "--markers", "--overwrite", "--json"}
    | READING,
    "complete": {
        "MODEL",
        "--url",
        "--api-key-file",
        "--number",
        "--tokenizer",
        "--markers",
        "--json",
        "--correct",
        "--channel",
        "--lexicon",
    },
    "compare": {
        "TEXTS",
        "--text",
        "--output",
        "--plot",
        "--heldout",
        "--order",
        "--minutes",
        "--smoothing",
        "--labels",
        "--networks",
        "--source",
        "--target",
        "--pairs",
        "--beam",
        "--max-tokens",
        "--vectors",
        *TOKENIZER,
        "--overwrite",
        "--json",
    }
    | READING,
    "data": {"NAME", "--output", "--examples", "--seed", "--overwrite", "--json"},
    "experiment": {"NAME", "--output", "--seed", "--minutes", "--overwrite", "--json"},
    "filter": {"TEXTS", "--model", "--keep", "--below", "--difference", "--output", "--tokenizer", "--markers"}
    | {"--overwrite", "--json"}
    | READING,
    "rescore": {"LISTS", "--model", "--weight", "--weights", "--tune", "--objective", "--restarts", "--seed"}
    | {
        "--weights-out",
        "--sources",
        "--references",
        "--output",
        "--nbest-out",
        "--format",
        "--scores",
        "--costs",
        "--spelling",
        "--share",
    }
    | {"--bleu", "--tokenizer", "--markers", "--overwrite", "--json"},
    "correct": {"MODEL", "TEXT", "--channel", "--rate", "--at-least", "--keep", "--lexicon", "--beam", "--candidates"}
    | {"--references", "--diff", "--interactive", "--output", "--tokenizer", "--json", "--overwrite", "--errant"}
    | {
        "--grammar",
        "--grammar-rate",
        "--inflections",
        "--corrector",
        "--corrector-weight",
        "--rescore-by",
        "--rescore-weight",
        "--settings",
        "--tune",
        "--maximise",
    }
    | READING,
    "noise": {"TEXTS", "--channel", "--rate", "--seed", "--model", "--best", "--output", "--tokenizer", "--overwrite"}
    | {"--inflections", "--pairs"}
    | READING,
    "convert": {"SOURCE", "TARGET", "--tokenizer", "--normalise", "--compact", "--to", "--allow-pickle", "--overwrite"}
    | {"--shards"},
    "mix": {"MODELS", "--output", "--tune", "--weights", "--kind", "--buckets", "--cache", "--static"}
    | {"--tokenizer", "--markers", "--overwrite", "--json"}
    | READING,
    "lmplz": {"--order", "--text", "--arpa", "--prune", "--discount_fallback", "--limit_vocab_file"}
    | {"--interpolate_unigrams", "--skip_symbols", "--vocab_pad", "--verbose_header", "--memory", "--temp_prefix"}
    | {"--minimum_block", "--sort_block", "--block_count", "--vocab_estimate", "--renumber", "--intermediate"}
    | {"--collapse_values"},
    "prune": {"MODEL", "--output", "--entropy", "--to-ngrams", "--vocabulary", "--for-text", "--histories"}
    | {"--tokenizer", "--markers", "--overwrite", "--json"}
    | READING,
    "count": {"TEXTS", "--output", "--order", *TOKENIZER, "--overwrite", "--json"}
    | {"--window", "--weighting", "--sides", "--memory"}
    | READING,
    "split": {"TEXTS", "--into", "--overwrite", "--json"} | READING,
    "pixels": {"SOURCE", "--output", "--size", "--columns", "--levels", "--overwrite"},
    "info": {"MODEL", "--json"},
    "verify": {"MODEL"},
}
PARAMETER = re.compile(
    r"^│ (?:\* )? *(--[\w-]+|[A-Z]+)(?: -\w)?(?: --no-[\w-]+)?(?: [A-Z]+(?:\.\.\.)?)?  +(\S.*?) *│$", re.MULTILINE
)


def commands_of(*apps) -> set[str]:
    return {name for here in apps for name in here if not name.startswith("-")}


def test_the_table_above_names_every_verb() -> None:
    assert {verb.split()[0] for verb in VERBS} == commands_of(app)
    assert {verb.split()[1] for verb in VERBS if verb.startswith("train ")} == commands_of(train)


@pytest.mark.parametrize("apps", [(app, cli_verbs.VERBS), (train, cli_verbs.FAMILIES)])
def test_the_line_of_a_verb_in_the_list_is_the_first_paragraph_of_its_docstring(apps) -> None:
    commands, verbs = apps
    for name, (_, summary) in verbs.items():
        if not name.startswith("-"):
            docstring = inspect.getdoc(commands[name].default_command)
            assert docstring is not None
            assert summary == " ".join(docstring.split("\n\n")[0].split()), name


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal so wide that no help text is folded."""
    monkeypatch.setattr(app, "_console", Console(width=400))


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("verb", VERBS)
def test_every_parameter_of_a_verb_has_help(verb: str, chainrule) -> None:
    result = chainrule(*verb.split(), "--help")
    assert (result.status, result.err) == (0, "")
    assert result.lines[0].startswith(f"Usage: chainrule {verb}")
    told = dict(PARAMETER.findall(result.out))
    assert told.keys() == VERBS[verb]
    for name, text in told.items():
        words = re.sub(r"\[(required|default: .*|choices: .*)\]", "", text)
        assert len(words.split()) >= 3, name


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("verb", VERBS)
def test_the_whole_docstring_of_a_verb_is_shown(verb: str, chainrule) -> None:
    shown = " ".join(chainrule(*verb.split(), "--help").out.split())
    here = app
    for name in verb.split():
        here = here[name]
    docstring = inspect.getdoc(here.default_command)
    assert docstring is not None
    assert " ".join(docstring.split()) in shown


@pytest.mark.usefixtures("wide")
def test_what_stands_in_angle_brackets_is_no_markup(chainrule) -> None:
    assert "</s> is the end of the line, <unk> all unknown tokens together." in chainrule("next", "--help").out
    assert "What to do about a literal <s>, </s> or <unk> in the text" in chainrule("train", "ngram", "--help").out


def test_help_fits_a_terminal_of_80_columns() -> None:
    code = "import sys; from chainrule.cli.main import run; [run([*verb.split(), '--help']) for verb in sys.argv[1:]]"
    environment = {**os.environ, "COLUMNS": "80"}  # which is read once in a process
    command = [sys.executable, "-c", code, "", *VERBS]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    lines = result.stdout.splitlines()
    assert sum(line.startswith("Usage: ") for line in lines) == len(VERBS) + 1
    assert max(map(len, lines)) == 80


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_the_command_alone_lists_every_verb_with_a_line(arguments: list[str], chainrule) -> None:
    result = chainrule(*arguments)
    assert (result.status, result.err) == (0, "")
    listed = dict(re.findall(r"^│ ([a-z][a-z-]*) +(\S.*?) *│$", result.out, re.M))
    assert listed.keys() == commands_of(app)
    assert all(len(text.split()) >= 3 for text in listed.values())
    assert "--debug" in result.out


def test_the_verb_train_alone_lists_every_family(chainrule) -> None:
    result = chainrule("train")
    assert (result.status, result.err) == (0, "")
    others = {"ngram", "translation", "caption", "paragraph", "vectors", "classifier", "channel", "uniform", "tree"}
    families = {*others, *NETWORKS, *TWO_SIDED}
    listed = re.findall(r"^│ ([a-z-]+) +\S", result.out, re.M)
    assert listed == list(cli_verbs.FAMILIES)  # the commonest first
    assert set(listed) == families


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_verb_and_option(shell: str) -> None:
    script = app.generate_completion(shell=shell)
    for verb, parameters in VERBS.items():
        assert re.search(rf"\b{verb.split()[-1]}\b", script), verb
        for name in parameters:
            if name.startswith("--"):
                assert name.removeprefix("--") in script, name


def test_bash_can_read_its_completion() -> None:
    script = app.generate_completion(shell="bash")
    result = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_completion_is_installed_where_asked(tmp_path) -> None:
    command = [sys.executable, "-m", "chainrule", "--install-completion", "--shell", "zsh", "-o", str(tmp_path / "_it")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert "chainrule" in (tmp_path / "_it").read_text()

"""Wrong usage: what the message says, in the words of the command line."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from verb_options import VERBS

from chainrule.cli.main import app
from chainrule.cli.shared.options import Needs
from chainrule.cli.shared.wrong_usage import in_options, with_flags

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("top_p is 2.0; expected more than 0", "--top-p is 2.0; expected more than 0"),
        ("alpha is 9; expected 0 to 4", "--alpha is 9; expected 0 to 4"),
        ("n is 0; expected 1 or more", "--number is 0; expected 1 or more"),
        ("top_p and min_p are both given", "--top-p and --min-p are both given"),
        ("take another markers='keep' or must_end=True", "take another --markers keep or --must-end"),
        ("use json=False, or stop=...", "use --no-json, or --stop"),
        ("use max_tokens=5.", "use --max-tokens 5."),
        ("train it with output='full'", "train it with --output-layer full"),
        ("set encoding_errors='skip', if a command has that", "set --encoding-errors skip, if a command has that"),
        ("train it with residual_of='x' and cell='lstm'", "train it with --residual-of x and --cell lstm"),
        # What the verb has no option for, and what only looks like a setting.
        ("learning_rate is 0; say steps=4", "learning_rate is 0; say steps=4"),
        (
            "lm/top_p/x: 'top_p' is no word; see --top_p, min_p.txt",
            "lm/top_p/x: 'top_p' is no word; see --top_p, min_p.txt",
        ),
        ("the beam of 3 is too wide: alpha is fine", "the beam of 3 is too wide: alpha is fine"),
    ],
)
def test_settings_are_named_as_the_options_of_the_verb(message: str, expected: str) -> None:
    assert in_options(message, app["generate"]) == expected


def test_notes_name_settings_by_flags_that_the_verb_has() -> None:
    shown = with_flags("output='adaptive', width=64 and row_tokens=32")
    assert shown == "--output-layer adaptive, --width 64 and --row-tokens 32"
    assert {word for word in shown.split() if word.startswith("--")} <= VERBS["train recurrent"]
    assert in_options("choose one with Reading(field=...)", app["score"]) == "choose one with --field"


def test_options_of_several_words_take_them_one_after_the_other(chainrule, model: Path) -> None:
    common = ("generate", model, "-n", 3, "--seed", 1, "--max-tokens", 4)
    assert chainrule(*common, "--allow", "ka", "vi").out == chainrule(*common, "--allow", "ka", "--allow", "vi").out
    assert set(chainrule(*common, "--allow", "ka", "vi", "--min-tokens", 1).out.split()) <= {"ka", "vi"}
    assert "ka" not in chainrule(*common, "--ban", "ka", "vi").out.split()
    assert chainrule(*common, "--stop=--x").status == 1  # the value of an option, and no option


@pytest.fixture
def masked(chainrule, corpus: Path, tmp_path: Path) -> Path:
    """A network that continues no texts, with the tokenizer of `model`."""
    path = tmp_path / "masked"
    sizes = ("--layers", 1, "--width", 8, "--heads", 1, "--context", 16, "--steps", 1, "--compile", "no")
    assert chainrule("train", "masked", corpus, "--tokenizer", "whitespace", "-o", path, *sizes).status == 0
    return path


def test_an_error_about_one_of_several_models_says_about_which(
    chainrule, model: Path, masked: Path, heldout: Path, tmp_path: Path
) -> None:
    lists = tmp_path / "lists.jsonl"
    lists.write_text('{"hypotheses": [{"text": "ka vi"}, {"text": "vi"}]}\n')
    for command in (
        ("compare", model, masked, "--text", heldout),
        ("filter", heldout, "--model", model, "--difference", masked, "--below", 9),
        ("filter", heldout, "--model", masked, "--difference", model, "--below", 9),
        ("mix", model, masked, "-o", tmp_path / "mix"),
        ("mix", model, masked, "-o", tmp_path / "mix", "--static"),
        ("rescore", lists, "--model", model, "--model", f"other={masked}"),
    ):
        message = chainrule(*command).error
        assert message.startswith(f"{masked}: a model of family 'masked' fills gaps in texts"), command


def test_units_that_a_masked_network_has_no_scores_of_are_named(chainrule, masked: Path, heldout: Path) -> None:
    for unit in ("--words", "--tokens"):
        told = chainrule("score", masked, heldout, unit).error
        assert told.startswith(f"{masked}: {unit} is for models that continue texts")
        assert told.endswith(f"leave {unit} out")


def test_an_error_about_a_marker_names_the_model_that_refuses_it(
    chainrule, corpus: Path, model: Path, tmp_path: Path
) -> None:
    keeps, text = tmp_path / "keeps", tmp_path / "a.txt"
    text.write_text("ka <unk>\n")
    train = ("train", "ngram", corpus, "--tokenizer", "whitespace", "--markers", "keep", "--order", 1)
    assert chainrule(*train, "-o", keeps).status == 0
    message = chainrule("compare", keeps, model, "--text", text).error
    assert message.startswith(f"{model}: {text}, line 1: <unk> occurs in the text")
    assert "or set --markers skip, which removes markers, or --markers keep, which" in message
    missing = tmp_path / "missing.txt"  # a fault of the text is of no model
    assert chainrule("compare", keeps, model, "--text", missing).error.startswith(f"{missing}: ")


@pytest.mark.parametrize("prompt", ["a " * 5000, "nul\0byte", ""])
def test_a_text_is_no_model_whatever_is_in_it(prompt: str, chainrule, tmp_path: Path) -> None:
    missing = tmp_path / "lm"
    assert chainrule("next", missing, prompt).error.startswith(f"{missing}: there is no such folder or file")


BAD_SETTINGS = {
    "--order 0": "order 0 is not possible: an n-gram model has an order of 1 to 24",
    "--order 100": "order 100 is not possible: an n-gram model has an order of 1 to 24",
    "--prune 1": "prune 1 must begin with 0",
    "--prune 0 2 1": "prune 0 2 1 must not decrease from one order to the next",
    "--prune 0 -1": "prune has a threshold of -1; n-grams seen at most that often are dropped",
    "--order 2 --prune 0 0 1": "prune has 3 thresholds for a model of order 2",
}


@pytest.mark.parametrize("options", BAD_SETTINGS)
def test_a_setting_out_of_its_range_is_refused(options: str, refused, corpus: Path, tmp_path: Path) -> None:
    told = refused(1, ["train", "ngram", corpus, "-o", tmp_path / "lm", *options.split()])
    assert BAD_SETTINGS[options] in told


@pytest.mark.parametrize(
    ("verb", "options", "message"),
    [
        ("next", "--top 0", "top is 0; expected 1 or more"),
        ("generate", "-n 0", "--number is 0; expected 1 to 1,000,000"),
        ("generate", "-n 99999999999999", "--number is 99999999999999; expected 1 to 1,000,000"),
        ("generate", "--temperature -1", "--temperature is -1.0; expected 0"),
        ("generate", "--temperature nan", "temperature is nan; expected a finite number, 0"),
        ("generate", "--max-tokens -1", "--max-tokens is -1; expected 0 or more"),
        ("generate", "--seed -1", "seed is -1; expected 0 or more"),
    ],
)
def test_a_number_out_of_its_range_is_refused(verb: str, options: str, message: str, refused, model: Path) -> None:
    assert message in refused(1, [verb, model, "ka", *options.split()])


USAGE = {
    "frobnicate": "There is no verb frobnicate. chainrule has train, adapt, finetune, mix, prune, ",
    "hlep": "There is no verb hlep. Did you mean --help? chainrule has train, ",
    "SCORE": "There is no verb SCORE. Did you mean score? chainrule has train, ",
    "train rnn": "There is no model rnn. Try: chainrule train recurrent corpus.txt -o recurrent/ --cell rnn_tanh",
    "train frob": "There is no model frob. train has ngram, bilinear, bag, feedforward, convolution, recurrent, ",
    "train ngrm": "There is no model ngrm. Did you mean ngram? train has ngram, bilinear, ",
    "--version extra": "There is no use for extra after --version. Try: chainrule --help",
    "score MODEL TEXT --window-stride": "--window-stride takes a whole number of 1 or more; nothing comes after it.",
    "score MODEL TEXT --window-stride x": "--window-stride takes a whole number of 1 or more, not x.",
    "score MODEL TEXT --cache-bits 4": "--cache-bits takes 8, not 4; without it, keys and values have 32 bits.",
    "score MODEL TEXT --cache-bits 0": "--cache-bits takes 8, not 0; without it, keys and values have 32 bits.",
    "score MODEL TEXT --also MODEL": "--also needs --output. Try: chainrule score --help",
    "score MODEL TEXT --no-word-ends": "--no-word-ends is for tables; give --output, or --words.",
    "score MODEL TEXT --words -o TARGET.csv --also MODEL": "The models are {MODEL} twice; name each once.",
    "evaluate MODEL TEXT --no-word-ends": "--no-word-ends needs --suite.",
    "train ngram -o TARGET": "TEXTS is missing; put it before options that take several words.",
    "train ngram TEXT -o TARGET --mix TEXT=1": "TEXTS and --mix are both given; name all texts in --mix",
    "train ngram -o TARGET --mix TEXT": "--mix takes names with their shares, such as news.txt=0.3, not ",
    "train uniform -o TARGET --mix TEXT=0.5 TEXT=0.5": "--mix names TEXT twice. Try: chainrule train uniform --help",
    "train uniform -o TARGET --mix a=0.5 b=0.2 ./a=0.3": "--mix names a twice, also as ./a. Try: chainrule",
    "train uniform -o TARGET --mix TEXT=1 --mix-seed x": "--mix-seed takes whole numbers, not x.",
    "train ngram TEXT": "--output is missing. Try: chainrule train ngram --help",
    "train ngram TEXT -o TARGET --ordr 3": "There is no option --ordr (a file: ./--ordr). "
    "Did you mean --order? Try: chainrule train ngram --help",
    "train ngram TEXT -o TARGET --order three": "--order takes whole numbers, not three. "
    "Try: chainrule train ngram --help",
    "train ngram TEXT -o TARGET --order": "requires an argument. Try: chainrule train ngram --help",
    "train ngram --prune 0 TEXT -o TARGET": "train.txt; put texts before it. Try: chainrule train ngram --help",
    "train ngram - - -o TARGET": "Standard input, -, can be read only once. Try: chainrule train ngram --help",
    "evaluate": "MODEL is missing. Try: chainrule evaluate --help",
    "evaluate MODEL": "TEXTS is missing. Try: chainrule evaluate --help",
    "evaluate MODEL TEXT --jsn": "There is no option --jsn (a file: ./--jsn). Did you mean --json? Try: ",
    "evaluate MODEL - TEXT -": "Standard input, -, can be read only once. Try: chainrule evaluate --help",
    "score MODEL TEXT TEXT": "Try: chainrule score --help",
    "next MODEL ka vi": "There is no use for vi; put quotes around a text of several words. Try: chainrule next --help",
    "generate MODEL --prompt ka": "There is no option --prompt. Try: chainrule generate {MODEL} ka",
    "nearest MODEL --sentence ka": "There is no option --sentence; give SENTENCE by its position, as in MODEL SENTENCE",
    "caption MODEL TEXT -x out.txt": "There is no option -x (a file: ./-x). Try: chainrule caption --help",
    "generate MODEL --nonsense": "There is no option --nonsense. Put a text that begins like an option after --.",
    "generate MODEL ka --nonsense 3": "There is no option --nonsense. Try: chainrule generate --help",
    "generate MODEL ka --n 3": "There is no option --n. Did you mean --number? Try:",
    "generate MODEL ka --max-token 3": "There is no option --max-token. Did you mean --max-tokens? Try:",
    "generate --allow ka vi MODEL": "MODEL is missing; put it before --allow. Try: chainrule generate --help",
    "train seq2seq --source a --target b -o TARGET --layers 2": "There is no option --layers. "
    "Did you mean --decoder-layers or --encoder-layers? Try: chainrule train seq2seq --help",
    "train transformer TEXT -o TARGET --layer 2": "There is no option --layer (a file: ./--layer). "
    "Did you mean --layers? Try: chainrule train transformer --help",
    "evaluate TEXT MODEL": "{TEXT} is not a model, and {MODEL} is: are they swapped? Try: chainrule evaluate --help",
    "score TEXT MODEL": "{TEXT} is not a model, and {MODEL} is: are they swapped? Try: chainrule score --help",
    "generate ka MODEL": "ka is not a model, and {MODEL} is: are they swapped? Try: chainrule generate --help",
    "complete ka MODEL": "ka is not a model, and {MODEL} is: are they swapped? Try: chainrule complete --help",
    "complete MODEL ka": "There is no use for ka; complete reads texts from standard input. Try: chainrule complete",
    "filter MODEL --model TEXT --keep 0.5": "{TEXT} is not a model, and {MODEL} is: are they swapped?",
    "compare TEXT --text MODEL": "{TEXT} is not a model, and {MODEL} is: are they swapped? Try: chainrule compare",
    "train ngram MODEL -o TARGET": "{MODEL} is a model, where a text is expected. Try: chainrule train ngram",
    "evaluate MODEL MODEL": "{MODEL} is a model, where a text is expected. Try: chainrule evaluate --help",
    "generate MODEL --seed": "--seed requires an argument. Try: chainrule generate --help",
    "compare - --heldout -": "Standard input, -, can be read only once. Try: chainrule compare --help",
    "convert MODEL TARGET --normalise lower": "--normalise needs --tokenizer.",
    "split TEXT": "--into is missing. Try: chainrule split --help",
    "split --into a=0.5 b=0.5 TEXT": "TEXTS is missing; put it before --into. Try: chainrule split --help",
    "split TEXT --into a=0.5 b": "--into takes names with their shares, such as news.txt=0.3, not b. Try:",
    "split TEXT --into a=0.5 a=0.5": "--into names a twice. Try: chainrule split --help",
    "split TEXT --into a=0.5 ./a=0.5": "--into names a twice, also as ./a. Try: chainrule split --help",
    "convert MODEL": "TARGET is missing. Try: chainrule convert --help",
    "verify": "MODEL is missing. Try: chainrule verify --help",
}


@pytest.mark.parametrize("arguments", USAGE)
def test_wrong_usage_points_to_the_help(arguments: str, refused, model: Path, corpus: Path, tmp_path: Path) -> None:
    names = {"MODEL": model, "TEXT": corpus, "TARGET": tmp_path / "target"}
    told = refused(2, [names.get(argument, argument) for argument in arguments.split()])
    assert USAGE[arguments].format(**names) in told
    assert "Try: chainrule" in told


@pytest.mark.parametrize("options", [["--order", "5.5"], ["--prune", "0", "1.5"]])
def test_fractions_are_no_whole_numbers(refused, corpus: Path, tmp_path: Path, options: list[str]) -> None:
    told = refused(2, ["train", "ngram", corpus, "-o", tmp_path / "lm", *options])
    assert f"{options[0]} takes whole numbers, not {options[-1]}" in told


@pytest.mark.parametrize("number", ["0", "two", "-1", "1.5", "1025", "100000", ""])
def test_a_bad_number_of_threads_is_an_error(number: str, chainrule) -> None:
    done = chainrule("verify", "lm", "--threads", number)
    assert done.status == 2
    wrong = f", not {number}" if number else "; nothing comes after it"
    assert f"--threads takes a whole number from 1 to 1,024{wrong}." in done.error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["correct", "{model}", "{corpus}", "--maximise", "accuracy"], "--maximise needs --tune."),
        (["correct", "{model}", "{corpus}", "--errant"], "--errant needs --references."),
        (["train", "ngram", "{corpus}", "-o", "new", "--mix-seed", "3"], "--mix-seed needs --mix."),
        (["generate", "{model}", "--tree", "tree.svg"], "--tree needs --beam."),
        (["generate", "{model}", "--beam", "2", "--alpha", "1"], "--alpha needs --rank-by wu."),
        (["rank", "{model}", "--queries", "a", "--documents", "b", "--lambda", "0.1"], "--lambda needs --by jelinek-"),
        (["chat", "--api-key-file", "key"], "--api-key-file needs --url."),
        (["train", "channel", "{corpus}", "-o", "new", "--inflections", "x"], "--inflections needs --grammar."),
        (["evaluate", "{model}", "{corpus}", "--overwrite"], "--overwrite needs --output."),
        (["generate", "{model}", "--overwrite"], "--overwrite needs --output."),
    ],
)
def test_an_option_without_the_one_that_it_needs_is_named(
    chainrule, model: Path, corpus: Path, arguments: list[str], message: str
) -> None:
    result = chainrule(*(argument.format(model=model, corpus=corpus) for argument in arguments))
    assert (result.status, message in result.error) == (2, True)


@pytest.mark.parametrize("verb", VERBS)
def test_what_an_option_needs_is_a_parameter_of_the_verb(verb: str) -> None:
    here = app
    for name in verb.split():
        here = here[name]
    command = here.default_command
    assert command is not None
    marks = dict(marks_of(get_type_hints(command, include_extras=True)))
    for needed in (mark.name for own in marks.values() for mark in own if isinstance(mark, Needs)):
        assert not marks.keys().isdisjoint(needed.partition(" ")[0].split("|"))


def marks_of(hints: dict[str, Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The marks of parameters, and of the fields of those that are several options."""
    for name, hint in hints.items():
        kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if is_dataclass(kind) and isinstance(kind, type):
            yield from marks_of(get_type_hints(kind, include_extras=True))
        else:
            yield name, getattr(hint, "__metadata__", ())


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["generate", "lm/", "--choices"], "--choices"),
        (["generate", "lm/", "--choices", "--seed", "1"], "--choices"),
        (["generate", "lm/", "--choices", "-n", "2"], "--choices"),
        (["generate", "lm/", "--choices", "--", "a"], "--choices"),
        (["prompt", "lm/", "--template", "a", "--data", "x", "--choices"], "--choices"),
        (["compare", "lm/", "--text"], "--text"),
    ],
)
def test_an_option_of_several_values_needs_one(arguments: list[str], option: str, chainrule) -> None:
    result = chainrule(*arguments)
    assert result.status == 2
    assert result.out == ""
    assert option in result.error
    assert "one value or more" in result.error or "requires" in result.error

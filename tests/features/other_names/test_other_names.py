"""Names of other programs: each answer is a command that the parser takes, and none of them works as a second name."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from verb_options import VERBS as OPTIONS_OF

import chainrule as library
from chainrule.cli.main import app
from chainrule.cli.verbs import FAMILIES, VERBS
from chainrule.features.other_names.command_names import COMMANDS, MODELS, NOTES
from chainrule.features.other_names.option_names import OPTIONS, SHORT, VALUES

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "tests" / "cli"))
from verb_examples import help_of  # noqa: E402  # a folder of tests has no package

EVERY = {option for options in OPTIONS_OF.values() for option in options} | {"--threads"}
SAID = {
    # NLTK, and textbooks
    "train ngram TEXT -o LM --smoothing add-one": "--smoothing add-one: there is no such choice. "
    "Try: chainrule train ngram TEXT -o LM --smoothing laplace",
    "train ngram TEXT -o LM --smoothing=MLE": "--smoothing MLE: there is no such choice. "
    "Try: chainrule train ngram TEXT -o LM --smoothing maximum-likelihood",
    "perplexity LM TEXT": "There is no verb perplexity. Try: chainrule evaluate LM TEXT",
    "perplexity": "There is no verb perplexity. Try: chainrule evaluate lm/ heldout.txt",
    "train trigram TEXT -o LM": "There is no model trigram. Try: chainrule train ngram TEXT -o LM --order 3",
    # KenLM
    "query lm.arpa": "There is no verb query. Try: chainrule score lm.arpa --tokens",
    "train ngram -o 3 --text TEXT --arpa x.arpa": "There is no option --text. "
    "Try: chainrule train ngram TEXT --order 3 --output x.arpa",
    "build_binary lm.arpa lm.bin": "There is no verb build_binary: a model folder is mapped into memory, as a binary "
    "is. Try: chainrule convert lm.arpa lm/",
    # SRILM
    "train ngram -order 3 -text TEXT -lm x.arpa -kndiscount -interpolate": "There is no option -order. "
    "Try: chainrule train ngram TEXT --order 3 --output x.arpa --smoothing modified-kneser-ney",
    "train ngram TEXT -o x.arpa -order 3": "There is no option -order. "
    "Try: chainrule train ngram TEXT -o x.arpa --order 3",
    "ngram -lm lm.arpa -ppl TEXT -order 3": "There is no verb ngram. Try: chainrule evaluate lm.arpa TEXT",
    "ngram-count -order 2 -text TEXT -lm x.arpa": "There is no verb ngram-count. "
    "Try: chainrule train ngram TEXT --order 2 --output x.arpa",
    "ngram-count -text TEXT -lm x.arpa": "There is no verb ngram-count. "
    "Try: chainrule train ngram TEXT --output x.arpa --order 3",  # its default
    "ngram TEXT -o LM": "There is no verb ngram. Try: chainrule train ngram TEXT -o LM",
    # transformers, nanoGPT
    "train lstm": "There is no model lstm. Try: chainrule train recurrent corpus.txt -o recurrent/ --cell lstm",
    "train gpt TEXT -o LM --n_layer 2 --n_embd 32 --max_iters 9 --lr=0.1": "There is no model gpt. "
    "Try: chainrule train transformer TEXT -o LM --layers 2 --width 32 --steps 9 --learning-rate 0.1 --preset gpt2",
    "train transformer TEXT -o LM --num_train_epochs 3 --fp16 True": "There is no option --num_train_epochs. "
    "Try: chainrule train transformer TEXT -o LM --epochs 3 --precision bfloat16",
    "generate LM --max_new_tokens 5 --do_sample --num_beams 3": "There is no option --max_new_tokens. "
    "Try: chainrule generate LM --max-tokens 5 --beam 3",
    "generate LM --do_sample": "There is no option --do_sample: texts are sampled, unless --beam is set. "
    "Try: chainrule generate LM",
    "train transformer TEXT -o LM --positions RoPE": "--positions RoPE: there is no such choice. "
    "Try: chainrule train transformer TEXT -o LM --positions rotary",
    # llama.cpp: its -n counts tokens, ours texts
    "generate -m x.gguf -p Once -n 20 --temp 0.5": "There is no option -m. "
    "Try: chainrule generate x.gguf Once --max-tokens 20 --temperature 0.5",
    "llama-cli": "There is no verb llama-cli. Try: chainrule generate model.gguf 'Once upon a time'",
    "next LM the -n 3": "There is no option -n. Try: chainrule next LM the --top 3",
    # gensim, SymSpell, pyctcdecode, lm-eval, fairseq, minicons
    "train word2vec TEXT -o LM --vector_size 50 --sg 1": "There is no model word2vec. "
    "Try: chainrule train vectors TEXT -o LM --dimensions 50 --method skipgram",
    "lookup LM TEXT --max_edit_distance 2": "There is no verb lookup. Try: chainrule correct LM TEXT",
    "ctc logits.npz --kenlm_model_path LM --beam_width 50": "There is no option --kenlm_model_path. "
    "Try: chainrule ctc LM logits.npz --beam 50",
    "lm_eval --tasks lambada": "There is no verb lm_eval. "
    "Try: chainrule harness --model_args pretrained=lm/ --tasks lambada_openai",
    "fairseq-generate mt/ test.de": "There is no verb fairseq-generate. Try: chainrule translate mt/ test.de",
    "surprisal LM TEXT": "There is no verb surprisal. Try: chainrule score LM TEXT --words",
    # log2 of 100 is 6.644
    "filter TEXT --model LM --max-perplexity 100": "There is no option --max-perplexity: --below takes bits, log2 of "
    "the perplexity. Try: chainrule filter TEXT --model LM --below 6.644",
}


@pytest.mark.parametrize("typed", SAID)
def test_the_answer_is_one_line_with_the_command(typed: str, refused) -> None:
    assert refused(2, shlex.split(typed)) == SAID[typed]


def test_the_guide_shows_what_is_said(refused) -> None:
    page = (ROOT / "docs/beside-others.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\$ chainrule (.*)\nchainrule: (.*)$", page, re.MULTILINE)
    assert [refused(2, shlex.split(typed)) for typed, _ in shown] == [said for _, said in shown]
    assert shown


def test_names_that_nobody_knows_are_answered_as_before(refused) -> None:
    assert "There is no verb frobnicate. chainrule has train, " in refused(2, ["frobnicate"])
    assert refused(2, ["score", "lm", "--frobnicate"]).startswith("There is no option --frobnicate")


def parses(command: list[str]) -> bool:
    try:
        app.parse_args(command, exit_on_error=False, print_error=False)
    except Exception as error:  # whatever the parser raises
        pytest.fail(f"{shlex.join(command)}: {error}")
    return True


def example_of(verb: str, without: str) -> list[str]:
    """The arguments of the example in a verb's help, without options, with their values, that are in `without`."""
    words = shlex.split(next(line for line in help_of(verb).splitlines() if "$ chainrule" in line))[2:]
    named = [i for i, word in enumerate(words) if word.startswith("--") and word in without.split()]
    return [word for i, word in enumerate(words) if i not in named and i - 1 not in named]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_parses(name: str) -> None:
    assert name not in VERBS
    command, _, example = COMMANDS[name].partition(" | ")
    words = shlex.split(command)
    size = 2 if words[0] == "train" else 1
    assert parses([*words[:size], *shlex.split(example), *words[size:]])


def test_every_model_of_the_table_parses() -> None:
    for name, own in MODELS.items():
        assert name not in FAMILIES
        family = own.split()[0]
        assert parses([*example_of(f"train {family}", own), *own.split()[1:]]), name


def test_every_option_of_the_table_is_that_of_a_verb() -> None:
    for name, own in OPTIONS.items():
        for alternative in own.split(" | "):
            options = [word.removesuffix("=") for word in alternative.split() if word.startswith("--")]
            assert set(options) <= EVERY, name
            assert name not in options
    assert {option for option, _ in SHORT.values()} <= EVERY
    assert {name for _, others in SHORT.values() for name in others} <= {*OPTIONS, "--text"}
    assert set(NOTES) <= {*COMMANDS, *MODELS, *OPTIONS} | {name for own in VALUES.values() for name in own}


@pytest.mark.spread(8)
@pytest.mark.parametrize("option", VALUES)
def test_every_value_of_the_table_is_a_choice(option: str) -> None:
    verbs = [verb for verb, options in OPTIONS_OF.items() if option in options]
    for value in set(VALUES[option].values()):
        took = []
        for verb in verbs:
            try:
                app.parse_args([*example_of(verb, option), option, value], exit_on_error=False, print_error=False)
                took.append(verb)
            except Exception:  # another verb has the choice
                continue
        assert took, value
    assert not {name for name, own in VALUES[option].items() if name == own} - {"lstm", "gru"}


def test_python_says_what_a_value_is_called_here() -> None:
    with pytest.raises(library.SettingError, match=r"add-one is 'laplace' here$"):
        library.NGramConfig(smoothing="add-one")  # type: ignore[arg-type]
    with pytest.raises(library.SettingError, match=r"expected none, .* rope is 'rotary' here$"):
        library.TransformerConfig(positions="rope")  # type: ignore[arg-type]
    with pytest.raises(library.SettingError, match=r"char is 'character' here$"):
        library.train(library.Lines(["a b"]), tokenizer="char")
    with pytest.raises(library.SettingError, match=r"stupid-backoff$"):
        library.NGramConfig(smoothing="nonsense")  # type: ignore[arg-type]


def test_a_wrong_tokenizer_is_answered_with_the_command(refused, corpus: Path, tmp_path: Path) -> None:
    said = refused(1, ["train", "ngram", corpus, "-o", tmp_path / "lm", "--tokenizer", "char"])
    assert said.endswith(f"Try: chainrule train ngram {corpus} -o {tmp_path / 'lm'} --tokenizer character")


def test_options_of_transformers_and_pyctcdecode_are_those_that_they_have() -> None:
    """The names are theirs, not made up: what is installed says so."""
    transformers = pytest.importorskip("transformers")
    theirs = {field.name for field in fields(transformers.TrainingArguments)}
    named = """num_train_epochs max_steps per_device_train_batch_size gradient_accumulation_steps warmup_steps optim
        lr_scheduler_type max_grad_norm adam_beta1 adam_beta2 label_smoothing_factor eval_steps save_steps bf16 fp16
        torch_compile use_cpu resume_from_checkpoint output_dir"""
    assert set(named.split()) <= theirs
    generation = transformers.GenerationConfig().to_dict().keys() | {"max_new_tokens"}
    drawn = "max_new_tokens num_beams do_sample no_repeat_ngram_size length_penalty num_return_sequences typical_p"
    assert set(drawn.split()) <= generation
    for name in (*named.split(), *drawn.split()):
        assert f"--{name.replace('_', '-')}" in OPTIONS, name

"""What came from others goes back bit for bit, and what was trained here is opened by transformers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from samples import sampled
from tiny_models import CAUSAL, MASKED, save, shaken, transformers
from tiny_tokenizers import TEXTS, byte_level, tokenizer_of

import chainrule
from chainrule import SettingError
from chainrule.neural.config import preset

if TYPE_CHECKING:
    from pathlib import Path


def converted(source: Path, folder: Path) -> Path:
    """Through a model folder of ours, and back."""
    chainrule.convert(source, folder / "lm")
    chainrule.convert(folder / "lm", folder / "back", to="hugging-face")
    return folder / "back"


@pytest.mark.spread(26)
@pytest.mark.parametrize("name", sampled([*CAUSAL, *MASKED], [name for name in [*CAUSAL, *MASKED] if ", " not in name]))
@pytest.mark.parametrize("dtype", sampled([torch.float32, torch.bfloat16, torch.float16], [torch.float32]))
def test_a_round_trip_changes_no_bit(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(name) if name in MASKED else None
    source = save(shaken({**CAUSAL, **MASKED}[name]).to(dtype), tmp_path / "hf", tokenizer)
    back = converted(source, tmp_path)
    before, after = (load_file(folder / "model.safetensors") for folder in (source, back))
    assert before.keys() == after.keys()
    for tensor in before:
        assert before[tensor].dtype == after[tensor].dtype == dtype
        assert torch.equal(before[tensor], after[tensor]), tensor
    assert (source / "tokenizer.json").read_bytes() == (back / "tokenizer.json").read_bytes()
    config, again = (json.loads((folder / "config.json").read_text()) for folder in (source, back))
    assert config.items() <= again.items()
    assert again.keys() - config.keys() <= {"rope_theta", "rope_scaling", "torch_dtype"}
    with safe_open(back / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}


def trained(folder: Path, name: str, tokenizer: str = "bpe", **changes: object) -> chainrule.Model:
    """A network of one step on the texts."""
    text = folder / "text.txt"
    text.write_text("\n".join(TEXTS * 4))
    config = preset(name, layers=2, width=16, heads=2, context=64, **changes)
    return chainrule.train(
        text,
        config,
        tokenizer=chainrule.TokenizerConfig(kind=tokenizer, vocabulary_size=280),
        training=chainrule.TrainingConfig(steps=2, batch=2, learning_rate=0.1),
    )


@pytest.mark.parametrize(("name", "tokenizer"), [("modern", "bpe"), ("gpt2", "unigram"), ("llama", "wordpiece")])
def test_what_was_trained_here_is_opened_by_transformers(name: str, tokenizer: str, tmp_path: Path) -> None:
    model = trained(tmp_path, name, tokenizer)
    model.save(tmp_path / "lm")
    chainrule.convert(tmp_path / "lm", tmp_path / "hf", to="hugging-face")
    theirs, loading = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not any(loading.values())
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    encoded = tokenizer(TEXTS[2])["input_ids"]
    assert tokenizer.decode(encoded[:1]) == "</s>"
    ids = model.tokenizer.encode_texts([TEXTS[2]]).ids[:-1]
    names = tokenizer.convert_ids_to_tokens(encoded[1:])
    assert [token.decode() for token in map(model.tokenizer.vocabulary.token_bytes, ids)] == names
    with torch.no_grad():
        logits = theirs(torch.tensor([encoded])).logits[0].double()
    tolerance = 1e-5 * float(logits.abs().max())
    # The begin that nobody predicts here has a row there.
    logits[:, tokenizer.convert_tokens_to_ids("<s>")] = -torch.inf
    expected = logits.log_softmax(-1)[torch.arange(len(ids)), encoded[1:]].numpy()
    found = model.language_model.score([ids], end=False)[0]
    np.testing.assert_allclose(found, expected, atol=tolerance, rtol=0)


def test_rope_is_spelled_as_transformers_4_and_as_5_have_it(tmp_path: Path) -> None:
    trained(tmp_path, "llama", rotary_base=500.0).save(tmp_path / "lm")
    chainrule.convert(tmp_path / "lm", tmp_path / "hf", to="hugging-face")
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"] == 500.0
    assert config["torch_dtype"] == config["dtype"] == "float32"


def test_what_has_no_counterpart_is_refused_with_what_stands_in_the_way(tmp_path: Path) -> None:
    model = trained(tmp_path, "gpt2", window=8)
    model.save(tmp_path / "lm")
    with pytest.raises(SettingError, match=r"nearest is gpt2, which cannot have window=8"):
        chainrule.convert(tmp_path / "lm", tmp_path / "hf", to="hugging-face")
    assert not (tmp_path / "hf").exists()


def test_a_word_tokenizer_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(TEXTS))
    training = chainrule.TrainingConfig(steps=1, batch=2)
    chainrule.train(text, preset("gpt2", layers=1, width=8, heads=1, context=8), training=training).save(
        tmp_path / "lm"
    )
    with pytest.raises(SettingError, match=r"its word tokenizer.*train with a bpe, unigram or wordpiece"):
        chainrule.convert(tmp_path / "lm", tmp_path / "hf", to="hugging-face")


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    source = save(shaken(CAUSAL["llama"]), tmp_path / "hf", byte_level())
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    with pytest.raises(chainrule.OutputError, match="other things in it"):
        chainrule.convert(source, tmp_path / "notes", to="hugging-face", overwrite=True)
    with pytest.raises(chainrule.OutputError, match="overwrite=True"):
        chainrule.convert(source, source, to="hugging-face")
    chainrule.convert(source, source, to="hugging-face", overwrite=True)
    assert chainrule.load(source).vocabulary_size == 286
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hf", "notes"]

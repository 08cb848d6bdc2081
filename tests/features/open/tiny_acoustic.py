"""Tiny random checkpoints of wav2vec 2.0, HuBERT and WavLM, as transformers writes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers

from chainrule import Sound

if TYPE_CHECKING:
    from pathlib import Path

TOKENS = ("<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONIHS'")
_LARGE = {"do_stable_layer_norm": True, "feat_extract_norm": "layer", "conv_bias": True}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "wav2vec2": ("Wav2Vec2", {}),
    "wav2vec2-large": ("Wav2Vec2", _LARGE),
    "hubert": ("Hubert", {"feat_proj_layer_norm": False, "conv_pos_batch_norm": True}),
    "hubert-large": ("Hubert", _LARGE),
    "wavlm": ("WavLM", {"num_buckets": 16, "max_bucket_distance": 20}),
    "wavlm-large": ("WavLM", {**_LARGE, "num_buckets": 16, "max_bucket_distance": 20}),
}


def tiny(kind: str, head: str = "ForCTC") -> Any:
    """A random network, each of whose numbers is another, of 320 samples a step as published ones have."""
    name, settings = KINDS[kind]
    config = getattr(transformers, f"{name}Config")(
        vocab_size=len(TOKENS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        conv_dim=(8,) * 7,
        num_conv_pos_embeddings=6,
        num_conv_pos_embedding_groups=2,
        **settings,
    )
    torch.manual_seed(len(kind))
    model = getattr(transformers, f"{name}{head}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
        for key, buffer in model.named_buffers():
            if "running" in key:
                buffer.copy_(torch.rand_like(buffer) + 0.5)
        if head == "ForCTC":  # outputs that change from step to step, and are seldom special tokens
            model.lm_head.weight.mul_(3)
            hidden = model.base_model(torch.from_numpy(noise(2).samples.astype(np.float32))[None]).last_hidden_state[0]
            model.lm_head.bias.copy_(0.5 * torch.randn(len(TOKENS)) - model.lm_head.weight @ hidden.mean(0))
            model.lm_head.bias[1:4] -= 9
    return model


def write_processor(folder: Path, tokens: tuple[str, ...] = TOKENS, **settings: Any) -> Any:
    """Write the files of a processor as they are on the Hub, and return it."""
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    extractor = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=True)
    (folder / "preprocessor_config.json").write_text(extractor.to_json_string())
    tokenizer = transformers.Wav2Vec2CTCTokenizer(folder / "vocab.json", **settings)
    tokenizer.save_pretrained(folder)
    return transformers.Wav2Vec2Processor(extractor, tokenizer)


def noise(seconds: float, seed: int = 0, rate: int = 16_000) -> Sound:
    """Random tones, louder and softer."""
    random = np.random.default_rng(seed)
    count = int(seconds * rate)
    tones = sum(np.sin(np.arange(count) * random.uniform(0.01, 1.5) + random.uniform(0, 6)) for _ in range(5))
    envelope = np.interp(np.arange(count), np.linspace(0, count, 40), random.uniform(0, 0.15, 40))
    return Sound((tones * envelope + random.normal(0, 0.01, count)).astype(np.float32).astype(float), rate, "noise")

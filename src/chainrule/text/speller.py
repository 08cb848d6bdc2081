"""What it costs to spell a token that a vocabulary lacks, so that every model is a distribution over strings.

This speller knows nothing: each byte and the end of the token are one of 257 equally likely symbols, 8.006 bits each.
So the cost of an unknown token, P(<unk> | context) P(spelling), is honest and high; a speller that has learnt spellings
will lower it.
"""

from __future__ import annotations

import math

_LOG_SYMBOL = -math.log(257)


class ByteSpeller:
    name = "bytes"

    def log_prob(self, token: bytes) -> float:
        """log P(spelling), in nats."""
        return (len(token) + 1) * _LOG_SYMBOL

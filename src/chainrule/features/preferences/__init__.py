"""Networks learn which of two answers people prefer: direct preference optimisation, for `adapt --preferred`."""

USES = ()

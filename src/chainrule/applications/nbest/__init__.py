"""N-best lists of hypotheses with scores, in the formats of recognisers, translators and correctors."""

"""Lists of hypotheses with their scores, as recognisers, translators and correctors write them."""

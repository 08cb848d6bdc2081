"""Several models on the same text: trained for it, saved before, or all smoothings."""

USES = ("classify", "metrics", "seq2seq", "serve")

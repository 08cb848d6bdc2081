"""Several models on the same text: trained for it, saved before, or all smoothings."""

USES = ("classify", "seq2seq", "serve")

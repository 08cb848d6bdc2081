"""Models as users hold them, with their tokenizers: every kind but seq2seq models; saving and opening them."""

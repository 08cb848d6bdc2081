"""Speech: sounds, networks that hear, CTC's search, and the stand-in for pyctcdecode."""

USES = ("classify", "kenlm", "metrics", "seq2seq")

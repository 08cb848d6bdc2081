"""Pictures: networks that read them, captions, and boxes."""

USES = ("classify", "inspect", "metrics", "seq2seq")

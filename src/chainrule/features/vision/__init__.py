"""Pictures: networks that read them, captions, and boxes."""

USES = ("classify", "seq2seq")

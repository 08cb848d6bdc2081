"""Pictures: networks that read them, captions, and boxes."""

USES = ("classify", "inspect", "seq2seq")

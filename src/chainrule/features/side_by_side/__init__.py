"""What several models expect next after the same text, in one table."""

USES = ()

"""Speech: from what a network heard, label by label, to texts. Knows language models through their protocol alone."""

"""Models of the Hugging Face Hub by their names, hf:owner/name: which files are needed, and fetching these."""

USES = ()

"""Transformers over convolutions of samples: wav2vec 2.0, HuBERT and WavLM."""

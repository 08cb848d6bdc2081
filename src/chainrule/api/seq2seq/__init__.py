"""Seq2seq models: a text given another, or a caption given a picture; generating, measuring, saving."""

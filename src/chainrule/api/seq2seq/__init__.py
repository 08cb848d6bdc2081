"""Models of one text given another, or of a caption given a picture."""

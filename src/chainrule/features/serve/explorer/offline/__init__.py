"""The explorer as one file that computes in the page: models as arrays of bytes, and the page around them."""

"""N-best lists: what they are, their formats, and files of them."""

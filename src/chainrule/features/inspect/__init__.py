"""Pages of what goes on inside: gates along a text, the effect of heads and layers, the tree of a beam search."""

USES = ()

"""The inside of a network over a text: gates and cells, and what changes without a head or a layer."""

USES = ()

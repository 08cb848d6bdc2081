"""Networks learn from the probabilities of other models (distillation), for `train --teacher`."""

USES = ()

"""N-gram models on a Spark cluster: counts, models and scores; `chainrule.spark` is its public name."""

USES = ("corpus",)

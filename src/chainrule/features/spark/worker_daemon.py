"""What Spark starts on each machine to fork its Python workers from: it has chainrule loaded, so that they need not."""

from __future__ import annotations

from pyspark.daemon import manager

import chainrule.features.spark.estimation  # noqa: F401

if __name__ == "__main__":
    manager()

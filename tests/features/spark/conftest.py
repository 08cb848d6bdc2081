"""One Spark session for all tests of it; they are left out, and make says so, where Java or pyspark is missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    """Two tasks at a time, each repeated up to three times; a file is read in pieces of 20 kB."""
    if importlib.util.find_spec("pyspark") is None or not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip("NOT TESTED: pyspark or Java is missing; make spark installs them")
    from chainrule.spark import local_session

    # Java compiles quickly rather than well, and Spark not at all: nothing here runs for long.
    os.environ.setdefault(
        "PYSPARK_SUBMIT_ARGS", '--driver-java-options "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" pyspark-shell'
    )
    with local_session("local[2,4]", memory="1g") as session:
        session.conf.set("spark.sql.files.maxPartitionBytes", "20000")
        session.conf.set("spark.sql.files.openCostInBytes", "0")
        session.conf.set("spark.sql.shuffle.partitions", "2")
        session.conf.set("spark.sql.codegen.wholeStage", "false")
        session.conf.set("spark.sql.adaptive.enabled", "false")
        yield session

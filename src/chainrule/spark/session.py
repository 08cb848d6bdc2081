"""Spark sessions on this machine, and what is said where Spark cannot start or gives up."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from chainrule.base.scratch import scratch_folder
from chainrule.errors import EstimationError, SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_JAVA = 17  # what Spark 4 needs
_ERROR_NAME = re.compile(r"(Caused by: )?[\w.]*(Error|Exception): ")
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@contextmanager
def local_session(master: str = "local[2]", *, memory: str = "2g") -> Iterator[SparkSession]:
    """A Spark session that ends with the block. master: local[2] has two workers here; spark://host:port is a cluster.

    memory: of the Java process, where there is one only. Nothing listens on addresses other than this machine's own.
    Raises SettingError where pyspark or Java is missing, or the master cannot be reached.

    good:  with chainrule.spark.local_session("local[4]") as session: chainrule.spark.train(session, "corpus.txt")
    """
    check_packages()
    check_java()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("chainrule")
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.maxResultSize": "0",  # what comes to the driver is the model
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch_folder()),
        "spark.sql.warehouse.dir": os.path.join(scratch_folder(), "chainrule-spark"),  # never written
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        }
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark would take the first python3 of the path
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise SettingError(f"Spark cannot start with the master {master!r}: {first_line(error)}") from error
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def check_packages() -> None:
    """Raises SettingError where pyspark or pyarrow is missing."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise SettingError(
            f"Spark is not installed ({error}); install it: pip install 'chainrule[spark]' (460 MB), and Java {_JAVA}"
        ) from None


def check_java() -> None:
    """Raises SettingError where there is no Java that Spark can use."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    advice = f"install Java {_JAVA} (Debian, Ubuntu: apt install openjdk-{_JAVA}-jre-headless), or set JAVA_HOME"
    if java is None or not os.access(java, os.X_OK):
        raise SettingError(f"Spark needs Java, and there is none {f'in {home}' if home else 'here'}; {advice}")
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingError(f"{java}: cannot be run: {error}; {advice}") from error
    version = _JAVA_VERSION.search(told)
    if version is None or int(version[1]) < _JAVA:
        raise SettingError(f"Spark needs Java {_JAVA} or later; {java} is {first_line(told) or 'no Java'}; {advice}")


@contextmanager
def explain_failures(action: str) -> Iterator[None]:
    """Turns Spark's errors into an EstimationError of one line. action: what was done, such as "counting"."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JNetworkError, ConnectionError) as error:
        raise EstimationError(f"{action}: Spark's Java process has ended; it may have had too little memory") from error
    except (PySparkException, Py4JError) as error:
        raise EstimationError(f"{action} failed on Spark: {cause_of(error)}; see Spark's own log for more") from error


def cause_of(error: BaseException) -> str:
    """The line of a Spark error that says most: the error of a Python worker, or the last cause that Java names."""
    lines = [line.strip() for line in str(error).splitlines()]
    named = [line for line in lines if _ERROR_NAME.match(line)]
    of_python = [line for line in named if not line.startswith(("org.", "java.", "Caused"))]
    return (of_python or named or [first_line(error)])[-1].removeprefix("Caused by: ")[:300]


def first_line(error: object) -> str:
    """The first line of a message."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]

"""Spark sessions on this machine, and what is said where Spark cannot start or gives up."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from chainrule.base.scratch import scratch_folder
from chainrule.errors import EstimationError, SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_JAVA = 17  # what Spark 4 needs
_ERROR = re.compile(r'(: |Caused by: |Exception in thread "[^"]*" )?([\w.]*(?:Error|Exception): .*)')
_STANDARD_ERROR = 2
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@contextmanager
def local_session(master: str = "local[2]", *, memory: str = "2g") -> Iterator[SparkSession]:
    """A Spark session that ends with the block. master: local[2] has two workers here; spark://host:port is a cluster.

    memory: of the Java process, where there is one only. Nothing listens on addresses other than this machine's own.
    What Java prints goes to no screen. Raises SettingError where pyspark or Java is missing, where the master cannot be
    reached, and where this process has a session already.

    good:  with chainrule.spark.local_session("local[4]") as session: chainrule.spark.train(session, "corpus.txt")
    """
    check_packages()
    check_java()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        raise SettingError("this process has a Spark session already; give it to the functions of chainrule.spark")
    builder = SparkSession.builder.master(master).appName("chainrule")
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.maxResultSize": "0",  # what comes to the driver is the model
        "spark.task.maxDirectResultSize": str(100 << 20),  # not by way of the workers' storage, where it may be lost
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "1",  # which Java's memory holds although there is no page of them
        "spark.ui.retainedStages": "1",
        "spark.ui.retainedTasks": "1",
        "spark.sql.ui.retainedExecutions": "1",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),  # rows of counts are large
        "spark.python.daemon.module": "chainrule.spark.worker_daemon",
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
    with tempfile.TemporaryFile() as log, _quiet_interrupts():
        try:
            with _errors_to(log), _own_interrupts():  # of the Java process, as long as it lives
                session = builder.getOrCreate()
        except (PySparkException, Py4JError, RuntimeError, OSError) as error:
            log.seek(0)
            reason = cause_of(f"{log.read().decode(errors='replace')}\n{error}")
            raise SettingError(f"Spark cannot start with the master {master!r}: {reason}") from error
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Leaves Ctrl-C as it was: Spark's handler calls Java in the middle of another call, and prints how that failed."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _quiet_interrupts() -> Iterator[None]:
    """py4j's record of each call that was interrupted goes to no screen."""

    def is_other(record: logging.LogRecord) -> bool:
        return not record.getMessage().endswith("while sending command.")

    loggers = logging.getLogger(), logging.getLogger("py4j.java_gateway"), logging.getLogger("py4j.clientserver")
    for logger in loggers:
        logger.addFilter(is_other)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_other)


@contextmanager
def _errors_to(file: IO[bytes]) -> Iterator[None]:
    """Processes that start meanwhile write their errors into a file."""
    sys.stderr.flush()
    screen = os.dup(_STANDARD_ERROR)
    os.dup2(file.fileno(), _STANDARD_ERROR)
    try:
        yield
    finally:
        os.dup2(screen, _STANDARD_ERROR)
        os.close(screen)


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
        if _was_interrupted(error):
            raise KeyboardInterrupt from None
        raise EstimationError(f"{action}: Spark's Java process has ended; it may have had too little memory") from error
    except (PySparkException, Py4JError) as error:
        raise EstimationError(f"{action} failed on Spark: {cause_of(error)}") from error


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is why a call of Java ended."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def cause_of(error: object) -> str:
    """The line of a Spark error that says most: the error of a Python worker, or the last cause that Java names."""
    named = [match for line in str(error).splitlines() if (match := _ERROR.match(line.strip()))]
    of_python = [match for match in named if not match[1] and not match[2].startswith(("org.", "java."))]
    return (of_python or named)[-1][2][:300] if named else first_line(error)


def first_line(error: object) -> str:
    """The first line of a message."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]

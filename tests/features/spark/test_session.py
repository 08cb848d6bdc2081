"""What is said of Spark's errors; no Java is needed."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pip install 'chainrule[spark]'")

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from chainrule.errors import EstimationError, SettingError
from chainrule.features.spark.session import _stop, cause_of, explain_failures, local_session


def test_the_cause_is_an_exception_and_no_warning_before_it() -> None:
    log = (
        "WARNING: Using incubator modules: jdk.incubator.vector\n"
        'Exception in thread "main" org.apache.spark.SparkException: Master must start with local\n'
        "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)\n"
    )
    assert cause_of(log) == "org.apache.spark.SparkException: Master must start with local"
    assert cause_of(f"{log}chainrule.errors.TextError: line 3\n") == "chainrule.errors.TextError: line 3"


def test_a_call_of_java_that_ctrl_c_ended_is_no_failure() -> None:
    with pytest.raises(EstimationError, match="lack of memory; give Java more"), explain_failures("counting"):
        raise Py4JNetworkError("Answer from Java side is empty")
    interrupted = Py4JNetworkError("Error while sending")
    interrupted.__context__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), explain_failures("counting"):
        raise interrupted


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        (
            "An error occurred\n: org.apache.spark.SparkException: Job aborted\n\tat org.apache.spark\n"
            "Caused by: java.lang.OutOfMemoryError: Java heap space\n\tat java.base/java.util.Arrays.copyOf",
            "counting failed on Spark: java.lang.OutOfMemoryError: Java heap space; give Java more, as in memory=",
        ),
        (
            "An error occurred\n: org.apache.spark.SparkException: Job aborted: ExecutorLostFailure (executor 1 exited "
            "caused by one of the running tasks) Reason: Command exited with code 52",
            "Command exited with code 52; give Java more, .* spark.driver.memory and spark.executor.memory",
        ),
        (
            "An error occurred\n: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n"
            "Caused by: java.io.EOFException\n",
            r"exited unexpectedly \(crashed\); if the system ended it for lack of memory, take more shards",
        ),
        ("An error occurred\n: java.io.IOException: none", "counting failed on Spark: java.io.IOException: none$"),
    ],
)
def test_what_to_set_when_memory_was_not_enough(trace: str, message: str) -> None:
    with pytest.raises(EstimationError, match=message) as error, explain_failures("counting"):
        raise Py4JError(trace)
    assert "\n" not in str(error.value)


def test_a_session_whose_java_has_ended_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyspark raises in `stop` there, in place of the error that says why, and would ask the same Java again."""
    for name in ("_gateway", "_jvm"):
        monkeypatch.setattr(SparkContext, name, "of the Java that has ended")
    for name in ("_instantiatedSession", "_activeSession"):
        monkeypatch.setattr(SparkSession, name, None)

    class Ended:
        def stop(self) -> None:
            raise Py4JNetworkError("Error while sending or receiving")

    _stop(Ended())  # type: ignore[arg-type]
    assert SparkContext._gateway is None
    assert SparkContext._jvm is None


@pytest.mark.parametrize("memory", ["100M", "2X"])
def test_the_memory_of_java_is_checked(memory: str) -> None:
    with pytest.raises(SettingError, match=f"memory is '?{memory}"), local_session(memory=memory):
        pass

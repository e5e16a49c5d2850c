"""Runs a Kafka broker within a `with` block. Spark takes its jars from Maven Central and starts it.

So it needs neither an installation nor Docker. The broker is its own controller, serves 127.0.0.1 and keeps its data in
the folder that it is given.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tools.ports import free_ports
from tools.spark_session import java_options, spark_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = "org.apache.kafka:kafka_2.13:3.9.1"
START_SECONDS = 180.0
STOP_SECONDS = 20.0


@contextmanager
def running_kafka(folder: Path) -> Iterator[str]:
    """The address of a broker, for `kafka.bootstrap.servers`. `RuntimeError` with its log if it does not start."""
    broker, controller = free_ports(2)
    configuration = folder / "kafka.properties"
    configuration.write_text(_properties(folder / "data", broker, controller), "utf-8")
    log = folder / "kafka.log"
    with log.open("wb") as output:
        format_arguments = ["format", "--cluster-id", _cluster_id(), "--config", str(configuration)]
        subprocess.run(
            _command("kafka.tools.StorageTool", *format_arguments),
            env=_environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            check=True,
        )
        process = subprocess.Popen(
            _command("kafka.Kafka", str(configuration)), env=_environment(), stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _await(process, broker, log)
            yield f"127.0.0.1:{broker}"
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _cluster_id() -> str:
    """One that does not begin with a hyphen, which Kafka's tool would take for an option."""
    first, *rest = uuid.uuid4().bytes
    return urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")


def _command(main: str, *arguments: str) -> list[str]:
    import pyspark  # noqa: PLC0415 - takes a second

    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = ["--master", "local[1]", "--packages", PACKAGE, "--driver-java-options", java_options(quick_start=True)]
    return [str(submit), *options, "--class", main, "spark-internal", *arguments]


def _environment() -> dict[str, str]:
    return {**os.environ, **spark_environment()}


def _properties(data: Path, broker: int, controller: int) -> str:
    lines = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "log.dirs": data,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "auto.create.topics.enable": "false",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Kafka does not start: {log.read_text('utf-8', 'replace')[-4000:]}")
        time.sleep(0.2)

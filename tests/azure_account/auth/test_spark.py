"""Spark over HTTPS with tokens: streams, batches, views and a command line, by the identities of driver and executors.

A data source under another name has an environment of its own, which Spark gives to its Python workers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from azureblob_source.datasource import AzureBlobDataSource
from tests.azure_account.auth.certificates import Authority, Certificate
from tests.azure_account.auth.challenger import challenger
from tests.azure_account.auth.forward_proxy import forward_proxy
from tests.azure_account.auth.token_service import CLIENT, TENANT, TokenService, entra_error, token_service
from tools.azurite import Azurite

FORMAT = "azureblob_by_token"


class ByToken(AzureBlobDataSource):
    """The connector under a name of its own."""

    @classmethod
    def name(cls) -> str:
        return FORMAT


@dataclass
class Job:
    """A Spark whose workers find their identity at stand-ins. variables: their environment."""

    spark: SparkSession
    options: dict[str, str]
    service: TokenService
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def stream(self, rows: int, target: str, **more: str) -> None:
        """Write this many rows by a streaming query of several micro-batches."""
        numbers = self.folder / "input"
        if not numbers.exists():
            for part in range(4):
                self.spark.range(part * rows // 4, (part + 1) * rows // 4).write.mode("append").json(str(numbers))
        read = self.spark.readStream.schema("id long").option("maxFilesPerTrigger", 2).json(str(numbers))
        self._run(read.writeStream.format(FORMAT).options(**self.options, **more), "write", target)

    def copied(self, source: str, target: str) -> None:
        """Copy a stream by a streaming read."""
        read = self.spark.readStream.format(FORMAT).options(**self.options).load(source)
        self._run(read.writeStream.format(FORMAT).options(**self.options), "copy", target)

    def read(self, target: str, **more: str) -> DataFrame:
        return self.spark.read.format(FORMAT).options(**self.options, **more).load(target)

    def ids(self, target: str) -> list[int]:
        return sorted(row.id for row in self.read(target).collect())

    def command(self, *arguments: str) -> str:
        """The output of a command line."""
        options = [part for name, value in self.options.items() for part in ("--option", f"{name}={value}")]
        command = [sys.executable, "-m", "azureblob_source", *arguments, *options]
        environment = {**os.environ, **self.variables}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    def _run(self, writer: DataStreamWriter, name: str, target: str) -> None:
        writer = writer.option("checkpointLocation", str(self.folder / name)).trigger(availableNow=True)
        writer.start(target).awaitTermination()


@contextmanager
def environment_of_workers(spark: SparkSession, variables: dict[str, str]) -> Iterator[None]:
    """The workers of the data source `FORMAT` have these variables."""
    environment = spark.sparkContext.environment
    before = dict(environment)
    environment.update(variables)
    spark.dataSource.register(ByToken)
    yield
    environment.clear()
    environment.update(before)


@pytest.fixture(scope="module")
def identities(certificate: Certificate) -> Iterator[TokenService]:
    with token_service(certificate) as running:
        yield running


@pytest.fixture
def job(
    spark: SparkSession, identities: TokenService, tls_azurite: Azurite, authority: Authority, tmp_path: Path
) -> Iterator[Job]:
    identities.asked.clear()
    identities.tokens.clear()
    identities.script.clear()
    identities.seconds = 3600
    variables = {"REQUESTS_CA_BUNDLE": str(authority.bundle), **identities.variables()}
    options = {"endpoint": tls_azurite.endpoint, "auth": "managedIdentity"}
    with environment_of_workers(spark, variables):
        yield Job(spark, options, identities, tmp_path, variables)


@pytest.mark.auth(credential="managedIdentity", place="Spark, Azurite by HTTPS")
def test_streams_batches_views_and_the_command_line_work_with_tokens(
    job: Job, container_name: str, record_property: Callable[[str, object], None]
) -> None:
    source, target = f"{container_name}/a", f"{container_name}/b"
    job.stream(1000, source)
    job.copied(source, target)
    assert [*range(1000)] == job.ids(target)
    commits = job.read(target, view="commits").collect()
    assert 1000 == sum(commit.rows for commit in commits)
    assert "append" in job.command("log", target, "--json")
    record_property("found", f"{job.service.asked['imds']} tokens for {len(commits)} commits copied")
    assert job.service.asked["imds"] <= 20


@pytest.mark.slow
@pytest.mark.auth(credential="workloadIdentity", place="Spark, gate that refuses tokens")
def test_tokens_end_and_the_token_file_changes_while_a_query_writes_and_reads(
    job: Job,
    certificate: Certificate,
    tls_azurite: Azurite,
    authority: Authority,
    container_name: str,
    record_property: Callable[[str, object], None],
) -> None:
    job.service.seconds = 2
    file = job.folder / "azure-identity-token"
    file.write_text("assertion-1")
    pod = {"AZURE_TENANT_ID": TENANT, "AZURE_CLIENT_ID": CLIENT, "AZURE_FEDERATED_TOKEN_FILE": str(file)}
    job.variables.update(pod, AZURE_AUTHORITY_HOST=job.service.entra)
    source, target = f"{container_name}/a", f"{container_name}/b"
    with (
        challenger(tls_azurite, certificate, str(authority.bundle)) as gate,
        environment_of_workers(job.spark, job.variables),
    ):
        job.options.update(auth="workloadIdentity", endpoint=gate.endpoint)
        started = time.monotonic()
        job.stream(2000, source, maxMessagesPerBlob="50")
        file.write_text("assertion-2")
        job.copied(source, target)
        assert [*range(2000)] == job.ids(target)
        elapsed, requests = time.monotonic() - started, sum(gate.answers.values())
    asked = job.service.asked["entra"]
    assert {"assertion-1", "assertion-2"} == set(job.service.assertions)
    record_property("found", f"{requests} requests in {elapsed:.0f} s, tokens of 2 s: {asked} asked")
    assert asked < requests


@pytest.mark.slow
@pytest.mark.auth(credential="workloadIdentity", place="Spark, proxy.py")
def test_a_query_goes_through_proxies_and_shows_no_password(
    job: Job, container_name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = job.folder / "azure-identity-token"
    file.write_text("assertion-1")
    pod = {"AZURE_TENANT_ID": TENANT, "AZURE_CLIENT_ID": CLIENT, "AZURE_FEDERATED_TOKEN_FILE": str(file)}
    job.variables.update(pod, AZURE_AUTHORITY_HOST=job.service.entra)
    folder = job.folder / "proxy"
    folder.mkdir()
    with (
        forward_proxy(folder, "someone:s3cret-of-proxy") as proxy,
        environment_of_workers(job.spark, job.variables),
    ):
        both = proxy.options("proxy", username="someone", password="s3cret-of-proxy")  # noqa: S106 - of this test
        both |= proxy.options("authProxy", username="someone", password="s3cret-of-proxy")  # noqa: S106 - of this test
        job.options.update(both, auth="workloadIdentity")
        target = f"{container_name}/a"
        job.stream(100, target)
        frame = job.read(target)
        assert [*range(100)] == sorted(row.id for row in frame.collect())
        frame.explain(extended=True)
        assert {f"CONNECT {urlsplit(url).netloc}" for url in (job.options["endpoint"], job.service.entra)} == set(
            proxy.connected()
        )
        job.service.script += [entra_error("AADSTS700213", "No matching federated identity record found.")] * 9
        with pytest.raises(PySparkException) as caught:
            job.read(target, maxAttempts="3").collect()
    assert "AADSTS700213" in str(caught.value)
    assert "federated credential" in str(caught.value)
    shown = f"{caught.value} {capfd.readouterr()}"
    assert [] == [secret for secret in ("s3cret-of-proxy", "assertion-1", *job.service.tokens) if secret in shown]

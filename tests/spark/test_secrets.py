"""No secret is in anything that Spark or this project writes: plans, errors, logs, events, web pages, checkpoints."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote

import pytest
from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from tools.spark_session import spark_environment

if TYPE_CHECKING:
    from pathlib import Path

    from tools.azurite import Azurite

pytestmark = pytest.mark.every_spark


@pytest.fixture(scope="module")
def sas(azurite: Azurite) -> str:
    return generate_account_sas(
        azurite.account_name,
        azurite.account_key,
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions(read=True, write=True, list=True, create=True, add=True, delete=True),
        datetime.now(UTC) + timedelta(hours=1),
    )


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("unknown-to-spark", "sas", "masked"), id="three ways"),
        pytest.param(("unknown-to-spark-redacted", "environment"), id="the others", marks=pytest.mark.slow),
    ],
)
def traces(
    azurite: Azurite, sas: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Path:
    """The folder with all output of a job that names the account in several ways."""
    folder = tmp_path_factory.mktemp("traces")
    both = {
        "connectionString": azurite.connection_string,
        "auth": "connectionString",
        "accountKey": azurite.account_key,
    }
    ways = {
        "unknown-to-spark": both,
        "unknown-to-spark-redacted": both,
        "sas": {"endpoint": azurite.endpoint, "sasToken": sas},
        "masked": {"connectionSecret": azurite.connection_string},
        "environment": {},
    }
    chosen = json.dumps({way: ways[way] for way in request.param})
    command = [sys.executable, "-m", "tests.spark.secrets_job", str(folder), "test-secrets", chosen]
    secret = {"AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string}
    environment = {**os.environ, **spark_environment(), **secret}
    job = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=280)
    (folder / "output.txt").write_text(job.stdout + job.stderr)
    assert 0 == job.returncode, job.stderr
    return folder


@pytest.fixture(scope="module")
def needles(azurite: Azurite, sas: str) -> list[str]:
    """The secrets, in every encoding that a program might use."""
    signature = parse_qs(sas)["sig"][0]
    plain = [azurite.account_key, signature]
    raw = [repr(base64.b64decode(secret)) for secret in plain]
    again = [base64.b64encode(secret.encode()).decode() for secret in plain]
    return [*plain, *map(quote, plain), *(quote(secret, safe="") for secret in plain), *raw, *again]


def test_the_job_has_printed_what_is_searched(traces: Path) -> None:
    said = json.loads((traces / "said.json").read_text())
    ways = {name.split(": ")[0] for name in said if ": " in name}
    assert len(ways) > 1
    for way in ways:
        assert "RelationV2" in said[f"{way}: explain"]
        assert "Option `cdec` is unknown" in said[f"{way}: unknown option"]
        assert "messagesSent" in said[f"{way}: commits"]
    for way in ways - {"unknown-to-spark"}:
        assert 'Cannot use "INTERVAL" type' in said[f"{way}: bad type"]
        assert "numInputRows" in said[f"{way}: query"]
        assert "Option `cdec` is unknown" in said[f"{way}: failing query"]
    if "unknown-to-spark-redacted" in ways:
        assert "connectionString=*********(redacted)" in said["unknown-to-spark-redacted: bad type"]
    assert any("azureblob" in text for page, text in said.items() if page.startswith("/SQL/execution"))
    assert [path for path in (traces / "events").rglob("*") if path.is_file() and path.stat().st_size]
    assert (traces / "driver.log").stat().st_size


def test_no_trace_contains_a_secret(traces: Path, needles: list[str]) -> None:
    files = {str(path.relative_to(traces)): path.read_text(errors="replace") for path in _files(traces)}
    texts = {**files, **json.loads((traces / "said.json").read_text())}
    assert [] == [
        f"{name}: …{text[max(0, text.index(needle) - 200) : text.index(needle)]}"
        for name, text in texts.items()
        for needle in needles
        if needle in text and name != "said.json"
    ]


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]

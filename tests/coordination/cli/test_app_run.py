"""`run`: its usage, and real processes on an emulator that take over from each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psutil
import pytest
from azure.storage.blob import BlobClient, BlobLeaseClient, ContainerClient

from azure_account.memory.account import MemoryAccount
from coordination.cli.app import app
from coordination.names import leader_blob
from coordination.timing import LeaseTiming
from tests.command_lines import CommandLine
from tools.reporting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

    from tools.azurite import Azurite

TIMING = LeaseTiming.of_duration(15, 2)
SLACK = 30.0
"""Machines are slow."""
WORK = "{trap}; echo begin $$ $COORDINATION_EPOCH >> {file}; while :; do sleep 0.05; done"
ORDERLY = "trap 'echo end $$ $COORDINATION_EPOCH >> {file}; exit 0' TERM"
DEAF = "trap '' TERM"


def run(*arguments: str) -> Result:
    return CommandLine(app)(MemoryAccount(), "run", *arguments)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["box/report"], 2, "Missing argument"),
        (["box/report", "--"], 2, "Missing argument"),
        (["box/report", "--lease", "5", "--", "true"], 1, "is 5: give a whole number from 15 to 60."),
        (["box/report", "--lease", "soon", "--", "true"], 2, "'--lease'"),
        (["box/report", "--poll", "0", "--", "true"], 2, "--poll"),
        (["box/report", "-o", "accountName", "--", "true"], 2, "it must be KEY=VALUE"),
        (["box/report", "-o", "acountName=x", "--", "true"], 1, "Did you mean accountName?"),
        (["box/report", "--", "no-such-program"], 2, "there is no program no-such-program here"),
        (["box/ ", "--", "true"], 1, "The program's name ' ' has 1 characters: give 1 to 200, not only spaces."),
        (["box/report", "--holder", "a/b", "--", "true"], 1, "'a/b' is not valid"),
        (["Box!/report", "--", "true"], 1, "Container name 'Box!' is not valid"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], code: int, message: str) -> None:
    result = run(*arguments)
    assert (code, "") == (result.exit_code, result.stdout)
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_a_system_without_process_groups_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordination.cli.app.os", SimpleNamespace(name="nt"))
    result = run("box/report", "--", "true")
    assert 2 == result.exit_code
    assert "it needs process groups" in result.stderr


class Running:
    """A process of `run` whose command writes to a file when it begins and ends."""

    def __init__(self, azurite: Azurite, container: str, folder: Path, holder: str, trap: str = ORDERLY) -> None:
        self.file, self.errors = folder / holder, folder / f"{holder}.err"
        script = WORK.format(file=self.file, trap=trap.format(file=self.file))
        options = ["--lease", "15", "--poll", "2", "--grace", "3", "--holder", holder]
        command = [sys.executable, "-m", "coordination", "run", f"{container}/the report", *options]
        environment = {**os.environ, "AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string}
        with self.errors.open("w") as errors:
            command = ["/usr/bin/env", "nohup", *command, "--", "sh", "-c", script]
            self.process = subprocess.Popen(command, stderr=errors, stdout=errors, env=environment)

    @property
    def lines(self) -> list[tuple[str, int, int]]:
        """Each has begin or end, process id, epoch."""
        found = [line.split() for line in self.file.read_text().splitlines()] if self.file.exists() else []
        return [(each[0], int(each[1]), int(each[2])) for each in found]

    @property
    def said(self) -> str:
        return self.errors.read_text()

    @property
    def commands(self) -> list[int]:
        """The process ids of its commands that are alive."""
        return [
            process
            for what, process, _ in self.lines
            if what == "begin" and psutil.pid_exists(process) and psutil.Process(process).status() != "zombie"
        ]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.mark.slow
def test_one_process_runs_the_command_whoever_is_killed_and_whatever_happens_to_the_lease(
    azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    with ContainerClient.from_connection_string(azurite.connection_string, container_name) as client:
        client.create_container()
    with ExitStack() as stack:

        def start(holder: str, trap: str = ORDERLY) -> Running:
            new = Running(azurite, container_name, tmp_path, holder, trap)
            stack.callback(new.end)
            return new

        one = start("one")
        wait_for(lambda: one.commands, SLACK)
        two = start("two", DEAF)
        wait_for(lambda: "stands by: one leads" in two.said, SLACK)

        one.process.kill()
        gone = wait_for(lambda: not one.commands, TIMING.margin + SLACK)
        taken = gone + wait_for(lambda: two.commands, TIMING.takeover + SLACK)
        print(f"killed: its command after {gone:.1f} s, the next one after {taken:.1f} s ({TIMING.takeover:.0f} s)")  # noqa: T201

        three = start("three")
        wait_for(lambda: "stands by: two leads" in three.said, SLACK)
        blob = BlobClient.from_connection_string(azurite.connection_string, container_name, leader_blob("the report"))
        with blob:
            BlobLeaseClient(blob).break_lease(0)
        [deaf] = two.commands
        wait_for(lambda: deaf not in two.commands, TIMING.renew_every + TIMING.margin + SLACK)
        assert "no longer leads: " in two.said
        wait_for(lambda: "the command was stopped by SIGKILL" in two.said, SLACK)
        wait_for(lambda: two.commands or three.commands, TIMING.takeover + SLACK)

        leader, other = (two, three) if two.commands else (three, two)
        wait_for(lambda: f"stands by: {'two' if leader is two else 'three'} leads" in other.said, SLACK)
        other.process.send_signal(signal.SIGHUP)  # ignored, as `nohup` wants it
        leader.process.send_signal(signal.SIGTERM)
        assert 143 == leader.process.wait(SLACK + 3)
        assert [] == leader.commands
        handed = wait_for(lambda: other.commands, 2 + SLACK)
        print(f"stopped: the next one after {handed:.1f} s")  # noqa: T201
        other.process.send_signal(signal.SIGINT)
        assert 130 == other.process.wait(SLACK + 3)

    begun = sorted(
        (epoch, each.file.name) for each in (one, two, three) for what, _, epoch in each.lines if what == "begin"
    )
    assert ["one", "two"] == [name for _, name in begun[:2]]
    assert len(begun) == len({epoch for epoch, _ in begun}), "no epoch is of two commands"
    assert azurite.account_key not in one.said + two.said + three.said

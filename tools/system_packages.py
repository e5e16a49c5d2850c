"""Installs a program with the system's package manager, where this process may. Standard library only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MANAGERS = {
    "apt-get": ("apt-get update -q", "apt-get install -q -y --no-install-recommends"),
    "dnf": ("dnf install -q -y",),
    "apk": ("apk add --quiet",),
}


def install_package(names: Mapping[str, str]) -> None:
    """Install a package, named for each manager, with the one that the system has; nothing without the right to."""
    commands = installer(names)
    for command in commands:
        print(f"  {command}", flush=True)
        subprocess.run(command.split(), check=False, stdout=subprocess.DEVNULL)


def installer(names: Mapping[str, str]) -> tuple[str, ...]:
    """The commands that install a package, none if this process cannot."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return ()
    for manager, name in names.items():
        if shutil.which(manager):
            *before, last = MANAGERS[manager]
            return (*before, f"{last} {name}")
    return ()

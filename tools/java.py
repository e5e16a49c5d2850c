"""Finds a Java for Spark 4, or installs one with the system's package manager. Standard library only."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tools.system_packages import install_package

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST = 17
"""Spark 4 is compiled for Java 17."""

PREFERRED = range(17, 22)
"""Versions that Spark 4.0 supports. A newer one is used only if none of these is found."""

PACKAGES = {"apt-get": "openjdk-17-jre-headless", "dnf": "java-17-openjdk-headless", "apk": "openjdk17-jre-headless"}


class JavaMissingError(Exception):
    """There is no suitable Java, and this process cannot install one. The message says what to do."""


def java_home() -> Path | None:
    """The home of a Java of version 17 or later: `JAVA_HOME`, then `PATH`, then the usual folders of the system."""
    versions = {home: java_version(home) for home in _candidates()}
    usable = [home for home, version in versions.items() if version is not None and version >= OLDEST]
    return next((home for home in usable if versions[home] in PREFERRED), usable[0] if usable else None)


def java_version(home: Path) -> int | None:
    """The major version of the Java in a folder, or None if there is none."""
    if not (home / "bin" / "java").is_file():
        return None
    release = home / "release"
    if release.is_file():
        text = release.read_text(encoding="utf-8", errors="replace")
    else:
        text = subprocess.run(
            [home / "bin" / "java", "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            check=False,
        ).stderr
    found = re.search(r'(?:JAVA_VERSION="|java\.version = )(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def require_java() -> Path:
    """The home of a suitable Java, which is installed if there is none. Raises `JavaMissingError`."""
    home = java_home()
    if home is None:
        install_package(PACKAGES)
        home = java_home()
    if home is None:
        raise JavaMissingError(
            f"Spark needs Java {OLDEST} or later and none was found: install it "
            "(Debian and Ubuntu: `apt-get install openjdk-17-jre-headless`; macOS: `brew install openjdk@17`) "
            "or set JAVA_HOME to one."
        )
    return home


def _candidates() -> Iterator[Path]:
    if "JAVA_HOME" in os.environ:
        yield Path(os.environ["JAVA_HOME"])
    if (on_path := shutil.which("java")) is not None:
        yield Path(on_path).resolve().parents[1]
    folders = ("/usr/lib/jvm", "/opt/java", "/opt/homebrew/opt", "/usr/local/opt", "/Library/Java/JavaVirtualMachines")
    for folder in folders:
        for home in sorted(Path(folder).glob("*")):
            yield home / "Contents" / "Home" if (home / "Contents" / "Home").is_dir() else home

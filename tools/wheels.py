"""Builds the wheels and source archives in `dist/` and tries them in an empty environment: `make wheel`.

The pure wheel is for all systems; of the compiled one there is one for each target of `tools/native_wheels.py`. Only
files that git knows are built, in a copy. `--twice` builds again in another folder: both must be equal to the byte.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import TYPE_CHECKING

from tools.dist_contents import complaints, library_in
from tools.elf_needs import needs_of
from tools.native import NativeMissingError, output_of, with_cargo
from tools.native_wheels import Target, available_targets, build_native

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
TRIAL = """
import importlib.metadata, os, pyarrow, arrow_avro
from arrow_avro.decoding.scanners import scanner_class
table = pyarrow.table({"n": [1, None, 3], "text": ["a", "b", None]})
avro = arrow_avro.infer(table.schema, name="row", namespace=None)
rows = arrow_avro.RowEncoder(table.schema, avro).encode(table.to_batches()[0])
sync = bytes(16)
pieces = [arrow_avro.header(avro.json, "null", sync), *arrow_avro.block(3, rows.data.data[: rows.offsets[-1]], sync)]
for decoder in ("pure", "native"):
    os.environ["AZUREBLOB_DECODER"] = decoder
    read = pyarrow.Table.from_batches(arrow_avro.decode_blob(b"".join(pieces), blob="trial"))
    assert read.to_pydict() == table.to_pydict(), read
    print(f"  {decoder}: {scanner_class().__name__} reads what was written")
for name in ("pyspark-azureblob", "pyspark-azureblob-native"):
    print(f"  {name} {importlib.metadata.version(name)}")
"""


def main() -> int:
    """Build, check and try. The exit code is 0, or 1 after a message that says what is missing or differs."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheels", description=__doc__)
    parser.add_argument("--twice", action="store_true", help="build again in another folder, and compare")
    return 0 if make_dist(is_twice=parser.parse_args().twice) else 1


def make_dist(*, is_twice: bool) -> bool:
    """Build, check and try. Whether all is well; what is wrong is printed."""
    try:
        environment = build_environment()
        targets = available_targets(environment)
        print(output_of(["rustc", "--version"], environment=environment), flush=True)
        shutil.rmtree(DIST, ignore_errors=True)
        digests = build(DIST, "build", targets, environment)
        for name, digest in digests.items():
            print(f"dist/{name}, {(DIST / name).stat().st_size / 1e6:.2f} MB, sha256 {digest}")
        if not is_sound(DIST) or (is_twice and not is_equal_again(digests, targets, environment)):
            return False
        _try()
    except NativeMissingError as error:
        print(f"wheel: the compiled decoder cannot be built: {error}.", file=sys.stderr)
        return False
    except subprocess.CalledProcessError as error:
        command = " ".join(map(str, error.cmd))
        print(f"wheel: `{command}` ended with code {error.returncode}: read the lines above.", file=sys.stderr)
        return False
    return True


def build_environment() -> dict[str, str]:
    """The variables of a build: with Cargo and Zig on the path, at the time of the commit."""
    environment = with_cargo()
    time = output_of(["git", "log", "-1", "--format=%ct"])
    path = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    return {**environment, "PATH": path, "SOURCE_DATE_EPOCH": time}


def build(dist: Path, name: str, targets: list[Target], environment: Mapping[str, str]) -> dict[str, str]:
    """Build all into `dist` in a temporary folder that has this name. Returns the digests by the names of the files."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder).resolve() / name
        copy_tracked(ROOT, tree)
        command: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "--directory", dist]
        subprocess.run(command, cwd=tree, env=environment, check=True)
        build_native(tree, targets, dist, environment)
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(dist.iterdir())}


def copy_tracked(checkout: Path, tree: Path) -> None:
    """Copy the files that git tracks, as they are now."""
    names = output_of(["git", "ls-files", "-z"], checkout)
    for name in names.split("\0"):
        if name and (checkout / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout / name, tree / name)


def is_sound(dist: Path) -> bool:
    """Check contents, tags and metadata; what is wrong is printed."""
    files = sorted(dist.iterdir())
    wrong = [complaint for file in files for complaint in complaints(file)]
    for file in files:
        if file.match("*-abi3-*.whl"):
            needs = needs_of(library_in(file))
            breach = needs.breach(file.stem)
            wrong += [f"{file.name}: {breach}"] if breach else []
            newest = f", glibc 2.{needs.glibc} or later" if needs.glibc else ""
            print(f"{file.stem.rpartition('-')[2]} needs {', '.join(sorted(needs.libraries))}{newest}")
    command: list[str | Path] = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *files]
    twine = subprocess.run(command, capture_output=True, text=True, check=False)
    wrong += [f"twine check: {twine.stdout}{twine.stderr}"] if twine.returncode else []
    for complaint in wrong:
        print(f"wheel: {complaint}", file=sys.stderr)
    print(
        f"Checked {len(files)} files, by their contents and by twine check --strict: {len(wrong)} complaints",
        flush=True,
    )
    return not wrong


def is_equal_again(digests: Mapping[str, str], targets: list[Target], environment: Mapping[str, str]) -> bool:
    """Build once more, elsewhere, and compare the digests; what differs is printed."""
    with tempfile.TemporaryDirectory() as dist:
        again = build(Path(dist), "another/folder", targets, environment)
    differing = sorted(name for name in {*digests, *again} if digests.get(name) != again.get(name))
    for name in differing:
        print(f"wheel: {name} differs when it is built in another folder: {again.get(name)}", file=sys.stderr)
    if not differing:
        print(f"Built again in another folder: {len(again)} of {len(digests)} files have the same sha256.")
    return not differing


def _try() -> None:
    """Both wheels in an environment that has nothing else, and away from this checkout."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        python = folder / "venv" / "bin" / "python"
        options: list[str | Path] = [
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary",
            ":all:",
            "--find-links",
            DIST,
        ]
        subprocess.run([python, "-m", "pip", "install", *options, "pyspark-azureblob[native]"], cwd=folder, check=True)
        print("In an empty environment:", flush=True)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([python, "-c", TRIAL], cwd=folder, env=environment, check=True)


if __name__ == "__main__":
    sys.exit(main())

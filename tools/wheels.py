"""Builds both wheels in `dist/` and tries them in an empty environment: `make wheel`.

The pure wheel is for all systems. The compiled one is for the system at hand, and any Python from 3.11 on.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tools.native import SOURCE, NativeMissingError, with_cargo

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
    """Build, install and try. The exit code is 0, or 1 after a message that says what is missing."""
    try:
        environment = with_cargo()
    except NativeMissingError as error:
        print(f"wheel: the compiled decoder cannot be built: {error}.", file=sys.stderr)
        return 1
    shutil.rmtree(DIST, ignore_errors=True)
    for source in (ROOT, SOURCE):
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            DIST,
            source,
        ]
        subprocess.run(command, env=environment, check=True)
    for wheel in sorted(DIST.glob("*.whl")):
        print(f"{wheel.relative_to(ROOT)}, {wheel.stat().st_size / 1e6:.2f} MB")
    with tempfile.TemporaryDirectory() as folder:
        _try(Path(folder))
    return 0


def _try(folder: Path) -> None:
    """Both wheels in an environment that has nothing else, and away from this checkout."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    options: list[str | Path] = ["--quiet", "--disable-pip-version-check", "--find-links", DIST]
    subprocess.run([python, "-m", "pip", "install", *options, "pyspark-azureblob[native]"], cwd=folder, check=True)
    print("In an empty environment:", flush=True)
    subprocess.run([python, "-c", TRIAL], cwd=folder, check=True)


if __name__ == "__main__":
    sys.exit(main())

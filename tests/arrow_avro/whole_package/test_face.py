"""The face of the package: its names are there, and each loads only what it needs."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import arrow_avro

ROOT = Path(__file__).parents[3]


def test_the_face_has_the_names_that_type_checkers_find() -> None:
    tree = ast.walk(ast.parse(Path(arrow_avro.__file__).read_text("utf-8")))
    imports = [node for node in tree if isinstance(node, ast.ImportFrom) and str(node.module).startswith("arrow_avro.")]
    declared = {each.name: str(node.module) for node in imports for each in node.names}
    assert declared == {name: f"arrow_avro.{module}" for name, module in arrow_avro._MODULES.items()}
    assert sorted(declared) == sorted(arrow_avro.__all__)


@pytest.mark.parametrize("name", arrow_avro.__all__)
def test_a_name_is_what_its_module_has(name: str) -> None:
    module = import_module(f"arrow_avro.{arrow_avro._MODULES[name]}")
    assert getattr(module, name) is getattr(arrow_avro, name)


def test_another_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'arrow_avro' has no attribute 'decode_everything'"):
        _ = arrow_avro.decode_everything  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("BATCH_BYTES", {"numpy", "pyarrow", "pyspark"}),
        ("parse", {"awkward_cpp", "pyspark"}),
        ("decode_blob", {"pyspark"}),
    ],
)
def test_a_name_loads_no_library_that_it_does_not_need(name: str, others: set[str]) -> None:
    program = f"import sys; from arrow_avro import {name}; print(sorted({others} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "[]" == ended.stdout.strip()

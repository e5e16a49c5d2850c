"""Each example of the documents is run by a test, or named here with the reason why none runs it."""

from __future__ import annotations

import ast
import logging
import os
import re
import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command

from tools.guides import DOCUMENTS, ROOT, python_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = "tests/docs/test_examples.py"
RUN: dict[str, dict[str, int]] = {
    "README.md": {"tests/spark/test_readme.py": 1},
    "docs/ADJUNCT_STORES.md": {"tests/adjunct_store/spark/test_stores_guide.py": 3},
    "docs/ADJUNCT_STORES_FILLING.md": {"tests/adjunct_store/spark/test_stores_guide.py": 5},
    "docs/ADJUNCT_STORES_OPERATIONS.md": {"tests/adjunct_store/spark/test_stores_guide.py": 2},
    "docs/CONTROL_MESSAGES.md": {"tests/spark/test_control_guide.py": 4},
    "docs/COORDINATION.md": {"tests/crash/test_coordination_guide.py": 7},
    "docs/ICEBERG.md": {"tests/spark/test_examples.py": 1},
    "docs/LOGGING.md": {HERE: 1},
    "docs/MAINTENANCE.md": {"tests/spark/test_reverted_queries.py": 1},
    "docs/METRICS.md": {"tests/spark/test_metrics.py": 1},
    "docs/PIPELINE.md": {"tests/crash/test_pipeline_guide.py": 9},
    "docs/READING.md": {"tests/spark/test_readme.py": 1, "tests/spark/test_examples.py": 1},
    "docs/STATE_BACKUP.md": {"tests/state_backup/whole_package/test_guide.py": 5},
    "docs/TROUBLESHOOTING.md": {HERE: 1, "tests/spark/test_user_errors.py": 1},
    "docs/from/AUTO_LOADER.md": {"tests/spark/test_guides_from_elsewhere.py": 1},
    "docs/from/DELTA.md": {"tests/spark/test_guides_from_elsewhere.py": 1},
    "docs/from/KAFKA_CONNECT.md": {"tests/spark/test_guides_from_elsewhere.py": 1},
    "docs/from/SAMZA.md": {"tests/spark/test_guides_from_elsewhere.py": 1},
    "docs/from/SPARK_AVRO.md": {"tests/spark/test_guides_from_elsewhere.py": 1},
}
"""By document, the tests that run its blocks of Python, and how many each runs."""

NOT_RUN = {
    ("docs/from/KAFKA_CONNECT.md", "topic = ("): "needs Kafka, a registry, and Spark's packages of Kafka and Avro",
}
"""Blocks of Python that no test runs, by the beginning of the first line."""

OTHER_PROGRAMS = {
    "az": "Azure's command line, which needs an account",
    "pip": "tests/docs/test_guide_packages.py has what the guides install",
    "touch": "a file for `az`",
    ".venv/bin/python": "the tests themselves",
    "python": "of this package: test_each_command_line_is_one_of_ours; `job.py` is the reader's",
    "make": "test_each_target_of_make_exists",
    "PYTHONPATH=/opt/monitoring:$PYTHONPATH": "tests/spark/test_metrics.py",
    "spark-submit": "tests/spark/test_metrics.py sets the same variable by `spark.executorEnv`",
}
"""What the first word of a command in an indented block may be, and where that is tried."""

PROGRAMS = ("azureblob_source", "state_backup", "adjunct_store", "coordination")
COMMAND = re.compile(rf"python -m ({'|'.join(PROGRAMS)}) ([a-z-]+)([^`\n#|]*)")
INDENTED = re.compile(r"\n\n((?:    .*\S.*\n|\n(?=    ))+)")
SHELL = re.compile(r"^(?:\S*/)?(?:pip|az|python3?|make|touch|spark-submit|PYTHONPATH=\S+)(?= )", re.MULTILINE)

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def name_of(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


@each_document
def test_each_block_of_python_is_run_by_a_test_or_listed(document: Path) -> None:
    name = name_of(document)
    blocks = python_blocks(name)
    listed = [block for block in blocks for of, line in NOT_RUN if of == name and block.startswith(line)]
    assert len(blocks) - len(listed) == sum(RUN.get(name, {}).values())
    for block in blocks:
        compile(block, name, "exec")


@pytest.mark.parametrize(("document", "test"), [(document, test) for document, tests in RUN.items() for test in tests])
def test_the_tests_that_are_named_take_the_blocks_of_that_document(document: str, test: str) -> None:
    text = (ROOT / test).read_text("utf-8")
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    assert any(ast.unparse(call.func) == "python_blocks" for call in calls)
    assert document in text or Path(document).name in text


def test_what_is_listed_exists() -> None:
    for document, line in NOT_RUN:
        assert 1 == sum(block.startswith(line) for block in python_blocks(document)), (document, line)


def command_lines() -> Iterator[tuple[str, str, str, list[str]]]:
    """Document, program, command and words of each command line of this package, in blocks and in text."""
    for document in DOCUMENTS:
        text = document.read_text("utf-8").replace("\\\n", " ")
        for program, command, words in COMMAND.findall(text):
            yield name_of(document), program, command, words.split()


def test_each_command_line_is_one_of_ours() -> None:
    groups: dict[str, Any] = {name: get_command(import_module(f"{name}.cli.app").app) for name in PROGRAMS}
    wrong, seen = [], set()
    for document, program, command, words in command_lines():
        known = groups[program].commands.get(command)
        options = {name for each in known.params for name in each.opts} if known else set()
        own = words[: words.index("--")] if "--" in words else words
        unknown = [
            word for word in own if re.fullmatch(r"\[?--?[a-z][a-z-]*\]?", word) and word.strip("[]") not in options
        ]
        seen.add((program, command))
        if known is None or unknown:
            wrong.append((document, program, command, unknown))
    assert [] == wrong
    assert {("azureblob_source", "vacuum"), ("state_backup", "sweep"), ("coordination", "run")} <= seen


def test_each_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {
        target
        for document in DOCUMENTS
        for target in re.findall(r"(?:`|^    )make ([a-z]+)", document.read_text("utf-8"), re.MULTILINE)
    }
    assert named - targets == set()
    assert "check" in named


@each_document
def test_each_command_in_a_block_is_of_a_program_that_is_tried_or_listed(document: Path) -> None:
    unlisted = []
    for block in INDENTED.findall(document.read_text("utf-8")):
        lines = [line.strip() for line in block.replace("\\\n", " ").split("\n") if SHELL.match(line.strip())]
        unlisted += [line for line in lines if shlex.split(line, comments=True)[0] not in OTHER_PROGRAMS]
    assert [] == unlisted


@each_document
def test_python_in_other_blocks_is_python(document: Path) -> None:
    """Pieces of a few lines, which need what the page has before them."""
    text = document.read_text("utf-8")
    blocks = [*INDENTED.findall(text), *re.findall(r"^```\n(.*?)^```", text, re.DOTALL | re.MULTILINE)]
    for block in blocks:
        if re.match(r"\s*(?:spark\.|\w+ = \w+[.(]|\w+\.\w+\()", block):
            lines = block.split("\n")
            indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
            compile("\n".join(line[indent:] for line in lines), name_of(document), "exec")


def test_the_example_of_logging_shows_info(monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = python_blocks("docs/LOGGING.md")
    packages = ("azureblob_source", "control_messages", "coordination", "state_backup", "adjunct_store")
    levels = {name: logging.getLogger(name).level for name in packages}
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    try:
        exec(code, {})  # noqa: S102 - a file of this repository
        assert all(logging.getLogger(name).isEnabledFor(logging.INFO) for name in packages)
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def test_the_example_of_troubleshooting_names_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    first, *_ = python_blocks("docs/TROUBLESHOOTING.md")
    exec(first, {"os": os, "sys": sys})  # noqa: S102 - a file of this repository
    assert sys.executable == os.environ["PYSPARK_PYTHON"]

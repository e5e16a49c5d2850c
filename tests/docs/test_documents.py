"""The documents agree with the repository: links lead somewhere, tests that they name exist, every error has a row."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import control_messages.errors
import foundation.errors
from tools.guides import DOCUMENTS, ROOT, python_blocks
from tools.trial import SPARKS, release

LINK = re.compile(r"\]\((?!https?://)([^)\s]*)\)|^\[[^\]]+\]: (?!https?://)(\S+)", re.MULTILINE)
USED = re.compile(r"\[([^\[\]]+)\]\[([^\[\]]*)\]")
DEFINED = re.compile(r"^\[([^\]]+)\]: ", re.MULTILINE)
NAMED_TEST = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")
FILE = re.compile(r"`([\w/.]+\.py)(?:::\w+)?`")
LOCKED = re.compile(r"^pyspark==(\S+)", re.MULTILINE)

DECISIONS = sorted(ROOT.glob("docs/internals/decisions/*.md"))
PACKAGES = {
    "0003": "arrow_avro",
    "0006": "arrow_avro",
    "0009": "control_messages",
    "0011": "coordination",
    "0015": "state_backup",
    "0016": "adjunct_store",
    "0017": "arrow_avro",
}
"""The package that a decision is about, by its number; of the others it is the connector's."""

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_document
def test_every_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    broken = []
    for link in map("".join, LINK.findall(document.read_text("utf-8"))):
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert [] == broken


@each_document
def test_every_link_by_a_name_has_a_target_and_every_target_is_used(document: Path) -> None:
    text = document.read_text("utf-8")
    assert set(DEFINED.findall(text)) == {name or words for words, name in USED.findall(text)}


@each_document
def test_every_test_that_a_document_names_exists(document: Path) -> None:
    missing = []
    for path, name in NAMED_TEST.findall(document.read_text("utf-8")):
        target = ROOT / path
        if not target.is_file() or (name and f"def {name}(" not in target.read_text("utf-8")):
            missing.append(f"{path}::{name}" if name else path)
    assert [] == missing


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: str(path.name))
def test_every_file_that_a_decision_names_exists_in_the_repository_or_in_its_package(decision: Path) -> None:
    package = PACKAGES.get(decision.name[:4], "azureblob_source")
    folders = [ROOT, ROOT / package, ROOT / "tests" / package]
    missing = [
        path
        for path in FILE.findall(decision.read_text("utf-8"))
        if not any((folder / path).is_file() for folder in folders)
    ]
    assert [] == missing


def test_the_readme_has_600_to_700_words() -> None:
    assert 600 <= len((ROOT / "README.md").read_text("utf-8").split()) <= 700


@pytest.mark.parametrize("module", [foundation.errors, control_messages.errors])
def test_every_class_of_errors_has_a_row(module: object) -> None:
    classes = {name for name, found in inspect.getmembers(module, inspect.isclass) if issubclass(found, Exception)}
    rows = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "ERRORS.md").read_text("utf-8"), re.MULTILINE))
    assert classes
    assert set() == classes - rows


def test_each_environment_of_the_matrix_has_the_spark_of_its_name_and_the_documents_say_which() -> None:
    locks = sorted((ROOT / "requirements").glob("pyspark*.lock"))
    versions = [LOCKED.findall(lock.read_text("utf-8")) for lock in locks]
    assert [f"pyspark{major}{minor}" for ((major, minor),) in map(_release, versions)] == [lock.stem for lock in locks]
    (named,) = re.findall(
        r"^\| pyspark \|.*\| ([^|]*) \|$", (ROOT / "docs" / "COMPATIBILITY.md").read_text("utf-8"), re.MULTILINE
    )
    assert [version for (version,) in versions] == named.split(", ")


def test_the_documents_say_on_which_python_the_tests_of_each_spark_run() -> None:
    (named,) = re.findall(
        r"^\| Python \|.*\| ([^|]*);[^|]* \|$", (ROOT / "docs" / "COMPATIBILITY.md").read_text("utf-8"), re.MULTILINE
    )
    found = {
        version: python
        for python, sparks in re.findall(r"([\d.]+) \((.*?)\)", named)
        for version in re.findall(r"\d\.\d", sparks)
    }
    assert {release(spark): python for spark, python in SPARKS.items()} == found


def _release(versions: list[str]) -> list[tuple[str, str]]:
    return [(version.split(".")[0], version.split(".")[1]) for version in versions]


SESSION, PYTHON = "SparkSession.builder", 'os.environ.setdefault("PYSPARK_PYTHON", sys.executable)'


@pytest.mark.parametrize("guide", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_an_example_that_starts_spark_first_says_which_python_its_workers_are(guide: str) -> None:
    """Nothing else can: Spark looks for this package in the Python that it is told before the session starts."""
    blocks = python_blocks(guide)
    starts = [block for block in blocks if SESSION in block]
    assert [PYTHON in block.partition(SESSION)[0] for block in starts] == [True] * len(starts)

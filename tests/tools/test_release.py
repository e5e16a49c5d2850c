"""What stands in the way of a release is one sentence each, and a release writes nothing but a date."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("elftools", reason="only `make test` installs what builds packages")

from tools.release import Checkout, checkout_at
from tools.wheels import copy_tracked

ROOT = Path(__file__).parents[2]
READY = Checkout(
    commit="a" * 40,
    tagged="",
    changes=[],
    versions={"pyproject.toml": "0.1.0", "native/Cargo.toml": "0.1.0"},
    section="Unreleased",
    source="https://git.example/azureblob",
    readme="pip install pyspark-azureblob",
)


@pytest.mark.parametrize(
    ("checkout", "obstacle"),
    [
        (replace(READY, changes=["a.py", "b.py"]), "The tree differs from its commit: commit or remove a.py, b.py."),
        (
            replace(READY, versions={"pyproject.toml": "0.2.0", "native/Cargo.toml": "0.1.0"}),
            "The versions differ: 0.2.0 in pyproject.toml, 0.1.0 in native/Cargo.toml; make them equal.",
        ),
        (replace(READY, tagged="b" * 40), "v0.1.0 is the tag of another commit, bbbbbbbbbbbb: raise the version."),
        (
            replace(READY, section=""),
            "CHANGELOG.md has no section `## [0.1.0] - Unreleased`: write what has changed there.",
        ),
        (
            replace(READY, source=""),
            "pyproject.toml has no `Source` in [project.urls]: name the repository; PyPI's page links to it.",
        ),
        (
            replace(READY, readme="in a checkout (not on PyPI yet)"),
            "README.md says that the package is not on PyPI yet: say how it is installed from there.",
        ),
    ],
)
def test_each_obstacle_is_one_sentence(checkout: Checkout, obstacle: str) -> None:
    assert [] == list(READY.obstacles()) + list(replace(READY, tagged=READY.commit).obstacles())
    assert [obstacle] == list(checkout.obstacles())


def test_the_versions_of_this_checkout_are_equal() -> None:
    checkout = checkout_at(ROOT)
    assert 5 == len(checkout.versions)
    assert 1 == len(set(checkout.versions.values()))
    assert re.fullmatch(r"Unreleased|\d{4}-\d\d-\d\d", checkout.section)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with the files of this checkout, ready to be released."""
    copy_tracked(ROOT, tmp_path)
    settings, readme = tmp_path / "pyproject.toml", tmp_path / "README.md"
    if "[project.urls]" not in settings.read_text("utf-8"):
        settings.write_text(f'{settings.read_text("utf-8")}\n[project.urls]\nSource = "{READY.source}"\n', "utf-8")
    readme.write_text(readme.read_text("utf-8").replace("not on PyPI yet", ""), "utf-8")
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(re.sub(r"(?m)^(## \[.+\]) - .*", r"\1 - Unreleased", changelog.read_text("utf-8")), "utf-8")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(tree: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
    command = ["git", *who, *arguments]
    return subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout


def commit(tree: Path) -> None:
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "a change")


def release(tree: Path, *options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tools.release", "--checkout", str(tree), *options]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def test_the_date_is_written_then_the_commit_of_it_is_to_be_tagged_and_uploaded(tree: Path) -> None:
    code, said = release(tree, "--dry-run")
    assert (0, "") == (code, git(tree, "status", "--porcelain")), said
    code, said = release(tree)
    assert (0, " M CHANGELOG.md\n") == (code, git(tree, "status", "--porcelain")), said
    assert (1, "release: The tree differs from its commit: commit or remove CHANGELOG.md.\n") == release(tree)
    head = git(tree, "rev-parse", "HEAD")
    commit(tree)
    code, said = release(tree, "--dry-run")
    assert 0 == code, said
    assert f"git tag -a v0.1.0 -m 'Version 0.1.0' {git(tree, 'rev-parse', 'HEAD')[:12]}" in said
    assert said.index("pyspark_azureblob_native-0.1.0*") < said.index("pyspark_azureblob-0.1.0*")
    assert ("", "2") == (git(tree, "tag"), git(tree, "rev-list", "--count", "HEAD").strip())
    git(tree, "tag", "--annotate", "--message", "a tag", "v0.1.0", head.strip())
    assert (1, f"release: v0.1.0 is the tag of another commit, {head[:12]}: raise the version.\n") == release(tree)

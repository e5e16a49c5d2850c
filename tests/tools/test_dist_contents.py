"""The pure wheel and the source archive have what they must, nothing else, and a README whose links work on PyPI."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="only `make test` installs what builds packages")

from hatch_build import with_absolute_links
from tools.dist_contents import complaints, names_in, packages
from tools.wheels import copy_tracked

ROOT = Path(__file__).parents[2]
WHEEL = "pyspark_azureblob-0.1.0-py3-none-any.whl"
SOURCE = "pyspark_azureblob-0.1.0.tar.gz"
NATIVE = "pyspark_azureblob_native-0.1.0-cp311-abi3-musllinux_1_2_x86_64.whl"
REPOSITORY = "https://git.example/azureblob"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both, built from what git tracks."""
    folder = tmp_path_factory.mktemp("dist")
    copy_tracked(ROOT, folder / "tree")
    build(folder / "tree", folder)
    return folder


def build(tree: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)


def test_both_have_the_packages_and_what_describes_them(dist: Path) -> None:
    wheel, source = ({name.partition("/")[0] for name in names_in(dist / name)} for name in (WHEEL, SOURCE))
    assert {*packages(), "dist-info"} == wheel
    described = {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert {*packages(), *described, ".gitignore", "hatch_build.py"} == source
    assert [] == complaints(dist / WHEEL) + complaints(dist / SOURCE)


def test_the_source_archive_makes_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(dist / SOURCE, tmp_path)
    build(tmp_path / SOURCE.removesuffix(".tar.gz"), tmp_path)
    assert (dist / WHEEL).read_bytes() == (tmp_path / WHEEL).read_bytes()


@pytest.mark.parametrize("name", ["tests/test_all.py", "foundation/notes.md", "tools/wheels.py", "dist-info/README.md"])
def test_a_file_that_does_not_belong_into_a_wheel_is_named(dist: Path, tmp_path: Path, name: str) -> None:
    shutil.copy(dist / WHEEL, tmp_path)
    with zipfile.ZipFile(tmp_path / WHEEL, "a") as wheel:
        wheel.writestr(name.replace("dist-info", "pyspark_azureblob-0.1.0.dist-info"), "")
    assert [f"{WHEEL}: {name} must not be in it"] == complaints(tmp_path / WHEEL)


def test_a_compiled_wheel_without_the_licences_of_its_crates_is_refused(tmp_path: Path) -> None:
    library = "pyspark_azureblob_native/pyspark_azureblob_native.abi3.so"
    described = [f"dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL", "licenses/LICENSE")]
    with zipfile.ZipFile(tmp_path / NATIVE, "w") as wheel:
        for name in ("pyspark_azureblob_native/__init__.py", library, *described):
            wheel.writestr(name.replace("dist-info", "pyspark_azureblob_native-0.1.0.dist-info"), "")
    assert [
        f"{NATIVE}: dist-info/licenses/THIRD_PARTY.txt is missing",
        f"{NATIVE}: dist-info/licenses/THIRD_PARTY_RUST.html is missing",
    ] == complaints(tmp_path / NATIVE)


def test_the_page_of_pypi_has_no_link_that_is_relative(dist: Path, tmp_path: Path) -> None:
    assert [] == [link for link in links(metadata_text(dist)) if not link.startswith("https://")]
    copy_tracked(ROOT, tmp_path / "tree")
    settings = tmp_path / "tree" / "pyproject.toml"
    text = re.sub(r"(?ms)^\[project\.urls\].*?^$", "", settings.read_text(encoding="utf-8"))
    settings.write_text(f'{text}\n[project.urls]\nSource = "{REPOSITORY}"\n', encoding="utf-8")
    build(tmp_path / "tree", tmp_path)
    absolute = links(metadata_text(tmp_path))
    own = {link.removeprefix(f"{REPOSITORY}/blob/v0.1.0/").partition("#")[0] for link in absolute if REPOSITORY in link}
    assert [] == [link for link in absolute if not link.startswith("https://")]
    assert [] == [place for place in own if not (ROOT / place).exists()]
    assert len(own) > 10


def metadata_text(folder: Path) -> str:
    with zipfile.ZipFile(folder / WHEEL) as wheel:
        text = wheel.read("pyspark_azureblob-0.1.0.dist-info/METADATA").decode()
    assert "text/markdown" == message_from_string(text)["Description-Content-Type"]
    return text


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)]+)\)", text)


def test_links_of_markdown_become_absolute_or_text() -> None:
    readme = "[a\nguide](docs/A.md#b), [site](https://c.d), [below](#e)"
    assert "[a\nguide](https://x/docs/A.md#b), [site](https://c.d), [below](#e)" == with_absolute_links(
        readme, "https://x"
    )
    assert "a\nguide, [site](https://c.d), [below](#e)" == with_absolute_links(readme, None)

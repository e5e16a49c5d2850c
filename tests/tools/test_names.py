"""The tests of a module are found by its name: `test_<module>….py`, in the folder that mirrors its folder."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
NO_PRODUCT = ("benchmarks", "demo", "tools")


def modules_of(folder: Path) -> set[str]:
    """The modules of a folder of the product, and the folders in it."""
    return {path.stem for path in folder.glob("*.py")} | {face.parent.name for face in folder.glob("*/__init__.py")}


def test_a_test_file_is_named_by_a_module_of_the_folder_that_it_mirrors() -> None:
    packages = [face.parent for face in ROOT.glob("*/__init__.py") if face.parent.name not in NO_PRODUCT]
    folders = [face.parent for package in packages for face in package.rglob("__init__.py")]
    unnamed = [
        file.relative_to(ROOT).as_posix()
        for folder in folders
        for file in (ROOT / "tests" / folder.relative_to(ROOT)).glob("test_*.py")
        if not any(f"{file.stem}_".startswith(f"test_{module}_") for module in modules_of(folder))
    ]
    assert [] == unnamed, "name them by their module, or put them into a folder such as `whole_package`"

"""Print the test files of what has changed since `main`, for `make test CHANGED=1`; without a change, nothing.

These are the tests of the same path, and those that import a changed module or a module that imports one: of a module
of the foundation nearly all. What is further away is left to `make test`.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import grimp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = ("tests/docs",)
"""They check names, words and links of everything, in seconds."""


def changed_files(base: str = "main") -> list[str]:
    """The files that differ from where this branch has left `base`, and those that git does not track yet."""
    since = _git("merge-base", "HEAD", base)
    found = [*_git("diff", "--name-only", *since), *_git("ls-files", "--others", "--exclude-standard")]
    return [name for name in dict.fromkeys(found) if (ROOT / name).exists()]


def files_to_test(changed: Iterable[str]) -> list[str]:
    """The test files, and folders of tests, for these files."""
    files = sorted(changed)
    graph = _graph()
    modules = {_module_of(name) for name in files if name.endswith(".py")} & graph.modules
    near = modules.union(*(graph.find_modules_that_directly_import(each) for each in modules if not _is_test(each)))
    found = {each for module in near for each in (module, *_tests_that_import(graph, module)) if _is_test(each)}
    paths = {f"{each.replace('.', '/')}.py" for each in found}
    for path in map(Path, files):
        if path.name == "conftest.py":
            paths.add(path.parent.as_posix())
        paths |= {
            each.relative_to(ROOT).as_posix() for each in (ROOT / "tests" / path.parent).glob(f"test_{path.stem}*.py")
        }
    return sorted({*ALWAYS, *paths}) if files else []


def _tests_that_import(graph: grimp.ImportGraph, module: str) -> Iterator[str]:
    """Directly, or through helper modules of the tests."""
    seen, waiting = {module}, [module]
    while waiting:
        for each in graph.find_modules_that_directly_import(waiting.pop()) - seen:
            seen.add(each)
            if each.startswith("tests."):
                yield each
                waiting.append(each)


@cache
def _graph() -> grimp.ImportGraph:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    sys.path.insert(0, str(ROOT))
    return grimp.build_graph("tests", *sorted(packages), cache_dir=None)


def _module_of(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _is_test(module: str) -> bool:
    return module.startswith("tests.") and module.rpartition(".")[2].startswith("test_")


def _git(*arguments: str) -> list[str]:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split()


if __name__ == "__main__":
    print("\n".join(files_to_test(changed_files())))

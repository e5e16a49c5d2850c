"""Print figures of the code, its tests and documents: `python -m tools.figures [REVISION]`.

`tests/docs/test_figures.py` keeps some of them at zero.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "adjunct_store",
    "arrow_avro",
    "azure_account",
    "azureblob_source",
    "control_messages",
    "coordination",
    "foundation",
    "pyspark_azureblob",
    "state_backup",
)
MOST_PARAMETERS = 6
CLOCKS = {"time.monotonic", "time.monotonic_ns", "time.time", "time.time_ns", "datetime.now", "datetime.utcnow"}
GLOBAL_CLOCK = "SYSTEM_CLOCK"
CLOCK_NAMES = {clock.rpartition(".")[2] for clock in CLOCKS}
WORDS = re.compile(
    r"\b([Aa]new|[Hh]eed(?:s|ed)?|[Aa]midst|(?<!here )(?:is|are) none|[Ww]hat is no|[Ss]o many|"
    r"(?<!are )[Nn]o more(?! than))\b"
)
"""Words that a reader has to read twice, or that another word of this repository stands for."""

NEED_THE_LINE_ABOVE = re.compile(r"(The same|Of|Those|They)\b")
"""A docstring that begins so is understood only with the line above it."""

LEVELS = ("debug", "info", "warning", "error", "exception")
DOCUMENTS = ("*.md", "docs/**/*.md")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A module. path: from the root."""

    path: str
    root: Path = ROOT

    @cached_property
    def text(self) -> str:
        """The module's source."""
        return (self.root / self.path).read_text("utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """The module's syntax tree."""
        return ast.parse(self.text)

    @property
    def package(self) -> str:
        """The package that it belongs to."""
        return self.path.partition("/")[0]

    @property
    def lines(self) -> int:
        """Number of lines."""
        return len(self.text.splitlines())

    @property
    def public(self) -> bool:
        """Whether no part of its path is private. `__init__` and `__main__` are not."""
        parts = Path(self.path).with_suffix("").parts
        return not any(part.startswith("_") and not part.startswith("__") for part in parts)

    def functions(self) -> Iterator[Function]:
        """All functions and methods, nested ones too."""
        yield from (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def public_functions(self) -> Iterator[tuple[str, int]]:
        """Name and number of parameters of each public function and method; `self` and `cls` do not count.

        A function is public if neither its name nor its module's path begins with `_`.
        """
        if self.public:
            yield from _public(self.tree.body, "")

    def classes(self) -> Iterator[str]:
        """The names of its public classes."""
        if self.public:
            yield from (
                node.name for node in self.tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
            )

    def strings(self) -> Iterator[tuple[int, str]]:
        """Each string with its line, docstrings and the parts of f-strings too."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value

    def clocks(self) -> Iterator[str]:
        """Where it asks the machine for the time, as `path:line`."""
        for node in ast.walk(self.tree):
            match node:
                case ast.ImportFrom(module="time", names=names):
                    asked = [f"time.{each.name}" for each in names]
                case ast.Attribute(attr=name) if name in CLOCK_NAMES:
                    asked = [ast.unparse(node)]
                case _:
                    continue
            if any(map(_ends_with_clock, asked)):
                yield f"{self.path}:{node.lineno}"

    def global_clocks(self) -> Iterator[str]:
        """Where it asks the global clock, and none that it was given, as `path:line`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == GLOBAL_CLOCK:
                yield f"{self.path}:{node.lineno}"


def modules(root: Path = ROOT, folders: Sequence[str] = PACKAGES) -> list[Module]:
    """The modules of all packages, or of other folders."""
    paths = (path for folder in folders for path in sorted((root / folder).rglob("*.py")))
    return [Module(path.relative_to(root).as_posix(), root) for path in paths]


def long_signatures(found: Sequence[Module], most: int = MOST_PARAMETERS) -> list[str]:
    """Public functions with more than `most` parameters, as `path:name (parameters)`."""
    return [
        f"{module.path}:{name} ({count})"
        for module in found
        for name, count in module.public_functions()
        if count > most
    ]


def ambiguous_classes(found: Sequence[Module]) -> list[str]:
    """Public class names that are defined twice, with the modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in found:
        for name in module.classes():
            places[name].append(module.path)
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(places.items()) if len(paths) > 1]


def clocks(found: Sequence[Module]) -> list[str]:
    """Where modules ask the machine for the time."""
    return [place for module in found for place in module.clocks()]


def global_clocks(found: Sequence[Module]) -> list[str]:
    """Where modules ask the global clock."""
    return [place for module in found for place in module.global_clocks()]


def words(found: Sequence[Module]) -> list[str]:
    """The words to avoid in strings and docstrings, as `path:line of the string: word`."""
    return [
        f"{module.path}:{line}: {word}"
        for module in found
        for line, text in module.strings()
        for word in WORDS.findall(" ".join(text.split()))
    ]


def sizes(found: Sequence[Module]) -> list[str]:
    """A line per package, and one for all: modules, lines, and the sizes of functions and modules."""
    groups = {package: [module for module in found if module.package == package] for package in PACKAGES}
    lines = ["package             modules   lines   function lines           module lines   (median / p90 / p99 / max)"]
    for name, group in [("all", list(found)), *groups.items()]:
        of_functions = [_length(function) for module in group for function in module.functions()]
        of_modules = [module.lines for module in group]
        lines.append(
            f"{name:<20}{len(group):>7}{sum(of_modules):>8,}   {_spread(of_functions):<25}{_spread(of_modules)}"
        )
    return lines


def counts(found: Sequence[Module]) -> Iterator[str]:
    """A line for each figure that is a count."""
    folders = Counter(Path(module.path).parent.as_posix() for module in found)
    yield f"Modules of a folder, at most: {_listed(folders.most_common(5))}"
    names = Counter(Path(module.path).stem for module in found if not module.path.endswith("__.py"))
    twice = [(name, count) for name, count in names.most_common() if count > 1]
    yield f"Module names used twice: {len(twice)}: {_listed(twice)}"
    calls = Counter(call for module in found for call in _log_calls(module.tree))
    yield f"Log calls: {_listed((level, calls[level]) for level in LEVELS)}"
    texts = [text for module in found for text in docstrings(module.tree)]
    first = Counter(word[1] for text in texts if (word := NEED_THE_LINE_ABOVE.match(text)))
    yield f"Docstrings: {len(texts):,}, of which begin with {_listed(first.most_common()) or 'no such word'}"


def tests_and_documents(root: Path) -> Iterator[str]:
    """A line for import contracts, tests and documents."""
    contracts = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    yield f"Import contracts: {len(contracts)}"
    tests = modules(root, ["tests"])
    files = [module for module in tests if Path(module.path).name.startswith("test_")]
    bodies = [each for module in files for each in module.functions() if each.name.startswith("test_")]
    all_lines, in_files = (sum(module.lines for module in each) for each in (tests, files))
    of_bodies = sum(map(_length, bodies))
    yield (
        f"Tests: {len(bodies):,} functions, {all_lines:,} lines: {of_bodies:,} of test functions, "
        f"{in_files - of_bodies:,} of set-up beside them, {all_lines - in_files:,} of helper files"
    )
    for folder in ("benchmarks", "demo", "tools"):
        yield f"Lines of {folder}: {sum(module.lines for module in modules(root, [folder])):,}"
    pages = [page for pattern in DOCUMENTS for page in root.glob(pattern)]
    yield f"Documents: {sum(len(page.read_text('utf-8').split()) for page in pages):,} words in {len(pages)} pages"


def main(root: Path = ROOT) -> None:
    """Print the figures."""
    found = modules(root)
    print("\n".join([*sizes(found), "", *counts(found), *tests_and_documents(root)]))
    for title, places in (
        (f"Public functions with more than {MOST_PARAMETERS} parameters", long_signatures(found)),
        ("Public class names that are defined twice", ambiguous_classes(found)),
        ("Places that ask the machine for the time", clocks(found)),
        ("Places that ask the global clock", global_clocks(found)),
        ("Words to avoid", words(found)),
    ):
        print(f"\n{title}: {len(places)}")
        print("".join(f"  {place}\n" for place in places), end="")


def main_of(revision: str) -> None:
    """Print the figures of another revision."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, stdout=subprocess.PIPE, check=True)  # noqa: S607
        subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)  # noqa: S607
        main(Path(folder))


def _public(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, int]]:
    for node in body:
        name = getattr(node, "name", "_")
        if isinstance(node, Function) and (name == "__init__" or not name.startswith("_")):
            yield f"{prefix}{name}", _parameters(node, method=bool(prefix))
        elif isinstance(node, ast.ClassDef) and not name.startswith("_"):
            yield from _public(node.body, f"{prefix}{name}.")


def _parameters(function: Function, *, method: bool) -> int:
    given = function.args
    count = len([*given.posonlyargs, *given.args, *given.kwonlyargs]) + bool(given.vararg) + bool(given.kwarg)
    static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in function.decorator_list)
    return count - (method and not static)


def _ends_with_clock(dotted: str) -> bool:
    return any(dotted == clock or dotted.endswith(f".{clock}") for clock in CLOCKS)


def _length(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def docstrings(tree: ast.Module) -> Iterator[str]:
    """The docstrings of a module, its classes and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and (text := ast.get_docstring(node)):
            yield text


def _log_calls(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=level)):
                if level in LEVELS and "log" in name.lower():
                    yield level


def _listed(counted: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counted)


def _spread(lengths: Sequence[int]) -> str:
    """Median, 90 and 99 %, and the longest."""
    parts = quantiles(lengths, n=100, method="inclusive") if len(lengths) > 1 else [max(lengths, default=0)] * 99
    return " / ".join(f"{each:.0f}" for each in (median(lengths or [0]), parts[89], parts[98], max(lengths, default=0)))


if __name__ == "__main__":
    main_of(sys.argv[1]) if len(sys.argv) > 1 else main()

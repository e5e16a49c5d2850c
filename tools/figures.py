"""Print figures of the code: its size, long signatures, class names with two meanings, clocks, and words to avoid.

Run with `python -m tools.figures`. `tests/docs/test_figures.py` keeps some of them at zero.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
CLOCK_NAMES = {clock.rpartition(".")[2] for clock in CLOCKS}
WORDS = re.compile(
    r"\b([Aa]new|[Hh]eed(?:s|ed)?|[Aa]midst|(?<!here )(?:is|are) none|[Ww]hat is no|[Ss]o many|"
    r"(?<!are )[Nn]o more(?! than))\b"
)
"""Words that a reader has to read twice, or that another word of this repository stands for."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A module of a package. path: from the root."""

    path: str

    @cached_property
    def text(self) -> str:
        """The module's source."""
        return (ROOT / self.path).read_text("utf-8")

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


def modules() -> list[Module]:
    """The modules of all packages."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return [Module(path.relative_to(ROOT).as_posix()) for path in paths]


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
    lines = ["package             modules   lines   function lines   module lines   (median / p90 / max)"]
    for name, group in [("all", list(found)), *groups.items()]:
        of_functions = [_length(function) for module in group for function in module.functions()]
        of_modules = [module.lines for module in group]
        lines.append(
            f"{name:<20}{len(group):>7}{sum(of_modules):>8,}   {_spread(of_functions):<17}{_spread(of_modules)}"
        )
    return lines


def main() -> None:
    """Print the figures."""
    found = modules()
    print("\n".join(sizes(found)))
    for title, places in (
        (f"Public functions with more than {MOST_PARAMETERS} parameters", long_signatures(found)),
        ("Public class names that are defined twice", ambiguous_classes(found)),
        ("Places that ask the machine for the time", clocks(found)),
        ("Words to avoid", words(found)),
    ):
        print(f"\n{title}: {len(places)}")
        print("".join(f"  {place}\n" for place in places), end="")


def _public(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, int]]:
    for node in body:
        name = getattr(node, "name", "_")
        if isinstance(node, Function) and not name.startswith("_"):
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


def _spread(lengths: Sequence[int]) -> str:
    p90 = quantiles(lengths, n=10)[-1] if len(lengths) > 1 else max(lengths, default=0)
    return f"{median(lengths or [0]):.0f} / {p90:.0f} / {max(lengths, default=0)}"


if __name__ == "__main__":
    main()

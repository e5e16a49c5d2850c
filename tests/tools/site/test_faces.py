"""What users import is in the reference, and says what it is."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from tests.test_public_arguments import PUBLIC
from tools.figures import PACKAGES
from tools.guides import DOCUMENTS, ROOT
from tools.site.faces import BESIDE, FACES, names_of
from tools.site.reference import constant_docstring, pages

if TYPE_CHECKING:
    from collections.abc import Iterator

FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """The methods and properties that a class defines. A default of a field may be a function too."""
    own = [each for each in value.__mro__ if each is value or each.__name__.startswith("_")]
    for name, member in (item for each in own for item in vars(each).items()):
        if (
            not name.startswith("_")
            and name not in getattr(value, "__dataclass_fields__", ())
            and (inspect.isroutine(member) or isinstance(member, property))
        ):
            yield name, member


def described() -> Iterator[tuple[str, Any]]:
    for face in FACES:
        module = import_module(face)
        yield from ((f"{face}.{name}", getattr(module, name)) for name in names_of(face))
        for path in BESIDE.get(face, ()):
            owner, _, name = path.rpartition(".")
            yield path, getattr(import_module(owner), name)


def without_docstring(path: str, value: Any) -> Iterator[str]:
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        if not constant_docstring(*_split(path)):
            yield path
        return
    text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    if not text or (
        dataclasses.is_dataclass(value) and text.startswith(f"{path.rpartition('.')[2]}(")
    ):  # made by Python
        yield path
    if inspect.isclass(value):
        inherited = {name for base in value.__mro__[1:] for name in vars(base)}
        yield from (
            f"{path}.{name}" for name, each in members(value) if not inspect.getdoc(each) and name not in inherited
        )


def _split(path: str) -> tuple[str, str]:
    module, _, name = path.rpartition(".")
    return module, name


def test_every_public_name_has_a_docstring() -> None:
    assert [] == [missing for path, value in described() for missing in without_docstring(path, value)]


def of_an_ide() -> list[tuple[str, str]]:
    """Each class, function and member with its docstring, which is shown alone where a pointer is over the name."""
    found = [(path, value) for path, value in described() if inspect.isclass(value) or inspect.isroutine(value)]
    found += [
        (f"{path}.{name}", each) for path, value in found if inspect.isclass(value) for name, each in members(value)
    ]
    return [(path, inspect.getdoc(value) or "") for path, value in found]


def test_lines_are_not_indented_which_pyright_shows_as_spaces_and_code_is_fenced() -> None:
    without_code = [
        (path, re.sub(r"^```python\n.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)) for path, text in of_an_ide()
    ]
    assert [] == [path for path, text in without_code if re.search(r"^ ", text, re.MULTILINE)]


def test_no_docstring_of_a_public_name_needs_another_one() -> None:
    needing = re.compile(r"(The (same|inverse)|Of|Those|They|As|It|Its|See)\b(?! (id|text))")
    assert [] == [path for path, text in of_an_ide() if needing.match(text)]


def test_the_first_sentence_of_a_public_name_is_of_one_line() -> None:
    """An IDE shows it beside the name, and the rest below."""
    first = [(path, text.split("\n\n")[0]) for path, text in of_an_ide()]
    assert [] == [path for path, text in first if not re.match(r"[^\n]*[.:;]( |$|\n)", text)]


def test_the_reference_has_every_module_whose_arguments_are_tested() -> None:
    assert set(PUBLIC) <= set(FACES)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_import_only_what_the_reference_has(document: Any) -> None:
    missing = []
    for code in FENCE.findall(document.read_text("utf-8")):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in PACKAGES:
                known = names_of(str(node.module)) if node.module in FACES else []
                missing += [f"{node.module}.{each.name}" for each in node.names if each.name not in known]
    assert [] == missing


def test_a_name_is_described_at_its_first_face_and_named_at_the_others() -> None:
    found = pages()
    assert ".. autoclass:: azure_account.Location" in found["api/azure_account"]
    assert ":py:obj:`Location <azure_account.Location>`" in found["api/state_backup"]
    assert "autoclass:: state_backup.Location" not in found["api/state_backup"]


def test_a_constant_is_described_by_the_string_below_it() -> None:
    assert "LEAST_KEPT" in names_of("state_backup")
    assert constant_docstring("state_backup", "LEAST_KEPT") == constant_docstring(
        "state_backup.record.record", "LEAST_KEPT"
    )
    assert "" == constant_docstring("tools.site.faces", "inspect")

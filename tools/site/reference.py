"""The pages of the reference: what each face has, in directives that Sphinx fills from docstrings and signatures.

faces ─► functions, classes, constants ─► a page for each face, one for the kinds of arguments ─► `api/*.rst`
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import typing
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from foundation import arguments
from tools.site.docstrings import rest, with_code
from tools.site.faces import BESIDE, FACES, names_of

INTRODUCTION = """Python
======

What users import, by package. Other modules may change without notice.

.. toctree::
   :maxdepth: 1

"""
KINDS_OF_ARGUMENTS = """Kinds of arguments
==================

Names of types in signatures. Whatever else is given is a :py:exc:`~azure_account.ConfigurationError`.

.. py:module:: foundation.arguments

"""
LONGEST_VALUE = 60
KINDS = ("Count", "Natural", "Epoch", "Seconds", "Wait", "Name", "Options")


def pages() -> dict[str, str]:
    """The text of each page in reStructuredText, by its name without suffix."""
    homes: dict[int, str] = {}
    found = {f"api/{face}": _page(face, homes) for face in FACES}
    listed = "".join(f"   {face}\n" for face in (*FACES, "arguments"))
    return {"api/index": INTRODUCTION + listed, **found, "api/arguments": KINDS_OF_ARGUMENTS + _kinds()}


def constant_docstring(module: str, name: str) -> str:
    """The string below the assignment of a module's constant; empty if there is none. Follows imports of it."""
    path = inspect.getsourcefile(import_module(module))
    body = ast.parse(Path(path or "").read_text("utf-8")).body
    for node, following in zip(body, [*body[1:], None], strict=True):
        match node, following:
            case (
                (ast.Assign(targets=[ast.Name(id=found)]) | ast.AnnAssign(target=ast.Name(id=found))),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if found == name:
                return inspect.cleandoc(text)
    for imported in ast.walk(ast.Module(body, [])):
        if isinstance(imported, ast.ImportFrom) and any(each.name == name for each in imported.names):
            return constant_docstring(imported.module or "", name)
    return ""


def _page(face: str, homes: dict[int, str]) -> str:
    """A page. homes: by the identity of a described object, the face that describes it."""
    module = import_module(face)
    lines = [face, "=" * len(face), "", f".. py:module:: {face}", ""]
    lines += [*_prose(face, module.__doc__ or ""), ""]
    here: dict[str, list[str]] = {"Functions": [], "Classes": [], "Errors": [], "Constants": []}
    elsewhere = []
    for name in names_of(face):
        value = getattr(module, name)
        group = _group(value)
        if group != "Constants" and homes.setdefault(id(value), face) != face:
            elsewhere.append(f":py:obj:`{name} <{homes[id(value)]}.{name}>`")
        else:
            here[group] += _constant(face, name, value) if group == "Constants" else _directive(value, f"{face}.{name}")
    for group, directives in here.items():
        lines += [group, "-" * len(group), "", *directives] if directives else []
    if elsewhere:
        lines += ["Also here", "---------", "", f"{', '.join(elsewhere)}.", ""]
    beside = [line for path in BESIDE.get(face, ()) for line in _directive(_of_path(path), path)]
    lines += ["What they take, return and raise", "-" * 32, "", *beside] if beside else []
    return "\n".join(lines) + "\n"


def _prose(face: str, docstring: str) -> list[str]:
    """A face's docstring without its lists of modules, which are for people who change them."""
    blocks = inspect.cleandoc(docstring).split("\n\n")
    return rest("\n\n".join(block for block in blocks if not _is_of_developers(face, block)))


def _is_of_developers(face: str, block: str) -> bool:
    if block.startswith("Pure."):
        return True
    first = re.match(r"\s*(\w+)/?  ", block)
    return first is not None and importlib.util.find_spec(f"{face}.{first[1]}") is not None


def _group(value: Any) -> str:
    if inspect.isclass(value):
        return "Errors" if issubclass(value, Exception) else "Classes"
    return "Functions" if inspect.isroutine(value) else "Constants"


def _of_path(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _directive(value: Any, path: str) -> list[str]:
    kind = {"Errors": "exception", "Classes": "class", "Functions": "function"}[_group(value)]
    options = ["   :members:"] if kind != "function" else []
    if kind != "function":
        hidden = [base for base in value.__mro__[1:] if base.__name__.startswith("_")]
        shown = [base for base in value.__bases__ if base not in {object, Protocol, Exception, *hidden}]
        options += ["   :inherited-members:"] if hidden else []
        options += ["   :show-inheritance:"] if shown else []
    return [f".. auto{kind}:: {path}", *options, ""]


def _constant(face: str, name: str, value: Any) -> list[str]:
    shown = repr(value)
    lines = [f".. py:data:: {name}", f"   :type: {type(value).__name__}"]
    if isinstance(value, int | float | str | tuple) and len(shown) <= LONGEST_VALUE:
        lines.append(f"   :value: {shown}")
    return [*lines, "", *(f"   {line}" for line in rest(constant_docstring(face, name))), ""]


def _range(base: type, limits: arguments.Range) -> str:
    unit = f", {limits.unit.removeprefix('of ')}" if limits.unit else ""
    return f"`{base.__name__}`{unit}, {'above' if limits.above else 'at least'} {limits.least:g}."


def _kinds() -> str:
    lines = []
    for name in KINDS:
        base, limits = typing.get_args(getattr(arguments, name))
        described = _range(base, limits) if isinstance(limits, arguments.Range) else (limits.__doc__ or "")
        lines += [f".. py:data:: {name}", "", f"   {with_code(described)}", ""]
    return "\n".join(lines) + "\n"

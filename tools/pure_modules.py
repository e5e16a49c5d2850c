"""The contract for pure modules: their docstring, or that of a folder above them, has the sentence *Pure.* in it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from importlinter import fields
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.domain.imports import ModuleExpression

if TYPE_CHECKING:
    from grimp import ImportGraph
    from importlinter import ContractCheck


class PureModulesContract(ForbiddenContract):
    """A forbidden contract that finds its source modules itself."""

    source_modules = fields.SetField(subfield=fields.ModuleExpressionField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Check what the pure modules import, also indirectly."""
        ours = (name for name in graph.modules if not graph.is_module_squashed(name))
        self.source_modules = {ModuleExpression(name) for name in ours if _is_pure(name)}  # type: ignore[assignment]
        return super().check(graph, verbose)


def _is_pure(module: str) -> bool:
    file = Path(*module.split("."))
    source = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(source.read_text("utf-8"))) or ""
    return re.search(r"(^|\s)Pure\.(\s|$)", docstring) is not None

"""What is logged, by whom and how: each package has one logger, and each log call fits the page LOGGING.md."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tools.figures import modules

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULES = modules()
LEVELS = ("debug", "info", "warning", "error", "exception")


def log_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LEVELS
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id.endswith("logger")
        ):
            yield node


def loggers(tree: ast.Module) -> Iterator[str]:
    """What a module's loggers are made with, as it is written."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and "getLogger" in ast.unparse(node.value):
            yield f"{ast.unparse(node.targets[0])} = {ast.unparse(node.value)}"


def test_a_module_logs_to_its_package() -> None:
    for module in MODULES:
        expected = {f"logger = logging.getLogger('{module.package}')"}
        assert set(loggers(module.tree)) <= expected, module.path
        if any(log_calls(module.tree)):
            assert expected == set(loggers(module.tree)), module.path

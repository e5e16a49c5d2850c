"""What is logged, by whom and how: each package has one logger, and each log call fits the page LOGGING.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tools.figures import modules

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "LOGGING.md"
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


def test_no_line_at_info_is_in_a_loop() -> None:
    """A batch of ten thousand blobs is one line, as is one of ten million rows."""
    found = [
        f"{module.path}:{call.lineno}"
        for module in MODULES
        for loop in ast.walk(module.tree)
        if isinstance(loop, (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
        for call in log_calls(loop)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "info"
    ]
    once = {"azureblob_source/log/commit.py", "state_backup/backup/writer.py"}  # loops that repeat one request
    assert [] == [place for place in found if place.partition(":")[0] not in once]


def test_every_package_that_does_something_says_so_at_info() -> None:
    levels: dict[str, set[str]] = {}
    for module in MODULES:
        for call in log_calls(module.tree):
            levels.setdefault(module.package, set()).add(ast.unparse(call.func).rpartition(".")[2])
    silent = {package for package, used in levels.items() if "info" not in used}
    assert {"azure_account", "foundation"} == silent, "these only say what goes wrong, and retries at DEBUG"


def test_the_lines_of_jobs_and_stores_that_the_page_shows_are_logged() -> None:
    page = PAGE.read_text("utf-8").replace("\n    ", " ")
    for package in ("adjunct_store", "coordination"):
        calls = [call for module in MODULES if module.package == package for call in log_calls(module.tree)]
        texts = [call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)]
        patterns = [re.sub(r"%(\\\.\d)?[sdf]", ".+", re.escape(str(text))) for text in texts]
        shown = re.findall(f"^INFO {package}: (.*)$", page, re.MULTILINE)
        assert shown
        for line in shown:
            assert any(re.fullmatch(pattern, line) for pattern in patterns), line

"""A plugin that prints which assertions of a run prove nothing: never reached, or an `all` or `any` over no items.

python -m pytest -p tests.vacuous tests/state_backup
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite

Place = tuple[str, int]
"""A file and a line."""

_reached: set[Place] = set()
_over: dict[Place, bool] = {}
"""Each `all` or `any` that was called in a test module, and whether it had an item at least once."""
_modules: set[str] = set()
_OUTPUT = "vacuous"
_NOTE = "_note_reached"


def _counting(call: Callable[[Iterable[object]], bool]) -> Callable[[Iterable[object]], bool]:
    def counted(items: Iterable[object]) -> bool:
        frame = sys._getframe(1)
        place = frame.f_code.co_filename, frame.f_lineno
        kept = list(items)
        _over[place] = bool(kept) or _over.get(place, False)
        return call(kept)

    return counted


def pytest_collection_finish(session: pytest.Session) -> None:
    """Have the modules of the tests call `all` and `any` of this plugin."""
    for item in session.items:
        module: Any = getattr(item, "module", None)
        if module is not None and str(item.path) not in _modules:
            _modules.add(str(item.path))
            module.all, module.any = _counting(builtins.all), _counting(builtins.any)


class _Noting(ast.NodeTransformer):
    """Puts a note behind each assertion. The hook of pytest would explain each one that holds, which takes long."""

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        [note] = ast.parse(f"{_NOTE}((__file__, {node.lineno}))").body
        return [node, ast.copy_location(note, node)]


def pytest_configure() -> None:
    """Have pytest rewrite the tests with notes, and not take or leave what it has compiled before."""
    rewrites: Any = rewrite
    rewritten = rewrites.rewrite_asserts

    def noting(tree: ast.Module, *more: Any) -> None:
        _Noting().visit(tree)
        rewritten(ast.fix_missing_locations(tree), *more)

    rewrites.rewrite_asserts, rewrites._read_pyc = noting, lambda *_: None
    sys.dont_write_bytecode = True
    setattr(builtins, _NOTE, _reached.add)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand over what a worker of xdist has seen."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_OUTPUT] = [sorted(_modules), sorted(_reached), [[*place, had] for place, had in _over.items()]]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker has seen."""
    modules, reached, over = getattr(node, "workeroutput", {}).get(_OUTPUT, ((), (), ()))
    _modules.update(modules)
    _reached.update((file, line) for file, line in reached)
    for file, line, had in over:
        _over[file, line] = had or _over.get((file, line), False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what proved nothing."""
    if hasattr(terminalreporter.config, "workerinput"):
        return
    unreached = [
        (file, node.lineno)
        for file in sorted(_modules)
        for node in ast.walk(ast.parse(Path(file).read_text("utf-8")))
        if isinstance(node, ast.Assert) and (file, node.lineno) not in _reached
    ]
    empty = sorted(place for place, had in _over.items() if not had)
    for title, places in (("assertions never reached", unreached), ("all and any over no items", empty)):
        terminalreporter.section(f"{title}: {len(places)}")
        for file, line in places:
            terminalreporter.line(f"{file}:{line}")

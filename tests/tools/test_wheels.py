"""Two builds are compared to the byte, and what cannot be built here is said."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("hatchling", reason="only `make test` installs what builds packages")

from tools import native_wheels, wheels
from tools.native_wheels import Target, available_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "is_equal", "said"),
    [
        (lambda tree: (tree / "LICENSE").read_text("utf-8"), True, "Built again in another folder: 3 of 3 files"),
        (str, False, "wheel: native.whl differs when it is built in another folder: "),
    ],
)
def test_a_file_that_depends_on_its_folder_is_named(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: Callable[[Path], str],
    is_equal: bool,
    said: str,
) -> None:
    def compiled(tree: Path, _targets: list[Target], dist: Path, _environment: Mapping[str, str]) -> None:
        (dist / "native.whl").write_text(text(tree), encoding="utf-8")

    monkeypatch.setattr(wheels, "build_native", compiled)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    digests = wheels.build(tmp_path, "build", [], environment)
    capsys.readouterr()
    assert is_equal == wheels.is_equal_again(digests, [], environment)
    printed = capsys.readouterr()
    assert (printed.out + printed.err).startswith(said)


def test_a_target_is_left_out_where_no_rustup_can_fetch_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = Target("here", "manylinux_2_17")
    monkeypatch.setattr(native_wheels, "TARGETS", (here, Target("elsewhere", "musllinux_1_2")))
    monkeypatch.setattr(Target, "library", lambda self, _: tmp_path if self == here else tmp_path / "absent")
    assert [here] == available_targets({"PATH": str(tmp_path)})
    assert "Left out: the wheel for elsewhere, because there is no rustup.\n" == capsys.readouterr().out

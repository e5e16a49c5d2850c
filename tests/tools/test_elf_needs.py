"""A compiled wheel is refused if a system of its tag could not load it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("elftools", reason="only `make test` installs what builds packages")

from tools.elf_needs import Needs, needs_of

LIBC = frozenset({"libc.so.6"})


@pytest.mark.parametrize(
    ("needs", "tag", "breach"),
    [
        (Needs("x86_64", LIBC, 14), "cp311-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64", None),
        (Needs("aarch64", LIBC, 17), "manylinux_2_17_aarch64", None),
        (Needs("x86_64", frozenset({"libc.so"}), 0), "musllinux_1_2_x86_64", None),
        (
            Needs("x86_64", LIBC, 28),
            "manylinux_2_17_x86_64",
            "it needs glibc 2.28, manylinux_2_17_x86_64 promises less",
        ),
        (
            Needs("x86_64", LIBC, 14),
            "manylinux_2_17_aarch64",
            "it is for x86_64, the tag manylinux_2_17_aarch64 is not",
        ),
        (
            Needs("x86_64", LIBC, 14),
            "musllinux_1_2_x86_64",
            "it needs libc.so.6, which musllinux_1_2_x86_64 does not promise",
        ),
        (
            Needs("x86_64", LIBC | {"libssl.so.3"}, 14),
            "manylinux_2_17_x86_64",
            "it needs libssl.so.3, which manylinux_2_17_x86_64 does not promise",
        ),
        (Needs("x86_64", LIBC, 14), "linux_x86_64", "the tag linux_x86_64 is neither manylinux_2_x nor musllinux"),
    ],
)
def test_what_a_library_needs_is_compared_with_its_tag(needs: Needs, tag: str, breach: str | None) -> None:
    assert breach == needs.breach(tag)


def test_a_library_of_this_machine_says_what_it_needs() -> None:
    native = pytest.importorskip("pyspark_azureblob_native", reason="the compiled decoder was not built")
    library = next(Path(native.__file__).parent.glob("*.so"))
    needs = needs_of(library.read_bytes())
    assert any(name.startswith("libc.") for name in needs.libraries)
    assert needs.machine in {"x86_64", "aarch64"}
    assert needs.glibc > 0 or "libc.so.6" not in needs.libraries

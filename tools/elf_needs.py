"""What a compiled library needs of the system, read from its ELF, and whether the tag of its wheel promises that."""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import BytesIO

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

_OF_GLIBC = re.compile(r"(libc|libpthread|libdl|libm|librt|libgcc_s|ld-linux[a-z0-9-]*)\.so\.\d")
_OF_MUSL = re.compile(r"libc\.so|libc\.musl-[a-z0-9_]+\.so\.1")
_POLICY = re.compile(r"manylinux_2_(?P<glibc>\d+)_(?P<machine>[a-z0-9_]+)|musllinux_1_\d+_(?P<musl_machine>[a-z0-9_]+)")


@dataclass(frozen=True)
class Needs:
    """machine: as in tags. libraries: their file names. glibc: the newest 2.x of its symbols, 0 without any."""

    machine: str
    libraries: frozenset[str]
    glibc: int

    def breach(self, tag: str) -> str | None:
        """Why a system of this tag may not load it; None if all can. tag: `manylinux_2_17_x86_64` and the like."""
        policy = _POLICY.search(tag)
        if policy is None:
            return f"the tag {tag} is neither manylinux_2_x nor musllinux"
        if self.machine != (policy["machine"] or policy["musl_machine"]):
            return f"it is for {self.machine}, the tag {tag} is not"
        allowed = _OF_GLIBC if policy["glibc"] else _OF_MUSL
        foreign = sorted(name for name in self.libraries if not allowed.fullmatch(name))
        if foreign:
            return f"it needs {', '.join(foreign)}, which {tag} does not promise"
        if policy["glibc"] and self.glibc > int(policy["glibc"]):
            return f"it needs glibc 2.{self.glibc}, {tag} promises less"
        return None


def needs_of(library: bytes) -> Needs:
    """Read an ELF file."""
    elf = ELFFile(BytesIO(library))
    libraries, versions = set(), [0]
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            named = [tag for tag in section.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]
            libraries |= {tag.needed for tag in named}  # type: ignore[attr-defined]  # set by the name of the tag
        if isinstance(section, GNUVerNeedSection):
            names = [symbol.name for _, symbols in section.iter_versions() for symbol in symbols]
            versions += [int(found[1]) for name in names if (found := re.match(r"GLIBC_2\.(\d+)", name))]
    machine = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}.get(elf["e_machine"], elf["e_machine"])
    return Needs(machine, frozenset(libraries), max(versions))

"""Prepares a release of this checkout, and says what to commit, tag and upload: `make release`. It does none of these.

The first run dates the section of `CHANGELOG.md`. The second one, on the commit of that, builds everything twice in
`dist/`, checks and tries it: the files are those of the commit that gets the tag. `--dry-run` only says what is to do.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.native import output_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Checkout:
    """What a release depends on.

    commit, tagged: the head, and the commit that the tag of this version names (empty if there is none). changes: the
    files that differ from the commit. versions: by the place that says it. section: what CHANGELOG.md has after the
    version: `Unreleased`, a date, or nothing. source: the repository's address.
    """

    commit: str
    tagged: str
    changes: list[str]
    versions: dict[str, str]
    section: str
    source: str
    readme: str

    @property
    def version(self) -> str:
        """The version of pyproject.toml."""
        return self.versions["pyproject.toml"]

    def obstacles(self) -> Iterator[str]:
        """Why it cannot be released as it is: a sentence for each reason."""
        if self.changes:
            yield f"The tree differs from its commit: commit or remove {', '.join(self.changes)}."
        if len(set(self.versions.values())) > 1:
            differing = ", ".join(f"{version} in {place}" for place, version in self.versions.items())
            yield f"The versions differ: {differing}; make them equal."
        if self.tagged not in {"", self.commit}:
            yield f"v{self.version} is the tag of another commit, {self.tagged[:12]}: raise the version."
        if not self.section:
            yield f"CHANGELOG.md has no section `## [{self.version}] - Unreleased`: write what has changed there."
        if not self.source:
            yield "pyproject.toml has no `Source` in [project.urls]: name the repository; PyPI's page links to it."
        if "not on PyPI yet" in self.readme:
            yield "README.md says that the package is not on PyPI yet: say how it is installed from there."


def checkout_at(root: Path) -> Checkout:
    """Look at files and at git."""
    pure, native = (_toml(root / name) for name in ("pyproject.toml", "native/pyproject.toml"))
    cargo, lock = (_toml(root / "native" / name) for name in ("Cargo.toml", "Cargo.lock"))
    locked = next(each["version"] for each in lock["package"] if each["name"] == cargo["package"]["name"])
    version: str = pure["project"]["version"]
    extra = str(pure["project"]["optional-dependencies"]["native"][0])
    section = re.search(rf"(?m)^## \[{re.escape(version)}\] - (.+)$", (root / "CHANGELOG.md").read_text("utf-8"))
    return Checkout(
        commit=output_of(["git", "rev-parse", "HEAD"], root),
        tagged=output_of(
            ["git", "for-each-ref", "--format=%(objectname)%(*objectname)", f"refs/tags/v{version}"], root
        )[-40:],
        changes=[line[3:] for line in output_of(["git", "status", "--porcelain"], root).splitlines()],
        versions={
            "pyproject.toml": version,
            "its extra `native`": extra.partition("==")[2],
            "native/pyproject.toml": native["project"]["version"],
            "native/Cargo.toml": cargo["package"]["version"],
            "native/Cargo.lock": locked,
        },
        section=section[1] if section else "",
        source=pure["project"].get("urls", {}).get("Source", ""),
        readme=(root / "README.md").read_text("utf-8"),
    )


def main() -> int:
    """Prepare the release. The exit code is 0, or 1 after a sentence for each thing that stands in its way."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="say what is to do, and do nothing")
    parser.add_argument("--checkout", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args()
    checkout = checkout_at(options.checkout)
    obstacles = list(checkout.obstacles())
    for obstacle in obstacles:
        print(f"release: {obstacle}", file=sys.stderr)
    if obstacles:
        return 1
    if checkout.section == "Unreleased":
        return _date_section(options.checkout / "CHANGELOG.md", checkout, is_dry=options.dry_run)
    if options.dry_run:
        print(f"Would build {checkout.version} of {checkout.commit[:12]} twice in dist/, check and try it.")
    elif not _build():
        return 1
    print(_last_steps(checkout))
    return 0


def _date_section(changelog: Path, checkout: Checkout, *, is_dry: bool) -> int:
    heading = f"## [{checkout.version}] - "
    today = datetime.now(UTC).date().isoformat()
    if is_dry:
        print(f"Would write the date {today} into CHANGELOG.md, to be committed; then would build.")
        return 0
    text = changelog.read_text(encoding="utf-8")
    changelog.write_text(text.replace(f"{heading}Unreleased", f"{heading}{today}", 1), encoding="utf-8")
    print(
        f"CHANGELOG.md has the date {today} now. Commit it, and run `make release` again on that commit:\n\n"
        f"    git commit -m 'Version {checkout.version}' CHANGELOG.md"
    )
    return 0


def _build() -> bool:
    """Build, check and try all wheels. Whether there is one for each target."""
    from tools.native_wheels import TARGETS  # noqa: PLC0415  # a dry run needs no packages
    from tools.wheels import DIST, make_dist  # noqa: PLC0415

    if not make_dist(is_twice=True):
        return False
    built = len(list(DIST.glob("*-abi3-*.whl")))
    if built < len(TARGETS):
        print(f"release: {built} of {len(TARGETS)} compiled wheels were built: see above.", file=sys.stderr)
    return built == len(TARGETS)


def _last_steps(checkout: Checkout) -> str:
    """What is left to do. The compiled package goes first: the extra `native` of the other needs it."""
    version, upload = checkout.version, ".venv-release/bin/python -m twine upload"
    return f"""
Left to do for {version}, of commit {checkout.commit[:12]}:

    git tag -a v{version} -m 'Version {version}' {checkout.commit[:12]}
    {upload} dist/pyspark_azureblob_native-{version}*
    {upload} dist/pyspark_azureblob-{version}*
    git push origin v{version}

Where PyPI trusts .github/workflows/release.yml as a publisher, push the tag alone: it uploads."""


def _toml(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())

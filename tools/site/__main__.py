"""Build the site: `python -m tools.site [--links] [FOLDER]`. A warning of Sphinx, such as a broken link, is an error.

--links   request every link to other hosts instead, and say which are broken
"""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.cmd.build import build_main

from tools.site.staging import ROOT, stage

BUILD = ROOT / "build"
HERE = Path(__file__).parent


def main(arguments: list[str]) -> int:
    """Stage the pages, and run Sphinx. Returns its exit code."""
    links = "--links" in arguments
    folders = [each for each in arguments if not each.startswith("-")]
    target = Path(folders[0]) if folders else BUILD / ("site-links" if links else "site")
    source = target.with_name(f"{target.name}-source")
    stage(source)
    builder = "linkcheck" if links else "html"
    options = ["--quiet", "--fresh-env", "--fail-on-warning", "--keep-going", "--jobs", "auto"]
    code = build_main(["-b", builder, "-c", str(HERE), *options, str(source), str(target)])
    if code == 0:
        print(f"{target}/index.html" if not links else f"{target}/output.txt")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

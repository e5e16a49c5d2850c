"""Find what permissions each feature needs, on Azurite, and print it: `make permissions`.

python -m tests.permissions              runs every feature with every SAS, ten minutes
python -m tests.permissions --only vacuum
python -m tests.permissions --write      keeps what was found, for the page
python -m tests.live --page              prints the tables of docs/AZURE.md from what was kept
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.features.every import ALL
from tests.permissions.operations import OPERATIONS, UNCHECKED
from tests.permissions.proxy import checking_proxy
from tests.permissions.table import Found, store, stored, table
from tests.permissions.trial import AzuriteBench, memory_bench
from tools.azurite import running_azurite

if TYPE_CHECKING:
    from tests.permissions.trial import Trial


def main() -> None:
    """Print, and keep if wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="features whose name contains this")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder, running_azurite() as azurite, checking_proxy(azurite) as proxy:
        bench = AzuriteBench(azurite, proxy, Path(folder))
        with memory_bench(Path(folder)) as in_memory:  # Azurite cannot undelete
            for feature in (each for each in ALL if given.only in each.name):
                trial = (in_memory if feature.needs_undelete else bench).tried(feature)
                _print(trial)
                found.append(found_of(trial))
    print("\n".join(["", *operations_table(), "", *table(found)]))
    if given.write:
        now = {each.feature: each for each in found}
        before = {each.feature: each for each in stored()}
        store([(now if each.name in now else before)[each.name] for each in ALL])


def found_of(trial: Trial) -> Found:
    """What is kept of a trial."""
    of = trial.feature
    return Found(of.group, of.name, of.sas_of, trial.needed, trial.spared, trial.roles)


def operations_table() -> list[str]:
    """The operations with what Azure documents of each, and who refuses them here."""
    return ["| operation | SAS | actions of Entra ID | refused by |", "|---|---|---|---|"] + [
        f"| {each.name} | `{each.letters}`{' of the account' if each.of_account else ''} | {', '.join(each.actions)} "
        f"| {'Azurite' if each not in UNCHECKED else f'Azurite; without `{UNCHECKED[each]}` the proxy'} |"
        for each in OPERATIONS
    ]


def _print(trial: Trial) -> None:
    counts = ", ".join(f"{count} {each.name}" for each, count in trial.operations.most_common())
    print(f"{trial.feature.name}: {trial.needed}{f' ({trial.spared})' if trial.spared else ''}; {counts}", flush=True)
    for letter, text in trial.errors.items():
        print(f"  without {letter}: {text.splitlines()[0][:200]}")
    for letter, text in trial.warnings.items():
        print(f"  without {letter}, with a warning: {text[:200] or 'no difference'}")


if __name__ == "__main__":
    main()

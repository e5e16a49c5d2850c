"""The command line: `python -m adjunct_store ls | get | verify | clean-cache`.

Exit codes: 0 done; 1 error, one message on standard error, a key without a value, or a version that is not whole; 2
wrong usage; 130 ended by Ctrl-C. Nothing here writes to the account, but that deleted blobs are undeleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adjunct_store.cli import as_json as document
from adjunct_store.cli import as_text as text
from adjunct_store.cli.key_texts import typed_key
from adjunct_store.cli.reading import chosen_version, find_stores, opened
from adjunct_store.host.cleaning import clean_cache
from adjunct_store.host.folders import cache_directory
from adjunct_store.verifying import verify
from azure_account.cli.commands import ERROR, AsJson, CommonOptions, location_of, new_app
from azure_account.cli.grouped import grouped
from azure_account.cli.json_lines import print_json
from azure_account.cli.progress import transfer
from azure_account.cli.shell import shell_of
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adjunct_store.versions.manifest import Version
    from azure_account.cli.shell import CommandContext
    from azure_account.location import Location

app = new_app()

Store = Annotated[str, typer.Argument(metavar="CONTAINER/STORE", help="Container and store, or a URL.")]
CacheDir = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where this host keeps versions.", show_default="the default of readers"),
]


@app.callback()
def main() -> None:
    """Look into adjunct stores: which versions they have, what is in them, and whether they are whole."""


@app.command()
@grouped
def ls(
    ctx: typer.Context,
    where: Annotated[
        str,
        typer.Argument(metavar="CONTAINER[/PREFIX]", help="A container, a folder of stores, or a store; or a URL."),
    ],
    common: CommonOptions,
) -> None:
    """List stores with what readers get now; of one store all versions, and who has pinned them."""
    shell = shell_of(ctx)
    place = location_of(shell, where, common.option)
    prefix = place.path
    stores = find_stores(place.open(), prefix)
    if common.as_json:
        print_json(document.stores_json(place.container, stores))
        return
    manifest = stores[0].manifest if stores and stores[0].store == prefix else None
    if manifest is not None:
        _print(shell, text.store_lines(prefix, manifest))
        if manifest.versions:
            shell.out.print(text.versions_table(manifest, stores[0].pins))
        _print(shell, text.pins_line(stores[0].pins))
    elif stores:
        shell.out.print(text.stores_table(stores))
    else:
        shell.err.print(text.one_line(f"Container {place.container} has no store{f' in {prefix}' if prefix else ''}."))
    for found in stores:
        if found.cause:
            shell.err.print(text.one_line(f"{found.store}: {found.cause}"))
        for pin in found.pins:
            if pin.cause:
                shell.err.print(text.one_line(pin.cause))


@dataclass(frozen=True)
class GetOptions:
    """Options of `get`."""

    prefix: Annotated[
        bool,
        typer.Option("--prefix", help="All keys that begin with these columns; a last text may be a beginning."),
    ] = False
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="With --prefix: how many entries at most.")] = 20
    version: Annotated[
        int | None, typer.Option(metavar="N", help="This version.", show_default="the one that readers get now")
    ] = None
    cache_dir: CacheDir = None


@app.command()
@grouped
def get(
    ctx: typer.Context,
    where: Store,
    common: CommonOptions,
    key: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY…", help="A value for each key column. After --, a value may begin with -."),
    ] = None,
    *,
    given: GetOptions,
) -> None:
    """Print the value of a key. The partition that has it is fetched to this host, if it is not there already.

    Ends with exit code 1 if there is no such key. With --prefix all partitions are fetched.
    """
    shell = shell_of(ctx)
    place = _store(shell, where, common)
    store, prefix = place.path, given.prefix
    chosen, generation = chosen_version(place.open(), store, given.version)
    with opened(place.open(), store, chosen, generation, given.cache_dir) as view:
        columns = view.schema.keys.names
        values = typed_key(key or (), view.schema.keys)
        if prefix:
            rows = islice(view.prefix(*values), given.limit + 1)
            entries = [(dict(zip(columns, each, strict=True)), value) for each, value in rows]
        else:
            found = view.get(*values)
    if prefix:
        _print_entries(shell, store, chosen, entries, given.limit, as_json=common.as_json)
        if not entries:
            raise typer.Exit(ERROR)
        return
    if common.as_json:
        print_json(document.get_json(store, chosen, dict(zip(columns, values, strict=True)), found))
    elif found is not None:
        _print(shell, text.value_lines(found))
    else:
        shell.err.print(text.one_line(f"Version {chosen.number} of {store} has no key {', '.join(key or ())}."))
    if found is None:
        raise typer.Exit(ERROR)


@app.command(name="verify")
@grouped
def verify_command(
    ctx: typer.Context,
    where: Store,
    common: CommonOptions,
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Download everything, compare checksums, and read every entry.")
    ] = False,
    scratch: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="With --deep: a folder with room.", show_default="the temporary folder"),
    ] = None,
) -> None:
    """Verify that all versions of a store can be read. Changes nothing.

    Ends with exit code 1 if a version is not whole.
    """
    shell = shell_of(ctx)
    place = _store(shell, where, common)
    store = place.path
    with transfer(shell, "verifying") as report:
        verified = verify(place, deep=deep, scratch=scratch, report=report)
    if common.as_json:
        print_json(document.verify_json(store, verified, deep=deep))
    else:
        _print(shell, text.verify_lines(store, verified, deep=deep))
    if not all(each.whole or each.dropped for each in verified):
        raise typer.Exit(ERROR)


@app.command(name="clean-cache")
def clean_cache_command(ctx: typer.Context, cache_dir: CacheDir = None, *, as_json: AsJson = False) -> None:
    """Delete what this host keeps of stores, but for what is open. Who needs it later fetches it again."""
    shell = shell_of(ctx)
    directory = cache_directory(cache_dir)
    cleaned = clean_cache(directory)
    if as_json:
        print_json(document.cleaned_json(directory, cleaned.freed, cleaned.left))
    else:
        _print(shell, [text.cleaned_line(directory, cleaned.freed, cleaned.left)])


def _store(shell: CommandContext, where: str, common: CommonOptions) -> Location:
    place = location_of(shell, where, common.option)
    if not place.path:
        raise ConfigurationError(f"No store is named in container {place.container}: give `container/store`.")
    return place


def _print_entries(
    shell: CommandContext, store: str, version: Version, entries: Sequence[text.Entry], limit: int, *, as_json: bool
) -> None:
    more = len(entries) > limit
    if as_json:
        print_json(document.scan_json(store, version, entries[:limit], more=more))
        return
    if entries:
        shell.out.print(text.entries_table(entries[:limit]))
    else:
        shell.err.print(text.one_line(f"Version {version.number} of {store} has no such key."))
    if more:
        shell.err.print(f"There are more; --limit shows more than {limit}.")


def _print(shell: CommandContext, lines: Sequence[str]) -> None:
    for line in lines:
        shell.out.print(line, soft_wrap=True)

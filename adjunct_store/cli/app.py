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
from typer import Argument, Option

from adjunct_store.cli import output
from adjunct_store.cli.key_texts import typed_key
from adjunct_store.cli.reading import chosen_version, find_stores, opened
from adjunct_store.host.cleaning import clean_cache
from adjunct_store.host.folders import cache_directory
from adjunct_store.verifying import verify
from azure_account.cli.commands import ERROR, AsJson, CommonOptions, location_of, new_app
from azure_account.cli.grouped import grouped
from azure_account.cli.progress import transfer
from azure_account.cli.shell import shell_of
from azure_account.cli.texts import new_table, size_text
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from azure_account.cli.shell import CommandContext
    from azure_account.location import Location

app = new_app()

Store = Annotated[str, Argument(metavar="CONTAINER/STORE", help="Container and store, or a URL.")]
CacheDir = Annotated[
    Path | None, Option(metavar="DIR", help="Where this host keeps versions.", show_default="the default of readers")
]


@app.callback()
def main() -> None:
    """Look into adjunct stores: which versions they have, what is in them, and whether they are whole."""


@app.command()
@grouped
def ls(
    ctx: typer.Context,
    where: Annotated[
        str, Argument(metavar="CONTAINER[/PREFIX]", help="A container, a folder of stores, or a store; or a URL.")
    ],
    common: CommonOptions,
) -> None:
    """List stores with what readers get now; of one store all versions, and who has pinned them."""
    shell = shell_of(ctx)
    place = location_of(shell, where, common.option)
    prefix = place.path
    stores = find_stores(place.open(), prefix)
    document = output.stores_json(place.container, stores)
    manifest = stores[0].manifest if stores and stores[0].store == prefix else None
    if manifest is not None:
        shell.answer(document, *output.store_parts(prefix, manifest, stores[0].pins), as_json=common.as_json)
    elif stores or common.as_json:
        shell.answer(document, new_table(output.STORES, stores, shrinks=7), as_json=common.as_json)
    else:
        shell.say(f"Container {place.container} has no store{f' in {prefix}' if prefix else ''}.")
    if not common.as_json:
        for found in stores:
            shell.say(*([f"{found.store}: {found.cause}"] if found.cause else []))
            shell.say(*(pin.cause for pin in found.pins if pin.cause))


@dataclass(frozen=True)
class GetOptions:
    """Options of `get`."""

    prefix: Annotated[
        bool, Option("--prefix", help="All keys that begin with these columns; a last text may be a beginning.")
    ] = False
    limit: Annotated[int, Option(metavar="N", min=1, help="With --prefix: how many entries at most.")] = 20
    version: Annotated[
        int | None, Option(metavar="N", help="This version.", show_default="the one that readers get now")
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
        Argument(metavar="KEY…", help="A value for each key column. After --, a value may begin with -."),
    ] = None,
    *,
    given: GetOptions,
) -> None:
    """Print the value of a key. The partition that has it is fetched to this host, if it is not there already.

    Ends with exit code 1 if there is no such key. With --prefix all partitions are fetched.
    """
    shell = shell_of(ctx)
    place = _store(shell, where, common)
    store = place.path
    chosen, generation = chosen_version(place.open(), store, given.version)
    with opened(place.open(), store, chosen, generation, given.cache_dir) as view:
        names, values = view.schema.keys.names, typed_key(key or (), view.schema.keys)
        if given.prefix:
            rows = list(islice(view.prefix(*values), given.limit + 1))
        else:
            found = view.get(*values)
            rows = [] if found is None else [(values, found)]
    entries = [(dict(zip(names, each, strict=True)), value) for each, value in rows[: given.limit]]
    document: dict[str, object] = {"store": store, "version": chosen.number}
    shown: Sequence[RenderableType]
    if given.prefix:
        documents = [{"key": of, "value": value} for of, value in entries]
        document |= {"entries": documents, "more": len(rows) > given.limit}
        shown, sought = [output.entries_table(entries)] if entries else [], "such key"
    else:
        document |= {"key": dict(zip(names, values, strict=True)), "value": found}
        shown, sought = output.value_lines(found or {}), f"key {', '.join(key or ())}"
    shell.answer(document, *shown, as_json=common.as_json)
    if not common.as_json and not rows:
        shell.say(f"Version {chosen.number} of {store} has no {sought}.")
    if not common.as_json and len(rows) > given.limit:
        shell.say(f"There are more; --limit shows more than {given.limit}.")
    if not rows:
        raise typer.Exit(ERROR)


@app.command(name="verify")
@grouped
def verify_command(
    ctx: typer.Context,
    where: Store,
    common: CommonOptions,
    *,
    deep: Annotated[
        bool, Option("--deep", help="Download everything, compare checksums, and read every entry.")
    ] = False,
    scratch: Annotated[
        Path | None, Option(metavar="DIR", help="With --deep: a folder with room.", show_default="the temporary folder")
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
    lines = output.verify_lines(store, verified, deep=deep)
    shell.answer(output.verify_json(store, verified, deep=deep), *lines, as_json=common.as_json)
    if not all(each.whole or each.dropped for each in verified):
        raise typer.Exit(ERROR)


@app.command(name="clean-cache")
def clean_cache_command(ctx: typer.Context, cache_dir: CacheDir = None, *, as_json: AsJson = False) -> None:
    """Delete what this host keeps of stores, but for what is open. Who needs it later fetches it again."""
    directory = cache_directory(cache_dir)
    cleaned = clean_cache(directory)
    document = {"cacheDir": str(directory), "freedBytes": cleaned.freed, "leftBytes": cleaned.left}
    in_use = f"{size_text(cleaned.left)} are in use" if cleaned.left else "nothing is left"
    shell_of(ctx).answer(document, f"Freed {size_text(cleaned.freed)} in {directory}; {in_use}.", as_json=as_json)


def _store(shell: CommandContext, where: str, common: CommonOptions) -> Location:
    place = location_of(shell, where, common.option)
    if not place.path:
        raise ConfigurationError(f"No store is named in container {place.container}: give `container/store`.")
    return place

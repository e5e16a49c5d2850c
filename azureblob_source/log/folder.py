"""The blobs of a folder that a read takes from its listing, and whether a log may begin there. Pure.

A read goes by the log as soon as a folder has one. So a log must not begin where files are that it does not name: they
would silently be missing from every read.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from azureblob_source.log.entry import attempt_of
from azureblob_source.log.naming import log_stream
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from azure_account.values import BlobProperties


SPARK_METADATA = "/_spark_metadata/"
"""In names of the log of Spark's own file sink, by which only Spark reads its folder."""
METADATA_IGNORED = (
    "%s: Spark's `_spark_metadata` is ignored: files of attempts that failed, which Spark leaves out, are read. Read "
    "the folder with Spark's format avro, or delete such files"
)


def is_listed(blob: BlobProperties, levels: Iterable[str]) -> bool:
    """Whether a listing shows the blob: it is not empty, and none of these levels of its name is hidden."""
    return blob.size > 0 and not any(level.startswith(("_", ".")) for level in levels)


def is_avro(name: str) -> bool:
    """Whether a blob is an Avro file by its name."""
    return name.endswith((".avro", ".avro.gz"))


def visible_blobs(stream: str, found: Sequence[BlobProperties]) -> list[BlobProperties]:
    """The blobs in the listing of a folder, but for empty and hidden ones and those of nested streams."""
    nested = {log_stream(blob.name) for blob in found}
    return [
        blob
        for blob in found
        if is_listed(blob, levels := blob.name[len(stream) + 1 :].split("/"))
        and not any("/".join((stream, *levels[:depth])) in nested for depth in range(1, len(levels)))
    ]


def is_below(name: str, folders: Collection[str]) -> bool:
    """Whether a blob is below one of the folders."""
    if not folders:
        return False
    levels = name.split("/")
    return any("/".join(levels[:depth]) in folders for depth in range(1, len(levels)))


def strangers(found: Iterable[BlobProperties], streams: Collection[str]) -> dict[str, list[str]]:
    """The data blobs that this package has not written, by the stream that they are in. No log names them."""
    by_stream: dict[str, list[str]] = defaultdict(list)
    for blob in found:
        levels = blob.name.split("/")
        if attempt_of(blob.metadata) is None and is_avro(blob.name) and is_listed(blob, levels):
            above = ("/".join(levels[:depth]) for depth in range(len(levels) - 1, 0, -1))
            stream = next((name for name in above if name in streams), None)
            if stream is not None:
                by_stream[stream].append(blob.name)
    return by_stream


def check_no_files(stream: str, found: Sequence[BlobProperties], where: str, *, own_are_right: bool) -> None:
    """`ConfigurationError` if the listing of a stream without a log has files. `where` is the container's URL.

    own_are_right: blobs of this package do not count. With `at-least-once` tasks publish blobs before the first entry.
    """
    readable = [blob for blob in visible_blobs(stream, found) if is_avro(blob.name)]
    names = [blob.name for blob in readable if not own_are_right or attempt_of(blob.metadata) is None]
    if not names:
        return
    cause = (
        f"the folder has {len(names)} Avro files and no commit log (the first is {names[0]}). A write begins a log, "
        "and reads go by it from then on: they would miss these files"
    )
    step = (
        "Write to another stream, or move the files to another folder first. To have all rows in one stream, read this "
        "folder and write its rows to the other stream too."
    )
    raise ConfigurationError("write to", f"{stream} in {where}", cause, step)

"""The rows of splits: their bytes are fetched ahead, and blocks are decoded as soon as their bytes have arrived."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from arrow_avro import DEFAULT_LIMITS, ReadLimits, blocks, decode_blocks, is_splittable, read_header, split_blocks
from azureblob_source.metrics import skip_damaged
from azureblob_source.read.blob_bytes import without_gzip
from azureblob_source.read.read_ahead import ReadAhead
from foundation.errors import ConflictError, CorruptError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    import pyarrow as pa

    from arrow_avro import AvroBlock, AvroSchema, FileHeader
    from azure_account.container import BlobContainer
    from azureblob_source.read.blobs import BlobPart, StreamBlob
    from azureblob_source.read.read_ahead import SplitBytes
    from azureblob_source.read.splits import Split

    Decode: TypeAlias = Callable[[Iterable[AvroBlock]], Iterator[pa.RecordBatch]]
    _Opened: TypeAlias = tuple[FileHeader | None, Iterable[AvroBlock]]

THREADS = 4
FETCH_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """How splits are read.

    reader: the schema that rows are resolved to; by default that of each blob.
    columns: the Arrow names of the columns to read; by default all.
    ignore_corrupt: keep the rows before any damage, skip the rest of that split, warn of it and count it.
    threads: that fetch ahead.
    budget: bytes that are fetched ahead.
    limits: of a block and of a batch.
    """

    reader: AvroSchema | None = None
    columns: Sequence[str] | None = None
    ignore_corrupt: bool = False
    threads: int = THREADS
    budget: int = FETCH_BYTES
    limits: ReadLimits = DEFAULT_LIMITS


def read_splits(
    container: BlobContainer, splits: Sequence[Split], settings: SplitSettings
) -> Iterator[tuple[Split, pa.RecordBatch]]:
    """The rows of all splits, in order (see `decode_blob`), each batch with its split.

    The threads that fetch end when the iterator ends, is closed or fails.

    `NotFoundError` if a blob is gone, `ConflictError` if it was replaced, `CorruptError` if it is damaged,
    `ConfigurationError` if its rows do not resolve, if it cannot be split, or if it takes more memory than `limits`.
    """
    opener = _Opener(settings.limits.block_bytes)

    def rows(split: Split, source: SplitBytes) -> Iterator[pa.RecordBatch]:
        header, found = opener.open(split, source)
        if header is not None:
            decode = partial(
                decode_blocks,
                header,
                blob=split.blob.name,
                reader=settings.reader,
                columns=settings.columns,
                limits=settings.limits,
            )
            decoded = _until_damage(found, decode) if settings.ignore_corrupt else decode(found)
            yield from decoded if split.blob.part is None else _rows_of_part(decoded, split.blob.part)

    with ReadAhead(container, splits, settings.threads, settings.budget) as ahead:
        for split, source in ahead:
            found = rows(split, source)
            for batch in _undamaged(container, found, split.blob) if settings.ignore_corrupt else found:
                yield split, batch


def _rows_of_part(batches: Iterable[pa.RecordBatch], part: BlobPart) -> Iterator[pa.RecordBatch]:
    """The rows of a part, of all rows of its blocks."""
    skip, left = part.skip, part.rows
    for batch in batches:
        rows = batch.slice(skip, left)
        skip, left = max(0, skip - batch.num_rows), left - rows.num_rows
        if rows.num_rows:
            yield rows
        if not left:
            return


def _undamaged(container: BlobContainer, rows: Iterator[pa.RecordBatch], blob: StreamBlob) -> Iterator[pa.RecordBatch]:
    """The rows up to any damage. An adopted blob that was deleted or replaced since counts as damaged."""
    try:
        yield from rows
    except CorruptError as damage:
        skip_damaged(container, damage)
    except (ConflictError, NotFoundError) as change:
        if not blob.adopted:
            raise
        skip_damaged(container, change)


@dataclass
class _Opener:
    """Finds the blocks of splits. It keeps one header, as the splits of a blob follow each other.

    A block has at most `most` bytes.
    """

    most: int
    _blob: str | None = None
    _header: FileHeader | None = None

    def open(self, split: Split, source: SplitBytes) -> _Opened:
        """The header and the split's blocks; none if the blob is empty, or if all belong to its first split."""
        name = split.blob.name
        if split.start == 0:
            return self._from_beginning(split, source)
        if self._blob != name:
            self._blob, self._header = name, None
            if split.blob.part is not None or (source.clip(1) and without_gzip(source) is source):
                self._header = read_header(source, blob=name)
        return self._header, [] if self._header is None else self._blocks(source, self._header, split)

    def _from_beginning(self, split: Split, source: SplitBytes) -> _Opened:
        name = self._blob = split.blob.name
        self._header = None
        file = without_gzip(source)
        if file is not source:
            source.read_on()
        if not file.clip(1):
            return None, []
        header = read_header(file, blob=name)
        if file is not source:
            return header, blocks(file, header, blob=name, most=self.most)
        self._header = header
        if not is_splittable(header):
            source.read_on()
        return header, self._blocks(source, header, split)

    def _blocks(self, source: SplitBytes, header: FileHeader, split: Split) -> Iterator[AvroBlock]:
        name, part = split.blob.name, split.blob.part
        if part is not None:
            from arrow_avro import Placement, placed_blocks  # noqa: PLC0415 - few reads have parts

            placement = Placement(part.start, part.end, part.skip, part.rows)
            return placed_blocks(source, header, placement, blob=name, most=self.most)
        return split_blocks(source, header, split.start, split.end, blob=name, most=self.most)


def _until_damage(blocks_of_split: Iterable[AvroBlock], decode: Decode) -> Iterator[pa.RecordBatch]:
    """The rows of all blocks before the damaged one, then the `CorruptError`.

    The decoder makes one batch of several blocks. After damage, blocks whose rows were not all yielded are decoded
    again, one by one.
    """
    pending: deque[AvroBlock] = deque()
    yielded = 0  # rows of the first pending block

    def remembered() -> Iterator[AvroBlock]:
        for block in blocks_of_split:
            pending.append(block)
            yield block

    try:
        for batch in decode(remembered()):
            yielded += batch.num_rows
            while pending and yielded >= pending[0].rows:
                yielded -= pending.popleft().rows
            yield batch
    except CorruptError:
        for block in pending:
            for batch in decode([block]):
                if yielded < batch.num_rows:
                    yield batch.slice(yielded)
                yielded = max(0, yielded - batch.num_rows)
        raise

"""A partition against a plain dictionary, deaths amid a run, a full disk, and what is refused."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.engine import ApplyResult, PartitionProgress, PartitionStore
from adjunct_store.engine import changes as changes_module
from adjunct_store.engine.rocks import Database
from adjunct_store.view import FORMS, View
from foundation.errors import ConfigurationError
from tests.adjunct_store.changes import AIRPORTS, ORDERED, batch_of, named

FAA = st.sampled_from(["", "A", "AA", "AB", "B", "B\x00", "Ö", "ZZZ"])
VALUES = st.none() | st.builds(named, st.none() | st.sampled_from(["x", "y", ""]), st.integers(-2, 2))
UNORDERED = st.dictionaries(FAA, VALUES, max_size=8).map(lambda run: list(run.items()))
BY_ORDER = st.dictionaries(st.tuples(FAA, st.integers(-1, 2)), VALUES, max_size=10).map(
    lambda run: [(key, value, order) for (key, order), value in run.items()]
)


@pytest.fixture
def fast_folder() -> Iterator[Path]:
    """In memory where there is such a place: these tests open hundreds of databases."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:  # noqa: S108
        yield Path(folder)


class Model:
    """What a store is: values by key, and in an ordered store the order of each key, deleted ones too."""

    def __init__(self, schema: StoreSchema) -> None:
        self.ordered = schema.ordered
        self.rows: dict[str, tuple[Any, int]] = {}
        self.seen: Counter[str] = Counter()

    def apply(self, run: list[tuple[Any, ...]]) -> ApplyResult:
        applied = ApplyResult()
        last = {row[0]: row[1:] for row in sorted(run, key=lambda row: row[2:])}
        for key, (value, *orders) in last.items():
            before, order = self.rows.get(key), (orders or [0])[0]
            if before is not None and order < before[1]:
                applied.ignored_older += 1
                continue
            applied.upserts += value is not None
            applied.deletes += value is None
            self._note(before, value, order)
            self.rows[key] = value, order
            if value is None and not self.ordered:
                del self.rows[key]
        self.seen["older"] += applied.ignored_older
        self.seen["several"] += len(last) < len(run)
        applied.entries, applied.tombstones = len(self.values), len(self.rows) - len(self.values)
        return applied

    def _note(self, before: tuple[Any, int] | None, value: Any, order: int) -> None:
        self.seen["never there"] += before is None and value is None
        self.seen["deleted"] += before is not None and before[0] is not None and value is None
        self.seen["back"] += before is not None and before[0] is None and value is not None
        self.seen["equal order"] += before is not None and before[0] != value and order == before[1]

    @property
    def values(self) -> dict[str, Any]:
        return {key: value for key, (value, _) in self.rows.items() if value is not None}


def check(view: View, model: Model) -> None:
    keys = ["", "A", "AA", "AB", "B", "B\x00", "Ö", "ZZZ", "none"]
    assert [model.values.get(key) for key in keys] == view.get_many([(key,) for key in keys])
    ordered = sorted(model.values.items(), key=lambda row: row[0].encode())
    assert [((key,), value) for key, value in ordered] == list(view.scan())
    assert [key for key, _ in ordered if key.startswith("A")] == [key for (key,), _ in view.prefix("A")]
    assert [key for key, _ in ordered if "AA" <= key < "B"] == [key for (key,), _ in view.scan(("AA",), ("B",))]
    looked_up = view.lookup(pa.record_batch({"k": pa.array(["AA", None, "AA", "none", "B"])}))
    assert [model.values.get(key) for key in ("AA", "none", "AA", "none", "B")] == looked_up.to_pylist()
    assert len(model.values) == view.entries


@dataclass
class Run:
    """Changes of one batch of the source. The store has run_bytes; cuts: where the changes are divided."""

    changes: list[tuple[Any, ...]]
    cuts: tuple[int, int]
    run_bytes: int
    repeated: int


def runs_of(changes: st.SearchStrategy[list[tuple[Any, ...]]]) -> st.SearchStrategy[list[Run]]:
    small = st.integers(0, 10)
    cuts = st.tuples(small, small)
    return st.lists(st.builds(Run, changes, cuts, st.sampled_from([1, 10**6]), st.integers(0, 3)), max_size=5)


def apply(folder: Path, schema: StoreSchema, run: Run, number: int) -> ApplyResult:
    """In a store that is opened for it. Some changes are there twice."""
    first, second = sorted(run.cuts)
    whole = batch_of(schema, run.changes + run.changes[: run.repeated], as_given=True)
    batches = [whole.slice(0, first), whole.slice(first, second - first), whole.slice(second)]
    with PartitionStore(folder / "p", schema, file_bytes=1, run_bytes=run.run_bytes) as store:
        applied = store.apply(batches, PartitionProgress("flights", number))
        assert PartitionProgress("flights", number, applied.entries, applied.tombstones) == store.position
    return applied


@pytest.mark.parametrize(("schema", "runs"), [(AIRPORTS, runs_of(UNORDERED)), (ORDERED, runs_of(BY_ORDER))])
def test_a_store_is_what_a_dictionary_would_be(
    fast_folder: Path, schema: StoreSchema, runs: st.SearchStrategy[list[Run]]
) -> None:
    """The last batch is applied twice, as one that is repeated after a failure."""
    seen: Counter[str] = Counter()

    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(runs)
    def histories(given_runs: list[Run]) -> None:
        folder, model = Path(tempfile.mkdtemp(dir=fast_folder)), Model(schema)
        for number, run in enumerate([*given_runs, *given_runs[-1:]]):
            assert model.apply(run.changes) == apply(folder, schema, run, number)
        for form in FORMS if given_runs else ():
            with View({0: folder / "p"}, schema, form) as view:
                check(view, model)
        seen.update(model.seen)

    histories()
    rare = ["several", "older", "deleted", "back", "equal order"] if schema.ordered else ["deleted", "never there"]
    assert [] == [each for each in rare if not seen[each]]


@pytest.mark.parametrize("split", [1, 2, 3])
def test_two_changes_of_a_key_without_an_order_are_refused_and_nothing_is_written(tmp_path: Path, split: int) -> None:
    batch = batch_of(AIRPORTS, [("A", named("a")), ("B", named("b")), ("B", named("c")), ("C", None)])
    with PartitionStore(tmp_path / "p", AIRPORTS) as store:
        with pytest.raises(ConfigurationError, match="two different changes of key faa='B'. Give `then_by`"):
            store.apply([batch.slice(0, split), batch.slice(split)], PartitionProgress("s", 0))
        store.apply([batch.slice(0, 2), batch.slice(1, 1)], PartitionProgress("s", 0))  # the same change twice is one
        assert PartitionProgress("s", 0, 2) == store.position


def test_two_changes_of_a_key_with_one_order_are_refused(tmp_path: Path) -> None:
    batch = batch_of(ORDERED, [("B", named("b"), 5), ("B", named("b", 1), 5)])
    with (
        PartitionStore(tmp_path / "p", ORDERED) as store,
        pytest.raises(ConfigurationError, match=r"key faa='B' with the same order. Give `then_by`"),
    ):
        store.apply([batch], PartitionProgress("s", 0))


def test_batches_that_are_said_to_be_sorted_and_are_not_are_an_error(tmp_path: Path) -> None:
    batch = batch_of(AIRPORTS, [("A", named("a")), ("B", named("b"))])
    with PartitionStore(tmp_path / "p", AIRPORTS) as store, pytest.raises(ValueError, match="not sorted"):
        store.apply([batch.slice(1), batch.slice(0, 1)], PartitionProgress("s", 0), are_sorted=True)


def test_an_entry_that_is_too_large_is_refused_by_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_module, "MOST_ENTRY_BYTES", 100)
    batch = batch_of(AIRPORTS, [("A", named("a")), ("B", named("b" * 101))])
    with PartitionStore(tmp_path / "p", AIRPORTS) as store:
        with pytest.raises(ConfigurationError, match=r"entry of key faa='B' has 10\d bytes; at most 100 are allowed"):
            store.apply([batch], PartitionProgress("s", 0))
        assert store.position is None


def test_a_timestamp_order_decides_and_equal_orders_in_two_batches_take_the_newer_batch(tmp_path: Path) -> None:
    with PartitionStore(tmp_path / "p", ORDERED) as store:
        store.apply([batch_of(ORDERED, [("A", named("a"), 5), ("B", named("b"), 5)])], PartitionProgress("s", 0))
        applied = store.apply(
            [batch_of(ORDERED, [("A", named("c"), 5), ("B", named("d"), 4)])], PartitionProgress("s", 1)
        )
    assert ApplyResult(entries=2, upserts=1, ignored_older=1) == applied
    with View({0: tmp_path / "p"}, ORDERED) as view:
        assert [named("c"), named("b")] == view.get_many([("A",), ("B",)])


def test_a_small_batch_is_one_file_and_not_all_of_the_partition_is_written_again(tmp_path: Path) -> None:
    """What a batch writes is uploaded."""
    rows = [(f"{number:05}", named(random.Random(number).randbytes(20).hex())) for number in range(20_000)]
    with PartitionStore(tmp_path / "p", AIRPORTS) as store:
        store.apply([batch_of(AIRPORTS, rows)], PartitionProgress("s", 0))
        for number in range(1, 4):
            before = set((tmp_path / "p").glob("*.sst"))
            store.apply([batch_of(AIRPORTS, rows[number::1_000])], PartitionProgress("s", number))
            assert 1 == len(set((tmp_path / "p").glob("*.sst")) - before)
            assert before <= set((tmp_path / "p").glob("*.sst"))


def test_most_of_a_partition_is_not_written_again_while_few_entries_change(tmp_path: Path) -> None:
    draw, count, batches = random.Random(8), 20_000, 60
    written, seen = [], dict[str, int]()
    with PartitionStore(tmp_path / "p", AIRPORTS) as store:
        for number in range(batches):
            keys = draw.sample(range(count), count // 100) if number else range(count)
            rows = [(f"{key:05}", named(draw.randbytes(20).hex(), number)) for key in keys]
            store.apply([batch_of(AIRPORTS, rows)], PartitionProgress("s", number))
            with store.checkpoint() as directory:  # without files that are to be deleted
                there = {path.name: path.stat().st_size for path in directory.glob("*.sst")}
            written.append(sum(size for name, size in there.items() if name not in seen))
            assert len(there) <= 9
            assert sum(there.values()) < 1.6 * written[0]
            seen = there
    assert sum(written[1:]) < 6 * (batches - 1) * sorted(written)[batches // 2]
    assert sum(size > written[0] / 2 for size in written[1:]) <= 1


def test_logs_of_rocksdb_do_not_pile_up(tmp_path: Path) -> None:
    for number in range(5):
        with PartitionStore(tmp_path / "p", AIRPORTS) as store:
            store.apply([batch_of(AIRPORTS, [("A", named("a"))])], PartitionProgress("s", number))
    assert ["LOG"] == [path.name for path in (tmp_path / "p").glob("LOG*")]


def test_a_full_disk_is_a_configuration_error_and_the_partition_is_as_before(tmp_path: Path) -> None:
    with PartitionStore(tmp_path / "p", AIRPORTS) as store:
        store.apply([batch_of(AIRPORTS, [("A", named("a"))])], PartitionProgress("s", 0))
    program = [sys.executable, "-c", _FULL_DISK, str(tmp_path / "p")]
    outputs = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    assert ["ConfigurationError: write", "ConfigurationError: write", "0"] == outputs
    with View({0: tmp_path / "p"}, AIRPORTS) as view:
        assert [(("A",), named("a"))] == list(view.scan())


_FULL_DISK = """
import random, resource, sys
from pathlib import Path
from adjunct_store.engine import PartitionStore, PartitionProgress
from foundation.errors import ConfigurationError
from tests.adjunct_store.changes import AIRPORTS, batch_of, named
batch = batch_of(AIRPORTS, [(f"{key:05}", named(random.randbytes(50).hex())) for key in range(10_000)])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))  # no file can be larger
for run_bytes in (1, 1 << 30):  # while changes are sorted on disk, and while the files of entries are written
    with PartitionStore(Path(sys.argv[1]), AIRPORTS, run_bytes=run_bytes) as store:
        try:
            store.apply([batch], PartitionProgress("s", 1))
        except ConfigurationError as error:
            assert "room on the disk" in str(error), error
            print(f"{type(error).__name__}: {str(error).split()[0]}")
        batch_there = store.position.batch
print(batch_there)
"""


def test_a_compaction_that_finds_the_disk_full_is_a_configuration_error(tmp_path: Path) -> None:
    limited = "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))"  # a batch fits, several of them do not
    program = [sys.executable, "-c", f"import resource\n{limited}\n{_BATCHES}", str(tmp_path / "p")]
    outputs = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    assert "close: ConfigurationError" == outputs[-1]
    with View({0: tmp_path / "p"}, AIRPORTS) as view:
        assert outputs.count("applied") * 700 == len(list(view.scan()))


def test_a_disk_that_is_too_full_for_a_compaction_does_not_hold_up_what_fits(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    own_disk = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mounted = 'mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" -c "$3" "$1/p"'
    given = ["-", str(tmp_path / "disk"), sys.executable, _BATCHES]
    try:
        subprocess.run([*own_disk, mounted, *given[:2], "true", ""], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this system lets nobody mount a file system of a user's own")
    began = time.monotonic()
    outputs = subprocess.run([*own_disk, mounted, *given], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert 10 == outputs.count("applied")  # after the eighth there is no room for a compaction
    assert time.monotonic() - began < 60


_BATCHES = """
import random, sys
from pathlib import Path
from adjunct_store.engine import PartitionStore, PartitionProgress
from foundation.errors import ConfigurationError
from tests.adjunct_store.changes import AIRPORTS, batch_of, named
draw = random.Random(3)
try:
    with PartitionStore(Path(sys.argv[1]), AIRPORTS) as store:
        for number in range(14):
            rows = [(f"{key:05}", named(draw.randbytes(50).hex())) for key in range(number, 14 * 700, 14)]
            try:
                store.apply([batch_of(AIRPORTS, rows)], PartitionProgress("s", number))
                print("applied")
            except ConfigurationError as error:
                assert "room on the disk" in str(error), error
except ConfigurationError as error:
    assert "room on the disk" in str(error), error
    print("close: ConfigurationError")
"""


def test_errors_of_the_source_are_passed_on_and_nothing_is_written(tmp_path: Path) -> None:
    def source() -> Iterator[pa.RecordBatch]:
        yield batch_of(AIRPORTS, [("A", named("a"))])
        raise ConnectionResetError("the source is gone")

    with PartitionStore(tmp_path / "p", AIRPORTS) as store:
        with pytest.raises(ConnectionResetError, match="the source is gone"):
            store.apply(source(), PartitionProgress("s", 0))
        assert store.position is None
    assert not (tmp_path / "p.sst").exists()


def test_a_checkpoint_has_what_was_applied_and_is_gone_after_its_block(tmp_path: Path) -> None:
    with PartitionStore(tmp_path / "p", AIRPORTS) as store:
        store.apply([batch_of(AIRPORTS, [("A", named("a"))])], PartitionProgress("s", 3))
        with store.checkpoint() as directory:
            store.apply([batch_of(AIRPORTS, [("A", None)])], PartitionProgress("s", 4))
            with View({0: directory}, AIRPORTS) as view:
                assert (1, named("a")) == (view.entries, view.get("A"))
            assert PartitionProgress("s", 4, entries=0) == store.position
        assert not directory.exists()


_WRITES = """
import sys
from pathlib import Path
from adjunct_store.engine import PartitionStore, PartitionProgress
from tests.adjunct_store.changes import ORDERED, batch_of, named
number = int(sys.argv[2])
while True:
    batch = batch_of(ORDERED, [(f"{key:05}", named("x" * 20, number), number) for key in range(30_000)])
    with PartitionStore(Path(sys.argv[1]), ORDERED, file_bytes=20_000) as store:
        print("begin", number, flush=True)
        store.apply([batch], PartitionProgress("s", number))
        print("done", number, flush=True)
        number += 1
"""


@pytest.mark.slow
def test_a_process_killed_at_any_moment_leaves_whole_runs_with_their_position(tmp_path: Path) -> None:
    draw, number, amid = random.Random(4), 0, 0
    for _ in range(12):
        program = [sys.executable, "-c", _WRITES, str(tmp_path / "p"), str(number)]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(draw.choice([1, 3]))]
            time.sleep(draw.uniform(0, 0.15))
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
        amid += lines[-1].startswith("begin")
        with PartitionStore(tmp_path / "p", ORDERED) as store:
            position = store.position
        done = [int(each.split()[1]) for each in lines if each.startswith("done")]
        assert max(done, default=number - 1) <= (-1 if position is None else position.batch)
        if position is None:
            continue
        number = position.batch + 1
        with View({0: tmp_path / "p"}, ORDERED) as view:
            assert {position.batch} == {value["alt"] for _, value in view.scan()}
            assert 30_000 == position.entries
        if amid >= 4 and number >= 3:
            return
    pytest.fail(f"only {amid} kills were amid a run, and {number} runs were whole")


@pytest.mark.parametrize("read_only", [True, False])
def test_a_database_that_exists_is_opened_with_the_same_options(tmp_path: Path, read_only: bool) -> None:
    capacity = "rocksdb.block-cache-capacity"
    with Database(tmp_path / "p", read_only=False) as new:
        expected = new.rdict.property_value(capacity)
    with Database(tmp_path / "p", read_only=read_only) as again:
        assert (str(128 << 20), expected) == (expected, again.rdict.property_value(capacity))


@pytest.mark.parametrize("day", [-(2**31), 3_652_060, 2**31 - 1])
def test_two_changes_of_a_key_that_python_has_no_date_for_are_named(tmp_path: Path, day: int) -> None:
    schema = StoreSchema(pa.schema([("day", pa.date32())]), pa.schema([("name", pa.string())]), 1)
    days = pa.array([day, day], pa.int32()).cast(pa.date32())
    values = pa.array([{"name": "a"}, {"name": "b"}], pa.struct([("name", pa.string())]))
    with (
        PartitionStore(tmp_path / "0", schema) as store,
        pytest.raises(ConfigurationError, match=f"different changes of key day={day:,} days after 1970-01-01"),
    ):
        store.apply([pa.record_batch({"day": days, "value": values})], PartitionProgress("s", 0))

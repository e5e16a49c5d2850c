"""What each of Spark's Python processes loads for a write and a read of one row, as JSON. A program of `test_starting`.

Spark forks each of these processes from one that has imported pyspark alone, and pickles what they pass on. So does
this program. Arguments: the options of the format as JSON, the path of the stream, a folder.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark.daemon  # noqa: F401 - all that Spark's daemon has imported when it forks
from pyspark import worker_util
from pyspark.sql.types import LongType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

OURS = frozenset(
    {"arrow_avro", "azure_account", "azureblob_source", "control_messages", "foundation", "pyspark_azureblob"}
)
PICKLE: Any = worker_util.pickleSer
VARIABLE = "AZUREBLOB_DECODER"
ROWS = StructType([StructField("id", LongType())])
FOLDER = Path(sys.argv[-1])
OPTIONS: dict[str, str] = {**json.loads(sys.argv[1]), "path": sys.argv[2]}


def kept(name: str, value: Any) -> None:
    """Leave a value to a later process."""
    (FOLDER / name).write_bytes(PICKLE.dumps(value))


def given(name: str) -> Any:
    """What an earlier process has left."""
    return PICKLE.loads((FOLDER / name).read_bytes())


def find_the_format() -> None:
    import_module("pyspark.sql.worker.lookup_data_sources")
    kept("class", import_module("pyspark_azureblob").DefaultSource)


def plan_a_write() -> None:
    import_module("pyspark.sql.worker.write_into_data_source")
    kept("writer", given("class")(OPTIONS).writer(ROWS, overwrite=False))


def write() -> None:
    import_module("pyspark.worker")
    import pyarrow as pa

    ids = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(bytes(8))])  # `pa.array` would load pandas
    kept("message", given("writer").write(iter([pa.RecordBatch.from_arrays([ids], names=["id"])])))


def commit() -> None:
    import_module("pyspark.sql.worker.commit_data_source_write")
    given("writer").commit([given("message")])


def commit_micro_batches() -> None:
    import_module("pyspark.sql.worker.python_streaming_sink_runner")
    writer = given("class")(OPTIONS).streamWriter(ROWS, overwrite=False)
    message = given("message")
    staged = json.loads(message.staged)
    message.staged = json.dumps({**staged, "blobs": [], "rows": 0, "writer": {"task": 0, "query": "q"}})
    writer.commit([message], 0)


def find_the_schema() -> None:
    import_module("pyspark.sql.worker.create_data_source")
    source = given("class")(OPTIONS)
    kept("source", (source, source.schema()))


def take_a_given_schema() -> None:
    import_module("pyspark.sql.worker.create_data_source")
    avro = {"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}
    given("class")({**OPTIONS, "avroSchema": json.dumps(avro)}).schema()
    assert "azure.storage.blob" not in sys.modules


def plan_a_read() -> None:
    import_module("pyspark.sql.worker.plan_data_source_read")
    source, schema = given("source")
    reader = source.reader(schema)
    kept("reader", (reader, reader.partitions()))


def read() -> None:
    os.environ[VARIABLE] = "pure"
    read_the_row()


def read_natively() -> None:
    os.environ[VARIABLE] = "native"
    read_the_row()


def read_the_row() -> None:
    import_module("pyspark.worker")
    reader, partitions = given("reader")
    assert [1] == [batch.num_rows for each in partitions for batch in reader.read(each)]


def follow() -> None:
    import_module("pyspark.sql.streaming.python_streaming_source_runner")
    source, schema = given("source")
    reader = source.streamReader(schema)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert 1 == len(reader.partitions(start, end))


def only_the_sdk() -> None:
    import_module("azure_account.sdk.blobs")


PROCESSES = (
    find_the_format,
    plan_a_write,
    write,
    commit,
    commit_micro_batches,
    find_the_schema,
    take_a_given_schema,
    plan_a_read,
    read,
    *([read_natively] if find_spec("pyspark_azureblob_native") else []),
    follow,
    only_the_sdk,
)


def package(module: str) -> str:
    """What is counted: a top-level package, except that the SDK and Arrow have parts worth to tell apart."""
    first, _, rest = module.partition(".")
    part = rest.partition(".")[0]
    return f"{first}.{part}" if first == "azure" or (first, part) == ("pyarrow", "compute") else first


def loaded_by(act: Callable[[], None]) -> dict[str, Any]:
    """The modules that a new process has loaded when it has done this, and which of our modules asked for a package."""
    receive, send = os.pipe()
    if os.fork() == 0:
        os.close(receive)
        before, asked = set(sys.modules), dict[str, str]()

        def remember(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "import":
                asked.setdefault(package(arguments[0]), asker(sys._getframe()))

        sys.addaudithook(remember)
        code = 1
        try:
            act()
            modules = sorted(set(sys.modules) - before)
            by = {package(each): asked.get(package(each), "?") for each in modules}
            ours = [each for each in modules if package(each) in OURS]
            with os.fdopen(send, "w") as answer:
                json.dump({"ours": ours, "asked": by}, answer)
            code = 0
        finally:
            os._exit(code)
    os.close(send)
    with os.fdopen(receive) as answer:
        text = answer.read()
    os.wait()
    assert text, f"{act.__name__} failed"
    found = json.loads(text)
    return {"ours": found["ours"], "asked": {name: by for name, by in found["asked"].items() if foreign(name)}}


def asker(frame: FrameType | None) -> str:
    """The innermost of our modules that runs, else Spark."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] in OURS:
            return name
        frame = frame.f_back
    return "Spark"


def foreign(name: str) -> bool:
    """Neither Python's nor Spark's nor ours."""
    first = name.partition(".")[0]
    return not (first in sys.stdlib_module_names or first in OURS or first in ("pyspark", "py4j") or first[0] == "_")


if __name__ == "__main__":
    sys.stdout.write(json.dumps({act.__name__: loaded_by(act) for act in PROCESSES}))

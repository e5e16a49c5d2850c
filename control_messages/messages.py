"""Control messages and their JSON: an upstream task sends them in the same stream as its rows. Pure.

    {"version":1,"taskName":"Partition 0","taskCount":2,"generation":3,"streamId":"by-destination",
     "partitionCount":8,"sequence":1795331203750,"timestamp":1357016400000,       a watermark; an end has no timestamp,
     "writer":2,"rows":117}                                                       and no rows

The reader ignores unknown fields, accepts Samza's `task-name` and `run-id`, and takes a missing version as 1. It
rejects a later version, whose fields may mean something else, and a field that occurs twice, since JSON parsers differ
in which one they take. The writer writes only messages that are read back equal, and every message that was read can be
written. Samza's messages lack `partitionCount`, `sequence`, `writer`, `rows`, and for a watermark `streamId`, which are
then None. They have neither a task count nor a generation: the generation is then 0, and the caller gives the count.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from reprlib import Repr
from typing import Any, TypeAlias, TypeGuard, assert_never

from control_messages.errors import BadEnvelopeError, ControlMessageError

VERSION = 1
EARLIEST, LATEST = -(2**63), 2**63 - 1
"""Bounds of a timestamp."""
MOST_TASKS = MOST_PARTITIONS = 2**31 - 1


class MessageType(IntEnum):
    """The first byte of an envelope."""

    USER = 0
    WATERMARK = 1
    END_OF_STREAM = 2
    DRAIN = 3


@dataclass(frozen=True)
class Watermark:
    """A task has written all rows older than `timestamp` (milliseconds since 1970 UTC).

    task: its name; None stands for all tasks, as from Samza's aggregating task.
    task_count: how many tasks write to the stream in this generation; 1 if `task` is None.
    generation: rises when the tasks change or start again; messages of lower ones are stale.
    idle: the task has nothing to write for the time being, and does not hold the watermark until its next one.
    stream, partition_count: the name of the stream, and how many partitions it has; None if the message has none.
    sequence: rises with every message of a task in a generation, and is the same in a repeat; None if it has none.
    rows: how many rows of the task were written to the partition with this message, by the Spark task `writer`, which
    several may have done for one task; None if they were not counted.
    """

    task: str | None
    task_count: int
    timestamp: int
    generation: int = 0
    idle: bool = False
    stream: str | None = None
    partition_count: int | None = None
    sequence: int | None = None
    writer: int | None = None
    rows: int | None = None


@dataclass(frozen=True)
class EndOfStream:
    """A task has ended: it sends nothing after this; fields as in `Watermark`."""

    task: str | None
    task_count: int
    stream: str | None = None
    generation: int = 0
    partition_count: int | None = None
    sequence: int | None = None


@dataclass(frozen=True)
class Drain:
    """A task is being drained for run `run`. Passed on as it is; trackers ignore it."""

    task: str | None
    task_count: int
    run: str | None = None
    generation: int = 0
    stream: str | None = None
    partition_count: int | None = None
    sequence: int | None = None


ControlMessage: TypeAlias = Watermark | EndOfStream | Drain

_SURROGATE = re.compile("[\ud800-\udfff]")
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 200


def message_type(message: ControlMessage) -> MessageType:
    """The type byte of a message's envelope."""
    match message:
        case Watermark():
            return MessageType.WATERMARK
        case EndOfStream():
            return MessageType.END_OF_STREAM
        case Drain():
            return MessageType.DRAIN
        case _:
            assert_never(message)


def to_fields(message: ControlMessage) -> dict[str, Any]:
    """The message as JSON fields. `ValueError` for one that would not be read back equal."""
    fault = _fault(message)
    if fault is not None:
        raise ValueError(f"{_shown(message)}: {fault}")
    fields: dict[str, Any] = {
        "version": VERSION,
        "taskName": message.task,
        "taskCount": message.task_count,
        "generation": message.generation,
    }
    if message.stream is not None or isinstance(message, EndOfStream):
        fields["streamId"] = message.stream
    if message.partition_count is not None:
        fields["partitionCount"] = message.partition_count
    if message.sequence is not None:
        fields["sequence"] = message.sequence
    match message:
        case Watermark():
            counted = {"writer": message.writer, "rows": message.rows}
            more = {name: number for name, number in counted.items() if number is not None}
            return {**fields, "timestamp": message.timestamp, **({"idle": True} if message.idle else {}), **more}
        case EndOfStream():
            return fields
        case Drain():
            return {**fields, "runId": message.run}
        case _:
            assert_never(message)


def to_json(message: ControlMessage) -> bytes:
    """The control data of an envelope: UTF-8 JSON without spaces."""
    return json.dumps(to_fields(message), ensure_ascii=False, separators=(",", ":")).encode()


def from_json(kind: MessageType, data: bytes, task_count: int | None = None) -> ControlMessage:
    """The message of type `kind` in `data`. `task_count` is for messages without one.

    `BadEnvelopeError` if it cannot be read. A message without a task name stands for all tasks, so its count is 1.
    """
    fields = _fields(data)
    task = _text(fields, "taskName", "task-name")
    stated = _integer(fields, "taskCount", 1, MOST_TASKS)
    if stated is None and task_count is not None and not is_integer(task_count, 1, MOST_TASKS):
        raise ValueError(f"task_count is {task_count!r}, it must be an integer from 1 to {MOST_TASKS}.")
    count = 1 if task is None else stated or task_count
    if count is None:
        text = f"{_shown(data)} has no taskCount, as in Samza's messages. Give the number of tasks to the reader."
        raise BadEnvelopeError(text)
    generation = _integer(fields, "generation", 0, LATEST) or 0
    stream = _text(fields, "streamId")
    partition_count = _integer(fields, "partitionCount", 1, MOST_PARTITIONS)
    sequence = _integer(fields, "sequence", 0, LATEST)
    match kind:
        case MessageType.WATERMARK:
            idle = _flag(fields, "idle")
            timestamp = _integer(fields, "timestamp", EARLIEST, LATEST)
            if timestamp is None and idle:
                timestamp = EARLIEST
            if timestamp is None:
                raise BadEnvelopeError(f"{_shown(data)} is a watermark without a timestamp.")
            writer, rows = (_integer(fields, name, 0, LATEST) for name in ("writer", "rows"))
            return Watermark(task, count, timestamp, generation, idle, stream, partition_count, sequence, writer, rows)
        case MessageType.END_OF_STREAM:
            return EndOfStream(task, count, stream, generation, partition_count, sequence)
        case MessageType.DRAIN:
            return Drain(task, count, _text(fields, "runId", "run-id"), generation, stream, partition_count, sequence)
        case MessageType.USER:
            raise ValueError("A user message has no control data.")
        case _:
            assert_never(kind)


def json_object(text: bytes | str) -> dict[str, Any]:
    """The fields of a JSON object. `ControlMessageError` for other text, and for a field that occurs twice."""
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        fields = json.loads(decoded, object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        reason = f"{_shown(text)} is no JSON ({error})."
        raise ControlMessageError(reason) from error
    if not isinstance(fields, dict):
        reason = f"{_shown(text)} is no JSON object."
        raise ControlMessageError(reason)
    return fields


def is_text(value: object) -> TypeGuard[str]:
    """A string that is not empty and can be encoded as UTF-8; half of a surrogate pair cannot."""
    return isinstance(value, str) and value != "" and _SURROGATE.search(value) is None


def is_integer(value: object, least: int, most: int) -> TypeGuard[int]:
    """An integer within the bounds. True and False are not integers."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _fields(data: bytes) -> dict[str, Any]:
    try:
        fields = json_object(data)
    except ControlMessageError as error:
        raise BadEnvelopeError(str(error)) from error
    version = _integer(fields, "version", 0, LATEST)
    if version is not None and version > VERSION:
        text = f"{_shown(data)} has version {version}; this release reads up to {VERSION}"
        raise BadEnvelopeError(f"{text}, so it needs a newer release of pyspark-azureblob on this machine.")
    return fields


def _fault(message: ControlMessage) -> str | None:
    """Why the message would not be read back equal."""
    if not (message.task is None or is_text(message.task)):
        return "the task is None or a name, which is a text that is not empty."
    if not is_integer(message.task_count, 1, MOST_TASKS) or (message.task is None and message.task_count != 1):
        return f"task_count is an integer from 1 to {MOST_TASKS}, and 1 for a message without a task."
    if not is_integer(message.generation, 0, LATEST):
        return f"the generation is an integer from 0 to {LATEST}."
    optional = [
        ("partition count", message.partition_count, 1, MOST_PARTITIONS),
        ("sequence", message.sequence, 0, LATEST),
    ]
    if isinstance(message, Watermark):
        optional += [("writer", message.writer, 0, LATEST), ("count of rows", message.rows, 0, LATEST)]
    for name, value, least, most in optional:
        if not (value is None or is_integer(value, least, most)):
            return f"the {name} is None or an integer from {least} to {most}."
    for text in (message.stream, message.run if isinstance(message, Drain) else None):
        if not (text is None or is_text(text)):
            return "the stream or run is None or a text that is not empty."
    if isinstance(message, Watermark) and not is_integer(message.timestamp, EARLIEST, LATEST):
        return f"the timestamp is an integer from {EARLIEST} to {LATEST}."
    return None


def _text(fields: dict[str, Any], *names: str) -> str | None:
    """The value under the first of the names that has one."""
    for name in names:
        value = fields.get(name)
        if is_text(value):
            return value
        if value is not None:
            text = f"{name} is {_shown(value)}, it must be a text that is not empty and can be encoded as UTF-8."
            raise BadEnvelopeError(text)
    return None


def _integer(fields: dict[str, Any], name: str, least: int, most: int) -> int | None:
    value = fields.get(name)
    if value is None or is_integer(value, least, most):
        return value
    raise BadEnvelopeError(f"{name} is {_shown(value)}, it must be an integer from {least} to {most}.")


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is None or isinstance(value, bool):
        return value is True
    raise BadEnvelopeError(f"{name} is {_shown(value)}, it must be true or false.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{_shown(twice)} occurs twice")
    return fields


def _no_number(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON number")


def _shown(value: object) -> str:
    """The value as errors show it, cut to a few hundred characters."""
    return _SHORT.repr(value[:200] if isinstance(value, bytes) else value)

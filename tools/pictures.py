"""Draws the pictures of the guides: `python -m tools.pictures` writes docs/pictures/*.svg.

    lanes, boxes, arrows, notes of a picture ─► SVG of a few KB, in light and dark as its reader prefers

A lane is a machine or a place; a box is what is there, by kind: what acts, what is stored, the commit point.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
LINE = 17
STYLE = """
text{font:13px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#1f2328}
.b{font-weight:600}.n{fill:#59636e;font-size:12px}.bg{fill:#fff}
.lane{fill:#f6f8fa;stroke:#d1d9e0}.acts{fill:#fff;stroke:#59636e}.stored{fill:#ddf4ff;stroke:#0969da}
.commit{fill:#fff1e5;stroke:#bc4c00;stroke-width:2}
path{fill:none;stroke:#59636e;stroke-width:1.5}.h{fill:#59636e;stroke:none}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.n{fill:#a8b1bb}.bg{fill:#131416}
.lane{fill:#1b1d21;stroke:#3d444d}.acts{fill:#262c36;stroke:#9198a1}.stored{fill:#12263f;stroke:#4493f8}
.commit{fill:#341f0c;stroke:#f0883e}path{stroke:#a8b1bb}.h{fill:#a8b1bb}}
"""


@dataclass(frozen=True)
class Lane:
    """A machine or a place, around boxes."""

    at: tuple[int, int]
    size: tuple[int, int]
    title: str

    def svg(self) -> str:
        """Its elements."""
        (x, y), (width, height) = self.at, self.size
        return _rectangle("lane", self.at, (width, height), 8) + _text(x + 12, y + 20, self.title, "b")


@dataclass(frozen=True)
class Box:
    """What acts or is stored: a title, and lines below it."""

    at: tuple[int, int]
    width: int
    lines: tuple[str, ...]
    kind: Literal["acts", "stored", "commit"] = "acts"

    def svg(self) -> str:
        """Its elements."""
        x, y = self.at
        texts = [_text(x + 10, y + 20 + LINE * at, line, "" if at else "b") for at, line in enumerate(self.lines)]
        return _rectangle(self.kind, self.at, (self.width, 12 + LINE * len(self.lines)), 4) + "".join(texts)


@dataclass(frozen=True)
class Arrow:
    """A way of data along points; the last one has the head."""

    points: tuple[tuple[int, int], ...]

    def svg(self) -> str:
        """Its elements."""
        way = "L".join(f"{x} {y}" for x, y in self.points)
        (before_x, before_y), (x, y) = self.points[-2:]
        across = (x > before_x) - (x < before_x)
        down = 0 if across else (y > before_y) - (y < before_y)
        corners = [(x, y), (x - 8 * across - 4 * down, y - 8 * down - 4 * across)]
        corners.append((x - 8 * across + 4 * down, y - 8 * down + 4 * across))
        return f'<path d="M{way}"/><polygon class="h" points="{" ".join(f"{a},{b}" for a, b in corners)}"/>'


@dataclass(frozen=True)
class Note:
    """Words beside an arrow."""

    at: tuple[int, int]
    text: str

    def svg(self) -> str:
        """Its elements."""
        return _text(*self.at, self.text, "n")


Part = Lane | Box | Arrow | Note


@dataclass(frozen=True)
class Picture:
    """A picture. says: its content in one sentence, for who cannot see it."""

    size: tuple[int, int]
    says: str
    parts: tuple[Part, ...]

    def svg(self) -> str:
        """The file."""
        width, height = self.size
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        body = "\n".join(part.svg() for part in self.parts)
        return (
            f'{head} height="{height}" role="img"><title>{escape(self.says)}</title><style>{STYLE}</style>\n'
            f"{_rectangle('bg', (0, 0), self.size, 8)}\n{body}\n</svg>\n"
        )


def _rectangle(kind: str, at: tuple[int, int], size: tuple[int, int], radius: int) -> str:
    (x, y), (width, height) = at, size
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>'


def _text(x: int, y: int, words: str, kind: str) -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{x}" y="{y}">{escape(words)}</text>'


WHOLE = Picture(
    (760, 380),
    "Spark jobs write rows, watermarks, backups and stores into one storage account, and read them from there.",
    (
        Lane((10, 10), (740, 128), "Spark jobs"),
        Box((30, 44), 200, ("upstream job", "driver and tasks", "writes rows, watermarks")),
        Box((280, 44), 200, ("downstream job", "reads rows, watermarks", "joins with stores")),
        Box((530, 44), 200, ("drivers that stand by", "take tasks over", "with a higher epoch")),
        Lane((10, 206), (740, 110), "one storage account"),
        Box((30, 240), 200, ("stream", "Avro blobs, commit log", "control messages"), "stored"),
        Box((250, 240), 150, ("adjunct store", "versions by key", "of changing data"), "stored"),
        Box((420, 240), 150, ("state backup", "RocksDB stores,", "checkpoints"), "stored"),
        Box((584, 240), 152, ("coordination", "lease, epoch,", "who has which task"), "stored"),
        Arrow(((180, 107), (180, 240))),
        Note((98, 160), "exactly once"),
        Arrow(((206, 240), (206, 170), (310, 170), (310, 107))),
        Note((212, 188), "new versions"),
        Arrow(((345, 240), (345, 107))),
        Note((351, 160), "look-ups"),
        Arrow(((455, 107), (455, 240))),
        Note((461, 188), "backup, restore"),
        Arrow(((640, 240), (640, 107))),
        Note((648, 160), "leader,"),
        Note((648, 176), "heartbeats"),
        Arrow(((90, 303), (90, 342))),
        Note((30, 362), "any tool that reads Avro: it lists the folder, and sees each row once"),
    ),
)

COMMIT = Picture(
    (760, 330),
    "Tasks stage blocks, the driver puts a log entry, and then commits the block list of each blob.",
    (
        Lane((10, 10), (190, 310), "tasks"),
        Lane((215, 10), (210, 310), "driver"),
        Lane((440, 10), (310, 310), "container"),
        Box((26, 44), 158, ("encode rows", "by stream, partition", "as Avro blocks")),
        Box((456, 44), 278, ("staged blocks", "Put Block: invisible, for seven days"), "stored"),
        Arrow(((184, 66), (456, 66))),
        Note((222, 60), "1  stage"),
        Arrow(((105, 107), (105, 140), (231, 140))),
        Note((30, 158), "blobs, block ids"),
        Box((231, 118), 178, ("commit", "at the head of the log")),
        Box((456, 118), 278, ("_log/…07.json, if absent", "names every blob: the commit point"), "commit"),
        Arrow(((409, 140), (456, 140))),
        Note((424, 134), "2"),
        Box((231, 192), 178, ("publish", "32 blobs at a time")),
        Box((456, 192), 278, ("blobs", "Put Block List, if absent: visible"), "stored"),
        Arrow(((320, 164), (320, 192))),
        Arrow(((409, 214), (456, 214))),
        Note((424, 208), "3"),
        Box((231, 266), 178, ("acknowledge", "Spark's checkpoint")),
        Arrow(((320, 238), (320, 266))),
        Note((456, 274), "If the driver dies between 2 and 3, the next"),
        Note((456, 291), "writer or repair publishes the entry's blobs."),
    ),
)

READING = Picture(
    (760, 300),
    "The driver finds the live blobs of a version in the log and plans byte ranges; tasks read and decode them.",
    (
        Lane((10, 10), (230, 280), "container"),
        Lane((255, 10), (250, 280), "driver, one read or micro-batch"),
        Lane((520, 10), (230, 280), "tasks"),
        Box((26, 44), 198, ("checkpoint of the log", "newest one: live blobs"), "stored"),
        Box((26, 106), 198, ("entries after it", "up to the last published"), "stored"),
        Box((271, 44), 218, ("snapshot", "live blobs of the version;", "a stream: those since its offset")),
        Box((271, 132), 218, ("skip", "by partition, and by bounds", "of columns in filters")),
        Box((271, 220), 218, ("plan", "byte ranges, sync to sync")),
        Arrow(((224, 66), (271, 66))),
        Arrow(((224, 126), (248, 126), (248, 92), (271, 92))),
        Arrow(((380, 107), (380, 132))),
        Arrow(((380, 195), (380, 220))),
        Box((26, 220), 198, ("Avro blobs", "published"), "stored"),
        Box((536, 44), 198, ("Arrow batches", "to Spark")),
        Box((536, 132), 198, ("decode", "column by column, into", "the schema of the query")),
        Box((536, 220), 198, ("fetch", "blocks of a range")),
        Arrow(((489, 242), (536, 242))),
        Arrow(((125, 261), (125, 276), (635, 276), (635, 261))),
        Arrow(((635, 220), (635, 195))),
        Arrow(((635, 132), (635, 90))),
    ),
)

CONTROL = Picture(
    (760, 290),
    "Each task sends its watermark to every partition; a partition's watermark is the minimum over the tasks.",
    (
        Lane((10, 10), (190, 270), "upstream job"),
        Lane((215, 10), (290, 270), "stream, in band with the rows"),
        Lane((520, 10), (230, 270), "downstream job"),
        Box((26, 56), 158, ("task EWR", "latest row 19:47")),
        Box((26, 166), 158, ("task JFK", "latest row 19:52")),
        Box((231, 56), 258, ("partition 0", "row row [EWR 19:47] row [JFK 19:52]"), "stored"),
        Box((231, 166), 258, ("partition 1", "row [EWR 19:47] [JFK 19:52] row"), "stored"),
        Arrow(((184, 70), (231, 70))),
        Arrow(((184, 88), (206, 88), (206, 180), (231, 180))),
        Arrow(((184, 198), (231, 198))),
        Arrow(((184, 180), (194, 180), (194, 92), (231, 92))),
        Box((536, 56), 198, ("tracker", "minimum: 19:47")),
        Box((536, 166), 198, ("tracker", "minimum: 19:47")),
        Arrow(((489, 78), (536, 78))),
        Arrow(((489, 188), (536, 188))),
        Note((26, 236), "A row goes to one partition,"),
        Note((26, 252), "a watermark to all."),
        Note((231, 236), "Rows and watermarks are one commit."),
        Note((536, 236), "The end: when each task's end"),
        Note((536, 252), "of stream has come."),
    ),
)

COORDINATION = Picture(
    (760, 310),
    "Processors share tasks by a leased blob and a table; a stream refuses writers of lower epochs.",
    (
        Lane((10, 10), (230, 290), "processor A, the leader"),
        Lane((255, 10), (250, 290), "container and table"),
        Lane((520, 10), (230, 290), "processor B"),
        Box((26, 44), 198, ("leader election", "renews the lease")),
        Box((271, 44), 218, ("leased blob", "epoch, job model, barrier"), "commit"),
        Arrow(((224, 66), (271, 66))),
        Box((26, 118), 198, ("job model", "tasks → processors")),
        Arrow(((224, 140), (248, 140), (248, 80), (271, 80))),
        Box((536, 44), 198, ("poll", "which tasks are mine")),
        Arrow(((489, 66), (536, 66))),
        Box((271, 118), 218, ("a row for each processor", "heartbeat, confirmed version"), "stored"),
        Arrow(((271, 150), (232, 150), (232, 156), (224, 156))),
        Box((536, 118), 198, ("heartbeat", "stops tasks if overdue")),
        Arrow(((536, 140), (489, 140))),
        Box((26, 192), 198, ("query of task EWR", "epoch 7")),
        Box((536, 192), 198, ("query of task JFK", "epoch 8, taken over")),
        Box((271, 192), 218, ("streams, states, stores", "refuse a lower epoch"), "stored"),
        Arrow(((224, 214), (271, 214))),
        Arrow(((536, 214), (489, 214))),
        Note((26, 268), "A paused driver that wakes"),
        Note((26, 284), "commits nothing: it is fenced."),
        Note((271, 268), "A task moves when its old"),
        Note((271, 284), "processor has confirmed or died."),
    ),
)

STATE = Picture(
    (760, 300),
    "A backup uploads the files that are new and commits a checkpoint; a restore makes a directory from one.",
    (
        Lane((10, 10), (200, 280), "local disk"),
        Lane((225, 10), (250, 280), "task or driver"),
        Lane((490, 10), (260, 280), "container"),
        Box((26, 44), 168, ("directory", "RocksDB store, Spark", "checkpoint"), "stored"),
        Box((241, 44), 218, ("back_up: compare", "with the last snapshot index")),
        Box((506, 44), 228, ("blobs of new files", "with a TTL until committed"), "stored"),
        Box((506, 106), 228, ("snapshot index", "all files, their checksums"), "stored"),
        Box((506, 168), 228, ("record", "conditional: the commit point"), "commit"),
        Arrow(((194, 66), (241, 66))),
        Arrow(((459, 66), (506, 66))),
        Arrow(((459, 80), (482, 80), (482, 128), (506, 128))),
        Arrow(((482, 128), (482, 190), (506, 190))),
        Box((241, 220), 218, ("restore: link, download", "verified by BLAKE3")),
        Arrow(((506, 206), (474, 206), (474, 242), (459, 242))),
        Box((26, 220), 168, ("new directory", "renamed when whole"), "stored"),
        Arrow(((241, 242), (194, 242))),
        Note((506, 240), "A writer of a lower epoch is fenced;"),
        Note((506, 256), "files that no checkpoint needs"),
        Note((506, 272), "are deleted."),
    ),
)

ADJUNCT = Picture(
    (760, 320),
    "A fill applies changes to the partitions of a store and publishes a version; tasks join with it from a host copy.",
    (
        Lane((10, 10), (230, 300), "fill"),
        Lane((255, 10), (230, 300), "container"),
        Lane((500, 10), (250, 300), "hosts of the jobs that read"),
        Box((26, 44), 198, ("changes", "table, CDC stream, files")),
        Box((26, 118), 198, ("partition of the key", "a task for each, RocksDB")),
        Box((26, 192), 198, ("publish", "after all partitions")),
        Arrow(((125, 90), (125, 118))),
        Arrow(((125, 164), (125, 192))),
        Box((271, 118), 198, ("checkpoints", "of each partition"), "stored"),
        Box((271, 192), 198, ("manifest", "a version: the commit point"), "commit"),
        Arrow(((224, 140), (271, 140))),
        Arrow(((224, 214), (271, 214))),
        Box((516, 192), 218, ("pin", "a micro-batch's version")),
        Box((516, 118), 218, ("one copy for all processes", "fetched once, verified")),
        Box((516, 44), 218, ("join, lookup", "values of the batch's keys")),
        Arrow(((469, 214), (516, 214))),
        Arrow(((469, 140), (516, 140))),
        Arrow(((625, 192), (625, 164))),
        Arrow(((625, 118), (625, 90))),
        Note((26, 266), "A batch is one version,"),
        Note((26, 282), "applied once."),
        Note((271, 266), "Pinned versions stay."),
        Note((516, 266), "A batch that runs again"),
        Note((516, 282), "reads the same version."),
    ),
)

PICTURES = {
    "whole": WHOLE,
    "commit": COMMIT,
    "reading": READING,
    "control-messages": CONTROL,
    "coordination": COORDINATION,
    "state-backup": STATE,
    "adjunct-store": ADJUNCT,
}


def main(folder: Path = FOLDER) -> None:
    """Write all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        (folder / f"{name}.svg").write_text(picture.svg(), "utf-8")


if __name__ == "__main__":
    main()

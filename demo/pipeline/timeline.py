"""A run as one page of HTML that needs nothing else: who ran what, what was lost, watermarks, versions read."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demo.pipeline.owners import LEADER
from demo.pipeline.places import TASKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from demo.pipeline.checks import Finding
    from demo.pipeline.faults import Fault
    from demo.pipeline.observed import Batch, StoreVersion
    from demo.pipeline.owners import Tenure
    from demo.pipeline.resources import Sample

WIDTH, LEFT, LANE, CHART = 1200, 110, 26, 180
COLOURS = {"driver-1": "#3b6fb6", "driver-2": "#c2703d", "driver-3": "#4f9d69"}
STREAM_COLOURS = {"weather": "#8a8a8a", "flights": "#3b6fb6", "joined": "#c2703d", "days": "#7b4fa3"}
_VERSION_COLOURS = {"published": "#8a8a8a", "read": "#c2703d"}
_STYLE = """
body { font: 14px system-ui, sans-serif; margin: 24px; color: #222; max-width: 1240px }
h1 { font-size: 20px } h2 { font-size: 15px; margin: 24px 0 6px } svg { display: block; background: #fafafa }
text { font: 11px system-ui, sans-serif; fill: #444 } table { border-collapse: collapse } td { padding: 2px 12px 2px 0 }
.wrong { color: #b00020; font-weight: 600 }
.key { display: inline-block; width: 12px; height: 12px; margin: 0 4px 0 12px }
"""


@dataclass(frozen=True)
class Run:
    """What the page shows. read: by version of `joined`, the revision of the planes. Times: seconds since 1970."""

    title: str
    begin: float
    end: float
    tenures: Sequence[Tenure]
    faults: Sequence[Fault]
    batches: dict[str, Sequence[Batch]]
    versions: Sequence[StoreVersion]
    read: dict[int, int]
    findings: Sequence[Finding]
    summary: Sequence[tuple[str, str]]
    samples: Sequence[Sample] = ()

    @property
    def is_right(self) -> bool:
        """Whether all findings are."""
        return all(finding.is_right for finding in self.findings)


def page(run: Run) -> str:
    """The page."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        f"<title>{html.escape(run.title)}</title><style>{_STYLE}</style>",
        f"<h1>{html.escape(run.title)}</h1>",
        "<h2>Result</h2>",
        _table([(finding.what, finding.found, finding.is_right) for finding in run.findings]),
        "<h2>Summary</h2>",
        _table([(name, text, True) for name, text in run.summary]),
        "<h2>Who ran which task, and what was lost</h2>",
        _keys(COLOURS),
        _lanes(run),
        "<h2>Watermarks of the streams</h2>",
        _keys(STREAM_COLOURS),
        _watermarks(run),
        "<h2>Planes: versions published, and the revision that each batch has read</h2>",
        _keys(_VERSION_COLOURS),
        _revisions(run),
        "<h2>Memory of the drivers</h2>",
        _keys(COLOURS),
        _memory(run),
        "</html>",
    ]
    return "\n".join(parts)


def _table(rows: Iterable[tuple[str, str, bool]]) -> str:
    cells = (
        f"<tr class='{'' if right else 'wrong'}'><td>{html.escape(name)}</td><td>{html.escape(text)}</td></tr>"
        for name, text, right in rows
    )
    return f"<table>{''.join(cells)}</table>"


def _keys(colours: dict[str, str]) -> str:
    return "".join(f"<span class='key' style='background:{colour}'></span>{name}" for name, colour in colours.items())


class _Axis:
    """From times to places on the page."""

    def __init__(self, run: Run) -> None:
        self._begin, self._seconds = run.begin, max(1.0, run.end - run.begin)

    def __call__(self, at: float) -> float:
        return round(LEFT + (WIDTH - LEFT - 10) * min(max(0.0, (at - self._begin) / self._seconds), 1.0), 1)

    def marks(self, height: float) -> str:
        """A line and a number at each minute."""
        lines = []
        for minute in range(int(self._seconds // 60) + 1):
            place = self(self._begin + 60 * minute)
            lines.append(f"<line x1='{place}' x2='{place}' y1='0' y2='{height}' stroke='#e3e3e3'/>")
            lines.append(f"<text x='{place + 2}' y='{height + 12}'>{minute} min</text>")
        return "".join(lines)


def _svg(height: float, content: str) -> str:
    return f"<svg viewBox='0 0 {WIDTH} {height + 16}' width='{WIDTH}' height='{height + 16}'>{content}</svg>"


def _lanes(run: Run) -> str:
    axis = _Axis(run)
    names = [LEADER, *TASKS]
    kinds = sorted({fault.kind for fault in run.faults})
    height = LANE * (len(names) + len(kinds))
    drawn = [axis.marks(height)]
    for row, name in enumerate([*names, *kinds]):
        drawn.append(f"<text x='4' y='{row * LANE + 17}'>{html.escape(name)}</text>")
    for each in run.tenures:
        top = names.index(each.task) * LANE + 5
        title = f"{each.driver} has {each.task}, epoch {each.epoch}, {each.end - each.begin:.0f} s"
        begin, end, started = axis(each.begin), axis(each.end), axis(each.started or each.end)
        colour = COLOURS.get(each.driver, "#666")
        drawn.append(_bar(begin, end, top, colour, 0.3, title) + _bar(started, end, top, colour, 1.0, title))
    for fault in run.faults:
        top = (len(names) + kinds.index(fault.kind)) * LANE + 5
        title = f"{fault.kind}: {fault.target} at {fault.at - run.begin:.0f} s"
        until = max(axis(fault.until or fault.at), axis(fault.at) + 3)
        drawn.append(_bar(axis(fault.at), until, top, "#b00020", 0.9, title))
    return _svg(height, "".join(drawn))


def _bar(begin: float, end: float, top: float, colour: str, opacity: float, title: str) -> str:
    size = f"x='{begin}' y='{top}' width='{max(0.0, end - begin):.1f}' height='{LANE - 10}'"
    return f"<rect {size} fill='{colour}' fill-opacity='{opacity}'><title>{html.escape(title)}</title></rect>"


def _watermarks(run: Run) -> str:
    lines = {
        name: [(batch.at, float(batch.watermark)) for batch in batches if batch.watermark is not None]
        for name, batches in run.batches.items()
    }
    return _chart(run, lines, STREAM_COLOURS)


def _revisions(run: Run) -> str:
    published = [(each.at, float(each.number)) for each in run.versions]
    read = [
        (batch.at, float(run.read[batch.version] + 1)) for batch in run.batches["joined"] if batch.version in run.read
    ]
    return _chart(run, {"published": published, "read": read}, _VERSION_COLOURS)


def _memory(run: Run) -> str:
    lines: dict[str, list[tuple[float, float]]] = {}
    for each in run.samples:
        lines.setdefault(f"{each.driver} {each.life}", []).append((each.at, each.memory))
    return _chart(run, lines, {name: COLOURS.get(name.split()[0], "#666") for name in lines})


def _chart(run: Run, lines: dict[str, list[tuple[float, float]]], colours: dict[str, str]) -> str:
    axis = _Axis(run)
    values = [value for points in lines.values() for _, value in points]
    low, high = min(values, default=0.0), max(values, default=1.0)
    spread = (high - low) or 1.0
    drawn = [axis.marks(CHART)]
    for name, points in lines.items():
        places = [(axis(at), round(CHART - 8 - (CHART - 20) * (value - low) / spread, 1)) for at, value in points]
        path = " ".join(f"{x},{y}" for x, y in places)
        colour = colours.get(name, "#666")
        drawn.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='1.5'/>")
        drawn += [f"<circle cx='{x}' cy='{y}' r='2' fill='{colour}'><title>{name}</title></circle>" for x, y in places]
    return _svg(CHART, "".join(drawn))

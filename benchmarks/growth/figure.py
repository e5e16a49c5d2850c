"""The plots of one run, and how each cost grows.

    python -m benchmarks.growth.figure benchmarks/results/…-growth.json docs/pictures

Draws growth-seconds.svg and growth-requests.svg, small multiples on logarithmic scales, and prints by how much seconds
and requests grow when what grows doubles, from the last point but one to the last.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from benchmarks.growth.points import Axis, Contender
from benchmarks.report import Report, show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    Contender.OURS: "#0b5fa5",
    Contender.COMPILED: "#35a7e8",
    Contender.DELTA: "#b5432a",
    Contender.AVRO: "#6b6b6b",
    Contender.FOREACH: "#c79a1b",
}
LABELS = {
    Axis.ROWS: "rows of a write",
    Axis.COLUMNS: "columns",
    Axis.PARTITIONS: "partitions of the column",
    Axis.BLOBS: "blobs of a write",
    Axis.HISTORY: "versions committed before",
    Axis.CORES: "cores of Spark",
}
COLUMNS = 3
LEAST_RANGE = 10.0
"""Of the highest cost to the lowest one in a plot, so that what hardly grows looks flat."""
COUNTED = (Axis.PARTITIONS, Axis.BLOBS, Axis.HISTORY)
"""What requests depend on."""
_APART = 0.075
"""Of the height of a plot, between two labels."""


@dataclass(frozen=True)
class Curve:
    """One cost of one contender at the points of an axis. low, high: the extremes of the rounds."""

    contender: Contender
    values: Sequence[float]
    costs: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]

    @property
    def doubling(self) -> float:
        """The factor of the cost for twice the value, from the last point but one to the last."""
        steps = math.log2(self.values[-1] / self.values[-2])
        return (self.costs[-1] / self.costs[-2]) ** (1 / steps)


def curves(document: Mapping[str, Any], axis: Axis, act: str, cost: str) -> list[Curve]:
    """Of one plot: cost is `s` or `requests`, act is `write` or `read`."""
    lines = [line for table in document["tables"] for line in table["lines"] if line["axis"] == axis.value]
    found = []
    for contender in Contender:
        if cost == "requests" and contender is Contender.COMPILED:
            continue  # a decoder makes none
        own = [line for line in lines if line["contender"] == contender.value and line["act"] == act]
        if len(own) > 1:
            low, high = ("fastest", "slowest") if cost == "s" else (cost, cost)
            values, costs, lows, highs = ([line[key] for line in own] for key in ("value", cost, low, high))
            found.append(Curve(contender, values, costs, lows, highs))
    return found


def draw(document: Mapping[str, Any], cost: str, axes: Sequence[Axis], unit: str, output: Path) -> None:
    """One picture: for each axis a plot of writes, and below it one of reads."""
    from matplotlib import rc_context  # noqa: PLC0415 - only for a plot
    from matplotlib.figure import Figure  # noqa: PLC0415

    blocks = math.ceil(len(axes) / COLUMNS)
    with rc_context(
        {"svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans", "Arial"], "font.size": 9, "svg.hashsalt": "growth"}
    ):
        figure = Figure(figsize=(4 * COLUMNS, 5 * blocks), layout="constrained")
        grid = figure.subplots(2 * blocks, COLUMNS, squeeze=False)
        for number, axis in enumerate(axes):
            for below, act in enumerate(("write", "read")):
                place = grid[2 * (number // COLUMNS) + below][number % COLUMNS]
                _plot(place, curves(document, axis, act, cost), f"{act}, {unit}", LABELS[axis])
        for place in grid.flat:
            place.set_visible(place.has_data())
        _caption(figure, document, unit)
        if output.suffix == ".svg":
            figure.savefig(output, metadata={"Date": None})
            output.write_text(shorter(output.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            figure.savefig(output)


def shorter(svg: str) -> str:
    """The same picture in less text: no comments, names of groups or indentation, one digit behind points. Pure."""
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d)\d+(?=[ \"\n])", r"\1", tag[0]), svg)
    return re.sub(r"\s*\n\s*", "\n", svg)


def _plot(place: Axes, drawn: Sequence[Curve], of: str, along: str) -> None:
    for curve in drawn:
        colour = COLOURS[curve.contender]
        place.plot(curve.values, curve.costs, color=colour, marker="o", markersize=3, linewidth=1.6, clip_on=False)
        place.fill_between(curve.values, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
    place.set(xscale="log", yscale="log", xlabel=along, ylabel=of)
    values = sorted({value for curve in drawn for value in curve.values})
    place.set_xticks(values, [f"{value:,.0f}" for value in values])
    place.set_xlim(values[0] / 1.1, values[-1] * (values[-1] / values[0]) ** 0.62)
    place.minorticks_off()
    low, high = place.get_ylim()
    if high < LEAST_RANGE * low:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(LEAST_RANGE), middle * math.sqrt(LEAST_RANGE)
        place.set_ylim(low, high)
    ticks = [tick for power in range(-2, 6) for tick in _ticks(power, high / low) if low <= tick <= high]
    place.set_yticks(ticks, [f"{tick:,g}" for tick in ticks])
    place.tick_params(left=False, bottom=False)
    place.grid(visible=True, linewidth=0.4, color="#dddddd", clip_on=False)
    place.spines[["top", "right"]].set_visible(False)
    _label(place, drawn)


def _ticks(power: int, ratio: float) -> list[float]:
    """Of a decade: more of them where a plot has few."""
    steps = (1, 2, 5) if ratio < 300 else (1,)
    return [step * 10.0**power for step in steps]


def _label(place: Axes, drawn: Sequence[Curve]) -> None:
    """Names at the ends of the lines, moved apart where they would touch."""
    low, high = (math.log(each) for each in place.get_ylim())
    ends = sorted(((math.log(each.costs[-1]) - low) / (high - low), each.contender, each) for each in drawn)
    heights = apart([height for height, _, _ in ends], _APART)
    for height, (_, contender, curve) in zip(heights, ends, strict=True):
        place.annotate(
            contender.value,
            (curve.values[-1], curve.costs[-1]),
            (curve.values[-1] * (curve.values[-1] / curve.values[0]) ** 0.06, math.exp(low + height * (high - low))),
            color=COLOURS[contender],
            fontsize=8,
            va="center",
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": COLOURS[contender]},
        )


def apart(heights: Sequence[float], least: float) -> list[float]:
    """Rising heights, moved as little as their order allows so that neighbours have a distance. Pure."""
    moved = list(heights)
    for _ in range(100):
        for one in range(len(moved) - 1):
            missing = least - (moved[one + 1] - moved[one])
            if missing > 1e-9:
                moved[one] -= missing / 2
                moved[one + 1] += missing / 2
    return moved


def _caption(figure: Figure, document: Mapping[str, Any], unit: str) -> None:
    machine = document["machine"]
    lines = [line for table in document["tables"] for line in table["lines"]]
    loads, rounds = [line["load"] for line in lines], max(line["rounds"] for line in lines)
    figure.supxlabel(
        f"{unit}: medians of up to {rounds} rounds in turn, shaded from fastest to slowest. Base: 100,000 rows, "
        "10 columns, one task, one core; versions before: 10 rows more, and a read of these; cores: 1,000,000 rows.\n"
        "Spark 4.0.1, Delta 4.0.1, hadoop-azure 3.4.2, Azurite 3.35 in memory, all on "
        f"{machine['cores']} cores with a load of {min(loads):.0f} to {max(loads):.0f}; {document['time'][:10]}.",
        x=0.01,
        ha="left",
        fontsize=8,
    )


def doublings(document: Mapping[str, Any], act: str) -> Report:
    """The factors of a table: seconds and, behind a slash, requests."""
    lines: list[dict[str, str | float]] = []
    for axis in Axis:
        of = {cost: {each.contender: each for each in curves(document, axis, act, cost)} for cost in ("s", "requests")}
        cells = {each: [of[cost][each].doubling for cost in of if each in of[cost]] for each in of["s"]}
        shown = {
            each.value: "–" if each not in cells else " / ".join(f"{x:.2f}" for x in cells[each]) for each in Contender
        }
        lines.append({"twice the": axis.value, **shown})
    return Report(f"Factors of a {act}: seconds / requests", lines)


def main() -> None:
    """Draw, and print."""
    parser = argparse.ArgumentParser(description="Draw the figures of one run.")
    parser.add_argument("figures", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--form", default="svg", help="svg or png")
    given = parser.parse_args()
    document = json.loads(given.figures.read_text(encoding="utf-8"))
    given.folder.mkdir(parents=True, exist_ok=True)
    measured = [axis for axis in Axis if curves(document, axis, "write", "s")]
    draw(document, "s", measured, "seconds", given.folder / f"growth-seconds.{given.form}")
    draw(
        document,
        "requests",
        [axis for axis in measured if axis in COUNTED],
        "requests",
        given.folder / f"growth-requests.{given.form}",
    )
    for act in ("write", "read"):
        show(doublings(document, act), Console(width=120))


if __name__ == "__main__":
    main()

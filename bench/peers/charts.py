"""Charts as SVG: the ratio of both peers on a logarithmic scale, with 1 in the middle.

A factor of two has the same width in both directions. The grey of the text is readable on light and dark
pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

AHEAD, BEHIND, GREY = "#2f9e8f", "#d9663a", "#777777"
ROW_PX = 20
TOP_PX = 42
PLOT_PX = 420
VALUE_PX = 56
LETTER_PX = 6.6  # approximate, of the font below
DOUBLINGS_MAX = 8  # larger ratios end at the edge; the number is next to the bar
TICKS_MAX = 9


class Bar(NamedTuple):
    label: str
    ratio: float
    low: float  # of the rounds
    high: float
    goal: float | None = None


class Scale:
    """Maps ratios to pixels."""

    def __init__(self, left_px: float, ratios: Sequence[float]) -> None:
        doublings = [math.log2(ratio) for ratio in ratios if ratio > 0]
        self._left_px = left_px
        self.low = max(-DOUBLINGS_MAX, math.floor(min([-1.0, *doublings])))
        self.high = min(DOUBLINGS_MAX, math.ceil(max([1.0, *doublings])))

    def px(self, ratio: float) -> float:
        doublings = min(self.high, max(self.low, math.log2(ratio) if ratio > 0 else self.low))
        return round(self._left_px + (doublings - self.low) / (self.high - self.low) * PLOT_PX, 1)

    def ticks(self) -> Iterator[tuple[float, str]]:
        step = -(-(self.high - self.low) // TICKS_MAX)
        for doublings in range(self.low - self.low % -step, self.high + 1, step):
            text = f"1/{2**-doublings}" if doublings < 0 else f"{2**doublings}"
            yield self.px(2.0**doublings), text


def bar_chart(bars: Sequence[Bar]) -> str:
    """Draw a bar per figure from 1 to its ratio, a thin line for the spread, and a tick for the goal."""
    left_px = _label_px([bar.label for bar in bars])
    scale = Scale(left_px, [ratio for bar in bars for ratio in (bar.ratio, bar.low, bar.high)])
    body: list[str] = []
    for number, bar in enumerate(bars):
        middle = TOP_PX + number * ROW_PX + ROW_PX / 2
        at, level = scale.px(bar.ratio), scale.px(1)
        colour = AHEAD if bar.ratio >= 1 else BEHIND
        body.append(_text(left_px - 8, middle + 4, bar.label, "end"))
        width = max(1.0, abs(at - level))
        left = min(at, level)
        body.append(f'<rect x="{left:g}" y="{middle - 6:g}" width="{width:g}" height="12" fill="{colour}"/>')
        low, high = scale.px(bar.low), scale.px(bar.high)
        body.append(_line(low, middle, high, middle, 1.5))
        if bar.goal not in (None, 1):
            body.append(_line(scale.px(bar.goal), middle - 9, scale.px(bar.goal), middle + 9, 2))
        value = f"{bar.ratio:.1f}" if bar.ratio >= 10 else f"{bar.ratio:.2f}"
        body.append(_text(max(at, high, level) + 6, middle + 4, value))
    return _chart(left_px, len(bars), scale, body)


def strip_chart(rows: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Draw a line of dots per label, one for each ratio."""
    left_px = _label_px([label for label, _ in rows])
    scale = Scale(left_px, [ratio for _, ratios in rows for ratio in ratios])
    body: list[str] = []
    for number, (label, ratios) in enumerate(rows):
        middle = TOP_PX + number * ROW_PX + ROW_PX / 2
        body.append(_text(left_px - 8, middle + 4, label, "end"))
        for ratio in ratios:
            colour = AHEAD if ratio >= 1 else BEHIND
            at = f'cx="{scale.px(ratio):g}" cy="{middle:g}"'
            body.append(f'<circle {at} r="4.5" fill="{colour}" fill-opacity="0.6"/>')
    return _chart(left_px, len(rows), scale, body)


def _chart(left_px: float, rows: int, scale: Scale, body: Sequence[str]) -> str:
    width, height = left_px + PLOT_PX + VALUE_PX, TOP_PX + rows * ROW_PX + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="Helvetica, Arial, sans-serif" font-size="12">'
    ]
    lines.append(_text(scale.px(1) - 6, 14, "behind", "end"))
    lines.append(_text(scale.px(1) + 6, 14, "times better (Ottla ahead)"))
    for at, text in scale.ticks():
        lines.append(_line(at, TOP_PX - 4, at, height - 4, 2 if text == "1" else 0.4))
        lines.append(_text(at, TOP_PX - 10, text, "middle"))
    return "\n".join([*lines, *body, "</svg>"]) + "\n"


def _label_px(labels: Sequence[str]) -> float:
    return round(LETTER_PX * max(map(len, labels)) + 24)


def _line(x1: float, y1: float, x2: float, y2: float, width: float) -> str:
    ends = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
    return f'<line {ends} stroke="{GREY}" stroke-width="{width:g}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="{GREY}" text-anchor="{anchor}">{escape(text)}</text>'

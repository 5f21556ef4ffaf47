"""`python -m benchmarks.plot TABLE.md FILE.svg`: six bars, from the table that `python -m benchmarks --against jax` prints.

The picture in the book is that of the table in `README.md`; `tests/test_documents.py` compares them.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from xml.sax.saxutils import escape

# title -> the beginning of the figures that it stands for; a bar is the geometric mean of their ratios
BARS = {
    "import": "import (",
    "eager operations": "eager",
    "trace and lower a gradient": "12 layers, value_and_grad: trace and lower (",
    "first result, empty cache": "12 layers, cold: to the first result",
    "call of a jitted function": "jit call",
    "run of a compiled function": "kernel",
}
CAPTION = "time of xlafront over that of jax; shorter is better"
ROW, LEFT, UNIT, WIDTH, TOP = 26, 190, 280, 620, 34
INK = "#747a82"  # readable on white and on black
BETTER, WORSE = "#2a9d74", "#d0683f"


def ratios_of(table: str) -> dict[str, float]:
    """Return the ratios to jax of a table of figures in Markdown: the last column but one."""
    rows = [[cell.strip() for cell in line.strip().split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")]
    return {row[0]: float(row[-2]) for row in rows if len(row) == 6 and row[-2].replace(".", "", 1).isdigit()}


def bars(ratios: dict[str, float]) -> dict[str, tuple[float, int]]:
    """Return the geometric mean of the ratios of each bar's figures, and their number, for bars that have some."""
    chosen = {title: [r for figure, r in ratios.items() if figure.startswith(start)] for title, start in BARS.items()}
    return {title: (statistics.geometric_mean(found), len(found)) for title, found in chosen.items() if found}


def picture(table: str) -> str:
    """Return an SVG without a background. Bars that end before the line at 1 are work in which xlafront takes less time."""
    rows = bars(ratios_of(table))
    height = TOP + ROW * len(rows) + 24
    line = LEFT + UNIT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="13" fill="{INK}" role="img">',
        f"<title>{escape(CAPTION)}</title>",
        f'<line x1="{LEFT}" x2="{LEFT}" y1="{TOP - 6}" y2="{height - 22}" stroke="{INK}"/>',
        f'<text x="{line}" y="{TOP - 14}" text-anchor="middle">JAX = 1</text>',
        f'<text x="{LEFT}" y="{height - 6}">{escape(CAPTION)}</text>']
    for row, (name, (ratio, count)) in enumerate(rows.items()):
        y, length, color = TOP + ROW * row, UNIT * ratio, BETTER if ratio <= 1 else WORSE
        note = f"{ratio:.2f}" + (f" (mean of {count})" if count > 1 else "")
        lines += [
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{y + 2}" width="{length:.1f}" height="{ROW - 8}" rx="2" fill="{color}"/>',
            f'<text x="{max(LEFT + length, line if ratio > 0.6 else 0) + 8:.1f}" y="{y + 15}">{note}</text>']
    lines.append(f'<line x1="{line}" x2="{line}" y1="{TOP - 6}" y2="{height - 22}" stroke="{INK}" stroke-dasharray="4 3"/>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(picture(source.read_text()))

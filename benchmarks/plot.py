"""A picture of the table: each figure's ratio to jax as a bar on a logarithmic axis."""

from __future__ import annotations

import math
from xml.sax.saxutils import escape

ROW, LEFT, WIDTH, RIGHT = 15, 330, 520, 60
LOWEST, HIGHEST = 1 / 64, 4.0


def _x(ratio: float) -> float:
    share = math.log(min(max(ratio, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return LEFT + share * WIDTH


def picture(ratios: dict[str, float], title: str) -> str:
    """An SVG: bars to the left of 1 are figures in which xlafront is better."""
    height = 70 + ROW * len(ratios)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{height}" '
        f'font-family="sans-serif" font-size="11">',
        f'<rect width="100%" height="100%" fill="white"/><text x="{LEFT}" y="18" font-size="14">{escape(title)}</text>']
    power = LOWEST
    while power <= HIGHEST:
        label = f"{power:g}×" if power >= 1 else f"1/{1 / power:.0f}"
        stroke = "#444" if power == 1 else "#ddd"
        lines.append(f'<line x1="{_x(power):.1f}" x2="{_x(power):.1f}" y1="40" y2="{height - 20}" stroke="{stroke}"/>'
                     f'<text x="{_x(power):.1f}" y="35" text-anchor="middle" fill="#444">{label}</text>')
        power *= 2
    for row, (name, ratio) in enumerate(sorted(ratios.items(), key=lambda item: item[1])):
        y, left, right = 45 + ROW * row, *sorted((_x(ratio), _x(1.0)))
        color = "#2a7f62" if ratio <= 1 else "#c1553b"
        lines.append(f'<text x="{LEFT - 6}" y="{y + 10}" text-anchor="end">{escape(name)}</text>'
                     f'<rect x="{left:.1f}" y="{y + 1}" width="{max(right - left, 1):.1f}" height="{ROW - 4}" fill="{color}"/>'
                     f'<text x="{_x(ratio) + (4 if ratio > 1 else -4):.1f}" y="{y + 10}" '
                     f'text-anchor="{"start" if ratio > 1 else "end"}" fill="#666">{ratio:.2f}</text>')
    return "\n".join([*lines, "</svg>", ""])

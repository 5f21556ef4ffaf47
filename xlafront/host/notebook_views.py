"""HTML views of values in notebooks: jaxprs, the stages of a program, meshes, sharded arrays, plans and settings.

IPython gets a function for each type, by the name of the type, so that nothing is imported before such a value is shown.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

_LINE = "border:1px solid rgba(128,128,128,.4)"
_STYLE = (f"{_LINE};border-radius:4px;padding:.3em .6em;margin:.2em 0;max-width:100%;"
          "color:inherit;background:transparent")
_PRE = "margin:.3em 0;max-height:30em;overflow:auto;color:inherit;background:transparent;line-height:1.35"
# Hues of one lightness, which can be read on white and on black.
_COLOURS = ("#4c8dd6", "#d1793b", "#3f9c5a", "#b065c9", "#c9a227", "#d4586f", "#2fa3a8", "#8a8f3c")
_MAX_OPEN_LINES = 30  # longer texts are folded


def _element(name: str, content: str, style: str = "", **attributes: str) -> str:
    """Return an element; the content is HTML."""
    style_text = f' style="{style}"' if style else ""
    return f"<{name}{style_text}{''.join(f' {k}={html.escape(v)!r}' for k, v in attributes.items())}>{content}</{name}>"


def _view(title: str, *blocks: str) -> str:
    return _element("div", _element("b", html.escape(title)) + "".join(blocks), _STYLE)


def _folded(label: str, text_html: str, lines: int) -> str:
    """Return preformatted HTML that can be folded, open if it is short."""
    opened = " open" if lines <= _MAX_OPEN_LINES else ""
    return f"<details{opened}><summary>{html.escape(label)}</summary>{_element('pre', text_html, _PRE)}</details>"


def _text(label: str, text: str) -> str:
    return _folded(label, html.escape(text), text.count("\n") + 1)


_TYPE = re.compile(r":((?:key&lt;\w+&gt;|[a-z]+\d+(?:_\w+)?|bool|float0|Ref\{.*?\})\[[^\]]*\](?:\{[^}]*\})?)")
_OPERATION = re.compile(r"(?<= = )(\w+)")


def _coloured(text: str) -> str:
    """Return the text of a jaxpr with its types and operations in colour."""
    escaped = html.escape(text, quote=False)
    escaped = _OPERATION.sub(lambda m: _element("b", m[1]), escaped)
    return _TYPE.sub(lambda m: ":" + _element("span", m[1], f"color:{_COLOURS[0]}"), escaped)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def _bar(amounts: Sequence[tuple[str, float]], limit: float | None = None) -> str:
    """Return a bar of labelled amounts of memory, in proportion to their sum or to the limit."""
    amounts = [(label, amount) for label, amount in amounts if amount > 0]
    total = sum(amount for _, amount in amounts)
    width = max(total, limit or 0.0) or 1.0
    segments = "".join(_element("div", "", f"width:{100 * amount / width:.2f}%;background:{colour};height:1em", title=(
        f"{label} {_size(amount)}")) for (label, amount), colour in zip(amounts, _COLOURS))
    legend = " &nbsp; ".join(_element("span", "&#9632;", f"color:{colour}") + html.escape(f" {label} {_size(amount)}")
                             for (label, amount), colour in zip(amounts, _COLOURS))
    return _element("div", segments, f"display:flex;width:100%;{_LINE}") + _element("small", legend)


def _table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Return a table of HTML cells."""
    cell = f"{_LINE};padding:.2em .6em;text-align:center"
    lines = [_element("tr", "".join(_element("th", x, cell) for x in head))] if head else []
    lines += [_element("tr", "".join(_element("td", x, cell) for x in row)) for row in rows]
    return _element("table", "".join(lines), "border-collapse:collapse;margin:.3em 0;color:inherit;background:transparent")


# Views


def jaxpr(value: Any) -> str:
    name = value.debug_info.function_name
    counts = ", ".join([_count(len(value.eqns), "equation"), _count(len(value.invars), "input"),
                        _count(len(value.outvars), "result")])
    text = str(value)
    return _view(f"Jaxpr of {name}: {counts}", _folded("text", _coloured(text), text.count("\n") + 1))


def traced(value: Any) -> str:
    text = str(value.jaxpr)
    return _view(f"Traced {value.fun_name}: {_count(len(value.jaxpr.eqns), 'equation')}",
                 _folded("jaxpr", _coloured(text), text.count("\n") + 1))


def lowered(value: Any) -> str:
    text = value.as_text()
    return _view(f"Lowered: {_count(len(re.findall(r'= .?stablehlo', text)), 'operation')}", _text("StableHLO", text))


def compiled(value: Any) -> str:
    memory, cost = value.memory_analysis(), value.cost_analysis() or {}
    amounts = [] if memory is None else [
        ("arguments", memory.argument_size_in_bytes), ("results", memory.output_size_in_bytes),
        ("temporary", memory.temp_size_in_bytes), ("code", memory.generated_code_size_in_bytes)]
    flops = f": {cost['flops']:.3g} flops" if cost.get("flops", 0) > 0 else ""
    return _view(f"Compiled{flops}", _bar(amounts), _text("optimized HLO", value.as_text()))


def mesh(value: Any) -> str:
    """Return a grid of the first two axes; further axes are listed in the cells."""
    shape = ", ".join(f"{name}={size}" for name, size in value.shape.items())
    types = ", ".join(f"{name}: {kind.name}" for name, kind in zip(value.axis_names, value.axis_types))
    devices = value.devices
    rows = devices.reshape(devices.shape[0], -1) if devices.ndim > 1 else devices.reshape(1, -1)
    shown = [[html.escape(str(d.id)) for d in row[:32]] for row in rows[:32]]
    truncated = "" if rows.shape[0] <= 32 and rows.shape[1] <= 32 else _element("small", "the first 32 rows and columns")
    return _view(f"Mesh({shape})", _element("div", html.escape(types)), _table(shown), truncated)


def sharding(value: Any) -> str:
    return _view(repr(value), mesh(value.mesh) if hasattr(value.mesh, "devices") else "")


def array(value: Any) -> str | None:
    """Return the array with a grid of the devices that hold its shards; None for one on one device, whose text is shown."""
    if value.is_deleted() or value.sharding.num_devices == 1:
        return None
    shards: dict[tuple, list[str]] = {}
    for device, index in value.sharding.devices_indices_map(value.shape).items():
        bounds = tuple((s.start or 0, size if s.stop is None else s.stop) for s, size in zip(index or (), value.shape))
        shards.setdefault(bounds, []).append(str(device.id))
    starts = [sorted({bounds[i] for bounds in shards}) for i in range(value.ndim)]
    rows = starts[0] if value.ndim else [()]
    grid: list[list[str]] = [[] for _ in rows]
    for i, (bounds, devices) in enumerate(sorted(shards.items())):
        row = rows.index(bounds[0]) if value.ndim else 0
        colour = _COLOURS[i % len(_COLOURS)]
        place = ", ".join(f"{start}:{stop}" for start, stop in bounds)
        grid[row].append(_element("span", html.escape(", ".join(devices)), f"color:{colour}") + _element(
            "small", f"<br>[{html.escape(place)}]"))
    title = f"{value.dtype}{list(value.shape)} over {_count(value.sharding.num_devices, 'device')}"
    table = _table(grid) if len(shards) <= 256 else _element("small", f"{len(shards)} shards")
    return _view(title, _element("div", html.escape(str(getattr(value.sharding, "spec", value.sharding)))), table,
                 _text("values", repr(value)) if value.is_fully_addressable else "")


def plan(value: Any) -> str:
    memory = value.memory
    verdict = {True: "fits", False: "does not fit", None: "needs"}[value.fits]
    limit = f" of {_size(memory.limit)}" if memory.limit else ""
    amounts = [("arguments", memory.arguments), ("results", memory.outputs - memory.donated), ("temporary", memory.temporaries),
             ("code", memory.code)]
    title = f"{value.name} on {value.topology}: {verdict}, {_size(memory.total)}{limit} on each device"
    return _view(title, _bar(amounts, memory.limit), _timeline(value.timeline), _text("plan", str(value)))


def _timeline(found: Any) -> str:
    """Return a picture of the memory over the schedule of a step: the arguments, and above them what is computed."""
    if found is None or len(found.sizes) < 2:
        return ""
    width, height, most, count = 600, 80, max(found.sizes), len(found.sizes)
    columns = min(width, count)
    bounds = [i * count // columns for i in range(columns + 1)]
    tops = [height * (1 - max(found.sizes[a:b]) / most) for a, b in zip(bounds, bounds[1:])]
    step, base = width / columns, height * (1 - found.arguments / most)
    outline = " ".join(f"{i * step:.1f},{y:.1f} {(i + 1) * step:.1f},{y:.1f}" for i, y in enumerate(tops))
    peak = found.peak / count * width
    picture = (f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
               f'<polygon points="0,{height} {outline} {width},{height}" fill="{_COLOURS[1]}"/>'
               f'<rect x="0" y="{base:.1f}" width="{width}" height="{height - base:.1f}" fill="{_COLOURS[0]}"/>'
               f'<line x1="{peak:.1f}" x2="{peak:.1f}" y1="0" y2="{height}" stroke="currentColor" stroke-dasharray="2"/></svg>')
    where = html.escape(f"{found.operation} {found.line}".strip())
    text = f"memory over the step, with arguments at the bottom; at most {_size(found.sizes[found.peak])}: {where}"
    return _element("div", picture) + _element("small", text)


def settings(value: Any) -> str:
    from xlafront.base.config import settings as table  # start-up: no cost before the first view

    rows = [(html.escape(name), html.escape(repr(setting.value)), html.escape(setting.help))
            for name, setting in sorted(table.items())]
    changed = [row for row, (_, setting) in zip(rows, sorted(table.items())) if setting.value != setting.default]
    head = ("setting", "value", "meaning")
    everything = f"<details><summary>all {len(rows)} settings</summary>{_table(rows, head)}</details>"
    return _view(f"Settings: {len(changed)} changed", _table(changed, head) if changed else "", everything)


# Modules and names of types, and their views.
VIEWS: dict[tuple[str, str], Callable[[Any], str | None]] = {
    ("xlafront.core.jaxpr", "Jaxpr"): jaxpr, ("xlafront.staging.stages", "Traced"): traced,
    ("xlafront.staging.stages", "Lowered"): lowered, ("xlafront.staging.stages", "Compiled"): compiled,
    ("xlafront.base.meshes", "Mesh"): mesh, ("jaxlib._jax", "NamedSharding"): sharding, ("jaxlib._jax", "ArrayImpl"): array,
    ("xlafront.planning.report", "Plan"): plan, ("xlafront.base.config", "Settings"): settings,
}


def register() -> None:
    """Give the views to IPython, if this is a process of IPython's."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    display = getattr(shell, "display_formatter", None)
    if display is None:
        return
    formatter = display.formatters["text/html"]
    for (module, name), view in VIEWS.items():
        formatter.for_type_by_name(module, name, view)

"""Views of shardings: the sharding that the compiler chose, and pictures of shardings in a terminal or a notebook."""

from __future__ import annotations

import importlib
import itertools
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xlafront import lowering
from xlafront.base.jaxlib_compat import ArrayImpl, GSPMDSharding, encode_inspect_sharding_callback
from xlafront.core import errors, tracing, tree
from xlafront.core.primitive import MeshRules, Primitive, Traits
from xlafront.host.callbacks import debug_effect
from xlafront.runtime.sharding import named_from_hlo, single_device
from xlafront.staging.device_assignment import unbound_sharding

# Query of the compiler


def _lower(ctx, x, *, callback):
    module = ctx.module_context
    shardings = module.sharding_context
    rank = ctx.avals_in[0].ndim
    if shardings is None or not shardings.partitioned:
        callback(single_device(shardings.assignment.devices[0] if shardings is not None else None))
        return []
    replicated, devices = shardings.assignment.replicated(), shardings.assignment.devices

    def report(hlo):  # manual in a shard_map, where each device has an array of its own
        callback(replicated if hlo.is_manual() else named_from_hlo(hlo, replicated.mesh, rank) or GSPMDSharding(devices, hlo))

    module.add_keepalive(report)
    module.cacheable = False  # the module contains the address of a function of this process
    m = lowering.mlir
    ctx.op("stablehlo.custom_call", [x], [ctx.avals_in[0]], call_target_name=m.string("InspectSharding"),
           has_side_effect=m.boolean(True), backend_config=m.ir.StringAttr.get(encode_inspect_sharding_callback(report)))
    return []


def _impl(x, *, callback):
    callback(x.sharding if isinstance(x, ArrayImpl) else unbound_sharding())
    return []


inspect_sharding_p = Primitive(
    "inspect_sharding", multiple_results=True, abstract=lambda x, *, callback: [], lower=_lower, impl=_impl,
    effects=lambda x, *, callback: frozenset((debug_effect,)),
    jvp=lambda primals, tangents, *, callback: (inspect_sharding_p.bind(*primals, callback=callback), []),
    batch=lambda size, xs, dims, *, callback: (inspect_sharding_p.bind(*xs, callback=callback), []),
    mesh=MeshRules(states_mesh_types=True), traits=Traits(memoise=False))


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], None]) -> None:
    """Call a function with the sharding of each array of a pytree; inside a compiled function, the one that the compiler chose.

    Inside a compiled function the callback runs during compilation, not in later calls.

    Args:
        value: Pytree of arrays.
        callback: Function of one sharding.

    Example:
        >>> seen = []
        >>> xf.jit(lambda x: debug.inspect_array_sharding(xnp.sin(x), callback=seen.append))(xnp.arange(4.0))
        >>> seen[0].num_devices
        1
    """
    if not callable(callback):
        raise errors.not_callable("inspect_array_sharding", callback, "callback")
    for x in tree.leaves(value):
        tracing.aval_of(x, "inspect_array_sharding")
        inspect_sharding_p.bind(x, callback=callback)


# Pictures

# Background colors with enough contrast to text, used in turn for the groups of devices.
_PALETTE = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb", "#dd8844", "#7755cc", "#44aa99",
            "#999933", "#882255")


class _Grid:
    """A table of the shards of an array, with the devices that hold each shard."""

    def __init__(self, shape: tuple[int, ...], sharding):
        if len(shape) not in (1, 2):
            raise ValueError(f"visualize_sharding draws arrays of 1 or 2 dimensions, got the shape {shape}. Reshape or index "
                             f"it first, or print its sharding.")
        holders: dict[tuple, list] = {}
        for device, index in sharding.devices_indices_map(tuple(shape)).items():
            key = tuple((s.start or 0, n if s.stop is None else s.stop) for s, n in zip(index, shape))
            holders.setdefault(key if len(shape) == 2 else ((0, 1), *key), []).append(device)
        self.shape = shape if len(shape) == 2 else (1, *shape)
        tops = sorted({rows for rows, _ in holders})
        lefts = sorted({columns for _, columns in holders})
        self.cells = [[holders.get((rows, columns), []) for columns in lefts] for rows in tops]
        self.flat = len(shape) == 1

    def labels(self) -> list[list[str]]:
        return [[_label(devices) for devices in row] for row in self.cells]

    def numbered(self) -> list[list[int]]:
        """Return a number for each cell; cells on the same devices share a number."""
        known: dict[str, int] = {}
        return [[known.setdefault(label, len(known)) for label in row] for row in self.labels()]


def _label(devices) -> str:
    ids = ",".join(map(str, sorted([d.id for d in devices])))
    return f"{devices[0].platform.upper()} {ids}" if devices else ""


def _color(number: int, count: int, color_map) -> str | None:
    """Return the color `#rrggbb` of a group of devices."""
    if color_map is None:
        return _PALETTE[number % len(_PALETTE)]
    chosen = color_map[number] if isinstance(color_map, Mapping) else color_map(number / max(count - 1, 1))
    if isinstance(chosen, str):
        return chosen
    return "#" + "".join(f"{round(255 * float(c)):02x}" for c in tuple(chosen)[:3])


def _dark(color: str) -> bool:
    red, green, blue = (int(color[i:i + 2], 16) for i in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue < 140


_LINES = 10  # height of a table; its width follows from the array's shape
_CHARACTER_RATIO = 2.5  # height of a character over its width, with line spacing


def _sizes(grid: _Grid, scale: float, min_width: int, max_width: int) -> tuple[int, list[int]]:
    """Return the height of a cell in lines and the widths of the columns, without the borders."""
    labels = grid.labels()
    rows, columns = len(labels), len(labels[0])
    high, wide = grid.shape
    height = 1 if grid.flat else max(1, int(_LINES * scale / rows) - 1)
    across = 0 if grid.flat else int(_LINES * scale * _CHARACTER_RATIO * wide / high / columns)
    width = max(min_width, min(across, max_width)) - 2
    widths = [max(1, width, *[len(row[k]) for row in labels]) for k in range(columns)]
    excess = sum(widths) + columns + 1 - max_width
    for k in range(columns):
        reduction = min(round(excess / (columns - k)), widths[k] - 1) if excess > 0 else 0
        widths[k] -= reduction
        excess -= reduction
    return height, widths


def _lines_of(label: str, width: int, height: int) -> list[str]:
    """Return the lines of a cell, with the label in the middle; a label wider than the cell is wrapped."""
    wrapped = [label] if len(label) <= width else textwrap.wrap(label.replace(",", ", "), width)
    above = (max(height, len(wrapped)) - len(wrapped)) // 2
    lines = [""] * above + [text.strip().replace(", ", ",") for text in wrapped]
    lines += [""] * (height - len(lines))
    return [" " * ((width - len(text)) // 2) + text + " " * ((width - len(text) + 1) // 2) for text in lines]


def _as_text(grid: _Grid, use_color: bool, scale: float, min_width: int, max_width: int, color_map) -> str:
    labels, numbers = grid.labels(), grid.numbered()
    height, widths = _sizes(grid, scale, min_width, max_width)
    count = 1 + max(max(row) for row in numbers)

    def line(left, middle, right):
        return left + middle.join("─" * width for width in widths) + right

    def painted(text, number):
        color = _color(number, count, color_map) if use_color else None
        if color is None or not color.startswith("#"):
            return text
        red, green, blue = (int(color[i:i + 2], 16) for i in (1, 3, 5))
        return f"\033[48;2;{red};{green};{blue}m\033[{97 if _dark(color) else 30}m{text}\033[0m"

    lines = [line("┌", "┬", "┐")]
    for i, (row, row_numbers) in enumerate(zip(labels, numbers)):
        if i:
            lines.append(line("├", "┼", "┤"))
        cells = [_lines_of(label, width, height) for label, width in zip(row, widths)]
        for texts in itertools.zip_longest(*cells):
            padded = [" " * width if text is None else text for text, width in zip(texts, widths)]
            lines.append("│" + "│".join(painted(t, n) for t, n in zip(padded, row_numbers)) + "│")
    lines.append(line("└", "┴", "┘"))
    return "\n".join(lines)


def _as_html(grid: _Grid, use_color: bool, scale: float, color_map) -> str:
    labels, numbers = grid.labels(), grid.numbered()
    count = 1 + max(max(row) for row in numbers)
    height = max(20, round((40 if grid.flat else 160) * scale / len(labels)))
    width = max(60, round(320 * scale / len(labels[0])))
    html = ['<table style="border-collapse: collapse; font-family: monospace">']
    for row, row_numbers in zip(labels, numbers):
        html.append("<tr>")
        for label, number in zip(row, row_numbers):
            style = f"border: 1px solid #888; text-align: center; width: {width}px; height: {height}px; padding: 4px"
            if use_color:
                color = _color(number, count, color_map) or "#ffffff"
                style += f"; background: {color}; color: {'white' if color.startswith('#') and _dark(color) else 'black'}"
            html.append(f'<td style="{style}">{label}</td>')
        html.append("</tr>")
    return "".join([*html, "</table>"])


def _notebook():
    """Return IPython's display module if output goes to a notebook, else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not getattr(shell, "kernel", None):
        return None
    return importlib.import_module("IPython.display")


def visualize_sharding(shape: Any, sharding: Any, *, use_color: bool = True, scale: float = 1.0, min_width: int = 9,
                       max_width: int = 80, color_map: Any = None) -> None:
    """Print which devices hold which shard of an array of this shape: a table of text, or of HTML in a notebook.

    Args:
        shape: Shape of the array, of one or two dimensions.
        sharding: Sharding of the array.
        use_color: If True, color the shards.
        scale: Factor for the size of the table.
        min_width, max_width: Minimum width of a cell and maximum width of the table, in characters.
        color_map: Colors of the groups of devices: a function of a number between 0 and 1, or a mapping from their index.

    Example:
        >>> alone = xf.sharding.SingleDeviceSharding(xf.devices()[0])
        >>> debug.visualize_sharding((4, 4), alone, use_color=False)  # doctest: +ELLIPSIS
        ┌───...
    """
    shape = tuple(int(n) for n in ((shape,) if isinstance(shape, (int, np.integer)) else shape))
    if 0 in shape:
        raise ZeroDivisionError(f"visualize_sharding draws arrays that have elements, got the shape {shape}.")
    grid = _Grid(shape, sharding)
    display = _notebook()
    if display is not None:
        display.display(display.HTML(_as_html(grid, use_color, scale, color_map)))
        return
    colored = use_color and sys.stdout.isatty()
    sys.stdout.write(_as_text(grid, colored, scale, min_width, max_width, color_map) + "\n")


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """Print which devices hold which shard of an array; inside a compiled function, for the sharding that the compiler chose.

    Args:
        arr: Array of one or two dimensions.
        kwargs: Options of `visualize_sharding`.

    Example:
        >>> debug.visualize_array_sharding(xnp.zeros((4, 4)), use_color=False)  # doctest: +ELLIPSIS
        ┌───...
    """
    shape = tuple((arr if tracing.is_convertible(arr) else tracing.aval_of(arr, "visualize_array_sharding")).shape)
    if len(shape) not in (1, 2):
        _Grid(shape, None)
    inspect_array_sharding(arr, callback=lambda sharding: visualize_sharding(shape, sharding, **kwargs))

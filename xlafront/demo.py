"""The command `python -m xlafront demo`: train a small network, data-parallel over the available devices, and draw it.

The task is to classify points of two interleaved spirals. Each step of stochastic gradient descent is one compiled function
whose batch is sharded over a mesh of devices. The same step in NumPy is timed beside it, and gradients of single examples by
`vmap(grad(loss))` beside a loop.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp

WIDTHS = (2, 64, 64, 1)
BATCH = 512
RATE, MOMENTUM = 0.2, 0.9
REPEATS = 15  # of each time; the median is shown with the range of its middle half
SHADES = " .:-=+*#%@"  # probabilities from 0 to 1 in a terminal


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random points of two spirals, and for each the index (0 or 1) of its spiral."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, count)
    angle = np.sqrt(rng.random(count)) * 3 * np.pi
    turn = angle + np.pi * label
    points = np.stack([np.cos(turn), np.sin(turn)], 1) * angle[:, None] / (3 * np.pi)
    return (points + rng.normal(0, 0.01, points.shape)).astype(np.float32), label.astype(np.float32)


def choose_devices(simulated: int) -> list:
    """Return the accelerators, or simulated CPU devices, at most one for each core; as many as divide the batch."""
    try:
        if not xf.config.read("platforms"):
            xf.config.update("num_cpu_devices", max(1, min(simulated, os.cpu_count() or 1)))
    except RuntimeError:
        pass  # the CPU client has started: use its devices
    found = xf.devices()
    return found[:max(n for n in range(1, len(found) + 1) if BATCH % n == 0)]


def initial_parameters():
    keys = xf.random.split(xf.random.key(0), len(WIDTHS) - 1)
    init = xf.nn.initializers.he_normal()
    return [{"w": init(key, (m, n)), "b": xf.numpy.zeros(n)} for key, m, n in zip(keys, WIDTHS, WIDTHS[1:])]


def predict(parameters, x):
    *hidden, last = parameters
    for layer in hidden:
        x = xf.nn.relu(x @ layer["w"] + layer["b"])
    return (x @ last["w"] + last["b"])[..., 0]


def loss(parameters, x, y):
    logits = predict(parameters, x)
    return xnp.mean(xf.nn.softplus(logits) - y * logits)


def training_step(parameters, velocities, x, y):
    value, gradient = xf.value_and_grad(loss)(parameters, x, y)
    velocities = xf.tree.map(lambda v, g: MOMENTUM * v - RATE * g, velocities, gradient)
    return xf.tree.map(lambda p, v: p + v, parameters, velocities), velocities, value


def numpy_step(parameters, velocities, x, y):
    """Compute the same step with hand-written derivatives in NumPy, for comparison."""
    inputs = []
    a = x
    for i, layer in enumerate(parameters):
        inputs.append(a)
        z = a @ layer["w"] + layer["b"]
        a = np.maximum(z, 0) if i < len(parameters) - 1 else z
    logits = a[:, 0]
    value = np.mean(np.logaddexp(logits, 0) - y * logits)
    ct = ((1 / (1 + np.exp(-logits)) - y) / len(y))[:, None]
    for i in range(len(parameters) - 1, -1, -1):
        gradient = {"w": inputs[i].T @ ct, "b": ct.sum(0)}
        if i:
            ct = ct @ parameters[i]["w"].T * (inputs[i] > 0)
        for name, g in gradient.items():
            velocities[i][name] = MOMENTUM * velocities[i][name] - RATE * g
            parameters[i][name] = parameters[i][name] + velocities[i][name]
    return parameters, velocities, value


def timed(call: Callable) -> str:
    """Return the time of a call, as the median and the range of the middle half of its repetitions."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - started))
    low, median, high = statistics.quantiles(times, n=4)
    return f"{median:.2f} ms ({low:.2f} to {high:.2f})"


def compare_gradients(parameters) -> None:
    """Time gradients of single examples: mapped by `vmap` and compiled as one function, and one by one."""
    x, y = spirals(64, 3)
    single = xf.jit(xf.grad(loss))
    mapped = xf.jit(xf.vmap(xf.grad(loss), in_axes=(None, 0, 0)))
    xf.block_until_ready((single(parameters, x[0], y[0]), mapped(parameters, x, y)))
    together = timed(lambda: xf.block_until_ready(mapped(parameters, x, y)))
    one_by_one = timed(lambda: xf.block_until_ready([single(parameters, *example) for example in zip(x, y)]))
    print(f"gradients of 64 single examples: {together} by jit(vmap(grad(loss))), {one_by_one} in a loop of jit(grad(loss))")


def show_progress(done: int, total: int, value: float) -> None:
    """Print a progress bar, redrawn in place on a terminal; print a few lines if the output is no terminal."""
    filled = 30 * done // total
    line = f"[{'#' * filled}{'.' * (30 - filled)}] step {done}/{total}  loss {value:.4f}"
    if sys.stdout.isatty():
        print(f"\r{line}", end="\n" if done == total else "", flush=True)
    elif done == total or done % max(1, total // 5) == 0:
        print(line, flush=True)


def probabilities(parameters, rows: int, columns: int) -> np.ndarray:
    """Return the probabilities of the second spiral on a grid over the plane, from the top to the bottom."""
    across, down = np.linspace(-1.1, 1.1, columns), np.linspace(1.1, -1.1, rows)
    grid = np.stack(np.meshgrid(across, down), -1).reshape(-1, 2).astype(np.float32)
    return np.asarray(xf.nn.sigmoid(predict(parameters, grid))).reshape(rows, columns)


def draw_in_terminal(parameters) -> None:
    for row in probabilities(parameters, 22, 50):
        print("  " + "".join(SHADES[min(int(p * len(SHADES)), len(SHADES) - 1)] for p in row))


def plot(losses: list[float], parameters, path: str) -> None:
    """Write an SVG: the loss over the steps, and the learned boundary with points of the two spirals."""
    side, margin, cells = 300, 50, 50
    top = max(losses)
    line = " ".join(f"{margin + side * i / max(1, len(losses) - 1):.1f},{margin + side * (1 - value / top):.1f}"
                    for i, value in enumerate(losses))
    labels = "".join(f'<text x="{margin - 8}" y="{margin + side * (1 - f) + 4:.0f}" text-anchor="end">{top * f:.2f}</text>'
                     for f in (0, 0.5, 1))
    left, cell = 2 * margin + side, side / cells
    field = "".join(
        f'<rect x="{left + j * cell:.1f}" y="{margin + i * cell:.1f}" width="{cell + 0.5:.1f}" height="{cell + 0.5:.1f}" '
        f'fill="rgb({round(90 + 165 * p)},{round(150 + 40 * (1 - abs(2 * p - 1)))},{round(255 - 165 * p)})"/>'
        for i, row in enumerate(probabilities(parameters, cells, cells)) for j, p in enumerate(row))
    points, label = spirals(200, 4)
    dots = "".join(f'<circle cx="{left + side * (u + 1.1) / 2.2:.1f}" cy="{margin + side * (1.1 - v) / 2.2:.1f}" r="2.5" '
                   f'fill="{"#8a3200" if k else "#003a8a"}"/>' for (u, v), k in zip(points, label))
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + side + margin}" height="{side + 2 * margin}" '
            f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>{labels}'
            f'<path d="M{margin} {margin}V{margin + side}H{margin + side}" fill="none" stroke="black"/>'
            f'<polyline points="{line}" fill="none" stroke="#1f6feb" stroke-width="2"/>'
            f'<text x="{margin + side / 2}" y="{margin + side + 30}" text-anchor="middle">step (of {len(losses)})</text>'
            f'<text x="{margin + side / 2}" y="30" text-anchor="middle">training loss</text>{field}{dots}'
            f'<text x="{left + side / 2}" y="30" text-anchor="middle">learned boundary</text></svg>\n')


def main(steps: int = 300, devices: int = 2, plot_path: str = "demo_loss.svg") -> int:
    chosen = choose_devices(devices)
    mesh = xf.make_mesh((len(chosen),), ("data",), devices=chosen)
    print(f"xlafront {xf.__version__}: {len(chosen)} {chosen[0].platform} device(s), batch {BATCH} sharded over them")
    replicated, sharded = xf.NamedSharding(mesh, xf.P()), xf.NamedSharding(mesh, xf.P("data"))
    x, y = spirals(steps * BATCH, 1)
    parameters = xf.device_put(initial_parameters(), replicated)
    velocities = xf.tree.map(xf.numpy.zeros_like, parameters)
    host_parameters, host_velocities = (xf.tree.map(np.array, values) for values in (parameters, velocities))
    first_batch = x[:BATCH], y[:BATCH]
    step = xf.jit(training_step)

    started = time.perf_counter()
    losses = []
    for i in range(steps):
        rows = slice(i * BATCH, (i + 1) * BATCH)
        parameters, velocities, value = step(parameters, velocities, *xf.device_put((x[rows], y[rows]), sharded))
        losses.append(value)
        if i == 0:
            value.block_until_ready()
            print(f"first step, with tracing and compiling: {time.perf_counter() - started:.2f} s")
        if i % 10 == 9 or i == steps - 1:
            show_progress(i + 1, steps, float(value))
    losses = [float(value) for value in losses]

    *_, numpy_loss = numpy_step(
        xf.tree.map(np.copy, host_parameters), xf.tree.map(np.copy, host_velocities), *first_batch)
    if abs(float(numpy_loss) - losses[0]) > 1e-3:
        print(f"the first losses differ: {losses[0]} here, {float(numpy_loss)} in NumPy")
        return 1
    test_x, test_y = spirals(2000, 2)
    local = xf.device_put(parameters, chosen[0])
    accuracy = float(np.mean((np.asarray(predict(local, test_x)) > 0) == test_y))
    print(f"accuracy on new points: {accuracy:.1%}")
    draw_in_terminal(local)
    on_devices = xf.device_put(first_batch, sharded)
    ours = timed(lambda: xf.block_until_ready(step(parameters, velocities, *on_devices)))
    print(f"a step takes {ours}, in NumPy {timed(lambda: numpy_step(host_parameters, host_velocities, *first_batch))}")
    compare_gradients(local)
    plot(losses, local, plot_path)
    print(f"loss and boundary as a picture: {plot_path}")
    return 0

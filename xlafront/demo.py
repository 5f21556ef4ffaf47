"""The command `python -m xlafront demo`: train a small network, data-parallel over the available devices.

The task is to classify points of two interleaved spirals. Each step of stochastic gradient descent is one compiled function
whose batch is sharded over a mesh of devices; the same step in NumPy is timed for comparison.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import xlafront as xf
import xlafront.numpy as xnp

WIDTHS = (2, 256, 256, 1)
BATCH = 1024
RATE, MOMENTUM = 0.2, 0.9


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random points of two spirals, and for each the index (0 or 1) of its spiral."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, count)
    angle = np.sqrt(rng.random(count)) * 3 * np.pi
    turn = angle + np.pi * label
    points = np.stack([np.cos(turn), np.sin(turn)], 1) * angle[:, None] / (3 * np.pi)
    return (points + rng.normal(0, 0.01, points.shape)).astype(np.float32), label.astype(np.float32)


def choose_devices(simulated: int) -> list:
    """Return the accelerators, or `simulated` CPU devices of this machine, as many as divide the batch."""
    try:
        if not xf.config.read("platforms"):
            xf.config.update("num_cpu_devices", simulated)
    except RuntimeError:
        pass  # the CPU client has started: use its devices
    found = xf.devices()
    return found[:max(n for n in range(1, len(found) + 1) if BATCH % n == 0)]


def initial_parameters():
    keys = xf.random.split(xf.random.key(0), len(WIDTHS) - 1)
    init = xf.nn.initializers.he_normal()
    return [{"w": init(key, (m, n)), "b": xf.numpy.zeros(n)} for key, m, n in zip(keys, WIDTHS, WIDTHS[1:])]


def make_step(mesh):
    """Return the compiled training step, `(parameters, velocities, x, y) -> (parameters, velocities, loss)`, and `predict`."""
    def predict(parameters, x):
        *hidden, last = parameters
        for layer in hidden:
            x = xf.nn.relu(x @ layer["w"] + layer["b"])
        return (x @ last["w"] + last["b"])[:, 0]

    def loss(parameters, x, y):
        logits = predict(parameters, x)
        return xnp.mean(xf.nn.softplus(logits) - y * logits)

    def step(parameters, velocities, x, y):
        value, gradient = xf.value_and_grad(loss)(parameters, x, y)
        velocities = xf.tree.map(lambda v, g: MOMENTUM * v - RATE * g, velocities, gradient)
        return xf.tree.map(lambda p, v: p + v, parameters, velocities), velocities, value

    return xf.jit(step, donate_argnums=(0, 1)), xf.jit(predict)


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


def show_progress(done: int, total: int, loss: float) -> None:
    """Print a progress bar, redrawn in place on a terminal; print a few lines if the output is no terminal."""
    filled = 30 * done // total
    line = f"[{'#' * filled}{'.' * (30 - filled)}] step {done}/{total}  loss {loss:.4f}"
    if sys.stdout.isatty():
        print(f"\r{line}", end="\n" if done == total else "", flush=True)
    elif done == total or done % max(1, total // 5) == 0:
        print(line, flush=True)


def plot(losses: list[float], path: str) -> None:
    """Write the loss over steps as an SVG plot."""
    width, height, margin = 640, 360, 50
    top = max(losses)
    points = " ".join(f"{margin + (width - 2 * margin) * i / max(1, len(losses) - 1):.1f},"
                      f"{height - margin - (height - 2 * margin) * value / top:.1f}" for i, value in enumerate(losses))
    heights = {f: height - margin - (height - 2 * margin) * f + 4 for f in (0, 0.5, 1)}
    labels = "".join(f'<text x="{margin - 8}" y="{y:.0f}" text-anchor="end">{top * f:.2f}</text>'
                     for f, y in heights.items())
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'font-family="sans-serif" font-size="12">'
            f'<rect width="100%" height="100%" fill="white"/>{labels}'
            f'<path d="M{margin} {margin}V{height - margin}H{width - margin}" fill="none" stroke="black"/>'
            f'<polyline points="{points}" fill="none" stroke="#1f6feb" stroke-width="2"/>'
            f'<text x="{width / 2}" y="{height - 12}" text-anchor="middle">step (of {len(losses)})</text>'
            f'<text x="{width / 2}" y="24" text-anchor="middle">training loss</text></svg>\n')


def main(steps: int = 300, devices: int = 4, plot_path: str = "demo_loss.svg") -> int:
    chosen = choose_devices(devices)
    mesh = xf.make_mesh((len(chosen),), ("data",), devices=chosen)
    print(f"xlafront {xf.__version__}: {len(chosen)} {chosen[0].platform} device(s), batch {BATCH} split over them")
    replicated, sharded = xf.NamedSharding(mesh, xf.P()), xf.NamedSharding(mesh, xf.P("data"))
    x, y = spirals(steps * BATCH, 1)
    parameters = xf.device_put(initial_parameters(), replicated)
    velocities = xf.tree.map(xf.numpy.zeros_like, parameters)
    host = xf.tree.map(np.array, (parameters, velocities))
    step, predict = make_step(mesh)

    def batch(i):
        rows = slice(i * BATCH, (i + 1) * BATCH)
        return xf.device_put((x[rows], y[rows]), sharded)

    started = time.perf_counter()
    parameters, velocities, loss = step(parameters, velocities, *batch(0))
    losses = [float(loss)]
    print(f"first step, with tracing and compiling: {time.perf_counter() - started:.2f} s")
    started = time.perf_counter()
    for i in range(1, steps):
        parameters, velocities, loss = step(parameters, velocities, *batch(i))
        if i % 10 == 9 or i == steps - 1:
            losses.append(float(loss))
            show_progress(i + 1, steps, losses[-1])
    ours = (time.perf_counter() - started) / max(1, steps - 1)
    count = min(steps, 30)
    started = time.perf_counter()
    for i in range(count):
        rows = slice(i * BATCH, (i + 1) * BATCH)
        *host, numpy_loss = numpy_step(host[0], host[1], x[rows], y[rows])
        if i == 0 and abs(float(numpy_loss) - losses[0]) > 1e-3:
            print(f"the first losses differ: {losses[0]} here, {float(numpy_loss)} in NumPy")
            return 1
    theirs = (time.perf_counter() - started) / count
    test_x, test_y = spirals(2000, 2)
    accuracy = float(np.mean((np.asarray(predict(parameters, test_x)) > 0) == test_y))
    plot(losses, plot_path)
    print(f"accuracy on new points: {accuracy:.1%}")
    print(f"a step takes {1e3 * ours:.2f} ms here, {1e3 * theirs:.2f} ms in NumPy")
    print(f"plot of the loss: {plot_path}")
    return 0

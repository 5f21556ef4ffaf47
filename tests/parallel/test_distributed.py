"""Programs of many processes, for real: groups of CPU processes on this machine, connected by gloo.

Each test gives its processes a script; they print JSON, which the test compares with NumPy or with the same program in
one process. Scripts that leave their group as it was run one after the other in a group that lives on. Every script has a
hard time limit.
"""

import functools
import http.server
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import textwrap
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.experimental import multihost_utils
from xlafront.parallel import distributed as module
from xlafront.runtime import clients, clusters, distributed as runtime, rendezvous

pytestmark = pytest.mark.cpu_only

ROOT = pathlib.Path(__file__).parents[2]
LIMIT = 60  # seconds that a script may take

PRELUDE = """
import json, os, signal, sys, time
import numpy as np
import xlafront as xf, xlafront.numpy as xnp
from xlafront import distributed
from xlafront.experimental import multihost_utils
from xlafront.sharding import Mesh, NamedSharding, PartitionSpec as P

me, count, port = (int(os.environ[name]) for name in ("ME", "COUNT", "PORT"))

def start(**options):
    distributed.initialize(f"127.0.0.1:{port}", count, me, **({"initialization_timeout": 30, "heartbeat_timeout_seconds": 30,
                           "shutdown_timeout_seconds": 30} | options))

def tell(**facts):
    print("FACTS", json.dumps({name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in facts.items()}),
          flush=True)

def error(call):
    try:
        call()
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return "no error"
"""


def free_port() -> int:
    """Return a port below those that the system assigns to connections, so that no other process takes it first."""
    while True:
        port = random.randrange(15000, 32000)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue


class Processes:
    """A group that runs; `finish` waits for it."""

    def __init__(self, tmp_path, script, count, devices=1, ids=None, port=None, stdin=None, **environ):
        self.started = time.monotonic()
        path = tmp_path / f"script{len(list(tmp_path.iterdir()))}.py"
        path.write_text(PRELUDE + textwrap.dedent(script))
        base = {k: v for k, v in os.environ.items() if not k.startswith(("XLAFRONT_COORD", "JAX_", "SLURM", "OMPI"))}
        base |= {"PYTHONPATH": str(ROOT), "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}", "COUNT": str(count),
                 "PORT": str(port or free_port()), "XLAFRONT_TRACEBACK_FILTERING": "off", **environ}
        self.running = [subprocess.Popen([sys.executable, str(path)], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         text=True, env=base | {"ME": str(i)}) for i in (range(count) if ids is None else ids)]

    def finish(self):
        """Return for each process: exit status, reported facts, output, seconds until all awaited processes had ended."""
        try:
            done = [(p, *p.communicate(timeout=max(1, LIMIT - (time.monotonic() - self.started)))) for p in self.running]
        finally:
            self.kill()
        return [Done(p.returncode, facts_in(out), out + err) for p, out, err in done]

    def kill(self):
        for p in self.running:
            if p.poll() is None:
                p.kill()


def facts_in(out):
    return {k: v for line in out.splitlines() if "FACTS {" in line for k, v in json.loads(line[line.index("{"):]).items()}


class Done:
    def __init__(self, status, facts, output):
        self.status, self.facts, self.output = status, facts, output


@pytest.fixture
def group(tmp_path):
    """`group(script, count, ...)` starts processes."""
    groups = []

    def start(script, count, **options):
        groups.append(Processes(tmp_path, script, count, **options))
        return groups[-1]

    yield start
    for g in groups:
        g.kill()


STAYING = """
start()
script = sys.stdin.readline()
while script:
    names = dict(globals(), start=lambda: None)
    os.environ.update(json.loads(sys.stdin.readline()))
    exec(json.loads(script), names)
    print("DONE", flush=True)
    script = sys.stdin.readline()
"""


class Crew(Processes):
    """A group that runs script after script."""

    def __init__(self, tmp_path, count, devices):
        super().__init__(tmp_path, STAYING, count, devices, stdin=subprocess.PIPE)

    def run(self, script, **environ):
        """Return the facts that each process reported."""
        watch = threading.Timer(LIMIT, self.kill)
        watch.start()
        for p in self.running:
            p.stdin.write(f"{json.dumps(textwrap.dedent(script))}\n{json.dumps(environ)}\n")
            p.stdin.flush()
        with ThreadPoolExecutor(len(self.running)) as threads:
            outputs = list(threads.map(self.received, self.running))
        watch.cancel()
        assert all(out.endswith("DONE\n") for out in outputs), "".join(p.stderr.read()[-3000:] for p in self.running)
        return [Done(0, facts_in(out), out) for out in outputs]

    @staticmethod
    def received(process):
        lines = []
        while not lines or lines[-1] not in ("", "DONE\n"):
            lines.append(process.stdout.readline())
        return "".join(lines)

    def leave(self):
        """They end together, without a word."""
        self.started = time.monotonic()
        for p in self.running:
            p.stdin.close()
            p.stdin = None
        for done in self.finish():
            assert done.status == 0 and not done.output.strip(), done.output


@pytest.fixture(scope="module")
def crews(tmp_path_factory):
    found = {}

    def of(count, devices):
        crew = found.get((count, devices))
        if crew is None or any(p.poll() is not None for p in crew.running):
            crew = found[count, devices] = Crew(tmp_path_factory.mktemp("crew"), count, devices)
        return crew

    yield of
    for crew in found.values():
        crew.leave()


def succeeded(processes):
    done = processes.finish()
    for d in done:
        assert d.status == 0, d.output[-3000:]
    return done


# Training

MODEL = """
def loss(params, x, y):
    hidden = xnp.tanh(x @ params["w"] + params["b"])
    return ((hidden @ params["v"] - y) ** 2).mean()

def step(params, x, y):
    value, gradient = xf.value_and_grad(loss)(params, x, y)
    return {name: params[name] - 0.1 * gradient[name] for name in params}, value

rng = np.random.default_rng(3)
params = {"w": rng.normal(size=(6, 8)).astype(np.float32), "b": np.zeros(8, np.float32),
          "v": rng.normal(size=(8, 2)).astype(np.float32)}
batches = [(rng.normal(size=(16, 6)).astype(np.float32), rng.normal(size=(16, 2)).astype(np.float32)) for _ in range(5)]
"""

TRAINING = MODEL + """
start()
mesh = xf.make_mesh((2, 2), ("data", "model"), (xf.sharding.AxisType.Auto,) * 2)
specs = {"w": P(None, "model"), "b": P("model"), "v": P("model", None)} if os.environ["SPLIT"] == "model" else {
    name: P() for name in params}
placed = {name: NamedSharding(mesh, spec) for name, spec in specs.items()}
axes = "data" if os.environ["SPLIT"] == "model" else ("data", "model")
params = xf.device_put(params, placed)
train = xf.jit(step, out_shardings=(placed, NamedSharding(mesh, P())), donate_argnums=0)
losses = []
for x, y in batches:
    rows = NamedSharding(mesh, P(axes))
    x, y = (xf.make_array_from_callback(a.shape, rows, lambda index, a=a: a[index]) for a in (x, y))
    params, value = train(params, x, y)
    losses.append(float(value))
tell(losses=losses, **multihost_utils.process_allgather(params, tiled=True))
"""


@functools.cache
def trained_alone():
    """The parameters and losses of the same training on one device of this process."""
    alone: dict = {"xf": xf, "xnp": xnp, "np": np}
    exec(MODEL, alone)
    params, losses, step = alone["params"], [], xf.jit(alone["step"])
    for x, y in alone["batches"]:
        params, value = step(params, x, y)
        losses.append(float(value))
    return params, losses


@pytest.mark.parametrize("count", [2, 4])
def test_training_gives_the_result_of_one_process(crews, count):
    """Data-parallel, and with parameters split over a second mesh axis; the rounding of sums is all that may differ."""
    params, losses = trained_alone()
    for split in ("data", "model"):
        done = crews(count, 4 // count).run(TRAINING, SPLIT=split)
        for d in done:
            np.testing.assert_allclose(d.facts["losses"], losses, rtol=2e-6)
            for name in params:
                np.testing.assert_allclose(d.facts[name], params[name], rtol=1e-5, atol=1e-6)
            assert d.facts == done[0].facts


PMAP_TRAINING = MODEL + """
start()
here = xf.local_device_count()
def parallel(params, x, y):
    value, gradient = xf.value_and_grad(loss)(params, x, y)
    value, gradient = xf.lax.pmean((value, gradient), "i")
    return {name: params[name] - 0.1 * gradient[name] for name in params}, value
train = xf.pmap(parallel, axis_name="i", donate_argnums=0)
params = {name: np.stack([value] * here) for name, value in params.items()}
losses = []
for x, y in batches:
    rows = [a.reshape(4, 4, -1)[here * me:][:here] for a in (x, y)]
    before = params
    params, value = train(params, *rows)
    losses.append(float(value[0]))
    assert value.shape == (here,) and params["w"].shape == (here, 6, 8) and params["w"].is_fully_addressable
assert before["w"].is_deleted()
tell(losses=losses, **{name: value[-1].tolist() for name, value in params.items()})
"""


@pytest.mark.parametrize("count", [2, 4])
def test_pmap_training_gives_the_result_of_one_process(crews, count):
    params, losses = trained_alone()
    for d in crews(count, 4 // count).run(PMAP_TRAINING):
        np.testing.assert_allclose(d.facts["losses"], losses, rtol=2e-6)
        for name in params:
            np.testing.assert_allclose(d.facts[name], params[name], rtol=1e-5, atol=1e-6)


def test_pmap_over_processes(crews):
    """Each process gives and gets the slices of its own devices."""
    script = """
    start()
    lax, pmap = xf.lax, xf.pmap
    x = np.arange(4, dtype=np.float32).reshape(2, 2) + 10 * me
    double = pmap(lambda a, k, b, *, c: (a * k + b + c, lax.psum(a, "i")), axis_name="i", static_broadcasted_argnums=1,
                  in_axes=(1, None, None), out_axes=(1, None))
    first, second = double(x, 3, np.float32(1), c=np.zeros((2, 2), np.float32))
    again = double(first, 3, np.float32(1), c=xnp.zeros((2, 2)))[0]
    tell(first=first.tolist(), second=second.tolist(), again=again.tolist(), index=pmap(lambda a: lax.axis_index("i"), axis_name="i")(
        np.zeros(2)).tolist(), ring=pmap(lambda a: lax.ppermute(a, "i", [(i, (i + 1) % 4) for i in range(4)]), axis_name="i")(x).tolist(),
        keys=pmap(lambda k: xf.random.uniform(k))(xf.random.split(xf.random.key(me), 2)).tolist(),
        own=pmap(lambda a: lax.psum(a, "i"), axis_name="i", devices=xf.local_devices())(x).tolist())
    tell(errors=[error(call) for call in (
        lambda: pmap(lambda a: a)(np.ones(4)), lambda: pmap(lambda a, b: a, in_axes=(0, 1))(np.ones(2), np.ones((2, 3))),
        lambda: pmap(lambda a: a, axis_size=2)(np.ones(2)),
        lambda: xf.jit(lambda a: lax.fori_loop(0, 2, lambda i, a: pmap(lambda a: a)(a), a))(np.ones(2)))])
    """
    for me, done in enumerate(crews(2, 2).run(script)):
        shards = [np.arange(4).reshape(2, 2) + 10 * i for i in range(2)]
        facts, x = done.facts, shards[me]
        assert facts["first"] == (x * 3 + 1).tolist() and facts["again"] == ((x * 3 + 1) * 3 + 1).tolist()
        assert facts["second"] == sum(part.sum(1) for part in shards).tolist()
        assert facts["index"] == [2 * me, 2 * me + 1] and facts["ring"] == [shards[1 - me][1].tolist(), x[0].tolist()]
        assert facts["keys"] == [float(xf.random.uniform(k)) for k in xf.random.split(xf.random.key(me), 2)]
        assert facts["own"] == [x.sum(0).tolist()] * 2
        for text, words in zip(facts["errors"], (
                ("2 devices of this process", "(4,)"), ("axis 1 of b", "(2, 3)"), ("axis_size=2", "4 devices of 2 processes"),
                ("outside of", "loop"))):
            assert text.startswith("ValueError") and all(word in text for word in words), text


def test_transformations_of_pmap_over_processes(crews):
    """Derivatives of the sum over all processes, batches, `jit` around it; what is traced, and what is compiled."""
    script = """
    start()
    lax = xf.lax
    x, w = np.arange(4, dtype=np.float32).reshape(2, 2) + 10 * me, np.float32(3)
    mapped = xf.pmap(lambda w, a: lax.psum(w * a * a, "i"), axis_name="i", in_axes=(None, 0))
    def loss(w, a):
        return (mapped(w, a) * np.array([[1], [2]], np.float32)).sum()
    def told(values):
        return [v.tolist() for v in values]
    gradient = xf.grad(loss, (0, 1))
    tangent, batched = xf.jvp(mapped, (w, x), (w, x))[1], xf.vmap(mapped, (0, 2), 1)(np.array([1, 2], np.float32), np.stack([x, -x], 2))
    one = xf.sharding.SingleDeviceSharding(xf.local_devices()[1])
    tell(gradients=[told(gradient(w, x)), told(xf.jit(gradient)(w, x)), told(gradient(w, x)), told(xf.jit(xf.jit(gradient))(w, x))],
         tangent=tangent.tolist(), batched=batched.tolist(), here=[y.is_fully_addressable for y in (tangent, batched)],
         second=float(xf.grad(xf.grad(lambda w: loss(w ** 3, x)))(w)), whole=float(xf.jit(loss)(w, x)),
         placed=len(xf.jit(lambda a: mapped(w, a), out_shardings=one)(x).devices()))
    equations = [[e.primitive.name, list(e.outvars[0].aval.shape)] for e in xf.make_jaxpr(mapped)(w, x).eqns]
    lowered = mapped.lower(w, x)
    everywhere = multihost_utils.host_local_array_to_global_array(x, Mesh(np.array(xf.devices()), ("i",)), P("i"))
    tell(equations=equations, shape=list(xf.eval_shape(mapped, w, x).shape), lowered=list(lowered.out_info.shape),
         compiled=told(s.data for s in lowered.compile()(w, everywhere).addressable_shards), given=mapped(w, everywhere).tolist(),
         keys=xf.jit(lambda k: xf.pmap(xf.random.uniform)(k))(xf.random.split(xf.random.key(me), 2)).tolist(),
         others=error(lambda: xf.pmap(lambda a: a + 1, devices=xf.local_devices(process_index=1))(x)))
    """
    squares = sum(((np.arange(4.0).reshape(2, 2) + 10 * i) ** 2).sum(0) for i in range(2))
    for me, done in enumerate(crews(2, 2).run(script)):
        facts, x = done.facts, np.arange(4.0).reshape(2, 2) + 10 * me
        # Both processes differentiate (1 + 2) times the sum over all devices.
        for dw, dx in facts["gradients"]:
            np.testing.assert_allclose(dw, 6 * squares.sum(), rtol=1e-6)
            np.testing.assert_allclose(dx, 6 * 2 * 3 * x, rtol=1e-6)
        np.testing.assert_allclose(facts["tangent"], [3 * 3 * squares] * 2, rtol=1e-6)
        np.testing.assert_allclose(facts["batched"], [[squares, 2 * squares]] * 2, rtol=1e-6)
        assert facts["here"] == [True, True] and facts["placed"] == 1
        np.testing.assert_allclose(facts["second"], 6 * squares.sum() * 6 * 3, rtol=1e-6)
        np.testing.assert_allclose(facts["whole"], 3 * 3 * squares.sum(), rtol=1e-6)
        assert [name for name, _ in facts["equations"]] == [
            *["host_local_array_to_global_array"] * 2, "jit", "global_array_to_host_local_array"]
        assert [shape for _, shape in facts["equations"]] == [[], [4, 2], [4, 2], [2, 2]]
        assert facts["shape"] == [2, 2] and facts["lowered"] == [4, 2]
        assert np.array(facts["compiled"]).tolist() == [[(3 * squares).tolist()]] * 2 and facts["given"] == [(3 * squares).tolist()] * 2
        assert facts["keys"] == [float(xf.random.uniform(k)) for k in xf.random.split(xf.random.key(me), 2)]
        assert facts["others"] == ("no error" if me else "ValueError: pmap of <lambda> was called in a process that has none of its "
                                                         "devices.")


# Arrays


def test_arrays_over_processes(crews):
    script = """
    start()
    mesh = xf.make_mesh((4,), ("x",), (xf.sharding.AxisType.Auto,))
    rows, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    table = np.arange(16, dtype=np.float32).reshape(8, 2)
    tell(ids=[xf.process_index(), xf.process_count(), xf.device_count(), xf.local_device_count(), len(xf.devices()),
              len(xf.local_devices()), xf.local_devices()[0].process_index, len(xf.local_devices(process_index=1 - me))],
         group=distributed.is_initialized(),
         local_mesh=[[d.id for d in Mesh(np.array(xf.devices())[order], "x").local_mesh.devices.flat] == [d.id for d in xf.local_devices()]
                for order in ([0, 1, 2, 3], [2, 0, 3, 1])])

    def describe(x):
        return [list(x.shape), x.is_fully_addressable, x.is_fully_replicated, [s.data.tolist() for s in x.addressable_shards],
                [[s.index[0].start, s.index[0].stop] for s in x.addressable_shards], len(x.global_shards),
                sum(s.data is None for s in x.global_shards)]

    put = xf.device_put(table, rows)
    parts = [xf.device_put(table[4 * me + 2 * i:][:2], d) for i, d in enumerate(xf.local_devices())]
    tell(put=describe(put),
         callback=describe(xf.make_array_from_callback((8, 2), rows, lambda index: table[index])),
         parts=describe(xf.make_array_from_single_device_arrays((8, 2), rows, parts)),
         local=describe(xf.make_array_from_process_local_data(rows, table[4 * me:][:4])),
         sized=describe(xf.make_array_from_process_local_data(rows, table[4 * me:][:4], (8, 2))),
         full=describe(xf.make_array_from_process_local_data(rows, table, (8, 2))))
    batch = xf.make_array_from_process_local_data({"a": rows, "b": [whole]}, {"a": [table[4 * me:][:4]] * 2, "b": [np.ones(3)]},
                                                  {"a": (8, None), "b": None})
    keys = xf.make_array_from_process_local_data(rows, xf.random.split(xf.random.key(me), 2))
    tell(batch=[describe(x) for x in batch["a"]], shape=list(batch["b"][0].shape), keys=[list(keys.shape), str(keys.dtype)])
    columns = xf.make_array_from_process_local_data(NamedSharding(mesh, P(None, "x")), table[:4, :2] + 10 * me)
    tell(columns=[list(columns.shape), [s.data.tolist() for s in columns.addressable_shards]])
    tell(text=[repr(put), str(put), f"{put}"], everywhere=repr(xf.device_put(np.float32(2), whole)),
         other=repr(xf.device_put(np.float32(2), xf.devices()[0])))

    spread = xf.device_put(put, whole)
    tell(moved=[spread.is_fully_replicated, spread.tolist(), np.asarray(xf.device_put(spread, xf.local_devices()[0])).tolist()],
         scalar=[float(put.sum()), float(put[3, 1])], local_work=float(xnp.arange(4.0).sum()),
         mixed=float((put + np.ones((8, 2), np.float32) + xnp.ones((8, 2))).sum()),
         key=xf.random.uniform(xf.device_put(xf.random.key(1), whole), (2,)).tolist())
    elsewhere = NamedSharding(Mesh(np.array(xf.local_devices(process_index=1 - me)), ("x",)), P("x"))
    tell(errors=[error(call) for call in (
        lambda: np.asarray(put), lambda: put.tolist(), lambda: xf.device_get(put), lambda: xf.device_put(put, xf.local_devices()[0]),
        lambda: xf.device_put(table + me, rows),
        lambda: xf.make_array_from_process_local_data(rows, table[:3]),
        lambda: xf.make_array_from_process_local_data(rows, table[:3], (16, 2)),
        lambda: xf.make_array_from_process_local_data({"a": rows}, {"b": table}),
        lambda: xf.make_array_from_process_local_data(elsewhere, table),
        lambda: xf.make_array_from_single_device_arrays((8, 2), rows, parts[:1]),
        lambda: distributed.initialize("127.0.0.1:1", 2, me))])
    """
    table = np.arange(16, dtype=np.float32).reshape(8, 2)
    for me, done in enumerate(crews(2, 2).run(script)):
        facts = done.facts
        assert facts["ids"] == [me, 2, 4, 2, 4, 2, me, 2] and facts["group"] and facts["local_mesh"] == [True, True]
        mine = [table[4 * me:4 * me + 2].tolist(), table[4 * me + 2:4 * me + 4].tolist()]
        for name in ("put", "callback", "parts", "local", "sized", "full"):
            ranges = [[4 * me, 4 * me + 2], [4 * me + 2, 4 * me + 4]]
            assert facts[name] == [[8, 2], False, False, mine, ranges, 4, 2], name
        assert facts["batch"] == [facts["put"]] * 2 and facts["shape"] == [3] and facts["keys"] == [[4], "key<fry>"]
        assert facts["columns"] == [[4, 4], [(table[:4, i:i + 1] + 10 * me).tolist() for i in range(2)]]
        assert all("shape=(8, 2)" in text and "'x'" in text for text in facts["text"])
        assert facts["everywhere"] == "Array(2., dtype=float32)" and "shape=()" in facts["other"] or me == 0
        assert facts["moved"] == [True, table.tolist(), table.tolist()]
        assert facts["scalar"] == [120, 7] and facts["local_work"] == 6 and facts["mixed"] == 120 + 32
        np.testing.assert_array_equal(facts["key"], np.asarray(xf.random.uniform(xf.random.key(1), (2,))))
        for text, (kind, words) in zip(facts["errors"], (
                *(("RuntimeError", ("(8, 2)", "process_allgather", "addressable_shards")),) * 3,
                ("ValueError", ("(8, 2)", "spans processes", "process_allgather")),
                ("AssertionError", ("process 0:", "process 1:", "make_array_from_process_local_data")),
                ("IndivisibleError", ("divisible",)), ("ValueError", ("(3, 2)", "(16, 2)", "dimension 0", "8 of 16", "'x'")),
                ("ValueError", ("make_array_from_process_local_data: sharding",)), ("ValueError", ("no devices of this process",)),
                ("ValueError", ("2 devices",)), ("RuntimeError", ("second time", "shutdown")))):
            assert text.startswith(kind) and all(word in text for word in words), text


SAVING = MODEL + """
start()
mesh = xf.make_mesh((4,), ("data",), (xf.sharding.AxisType.Auto,))
placed = {"w": NamedSharding(mesh, P(None, "data")), "b": NamedSharding(mesh, P()), "v": NamedSharding(mesh, P("data"))}
rows, folder = NamedSharding(mesh, P("data")), os.environ["FOLDER"]
begin, end = json.loads(os.environ["STEPS"])
if begin:
    def load(name, index):
        whole = np.full(params[name].shape, np.nan, np.float32)
        for file in os.listdir(folder):
            if file.startswith(name):
                place, part = np.load(os.path.join(folder, file), allow_pickle=True)
                whole[place] = part
        return whole[index]
    params = {name: xf.make_array_from_callback(x.shape, placed[name], lambda index, name=name: load(name, index))
              for name, x in params.items()}
params = xf.device_put(params, placed)
train = xf.jit(step, out_shardings=(placed, NamedSharding(mesh, P())), donate_argnums=0)
losses = []
for x, y in batches[begin:end]:
    here = len(x) // count
    params, value = train(params, *[xf.make_array_from_process_local_data(rows, a[here * me:][:here]) for a in (x, y)])
    losses.append(float(value))
written = 0
for name, x in params.items():
    for i, shard in enumerate(x.addressable_shards):
        if shard.replica_id == 0:
            saved = np.empty(2, object)
            saved[:] = shard.index, np.asarray(shard.data)
            np.save(os.path.join(folder, f"{name}-{me}-{i}.npy"), saved, allow_pickle=True)
            written += 1
multihost_utils.sync_global_devices("saved")
tell(losses=losses, written=written, **multihost_utils.process_allgather(params, tiled=True))
"""


def test_arrays_saved_by_two_processes_load_in_four(crews, tmp_path):
    """Each process writes the shards that it holds, once; training continues with other processes as without the change."""
    folder = tmp_path / "saved"
    folder.mkdir()
    first = crews(2, 2).run(SAVING, STEPS="[0, 2]", FOLDER=str(folder))
    assert sum(d.facts["written"] for d in first) == len(list(folder.iterdir())) == 4 + 1 + 4
    second = crews(4, 1).run(SAVING, STEPS="[2, 5]", FOLDER=str(folder))
    params, losses = trained_alone()
    np.testing.assert_allclose(first[0].facts["losses"] + second[0].facts["losses"], losses, rtol=2e-6)
    for done in second:
        for name in params:
            np.testing.assert_allclose(done.facts[name], params[name], rtol=1e-5, atol=1e-6)


# Programs whose sharded operands or results need communication: what runs in the group, and the same with NumPy.
PROGRAMS = {
    "sum": ("x.sum(0)", lambda x: x.sum(0)),
    "max": ("x.max()", lambda x: x.max()),
    "mean": ("x.mean(1)", lambda x: x.mean(1)),
    "any": ("(x > 30).any()", lambda x: (x > 30).any()),
    "transpose": ("xf.lax.with_sharding_constraint(x.T, rows)", lambda x: x.T),
    "roll": ("xnp.roll(x, 3, 0)", lambda x: np.roll(x, 3, 0)),
    "reverse": ("x[::-1]", lambda x: x[::-1]),
    "inner": ("x.T @ x", lambda x: x.T @ x),
    "outer": ("x @ x.T", lambda x: x @ x.T),
    "sort": ("xnp.sort(-x, 0)", lambda x: np.sort(-x, 0)),
    "cumsum": ("xnp.cumsum(x, 0)", lambda x: np.cumsum(x, 0)),
    "gather": ("x[xnp.array([7, 0, 3])]", lambda x: x[[7, 0, 3]]),
    "integers": ("x.astype(int).sum()", lambda x: x.astype(int).sum()),
    "complex": ("(x + 1j * x).sum(0).real", lambda x: x.sum(0)),
}


def test_programs_that_communicate(crews):
    script = """
    start()
    mesh = xf.make_mesh((4,), ("x",), (xf.sharding.AxisType.Auto,))
    rows, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    x = xf.make_array_from_callback((8, 8), rows, lambda index: np.arange(64, dtype=np.float32).reshape(8, 8)[index])
    names = {"xf": xf, "xnp": xnp, "rows": rows}
    for name, text in json.loads(os.environ["PROGRAMS"]).items():
        program = eval("lambda x: " + text, names)
        tell(**{name: np.asarray(xf.jit(program, out_shardings=whole)(x)),
                "auto_" + name: multihost_utils.process_allgather(xf.jit(program)(x), tiled=True)})
    """
    programs = json.dumps({name: text for name, (text, _) in PROGRAMS.items()})
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    for done in crews(2, 2).run(script, PROGRAMS=programs):
        for name, (_, oracle) in PROGRAMS.items():
            np.testing.assert_array_equal(done.facts[name], oracle(x), err_msg=name)
            np.testing.assert_array_equal(done.facts["auto_" + name], oracle(x), err_msg=name)


def test_the_guard_of_threads(crews):
    """Programs over processes are called in one order by all, which another thread would not keep to."""
    script = """
    import threading
    start()
    mesh = xf.make_mesh((4,), ("x",))
    x = xf.make_array_from_callback((4,), NamedSharding(mesh, P("x")), lambda index: np.ones(4, np.float32)[index])
    double, told = xf.jit(lambda x: x * 2), {}

    def elsewhere(name, call):
        thread = threading.Thread(target=lambda: told.__setitem__(name, error(call)))
        thread.start()
        thread.join()

    double(x)
    elsewhere("free", lambda: double(x))
    with xf.thread_guard(True):
        double(x)
        elsewhere("guarded", lambda: double(x))
        elsewhere("alone", lambda: xnp.ones(2) + 1)
    elsewhere("after", lambda: double(x))
    tell(**told)
    """
    for done in crews(2, 2).run(script):
        assert "thread guard" in done.facts["guarded"]
        assert [done.facts[name] for name in ("free", "alone", "after")] == ["no error"] * 3


def test_shard_map_over_processes(crews):
    """`shard_map` over the devices of several processes: collectives, and a derivative through them."""
    script = """
    start()
    lax, mesh = xf.lax, xf.make_mesh((4,), ("x",))
    rows = NamedSharding(mesh, P("x"))
    x = xf.make_array_from_process_local_data(rows, np.arange(4, dtype=np.float32) + 4 * me)
    ring = [(i, (i + 1) % 4) for i in range(4)]
    def mapped(f, out=P("x")):
        return xf.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=out)
    whole = lambda f, out=P("x"): multihost_utils.process_allgather(xf.jit(mapped(f, out))(x), tiled=True)
    tell(psum=whole(lambda a: lax.psum(a, "x"), P()), pmax=whole(lambda a: lax.pmax(a, "x"), P()),
         ppermute=whole(lambda a: lax.ppermute(a, "x", ring)), index=whole(lambda a: a + 10 * lax.axis_index("x")),
         gathered=whole(lambda a: lax.all_gather(a, "x", tiled=True)),
         scattered=whole(lambda a: lax.psum_scatter(lax.all_gather(a, "x", tiled=True), "x", tiled=True)),
         swapped=whole(lambda a: lax.all_to_all(lax.all_gather(a, "x"), "x", 0, 0).sum(0)),
         eager=multihost_utils.process_allgather(mapped(lambda a: lax.psum(a, "x"), P())(x), tiled=True))
    loss = mapped(lambda a: lax.psum(((a - lax.pmean(a, "x")) ** 2).sum(), "x"), P())
    tell(gradient=multihost_utils.process_allgather(xf.jit(xf.grad(loss), out_shardings=rows)(x), tiled=True))
    """
    x = np.arange(8, dtype=np.float32)
    shards = x.reshape(4, 2)
    for done in crews(2, 2).run(script):
        expected = {"psum": shards.sum(0), "pmax": shards.max(0), "ppermute": np.roll(x, 2), "index": x + np.repeat(np.arange(4), 2) * 10,
                    "gathered": np.tile(x, 4), "scattered": 4 * x, "swapped": 4 * x, "eager": shards.sum(0),
                    "gradient": (2 * (shards - shards.mean(0))).ravel()}
        for name, value in expected.items():
            np.testing.assert_allclose(done.facts[name], value, rtol=1e-6, err_msg=name)


# Values of the host


def test_multihost_utils(crews):
    script = """
    m, mesh = multihost_utils, xf.make_mesh((count,), ("x",))
    local = np.arange(3) + 10 * me
    gathered = m.process_allgather({"a": local, "flag": np.array([me > 0]), "half": xnp.bfloat16(me + 0.5), "s": float(me)})
    tell(stacked=gathered["a"], flags=gathered["flag"], halves=gathered["half"].astype(np.float32),
         dtypes=[str(v.dtype) for v in (gathered["a"], gathered["flag"], gathered["half"], gathered["s"])], scalars=gathered["s"],
         tiled=m.process_allgather(local, tiled=True), tiled_scalar=m.process_allgather(np.float32(me), tiled=True),
         own=m.process_allgather(xnp.full((2, 1), me)))
    odd = np.array([np.nan, -0.0, np.inf, 1e-45], np.float32)
    shared = m.broadcast_one_to_all({"n": np.int32(me - 5), "odd": odd + me, "b": np.array([me == 0])})
    tell(kinds=[type(v).__name__ for v in shared.values()], shared=[int(shared["n"]), shared["odd"].view(np.uint32).tolist(), shared["b"].tolist()],
         from_last=m.broadcast_one_to_all(local, is_source=me == count - 1))
    m.sync_global_devices("here")
    m.assert_equal({"step": 3, "rate": np.float32(0.1), "nan": np.nan})
    whole = m.host_local_array_to_global_array({"rows": local[:, None], "same": np.ones(2)}, mesh, {"rows": P("x"), "same": P()})
    back = m.global_array_to_host_local_array(whole, mesh, {"rows": P("x"), "same": P()})
    tell(shapes=[list(whole["rows"].shape), list(whole["same"].shape), list(back["rows"].shape)],
         rows=m.process_allgather(whole["rows"], tiled=True), back=[back["rows"].tolist(), back["same"].tolist()],
         kept=m.host_local_array_to_global_array(whole["rows"], mesh, P("x")) is whole["rows"],
         addressable=back["rows"].is_fully_addressable, preempted=m.reached_preemption_sync_point(0))
    with m.live_devices(xf.devices()) as alive:
        tell(alive=[d.process_index for d in alive])
    def body():
        with m.live_devices(xf.devices()):
            if me == 1:
                raise KeyError("mine")
    tell(errors=[error(call) for call in (
        lambda: m.process_allgather(np.ones(2 + me)), lambda: m.process_allgather(whole["rows"]),
        lambda: m.broadcast_one_to_all(np.ones(2), is_source=True), lambda: m.assert_equal({"step": me}, "other steps"),
        lambda: m.sync_global_devices(f"place {me}"), lambda: m.process_allgather(1.0) if me else m.assert_equal(1.0),
        lambda: m.host_local_array_to_global_array(local, mesh, None), lambda: m.live_devices([]).__enter__(), body)])
    """
    count = 4
    odd = np.array([np.nan, -0.0, np.inf, 1e-45], np.float32)
    for me, done in enumerate(crews(count, 1).run(script)):
        facts = done.facts
        local = [np.arange(3) + 10 * i for i in range(count)]
        assert facts["stacked"] == np.stack(local).tolist() and facts["tiled"] == np.concatenate(local).tolist()
        assert facts["flags"] == [[False], [True], [True], [True]] and facts["halves"] == [0.5, 1.5, 2.5, 3.5]
        assert facts["dtypes"] == ["int32", "bool", "bfloat16", "float32"] and facts["scalars"] == [0, 1, 2, 3]
        assert facts["tiled_scalar"] == [0, 1, 2, 3] and np.shape(facts["own"]) == (count, 2, 1)
        assert facts["shared"] == [-5, (odd + 0).view(np.uint32).tolist(), [True]]
        assert facts["kinds"] == ["ndarray"] * 3
        assert facts["from_last"] == local[-1].tolist()
        assert facts["shapes"] == [[3 * count, 1], [2], [3, 1]] and np.ravel(facts["rows"]).tolist() == facts["tiled"]
        assert facts["back"] == [local[me][:, None].tolist(), [1, 1]] and facts["kept"] and facts["addressable"]
        assert not facts["preempted"] and facts["alive"] == [0, 1, 2, 3]
        for text, (kind, words) in zip(facts["errors"], (
                ("ValueError", ("process 0: process_allgather of float32[2]", "process 1: process_allgather of float32[3]")),
                ("ValueError", ("(12, 1)", "tiled=True")), ("ValueError", ("4 sources", "is_source")),
                ("AssertionError", ("other steps", "process 0:", "process 3:")),
                ("AssertionError", ("place 0", "place 2")), ("E", ("process 0",)),
                ("ValueError", ("PartitionSpec", "P()")), ("ValueError", ("of this process",)),
                ("KeyError" if me == 1 else "ProcessFailureError", ("mine" if me == 1 else "processes [1]",)))):
            assert (kind == "E" or text.startswith(kind)) and all(word in text for word in words), text


def test_multihost_utils_in_one_process():
    """The same calls in a program of one process."""
    m, mesh = multihost_utils, xf.make_mesh((8,), ("x",))
    x = np.arange(8.0)
    assert m.process_allgather({"a": x})["a"].shape == (1, 8) and m.process_allgather(x, tiled=True).shape == (8,)
    np.testing.assert_array_equal(m.broadcast_one_to_all(x), x)
    m.sync_global_devices("here")
    m.assert_equal(x)
    full = m.host_local_array_to_global_array(x, mesh, xf.P("x"))
    np.testing.assert_array_equal(m.global_array_to_host_local_array(full, mesh, xf.P("x")), x)
    mesh, local = xf.make_mesh((2,), ("x",)), np.arange(16, dtype=np.float32).reshape(2, 4, 2)
    for dim in range(3):
        mapped = xf.vmap(lambda a: m.host_local_array_to_global_array(a, mesh, xf.P("x")), dim, dim)
        spec = [*mapped(local).sharding.spec, None, None][:3]
        assert spec == ([None, "x", None] if dim == 0 else ["x", None, None])
        back = xf.vmap(lambda a: m.global_array_to_host_local_array(a, mesh, xf.P()), dim, dim)
        np.testing.assert_array_equal(back(local), local)
    gradient = xf.grad(lambda a: (m.global_array_to_host_local_array(a, mesh, xf.P("x")) ** 2).sum())
    np.testing.assert_array_equal(gradient(local), 2 * local)
    np.testing.assert_array_equal(xf.jit(gradient)(local), 2 * local)
    with pytest.raises(RuntimeError, match="distributed.initialize"):
        m.reached_preemption_sync_point(1)
    with pytest.raises(RuntimeError, match="distributed.initialize"), m.live_devices(xf.devices()):
        pass
    assert not xf.distributed.is_initialized() and xf.distributed.shutdown() is None
    assert xf.process_indices() == [0]
    with pytest.warns(UserWarning, match="older name"):
        assert (xf.host_id(), xf.host_count(), xf.host_ids("cpu")) == (0, 1, [0])


def test_all_save_at_the_same_step_after_a_sigterm(group):
    script = """
    start()
    for step in range(400):
        if multihost_utils.reached_preemption_sync_point(step):
            break
        if step == 5 and me == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.02)
    tell(step=step)
    """
    first, second = succeeded(group(script, 2))
    assert first.facts["step"] == second.facts["step"] < 399


# Failures

FAILING = """
start(heartbeat_timeout_seconds=3)
mesh = xf.make_mesh((count,), ("x",))
x = xf.device_put(np.arange(8.0), NamedSharding(mesh, P("x")))
step = xf.jit(lambda x: x + 0.1 * x.sum())
for i in range(10**6):
    if i == 10 and me == int(os.environ["WHO"]):
        tell(i=i)
        exec(os.environ["HOW"])
    x = step(x).block_until_ready()
    time.sleep(0.01)
"""


def test_a_dead_process_ends_the_others(group):
    """Killed, frozen, raising; the first process or another: the others end with an error that names the cause."""
    ways = {"kill": "os.kill(os.getpid(), signal.SIGKILL)", "freeze": "os.kill(os.getpid(), signal.SIGSTOP)",
            "raise": "raise ValueError('my mistake')"}
    groups = {(how, member): group(FAILING, 2, WHO=str(member), HOW=ways[how]) for how, member in (
        ("kill", 0), ("kill", 1), ("freeze", 0), ("freeze", 1), ("raise", 1))}
    for (how, member), g in groups.items():
        rest = g.running[1 - member]
        out, err = rest.communicate(timeout=LIMIT)
        text = out + err
        assert rest.returncode not in (0, None), text
        # The start of the processes, 10 steps, 3 s without a heartbeat, and the machine may be busy.
        assert time.monotonic() - g.started < 45
        if (how, member) == ("kill", 0):  # the runtime's own message may come first, and ends the process
            assert f"process {member} (" in text or "coordination service" in text, text
            continue
        assert f"process {member} (" in text and f"pid {g.running[member].pid}) of 2" in text, text
        assert ("heartbeat_timeout_seconds=3" in text and "not been heard of" in text if how == "freeze" else
                "has ended without distributed.shutdown" in text), text
        g.running[member].kill()
        out, err = g.running[member].communicate()
        assert how != "raise" or "my mistake" in err and g.running[member].returncode != 0


FITTING = """
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from unittest import mock

def problem(address, patience, places, differing):
    number, others = places[me]
    with ExitStack() as changed:
        for what, value in differing.items() if me == 1 else ():
            changed.enter_context(mock.patch(what, value))
        return error(lambda: distributed.initialize(address, others, number, initialization_timeout=patience))

cases = {name: case for name, case in json.loads(os.environ["CASES"]).items() if me < len(case[2]) and case[2][me]}
with ThreadPoolExecutor(1 if me < 2 else len(cases)) as threads:  # the third process is alone in most of them
    tell(**dict(zip(cases, threads.map(lambda case: problem(*case), cases.values()))))
"""


def test_mismatched_processes_raise(group):
    """Each says so, as an exception, within its timeout; it may then try again."""
    taken = socket.create_server(("127.0.0.1", 0))
    fresh, there = (lambda: f"127.0.0.1:{free_port()}"), f"127.0.0.1:{taken.getsockname()[1]}"
    cases = {  # address, patience, (process_id, num_processes) of each process, what differs in the second one
        "twice": (fresh(), 30, [(0, 3), (1, 3), (1, 3)], {}),
        "missing": (fresh(), 2.5, [(0, 3), (1, 3)], {}),
        "two firsts": (fresh(), 6, [(0, 2), (0, 2)], {}),
        "version": (fresh(), 30, [(0, 2), (1, 2)], {"xlafront.base.version.__version__": "0.0.other"}),
        "jaxlib": (fresh(), 30, [(0, 2), (1, 2)], {"xlafront.base.jaxlib_compat.jaxlib_version_text": "0.9.9"}),
        "counts": (fresh(), 30, [(0, 2), (1, 3)], {}),
        "nobody": (fresh(), 1.5, [None, None, (1, 2)], {}),
        "taken": (there, 1, [None, None, (0, 2)], {}),
        "stranger": (there, 1, [None, None, (1, 2)], {}),
        "name": ("no-such-host.invalid:1234", 1, [None, None, (1, 2)], {}),
    }
    with taken:
        done = succeeded(group(FITTING, 3, CASES=json.dumps(cases)))
    received = {name: [d.facts[name] for d, place in zip(done, ranges) if place] for name, (_, _, ranges, _) in cases.items()}
    for name, words in {
            "nobody": ("RuntimeError", "found no coordinator at 127.0.0.1", "within 1.5 s", "refused", "firewall"),
            "missing": ("RuntimeError", "missing process_id 2", "joined: process 0", "process 1"),
            "twice": ("RuntimeError", "process_id 1 was given twice", "from 0 to 2"),
            "two firsts": ("RuntimeError", "process_id 0 was given twice"),
            "version": ("RuntimeError", "the version of xlafront is", "0.0.other in process 1"),
            "jaxlib": ("RuntimeError", "the version of jaxlib is", "0.9.9 in process 1"),
            "counts": ("RuntimeError", "num_processes is 2", "3 in process 1"),
            "taken": ("RuntimeError", "port", "is taken"),
            "stranger": ("RuntimeError", "found no coordinator"),
            "name": ("RuntimeError", "found no coordinator at no-such-host.invalid:1234", "name")}.items():
        for text in received[name]:
            assert all(word in text for word in words), (name, text)


def test_leaving_and_joining_again(group):
    script = """
    tell(before=[distributed.is_initialized(), distributed.shutdown()])
    start()
    tell(twice=error(start), inside=distributed.is_initialized())
    time.sleep(0.8 * me)
    distributed.shutdown()
    tell(between=distributed.is_initialized(), left=time.time())
    start()
    tell(all=multihost_utils.process_allgather(np.int32(me)), devices=xf.device_count())
    distributed.shutdown()
    tell(alone=float(xnp.arange(4.0).sum()), late=error(start))
    """
    everybody = succeeded(group(script, 2))
    assert abs(everybody[0].facts["left"] - everybody[1].facts["left"]) < 0.6  # together
    for done in everybody:
        facts = done.facts
        assert facts["before"] == [False, None] and facts["inside"] and not facts["between"] and facts["all"] == [0, 1]
        assert "second time" in facts["twice"] and facts["devices"] == 2 and facts["alone"] == 6
        assert "RuntimeError" in facts["late"] and "after the platform cpu had started" in facts["late"]


def test_mismatch_is_reported_in_all_processes(group):
    """A program stops with the same error in all processes, and they all end by themselves."""
    script = """
    start()
    mesh = xf.make_mesh((2,), ("x",), (xf.sharding.AxisType.Auto,))
    def rows(size):
        return xf.make_array_from_callback((2, size), NamedSharding(mesh, P("x")), lambda index: np.ones((1, size), np.float32))
    mapped, step = xf.pmap(lambda a, b: a + b), xf.jit(lambda batch: batch["x"].sum())
    tell(same=[mapped(np.ones((1, 2)), np.ones((1, 2))).tolist(), float(step({"x": rows(3)}))],
         pmap=error(lambda: mapped(np.ones((1, 1)), np.ones((1, 3 + me)))), jit=error(lambda: step({"x": rows(4 + me)})),
         again=float(step({"x": rows(4)})))
    from xlafront.runtime import distributed as runtime
    if me:
        time.sleep(0.5)
    import warnings
    with warnings.catch_warnings(record=True) as said:
        told = runtime.agree_soon("late", ["a: f32[2]"], [0, 1], 0.1 if not me else 5)
    tell(late=[told, [str(w.message) for w in said]])
    if not me:
        time.sleep(1.5)
    with warnings.catch_warnings(record=True) as said:
        told = runtime.agree_soon("later", [f"a: f32[{me}]"], [0, 1], 5 if not me else 0.1)
    tell(later=[told, [str(w.message) for w in said]])
    try:
        multihost_utils.assert_equal(me, 'seeds')
    finally:
        time.sleep(0.5 * me)  # who is later than process 0 says it too
    """
    for me, done in enumerate(group(script, 2).finish()):
        assert done.status == 1 and "AssertionError: seeds: the processes have different values" in done.output
        facts = done.facts
        assert facts["same"] == [[[2, 2]], 6] and facts["again"] == 8
        for text, words in ((facts["pmap"], ("process 0 with b: f32[2,3]", "process 1 with b: f32[2,4]", "same shapes")),
                            (facts["jit"], ("process 0 with batch['x']: f32[2,4]", "process 1 with batch['x']: f32[2,5]"))):
            assert text.startswith("ValueError") and all(word in text for word in words), text
        [received, messages] = facts["late"]
        assert received == {} and (messages == [] if me else "late (a: f32[2])" in messages[0] and "process 1 has not come" in messages[0])
        [received, messages] = facts["later"]  # the first process has continued, so none stops
        assert received == {} and ("process 0 has not come" in messages[0] if me else messages == [])


# Arguments, and what the environment says


@pytest.fixture
def nothing_started(monkeypatch):
    """As before the first array: `connected` holds what `initialize` would connect with."""
    connected = {}
    monkeypatch.setattr(clients.clients, "started", {})
    monkeypatch.setattr(runtime, "connect", lambda address, count, me, **rest: connected.update(
        address=address, count=count, me=me, **rest))
    for name in list(os.environ):
        if name.startswith(("SLURM", "OMPI", "TPU", "KUBERNETES", "MEGASCALE", "JAX_", "XLAFRONT_COORDINATOR", "PMIX")):
            monkeypatch.delenv(name)
    return connected


def test_arguments_of_initialize(nothing_started, monkeypatch):
    initialize = xf.distributed.initialize
    initialize("10.0.0.1:1234", 4, 2, heartbeat_timeout_seconds=7, coordinator_bind_address="0.0.0.0:1", partition_index=1)
    assert (nothing_started["address"], nothing_started["count"], nothing_started["me"]) == ("10.0.0.1:1234", 4, 2)
    assert nothing_started["heartbeat_timeout"] == 7 and nothing_started["bind_address"] == "0.0.0.0:1"
    assert nothing_started["partition_index"] == 1
    for arguments, words in (
            ({}, "coordinator_address, num_processes, process_id"), ({"coordinator_address": "a:1"}, "num_processes, process_id"),
            ({"coordinator_address": "a:1", "num_processes": 2}, "needs process_id.*XLAFRONT_PROCESS_ID"),
            ({"coordinator_address": "a:1", "num_processes": 2, "process_id": 2}, "process_id is 2 with num_processes 2"),
            ({"coordinator_address": "a:1", "num_processes": 0, "process_id": 0}, "num_processes 0"),
            ({"coordinator_address": "a:1", "num_processes": 1, "process_id": 0, "initialization_timeout": 0}, "initialization_timeout"),
            ({"cluster_detection_method": "sge"}, "'sge'.*slurm, ompi, k8s")):
        with pytest.raises(ValueError, match=words):
            initialize(**arguments)
    with pytest.raises(RuntimeError, match="'slurm'.*not started by it"):
        initialize(cluster_detection_method="slurm")
    for name, value in (("COORDINATOR_ADDRESS", "b:2"), ("NUM_PROCESSES", "3"), ("PROCESS_ID", "1")):
        monkeypatch.setenv(f"XLAFRONT_{name}", value)
    initialize()
    assert (nothing_started["address"], nothing_started["count"], nothing_started["me"]) == ("b:2", 3, 1)
    monkeypatch.setenv("XLAFRONT_PROCESS_ID", "first")
    with pytest.raises(ValueError, match="PROCESS_ID is 'first'"):
        initialize()


def test_too_late():
    xf.devices()
    with pytest.raises(RuntimeError, match="after the platform .*cpu.* had started"):
        xf.distributed.initialize("127.0.0.1:1", 1, 0)


def test_addresses():
    assert rendezvous.split_address("host:12") == ("host", 12) and rendezvous.split_address("[fd00::1]:12") == ("fd00::1", 12)
    for wrong in ("host", "host:", ":12", "host:0", "host:70000", "fd00::1:12", "host:port"):
        with pytest.raises(ValueError, match="coordinator_address.*host:port"):
            rendezvous.split_address(wrong)


def test_slurm(nothing_started, monkeypatch):
    for nodes, first in (("node1", "node1"), ("node[003-007,9]", "node003"), ("a1,b[2-3]", "a1"), ("gpu-[12,14]", "gpu-12"),
                         ("rack1-n[5]", "rack1-n5")):
        assert clusters.first_host(nodes) == first
    job = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "node[003-007]", "SLURM_NTASKS": "10",
           "SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "5", "SLURM_LOCALID": "1"}
    for name, value in job.items():
        monkeypatch.setenv(name, value)
    before = xf.config.cuda_visible_devices
    try:
        xf.distributed.initialize()
        assert xf.config.cuda_visible_devices == "1"  # a GPU for each task of the machine
        xf.distributed.initialize(local_device_ids=[2, 3])
        assert xf.config.cuda_visible_devices == "2,3"
    finally:
        xf.config.update("cuda_visible_devices", before)
    host, _, port = nothing_started["address"].partition(":")
    assert (host, nothing_started["count"], nothing_started["me"]) == ("node003", 8, 5) and 60999 < int(port) < 65536
    assert clusters.slurm(job) == clusters.slurm(job | {"SLURM_PROCID": "0", "SLURM_LOCALID": "0"})._replace(
        process_id=5, local_process_id=1)
    assert clusters.slurm({"SLURM_JOB_ID": "4711"}) is None  # an interactive shell
    with pytest.raises(RuntimeError, match="Slurm.*SLURM_PROCID is 'x'"):
        clusters.slurm(job | {"SLURM_PROCID": "x"})


def test_open_mpi():
    job = {"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
    four = clusters.open_mpi(job | {"OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911"})
    assert four.coordinator_address.startswith("10.96.0.1:") and four[1:] == (8, 5, 1)
    six = clusters.open_mpi(job | {"OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp6://[fd00::7]:34911"})
    assert six.coordinator_address.startswith("[fd00::7]:")
    five = clusters.open_mpi(job | {"PMIX_NAMESPACE": "prterun-gpu-node-17-4711@1"})
    assert five.coordinator_address.startswith("gpu-node-17:") and five[1:] == (8, 5, 1)
    assert clusters.open_mpi(job | {"PMIX_NAMESPACE": "prterun-1"}).coordinator_address is None
    assert clusters.open_mpi(job | {"OMPI_COMM_WORLD_LOCAL_SIZE": "8"}).coordinator_address.startswith("127.0.0.1:")
    assert clusters.open_mpi({}) is None


@pytest.fixture
def answers():
    """A web server: `answers[path]` is what it says, `answers["url"]` where it is."""
    messages: dict = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            found = messages.get(self.path.partition("?")[0])
            self.send_response(404 if found is None else 200)
            self.end_headers()
            messages.setdefault("requests", []).append((self.path, dict(self.headers)))
            self.wfile.write(b"" if found is None else found.encode() if isinstance(found, str) else json.dumps(found).encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    messages["url"] = f"127.0.0.1:{server.server_address[1]}"
    yield messages
    server.shutdown()


def test_cloud_tpu(answers, monkeypatch):
    gke = {"TPU_WORKER_HOSTNAMES": "t-0.svc,t-1.svc", "TPU_WORKER_ID": "1"}
    assert clusters.cloud_tpu(gke)[:3] == ("t-0.svc:8476", 2, 1)
    slices = gke | {"MEGASCALE_NUM_SLICES": "3", "MEGASCALE_SLICE_ID": "2", "MEGASCALE_COORDINATOR_ADDRESS": "s-0.svc:8081"}
    assert clusters.cloud_tpu(slices)[:3] == ("s-0.svc:8476", 6, 5)
    with pytest.raises(RuntimeError, match="MEGASCALE_COORDINATOR_ADDRESS"):
        clusters.cloud_tpu({k: v for k, v in slices.items() if "ADDRESS" not in k})
    monkeypatch.setenv("GCE_METADATA_HOST", answers["url"])
    attributes = "/computeMetadata/v1/instance/attributes/"
    answers[attributes + "worker-network-endpoints"] = "unknown:unknown:10.0.0.5,unknown:unknown:10.0.0.6"
    answers[attributes + "agent-worker-number"] = "1"
    assert clusters.cloud_tpu({}) is None  # not a machine with TPUs
    monkeypatch.setattr(clients, "has_tpu_device", lambda: True)
    assert clusters.cloud_tpu({})[:3] == ("10.0.0.5:8476", 2, 1)
    assert answers["requests"][0][1]["Metadata-Flavor"] == "Google"
    answers[attributes + "tpu-env"] = ("ACCELERATOR_TYPE: 'v4-16'\nMEGASCALE_NUM_SLICES: '2'\nMEGASCALE_SLICE_ID: '1'\n"
                                       "MEGASCALE_COORDINATOR_ADDRESS: '10.0.0.1:8080'\n")
    assert clusters.cloud_tpu({})[:3] == ("10.0.0.1:8476", 4, 3)
    del answers[attributes + "worker-network-endpoints"]
    assert clusters.cloud_tpu({}) is None and clusters.cloud_tpu({"TPU_SKIP_MDS_QUERY": "1"}) is None


def test_kubernetes(answers, tmp_path):
    (tmp_path / "namespace").write_text("training")
    (tmp_path / "token").write_text("secret\n")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_COMPLETION_INDEX": "2", "HOSTNAME": "fit-2",
               "XLAFRONT_KUBERNETES_ACCOUNT": str(tmp_path), "XLAFRONT_KUBERNETES_API": f"http://{answers['url']}"}
    core, batch = "/api/v1/namespaces/training", "/apis/batch/v1/namespaces/training"
    pod: dict = {"metadata": {"labels": {"job-name": "fit"}}, "status": {"podIP": "10.1.0.9"}}
    answers[f"{core}/pods/fit-2"] = pod
    answers[f"{batch}/jobs/fit"] = {"spec": {"completions": 4, "parallelism": 4}}
    answers[f"{core}/pods"] = {"items": [{"status": {"phase": "Failed", "podIP": "10.1.0.1"}}, {"status": {"phase": "Running", "podIP": "10.1.0.2"}}]}
    found = clusters.kubernetes(environ)
    assert found.coordinator_address.startswith("10.1.0.2:") and found[1:] == (4, 2, None)
    path, headers = answers["requests"][-1]
    assert "job-completion-index%3D0" in path and "job-name%3Dfit" in path and headers["Authorization"] == "Bearer secret"
    answers[f"{core}/pods/fit-0"] = pod
    assert clusters.kubernetes(environ | {"JOB_COMPLETION_INDEX": "0", "HOSTNAME": "fit-0"})[0].startswith("10.1.0.9:")
    pod["metadata"]["labels"] |= {"jobset.sigs.k8s.io/jobset-name": "set", "jobset.sigs.k8s.io/replicatedjob-name": "workers",
                                  "jobset.sigs.k8s.io/replicatedjob-replicas": "3", "jobset.sigs.k8s.io/job-index": "1"}
    assert clusters.kubernetes(environ)[1:3] == (12, 6)
    assert clusters.kubernetes({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) is None
    del answers[f"{core}/pods/fit-2"]
    with pytest.raises(RuntimeError, match="Kubernetes refused.*404.*service account"):
        clusters.kubernetes(environ)


def test_mpi4py_is_used_only_on_request(nothing_started, monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(RuntimeError, match="needs the package mpi4py"):
        xf.distributed.initialize(cluster_detection_method="mpi4py")
    requests = []

    class World:
        def __init__(self, rank, size):
            self.Get_rank, self.Get_size = lambda: rank, lambda: size

        def bcast(self, value, root):
            requests.append((value, root))
            return "first:61234"

        def Split_type(self, kind):
            return World(1, 2)

    world = types.SimpleNamespace(COMM_WORLD=World(5, 8), COMM_TYPE_SHARED=0)
    monkeypatch.setitem(sys.modules, "mpi4py", types.SimpleNamespace(MPI=world))
    assert clusters.detect("mpi4py") == clusters.Cluster("first:61234", 8, 5, 1) and requests == [(None, 0)]
    assert clusters.detect(None) == clusters.detect("deactivate") == clusters.Cluster(None, None, None)


def test_credentials_of_connections(tmp_path, monkeypatch):
    (tmp_path / "cert").write_text("x")
    given = {"mtls_cert_file": str(tmp_path / "cert"), "mtls_key_file": None, "verify_secure_credentials": None}
    monkeypatch.setattr(module, "HAS_MTLS", True)
    assert module._credentials(given) == {"mtls_cert_file": str(tmp_path / "cert")}
    monkeypatch.setattr(module, "HAS_MTLS", False)
    with pytest.warns(UserWarning, match="no encrypted connections"):
        assert module._credentials(given) == {}
    with pytest.raises(RuntimeError, match="insecure"):
        module._credentials(given | {"verify_secure_credentials": True})
    with pytest.raises(xf.errors.JaxRuntimeError, match="cannot read mtls_key_file"):
        module._credentials({"mtls_key_file": str(tmp_path / "nowhere")})

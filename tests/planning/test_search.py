"""The search for a mesh, on simulated devices: candidates, their costs, and how it ends."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import P
from xlafront.planning import placements, worker
from xlafront.planning.placements import Leaf
from xlafront.planning.topologies import TopologyDescription

pytestmark = pytest.mark.cpu_only

WIDTH, HIDDEN, ROWS = 256, 1024, 64


def struct(*shape, dtype="float32", sharding=None):
    return xf.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def loss(params, x):
    return xnp.mean((xnp.tanh(x @ params["up"]) @ params["down"] - x) ** 2)


def train_step(params, x):
    value, gradient = xf.value_and_grad(loss)(params, x)
    return xf.tree.map(lambda p, g: p - 0.1 * g, params, gradient), value


ARGUMENTS = {"up": struct(WIDTH, HIDDEN), "down": struct(HIDDEN, WIDTH)}, struct(ROWS, WIDTH)


def devices(count):
    return TopologyDescription(xf.devices("cpu")[:count])


@pytest.fixture(scope="module")
def found():
    return xf.plan_search(train_step, *ARGUMENTS, topology=devices(4), compiled=1, workers=1)


def test_all_meshes_of_the_devices_are_candidates(found):
    sizes = {tuple(c.mesh.values()) for c in found.candidates}
    assert sizes == {(a, b, c) for a in (1, 2, 4) for b in (1, 2, 4) for c in (1, 2, 4) if a * b * c == 4}
    assert found.stopped is None and [c.is_compiled for c in found.candidates] == [True] + [False] * 5


def test_memory_of_arguments_is_that_of_their_shards(found):
    state = 4 * 2 * WIDTH * HIDDEN
    for c in found.candidates:
        shards = c.mesh["fsdp"] * c.mesh["model"]
        rows = c.mesh["data"] * c.mesh["fsdp"]
        assert c.memory.arguments == state // shards + 4 * ROWS * WIDTH // rows, c.mesh


def test_the_collectives_are_those_of_the_mesh(found):
    by_mesh = {tuple(c.mesh.values()): c for c in found.candidates}
    assert by_mesh[4, 1, 1].specs["params['up']"] == P() and by_mesh[4, 1, 1].specs["x"] == P("data")
    assert by_mesh[1, 1, 4].specs == {"params['up']": P(None, "model"), "params['down']": P("model"), "x": P(None)}
    assert by_mesh[1, 4, 1].specs == {"params['up']": P(None, "fsdp"), "params['down']": P("fsdp"), "x": P("fsdp")}


def test_the_printed_program_shards_the_arguments(found):
    scope = {"xf": xf}
    exec(found.code(), scope)  # what a user pastes
    best = found.best
    sizes = {name: n for name, n in best.mesh.items() if n > 1}
    assert dict(scope["mesh"].shape) == sizes
    shardings = scope["shardings"]("params", ARGUMENTS[0])
    for name, sharding in shardings.items():
        shards = placements.shard_count(best.specs[f"params['{name}']"], best.mesh)
        assert math.prod(sharding.shard_shape(ARGUMENTS[0][name].shape)) == WIDTH * HIDDEN // shards
    x = xf.device_put(xnp.ones((ROWS, WIDTH)), scope["shardings"]("x", ARGUMENTS[1]))
    params = xf.device_put({"up": xnp.ones((WIDTH, HIDDEN)), "down": xnp.ones((HIDDEN, WIDTH))}, shardings)
    assert xnp.isfinite(xf.jit(train_step)(params, x)[1])


def test_the_table_and_the_numbers_agree(found):
    read = json.loads(found.to_json())
    assert read["candidates"][0]["mesh"] == found.best.mesh and read["code"] == found.code()
    text = str(found)
    assert text.count("partitioned\n") == 5 and "6 meshes, 1 of them compiled" in text and "import re\n\nAUTO = " in text


def test_rules_and_given_specs_come_first():
    params = {"up": struct(WIDTH, HIDDEN, sharding=P("model")), "down": struct(HIDDEN, WIDTH)}
    found = xf.plan_search(train_step, params, ARGUMENTS[1], topology=devices(2), compiled=0, workers=1,
                           rules={r"\['down'\]$": P(None, "model"), "^x$": P("data")})
    assert {tuple(c.mesh) for c in found.candidates} == {("data", "model")}  # the axes that specs name
    for c in found.candidates:
        assert c.specs == {"params['up']": P("model"), "params['down']": P(None, "model"), "x": P("data")}


def test_a_function_of_a_mesh_is_called_with_each():
    def step_for(mesh):
        rows = 8 * mesh.shape["data"]
        return xf.jit(train_step), (ARGUMENTS[0], struct(rows, WIDTH, sharding=P("data")))

    found = xf.plan_search(lambda mesh: step_for(mesh), topology=devices(2), axes=("data", "model"), compiled=0, workers=1)
    assert {(c.mesh["data"], c.count.number, c.count.what) for c in found.candidates} == {
        (1, 8, "examples"), (2, 16, "examples")}


def test_collectives_have_the_dtypes_of_the_program():
    """The CPU's compiler sums and gathers 16 bits as 32; the bytes are those of the program."""
    def step(w, x):
        return w - xf.grad(lambda w: xnp.sum((x.astype("bfloat16") @ w.astype("bfloat16")).astype("float32") ** 2))(w)

    [found] = xf.plan_search(step, *[struct(n, m, sharding=P("fsdp")) for n, m in ((WIDTH, HIDDEN), (ROWS, WIDTH))],
                             topology=devices(2), compiled=0, workers=1).candidates
    assert found.mesh == {"fsdp": 2}
    assert found.dominant.types == f"bf16[{WIDTH},{HIDDEN}]" and found.dominant.bytes == 2 * WIDTH * HIDDEN


def test_random_keys_are_arguments():
    def step(w, key, x):
        return w - xf.grad(lambda w: xnp.mean((x @ w + xf.random.normal(key, x.shape)) ** 2))(w)

    key = xf.eval_shape(lambda: xf.random.key(0))
    [found] = xf.plan_search(step, struct(WIDTH, WIDTH), key, struct(ROWS, WIDTH), topology=devices(2), axes=("data",), compiled=0,
                             workers=1).candidates
    assert found.specs == {"w": P(), "key": P(), "x": P("data")} and found.count == (ROWS, "examples")
    assert found.memory.arguments == 4 * WIDTH * WIDTH + 8 + 4 * ROWS * WIDTH // 2


def test_meshes_that_do_not_divide_are_left_out():
    found = xf.plan_search(train_step, ARGUMENTS[0], struct(6, WIDTH), topology=devices(4), axes=("data", "model"), compiled=0,
                           workers=1)
    assert {c.mesh["data"] for c in found.candidates} == {1, 2}
    assert found.excluded == {"x of shape (6, 256) is not divisible": 1}


def test_meshes_that_the_step_refuses_are_left_out():
    def step_for(mesh):
        def step(w, x):
            inner = xf.shard_map(lambda x: x * 2, mesh=mesh, in_specs=P("model"), out_specs=P("model"))
            return w - xf.grad(lambda w: xnp.sum(inner((x @ w)[:2])))(w)

        return step, (struct(WIDTH, WIDTH), struct(ROWS, WIDTH))

    found = xf.plan_search(lambda mesh: step_for(mesh), topology=devices(4), axes=("data", "model"), compiled=0, workers=1)
    assert {c.mesh["model"] for c in found.candidates} == {1, 2}  # 2 rows are not divisible by 4
    assert found.excluded == {"the step cannot be traced over the mesh": 1}


def test_a_step_that_no_mesh_can_run_raises_its_error():
    def step(w, x):
        raise ValueError("the step is wrong")

    with pytest.raises(ValueError, match="the step is wrong"):
        xf.plan_search(step, *ARGUMENTS, topology=devices(2), workers=1)


def test_a_limit_that_nothing_meets_names_the_excess():
    found = xf.plan_search(train_step, *ARGUMENTS, topology=devices(2), memory_limit=5 * WIDTH * HIDDEN, compiled=1, workers=1)
    assert found.best is None and found.code() == ""
    assert re.search(r"No mesh fits: the best needs .* of 1.25 MiB on each device, [\d.]+ times what there is\. More chips",
                     str(found))
    nothing = xf.plan_search(train_step, *ARGUMENTS, topology=devices(2), memory_limit=1000, workers=1)
    assert not nothing.candidates and "the arguments alone take 1.03 MiB" in str(nothing)


def test_the_time_limit_ends_a_search():
    started = time.monotonic()
    found = xf.plan_search(train_step, *ARGUMENTS, topology=devices(8), time_limit=0.0, workers=1)
    assert found.stopped == "after 0 s (time_limit)" and time.monotonic() - started < 60
    assert len(found.candidates) == 0 or found.best is not None


def test_unknown_topologies_name_those_there_are():
    with pytest.raises(ValueError, match="there is no topology 'v9:4x4'. Known are TPU slices v2"):
        xf.plan_search(train_step, *ARGUMENTS, topology="v9:4x4")


# Placements


def test_meshes_are_all_factorizations():
    found = list(placements.meshes(12, ("a", "b", "c")))
    brute = {(a, b, c) for a in range(1, 13) for b in range(1, 13) for c in range(1, 13) if a * b * c == 12}
    assert len(found) == len(brute) and {tuple(sizes.values()) for sizes in found} == brute


def test_model_splits_what_is_within_a_layer():
    """As Megatron-LM does: heads, hidden units and words, so that a layer needs one sum at its end."""
    shapes = {"qkv": (3, 512, 8, 64), "out": (8, 64, 512), "up": (512, 2048), "down": (2048, 512), "words": (4096, 512)}
    leaves = [Leaf(name, shape, 4, None, True) for name, shape in shapes.items()]
    width = placements.width(leaves)
    assert width == 512
    specs = {leaf.path: placements.spec_of(leaf, {"fsdp": 2, "model": 4}, {}, width) for leaf in leaves}
    assert specs == {"qkv": P(None, "fsdp", "model"), "out": P("model", None, "fsdp"), "up": P("fsdp", "model"),
                     "down": P("model", "fsdp"), "words": P("model", "fsdp")}


def test_experts_and_sequences_have_axes_of_their_own():
    experts = Leaf("experts", (8, 512, 2048), 4, None, True)
    assert placements.spec_of(experts, {"expert": 8, "model": 2}, {}, 512) == P("expert", None, "model")
    tokens = Leaf("tokens", (16, 1024), 4, None, False)
    assert placements.spec_of(tokens, {"data": 2, "fsdp": 4, "sequence": 8}, {}, 512) == P(("data", "fsdp"), "sequence")
    assert placements.spec_of(tokens._replace(shape=(4, 1024)), {"data": 2, "fsdp": 4}, {}, 512) is None


# Processes


def job_of(fun, *args):
    import io

    import numpy as np

    from xlafront.runtime.compile_options import get_compile_options

    module = xf.jit(fun).lower(*args)._lowered.module_context.module
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    options = get_compile_options(1, 1, np.zeros((1, 1), int)).SerializeAsString()
    return worker.Job(written.getvalue(), options, devices(1).serialize(), 1, False)


def results_of(pool, jobs):
    import queue

    done = queue.SimpleQueue()
    for job in jobs:
        pool.submit(job, done.put)
    return [done.get(timeout=120) for _ in jobs]


def test_a_compiler_that_ends_its_process_ends_one_job():
    job = job_of(lambda x: x + 1, 1.0)
    pool = worker.Workers(1, 1)
    try:
        [first] = results_of(pool, [job])
        assert isinstance(first, worker.Compiled) and "add" in first.text
        [process] = pool._processes
        process.kill()
        [second] = results_of(pool, [job])
        assert isinstance(second, worker.Failed) and "was killed" in second.message
        [third] = results_of(pool, [job])
        assert isinstance(third, worker.Compiled)
    finally:
        pool.close()


def test_a_program_that_jaxlib_cannot_read_keeps_its_partitioned_cost(monkeypatch):
    submit = worker.Workers.submit

    def unread(pool, job, done):
        submit(pool, job, done if job.partition_only else lambda result: done(
            result._replace(text="", memory=(100, 20, 10, 3, 1))))

    monkeypatch.setattr(worker.Workers, "submit", unread)
    result = xf.plan_search(train_step, *ARGUMENTS, topology=devices(2), compiled=1, workers=1)
    [compiled] = [c for c in result.candidates if c.is_compiled]
    assert compiled.failure is None and compiled.memory.total == 100 + 20 - 10 + 3 + 1 and compiled.dominant is not None


def test_programs_that_cannot_be_compiled_say_why():
    job = job_of(lambda x: x + 1, 1.0)
    pool = worker.Workers(1, 1)
    try:
        bad, good = results_of(pool, [job._replace(module=b"nothing"), job])
    finally:
        pool.close()
    assert isinstance(bad, worker.Failed) and isinstance(good, worker.Compiled)


def test_a_program_is_compiled_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XLAFRONT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("XLAFRONT_ENABLE_COMPILATION_CACHE", "1")
    monkeypatch.setenv("XLAFRONT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS", "0")
    job = job_of(lambda x: xnp.sin(x) * 2, 1.0)
    pool = worker.Workers(1, 1)
    try:
        first, second = results_of(pool, [job, job])
    finally:
        pool.close()
    assert not first.cached and second.cached and first.text == second.text and first.memory == second.memory


# The command line


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent("""
        import xlafront as xf
        import xlafront.numpy as xnp

        def train_step(w, x):
            return w - 0.1 * xf.grad(lambda w: xnp.mean((x @ w) ** 2))(w)

        def train_step_args():
            return xf.ShapeDtypeStruct((256, 256), "float32"), xf.ShapeDtypeStruct((64, 256), "float32")

        rules = {"^w$": xf.P("model")}
        wrong = ["w"]
    """))
    return path


def command(*arguments):
    return subprocess.run([sys.executable, "-m", "xlafront", "plan", *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize("arguments, message", [
    ([], "--search needs --topology"),
    (["--topology", "v5e:2x2", "--mesh", "data=4"], "--search finds the mesh: leave out --mesh"),
    (["--topology", "v9:2x2"], "there is no topology 'v9:2x2'"),
    (["--topology", "v5e:2x2", "--rules", "wrong"], "has to define wrong as a dictionary from regular expressions"),
])
def test_wrong_options_say_what_to_give(script, arguments, message):
    done = command(f"{script}:train_step", "--search", *arguments)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_an_interrupt_prints_the_best_so_far(tmp_path):
    program = tmp_path / "search.py"
    program.write_text(textwrap.dedent(f"""
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which a parent in the background ignores
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import xlafront as xf
        from test_search import ARGUMENTS, devices, train_step
        print(xf.plan_search(train_step, *ARGUMENTS, topology=devices(8), progress=lambda line: print(line, flush=True),
                             workers=1))
    """))
    process = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)
    assert re.match("1 of 10 meshes partitioned", process.stdout.readline())
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[0]
    assert process.returncode == 0 and "The search was stopped by an interrupt" in rest and "import re\n\nAUTO = " in rest

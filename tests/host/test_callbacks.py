"""Python callbacks of compiled programs: arguments, number and order of calls, and errors."""

import functools
import gc
import io
import logging
import re
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental import io_callback
from xlafront.experimental.buffer_callback import buffer_callback

F32 = np.dtype("float32")
scalar = xf.ShapeDtypeStruct((), F32)


def lines(capsys) -> list[str]:
    xf.effects_barrier()
    return capsys.readouterr().out.splitlines()


def both_ways(f):
    return pytest.mark.parametrize("way", [lambda f: f, xf.jit], ids=["eager", "jit"])(f)


# pure_callback


@both_ways
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32", "uint8", "bool", "complex64", "int4"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2), (1,)])
def test_arrays_arrive_and_return(way, dtype, shape, rng):
    x = xnp.asarray(rng.integers(0, 2, shape)).astype(dtype)
    seen = []

    def reverse(a, b):
        seen.append((a.shape, a.dtype, isinstance(a, xf.Array)))
        return {"flipped": np.asarray(a).T, "sum": np.asarray(a) + np.asarray(b)}

    promised = {"flipped": xf.ShapeDtypeStruct(shape[::-1], x.dtype), "sum": xf.ShapeDtypeStruct(shape, x.dtype)}
    got = way(lambda x: xf.pure_callback(reverse, promised, x, b=x))(x)
    assert seen == [(shape, x.dtype, True)] or not x.size  # XLA need not compute arrays without elements
    assert (np.asarray(got["flipped"]) == np.asarray(x).T).all() and got["flipped"].dtype == x.dtype
    assert (np.asarray(got["sum"]) == np.asarray(x) + np.asarray(x)).all()


def test_sub_byte_elements_are_passed_as_bytes_on_gpus():
    """In device memory they are packed."""
    x = np.arange(3).astype("int4")
    program = xf.jit(lambda x: xf.pure_callback(lambda x, y: x, x, x, xnp.float32(1)))
    text = program.trace(x).lower(lowering_platforms=("cuda",)).as_text()
    assert "-> tensor<3xi4>" in text and re.search(r"python_gpu_callback.*: \(tensor<3xi8>, tensor<f32>\) -> tensor<3xi8>", text)


def test_unused_pure_callback_is_eliminated():
    calls = []

    def f(x):
        xf.pure_callback(lambda x: calls.append(1) or np.asarray(x), x, x)
        return x

    xf.jit(f)(1.0).block_until_ready()
    assert not calls


def test_arguments_outlive_the_call():
    collected = []
    f = xf.jit(lambda x: xf.pure_callback(lambda a: collected.append(a) or np.float32(0), scalar, x))
    for i in range(5):
        f(xnp.full(100, float(i))).block_until_ready()
    assert [float(a.sum()) for a in collected] == [100.0 * i for i in range(5)]


@both_ways
def test_returned_arrays_are_copied(way):
    buffer, argument, collected = np.zeros(64, F32), np.zeros(64, F32), []

    def fill(x):
        collected.append(x)
        buffer[:] += 1
        return buffer

    f = way(lambda x: xf.pure_callback(fill, xf.ShapeDtypeStruct((64,), F32), x))
    results = []
    for i in range(3):
        argument[:] = i
        results.append(f(argument).block_until_ready())
    assert [float(x[0]) for x in results] == [1, 2, 3] and [float(x[0]) for x in collected] == [0, 1, 2]


VMAP_SHAPES = {"sequential": [((3,), ())] * 4, "sequential_unrolled": [((3,), ())] * 4, "expand_dims": [((4, 3), (1,))],
               "broadcast_all": [((4, 3), (4,))], "legacy_vectorized": [((4, 3), ())]}


@both_ways
@pytest.mark.parametrize("method", VMAP_SHAPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_vmap_methods(way, method, axis, rng):
    seen = []

    def add(x, y):
        seen.append((x.shape, y.shape))
        x, y = np.asarray(x), np.asarray(y)
        return x + y.reshape(y.shape + (1,) * (x.ndim - y.ndim))

    x, y = rng.normal(size=(4, 3) if axis == 0 else (3, 4)).astype(F32), F32.type(2.5)
    mapped = xf.vmap(lambda x, y: xf.pure_callback(add, xf.ShapeDtypeStruct((3,), F32), x, y, vmap_method=method), (axis, None))
    np.testing.assert_allclose(way(mapped)(x, y), np.moveaxis(x, axis, 0) + 2.5)
    assert seen == VMAP_SHAPES[method]


def test_vmap_of_vmap_and_empty_batches():
    f = xf.vmap(xf.vmap(lambda x, y: xf.pure_callback(lambda x, y: np.asarray(x * y), scalar, x, y, vmap_method="expand_dims"),
                        (0, None)), (None, 0))
    np.testing.assert_allclose(f(xnp.arange(3.0), xnp.arange(2.0)), np.outer(np.arange(2), np.arange(3)))
    for method in ("sequential", "broadcast_all"):
        empty = xf.vmap(lambda x: xf.pure_callback(lambda x: np.asarray(x), x, x, vmap_method=method))(xnp.zeros((0, 2)))
        assert empty.shape == (0, 2)


def test_vmap_needs_a_method():
    with pytest.raises(NotImplementedError, match="vmap_method='sequential'"):
        xf.vmap(lambda x: xf.pure_callback(lambda x: x, x, x))(xnp.ones(2))
    with pytest.raises(ValueError, match="'sometimes'"):
        xf.pure_callback(lambda x: x, scalar, 1.0, vmap_method="sometimes")


def test_derivatives():
    def f(x):
        return xf.pure_callback(lambda x: np.sin(np.asarray(x)), scalar, x)

    with pytest.raises(ValueError, match="pure_callback cannot be differentiated"):
        xf.grad(f)(1.0)
    with pytest.raises(ValueError, match="io_callback cannot be differentiated"):
        xf.jit(xf.grad(lambda x: io_callback(np.sin, scalar, x)))(1.0)
    # Where the callback's value is constant for the differentiation, it is just a number.
    for way in (xf.grad, lambda g: xf.jit(xf.grad(g))):
        np.testing.assert_allclose(way(lambda x: f(lax.stop_gradient(x)) * x)(2.0), np.sin(2.0), rtol=1e-6)
        np.testing.assert_allclose(way(lambda x: f(3.0) * x)(2.0), np.sin(3.0), rtol=1e-6)


BAD_RESULTS = {
    "shape": (lambda x: np.zeros(4, F32), r"float32\[4\]"), "dtype": (lambda x: np.zeros(3, "int32"), r"int32\[3\]"),
    "structure": (lambda x: (x, x), "result_shape_dtypes"), "raises": (lambda x: [][1], "list index out of range"),
}


@both_ways
@pytest.mark.parametrize("kind", BAD_RESULTS)
@pytest.mark.parametrize("user", [xf.pure_callback, io_callback])
def test_errors_of_the_function_are_reported(way, kind, user):
    function, message = BAD_RESULTS[kind]
    f = way(lambda x: user(function, xf.ShapeDtypeStruct((3,), F32), x))
    with pytest.raises(xf.errors.JaxRuntimeError, match=message):
        xf.block_until_ready(f(xnp.ones(3)))
        xf.effects_barrier()
    try:
        xf.effects_barrier()
    except xf.errors.JaxRuntimeError:  # of the same call, where the failure was met twice
        pass


def test_results_are_converted_to_arrays():
    assert xf.pure_callback(lambda x: np.zeros(3, "float64"), xf.ShapeDtypeStruct((3,), F32), 1).dtype == F32
    assert xf.pure_callback(lambda x: 2.5, scalar, 1) == 2.5
    assert xf.pure_callback(lambda x: [x, x], (scalar, scalar), 1.0) == (1.0, 1.0)
    assert xf.pure_callback(lambda: None, None) is None


@pytest.mark.parametrize("call, error, message", [
    (lambda: xf.pure_callback(np.sin, scalar, "word"), TypeError, "'word'"),
    (lambda: io_callback(np.sin, scalar, x=[1.0, "word"]), TypeError, r"\['x'\]\[1\]"),
    (lambda: xf.pure_callback(np.sin, 3.0, 1.0), AttributeError, "result_shape_dtypes"),
    (lambda: xf.pure_callback(np.sin, xf.ShapeDtypeStruct((), "float64"), 1.0), ValueError, "enable_x64"),
    (lambda: xf.pure_callback(3, scalar, 1.0), TypeError, "int"),
    (lambda: xf.pure_callback(np.sin, scalar, 1.0, sharding="here"), NotImplementedError, "SingleDeviceSharding"),
    (lambda: xf.vmap(lambda x: io_callback(np.sin, x, x, ordered=True))(xnp.ones(2)), ValueError, "ordered"),
])
def test_bad_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_callbacks_are_freed_with_their_functions():
    class Function:
        def __call__(self, x):
            return np.asarray(x)

    def use():
        function = Function()
        xf.jit(lambda x: xf.pure_callback(function, scalar, x))(1.0)
        xf.jit(lambda x: io_callback(function, scalar, x, ordered=True))(1.0)
        xf.pure_callback(function, scalar, 1.0)
        xf.debug.callback(function, 1.0)
        xf.effects_barrier()
        return weakref.ref(function)

    references = [use() for _ in range(3)]
    gc.collect()
    gc.collect()
    assert [r() for r in references] == [None] * 3


def test_callbacks_can_run_compiled_functions():
    """They run on XLA's threads while the main thread waits."""
    product = xf.jit(lambda a: xnp.tanh(a @ a))

    def work(a):
        return np.asarray(product(a) + xf.grad(lambda z: (z ** 2).sum())(a))

    def program(a):
        for _ in range(3):
            a = xf.pure_callback(work, a, a)
        return a

    a = np.full((200, 200), 0.001, F32)
    expected = a
    for _ in range(3):
        expected = np.tanh(expected @ expected) + 2 * expected
    f = xf.jit(program)
    np.testing.assert_allclose(f(a), expected, rtol=1e-4)
    threads = [threading.Thread(target=lambda: [f(a).block_until_ready() for _ in range(3)]) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive()


def test_one_thread_is_enough():
    """A callback that computes must not wait for its own thread."""
    code = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy as np, xlafront as xf, xlafront.numpy as xnp
from xlafront.experimental import io_callback
from xlafront.experimental.buffer_callback import buffer_callback
a = xnp.ones((300, 300)) / 300
f = xf.jit(lambda a: (io_callback(lambda a: np.asarray((a @ a).sum()), xf.ShapeDtypeStruct((), 'float32'), a), a @ a)[1])
for _ in range(10):
    a = f(a)
print(round(float(a.sum())))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["300"], done.stderr


# io_callback and order


def test_unused_io_callback_is_called():
    calls = []
    f = xf.jit(lambda x: io_callback(lambda v: calls.append(float(v)), None, x))
    for i in range(3):
        f(float(i))
    xf.effects_barrier()
    assert sorted(calls) == [0.0, 1.0, 2.0]
    assert str(xf.make_jaxpr(lambda x: io_callback(print, None, x, ordered=True))(1.0).effects) == "frozenset({OrderedIO})"


def test_order_across_programs():
    calls = []
    slow = xf.jit(lambda a, i: (io_callback(lambda a, i: calls.append(int(i)), None, a @ a, i, ordered=True), a @ a)[1])
    quick = xf.jit(lambda i: io_callback(lambda i: calls.append(int(i)), None, i, ordered=True))
    a = xnp.ones((200, 200)) / 200
    for i in range(0, 40, 2):
        slow(a, i)
        quick(i + 1)
    xf.effects_barrier()
    assert calls == list(range(40))


def test_order_within_each_thread():
    calls = []
    f = xf.jit(lambda index, i: io_callback(lambda index, i: calls.append((int(index), int(i))), None, index, i, ordered=True))
    threads = [threading.Thread(target=lambda index=index: [f(index, i) for i in range(100)]) for index in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    xf.effects_barrier()
    for index in range(4):
        assert [i for w, i in calls if w == index] == list(range(100))


def test_compiled_ahead_of_time(capsys):
    f = xf.jit(lambda x: (xf.debug.print("{}", x, ordered=True), x + 1)[1]).lower(1.0).compile()
    assert [f(1.0), f(2.0)] == [2, 3]
    assert lines(capsys) == ["1.0", "2.0"]


def test_ordered_programs_inside_of_ordered_callbacks():
    calls = []
    inner = xf.jit(lambda v: io_callback(lambda v: calls.append(float(v)), None, v, ordered=True))
    outer = xf.jit(lambda v: io_callback(lambda v: inner(v + 1), None, v, ordered=True))
    outer(1.0)
    outer(5.0)
    xf.effects_barrier()
    assert calls == [2.0, 6.0]


def test_barrier_inside_of_a_callback_is_refused():
    with pytest.raises(xf.errors.JaxRuntimeError, match="inside of a callback"):
        xf.jit(lambda x: io_callback(lambda x: xf.effects_barrier(), None, x))(1.0)
        xf.effects_barrier()


ORDERED_PROGRAMS = {
    # the program, and what a Python loop would write
    "calls": (lambda p, x: (p("a", x), xf.jit(lambda y: p("b", y))(x + 1), p("c", x)), ["a 1", "b 2", "c 1"]),
    "scan": (lambda p, x: (lax.scan(lambda c, i: (p("s", c), (c + i, None))[1], x, xnp.arange(3)), p("end", x)),
             ["s 1", "s 1", "s 2", "end 1"]),
    "scan unrolled": (lambda p, x: lax.scan(lambda c, i: (p("s", c), (c + i, None))[1], x, xnp.arange(5), unroll=2),
                      ["s 1", "s 1", "s 2", "s 4", "s 7"]),
    "while": (lambda p, x: lax.while_loop(lambda c: c < 3, lambda c: (p("w", c), c + 1)[1], x), ["w 1", "w 2"]),
    "while condition": (lambda p, x: lax.while_loop(lambda c: (p("?", c), c < 3)[1], lambda c: (p("w", c), c + 1)[1], x),
                        ["? 1", "w 1", "? 2", "w 2", "? 3"]),
    "fori": (lambda p, x: lax.fori_loop(0, x + 2, lambda i, c: (p("f", i), c)[1], x), ["f 0", "f 1", "f 2"]),
    "cond": (lambda p, x: (p("a", x), lax.cond(x > 0, lambda: p("yes", x), lambda: p("no", x)), p("b", x)),
             ["a 1", "yes 1", "b 1"]),
    "one branch": (lambda p, x: (lax.cond(x > 0, lambda: None, lambda: p("no", x)), p("b", x)), ["b 1"]),
    "switch": (lambda p, x: lax.switch(x, [lambda i=i: p("branch", i) for i in range(3)]), ["branch 1"]),
    "nested": (lambda p, x: lax.scan(lambda c, i: (lax.fori_loop(0, 2, lambda j, d: (lax.cond(
        j > 0, lambda: p("j", i), lambda: p("-", i)), d)[1], c), None), x, xnp.arange(2)), ["- 0", "j 0", "- 1", "j 1"]),
}


@both_ways
@pytest.mark.parametrize("name", ORDERED_PROGRAMS)
@pytest.mark.parametrize("kind", ["print", "callback", "io"])
def test_program_order(way, name, kind):
    program, expected = ORDERED_PROGRAMS[name]
    written = []

    def note(word, value):
        written.append(f"{word} {int(value)}")

    def p(word, value):
        if kind == "io":
            io_callback(lambda v: note(word, v), None, value, ordered=True)
        elif kind == "callback":
            xf.debug.callback(note, word, value, ordered=True)
        else:
            xf.debug.print("{} {}", word, value, ordered=True)

    out, sys.stdout = sys.stdout, io.StringIO()
    try:
        way(lambda x: program(p, x))(1)
        xf.effects_barrier()
        written += sys.stdout.getvalue().splitlines()
    finally:
        sys.stdout = out
    assert written == expected


# debug.print and debug.callback


@both_ways
def test_print(way, capsys):
    def f(x):
        xf.debug.print("{} {word} {x:.2f} {nested} {{}} {x.shape}", x.dtype, word="w", x=x, nested={"a": [x, None]})
        xf.debug.print("no fields {{}}")
        xf.debug.print("{text}", 1, skip_format_check=True, text="t")
        xf.debug.print(ordered=True)("later {}", x)
        return x

    assert way(f)(xnp.float32(1.5)) == 1.5
    assert sorted(lines(capsys)) == sorted([
        "float32 w 1.50 {'a': [Array(1.5, dtype=float32), None]} {} ()", "no fields {{}}", "t", "later 1.5"])


def test_print_options_are_those_of_the_call(capsys):
    with np.printoptions(precision=2):
        f = xf.jit(lambda x: xf.debug.print("{}", x))
        f(xnp.array([1 / 3]))
        xf.effects_barrier()
    f(xnp.array([2 / 3]))
    assert lines(capsys) == ["[0.33]", "[0.67]"]


@pytest.mark.parametrize("call, error, message", [
    (lambda: xf.debug.print("{} {}", 1), IndexError, "argument 1"),
    (lambda: xf.debug.print("{x}", y=1), KeyError, "field {x}"),
    (lambda: xf.debug.print("text", 1), ValueError, "no field"),
    (lambda: xf.debug.print("{}", 1, x=2), ValueError, "f-string"),
    (lambda: xf.debug.print("{", 1), ValueError, "Single"),
    (lambda: xf.debug.print(3), TypeError, "format string"),
    (lambda: xf.debug.print(None, 3), TypeError, "ordered=True"),
    (lambda: xf.debug.callback(3), TypeError, "function"),
])
def test_bad_debug_calls(call, error, message):
    for way in (lambda f: f, xf.jit):
        with pytest.raises(error, match=message):
            way(call)()


def test_log(caplog):
    xf.jit(lambda x: xf.debug.log("value {}", x))(2.0)  # whatever the library's own level is
    xf.effects_barrier()
    [record] = caplog.records
    assert record.getMessage() == "value 2.0" and record.pathname == __file__ and record.levelno == logging.INFO


TRANSFORMED = {
    "vmap": (lambda f: xf.vmap(f)(xnp.arange(3.0)), ["0.0", "1.0", "2.0"]),
    "vmap of vmap": (lambda f: xf.vmap(xf.vmap(f))(xnp.arange(4.0).reshape(2, 2)), ["0.0", "1.0", "2.0", "3.0"]),
    "grad": (lambda f: xf.grad(f)(3.0), ["3.0"]),
    "hessian": (lambda f: xf.hessian(f)(3.0), ["3.0"]),
    "jvp": (lambda f: xf.jvp(f, (3.0,), (1.0,)), ["3.0"]),
    "linearize": (lambda f: xf.linearize(f, 3.0)[1](1.0), ["3.0"]),
    "vmap of grad": (lambda f: xf.vmap(xf.grad(f))(xnp.arange(2.0)), ["0.0", "1.0"]),
    "grad of vmap": (lambda f: xf.grad(lambda x: xf.vmap(f)(x).sum())(xnp.arange(2.0)), ["0.0", "1.0"]),
    "scan": (lambda f: lax.scan(lambda c, x: (c, f(x)), 0.0, xnp.arange(2.0)), ["0.0", "1.0"]),
    "grad of scan": (lambda f: xf.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])(3.0), ["3.0", "9.0"]),
    "vmap of scan": (lambda f: xf.vmap(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])(xnp.array([1., 2.])),
                     ["1.0", "1.0", "2.0", "4.0"]),
}


@both_ways
@pytest.mark.parametrize("ordered", [False, True], ids=["", "ordered"])
@pytest.mark.parametrize("inner", [lambda f: f, xf.jit], ids=["", "of jit"])
@pytest.mark.parametrize("name", TRANSFORMED)
def test_prints_under_transformations(way, inner, name, ordered, capsys):
    transform, expected = TRANSFORMED[name]

    def square(x):
        xf.debug.print("{}", x, ordered=ordered)
        return x ** 2

    way(lambda: transform(inner(square)))()
    assert sorted(lines(capsys)) == expected


@both_ways
def test_debug_callback_arguments(way):
    seen = []
    key = xf.random.key(3)

    def f(x):
        xf.debug.callback(lambda *args, **kwargs: seen.append((args, kwargs)), "word", [x, None], key, ordered=True, big=2 ** 80,
                          x={"b": x})
        xf.debug.callback(ordered=True)(lambda x: seen.append(x), x)
        return x

    way(f)(2.0)
    xf.effects_barrier()
    (args, kwargs), second = seen
    assert args[0] == "word" and args[1] == [2.0, None] and kwargs == {"big": 2 ** 80, "x": {"b": 2.0}} and second == 2.0
    assert isinstance(args[1][0], xf.Array) and (xf.random.key_data(args[2]) == xf.random.key_data(key)).all()


def fails(x):
    if x.ravel()[-1] == 3:
        raise ZeroDivisionError("of the last part")
    return x


def over_two(function):
    return lambda x: xf.shard_map(function, mesh=xf.make_mesh((2,), ("d",)), in_specs=xf.P("d"), out_specs=xf.P())(x)


FAILING_OVER_DEVICES = {
    "pure": lambda x: xf.pure_callback(fails, x, x).sum() + x, "io": lambda x: io_callback(fails, x, x).sum() + x,
    "ordered": lambda x: io_callback(fails, x, x, ordered=True).sum() + x, "debug": lambda x: (xf.debug.callback(fails, x), x.sum())[1],
    "one of the parts": over_two(lambda x: lax.psum(xf.pure_callback(fails, x, x), "d")),
    "debugged parts": over_two(lambda x: (xf.debug.callback(fails, x), lax.psum(x, "d"))[1]),
    "memory": over_two(lambda x: lax.psum(buffer_callback(lambda context, out, x: fails(np.asarray(x)), x)(x), "d")),
}


@pytest.mark.cpu_only
@pytest.mark.parametrize("function", FAILING_OVER_DEVICES.values(), ids=FAILING_OVER_DEVICES)
def test_failures_in_programs_over_devices(function):
    """Collectives follow, in which the other devices would wait for the one that failed: XLA ends the process after a minute."""
    x = xf.device_put(xnp.arange(4.0), xf.NamedSharding(xf.make_mesh((2,), ("d",)), xf.P("d")))
    f = xf.jit(function)
    for _ in range(2):
        with pytest.raises(xf.errors.JaxRuntimeError, match="(?s)in fails.*ZeroDivisionError: of the last part"):
            f(x)
    xf.effects_barrier()  # reported once
    f(x - 10)


def test_errors_of_debug_callbacks(caplog):
    with pytest.raises(ZeroDivisionError):
        xf.debug.callback(lambda x: 1 / 0, 1.0)
    with pytest.raises(xf.errors.JaxRuntimeError, match="ZeroDivisionError"):
        xf.jit(lambda x: xf.debug.callback(lambda x: 1 / 0, x))(1.0)
        xf.effects_barrier()
    assert "debug.callback failed" in caplog.text
    xf.effects_barrier()  # reported once


def test_prints_at_exit_are_flushed():
    code = "import xlafront as xf; xf.jit(lambda x: xf.debug.print('x is {}', x))(1.0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "x is 1.0\n", done.stderr


# Several devices


@pytest.mark.cpu_only
def test_sharded_programs(capsys):
    mesh = xf.make_mesh((2,), ("d",))
    x = xf.device_put(xnp.arange(4.0), xf.NamedSharding(mesh, xf.P("d")))
    shapes = []

    def f(x):
        xf.debug.print("{}", x * 2)
        xf.debug.callback(lambda part: shapes.append(part.shape), x, partitioned=True)
        return xf.pure_callback(lambda x: np.asarray(x) + 1, x, x) + x

    np.testing.assert_allclose(xf.jit(f)(x), 2 * np.arange(4) + 1)
    assert lines(capsys) == ["[0. 2. 4. 6.]"] and shapes == [(2,), (2,)]
    with pytest.raises(ValueError, match="2 devices"):
        xf.jit(lambda x: xf.debug.print("{}", x, ordered=True))(x)


@pytest.mark.cpu_only
def test_ordered_calls_of_sharded_programs():
    """One device calls with the whole value; in a `shard_map` each calls with its own part. Each calls in its order."""
    mesh = xf.make_mesh((2,), ("d",))
    x = xf.device_put(xnp.arange(4.0), xf.NamedSharding(mesh, xf.P("d")))
    calls = []

    def twice(x):
        def note(step, x):
            calls.append((int(step), np.asarray(x).tolist()))
            return np.asarray(x) + 1

        def step(i, x):
            return io_callback(note, xf.ShapeDtypeStruct(x.shape, x.dtype), i, x, ordered=True)

        return xf.lax.fori_loop(1, 3, step, step(0, x))

    np.testing.assert_array_equal(xf.jit(twice)(x), np.arange(4) + 3)
    xf.effects_barrier()
    assert calls == [(i, [i, i + 1, i + 2, i + 3]) for i in range(3)]

    calls.clear()
    sharded = xf.jit(xf.shard_map(twice, mesh=mesh, in_specs=xf.P("d"), out_specs=xf.P("d")))
    np.testing.assert_array_equal(sharded(x), np.arange(4) + 3)
    xf.effects_barrier()
    for first in (0.0, 2.0):
        assert [(i, part) for i, part in calls if part[0] - i == first] == [(i, [first + i, first + i + 1]) for i in range(3)]


@pytest.mark.cpu_only
def test_ordered_print_in_eager_shard_map(capsys):
    """In program order, and of each line one for each device that has another value, in their order."""
    mesh = xf.sharding.Mesh(np.array(xf.devices()[:4]).reshape(2, 2), ("x", "y"))

    def say(name, v):
        xf.debug.print(name + " {}", v, ordered=True)
        return v

    def run(f, x, specs, **options):
        found = xf.shard_map(f, mesh=mesh, in_specs=specs, out_specs=specs, **options)(x)
        return np.asarray(found).tolist(), lines(capsys)

    x = xnp.arange(4.0).reshape(2, 2)
    assert run(lambda v: say("b", say("a", v[0, 0]) * 10) + v, x, xf.P("x", "y")) == (
        [[0.0, 11.0], [22.0, 33.0]], ["a 0.0", "a 1.0", "a 2.0", "a 3.0", "b 0.0", "b 10.0", "b 20.0", "b 30.0"])
    assert run(lambda v: say("sum", lax.psum(v, "y")) + v, x, xf.P("x", "y"))[1] == ["sum [[1.]]", "sum [[5.]]"]
    assert run(lambda v: v + (say("one", 1.0) - 1), x, xf.P("x")) == (x.tolist(), ["one 1.0"])
    assert run(lambda v: say("part", v), x, xf.P("y"), axis_names={"y"})[1] == ["part [[0. 1.]]", "part [[2. 3.]]"]
    assert run(lambda v: say("v", v), x, xf.P("x"), check_vma=False)[1] == ["v [[0. 1.]]"] * 2 + ["v [[2. 3.]]"] * 2
    unsharded = xf.shard_map(lambda v: say("v", v), mesh=mesh, in_specs=xf.P("x"), out_specs=xf.P("x"))
    assert xf.grad(lambda x: unsharded(x).sum())(x).tolist() == [[1.0, 1.0]] * 2 and lines(capsys) == ["v [[0. 1.]]", "v [[2. 3.]]"]
    calls = []
    pair = xf.shard_map(lambda v, w: xf.debug.callback(lambda *a: calls.append([float(b[0]) for b in a]), v, w, ordered=True),
                        mesh=mesh, in_specs=(xf.P("x"), xf.P(("y", "x"))), out_specs=None)
    pair(xnp.arange(2.0), xnp.arange(4.0))
    assert calls == [[0.0, 0.0], [0.0, 2.0], [1.0, 1.0], [1.0, 3.0]]
    for inside in (xf.jit, lambda f: lambda v: lax.map(f, v)):  # what is compiled has no order
        with pytest.raises(ValueError, match="no common order"):
            run(inside(lambda v: say("v", v)), x, xf.P("x"))


@pytest.mark.cpu_only
def test_device_of_results():
    x = xf.device_put(xnp.arange(3.0), xf.devices()[1])
    here = xf.sharding.SingleDeviceSharding(xf.devices()[1])
    for f in (lambda x: xf.pure_callback(np.asarray, x, x), lambda x: xf.pure_callback(np.asarray, x, x, sharding=here)):
        assert f(x).sharding == xf.jit(f)(x).sharding == x.sharding
    with pytest.raises(ValueError, match="not among the devices"):
        xf.jit(lambda x: io_callback(np.asarray, x, x, sharding=xf.sharding.SingleDeviceSharding(xf.devices()[2])))(x)


# The debugger


def run_debugger(f, commands: str, *args) -> str:
    stdout = io.StringIO()
    f(functools.partial(xf.debug.breakpoint, stdin=io.StringIO(commands), stdout=stdout), *args)
    xf.effects_barrier()
    return stdout.getvalue()


def inner_function(stop, u, **options):
    v = u["a"] + 1
    stop(**options)
    return v


def outer_function(stop, x):
    numbers, word = [x, np.arange(2)], "hello"
    strange = {1: 2, "a": x * 0}
    return inner_function(stop, {"a": x * 2}), numbers, word, len(strange)


@pytest.mark.parametrize("way", [lambda f: f, lambda f: lambda stop, x: xf.jit(lambda x: f(stop, x)[0])(x),
                                 lambda f: lambda stop, x: xf.grad(lambda x: f(stop, x)[0])(x)], ids=["eager", "jit", "grad"])
def test_debugger(way):
    shown = run_debugger(way(outer_function), "p v\np u\nu\np numbers, word\nv\nd\nd\nbt\nl\nhelp p\n\nc\n", 1.5)
    shown = shown.replace("Array(4., dtype=float32, weak_type=True)", "4.0").replace("Array(4., dtype=float32)", "4.0")
    shown = shown.replace("Array(3., dtype=float32, weak_type=True)", "3.0").replace("Array(3., dtype=float32)", "3.0")
    assert "4.0" in shown and "{'a': 3.0}" in shown
    assert "array([0, 1])" in shown and "'hello'" in shown
    assert "NameError: name 'v' is not defined" in shown
    assert "At bottommost frame." in shown and "stop(**options)" in shown and "value" in shown
    stack = shown[shown.index("Traceback:"):]
    assert stack.index("return inner_function(stop") < stack.index("stop(**options)")


def test_debugger_output_matches_jax(tmp_path):
    """The texts were recorded from JAX."""
    file = tmp_path / "stopped.py"
    file.write_text("""
def stopped(stop, x):
    a = 1
    b = 2
    c = 3
    stop()
    d = 4
    return a + b + c + d + x

def caller(stop, x):
    y = x + 1
    return stopped(stop, y)
""")
    names: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    lines = run_debugger(names["caller"], "p x\nb\n\nl\nu\np y\nd\nd\nbt\np nothing\n1 +\np 1/0\nc\n", 1).split("\n")
    around = f"> {file}(6)\n        a = 1\n        b = 2\n        c = 3\n->      stop()\n        d = 4\n        return a + b + c + d + x"
    expected = ["Entering jdb:", "(jdb) 2", "(jdb) 2", "(jdb) 2",
                f"(jdb) > {file}(6)", "    def stopped(stop, x):", *around.split("\n")[1:], "    ",
                f"(jdb) > {file}(12)", "    def caller(stop, x):", "        y = x + 1", "->      return stopped(stop, y)", "    ",
                "(jdb) 2", "(jdb) " + around.split("\n")[0], *around.split("\n")[1:],
                "(jdb) At bottommost frame.", *around.split("\n")]
    assert lines[:len(expected)] == expected
    at = lines.index("(jdb) Traceback:")
    end = lines.index(f'  File "{file}", line 12')
    assert lines[end:] == [
        f'  File "{file}", line 12', "    return stopped(stop, y)", f'  File "{file}", line 6', "    stop()",
        "(jdb) *** NameError: name 'nothing' is not defined", "(jdb) *** SyntaxError: invalid syntax",
        "(jdb) *** ZeroDivisionError: division by zero", "(jdb) "] and at < end


def test_debugger_options():
    assert "At topmost frame." in run_debugger(lambda stop, x: inner_function(stop, x, num_frames=1), "u\nc\n", {"a": 1})
    assert xf.debug.breakpoint(token=7, stdin=io.StringIO("c"), stdout=io.StringIO()) == 7
    for commands in ("q\n", ""):
        with pytest.raises(SystemExit):
            xf.debug.breakpoint(stdin=io.StringIO(commands), stdout=io.StringIO())
    with pytest.raises(SystemExit):
        run_debugger(lambda stop, x: xf.jit(lambda x: inner_function(stop, x))(x), "q\n", {"a": 1})
        for _ in range(1000):  # the main thread notices the exit after the callback has returned
            time.sleep(0.001)
    with pytest.raises(ValueError, match="cli"):
        xf.debug.breakpoint(backend="colab")
    with pytest.raises(TypeError, match="colour"):
        xf.debug.breakpoint(colour=3)
    with pytest.raises(ValueError, match="`ordered` and a `token`"):
        xf.debug.breakpoint(ordered=True, token=7)


# Settings that look into functions


SPOILED = {
    "eager": lambda: xnp.log(-1.0), "operator": lambda: xnp.zeros(2) / xnp.zeros(2), "jit": lambda: xf.jit(xnp.log)(-1.0),
    "grad": lambda: xf.grad(lambda x: xnp.where(x > 0, xnp.sqrt(x), 0.0))(0.0),
    "jit of grad": lambda: xf.jit(xf.grad(lambda x: xnp.where(x > 0, xnp.sqrt(x), 0.0)))(0.0),
    "grad of jit": lambda: xf.grad(xf.jit(lambda x: xnp.where(x > 0, xnp.sqrt(x), 0.0)))(0.0),
    "vmap": lambda: xf.vmap(xnp.log)(xnp.array([1.0, -1.0])), "vmap of jit": lambda: xf.vmap(xf.jit(xnp.log))(xnp.array([-1.0])),
    "scan": lambda: lax.scan(lambda c, _: (xnp.log(c), c), 0.5, None, length=4),
    "pure_callback": lambda: xf.pure_callback(lambda x: np.float32(np.nan), xf.ShapeDtypeStruct((), "float32"), 1.0),
    "with callback": lambda: xf.jit(lambda x: (xf.debug.print("once"), xnp.log(x))[1])(-1.0),
}


@pytest.mark.parametrize("name", SPOILED)
def test_debug_nans(name, capsys):
    SPOILED[name]()
    xf.effects_barrier()
    capsys.readouterr()
    with xf.debug_nans(True), pytest.raises(FloatingPointError, match="NaN"):
        SPOILED[name]()
    assert len(lines(capsys)) == 2 * ("with" in name)  # once compiled, once to find where the NaN comes from
    with xf.debug_infs(True):
        SPOILED[name]()


def test_debug_infs():
    f = xf.jit(lambda x: 1 / x)
    f(0.0)
    for g, x in ((f, xnp.float32(0)), (xf.grad(xnp.sqrt), 0.0), (xf.vmap(f), xnp.zeros(1))):
        with xf.debug_infs(True), pytest.raises(FloatingPointError, match="infinity"):
            g(x)
    with xf.debug_nans(True):
        assert np.isinf(f(0.0))
        assert xf.jit(lambda x: xnp.where(x > 0, xnp.log(x), 0.0))(-1.0) == 0  # never leaves the program


def test_disable_jit():
    kinds = []

    def f(x):
        kinds.append(isinstance(x, xf.core.Tracer))
        return x * 2 if x > 0 else x

    with xf.disable_jit():
        assert xf.jit(f)(xnp.float32(1)) == 2 and kinds == [False]
        assert xf.grad(xf.jit(f))(1.0) == 2
        np.testing.assert_array_equal(xf.vmap(xf.jit(lambda x: x * 2))(xnp.ones(2)), [2, 2])
        assert lax.scan(lambda c, x: (c + float(x), c), 0.0, xnp.arange(3.0))[0] == 3
        assert xf.jit(lambda x: xf.pure_callback(np.sin, scalar, x))(0.0) == 0


def test_ensure_compile_time_eval():
    def f(x):
        with xf.ensure_compile_time_eval():
            n = int(xnp.sum(xnp.ones(3)))  # a number, though everything is being traced
            return x * n + xnp.arange(2.0)

    expected = 2 * 3 + np.arange(2)
    for g in (f, xf.jit(f), xf.jit(xf.jit(f)), xf.ensure_compile_time_eval()(f)):
        np.testing.assert_array_equal(g(2.0), expected)
    np.testing.assert_array_equal(xf.vmap(f)(xnp.ones(2)), [3 + np.arange(2)] * 2)
    np.testing.assert_array_equal(xf.jit(xf.jacrev(f))(2.0), [3, 3])
    np.testing.assert_array_equal(lax.scan(lambda c, _: (f(c), None), xnp.ones(2), None, length=2)[0], [9, 13])


def named(x):
    with xf.named_scope("outer"), xf.named_scope("inner"):
        return xnp.sin(x)


def over_named(x):
    return named(x)


# What is compiled, and in which names the sine, its derivative or the multiplication of its pullback is.
NAMES = {
    "": (named, ["jit(named)/outer/inner/sin"]),
    "grad": (xf.grad(over_named), ["jit(over_named)/jvp(outer)/inner/cos"]),
    "grad of two": (xf.grad(lambda x: named(x) * named(x)), ["jit(<lambda>)/transpose(jvp(outer))/inner/mul"]),
    "vmap": (xf.vmap(over_named, axis_size=2, in_axes=None, out_axes=None), ["jit(over_named)/vmap(outer)/inner/sin"]),
    "vmap grad": (xf.vmap(xf.grad(lambda x: named(x) * x)), ["jit(<lambda>)/vmap(jvp(outer))/inner/cos",
                                                             "jit(<lambda>)/vmap(transpose(jvp(outer)))/inner/mul"]),
    "jvp": (lambda x: xf.jvp(named, (x,), (x,)), ["jit(<lambda>)/jvp(outer)/inner/cos"]),
    "while": (lambda x: lax.while_loop(lambda c: (c < 2).all(), named, x), ["jit(<lambda>)/while/cond/lt",
                                                                        "jit(<lambda>)/while/body/outer/inner/sin"]),
    "scan": (lambda x: lax.scan(lambda c, _: (named(c), None), x, None, length=3), ["jit(<lambda>)/while/body/outer/inner/sin"]),
    "cond": (lambda x: lax.cond(x.sum() > 0, named, xnp.cos, x), ["jit(<lambda>)/cond/branch_1_fun/outer/inner/sin",
                                                                  "jit(<lambda>)/cond/branch_0_fun/cos"]),
    "scope around a loop": (lambda x: xf.named_scope("around")(lambda: lax.fori_loop(0, 3, lambda i, c: named(c), x))(),
                            ["jit(<lambda>)/around/while/body/outer/inner/sin"]),
    "checkpoint": (xf.checkpoint(named), ["jit(named)/checkpoint/outer/inner/sin"]),
    "grad of checkpoint": (xf.grad(lambda x: xf.checkpoint(lambda v: xnp.sin(named(v)))(x)), [
        "checkpoint/rematted_computation/outer/inner/sin", "checkpoint/outer/inner/mul"]),
}  # of what is computed again GPUs have names with the whole path


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.cpu_only) if "checkpoint" in name else name for name in NAMES])
def test_names_of_operations(name):
    f, expected = NAMES[name]
    x = xnp.ones(2) if name == "vmap grad" else xnp.float32(1)
    text = xf.jit(f).lower(x).as_text(debug_info=True)
    for path in expected:
        assert f'"{path}"' in text, path
    assert xf.make_jaxpr(xf.grad(named))(1.0).jaxpr.pretty_print(name_stack=True).count("  # [jvp(outer)/inner]") == 2


# Exits and interrupts


def exit_in(kind: str) -> str:
    call = {"pure": "xf.pure_callback(stop, xf.ShapeDtypeStruct((), 'float32'), x)",
            "io": "xf.experimental.io_callback(stop, None, x)", "debug": "xf.debug.callback(stop, x)"}[kind]
    return f"""
import sys, time
import xlafront as xf
def stop(x): {{stop}}
try:
    xf.block_until_ready(xf.jit(lambda x: {call})(1.0))
    xf.effects_barrier()
except Exception as e:
    print("error", type(e).__name__)
time.sleep(0.2)
for _ in range(1000): pass
print("not reached")
"""


@pytest.mark.parametrize("kind", ["pure", "io", "debug"])
def test_exits_of_callbacks_end_the_process_with_their_status(kind):
    done = subprocess.run([sys.executable, "-c", exit_in(kind).format(stop="sys.exit(7)")], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")


def test_exits_of_callbacks_count_although_the_program_ends_before_and_unless_they_are_caught():
    program = """
import atexit, sys
import xlafront as xf
atexit.register(print, "at exit")
try:
    xf.jit(lambda x: xf.debug.callback(lambda x: sys.exit(3), x))(1.0)
    xf.effects_barrier()
    WAIT
except SystemExit:
    print("caught")
"""
    for wait, outputs in (("pass", {(3, "at exit\n"), (0, "caught\nat exit\n")}),
                          ("import time; [time.sleep(0.001) for _ in range(1000)]", {(0, "caught\nat exit\n")})):
        done = subprocess.run([sys.executable, "-c", program.replace("WAIT", wait)], capture_output=True, text=True)
        assert (done.returncode, done.stdout) in outputs and not done.stderr


def test_interrupts_of_callbacks_reach_the_main_thread():
    done = subprocess.run([sys.executable, "-c", exit_in("io").format(stop="raise KeyboardInterrupt")], capture_output=True, text=True)
    assert done.returncode and not done.stdout and done.stderr.splitlines()[-1] == "KeyboardInterrupt"


def test_results_of_callbacks_on_operands_over_a_mesh_of_one_device():
    mesh = xf.make_mesh((1,), ("a",))
    x = xf.device_put(np.arange(3.0, dtype=np.float32), xf.NamedSharding(mesh, xf.P("a")))
    found = [xf.pure_callback(lambda x: 2 * x, x, x), io_callback(lambda x: 2 * x, x, x)]
    assert [y.tolist() for y in found] == [[0, 2, 4]] * 2 and {y.sharding.device_set == x.sharding.device_set for y in found} == {True}

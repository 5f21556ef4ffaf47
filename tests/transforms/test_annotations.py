"""Annotations for compilers, read from the text of lowered programs: on operations, derivatives, batches and bodies."""

import re

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.experimental.compute_on import compute_on, compute_on2
from xlafront.experimental.fused import fused
from xlafront.experimental.scheduling_groups import scheduling_group, xla_metadata_call
from xlafront.experimental.xla_metadata import fuse_limit, must_fuse_call, set_xla_metadata, xla_metadata_call2

X = np.arange(4, dtype="float32")
DEVICE, HOST = xf.memory.Space.Device, xf.memory.Space.Host


def attributes(f, *args, platform=None):
    """Return the operations of a program that have annotations for the compiler, with these."""
    text = xf.jit(f).trace(*args).lower(lowering_platforms=platform and (platform,)).as_text()
    found = []
    for line in text.splitlines():
        attributes = re.search(r"mhlo.frontend_attributes = {(.*?)}[ }]", line + " ")
        operation = re.search(r"stablehlo\.(\w+)|\bcall @(\w+)", line)
        if attributes:
            name = "end of region" if operation is None else operation[1] or f"call {operation[2]}"
            found.append((name, dict(re.findall(r'(\w+) = "(.*?)"', attributes[1]))))
    return found


def scoped(x):
    with set_xla_metadata(part="first", number=3, on=True):
        y = xnp.sin(x)
    return y * 2


PART = {"part": "first", "number": "3", "on": "true"}


def test_operations_in_a_scope():
    assert attributes(scoped, X) == [("sine", PART)]
    assert np.allclose(xf.jit(scoped)(X), np.sin(X) * 2) and np.allclose(scoped(X), np.sin(X) * 2)


@pytest.mark.cpu_only
def test_recomputed_operations_and_tangents_are_annotated():
    again = {name: what for name, what in attributes(xf.grad(xf.checkpoint(lambda x: xnp.sin(scoped(x)).sum())), X)}
    assert again == {"call recomputed": {"inlineable": "false"}, "sine": PART, "cosine": PART, "multiply": PART}
    assert attributes(lambda x: xf.jvp(lambda x: set_xla_metadata(xnp.sin(x), unit=1), (x,), (x,)), X) == [
        ("sine", {"unit": "1"}), ("multiply", {"unit": "1"})]
    for value in ({}, [1]):
        with pytest.raises(TypeError, match="unhashable"):
            set_xla_metadata(unit=value)
        with pytest.raises(TypeError, match="unhashable"):
            set_xla_metadata(X, unit=value)


def test_derivatives_and_batches_in_a_scope():
    assert attributes(xf.vmap(scoped), X) == [("sine", PART)]
    assert attributes(xf.grad(lambda x: scoped(x).sum()), X) == [("cosine", PART), ("multiply", PART)]
    assert attributes(lambda x: xf.jvp(scoped, (x,), (x,))[1], X) == [("cosine", PART), ("multiply", PART)]


def test_scopes_in_scopes():
    def f(x):
        with set_xla_metadata(a=1):
            with set_xla_metadata(b=2):
                x = lax.exp(x)
            with set_xla_metadata(a=None):
                x = lax.abs(x)
            with set_xla_metadata(a="x/y(z)"):
                x = lax.neg(x)
            return lax.cos(x)

    assert attributes(f, X) == [("exponential", {"a": "1", "b": "2"}), ("negate", {"a": "x/y(z)"}), ("cosine", {"a": "1"})]


def test_decorated_functions():
    assert attributes(set_xla_metadata(a=1)(lambda x: lax.exp(x)), X) == [("exponential", {"a": "1"})]
    jitted = set_xla_metadata(a=1)(xf.jit(lambda x: lax.exp(x)))
    for text in (jitted.lower(X).as_text(), jitted.trace(X).lower().as_text()):
        assert text.count('a = "1"') == 1
    assert jitted.eval_shape(X).shape == X.shape and not hasattr(set_xla_metadata(a=1)(abs), "lower")


def test_names_of_scopes_are_preserved():
    def f(x):
        with xf.named_scope("encoder"), set_xla_metadata(a=1), xf.named_scope("layer"):
            return lax.exp(x)

    text = xf.jit(xf.grad(f)).lower(1.0).as_text(debug_info=True)
    assert '"jit(f)/jvp(encoder)/layer/exp"' in text and '"jit(f)/transpose(jvp(encoder))/layer/mul"' in text


def test_calls_loops_and_branches_in_a_scope():
    inner = xf.jit(lambda x: lax.exp(x))

    def called(x):
        before = inner(x)  # traced already, without
        with set_xla_metadata(a=1):
            return before, inner(x)

    a = {"a": "1"}
    name = [line for line in attributes(called, X) if line[0].startswith("call")]
    assert len(name) == 1 and name[0][1] == a and [line for line in attributes(called, X) if line not in name] == [("exponential", a)]

    def looped(x):
        with set_xla_metadata(a=1):
            return lax.fori_loop(0, 3, lambda i, x: lax.exp(x), x)

    assert {("exponential", "1"), ("while", "1")} <= {(name, given["a"]) for name, given in attributes(looped, X)}

    def chosen(x):
        with set_xla_metadata(a=1):
            return lax.cond(x[0] > 0, lax.exp, lax.abs, x)

    assert {("exponential", "1"), ("abs", "1")} <= {(name, given["a"]) for name, given in attributes(chosen, X)}


def test_annotations_are_part_of_the_cache_key():
    f = xf.jit(lambda x: lax.exp(x))
    f(X)
    with set_xla_metadata(a=1):
        assert attributes(lambda x: f(x), X)[-1] == ("exponential", {"a": "1"})
        assert np.allclose(f(X), np.exp(X))
    assert attributes(f, X) == []


def test_repeated_layers_keep_their_own():
    def f(x):
        for i in range(12):
            with set_xla_metadata(layer=i):
                for _ in range(10):
                    x = xnp.tanh(x @ x) + 1
        return x

    layers = [given["layer"] for name, given in attributes(f, np.ones((4, 4), "float32")) if name == "tanh"]
    assert {*layers} == {*map(str, range(12))}


def test_annotations_of_values():
    def f(x):
        y = set_xla_metadata({"a": lax.exp(x), "b": x}, of="y")
        return y["a"] + y["b"]

    assert attributes(f, X) == [("exponential", {"of": "y"})]
    assert attributes(xf.vmap(f), X) == [("exponential", {"of": "y"})]
    assert np.allclose(xf.grad(f)(1.0), np.e + 1) and np.allclose(xf.jvp(f, (1.0,), (2.0,))[1], 2 * np.e + 2)
    assert set_xla_metadata(X, a=1).tolist() == [0, 1, 2, 3]
    with pytest.raises(TypeError):
        set_xla_metadata(lambda x: x, a=1)


def twice_sine(x):
    return xnp.sin(x) * 2


# Functions with a decorator, and the annotations of their calls and of operations in them.
CALLS = {
    "xla_metadata_call": (xla_metadata_call(twice_sine, unit="rad"), {"unit": "rad"}, {}),
    "scheduling_group": (scheduling_group("first")(twice_sine), {"scheduling_group": "first"}, {}),
    "must_fuse_call": (must_fuse_call("1")(twice_sine), {"MUST_FUSE": "1"}, {}),
    "compute_on": (compute_on(twice_sine, compute_type="device_host", out_memory_spaces=DEVICE),
                   {"_xla_compute_type": "host"}, {"_xla_compute_type": "host"}),
    "compute_on2": (compute_on2(compute_type="device_host", out_memory_spaces=DEVICE)(twice_sine),
                    {"_xla_compute_type": "host"}, {"_xla_compute_type": "host"}),
}


@pytest.mark.parametrize("name", [*list(CALLS)[:3], *[pytest.param(name, marks=pytest.mark.cpu_only) for name in list(CALLS)[3:]]])
def test_annotations_of_calls(name):
    f, of_call, of_inside = CALLS[name]
    symbol = "compute_on" if name.startswith("compute_on") else "xla_metadata_call"
    inside = [(operation, of_inside) for operation in ("sine", "multiply") if of_inside]
    assert attributes(f, X) == [(f"call {symbol}", of_call), *inside]
    assert [line for line in attributes(xf.vmap(f), X) if line[0].startswith("call")] == [(f"call {symbol}", of_call)]
    backward = [given for line, given in attributes(xf.grad(lambda x: f(x).sum()), X) if line.startswith("call")]
    assert backward == [of_call, of_call]
    assert np.allclose(f(X), 2 * np.sin(X)) and np.allclose(xf.jit(f)(X), 2 * np.sin(X))
    assert np.allclose(xf.grad(lambda x: f(x).sum())(X), 2 * np.cos(X))
    assert np.allclose(xf.jvp(f, (X,), (X,))[1], 2 * X * np.cos(X)) and np.allclose(xf.vmap(f)(X), 2 * np.sin(X))
    assert np.allclose(xf.linearize(f, X)[1](X), 2 * X * np.cos(X))


def test_calls_close_over_values_and_take_names():
    def f(x):
        return xla_metadata_call(lambda a, *, b: {"sum": a + b + x}, unit="m")(x, b=2 * x)["sum"]

    assert xf.grad(f)(3.0) == 4 and f(3.0) == 12
    assert attributes(xla_metadata_call(abs, b=True, n=3, x=1.5), X)[0][1] == {"b": "true", "n": "3", "x": "1.5"}
    with pytest.raises(TypeError, match="metadata values must be str, bool, int or float"):
        xla_metadata_call(lambda x: x, number=[3])


@pytest.mark.parametrize(("of_derivatives", "expected"), [("same", {"a": "1"}), ("drop", {}), ({"b": 2}, {"b": "2"})])
def test_metadata_of_calls_of_derivatives(of_derivatives, expected):
    f = xla_metadata_call2(twice_sine, {"a": 1}, ad_metadata=of_derivatives)
    calls = [given for name, given in attributes(xf.grad(lambda x: f(x).sum()), X) if name.startswith("call")]
    assert calls == [{"a": "1"}, *([expected] if expected else [])]  # calls without metadata are not listed
    assert attributes(lambda x: xf.jvp(f, (x,), (x,)), X)[0] == ("call xla_metadata_call", {"a": "1"})
    assert np.allclose(xf.grad(lambda x: f(x).sum())(X), 2 * np.cos(X))
    [eqn] = xf.make_jaxpr(f)(X).eqns
    assert eqn.params["xla_metadata"] == (("a", "1"),)


def test_metadata_of_calls_is_a_dict():
    assert attributes(xla_metadata_call2({"a": 1})(abs), X)[0][1] == {"a": "1"}
    for metadata, of_derivatives, words in (("abc", "same", "metadata must be a dict"), ({}, "other", "'same', 'drop'")):
        with pytest.raises(TypeError, match=words):
            xla_metadata_call2(abs, metadata, ad_metadata=of_derivatives)


def test_fuse_limit():
    def f(x):
        with fuse_limit():
            x = lax.exp(x)
        return lax.abs(x)

    assert attributes(f, X) == [("exponential", {"FUSE_LIMIT": "true"})]


def test_compute_on_function_needs_memory_spaces():
    with pytest.raises(TypeError, match="out_memory_spaces is missing"):
        compute_on(abs, compute_type="device")
    with pytest.raises(TypeError, match="compute_type is missing"):
        compute_on(out_memory_spaces=DEVICE)


def test_unread_results_of_calls_are_not_computed():
    f = xla_metadata_call(lambda x, y: (lax.exp(x), lax.sin(y)), unit="m")
    text = xf.jit(lambda x, y: f(x, y)[0]).lower(1.0, 1.0).as_text()
    assert "exponential" in text and "sine" not in text


@pytest.mark.parametrize(("kind", "expected"), [
    ("device_host", {"_xla_compute_type": "host"}), ("device", {"_xla_compute_type": "dense"}),
    ("tpu_sparsecore", {"_xla_compute_type": "sparseoffload"}),
    ("gpu_stream:1", {"_xla_stream_annotation": "1", "inlineable": "false"})])
def test_compute_on(kind, expected):
    def f(x):
        with compute_on(kind):
            x = lax.exp(x)
        return lax.abs(x)

    assert attributes(f, X) == [("exponential", expected)]
    assert attributes(compute_on("device")(f), X) == [("exponential", expected), ("abs", {"_xla_compute_type": "dense"})]
    assert np.allclose(xf.jit(f)(X), np.exp(X))


@pytest.mark.parametrize("user", [compute_on, lambda kind: compute_on2(compute_type=kind, out_memory_spaces=DEVICE)(abs)])
def test_unknown_compute_types_raise(user):
    with pytest.raises(ValueError, match="Invalid compute type"):
        user("moon")
    with pytest.raises(TypeError, match="string"):
        user(3)


def test_compute_on2_sets_memory_spaces_of_results():
    f = compute_on2(lambda x: (x * 2, x + 1), compute_type="device_host", out_memory_spaces=(HOST, DEVICE),
                    compiler_options={"speed": "high"})
    placed = [given["_xla_buffer_placement"] for name, given in attributes(f, X, platform="tpu") if name == "custom_call"]
    assert placed == ["pinned_host", "device"] and r"speed" in xf.jit(f).lower(X).as_text()
    types = xf.make_jaxpr(f)(X).out_avals
    assert [aval.memory_space for aval in types] == [HOST, DEVICE]
    a, b = xf.jit(f)(X)
    assert np.array_equal(a, X * 2) and np.array_equal(b, X + 1)
    with pytest.raises(TypeError, match="out_memory_spaces"):
        compute_on2(abs, compute_type="device", out_memory_spaces=3)(X)


@pytest.mark.cpu_only
def test_fused():
    f = fused(out_spaces=(DEVICE, DEVICE))(lambda x: (xnp.sin(x), x + 1))
    text = xf.jit(f).trace(X).lower(lowering_platforms=("cuda",)).as_text()
    assert "custom_call @fused" in text and "MUST_FUSE = true" in text and 'out_spaces = ["MemorySpace.Device"' in text
    assert np.allclose(xf.jit(f)(X)[0], np.sin(X)) and np.allclose(f(X)[1], X + 1)
    assert np.allclose(xf.grad(lambda x: f(x)[0].sum())(X), np.cos(X)) and np.allclose(xf.vmap(f)(X)[0], np.sin(X))
    with pytest.raises(ValueError, match="out_spaces"):
        fused(out_spaces=(DEVICE,))(lambda x: (x, x))(X)

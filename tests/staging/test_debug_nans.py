"""The operation that made a NaN or an infinity is named, with its line: also in loops, branches and shards."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax


def logarithm(x):
    return lax.log(x)


LINE = logarithm.__code__.co_firstlineno + 1


def over(count):
    return xf.sharding.Mesh(np.array(xf.devices()[:count]), ("i",))


POINTS = np.array([1.0, -1.0], "float32")
POSITIONS = {
    "jit": lambda x: xf.jit(lambda x: 2 * logarithm(x))(x),
    "scan": lambda x: lax.scan(lambda c, v: (c + logarithm(v), v), 0.0, x),
    "scan backwards": lambda x: lax.scan(lambda c, v: (c + logarithm(v), v), 0.0, x, reverse=True),
    "scan of the carry": lambda x: lax.scan(lambda c, _: (logarithm(c), None), 1.0, length=3),
    "while": lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, logarithm(s[1])), (0, x)),
    "while with constants": lambda x: xf.jit(lambda x, n: lax.while_loop(
        lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + logarithm(x)), (0, x)))(x, 3),
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, x: logarithm(x), x),
    "cond": lambda x: lax.cond(x[0] > 0, logarithm, lax.sin, x),
    "switch": lambda x: lax.switch(7, [lax.sin, lax.cos, logarithm], x),
    "scan in cond in jit": lambda x: xf.jit(lambda x: lax.cond(
        x[0] > 0, lambda x: lax.scan(lambda c, v: (c, logarithm(v)), 0, x)[1], lax.sin, x))(x),
    "checkpoint": lambda x: xf.jit(xf.checkpoint(logarithm))(x),
    "vmap of cond": lambda x: xf.vmap(lambda v: lax.cond(v < 0, logarithm, lax.sin, v))(x),
    "shard_map": lambda x: xf.shard_map(logarithm, mesh=over(2), in_specs=xf.P("i"), out_specs=xf.P("i"))(x),
    "shard_map before an exchange": lambda x: xf.jit(xf.shard_map(
        lambda x: lax.psum(logarithm(x), "i"), mesh=over(2), in_specs=xf.P("i"), out_specs=xf.P()))(x),
    "pmap": lambda x: xf.pmap(lambda x: 2 * logarithm(x))(x),
    "compiled before": lambda x: xf.jit(logarithm).lower(x).compile()(x),
}


@pytest.mark.parametrize("place", [pytest.param("pmap", marks=pytest.mark.cpu_only) if p == "pmap" else p for p in POSITIONS])
def test_operation_and_line(place):
    with xf.debug_nans(True), pytest.raises(FloatingPointError, match=rf"nan.* in log first, .*test_debug_nans\.py:{LINE}\b"):
        POSITIONS[place](POINTS)


@pytest.mark.cpu_only
@pytest.mark.parametrize("place", ["shard_map", "pmap"])
def test_programs_over_several_devices_are_called_so(place):
    with xf.debug_nans(True), pytest.raises(FloatingPointError, match=r"Invalid value \(nan\) encountered in sharded computation"):
        POSITIONS[place](POINTS)


def test_infinities():
    with xf.debug_infs(True), pytest.raises(FloatingPointError, match=rf"inf.* in log first, .*test_debug_nans\.py:{LINE}\b"):
        lax.scan(lambda c, v: (c + logarithm(v), v), 0.0, xnp.zeros(2))


def test_shard_map_outside_of_compiled_functions_is_looked_at_step_by_step():
    """There it is as its operations one after the other; within a compiled function only results are looked at."""
    f = xf.shard_map(lambda x: xnp.where(x > 0, logarithm(x), 0.0), mesh=over(2), in_specs=xf.P("i"), out_specs=xf.P("i"))
    with xf.debug_nans(True):
        with pytest.raises(FloatingPointError, match=rf"nan.* in log first, .*test_debug_nans\.py:{LINE}\b.*not reach a result"):
            f(POINTS)
        assert xf.jit(f)(POINTS).tolist() == [0, 0] and f(np.abs(POINTS)).tolist() == [0, 0]
    with xf.debug_infs(True):
        assert f(POINTS).tolist() == [0, 0]


@pytest.mark.cpu_only
def test_collectives_that_make_a_nan_are_named():
    mean = xf.shard_map(lambda x: lax.psum(x, "i"), mesh=over(2), in_specs=xf.P("i"), out_specs=xf.P())
    with xf.debug_nans(True), pytest.raises(FloatingPointError, match="in shard_map"):
        mean(np.array([np.inf, -np.inf], "float32"))


def test_values_that_are_not_selected_raise_no_error():
    with xf.debug_nans(True):
        assert xf.jit(lambda x: xnp.where(x > 0, logarithm(x), 0.0))(POINTS).tolist() == [0, 0]
        assert lax.cond(True, lax.abs, logarithm, POINTS).tolist() == [1, 1]


def test_arguments_are_saved_for_the_search():
    f = xf.jit(lambda x: xnp.log(x), donate_argnums=0)
    f(xnp.ones(3))  # compiled to take its argument's memory
    x = xnp.asarray([-1.0, 1.0, 2.0])
    with xf.debug_nans(True):
        for _ in range(2):
            with pytest.raises(FloatingPointError, match=r"encountered in log first, .*test_debug_nans\.py"):
                f(x)
    f(x)
    assert x.is_deleted()


@pytest.mark.parametrize("use", [
    lambda r, bad: xf.new_ref(bad), lambda r, bad: r.__setitem__(..., bad), lambda r, bad: xf.ref.swap(r, (), bad),
    lambda r, bad: read_after_writing(r, bad, lambda r: r[...]), lambda r, bad: read_after_writing(r, bad, lambda r: r[0]),
    lambda r, bad: read_after_writing(r, bad, xf.ref.freeze), lambda r, bad: r.__setitem__(0, bad[0])])
def test_values_of_references(use):
    ref, bad = xf.new_ref(xnp.arange(2.0)), xnp.array([np.nan, 1.0])
    with xf.debug_nans(True):
        ref[...] = xnp.ones(2)
        assert ref[...].tolist() == [1, 1]
        with pytest.raises(FloatingPointError, match="nan"):
            use(ref, bad)


def read_after_writing(ref, value, read):
    with xf.debug_nans(False):
        ref[...] = value
    return read(ref)

"""Mutable references. The oracles are NumPy arrays, which are mutable too, and pure functions that return the values."""

import pickle

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.core import ir, ir_check
from xlafront.extend.core.call import closed_call_p
from xlafront.lax.ref_indexing import Slice
from xlafront.ref import addupdate, get, set as set_ref, swap


def ref_of(*shape):
    """A reference to numbers in a row."""
    return xf.new_ref(xnp.arange(np.prod(shape, dtype=int), dtype=xnp.float32).reshape(shape))


def numbers(*shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


# Outside of programs


def test_a_reference():
    """Read and write a reference to a vector."""
    ref = xf.new_ref(xnp.arange(3.0))
    assert isinstance(ref, xf.Ref) and not isinstance(ref, xf.Array)
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((3,), np.float32, 1, 3, 3)
    assert str(xf.typeof(ref)) == repr(ref.aval) == "Ref{float32[3]}"
    assert isinstance(ref.aval, xf.ref.AbstractRef)
    assert xf.ref.AbstractRef(xf.core.ShapedArray((3,), np.float32)) is ref.aval
    assert xf.core.ShapedArray(3, np.float32) is xf.core.ShapedArray((3,), np.float32)
    assert repr(ref) == "Ref([0., 1., 2.], dtype=float32)"
    assert repr(ref.at[1:]) == "RefView(Ref([0., 1., 2.], dtype=float32)[1:])"
    assert repr(xf.new_ref(1.0)) == "Ref(1., dtype=float32)"
    assert ref.sharding == ref[...].sharding and isinstance(ref.unsafe_buffer_pointer(), int)
    assert ref == ref and len({ref, xf.new_ref(0)}) == 2 and bool(ref)
    assert xf.tree.leaves({"a": ref}) == [ref]
    assert xf.new_ref(np.arange(3.0)).dtype == np.float32
    key = xf.new_ref(xf.random.key(0))
    key[...] = xf.random.split(key[...])[0]
    np.testing.assert_array_equal(xf.random.key_data(key[...]), xf.random.key_data(xf.random.split(xf.random.key(0))[0]))


KEYS = [
    ((3,), ...), ((3,), ()), ((3,), 0), ((3,), -1), ((3,), np.int64(1)), ((3,), slice(1, None)), ((7,), slice(None, None, 2)),
    ((7,), slice(1, 6, 3)), ((3,), slice(-5, None)), ((3,), slice(2, 1)), ((3,), np.array([0, 2])), ((3,), np.array([-1, 0])),
    ((3,), np.array([[0], [2]])), ((3, 4), 1), ((3, 4), (1, 2)), ((3, 4), (slice(None), 1)), ((3, 4), (..., 2)),
    ((3, 4), (1, slice(1, 3))), ((3, 4), (np.array([0, 2]), np.array([1, 3]))), ((3, 4), (np.array([[0], [2]]), np.array([1, 3]))),
    ((3, 4), (np.array([0, 2]), slice(0, 4, 2))), ((3, 4, 5), (1, ..., 2)), ((3, 4, 5), (np.array([0, 1]), slice(None),
                                                                                    np.array([0, 1]))),
    ((3, 4, 5), (1, slice(None), np.array([0, 1, 4]))), ((3, 4, 5), (slice(1, 3), np.array([0, 3]))),
    ((3, 4, 5), (slice(0, 3, 2), np.array([0, 3]), 2)), ((3, 4, 5), (slice(None), 2, slice(1, 5, 2))), ((), ...), ((), ()),
    ((2, 0), 1), ((1, 3), 0), ((1,), 0), ((2, 1), (slice(None), 0)),
]
REPEATED = pytest.param((3,), np.array([[0, 1], [2, 1]]), marks=pytest.mark.cpu_only)  # on accelerators either write may win


@pytest.mark.parametrize(("shape", "key"), [*KEYS, REPEATED], ids=str)
@pytest.mark.parametrize("compiled", [False, True])
def test_indices(shape, key, compiled):
    """Read, write and add at NumPy's indices."""
    wrap = xf.jit if compiled else lambda f: f
    expected = numbers(*shape)
    ref = ref_of(*shape)
    np.testing.assert_array_equal(wrap(lambda ref: ref[key])(ref), expected[key])
    np.testing.assert_array_equal(wrap(lambda ref: get(ref, key))(ref), expected[key])
    new = np.asarray(np.linspace(5, 6, expected[key].size, dtype=np.float32).reshape(expected[key].shape))
    np.testing.assert_array_equal(wrap(lambda ref, x: swap(ref, key, x))(ref, new), expected[key])
    expected[key] = new
    np.testing.assert_array_equal(ref[...], expected)
    wrap(lambda ref, x: addupdate(ref, key, x))(ref, new)
    np.add.at(expected, key, new)
    np.testing.assert_array_equal(ref[...], expected)
    wrap(lambda ref, x: set_ref(ref, key, 2 * x))(ref, new)
    expected[key] = 2 * new
    np.testing.assert_array_equal(ref[...], expected)


def test_memory_spaces():
    host = xf.memory.Space.Host
    ref = xf.new_ref(xnp.arange(3.), memory_space=host)
    assert xf.typeof(ref).memory_space is host and str(xf.typeof(ref)) == "Ref<MemorySpace.Host>{float32[3]}"
    ref[0] = 5.
    xf.jit(lambda ref: ref.at[1].addupdate(1.0))(ref)
    assert ref[...].tolist() == [5, 2, 2]
    with pytest.raises(NotImplementedError, match="inside of jit"):
        xf.new_ref(xnp.ones(2), memory_space="vmem")


def test_repeated_positions_accumulate():
    ref = xf.new_ref(xnp.zeros(3))
    addupdate(ref, np.array([0, 0, 2]), xnp.ones(3))
    np.testing.assert_array_equal(ref[...], [2, 0, 1])
    ref.addupdate(5.0, 1)
    ref[np.array([0, 0])] += 1
    np.testing.assert_array_equal(ref[...], [3, 5, 1])


@pytest.mark.parametrize("position", [-9, -6, -2, -1, 0, 4, 5, 7])
def test_run_time_positions(position):
    """A scalar position is clamped; updates that are out of bounds are dropped for index arrays."""
    values = numbers(5)
    place = min(max(position + 5 if position < 0 else position, 0), 4)

    @xf.jit
    def scalar(i):
        ref = ref_of(5)
        before = ref[i]
        ref[i] = 100.0
        addupdate(ref, i, 1.0)
        return before, ref[...]

    @xf.jit
    def array(i):
        ref = ref_of(5)
        before = ref[i]
        ref[i] = xnp.array([100.0])
        return before, ref[...]

    before, after = scalar(position)
    assert before == values[place]
    values[place] = 101
    np.testing.assert_array_equal(after, values)
    before, after = array(xnp.array([position]))
    values = numbers(5)
    assert before[0] == values[place]
    if -5 <= position < 5:
        values[place] = 100
    np.testing.assert_array_equal(after, values)


def test_windows_at_run_time():
    values = numbers(6, 4)
    ref = ref_of(6, 4)
    read = xf.jit(lambda i: ref[Slice(i, 2), Slice(1, 2, 2)])
    np.testing.assert_array_equal(read(3), values[3:5, 1:4:2])
    xf.jit(lambda i: set_ref(ref, (Slice(i, 3, 2), 0), xnp.ones(3)))(1)
    values[1:6:2, 0] = 1
    np.testing.assert_array_equal(ref[...], values)


def test_views():
    ref, values = ref_of(4, 3), numbers(4, 3)
    view = ref.at[1:]
    assert (view.shape, view.dtype, view.ndim, view.size, len(view)) == ((3, 3), np.float32, 2, 9, 3)
    np.testing.assert_array_equal(view[0], values[1])
    np.testing.assert_array_equal(view.at[1].get(), values[2])
    view.at[0, 1:][1] = 50.0
    values[1:][0, 1:][1] = 50
    view.at[2].addupdate(xnp.ones(3))
    values[3] += 1
    np.testing.assert_array_equal(view.at[1].swap(xnp.zeros(3)), values[2])
    values[2] = 0
    view.at[0].at[0].set(7.0)
    values[1, 0] = 7
    np.testing.assert_array_equal(ref[...], values)


def test_values_read_before_do_not_change():
    start = xnp.zeros(3)
    ref = xf.new_ref(start)
    ref[0] = 1.0
    first = ref[...]
    step = xf.jit(lambda: addupdate(ref, 1, 1.0))
    step()
    second = ref[...]
    ref[2] = 5.0
    step()
    np.testing.assert_array_equal([start, first, second, ref[...]], [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 2, 5]])


def test_writes_in_place():
    """Memory without other references is written in place."""
    ref = xf.new_ref(xnp.zeros(1000))
    step = xf.jit(lambda: addupdate(ref, 1, 1.0))
    step()
    place = ref.unsafe_buffer_pointer()
    step()
    ref[5] = 3.0
    step()
    assert ref.unsafe_buffer_pointer() == place and ref[1] == 3.0


def test_copies():
    ref = xf.new_ref(xnp.zeros(2))
    import copy

    for other in (copy.copy(ref), copy.deepcopy(ref), pickle.loads(pickle.dumps(ref))):
        other[0] = 1.0
        ref[1] += 1.0
        assert other[0] == 1 and ref[0] == 0
    assert ref[1] == 3


# Programs


def test_text_of_jaxprs():
    """Jaxprs are printed as in JAX."""
    def f(ref, i):
        ref[...] = ref[...] + 1
        ref[0] = xnp.ones(3)
        ref[i, 1:] += 2.0
        addupdate(ref, ..., ref[...])
        addupdate(ref, (i, 0), 1.0)
        ref.at[1:][0] = ref[Slice(i, 2)][0]
        return swap(ref, (1, slice(0, 3, 2)), xnp.zeros(2)), ref[np.array([0, 1]), i], ref[-1]

    text = str(xf.make_jaxpr(f)(xf.new_ref(xnp.zeros((2, 3))), 1))
    assert text == """\
{ lambda a:i32[2]; b:Ref{f32[2,3]} c:i32[]. let
    d:f32[2,3] <- b[...]
    e:f32[2,3] = add d 1.0:f32[]
    b[...] <- e
    f:f32[3] = broadcast_in_dim 1.0:f32[]
    b[0,:] <- f
    g:f32[2] <- b[c,1:]
    h:f32[2] = add g 2.0:f32[]
    b[c,1:] <- h
    i:f32[2,3] <- b[...]
    b[...] += i
    b[c,0] += 1.0:f32[]
    j:f32[2,3] <- b[c:c+2,:]
    k:f32[1,3] = slice[limit_indices=(1, 3) start_indices=(0, 0) strides=None] j
    l:f32[3] = squeeze[dimensions=(0,)] k
    b[1:,:][0,:] <- l
    m:f32[2] = broadcast_in_dim 0.0:f32[]
    n:f32[2], b[1,::2] <- b[1,::2], m
    o:f32[2] <- b[a,c]
    p:f32[3] <- b[-1,:]
  in (n, o, p) }"""

    def local(x):
        ref = xf.new_ref(x)
        ref[0] = 1.0
        empty = xf.empty_ref(xf.ShapeDtypeStruct((), "float32"))
        xf.free_ref(empty)
        return xf.freeze(ref)

    assert str(xf.make_jaxpr(local)(xnp.zeros(3))).replace("] \n", "]\n") == """\
{ lambda ; a:f32[3]. let
    b:Ref{f32[3]} = new_ref[kind=None memory_space=None pin=False] a
    b[0] <- 1.0:f32[]
    c:Ref{f32[]} = empty_ref[memory_space=None pin=False ty=float32[]]
    free_ref c
    d:f32[3] = freeze b
  in (d,) }"""
    struct = xf.ShapeDtypeStruct((3,), "float32", is_ref=True)
    assert str(xf.make_jaxpr(lambda ref: ref[0])(struct)) == "{ lambda ; a:Ref{f32[3]}. let b:f32[] <- a[0] in (b,) }"
    host = xf.make_jaxpr(lambda x: xf.freeze(xf.new_ref(x, memory_space=xf.memory.Space.Host)))(1.0)
    assert "Ref<MemorySpace.Host>{f32[]}" in str(host)
    pinned = xf.make_jaxpr(lambda x: (xf.new_ref(x, pin=True)[...], xf.empty_ref(x, pin=True)[...]))(1.0)
    assert str(pinned).count("pin=True") == 2


def test_a_pinned_reference_has_the_values_of_another():
    def add_twice(x):
        ref = xf.new_ref(x, pin=True)
        ref[0] += 1.0
        total = xf.empty_ref(xf.ShapeDtypeStruct((3,), "float32"), pin=True)
        xf.lax.fori_loop(0, 2, lambda i, _: addupdate(total, ..., ref[...]), None)
        return total[...]

    x = np.float32([1, 2, 3])
    np.testing.assert_array_equal(xf.jit(add_twice)(x), [4, 4, 6])
    np.testing.assert_array_equal(xf.jit(xf.vmap(add_twice))(np.stack([x, x + 1])), [[4, 4, 6], [6, 6, 8]])
    np.testing.assert_array_equal(xf.jit(xf.grad(lambda x: add_twice(x).sum()))(x), [2, 2, 2])


def test_effects():
    ref, other = xf.new_ref(xnp.zeros(3)), xf.new_ref(xnp.zeros(3))

    def effects(f, *args):
        return sorted([type(e).__name__ for e in xf.make_jaxpr(f)(*args).effects])

    assert effects(lambda: ref[0]) == ["ReadEffect"]
    assert effects(lambda: set_ref(ref, 0, 1.0)) == ["WriteEffect"]
    assert effects(lambda: addupdate(ref, 0, 1.0)) == ["AccumEffect"]
    assert effects(lambda x: xf.new_ref(x)[...], 1.0) == ["InternalRefEffect"]

    def f(a, b):
        a[0] = 1.0
        return b[0]

    closed = xf.make_jaxpr(lambda b, a: (xf.jit(f)(a, b), lax.cond(True, lambda: addupdate(b, 0, 1.0), lambda: None))[0])(
        ref, other)
    of_b, of_a = closed.jaxpr.invars
    assert closed.effects == {ir.WriteEffect(of_a), ir.ReadEffect(of_b), ir.AccumEffect(of_b)}
    assert closed.eqns[0].effects == {ir.WriteEffect(of_a), ir.ReadEffect(of_b)}


def test_dead_code():
    """Writes and calls with writes are live; unused reads and references that are never read are removed."""
    def f(ref, x):
        xf.jit(lambda ref: (set_ref(ref, 0, 1.0), ref[1])[1])(ref)
        ref[2]
        xf.jit(lambda ref: ref[1])(ref)
        xf.new_ref(x)
        return x

    jaxpr = xf.make_jaxpr(f)(xf.new_ref(xnp.zeros(3)), 1.0).jaxpr
    pruned, used = ir.dce_jaxpr(jaxpr, [False])
    assert [eqn.primitive.name for eqn in pruned.eqns] == ["jit"] and used == [True, False]
    assert [eqn.primitive.name for eqn in pruned.eqns[0].params["jaxpr"].eqns] == ["swap"]
    assert pruned.effects == {ir.WriteEffect(pruned.invars[0])} == pruned.eqns[0].effects


def test_references_are_discharged_before_lowering():
    ref = xf.new_ref(xnp.zeros(3))
    lowered = xf.jit(lambda ref: addupdate(ref, ..., xnp.ones(3))).lower(ref)
    assert "tf.aliasing_output = 0" in lowered.as_text() and "-> tensor<3xf32>" in lowered.as_text()
    compiled = lowered.compile()
    assert compiled(ref) is None and compiled(ref) is None
    np.testing.assert_array_equal(ref[...], [2, 2, 2])
    with pytest.raises(TypeError, match="compiled for other arguments"):
        compiled(xnp.zeros(3))
    struct = xf.ShapeDtypeStruct((3,), "float32", is_ref=True)
    assert "stablehlo.slice" in xf.jit(lambda ref: ref[0]).lower(struct).as_text()
    assert xf.eval_shape(lambda ref: ref[0], ref).shape == ()


def test_jit():
    ref = xf.new_ref(xnp.zeros(3))
    traced = []

    @xf.jit
    def f(x):
        traced.append(x)
        ref[1] += x
        return ref[...] * 2

    for i in range(1, 4):
        np.testing.assert_array_equal(f(1.0), [0, 2 * i, 0])
    assert len(traced) == 1
    ref[0] = 5.0
    assert f(1.0)[0] == 10

    @xf.jit
    def g(pair, x, *, scale):
        pair["a"][...] = pair["b"][...] * x
        return xf.jit(lambda r: r[0])(pair["a"]) * scale

    a, b = xf.new_ref(xnp.zeros(2)), xf.new_ref(xnp.ones(2))
    assert g({"a": a, "b": b}, 3.0, scale=2.0) == 6 and g({"a": b, "b": a}, 2.0, scale=1.0) == 6
    np.testing.assert_array_equal([a[...], b[...]], [[3, 3], [6, 6]])
    outer = xf.jit(lambda x: (f(x), f(x))[1])
    np.testing.assert_array_equal(outer(1.0), [10, 12, 0])
    assert xf.jit(lambda r: r[1], static_argnums=0)(ref) == 6
    with xf.disable_jit():
        f(1.0)
    assert ref[1] == 7


def test_local_references_of_jitted_functions_cost_nothing():
    """Repeated calls are dispatched by C++, as for a pure function."""
    def pure(x):
        ref = xf.new_ref(x)
        ref[0] = 1.0
        return ref[...]

    f = xf.jit(pure)
    for _ in range(3):
        np.testing.assert_array_equal(f(xnp.zeros(2)), [1, 0])
    assert f._cache_size() == 1
    assert f.lower(xnp.zeros(2)).compile()._executable.effects == frozenset()


def test_weak_types_and_numbers():
    for init in (1.0, xnp.asarray(1.0), 1):
        ref = xf.new_ref(init)
        assert not ref[...].weak_type and not xf.jit(lambda ref: ref[...])(ref).weak_type
        assert not xf.freeze(xf.new_ref(init)).weak_type and xf.jit(lambda x: xf.freeze(xf.new_ref(x)))(init).weak_type
    ref = xf.new_ref(1.0)
    ref[...] = xnp.float32(2.5)
    assert (ref[...] * xnp.float16(2)).dtype == xf.jit(lambda x: x * ref[...])(xnp.float16(2)).dtype == np.float32
    half = xf.new_ref(xnp.ones(3, xnp.float16))
    half[0] = 2.5
    xf.jit(lambda: set_ref(half, 1, 3.5))()
    np.testing.assert_array_equal(half[...], np.array([2.5, 3.5, 1], np.float16))
    flags = xf.new_ref(xnp.ones(3, bool))
    flags[0] = False
    np.testing.assert_array_equal(flags[...], [False, True, True])
    with xf.enable_x64(True):
        wide = xf.new_ref(xnp.zeros(2))
        wide[0] = 1.5
        assert wide.dtype == np.float64 and xf.jit(lambda i: wide[i])(0) == 1.5


# Control flow


def scan_over(f, x):
    return lax.scan(lambda c, i: (c, f(i)), 0.0, x)[1]


LOOPS = {
    "scan": scan_over,
    "scan in reverse": lambda f, x: lax.scan(lambda c, i: (c, f(i)), 0.0, x, reverse=True)[1],
    "unrolled": lambda f, x: lax.scan(lambda c, i: (c, f(i)), 0.0, x, unroll=2)[1],
    "map": lambda f, x: lax.map(f, x),
    "fori_loop": lambda f, x: lax.fori_loop(0, len(x), lambda i, c: c + f(x[i]), 0.0),
    "fori_loop with unknown bounds": lambda f, x: lax.fori_loop(0, xnp.sum(x) * 0 + len(x), lambda i, c: c + f(x[i]), 0.0),
    "while_loop": lambda f, x: lax.while_loop(lambda s: s[0] < len(x), lambda s: (s[0] + 1, s[1] + f(x[s[0]])), (0, 0.0))[1],
    "nested": lambda f, x: lax.scan(lambda c, i: (c, lax.cond(i > 0, f, lambda i: xf.jit(f)(i), i)), 0.0, x)[1],
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", LOOPS)
def test_loops(name, compiled):
    """Steps see the writes of previous steps."""
    ref, log = xf.new_ref(xnp.ones(3)), xf.new_ref(xnp.zeros(4))
    expected, expected_log = np.ones(3, np.float32), np.zeros(4, np.float32)

    def step(i, ref=ref, log=log):
        ref[i % 3] = ref[(i + 1) % 3] * 2.0 + 1.0
        log[i] += ref[0]
        return ref[1] - ref[2]

    x = np.arange(4)
    (xf.jit if compiled else lambda f: f)(lambda: LOOPS[name](step, xnp.asarray(x)))()
    for i in (x[::-1] if "reverse" in name else x):
        step(i, expected, expected_log)
    np.testing.assert_allclose(ref[...], expected)
    np.testing.assert_allclose(log[...], expected_log)


def test_results_of_loops():
    def f(x):
        ref = xf.new_ref(x)

        def step(carry, i):
            before = ref[...]
            ref[...] = before * 2
            return carry + i, before + ref[...]

        return lax.scan(step, 10, xnp.arange(3)), ref[...]

    (carry, ys), last = f(1.0)
    assert (carry, last) == (13, 8)
    np.testing.assert_array_equal(ys, [3, 6, 12])


def test_rows_of_references():
    """A scan over a reference passes a reference to its row to each step."""
    ref = ref_of(3, 2)
    expected = numbers(3, 2)
    total, ys = lax.scan(lambda c, row: ((set_ref(row, 0, c), c + row[1])[1], row[...]), 0.0, ref)
    sums = np.cumsum([0, *expected[:, 1]])
    expected[:, 0] = sums[:3]
    assert total == sums[3]
    np.testing.assert_array_equal(ref[...], expected)
    np.testing.assert_array_equal(ys, expected)


def test_branches():
    ref, other = xf.new_ref(xnp.zeros(2)), xf.new_ref(xnp.zeros(()))

    @xf.jit
    def f(k):
        return lax.switch(k, [lambda: (set_ref(ref, 0, 1.0), ref[0])[1], lambda: (addupdate(other, ..., 5.0), other[...])[1],
                              lambda: ref[1] + other[...]])

    assert [float(f(k)) for k in (0, 1, 1, 2)] == [1, 5, 10, 10]
    np.testing.assert_array_equal(ref[...], [1, 0])
    lax.cond(ref[0] > 0, lambda r: set_ref(r, 1, 7.0), lambda r: None, ref)
    assert ref[1] == 7


def test_conditions_of_loops():
    """The condition may read the writes of the body, and write itself."""
    ref, calls = xf.new_ref(0), xf.new_ref(0)

    def condition(i):
        calls[...] += 1
        return ref[...] < 3

    def body(i):
        ref[...] += 1
        return i + calls[...]

    for wrap in (lambda f: f, xf.jit):
        ref[...], calls[...] = 0, 0
        assert wrap(lambda: lax.while_loop(condition, body, 0))() == 1 + 2 + 3
        assert (ref[...], calls[...]) == (3, 4)
        ref[...] = 0
        assert wrap(lambda: lax.while_loop(lambda i: ref[...] < 3, lambda i: (set_ref(ref, ..., ref[...] + 1), i + 1)[1], 0))() == 3


def test_operations_that_call_a_program():
    """They need no rule for references, also if results with effects are dropped."""
    def program(ref, x):
        ref[0] += x
        other = xf.new_ref(x)
        return [ref[0] * x, other[...] + 1.0]

    def f(x, unused=False):
        ref = xf.new_ref(xnp.ones(2))
        y, z = closed_call_p.bind(program, ref, x)
        return xf.freeze(ref).sum() if unused else y + z

    for g in (f, xf.jit(f, static_argnums=1)):
        assert g(2.0) == 9.0 and g(2.0, True) == 4.0
        assert xf.grad(g)(2.0) == 6.0
        np.testing.assert_array_equal(xf.vmap(g)(xnp.array([1.0, 2.0])), [4.0, 9.0])
    jaxpr = xf.make_jaxpr(lambda x: f(x, True))(2.0).jaxpr
    live, _ = ir.dce_jaxpr(jaxpr, [True])
    assert [(eqn.primitive.name, len(eqn.outvars)) for eqn in live.eqns if eqn.primitive is closed_call_p] == [("closed_call", 0)]
    ir_check.check_jaxpr(live)


def test_checkpoint_of_functions_with_effects():
    """Writes are executed once."""
    ref = xf.new_ref(0.0)

    def f(x):
        ref[...] += 1.0
        return xnp.sin(x) * ref[...]

    assert xf.checkpoint(f)(2.0) == pytest.approx(np.sin(2))
    assert xf.grad(xf.checkpoint(f))(2.0) == pytest.approx(2 * np.cos(2))
    assert xf.jit(xf.grad(xf.checkpoint(f)))(2.0) == pytest.approx(3 * np.cos(2))
    assert ref[...] == 3


def test_other_effects_in_order(capfd):
    ref = xf.new_ref(0)

    @xf.jit
    def f():
        xf.debug.print("{}", ref[...], ordered=True)
        ref[...] += 1
        xf.debug.print("{}", ref[...], ordered=True)

    f()
    f()
    xf.effects_barrier()
    assert capfd.readouterr().out.split() == ["0", "1", "1", "2"]


# Derivatives and batches of functions that make references: as of functions that do not


def with_refs(x):
    table, total = xf.new_ref(xnp.zeros(3)), xf.new_ref(0.0)

    def step(i, c):
        table[i] = xnp.sin(x * c)
        addupdate(total, ..., table[i] * c)
        lax.cond(i > 0, lambda: addupdate(table, 0, x), lambda: None)
        return c * x

    c = lax.fori_loop(0, 3, step, x)
    table[...] *= xnp.arange(1.0, 4.0)
    return table[...].sum() * c + xf.freeze(total)


def without_refs(x):
    table, total, c = [0.0, 0.0, 0.0], 0.0, x
    for i in range(3):
        table[i] = xnp.sin(x * c)
        total = total + table[i] * c
        if i > 0:
            table[0] = table[0] + x
        c = c * x
    return sum(t * k for t, k in zip(table, (1.0, 2.0, 3.0))) * c + total


SCALAR = {
    "value": lambda f: f,
    "grad": xf.grad,
    "jvp": lambda f: lambda x: xf.jvp(f, (x,), (2.0,))[1],
    "linearize": lambda f: lambda x: xf.linearize(f, x)[1](2.0),
    "vjp": lambda f: lambda x: xf.vjp(f, x)[1](2.0)[0],
    "second": lambda f: xf.grad(xf.grad(f)),
    "hessian": xf.hessian,
    "jacfwd": xf.jacfwd,
    "checkpoint": lambda f: xf.grad(xf.checkpoint(f)),
    "saved": lambda f: xf.grad(xf.checkpoint(f, policy=xf.checkpoint_policies.everything_saveable)),
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("name", SCALAR)
def test_transformations(name, inside, outside):
    def transformed(f):
        f = SCALAR[name](xf.jit(f) if inside else f)
        return xf.jit(f) if outside else f

    x = 0.7
    np.testing.assert_allclose(transformed(with_refs)(x), transformed(without_refs)(x), rtol=2e-5)
    xs = xnp.array([0.3, 0.7, 1.1])
    np.testing.assert_allclose(xf.vmap(transformed(with_refs))(xs), xf.vmap(transformed(without_refs))(xs), rtol=2e-5, atol=1e-5)


def test_writes_of_all_elements():
    def g(x):
        ref = xf.new_ref(0.0)
        ref[...] = xnp.sin(x)
        return ref[...]

    assert xf.grad(g)(1.0) == pytest.approx(np.cos(1))
    np.testing.assert_allclose(xf.vmap(g)(xnp.arange(3.0)), np.sin([0, 1, 2]), rtol=1e-6)
    assert xf.grad(lambda x: swap(xf.new_ref(x), ..., 5.0))(3.0) == 1
    assert xf.grad(lambda x: (lambda ref: (swap(ref, ..., 5.0), ref[...])[1])(xf.new_ref(x)))(3.0) == 0


@pytest.mark.parametrize(("shape", "key"), [*[k for k in KEYS if np.size(numbers(*k[0])[k[1]])], REPEATED], ids=str)
def test_derivatives_of_indexing(shape, key):
    """Reads, writes and additions at indices have the derivatives of the same operations on arrays."""
    start, new = xnp.asarray(numbers(*shape)) + 1, xnp.asarray(numbers(*shape)[key]) * 0.1 + 0.5

    def mutable(x, y):
        ref = xf.new_ref(x)
        a = ref[key]
        ref[key] = a * y
        addupdate(ref, key, y)
        return (ref[...] ** 2).sum() + (swap(ref, key, y) * a).sum() + (ref[...] ** 3).sum()

    def pure(x, y):
        a = x[key]
        x = x.at[key].set(a * y).at[key].add(y)
        return (x ** 2).sum() + (x[key] * a).sum() + (x.at[key].set(y) ** 3).sum()

    for f, g in zip(xf.grad(mutable, (0, 1))(start, new), xf.grad(pure, (0, 1))(start, new)):
        np.testing.assert_allclose(f, g, rtol=1e-5)
    tangents = xnp.cos(start), xnp.sin(new)
    np.testing.assert_allclose(*[xf.jvp(f, (start, new), tangents)[1] for f in (mutable, pure)], rtol=1e-4)
    batch = [xnp.stack([a, a * 2, a + 1]) for a in (start, new)]
    np.testing.assert_allclose(*[xf.vmap(f)(*batch) for f in (mutable, pure)], rtol=1e-5)
    np.testing.assert_allclose(*[xf.vmap(f, (None, 0))(start, batch[1]) for f in (mutable, pure)], rtol=1e-5)


# Derivatives of functions that take references


def test_references_for_logs():
    """A reference that is not differentiated accepts values that are not, at each level of nesting."""
    def loss(w, log):
        y = xnp.sin(w)
        log[...] = log[...] + lax.stop_gradient(y)
        return y * y

    log = xf.new_ref(0.0)
    for i, f in enumerate([xf.grad(loss), xf.jit(xf.grad(loss)), xf.grad(xf.jit(loss)), xf.grad(xf.checkpoint(loss))], 1):
        assert f(1.0, log) == pytest.approx(np.sin(2))
        assert log[...] == pytest.approx(i * np.sin(1), rel=1e-6)
    hidden = xf.new_ref(0.0, kind="no_grad_no_remat")
    assert xf.grad(lambda x: (set_ref(hidden, ..., x), x * hidden[...])[1])(3.0) == 3 == hidden[...]
    assert xf.grad(lambda x: (lambda ref: (set_ref(ref, ..., x), x * ref[...])[1])(
        xf.new_ref(0.0, kind="no_grad_no_remat")))(3.0) == 3


def test_gradients_go_into_references():
    def f(x_ref):
        return x_ref[...] ** 2

    gradient = xf.new_ref(100.0)
    y, f_vjp = xf.vjp(f, xf.new_ref(2.0))
    assert y == 4 and repr(f_vjp.with_refs(gradient)(1.0)) == "(GradRef(),)" and gradient[...] == 104
    cotangent_refs = xf.ad.DontWant(), {"y": xf.ad.GradValue()}, gradient
    cts = xf.vjp(lambda x, tree, z: x * tree["y"] * z, 2.0, {"y": 3.0}, 4.0)[1].with_refs(*cotangent_refs)(1.0)
    assert cts == (xf.ad.DidntWant(), {"y": 8}, xf.ad.GradRef()) and gradient[...] == 110 and xf.tree.leaves(cts) == [8]
    with pytest.raises(ValueError, match="with_refs"):
        f_vjp(1.0)

    def g(x_ref):
        x_ref[...] = xnp.sin(x_ref[...])
        return x_ref[...] ** 2

    x_ref, gradient = xf.new_ref(2.0), xf.new_ref(0.0)
    xf.vjp(g, x_ref)[1].with_refs(gradient)(1.0)
    assert gradient[...] == pytest.approx(2 * np.sin(2) * np.cos(2)) and x_ref[...] == pytest.approx(np.sin(2))
    for transform in (xf.grad, xf.value_and_grad, xf.jacrev):
        with pytest.raises(TypeError, match="with_refs"):  # a reference is no type of argument that these take
            transform(g)(x_ref)
    # for arguments that are values too
    gradient = xf.new_ref(0.0)
    _, product = xf.vjp(lambda d: d["a"] * d["b"], {"a": 2.0, "b": 5.0})
    [cts] = product.with_refs({"a": gradient, "b": 0})(1.0)
    assert gradient[...] == 5 and cts["b"] == 2 and repr(cts["a"]) == "GradRef()"
    with pytest.raises(ValueError, match="in the structure of the arguments"):
        product.with_refs(gradient)(1.0)
    with pytest.raises(ValueError, match="shape"):
        xf.vjp(xnp.sin, 1.0)[1].with_refs(xf.new_ref(xnp.zeros(3)))(1.0)

    def accumulated(xs):
        total = xf.new_ref(0.0)

        def step(_, x):
            value, pullback = xf.vjp(lambda w: w * x * w, 2.0)
            pullback.with_refs(total)(1.0)
            return (), value

        lax.scan(step, (), xs)
        return xf.freeze(total)

    assert accumulated(xnp.arange(3.0)) == xf.jit(accumulated)(xnp.arange(3.0)) == 12


def test_tangents_of_references():
    ref, tangent = xf.new_ref(xnp.zeros(3)), xf.new_ref(xnp.ones(3))

    def f(ref, x):
        ref[0] = x * 2
        return ref[...] * 3

    value, moved = xf.jvp(f, (ref, 3.0), (tangent, 1.0))
    np.testing.assert_array_equal([value, moved, ref[...], tangent[...]], [[18, 0, 0], [6, 3, 3], [6, 0, 0], [2, 1, 1]])
    assert xf.linearize(lambda r: r[...] ** 2, xf.new_ref(2.0))[1](xf.new_ref(1.0)) == 4
    with pytest.raises(TypeError, match="tangent of a reference must be a reference"):
        xf.jvp(f, (ref, 3.0), (xnp.ones(3), 1.0))


@xf.custom_vjp
def stash(ref, x):
    return x


def _stash_bwd(ref, g):
    ref[...] = g
    return None, g


stash.defvjp(lambda ref, x: (x, ref), _stash_bwd)


@pytest.mark.parametrize("wrap", [
    xf.grad, lambda f: xf.jit(xf.grad(f)), lambda f: xf.grad(xf.jit(f)), lambda f: xf.grad(xf.checkpoint(f))])
def test_backward_rules_may_write(wrap):
    ref = xf.new_ref(0.0)
    gradient = wrap(lambda x, ref: xnp.sin(stash(ref, xnp.sin(x))))
    for x in (1.0, 2.0, 3.0):
        assert gradient(x, ref) == pytest.approx(np.cos(np.sin(x)) * np.cos(x), rel=1e-5)
        assert ref[...] == pytest.approx(np.cos(np.sin(x)), rel=1e-5)


def test_backward_rules_may_write_in_loops():
    ref = xf.new_ref(0.0)

    def f(x):
        return lax.scan(lambda c, _: (xnp.sin(stash(ref, c)), None), x, None, length=3)[0]

    slope = np.cos(1) * np.cos(np.sin(1)) * np.cos(np.sin(np.sin(1)))
    for wrap in (lambda f: f, xf.jit):
        ref[...] = 0.0
        assert wrap(xf.grad(f))(1.0) == pytest.approx(slope, rel=1e-5)
        assert ref[...] == pytest.approx(slope, rel=1e-5)


def test_functions_with_rules_take_references():
    @xf.custom_vjp
    def f(ref, x):
        ref[...] = x
        return x * x

    f.defvjp(lambda ref, x: (f(ref, x), x), lambda x, g: (None, 10 * g * x))
    ref = xf.new_ref(0.0)
    for i, (g, expected) in enumerate([
            (lambda x: f(ref, x), lambda x: x * x), (xf.jit(lambda x: f(ref, x)), lambda x: x * x),
            (xf.grad(lambda x: f(ref, x)), lambda x: 10 * x), (xf.jit(xf.grad(lambda x: f(ref, x))), lambda x: 10 * x),
            (xf.grad(xf.jit(lambda x: f(ref, x))), lambda x: 10 * x)]):
        assert (g(2.0 + i), ref[...]) == (expected(2.0 + i), 2.0 + i)

    @xf.custom_jvp
    def h(ref, x):
        return x * ref[...]

    h.defjvp(lambda primals, tangents: (h(*primals), 7 * tangents[1]))
    ref[...] = 3.0
    assert h(ref, 2.0) == 6 and xf.grad(lambda x: h(ref, x))(2.0) == 7 and xf.jit(xf.grad(lambda x: h(ref, x)))(2.0) == 7


@xf.custom_vjp
def counted(ref, x):
    """Return x times the value of the reference, which is incremented. The backward rule multiplies the cotangent by 10."""
    value = ref[...]
    ref[...] = value + 1
    return x * value


counted.defvjp(lambda ref, x: (counted(ref, x), None), lambda _, g: (None, 10 * g))


@xf.custom_jvp
def scaled(ref, x):
    return x * ref[...]


scaled.defjvp(lambda primals, tangents: (scaled(*primals), 7 * tangents[1]))


@xf.custom_batching.custom_vmap
def shared(ref, x):
    ref[...] = ref[...] + x
    return ref[...]


@shared.def_vmap
def _shared_of_batch(size, batched, ref, x):
    ref[...] = ref[...] + 100
    return x, True


def _steps(f, ref, x):
    return lax.scan(lambda c, _: (f(ref, c), None), x, None, length=3)[0]


@pytest.mark.parametrize("wrap", [lambda f: f, xf.jit], ids=["eager", "jit"])
def test_functions_with_rules_take_references_in_loops(wrap):
    def inside(f):
        return lambda x: _steps(f, xf.new_ref(xnp.float32(2.0)), x)

    assert wrap(inside(counted))(1.5) == 1.5 * 2 * 3 * 4
    assert wrap(xf.grad(inside(counted)))(1.5) == 1000
    assert wrap(inside(scaled))(1.5) == 1.5 * 8 and wrap(xf.grad(inside(scaled)))(1.5) == 7**3
    for make in (lambda x: xf.new_ref(xnp.float32(2.0)), xf.new_ref):  # what depends on the reference the rule does not say
        assert wrap(xf.grad(lambda x: counted(make(x), x)))(3.0) == 10
    assert wrap(xf.grad(lambda x: xf.vmap(lambda v: scaled(xf.new_ref(xnp.float32(2.0)), v))(x).sum()))(xnp.ones(2)).tolist() == [7, 7]


def test_references_from_outside_in_loops_with_rules():
    ref = xf.new_ref(xnp.float32(2.0))
    for i, wrap in enumerate([lambda f: f, xf.jit]):
        assert wrap(xf.grad(lambda x: _steps(counted, ref, x)))(1.5) == 1000
        assert ref[...] == 5 + 3 * i


def test_writes_of_rules_are_constants():
    def f(x):
        ref = xf.new_ref(x)
        y = counted(ref, x)
        return y + ref[...] * 3

    assert xf.grad(f)(2.0) == xf.jit(xf.grad(f))(2.0) == 10


def test_rules_for_batches_take_references_in_loops():
    refs = xf.new_ref(xnp.array([1.0, 2.0]))
    result = xf.vmap(lambda ref, x: _steps(shared, ref, x))(refs, xnp.array([5.0, 6.0]))
    assert result.tolist() == [5, 6] and refs[...].tolist() == [301, 302]


def test_references_that_functions_with_rules_close_over():
    ref = xf.new_ref(2.0)
    f = xf.custom_jvp(lambda x: x * ref[...])
    f.defjvp(lambda primals, tangents: (f(*primals), 7 * tangents[0]))
    assert xf.grad(f)(3.0) == 7
    def loop(x):
        return lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]

    assert xf.vmap(loop)(xnp.array([1.0, 3.0])).tolist() == [4, 12]  # only read, so that batches need no rule
    assert xf.grad(loop)(1.0) == xf.jit(xf.grad(loop))(1.0) == 49
    assert xf.jit(xf.grad(xf.jit(f)))(1.0) == 7


def test_rules_that_write_to_references_that_they_close_over():
    """Each step of a loop executes the writes of its rule once."""
    steps, factors = xnp.arange(1.0, 4.0), (1.0, 2.0, 3.0)

    def noting_tangents(ref):
        f = xf.custom_jvp(lambda x: x * 2)

        @f.defjvp
        def rule(primals, tangents):
            ref[...] += primals[0]
            return f(primals[0]), tangents[0] * 3

        return f

    def noting_cotangents(ref):
        f = xf.custom_vjp(lambda x: x * 2)

        def backward(x, ct):
            ref[...] += ct
            return (ct * x,)

        f.defvjp(lambda x: (f(x), x), backward)
        return f

    values, cts = [3.0], [1.0]
    for y in factors:
        values.append(2 * values[-1] * y)
    for value, y in zip(reversed(values[:-1]), reversed(factors)):
        cts.append(cts[-1] * y * value)
    of_cotangents = sum(ct * y for ct, y in zip(cts, reversed(factors)))
    for make, gradient, noted in ((noting_tangents, 27 * 6, sum(values[:-1])), (noting_cotangents, cts[-1], of_cotangents)):
        for body in (lambda f: lambda c, y: (f(c) * y, None),
                     lambda f: xf.checkpoint(lambda c, y: (f(c) * y, None)),
                     lambda f: lambda c, y: (lax.cond(y > 0, lambda: f(c) * y, lambda: c), None)):
            ref = xf.new_ref(0.0)
            f = body(make(ref))
            assert xf.grad(lambda x: lax.scan(f, x, steps)[0])(3.0) == gradient
            assert ref[...] == noted


def test_rules_that_close_over_references_made_in_a_compiled_function():
    def f(x):
        ref = xf.new_ref(xnp.zeros_like(x))
        g = xf.custom_jvp(lambda x: x * 2)
        g.defjvp(lambda primals, tangents: (primals[0] * 2 + ref[...], tangents[0]))
        return g(x)

    with pytest.raises(NotImplementedError, match="closes over a reference.*as an argument"):
        xf.jit(xf.grad(f))(1.0)


# Batches of references


def test_vmap_over_references():
    ref = xf.new_ref(xnp.zeros(3))
    xf.vmap(lambda ref, x: set_ref(ref, ..., x))(ref, xnp.arange(3.0))
    np.testing.assert_array_equal(ref[...], [0, 1, 2])

    def dist(x, y, out):
        out[...] = xnp.sum((x - y) ** 2)

    vecs = xnp.arange(12.0).reshape(3, 4)
    out = xf.new_ref(xnp.zeros((3, 3)))
    xf.jit(xf.vmap(xf.vmap(dist, (0, None, 0)), (None, 0, 0)))(vecs, vecs, out)
    np.testing.assert_array_equal(out[...], ((numbers(3, 4)[:, None] - numbers(3, 4)) ** 2).sum(-1))
    # each element its own position; another axis; loops
    ref, expected = ref_of(3, 4), numbers(3, 4)
    xf.vmap(lambda r, i: addupdate(r, i, 1.0), (1, 0))(ref, np.array([0, 2, 2, 1]))
    expected[[0, 2, 2, 1], np.arange(4)] += 1
    np.testing.assert_array_equal(ref[...], expected)
    xf.vmap(lambda r, xs: lax.scan(lambda c, x: (c, addupdate(r, 0, x)), 0.0, xs))(ref, xnp.ones((3, 5)))
    expected[:, 0] += 5
    np.testing.assert_array_equal(ref[...], expected)
    np.testing.assert_array_equal(xf.vmap(lambda i: ref[i, 1])(np.array([2, 0])), expected[[2, 0], 1])
    np.testing.assert_array_equal(xf.vmap(lambda p: lax.cond(p, lambda: ref[0], lambda: ref[1]))(np.array([True, False])),
                                  expected[:2])


# Many devices


@pytest.mark.cpu_only
def test_references_over_devices():
    mesh = xf.make_mesh((4,), ("x",), axis_types=(xf.sharding.AxisType.Auto,))
    split = xf.NamedSharding(mesh, xf.P("x"))
    ref = xf.new_ref(xf.device_put(xnp.arange(8.0), split))
    f = xf.jit(lambda: set_ref(ref, ..., ref[...] * 2))
    f()
    xf.jit(lambda i: set_ref(ref, i, -1.0))(2)
    f()
    assert ref.sharding.is_equivalent_to(split, 1)
    np.testing.assert_array_equal(ref[...], [0, 4, -2, 12, 16, 20, 24, 28])
    add = xf.jit(lambda r, x: set_ref(r, ..., r[...] + x), in_shardings=(split, split))
    with pytest.raises(ValueError, match="in_shardings"):  # it stays where it was made
        add(xf.new_ref(xnp.zeros(8)), xnp.ones(8))
    add(ref, xnp.ones(8))
    np.testing.assert_array_equal(ref[...], [1, 5, -1, 13, 17, 21, 25, 29])


@pytest.mark.cpu_only
def test_references_in_shard_map():
    mesh = xf.make_mesh((4,), ("x",), axis_types=(xf.sharding.AxisType.Auto,))
    ref = xf.new_ref(xf.device_put(xnp.zeros(8), xf.NamedSharding(mesh, xf.P())))

    def f(ref, x):
        own = xf.new_ref(x)
        own[0] = 0.0
        ref[...] = ref[...] + own[...] + lax.psum(x, "x")

    mapped = xf.shard_map(f, mesh=mesh, in_specs=(xf.P("x"), xf.P("x")), out_specs=None)
    x = numbers(8)
    own = x * (np.arange(8) % 2)
    for i, g in enumerate((mapped, xf.jit(mapped)), 1):
        g(ref, x)
        np.testing.assert_array_equal(ref[...], i * (own + np.tile(x.reshape(4, 2).sum(0), 4)))
    with pytest.raises(ValueError, match="differs between the devices"):
        xf.shard_map(lambda x: set_ref(ref, slice(0, 2), x), mesh=mesh, in_specs=xf.P("x"), out_specs=None)(x)


# Misuse

three = xnp.zeros(3)


def _freeze_and(use):
    def f(x):
        ref = xf.new_ref(x)
        xf.freeze(ref)
        return use(ref)

    return f


MISUSE = {
    "an array": (lambda r: xnp.sin(r), TypeError, r"sin got a reference of type Ref\{float32\[3\]\} where it needs an array"),
    "an operand": (lambda r: r[...] + r, TypeError, "got a reference"),
    "traced": (lambda r: xf.jit(lambda r: (r * 2).sum())(r), TypeError, r"got a reference .* ref\[\.\.\.\]"),
    "NumPy": (lambda r: np.asarray(r), TypeError, "got a reference"),
    "iteration": (lambda r: list(r), TypeError, "iter"),
    "traced iteration": (lambda r: xf.jit(lambda r: list(r))(r), TypeError, "iteration got a reference"),
    "a reference to one": (lambda r: xf.new_ref(r), TypeError, "no references to references"),
    "of a list": (lambda r: xf.new_ref([1, 2]), TypeError, "new_ref got an argument of type list"),
    "returned": (lambda r: xf.jit(lambda r: {"a": r})(r), ValueError, r"returned a reference .* at result\['a'\]"),
    "returned from outside": (lambda r: xf.jit(lambda: r)(), ValueError, "returned a reference"),
    "returned new": (lambda r: xf.jit(lambda: xf.new_ref(1.0))(), ValueError, "returned a reference"),
    "carried": (lambda r: lax.scan(lambda c, x: (c, None), r, three), ValueError, "returned a reference"),
    "from a branch": (lambda r: lax.cond(True, lambda r: r, lambda r: r, r), ValueError, "returned a reference"),
    "twice": (lambda r: xf.jit(lambda a, b: a[0] + b[0])(r, r), ValueError, "argument a and argument b"),
    "twice inside": (lambda r: xf.jit(lambda r: xf.jit(lambda a, b: set_ref(a, 0, b[0]))(r, r))(r), ValueError, "twice"),
    "twice in a loop": (lambda r: lax.scan(lambda c, x: (c, x[0][...] + x[1][...]), 0.0, (r, r)), ValueError, "twice"),
    "passed and closed over": (lambda r: xf.jit(lambda a: a[0] + r[0])(r), ValueError, "from outside and argument a"),
    "frozen elsewhere": (lambda r: xf.jit(lambda a: xf.freeze(a))(r), ValueError, "has not made itself"),
    "frozen from outside": (lambda r: xf.jit(lambda: xf.freeze(r))(), ValueError, "has not made itself"),
    "read when frozen": (lambda r: xf.jit(_freeze_and(lambda r: r[...]))(1.0), RuntimeError, "get .* after freeze"),
    "written when frozen": (lambda r: xf.jit(_freeze_and(lambda r: set_ref(r, ..., 1.0)))(1.0), RuntimeError, "after freeze"),
    "frozen": (lambda r: (xf.freeze(r), r[0]), RuntimeError, "was read after freeze"),
    "freed": (lambda r: (xf.free_ref(r), set_ref(r, 0, 1.0)), RuntimeError, "was written to after free_ref"),
    "passed when frozen": (lambda r: (xf.freeze(r), xf.jit(lambda r: r[0])(r)), RuntimeError, "was passed to .* after freeze"),
    "written by a program when frozen": (
        lambda r: (xf.freeze(r), xf.jit(lambda r: set_ref(r, 0, 1.0))(r)), RuntimeError, "was passed to .* after freeze"),
    "a scalar for all": (lambda r: set_ref(r, ..., 1.0), ValueError, r"needs a value of the shape that is written, \(3,\)"),
    "another shape": (lambda r: set_ref(r, 0, three), ValueError, "shape"),
    "another dtype": (lambda r: set_ref(r, 0, 1), ValueError, r"needs a value of dtype float32, .*; got ~int32\[\]"),
    "another dtype to add": (lambda r: addupdate(r, 0, xnp.float16(1)), ValueError, "dtype float32"),
    "a list": (lambda r: set_ref(r, ..., [1.0, 2.0, 3.0]), TypeError, "list"),
    "a reference": (lambda r: set_ref(r, ..., r), TypeError, "got a reference"),
    "out of bounds": (lambda r: r[3], ValueError, "index 3 is out of bounds for dimension 0"),
    "array out of bounds": (lambda r: r[xnp.asarray(3)], ValueError, "index 3 is out of bounds for dimension 0"),
    "slice out of bounds": (lambda r: r[3:], ValueError, "is out of bounds for dimension 0, of size 3"),
    "too many indices": (lambda r: r[0, 0], ValueError, "too many indices"),
    "two ellipses": (lambda r: r[..., ...], ValueError, "ellipsis"),
    "backward": (lambda r: r[::-1], ValueError, "forward"),
    "a mask": (lambda r: r[three == 0], IndexError, "mask"),
    "true": (lambda r: r[True], IndexError, "mask"),
    "a list of positions": (lambda r: r[[0, 1]], TypeError, "list"),
    "a float": (lambda r: r[1.5], TypeError, "integers"),
    "a string": (lambda r: r["a"], TypeError, "str"),
    "a new dimension": (lambda r: r[None, 0], IndexError, "new dimension"),
    "unknown bounds": (lambda r: xf.jit(lambda i: r[i:i + 1])(0), IndexError, "known while tracing"),
    "a window outside": (lambda r: r[Slice(2, 2)], ValueError, "outside"),
    "no reference": (lambda r: get(three, 0), ValueError, "takes a reference"),
    "free of an array": (lambda r: xf.free_ref(three), TypeError, "takes a reference"),
    "a pinned buffer": (lambda r: xf.new_ref(1.0, pin=True), NotImplementedError, "inside of jit"),
    "an empty pinned buffer": (lambda r: xf.empty_ref(r[...], pin=True), NotImplementedError, "inside of jit"),
    "a memory": (lambda r: xf.new_ref(1.0, memory_space="vmem"), NotImplementedError, "inside of jit"),
    "differentiated": (lambda r: xf.grad(lambda x: (set_ref(r, 0, x), x)[1])(1.0), ValueError, "stop_gradient"),
    "differentiated in jit": (lambda r: xf.grad(xf.jit(lambda x, r: (set_ref(r, 0, x), x)[1]))(1.0, r), ValueError, "stop_grad"),
    "differentiated sum": (lambda r: xf.jvp(lambda x: (addupdate(r, 0, x), x)[1], (1.0,), (1.0,)), ValueError, "added to"),
    "all elements": (lambda r: xf.vmap(lambda x: set_ref(r, 0, x))(three), ValueError, "in_axes"),
    "all elements the same": (lambda r: xf.vmap(lambda x: set_ref(r, 0, 1.0))(three), ValueError, "in_axes"),
    "all elements in a loop": (lambda r: xf.vmap(lambda x: lax.scan(lambda c, i: (c, set_ref(r, i, x)), 0., np.arange(3)))(three),
                               ValueError, "in_axes"),
    "not mapped": (lambda r: xf.vmap(lambda r, x: set_ref(r, 0, x), (None, 0))(r, three), ValueError, "in_axes"),
}


@pytest.mark.parametrize("name", MISUSE)
def test_misuse_raises(name):
    call, error, message = MISUSE[name]
    with pytest.raises(error, match=message):
        call(xf.new_ref(three))


def test_leaked_references():
    leaked = []
    xf.jit(lambda x: (leaked.append(xf.new_ref(x)), x)[1])(1.0)
    with pytest.raises(xf.errors.UnexpectedTracerError, match="new_ref"):
        leaked[0][...]


def test_frozen():
    ref = xf.new_ref(three)
    assert np.array_equal(xf.freeze(ref), three) and "freeze" in repr(ref) and ref.shape == (3,)
    np.testing.assert_array_equal(xf.freeze(three), three)
    np.testing.assert_array_equal(xf.empty_ref(three)[...], three)


def test_references_copy_their_initial_value():
    """Initial values and written values can be deleted, donated or changed later; deleted arrays raise an error at creation."""
    x, y, z = xnp.ones(3), 2 * xnp.ones(3), np.full(3, 4, np.float32)
    ref, other = xf.new_ref(x), xf.new_ref(z)
    z[:] = 0
    x.delete()
    np.testing.assert_array_equal(ref[...], [1, 1, 1])
    np.testing.assert_array_equal(other[...], [4, 4, 4])
    ref[...] = y
    xf.jit(lambda v: v + 1, donate_argnums=0)(y)
    ref[0] += 1
    np.testing.assert_array_equal(ref[...], [3, 2, 2])
    with pytest.raises(RuntimeError, match="deleted"):
        xf.new_ref(x)
    with pytest.raises(RuntimeError, match="deleted"):
        ref[...] = x
    np.testing.assert_array_equal(ref[...], [3, 2, 2])


def test_unused_cotangents_cost_nothing():
    """Products that only serve unused cotangents are left out."""
    matrix, vector = xnp.arange(6.0).reshape(2, 3), xnp.arange(3.0)
    _, pullback = xf.vjp(lambda m, v: xnp.sin(m @ v), matrix, vector)

    def run():
        return pullback.with_refs(xf.ad.GradValue(), xf.ad.DontWant())(xnp.ones(2))

    of_matrix, other = run()
    np.testing.assert_allclose(of_matrix, np.outer(np.cos(matrix @ vector), vector), rtol=1e-5)
    assert other == xf.ad.DidntWant() and str(xf.make_jaxpr(run)()).count("dot_general") == 1


def test_cotangents_are_added_where_the_array_was_read():
    """Accumulating the gradient of a read touches only the elements that were read."""
    x = xnp.arange(1000.0)

    @xf.jit
    def collect(total, positions):
        def step(_, i):
            _, pullback = xf.vjp(lambda x: x[i] ** 2, x)
            pullback.with_refs(total)(1.0)
            return None, None

        lax.scan(step, None, positions)

    total = xf.new_ref(xnp.zeros(1000))
    collect(total, xnp.array([3, 7, 3]))
    expected = np.zeros(1000)
    expected[[3, 7]] = 12, 14
    assert (total[...] == expected).all()
    text = collect.lower(total, xnp.array([3, 7, 3])).as_text()
    assert not [line for line in text.splitlines() if "stablehlo.add" in line and "1000xf32" in line]

"""Public behavior of arrays: attributes, operators, conversions, printing, copying, DLPack."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.core import tracing

A = np.arange(6, dtype=np.float32).reshape(2, 3)
x = xnp.asarray(A)
ATTRIBUTES = ["shape", "ndim", "size", "dtype", "nbytes", "itemsize", "T", "mT", "real", "imag"]
METHODS = [
    ("all", ()),
    ("any", ()),
    ("argmax", (1,)),
    ("argmin", ()),
    ("argsort", ()),
    ("clip", (1, 3)),
    ("compress", (np.array([True, False]), 0)),
    ("conj", ()),
    ("cumprod", (1,)),
    ("cumsum", ()),
    ("diagonal", ()),
    ("dot", (A.T,)),
    ("flatten", ()),
    ("max", (0,)),
    ("mean", ()),
    ("min", ()),
    ("nonzero", ()),
    ("prod", ()),
    ("ravel", ()),
    ("repeat", (2,)),
    ("reshape", (3, 2)),
    ("reshape", ((3, -1),)),
    ("round", (1,)),
    ("sort", ()),
    ("squeeze", ()),
    ("std", ()),
    ("sum", (1,)),
    ("swapaxes", (0, 1)),
    ("take", (np.array([0, 2]), 1)),
    ("trace", ()),
    ("transpose", ()),
    ("transpose", (1, 0)),
    ("var", (0,)),
    ("astype", (np.int32,)),
    ("view", (np.int32,)),
    ("conjugate", ()),
    ("byteswap", ()),
    ("copy", ()),
]
OPERATORS = [
    "__add__",
    "__sub__",
    "__mul__",
    "__truediv__",
    "__floordiv__",
    "__mod__",
    "__pow__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__radd__",
    "__rsub__",
    "__rmul__",
    "__rtruediv__",
    "__rfloordiv__",
    "__rmod__",
    "__rpow__",
]


def kinds_of_tracers(kind=tracing.Tracer):
    for other in kind.__subclasses__():
        yield other
        yield from kinds_of_tracers(other)


def test_tracers_shadow_no_array_attribute():
    """Fields of tracers have names that no array attribute has: `x.var()` is the variance under `jit` too."""
    hidden = {f"{kind.__name__}.{name}" for kind in kinds_of_tracers() for name in vars(kind)
              if not name.startswith("_") and name != "aval" and hasattr(xf.Array, name)}
    assert not hidden
    np.testing.assert_allclose(xf.jit(lambda x: x.var(0) + x.std(0))(x), A.var(0) + A.std(0), rtol=1e-6)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes(name):
    ours, theirs = getattr(x, name), getattr(A, name) if name != "mT" else A.swapaxes(-1, -2)
    np.testing.assert_array_equal(np.asarray(ours) if isinstance(theirs, np.ndarray) else ours, theirs)
    if name not in ("nbytes", "itemsize"):
        inside = xf.eval_shape(lambda x: [xnp.asarray(getattr(x, name))] if isinstance(theirs, np.ndarray) else [], x)
        assert all(s.shape == theirs.shape for s in inside)


@pytest.mark.parametrize("name, args", METHODS, ids=[f"{name}{i}" for i, (name, _) in enumerate(METHODS)])
def test_methods(name, args):
    ours, theirs = getattr(x, name)(*args), np.sort(A) if name == "sort" else getattr(A, name)(*args)
    for a, b in zip(ours if isinstance(theirs, tuple) else [ours], theirs if isinstance(theirs, tuple) else [theirs]):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-6)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    for other in (A + 1, np.float32(2), 3, 2.5):
        with np.errstate(all="ignore"):
            theirs = getattr(A, name)(other)
        for ours in (
            getattr(x, name)(xnp.asarray(other) if isinstance(other, np.ndarray) else other),
            xf.jit(lambda v: getattr(v, name)(other))(x),
        ):  # noqa: B023
            np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)


def test_other_operators():
    i = xnp.array([5, 3])
    assert (
        (i & 6).tolist() == [4, 2]
        and (i | 8).tolist() == [13, 11]
        and (i ^ 1).tolist() == [4, 2]
        and (~i).tolist() == [-6, -4]
    )
    assert (i << 1).tolist() == [10, 6] and (i >> 1).tolist() == [2, 1] and (2 << i).tolist() == [64, 16]
    assert (x @ x.T).tolist() == (A @ A.T).tolist() and (A @ x.T).tolist() == (A @ A.T).tolist()
    assert [q.tolist() for q in divmod(i, 2)] == [[2, 1], [1, 1]]
    assert abs(-x).tolist() == A.tolist() and (+x).tolist() == A.tolist()
    assert (np.float32(2) * x).tolist() == (2 * A).tolist() and isinstance(A * x, xf.Array)


def test_conversions_to_python():
    s = xnp.float32(2.5)
    assert (float(s), int(s), complex(s), bool(s), s.item(), s.tolist()) == (2.5, 2, 2.5 + 0j, True, 2.5, 2.5)
    assert (
        [10, 20, 30][xnp.asarray(1)] == 20
        and hex(xnp.asarray(255)) == "0xff"
        and abs(round(xnp.float32(2.567), 1) - 2.6) < 1e-6
    )
    assert x.tolist() == A.tolist() and x.tobytes() == A.tobytes() and x.item(1, 2) == 5 and bool(xnp.array([True]))
    assert len(x) == 2 and [r.tolist() for r in x] == A.tolist() and 3.0 in x[1] and 9.0 not in x[1]
    first, second = x
    assert second.tolist() == [3, 4, 5]
    assert [int(v) for v in xnp.arange(300)] == list(range(300))
    assert (
        np.asarray(x, np.float64).dtype == np.float64
        and np.array(x).flags.writeable
        and not np.asarray(x).flags.writeable
    )
    for dtype in (None, "float32"):
        assert np.shares_memory(x.__array__(dtype, copy=False), np.asarray(x))
    with pytest.raises(ValueError, match="without a copy"):
        x.__array__("int8", copy=False)
    for call, words in (
        (lambda: bool(x), "any"),
        (lambda: bool(xnp.zeros(0)), "empty"),
        (lambda: float(x), "one element"),
        (lambda: x.item(), "6 elements"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            call()
    with pytest.raises(TypeError, match="dimensions"):
        len(s)
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        iter(s)
    with pytest.raises(TypeError, match="integer"):
        [1, 2][s]


def test_printing_of_scalar_types():
    assert repr(xnp.float32) == "<class 'xlafront.numpy.float32'>" and str(xnp.bool_) == "<class 'xlafront.numpy.bool'>"


def test_printing():
    assert repr(xnp.arange(3)) == "Array([0, 1, 2], dtype=int32)" and str(xnp.arange(3)) == "[0 1 2]"
    assert (
        repr(xnp.float32(1.5)) == "Array(1.5, dtype=float32)"
        and repr(xnp.asarray(2)) == "Array(2, dtype=int32, weak_type=True)"
    )
    assert (
        repr(xnp.zeros((0, 3))) == "Array([], shape=(0, 3), dtype=float32)"
        and repr(xnp.zeros(0)) == "Array([], shape=(0,), dtype=float32)"
    )
    assert repr(xnp.ones((2, 2), bool)) == "Array([[ True,  True],\n       [ True,  True]], dtype=bool)"
    assert (
        f"{xnp.float32(3.14159):.2f}" == "3.14"
        and f"{xnp.arange(2)}" == "[0 1]"
        and repr(xnp.ones(1, "bfloat16")) == "Array([1], dtype=bfloat16)"
    )
    # Where a dtype does not fit into its line six spaces stand before it, and no line ends: what the reference does.
    assert repr(xnp.ones(16, "int32")) == "Array([" + "1, " * 15 + "1], dtype=int32)"
    assert repr(xnp.full(16, 11, "uint8")) == "Array([" + "11, " * 15 + "11],      dtype=uint8)"
    with np.printoptions(linewidth=40):
        assert repr(xnp.arange(8)) == "Array([0, 1, 2, 3, 4, 5, 6, 7], dtype=int32)"
        assert repr(xnp.arange(9)) == "Array([0, 1, 2, 3, 4, 5, 6, 7, 8],      dtype=int32)"
        assert repr(xnp.ones((2, 3), bool)) == (
            "Array([[ True,  True,  True],\n       [ True,  True,  True]],      dtype=bool)"
        )
    with np.printoptions(precision=2):
        assert repr(xnp.float32([1 / 3])) == "Array([0.33], dtype=float32)"
    deleted = xnp.ones(2)
    deleted.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        repr(deleted)


def test_copies():
    for clone in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.copy(), xnp.array(x)):
        assert clone is not x and clone.tolist() == A.tolist() and clone.dtype == x.dtype
    weak = pickle.loads(pickle.dumps(xnp.asarray(1)))
    assert weak.weak_type
    half = pickle.loads(pickle.dumps(xnp.ones(2, "bfloat16")))
    assert half.dtype == xnp.bfloat16
    key = pickle.loads(pickle.dumps(xf.random.key(3)))
    assert key == xf.random.key(3)
    host = np.ones(3, np.float32)
    mine = xnp.asarray(host)
    host[0] = 9
    assert mine.tolist() == [1, 1, 1]  # later changes to the host array do not show


@pytest.mark.cpu_only
def test_exchange_by_dlpack():
    taken = np.from_dlpack(x)
    assert taken.tolist() == A.tolist() and taken.ctypes.data == x.unsafe_buffer_pointer()
    source = np.zeros(1024 + 64, np.uint8)
    offset = -source.ctypes.data % 64
    aligned = source[offset : offset + 1024].view(np.float32)
    shared = xnp.from_dlpack(aligned)
    assert shared.unsafe_buffer_pointer() == aligned.ctypes.data and shared.shape == (256,)
    assert xnp.from_dlpack(aligned, copy=True).unsafe_buffer_pointer() != aligned.ctypes.data
    for dtype in (np.int8, np.uint16, np.int32, np.float16, np.bool_, np.complex64):
        assert xf.dlpack.from_dlpack(np.ones(3, dtype)).dtype == dtype
    with pytest.raises(TypeError, match="__dlpack__"):
        xf.dlpack.from_dlpack([1, 2])
    with pytest.raises(xf.errors.ConcretizationTypeError, match="__dlpack__"):
        xf.jit(lambda v: np.from_dlpack(v))(x)


@pytest.mark.cpu_only
def test_namespace_and_kinds():
    assert (
        x.__array_namespace__() is xnp
        and isinstance(x, xf.Array)
        and isinstance(x, xnp.ndarray)
        and not isinstance(A, xf.Array)
    )
    assert xf.jit(lambda v: isinstance(v, xf.Array) * v)(x).tolist() == A.tolist()
    assert (
        hasattr(xf.Array, "at") and not x.is_deleted() and x.is_fully_addressable and x.devices() == {xf.devices()[0]}
    )
    assert (
        x.addressable_shards[0].data.tolist() == A.tolist()
        and x.device == xf.devices()[0]
        and x.block_until_ready() is x
    )
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    with pytest.raises(NotImplementedError, match="ravel"):
        _ = x.flat
    with pytest.raises(TypeError, match="Array cannot be called|cannot be called"):
        xf.Array()


@pytest.mark.parametrize("other", [[1.0, 2.0, 3.0], "a", None, {}])
def test_operators_with_unsupported_operands(other):
    with pytest.raises(TypeError, match="unsupported operand"):
        x + other
    with pytest.raises(TypeError):
        xnp.add(x, other)


@pytest.mark.parametrize(
    "old, new, shape",
    [
        ("float32", "int32", (2, 3)),
        ("int32", "uint8", (2, 12)),
        ("uint8", "int16", (2, 3)),
        ("complex64", "float32", (2, 12)),
        ("bool", "uint8", (2, 6)),
        ("float32", "complex64", (2, 3)),
    ],
)
def test_views(old, new, shape, rng):
    source = rng.integers(0, 2, (2, 6)).astype(old)
    assert xnp.asarray(source).view(new).tolist() == source.view(new).tolist()


def test_array_from_supported_objects():
    assert xnp.array([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]] and xnp.array([x[0], x[1]]).tolist() == A.tolist()
    assert (
        xnp.array((1, 2.5)).dtype == np.float32
        and xnp.array([True, 2]).dtype == np.int32
        and xnp.array(range(3)).tolist() == [0, 1, 2]
    )
    assert (
        xnp.array(memoryview(b"ab")).tolist() == [97, 98]
        and xnp.asarray(np.float16(2)).dtype == np.float16
        and xnp.array([]).shape == (0,)
    )
    assert xf.jit(lambda a: xnp.array([a, 2 * a]))(3.0).tolist() == [3, 6] and xnp.array(5, ndmin=2).shape == (1, 1)
    for bad in (["a"], [[1, 2], [3]], object(), "text", {1: 2}):
        with pytest.raises((TypeError, ValueError)):
            xnp.array(bad)
    with pytest.raises(ValueError, match="None"):
        xnp.array(None)
    for big in (2**31, [2**31], 2**40):
        with pytest.raises(OverflowError, match="int32"):
            xnp.array(big)


NEW_ONES = ["asarray(3.0)", "array(2)", "float32(1)", "bool_(True)", "asarray(1, dtype='int8')", "asarray(np.float64(1))", "array(1j)",
            "asarray([1, 2])", "asarray(np.ones(2))", "array(x)", "asarray([])", "array(2, ndmin=1)"]


@pytest.mark.parametrize("call", NEW_ONES)
def test_new_arrays_in_traced_functions_are_tracers(call):
    """They are tracers of constants of the jaxpr."""
    kinds = []

    def make(a):
        kinds.append(new := eval(f"xnp.{call}"))
        return new

    closed = xf.make_jaxpr(make)(1.0)
    assert len(closed.consts) == 1 and not isinstance(closed.consts[0], tracing.Tracer)
    np.testing.assert_array_equal(*xf.core.eval_jaxpr(closed.jaxpr, closed.consts, 1.0), xf.jit(make)(1.0))
    xf.jit(xf.vmap(make))(xnp.ones(2)), xf.lax.fori_loop(0, 1, lambda i, c: (make(c), c)[1], 0.0)
    assert all(isinstance(new, tracing.Tracer) for new in kinds)
    kinds.clear()
    xf.vmap(make)(xnp.ones(2)), xf.linearize(make, 1.0), xf.jit(lambda: in_compile_time(make))()
    assert len(kinds) == 3 and not any(isinstance(new, tracing.Tracer) for new in kinds)


def in_compile_time(make):
    with xf.ensure_compile_time_eval():
        return make(0.0)


@pytest.mark.parametrize("take, error", [
    (lambda: 1 if xnp.asarray(True) else 2, "TracerBoolConversionError"),
    (lambda: np.sin(xnp.array([1.0])), "TracerArrayConversionError"),
    (lambda: range(xnp.array(3)), "TracerIntegerConversionError"),
    (lambda: xnp.ones(2)[xnp.array([True, False])], "NonConcreteBooleanIndexError"),
    (lambda: float(xnp.float32(1)), "ConcretizationTypeError"),
])
def test_new_arrays_in_traced_functions_are_not_concrete(take, error):
    take()
    with pytest.raises(getattr(xf.errors, error)):
        xf.jit(take)()


@pytest.mark.parametrize("first", [
    "xf.lax.add(1.0, 2.0)",
    "xf.lax.scan(lambda c, x: (c + x, c * 2), 0.0, __import__('numpy').ones(3, 'float32'))[0]",
    "xf.device_put(3.0)",
    "xf.jit(lambda x: x - 1)(4.0)",
    "xf.random.key_data(xf.random.key(0))[1]",
    "xf.make_array_from_callback((), xf.sharding.SingleDeviceSharding(xf.devices()[0]), lambda i: __import__('numpy').ones(()))",
])
def test_first_array_of_a_process_has_operators(first):
    """Operators and methods are attached whichever function creates the first array of a process."""
    code = f"import xlafront as xf\nx = {first}\nprint(float((x + 1) * 2 - 2 * x), x.sum().shape, -x == 0 - x)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["2.0", "()", "True"], done.stderr


UNCHANGED = [(array, text.strip()) for array, texts in (
    (x, """v.transpose(0, 1) | xnp.transpose(v, (-2, -1)) | xnp.permute_dims(v, (0, 1)) | v.reshape(2, 3) | v.reshape(2, -1)
        | xnp.reshape(v, (-1, 3)) | xnp.broadcast_to(v, (2, 3)) | xf.lax.convert_element_type(v, np.float32)"""),
    (x[0], "v.T | xnp.transpose(v) | v.transpose(0) | v.reshape(-1)"), (x[0, 0], "v.T | v.reshape(())")) for text in texts.split("|")]


@pytest.mark.parametrize("array, text", UNCHANGED, ids=[f"{text} of {array.shape}" for array, text in UNCHANGED])
def test_operations_without_effect_return_the_same_array(array, text):
    assert eval(text, {"v": array, "xnp": xnp, "xf": xf, "np": np}) is array


def test_array_as_dtype_warns():
    """NumPy uses the dtype of the array, with a warning; a dtype itself does not warn."""
    x = xnp.ones(2)
    for ask in (np.dtype, lambda x: np.zeros(2, x).dtype, lambda x: np.result_type(x, np.int8)):
        with pytest.warns(DeprecationWarning, match="in place of a dtype"):
            assert ask(x) == np.float32
        assert ask(x.dtype) == np.float32
    with pytest.warns(DeprecationWarning, match="in place of a dtype"):
        assert xnp.issubdtype(x, np.floating)


@pytest.mark.parametrize("protocol", ["__array_interface__", "__array_struct__"])
def test_array_from_objects_with_array_interfaces(protocol):
    """Images of Pillow are such objects."""
    values = np.arange(6, dtype=np.uint8).reshape(2, 3)
    image = type("Image", (), {protocol: property(lambda self: getattr(values, protocol))})()
    for found in (xnp.array(image), xnp.asarray(image), xf.jit(lambda: xnp.asarray(image))()):
        assert found.dtype == np.uint8 and found.tolist() == values.tolist()
    assert xnp.array([image, image], dtype=float).shape == (2, 2, 3)
    with pytest.raises(TypeError, match="cannot become an array"):
        xnp.array(object())

"""Functions that libraries import under private names."""

import pickle

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.compat import renamed
from xlafront.compat.private_functions import (
    FrozenDict,
    HashablePartial,
    _dtype,
    _merge_common_consts,
    backends_are_initialized,
    canonicalize_axis,
    canonicalize_shape,
    canonicalize_sharding,
    check_close,
    dimension_as_value,
    get_concrete_mesh,
    is_cuda_compute_capability_at_least,
    is_vmappable,
    make_iota,
    promote_args,
    promote_args_inexact,
    promote_dtypes,
    promote_dtypes_complex,
    promote_dtypes_inexact,
    to_elt,
    tracing_registry,
)


def test_shapes_of_ints():
    assert canonicalize_shape([2, np.int64(3)]) == (2, 3) and canonicalize_shape(3) == (3,)
    with pytest.raises(TypeError):
        canonicalize_shape((2.5,))
    assert dimension_as_value(3) == 3
    [size] = xf.export.symbolic_shape("b")
    assert canonicalize_shape((size, 2)) == (size, 2)
    exported = xf.export.export(xf.jit(lambda x: dimension_as_value(x.shape[0]) * 2))(xf.ShapeDtypeStruct((size,), np.float32))
    assert exported.call(np.ones(3, np.float32)) == 6


def test_objects_with_a_dtype():
    assert isinstance(np.ones(1), renamed.SupportsDType) and not isinstance(1, renamed.SupportsDType)


def test_check_close():
    check_close({"a": xnp.ones(2), "b": 1}, {"a": np.ones(2), "b": 1})
    check_close(np.float32(1), np.float32(1 + 5e-7))
    check_close(xnp.bfloat16(1), np.float32(1.01))
    check_close(1.0, 1.05, atol=0.1, rtol=0.0)
    check_close(np.float32(1), np.float32(1.01), rtol={"float32": 0.1, "float64": 0.0})
    with pytest.raises(AssertionError):
        check_close(np.float32(1), np.float32(1.01), rtol={np.dtype("float64"): 0.1})
    for x, y in ((1.0, 1.1), (np.ones(2), np.ones(1)), (np.array([1]), np.array([2])), (np.float32(1), np.float32(1.001))):
        with pytest.raises(AssertionError):
            check_close(x, y)
    with pytest.raises(ValueError, match="."):
        check_close([1.0], (1.0,))


def test_device_queries():
    assert xf.devices() and backends_are_initialized()
    assert is_cuda_compute_capability_at_least("1.0") == (xf.devices()[0].platform == "gpu")
    assert not is_cuda_compute_capability_at_least("1000.0")


def test_numbers_that_know_their_dtype():
    for kind, value, dtype in ((renamed.TypedInt, 5, "int8"), (renamed.TypedFloat, 2.5, "float16"),
                               (renamed.TypedComplex, 1 + 2j, "complex64")):
        number = kind(value, np.dtype(dtype))
        assert number == value and number.dtype == dtype and repr(number) == f"{kind.__name__}({value}, dtype={dtype})"
        assert type(number + 1) is type(value) and pickle.loads(pickle.dumps(number)).dtype == dtype
        array = xnp.asarray(number)
        assert array.dtype == dtype and array.weak_type and array.item() == value and str(number) == str(value)
        assert xf.typeof(number).dtype == dtype and xf.typeof(number).weak_type
        assert xnp.promote_types(number, number) == dtype
    half, single = (renamed.TypedFloat(1.0, np.dtype(d)) for d in ("float16", "float32"))  # equal as keys of a cache
    assert xf.dtypes.result_type(half, return_weak_type_flag=True) == (np.dtype("float32"), True)
    assert xnp.result_type(single, np.float16) == xnp.promote_types(half, np.int8) == "float16"
    assert xnp.promote_types(single, np.int8) == "float32"


def test_weak_numbers_without_a_sign():
    """They remain unsigned among themselves, unlike Python's."""
    number = renamed.TypedInt(3, np.dtype("uint8"))
    for x in (number, xnp.asarray(number)):
        assert xnp.result_type(x) == xnp.result_type(x, x) == "uint32" and xnp.result_type(x, 1) == "int32"
        with xf.enable_x64(True):
            assert xnp.result_type(x) == "uint64"


def test_partial_functions_that_are_equal():
    def line(a, b, c=0):
        return a, b, c

    one, other = (HashablePartial(line, 1, c=2) for _ in range(2))
    assert one(3) == (1, 3, 2) and one(3, c=4) == (1, 3, 4)
    assert one == other and hash(one) == hash(other) and one != HashablePartial(line, 2, c=2) and one != line


def test_promotion_to_complex_numbers():
    x, y = promote_dtypes_complex(xnp.arange(2), np.float32(1))
    assert x.dtype == y.dtype == "complex64" and x.tolist() == [0, 1] and complex(y) == 1
    [half] = promote_dtypes_complex(xnp.ones(2, "float16"))
    assert half.dtype == "complex64" and half.tolist() == [1, 1]


def test_promotions_return_arrays():
    for args, dtype, weak in (((1, 2.0), "float32", True), ((1,), "int32", True), ((np.float64(1), 2), "float32", False),
                              ((np.arange(2),), "int32", False), ((np.True_, 1), "int32", True)):
        for found in (promote_dtypes(*args), promote_args("f", *args)):
            assert [(isinstance(x, xf.Array), str(x.dtype), x.weak_type) for x in found] == [(True, dtype, weak)] * len(args)
        for found in (promote_dtypes_inexact(*args), promote_args_inexact("f", *args)):
            assert {str(x.dtype) for x in found} == {"float32"}


def test_canonicalize_sharding():
    mesh = xf.make_mesh((1,), ("x",), axis_types=(xf.sharding.AxisType.Explicit,))
    split = xf.sharding.NamedSharding(mesh, xf.P("x"))
    assert canonicalize_sharding(None, "f") is None
    assert canonicalize_sharding(xf.typeof(xnp.ones(2)).sharding, "f") is None
    assert canonicalize_sharding(split, "f") == xf.sharding.NamedSharding(mesh.abstract_mesh, xf.P("x"))
    with xf.set_mesh(mesh):
        assert canonicalize_sharding(xf.P("x"), "f") == canonicalize_sharding(split, "f")
    for wrong, error in ((xf.P("x"), ValueError), (3, TypeError)):
        with pytest.raises(error):
            canonicalize_sharding(wrong, "f")


def test_merge_common_consts():
    x, y, z = xnp.arange(2.0), xnp.array([3.0, 4.0]), xnp.ones(3)
    first = xf.make_jaxpr(lambda a, b, c: a + b * c)(x, y, 1.0)
    second = xf.make_jaxpr(lambda b, c, d: b.sum() + c.sum() * d)(y, z, 1.0)
    merged, consts = _merge_common_consts((first, second), ([x, y], [y, z]))
    assert [c is d for c, d in zip(consts, (x, y, z), strict=True)] == [True] * 3
    assert [[a.shape for a in m.in_avals] for m in merged] == [[(2,), (2,), (3,), ()]] * 2
    found = [xf.extend.core.jaxpr_as_fun(m)(*consts, xnp.float32(2))[0] for m in merged]
    assert found[0].tolist() == [6, 9] and found[1] == 13


def test_elements_of_batches_for_extensions():
    assert make_iota(3).tolist() == [0, 1, 2] and make_iota(3).dtype == np.int32 and not is_vmappable(make_iota(3))

    def element(x):
        found = to_elt(x._trace, lambda: 0, xnp.ones((2, 3)), 1)
        assert found.shape == (2,) and to_elt(x._trace, lambda: 0, 4.0, None) == 4
        return found * x

    assert xf.vmap(element)(xnp.arange(3.0)).tolist() == [[0, 0], [1, 1], [2, 2]]


def test_inputs_that_are_added_while_a_function_is_traced():
    """BrainState does this for the states that a function reads."""
    origin = xf.extend.source_info_util.current()

    def g(x):
        trace = renamed.trace_ctx.trace
        return x * trace.new_arg(xf.typeof(xnp.ones(2)), source_info=origin)

    closed = xf.make_jaxpr(g)(3.0)
    assert [v.aval.shape for v in closed.jaxpr.invars] == [(), (2,)]
    assert xf.extend.core.jaxpr_as_fun(closed)(3.0, np.float32([1, 2]))[0].tolist() == [3, 6]


def test_axes_and_dtypes():
    assert canonicalize_axis(-1, 3) == 2
    with pytest.raises(ValueError, match="axis 3"):
        canonicalize_axis(3, 3)
    assert _dtype(1.0) == np.float32 and _dtype(np.int8(1)) == np.int8


def test_the_registry_of_traces():
    assert tracing_registry.flatten([1, (None, {"a": 2})])[0] == [1, 2]


def test_frozen_dicts():
    d = FrozenDict({"a": 1, "b": 2})
    assert dict(d) == {"a": 1, "b": 2} and len(d) == 2 and d.get("c") is None and repr(d) == "FrozenDict({'a': 1, 'b': 2})"
    same = FrozenDict({"b": 2, "a": 1})
    assert d == same and hash(d) == hash(same) and d != {"a": 1, "b": 2} and xf.tree.leaves(d) == [d]
    with pytest.raises(TypeError, match="does not support item assignment"):
        d["a"] = 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(FrozenDict({"a": [1]}))


def test_the_mesh_in_context_is_known_while_tracing():
    mesh, found = xf.make_mesh((1,), ("x",)), []
    assert get_concrete_mesh().empty
    with xf.set_mesh(mesh):
        xf.jit(lambda x: found.append(get_concrete_mesh()) or x)(1.0)
        assert found == [mesh] == [get_concrete_mesh()]

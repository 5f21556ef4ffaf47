"""Exported functions: values, attributes, and errors."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import export, lax, lowering
from xlafront.core.primitive import Primitive

X = np.array([0.5, -1.25, 2.0], np.float32)


@pytest.fixture(scope="module")
def scaled_sine():
    return export.export(xf.jit(lambda x: xnp.sin(x) * 2))(xf.ShapeDtypeStruct((3,), "float32"))


@pytest.mark.parametrize("kind", ["device", "pinned_host"])
def test_memory_kinds_of_arguments_and_results_are_shardings_over_no_axes(kind):
    there = xf.sharding.SingleDeviceSharding(xf.devices()[0], memory_kind=kind)
    x, no_axes = xf.device_put(np.ones((2, 3), np.float32), there), xf.sharding.AbstractMesh((), ())
    expected = (xf.sharding.NamedSharding(no_axes, xf.P(None, None), memory_kind=kind),)
    exported = export.export(xf.jit(lambda x: 2 * x, out_shardings=there))(x)
    for version in (exported, export.deserialize(exported.serialize(vjp_order=1))):
        assert version.in_shardings_jax(no_axes) == version.out_shardings_jax(no_axes) == expected
        assert version.call(x).sharding.memory_kind == kind
        np.testing.assert_array_equal(xf.grad(lambda x: version.call(x).sum())(x), np.full((2, 3), 2))
    assert export.export(xf.jit(lambda x: 2 * x))(np.ones(2)).in_shardings_jax(no_axes) == (None,)


def test_values_and_derivatives_up_to_vjp_order(scaled_sine):
    np.testing.assert_allclose(scaled_sine.call(X), 2 * np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(xf.jit(lambda x: scaled_sine.call(x) + 1)(X), 2 * np.sin(X) + 1, rtol=1e-6)
    read = export.deserialize(scaled_sine.serialize(vjp_order=2))
    np.testing.assert_allclose(read.call(X), 2 * np.sin(X), rtol=1e-6)
    first = xf.grad(lambda x: read.call(x).sum())
    second = xf.grad(lambda x: first(x).sum())
    np.testing.assert_allclose(first(X), 2 * np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(xf.jit(second)(X), -2 * np.sin(X), rtol=1e-6)
    with pytest.raises(ValueError, match="no VJP of .* is available.*vjp_order"):
        xf.grad(lambda x: second(x).sum())(X)
    assert [export.deserialize(scaled_sine.serialize(order)).has_vjp() for order in (0, 1)] == [False, True]


def test_exported_attributes():
    exported = export.export(xf.jit(lambda x, y: {"a": xnp.sin(x) @ y, "b": (x, None)}))(
        xf.ShapeDtypeStruct((2, 3), "float32"), np.ones((3, 4), np.float32))
    assert str(exported) == "Exported(fun_name=<lambda>, ...)" and exported.fun_name == "<lambda>"
    assert str(exported.in_tree) == "PyTreeDef(((*, *), {}))" and str(exported.out_tree) == "PyTreeDef({'a': *, 'b': (*, None)})"
    assert [a.str_short() for a in exported.in_avals] == ["float32[2,3]", "float32[3,4]"]
    assert [a.str_short() for a in exported.out_avals] == ["float32[2,4]", "float32[2,3]"]
    assert (exported.nr_devices, exported.platforms) == (1, (export.default_export_platform(),))
    assert exported.calling_convention_version == export.maximum_supported_calling_convention_version == 10
    assert export.minimum_supported_calling_convention_version == 9
    assert exported.ordered_effects == exported.unordered_effects == exported.disabled_safety_checks == ()
    assert exported.in_shardings_hlo == exported._in_named_shardings == (None, None)
    assert exported.module_kept_var_idx == (0, 1) and not exported.uses_global_constants
    assert exported.mlir_module_serialized.startswith(b"ML\xefR") and b"StableHLO_v" in exported.mlir_module_serialized[:30]
    assert "stablehlo.dot_general" in exported.mlir_module() and "test_export.py" in exported.mlir_module()
    assert type(exported.mlir_module(serialized=False)).__name__ == "Module"
    derivative = exported.vjp()
    assert [a.str_short() for a in derivative.in_avals] == ["float32[2,3]", "float32[3,4]", "float32[2,4]", "float32[2,3]"]
    assert [a.str_short() for a in derivative.out_avals] == ["float32[2,3]", "float32[3,4]"]
    assert derivative is exported.vjp() and hash(exported) != hash(derivative)


def test_unused_and_static_arguments():
    unread = export.export(xf.jit(lambda x, y, z: y + 1))(X, X, X)
    assert unread.module_kept_var_idx == (1,) and len(unread.in_avals) == 3
    np.testing.assert_allclose(unread.call(X, 2 * X, X), 2 * X + 1)
    np.testing.assert_allclose(xf.grad(lambda *xs: unread.call(*xs).sum(), (0, 1))(X, X, X), [np.zeros(3), np.ones(3)])
    assert export.export(xf.jit(lambda x, y: y, keep_unused=True))(X, X).module_kept_var_idx == (0, 1)
    bound = export.export(xf.jit(lambda x, n: x * n, static_argnums=1))(X, 3)
    np.testing.assert_allclose(bound.call(X), 3 * X)
    with pytest.raises(ValueError, match="static arguments are bound"):
        bound.call(X, 3)
    by_name = export.export(xf.jit(lambda x, *, n: x * n, static_argnames="n"))(X, n=3)
    np.testing.assert_allclose(by_name.call(X), 3 * X)


@pytest.mark.parametrize("dtype", ["bool", "int4", "uint4", "int8", "uint16", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2",
                                   "complex64"])
def test_dtypes(dtype):
    x = xnp.array([1, 0, 1]).astype(dtype)
    read = export.deserialize(export.export(xf.jit(lambda x: (x, x == x[0])))(x).serialize())
    same, equal = read.call(x)
    assert read.in_avals[0].dtype == same.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(same, np.complex64), [1, 0, 1])
    np.testing.assert_array_equal(equal, [True, False, True])


def test_keys_integers_and_constants():
    key, table = xf.random.key(7), xnp.arange(1000, dtype="float32")
    exported = export.export(xf.jit(lambda k, x, i: (xf.random.normal(k, (3,)) * x + table[i], i)))(key, X, np.arange(3))
    read = export.deserialize(exported.serialize(vjp_order=1))
    noise = np.asarray(xf.random.normal(key, (3,)))
    np.testing.assert_allclose(read.call(key, X, np.arange(3))[0], noise * X + np.arange(3), rtol=1e-6)
    np.testing.assert_allclose(xf.grad(lambda x: read.call(key, x, np.arange(3))[0].sum())(X), noise, rtol=1e-6)
    assert [a.str_short() for a in read.vjp().in_avals] == [
        "key<fry>[]", "float32[3]", "int32[3]", "float32[3]", "float0[3]"]
    split = export.deserialize(export.export(xf.jit(xf.random.split))(key).serialize())
    np.testing.assert_array_equal(xf.random.key_data(split.call(key)), xf.random.key_data(xf.random.split(key)))
    hidden = export.export(xf.jit(lambda: xf.random.key_data(key) + 0))()
    np.testing.assert_array_equal(hidden.call(), xf.random.key_data(key))


def test_algorithms_and_operations_beside_stablehlo():
    """LAPACK kernels, and operations that are lowered to compositions of others."""
    a = np.array([[2, 1], [1, 3]], np.float32)

    def f(a):
        return xnp.linalg.inv(a), xnp.linalg.eigvalsh(a), lax.top_k(a, 1)[0], lax.lgamma(a), xnp.arcsin(a / 4)

    inverse, values, largest, gamma, angle = export.deserialize(export.export(xf.jit(f))(a).serialize()).call(a)
    np.testing.assert_allclose(inverse, np.linalg.inv(a), rtol=1e-5)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(a), rtol=1e-5)
    np.testing.assert_array_equal(largest, [[2], [3]])
    np.testing.assert_allclose(gamma, np.log([[1, 1], [1, 2]]), atol=1e-6 if xf.default_backend() == "cpu" else 2e-6)
    np.testing.assert_allclose(angle, np.arcsin(a / 4), rtol=1e-6)


def test_control_flow_and_nested_exports(scaled_sine):
    def f(x):
        return lax.fori_loop(0, 3, lambda _, v: scaled_sine.call(v), x) + scaled_sine.call(x)

    outer = export.deserialize(export.export(xf.jit(f))(X).serialize(vjp_order=1))
    expected = 2 * np.sin(2 * np.sin(2 * np.sin(X))) + 2 * np.sin(X)
    np.testing.assert_allclose(outer.call(X), expected, rtol=1e-5)
    again = export.export(xf.jit(lambda x: outer.call(x) + outer.call(2 * x)))(X)
    assert again.mlir_module().count("func.func private @call_exported") == 2
    twice = 2 * np.sin(2 * np.sin(2 * np.sin(2 * X))) + 2 * np.sin(2 * X)
    np.testing.assert_allclose(again.call(X), expected + twice, rtol=1e-5)
    eps = 1e-3
    numeric = (np.float64(1) / (2 * eps)) * (np.asarray(f(X + eps)) - np.asarray(f(X - eps)))
    np.testing.assert_allclose(xf.grad(lambda x: outer.call(x).sum())(X), numeric, rtol=1e-2)


def test_unsupported_transformations_raise(scaled_sine):
    with pytest.raises(NotImplementedError, match="no batching rule.*vmap"):
        xf.vmap(scaled_sine.call)(np.ones((2, 3), np.float32))
    with pytest.raises(TypeError, match="forward-mode"):
        xf.jvp(scaled_sine.call, (X,), (X,))
    np.testing.assert_allclose(lax.map(scaled_sine.call, np.stack([X, X]))[1], 2 * np.sin(X), rtol=1e-6)


@pytest.mark.parametrize("call, error, words", [
    (lambda e: e.call(X[:2]), ValueError, r"shape mismatch.*float32\[3\] as args\[0\].*float32\[2\]"),
    (lambda e: e.call(X.astype(np.int32)), ValueError, r"dtype mismatch.*float32\[3\] as args\[0\].*int32\[3\]"),
    (lambda e: e.call(X, X), ValueError, "structure of .args, kwargs."),
    (lambda e: e.call(X, y=X), ValueError, "structure of .args, kwargs."),
    (lambda e: e.call("x"), TypeError, "str"),
    (lambda e: export.export(lambda x: x), ValueError, r"result of jit.*jit\(f\)"),
    (lambda e: export.export(xf.jit(abs), platforms="cpu"), TypeError, "tuple of names"),
    (lambda e: export.export(xf.jit(abs), platforms=("cpu", "abacus")), ValueError, "no platform 'abacus'.*cpu, cuda, rocm, tpu"),
    (lambda e: export.export(xf.jit(abs), platforms=("cpu", "cpu")), ValueError, "each platform once"),
    (lambda e: export.export(xf.jit(abs), disabled_checks=["platform"]), TypeError, "DisabledSafetyCheck"),
    (lambda e: export.export(xf.jit(abs))("x"), TypeError, "str"),
    (lambda e: export.export(xf.jit(lambda r: r[...]))(xf.new_ref(X)), NotImplementedError, "references"),
    (lambda e: export.export(xf.jit(lambda x: xf.pure_callback(np.sin, x, x)))(X), NotImplementedError, "calls Python"),
    (lambda e: export.export(xf.jit(lambda x: xf.debug.print("{}", x)))(X), NotImplementedError, "calls Python"),
])
def test_unsupported_functions_raise(scaled_sine, call, error, words):
    with pytest.raises(error, match=words):
        call(scaled_sine)


def test_values_of_a_trace_cannot_be_exported():
    @xf.jit
    def f(y):
        return export.export(xf.jit(lambda x: x + y))(X).call(X)

    with pytest.raises(xf.errors.UnexpectedTracerError, match="closes over a traced array"):
        f(X)


def test_several_platforms():
    def f(x):
        return lax.platform_dependent(x, cpu=xnp.sin, cuda=xnp.cos, default=xnp.tanh)

    several = export.deserialize(export.export(xf.jit(f), platforms=("tpu", "cuda", "cpu"))(X).serialize(vjp_order=1))
    assert several.platforms == ("tpu", "cuda", "cpu") and several.uses_global_constants
    text = several.mlir_module()
    assert 'tensor<i32> {jax.global_constant = "_platform_index"}' in text and "jax.uses_shape_polymorphism = true" in text
    assert all(f"stablehlo.{op}" in text for op in ("sine", "cosine", "tanh"))
    on_this = {"cpu": np.sin, "cuda": np.cos}[export.default_export_platform()]
    np.testing.assert_allclose(several.call(X), on_this(X), rtol=1e-5)
    compiled_text = xf.jit(several.call).lower(X).as_text()
    assert compiled_text.count("stablehlo.case") == 0 and "tanh" not in compiled_text
    inner = export.export(xf.jit(lambda x: several.call(x) + 1), platforms=("cuda", "cpu"))(X)
    np.testing.assert_allclose(inner.call(X), on_this(X) + 1, rtol=1e-5)
    assert "tanh" not in inner.mlir_module()


def test_unavailable_platforms():
    other = next(p for p in ("tpu", "rocm") if p != export.default_export_platform())
    for_other_platform = export.export(xf.jit(lambda x: x * 2), platforms=(other,))(X)
    with pytest.raises(ValueError, match=f"exported for the platform.s. {other}, and is called on"):
        for_other_platform.call(X)
    allowed = export.export(xf.jit(lambda x: x * 2), platforms=(other,),
                            disabled_checks=[export.DisabledSafetyCheck.platform()])(X)
    np.testing.assert_allclose(export.deserialize(allowed.serialize()).call(X), 2 * X)


def test_safety_checks():
    check = export.DisabledSafetyCheck
    assert (str(check.platform()), str(check.custom_call("k"))) == ("platform", "custom_call:k")
    assert check.custom_call("k") == check.custom_call("k") != check.custom_call("l")
    assert len({check.platform(), check.platform()}) == 1
    assert (check.custom_call("k").is_custom_call(), check.platform().is_custom_call()) == ("k", None)


def test_unstable_custom_calls_raise():
    def lower(ctx, x):
        return ctx.op("stablehlo.custom_call", [x], call_target_name=lowering.mlir.string("my_kernel"))

    mine_p = Primitive("mine", abstract=lambda x: x, lower=lower)
    function = xf.jit(lambda x: lax.fori_loop(0, 2, lambda _, v: mine_p.bind(v), x) + 1)
    with pytest.raises(ValueError, match=r"it calls my_kernel.*no compatibility guarantees.*custom_call\('my_kernel'\)"):
        export.export(function)(X)
    other, allowed = export.DisabledSafetyCheck.custom_call("other"), export.DisabledSafetyCheck.custom_call("my_kernel")
    with pytest.raises(ValueError, match="my_kernel"):
        export.export(function, disabled_checks=[other])(X)
    exported = export.deserialize(export.export(function, disabled_checks=[other, allowed])(X).serialize())
    assert "my_kernel" in exported.mlir_module() and exported.disabled_safety_checks == (other, allowed)


def test_override_lowering_rules():
    rules = [(lax.sin_p, lambda ctx, x, **_: ctx.op("stablehlo.cosine", [x]))]
    exported = export.export(xf.jit(lambda x: xnp.sin(x)), _override_lowering_rules=rules)(X)
    np.testing.assert_allclose(exported.call(X), np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(xnp.sin(X), np.sin(X), rtol=1e-6)


def test_equal_lowerings_are_emitted_once():
    names = ("cpu", "cuda", "tpu")
    same = export.export(xf.jit(lambda x: xnp.tanh(x[:, None] @ x[None]).sum()), platforms=names)(X)
    assert "_platform_index" in same.mlir_module() and "stablehlo.case" not in same.mlir_module()
    np.testing.assert_allclose(same.call(X), np.tanh(np.outer(X, X)).sum(), rtol=1e-5)
    different = export.export(xf.jit(xnp.cumsum), platforms=names)(X)  # which CPUs do in another way
    assert different.mlir_module().count("stablehlo.case") == 1
    np.testing.assert_allclose(different.call(X), np.cumsum(X), rtol=1e-6)


def test_internal_references_are_not_effects():
    def in_memory(x):
        memory = xf.new_ref(x)
        memory[0] += 1
        return memory[...]

    exported = export.export(xf.jit(in_memory))(X)
    assert exported.ordered_effects == exported.unordered_effects == ()
    np.testing.assert_array_equal(exported.call(X), X + np.eye(len(X), dtype=X.dtype)[0])

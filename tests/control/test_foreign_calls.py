"""`ffi_call` with kernels in C++ (`foreign_kernels.cc`), compiled against the headers that the runtime ships."""

import ctypes
import pathlib
import subprocess

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import ffi, lax
from xlafront.experimental.layout import Layout
from xlafront.extend.core import Primitive, abstract_token
from xlafront.interpreters import mlir
from xlafront.runtime import foreign_functions
from xlafront.sharding import AxisType, NamedSharding, PartitionSpec as P

pytestmark = pytest.mark.cpu_only

HERE = pathlib.Path(__file__).parent
X = np.arange(6, dtype=np.float32).reshape(2, 3)
HANDLERS = "Scale SumAndMax Counts AsStored Attributes AddOne Count Fail"


def struct(*shape, dtype="float32"):
    return xf.ShapeDtypeStruct(shape, dtype)


@pytest.fixture(scope="module", autouse=True)
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("kernels") / "kernels.so"
    subprocess.run(["g++", "-std=c++17", "-w", "-shared", "-fPIC", f"-I{ffi.include_dir()}", str(HERE / "foreign_kernels.cc"), "-o",
                    str(path)], check=True)
    found = ctypes.CDLL(str(path))
    for name in HANDLERS.split():
        ffi.register_ffi_target(name, ffi.pycapsule(getattr(found, f"{name}Handler")))
    for pointer in (found.StateTypeId, found.StateTypeInfo):
        pointer.restype = ctypes.c_void_p
    ffi.register_ffi_type("State", {"type_id": ffi.pycapsule(found.StateTypeId()),
                                    "type_info": ffi.pycapsule(found.StateTypeInfo())})
    ffi.register_ffi_target("State", {"instantiate": ffi.pycapsule(found.StateInstantiate),
                                      "execute": ffi.pycapsule(found.StateExecute)})
    found.Runs.restype = ctypes.c_int64
    return found


def scale(x, by):
    return ffi.ffi_call("Scale", struct(*x.shape), vmap_method="broadcast_all")(x, scale=np.float32(by))


# Values, attributes, memory


def test_values_here_and_in_compiled_code():
    for f in (scale, xf.jit(scale, static_argnums=1)):
        assert np.array_equal(f(X, 3), 3 * X)
    both = ffi.ffi_call("SumAndMax", (struct(2), struct(2)))(X)
    assert type(both) is tuple and np.array_equal(both, [X.sum(1), X.max(1)])
    assert type(ffi.ffi_call("SumAndMax", [struct(2), struct(2)])(X)) is list


def test_attributes_of_every_kind():
    given = dict(flag=True, whole=2, number=2.5, whole32=np.int32(4), number32=np.float32(5.5), text="abc",
                 many=np.array([1, 2], np.int32), numbers=np.array([0.5]), more={"inner": 7, "name": "xy"})
    call = ffi.ffi_call("Attributes", struct(9))
    expected = [1, 2, 2.5, 4, 5.5, 3 * 1000 + ord("a"), 2 + 10 * 3, 1 + 10 * 0.5, 7 + 2]
    assert np.array_equal(call(**given), expected)
    other = given | dict(flag=np.bool_(False), text=b"abcd", many=np.zeros(0, np.int32), numbers=np.array([1.5, 2]))
    assert np.array_equal(call(**other), [0, *expected[1:5], 4 * 1000 + ord("a"), 0, 2 + 10 * 3.5, 9])


def test_scalar_attributes_have_their_dtype():
    for value, text in ((xnp.bfloat16(1).dtype.type(1.5), "1.500000e+00 : bf16"), (np.float16(2), "2.000000e+00 : f16"),
                        (np.uint64(3), "3 : ui64")):
        lowered = xf.jit(lambda x: ffi.ffi_call("Scale", struct(2, 3))(x, scale=value)).lower(X)  # noqa: B023
        assert f"scale = {text}" in lowered.as_text()


def test_python_scalar_attributes_have_64_bits():
    call = ffi.ffi_call("Scale", struct(2, 3))
    assert np.array_equal(call(X, scale=np.float32(1)), X)
    for equal in (1.0, 1, True, np.int32(1)):
        with pytest.raises(xf.errors.JaxRuntimeError, match="Wrong scalar data type: expected F32"):
            call(X, scale=equal)


@pytest.mark.parametrize("order", [(1, 0), Layout((1, 0))], ids=["sequence", "layout"])
def test_layouts(order):
    """The kernel reads the columns as rows, and its result the other way round."""
    as_stored = X.T.reshape(X.shape)
    assert np.array_equal(ffi.ffi_call("AsStored", struct(2, 3), input_layouts=[order])(X), as_stored)
    assert np.array_equal(ffi.ffi_call("AsStored", [struct(2, 3)], output_layouts=[order])(X)[0], X.ravel().reshape(3, 2).T)
    assert np.array_equal(ffi.ffi_call("AsStored", struct(2, 3), output_layouts=order)(X), X.ravel().reshape(3, 2).T)
    both = ffi.ffi_call("AsStored", struct(2, 3), input_layouts=[order], output_layouts=order, vmap_method="broadcast_all")
    assert np.array_equal(both(X), X)
    batch = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    assert np.array_equal(xf.vmap(both)(batch), batch)
    into = ffi.ffi_call("AsStored", struct(2, 3), input_layouts=[order], vmap_method="expand_dims")
    assert np.array_equal(xf.vmap(into)(batch), batch.transpose(0, 2, 1).reshape(batch.shape))


def test_results_in_the_memory_of_arguments():
    results = (struct(2, 3), struct(dtype="bool"))
    donated = xf.jit(ffi.ffi_call("AddOne", results, input_output_aliases={0: 0}), donate_argnums=0)
    y, shared = donated(xnp.asarray(X))
    assert np.array_equal(y, X + 1) and shared
    x = xnp.asarray(X)
    assert np.array_equal(ffi.ffi_call("AddOne", results, input_output_aliases={0: 0})(x)[0], X + 1) and np.array_equal(x, X)
    y, shared = ffi.ffi_call("AddOne", results)(x)
    assert np.array_equal(y, X + 1) and not shared


def test_a_call_keeps_a_state():
    count = xf.jit(lambda: ffi.ffi_call("State", struct(dtype="int32"))(start=np.int32(5)))
    assert [int(count()) for _ in range(3)] == [6, 7, 8]
    other = xf.jit(lambda: ffi.ffi_call("State", struct(dtype="int32"))(start=np.int32(50)))
    assert int(other()) == 51 and int(count()) == 9


def test_effects_keep_a_call(library):
    def times(f, *args):
        before = library.Runs()
        xf.block_until_ready(f(*args))
        xf.effects_barrier()
        return library.Runs() - before

    def count(x, **options):
        return ffi.ffi_call("Count", (), **options)(x)

    assert times(xf.jit(lambda x: (count(x, has_side_effect=True), x)[1]), 1.0) == 1
    assert times(xf.jit(lambda x: (count(x), x)[1]), 1.0) == 0
    assert times(lambda x: count(x, has_side_effect=True), 1.0) == 1
    in_loop = xf.jit(lambda x: lax.fori_loop(0, 4, lambda i, c: (count(c, has_side_effect=True), c + 1)[1], x))
    assert times(in_loop, 1.0) == 4
    for effect, written in ((True, "has_side_effect = true"), (False, None)):
        program = xf.make_jaxpr(lambda x: count(x, has_side_effect=effect))(1.0)
        assert [type(e).__name__ for e in program.effects] == ["FfiEffect"] * effect
        text = xf.jit(lambda x: (count(x, has_side_effect=effect), x)[1]).lower(1.0).as_text()
        assert written in text if written else "custom_call" not in text


# Transformations


def test_vmap_methods():
    """The kernel says how many elements its two operands have, in base 100."""
    expected = {"sequential": 303, "sequential_unrolled": 303, "expand_dims": 603, "broadcast_all": 606, "legacy_vectorized": 603}
    for method, numbers in expected.items():
        call = ffi.ffi_call("Counts", struct(dtype="int32"), vmap_method=method)
        for f in (xf.vmap(call, in_axes=(0, None)), xf.jit(xf.vmap(call, in_axes=(0, None)))):
            assert f(X, X[0]).tolist() == [numbers] * 2
    with_alias = ffi.ffi_call("Counts", struct(dtype="int32"), vmap_method="expand_dims", input_output_aliases={1: 0})
    assert xf.vmap(with_alias, in_axes=(0, None))(X, np.int32(1)).tolist() == [602] * 2  # as large as the result
    assert xf.vmap(ffi.ffi_call("Counts", struct(dtype="int32"), vmap_method="sequential"))(X[:0]).shape == (0,)
    with pytest.raises(NotImplementedError, match="vmap_method, 'sequential'"):
        xf.vmap(ffi.ffi_call("Counts", struct(dtype="int32")))(X)
    rows = ffi.ffi_call("SumAndMax", (struct(), struct()), vmap_method="broadcast_all")
    assert np.array_equal(xf.vmap(rows)(X), [X.sum(1), X.max(1)])
    assert np.array_equal(xf.vmap(rows, in_axes=1)(X), [X.sum(0), X.max(0)])
    assert np.array_equal(xf.vmap(xf.vmap(rows))(np.stack([X, -X]))[1], [X.max(1), (-X).max(1)])


def test_foreign_call_is_differentiated_by_custom_rules_only():
    @xf.custom_vjp
    def double(x):
        return scale(x, 2)

    double.defvjp(lambda x: (double(x), None), lambda _, g: (scale(g, 2),))
    assert np.array_equal(xf.grad(lambda x: (double(x) * X).sum())(X), 2 * X)
    twice = xf.custom_jvp(lambda x: scale(x, 2))
    twice.defjvp(lambda primals, tangents: (twice(*primals), twice(*tangents)))
    assert np.array_equal(xf.jacfwd(twice)(X[0]), 2 * np.eye(3))
    for differentiate in (xf.grad(lambda x: scale(x, 2).sum()), lambda x: xf.jvp(lambda x: scale(x, 2), (x,), (x,))):
        with pytest.raises(ValueError, match="'Scale' cannot be differentiated.*custom_vjp"):
            differentiate(X)
    stopped = xf.grad(lambda x: (x * scale(lax.stop_gradient(x), 2)).sum())
    assert np.array_equal(stopped(X), 2 * X)
    assert np.array_equal(xf.checkpoint(lambda x: scale(x, 2))(X), 2 * X)


def test_over_devices():
    mesh = xf.make_mesh((8,), ("i",), axis_types=(AxisType.Auto,))
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    split = xf.device_put(x, NamedSharding(mesh, P("i")))
    for check in (True, False):
        on_components = xf.shard_map(lambda a: scale(a, 2), mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=check)
        assert np.array_equal(on_components(split), 2 * x)
    unsharded = xf.jit(lambda a: scale(a, 2))(split)  # every device gets all of it
    assert np.array_equal(unsharded, 2 * x) and unsharded.sharding.is_fully_replicated
    ffi.register_ffi_target_as_batch_partitionable("SumAndMax")
    rows = xf.jit(xf.vmap(ffi.ffi_call("SumAndMax", (struct(), struct()), vmap_method="broadcast_all")))
    total, largest = rows(split)
    assert np.array_equal(total, x.sum(1)) and np.array_equal(largest, x.max(1))
    assert total.sharding.spec == P("i") and "all-gather" not in rows.lower(split).compile().as_text()


def test_types_over_a_mesh():
    mesh = xf.make_mesh((8,), ("i",), axis_types=(AxisType.Explicit,))
    x = xf.device_put(np.arange(16, dtype=np.float32).reshape(8, 2), NamedSharding(mesh, P("i")))
    like = xf.jit(lambda v: ffi.ffi_call("Scale", xf.typeof(v))(v, scale=np.float32(2)))
    unsaid = xf.jit(lambda v: scale(v, 2))
    for f, spec in ((like, P("i", None)), (unsaid, P(None, None))):
        assert xf.typeof(f(x)).sharding.spec == spec and np.array_equal(f(x), 2 * np.asarray(x))


# Lowering


def called(f, *args, platform="cpu"):
    text = xf.jit(f).trace(*args).lower(lowering_platforms=(platform,)).as_text()
    return [line.strip() for line in text.splitlines() if "custom_call" in line]


def test_a_kernel_for_cuda_is_compiled_and_registered(library):
    ffi.register_ffi_target("OnStream", ffi.pycapsule(library.OnStreamHandler), platform="CUDA")
    [line] = called(lambda x: ffi.ffi_call("OnStream", struct(2, 3))(x), X, platform="cuda")
    assert "@OnStream(%arg0)" in line


def test_lowering_for_cuda():
    call = ffi.ffi_call("mine", (struct(2, 3), struct(dtype="int32")), input_output_aliases={0: 0}, input_layouts=[(0, 1)],
                        output_layouts=[Layout((1, 0)), None])
    [line] = called(lambda x: call(x, flag=True, n=3), X, platform="cuda")
    for part in ("@mine(%arg0)", "api_version = 4 : i32", "backend_config = {flag = true, n = 3 : i64}",
                 "operand_layouts = [dense<[1, 0]> : tensor<2xindex>]",
                 "result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]",
                 "output_tuple_indices = [0], operand_index = 0"):
        assert part in line, (part, line)
    [line] = called(ffi.ffi_call("old", struct(), custom_call_api_version=2, legacy_backend_config="hi"), X, platform="cuda")
    assert 'backend_config = "hi"' in line and "api_version = 2" in line


def test_registrations_wait_for_their_plugin(monkeypatch):
    events = []

    class Extension:
        def register_custom_call_target(self, c_api, name, handler, platform, api_version, **options):
            events.append((c_api, name, platform, api_version, options))

        def register_custom_type(self, c_api, name, registration):
            events.append((c_api, name, list(registration)))

    for name in ("_plugins", "_waiting"):
        monkeypatch.setattr(foreign_functions, name, {})
    monkeypatch.setattr(foreign_functions, "batch_partitionable", set())
    capsule = ffi.pycapsule(1)
    ffi.register_ffi_target("first", {"instantiate": capsule, "execute": capsule}, platform="CUDA")
    ffi.register_ffi_target("second", capsule, platform="gpu", api_version=0, traits=1)
    ffi.register_ffi_type("Kept", {"type_id": capsule}, platform="cuda")
    assert not events
    foreign_functions.plugin_loaded("cuda", "interface", Extension())
    expected = [("interface", "Kept", ["type_id"]), ("interface", "first", "CUDA", 1, {}),
                ("interface", "second", "CUDA", 0, {"traits": 1})]
    assert events == expected  # types before the functions that need them
    ffi.register_ffi_target("third", capsule, platform="cuda")
    assert events[3:] == [("interface", "third", "CUDA", 1, {})]


def test_key_arrays_are_passed_as_words():
    [line] = called(ffi.ffi_call("mine", struct(2)), xf.random.key(0))
    assert "(tensor<2xui32>) -> tensor<2xf32>" in line and "operand_layouts = [dense<0> : tensor<1xindex>]" in line


def test_tokens():
    def f(x):
        token = ffi.ffi_call("first", abstract_token)(lax.create_token())
        return ffi.ffi_call("second", (struct(3), abstract_token))(x, token)[0]

    first, second = called(f, X[0])
    assert "(!stablehlo.token) -> !stablehlo.token" in first and "operand_layouts = [dense<> : tensor<0xindex>]" in first
    assert "(tensor<3xf32>, !stablehlo.token) -> (tensor<3xf32>, !stablehlo.token)" in second


def test_lowering_rules_of_primitives():
    scale_p = Primitive("scale_by_a_rule")
    scale_p.def_abstract_eval(lambda x, **_: xf.core.ShapedArray(x.shape, x.dtype))
    rules = {"dense<[1, 0]>": {}, "operand_layouts = [dense<[0, 1]>": {"operand_layouts": [(0, 1)]},
             "result_layouts = [dense<[0, 1]>": {"result_layouts": [Layout((1, 0))]},
             "has_side_effect = true": {"has_side_effect": True}, "operand_index = 0": {"operand_output_aliases": {0: 0}}}
    for part, options in rules.items():
        mlir.register_lowering(scale_p, ffi.ffi_lowering("Scale", **options))
        f = xf.jit(lambda x: scale_p.bind(x, scale=np.float32(2)))
        assert part in called(f, X)[0]
        if "layout" not in part:
            assert np.array_equal(f(X), 2 * X)
    mlir.register_lowering(scale_p, ffi.ffi_lowering("Scale", skip_ffi_layout_processing=True))
    assert "layouts" not in called(lambda x: scale_p.bind(x, scale=np.float32(2)), X)[0]

    def rule(ctx, x):
        with_config = {"scale": mlir.ir_attribute(np.float32(4))}
        operation = ffi.build_ffi_lowering_function("Scale", backend_config=with_config)(ctx, x)
        return operation.results

    mlir.register_lowering(scale_p, rule)
    assert np.array_equal(xf.jit(lambda x: scale_p.bind(x))(X), 4 * X)
    for options, version in (({"backend_config": "text"}, "a dict of attributes"), ({"api_version": 1}, "from api_version 4 on")):
        mlir.register_lowering(scale_p, ffi.ffi_lowering("Scale", **options))
        with pytest.raises(ValueError, match=version):
            called(lambda x: scale_p.bind(x, scale=np.float32(2)), X)


def test_linear_algebra_kernels_use_ffi_call_primitive():
    matrix = np.array([[4, 2], [2, 5]], np.float32)
    call = ffi.ffi_call("lapack_spotrf_ffi", (struct(2, 2), struct(dtype="int32")), input_layouts=[(1, 0)],
                        output_layouts=[(1, 0), None], input_output_aliases={0: 0})
    factor, info = call(matrix, uplo=np.uint8(ord("L")))
    assert info == 0 and np.allclose(np.tril(factor), np.linalg.cholesky(matrix))


# What is refused


ONE = struct(2, 3)
REFUSED = {
    "name": (TypeError, "the name of a function, got int", lambda: ffi.ffi_call(3, ONE)),
    "result": (ValueError, "element 1 is None", lambda: ffi.ffi_call("Scale", [ONE, None])),
    "no result": (ValueError, "an object with shape and dtype", lambda: ffi.ffi_call("Scale", None)),
    "vmap_method": (ValueError, "allowed methods, 'sequential'.*got 'bad'", lambda: ffi.ffi_call("S", ONE, vmap_method="bad")),
    "legacy": (ValueError, "legacy_backend_config with", lambda: ffi.ffi_call("Scale", ONE, legacy_backend_config="x")),
    "attributes of old": (ValueError, "attributes a, which need custom_call_api_version=4",
                          lambda: ffi.ffi_call("Scale", ONE, custom_call_api_version=1)(X, a=1)),
    "argument": (TypeError, "argument 0", lambda: ffi.ffi_call("Scale", ONE)({"a": X})),
    "attribute": (TypeError, "attribute a=None, of type NoneType", lambda: ffi.ffi_call("Scale", ONE)(X, a=None)),
    "complex": (TypeError, "attribute a=1j", lambda: ffi.ffi_call("Scale", ONE)(X, a=1j)),
    "list": (TypeError, r"a list, which is mutable.*np.array", lambda: ffi.ffi_call("Scale", ONE)(X, a=[1])),
    "array": (TypeError, "pass computed arrays as arguments", lambda: ffi.ffi_call("Scale", ONE)(X, a=xnp.ones(2))),
    "texts": (TypeError, "attribute a=", lambda: ffi.ffi_call("Scale", ONE)(X, a=np.array(["x"]))),
    "keys of a dict": (TypeError, "attribute a=", lambda: ffi.ffi_call("Scale", ONE)(X, a={1: 2})),
    "too large": (OverflowError, "64 bits", lambda: ffi.ffi_call("Scale", ONE)(X, a=1 << 70)),
    "alias of what": (ValueError, "no argument 1, only 1", lambda: ffi.ffi_call("S", ONE, input_output_aliases={1: 0})(X)),
    "alias to what": (ValueError, "no result 2, only 1", lambda: ffi.ffi_call("S", ONE, input_output_aliases={0: 2})(X)),
    "alias of another type": (ValueError, "same shape and dtype",
                              lambda: ffi.ffi_call("S", struct(2), input_output_aliases={0: 0})(X)),
    "aliases": (TypeError, "a dict", lambda: ffi.ffi_call("S", ONE, input_output_aliases=[(0, 0)])(X)),
    "layouts": (ValueError, "one layout per array in input_layouts: 1 layouts, got 2",
                lambda: ffi.ffi_call("S", ONE, input_layouts=[(0, 1), None])(X)),
    "layout": (ValueError, r"input_layouts\[0\] of an array of shape \(2, 3\) is \(0,\)",
               lambda: ffi.ffi_call("S", ONE, input_layouts=[(0,)])(X)),
    "dimension twice": (ValueError, "output_layouts", lambda: ffi.ffi_call("S", ONE, output_layouts=(0, 0))(X)),
    "no capsule": (TypeError, "a capsule.*pycapsule", lambda: ffi.register_ffi_target("x", 3)),
    "stage": (ValueError, "the stages instantiate", lambda: ffi.register_ffi_target("x", {"run": ffi.pycapsule(1)})),
    "no stages": (ValueError, "got none", lambda: ffi.register_ffi_target("x", {})),
    "version": (ValueError, "api_version 1", lambda: ffi.register_ffi_target("x", ffi.pycapsule(1), api_version=7)),
    "type": (ValueError, "'type_id' and 'type_info'", lambda: ffi.register_ffi_type("x", {})),
    "type alone": (ValueError, r"register_ffi_type\(", lambda: ffi.register_ffi_type_id("x", None)),
    "pointer": (TypeError, "that ctypes has loaded", lambda: ffi.pycapsule("x")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_raises(case):
    kind, text, call = REFUSED[case]
    with pytest.raises(kind, match=text):
        call()


def test_runtime_errors_of_foreign_functions():
    """XLA compares a call with the function when it is made, and says what is wrong."""
    wrong = {"Wrong number of arguments: expected 1 but got 2": lambda: ffi.ffi_call("Scale", ONE)(X, X, scale=np.float32(1)),
             "Wrong number of results: expected 2 but got 1": lambda: ffi.ffi_call("SumAndMax", struct(2))(X),
             "Wrong number of attributes: expected 1 but got 0": lambda: ffi.ffi_call("Scale", ONE)(X),
             "expected F32 but got S32": lambda: ffi.ffi_call("Scale", ONE)(X.astype(np.int32), scale=np.float32(1)),
             "the kernel says no": lambda: ffi.ffi_call("Fail", ONE)(X)}
    for text, call in wrong.items():
        with pytest.raises(xf.errors.JaxRuntimeError, match=text):
            call()
    for version in (1, 4):
        with pytest.raises(xf.errors.JaxRuntimeError, match="nobody_registered") as caught:
            ffi.ffi_call("nobody_registered", ONE, custom_call_api_version=version)(X)
        assert "register_ffi_target" in caught.value.__notes__[0]

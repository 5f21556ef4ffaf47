"""Python callbacks that write into buffers of compiled programs."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.errors import JaxRuntimeError
from xlafront.experimental.buffer_callback import Buffer, ExecutionContext, ExecutionStage, buffer_callback

pytestmark = pytest.mark.cpu_only

X = np.arange(3, dtype=np.int32)
NUMBER = xf.ShapeDtypeStruct((), "int32")


def add_one(context, result, x):
    assert isinstance(context, ExecutionContext) and context.stage == ExecutionStage.EXECUTE
    assert isinstance(result, Buffer) and result.writeable and not x.writeable
    assert (result.shape, result.dtype, result.ndim) == (x.shape, np.int32, len(x.shape))
    np.asarray(result)[...] = np.asarray(x) + 1


def test_results_are_written():
    f = buffer_callback(add_one, xf.ShapeDtypeStruct((3,), "int32"))
    assert np.array_equal(f(X), X + 1)
    assert np.array_equal(xf.jit(lambda x: f(x) * 2)(X), (X + 1) * 2)


def test_pytrees_of_arguments_and_results():
    def fill(context, results, pair, *, scale):
        np.asarray(results["sum"])[...] = np.asarray(pair[0]) + np.asarray(pair[1])
        np.from_dlpack(results["scaled"])[...] = np.asarray(pair[0]) * np.asarray(scale)

    shapes = {"sum": NUMBER, "scaled": xf.ShapeDtypeStruct((), "float32")}
    found = buffer_callback(fill, shapes)((np.int32(3), np.int32(4)), scale=np.float32(0.5))
    assert {name: float(x) for name, x in found.items()} == {"sum": 7.0, "scaled": 1.5}


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"])
def test_batches(method):
    shapes = []

    def add(context, result, x, y):
        shapes.append((x.shape, y.shape))
        np.asarray(result)[...] = np.asarray(x) + np.asarray(y)

    f = xf.vmap(buffer_callback(add, NUMBER, vmap_method=method), (0, None))
    assert np.array_equal(f(X, np.int32(5)), X + 5)
    one = ((), ())
    assert shapes == {"sequential": [one] * 3, "sequential_unrolled": [one] * 3, "expand_dims": [((3,), (1,))],
                      "broadcast_all": [((3,), (3,))], "legacy_vectorized": [((3,), ())]}[method]


def test_side_effects():
    calls = []
    for is_live in (False, True):
        f = buffer_callback(lambda context, result: calls.append(is_live), (), has_side_effect=is_live)
        assert xf.jit(lambda: (f(), 3)[1])() == 3
    assert calls == [True]


def test_input_output_aliases():
    f = buffer_callback(lambda context, result, x: None, xf.ShapeDtypeStruct((3,), "int32"), input_output_aliases={0: 0})
    assert np.array_equal(f(X), X)  # nothing was written
    assert "output_operand_alias<" in xf.jit(f).lower(X).as_text()
    for aliases, message in (({1: 0}, "no argument 1"), ({0: 0}, "same shape")):
        with pytest.raises(ValueError, match=message):
            buffer_callback(add_one, NUMBER, input_output_aliases=aliases)(X)


def test_for_gpus():
    for recorded, target in ((False, "xla_buffer_python_gpu_callback("), (True, "xla_buffer_python_gpu_callback_cmd_buffer(")):
        f = xf.jit(buffer_callback(add_one, NUMBER, command_buffer_compatible=recorded))
        assert target in f.trace(NUMBER).lower(lowering_platforms=("cuda",)).as_text()
    with pytest.raises(NotImplementedError, match="tpu"):
        f.trace(NUMBER).lower(lowering_platforms=("tpu",))


def test_bad_input_raises():
    f = buffer_callback(add_one, NUMBER)
    with pytest.raises(NotImplementedError, match="vmap_method"):
        xf.vmap(f)(X)
    with pytest.raises(ValueError, match="do not support JVP"):
        xf.grad(buffer_callback(add_one, xf.ShapeDtypeStruct((), "float32")))(1.0)
    with pytest.raises(AttributeError, match="objects with shape and dtype"):
        buffer_callback(add_one, 3)
    with pytest.raises(ValueError, match="vmap_method"):
        buffer_callback(add_one, NUMBER, vmap_method="at_once")

    def fails(context, result):
        raise KeyError("not here")

    with pytest.raises(JaxRuntimeError, match="not here"):
        xnp.sum(buffer_callback(fails, NUMBER)()).block_until_ready()

"""Internal functions in programs: copies of jaxprs that were traced once. The oracle is the function without the cache."""

import gc
import os
import sys

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront.core import source
from xlafront.core.ir import eval_jaxpr
from xlafront.scipy import stats
from xlafront.scipy.ndimage import map_coordinates
from xlafront.staging import compiling, library as module
from xlafront.staging.library import library
from xlafront.staging.outlining import without_inlined_calls

pytestmark = pytest.mark.usefixtures("few_objects")

X, Y = np.arange(4, dtype=np.float32), np.array([3.0, 1.0, 2.0, 5.0], np.float32)


@library(static=("power", "more"))
def mixed(x, y, power, more=None):
    for _ in range(6):
        x = x * y + power
    return (x, y) if more else x


@library
def total(components):
    result = components[0]
    for part in components[1:]:
        result = result + xnp.sin(part) * 2 - part
    return result


def uncached(monkeypatch, f, *args):
    """The text of the program where nothing is copied."""
    with monkeypatch.context() as m:
        m.setattr(module.TraceCache, "call", lambda self, trace, args, kwargs, jitted=None: self.fun(*args, **kwargs))
        return str(xf.make_jaxpr(lambda *a: f(*a))(*args))


PROGRAMS = {
    "two operands": lambda x, y: mixed(x, y, 2.0),
    "one operand twice": lambda x, y: (mixed(x, x, 2.0), mixed(y, y, 2.0), mixed(x, y, 2.0)),
    "by name": lambda x, y: (mixed(y=y, x=x, power=2.0), mixed(x, power=3.0, y=y), mixed(x, y, 2.0, more=True)),
    "1 and True": lambda x, y: (mixed(x, y, 1), mixed(x, y, True), mixed(x, y, 1.0)),
    "other types": lambda x, y: (mixed(x, y, 2.0), mixed(x[:2], y[:2], 2.0), mixed(x.astype("int32"), y, 2.0)),
    "lists": lambda x, y: (total([x, y]), total([y, x, x]), total((x, y)), total([x, 2.0]), total([x, 3.0]), total([x, 2])),
    "NumPy's numbers": lambda x, y: (
        mixed(x, np.float32(2), 2.0), mixed(x, np.float32(-0.0), 2.0), mixed(x, np.float32(0), 2.0), mixed(x, np.int32(2), 2.0),
        mixed(x, np.float16(2), 2.0)),
    "numbers among the operands": lambda x, y: (
        mixed(x, 2.0, 2.0), mixed(3.0, y, 2.0), mixed(x, 2, 2.0), mixed(x, True, 2.0), mixed(x, 0.0, 2.0), mixed(x, -0.0, 2.0)),
    "words and nested numbers": lambda x, y: (
        xnp.rot90(xnp.outer(x, y), 1), xnp.rot90(xnp.outer(x, y), axes=(1, 0)), xf.lax.pad(x, 0.0, [(1, 0, 1)]),
        xf.lax.pad(x, -0.0, ((0, 1, 1),)), xf.lax.iota("int32", 3), xf.lax.iota(np.float32, 3), xnp.block([[x, y], [y, x]]),
        xnp.convolve(x, y, "same"), xnp.convolve(x, y, mode="valid")),
    "functions of the library": lambda x, y: (
        xf.lax.reduce(x, 0.0, xf.lax.add, (0,)), xf.lax.reduce(x, -np.inf, xf.lax.max, (0,)),
        xf.lax.reduce(x, 0.0, lambda a, b: a + b, (0,)), xf.lax.associative_scan(xf.lax.mul, y)),
    "constants": lambda x, y: (mixed(x, Y, 2.0), mixed(x, X, 2.0)),
    "median": lambda x, y: (xnp.median(x), xnp.median(y), xnp.median(x[None], axis=0)),
    "linear algebra": lambda x, y: (xnp.linalg.solve(xnp.outer(x, x) + xnp.eye(4), y), xnp.linalg.det(xnp.outer(x, y))),
    "with rules": lambda x, y: (xf.nn.relu(x), xf.nn.softmax(y), xf.nn.gelu(x), xf.nn.logsumexp(y)),
    "closed over": lambda x, y: xf.lax.scan(lambda c, v: (
        mixed(c, y, 2.0) + xnp.outer(x, y) @ c, (mixed(x, y, 2.0), xnp.zeros_like(x, shape=2), xf.lax.map(lambda w: total([w, v, c]), y))), x, y),
    "loops": lambda x, y: xf.lax.map(lambda v: mixed(v, v, 2.0), x) + xf.lax.cond(True, lambda: mixed(x, y, 2.0), lambda: x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_cached_jaxprs_equal_uncached_ones(name, monkeypatch):
    f = PROGRAMS[name]
    expected = uncached(monkeypatch, f, X, Y)
    with monkeypatch.context() as m:
        m.setattr(module, "_INLINED_OPERATIONS", 1000)
        xf.clear_caches()
        for _ in range(3):
            assert str(xf.make_jaxpr(lambda *a: f(*a))(X, Y)) == expected
    xf.clear_caches()
    for _ in range(2):
        for found, correct in zip(xf.tree.leaves(xf.jit(lambda *a: f(*a))(X, Y)), xf.tree.leaves(f(X, Y))):
            np.testing.assert_allclose(found, correct, rtol=1e-5)


def test_programs_of_many_operations_are_called():
    def names(f):
        return [eqn.params.get("name", eqn.primitive.name) for eqn in xf.make_jaxpr(f)(X).eqns]

    assert names(xnp.median) == names(lambda x: xnp.median(x)) == ["quantile"]
    assert "quantile" in names(xf.vmap(lambda v: xnp.median(v[None]))) and "quantile" in names(xf.grad(xnp.median))
    text = xf.jit(lambda x: xnp.median(x) + xnp.median(x * 2)).lower(X).as_text()
    assert "call" not in text and text.count("func.func") == 1  # they are none in modules


TRANSFORMED = {
    "reductions": lambda x, y: xnp.var(x * y) + xnp.std(x) * xnp.mean(y) + xnp.linalg.norm(x - xnp.mean(y)),
    "rules": lambda x, y: xf.nn.softmax(x * y)[0] + xf.nn.gelu(y).sum() + xf.nn.logsumexp(x) + xf.nn.relu(x - y).sum(),
    "order": lambda x, y: xnp.median(x * y) + xnp.sort(x)[1] * xnp.quantile(y, 0.3) + xnp.where(x > 1, x, y).max(),
    "moves": lambda x, y: (xnp.pad(x, 2)[1:4] * xnp.roll(y, 1)[1:]).sum() + xnp.stack([x, y]).prod() + xnp.diag(xnp.outer(x, y)).sum(),
    "a value twice": lambda x, y: (mixed(x, x, 2.0) * mixed(y, x, 2.0)).sum() + total([x, x, y]).sum(),
    "without influence": lambda x, y: xnp.mean(xnp.floor(x)) + xnp.argmax(x) + xnp.clip(y, 2.0, 4.0).sum(),
    "products": lambda x, y: xnp.einsum("i,j,ij->", x, y, xnp.outer(x, x)) + xnp.dot(x, y) + (x @ xnp.outer(y, x)).sum(),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformed_jaxprs_equal_transformed_functions(name, monkeypatch):
    """Gradients, second derivatives and batches in a compiled program, and a pullback that leaves one."""
    f, points = TRANSFORMED[name], np.stack([X + 0.5, Y, Y - X])

    def all_of(x, y):
        def gradient(x, y):
            return xf.value_and_grad(f, (0, 1))(x, y)

        tangent = xf.jvp(lambda x: gradient(x, y)[1], (x,), (y,))[1]
        return gradient(x, y), tangent, xf.vmap(gradient, (0, None))(points, y), xf.hessian(f)(x, y)

    x, y = X + 0.5, Y + 0.25
    with monkeypatch.context() as m:
        m.setattr(module.TraceCache, "call", lambda self, trace, args, kwargs, jitted=None: self.fun(*args, **kwargs))
        expected = xf.jit(lambda *a: all_of(*a))(x, y)
    found = xf.jit(lambda *a: all_of(*a))(x, y)
    for a, b in zip(xf.tree.leaves(found), xf.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype and a.weak_type == b.weak_type
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    value, pullback = xf.jit(lambda x: xf.vjp(lambda x: f(x, y), x))(x)
    np.testing.assert_allclose(pullback(xnp.ones_like(value))[0], expected[0][1][0], rtol=2e-5, atol=1e-5)


def test_calls_are_inlined_in_place():
    def f(x, y):
        x = xnp.isclose(x, y) * x
        return x + xf.nn.elu(xnp.isclose(y, x) * y)

    first = f.__code__.co_firstlineno
    jaxpr = xf.make_jaxpr(f)(X, Y).jaxpr
    assert [eqn.primitive.name for eqn in jaxpr.eqns].count("jit") == 3
    inlined = without_inlined_calls(jaxpr)
    assert "jit" not in {eqn.primitive.name for eqn in inlined.eqns} and len(inlined.eqns) > 25
    lines = [source.describe(eqn.site).line - first for eqn in inlined.eqns]
    assert lines == sorted(lines) and set(lines) == {1, 2}
    assert without_inlined_calls(inlined) is inlined
    np.testing.assert_allclose(eval_jaxpr(inlined, [], X, Y)[0], f(X, Y))


def test_programs_close_over_captured_values():
    def constants(f):
        return xf.make_jaxpr(lambda x, y: xf.lax.scan(lambda c, _: (f(x, y, c), None), y, length=2))(X, Y).eqns[-1].params["num_consts"]

    for _ in range(2):
        assert constants(lambda x, y, c: mixed(x, y, 2.0) + c) == 2
        assert constants(lambda x, y, c: xnp.zeros_like(x) + c) == 0
        assert constants(lambda x, y, c: xnp.outer(x, c)[0] + mixed(c, x, 2.0)) == 1

    def leaks(x):
        arrays.append(x)
        return x

    arrays = []
    xf.make_jaxpr(leaks)(X)
    with pytest.raises(xf.errors.UnexpectedTracerError):
        xf.make_jaxpr(lambda y: mixed(arrays[0], y, 2.0))(X)


def test_every_call_warns():
    lines = []
    for _ in range(3):
        with xf.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="different rank") as found:
            xf.make_jaxpr(lambda x: xnp.outer(x, x) + x)(X)
        lines.append([(w.filename, w.lineno) for w in found])
    assert lines[0] == lines[1] == lines[2] and lines[0][0][0] == __file__


def test_functions_are_traced_once():
    runs = 0

    @library
    def counted(x):
        nonlocal runs
        runs += 1
        return xnp.sin(x) * xnp.cos(x) + x - x * 2

    for _ in range(5):
        xf.make_jaxpr(lambda x: counted(counted(x)))(X)
    assert runs == 1
    xf.clear_caches()
    xf.make_jaxpr(counted)(X)
    assert runs == 2


def test_repeated_eager_calls_run_no_python_of_the_library():
    x, m, package = xnp.arange(4.0), xnp.ones((2, 3)), os.path.dirname(xf.__file__)
    ran = []

    def note(frame, event, arg):
        names = {frame.f_code.co_name, frame.f_back.f_code.co_name}
        if event == "call" and frame.f_code.co_filename.startswith(package) and "limit_calls_ahead" not in names:
            ran.append(frame.f_code.co_name)  # (what it leaves out runs after every program, once one ran over several CPUs)

    for call in (lambda: xnp.isclose(x, x), lambda: xnp.atleast_3d(x, m), lambda: xnp.swapaxes(m, 0, 1), lambda: xnp.clip(x, 0, 1),
                 lambda: xnp.outer(x, x), lambda: xnp.unwrap(x), lambda: xnp.median(x), lambda: xf.nn.glu(x)):
        call()
        gc.disable()
        sys.setprofile(note)
        try:
            call()
        finally:
            sys.setprofile(None)
            gc.enable()
    assert ran == ["call"]  # of `median`, which chooses by the size of the array whether NumPy sorts


def test_settings_are_part_of_the_cache_key():
    @library
    def product(x, y):
        return (x @ y) * 2 + xnp.sin(x @ y) - x

    def precisions():
        [call] = xf.make_jaxpr(lambda x, y: product(x, y))(np.eye(2), np.eye(2)).eqns
        eqns = call.params["jaxpr"].eqns
        return {str(eqn.params["precision"]) for eqn in eqns if eqn.primitive.name == "dot_general"}

    with xf.default_matmul_precision(None):
        assert precisions() == precisions() == {"None"}
        with xf.default_matmul_precision("highest"):
            assert precisions() == precisions() != {"None"}
        assert precisions() == {"None"}


def test_operations_are_where_the_call_is():
    def f(x):
        y = xnp.median(x)
        with xf.named_scope("second"):
            return y + xnp.median(x)

    first = f.__code__.co_firstlineno
    for _ in range(2):
        eqns = xf.make_jaxpr(lambda x: f(x))(X).eqns
        lines = [source.describe(eqn.site).line - first for eqn in eqns]
        assert set(lines) == {1, 3} and lines == sorted(lines)
        assert {source.describe(eqn.site).name_stack for eqn in eqns} == {"", "second"}
    text = xf.jit(lambda x, y: f(x) + xnp.linalg.solve(xnp.outer(x, x), y)).lower(X, Y).as_text(debug_info=True)
    assert "<unknown>" not in text and text.count("test_library.py") > 2


def test_errors_name_the_arguments_of_the_user():
    def f(first, second):
        return mixed(first, second, 2.0)

    for _ in range(3):
        xf.make_jaxpr(f)(X, Y)
        with pytest.raises(TypeError, match=r"\(4,\).*\(3,\)"):
            xf.make_jaxpr(f)(X, X[:3])

    @library
    def decides(x):
        x = xnp.sin(x) * x + x - 1 + x
        return x if x.sum() > 0 else -x

    @library
    def heavy(x, flag=None):
        x = xnp.sin(x) * x + x - 1 + x
        return x if flag is None or flag > 0 else -x

    for _ in range(3):
        xf.make_jaxpr(lambda x: heavy(x))(X)
        with pytest.raises(xf.errors.TracerBoolConversionError, match="given"):
            xf.make_jaxpr(lambda x, given: heavy(x, given))(X, 1.0)


def test_tracers_are_not_leaked():
    def f(x):
        inner = xf.jit(lambda y: mixed(x, y, 2.0) + mixed(y, y, 2.0))
        return inner(x * 2)

    with xf.checking_leaks():
        for _ in range(3):
            xf.make_jaxpr(lambda x: f(x))(X)


def test_functions_of_values_that_are_differentiated_or_mapped_are_compiled_as_one(monkeypatch):
    compiled = []
    compile_module = compiling.compile_module
    monkeypatch.setattr(compiling, "compile_module", lambda *args: (compiled.append(1), compile_module(*args))[1])
    x = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 65.0], np.float32)  # a shape of this test alone

    def count(f):
        compiled.clear()
        result = f()
        return result, len(compiled)

    slope, programs = count(lambda: xf.grad(xnp.var)(x))
    np.testing.assert_allclose(slope, 2 * (x - x.mean()) / 7, rtol=1e-5)
    assert programs <= 2  # the values, and what is linear in tangents
    rows, programs = count(lambda: xf.vmap(lambda v: xnp.interp(v, x, x**2))(x + 0.5))
    np.testing.assert_allclose(rows, np.interp(x + 0.5, x, x**2), rtol=1e-5)
    assert programs <= 1
    xf.grad(xnp.var)(x)  # (now its reverse pass is one program)
    assert count(lambda: (xf.grad(xnp.var)(x), xf.vmap(lambda v: xnp.interp(v, x, x**2))(x + 0.5)))[1] == 0


def test_forwarded_arguments_are_arrays_under_a_trace():
    """As outside of a trace: methods of arrays can be called on it."""
    row = np.ones((2, 2), np.float32)
    cases = [lambda: xnp.broadcast_to(1.0, ()), lambda: xnp.real(2), lambda: xnp.transpose(row, (0, 1)), lambda: xnp.squeeze(True),
             lambda: xnp.sum(np.float32(1)), *[lambda i=i: xnp.broadcast_arrays(1.0, row[0])[i] for i in (0, 1)]]
    seen = []

    def every(x):
        found = [case() for case in cases]
        seen.append([(isinstance(y, xf.Array), y.aval.weak_type) for y in found])
        return x * sum([y.astype(np.float32).sum() for y in found])

    for under in (lambda f: f(1.0), lambda f: xf.jit(f)(1.0), lambda f: xf.grad(f)(1.0), lambda f: xf.jit(xf.grad(f))(1.0),
                  lambda f: xf.vmap(f)(xnp.ones(2))[1]):
        assert under(every) == 1 + 2 + 4 + 1 + 1 + 2 + 2
    assert seen == [[(True, weak) for weak in (True, True, False, False, False, True, False)]] * 5
    assert str(xf.make_jaxpr(lambda x: x * xnp.broadcast_to(2.0, ()))(1.0)) == str(xf.make_jaxpr(lambda x: x * 2.0)(1.0))


def functions_run(call) -> list[str]:
    """The functions of Python that run when something is called again."""
    call()
    call()
    found = []

    def note(frame, event, _):
        # (what watches over programs of several devices is there when another test has run one)
        if event == "call" and not any([f.f_code.co_filename.endswith("backpressure.py") for f in (frame, frame.f_back)]):
            found.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found[1:]


KEY = xf.random.PRNGKey(0)
M, B, POSITIONS = np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(8, dtype=np.uint8), np.arange(4)
ONE_DISPATCH = {
    "poly": lambda: xnp.poly(X), "polyadd": lambda: xnp.polyadd(X, Y), "polysub": lambda: xnp.polysub(X, Y),
    "polyder": lambda: xnp.polyder(X), "polyint": lambda: xnp.polyint(X), "vander": lambda: xnp.vander(X, 3),
    "polyfit": lambda: xnp.polyfit(X, Y, 2), "logmeanexp": lambda: xf.nn.logmeanexp(X), "sem": lambda: stats.sem(X),
    "rankdata": lambda: stats.rankdata(X), "packbits": lambda: xnp.packbits(B), "unpackbits": lambda: xnp.unpackbits(B),
    "rot90": lambda: xnp.rot90(M), "rollaxis": lambda: xnp.rollaxis(M, 1), "unstack": lambda: xnp.unstack(M),
    "matvec": lambda: xnp.matvec(M, X), "vecmat": lambda: xnp.vecmat(X[:3], M), "resize": lambda: xnp.resize(M, (2, 2)),
    "put_along_axis": lambda: xnp.put_along_axis(M, POSITIONS[:3, None], 0.0, axis=1, inplace=False),
    "map_coordinates": lambda: map_coordinates(M, [X / 2, Y / 3], 1), "nanquantile": lambda: xnp.nanquantile(X, 0.5),
    "nanmedian": lambda: xnp.nanmedian(X), "squeeze": lambda: xnp.squeeze(M[None], 0),
    "dynamic_index_in_dim": lambda: xf.lax.dynamic_index_in_dim(M, 1, 1, keepdims=False),
    "dynamic_slice_in_dim": lambda: xf.lax.dynamic_slice_in_dim(M, 1, 2, 1), "broadcast_arrays": lambda: xnp.broadcast_arrays(M, X),
    "dynamic_update_index_in_dim": lambda: xf.lax.dynamic_update_index_in_dim(M, X[1:], 1, 1),
    "dynamic_update_slice_in_dim": lambda: xf.lax.dynamic_update_slice_in_dim(M, M[:, :2], 1, 1), "eigvalsh": lambda: xnp.linalg.eigvalsh(M[:, :3]),
    "normal": lambda: xf.random.normal(KEY, (2, 3)), "uniform": lambda: xf.random.uniform(KEY, (3,), minval=-1.0),
    "truncated_normal": lambda: xf.random.truncated_normal(KEY, -1.0, 1.0, (3,)), "bernoulli": lambda: xf.random.bernoulli(KEY, 0.3, (3,)),
    "dirichlet": lambda: xf.random.dirichlet(KEY, Y, dtype="float32"), "lognormal": lambda: xf.random.lognormal(KEY, shape=(2,)),
    "orthogonal": lambda: xf.random.orthogonal(KEY, 3), "binomial": lambda: xf.random.binomial(KEY, 10, 0.3),
    "add.outer": lambda: xnp.add.outer(X, Y), "add.reduce": lambda: xnp.add.reduce(M, axis=1), "sort_complex": lambda: xnp.sort_complex(X),
    "fftshift": lambda: xnp.fft.fftshift(X), "rfftn": lambda: xnp.fft.rfftn(M), "fft": lambda: xf.lax.fft(X, "FFT", (4,)),
}


@pytest.mark.parametrize("name", ONE_DISPATCH)
def test_repeated_calls_of_one_kernel_run_no_python(name):
    assert functions_run(ONE_DISPATCH[name]) in ([], ["call"])


def test_dynamic_slices_in_one_dimension():
    x = xnp.asarray(M)
    assert np.array_equal(xf.lax.dynamic_index_in_dim(x, -1, 1, keepdims=False), M[:, -1])
    assert np.array_equal(xf.lax.dynamic_index_in_dim(x, 2, -1, allow_negative_indices=False), M[:, 2:3])
    assert np.array_equal(xf.lax.dynamic_slice_in_dim(x, -3, 2, 1), M[:, 1:3])
    expected = M.copy()
    expected[:, 1] = X[1:]
    assert np.array_equal(xf.lax.dynamic_update_index_in_dim(x, X[1:], 1, 1), expected)
    assert np.array_equal(xf.lax.dynamic_update_slice_in_dim(x, X[1:, None], -3, 1), expected)


OF_VALUES = {
    "a mask times infinities": lambda: (X > 0) * (1 / xnp.asarray(X)),
    "by keyword": lambda: xnp.divide(xnp.asarray(Y), 3) * xnp.exp(-xnp.asarray(X)),
    "nested": lambda: total([xnp.asarray(X), xnp.asarray(Y), 2.0]),
    "static": lambda: mixed(xnp.asarray(X), Y, 2.0),
    "reduced": lambda: xnp.var(xnp.asarray(Y), axis=(0,), keepdims=True),
}


@pytest.mark.parametrize("name", OF_VALUES)
def test_functions_of_untraced_values_run_as_one_kernel(name):
    """One kernel, as without them: XLA may choose other numbers for a whole than for its parts (0 times infinity with masks)."""
    f, seen = OF_VALUES[name], []

    def within(x):
        seen.append(f())
        return x

    xf.grad(within)(1.0)
    xf.vmap(within)(X)
    xf.jvp(xf.vmap(within), (X,), (X,))
    xf.vmap(xf.grad(within))(X)
    assert len(seen) == 4
    for found in seen:
        assert isinstance(found, xf.Array)
        np.testing.assert_array_equal(found, f())


def test_values_that_functions_find_by_axis_names_are_not_outside():
    assert xf.vmap(lambda x: x * xf.lax.psum(1, "i"), axis_name="i")(X).tolist() == (X * 4).tolist()
    assert xf.vmap(lambda x: x + xf.lax.psum(xnp.ones(2), "i"), axis_name="i")(X[:2]).tolist() == [[2, 2], [3, 3]]
    ids = xf.vmap(lambda x: xf.lax.axis_index("i"), axis_name="i")(X)
    assert ids.tolist() == [0, 1, 2, 3]


def test_static_arguments_that_are_arrays_in_tuples():
    one, square = xnp.array(1), xnp.arange(4.0).reshape(2, 2)
    assert xnp.sum(square, axis=(one,)).tolist() == [1, 5] == xnp.sum(square, axis=(np.array(-1),)).tolist()
    assert xnp.pad(xnp.ones(1), (one, 0)).tolist() == [0, 1] == xnp.pad(xnp.ones(1), ((one, 0),)).tolist()
    assert xf.lax.reduce_precision(square, one + 7, one * 6).tolist() == square.tolist()

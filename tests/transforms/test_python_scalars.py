"""Values that are differentiated and Python's numbers: none is made of one where a term of the derivative would be lost, and
numbers that a function hands through stay what they are."""

import math
import operator

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax

X = np.float32(3)

# How Python gets a number of an array, and the exceptions of the reference where the array is being differentiated.
LOSSES = {
    "float": (float, xf.errors.ConcretizationTypeError), "complex": (complex, xf.errors.ConcretizationTypeError),
    "math.sin": (math.sin, xf.errors.ConcretizationTypeError), "math.floor": (math.floor, xf.errors.ConcretizationTypeError),
    "math.pow": (lambda x: math.pow(x, 2), xf.errors.ConcretizationTypeError),
    "tolist": (lambda x: x.tolist(), xf.errors.ConcretizationTypeError),
    "tobytes": (lambda x: x.tobytes(), xf.errors.ConcretizationTypeError),
    "percent": (lambda x: operator.mod("%.2f", x), xf.errors.ConcretizationTypeError),
    "format": (lambda x: f"{x:.3f}", TypeError), "format d": (lambda x: f"{x:d}", TypeError),
    "np.sin": (np.sin, xf.errors.TracerArrayConversionError), "asarray": (np.asarray, xf.errors.TracerArrayConversionError),
    "np.float64": (np.float64, xf.errors.TracerArrayConversionError),
    "from_dlpack": (np.from_dlpack, xf.errors.ConcretizationTypeError),
    "index": (operator.index, TypeError), "range": (range, TypeError), "list index": (lambda x: [1, 2, 3, 4][x], TypeError),
    "hash": (hash, TypeError), "trunc": (math.trunc, TypeError), "devices": (lambda x: x.devices(), TypeError),
    "committed": (lambda x: x.committed, TypeError),
}




TRANSFORMS = {
    "grad": lambda f: xf.grad(f)(X), "value_and_grad": lambda f: xf.value_and_grad(f)(X), "jvp": lambda f: xf.jvp(f, (X,), (X,)),
    "vjp": lambda f: xf.vjp(f, X), "linearize": lambda f: xf.linearize(f, X), "jacfwd": lambda f: xf.jacfwd(f)(X),
    "jacrev": lambda f: xf.jacrev(f)(X), "hessian": lambda f: xf.hessian(f)(X), "vmap(grad)": lambda f: xf.vmap(xf.grad(f))(X[None]),
    "jit(grad)": lambda f: xf.jit(xf.grad(f))(X), "grad(jit)": lambda f: xf.grad(xf.jit(f))(X),
    "grad(checkpoint)": lambda f: xf.grad(xf.checkpoint(f))(X), "vmap": lambda f: xf.vmap(f)(X[None]),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_no_term_is_lost(transform):
    """The law: no transformation lets a value become a Python number that counts as constant."""
    for name, (convert, error) in LOSSES.items():
        tried = []

        def f(x, convert=convert, error=error, name=name, tried=tried):
            with pytest.raises(error):
                convert(x)
            tried.append(name)
            return x * 1.0

        TRANSFORMS[transform](f)
        assert tried, name


def test_the_error_names_the_remedy():
    with pytest.raises(xf.errors.ConcretizationTypeError, match=r"(?s)lose a term.*numpy\.sin for math\.sin.*stop_gradient"):
        xf.grad(lambda x: x * math.sin(x))(3.0)
    assert xf.grad(lambda x: x * float(lax.stop_gradient(x)))(3.0) == 3


# What the reference allows, as it is for control flow: the number counts as constant.
ALLOWED = {"bool": (bool, 1.0), "int": (int, 3.0), "item": (lambda x: x.item(), 3.0), "if": (lambda x: 2.0 if x > 1 else 5.0, 2.0),
           "round": (round, 3.0), "max": (lambda x: max(x, 1.0), 6.0), "abs": (abs, 6.0), "divmod": (lambda x: divmod(x, 2.0)[0], 1.0)}


@pytest.mark.parametrize("name", ALLOWED)
def test_values_that_count_as_constants(name):
    convert, derivative = ALLOWED[name]
    assert xf.grad(lambda x: x * convert(x))(X) == derivative
    assert xf.jvp(lambda x: x * convert(x), (X,), (np.float32(1),))[1] == derivative


def test_traced_values_can_be_got_and_waited_for():
    """`device_get` and `block_until_ready` hand traced values through."""
    assert xf.grad(lambda x: xf.device_get(x) * xf.block_until_ready(x))(3.0) == 6


HANDS_THROUGH = {
    "jvp": (lambda f: xf.jvp(f, (1.0,), (2.0,)), [1.0, 2.0]), "vjp": (lambda f: xf.vjp(f, 1.0)[0], [1.0]),
    "pullback": (lambda f: xf.vjp(f, 1.0)[1](2.0), [2.0]), "linearize": (lambda f: xf.linearize(f, 1.0)[0], [1.0]),
    "derivative": (lambda f: xf.linearize(f, 1.0)[1](2.0), [2.0]),
    "value_and_grad": (lambda f: xf.value_and_grad(f)(1.0)[0], [1.0]), "checkpoint": (lambda f: xf.checkpoint(f)(1.0), [1.0]),
    "transpose": (lambda f: xf.linear_transpose(f, 1.0)(2.0), [2.0]),
}


@pytest.mark.parametrize("name", HANDS_THROUGH)
def test_forwarded_python_scalars(name):
    call, expected = HANDS_THROUGH[name]
    for _ in range(3):  # the same when the reverse pass has been compiled
        found = xf.tree.leaves(call(lambda x: x))
        assert found == expected and all(type(x) is float for x in found)
    for f in (lambda x: x * 2, xnp.sum, *([lambda x: x + 1] if name == "pullback" else [])):
        assert all(isinstance(x, xf.Array) for x in xf.tree.leaves(call(f)))


def test_linear_functions_return_pytrees():
    """They can leave a jitted function and be passed to one."""
    for make in (lambda x: xf.linear_transpose(lambda v: x * v, x), lambda x: xf.vjp(lambda v: v * v / 2, x)[1],
                 lambda x: xf.linearize(lambda v: v * v / 2, x)[1]):
        for wrapped in (xf.jit(make)(5.0), make(5.0)):
            assert xf.tree.leaves(xf.jit(lambda g: g(2.0))(wrapped)) == [10]


def test_residuals_of_a_pullback_can_be_replaced():
    """Arguments that it reads and what else it keeps are lists in which values can be exchanged."""
    _, pull = xf.vjp(lambda x, p: xnp.sin(x) * p["w"], 0.5, {"w": xnp.float32(3), "unread": 1.0})
    assert repr(pull.args_res[0]) == "NotNeeded()" and pull.args_res[1]["w"] == 3 and len(pull.opaque_residuals) == 2
    np.testing.assert_allclose(pull(1.0)[0], 3 * np.cos(0.5), rtol=1e-6)
    pull.args_res[1] = pull.args_res[1] | {"w": xnp.float32(10)}
    np.testing.assert_allclose(pull(1.0)[0], 10 * np.cos(0.5), rtol=1e-6)
    np.testing.assert_allclose(pull(1.0)[1]["w"], np.sin(0.5), rtol=1e-6)
    assert pull.jaxpr.eqns and pull.fun(pull.args_res, pull.opaque_residuals, 1.0)[1]["unread"] == 0
    doubled = xf.tree.map(lambda x: 2 * x, pull)
    np.testing.assert_allclose(doubled(1.0)[0], 40 * np.cos(0.5), rtol=1e-6)


JACOBIANS = {"jacfwd": xf.jacfwd, "jacrev": xf.jacrev}


@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians_of_constant_results_are_zero(name):
    """Blocks of zeros, of the reference's weak types: those of the result in forward mode, of the argument in reverse mode."""
    jac = JACOBIANS[name]
    for call in (jac, lambda *args: xf.jit(jac(*args))):
        blocks = call(lambda x, y: (x, y * 2, 7.0, xnp.ones(2)), (0, 1))(0.0, 1.0)
        assert xf.tree.map(lambda b: np.asarray(b).tolist(), blocks) == ((1, 0), (0, 2), (0, 0), ([0, 0], [0, 0]))
        assert [b.weak_type for b in blocks[3]] == ([False] * 2 if name == "jacfwd" else [True] * 2)
    assert xf.hessian(lambda x: 3.0)(1.0) == 0 and xf.hessian(lambda x: 3 * x)(1.0) == 0


def test_integer_results_of_jacfwd():
    found = xf.jacfwd(lambda x: (x, xnp.arange(2)))(1.0)[1]
    assert isinstance(found, xf.Array) and found.dtype == np.int32 and found.tolist() == [0, 0]


BAD = {
    "tuple and list": (lambda: xf.jvp(xnp.sin, (1.0,), [1.0]), TypeError, "same structure"),
    "dtype before shape": (lambda: xf.jvp(lambda x: x, (1,), (np.ones(3, np.float32),)), TypeError, "float0"),
    "dtype of a tangent": (lambda: xf.linearize(xnp.sin, 1.0)[1](1), ValueError, "tangent dtypes must match"),
    "aux of jacfwd": (lambda: xf.jacfwd(lambda x: (x, "text"), has_aux=True)(1.0), TypeError, "auxiliary data of jacfwd"),
    "no pair": (lambda: xf.jvp(lambda x: (x,), (1.0,), (1.0,), has_aux=True), ValueError, "must return a pair"),
    "stop_gradient": (lambda: lax.stop_gradient("a"), TypeError, "stop_gradient"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, kind, match = BAD[name]
    with pytest.raises(kind, match=match):
        call()


def test_checkpoint_runs_functions_that_are_only_eager():
    primitive = xf.extend.core.Primitive("only_eager")
    primitive.def_impl(lambda x: np.asarray(x) * 3)
    primitive.def_abstract_eval(lambda x: x)
    f = xf.checkpoint(xf.checkpoint(lambda x: primitive.bind(xnp.sin(x))))
    np.testing.assert_allclose(f(xnp.ones(2)), 3 * np.sin(np.ones(2)), rtol=1e-6)


def test_primitives_evaluate_by_impl():
    assert lax.sin_p.impl(0.0) == 0 and xf.jit(lambda x: x * lax.neg_p.impl(2.0))(3.0) == -6


@pytest.mark.parametrize("types, multiple", [(lambda x: [x], False), (lambda x: x, True)])
def test_rules_for_types_of_the_wrong_number(types, multiple):
    primitive = xf.extend.core.Primitive("miscounted")
    primitive.multiple_results = multiple
    primitive.def_abstract_eval(types)
    with pytest.raises(ValueError, match="miscounted.*multiple_results"):
        xf.jit(primitive.bind)(1.0)


ROW = np.array([1.0, 2.0, 4.0], np.float32)

# Gradients of a Python number are weakly typed where something made the number strongly typed on the way (operators and functions
# of xnp beside an array, loops over a constant), and where all factors are weak: a conversion is pulled back as one. Where an operation
# of lax took the number as it was beside an array, they are as strong as its other operand. These are facts of the reference.
WEAK_GRADIENTS = {
    "product": lambda v: v * 2.0, "with an array": lambda v: (v * xnp.ones(3)).sum(), "abs": xnp.abs, "where": lambda v: xnp.where(v > 0, v, 0.0),
    "mod": lambda v: v % 2, "stack": lambda v: xnp.stack([v, 1.0]).sum(),
    "set": lambda v: xnp.zeros(3).at[0].set(v).sum(), "scan": lambda v: lax.scan(lambda c, _: (c * v, c), 1.0, None, length=2)[0],
    "cond": lambda v: lax.cond(True, lambda x: x * 2, lambda x: x, v), "vmap": lambda v: xf.vmap(lambda x: x * v)(xnp.ones(3)).sum(),
    "linspace": lambda v: xnp.linspace(0.0, v, 3).sum(), "constant": lambda v: 3.0, "round": lambda v: xnp.round(v) * 1.0,
    "operators": lambda v: (xnp.sin(v) * ROW[0] - ROW[1]) / ROW[0], "array": lambda v: xnp.array([v, 1.0]).sum(),
    "prod": lambda v: xnp.prod(xnp.stack([v, v])), "max": lambda v: xnp.max(xnp.stack([v, v])), "clamp": lambda v: lax.clamp(0.0, v, 9.0),
    "lower bound": lambda v: lax.clamp(v, 1.0, 9.0), "upper bound": lambda v: lax.clamp(0.0, 9.0, v),
    "scan of sin": lambda v: lax.scan(lambda c, y: (lax.sin(c) * y, None), v, ROW)[0],
    "closed over": lambda v: lax.scan(lambda c, y: (c, lax.mul(v, y)), ROW[0], ROW)[1].sum(),
    "unused carry": lambda v: lax.scan(lambda c, y: (c * y, c), v, ROW)[1].sum(),
    "cond, its first": lambda v: lax.cond(True, lambda x: lax.mul(x, ROW[0]), lambda x: x * ROW[0], v),
    "clip": lambda v: xnp.clip(v, ROW[0] * 0, 9.0), "erf_inv": lambda v: lax.erf_inv(v / 9),
    "elu": lambda v: xf.nn.elu(v), "sinc": lambda v: xnp.sinc(v), "hypot": lambda v: xnp.hypot(v, 1.0)}
STRONG_GRADIENTS = {
    "real": lambda v: lax.real(lax.complex(v, v)), "imag": lambda v: lax.imag(lax.complex(v, v)), "size": lambda v: abs(lax.complex(v, v)),
    "pad": lambda v: xnp.pad(v[None], 1).sum(), "dynamic_slice": lambda v: lax.dynamic_slice(v[None], (0,), (1,))[0],
    "sort": lambda v: xnp.sort(xnp.stack([v, v]))[0], "median": lambda v: xnp.median(xnp.stack([v, v])),
    "lax.mul": lambda v: lax.mul(xnp.sin(v), ROW[0]), "lax.max": lambda v: lax.max(v, ROW[0]), "maximum": lambda v: xnp.maximum(v, 1), "lax.div": lambda v: lax.div(v, ROW[0]),
    "erf": lax.erf, "erfc": lax.erfc, "clip": lambda v: xnp.clip(v, 0.0, 9.0), "clip, upper bound": lambda v: xnp.clip(v, 0.0, ROW[0]),
    "dot": lambda v: xnp.dot(v, ROW).sum(), "quantile": lambda v: xnp.quantile(ROW, v / 9), "power": lambda v: xnp.power(v, 2.0),
    "logsumexp": lambda v: xf.nn.logsumexp(xnp.stack([v, v])), "concatenate": lambda v: lax.concatenate([v[None], ROW], 0).sum(),
    "scan": lambda v: lax.scan(lambda c, y: (c * y, None), v, ROW)[0],
    "after a scan": lambda v: lax.mul(lax.scan(lambda c, y: (c * 2.0, y), v, ROW)[0], ROW[0]),
    "cond, its first": lambda v: lax.cond(True, lambda x: x * ROW[0], lambda x: lax.mul(x, ROW[0]), v)}


@pytest.mark.parametrize("weak", [True, False])
def test_weak_types_of_gradients(weak):
    for name, f in (WEAK_GRADIENTS if weak else STRONG_GRADIENTS).items():
        for _ in range(2):  # operation by operation, then compiled
            assert xf.grad(f)(3.0).weak_type == weak, name
        for call in (xf.jit, xf.checkpoint):  # of which nothing is to be seen
            assert xf.grad(call(f))(3.0).weak_type == weak, name
    assert [xf.grad(f)(3.0 + 1j).weak_type for f in (xnp.real, xnp.imag, xnp.abs, xnp.angle)] == [False] * 4


def test_weak_types_of_logical_functions():
    """Of numbers as promotion finds them; of an array of booleans beside a weak number they are the array's."""
    true, number = xnp.array(True), xnp.asarray(1)
    for f in (xnp.logical_and, xnp.logical_or, xnp.logical_xor):
        assert [f(x, y).weak_type for x, y in ((true, 1), (true, number), (xnp.array(3, "int8"), xnp.asarray(1.0)), (xnp.array(3), 1),
                                               (true[None], 1), (true[None], number), (xnp.arange(3), 1.0))] == [True] * 4 + [False] * 3


def test_weak_types_of_updates():
    """A part written into an array leaves it as weakly typed as it was; filling up and products keep what all operands are."""
    weak, one = lax.broadcast(2.0, (3,)), np.ones(1, np.float32)
    for x in (weak.at[0].set(one[0]), weak.at[0:2].add(1.0), xnp.pad(weak, 1), xnp.pad(weak, 1, mode="mean"), xnp.diag(weak),
              lax.pad(weak, 0.0, [(1, 1, 0)]), lax.dot(weak, weak, preferred_element_type=np.float32),
              lax.reduce(weak, 0.0, lax.add, (0,)), lax.reduce(weak, 0, lax.add, (0,)), lax.reduce(lax.broadcast(2, (3,)), 1.0, lax.mul, (0,)),
              xnp.resize(3, 0), xnp.resize(weak[:0], 2), weak.round(), xnp.round(xnp.asarray(1.5), 1)):
        assert x.weak_type
    for x in (lax.dynamic_update_slice(weak, one, (0,)), lax.dynamic_update_slice(weak, weak[:1], (0,)), xnp.diagflat(weak),
              lax.pad(weak, one[0], [(1, 1, 0)]), xnp.dot(2.0, 3.0, preferred_element_type=np.float32),
              lax.reduce(weak, one[0] * 0, lax.add, (0,)), weak.round(1), xnp.round(weak * 1j, -1), xnp.resize(one[:0], 2)):
        assert not x.weak_type


def test_weak_types_of_tangents_of_updates():
    """The zeros that stand for missing tangents are as weakly typed as their values."""
    weak, i = lax.broadcast(2.0, (3,)), np.array([0, 1])
    for f in (lambda v: xnp.zeros_like(v, shape=(3,)).at[i].set(v), lambda v: xnp.zeros_like(v, shape=(3,)).at[i].add(v),
              lambda v: xnp.zeros_like(v, shape=(3,)).at[i].max(v), lambda v: weak.at[i].multiply(v, unique_indices=True),
              lambda v: lax.broadcast(v, (3,)).at[i].multiply(2.0, unique_indices=True), lambda v: lax.broadcast(v, (3,)).at[i].set(2.0),
              lambda v: lax.broadcast(v, (3,)).at[i].min(2.0), lambda v: xnp.diag(v[None]), lambda v: lax.pad(weak, v, [(1, 1, 0)]),
              lambda v: lax.concatenate([lax.broadcast(v, (3,)), weak], 0)):
        assert [x.weak_type for x in xf.jvp(f, (2.0,), (1.0,))] == [True, True]
    for f in (lambda v: xnp.ones(3).at[i].set(v), lambda v: xnp.ones(3).at[i].min(v), lambda v: lax.pad(xnp.ones(3), v, [(1, 1, 0)])):
        assert [x.weak_type for x in xf.jvp(f, (2.0,), (1.0,))] == [False, False]
    for f in (lambda v: lax.broadcast(v, (3,)).at[i].set(2.0).sum(), lambda v: xnp.concatenate([weak, v[None]]).sum()):
        assert xf.grad(f)(2.0).weak_type


S, W = xnp.float32(2), xnp.asarray(3.0)  # not weakly typed, and weakly

# A function, a value, a tangent or cotangent, and whether derivatives are weakly typed: (linearize, jvp, vjp). Linear programs
# take tangents as they are given; functions that are compiled as a whole give what they give for tangents like their values.
WEAK_TANGENTS = {
    "double of weak": (lambda x: x * 2.0, 0.5, S, (False, True, False)), "double": (lambda x: x * 2.0, S, W, (False, False, False)),
    "by strong": (lambda x: x * S, 0.5, W, (False, False, True)), "sin": (xnp.sin, W, S, (False, True, False)),
    "minus": (lambda x: -x, S, W, (True, False, True)), "minus of number": (lambda x: -x, S, 1.0, (True, False, True)),
    "identity": (lambda x: x, W, S, (False, False, False)), "identity, weak": (lambda x: x, S, W, (True, True, True)),
    "constant": (lambda x: 3.0, S, W, (True, True, False)),
}


@pytest.mark.parametrize("name", WEAK_TANGENTS)
def test_weak_types_of_tangents(name):
    f, x, t, expected = WEAK_TANGENTS[name]
    found = xf.linearize(f, x)[1](t), xf.jvp(f, (x,), (t,))[1], xf.vjp(f, x)[1](t)[0]
    assert tuple([d.weak_type for d in found]) == expected


def test_forwarded_tangents_are_the_same_objects():
    half = np.float32(0.5)
    for t in (0.5, half, S):
        for found in (xf.linearize(lambda x: x, 2.0)[1](t), xf.jvp(lambda x: x, (2.0,), (t,))[1],
                      xf.linear_transpose(lambda x: x, 2.0)(t)[0]):
            assert found is t


def test_ranges_to_values_that_are_differentiated():
    """Eagerly they are known, and how many numbers there are does not change with them."""
    assert xf.grad(lambda x: x * xnp.arange(x).sum())(3.0) == 0 + 1 + 2
    assert xf.grad(lambda x: x * xnp.arange(x - 1, 2 * x, x - 2).sum())(3.0) == 2 + 3 + 4 + 5
    assert xf.jvp(lambda x: xnp.arange(xnp.max(x), dtype="int32"), (X,), (X,))[0].tolist() == [0, 1, 2]
    with pytest.raises(xf.errors.ConcretizationTypeError, match="'stop' of numpy.arange"):
        xf.jit(xf.grad(lambda x: x * xnp.arange(x).sum()))(3.0)

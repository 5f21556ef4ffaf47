"""Settings that users change for their own operations do not change internal operations.

Every public function is traced under every such setting, and the jaxprs of the function and of its derivative are compared.
A call of the table is an expression in these names; `<a b>` is a choice, `<, a b>` one that may be left out.
"""

import contextlib
import itertools
import random as random_numbers
import re
import types
import warnings
from collections.abc import Callable
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
import xlafront.scipy as jsp
from tests.beside import generated
from xlafront import lax, nn, random

S = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]], np.float32)
OPERANDS = {
    "v": np.array([0.5, 0.1, 0.9], np.float32), "s": S, "c": (S + 1j * (S - S.T + np.tri(3))).astype(np.complex64),
    "i": np.array([2, 0, 1], np.int32), "j": np.array([[2, 0, 1], [1, 1, 0], [0, 2, 2]], np.int32),
    "b": np.array([3, 1, 2], np.int8), "u": np.array([3, 1, 2], np.uint8), "h": np.array([0.5, 0.1, 0.9], ml_dtypes.bfloat16),
    "t": np.array([True, False, True]), "x": np.float32(0.3), "n": np.int32(2),
    "q": np.arange(36, dtype=np.float32).reshape(1, 3, 2, 6) / 36,
}
MODULES = {"xnp": xnp, "lax": lax, "nn": nn, "random": random, "xnp.linalg": xnp.linalg, "lax.linalg": lax.linalg,
           "xnp.fft": xnp.fft, "jsp.special": jsp.special, "jsp.linalg": jsp.linalg, "jsp.signal": jsp.signal,
           "jsp.fft": jsp.fft, "jsp.integrate": jsp.integrate, "jsp.cluster.vq": jsp.cluster.vq, "image": xf.image,
           **{f"jsp.stats.{name}": getattr(jsp.stats, name) for name in dir(jsp.stats)
              if isinstance(getattr(jsp.stats, name), types.ModuleType) and not name.startswith("_")}}
NAMES = {"xf": xf, "xnp": xnp, "lax": lax, "nn": nn, "random": random, "jsp": jsp, "image": xf.image}

REDUCTIONS = """
xnp.<sum prod max min mean var std ptp all any argmax argmin count_nonzero cumsum cumprod nansum nanprod nanmax nanmin nanmean
    nanvar nanstd average sort argsort median>(<v i>)
xnp.<sum max mean var median nanmean nanvar cumsum sort average>(s, axis=1)
xnp.<sum prod mean var std nansum nanmean nanvar nanstd>(<s j>, where=t)
xnp.<max min nanmax nanmin>(<s j>, where=t, initial=0)
xnp.<sum mean var cumsum>(<v i>, dtype=<'bfloat16' 'complex64'>)
xnp.<quantile percentile nanquantile nanpercentile>(<v i b>, .5)
xnp.quantile(<v i>, v)
xnp.quantile(v, .5, weights=v, method='inverted_cdf')
xnp.average(s, axis=1, weights=v)
xnp.<add multiply maximum logaddexp>.reduce(<v h>)
xnp.<add subtract>.accumulate(<v i>)
xnp.add.reduceat(v, xnp.array([0, 2]))
lax.<cumsum cumprod cummax cummin cumlogsumexp>(<v h>)
lax.top_k(<v i>, 2)
lax.reduce(v, 0., lax.add, (0,))
lax.associative_scan(lax.add, v)
"""
ELEMENTWISE = """
xnp.<add subtract multiply divide floor_divide remainder fmod power maximum arctan2 hypot logaddexp logaddexp2 heaviside float_power
    copysign divmod fmax isclose equal logical_and>(<v b>, 2)
xnp.<add multiply power floor_divide hypot maximum isclose>(<v h>, 1.5)
xnp.<add subtract>.at(v, i, 2., inplace=False)
xnp.clip(<v i u>, 0, 1)
xnp.<sinc exp log1p sqrt cbrt sign round angle deg2rad reciprocal square absolute sin rint i0 nan_to_num logical_not exp2 log2
    arcsinh>(<v h i>)
xnp.where(t, <v s i>, 0)
xnp.where(t, s, s[0])
xnp.select([t, ~t], [v, v * 2], <0 1.5>)
xnp.select([t], [s], 0.)
lax.integer_pow(<v i>, 3)
lax.clamp(0., v, 1.)
lax.<zeta polygamma igamma igammac>(v + 2, v + 1)
"""
ARRAYS = """
xnp.<geomspace logspace linspace>(<1 2. x>, <3 4.>, 3)
xnp.<geomspace logspace linspace>(v, 2 * v, 3)
xnp.<linspace logspace geomspace>(i + 1, i + 3, 3)
xnp.histogram_bin_edges(<v i h>, 3)
xnp.<compress extract>(t, <v i h>, size=2, fill_value=0)
xnp.<nonzero argwhere flatnonzero>(<t i v>, size=2, fill_value=1)
xnp.searchsorted(v, <v 0.3>)
xnp.digitize(v, v)
xnp.bincount(i<, weights=v>, length=4)
xnp.<dot matmul inner vdot outer kron>(*[<v h i c[0]>] * 2)
xnp.<dot matmul>(s, v)
xnp.einsum('ij,j->i', s, v)
xnp.take(<v i u>, i, mode=<'fill' 'clip' 'wrap'>)
xnp.take_along_axis(s, j, 1, mode=<'one_hot' 'fill'>)
xnp.pad(<v i>, 1, mode=<'edge' 'wrap' 'reflect' 'symmetric' 'mean' 'maximum' 'median'>)
xnp.pad(<v i>, 1, mode='linear_ramp', end_values=2)
xnp.pad(<v i>, 1, constant_values=2)
xnp.repeat(v, 2)
xnp.repeat(v, i, total_repeat_length=4)
xnp.roll(<v s>, <1 n>)
xnp.<partition argpartition>(v, 1)
xnp.full_like(<v i h>, 2)
xnp.append(v, 3.)
<v i h>[<0 -1 1: ::-1 i None ...,0>]
s[0, i]
<v i h>.at[<0 i 1:>].<set add multiply power min>(2)
<v h>.at[0].divide(2)
<v i>.at[0].apply(xnp.square)
<v i>.at[i].get(mode='fill', fill_value=0)
s.at[i].set(v)
s.at[i, i].add(v)
"""
LINALG = """
xnp.linalg.<norm det slogdet inv pinv eigvalsh cholesky qr svd svdvals eigh matrix_rank cond>(<s c>)
xnp.linalg.norm(s, ord=<'nuc' 2 -2 1 xnp.inf>)
xnp.linalg.norm(v, ord=<0 1 3 xnp.inf>)
xnp.linalg.cond(s, <1 2 'fro' 'nuc'>)
xnp.linalg.<solve lstsq>(s, s[:, 0])
xnp.linalg.<solve lstsq>(c, c[:, 0])
xnp.linalg.matrix_power(<s j>, <3 0>)
xnp.linalg.<eigvals eig>(<s c>)
xnp.linalg.multi_dot([s, s, v])
lax.linalg.<cholesky lu qr svd eigh hessenberg schur tridiagonal>(<s c>)
lax.linalg.eig(<s c>, enable_eigvec_derivs=True)
lax.linalg.cholesky_update(s, v)
lax.linalg.triangular_solve(s, s, lower=True)
lax.linalg.tridiagonal_solve(v, v + 3, v, s)
lax.linalg.householder_product(s, v)
lax.custom_linear_solve(lambda y: s @ y, v, lambda f, y: xnp.linalg.solve(s, y), symmetric=True)
"""
NN = """
nn.<relu relu6 gelu silu elu celu selu softplus soft_sign sigmoid log_sigmoid hard_tanh hard_silu hard_sigmoid leaky_relu mish
    squareplus sparse_plus sparse_sigmoid log1mexp standardize logmeanexp logsumexp softmax log_softmax>(<s h>)
nn.gelu(<v h>, approximate=False)
nn.glu(s[:, :2])
nn.<softmax log_softmax logsumexp standardize>(s, where=t)
nn.logsumexp(s, b=<2 s>, return_sign=True)
nn.one_hot(i, 3)
nn.dot_product_attention(q, q, q<, is_causal=True mask=t bias=v local_window_size=1>)
nn.initializers.<glorot_normal he_uniform normal uniform truncated_normal>()(key, (3, 3)<, 'bfloat16'>)
nn.initializers.orthogonal()(key, (3, 3))
nn.initializers.delta_orthogonal()(key, (3, 3, 3))
nn.initializers.variance_scaling(2., 'fan_avg', <'normal' 'uniform' 'truncated_normal'>)(key, (3, 3), 'complex64')
"""
RANDOM = """
random.<normal uniform exponential gumbel laplace logistic cauchy rademacher maxwell>(key, (3,)<, 'bfloat16'>)
random.normal(key, (2,), 'complex64')
random.bits(key, (3,), <'uint8' 'uint32'>)
random.randint(key, (3,), 0, <5 n 300>, <'int32' 'int8'>)
random.randint(key, (3,), b, 100, 'int8')
random.uniform(key, (3,), minval=<-1 x v>, maxval=<2 1.5>)
random.truncated_normal(key, <-1 x v>, 2., (3,))
random.bernoulli(key, <.5 v>, (3,), mode=<'low' 'high'>)
random.categorical(key, v, mode=<'low' 'high'>)
random.categorical(key, s, axis=<0 1>, shape=(2, 3))
random.<permutation choice>(key, <3 v s>)
random.permutation(key, s, axis=1, independent=True)
random.choice(key, <5 v>, (2,), replace=<True False>)
random.choice(key, <3 v>, (2,), p=v, replace=<True False>)
random.dirichlet(key, v)
random.t(key, 2.)
random.<gamma poisson chisquare geometric pareto rayleigh wald loggamma>(key, <v 2.>)
random.<beta binomial f>(key, <v 2.>, 3.)
random.weibull_min(key, 2., 3., (3,))
"""
CONTROL = """
lax.scan(lambda c, r: (c + r, c * r), x, v)
lax.map(lambda r: r * 2, v)
lax.fori_loop(0, 3, lambda i, c: c * 2, v)
lax.cond(n > 1, xnp.sin, xnp.cos, v)
lax.switch(n, [xnp.sin, xnp.cos, xnp.tan], v)
lax.dynamic_slice(v, (n,), (1,))
lax.dynamic_update_slice(v, v[:1], (n,))
xf.<hessian jacfwd jacrev>(lambda y: (y ** 3).sum())(v)
xf.jvp(lambda y: xnp.linalg.norm(y) ** 2, (v,), (v,))
xf.vmap(lambda a: xnp.linalg.solve(a, v))(s[None])
xf.checkpoint(lambda y: xnp.sin(y) ** 2)(v)
"""
SECTIONS = {"reductions": REDUCTIONS, "elementwise": ELEMENTWISE, "arrays": ARRAYS, "linalg": LINALG, "nn": NN, "random": RANDOM,
            "control": CONTROL}
WIDE = {"f": np.float64, "c": np.complex128, "i": np.int64}
VALUES = {"ndim", "size", "issubdtype", "create_token", "after_all"}  # which give no arrays
VALUES |= {"owens_t"}  # float64 with 64-bit types, as the reference gives
# What the functions are tried with that the table does not name, until they take it.
STANDARD = ["v", "s", "v, v", "s, s", "i", "i, i", "t, t", "s, v", "s, 1", "3", "key", "key, v", "(v, v)", "v, v, v", "v, v, v, v",
            "s, (2, 2), 'linear'"]


def expanded(text: str) -> list[str]:
    """Each line for each combination of its choices."""
    calls: list[str] = []
    for line in re.split(r"\n(?=\S)", text.strip()):
        pieces = re.split(r"<([^<>]+)>", " ".join(line.split()))
        choices = [[part] if i % 2 == 0 else ["", *[f", {p}" for p in part[1:].split()]] if part.startswith(",") else part.split()
                   for i, part in enumerate(pieces)]
        calls += ["".join(found) for found in itertools.product(*choices)]
    return calls


def operands() -> tuple[dict, dict]:
    arrays = {name: xnp.asarray(x) for name, x in OPERANDS.items()}
    floats = {name: arrays.pop(name) for name in list(arrays) if xnp.issubdtype(arrays[name].dtype, np.inexact)}
    return floats, arrays | {"key": random.key(0)}


def traced(call: str):
    """The program of a call, None where there is no such function."""
    try:
        return xf.make_jaxpr(lambda floats, others: eval(call, NAMES | floats | others), return_shape=True)(*operands())
    except AttributeError:
        return None


def derivative(call: str) -> Exception | None:
    """Return the reason that it cannot be traced."""
    def pulled_back(floats, others):
        results, pullback = xf.vjp(lambda floats: [y for y in xf.tree.leaves(eval(call, NAMES | floats | others))
                                                   if xnp.issubdtype(y.dtype, np.inexact)], floats)
        return pullback(results)

    try:
        xf.eval_shape(pulled_back, *operands())
    except Exception as e:
        return e
    return None


def check(calls: list[str]) -> None:
    """The same program under strict promotion, a derivative where there is one, and no wider results with 64-bit types."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls:
            found = traced(call)
            if found is None:
                continue
            program, expected = found
            with xf.numpy_dtype_promotion("strict"), xf.numpy_rank_promotion("raise"):
                assert str(traced(call)[0]) == str(program), call
                error = derivative(call)
            assert error is None or derivative(call) is not None, (call, error)
            if set(re.findall(r"\w+", call.partition("(")[2])) <= {"v", "s", "c", "h", "x", "q", "t", "axis", "where"}:
                with xf.enable_x64(True):
                    results = traced(call)[1]
                for wide, narrow in zip(xf.tree.leaves(results), xf.tree.leaves(expected), strict=True):
                    assert wide.shape == narrow.shape, call
                    assert wide.dtype == narrow.dtype or xnp.issubdtype(wide.dtype, np.integer), call


@pytest.mark.parametrize("section", SECTIONS)
def test_functions_do_not_depend_on_promotion_and_widths(section):
    check(expanded(SECTIONS[section]))


@pytest.mark.parametrize("module", MODULES)
def test_functions_that_the_table_does_not_name(module):
    named = {name for call in expanded("".join(SECTIONS.values())) for name in re.findall(r"\w+", call)}
    calls = []
    for name in dir(MODULES[module]):
        function = getattr(MODULES[module], name)
        if not name.startswith("_") and name not in named and callable(function) and not isinstance(function, type) and name not in VALUES:
            for arguments in STANDARD:
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        xf.eval_shape(lambda floats, others: eval(f"{module}.{name}({arguments})", NAMES | floats | others),
                                      *operands())
                except Exception:
                    continue
                calls.append(f"{module}.{name}({arguments})")
                break
    assert len(calls) > 0
    check(calls)


@pytest.mark.parametrize("section", ["reductions", "elementwise", "arrays", "linalg", "nn"])
def test_functions_take_arrays_that_are_wider_than_the_setting(section):
    """64-bit arrays that were made where they are allowed: a program of valid types wherever narrow ones have one."""
    with xf.enable_x64(True):
        wide = [{name: x if name == "key" else xnp.asarray(np.asarray(x).astype(WIDE.get(x.dtype.kind, x.dtype)))
                 for name, x in kind.items()} for kind in operands()]
    for call in expanded(SECTIONS[section]):
        if traced(call) is None or re.search(r"lax[.](?!linalg)|tridiagonal_solve", call):  # lax's functions require equal dtypes
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lowered = xf.jit(lambda floats, others: eval(call, NAMES | floats | others)).lower(*wide)
            if section == "linalg":
                lowered.compile()


def test_functions_run_on_the_default_device_and_make_no_nans():
    """One call of each line, as it is and under `debug_nans` on the last device."""
    last = xf.devices()[-1]
    with xf.default_device(last), xf.debug_nans(True):
        floats, others = operands()
        for line in re.split(r"\n(?=\S)", (ARRAYS + NN + RANDOM + CONTROL).strip().replace("\n\n", "\n")):
            call = expanded(line)[0]
            try:
                results = eval(call, NAMES | floats | others)
            except AttributeError:  # no such function
                continue
            for x in xf.tree.leaves(results):
                assert x.devices() == {last} and not x.committed, call


@contextlib.contextmanager
def changed(name: str, value):
    before = getattr(xf.config, name)
    xf.config.update(name, value)
    try:
        yield
    finally:
        xf.config.update(name, before)


SETTINGS = {
    "strict promotion": lambda: (xf.numpy_dtype_promotion("strict"), xf.numpy_rank_promotion("raise")), "enable_x64": lambda: (xf.enable_x64(True),),
    "debug_nans": lambda: (xf.debug_nans(True),), "highest precision": lambda: (xf.default_matmul_precision("highest"),),
    "precision of bfloat16": lambda: (xf.default_matmul_precision("bfloat16"),), "default_device": lambda: (xf.default_device(xf.devices()[-1]),),
    "explicit_x64_dtypes": lambda: (changed("explicit_x64_dtypes", "error"),), "leaks": lambda: (xf.checking_leaks(),), "disable_jit": lambda: (xf.disable_jit(),)}
TRACED = ("strict promotion", "enable_x64", "highest precision", "precision of bfloat16", "explicit_x64_dtypes", "leaks")
COMPUTED = ("enable_x64", "debug_nans", "highest precision", "default_device", "disable_jit")
# Results that are not values of the arguments' dtypes: positions and sums of integers get 64 bits; the others are made of nothing.
WIDENS = """linspace logspace geomspace arange indices tri tril_indices triu_indices mask_indices bartlett blackman hamming hanning kaiser
    fftfreq rfftfreq eye identity ones zeros full fromfunction angle rankdata one_hot entropy dft hilbert invhilbert hadamard helmert pascal invpascal bernoulli diag_indices""".split()


class GeneratedCall(NamedTuple):
    """A call of a function; the arrays among its arguments, and `call(function, arrays)`."""

    text: str
    function: Callable
    arrays: list
    call: Callable
    leaves: list

    def __call__(self, arrays):
        results = [x for x in xf.tree.leaves(self.call(self.function, arrays)) if isinstance(x, xf.Array | np.ndarray | np.generic)]
        return [random.key_data(x) if xnp.issubdtype(x.dtype, xf.dtypes.prng_key) else x for x in results]

    def of_one_type(self) -> bool:
        """False if arguments of several dtypes or ranks are promoted by the function because the caller gave them."""
        ranks, types = {x.ndim for x in self.arrays if x.dtype != bool and x.ndim}, {x.dtype for x in self.arrays} - {np.dtype(bool)}
        if self.text.startswith("random."):  # which convert their parameters to the dtype of the samples
            types |= {np.dtype(np.float32)}
        return len(types) <= 1 and len(ranks) <= 1 and not self.has_integers_and_floats()

    def has_integers_and_floats(self) -> bool:
        return any(isinstance(x, float) for x in self.leaves) and any(xnp.issubdtype(x.dtype, np.integer) for x in self.arrays)

    def mixes_numbers_with_arrays(self) -> bool:
        """True if a function of `lax`, which takes operands of one dtype, gets Python integers, which are wider in 64 bits."""
        return self.text.startswith("lax.") and bool(self.arrays) and any(type(x) is int for x in self.leaves)

    def widens(self) -> bool:
        """True if results of no array's dtype are among the results, which 64-bit types widen."""
        name = self.text.partition("(")[0].rpartition(".")[2]
        return (name in WIDENS or self.has_integers_and_floats() or not self.arrays or any(x in (float, complex, int) for x in self.leaves)
                or self.text.startswith("random.") and ("dtype=" not in self.text or "dtype=None" in self.text))


def generated_calls(seed: int, count: int | None) -> list[GeneratedCall]:
    """Return a call of each function, or of some, that works under the default settings on tracers."""
    names, chance, found = {"xf": xf, "np": np, **NAMES}, random_numbers.Random(seed), []
    exec(generated.SETUP, names)
    functions = sorted(generated.functions().items())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in functions if count is None else chance.sample(functions, count):
            for _ in range(4):  # some random arguments are refused
                text = generated.arguments(name, value, generated.Case(name.rpartition(".")[0], "", chance, plain=True))
                if text is None:
                    break
                try:
                    arrays, call, leaves = eval(f"(lambda *args, **kwargs: (*arrays_of(args, kwargs), xf.tree.leaves((args, kwargs))))({text})", names)
                    candidate = GeneratedCall(f"{name}({text})", value, arrays, call, leaves)
                    xf.eval_shape(candidate, arrays)
                except Exception:
                    continue
                found.append(candidate)
                break
    return found


@contextlib.contextmanager
def setting(name: str):
    with contextlib.ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for context in SETTINGS[name]():
            stack.enter_context(context)
        yield


def differences_of_types(call: GeneratedCall, name: str) -> str:
    """Trace a call and its derivative under a setting, and describe what differs from the default ones."""
    expected = xf.eval_shape(call, call.arrays)
    derivative = lambda arrays: xf.vjp(lambda arrays: [x for x in call(arrays) if xnp.issubdtype(x.dtype, np.inexact)], arrays)[0]
    has_derivative = _runs(derivative, call.arrays)
    with setting(name):
        try:
            results = xf.eval_shape(call, call.arrays)
            if has_derivative:
                xf.eval_shape(derivative, call.arrays)
        except Exception as e:
            return f"{type(e).__name__}: {e}"
    for ours, default in zip(results, expected, strict=True):
        same = ours.dtype == default.dtype or name == "enable_x64" and (
            xnp.issubdtype(default.dtype, np.integer) or default.weak_type or call.widens())
        if ours.shape != default.shape or not same or ours.weak_type != default.weak_type:
            return f"{ours}, {default} without"
    return ""


def _runs(function, *arguments) -> bool:
    try:
        xf.eval_shape(function, *arguments)
    except Exception:
        return False
    return True


@pytest.mark.parametrize("count", [60, pytest.param(240, marks=pytest.mark.soak)], ids=["some", "more"])
@pytest.mark.parametrize("name", TRACED)
def test_generated_calls_have_the_same_types(name, count):
    calls = generated_calls(TRACED.index(name), count)
    if name == "strict promotion":
        calls = [call for call in calls if call.of_one_type()]
    if name == "enable_x64":
        calls = [call for call in calls if not call.mixes_numbers_with_arrays()]
    wrong = {call.text: text for call in calls if (text := differences_of_types(call, name))}
    assert len(calls) > 30 and not wrong, "\n".join(f"{call}\n    {text}" for call, text in wrong.items())


@pytest.mark.parametrize("count", [16, pytest.param(64, marks=pytest.mark.soak)], ids=["some", "more"])
@pytest.mark.parametrize("name", COMPUTED)
def test_generated_calls_have_the_same_values(name, count):
    """The calls are compiled as few programs, but where calls run each operation by itself."""
    calls, wrong = generated_calls(20 + COMPUTED.index(name), count), {}
    for first in range(0, len(calls), 50):
        some = calls[first:first + 50]
        everything = lambda arrays: [call(x) for call, x in zip(some, arrays)]
        expected = xf.jit(everything)([call.arrays for call in some])
        finite = [all(np.isfinite(np.asarray(x, np.complex128)).all() for x in results) for results in expected]
        if name == "debug_nans":
            some, expected = zip(*[(call, x) for call, x, f in zip(some, expected, finite) if f])
        with setting(name):
            found = xf.jit(lambda arrays: [call(x) for call, x in zip(some, arrays)])([call.arrays for call in some])
        for call, results, numbers in zip(some, found, expected):
            for ours, default in zip(results, numbers):
                close = np.allclose(*(np.asarray(x).astype(np.complex128) for x in (ours, default)), 2e-2 if default.dtype.itemsize < 4 else 1e-3, 1e-4, equal_nan=True)
                if not close:
                    wrong[call.text] = f"{ours}, {default} without"
                if name == "default_device" and ours.devices() != {xf.devices()[-1]}:
                    wrong[call.text] = f"is on {ours.devices()}"
    assert not wrong, "\n".join(f"{call}\n    {text}" for call, text in wrong.items())

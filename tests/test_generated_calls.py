"""Random calls of public functions (`tests/beside/generated.py`) against NumPy and SciPy, which compute in 64 bits.

`python -m tests.beside --generate 20000 --seed 1 --reference PYTHON` compares such calls of all functions with JAX, also dtypes, weak types and errors.
"""

import re
import warnings

import ml_dtypes
import numpy as np
import pytest
import scipy
import scipy.fft
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.special
import scipy.stats

import xlafront as xf
import xlafront.numpy as xnp
import xlafront.scipy as jsp
from tests.beside import generated

CASES, CHUNK = 1000, 250  # the first half in each run
# Functions whose results or conventions differ from NumPy's on purpose, by reason; each has tests of its own.
LEFT_OUT = {
    "other results than NumPy's": """array_repr array_str unique unique_all unique_counts unique_inverse unique_values sign cov corrcoef
        argpartition partition sort_complex roots poly array_equiv nan_to_num trim_zeros result_type promote_types can_cast isdtype mask_indices
        frombuffer fromstring full_like spacing float_power nonzero histogram histogram2d histogramdd
        cg bicgstab gmres minimize""",
    "factors that are unique up to phases, or of other conventions": """qr svd eigh eig lu lu_factor schur hessenberg rsf2csf qr_multiply lstsq
        polar matrix_rank pinv cond cho_factor cho_solve lu_solve eigvals""",
    "integers that wrap, or have no floating results": "left_shift right_shift bitwise_left_shift bitwise_right_shift ldexp power pow reciprocal",
    "other shapes: batches, joint dimensions": "hankel toeplitz circulant companion fiedler fiedler_companion convolution_matrix leslie block_diag isf rankdata mode",
    "other edge values": "gammainc gammaincc betainc hyp2f1 hyp1f1 expn owens_t sici zeta polygamma comb poch multigammaln factorial bernoulli gammasgn digamma beta",
}
NAMES = {name for names in LEFT_OUT.values() for name in names.split()}


class Unlike(Exception):
    """The expected value cannot be had from NumPy."""


def wide(x, floats: bool = False):
    """The values that an argument has, in 64 bits; booleans and integers as they are unless `floats`."""
    if isinstance(x, xf.Array | np.ndarray | np.generic):
        x = np.asarray(x)
        return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64) if floats or x.dtype.kind in "cfV" else x
    return x


def counterpart(name: str):
    """The function of NumPy or SciPy of the same name."""
    found = {"xnp": np, "jsp": scipy}.get(name.partition(".")[0])
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def cases(first: int, count: int) -> list[str]:
    """Calls of functions that NumPy or SciPy has too, without transformations and keywords of JAX."""
    found = []
    for call in generated.generated(40 * CASES, 5, ["xnp", "jsp"])[40 * first:]:
        name = call.partition("(")[0]
        if name.partition(".")[0] in ("xnp", "jsp") and name.rpartition(".")[2] not in NAMES and counterpart(name) is not None and not re.search(
                r"dtype=|E\(|int4|float8|\bout=|size=|fill_value=|xnp\.\w+\(|300|1j|np\.|stats.*(complex|pmf.*loc)|multivariate|cauchy.ppf|M\('bool'|trapezoid.*complex", call):
            found.append(call)
        if len(found) == count:
            break
    return found


def difference(call: str, names: dict) -> str | None:
    """The description of a difference; None if there is none. Raises `Unlike` if NumPy or ours refuses the call."""
    name = call.partition("(")[0]
    try:
        arguments, keywords = eval(f"(lambda *args, **kwargs: (args, kwargs)){call[len(name):]}", names)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            is_density = name.startswith("jsp.stats.")
            floats = is_density or name.startswith("jsp.signal.")  # whose results have floating dtypes
            theirs = counterpart(name)(*xf.tree.map(lambda x: wide(x, floats), (arguments, keywords))[0], **xf.tree.map(wide, keywords))
    except Exception as e:
        raise Unlike from e
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = eval(name, names)(*arguments, **keywords)
    except (TypeError, ValueError, IndexError, NotImplementedError) as e:
        raise Unlike from e
    operands = [np.asarray(x).dtype for x in xf.tree.leaves((arguments, keywords)) if isinstance(x, xf.Array | np.ndarray)]
    epsilon = max([2.0 ** -23, *[float(ml_dtypes.finfo(d).eps) for d in operands if d.kind in "cfV"]])
    ours, theirs = (xf.tree.leaves(tuple(x) if isinstance(x, list | tuple) else x) for x in (ours, theirs))
    if len(ours) != len(theirs):
        return f"{len(ours)} results, expected {len(theirs)}"
    for x, y in zip(ours, theirs):
        x, y = np.asarray(x), np.asarray(y)
        if x.shape != y.shape:
            return f"shape {x.shape}, expected {y.shape}"
        if y.dtype.kind in "iu" and x.dtype.kind in "iu":
            y = y.astype(x.dtype)  # what does not fit wraps
        x, y = x.astype(np.complex128), y.astype(np.complex128)
        y = np.where(np.isfinite(y) & (abs(y) > np.finfo(np.float32).max), np.copysign(np.inf, y.real), y)
        if is_density:  # whose parameters are not checked, as in JAX
            x, y = x[~np.isnan(y)], y[~np.isnan(y)]
        size = max([1.0, *[abs(np.asarray(a).astype(np.complex128)).max(initial=0) for a in xf.tree.leaves((arguments, keywords))
                           if isinstance(a, xf.Array | np.ndarray)], *np.abs(y[np.isfinite(y)]).ravel()])
        if not np.allclose(x, y, 100 * epsilon, 50 * epsilon * size, equal_nan=True):
            return f"{x.tolist()}, expected {y.tolist()}"
    return None


@pytest.fixture(scope="module")
def names():
    found = {"xf": xf, "xnp": xnp, "jsp": jsp, "np": np, "lax": xf.lax, "nn": xf.nn, "random": xf.random, "image": xf.image}
    exec(generated.SETUP, found)
    return found


@pytest.mark.cpu_only
@pytest.mark.parametrize("first", [0, CHUNK, *(pytest.param(n, marks=pytest.mark.soak) for n in range(2 * CHUNK, CASES, CHUNK))])
def test_generated_calls_against_numpy_and_scipy(first, names):
    wrong, compared = {}, 0
    for call in cases(first, CHUNK):
        try:
            found = difference(call, names)
        except Unlike:
            continue
        compared += 1
        if found is not None:
            wrong[call] = found
    assert compared > CHUNK / 2 and not wrong, "\n".join(f"{call}\n    {text[:300]}" for call, text in wrong.items())


def test_the_check_finds_mistakes(names, monkeypatch):
    call = "xnp.sin(A('float32', (3,), 1))"
    assert difference(call, names) is None
    monkeypatch.setattr(np, "sin", lambda x: np.cos(x))
    assert "expected" in difference(call, names)
    monkeypatch.setattr(np, "sin", lambda x: x[:1])
    assert "shape" in difference(call, names)


def test_every_function_has_calls_or_is_left_out():
    """A new function needs roles for its parameters or a row in `CALLS`."""
    assert all(generated._CALLS[name] == "" for name in generated.left_out())
    calls = generated.generated(3000, 1)
    text = "\n".join(calls)
    names = [name for name in (*generated.functions(), *generated._EXPRESSIONS) if generated._CALLS.get(name) != ""]
    assert [name for name in names if f"{name}(" not in text and f"({name}, " not in text] == []

"""Functions of the array API standard 2025.12: signatures, and calls with 64-bit types enabled.

NumPy implements the standard too, so values and dtypes are compared with NumPy's.
"""

import inspect

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp

ONE = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log10 log1p log2
    logical_not negative positive real reciprocal round sign signbit sin sinh sqrt square tan tanh trunc nonzero unique_all unique_counts
    unique_inverse unique_values matrix_transpose""".split()
TWO = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide greater
    greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow
    remainder subtract matmul""".split()
SIGNATURES = {  # positional arguments, keywords
    **{name: ("x", "") for name in ONE}, **{name: ("x1 x2", "") for name in TWO}, "clip": ("x min max", ""),
    "arange": ("start", "stop step dtype device"), "asarray": ("obj", "dtype device copy"), "empty": ("shape", "dtype device"),
    "empty_like": ("x", "dtype device"), "eye": ("n_rows n_cols", "k dtype device"), "from_dlpack": ("x", "device copy"),
    "full": ("shape fill_value", "dtype device"), "full_like": ("x fill_value", "dtype device"),
    "linspace": ("start stop num", "dtype device endpoint"), "meshgrid": ("x1 x2", "indexing"), "ones": ("shape", "dtype device"),
    "ones_like": ("x", "dtype device"), "tril": ("x", "k"), "triu": ("x", "k"), "zeros": ("shape", "dtype device"),
    "zeros_like": ("x", "dtype device"), "astype": ("x dtype", "copy device"), "broadcast_arrays": ("x1 x2", ""),
    "broadcast_to": ("x shape", ""), "can_cast": ("from to", ""), "finfo": ("type", ""), "iinfo": ("type", ""),
    "isdtype": ("dtype kind", ""), "result_type": ("x1 x2", ""), "take": ("x indices", "axis"),
    "take_along_axis": ("x indices", "axis"), "tensordot": ("x1 x2", "axes"), "vecdot": ("x1 x2", "axis"),
    "concat": ("arrays", "axis"), "expand_dims": ("x", "axis"), "flip": ("x", "axis"), "moveaxis": ("x source destination", ""),
    "permute_dims": ("x axes", ""), "repeat": ("x repeats", "axis"), "reshape": ("x shape", "copy"), "roll": ("x shift", "axis"),
    "squeeze": ("x axis", ""), "stack": ("arrays", "axis"), "tile": ("x repetitions", ""), "unstack": ("x", "axis"),
    "argmax": ("x", "axis keepdims"), "argmin": ("x", "axis keepdims"), "count_nonzero": ("x", "axis keepdims"),
    "searchsorted": ("x1 x2", "side sorter"), "where": ("condition x1 x2", ""), "argsort": ("x", "axis descending stable"),
    "sort": ("x", "axis descending stable"), "cumulative_prod": ("x", "axis dtype include_initial"),
    "cumulative_sum": ("x", "axis dtype include_initial"), "diff": ("x", "axis n prepend append"), "all": ("x", "axis keepdims"),
    "any": ("x", "axis keepdims"), "max": ("x", "axis keepdims"), "min": ("x", "axis keepdims"), "mean": ("x", "axis keepdims"),
    "prod": ("x", "axis dtype keepdims"), "sum": ("x", "axis dtype keepdims"), "std": ("x", "axis correction keepdims"),
    "var": ("x", "axis correction keepdims"), "__array_namespace_info__": ("", ""),
    **{f"fft.{name}": ("x", "n axis norm") for name in "fft ifft rfft irfft hfft ihfft".split()},
    **{f"fft.{name}": ("x", "s axes norm") for name in "fftn ifftn rfftn irfftn".split()},
    "fft.fftfreq": ("n", "d dtype device"), "fft.rfftfreq": ("n", "d dtype device"), "fft.fftshift": ("x", "axes"),
    "fft.ifftshift": ("x", "axes"), "linalg.cholesky": ("x", "upper"), "linalg.cross": ("x1 x2", "axis"),
    **{f"linalg.{name}": ("x", "") for name in "det eigh eigvalsh inv slogdet svdvals matrix_transpose".split()},
    "linalg.diagonal": ("x", "offset"), "linalg.matmul": ("x1 x2", ""), "linalg.matrix_norm": ("x", "keepdims ord"),
    "linalg.matrix_power": ("x n", ""), "linalg.matrix_rank": ("x", "rtol"), "linalg.outer": ("x1 x2", ""), "linalg.pinv": ("x", "rtol"),
    "linalg.qr": ("x", "mode"), "linalg.solve": ("x1 x2", ""), "linalg.svd": ("x", "full_matrices"),
    "linalg.tensordot": ("x1 x2", "axes"), "linalg.trace": ("x", "offset dtype"), "linalg.vecdot": ("x1 x2", "axis"),
    "linalg.vector_norm": ("x", "axis keepdims ord"),
}
DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()
CONSTANTS = {"e": np.e, "inf": np.inf, "nan": np.nan, "newaxis": None, "pi": np.pi}
ATTRIBUTES = "dtype device mT ndim shape size T to_device __array_namespace__ __dlpack__ __dlpack_device__ __bool__ __complex__ __float__ __index__ __int__"

# Calls of f, g: floats (2, 3); u: floats between 0 and 1; i, j: integers (2, 3); b: booleans; c: complex numbers; v: floats (3,); q: (3, 3)
CALLS = [f"n.{name}({x})" for names, operands in (
    ("abs ceil floor negative positive round sign square trunc", "f i c"), ("acos asin atanh", "u"), ("acosh", "1+u"),
    ("asinh atan cos cosh exp expm1 sin sinh tan tanh reciprocal isfinite isinf isnan", "f c"), ("log log10 log1p log2 sqrt", "u c"),
    ("bitwise_invert", "i b"), ("conj imag real", "c f"), ("logical_not", "b"), ("signbit", "f"), ("matrix_transpose", "f"),
    ("all any", "b i f"), ("max min prod sum mean std var", "f i"), ("sum prod", "j.astype(n.int8) j.astype(n.uint8) c"),
    ("argmax argmin count_nonzero", "f i"), ("zeros_like ones_like", "f i b c"), ("tril triu", "f"))
    for name in names.split() for x in operands.split() if not (x == "c" and name in ("ceil", "floor", "trunc"))]
CALLS += [f"n.{name}({x})" for names, operands in (
    ("add subtract multiply equal not_equal", ("f, g", "i, j", "c, c", "f, 2", "i, 2", "f, v")), ("divide pow", ("f, g", "c, c", "u, 2.0")),
    ("floor_divide remainder", ("f, g", "i, j")), ("atan2 copysign hypot logaddexp nextafter", ("f, g", "f, 1.0")),
    ("greater greater_equal less less_equal maximum minimum", ("f, g", "i, j", "i, 1")), ("bitwise_and bitwise_or bitwise_xor", ("i, j", "b, b")),
    ("bitwise_left_shift bitwise_right_shift", ("i, j",)), ("logical_and logical_or logical_xor", ("b, ~b",)),
    ("add maximum", ("i, i.astype(n.int8)", "i.astype(n.uint8), i.astype(n.int8)", "f, f.astype(n.float32)", "f.astype(n.float32), c")))
    for name in names.split() for x in operands]
CALLS += """n.clip(f, 0, 1) n.clip(i,1,None) n.arange(5) n.arange(1,9,3,dtype=n.int16) n.arange(0.0,1.0,0.25) n.asarray([1,2]) n.asarray([1.5,2])
    n.asarray(True) n.asarray(1j) n.asarray(i,dtype=n.float32,copy=True) n.empty((0,2)) n.empty_like(f[:0]) n.eye(2,3,k=1) n.full((2,),3)
    n.full((2,),2.5) n.full((2,),True) n.full_like(f,2) n.linspace(0,1,5) n.linspace(0,1,4,endpoint=False,dtype=n.float32)
    n.meshgrid(v,v,indexing='ij')[0] n.ones((2,)) n.zeros((2,),dtype=n.int8) n.astype(f,n.int32) n.broadcast_arrays(f,v)[1]
    n.broadcast_to(v,(2,3)) n.take(f,n.asarray([2,0]),axis=1) n.take_along_axis(f,n.asarray([[0],[1]]),axis=1) n.matmul(f,q) n.tensordot(f,q,axes=1)
    n.vecdot(c,c) n.concat([f,g],axis=1) n.concat([f,i],axis=None) n.expand_dims(f,axis=1) n.flip(f,axis=0) n.moveaxis(f,0,1) n.permute_dims(f,(1,0))
    n.repeat(f,2,axis=1) n.reshape(f,(3,2),copy=True) n.roll(f,1,axis=1) n.squeeze(f[None],0) n.stack([f,g],axis=2) n.tile(f,(2,1))
    n.unstack(f,axis=1)[2] n.searchsorted(n.sort(v),v,side='right') n.nonzero(b)[1] n.where(b,f,g) n.where(b,i,1) n.argsort(v,stable=True)
    n.sort(f,axis=0) n.cumulative_prod(f,axis=1) n.cumulative_sum(i,axis=0,include_initial=True) n.diff(f,axis=1,n=1,prepend=f)
    n.sum(f,axis=(0,1),keepdims=True) n.sum(i,dtype=n.float32) n.std(f,axis=1,correction=1) n.var(f,correction=1) n.unique_counts(i).counts n.sort(n.unique_values(i))
    n.unique_inverse(i).inverse_indices n.unique_all(i).indices n.fft.fft(c) n.fft.ifft(c,n=2) n.fft.rfft(f) n.fft.irfft(c,n=3) n.fft.hfft(c)
    n.fft.ihfft(f) n.fft.fftn(c) n.fft.ifftn(c,axes=(0,)) n.fft.rfftn(f) n.fft.irfftn(c,s=(2,3),axes=(0,1)) n.fft.fftfreq(5,d=0.5) n.fft.rfftfreq(5)
    n.fft.fftshift(f,axes=1) n.fft.ifftshift(f) n.linalg.cholesky(q) n.linalg.cholesky(q,upper=True) n.linalg.cross(f,g) n.linalg.det(q)
    n.linalg.diagonal(q,offset=1) n.linalg.eigvalsh(q) n.linalg.eigh(q).eigenvalues n.linalg.inv(q) n.linalg.matmul(f,q)
    n.linalg.matrix_norm(f,ord=1) n.linalg.matrix_power(q,-2) n.linalg.matrix_rank(q) n.linalg.matrix_transpose(f) n.linalg.outer(v,v)
    n.linalg.pinv(f) n.linalg.slogdet(q).logabsdet n.linalg.solve(q,v) n.linalg.svd(f,full_matrices=False).S
    n.linalg.svdvals(f) n.linalg.tensordot(f,q,axes=1) n.linalg.trace(q,offset=1) n.linalg.vecdot(f,g) n.linalg.vector_norm(f,axis=1,keepdims=True)
    n.linalg.vector_norm(c,ord=1)""".replace("\n", " ").split(" n.")
CALLS = [call if call.startswith("n.") else f"n.{call.strip()}" for call in CALLS]


def found(name):
    module = xnp
    for part in name.split("."):
        module = getattr(module, part)
    return module


def test_signatures():
    """Every function has the positional and keyword parameters of the standard."""
    wrong = {}
    for name, (positional, keywords) in SIGNATURES.items():
        if inspect.isclass(found(name)):
            continue
        try:
            inspect.signature(found(name)).bind(*positional.split(), **dict.fromkeys(keywords.split()))
        except (TypeError, AttributeError) as e:
            wrong[name] = str(e)
    assert wrong == {}


def test_names_exist():
    assert all(hasattr(xnp, name) for name in DTYPES)
    assert all(getattr(xnp, name) is value or getattr(xnp, name) == value for name, value in CONSTANTS.items() if name != "nan")
    assert np.isnan(xnp.nan) and xnp.__array_api_version__ == "2025.12"
    assert [name for name in ATTRIBUTES.split() if not hasattr(xnp.ones((2, 2)), name)] == []


def test_namespace_info():
    with xf.enable_x64(True):
        info = xnp.__array_namespace_info__()
        assert set(info.dtypes()) == set(DTYPES) and set(info.dtypes(kind="signed integer")) == {"int8", "int16", "int32", "int64"}
        assert info.default_dtypes() == {"real floating": np.float64, "complex floating": np.complex128, "integral": np.int64,
                                         "indexing": np.int64}
        assert xnp.ones(2).__array_namespace__() is xnp and xnp.ones(2).to_device(info.default_device()).tolist() == [1, 1]
        assert info.devices() and {"boolean indexing", "data-dependent shapes", "max dimensions"} <= set(info.capabilities())


def arrays(n):
    f = np.array([[0.5, -1.25, 3.0], [2.0, -0.5, 1.75]])
    operands = {
        "f": f, "g": f[::-1, ::-1] + 0.25, "u": np.array([0.25, 0.5, 0.75]), "i": np.array([[3, 1, -2], [5, 7, 3]]),
        "j": np.array([[1, 2, 3], [2, 4, 1]]), "b": f > 1, "c": f + 1j * f[::-1], "v": f[0],
        "q": np.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]])}
    return {name: n.asarray(x) for name, x in operands.items()}


@pytest.fixture(scope="module")
def results():
    with xf.enable_x64(True):
        ours = xf.jit(lambda operands: {call: eval(call, {"n": xnp, **operands}) for call in CALLS if not depends_on_values(call)})
        return ours(arrays(xnp)) | {call: eval(call, {"n": xnp, **arrays(xnp)}) for call in CALLS if depends_on_values(call)}


def depends_on_values(call: str) -> bool:
    return "unique" in call or "nonzero(b)" in call


# Where the standard leaves the dtype open, and the reference has another than NumPy.
SMALLER = {"n.argmax", "n.argmin", "n.argsort", "n.searchsorted"}


@pytest.mark.parametrize("call", CALLS)
def test_calls_equal_numpy(call, results):
    with np.errstate(all="ignore"):
        ours, numpys = results[call], np.asarray(eval(call, {"n": np, **arrays(np)}))
    assert ours.shape == numpys.shape
    assert ours.dtype == numpys.dtype or call.partition("(")[0] in SMALLER and ours.dtype.kind == "i"
    np.testing.assert_allclose(np.asarray(ours), numpys, rtol=1e-11, atol=1e-11)

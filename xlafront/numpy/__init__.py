"""NumPy's API on XLA arrays, for eager use and in traced functions.

>>> import xlafront.numpy as xnp
>>> xnp.linspace(0, 1, 5) ** 2
"""

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.core.dtypes": "promote_types result_type",
    "xlafront.linalg.polynomials": """poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots vander""",
    "xlafront.numpy.array_api": "__array_api_version__ __array_namespace_info__ from_dlpack",
    "xlafront.numpy.array_methods": "ndarray",
    "xlafront.numpy.bits": "packbits unpackbits",
    "xlafront.numpy.cardinal_sine": "sinc",
    "xlafront.numpy.constants": """ComplexWarning e euler_gamma get_printoptions index_exp inf nan newaxis pi printoptions s_
        set_printoptions""",
    "xlafront.numpy.convolutions": "convolve correlate",
    "xlafront.numpy.creation": """arange array asarray astype copy empty empty_like eye full full_like identity meshgrid ones
        ones_like tri tril triu zeros zeros_like""",
    "xlafront.numpy.diagonals": "diag diagflat diagonal trace",
    "xlafront.numpy.differences": "diff ediff1d gradient interp trapezoid unwrap",
    "xlafront.numpy.divisors": "gcd lcm",
    "xlafront.numpy.editing": "delete fill_diagonal insert place put put_along_axis resize trim_zeros",
    "xlafront.numpy.files": "array_repr array_str frombuffer fromfile fromiter fromstring load save savez",
    "xlafront.numpy.float_decomposition": "frexp ldexp modf spacing",
    "xlafront.numpy.histograms": "bincount digitize histogram histogram2d histogram_bin_edges histogramdd",
    "xlafront.numpy.index_tricks": """c_ diag_indices diag_indices_from indices ix_ mask_indices mgrid ogrid r_
        ravel_multi_index tril_indices tril_indices_from triu_indices triu_indices_from unravel_index""",
    "xlafront.numpy.indexing": "take take_along_axis",
    "xlafront.numpy.linear": "cross dot einsum einsum_path inner kron matmul matvec outer tensordot vdot vecdot vecmat",
    "xlafront.numpy.mapping": "apply_along_axis apply_over_axes fromfunction piecewise vectorize",
    "xlafront.numpy.manipulation": """append array_split atleast_1d atleast_2d atleast_3d block broadcast_arrays
        broadcast_shapes broadcast_to column_stack concat concatenate dsplit dstack expand_dims flip fliplr flipud hsplit
        hstack matrix_transpose moveaxis ndim permute_dims ravel reshape roll rollaxis rot90 shape size split squeeze stack
        swapaxes transpose unstack vsplit vstack""",
    "xlafront.numpy.missing_values": """nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin
        nanpercentile nanprod nanquantile nanstd nansum nanvar""",
    "xlafront.numpy.padding": "pad",
    "xlafront.numpy.reductions": """all allclose amax amin any argmax argmin array_equal array_equiv count_nonzero cumprod
        cumsum cumulative_prod cumulative_sum max mean min minmax prod ptp std sum var""",
    "xlafront.numpy.repeating": "repeat tile",
    "xlafront.numpy.scalar_types": """bfloat16 bool bool_ can_cast cdouble character complex128 complex64 complex_
        complexfloating csingle double dtype finfo flexible float16 float32 float4_e2m1fn float64 float6_e2m3fn
        float6_e3m2fn float8_e3m4 float8_e4m3
        float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float_ floating generic
        iinfo inexact int1 int16 int2 int32 int4 int64 int8 int_ integer iscomplexobj isdtype isrealobj isscalar issubdtype
        iterable number object_ signedinteger single uint uint1 uint16 uint2 uint32 uint4 uint64 uint8 unsignedinteger""",
    "xlafront.numpy.searching": "argwhere choose compress extract flatnonzero nonzero searchsorted select where",
    "xlafront.numpy.sets": """intersect1d isin setdiff1d setxor1d union1d unique unique_all unique_counts unique_inverse
        unique_values""",
    "xlafront.numpy.sorting": "argpartition argsort lexsort partition sort sort_complex top_k",
    "xlafront.numpy.spaces": "geomspace linspace logspace",
    "xlafront.numpy.statistics": "average corrcoef cov median percentile quantile",
    "xlafront.numpy.ufunc_methods": "frompyfunc ufunc",
    "xlafront.numpy.ufuncs": """abs absolute acos acosh add angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh around
        asin asinh atan atan2 atanh bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or
        bitwise_right_shift bitwise_xor cbrt ceil clip conj conjugate copysign cos cosh deg2rad degrees divide divmod equal
        exp exp2 expm1 fabs float_power floor floor_divide fmax fmin fmod greater greater_equal heaviside hypot imag invert
        isclose iscomplex isfinite isinf isnan isneginf isposinf isreal left_shift less less_equal log log10 log1p log2
        logaddexp logaddexp2 logical_and logical_not logical_or logical_xor maximum minimum mod multiply negative nextafter
        not_equal positive pow power rad2deg radians real reciprocal remainder right_shift rint round sign signbit sin
        sinh sqrt square subtract tan tanh true_divide trunc""",
    "xlafront.special.windows": "bartlett blackman hamming hanning i0 kaiser",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS, "fft linalg")

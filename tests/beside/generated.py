"""Calls of every public function with random arguments: shapes, dtypes, Python scalars, special values, keywords, transformations.

A call is made from the function's signature: `ROLES` lists what a parameter of a name may be, `CALLS` the arguments of functions whose
parameters depend on one another. In both a word in braces is an argument of that kind, which `Case` has a method for.
"""

from __future__ import annotations

import importlib
import inspect
import random
import re
from collections.abc import Callable
from typing import Any

MODULES = {"numpy": "xnp", "numpy.linalg": "xnp.linalg", "numpy.fft": "xnp.fft", "lax": "lax", "lax.linalg": "lax.linalg", "nn": "nn",
           "nn.initializers": "nn.initializers", "random": "random", "image": "image", "ops": "xf.ops",
           **{f"scipy.{name}": f"jsp.{name}" for name in "special linalg signal fft integrate ndimage cluster.vq stats".split()},
           **{f"scipy.stats.{name}": f"jsp.stats.{name}" for name in """bernoulli beta betabinom binom cauchy chi2 dirichlet expon gamma gennorm geom
              gumbel_l gumbel_r laplace logistic multinomial multivariate_normal nbinom norm pareto poisson t truncnorm uniform vonmises
              wrapcauchy""".split()}}
# Both sides run this first: the operands, and what a call is made under.
SETUP = f"""
import importlib
for name in {list(MODULES)}:
    importlib.import_module(xf.__name__ + '.' + name)
FINITE = {{'b': [1, 0, 1, 1, 0], 'u': [3, 0, 7, 1, 2, 100], 'i': [-3, 0, 7, -1, 2, 100], 'f': [.5, -1.25, .75, 2.5, 1., -0., 3., .25],
          'c': [.5 - 1j, -1.25 + .5j, .25j, 1 + 2j, 2.5]}}
EXTREME = {{'b': [0, 1], 'u': [255, 0, 1, 254], 'i': [-128, 127, 0, -127], 'f': [np.nan, 1., np.inf, -0., -np.inf, 0., 3e4, -2e-7],
           'c': [complex(np.nan, 1), complex(np.inf, -0.), 0j, complex(-0., -np.inf), -1, 1j]}}
def kind(dtype):
    return {{'V': 'f'}}.get(np.dtype(dtype).kind, np.dtype(dtype).kind)
def taken(pool, dtype, shape, start):
    return np.array([pool[kind(dtype)][(start + k) % len(pool[kind(dtype)])] for k in range(int(np.prod(shape)))]).astype(dtype).reshape(shape)
def A(dtype, shape, start=0):
    return xnp.asarray(taken(FINITE, dtype, shape, start))
def N(dtype, shape, start=0):
    return taken(FINITE, dtype, shape, start)
def E(dtype, shape, start=0):
    return xnp.asarray(taken(EXTREME, dtype, shape, start))
def F(dtype, shape, start=0):
    return xnp.asarray(np.array([(.5, 1.5, 2., .25, 3.)[(start + k) % 5] for k in range(int(np.prod(shape)))]).astype(dtype).reshape(shape))
def U(dtype, shape, start=0):
    return xnp.asarray(np.array([(.5, .125, .75, .25, .375)[(start + k) % 5] for k in range(int(np.prod(shape)))]).astype(dtype).reshape(shape))
def M(dtype, shape, start=0):
    regular = np.array([[5, 1, .5, 2], [1, 4, .25, .5], [.5, .25, 3, 1], [2, .5, 1, 6]])[:shape[-2], :shape[-1]] + start * .25 * np.eye(shape[-2], shape[-1])
    if kind(dtype) == 'c':
        regular = regular + 1j * (np.tri(shape[-2], shape[-1]) - np.tri(shape[-1], shape[-2]).T)
    return xnp.asarray(np.broadcast_to(regular, shape).astype(dtype))
def arrays_of(args, kwargs):
    leaves, treedef = xf.tree.flatten((args, kwargs))
    live = [i for i, x in enumerate(leaves) if isinstance(x, xf.Array) and not xnp.issubdtype(x.dtype, xf.dtypes.prng_key)]
    def call(function, arrays):
        filled = list(leaves)
        for i, x in zip(live, arrays):
            filled[i] = x
        args, kwargs = xf.tree.unflatten(treedef, filled)
        return function(*args, **kwargs)
    return [leaves[i] for i in live], call
def inexact(results):
    return [x for x in xf.tree.leaves(results) if xnp.issubdtype(xnp.result_type(x), np.inexact)]
def jit(function, *args, **kwargs):
    arrays, call = arrays_of(args, kwargs)
    return xf.jit(lambda *arrays: call(function, arrays))(*arrays)
def vmap(function, *args, **kwargs):
    arrays, call = arrays_of(args, kwargs)
    if not arrays:
        return function(*args, **kwargs)
    axes = [(0, -1, None)[i % 3] if x.ndim or i % 3 < 2 else 0 for i, x in enumerate(arrays)]
    mapped = [x if a is None else xnp.asarray(np.stack([np.asarray(x), np.flip(np.asarray(x))], a)) for x, a in zip(arrays, axes)]
    return xf.vmap(lambda *arrays: call(function, arrays), axes)(*mapped)
def split(function, args, kwargs):
    arrays, call = arrays_of(args, kwargs)
    active = [i for i, x in enumerate(arrays) if xnp.issubdtype(x.dtype, np.inexact)]
    def smooth(*floats):
        filled = list(arrays)
        for i, x in zip(active, floats):
            filled[i] = x
        return inexact(call(function, filled))
    return smooth, [arrays[i] for i in active]
def jvp(function, *args, **kwargs):
    smooth, floats = split(function, args, kwargs)
    return xf.jvp(smooth, tuple(floats), tuple(N(x.dtype, x.shape, 3) for x in floats))
def grad(function, *args, **kwargs):
    smooth, floats = split(function, args, kwargs)
    results, pull = xf.vjp(smooth, *floats)
    return pull([xnp.asarray(N(y.dtype, y.shape, 2)) for y in results])
"""
TRANSFORMATIONS = ("", "", "", "", "jit", "vmap", "jvp", "grad")
DTYPES = ("float32",) * 7 + ("int32",) * 3 + ("bfloat16", "bfloat16", "float16", "float16", "complex64", "complex64", "bool", "bool", "uint8", "int8")
PLAIN = ("float32",) * 5 + ("int32", "int32", "bfloat16", "complex64")
INEXACT = ("float32",) * 4 + ("bfloat16", "float16", "complex64")
SHAPES = ((), (1,), (3,), (3,), (2, 3), (2, 3), (3, 1), (3, 3), (2, 1, 3), (0, 3), (0,))
SCALARS = "2 | -1 | 1.5 | 0 | 0. | -0. | True | 1j | float('nan') | float('inf') | 300 | np.float32(.5) | np.int8(-1) | np.bool_(True)"
# A name of a parameter, `function.parameter`, or several: what it may be. Choices are between bars.
ROLES = {
    """x y a b arr ary x1 x2 a1 a2 ar1 ar2 m val z operand lhs rhs element test_elements array object data min max on_true on_false prototype condition
       in1 in2 N k exponent values input image q p v u c r d e n x0 lmbda theta phi""": "{x}",
    "axis": "None | 0 | -1 | 1 | -2 | (0,) | (0, -1) | () | 3", "axes": "None | (0,) | (0, 1) | (1, 0) | (-1,) | () | (0, 0)",
    "keepdims deg compute_uv full_matrices stable descending endpoint retstep sorted equal_nan invert assume_unique approximate antialias returned"
    " hermitian is_stable reverse lower symmetrize_input return_sign independent replace return_index return_inverse return_counts right"
    " density increasing sparse rowvar bias promote_integers include_initial permute_l eigvals_only scale_ unit_diagonal transpose_a conjugate_a"
    " left_side pivoting overwrite_a check_finite full repetition compute_expm perturb_singular return_indices wrap_negative_indices"
    " compute_left_eigenvectors compute_right_eigenvectors left transpose calc_q sort_eigenvalues return_onesided padded"
    " exact unique_indices indices_are_sorted copy suppress_small trim_leading_zeros strip_zeros": "True | False",
    "dtype preferred_element_type out_dtype": "None | {d} | {d} | float | int | bool | complex",
    "new_dtype": "{d} | {d} | float | int | bool", "prototype": "{x}",
    "where": "{b} | {b} | None | True", "initial": "{x} | 0 | 1.5 | None", "ddof correction": "0 | 1 | 0.5 | 5",
    "weights fweights aweights": "{x} | None", "mean variance": "{x} | None", "out": "None",
    "shape new_sizes": "{s}", "dimensions new_shape": "{s} | {n}", "key": "random.key(0) | random.key(7)", "k kth": "{n} | 0 | 1 | -1",
    "N M n ": "{n} | 3 | 4", "fill_value": "{x} | 0 | 1.5 | True | -1", "size": "{n} | 3 | 0 | None", "order": "None | 'C' | 'F' | 'K'",
    "indices_or_sections": "3 | 1 | 2 | (1,) | (1, 2) | (0, 5)", "offset": "0 | 1 | -1 | 4", "axis1 axis2 source destination": "0 | 1 | -1 | 3",
    "shift": "1 | -1 | 0 | 5 | (1, 2) | A('int32', ())", "reps": "2 | (2, 1) | 0 | () | (1, 2, 1)", "repeats": "2 | 0 | A('u1', (3,))",
    "decimals": "0 | 1 | -1 | 2", "atol rtol": "{x} | 1e-3 | 0", "num": "3 | 1 | 0 | 5", "start stop": "{x}", "base": "2. | {x}",
    "indexing": "'xy' | 'ij'", "side": "'left' | 'right'", "method": "None", "bins": "3 | 1 | A('float32', (4,), 7)", "range": "None | (0, 1) | (1., 3.)",
    "norm": "None | 'ortho' | 'forward' | 'backward'", "s": "None | (2,) | (2, 2) | (4, 3)", "ord": "None | 1 | 2 | -1 | xnp.inf | 0 | 3 | 'fro' | 'nuc'",
    "loc": "{x} | 0 | 1.5", "scale sigma df alpha beta concentration lam nu mu b_ kappa": "{f} | 2. | 1", "num_segments": "3 | None | 1 | 5",
    "segment_ids": "A('int32', (3,)) | A('uint8', (3,)) | A('int32', (2,))", "dimension": "0 | -1 | 1", "index": "0 | 1 | -1 | A('int32', ())",
    "negative_slope epsilon rcond tol dx step discont": "0.5 | {x}", "num_classes": "3 | 0 | 1", "left_ right_ period": "None | 1.5 | {x}",
    "nan posinf neginf": "None | 2. | {x}", "indices idxs": "{i} | {i} | 0 | 1 | -1 | 5", "mode": "None",
    "prepend append to_end to_begin": "{x} | 0", "minlength length": "None | 4 | 0", "series_order": "1 | 2 | 3 | 5",
    "n_iter": "10 | 20", "seed": "0 | 1 | 2**31 | -1 | 2**40", "bitorder": "'big' | 'little'", "trim": "'f' | 'b' | 'fb'",
    "UPLO": "'L' | 'U'", "kind": "'symmetric' | 'lower' | 'upper'", "rank dimension_": "1 | 2 | 3", "exponent_bits mantissa_bits": "5 | 3 | 8",
    "start_dimension": "0 | 1", "stop_dimension": "None | 1 | 2", "index_dtype": "'int32' | 'uint8' | 'int16'", "permutation": "(0,) | (1, 0) | () | (0, 1)",
    "minval lower_ upper": "{x} | 0 | -1", "maxval": "{x} | 3 | 300", "nan_policy": "'propagate'", "N_": "{x}", "left mode_ ": "0. | {x}",
    "element_": "{x}", "max_line_width precision": "None", "sizes": "(2,) | () | (1, 0)", "edge_order": "1", "correction_": "0",
    "p dfnum dfden": "{f} | 2.", "value": "{x} | 0 | 1.5", "in_axis out_axis": "0 | 1 | -1", "batch_axis": "() | 0", "column_axis": "-1 | 0",
    "stddev": "0.5 | 2", "xp fp": "{x}", "accuracy": "None", "casting": "'same_kind' | 'safe'", "unroll": "1 | 16",
    "ndim deg_ order_": "1 | 2 | 3", "window_": "'hann'", "fs": "1. | 2.", "nperseg": "2 | 3", "noverlap": "None | 1", "nfft": "None | 4",
    "detrend": "False | 'constant' | 'linear'", "scaling": "'density' | 'spectrum'", "average": "'mean' | 'median'", "cval fillvalue": "0. | 1.5 | {x}",
    "boundary": "'fill' | 'wrap' | 'symm'", "symmetrize_output": "True | False", "taus": "{v}", "total_repeat_length": "None | 4 | 2",
    "spatial_dims": "(0,) | (0, 1)", "ndmin": "0 | 2", "max_iterations": "None | 10", "diff_n": "None", "sep": "' '", "type": "2",
    "trans": "0 | 1 | 2 | 'T' | 'N'", "assume_a": "'gen' | 'sym' | 'pos' | 'her'", "num_keys": "1", "rounding_method": "lax.RoundingMethod.TO_NEAREST_EVEN",
}
MODULE_ROLES = {  # of one module, in place of those above
    "xnp.linalg lax.linalg jsp.linalg": {"a x A a_matrix c_matrix r_matrix B C": "{m} | {m} | {m} | {x}", "b c": "{m} | {x} | {v}",
                                         "w_vector dl d du e f s r": "{v}", "n": "3 | 1 | 4", "axis": "None | 0 | -1 | (0, 1) | (-2, -1)",
                                         "pivots": "A('int32', (3,), 3)", "permutation_size": "3 | 4", "output": "'real' | 'complex'", "side": "'left' | 'right'"},
    "random": {"a b p df": "{f} | 2.", "loc scale": "{f} | 2.", "p": "{u} | .5", "lower": "-1. | {x}", "upper": "2. | {f}", "n": "{f} | 3", "mode": "None",
               "axis": "0 | 1 | -1", "data": "0 | 3 | A('uint32', ()) | -1", "shape": "() | (2,) | (2, 3) | (3,)", "x": "{x} | 3", "left": "-1. | 0.",
               "right": "4. | {f}", "logits": "{x}", "cov": "{m}", "num": "2 | 3 | (2, 2)", "mean": "{f} | 1.5", "m": "None | 3", "d": "2 | 3"},
    "jsp.special": {"n": "{x} | 2 | {g}", "d m n_max": "2 | 3", "a b c": "{f} | {x}", "z": "{x}", "p q": "{u} | {x}"},
    "jsp.fft": {"type": "2", "axis": "0 | -1 | 1", "n": "2 | 4 | None", "axes": "None | (0,) | (0, 1)", "norm": "None | 'ortho'"},
    "xnp.fft": {"axis": "0 | -1 | 1 | 3", "n": "2 | 4 | None | 1", "axes": "None | (0,) | (0, 1) | (-1,)", "d": "1. | .5 | {x}"},
    "nn": {"axis": "0 | -1 | 1 | (0, 1) | None", "b": "{x} | 4.", "alpha": "1. | {f}", "mean variance": "{x} | None", "dtype": "{d}", "x": "{x}"},
    "jsp.stats": {"axis": "0 | -1 | None | 1", "method": "'average' | 'min' | 'dense' | 'ordinal'"},
}
SPECIFIC = {  # `function.parameter`
    "xnp.percentile.q": "50 | 25. | [10, 90] | {u}", "xnp.nanpercentile.q": "50 | 25. | [10, 90]", "xnp.quantile.q": ".5 | [.1, .9] | {u}",
    "xnp.nanquantile.q": ".5 | [.1, .9] | {u}", "xnp.top_k.k": "1 | 2", "lax.top_k.k": "1 | 2 | 0", "lax.integer_pow.y": "0 | 1 | 2 | 3 | -1 | -2",
    "xnp.linalg.matrix_power.n": "0 | 1 | 2 | 3 | -1 | -2", "xnp.diff.n": "0 | 1 | 2", "xnp.vander.N": "None | 3 | 0", "xnp.kaiser.beta": "2. | 0",
    "xnp.frexp.x": "{x}", "xnp.clip.min": "{x} | None | 0", "xnp.clip.max": "{x} | None | 1", "xnp.where.x": "{x}", "xnp.where.y": "{x}",
    "xnp.polyder.m": "1 | 2 | 0", "xnp.polyint.m": "1 | 2 | 0", "xnp.polyfit.deg": "1 | 2", "xnp.argsort.kind": "None", "xnp.sort.kind": "None",
    "xnp.round.decimals": "0 | 1 | -1 | 2", "xnp.take.mode": "None | 'fill' | 'clip' | 'wrap'", "xnp.take_along_axis.mode": "None | 'fill' | 'clip'",
    "xnp.convolve.mode": "'full' | 'same' | 'valid'", "xnp.correlate.mode": "'full' | 'same' | 'valid'", "xnp.quantile.method": "'linear' | 'lower' | 'higher' | 'nearest' | 'midpoint' | 'inverted_cdf'",
    "xnp.percentile.method": "'linear' | 'lower' | 'nearest'", "xnp.nanquantile.method": "'linear' | 'lower' | 'nearest' | 'midpoint'",
    "xnp.searchsorted.method": "'scan' | 'sort' | 'compare_all'", "xnp.digitize.method": "'scan' | 'sort'", "xnp.isin.method": "'auto' | 'sort' | 'compare_all'",
    "xnp.searchsorted.a": "xnp.sort({v})", "xnp.digitize.bins": "xnp.sort({v})", "xnp.interp.xp": "A('float32', (3,), 8)", "xnp.interp.fp": "{v}", "xnp.interp.left": "None | 1.5", "xnp.interp.right": "None | 1",
    "xnp.interp.x": "{x}", "xnp.polyval.p": "{v}", "xnp.roots.p": "{v}", "xnp.poly.seq_of_zeros": "{v} | {m}", "xnp.compress.condition": "{b} | [True, False]",
    "xnp.extract.condition": "{b}", "xnp.trace.axis1": "0", "xnp.trace.axis2": "1 | -1", "xnp.diagonal.axis1": "0 | -1", "xnp.diagonal.axis2": "1 | -2",
    "xnp.ldexp.x2": "{g} | 2", "xnp.gradient.f": "{x}", "xnp.angle.z": "{x}", "xnp.bincount.x": "{g}", "xnp.unique.size": "None | 3 | 5", "xnp.cross.axis": "None | -1",
    "xnp.linalg.cond.p": "None | 1 | 2 | 'fro' | xnp.inf", "xnp.linalg.matrix_norm.ord": "'fro' | 'nuc' | 1 | 2 | -2", "xnp.linalg.vector_norm.ord": "2 | 1 | 0 | xnp.inf | 3",
    "lax.linalg.eigh.subset_by_index": "None", "lax.reduce_precision.operand": "{x}", "lax.dot.rhs": "{x}", "lax.nextafter.x2": "{x}", "xnp.rot90.axes": "(0, 1) | (1, 0)", "xnp.rot90.k": "1 | 2 | 0 | -1",
    "lax.argmax.axis": "0 | -1 | 1", "lax.argmin.axis": "0 | -1 | 1", **{f"lax.{name}.axis": "0 | 1 | -1" for name in "cumsum cumprod cummax cummin cumlogsumexp stack unstack split top_k".split()},
    **{f"lax.reduce_{name}.axes": "(0,) | () | (0, 1) | (-1,)" for name in "sum prod max min and or xor".split()}, "lax.rev.dimensions": "(0,) | () | (1,) | (0, 1)",
    "lax.squeeze.dimensions": "(0,) | () | (1,)", "lax.expand_dims.dimensions": "(0,) | () | (1, 0) | (-1,)", "lax.sort.dimension": "-1 | 0 | 1", "lax.tile.reps": "(2,) | (1, 2) | ()",
    "lax.broadcasted_iota.dtype": "'float32' | 'int8' | 'uint8' | 'bfloat16'", "lax.iota.dtype": "'float32' | 'int8' | 'uint8' | 'complex64'", "lax.iota.size": "3 | 0",
    "lax.reshape.dimensions": "None", "lax.pad.padding_value": "{x}", "lax.clamp.min": "{x} | 0", "lax.clamp.max": "{x} | 1", "image.resize.method": "'linear' | 'nearest' | 'cubic' | 'lanczos3'",
    "random.bernoulli.mode": "'low' | 'high'", "random.categorical.mode": "None | 'low' | 'high'", "random.triangular.mode": "1. | {f}", "random.gumbel.mode": "None | 'low' | 'high'",
    "random.choice.p": "None", "random.choice.a": "{x} | 5", "random.dirichlet.alpha": "{f}", "random.ball.p": "2. | 1.", "random.uniform.dtype": "{d}", "random.beta.method": "'auto'",
    "random.gamma.method": "'auto'", "random.bits.dtype": "'uint8' | 'uint16' | 'uint32' | None", "random.randint.dtype": "{d} | int", "random.multinomial.n": "5 | 2.", "random.multinomial.p": "U('float32', (3,), 1)",
    "random.multivariate_normal.mean": "{v}", "random.wrap_key_data.key_bits_array": "A('uint32', (2,))", "random.binomial.n": "5. | {f}", "random.orthogonal.n": "2 | 3", "random.key.impl": "None | 'rbg'",
    "random.PRNGKey.impl": "None", "random.permutation.axis": "0 | 1 | -1", "jsp.signal.convolve.mode": "'full' | 'same' | 'valid'", "jsp.signal.correlate.mode": "'full' | 'same' | 'valid'",
    "jsp.signal.fftconvolve.mode": "'full' | 'same' | 'valid'", "jsp.signal.convolve2d.mode": "'full' | 'same' | 'valid'", "jsp.signal.correlate2d.mode": "'full' | 'same' | 'valid'",
    "jsp.signal.convolve.method": "'auto' | 'fft' | 'direct'", "jsp.signal.correlate.method": "'auto' | 'fft' | 'direct'", "jsp.signal.convolve2d.boundary": "'fill'", "jsp.signal.correlate2d.boundary": "'fill'",
    "jsp.signal.detrend.type": "'linear' | 'constant'", "jsp.signal.detrend.axis": "-1 | 0", "jsp.stats.mode.axis": "0 | None | -1", "nn.initializers.uniform.scale": "2. | .5", "nn.glu.axis": "-1 | 0",
    "jsp.linalg.pascal.kind": "'symmetric' | 'lower' | 'upper'", "jsp.linalg.qr.mode": "'full' | 'r' | 'economic'", "jsp.linalg.dft.scale": "None | 'n' | 'sqrtn'", "jsp.linalg.eigh.type": "1", "jsp.linalg.eigh.b": "None",
    "jsp.linalg.convolution_matrix.mode": "'full' | 'same' | 'valid'", "jsp.linalg.convolution_matrix.a": "{v}", "xnp.linalg.qr.mode": "'reduced' | 'complete' | 'r' | 'raw'", "jsp.linalg.polar.method": "'qdwh' | 'svd'",
    "xnp.array_repr.precision": "3", "xnp.array_str.precision": "3", "lax.linalg.symmetric_product.alpha": "1. | 2.", "lax.linalg.symmetric_product.beta": "0. | 1.", "jsp.special.factorial.exact": "False",
    "jsp.special.multigammaln.a": "3. + {f}", "jsp.special.multigammaln.d": "1 | 2", "jsp.special.expn.n": "1 | 2 | {g}", "jsp.special.polygamma.n": "0 | 1 | 2 | {g}", "jsp.special.bessel_jn.v": "2 | 3",
    "xnp.linalg.norm.ord": "None | 1 | 2 | -1 | xnp.inf | 0 | 3 | 'fro' | 'nuc'", "lax.polynomial.coeffs": "[1, 2] | [1., 2., 3] | {v}", "lax.rng_uniform.a": "0. | 0", "lax.rng_uniform.b": "0. | 0", "lax.full.fill_value": "{x} | 0 | 1.5",
}
# Functions whose arguments depend on one another, and sequences of arrays.
CALLS = {
    "xnp.einsum": "'ij,jk->ik', {m}, {m} | 'ij,ij', {m}, {m} | 'ii', {m} | 'i,i->i', {v}, {v} | '...i->...', {x} | 'i,j', {v}, {v} | 'ii->i', {m}",
    "xnp.tensordot": "{m}, {m}, 1 | {m}, {m}, ((0,), (1,)) | {v}, {v}, 0 | {m}, {m}, axes=2",
    "xnp.concatenate xnp.concat xnp.stack": "[{w}, {w}] | [{w}, {w}], 0 | [{w}, {w}], axis=-1 | ({w},) | [{w}, {x}]", "xnp.concatenate": "[{w}, {w}], axis=None | [{w}, {w}], dtype={d}",
    "xnp.hstack xnp.vstack xnp.dstack xnp.column_stack": "[{w}, {w}] | ({w}, {x}) | {x}", "xnp.block": "[{w}, {w}] | [[{w}], [{w}]]", "xnp.meshgrid": "{v}, {v} | {v} | {v}, {x}, indexing='ij' | {v}, {v}, sparse=True",
    "xnp.broadcast_arrays xnp.atleast_1d xnp.atleast_2d xnp.atleast_3d": "{x}, {x} | {x}", "xnp.select": "[{b}, {b}], [{x}, {x}] | [{b}], [{x}], {x} | [{b}], [{x}], 2",
    "xnp.choose": "A('u1', (3,)), [{x}, {x}], mode='clip' | A('u1', (3,)), [{v}, {x}], mode='wrap'", "xnp.piecewise": "{x}, [{b}], [2, 3] | {x}, [{b}], [lambda x: x * 2]", "xnp.pad": """{x}, 1 | {x}, (1, 2) | {x}, 1,
        mode='edge' | {x}, 1, mode='reflect' | {x}, 1, 'wrap' | {x}, 1, mode='symmetric' | {x}, 2, mode='mean' | {x}, 1, mode='linear_ramp', end_values={x} | {x}, 1, constant_values=2 | {x}, 1, mode='maximum' | {x}, 1, 'median' | {x}, 0 | {x}, 1, 'empty'""",
    "xnp.insert": "{x}, 1, {x} | {x}, 0, 2, axis=0 | {v}, {i}, 3", "xnp.delete": "{x}, 0 | {x}, 1, axis=-1 | {v}, [0, 1] | {v}, slice(0, 2)", "xnp.put": "{x}, {i}, {x}, inplace=False | {v}, 1, 2, inplace=False",
    "xnp.put_along_axis": "A('float32', (3, 3)), A('u1', (3, 1)) % 3, {x}, 1, inplace=False | {x}, {i}, 2, None, inplace=False", "xnp.place": "{x}, {b}, {x}, inplace=False", "xnp.fill_diagonal": "{m}, {x}, inplace=False | {m}, 2, inplace=False",
    "xnp.apply_along_axis": "lambda a: a.sum(), 0, {x} | xnp.sort, -1, {x}", "xnp.apply_over_axes": "xnp.sum, {x}, (0,) | xnp.sum, {m}, (0, 1)", "xnp.lexsort": "({v}, {v}) | {m}", "xnp.ravel_multi_index": "({i}, {i}), (3, 3), mode='clip' | (1, 2), (2, 3)",
    "xnp.unravel_index": "{i}, (2, 3) | 5, (2, 3) | -1, (2, 3)", "xnp.histogramdd": "A('float32', (4, 2)), 2 | A('float32', (4, 2)), (2, 3), density=True", "xnp.histogram2d": "{v}, {v}, 2 | {v}, {v}, weights={v}, bins=3",
    "xnp.ix_": "{g1}, {g1} | [True, False], {g1}", "xnp.vectorize": "", "xnp.arange": "3 | 2, 5 | 0, 5, 2 | 1.5 | 0, 1, .25 | 3, dtype={d} | -1, 2, dtype={d} | 5, 0, -2 | 2j", "xnp.result_type xnp.promote_types": "{x}, {x} | {d}, {d}", "xnp.can_cast": "{d}, {d}",
    "xnp.linspace xnp.geomspace xnp.logspace": "{x}, {x}, 3 | 1, 4, 4 | 1., 2, 3, dtype={d} | {f}, {f}, 3, axis=-1 | 1, 3, 3, endpoint=False | 2, 2, 1 | 1j, 2, 3", "xnp.linspace": "0, 5, 3, retstep=True | {x}, 3, 1", "xnp.matmul": "{m}, {m} | {m}, {v} | {v}, {v} | {x}, {x}", "xnp.dot xnp.inner": "{m}, {m} | {x}, {v} | {x}, 2 | {v}, {v}",
    "xnp.vecdot xnp.linalg.vecdot xnp.matvec xnp.vecmat xnp.linalg.matmul xnp.linalg.tensordot": "{m}, {v} | {v}, {m} | {m}, {m} | {v}, {v}", "xnp.cross xnp.linalg.cross": "{v}, {v} | {m}, {v} | {x}, {x}", "xnp.linalg.multi_dot": "[{m}, {m}] | [{m}, {m}, {v}] | [{v}, {m}, {m}]",
    "xnp.fromfunction": "lambda i, j: i + j, (2, 3) | lambda i: i * 1.5, (3,), dtype={d}", "xnp.frombuffer xnp.fromstring": "b'abcdefgh', {d}", "xnp.mask_indices": "3, xnp.triu | 3, xnp.tril, 1", "xnp.where": "{b}, {x}, {x} | {b}, {x}, 2 | {x}, 1, 2. | {b}, {x}, {x}, size=None | {b}", "xnp.isdtype": "{d}, 'numeric' | {d}, ('integral', 'bool')",
    "xnp.einsum_path xnp.issubdtype xnp.fromiter xnp.fromfile xnp.load xnp.save xnp.savez xnp.from_dlpack xnp.frompyfunc xnp.printoptions xnp.set_printoptions xnp.get_printoptions xnp.empty xnp.empty_like lax.empty": "",
    "xnp.cov xnp.corrcoef": "{m} | {v} | {x}, {x} | {m}, rowvar=False | {x}", "xnp.convolve xnp.correlate xnp.polyadd xnp.polysub xnp.polymul xnp.polydiv": "{v}, {v} | {v}, {v1} | {v1}, {v} | {x}, {x}", "xnp.moveaxis": "{x}, 0, -1 | {x}, (0, 1), (1, 0)", "xnp.permute_dims": "{x}, (0,) | {m}, (1, 0)", "xnp.split xnp.vsplit": "{x}, 3 | {x}, (1, 2) | {v}, 1",
    "xnp.broadcast_shapes lax.broadcast_shapes": "{s}, {s} | (2, 1), (3,)", "xnp.indices": "(2, 3) | (2,), {d} | (2, 1), sparse=True", "xnp.polyfit": "A('float32', (4,)), A('float32', (4,), 3), 1 | A('float32', (4,)), A('float32', (4, 2), 3), 2 | A('int32', (4,)), A('float32', (4,)), 1, w=F('float32', (4,))", "xnp.packbits xnp.unpackbits": "A('bool', (5,)) | A('uint8', (2, 3)) | A('uint8', (3,)), axis=0 | {x}",
    "xnp.nonzero xnp.argwhere xnp.flatnonzero": "{x} | {x}, size=3 | {x}, size=4, fill_value=-1", "xnp.ravel": "{x} | {x}, 'F' | {x}, order='C'", "xnp.apply_": "", "xnp.linalg.outer xnp.outer xnp.vdot": "{v}, {v} | {x}, {x} | {m}, {m}", "xnp.linalg.tensorsolve xnp.linalg.tensorinv": "M('float32', (2, 2)), {v2} | M('float32', (2, 2)), ind=1", "xnp.linalg.lstsq": "{m}, {v} | {m}, {m} | {x}, {v}", "xnp.unwrap": "{x} | {x}, axis=0 | {x}, period=2",
    # lax
    "lax.dot_general": "{m}, {m}, (((1,), (0,)), ((), ())) | {m}, {m}, (((0,), (0,)), ((1,), (1,))) | {v}, {v}, (((), ()), ((), ())) | {m}, {m}, (((1,), (0,)), ((), ())), preferred_element_type={d}", "lax.dot": "{m}, {m} | {m}, {v} | {x}, {x} | {v}, {v}, preferred_element_type={d}", "lax.batch_matmul": "{m}, {m} | M('float32', (2, 3, 3)), M('float32', (2, 3, 3), 1)",
    "lax.concatenate lax.stack": "[{w}, {w}], 0 | [{w}, {w}, {w}], 1 | ({w},), 0", "lax.select": "{bw}, {w}, {w} | True, {w}, {w} | {b}, {x}, {x}", "lax.select_n": "{bw}, {w}, {w} | A('int32', (), 1), {w}, {w} | {b}, {x}, {x}", "lax.slice": "{m}, (0, 1), (2, 3) | {m}, (0, 0), (3, 3), (2, 1) | {x}, (0,), (1,)", "lax.slice_in_dim": "{x}, 0, 2 | {x}, 1, None, axis=-1 | {x}, -1, None",
    "lax.dynamic_slice": "{m}, (1, 0), (2, 2) | {m}, ({n}, A('int32', ())), (2, 1) | {x}, (0,), (1,) | {m}, (-1, 5), (2, 2)", "lax.dynamic_slice_in_dim": "{x}, 1, 2 | {m}, A('int32', (), 2), 2, axis=1 | {m}, -1, 2", "lax.dynamic_update_slice": "{m}, {m}[:1], (1, 0) | {m}, {m}[:2, :2], (A('int32', (), 2), -1) | {x}, {x}, (0,)", "lax.dynamic_update_slice_in_dim": "{m}, {m}[:1], 1, 0 | {m}, {v}, 0, 1", "lax.dynamic_update_index_in_dim": "{m}, {v}, 1, 0 | {m}, {v}, -1, 1", "lax.dynamic_index_in_dim lax.index_in_dim": "{x}, 0 | {m}, 1, axis=1 | {m}, -1, keepdims=False | {x}, 5",
    "lax.gather": "{m}, A('uint8', (2, 1)), lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 3) | {v}, {i}[:, None], lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode='fill' | {v}, {i}[:, None], lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode='clip'", **{f"lax.{name}": "{v}, {i}[:, None], {v}, lax.ScatterDimensionNumbers((), (0,), (0,)) | {m}, A('uint8', (2, 1)), {m}[:2], lax.ScatterDimensionNumbers((1,), (0,), (0,)) | {v}, {i}[:, None], {v}, lax.ScatterDimensionNumbers((), (0,), (0,)), mode='clip'" for name in "scatter scatter_add scatter_sub scatter_mul scatter_min scatter_max".split()},
    "lax.scatter_apply": "{v}, {i}[:, None], lambda a: a * 2, lax.ScatterDimensionNumbers((), (0,), (0,)), update_shape=(3,)", "lax.pad": "{v}, {y0}, [(1, 1, 0)] | {m}, {y0}, [(1, 0, 1), (-1, 2, 0)] | {x}, 0, [(0, 0, 0)] | {m}, {y0}, [(0, 0, 0), (-1, -1, 2)]", "lax.transpose": "{m}, (1, 0) | {x}, (0,) | {x}, (0, 1)", "lax.broadcast_in_dim": "{v}, (2, 3), (1,) | {y0}, (2,), () | {v}, (3, 2), (0,) | {x}, (2, 3), (1,)", "lax.broadcast_like": "{v}, {m} | {x}, {x}", "lax.split": "{m}, (1, 2) | {m}, (1, 2), axis=1 | {x}, (1,)", "lax.index_take": "{m}, ({i},), (0,)",
    "lax.reduce": "{m}, {y0}, lax.add, (0,) | {m}, {y0}, lax.max, (0, 1) | {v}, {y0}, lambda a, b: a * b, (0,)", "lax.reduce_window": "{m}, {y0}, lax.add, (2, 2), (1, 1), 'VALID' | {v}, {y0}, lax.max, (2,), (1,), 'SAME' | {v}, {y0}, lax.min, (2,), (2,), [(1, 1)] | {m}, {y0}, lax.add, (2, 2), (1, 1), 'SAME', window_dilation=(2, 1)", "lax.sort_key_val": "{v}, {v} | {m}, {m}, dimension=0", "lax.sort": "{x} | ({v}, {v}), num_keys=1 | ({v}, {v}), num_keys=2 | {m}, dimension=0",
    "lax.associative_scan": "lax.add, {x} | lax.mul, {m}, axis=1 | lax.max, {v}, reverse=True", "lax.fft": "{v}, 'fft', (3,) | {v}, 'rfft', (3,) | {v}, 'irfft', (4,) | {m}, lax.FftType.IFFT, (3, 3)", "lax.rng_bit_generator": "A('uint32', (4,)), (3,) | A('uint32', (4,)), (2, 2), 'uint8'", "lax.convert_element_type lax.bitcast_convert_type": "{x}, {d}", "lax.conv": "{q}, {q}, (1, 1), 'SAME' | {q}, {q}, (1, 1), 'VALID' | {q}, {q}, (2, 1), 'SAME'",
    "lax.conv_general_dilated": "{q}, {q}, (1, 1), 'SAME' | {q}, {q}, (1, 1), 'VALID', lhs_dilation=(2, 1) | {q}, {q}, (2, 2), [(1, 1), (0, 2)], rhs_dilation=(1, 2) | {q}, {q}, (1, 1), 'SAME', feature_group_count=2 | {q}, {q}, (1, 1), 'SAME', preferred_element_type='float32' | {q}, {q}, (1, 1), 'SAME', batch_group_count=2 | {q}, {q}, (1, 1), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC')", "lax.conv_transpose": "{q}, {q}, (2, 2), 'SAME' | {q}, {q}, (1, 2), 'VALID', transpose_kernel=True", "lax.conv_general_dilated_patches": "{q}, (2, 2), (1, 1), 'SAME'", "lax.conv_with_general_padding": "{q}, {q}, (1, 1), [(0, 0), (1, 1)], None, None",
    "lax.ragged_dot": "{m}, M('float32', (2, 3, 3)), xnp.array([1, 2])", "lax.ragged_dot_general lax.scaled_dot lax.conv_general_dilated_local": "", "lax.scan": "lambda c, x: (c + x, c * x), {y0}, {v} | lambda c, x: (c, x * 2), {v}, {m}, reverse=True", "lax.map": "lambda r: r * 2, {w}", "lax.fori_loop": "0, 3, lambda i, c: c * 2, {x} | 0, 2, lambda i, c: c + c, {x}", "lax.while_loop": "lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * 2), (0, {x})", "lax.cond": "True, lambda x: x * 2, lambda x: x, {x} | {y0}, lambda x: x, lambda x: x + x, {x}", "lax.switch": "1, [lambda x: x, lambda x: x * 2], {x} | 5, [lambda x: x, lambda x: x * x], {x}",
    "lax.top_k": "{x}, 1 | {m}, 2 | {m}, 2, axis=0", "lax.approx_max_k lax.approx_min_k": "{m}, 2 | {v}, 1", "lax.argmax lax.argmin": "{m}, 0, 'int32' | {x}, 0, 'uint8' | {m}, 1, index_dtype='int32'", "lax.with_sharding_constraint lax.after_all lax.create_token lax.composite lax.platform_dependent lax.dtype lax.custom_root lax.custom_linear_solve lax.stage": "", "lax.shape_as_value": "{s}", "lax.broadcast": "{x}, (2,) | {x}, ()", "lax.collapse": "{m}, 0 | {m}, 0, 2 | {x}, 0, 1",
    "lax.conv_dimension_numbers lax.conv_general_permutations lax.conv_general_shape_tuple lax.conv_shape_tuple lax.conv_transpose_shape_tuple lax.padtype_to_pads lax.reduce_window_shape_tuple lax.dce_sink lax.rng_uniform": "", "lax.reshape": "{m}, (9,) | {x}, {s} | {x}, (-1,) | {m}, (3, 3), (1, 0)", "lax.polygamma": "1., {y0} | F('float32', (3,)), F('float32', (3,)) | {x}, {x}", "lax.optimization_barrier": "{x} | ({x}, {x})",
    "lax.zeta lax.igamma lax.igammac lax.random_gamma_grad lax.igamma_grad_a": "{fw}, {fw} | {x}, {x} | {fw}, {w}", "lax.betainc": "{fw}, {fw}, {uw} | {x}, {x}, {x}", "lax.reduce_precision": "{x}, 5, 3 | {x}, 8, 2 | {x}, exponent_bits=3, mantissa_bits=1",
    **{f"lax.{name}": "" for name in """all_gather all_to_all axis_index axis_size pbroadcast pcast pmax pmean pmin ppermute pshuffle psum psum_scatter psum_scatter_start pswapaxes ragged_all_to_all""".split()},
    "lax.linalg.ormqr": "{m}, {v}, {m} | {m}, {v}, {m}, left=False", "lax.linalg.householder_product": "{m}, {v} | {m}, {v}[:2]", "lax.linalg.triangular_solve": "{m}, {m} | {m}, {m}, lower=True, transpose_a=True | {m}, {m}, left_side=True, unit_diagonal=True | {m}, {v}, left_side=True | {m}, {m}, conjugate_a=True, lower=True", "lax.linalg.tridiagonal_solve": "{v}, {v} + 3, {v}, {m} | {v}, {v} + 3, {v}, {v}", "lax.linalg.cholesky_update": "{m}, {v}", "lax.linalg.symmetric_product": "{m}, {m} | {m}, {m}, alpha=2., beta=1.",
    "lax.linalg.schur lax.linalg.eig lax.linalg.hessenberg lax.linalg.tridiagonal lax.linalg.qdwh": "{m}", "lax.linalg.svd": "{m}, compute_uv=False | {m}",
    # nn, random, scipy
    "nn.dot_product_attention": "{q}, {q}, {q} | {q}, {q}, {q}, is_causal=True | {q}, {q}, {q}, scale=2. | {q}, {q}, {q}, local_window_size=1", "nn.scaled_dot_general nn.scaled_matmul nn.get_scaled_dot_general_config": "", "nn.one_hot": "{i}, 3 | {x}, 3 | {i}, 3, dtype={d} | {i}, 3, axis=0 | 1, 3", "nn.softmax nn.log_softmax nn.logsumexp nn.standardize nn.logmeanexp": "{x} | {x}, axis=0 | {x}, where={b} | {x}, axis=-1, where={b}", "nn.logsumexp": "{x}, b={x} | {x}, return_sign=True | {x}, b={x}, return_sign=True, axis=0 | {x}, keepdims=True",
    **{f"nn.initializers.{name}": "" for name in "constant delta_orthogonal glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform lecun_normal lecun_uniform normal ones orthogonal truncated_normal uniform variance_scaling xavier_normal xavier_uniform zeros".split()},
    "random.clone random.Key random.key_data random.key_dtype random.key_impl random.key random.wrap_key_data": "", "random.randint": "random.key(0), (3,), 0, 5 | random.key(1), (3,), {x}, {x} | random.key(0), (2, 3), -3, 300, {d} | random.key(0), (), {g}, 100, 'uint8'", "random.multivariate_normal": "random.key(0), {v}, {m} | random.key(0), {v}, {m}, (2,) | random.key(0), {v}, {m}, method='svd'", "random.permutation": "random.key(0), {x} | random.key(0), 5 | random.key(0), {m}, axis=1, independent=True", "random.choice": "random.key(0), 5, (2,) | random.key(0), {w} | random.key(0), {v}, (2,), replace=False | random.key(0), 3, (2,), p=U('float32', (3,)) | random.key(0), {m}, (2,), axis=1",
    "random.truncated_normal": "random.key(0), -1., 2. | random.key(0), {x}, 3. | random.key(0), -1, 2, (3,), {d}", "random.categorical": "random.key(0), {x} | random.key(0), {m}, axis=0 | random.key(0), {m}, shape=(2, 3) | random.key(0), {v}, shape=(2,), replace=False", "random.split": "random.key(0) | random.key(0), 3 | random.key(1), (2, 2)", "random.multinomial": "random.key(0), 5., U('float32', (3,)) | random.key(0), 3, U('float32', (2, 3))", "random.orthogonal": "random.key(0), 3 | random.key(0), 2, (2,)",
    "image.resize": "{x}, {s}, 'linear' | {m}, (2, 4), 'nearest' | {m}, (4, 5), 'cubic' | {m}, (2, 2), 'lanczos3', antialias=False | {v}, (5,), 'bilinear' | {m}, (2, 2), 'lanczos5'", "image.scale_and_translate": "{m}, (2, 4), (0, 1), A('float32', (2,), 3), A('float32', (2,)), 'linear' | {m}, (4, 3), (0,), A('float32', (1,), 3), A('float32', (1,)), 'cubic'", **{f"xf.ops.segment_{name}": "{v}, {g1} | {w}, {g1}, 3 | {v}, xnp.array([0, 1, 1]), num_segments=2 | {m}, xnp.array([0, -1, 5]), 3 | {v}, {g1}, 4, indices_are_sorted=True" for name in "sum prod max min".split()},
    "jsp.special.logsumexp": "{x} | {x}, b={x} | {x}, axis=0, return_sign=True", "jsp.special.sph_harm_y": "xnp.array([1]), xnp.array([0]), F('float32', (1,)), F('float32', (1,)) | xnp.array([2]), xnp.array([1]), F('float32', (1,)), F('float32', (1,)), n_max=3", "jsp.special.bernoulli": "5 | 2 | 0", "jsp.special.bessel_jn": "{y0}, v=2 | {v}, v=1, n_iter=20", "jsp.special.multigammaln": "3. + {f}, 2 | 5, 1 | {x}, 2", "jsp.special.expn": "2, {f} | {g}, {f} | 1, {x}", "jsp.special.polygamma": "1, {f} | {g}, {f} | 0, {x} | {x}, {x}",
    "jsp.special.hyp2f1 jsp.special.hyp1f1": "{f}, {f}, {f}, {u} | 1., 2., 3., {u}", "jsp.special.hyp1f1": "{f}, {f}, {x} | 1., 2., {u}", "jsp.special.comb jsp.special.poch": "{x}, {f} | 5, 2 | {f}, {f}",
    "jsp.linalg.block_diag": "{m}, {m} | {x}, {v} | {m} | {v}, 2", "jsp.linalg.cho_solve": "({m}, True), {v} | ({m}, False), {m}", "jsp.linalg.lu_solve": "(jsp.linalg.lu_factor({m})), {v} | (jsp.linalg.lu_factor({m})), {m}, trans=1", "jsp.linalg.expm_frechet": "{m}, {m} | {m}, {m}, compute_expm=False", "jsp.linalg.solve_sylvester": "{m}, {m}, {m}", "jsp.linalg.rsf2csf": "*jsp.linalg.schur({m})", "jsp.linalg.funm": "{m}, lambda a: a", "jsp.linalg.eigh_tridiagonal": "{v}, {v}[:2], eigvals_only=True", "jsp.linalg.solve jsp.linalg.solve_triangular": "{m}, {m} | {m}, {v} | {m}, {v}, lower=True", "jsp.linalg.solve": "{m}, {v}, assume_a='pos' | {m}, {v}, assume_a='sym'", "jsp.linalg.solve_triangular": "{m}, {v}, trans=1 | {m}, {v}, unit_diagonal=True", "jsp.linalg.qr_multiply": "{m}, {v} | {m}, {m}, 'right'", "jsp.linalg.leslie": "{v}, {v}[:2]",
    **{f"jsp.linalg.{name}": "3 | 1 | 4" for name in "hilbert invhilbert pascal helmert dft hadamard invpascal".split()}, **{f"jsp.linalg.{name}": "{v} | {x} | {v} + 2" for name in "toeplitz hankel circulant companion fiedler fiedler_companion".split()}, "jsp.linalg.toeplitz jsp.linalg.hankel": "{v}, {v} | {v}, {x}", "jsp.linalg.schur jsp.linalg.hessenberg jsp.linalg.sqrtm jsp.linalg.polar": "{m}", "xnp.linalg.eig xnp.linalg.eigvals": "{m}",
    "jsp.signal.convolve jsp.signal.correlate jsp.signal.fftconvolve": "{v}, {v1} | {m}, {m} | {v}, {v}, 'same' | {v}, {v1}, 'valid' | {x}, {x} | {m}, {m}, mode='same'", "jsp.signal.convolve2d jsp.signal.correlate2d": "{m}, {m} | {m}, {m}, 'same' | {m}, {m}, 'valid'", "jsp.signal.stft jsp.signal.welch": "A({r}, (8,)), nperseg=4 | A({r}, (2, 8)), nperseg=4, noverlap=1 | A({r}, (8,)), nperseg=4, detrend='linear'", "jsp.signal.csd": "A({r}, (8,)), A({r}, (8,), 2), nperseg=4", "jsp.signal.istft": "A('complex64', (3, 4)), nperseg=4", "jsp.signal.detrend": "{w} | {m}, axis=0 | {v}, type='constant'",
    "jsp.ndimage.map_coordinates": "{m}, [F('float32', (2,)), F('float32', (2,))], 1 | {m}, [U('float32', (2,)), F('float32', (2,))], order=0, mode='nearest' | {m}, [A('float32', (3,)), F('float32', (3,))], 1, 'wrap' | {m}, [A('float32', (3,)), F('float32', (3,))], 1, 'mirror'", "jsp.cluster.vq.vq": "{m}, {m}", "jsp.fft.dct jsp.fft.idct jsp.fft.dctn jsp.fft.idctn": "{x} | {x}, norm='ortho' | {m}, axis=0 | {m}",
    "jsp.stats.multivariate_normal.logpdf jsp.stats.multivariate_normal.pdf": "{v}, {v}, {m} | {x}, 0., 1. | {m}, {v}, {m}", "jsp.stats.dirichlet.logpdf jsp.stats.dirichlet.pdf": "U('float32', (3,)), F('float32', (3,)) | U('float32', (2,), 3), F('float32', (3,)) | U('float32', (3, 2)), {fw}", **{f"jsp.stats.multinomial.{name}": "{g1}, 3, U('float32', (3,)) | xnp.array([1, 2, 0]), 3, U('float32', (3,))" for name in ("logpmf", "pmf")}, "jsp.stats.multinomial.entropy": "3, U('float32', (3,))",
    "xnp.linalg.svd": "{m}, compute_uv=False | {m}", "xnp.linalg.qr xnp.linalg.eigh": "{m}", "xnp.top_k": "{x}, 1 | {m}, 2 | {m}, 2, axis=0",
    "jsp.stats.gaussian_kde": "",
}
PLACE = re.compile(r"\{(\w+)\}")


class Case:
    """The random choices of one call: a shape that the operands broadcast to, and a dtype.

    Operands of a plain call are finite arrays of one dtype and one shape.
    """

    def __init__(self, module: str, transformation: str, chance: random.Random, plain: bool = False):
        self.chance, self.module, self.plain = chance, module, plain
        self.dtype = chance.choice(PLAIN if plain else INEXACT if transformation in ("jvp", "grad") else DTYPES)
        self.shape = chance.choice(SHAPES)
        self.uniform = plain or chance.random() < (0.85 if module.startswith("lax") else 0.6)  # one dtype, one shape
        self.makers = "A" if plain or chance.random() < 0.8 else "AE"

    def fill(self, choices: str) -> str:
        text = self.chance.choice(choices.split("|")).strip() if "|" in choices else choices.strip()
        return PLACE.sub(lambda found: getattr(self, found[1])(), text)

    def array(self, shape: tuple[int, ...], maker: str = "", dtype: str = "") -> str:
        return f"{maker or self.chance.choice(self.makers)}({dtype or self.any_dtype()!r}, {shape}, {self.chance.randrange(6)})"

    def any_dtype(self) -> str:
        return self.dtype if self.uniform or self.chance.random() < 0.7 else self.chance.choice(DTYPES)

    def float_dtype(self) -> str:
        return self.dtype if self.dtype in INEXACT and self.dtype != "complex64" else "float32"

    def broadcast(self) -> tuple[int, ...]:
        """Return a shape that broadcasts to the case's."""
        if self.uniform or self.chance.random() < 0.4:
            return self.shape
        shape = self.shape[self.chance.randrange(len(self.shape) + 1):]
        return tuple(1 if self.chance.random() < 0.3 else size for size in shape)

    def x(self) -> str:
        """Return an operand: an array, seldom a Python scalar or an array of NumPy."""
        chosen = 0.5 if self.plain else self.chance.random()
        if chosen < (0.04 if self.module.startswith("lax") else 0.12):
            return self.fill(SCALARS)
        return self.array(self.broadcast(), "N" if chosen > 0.96 else "")

    w = lambda self: self.array(self.shape, dtype=self.dtype)  # noqa: E731
    v = lambda self: self.array((3,))  # noqa: E731
    v1 = lambda self: self.array((2,))  # noqa: E731
    v2 = lambda self: self.array((2,))  # noqa: E731
    y0 = lambda self: self.array((), dtype=self.dtype)  # noqa: E731
    q = lambda self: self.array((2, 2, 3, 2) if self.chance.random() < 0 else (2, 2, 2, 2), dtype=self.dtype)  # noqa: E731
    b = lambda self: self.array(self.broadcast(), "A", "bool")  # noqa: E731
    bw = lambda self: self.array(self.shape, "A", "bool")  # noqa: E731
    f = lambda self: self.array(self.broadcast(), "F", self.float_dtype())  # noqa: E731
    fw = lambda self: self.array(self.shape, "F", self.float_dtype())  # noqa: E731
    u = lambda self: self.array(self.broadcast(), "U", self.float_dtype())  # noqa: E731
    uw = lambda self: self.array(self.shape, "U", self.float_dtype())  # noqa: E731
    g = lambda self: self.array(self.broadcast(), "A", self.chance.choice(("uint8", "int32")))  # noqa: E731
    g1 = lambda self: self.array((3,), "A", "uint8")  # noqa: E731
    i = lambda self: self.array((3,), "A", self.chance.choice(("uint8", "int32", "int8")))  # noqa: E731
    n = lambda self: str(self.chance.randrange(4))  # noqa: E731
    d = lambda self: repr(self.chance.choice(DTYPES))  # noqa: E731
    r = lambda self: repr(self.chance.choice(("float32", "float32", "int32", "float16")))  # noqa: E731
    s = lambda self: str(self.chance.choice(SHAPES))  # noqa: E731

    def m(self) -> str:
        """Return a regular matrix, or several."""
        return self.array((2, 3, 3) if "linalg" in self.module and self.chance.random() < 0.1 else (3, 3), "M", self.any_dtype())


def _table(rows: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for names, choices in rows.items():
        for name in names.split():
            found[name] = f"{found[name]} | {choices}" if name in found and choices and rows is CALLS else choices
    return found


_ROLES, _CALLS = _table(ROLES), _table(CALLS)
_OF_MODULE = {module: _table(rows) for modules, rows in MODULE_ROLES.items() for module in modules.split()}


def functions() -> dict[str, Callable[..., Any]]:
    """Return the public functions by the expressions that name them in calls."""
    found = {}
    for path, short in MODULES.items():
        module = importlib.import_module(f"xlafront.{path}")
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            if callable(value) and not isinstance(value, type) and name[0].islower() and _is_public(value, path):
                found[f"{short}.{name}"] = value
    return found


def _is_public(value: Any, path: str) -> bool:
    """False for what a module of a distribution imports for itself."""
    return not path.startswith("scipy.stats.") or getattr(value, "__module__", "").endswith(path)


def role(function: str, parameter: str) -> str | None:
    """Return the choices for a parameter, None where there are none."""
    own = _OF_MODULE.get(function.rpartition(".")[0], {})
    return SPECIFIC.get(f"{function}.{parameter}") or own.get(parameter) or _ROLES.get(parameter)


def arguments(function: str, value: Callable[..., Any], case: Case) -> str | None:
    """Return random arguments as text; None for a function that has a parameter without a role."""
    if function in _CALLS:
        return case.fill(_CALLS[function]) if _CALLS[function] else None
    given = []
    for parameter in inspect.signature(value).parameters.values():
        choices = role(function, parameter.name)
        required = parameter.default is parameter.empty
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or not (required or case.chance.random() < 0.25 and choices):
            continue
        if choices is None:
            return None
        keyword = parameter.kind is parameter.KEYWORD_ONLY or not required
        if (text := case.fill(choices)) is not None:
            given.append(f"{parameter.name}={text}" if keyword else text)
    return ", ".join(given)


def generated(count: int, seed: int, modules: list[str] | None = None) -> list[str]:
    """Return calls: of each function as many as of any other, in an order by chance."""
    chance = random.Random(seed)
    known = [(name, value) for name, value in functions().items() if not modules or any(name.startswith(f"{m}.") for m in modules)]
    calls: list[str] = []
    while len(calls) < count:
        for name, value in chance.sample(known, len(known)):
            transformation = chance.choice(TRANSFORMATIONS)
            text = arguments(name, value, Case(name.rpartition(".")[0], transformation, chance))
            if text is not None and len(calls) < count:
                calls.append(f"{transformation}({name}, {text})" if transformation else f"{name}({text})")
    return calls


def left_out() -> set[str]:
    """Return the functions that no call is made of."""
    return {name for name, value in functions().items() if arguments(name, value, Case("", "", random.Random(0))) is None}

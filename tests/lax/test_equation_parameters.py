"""Names of the parameters of equations, which libraries read, as in JAX."""

import numpy as np
import pytest

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import lax
from xlafront.lax import linalg

F, M = np.float32([1, 2, 3]), np.float32([[2, 1, 0], [1, 3, 1], [0, 1, 4]])
INDICES, B = np.int32([0, 2, 1]), np.array([True, False, True])
IMAGE, KERNEL = np.ones((1, 2, 4, 4), np.float32), np.ones((2, 2, 3, 3), np.float32)
with_jvp, with_vjp, with_vmap, with_remat = xf.custom_jvp(xnp.sin), xf.custom_vjp(xnp.sin), xf.custom_batching.custom_vmap(
    xnp.sin), xf.custom_vjp(xnp.sin)
with_jvp.defjvp(lambda primals, tangents: (xnp.sin(primals[0]), tangents[0]))
with_vjp.defvjp(lambda x: (xnp.sin(x), (x, x)), lambda r, ct: (r[0] * ct,))
with_remat.defvjp(lambda x: (xnp.sin(x), x), lambda r, ct: (r * ct,), optimize_remat=True)
with_vmap.def_vmap(lambda size, batched, x: (xnp.sin(x), batched[0]))
MESH = xf.make_mesh((1,), ("i",), (xf.sharding.AxisType.Auto,))


def mapped(f):
    return lambda: xf.shard_map(f, mesh=MESH, in_specs=xf.P("i"), out_specs=xf.P("i"), check_vma=False)(F)


def windows(start, combine):
    return lambda: lax.reduce_window(xnp.asarray(F), start, combine, (2,), (1,), "VALID")


PARAMETERS = {  # name: parameters, a call
    **{name: ("accuracy", lambda name=name: getattr(lax, name)(F)) for name in
       "cbrt cos exp exp2 expm1 log log1p logistic rsqrt sin sqrt tan tanh".split()},
    **{name: ("", lambda name=name: getattr(lax, name)(F)) for name in "abs asin ceil digamma erf floor is_finite neg square".split()},
    **{name: ("", lambda name=name: getattr(lax, name)(F, F)) for name in "add atan2 complex div eq lt max pow sub zeta igamma".split()},
    "mul": ("out_dtype", lambda: lax.mul(F, F)), "round": ("rounding_method", lambda: lax.round(F)),
    "integer_pow": ("y", lambda: lax.integer_pow(F, 3)), "conj": ("input_dtype", lambda: lax.conj(F)),
    "reduce_precision": ("exponent_bits mantissa_bits", lambda: lax.reduce_precision(F, 8, 7)),
    "convert_element_type": ("new_dtype sharding weak_type", lambda: lax.convert_element_type(F, "int32")),
    "bitcast_convert_type": ("new_dtype", lambda: lax.bitcast_convert_type(F, "int32")),
    "broadcast_in_dim": ("broadcast_dimensions shape sharding", lambda: lax.broadcast(F, (2,))),
    "reshape": ("dimensions new_sizes sharding", lambda: lax.reshape(M, (9,))),
    "squeeze": ("dimensions", lambda: lax.squeeze(M[None], (0,))), "rev": ("dimensions", lambda: lax.rev(F, (0,))),
    "transpose": ("permutation", lambda: lax.transpose(M, (1, 0))), "concatenate": ("dimension", lambda: lax.concatenate([F, F], 0)),
    "pad": ("padding_config", lambda: lax.pad(F, np.float32(0), [(1, 1, 0)])), "tile": ("reps", lambda: lax.tile(F, (2,))),
    "slice": ("limit_indices start_indices strides", lambda: lax.slice(F, (0,), (2,))),
    "dynamic_slice": ("slice_sizes", lambda: lax.dynamic_slice(F, (xnp.asarray(INDICES)[0],), (2,))),
    "iota": ("dimension dtype shape sharding", lambda: lax.iota("int32", 3)), "split": ("axis sizes", lambda: lax.split(F, (1, 2))),
    "stack": ("axis", lambda: lax.stack([F, F], 0)), "unstack": ("axis", lambda: lax.unstack(M, 0)),
    "sort": ("dimension is_stable num_keys", lambda: lax.sort(F)), "top_k": ("axis is_stable k", lambda: lax.top_k(F, 2)),
    "approx_top_k": ("aggregate_to_topk is_max_k k recall_target reduction_dimension reduction_input_size_override",
                     lambda: lax.approx_max_k(F, 2)),
    **{name: ("axes index_dtype", lambda name=name: getattr(lax, name)(F, 0, "int32")) for name in ("argmax", "argmin")},
    **{name: ("axes out_sharding", lambda name=name: getattr(lax, name)(F, (0,))) for name in ("reduce_sum", "reduce_max", "reduce_min")},
    "reduce_prod": ("axes", lambda: lax.reduce_prod(F, (0,))),
    **{name: ("axes", lambda name=name: getattr(lax, name)(B, (0,))) for name in ("reduce_and", "reduce_or", "reduce_xor")},
    "reduce": ("computation dimensions jaxpr", lambda: lax.reduce(F, np.float32(0), lambda a, b: a * b + 1, (0,))),
    **{name: ("axis reverse", lambda name=name: getattr(lax, name)(F)) for name in "cumsum cumprod cummax cummin cumlogsumexp".split()},
    **{f"reduce_window_{name}": ("base_dilation padding window_dilation window_dimensions window_strides", windows(start, combine))
       for name, start, combine in (("sum", 0.0, lax.add), ("max", -np.inf, lax.max), ("min", np.inf, lax.min))},
    "reduce_window": ("base_dilation consts jaxpr padding window_dilation window_dimensions window_strides", windows(1.0, lax.mul)),
    "dot_general": ("dimension_numbers out_sharding precision preferred_element_type", lambda: lax.dot(M, M)),
    "ragged_dot_general": ("group_offset out_sharding precision preferred_element_type ragged_dot_dimension_numbers",
                           lambda: lax.ragged_dot(M, M[None], np.int32([3]))),
    "scaled_dot": ("dimension_numbers preferred_element_type", lambda: lax.scaled_dot(
        np.ones((2, 8), np.float32), np.ones((8, 2), np.float32), lhs_scale=np.ones((2, 2), np.float32),
        rhs_scale=np.ones((2, 2), np.float32))),
    "conv_general_dilated": (
        "batch_group_count dimension_numbers feature_group_count lhs_dilation out_sharding padding precision preferred_element_type "
        "rhs_dilation window_strides", lambda: lax.conv(IMAGE, KERNEL, (1, 1), "SAME")),
    "fft": ("fft_lengths fft_type", lambda: lax.fft(lax.complex(F, F), "fft", (3,))),
    "gather": ("dimension_numbers fill_value indices_are_sorted mode slice_sizes unique_indices", lambda: xnp.asarray(F)[INDICES]),
    **{f"scatter{suffix}": ("dimension_numbers indices_are_sorted mode unique_indices update_consts update_jaxpr",
                            lambda method=method: getattr(xnp.asarray(F).at[INDICES], method)(F))
       for suffix, method in {"": "set", "-add": "add", "-sub": "subtract", "-mul": "multiply", "-min": "min",
                              "-max": "max"}.items()},
    "device_put": ("copy_semantics devices srcs", lambda: xf.device_put(F)),
    "dce_sink": ("prevent_mlir_dce", lambda: lax.dce_sink(F)), "rng_uniform": ("shape", lambda: lax.rng_uniform(0.0, 1.0, (3,))),
    "rng_bit_generator": ("algorithm dtype out_sharding shape", lambda: lax.rng_bit_generator(np.ones(4, np.uint32), (3,))),
    "eigh": ("algorithm lower sort_eigenvalues subset_by_index", lambda: linalg.eigh(M)),
    "eig": ("compute_left_eigenvectors compute_right_eigenvectors enable_eigvec_derivs implementation", lambda: linalg.eig(M)),
    "qr": ("full_matrices pivoting use_magma", lambda: linalg.qr(M)), "lu": ("", lambda: linalg.lu(M)),
    "svd": ("algorithm compute_uv full_matrices subset_by_index", lambda: linalg.svd(M)),
    "schur": ("compute_schur_vectors select_callable sort_eig_vals", lambda: linalg.schur(M)),
    "tridiagonal": ("lower", lambda: linalg.tridiagonal(M)),
    "tridiagonal_solve": ("perturb_singular", lambda: linalg.tridiagonal_solve(F, F, F, F[:, None])),
    "triangular_solve": ("conjugate_a left_side lower transpose_a unit_diagonal", lambda: linalg.triangular_solve(M, M)),
    "lu_pivots_to_permutation": ("permutation_size", lambda: linalg.lu_pivots_to_permutation(INDICES, 3)),
    "symmetric_product": ("alpha beta", lambda: linalg.symmetric_product(M, M)),
    "sharding_constraint": ("context_mesh layout sharding unconstrained_dims", lambda: lax.with_sharding_constraint(
        F, xf.sharding.SingleDeviceSharding(xf.devices()[0]))),
    "scan": ("jaxpr length num_carry num_consts reverse unroll", lambda: lax.scan(lambda c, x: (c + x, c), np.float32(0), F)),
    "while": ("body_jaxpr body_nconsts cond_jaxpr cond_nconsts", lambda: lax.while_loop(lambda c: c < 9, lambda c: c * 2, 1.0)),
    "cond": ("branches", lambda: lax.cond(xnp.asarray(B)[0], xnp.sin, xnp.cos, F)),
    "custom_linear_solve": ("const_lengths jaxprs", lambda: lax.custom_linear_solve(lambda v: M @ v, F, lambda f, v: v, lambda f, v: v)),
    "platform_index": ("platforms", lambda: lax.platform_dependent(F, cpu=xnp.sin, default=xnp.cos)),
    "composite": ("attributes jaxpr name version", lambda: lax.composite(lambda x: x * 2, "my.f")(F)),
    "name": ("name", lambda: xf.ad_checkpoint.checkpoint_name(F, "n")),
    "pure_callback": ("callback result_avals sharding vmap_method", lambda: xf.pure_callback(np.sin, F, F)),
    "io_callback": ("callback ordered result_avals sharding", lambda: xf.experimental.io_callback(np.sin, F, F)),
    "debug_callback": ("callback effect partitioned", lambda: xf.debug.callback(lambda x: None, F)),
    "debug_print": ("fmt has_placeholders in_tree logging_record np_printoptions ordered partitioned static_args",
                    lambda: xf.debug.print("{}", F)),
    "get": ("tree", lambda: xf.new_ref(F)[...]), "swap": ("tree", lambda: xf.ref.swap(xf.new_ref(F), 0, 1.0)),
    "addupdate": ("tree", lambda: xf.ref.addupdate(xf.new_ref(F), 0, 1.0)),
    "select_and_scatter_add": ("padding select_prim window_dimensions window_strides",
                               lambda: xf.grad(lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,), (1,), "VALID").sum())(F)),
    **{name: ("axes axis_index_groups", mapped(lambda x, name=name: getattr(lax, name)(x, "i"))) for name in ("psum", "pmax", "pmin")},
    "ppermute": ("axis_name perm", mapped(lambda x: lax.ppermute(x, "i", [(0, 0)]))),
    "all_gather": ("all_gather_dimension axis_index_groups axis_name axis_size tiled", mapped(lambda x: lax.all_gather(x, "i"))),
    "axis_index": ("axis_name", mapped(lambda x: x + lax.axis_index("i"))),
    "reduce_scatter": ("axis_index_groups axis_name axis_size scatter_dimension tiled",
                       mapped(lambda x: lax.psum_scatter(x, "i", tiled=True))),
    "shard_map": ("check_vma in_specs jaxpr mesh newly_manual_axes out_specs", mapped(lambda x: x * 2)),
    "pbroadcast": ("axis_name source", mapped(lambda x: lax.pbroadcast(x, "i", 0))),
    "custom_jvp_call": ("call_jaxpr jvp_jaxpr_fun num_consts symbolic_zeros", lambda: with_jvp(F)),
    "custom_vjp_call": ("bwd call_jaxpr fwd_jaxpr_thunk num_consts out_trees symbolic_zeros", lambda: with_vjp(F)),
    "custom_vmap_call": ("call in_tree out_tree rule", lambda: with_vmap(F)),
    "linear_call": ("callee num_callee_consts num_res transpose_thunk", lambda: xf.custom_derivatives.linear_call(
        lambda r, x: r * x, lambda r, ct: r * ct, F, F)),
    "remat_opt": ("fun_jaxpr_thunk fwd_jaxpr num_consts num_res", lambda: xf.grad(lambda x: with_remat(x).sum())(F)),
    "jit": ("compiler_options_kvs ctx_mesh donated_invars in_layouts in_shardings inline jaxpr keep_unused name out_layouts "
            "out_shardings", lambda: xf.jit(lambda x: x * 2)(F)),
}


def equations(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in xf.extend.core.jaxprs_in_params(eqn.params):
            yield from equations(getattr(inner, "jaxpr", inner))


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_names(name):
    names, call = PARAMETERS[name]
    found = [eqn for eqn in equations(xf.make_jaxpr(call)().jaxpr) if eqn.primitive.name == name]
    assert " ".join(sorted(found[0].params)) == names


def test_rules_in_equations_are_functions():
    """The backward rule and the residual tree are known once the forward rule has run, also under `vmap`."""
    [eqn] = xf.make_jaxpr(with_vjp)(F).jaxpr.eqns
    with pytest.raises(RuntimeError):
        eqn.params["out_trees"]()
    _, residuals, _ = eqn.params["fwd_jaxpr_thunk"]([xnp.asarray(F)], [True])
    out_tree, residual_tree = eqn.params["out_trees"]()
    assert out_tree.num_leaves == 1 and residual_tree == xf.tree.structure((0, 0))
    np.testing.assert_array_equal(eqn.params["bwd"](*residuals, xnp.asarray(F))[0], F * F)
    [eqn] = xf.make_jaxpr(xf.jvp, static_argnums=0)(with_vmap, (F,), (F,)).jaxpr.eqns
    assert eqn.primitive.name == "custom_vmap_call"
    assert (eqn.params["in_tree"].num_leaves, eqn.params["out_tree"].num_leaves) == (2, 2)


def test_scatters_have_an_update_jaxpr():
    """It is None for a plain scatter, whose updates replace the elements."""
    def program(f, x):
        [eqn] = [eqn for eqn in equations(xf.make_jaxpr(f)(x).jaxpr) if eqn.primitive.name.startswith("scatter")]
        return str(eqn.params["update_jaxpr"])

    assert program(lambda x: x.at[INDICES].set(1), F) == "None"
    for f, x, name in ((lambda x: x.at[INDICES].multiply(2), F, "mul"), (xf.grad(lambda x: x[INDICES].sum()), F, "add"),
                       (xf.vmap(lambda x: x.at[INDICES].multiply(2)), M, "mul")):
        assert program(f, x) == f"{{ lambda ; a:f32[] b:f32[]. let c:f32[] = {name} a b in (c,) }}"


def test_default_parameters_are_dropped():
    """A bind with default parameters uses the kernel of the bind without them; other parameters take effect."""
    x = xnp.asarray(F)
    lax.exp_p.bind(x)
    kernels = len(lax.exp_p.eager)
    np.testing.assert_array_equal(lax.exp_p.bind(x, accuracy=None), lax.exp(x))
    assert len(lax.exp_p.eager) == kernels
    half = np.array([300.0, 2.0], np.float16)  # its square is beyond the dtype's range

    def product(x, y):
        return lax.mul_p.bind(x, y, out_dtype=np.dtype(np.float32))

    for f in (product, xf.jit(product), xf.vmap(product)):
        assert f(half, half).tolist() == [90000, 4]
    assert xf.jvp(product, (half, half), (half, half))[1].tolist() == [180000, 8]
    gradients = xf.vjp(product, half, half)[1](np.ones(2, np.float32))
    assert [(g.dtype, g.tolist()) for g in gradients] == [(np.float16, [300, 2])] * 2

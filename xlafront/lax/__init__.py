"""`lax`: primitive operations, thin functions over StableHLO without type promotion or implicit broadcasting.

Most operations are defined in this folder, control flow in `control`, linear algebra in `linalg`.
"""

from __future__ import annotations

from xlafront.lazy_module import attach

_EXPORTS = {
    "xlafront.control.cond": "cond cond_p platform_dependent switch",
    "xlafront.control.reduce": "reduce reduce_p",
    "xlafront.control.reduce_window": "reduce_window reduce_window_p",
    "xlafront.control.scan": "map scan scan_p",
    "xlafront.control.polynomials": "polynomial polynomial_p",
    "xlafront.control.solves": "custom_linear_solve custom_root linear_solve_p",
    "xlafront.control.while_loop": "fori_loop while_loop while_p",
    "xlafront.lax.all_reductions": "pmax_p pmin_p psum_p",
    "xlafront.lax.barriers": "optimization_barrier optimization_barrier_p stop_gradient stop_gradient_p",
    "xlafront.lax.collective_exchanges": "all_gather_p all_to_all_p ppermute_p",
    "xlafront.lax.collectives": """all_gather all_to_all axis_size pbroadcast pcast pmax pmean pmin ppermute precv psend
        pshuffle psum psum_scatter psum_scatter_start pswapaxes ragged_all_to_all""",
    "xlafront.lax.composites": "composite composite_p",
    "xlafront.lax.convolutions": """conv conv_dimension_numbers conv_general_dilated conv_general_dilated_local
        conv_general_dilated_p conv_general_dilated_patches conv_general_permutations conv_general_shape_tuple conv_shape_tuple
        conv_transpose conv_transpose_shape_tuple conv_with_general_padding ConvDimensionNumbers
        ConvGeneralDilatedDimensionNumbers padtype_to_pads""",
    "xlafront.lax.creation": "broadcasted_iota empty full full_like iota",
    "xlafront.lax.cumulative": """associative_scan cumlogsumexp cumlogsumexp_p cummax cummax_p cummin cummin_p cumprod
        cumprod_p cumsum cumsum_p""",
    "xlafront.lax.aliases": """broadcast_like broadcast_shapes broadcast_to_rank collapse dtype index_take select
        shape_as_value tile""",
    "xlafront.lax.device_put": "device_put_p",
    "xlafront.lax.dot_algorithms": "DotAlgorithm",
    "xlafront.lax.dot_products": """batch_matmul dot dot_general dot_general_p DotAlgorithmPreset DotDimensionNumbers Precision
        PrecisionLike""",
    "xlafront.lax.dynamic_slicing": """dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim dynamic_slice_p
        dynamic_update_index_in_dim dynamic_update_slice dynamic_update_slice_in_dim dynamic_update_slice_p""",
    "xlafront.lax.elementwise": """abs_p acos_p acosh_p add_any_p add_p and_p asin_p asinh_p atan2_p atan_p atanh_p cbrt_p
        ceil_p clamp_p clz_p complex_p conj_p convert_element_type_p copy_p cos_p cosh_p digamma_p div_p eq_p erf_inv_p erf_p
        erfc_p exp2_p exp_p expm1_p floor_p ge_p gt_p imag_p integer_pow_p is_finite_p le_p lgamma_p log1p_p log2_p log_p
        logistic_p lt_p max_p min_p mul_p ne_p neg_p nextafter_p not_p one_minus_square_p or_p polygamma_p population_count_p
        pow_p real_p reduce_precision_p rem_p round_p rsqrt_p select_n_p shift_left_p shift_right_arithmetic_p
        shift_right_logical_p sign_p sin_p sinh_p sqrt_p square_p sub_p tan_p tanh_p xor_p zeta_p""",
    "xlafront.lax.accuracy": "AccuracyMode Tolerance",
    "xlafront.lax.elementwise_functions": """abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_not bitwise_or
        bitwise_xor cbrt ceil clamp clz complex conj convert_element_type cos cosh digamma div eq erf erf_inv erfc exp exp2
        expm1 floor ge gt imag integer_pow is_finite le lgamma log log1p log2 logistic lt max min mul ne neg nextafter
        one_minus_square polygamma population_count pow real reciprocal reduce_precision rem round RoundingMethod rsqrt
        select_n shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square sub tan tanh zeta""",
    "xlafront.lax.dimension_numbers": "GatherDimensionNumbers GatherScatterMode ScatterDimensionNumbers",
    "xlafront.lax.fourier": "fft fft_p FftType",
    "xlafront.lax.indexing": """gather gather_p scatter scatter_add scatter_add_p scatter_apply
        scatter_apply_p scatter_max scatter_max_p scatter_min scatter_min_p scatter_mul scatter_mul_p scatter_p scatter_sub
        scatter_sub_p""",
    "xlafront.lax.ragged_products": "RaggedDotDimensionNumbers ragged_dot ragged_dot_general ragged_dot_general_p",
    "xlafront.lax.random_bits": "RandomAlgorithm rng_bit_generator rng_bit_generator_p rng_uniform rng_uniform_p",
    "xlafront.lax.ragged_exchange": "ragged_all_to_all_p",
    "xlafront.lax.named_axes": "axis_index axis_index_p",
    "xlafront.lax.reductions": """argmax argmax_p argmin argmin_p reduce_and reduce_and_p reduce_max reduce_max_p reduce_min
        reduce_min_p reduce_or reduce_or_p reduce_prod reduce_prod_p reduce_sum reduce_sum_p reduce_xor reduce_xor_p""",
    "xlafront.lax.send_recv": "after_all after_all_p create_token create_token_p",
    "xlafront.lax.shapes": """bitcast_convert_type bitcast_convert_type_p broadcast broadcast_in_dim broadcast_in_dim_p
        expand_dims iota_p reshape reshape_p rev rev_p squeeze squeeze_p tile_p transpose transpose_p""",
    "xlafront.lax.scaled_products": "scaled_dot",
    "xlafront.lax.sharding_constraint": "sharding_constraint_p with_sharding_constraint",
    "xlafront.lax.slicing": "concatenate concatenate_p index_in_dim pad pad_p slice slice_in_dim slice_p",
    "xlafront.lax.sorting": "sort sort_key_val sort_p",
    "xlafront.lax.splitting": "split split_p",
    "xlafront.lax.stage_out": "dce_sink dce_sink_p stage stage_p",
    "xlafront.lax.stacking": "stack stack_p unstack unstack_p",
    "xlafront.lax.top_k_elements": "approx_max_k approx_min_k approx_top_k_p top_k top_k_p",
    "xlafront.lax.compare_total": "eq_to_p le_to_p lt_to_p mulhi mulhi_p",
    "xlafront.lax.windows": """reduce_window_max_p reduce_window_min_p reduce_window_shape_tuple reduce_window_sum_p
        select_and_gather_add_p select_and_scatter_add_p select_and_scatter_p""",
    "xlafront.special.bessel": "bessel_i0e bessel_i0e_p bessel_i1e bessel_i1e_p",
    "xlafront.special.incomplete_beta": "betainc regularized_incomplete_beta_p",
    "xlafront.special.incomplete_gamma": "igamma igamma_grad_a igamma_grad_a_p igamma_p igammac igammac_p random_gamma_grad",
}
__getattr__, __dir__, __all__ = attach(__name__, _EXPORTS, "linalg", dict.fromkeys(("precv", "psend"), "use ppermute"))

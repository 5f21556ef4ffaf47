"""The tables that map modules of jax to modules of xlafront."""

from __future__ import annotations

# Modules of xlafront with the same path under `jax`.
_SAME_PATH = """
    ad_checkpoint api_util custom_batching custom_derivatives debug distributed dlpack dtypes errors example_libraries
    example_libraries.optimizers example_libraries.stax experimental.array_serialization
    experimental.array_serialization.serialization experimental.buffer_callback experimental.checkify
    experimental.compilation_cache experimental.compilation_cache.compilation_cache experimental.compute_on
    experimental.control_deps experimental.custom_partitioning experimental.fused experimental.hijax experimental.jet
    experimental.key_reuse experimental.layout experimental.mesh_utils experimental.multihost_utils experimental.ode
    experimental.overlap
    experimental.pallas experimental.pallas.fuser experimental.pallas.mosaic_gpu experimental.pallas.tpu
    experimental.pallas.tpu_sc experimental.pallas.triton experimental.pjit
    experimental.profiler experimental.random experimental.rnn experimental.roofline
    experimental.scheduling_groups
    experimental.serialize_executable experimental.shard_alike experimental.source_mapper experimental.sparse
    experimental.sparse.bcoo experimental.sparse.bcsr experimental.sparse.coo experimental.sparse.csr
    experimental.sparse.linalg experimental.sparse.ad experimental.sparse.api experimental.sparse.random
    experimental.sparse.transform experimental.sparse.util experimental.topologies experimental.transfer
    experimental.xla_metadata export extend.backend extend.core extend.core.primitives extend.linear_util extend.lowering
    extend.mlir extend.mlir.dialects extend.mlir.dialects.arith extend.mlir.dialects.builtin extend.mlir.dialects.cf
    extend.mlir.dialects.chlo extend.mlir.dialects.func extend.mlir.dialects.math extend.mlir.dialects.memref
    extend.mlir.dialects.mpmd extend.mlir.dialects.scf extend.mlir.dialects.sdy extend.mlir.dialects.sparse_tensor
    extend.mlir.dialects.stablehlo extend.mlir.dialects.vector extend.mlir.ir extend.mlir.passmanager extend.random
    extend.sharding extend.source_info_util ffi flatten_util image interpreters interpreters.ad interpreters.batching
    interpreters.mlir interpreters.partial_eval interpreters.pxla interpreters.xla lax lax.linalg memory monitoring nn
    nn.initializers numpy numpy.fft numpy.linalg ops profiler random ref scipy scipy.cluster scipy.cluster.vq scipy.fft
    scipy.integrate scipy.interpolate scipy.linalg scipy.ndimage scipy.optimize scipy.signal scipy.sparse scipy.sparse.linalg
    scipy.spatial scipy.spatial.transform scipy.special scipy.stats scipy.stats.bernoulli scipy.stats.beta
    scipy.stats.betabinom scipy.stats.binom scipy.stats.cauchy scipy.stats.chi2 scipy.stats.dirichlet scipy.stats.expon
    scipy.stats.gamma scipy.stats.gennorm scipy.stats.geom scipy.stats.gumbel_l scipy.stats.gumbel_r scipy.stats.laplace
    scipy.stats.logistic scipy.stats.multinomial scipy.stats.multivariate_normal scipy.stats.nbinom scipy.stats.norm
    scipy.stats.pareto scipy.stats.poisson scipy.stats.t scipy.stats.truncnorm scipy.stats.uniform scipy.stats.vonmises
    scipy.stats.wrapcauchy sharding stages test_util tree tree_util typing
"""

# Modules that are the same object under the names of jax and of xlafront.
ALIASES: dict[str, str] = {f"jax.{path}": f"xlafront.{path}" for path in _SAME_PATH.split()} | {
    "jax.version": "xlafront.compat.version",
    "jax._src.compiler": "xlafront.runtime.compile",  # Chex replaces a function in it
} | {f"jax._src.lib{path.removeprefix('extend').replace('stablehlo', 'hlo')}": f"xlafront.{path}"
     for path in _SAME_PATH.split() if path.startswith("extend.mlir.dialects.")}

# Modules with the `__name__` of jax, by which array_api_compat (and with it SciPy and scikit-learn) recognizes the namespace.
RENAMED = ("jax.numpy",)

# Splash attention, which Keras needs for its import.
_ATTENTION = {"xlafront.nn.splash_attention": """DEFAULT_MASK_VALUE BlockSizes QKVLayout SegmentIds SplashAttentionKernel
    attention_reference make_attention_reference make_masked_mha_reference make_masked_mqa_reference make_splash_mha
    make_splash_mha_single_device make_splash_mqa make_splash_mqa_single_device"""}
_MASKS = {"xlafront.nn.splash_masks": """CausalMask ChunkedCausalMask FullMask LocalMask LogicalAnd LogicalOr Mask MultiHeadMask
    NumpyMask make_causal_mask make_chunk_attention_mask make_local_attention_mask make_random_mask"""}

# Modules without a counterpart in xlafront: the users of their names, and the modules that define these.
COMPOSED: dict[str, tuple[str, dict[str, str]]] = {
    "jax": ("all programs", {"xlafront.compat.version": "__version__ __version_info__",
                         "xlafront.compat.deprecated": "host_count host_id host_ids"}),
    "jax._src": ("programs that import from it", {}),
    "jax._src.ad_checkpoint": ("Oryx", {"xlafront.transforms.calls.checkpoint": "remat_p"}),
    "jax._src.ad_util": ("Lineax", {"xlafront.lax.barriers": "stop_gradient_p"}),
    "jax._src.api": ("PennyLane", {"xlafront.compat.private_functions": "_dtype"}),
    "jax._src.api_util": ("e3nn-jax", {"xlafront.compat.private_functions": "infer_argnums_and_argnames"}),
    "jax._src.array": ("user programs, pickles", {
        "xlafront.base.jaxlib_compat": "ArrayImpl",
        "xlafront.compat.pickles": "_reconstruct_array",
    }),
    "jax._src.checkify": ("Flax", {"xlafront.host.checks": "JaxException", "xlafront.host.checkify": "Out"}),
    "jax._src.core": ("BrainState, eformer, Flax, NumPyro, Oryx, torchax, tests of Quax", {
        "xlafront.compat.deprecated": "is_constant_dim is_constant_shape",
        "xlafront.core.avals": "AbstractValue ShapedArray",
        "xlafront.core.ir": "ClosedJaxpr DebugInfo DropVar eval_jaxpr",
        "xlafront.core.tracing": "Trace Tracer eval_context",
        "xlafront.compat.renamed": """DimSize JaxprEqnContext Shape full_lower physical_aval pytype_aval_mappings
            trace_ctx trace_state_clean""",
        "xlafront.extend.core": "CallPrimitive TraceTag get_opaque_trace_state set_current_trace take_current_trace",
        "xlafront.interpreters.call_arguments": "safe_map",
        "xlafront.interpreters.hijax": "AvalQDD",
        "xlafront.compat.pickles": "MemorySpace",
        "xlafront.compat.private_functions": "canonicalize_shape dimension_as_value safe_zip",
    }),
    "jax._src.dispatch": ("Equinox, celerite2", {"xlafront.compat.renamed": "wait_for_tokens",
                                                 "xlafront.interpreters.xla": "apply_primitive"}),
    "jax._src.earray": ("Flax", {"xlafront.interpreters.extended_dtypes": "EArray"}),
    "jax._src.distributed": ("Orbax", {"xlafront.compat.renamed": "global_state"}),
    "jax._src.dtypes": ("Equinox, Flax, TensorFlow Probability, tinygp, tests of Tokamax", {
        "xlafront.core.dtypes": "ExtendedDType TypePromotionError canonicalize_dtype extended finfo",
        "xlafront.compat.renamed": "DType _jax_types supports_inf to_complex_dtype",
    }),
    "jax._src.effects": ("Equinox", {
        "xlafront.core.ir": "Effect",
        "xlafront.compat.renamed": "control_flow_allowed_effects lowerable_effects remat_allowed_effects",
    }),
    "jax._src.flatten_util": ("BlackJAX", {"xlafront.numpy.flatten_util": "ravel_pytree"}),
    "jax._src.frozen_dict": ("jax-triton", {"xlafront.compat.private_functions": "FrozenDict"}),
    "jax._src.interpreters": ("programs that import from it", {}),
    "jax._src.interpreters.ad": ("Oryx", {"xlafront.interpreters.ad": "jvp primitive_jvps primitive_transposes"}),
    "jax._src.interpreters.batching": ("Oryx, BrainState, jaxoplanet", {
        "xlafront.interpreters.batching": "batch_subtrace fancy_primitive_batchers primitive_batchers",
        "xlafront.compat.renamed": "NotMapped",
        "xlafront.compat.private_functions": "is_vmappable make_iota to_elt",
    }),
    "jax._src.interpreters.partial_eval": ("Oryx", {
        "xlafront.interpreters.partial_eval": """PartialVal close_jaxpr convert_constvars_jaxpr trace_to_jaxpr_dynamic
            trace_to_jaxpr_nounits""",
        "xlafront.compat.private_functions": "abstract_eval_fun separate_consts",
    }),
    "jax._src.interpreters.pxla": ("Flax", {"xlafront.compat.private_functions": "global_result_handlers"}),
    "jax._src.lax": ("programs that import from it", {}),
    "jax._src.lax.control_flow": ("Oryx", {"xlafront.lax": "cond_p scan_p while_p",
                                              "xlafront.compat.private_functions": "_merge_common_consts"}),
    "jax._src.lib": ("Dynamiqs, jax-triton, Qwix, user programs", {
        "xlafront.base.jaxlib_compat": "_jax gpu_triton jaxlib_extension_version jaxlib_version_text pytree xla_client",
        "xlafront.compat.renamed": "version"}),
    "jax._src.lib.mlir": ("user-defined primitives", {"xlafront.extend.mlir": "ir passmanager"}),
    "jax._src.lib.mlir.dialects": ("user-defined primitives", {}),
    "jax._src.literals": ("Equinox, Quax", {"xlafront.compat.renamed": "TypedComplex TypedFloat TypedInt TypedNdArray"}),
    "jax._src.mesh": ("tpu-inference, user programs", {"xlafront.interpreters.executables": "thread_resources",
                                                       "xlafront.compat.private_functions": "get_concrete_mesh"}),
    "jax._src.named_sharding": ("jaxlib", {}),
    "jax._src.sharding_impls": ("jaxlib, JAXNS", {"xlafront.compat.private_functions": "canonicalize_sharding",
                                                   "xlafront.compat.renamed": "UNSPECIFIED UnspecifiedValue"}),
    "jax._src.state": ("jax-triton", {"xlafront.core.effects": "AccumEffect ReadEffect RefEffect WriteEffect",
                                      "xlafront.core.refs": "AbstractRef", "xlafront.interpreters.hijax": "TransformedRef"}),
    "jax._src.state.discharge": ("jax-triton", {"xlafront.interpreters.discharge": "DischargeContext register_discharge_rule"}),
    "jax._src.numpy.util": ("S2FFT, user programs", {
        "xlafront.compat.private_functions": """promote_args promote_args_inexact promote_dtypes promote_dtypes_complex
            promote_dtypes_inexact""",
        "xlafront.numpy.promotion": "check_arraylike",
    }),
    "jax._src.numpy.array_methods": ("unxt", {"xlafront.compat.array_helpers": "_IndexUpdateHelper _IndexUpdateRef"}),
    "jax._src.numpy.einsum": ("AQT", {"xlafront.compat.einsum_steps": "_default_poly_einsum_handler _einsum"}),
    "jax._src.numpy.index_tricks": ("quaxed", {"xlafront.compat.array_helpers": "CClass RClass"}),
    "jax._src.numpy.vectorize": ("quaxed, galax", {"xlafront.compat.array_helpers": """_apply_excluded _check_output_dims
        _parse_gufunc_signature _parse_input_dimensions"""}),
    "jax._src.numpy.scalar_types": ("tpu-inference", {"xlafront.compat.renamed": "_ScalarMeta"}),
    "jax._src.numpy.setops": ("pickles", {"xlafront.numpy.sets": """_UniqueAllResult _UniqueCountsResult
        _UniqueInverseResult"""}),
    "jax._src.pallas": ("programs that import from it", {}),
    "jax._src.pallas.mosaic": ("programs that import from it", {}),
    "jax._src.pallas.mosaic.primitives": ("ejkernel, tpu-inference", {"xlafront.pallas.semaphores": "AsyncCopyDescriptor"}),
    "jax._src.pallas.primitives": ("ejkernel", {"xlafront.compat.kernel_signatures": "load store"}),
    "jax._src.pallas.utils": ("tpu-inference", {"xlafront.pallas.kernel_functions": "next_power_of_2"}),
    "jax._src.public_test_util": ("tests of tinygp", {"xlafront.test_util": "check_grads check_jvp check_vjp",
                                                           "xlafront.compat.private_functions": "check_close"}),
    "jax._src.test_util": ("Flax's guides", {
        "xlafront.test_util": "check_grads check_jvp check_vjp",
        "xlafront.compat.private_functions": "check_close is_cuda_compute_capability_at_least",
    }),
    "jax._src.random.prng": ("user programs, pickles", {
        "xlafront.compat.renamed": "PRNGKeyArray",
        "xlafront.compat.pickles": "KeyTy",
        "xlafront.random.prng": "PRNGImpl",
    }),
    "jax._src.random.rbg": ("pickles", {"xlafront.compat.pickles": """_rbg_fold_in _rbg_random_bits _rbg_seed _rbg_split
        _unsafe_rbg_fold_in _unsafe_rbg_split"""}),
    "jax._src.random.threefry2x32": ("Quax, pickles", {"xlafront.compat.pickles": """threefry_fold_in threefry_random_bits
        threefry_seed threefry_split"""}),
    "jax._src.scipy": ("programs that import from it", {}),
    "jax._src.scipy.optimize": ("programs that import from it", {}),
    "jax._src.scipy.spatial": ("programs that import from it", {}),
    "jax._src.scipy.optimize.minimize": ("pickles", {"xlafront.solvers.minimization": "OptimizeResults"}),
    "jax._src.scipy.spatial.transform": ("pickles", {"xlafront.scipy.rotations": "Rotation Slerp"}),
    "jax._src.typing": ("JAXNS, user programs", {"xlafront.compat.renamed": "DType DimSize Shape SupportsDType"}),
    "jax._src.state.types": ("Flax", {"xlafront.core.refs": "AbstractRef"}),
    "jax._src.traceback_util": ("Equinox, Flax, jaxtyping", {
        "xlafront.compat.tracebacks": "_exclude_paths api_boundary filter_traceback include_frame register_exclusion",
        "xlafront.core.traceback_filter": "UnfilteredStackTrace",
    }),
    "jax._src.tree_util": ("Flax, Orbax", {
        "xlafront.compat.renamed": "_registry",
        "xlafront.compat.private_functions": "prefix_errors tracing_registry",
        "xlafront.tree_util": "flatten_one_level tree_leaves tree_map tree_unflatten",
    }),
    "jax._src.util": ("optree, Oryx, torchax", {
        "xlafront.interpreters.call_arguments": "safe_map",
        "xlafront.compat.private_functions": """HashableFunction HashablePartial canonicalize_axis safe_zip split_list unzip2
            weakref_lru_cache wrap_name""",
    }),
    "jax._src.xla_bridge": ("Chex, Flax's guides", {"xlafront.compat.renamed": "_backends",
                                                    "xlafront.compat.private_functions": "backends_are_initialized"}),
    "jax.experimental": ("Flax", {"xlafront.interpreters.hijax": "cur_qdd"}),
    "jax.experimental.colocated_python": ("Orbax", {}),
    "jax.experimental.colocated_python.func": ("Orbax", {}),
    "jax.experimental.colocated_python.serialization": ("Orbax", {
        "xlafront.base.jaxlib_compat": "DeviceList",
        "xlafront.compat.cpu_devices": "_get_cpu_device_map _reduce_device_list _reduce_mesh _reduce_single_device_sharding xb",
    }),
    "jax.experimental.mosaic": ("Tokamax", {"xlafront.compat.kernel_signatures": "OptLevel"}),
    "jax.experimental.mosaic.gpu": ("Tokamax", {}),
    "jax.experimental.mosaic.gpu.profiler": ("Tokamax", {}),
    "jax.experimental.mosaic.gpu.utils": ("Tokamax", {}),
    "jax.experimental.pallas.ops": ("programs that import from it", {}),
    "jax.experimental.pallas.ops.gpu": ("programs that import from it", {}),
    "jax.experimental.pallas.ops.gpu.attention": ("programs for GPUs", {"xlafront.compat.kernel_signatures": "mha"}),
    "jax.experimental.pallas.ops.gpu.layer_norm": ("programs for GPUs", {"xlafront.compat.kernel_signatures": "layer_norm"}),
    "jax.experimental.pallas.ops.gpu.rms_norm": ("programs for GPUs", {"xlafront.compat.kernel_signatures": "rms_norm"}),
    "jax.experimental.pallas.ops.gpu.softmax": ("programs for GPUs", {"xlafront.compat.kernel_signatures": "softmax"}),
    "jax.experimental.pallas.ops.tpu": ("programs that import from it", {}),
    "jax.experimental.pallas.ops.tpu.flash_attention": ("programs for TPUs", {
        "xlafront.compat.kernel_signatures": "BlockSizes SegmentIds flash_attention"}),
    "jax.experimental.pallas.ops.tpu.megablox": ("programs for TPUs", {"xlafront.compat.kernel_signatures": "gmm"}),
    "jax.experimental.pallas.ops.tpu.paged_attention": ("programs for TPUs", {
        "xlafront.compat.kernel_signatures": "paged_attention"}),
    "jax.experimental.pallas.ops.tpu.splash_attention": ("programs for TPUs", _ATTENTION | _MASKS),
    "jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_kernel": ("Keras", _ATTENTION),
    "jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask": ("ejkernel, Keras", _MASKS | {
        "xlafront.compat.kernel_signatures": "_ComputableMask"}),
    "jax.experimental.pallas.ops.tpu.splash_attention.splash_attention_mask_info": ("ejkernel, MaxText", {
        "xlafront.compat.kernel_signatures": "MaskInfo"}),
    "jax.extend": ("programs that import from it", {}),
    "jax.extend.ifrt_programs": ("Orbax", {"xlafront.base.jaxlib_compat": "ifrt_programs"}),
    "jax.core": ("Equinox, Flax, Haiku, TensorFlow Probability", {
        "xlafront.core": "max_dim min_dim",
        "xlafront.core.avals": "AbstractValue ShapedArray",
        "xlafront.core.ir": "Atom ClosedJaxpr Jaxpr JaxprEqn Literal ParamDict Value Var eval_jaxpr jaxpr_as_fun",
        "xlafront.extend.core.primitive": "Primitive",
        "xlafront.core.structs": "ShapeDtypeStruct",
        "xlafront.core.tracing": "Trace Tracer ensure_compile_time_eval eval_context",
    }),
    "jax.cloud_tpu_init": ("programs for TPUs", {}),
    "jax.experimental.shard_map": ("programs written before 2025", {}),
    "jax.lib": ("JAXNS", {"jaxlib.version": "__version__"}),
}

# Modules that have the names of a module of xlafront, and more.
EXTENDED = {"jax": "xlafront", "jax.experimental": "xlafront.experimental", "jax.extend": "xlafront.extend",
             "jax.experimental.colocated_python": "xlafront.experimental.colocated_python"}

# Private modules of jax from which programs import names that are also public: the public modules of xlafront, and the
# paths of the private modules.
_PRIVATE = """
    . : config pmap
    . experimental: callback
    . extend.backend compat.deprecated: xla_bridge
    . experimental.pjit extend.core.primitives sharding: pjit
    . sharding: array shard_map sharding_impls
    . sharding stages tree_util api_util: api
    . typing: basearray typing
    ad_checkpoint . extend.core.primitives: ad_checkpoint
    api_util tree_util: api_util
    custom_batching: custom_batching
    custom_derivatives . extend.core.primitives: custom_derivatives
    debug .: debugging
    distributed: distributed
    dlpack: dlpack
    dtypes numpy: dtypes
    errors: errors
    experimental.checkify: checkify
    experimental.custom_partitioning: custom_partitioning
    experimental.hijax: hijax
    experimental.layout: layout
    experimental.mesh_utils: mesh_utils
    export: export._export export.shape_poly
    extend.core interpreters.hijax errors . extend.core.primitives: core
    extend.core.primitives monitoring: dispatch
    extend.linear_util: linear_util
    extend.source_info_util: source_info_util
    ffi: ffi
    flatten_util: flatten_util
    image: image.scale
    interpreters.ad custom_derivatives extend.core.primitives: ad_util interpreters.ad
    interpreters.batching: interpreters.batching
    interpreters.mlir: interpreters.mlir
    interpreters.partial_eval extend.core: interpreters.partial_eval
    interpreters.executables sharding: interpreters.pxla
    lax extend.core.primitives: lax lax.ann lax.control_flow lax.control_flow.conditionals lax.control_flow.loops
        lax.control_flow.solves lax.convolution lax.fft lax.lax lax.other lax.parallel lax.slicing lax.special
        lax.windowed_reductions
    lax.linalg extend.core.primitives: lax.linalg
    monitoring: monitoring
    nn.initializers: nn.initializers
    nn: nn.functions
    numpy.fft: numpy.fft
    numpy.linalg: numpy.linalg
    numpy: numpy numpy.array_constructors numpy.array_creation numpy.einsum numpy.index_tricks numpy.indexing numpy.lax_numpy
        numpy.polynomial numpy.reductions numpy.scalar_types numpy.setops numpy.sorting numpy.tensor_contractions
        numpy.ufunc_api numpy.ufuncs numpy.util numpy.vectorize numpy.window_functions
    ops: ops.scatter
    profiler: profiler
    random: random random.core random.prng
    ref extend.core.primitives: ref state.primitives state.types
    scipy.linalg: scipy.linalg
    scipy.signal: scipy.signal
    scipy.sparse.linalg: scipy.sparse.linalg
    scipy.special: ops.special scipy.special
    sharding: mesh named_sharding partition_spec sharding
    stages: stages
    tree: tree
    tree_util: tree_util
"""
PRIVATE: dict[str, list[str]] = {}
for _row in _PRIVATE.replace("\n        ", " ").strip().splitlines():
    _public, _, _paths = _row.partition(":")
    for _path in _paths.split():
        PRIVATE[f"jax._src.{_path}"] = [f"xlafront.{path}".rstrip(".") for path in _public.split()]
for _name in PRIVATE:
    while _name not in COMPOSED:  # also for its packages
        COMPOSED[_name] = ("programs that import public names from private modules", {})
        _name = _name.rpartition(".")[0]

# Modules in which jaxlib looks up names; `base.jax_names` creates them.
USED_BY_JAXLIB = ("jax._src.named_sharding", "jax._src.sharding_impls")
# Packages that are loaded by `install`. Python removes a module from `sys.modules` for a moment after running it, and another
# thread that imports a submodule at that moment would not find the package. Tokamax looks up the last one in `sys.modules`.
PRELOADED = ("jax", "jax._src", "jax.experimental", "jax._src.lax", "jax._src.lax.lax")

# The modules in each package.
CHILDREN: dict[str, list[str]] = {}
for _name in sorted({*ALIASES, *COMPOSED}):
    _parent, _, _child = _name.rpartition(".")
    CHILDREN.setdefault(_parent, []).append(_child)

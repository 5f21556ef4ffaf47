"""The operations that everything is made of: thin functions over StableHLO, without promotion or broadcasting.

Each family is a table in a module of its own; here the tables become names.
"""

from xlafront.lax import (
    elementwise as _elementwise,
    indexing as _indexing,
    reductions as _reductions,
    sharding_rules as _sharding_rules,  # noqa: F401 (types of results over explicit mesh axes)
)
from xlafront.lax.branching import (
    cond as cond,
    cond_p as cond_p,
    platform_dependent as platform_dependent,
    switch as switch,
)
from xlafront.lax.collective_primitives import (
    all_gather_p as all_gather_p,
    all_to_all_p as all_to_all_p,
    axis_index_p as axis_index_p,
    pmax_p as pmax_p,
    pmin_p as pmin_p,
    ppermute_p as ppermute_p,
    psum_p as psum_p,
)
from xlafront.lax.collectives import (
    all_gather as all_gather,
    all_to_all as all_to_all,
    axis_index as axis_index,
    axis_size as axis_size,
    pbroadcast as pbroadcast,
    pcast as pcast,
    pmax as pmax,
    pmean as pmean,
    pmin as pmin,
    ppermute as ppermute,
    precv as precv,
    psend as psend,
    pshuffle as pshuffle,
    psum as psum,
    psum_scatter as psum_scatter,
    pswapaxes as pswapaxes,
    ragged_all_to_all as ragged_all_to_all,
)
from xlafront.lax.creation import (
    broadcasted_iota as broadcasted_iota,
    empty as empty,
    full as full,
    full_like as full_like,
    iota as iota,
)
from xlafront.lax.derived import (
    associative_scan as associative_scan,
    broadcast_shapes as broadcast_shapes,
    broadcast_to_rank as broadcast_to_rank,
    collapse as collapse,
    dtype as dtype,
    optimization_barrier as optimization_barrier,
    optimization_barrier_p as optimization_barrier_p,
    reduce as reduce,
    reduce_p as reduce_p,
    select as select,
    split as split,
    split_p as split_p,
    stack as stack,
    stop_gradient as stop_gradient,
    stop_gradient_p as stop_gradient_p,
    tile as tile,
)
from xlafront.lax.elementwise import (
    AccuracyMode as AccuracyMode,
    RoundingMethod as RoundingMethod,
    Tolerance as Tolerance,
    clamp as clamp,
    conj as conj,
    convert_element_type as convert_element_type,
    integer_pow as integer_pow,
    reciprocal as reciprocal,
    reduce_precision as reduce_precision,
    round as round,
    select_n as select_n,
)
from xlafront.lax.indexing import (
    GatherDimensionNumbers as GatherDimensionNumbers,
    GatherScatterMode as GatherScatterMode,
    ScatterDimensionNumbers as ScatterDimensionNumbers,
    gather as gather,
    gather_p as gather_p,
)
from xlafront.lax.looping import (
    fori_loop as fori_loop,
    while_loop as while_loop,
    while_p as while_p,
)
from xlafront.lax.products import (
    DotAlgorithmPreset as DotAlgorithmPreset,
    Precision as Precision,
    batch_matmul as batch_matmul,
    dot as dot,
    dot_general as dot_general,
    dot_general_p as dot_general_p,
)
from xlafront.lax.ragged_exchange import ragged_all_to_all_p as ragged_all_to_all_p
from xlafront.lax.reductions import (
    argmax as argmax,
    argmax_p as argmax_p,
    argmin as argmin,
    argmin_p as argmin_p,
)
from xlafront.lax.scanning import (
    map as map,
    scan as scan,
    scan_p as scan_p,
)
from xlafront.lax.sending import (
    after_all as after_all,
    after_all_p as after_all_p,
    create_token as create_token,
    create_token_p as create_token_p,
)
from xlafront.lax.shapes import (
    bitcast_convert_type as bitcast_convert_type,
    bitcast_convert_type_p as bitcast_convert_type_p,
    broadcast as broadcast,
    broadcast_in_dim as broadcast_in_dim,
    broadcast_in_dim_p as broadcast_in_dim_p,
    concatenate as concatenate,
    concatenate_p as concatenate_p,
    dynamic_index_in_dim as dynamic_index_in_dim,
    dynamic_slice as dynamic_slice,
    dynamic_slice_in_dim as dynamic_slice_in_dim,
    dynamic_slice_p as dynamic_slice_p,
    dynamic_update_index_in_dim as dynamic_update_index_in_dim,
    dynamic_update_slice as dynamic_update_slice,
    dynamic_update_slice_in_dim as dynamic_update_slice_in_dim,
    dynamic_update_slice_p as dynamic_update_slice_p,
    expand_dims as expand_dims,
    index_in_dim as index_in_dim,
    iota_p as iota_p,
    pad as pad,
    pad_p as pad_p,
    reshape as reshape,
    reshape_p as reshape_p,
    rev as rev,
    rev_p as rev_p,
    slice as slice,
    slice_in_dim as slice_in_dim,
    slice_p as slice_p,
    squeeze as squeeze,
    squeeze_p as squeeze_p,
    transpose as transpose,
    transpose_p as transpose_p,
)
from xlafront.lax.solves import (
    custom_linear_solve as custom_linear_solve,
    custom_root as custom_root,
    linear_solve_p as linear_solve_p,
)
from xlafront.lax.sorting import (
    sort as sort,
    sort_key_val as sort_key_val,
    sort_p as sort_p,
    top_k as top_k,
)
from xlafront.transforms.device_put import device_put_p as device_put_p
from xlafront.transforms.sharding_constraint import (
    sharding_constraint_p as sharding_constraint_p,
    with_sharding_constraint as with_sharding_constraint,
)

for _module in (_elementwise, _indexing, _reductions):
    globals().update(_module.PUBLIC)
for _table in (_elementwise.PRIMITIVES, _indexing.PRIMITIVES, _reductions.PRIMITIVES, _reductions.CUMULATIVE):
    globals().update({f"{_name}_p": _primitive for _name, _primitive in _table.items()})


def __getattr__(name: str):
    if name != "linalg":
        raise AttributeError(f"xlafront.lax has no attribute {name!r}")
    from importlib import import_module

    return import_module("xlafront.lax.linalg")

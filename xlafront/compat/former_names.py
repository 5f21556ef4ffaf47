"""Names that jax had in earlier versions: where they are defined here, and what to use instead.

`FORMER` are names that jax 0.10 still had, with a warning. They work here, with a `DeprecationWarning`. `REMOVED` are names
that it had removed before, and the few that have no counterpart here; the `AttributeError` for them says what to do. Names
that jax still has with a warning are in the tables of their public modules (`attach(deprecated=...)`), unless the module is
composed. `lazy_module.former_names` and `base.missing_names.remedies` hold both tables while xlafront answers for jax.
"""

from __future__ import annotations

from typing import NamedTuple

from xlafront.base.version import REFERENCE


class FormerName(NamedTuple):
    """A name that jax had: its last version with it, the module that defines it here, and what to use instead."""

    last_version: str
    module: str
    remedy: str

    def warning(self, module: str, name: str) -> str:
        last = "" if self.last_version == REFERENCE else f" (jax {self.last_version} was the last version with it)"
        return f"{module}.{name} is deprecated{last}: {self.remedy}."


# By module of jax: the last version, the module here, what to use instead of each name ({}), and the names.
_FORMER = {
    "jax.core": [
        ("0.10.2", "xlafront.core.ir", "use jax.extend.core.{}", "DropVar Effect"),
        ("0.10.2", "xlafront.core.ir_check", "use jax.extend.core.{}", "check_jaxpr"),
        ("0.10.2", "xlafront.extend.core", "use jax.extend.core.{}", """DebugInfo Effects concrete_or_error find_top_trace
            gensym get_opaque_trace_state jaxprs_in_params new_jaxpr_eqn no_effects nonempty_axis_env_DO_NOT_USE
            primal_dtype_to_tangent_dtype unsafe_am_i_under_a_jit_DO_NOT_USE unsafe_am_i_under_a_vmap_DO_NOT_USE
            unsafe_get_axis_names_DO_NOT_USE valid_jaxtype"""),
        ("0.10.2", "xlafront.extend.core", "use jax.errors.{}", "InconclusiveDimensionOperation JaxprTypeError"),
        ("0.10.2", "xlafront.extend.core", "use jax.extend.core.create_call_primitive", "CallPrimitive"),
        ("0.10.2", "xlafront.extend.core", "use jax.ffi.abstract_token", "abstract_token"),
        ("0.10.2", "xlafront.extend.core.call", "use jax.jit", "call"),
        ("0.10.2", "xlafront.compat.deprecated", "use `tuple[jax.core.AbstractValue, ...]`", "OutputType"),
        ("0.10.2", "xlafront.compat.deprecated", "use `not isinstance(x, jax.core.Tracer)`", "is_concrete"),
        ("0.10.2", "xlafront.compat.deprecated", "use `isinstance(d, int)`", "is_constant_dim"),
        ("0.10.2", "xlafront.compat.deprecated", "use `all(isinstance(d, int) for d in shape)`", "is_constant_shape"),
        ("0.10.2", "xlafront.compat.deprecated", "raise jax.errors.ConcretizationTypeError", "concretization_function_error"),
        ("0.10.2", "xlafront.compat.deprecated", "pass keywords to `jaxpr.pretty_print`", "JaxprPpSettings"),
        ("0.10.2", "xlafront.compat.deprecated", "use a new object()", "no_axis_name"),
        ("0.10.2", "xlafront.compat.renamed", "use jax.extend.core.take_current_trace and set_current_trace", "trace_ctx"),
        (REFERENCE, "xlafront.compat.renamed", "give the class a method `__jax_array__`", "pytype_aval_mappings"),
    ],
    "jax.experimental.pallas.tpu": [
        ("0.10.2", "xlafront.pallas.semaphores", "use jax.experimental.pallas.{}",
         "semaphore_read semaphore_signal semaphore_wait"),
        ("0.10.2", "xlafront.pallas.specs", "leave `device_id_type` out", "DeviceIdType"),
        (REFERENCE, "xlafront.compat.deprecated", "use jax.experimental.pallas.tpu.BufferedRef", "BufferedRefBase"),
    ],
    "jax.experimental.shard_map": [(REFERENCE, "xlafront.compat.deprecated", "use jax.shard_map", "shard_map")],
    "jax.interpreters.pxla": [
        ("0.10.2", "xlafront.interpreters.executables", "use jax.make_array_from_single_device_arrays",
         "global_aval_to_result_handler"),
        ("0.10.2", "xlafront.compat.private_functions", "use jax.make_array_from_single_device_arrays",
         "global_result_handlers"),
        ("0.10.2", "xlafront.compat.deprecated", "use the names of axes in PartitionSpecs",
         "ArrayMapping MeshAxisName array_mapping_to_axis_resources"),
        ("0.10.2", "xlafront.compat.deprecated", "use int, slice and tuples of them", "Index"),
        ("0.10.2", "xlafront.compat.deprecated", "use the method `is_equivalent_to` of shardings", "are_hlo_shardings_equal"),
        ("0.10.2", "xlafront.compat.deprecated", "use `is_fully_replicated` of shardings", "is_hlo_sharding_replicated"),
        ("0.10.2", "xlafront.compat.deprecated", "use the method `devices_indices_map` of shardings", "op_sharding_to_indices"),
        ("0.10.2", "xlafront.compat.renamed", "use the methods of jax.stages.Compiled", "MeshExecutable"),
        ("0.10.2", "xlafront.compat.renamed", "use None, or leave the sharding out", "_UNSPECIFIED"),
    ],
}

# By module of jax: what to do instead of each name ({}), and the names.
_REMOVED = {
    "jax": [("use jax.device_put with a sharding", "device_put_replicated device_put_sharded")],
    "jax.ad_checkpoint": [("use jax.{}", "checkpoint remat")],
    "jax.cloud_tpu_init": [("leave the call out, as it is made automatically", "cloud_tpu_init")],
    "jax.core": [
        ("use jax.typeof", "get_aval"),
        ("use jax.extend.core.{}", """AbstractToken TraceTag mapped_aval set_current_trace subjaxprs take_current_trace
            unmapped_aval"""),
        ("use jax.extend.core.create_call_primitive", "call_impl"),
        ("use jax.extend.core.jaxprs_in_params", "traverse_jaxpr_params"),
        ("use `print(jaxpr)` or `jaxpr.pretty_print()`", "JaxprPpContext"),
        ("give the type methods, as described in jax.experimental.hijax", "aval_mapping_handlers"),
        ("check parameters in the type rule of the primitive", "custom_typechecks"),
        ("use jax.extend.core.Literal", "literalable_types"),
    ],
    "jax.experimental.pallas": [
        ("use the operator @, jax.numpy.dot or jax.numpy.einsum", "dot"),
        ("use jax.experimental.pallas.enable_debug_checks", "debug_checks_enabled"),
    ],
    "jax.experimental.pallas.tpu": [("use jax.experimental.pallas.{}", "HOST"), ("use SemaphoreType", "semaphore")],
    "jax.interpreters.ad": [("leave it out, as nothing reads it", "reducing_transposes")],
    "jax.interpreters.batching": [("use None for axes that are not mapped", "NotMapped")],
    "jax.interpreters.pxla": [
        ("use jax.shard_map instead of jax.pmap", """Chunked MapTracer NoSharding PmapExecutable Replicated ShardedAxis
            ShardingSpec Unstacked parallel_callable"""),
        ("use the method `devices_indices_map` of shardings", "spec_to_indices"),
        ("use jax.device_put", "shard_args"),
    ],
    "jax.lax": [("use jax.lax.pcast(..., to='varying')", "pvary")],
    "jax.numpy": [("use jax.numpy.trunc", "fix")],
    "jax.scipy.special": [("use jax.scipy.special.sph_harm_y", "sph_harm")],
}

FORMER = {(module, name): FormerName(last, path, remedy.format(name))
          for module, rows in _FORMER.items() for last, path, remedy, found in rows for name in found.split()}
REMOVED = {(module, name): remedy.format(name)
           for module, rows in _REMOVED.items() for remedy, found in rows for name in found.split()}

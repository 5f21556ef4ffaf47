"""XLA options that a program gets for what is in it. Options that users set take precedence."""

from __future__ import annotations

import os
from collections.abc import Set
from typing import Any

from xlafront.base.jaxlib_compat import HAS_TWO_EMITTERS, CompileOptions
from xlafront.core.ir import Jaxpr
from xlafront.tuning import small_programs

# Properties that lowering rules find, in `ModuleContext.tuning`.
WIDE_LOOPS = "wide loops"  # for this CPU alone, with so many sampled numbers that its loops are worth wide vectors
PRODUCTS_OF_BYTES = "products of bytes"  # for a GPU, with products of int8
SIMULATED_KERNELS = "simulated kernels"  # kernels of Pallas with what finds their mistakes

_EMITTERS, _SPLIT_COUNT = "xla_cpu_use_fusion_emitters", "xla_cpu_parallel_codegen_split_count"
_VECTORS, _OWN_PRODUCTS = "xla_cpu_prefer_vector_width", "xla_gpu_enable_triton_gemm"
_OPTIMIZATIONS = "xla_backend_optimization_level"


def tuned_options(overrides: dict, jaxpr: Jaxpr, donates: bool, is_on_one_cpu: bool, properties: Set[str]) -> dict:
    """Return the options of a program, those in `overrides` among them; `properties` are those of its module."""
    if HAS_TWO_EMITTERS and is_on_one_cpu:
        if SIMULATED_KERNELS in properties:
            if small_programs.emitters_agree(jaxpr):
                overrides = _unless_requested(overrides, _EMITTERS, False)
        elif small_programs.is_small(jaxpr, donates):
            overrides = for_small_programs(overrides)
        elif small_programs.has_few_kernels(jaxpr):
            overrides = for_few_kernels(overrides)
    if SIMULATED_KERNELS in properties:
        overrides = for_simulations(overrides)
    if WIDE_LOOPS in properties:
        overrides = for_wide_loops(overrides)
    if PRODUCTS_OF_BYTES in properties:
        overrides = for_products_of_bytes(overrides)
    return overrides


def for_small_programs(overrides: dict) -> dict:
    """Use the older emitter for a CPU program that takes longer to compile than to run.

    The newer one takes half of the compile time, and its kernels are not faster for small programs. See `without_unrolling`.
    """
    return _unless_requested(for_few_kernels(overrides), _EMITTERS, False)


def for_few_kernels(overrides: dict) -> dict:
    """Compile the few kernels of a CPU program together.

    XLA compiles parts of a program in parallel, and the memory of each part stays allocated: a third of a small program's.
    """
    return _unless_requested(overrides, _SPLIT_COUNT, 1)


def for_simulations(overrides: dict) -> dict:
    """Compile a simulation, which runs a few times, without LLVM's optimizations.

    With the older emitter, that takes a third of the time.
    """
    return _unless_requested(overrides, _OPTIMIZATIONS, 0)


def for_wide_loops(overrides: dict) -> dict:
    """Prefer vectors of 512 bits: loops over sampled numbers take half the time of the 256 bits that XLA prefers."""
    return _unless_requested(overrides, _VECTORS, 512)


def for_products_of_bytes(overrides: dict) -> dict:
    """Multiply int8 matrices on a GPU by its maker's library: XLA's own kernels return twice the product."""
    return _unless_requested(overrides, _OWN_PRODUCTS, False)


def _unless_requested(overrides: dict, flag: str, value: Any) -> dict:
    return overrides if flag in overrides or flag in os.environ.get("XLA_FLAGS", "") else overrides | {flag: value}


def without_unrolling(options: CompileOptions, overrides: dict) -> CompileOptions:
    """Return options with loop unrolling off for programs that use the older emitter.

    Its loops have known trip counts, which the compiler unrolls: that takes up to three times as long and runs no faster.
    """
    if overrides.get(_EMITTERS) is not False or _BACKEND_OPTIONS in os.environ.get("XLA_FLAGS", ""):
        return options
    return CompileOptions.ParseFromString(options.SerializeAsString() + _NO_UNROLLING)  # appended fields are merged


def _message(number: int, content: bytes) -> bytes:
    """Encode a field of a Protocol Buffers message, for contents of less than 128 bytes."""
    tag = number << 3 | 2
    return bytes([tag] if tag < 128 else [tag & 127 | 128, tag >> 7]) + bytes([len(content)]) + content


# An entry of a table of XLA's flags that can be set in messages only: in the flags (3) of the build's options (3).
_BACKEND_OPTIONS = "xla_backend_extra_options"
_NO_UNROLLING = _message(3, _message(3, _message(500, _message(1, b"xla_cpu_disable_loop_unrolling") + _message(2, b""))))

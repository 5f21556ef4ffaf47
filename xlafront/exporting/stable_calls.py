"""The custom calls that an exported module may contain: those with compatibility guarantees."""

from __future__ import annotations

from collections.abc import Sequence

from xlafront import lowering
from xlafront.exporting.checks import DisabledSafetyCheck

_LAPACK = {"sdcz": "gees geev gehrd geqrf gesdd getrf gtsv potrf trsm", "sd": "orgqr syevd sytrd", "cz": "heevd hetrd ungqr"}
_SOLVERS = "geqrf gesdd gesvd gesvdj getrf orgqr potrf syevd sytrd"
STABLE_CALLS = frozenset([
    *[f"lapack_{letter}{kernel}_ffi" for letters, kernels in _LAPACK.items() for letter in letters for kernel in
    kernels.split()], *[f"{library}_{kernel}_ffi" for library in ("cusolver", "hipsolver") for kernel in _SOLVERS.split()],
    *[f"{library}_{kernel}" for library in ("cu", "hip") for kernel in ("lu_pivots_to_permutation", "threefry2x32_ffi")],
    "cusparse_gtsv2_ffi",
    # Custom calls that XLA itself implements, on each platform or on TPUs.
    *"Sharding SPMDFullToShardShape SPMDShardToFullShape annotate_device_placement shape_assertion AllocateBuffer".split(),
    *"ApproxTopK Eigh LuDecomposition ProductOfElementaryHouseholderReflectors Qr tpu_custom_call mosaic_gpu_v2".split(),
    *[f"stablehlo.dynamic_{name}" for name in ("approx_top_k", "reduce_window", "rng_bit_generator", "top_k")]])


def check_custom_calls(name: str, module, disabled: Sequence[DisabledSafetyCheck]) -> None:
    """Raise an error if a module has custom calls without compatibility guarantees."""
    allowed = STABLE_CALLS.union([target for check in disabled if (target := check.is_custom_call()) is not None])
    others = sorted(set(lowering.artifacts.custom_calls(module)) - allowed)
    if others:
        raise ValueError(
            f"{name} cannot be exported: it calls {', '.join(others)}, which other versions or machines may not have, or may "
            f"implement differently (its custom calls have no compatibility guarantees). If you guarantee compatibility "
            f"yourself, export it with disabled_checks=[DisabledSafetyCheck.custom_call({others[0]!r})].")

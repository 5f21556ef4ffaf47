"""Parameters of the simulation of TPU kernels, and settings that run all kernels simulated."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from xlafront.base import config
from xlafront.core import errors
from xlafront.core.traceback_filter import boundary

_CHOICES = {"on_race": ("raise", "warn"), "out_of_bounds_reads": ("raise", "uninitialized"),
            "uninitialized_memory": ("nan", "zero"), "dma_execution_mode": ("on_wait", "eager"),
            "buffer_bounds": ("logical", "padded")}


@dataclasses.dataclass(frozen=True, kw_only=True)
class InterpretParams:
    """Parameters of the simulation of a TPU kernel, for `pallas_call(..., interpret=InterpretParams())`.

    The kernel runs as a loop that XLA compiles, as with `interpret=True`. Copies arrive when they are waited for, semaphores
    count, and mistakes are found: accesses out of bounds, waits that never end, semaphores that are not zero at the end, copies
    that are never waited for, and blocks that the grid comes back to. They are raised as one error after the run.

    Args:
        detect_races: If True, find accesses that are not ordered: of a copy that is not waited for yet and something else, and
            of two cores.
        on_race: "raise" an error for a race, or "warn".
        out_of_bounds_reads: "raise" an error, or return "uninitialized" values.
        skip_floating_point_ops: If True, results of operations that are all floating-point are infinite and not computed.
        uninitialized_memory: "nan" or "zero".
        num_cores_or_threads: Cores of a device, which share the steps of the first "parallel" axis of the grid.
        vector_clock_size: Ignored.
        logging_mode: Ignored.
        dma_execution_mode: "on_wait": a copy is made when it is waited for; "eager": when it is started. Both can happen.
        random_seed: Seed for the order of the steps along "parallel" axes of the grid. Default: in ascending order.
        grid_point_recorder: Function of a number, the point of the grid and the core, which is called for each step, in their
            order, after the run.
        allow_hbm_allocation_in_run_scoped: If True, `run_scoped` can have memory in HBM.
        buffer_bounds: Bounds of arrays in VMEM: "logical" ones, or "padded" to the tiling.

    Example:
        >>> def kernel(x_ref, o_ref, sem_ref):
        ...     copy = pl.tpu.make_async_copy(x_ref, o_ref, sem_ref)
        ...     copy.start()
        ...     copy.wait()
        >>> main = pl.BlockSpec(memory_space=pl.ANY)
        >>> pl.pallas_call(kernel, out_shape=xf.ShapeDtypeStruct((3,), "float32"), in_specs=[main], out_specs=main,
        ...                scratch_shapes=[pl.tpu.SemaphoreType.DMA],
        ...                interpret=pl.tpu.InterpretParams(detect_races=True))(xnp.arange(3.0))
        Array([0., 1., 2.], dtype=float32)
    """

    detect_races: bool = False
    on_race: str = "raise"
    out_of_bounds_reads: str = "raise"
    skip_floating_point_ops: bool = False
    uninitialized_memory: str = "nan"
    num_cores_or_threads: int = 1
    vector_clock_size: int | None = None
    logging_mode: Any = None
    dma_execution_mode: str = "on_wait"
    random_seed: int | None = None
    grid_point_recorder: Callable[..., Any] | None = None
    allow_hbm_allocation_in_run_scoped: bool = False
    buffer_bounds: str = "logical"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"InterpretParams takes {name} as {' or '.join(map(repr, choices))}, got "
                                 f"{errors.short(getattr(self, name))}.")
        if not isinstance(self.num_cores_or_threads, int) or self.num_cores_or_threads < 1:
            raise ValueError(f"InterpretParams takes num_cores_or_threads as a positive integer, got "
                             f"{errors.short(self.num_cores_or_threads)}.")


# The context of the forced parameters, once it is used: making one retraces all functions.
_contexts: list[config.UserContext] = []


def _context() -> config.UserContext:
    if not _contexts:
        _contexts.append(config.make_user_context(None))
    return _contexts[0]


def forced_params() -> InterpretParams | None:
    """Return the parameters by which kernels without `interpret` are simulated now; None: they are not."""
    return _contexts[0].value if _contexts else None


@boundary
def force_tpu_interpret_mode(params: InterpretParams = InterpretParams()) -> contextlib.AbstractContextManager[None]:
    """Simulate the kernels that are called meanwhile, also those without `interpret`.

    Args:
        params: Parameters of the simulation.

    Returns:
        A context manager.

    Example:
        >>> def double(x_ref, o_ref):
        ...     o_ref[...] = 2 * x_ref[...]
        >>> with pl.tpu.force_tpu_interpret_mode():
        ...     pl.pallas_call(double, out_shape=xf.ShapeDtypeStruct((3,), "float32"))(xnp.arange(3.0))
        Array([0., 2., 4.], dtype=float32)
    """
    _checked("force_tpu_interpret_mode", params)

    @contextlib.contextmanager
    def scope() -> Iterator[None]:
        with _context()(params):
            yield

    return scope()


@boundary
def set_tpu_interpret_mode(params: InterpretParams | None = InterpretParams()) -> None:
    """Simulate all kernels of the process, also those without `interpret`.

    Args:
        params: Parameters of the simulation. None: do not.

    Example:
        >>> pl.tpu.set_tpu_interpret_mode(None)
    """
    if params is not None:
        _checked("set_tpu_interpret_mode", params)
    if params is not None or _contexts:
        _context().set_global(params)


@boundary
def reset_tpu_interpret_mode_state() -> None:
    """Do nothing: a simulation keeps no state after its run. Programs for JAX call this after errors.

    Example:
        >>> pl.tpu.reset_tpu_interpret_mode_state()
    """


def _checked(caller: str, params: Any) -> None:
    if not isinstance(params, InterpretParams):
        raise TypeError(f"{caller} takes pltpu.InterpretParams, got {errors.short(params)}.")

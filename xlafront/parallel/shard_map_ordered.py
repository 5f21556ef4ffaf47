"""Ordered callbacks in an eager `shard_map`.

Devices run without a common order. The operands of ordered callbacks become extra results of the jaxpr, and the user's
functions
are called after it has run: in program order, and each of them in device order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xlafront.core import tracing
from xlafront.core.ir import Jaxpr, JaxprEqn
from xlafront.lax.shapes import expand_dims
from xlafront.parallel.shard_map_types import axes_in_scope
from xlafront.runtime.sharding import Mesh, PartitionSpec


def _needs_order(eqn: JaxprEqn) -> bool:
    return any([effect.ordered and not effect.ordered_over_devices for effect in eqn.effects])


def ordered_calls(jaxpr: Jaxpr, mesh: Any) -> list[JaxprEqn]:
    """Return the top-level equations with ordered effects whose order this process's devices do not guarantee."""
    if not jaxpr.effects or mesh.size == 1 or isinstance(mesh, Mesh) and mesh.is_multi_process:
        return []
    return [eqn for eqn in jaxpr.eqns if _needs_order(eqn) and not eqn.outvars and eqn.primitive.impl is not None]


def run_in_order(bind: Callable[..., list], args: Sequence[Any], calls: list[JaxprEqn], *, jaxpr: Jaxpr,
                 out_specs: Sequence[Any], **params: Any) -> list:
    """Bind the jaxpr without these equations, then run them."""
    mesh, check_vma = params["mesh"], params["check_vma"]
    manual = [axis for axis in mesh.axis_names if axis in params["newly_manual_axes"]]

    def make() -> tuple[Jaxpr, list[tuple[str, ...]], Sequence[Any]]:
        unordered = [eqn for eqn in jaxpr.eqns if not any([eqn is call for call in calls])]
        call_operands = [v for call in calls for v in call.invars]
        effects = frozenset().union(*[eqn.effects for eqn in unordered])
        jaxpr_without_calls = jaxpr.map_jaxpr(lambda inner: inner.replace(
            eqns=unordered, outvars=[*inner.outvars, *call_operands], effects=effects))

        def run(*shards):
            results = jaxpr_without_calls(*shards)
            count = len(jaxpr.outvars)
            return [*results[:count], *[expand_dims(x, (0,)) for x in results[count:]]]

        with axes_in_scope(mesh, params["newly_manual_axes"], check_vma):
            closed = tracing.trace_to_closed_jaxpr(run, jaxpr.in_avals, jaxpr.debug_info)
        varying = [tuple([axis for axis in manual if axis in v.aval.vma or not check_vma]) for v in call_operands]
        return closed, varying, jaxpr.consts  # keep alive the constants whose ids are in the key

    key = ("ordered calls", mesh, tuple(manual), check_vma, *map(id, jaxpr.consts))
    jaxpr_without_calls, varying, _ = jaxpr.memoised(key, make)
    outputs = bind(*args, jaxpr=jaxpr_without_calls, out_specs=(*out_specs, *[PartitionSpec(axes) for axes in varying]),
                   **params)
    results, values = outputs[:len(out_specs)], zip(outputs[len(out_specs):], varying)
    for call in calls:
        operands = list(itertools.islice(values, len(call.invars)))
        for position in _device_positions(manual, mesh.shape, [axes for _, axes in operands]):
            call.primitive.impl(*[x[_row_index(position, axes, mesh.shape)] for x, axes in operands], **call.params)
    return results


def _device_positions(manual: list[str], sizes: Any, operand_axes: Sequence[tuple[str, ...]]) -> Iterator[dict[str, int]]:
    """Yield the positions of devices with different operands, in order."""
    axes = [axis for axis in manual if any([axis in names for names in operand_axes])]
    for position in itertools.product(*[range(sizes[axis]) for axis in axes]):
        yield dict(zip(axes, position))


def _row_index(position: dict[str, int], axes: tuple[str, ...], sizes: Any) -> int:
    """Return the row of the device at this position in an array sharded over these axes."""
    return sum([position[axis] * math.prod([sizes[inner] for inner in axes[k + 1:]]) for k, axis in enumerate(axes)])

"""What devices print in order in a `shard_map` that is called outside of compiled code.

Devices have no common order while they run. What an operation of such an order is given is a result more of the program, and
the user's function is called once it has run: in program order, and for each of them in the order of devices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xlafront.core import tracing
from xlafront.core.ir import ClosedJaxpr, JaxprEqn, eval_jaxpr
from xlafront.lax.shapes import expand_dims
from xlafront.parallel.shard_map_types import axes_in_scope
from xlafront.runtime.sharding import Mesh, PartitionSpec


def _needs_order(eqn: JaxprEqn) -> bool:
    return any([effect.ordered and not effect.ordered_over_devices for effect in eqn.effects])


def ordered_calls(jaxpr: ClosedJaxpr, mesh: Any) -> list[JaxprEqn]:
    """The calls of users' functions, of the program itself, that want an order in which the devices of this process are not."""
    if not jaxpr.jaxpr.effects or mesh.size == 1 or isinstance(mesh, Mesh) and mesh.is_multi_process:
        return []
    return [eqn for eqn in jaxpr.jaxpr.eqns if _needs_order(eqn) and not eqn.outvars and eqn.primitive.impl is not None]


def run_in_order(bind: Callable[..., list], args: Sequence[Any], calls: list[JaxprEqn], *, jaxpr: ClosedJaxpr,
                 out_specs: Sequence[Any], **params: Any) -> list:
    """`bind` of the program without these calls, which are made afterwards."""
    mesh, check = params["mesh"], params["check_vma"]
    manual = [axis for axis in mesh.axis_names if axis in params["newly_manual_axes"]]

    def make() -> tuple[ClosedJaxpr, list[tuple[str, ...]], Sequence[Any]]:
        left = [eqn for eqn in jaxpr.jaxpr.eqns if not any([eqn is call for call in calls])]
        given = [v for call in calls for v in call.invars]
        program = jaxpr.jaxpr.replace(eqns=left, outvars=[*jaxpr.jaxpr.outvars, *given])
        program = program.replace(effects=frozenset().union(*[eqn.effects for eqn in left]))

        def run(*parts):
            results = eval_jaxpr(program, jaxpr.consts, *parts)
            count = len(jaxpr.jaxpr.outvars)
            return [*results[:count], *[expand_dims(x, (0,)) for x in results[count:]]]

        with axes_in_scope(mesh, params["newly_manual_axes"], check):
            closed = tracing.trace_to_closed_jaxpr(run, jaxpr.in_avals, jaxpr.jaxpr.debug_info)
        varying = [tuple([axis for axis in manual if axis in v.aval.vma or not check]) for v in given]
        return closed, varying, jaxpr.consts  # whose addresses the key holds

    key = ("ordered calls", mesh, tuple(manual), check, *map(id, jaxpr.consts))
    program, varying, _ = jaxpr.jaxpr.memoised(key, make)
    found = bind(*args, jaxpr=program, out_specs=(*out_specs, *[PartitionSpec(axes) for axes in varying]), **params)
    results, values = found[:len(out_specs)], zip(found[len(out_specs):], varying)
    for call in calls:
        operands = list(itertools.islice(values, len(call.invars)))
        for at in _places(manual, mesh.shape, [axes for _, axes in operands]):
            call.primitive.impl(*[x[_number(at, axes, mesh.shape)] for x, axes in operands], **call.params)
    return results


def _places(manual: list[str], sizes: Any, over: Sequence[tuple[str, ...]]) -> Iterator[dict[str, int]]:
    """The places of devices that have different operands, in order."""
    axes = [axis for axis in manual if any([axis in some for some in over])]
    for at in itertools.product(*[range(sizes[axis]) for axis in axes]):
        yield dict(zip(axes, at))


def _number(at: dict[str, int], axes: tuple[str, ...], sizes: Any) -> int:
    """Which row the device at this place has in what is split over these axes."""
    return sum([at[axis] * math.prod([sizes[inner] for inner in axes[k + 1:]]) for k, axis in enumerate(axes)])

"""Programs in groups of processes: those that go over devices of several, and those that cannot be compiled as one."""

from __future__ import annotations

from typing import Any

from xlafront.core.avals import str_short
from xlafront.core.ir import Jaxpr, eval_jaxpr
from xlafront.parallel.host_local import to_global_p, to_local_p
from xlafront.runtime import distributed
from xlafront.staging.device_assignment import DeviceAssignment
from xlafront.staging.jit import Jitted, Traced, jit_p
from xlafront.staging.sharding_arguments import UNSPECIFIED
from xlafront.transforms.calls.custom_calls import CustomCall


def changes_groups(jaxpr: Jaxpr) -> bool:
    """Whether a program works on devices of this process and of all: XLA compiles programs for one group of devices."""
    def find():
        for eqn in jaxpr.eqns:
            if eqn.primitive in (to_global_p, to_local_p):
                if eqn.params["global_mesh"].is_multi_process:
                    return True
            elif isinstance(eqn.primitive, CustomCall):
                if changes_groups(eqn.params["call_jaxpr"].jaxpr):
                    return True
            elif eqn.primitive is jit_p and all([s is UNSPECIFIED for which in ("in_shardings", "out_shardings")
                                                 for s in eqn.params[which]]):  # else it has devices of its own
                if changes_groups(eqn.params["jaxpr"].jaxpr):
                    return True
        return False

    return jaxpr.memoised(("changes groups",), find)


def evaluate(jitted: Jitted, traced: Traced, leaves: list) -> Any:
    """Such a program: operation by operation, each compiled for its own devices."""
    from xlafront.lax.device_put import device_put

    results = eval_jaxpr(traced.closed.jaxpr, traced.closed.consts, *leaves)
    shardings = jitted.flat_out_shardings(traced.out_tree)
    return traced.out_tree.unflatten([
        x if s is UNSPECIFIED else device_put(x, s) for x, s in zip(results, shardings)])


def check_same(name: str, traced: Traced, assignment: DeviceAssignment) -> None:
    """Before a program over several processes first runs: whether the others are about to run the same.

    They would wait for each other for ever, each in a program of its own. Who is late is not waited for.
    """
    processes = {d.process_index for d in assignment.devices}
    if len(processes) < 2:
        return
    arguments = [f"{argument}: {str_short(aval)}" for argument, aval in zip(traced.debug_info.arg_names, traced.in_avals)]
    results = [str_short(aval) for aval in traced.closed.out_avals]
    words = [*arguments, f"-> {', '.join(results)}", f"over {[d.id for d in assignment.devices]}"]
    differences = distributed.agree_soon(name, words, processes)
    if differences:
        said = "; ".join(f"process {number} with {words}" for number, words in list(differences.items())[:4])
        raise ValueError(
            f"{name} is over the devices of processes {sorted(processes)}, and they call it differently: {said}. All of them "
            f"have to make the same calls in the same order, with arguments of the same shapes and dtypes: pad or drop what "
            f"one of them has less of.")

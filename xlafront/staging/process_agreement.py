"""Programs over several processes: a check that all of them run the same, and programs that XLA cannot compile as one."""

from __future__ import annotations

from xlafront.core.avals import str_short
from xlafront.core.ir import Jaxpr
from xlafront.runtime import distributed
from xlafront.staging.call_tracing import TracedCall
from xlafront.staging.device_assignment import DeviceAssignment


def changes_groups(jaxpr: Jaxpr) -> bool:
    """True if a program uses devices of this process alone and of all: XLA compiles a program for one group of devices."""
    return jaxpr.memoised(("changes groups",), lambda: any([
        (rule := eqn.primitive.mesh.changes_groups) is not None and rule(**eqn.params) for eqn in jaxpr.eqns]))


def check_same(name: str, traced: TracedCall, assignment: DeviceAssignment) -> None:
    """Raise if other processes are about to run another program, before one over several processes first runs.

    They would block forever, each in a program of its own. Processes that are late are not waited for.
    """
    processes = {d.process_index for d in assignment.devices}
    if len(processes) < 2:
        return
    arguments = [f"{argument}: {str_short(aval)}" for argument, aval in zip(traced.debug_info.arg_names, traced.in_avals)]
    results = [str_short(aval) for aval in traced.closed.out_avals]
    words = [*arguments, f"-> {', '.join(results)}", f"over {[d.id for d in assignment.devices]}"]
    differences = distributed.agree_soon(name, words, processes)
    if differences:
        others = "; ".join(f"process {number} with {words}" for number, words in list(differences.items())[:4])
        raise ValueError(
            f"{name} is over the devices of processes {sorted(processes)}, and they call it differently: {others}. All of them "
            f"have to make the same calls in the same order, with arguments of the same shapes and dtypes: pad the shorter "
            f"arguments, or truncate the longer ones.")

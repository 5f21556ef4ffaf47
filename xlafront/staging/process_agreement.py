"""Programs in groups of processes: those that go over devices of several, and those that cannot be compiled as one."""

from __future__ import annotations

from xlafront.core.avals import str_short
from xlafront.core.ir import Jaxpr
from xlafront.runtime import distributed
from xlafront.staging.caches import TracedCall
from xlafront.staging.device_assignment import DeviceAssignment


def changes_groups(jaxpr: Jaxpr) -> bool:
    """Whether a program works on devices of this process and of all: XLA compiles programs for one group of devices."""
    return jaxpr.memoised(("changes groups",), lambda: any([
        eqn.primitive.changes_groups is not None and eqn.primitive.changes_groups(**eqn.params) for eqn in jaxpr.eqns]))


def check_same(name: str, traced: TracedCall, assignment: DeviceAssignment) -> None:
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

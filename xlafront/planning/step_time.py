"""The time of a step on a machine that is not attached: kernels, collectives, and how far they overlap.

Kernels run one after another. The time of each is the compiler's estimate, or else its operations or its memory traffic at the
chip's peak rates, whichever takes longer; the operations of a Pallas kernel are those of its `cost_estimate`. Collectives that
the compiler starts early run beside kernels, all others alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlafront.planning import communication
from xlafront.planning.costs import Collective, Work
from xlafront.runtime.sharding import Mesh
from xlafront.runtime.topologies import Chip


def seconds(work: Work, collectives: Sequence[Collective], mesh: Mesh, chip: Chip) -> dict[str, float]:
    """Return the parts of the time of a step by name, and their sum as "step".

    Args:
        work: Work of each device.
        collectives: Collectives of each device.
        mesh: Mesh of the program.
        chip: Properties of its devices.

    Returns:
        Seconds: "compiler" (its estimate, if it has one, and Pallas kernels), "compute" and "memory" (all work at peak rates),
        "kernels", "collectives" (if there are any), "exposed" (the part of them beside which no kernel runs), "step".
    """
    found: dict[str, float] = {}
    if chip.clock and work.cycles:
        found["compiler"] = work.scheduled_seconds(chip.clock, chip.rate, chip.bandwidth)
    found |= {"compute": work.compute_seconds(chip.rate), "memory": work.bytes / chip.bandwidth}
    kernels = found.get("compiler") or work.seconds(chip.rate, chip.bandwidth)
    found["kernels"] = found["step"] = kernels
    if collectives:
        times = {c: communication.seconds(c, mesh, chip) for c in collectives}
        overlapping = sum([t for c, t in times.items() if c.overlaps])
        alone = sum([t for c, t in times.items() if not c.overlaps])
        exposed = alone + max(0.0, overlapping - kernels)
        found |= {"collectives": overlapping + alone, "exposed": exposed, "step": kernels + exposed}
    return found

"""Comparison of checkpoint policies: a plan of a training step for each.

The program is not changed. Its checkpoints get another policy; where it has none, it is planned as if the bodies of its scans
were checkpointed, or else the whole functions that it differentiates.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from xlafront.core import errors
from xlafront.core.ir import Jaxpr, subprograms
from xlafront.planning.compiling import plan
from xlafront.planning.placement import mesh_of, on_mesh, topology_of, trace_on
from xlafront.planning.report import Plan, columns, number, seconds, size
from xlafront.planning.topologies import TopologyDescription
from xlafront.runtime.sharding import Mesh
from xlafront.transforms.calls.checkpoint import checkpoint_policies, name_p, remat_p
from xlafront.transforms.calls.policy_override import Override, Place, override

AS_WRITTEN = "as written"


class Choice(NamedTuple):
    """A policy, with the plan of the step under it.

    Args:
        policy: Name of the policy, or "as written" for the program without a change.
        plan: Plan of the step.
    """

    policy: str
    plan: Plan

    @property
    def order(self) -> tuple:
        """The key by which choices are sorted: those that fit, the fastest, those with the least work and memory."""
        found = self.plan
        return found.fits is False, found.seconds.get("step", 0.0), found.flops or math.inf, found.memory.total


class RematPlan(NamedTuple):
    """The result of `plan_remat`. It prints as a table.

    Args:
        name, topology: Function and topology.
        place: Functions that are checkpointed: "each function in xf.checkpoint", "the body of each lax.scan" or "the
            differentiated function".
        choices: The policies, from the least memory to the most.
    """

    name: str
    topology: str
    place: str
    choices: list[Choice]

    @property
    def best(self) -> Choice | None:
        """The fastest choice that fits; None if none does."""
        found = min(self.choices, key=lambda c: c.order)
        return None if found.plan.fits is False else found

    def extra_flops(self, choice: Choice) -> float | None:
        """Return the operations that a device computes more under a choice than under the one with the fewest.

        Args:
            choice: One of `choices`.

        Returns:
            The number; None if the compiler failed.
        """
        counts = [c.plan.flops for c in self.choices if c.plan.flops is not None]
        return None if choice.plan.flops is None else choice.plan.flops - min(counts)

    def to_json(self, indent: int | None = 2) -> str:
        """Return all fields, with the plan of each policy, as JSON.

        Args:
            indent: Spaces of an indentation; None for one line.

        Returns:
            The text.
        """
        choices = [{"policy": c.policy, "extra_flops": self.extra_flops(c), "plan": c.plan.to_dict()} for c in self.choices]
        return json.dumps({"name": self.name, "topology": self.topology, "place": self.place,
                           "best": self.best.policy if self.best else None, "choices": choices}, indent=indent)

    def __repr__(self) -> str:
        return table(self)


def plan_remat(fun: Callable, *args: Any, topology: str | TopologyDescription | None = None, platform: str | None = None,
               mesh: Mesh | Mapping[str, int] | None = None, memory_limit: int | None = None,
               compiler_options: dict[str, Any] | None = None, policies: Mapping[str, Callable] | None = None,
               progress: Callable[[str], None] | None = None, **kwargs: Any) -> RematPlan:
    """Plan a training step for each policy of `checkpoint`, and choose the fastest that fits.

    The policies apply to each function in `xf.checkpoint`. In a program without one they apply to the bodies of its scans, or
    else to the functions that it differentiates.

    Args:
        fun, args, kwargs, topology, platform, mesh, memory_limit, compiler_options: As for `plan`.
        policies: Policies by name. Default: those of `checkpoint_policies` that save nothing, products of matrices, or
            everything; and one that saves the named values, where the step has some.
        progress: Function that is called with a line of text before each compilation.

    Returns:
        The plans. `best` is the choice, whose memory, work and time are in its `plan`.

    Example:
        >>> w = xf.ShapeDtypeStruct((4, 64, 64), "float32")
        >>> def loss(w, x):
        ...     return xnp.sum(xf.lax.scan(lambda x, w: (xnp.tanh(xnp.sin(x @ w)), None), x, w)[0])
        >>> found = xf.plan_remat(xf.grad(loss), w, xf.ShapeDtypeStruct((256, 64), "float32"))
        >>> found.place, found.choices[0].policy
        ('the body of each lax.scan', 'nothing_saveable')
    """
    if not callable(fun):
        raise errors.not_callable("plan_remat", fun)
    described = topology_of(topology, platform, mesh, args, kwargs)
    chosen = mesh_of(mesh, described.devices, args, kwargs)
    place, names = _place(fun, chosen, args, kwargs)
    given: dict[str, Override | None] = {
        name: Override(policy, place) for name, policy in (policies or _policies(names)).items()}
    given = {AS_WRITTEN: None} | given
    if place is not Place.CHECKPOINTS and policies is None:  # as written, everything is saved
        del given["everything_saveable"]
    choices = []
    for i, (name, one) in enumerate(given.items()):
        if progress is not None:
            progress(f"policy {i + 1} of {len(given)}: {name}")
        with override(one):
            choices.append(Choice(name, plan(fun, *args, topology=topology, platform=platform, mesh=mesh,
                                             memory_limit=memory_limit, compiler_options=compiler_options, **kwargs)))
    choices.sort(key=lambda c: (c.plan.memory.total, c.order))
    return RematPlan(choices[0].plan.name, choices[0].plan.topology, place.value, choices)


def _place(fun: Callable, mesh: Mesh, args: tuple, kwargs: dict[str, Any]) -> tuple[Place, list[str]]:
    """Return where policies apply, and the names of values in the program."""
    for place in Place:
        with override(Override(checkpoint_policies.nothing_saveable, place)):
            jaxpr = trace_on(mesh, fun, *on_mesh(fun, mesh, args, kwargs)).jaxpr
        equations = list(_equations(jaxpr))
        if any(eqn.primitive is remat_p for eqn in equations):
            return place, sorted({eqn.params["name"] for eqn in equations if eqn.primitive is name_p})
    raise ValueError(f"{getattr(fun, '__name__', 'the function')} saves nothing for a derivative: it has no xf.checkpoint, and "
                     f"differentiates neither a lax.scan nor a function by xf.grad or xf.value_and_grad. Plan the training "
                     f"step, with its gradient.")


def _equations(jaxpr: Jaxpr) -> Iterator[Any]:
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in subprograms(eqn.params):
            yield from _equations(inner)


def _policies(names: list[str]) -> dict[str, Callable]:
    members = ("nothing_saveable", "dots_with_no_batch_dims_saveable", "dots_saveable", "everything_saveable")
    found = {name: getattr(checkpoint_policies, name) for name in members}
    if names:
        found[f"save_only_these_names({', '.join(map(repr, names))})"] = checkpoint_policies.save_only_these_names(*names)
    return found


# The table


def table(found: RematPlan) -> str:
    """Return the table of policies, from the least memory to the most, and below it which to use."""
    least = min([c.plan.flops or math.inf for c in found.choices])
    rows: list[tuple[str, ...]] = [("policy", "memory", "", "extra FLOPs", "", "step")]
    for c in found.choices:
        extra = found.extra_flops(c)
        work = ("", "") if extra is None else (number(extra), f"{extra / least:.0%}" if extra else "")
        fits = {True: "fits", False: "too much", None: ""}[c.plan.fits]
        step = seconds(c.plan.seconds["step"]) if c.plan.seconds else ""
        rows.append((c.policy, size(c.plan.memory.total), fits, *work, step))
    limit = found.choices[0].plan.memory.limit
    hint = [_LAYERS] if found.place == Place.LOSSES.value else []
    lines = [f"{found.name} on {found.topology}: memory of each device{f', of {size(limit)}' if limit else ''}, by what "
             f"{found.place} saves", "", *columns(rows, "lrlrrr"), "", _advice(found),
             *hint]
    return "\n".join(lines)


_LAYERS = ("The program has no xf.checkpoint: with one around each layer, only the values of one layer are recomputed at a "
           "time, which takes less memory than these.")


def _advice(found: RematPlan) -> str:
    best = found.best
    if best is None:
        least = found.choices[0].plan.memory
        over = f": {size(least.total)} of {size(least.limit)} at least" if least.limit else ""
        return f"No policy fits{over}. More chips, a smaller batch, or bfloat16 would help."
    if best.policy == AS_WRITTEN:
        return "The fastest that fits: the program as written."
    if found.place == Place.CHECKPOINTS.value:
        return f"The fastest that fits: xf.checkpoint(..., policy=xf.checkpoint_policies.{best.policy})"
    what = "body" if found.place == Place.SCANS.value else "loss"
    return f"The fastest that fits: xf.checkpoint({what}, policy=xf.checkpoint_policies.{best.policy})"

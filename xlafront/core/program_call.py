"""Primitives that call a jaxpr on their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core.discharge import discharge_program
from xlafront.core.ir import (
    Jaxpr,
    JaxprEqn,
    dce_closed,
    dependent_results,
    effects_by_operand,
    keeps_alive,
)
from xlafront.core.primitive import Primitive, Structured, Traits
from xlafront.core.refs import AbstractRef

# The origin of an operand or result of a derived call: its index among the operands and then the results of the original call,
# or None if it is new.
Place = int | None


class ProgramCall(Primitive):
    """A primitive that calls a jaxpr on its operands and returns the results of the jaxpr.

    It needs no rules for transformations: transforming a call gives a call of the transformed jaxpr (`jvp_of_call`,
    `linearize_of_call`, `transpose_of_call`, `batch_of_call`, `split_call`), unless the primitive has a rule all the same.
    It needs no rule for references either (`core.discharge`). `parameter` is the name of the parameter that holds the
    jaxpr. If other parameters describe the operands or results one by one, a subclass overrides `derived`, `pruned` and
    `batched`, which adapt them.

    Example:
        >>> block_p = ProgramCall("block", lower=lambda ctx, *operands, jaxpr: ctx.call(jaxpr, operands, "block"))
    """

    __slots__ = ("parameter",)

    def __init__(self, name: str, *, parameter: str = "jaxpr", abstract: Callable | None = None,
                 structured: Structured = Structured(), traits: Traits = Traits(), **fields: Any) -> None:
        self.parameter = parameter
        super().__init__(
            name, multiple_results=True, abstract=abstract or (lambda *_, **params: params[parameter].out_avals),
            effects=lambda *_, **params: effects_by_operand(params[parameter]),
            structured=structured._replace(dce=self._dce, discharge=self._discharge, depends=self._depends),
            traits=traits._replace(memoise=False), **fields)

    def _depends(self, operands: Sequence[bool], /, **params: Any) -> list[bool]:
        return dependent_results(params[self.parameter].structure, operands)

    def derived(self, params: dict[str, Any], program: Jaxpr, ins: Sequence[Place], outs: Sequence[Place]
                ) -> dict[str, Any]:
        """Return the parameters for a call of a jaxpr derived from this one.

        `ins` and `outs` give the origin of each of its operands and results.
        """
        return params | {self.parameter: program}

    def primal_params(self, params: dict[str, Any], program: Jaxpr, ins: Sequence[Place], outs: Sequence[Place],
                      undonated: Sequence[int] = ()) -> dict[str, Any]:
        """Return `derived` parameters for a jaxpr that computes the results of this one.

        The operands `undonated` keep their memory: other derived jaxprs read them again, or they are passed twice.
        """
        return self.derived(params, program, ins, outs)

    def pruned(self, params: dict[str, Any], program: Jaxpr, ins: Sequence[int], outs: Sequence[int]) -> dict[str, Any]:
        """Return `derived` parameters for a jaxpr that only computes fewer results from fewer operands."""
        return self.derived(params, program, ins, outs)

    def batched(self, params: dict[str, Any], program: Jaxpr, dims: Sequence[int | None], out_dims: Sequence[int | None],
                broadcast_over: Any) -> dict[str, Any]:
        """Return the parameters for a call on batches.

        `broadcast_over` names the mesh axes over which the batch is sharded.
        """
        return params | {self.parameter: program}

    def call(self, params: dict[str, Any], program: Jaxpr, operands: Sequence[Any], ins: Sequence[Place],
             outs: Sequence[Place]) -> list[Any]:
        """Call a jaxpr that was derived from this one by linearization or transposition."""
        return self._bind(self.derived(params, program, ins, outs), program, operands)

    def call_primal(self, params: dict[str, Any], program: Jaxpr, operands: Sequence[Any], ins: Sequence[Place],
                    outs: Sequence[Place], undonated: Sequence[int]) -> list[Any]:
        """Call a jaxpr that computes the results of this one; see `primal_params`."""
        return self._bind(self.primal_params(params, program, ins, outs, undonated), program, operands)

    def _bind(self, params: dict[str, Any], program: Jaxpr, operands: Sequence[Any]) -> list[Any]:
        if any([type(v.aval) is AbstractRef for v in program.constvars]):  # of a rule that closes over a reference
            return program(*operands)
        return self.bind(*operands, **params)

    def _dce(self, used: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
        closed, count = eqn.params[self.parameter], len(eqn.invars)
        program, read = dce_closed(closed, used)
        if program.structure is closed.structure:
            return eqn
        if not any(used) and not keeps_alive(program.effects):
            return None
        ins = [i for i, r in enumerate(read) if r]
        outs = [i for i, u in enumerate(used) if u]
        return eqn.replace(invars=[eqn.invars[i] for i in ins], outvars=[eqn.outvars[i] for i in outs],
                           params=self.pruned(eqn.params, program, ins, [count + i for i in outs]))

    def _discharge(self, primitive: Primitive, refs: Sequence[Any], operands: Sequence[Any], params: dict[str, Any],
                   keep_rules: bool) -> tuple[list[Any], dict[int, Any]]:
        """Call the discharged jaxpr in the same way."""
        closed, count = params[self.parameter], len(operands)
        program, written = discharge_program(closed, [r is not None for r in refs], keep_rules)
        outs = range(count, count + len(closed.out_avals))
        found = self.call_primal(params, program, operands, range(count), [*outs, *[None] * len(written)], range(count))
        return found[:len(outs)], dict(zip(written, found[len(outs):]))

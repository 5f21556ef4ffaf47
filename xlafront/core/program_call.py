"""Operations that call a program: what transformations ask of them in order to call what they make of it in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlafront.core.discharge import discharge_program
from xlafront.core.ir import ClosedJaxpr, JaxprEqn, dce_closed, dependent_results, effects_by_operand, eval_jaxpr, keeps_alive
from xlafront.core.primitive import Primitive
from xlafront.core.refs import AbstractRef

# Where an operand or a result of a derived call comes from: its number among the operands and then the results of the call
# that it is derived from, None where it is new.
Place = int | None


class ProgramCall(Primitive):
    """An operation that calls a program on its operands, and has the results of the program.

    Such a primitive needs no rules for transformations: what they make of a call is a call of what they make of the program
    (`jvp_of_call`, `linearize_of_call`, `transpose_of_call`, `batch_of_call`, `split_call`), unless its record has a rule all
    the same; nor for references (`core.discharge`). `parameter` is the one that holds the program. Where others say something
    of each operand or result, a subclass defines what becomes of them: `derived`, `pruned`, `batched`.

    >>> block_p = ProgramCall("block", lower=lambda ctx, *operands, jaxpr: ctx.call(jaxpr, operands, "block"))
    """

    __slots__ = ()

    def __init__(self, name: str, *, parameter: str = "jaxpr", **fields):
        self.parameter = parameter
        super().__init__(
            name, multiple_results=True, memoise=False, abstract=lambda *_, **params: params[parameter].out_avals,
            effects=lambda *_, **params: effects_by_operand(params[parameter]), dce=self._dce, discharge=self._discharge,
            **fields)

    def depends(self, operands: Sequence[bool], /, **params) -> list[bool]:
        return dependent_results(params[self.parameter].jaxpr, operands)

    def derived(self, params: dict[str, Any], program: ClosedJaxpr, ins: Sequence[Place], outs: Sequence[Place]
                ) -> dict[str, Any]:
        """The parameters of a call of another program, whose operands and results are like those at these places."""
        return params | {self.parameter: program}

    def of_values(self, params: dict[str, Any], program: ClosedJaxpr, ins: Sequence[Place], outs: Sequence[Place],
                  read_later: Sequence[int] = ()) -> dict[str, Any]:
        """As `derived`, for what computes the results of this program; what else is made of it reads `read_later` again."""
        return self.derived(params, program, ins, outs)

    def pruned(self, params: dict[str, Any], program: ClosedJaxpr, ins: Sequence[int], outs: Sequence[int]) -> dict[str, Any]:
        """As `derived`, where the program only computes less."""
        return self.derived(params, program, ins, outs)

    def batched(self, params: dict[str, Any], program: ClosedJaxpr, dims: Sequence[int | None], out_dims: Sequence[int | None],
                spread_over: Any) -> dict[str, Any]:
        """The parameters of the call on batches; `spread_over` names the axes of a mesh over which their elements are."""
        return params | {self.parameter: program}

    def call(self, params: dict[str, Any], program: ClosedJaxpr, operands: Sequence[Any], ins: Sequence[Place],
             outs: Sequence[Place]) -> list[Any]:
        """Call a program that was made from this one."""
        return self._bind(self.derived(params, program, ins, outs), program, operands)

    def call_of_values(self, params: dict[str, Any], program: ClosedJaxpr, operands: Sequence[Any], ins: Sequence[Place],
                       outs: Sequence[Place], read_later: Sequence[int]) -> list[Any]:
        """As `call`, of what computes the results of this program; see `of_values`."""
        return self._bind(self.of_values(params, program, ins, outs, read_later), program, operands)

    def _bind(self, params: dict[str, Any], program: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
        if any([type(v.aval) is AbstractRef for v in program.jaxpr.constvars]):  # from a rule that closes over a reference
            return eval_jaxpr(program.jaxpr, program.consts, *operands)
        return self.bind(*operands, **params)

    def _dce(self, used: Sequence[bool], eqn: JaxprEqn) -> JaxprEqn | None:
        closed, count = eqn.params[self.parameter], len(eqn.invars)
        program, read = dce_closed(closed, used)
        if program.jaxpr is closed.jaxpr:
            return eqn
        if not any(used) and not keeps_alive(program.effects):
            return None
        ins = [i for i, r in enumerate(read) if r]
        outs = [i for i, u in enumerate(used) if u]
        return eqn.replace(invars=[eqn.invars[i] for i in ins], outvars=[eqn.outvars[i] for i in outs],
                           params=self.pruned(eqn.params, program, ins, [count + i for i in outs]))

    def _discharge(self, primitive, refs: Sequence[Any], operands: Sequence[Any], params: dict[str, Any], keep_rules: bool
                   ) -> tuple[list[Any], dict[int, Any]]:
        """What the program of values does, called in the same way."""
        closed, count = params[self.parameter], len(operands)
        program, written = discharge_program(closed, [r is not None for r in refs], keep_rules)
        outs = range(count, count + len(closed.out_avals))
        found = self.call(params, program, operands, range(count), [*outs, *[None] * len(written)])
        return found[:len(outs)], dict(zip(written, found[len(outs):]))

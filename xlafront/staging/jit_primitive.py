"""`jit` as a primitive: the type rule, the lowering and the derived parameters of a call of a jitted function in a jaxpr.

The record itself, `jit_p`, is made in `staging/jitted.py`: evaluating it makes a jitted function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront.base.meshes import empty_mesh
from xlafront.core.ir import Jaxpr, JaxprEqn
from xlafront.core.program_call import ProgramCall
from xlafront.lowering import mlir
from xlafront.staging import module_shardings, process_agreement, sharding_arguments
from xlafront.staging.inlining import Inline
from xlafront.staging.sharding_arguments import UNSPECIFIED


def call_params(program: Jaxpr, name: str, *, inline: bool | Inline, donated: Sequence[bool] | None = None,
                in_shardings: Sequence[Any] | None = None, out_shardings: Sequence[Any] | None = None,
                in_layouts: Sequence[Any] | None = None, out_layouts: Sequence[Any] | None = None,
                compiler_options: tuple = (), keep_unused: bool = False) -> dict[str, Any]:
    """Return the parameters of a `jit` equation that calls `program` outside of any mesh context."""
    ins, outs = len(program.invars), len(program.outvars)
    return {
        "jaxpr": program, "name": name, "donated_invars": tuple(donated or (False,) * ins),
        "in_shardings": tuple(in_shardings or (UNSPECIFIED,) * ins),
        "out_shardings": tuple(out_shardings or (UNSPECIFIED,) * outs), "in_layouts": tuple(in_layouts or (None,) * ins),
        "out_layouts": tuple(out_layouts or (None,) * outs), "ctx_mesh": empty_mesh, "keep_unused": keep_unused,
        "inline": inline, "compiler_options_kvs": compiler_options}


class JitCall(ProgramCall):
    """A call of a jitted function: operands and results have shardings, and operands may be donated."""

    __slots__ = ()

    def derived(self, params, program, ins, outs):
        """Donate nothing: a derived call may need its operands again."""
        shardings, unspecified = (*params["in_shardings"], *params["out_shardings"]), UNSPECIFIED
        return params | {
            "jaxpr": program, "donated_invars": (False,) * len(ins), "in_layouts": (None,) * len(ins),
            "out_layouts": (None,) * len(outs),
            "in_shardings": tuple([unspecified if p is None else shardings[p] for p in ins]),
            "out_shardings": tuple([unspecified if p is None else shardings[p] for p in outs])}

    def primal_params(self, params, program, ins, outs, undonated=()):
        """Donate what the call itself donates, except operands that are read again."""
        donated = params["donated_invars"]
        return self.derived(params, program, ins, outs) | {
            "donated_invars": tuple([donated[i] and i not in undonated for i in ins])}

    def pruned(self, params, program, ins, outs):
        donated = params["donated_invars"]
        return self.derived(params, program, ins, outs) | {"donated_invars": tuple([donated[i] for i in ins])}

    def batched(self, params, program, dims, out_dims, broadcast_over):
        def on_batches(shardings, where):
            return tuple([s if d is None else sharding_arguments.of_batches(s, d, broadcast_over)
                          for s, d in zip(shardings, where)])

        return params | {"jaxpr": program, "in_shardings": on_batches(params["in_shardings"], dims),
                         "out_shardings": on_batches(params["out_shardings"], out_dims)}


def check_no_options(name: str, compiler_options: tuple) -> None:
    """Raise if a call inside another program has compiler options."""
    if compiler_options:
        raise ValueError(f"{name} was jitted with compiler_options {dict(compiler_options)} and called inside another program, "
                         f"which is compiled as a whole: options are for a top-level jit. Pass them to that one.")


def is_compiled_alone(eqn: JaxprEqn) -> bool:
    """True if an equation is a call with compiler options, which cannot be part of a larger program."""
    return bool(eqn.params.get("compiler_options_kvs"))


def changes_groups(*, jaxpr, in_shardings, out_shardings, **_):
    """True if the program does; a call with shardings has devices of its own."""
    return all([s is UNSPECIFIED for s in (*in_shardings, *out_shardings)]) and process_agreement.changes_groups(jaxpr)


_INLINED = (True, Inline.JAX_EARLY)


def _marks(inline: bool | Inline) -> dict[str, Any]:
    """Return the attributes by which a call says when XLA inlines it."""
    return {} if inline is False else {"mhlo.frontend_attributes": mlir.attribute(f'{{inlineable = "{inline.value}"}}')}


def lower_call(ctx, *operands, jaxpr, name, inline, in_shardings, out_shardings, compiler_options_kvs=(), **_):
    """Lower a call to one of a function of the module, or to the operations of a program that is to be inlined."""
    check_no_options(name, compiler_options_kvs)
    operands = module_shardings.constrain(ctx, operands, jaxpr.in_avals, in_shardings)
    if inline in _INLINED or _returns_sparse_update(jaxpr):
        results = ctx.inline(jaxpr, operands)
    else:
        results = ctx.called(f"jit({name})").call(jaxpr, operands, name, **_marks(inline))
    return module_shardings.constrain(ctx, results, jaxpr.out_avals, out_shardings)


_SMALL = 32  # equations


def _returns_sparse_update(jaxpr: Jaxpr) -> bool:
    """True if a small program returns zeros with an update at a few positions, as the gradient of indexing does.

    Inlined, the result is a sparse value (`Body.sparse`), which a sum adds to other gradients at these positions only. In a
    function of its own it would be a dense array.
    """
    def find():
        makers = {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}

        def is_sparse(v) -> bool:
            eqn = makers.get(v)
            if eqn is None:
                return False
            if eqn.primitive.structured.only_calls_program:
                return _returns_sparse_update(eqn.params["jaxpr"])
            zeros = makers.get(eqn.invars[0]) if eqn.primitive.name in ("dynamic_update_slice", "scatter_add") else None
            return (zeros is not None and zeros.primitive.name == "broadcast_in_dim" and zeros.invars[0].is_literal
                    and not np.any(zeros.invars[0].val))

        return len(jaxpr.eqns) <= _SMALL and any([not v.is_literal and is_sparse(v) for v in jaxpr.outvars])

    return jaxpr.memoised(("returns sparse update",), find)

"""Operations that say what a checkpoint saves and recomputes of a function with rules of its own (`custom_vjp.defremat`)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from xlafront.core.ir import Jaxpr, JaxprEqn, any_equation
from xlafront.core.primitive import KeyUse, MeshRules, Primitive, Structured, Traits
from xlafront.core.sharding_types import of_first
from xlafront.lax import sharding_rules
from xlafront.lax.shapes import broadcast_batch

if TYPE_CHECKING:
    from xlafront.core.ir import Var

# `saved_p`: its operand is saved by a checkpoint, whatever the policy.
saved_p = Primitive(
    "saved", abstract=lambda x: x, lower=lambda ctx, x: x, impl=lambda x: x,
    jvp=lambda primals, tangents: (saved_p.bind(*primals), tangents[0]),
    batch=lambda size, xs, dims: (saved_p.bind(xs[0]), dims[0]),
    mesh=MeshRules(sharding_rule=sharding_rules.same, sums=of_first), traits=Traits(key_use=KeyUse.FORWARDS))


def _partial_eval(eqn: JaxprEqn, policy: Any) -> tuple[JaxprEqn, JaxprEqn, list[Var]]:
    """Return the equation for the first computation, which reads the first operand, and for the recomputation."""
    first, recomputed = eqn.invars
    return eqn.replace(invars=[first, first]), eqn.replace(invars=[recomputed, recomputed]), []


# `recomputed_p(x, y)`: a value as it is computed first, x, and as it is recomputed, y.
recomputed_p = Primitive(
    "recomputed", abstract=lambda x, y: x, lower=lambda ctx, x, y: x, impl=lambda x, y: x,
    jvp=lambda primals, tangents: (recomputed_p.bind(*primals), tangents[0]),
    batch=lambda size, xs, dims: (recomputed_p.bind(*[broadcast_batch(x, d, size) for x, d in zip(xs, dims)]), 0),
    mesh=MeshRules(sharding_rule=sharding_rules.same, sums=of_first), structured=Structured(partial_eval=_partial_eval),
    traits=Traits(key_use=KeyUse.FORWARDS))


def saves_values(jaxpr: Jaxpr) -> bool:
    """True if a jaxpr contains an operation whose result every policy saves."""
    return any_equation(jaxpr, "saves values", lambda eqn: eqn.primitive is saved_p)


class _State(threading.local):
    depth = 0


_state = _State()


class tracing_checkpoint:
    """The function of a checkpoint is traced inside a `with` block."""

    __slots__ = ()

    def __enter__(self) -> None:
        _state.depth += 1

    def __exit__(self, *_: object) -> None:
        _state.depth -= 1


def in_checkpoint() -> bool:
    """True while the function of a checkpoint is traced."""
    return _state.depth > 0

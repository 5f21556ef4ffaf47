"""Views of the primitives' records as the mappings that extensions write their rules into.

`registry[primitive] = rule` fills one field of the record and reading gives that field back, so that there is one
place that knows a rule, whoever wrote it. A rule that speaks another signature than the field is adapted on its way
in, and the adapter remembers it for the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any

from xlafront.control import cond, reduce, scan, solves, while_loop  # noqa: F401 (the registries list all primitives)
from xlafront.core import tracing
from xlafront.core.dtypes import python_scalar_dtypes
from xlafront.core.primitive import Primitive, known_primitives
from xlafront.lax import (  # noqa: F401 (as above)
    barriers,
    collectives,
    cumulative,
    roll,
    sharding_constraint,
    sorting,
    splitting,
)


def arrays(values: Sequence[Any]) -> Sequence[Any]:
    """The operands of a rule from outside: Python numbers as arrays, so that all of them have a shape and a dtype."""
    if not any(type(x) in python_scalar_dtypes for x in values):
        return values
    from xlafront.numpy import asarray

    with tracing.ensure_compile_time_eval():
        return [asarray(x) if type(x) in python_scalar_dtypes else x for x in values]


class Registry(MutableMapping):
    """One field of all primitives, as a mapping from primitive to rule.

    - `adapt(primitive, rule)`: the field for a rule from outside.
    - `present(primitive, field)`: the rule that a field of our own amounts to.
    """

    def __init__(self, name: str, field: str, adapt: Callable[[Primitive, Callable], Any] | None = None,
                 present: Callable[[Primitive, Any], Callable] | None = None):
        self.name = name
        self.field = field
        self.adapt = adapt
        self.present = present

    def __getitem__(self, primitive: Primitive) -> Callable:
        value = getattr(primitive, self.field) if isinstance(primitive, Primitive) else None
        if value is None:
            raise KeyError(f"{self.name} has no rule for {primitive}")
        given = getattr(value, "rule_as_given", None)
        if given is not None:
            return given
        return value if self.present is None else self.present(primitive, value)

    def __setitem__(self, primitive: Primitive, rule: Callable) -> None:
        if not isinstance(primitive, Primitive):
            raise TypeError(f"{self.name} takes primitives as keys, got {type(primitive).__name__}: {primitive!r}")
        if not callable(rule):
            raise TypeError(f"{self.name}[{primitive}] takes a function, got {type(rule).__name__}: {rule!r}")
        if self.adapt is None:
            setattr(primitive, self.field, rule)
            return
        adapted = self.adapt(primitive, rule)
        adapted.rule_as_given = rule
        setattr(primitive, self.field, adapted)

    def __delitem__(self, primitive: Primitive) -> None:
        self[primitive]
        setattr(primitive, self.field, None)

    def __contains__(self, primitive: object) -> bool:
        return isinstance(primitive, Primitive) and getattr(primitive, self.field) is not None

    def __iter__(self) -> Iterator[Primitive]:
        return iter([p for p in list(known_primitives) if getattr(p, self.field) is not None])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self):
        return f"<{self.name}: rules of {len(self)} primitives>"

"""Registries of rules: views of fields of primitives, as mappings from primitive to rule.

`registry[primitive] = rule` sets one field of the primitive, and reading returns it, so that each rule is stored in one place.
A rule with another signature than the field's is wrapped when it is set, and the wrapper remembers it for reading.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any

from xlafront import numpy as xnp
from xlafront.control import (  # noqa: F401 (the registries list all primitives)
    cond,
    reduce,  # noqa: F401 (the registries list all primitives)
    scan,
    solves,
    while_loop,
)
from xlafront.core import errors, tracing
from xlafront.core.dtypes import python_scalar_dtypes
from xlafront.core.primitive import Primitive, known_primitives
from xlafront.core.program_call import ProgramCall
from xlafront.lax import (  # noqa: F401 (as above)
    barriers,
    collectives,
    cumulative,
    roll,
    sharding_constraint,
    sorting,
    splitting,
)


def arrays(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return the operands of an external rule, with Python scalars as arrays, so that all have a shape and a dtype."""
    if not any(type(x) in python_scalar_dtypes for x in values):
        return tuple(values)
    with tracing.ensure_compile_time_eval():
        return tuple([xnp.asarray(x) if type(x) in python_scalar_dtypes else x for x in values])


class Registry(MutableMapping):
    """One field of all primitives, as a mapping from primitive to rule.

    Args:
        name: Name in messages.
        field: Field of the record, or `section.field`.
        of_calls: The rule that all operations that call a program have; it takes the primitive first.
    """

    def __init__(self, name: str, field: str, adapt: Callable[[Primitive, Callable], Any] | None = None,
                 present: Callable[[Primitive, Any], Callable] | None = None, of_calls: Callable | None = None):
        self.name = name
        self.section, _, self.field = field.rpartition(".")
        self.adapt = adapt
        self.present = present
        self.of_calls = of_calls

    def of(self, primitive: Primitive) -> Callable | None:
        """The rule in the primitive's record, or that of calls."""
        rule = getattr(getattr(primitive, self.section) if self.section else primitive, self.field)
        if rule is None and self.of_calls is not None and isinstance(primitive, ProgramCall):
            return functools.partial(self.of_calls, primitive)
        return rule

    def __getitem__(self, primitive: Primitive) -> Callable:
        value = self.of(primitive) if isinstance(primitive, Primitive) else None
        if value is None:
            raise KeyError(f"{self.name} has no rule for {primitive}")
        given = getattr(value, "rule_as_given", None)
        if given is not None:
            return given
        return value if self.present is None else self.present(primitive, value)

    def __setitem__(self, primitive: Primitive, rule: Callable) -> None:
        if not isinstance(primitive, Primitive):
            raise TypeError(f"{self.name} takes primitives as keys, got {type(primitive).__name__}: {primitive!r}")
        if rule is not None and not callable(rule):
            raise errors.not_callable(f"{self.name}[{primitive}]", rule, "a rule")
        if self.adapt is None or rule is None:  # None: there is no rule
            self.write(primitive, rule)
            return
        adapted = self.adapt(primitive, rule)
        adapted.rule_as_given = rule
        self.write(primitive, adapted)

    def __delitem__(self, primitive: Primitive) -> None:
        self[primitive]
        self.write(primitive, None)

    def write(self, primitive: Primitive, rule: Callable | None) -> None:
        if self.section:
            setattr(primitive, self.section, getattr(primitive, self.section)._replace(**{self.field: rule}))
        else:
            setattr(primitive, self.field, rule)

    def __contains__(self, primitive: object) -> bool:
        return isinstance(primitive, Primitive) and self.of(primitive) is not None

    def __iter__(self) -> Iterator[Primitive]:
        return iter([p for p in known_primitives if self.of(p) is not None])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self):
        return f"<{self.name}: rules of {len(self)} primitives>"

"""Calls from outside of programs that take references: the compiled program takes and returns what the references hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.core import errors
from xlafront.core.discharge import discharge_program
from xlafront.core.ir import ClosedJaxpr, jaxpr_as_fun
from xlafront.core.refs import AbstractRef, RefBox
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.runtime.jaxlib_compat import NamedSharding


class RefBoundary:
    """A traced function that takes references or closes over them, as one of values.

    Its inputs are the references that it closes over and then its arguments, its results those of the function and then
    what the references hold that it writes to. Their memory is donated: a reference that shares its array gets its own first.
    """

    def __init__(self, traced, name: str):
        self.name, self.traced = name, traced
        closed = traced.closed
        jaxpr = closed.jaxpr
        pairs = list(zip(jaxpr.constvars, closed.consts))
        outer = [(v, c) for v, c in pairs if type(v.aval) is AbstractRef]
        rest = [(v, c) for v, c in pairs if type(v.aval) is not AbstractRef]
        self.outer = [c for _, c in outer]
        program = jaxpr.replace(constvars=[v for v, _ in rest], invars=[*[v for v, _ in outer], *jaxpr.invars])
        self.refs = [type(v.aval) is AbstractRef for v in program.invars]
        self.program, self.written = discharge_program(ClosedJaxpr(program, [c for _, c in rest]))
        self.run = jaxpr_as_fun(self.program)
        # By options and layout: what is compiled, and what is called.
        self.on_values: dict[tuple, tuple[Any, Callable]] = {}

    def inputs(self, leaves: Sequence[Any]) -> list[Any]:
        """The references and the other arguments, where no reference is among them twice."""
        inputs = [*self.outer, *leaves]
        boxes = [x for x, is_ref in zip(inputs, self.refs) if is_ref]
        if len(set(map(id, boxes))) < len(boxes):
            seen: dict[int, int] = {}
            for i, x in enumerate(inputs):
                k = seen.setdefault(id(x), i)
                if k != i and self.refs[i]:
                    raise errors.reference_twice(self.name, x.aval, f"{self._name_of(k)} and {self._name_of(i)}")
        return inputs

    def _name_of(self, i: int) -> str:
        if i < len(self.outer):
            return "from outside"
        return f"argument {self.traced.debug_info.arg_names[i - len(self.outer)]}"

    def values(self, inputs: Sequence[Any], copied: Callable) -> list[Any]:
        """What the program takes: arrays, in place of references to write to such that nobody else holds."""
        values = []
        for i, (x, is_ref) in enumerate(zip(inputs, self.refs)):
            if is_ref:
                if not isinstance(x, RefBox):
                    raise errors.reference_of_rule(x.aval)
                array = x.value(f"passed to {self.name}")
                values.append(copied(array) if i in self.written and x.shared else array)
            else:
                values.append(x)
        return values

    def finish(self, inputs: Sequence[Any], results: Sequence[Any]) -> Any:
        """The references hold what has been written to them; the results of the function."""
        count = self.traced.out_tree.num_leaves
        for i, new in zip(self.written, results[count:]):
            inputs[i].replace(new, shared=False)
        return self.traced.out_tree.unflatten(results[:count])

    def layout(self, inputs: Sequence[Any]) -> tuple:
        """Of each reference that is written to, how its array lies where that is over several devices: so it stays."""
        return tuple([self._over_devices(inputs[i]) for i in self.written])

    def _over_devices(self, x):
        sharding = (x.value(f"passed to {self.name}") if isinstance(x, RefBox) else x).sharding
        return sharding if isinstance(sharding, NamedSharding) and sharding.num_devices > 1 else None


def boundary_of(traced, name: str) -> RefBoundary:
    """That of a traced function, made once."""
    return traced.closed.jaxpr.memoised(("boundary",), lambda: RefBoundary(traced, name))


def stand_ins(boundary: RefBoundary, inputs: Sequence[Any]) -> list[Any]:
    """What the program of values is lowered for: arrays, or their types."""
    def stand_in(x, is_ref):
        if is_ref and isinstance(x, RefBox):
            return x.array
        if is_ref:
            aval = x.inner_aval if isinstance(x, AbstractRef) else x
            return ShapeDtypeStruct(aval.shape, aval.dtype, sharding=getattr(x, "sharding", None), weak_type=aval.weak_type)
        return x

    return [stand_in(x, is_ref) for x, is_ref in zip(inputs, boundary.refs)]

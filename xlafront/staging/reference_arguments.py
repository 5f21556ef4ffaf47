"""References as arguments: the compiled program takes the arrays that they hold and returns those that it writes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlafront.base.jaxlib_compat import NamedSharding
from xlafront.core import errors
from xlafront.core.discharge import discharge_program
from xlafront.core.ir import Jaxpr
from xlafront.core.refs import AbstractRef, RefBox
from xlafront.core.structs import ShapeDtypeStruct
from xlafront.staging.call_tracing import TracedCall
from xlafront.staging.sharding_arguments import UNSPECIFIED
from xlafront.staging.signatures import Call


class DischargedProgram:
    """A program that takes references or closes over them, as a jaxpr of arrays (`closed`).

    Its inputs are the references that it closes over, then its arguments. Its results are those of the program, then the final
    arrays of the references that it writes to.
    """

    def __init__(self, closed: Jaxpr):
        pairs = list(zip(closed.constvars, closed.consts))
        captured = [(v, c) for v, c in pairs if type(v.aval) is AbstractRef]
        rest = [(v, c) for v, c in pairs if type(v.aval) is not AbstractRef]
        self.captured = [c for _, c in captured]
        program = closed.replace(constvars=[v for v, _ in rest], consts=[c for _, c in rest],
                                 invars=[*[v for v, _ in captured], *closed.invars])
        self.is_ref = [type(v.aval) is AbstractRef for v in program.invars]  # by input
        self.closed, self.written = discharge_program(program)  # indices of inputs
        self.jitted: dict[tuple, Callable] = {}  # by options of `jit` and shardings of the written references


class ReferenceAdapter:
    """References as the arrays that they hold (see `staging/argument_adapters.py`).

    The memory of references that are written to is donated; an array that is shared is copied first.
    """

    shows_components = False

    def __init__(self, jitted: Any, traced: TracedCall, call: Call):
        self.jitted, self.traced, self.call = jitted, traced, call
        self.discharged: DischargedProgram = traced.closed.structure.memoised(
            ("discharged program",), lambda: DischargedProgram(traced.closed))

    def encode(self, leaves: Sequence[Any]) -> list[Any]:
        discharged, arrays = self.discharged, []
        for i, (x, is_ref) in enumerate(zip(self._inputs(leaves), discharged.is_ref)):
            if is_ref:
                if not isinstance(x, RefBox):
                    raise errors.reference_of_rule(x.aval)
                array = x.value(f"passed to {self.jitted.name}")
                x = self.jitted.own_copy(array) if i in discharged.written and x.shared else array
            arrays.append(x)
        return arrays

    def stand_ins(self, leaves: Sequence[Any]) -> list[Any]:
        return [_stand_in(x) if is_ref else x for x, is_ref in zip(self._inputs(leaves), self.discharged.is_ref)]

    def checks_type(self, aval: Any) -> bool:
        return True

    def function_of_arrays(self, leaves: Sequence[Any]) -> Callable:
        discharged, jitted, inputs = self.discharged, self.jitted, [*self.discharged.captured, *leaves]
        # A reference keeps its sharding; one on a single device has None here.
        shardings = tuple([s if isinstance(s, NamedSharding) and s.num_devices > 1 else None
                           for s in [_stand_in(inputs[i]).sharding for i in discharged.written]])
        found = discharged.jitted.get((jitted.key, shardings))
        if found is None:
            options, count = jitted.options, len(discharged.captured)
            outs: Any = UNSPECIFIED
            if options.out_shardings is not UNSPECIFIED or any([s is not None for s in shardings]):
                outs = [*options.flat_out_shardings(self.traced.out_tree), *shardings]
            flags = (False,) * count + options.donated_flags(self.call)
            donated = [i in discharged.written or flag and not discharged.is_ref[i] for i, flag in enumerate(flags)]
            found = discharged.jitted[jitted.key, shardings] = jitted.adapted(
                discharged.closed, self.call, in_shardings=lambda given: (None,) * count + given, out_shardings=outs,
                donated=donated)
        return found

    def decode(self, leaves: Sequence[Any], results: Any) -> Any:
        inputs, count = [*self.discharged.captured, *leaves], self.traced.out_tree.num_leaves
        for i, new in zip(self.discharged.written, results[count:]):
            inputs[i].replace(new, shared=False)
        return self.traced.out_tree.unflatten(results[:count])

    def _inputs(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the captured references and the arguments; raise if a reference occurs twice."""
        inputs, is_ref = [*self.discharged.captured, *leaves], self.discharged.is_ref
        first: dict[int, int] = {}
        for i, x in enumerate(inputs):
            k = first.setdefault(id(x), i)
            if k != i and is_ref[i]:
                raise errors.reference_twice(self.jitted.name, x.aval, f"{self._name_of(k)} and {self._name_of(i)}")
        return inputs

    def _name_of(self, i: int) -> str:
        count = len(self.discharged.captured)
        return "from outside" if i < count else f"argument {self.traced.debug_info.arg_names[i - count]}"


def _stand_in(reference: Any) -> Any:
    """Return the array of a reference, or a type like it."""
    if isinstance(reference, RefBox):
        return reference.array
    aval = reference.inner_aval if isinstance(reference, AbstractRef) else reference
    return ShapeDtypeStruct(aval.shape, aval.dtype, sharding=getattr(reference, "sharding", None), weak_type=aval.weak_type)

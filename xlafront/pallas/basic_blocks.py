"""Kernels as basic blocks, so that several threads run a kernel in turn: a thread is suspended at the end of a block.

`BasicBlocks` divides a kernel at chosen operations, also within loops, branches and functions. Each of these operations is a
block of its own. Variables that a later block reads are saved in registers, which are references; memory that the kernel
allocates within these loops and functions exists from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.control.cond import switch
from xlafront.core import source
from xlafront.core.avals import ShapedArray
from xlafront.core.dataflow import any_equation
from xlafront.core.ir import Jaxpr, JaxprEqn
from xlafront.core.jaxpr import subprograms
from xlafront.core.refs import AbstractRef
from xlafront.core.tangents import zeros_of
from xlafront.lax import refs as ref_operations
from xlafront.lax.dynamic_slicing import dynamic_index_in_dim, dynamic_update_index_in_dim
from xlafront.pallas.findings import line_of
from xlafront.pallas.kernel_evaluation import called_jaxpr
from xlafront.pallas.specs import MemorySpace

END = -1  # in place of the number of a block: the thread has ended
_int32 = np.dtype(np.int32)


class Name:
    """A variable of the blocks: a value, or a reference.

    Args:
        aval: Its type.
    """

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    is_ref = property(lambda self: type(self.aval) is AbstractRef)


class Constant(NamedTuple):
    """A value in place of a variable."""

    value: Any


class Instruction(NamedTuple):
    """A step of a block: `run` takes the values of the inputs and returns those of the outputs. `site` is the user's line."""

    run: Callable[[list[Any]], Sequence[Any]]
    inputs: tuple[Any, ...]
    outputs: tuple[Name, ...]
    site: Any


class Block:
    """A basic block. Jumps to one of the targets, which the selector chooses.

    Args:
        number: Its number.
        stop: The operation at which threads are suspended, if the block is one.
    """

    def __init__(self, number: int, stop: JaxprEqn | None = None) -> None:
        self.number, self.stop = number, stop
        self.instructions: list[Instruction] = []
        self.targets: list[int] = []
        self.selector: Any = Constant(np.int32(0))

    def exposed(self) -> Iterator[Name]:
        """Yield the variables that the block reads before it has written them."""
        written: set[Any] = set()
        for x in self.instructions:
            yield from [v for v in x.inputs if type(v) is Name and v not in written]
            written.update(x.outputs)
        if type(self.selector) is Name and self.selector not in written:
            yield self.selector


class BasicBlocks:
    """The basic blocks of a kernel.

    Args:
        jaxpr: The kernel.
        is_stop: True for the operations at which threads are suspended. They have no results.
        is_single: True for operations that are not left within a loop, branch or function, but are equations of a block.
        key: A name of `is_single`.
        run: `(eqn, values) -> results` runs an equation.
        is_shared: True for equations at the top level of the kernel that are left out, since they run before.
    """

    def __init__(self, jaxpr: Jaxpr, is_stop: Callable[[JaxprEqn], bool], is_single: Callable[[JaxprEqn], bool], key: str,
                 run: Callable[[JaxprEqn, list[Any]], Sequence[Any]], is_shared: Callable[[JaxprEqn], bool]) -> None:
        self.is_stop, self.is_single, self.key, self.run = is_stop, is_single, key, run
        self.memory: list[Name] = []
        self.barrier: Name | None = None
        self.blocks = [Block(0)]
        self.arguments = [Name(v.aval) for v in jaxpr.invars]
        self.shared = [Name(v.aval) for eqn in jaxpr.eqns if is_shared(eqn) for v in eqn.outvars]
        shared_vars = [v for eqn in jaxpr.eqns if is_shared(eqn) for v in eqn.outvars]
        self._inline(jaxpr, self.arguments, dict(zip(shared_vars, self.shared)),
                     [eqn for eqn in jaxpr.eqns if not is_shared(eqn)])
        self.current.targets = [END]
        known = {*self.arguments, *self.shared, *self.memory}
        self.registers = list(dict.fromkeys(v for b in self.blocks for v in b.exposed() if v not in known))

    current = property(lambda self: self.blocks[-1])

    def register_avals(self, count: int | None = None) -> list[AbstractRef]:
        """Return the types of the references that hold the registers, for several threads with a dimension in front."""
        lead = () if count is None else (count,)
        return [AbstractRef(ShapedArray((*lead, *v.aval.shape), v.aval.dtype), MemorySpace.ANY) for v in self.registers]

    def _is_divided(self, jaxpr: Jaxpr) -> bool:
        return any_equation(jaxpr, self.key, self.is_single)

    # Construction. An environment has a Name or a Constant for each variable of a jaxpr.

    def _block(self, stop: JaxprEqn | None = None) -> Block:
        """Begin a block."""
        self.blocks.append(Block(len(self.blocks), stop))
        return self.blocks[-1]

    def _emit(self, run: Callable, inputs: Sequence[Any], outputs: Sequence[Name], site: Any = None) -> None:
        self.current.instructions.append(Instruction(run, tuple(inputs), tuple(outputs), site))

    def _move(self, values: Sequence[Any], names: Sequence[Name]) -> None:
        if names:
            self._emit(lambda xs: xs, values, names)

    def _inline(self, jaxpr: Jaxpr, values: Sequence[Any], known: dict[Any, Any] | None = None,
                eqns: Sequence[JaxprEqn] | None = None) -> list[Any]:
        """Append the equations of a jaxpr, and return its results."""
        env: dict[Any, Any] = dict(zip(jaxpr.constvars, map(Constant, jaxpr.consts)))
        env |= dict(zip(jaxpr.invars, values)) | (known or {})

        def atom(v: Any) -> Any:
            return Constant(v.val) if v.is_literal else env[v]

        for eqn in jaxpr.eqns if eqns is None else eqns:
            env.update(zip(eqn.outvars, self._equation(eqn, [atom(v) for v in eqn.invars])))
        return [atom(v) for v in jaxpr.outvars]

    def _equation(self, eqn: JaxprEqn, values: list[Any]) -> Sequence[Any]:
        """Append an equation, and return its results."""
        name, params = eqn.primitive.name, eqn.params
        if self.is_stop(eqn):
            return self._stop(eqn, values)
        if name in ("new_ref", "empty_ref"):
            return [self._reference(eqn, values)]
        if not any([self._is_divided(inner) for inner in subprograms(eqn.params)]):
            results = [Name(v.aval) for v in eqn.outvars]
            self._emit(lambda xs: self.run(eqn, xs), values, results, eqn.site)
            return results
        rule = {"cond": self._cond, "while": self._while, "scan": self._scan}.get(name)
        if rule is not None:
            return rule(eqn, values)
        if name == "run_scoped":
            inner = params["jaxpr"]
            return self._inline(inner, [*values, *[self._allocate(v.aval) for v in inner.invars[len(values):]]])
        called = called_jaxpr(eqn)
        if called is None:
            raise NotImplementedError(f"{eqn.primitive.shown_as} {line_of(eqn)} calls what signals, copies or waits, "
                                      f"which is not interpreted. Call it outside of {eqn.primitive.shown_as}.")
        return self._inline(called, values)

    def _stop(self, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
        before, block = self.current, self._block(eqn)
        before.targets = [block.number]
        self._emit(lambda xs: self.run(eqn, xs), values, [], eqn.site)
        block.targets = [self._block().number]
        return []

    def _reference(self, eqn: JaxprEqn, values: Sequence[Any]) -> Name:
        aval = eqn.outvars[0].aval
        if getattr(aval.memory_space, "value", None) == "barrier":  # of all devices
            if self.barrier is None:
                self.barrier = Name(aval)
                self.memory.append(self.barrier)
            return self.barrier
        ref = self._allocate(aval)
        if values:
            self._emit(lambda xs: ref_operations.set(xs[0], ..., xs[1]) or [], [ref, *values], [], eqn.site)
        return ref

    def _allocate(self, aval: AbstractRef) -> Name:
        """Return memory of the kernel."""
        self.memory.append(Name(aval))
        return self.memory[-1]

    def _cond(self, eqn: JaxprEqn, values: list[Any]) -> list[Name]:
        selector, *operands = values
        results = [Name(v.aval) for v in eqn.outvars]
        before, ends = self.current, []
        before.selector = selector
        for branch in eqn.params["branches"]:
            before.targets.append(self._block().number)
            self._move(self._inline(branch, operands), results)
            ends.append(self.current)
        after = self._block()
        for block in ends:
            block.targets = [after.number]
        return results

    def _loop(self, condition: Callable[[], Any], body: Callable[[], Sequence[Any]], carry: Sequence[Name]) -> None:
        """Append a loop. The functions append the condition and the body, whose results are the next carry."""
        before, head = self.current, self._block()
        before.targets = [head.number]
        self._emit(lambda xs: [xs[0].astype(_int32)], [condition()], [selector := Name(ShapedArray((), _int32))])
        choice, start = self.current, self._block()
        self._move(body(), carry)
        self.current.targets = [head.number]
        choice.selector, choice.targets = selector, [self._block().number, start.number]

    def _while(self, eqn: JaxprEqn, values: list[Any]) -> list[Name]:
        params = eqn.params
        first, last = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        carry = [Name(v.aval) for v in eqn.outvars]
        self._move(values[last:], carry)
        self._loop(lambda: self._inline(params["cond_jaxpr"], [*values[:first], *carry])[0],
                   lambda: self._inline(params["body_jaxpr"], [*values[first:last], *carry]), carry)
        return carry

    def _scan(self, eqn: JaxprEqn, values: list[Any]) -> list[Name]:
        params = eqn.params
        num_consts, length, count = params["num_consts"], params["length"], params["num_carry"]
        consts, rows = values[:num_consts], values[num_consts + count:]
        index, results = Name(ShapedArray((), _int32)), [Name(v.aval) for v in eqn.outvars]
        stacked = results[count:]
        self._move([Constant(np.int32(0)), *values[num_consts:num_consts + count],
                    *[Constant(zeros_of(v.aval)) for v in stacked]], [index, *results])

        def condition() -> Name:
            self._emit(lambda xs: [xs[0] < length], [index], [more := Name(ShapedArray((), np.dtype(bool)))])
            return more

        def body() -> list[Any]:
            position, after = Name(index.aval), Name(index.aval)
            self._emit(lambda xs: [length - 1 - xs[0] if params["reverse"] else xs[0] + np.int32(0), xs[0] + np.int32(1)],
                       [index], [position, after])
            row = [Name(v.aval) for v in params["jaxpr"].invars[num_consts + count:]]
            self._emit(lambda xs: [dynamic_index_in_dim(x, xs[0], 0, keepdims=False) for x in xs[1:]], [position, *rows], row)
            found = self._inline(params["jaxpr"], [*consts, *results[:count], *row])
            new = [Name(v.aval) for v in stacked]
            self._emit(lambda xs: [dynamic_update_index_in_dim(y, x, xs[0], 0) for y, x in zip(
                xs[1:1 + len(new)], xs[1 + len(new):])], [position, *stacked, *found[count:]], new)
            return [after, *found[:count], *new]

        self._loop(condition, body, [index, *results])
        return results


class Thread:
    """A thread that runs blocks, at the time when it is traced.

    Args:
        graph: The blocks.
        refs: The references, and shared values, by their names.
        registers: References by the names of registers.
        index: Index of the thread in the registers. None: they are those of one thread.
    """

    def __init__(self, graph: BasicBlocks, known: dict[Name, Any], registers: dict[Name, Any], index: Any = ...) -> None:
        self.graph, self.known, self.registers, self.index = graph, known, registers, index

    def _value(self, x: Any, env: dict[Name, Any]) -> Any:
        if type(x) is Constant:
            return x.value
        return env[x] if x in env else self.known[x] if x in self.known else self.registers[x][self.index]

    def inputs(self, instruction: Instruction) -> list[Any]:
        """Return the values that an instruction reads from registers."""
        return [self._value(x, {}) for x in instruction.inputs]

    def run(self, block: Block) -> Any:
        """Run a block, and return the number of the next one."""
        env: dict[Name, Any] = {}
        for x in block.instructions:
            with source.using_site(x.site or source.thread.site):
                env.update(zip(x.outputs, x.run([self._value(v, env) for v in x.inputs])))
        selector = self._value(block.selector, env)
        for name, value in env.items():
            if name in self.registers:
                ref_operations.set(self.registers[name], self.index, value)
        if len(block.targets) == 1:
            return np.int32(block.targets[0])
        return switch(selector, [lambda n=n: np.int32(n) for n in block.targets])

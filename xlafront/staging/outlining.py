"""Outlining: repeated stretches of a program become calls of one function.

XLA's passes take time that grows faster than the program: twelve inlined layers compile much more slowly than one function
called twelve times. Before a program is lowered, `outline` finds stretches of equations that repeat (the layers of a network,
forward and backward) and replaces each repeat by a call. The repeats need not come from one Python function.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from xlafront.core.ir import DebugInfo, DropVar, Jaxpr, JaxprEqn, Literal, Var, last_reads
from xlafront.core.primitive import Cost, Primitive, Traits
from xlafront.core.program_key import append_equation
from xlafront.core.source import NOWHERE
from xlafront.staging.sharding_arguments import UNSPECIFIED

SMALLEST_PROGRAM = 200  # equations: smaller programs compile fast enough
SMALLEST_REPEAT = 24  # equations
FEWEST_REPEATS = 3
SMALLEST_SHARE = 0.05  # of the program that a stretch covers
HEAVY = (Cost.HEAVY,)  # a repeat must have an operation of such a cost
FARTHEST = 12  # the longest chain of operations by which a value is recomputed


# A stretch of repeats: the index of its first equation, the number of equations in a repeat, the number of repeats.
Stretch = tuple[int, int, int]


def outline(jaxpr: Jaxpr) -> Jaxpr:
    """Return the program with repeats as calls, or the program itself if there are none."""
    flat = _without_calls(jaxpr)
    heavy = [i for i, eqn in enumerate(flat.eqns) if eqn.primitive.traits.cost in HEAVY]
    if len(flat.eqns) < SMALLEST_PROGRAM or len(heavy) < FEWEST_REPEATS:
        return jaxpr
    kinds = _kinds(flat.eqns)
    smallest = max(SMALLEST_REPEAT * FEWEST_REPEATS, int(SMALLEST_SHARE * len(kinds)))
    # Repeats without a heavy operation are fused with each other when inlined, which is worth more than fast compilation.
    found = [stretch for stretch in _stretches(kinds, _reach(flat.eqns), 0, len(kinds), smallest)
             if any(stretch[0] <= i < stretch[0] + stretch[1] for i in heavy)]
    if not found:
        return jaxpr
    flat, stretches = recompute_cheap_values(flat, kinds, found)
    reads = last_reads(flat)
    eqns: list[JaxprEqn] = []
    done = 0
    for start, period, count in stretches:
        eqns += flat.eqns[done:start]
        eqns += _as_calls(flat.eqns, start, period, count, reads)
        done = start + period * count
    return flat.replace(eqns=[*eqns, *flat.eqns[done:]])


def _without_calls(jaxpr: Jaxpr) -> Jaxpr:
    """Inline functions that are called several times (layers under `jit`), so that their repeats are found with the others."""
    called: dict[int, int] = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive.structured.only_calls_program:
            key = id(eqn.params["jaxpr"].structure)
            called[key] = called.get(key, 0) + 1
    if max(called.values(), default=0) < FEWEST_REPEATS:
        return jaxpr
    return _without_nested_calls(jaxpr, any_call=True)


def without_inlined_calls(jaxpr: Jaxpr) -> Jaxpr:
    """Replace calls of internal functions (`inline=True`) by their equations."""
    if not any([eqn.primitive.structured.only_calls_program and eqn.params.get("inline") is True for eqn in jaxpr.eqns]):
        return jaxpr
    return _without_nested_calls(jaxpr, any_call=False)


def _without_nested_calls(jaxpr: Jaxpr, any_call: bool) -> Jaxpr:
    eqns: list[JaxprEqn] = []
    names: dict[Any, Any] = {}
    _inline_calls(jaxpr.eqns, names, eqns, None, any_call)
    return jaxpr.replace(eqns=eqns, outvars=[v if type(v) is Literal else names.get(v, v) for v in jaxpr.outvars])


def _inline_calls(source: Sequence[JaxprEqn], names: dict, eqns: list[JaxprEqn], caller: JaxprEqn | None,
                  any_call: bool) -> None:
    name_of, append = names.get, eqns.append
    for eqn in source:
        operands = list(map(name_of, eqn.invars, eqn.invars))  # literals have no other names
        if eqn.primitive.structured.only_calls_program and _has_no_nested_calls(eqn, any_call):
            closed = eqn.params["jaxpr"]
            inner = dict(zip(closed.invars, operands))
            _inline_calls(closed.eqns, inner, eqns, eqn, any_call)
            names.update({v: w if type(w) is Literal else inner[w] for v, w in zip(eqn.outvars, closed.outvars)})
            continue
        outvars, site = eqn.outvars, eqn.site
        if caller is not None:
            if site is NOWHERE:
                site = caller.site
            if len(outvars) == 1:
                names[outvars[0]] = var = Var(outvars[0].aval)
                outvars = [var]
            else:
                outvars = [type(v)(v.aval) for v in outvars]
                names.update(zip(eqn.outvars, outvars))
        append(JaxprEqn(operands, outvars, eqn.primitive, eqn.params, eqn.effects, site))


def _has_no_nested_calls(eqn: JaxprEqn, any_call: bool) -> bool:
    params = eqn.params
    if eqn.effects or params["jaxpr"].consts or not (any_call or params.get("inline") is True):
        return False
    return all([s is UNSPECIFIED for s in params.get("in_shardings", ())]) and all(
        [s is UNSPECIFIED for s in params.get("out_shardings", ())])


# Finding repetitions


_type_of = operator.attrgetter("aval")


def _kinds(eqns: Sequence[JaxprEqn]) -> list[int]:
    """Return an id for each equation, equal for equal operations with operands of equal types and equal attributes."""
    ids: dict[Any, int] = {}
    kinds = []
    for eqn in eqns:
        key: list[Any] = [id(eqn)] if eqn.effects else []  # equations with effects are never shared
        append_equation(eqn, _type_of, key)
        try:
            kinds.append(ids.setdefault(tuple(key), len(ids)))
        except TypeError:  # a parameter that cannot be hashed
            kinds.append(ids.setdefault(id(eqn), len(ids)))
    return kinds


def _reach(eqns: Sequence[JaxprEqn]) -> list[list[int]]:
    """Return for each operand how many equations before its use it is computed; a large number for inputs."""
    makers: dict[Any, int] = {}
    reach = []
    for i, eqn in enumerate(eqns):
        reach.append([i - makers.get(v, -len(eqns)) for v in eqn.invars if type(v) is not Literal])
        for v in eqn.outvars:
            makers[v] = i
    return reach


def _stretches(kinds: list[int], reach: list[list[int]], low: int, high: int, smallest: int) -> list[Stretch]:
    """Return disjoint stretches of repeats in a range, in order."""
    if high - low < smallest:
        return []
    best = max((_longest(kinds, reach, low, high, period) for period in _periods(kinds, low, high)), default=None)
    if best is None or best[0] < smallest:
        return []
    _, _, start, period, count = best
    end = start + period * count
    return [*_stretches(kinds, reach, low, start, smallest), (start, period, count),
            *_stretches(kinds, reach, end, high, smallest)]


def _periods(kinds: list[int], low: int, high: int) -> list[int]:
    """Return the likeliest periods: distances at which several kinds of equations recur."""
    positions: dict[int, list[int]] = {}
    for i in range(low, high):
        positions.setdefault(kinds[i], []).append(i)
    votes: dict[int, int] = {}
    for found in positions.values():
        if len(found) >= FEWEST_REPEATS:
            gaps = {b - a for a, b in zip(found, found[1:])}
            for gap in gaps if len(gaps) <= 3 else ():
                if gap >= SMALLEST_REPEAT:
                    votes[gap] = votes.get(gap, 0) + 1
    return sorted(votes, key=lambda gap: (-votes[gap], gap))[:3]


def _longest(kinds: list[int], reach, low: int, high: int, period: int) -> tuple[int, int, int, int, int]:
    """Return the longest stretch with a period, as `(equations covered, -period, start, period, count)`."""
    best = (0, -period, low, period, 0)
    start = low
    for i in range(low, high - period + 1):
        if i < high - period and kinds[i] == kinds[i + period]:
            # Operands from the same repeat must be equally far back; others come from before both repeats.
            offset = (i - start) % period
            if reach[i] == reach[i + period] or all(
                    a == b or min(a, b) > offset for a, b in zip(reach[i], reach[i + period])):
                continue
        count = (i - start) // period + 1
        if count >= FEWEST_REPEATS and count * period > best[0]:
            best = (count * period, -period, start, period, count)
        start = i + 1
    return best


# Making calls


def _repeats(eqns: Sequence[JaxprEqn], stretch: Stretch) -> list[Sequence[JaxprEqn]]:
    start, period, count = stretch
    return [eqns[start + k * period:start + (k + 1) * period] for k in range(count)]


def _columns(repeats: Sequence[Sequence[JaxprEqn]]) -> list[tuple[Var, ...]]:
    """Return for each operand from outside, in order, its variable in each repeat."""
    return list(zip(*map(_outer_operands, repeats), strict=True))


def _outer_operands(repeat: Sequence[JaxprEqn]) -> list[Any]:
    made: set = set()
    found = []
    for eqn in repeat:
        found += [v for v in eqn.invars if type(v) is not Literal and v not in made]
        made.update(eqn.outvars)
    return found


def _as_calls(eqns: Sequence[JaxprEqn], start: int, period: int, count: int, reads) -> list[JaxprEqn]:
    """Return the calls that replace a stretch."""
    repeats = _repeats(eqns, (start, period, count))
    # An operand that is the same variable in every repeat is one argument.
    columns = _columns(repeats)
    arguments: dict[tuple, int] = {}
    indices = [arguments.setdefault(column, len(arguments)) for column in columns]
    results = sorted({position for k, repeat in enumerate(repeats)
                      for position in _read_later(repeat, start + (k + 1) * period, reads)})
    body = _body(repeats[0], iter(indices), [Var(column[0].aval) for column in arguments], results)
    calls = []
    for k, repeat in enumerate(repeats):
        operands = [column[k] for column in arguments]
        outvars = [v if v in reads else DropVar(v.aval) for v in (repeat[i].outvars[j] for i, j in results)]
        calls.append(JaxprEqn(operands, outvars, repeated_p, {"jaxpr": body}, site=repeat[0].site))
    return calls


def _read_later(repeat: Sequence[JaxprEqn], end: int, reads) -> list[tuple[int, int]]:
    """Return the results that are read at or after `end`, as pairs of an equation in the repeat and an index."""
    return [(i, j) for i, eqn in enumerate(repeat) for j, v in enumerate(eqn.outvars) if reads.get(v, -1) >= end]


def _body(repeat: Sequence[JaxprEqn], indices, invars: Sequence[Var], results) -> Jaxpr:
    """Return the function that the calls of a stretch share."""
    made: set = set()
    eqns = []
    for eqn in repeat:
        operands = [v if type(v) is Literal or v in made else invars[next(indices)] for v in eqn.invars]
        made.update(eqn.outvars)
        eqns.append(eqn.replace(invars=operands))
    outvars = [repeat[i].outvars[j] for i, j in results]
    return Jaxpr([], list(invars), outvars, eqns, debug_info=DebugInfo("a repeated part", "repeated"))


repeated_p = Primitive(
    "repeated", multiple_results=True, traits=Traits(memoise=False), abstract=lambda *_, jaxpr: jaxpr.out_avals,
    lower=lambda ctx, *operands, jaxpr: ctx.call(jaxpr, operands, "repeated", inlineable=False))


# Values that one repeat makes and a much later one reads (as the derivative of a layer does) stay in memory between them. In
# one function, XLA recomputes cheap ones where they are used; across calls, the program has to say so.


def recompute_cheap_values(jaxpr: Jaxpr, kinds: list[int], stretches: list[Stretch]) -> tuple[Jaxpr, list[Stretch]]:
    """Let repeats recompute cheap values from before them, if less memory is live that way; return the stretches of that."""
    eqns: list[JaxprEqn] = []
    new_stretches: list[Stretch] = []
    done = 0
    makers = {v: (i, j) for i, eqn in enumerate(jaxpr.eqns) for j, v in enumerate(eqn.outvars)}
    for stretch in stretches:
        start, period, count = stretch
        repeats = _repeats(jaxpr.eqns, stretch)
        plan = _Recomputation(jaxpr.eqns, kinds, makers, start, _columns(repeats))
        eqns += jaxpr.eqns[done:start]
        new_stretches.append((len(eqns), period + len(plan.recomputed), count))
        for k, repeat in enumerate(repeats):
            eqns += plan.repeat(k, repeat)
        done = start + period * count
    return jaxpr.replace(eqns=[*eqns, *jaxpr.eqns[done:]]), new_stretches


class _Recomputation:
    """The choice of operands that the repeats of a stretch recompute, and of the saved ones that they recompute them from.

    An operand is a column: its variables in the repeats. `recomputed` has the equations to copy, each as its index in the
    program by repeat.
    """

    def __init__(self, eqns: Sequence[JaxprEqn], kinds: list[int], makers: dict, start: int, columns):
        self.eqns, self.kinds, self.makers, self.start = eqns, kinds, makers, start
        self.maker_cache: dict[tuple, Any] = {}
        self.prices: dict[tuple, int] = {}  # for the columns that are saved at the moment
        saved = set(columns)
        self._drop(saved)
        while (better := self._with_one_more(saved)) is not None:
            saved = better
        self.columns, self.saved = columns, saved
        needed: set = set()
        for column in set(columns) - saved:
            self._collect(column, saved, needed)
        self.recomputed: list[tuple[int, ...]] = sorted(needed)

    def repeat(self, k: int, repeat: Sequence[JaxprEqn]) -> list[JaxprEqn]:
        """Return the equations of repeat `k`, after those that recompute its dropped operands."""
        if not self.recomputed:
            return list(repeat)
        made: dict[tuple, Var] = {}  # by column: one variable may be several operands, not all of them dropped
        eqns = []
        for indices in self.recomputed:
            eqn = self.eqns[indices[k]]
            rows = zip(*[self.eqns[i].invars for i in indices])
            outvars = [Var(v.aval) for v in eqn.outvars]
            eqns.append(eqn.replace(invars=[made.get(row, row[k]) for row in rows], outvars=outvars))
            made.update(zip(zip(*[self.eqns[i].outvars for i in indices]), outvars))
        own: set = set()
        outside = iter(self.columns)
        for eqn in repeat:
            invars = []
            for v in eqn.invars:
                if type(v) is not Literal and v not in own:
                    column = next(outside)
                    v = v if column in self.saved else made.get(column, v)
                invars.append(v)
            own.update(eqn.outvars)
            eqns.append(eqn.replace(invars=invars))
        return eqns

    def _size(self, column) -> int:
        aval = column[0].aval
        return aval.size * max(getattr(aval.dtype, "itemsize", 8), 1)

    def _maker(self, column) -> tuple[int, ...] | None:
        """Return the cheap equations, one by repeat, that compute a column before the stretch; None if there are none."""
        found = self.maker_cache.get(column, self)
        if found is self:
            found = self.maker_cache[column] = self._find_maker(column)
        return found

    def _find_maker(self, column) -> tuple[int, ...] | None:
        made_by = [self.makers.get(v) for v in column]
        if any([made is None or made[0] >= self.start for made in made_by]):
            return None
        (first, result), *rest = made_by
        kind = self.kinds[first]
        if self.eqns[first].primitive.traits.cost is not Cost.CHEAP or any(
                [self.kinds[i] != kind or j != result for i, j in rest]):
            return None
        return tuple([i for i, _ in made_by])

    def _operands(self, maker) -> list[tuple]:
        rows = zip(*[self.eqns[i].invars for i in maker])
        return [row for row in rows if type(row[0]) is not Literal]

    def _is_input(self, column) -> bool:
        return column[0] not in self.makers and all([v not in self.makers for v in column])

    def _price(self, column, saved, far: int = 0) -> int:
        """Return how many more bytes must be saved to have a column."""
        if column in saved or self._is_input(column):
            return 0
        found = self.prices.get(column)
        if found is None:
            maker = self._maker(column) if far < FARTHEST else None
            size = self._size(column)
            found = self.prices[column] = size if maker is None else min(size, self._price_of_making(maker, saved, far + 1))
        return found

    def _price_of_making(self, maker, saved, far: int = 0) -> int:
        return sum(self._price(operand, saved, far) for operand in self._operands(maker))

    def _sources(self, column, saved) -> set:
        """Return the columns that must be saved in addition, to recompute one at its price."""
        if column in saved or self._is_input(column):
            return set()
        maker = self._maker(column)
        if maker is None or self.prices[column] >= self._size(column):
            return {column}
        return set().union(*[self._sources(operand, saved) for operand in self._operands(maker)])

    def _drop(self, saved: set) -> int:
        """Remove columns from `saved`, the latest first, that cost less to recompute from the rest; return the bytes gained."""
        gained = 0
        candidates = [(maker, column) for column in saved if (maker := self._maker(column)) is not None]
        for maker, column in sorted(candidates, key=lambda pair: pair[0], reverse=True):
            saved.discard(column)
            self.prices = {}
            price = self._price_of_making(maker, saved)
            if price < self._size(column):
                more = [self._sources(operand, saved) for operand in self._operands(maker)]
                saved.update(*more)
                gained += self._size(column) - price
            else:
                saved.add(column)
        return gained

    def _with_one_more(self, saved: set) -> set | None:
        """Return the saved columns and an intermediate one that lets several others be dropped; None if there is none."""
        between = {operand for column in saved if (maker := self._maker(column)) is not None
                   for operand in self._operands(maker) if operand not in saved and all([v in self.makers for v in operand])}
        for operand in sorted(between, key=lambda column: self.makers[column[0]]):
            trial = saved | {operand}
            if self._drop(trial) > self._size(operand) and operand in trial:
                return trial
        return None

    def _collect(self, column, saved, needed: set) -> None:
        """Add the equations that recompute a column to `needed`."""
        maker = self._maker(column)
        if column in saved or maker is None or maker in needed:
            return
        needed.add(maker)
        for operand in self._operands(maker):
            self._collect(operand, saved, needed)

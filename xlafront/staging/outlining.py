"""Repeated parts of a program as calls of one function.

XLA's passes take time that grows faster than the program, so that twelve layers written one after the other compile much
more slowly than one function called twelve times. Before a program is lowered, `outline` looks for stretches of equations
that repeat (the layers of a network forward and, in the derivative, backward) and makes each a call. That they came from
one Python function is not needed, only that they do the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlafront.core import source
from xlafront.core.ir import ClosedJaxpr, DebugInfo, DropVar, Jaxpr, JaxprEqn, Literal, Var
from xlafront.core.primitive import Primitive
from xlafront.core.source import NOWHERE
from xlafront.staging.sharding_arguments import UNSPECIFIED

SMALLEST_PROGRAM = 200  # equations: below that compiling is quick enough
SMALLEST_PART = 24
FEWEST_REPEATS = 3
SMALLEST_SHARE = 0.05  # of the program that a repetition covers
HEAVY = ("heavy",)  # the costs of operations of which a part needs one
FARTHEST = 12  # operations back from a value to what it is computed again from


# A repetition: where it starts, the number of equations in a part, the number of parts.
Stretch = tuple[int, int, int]


def outline(jaxpr: Jaxpr) -> Jaxpr:
    """The program with repeated stretches as calls, or the program itself when there are none."""
    whole = _without_calls(jaxpr)
    heavy = [i for i, eqn in enumerate(whole.eqns) if eqn.primitive.cost in HEAVY]
    if len(whole.eqns) < SMALLEST_PROGRAM or len(heavy) < FEWEST_REPEATS:
        return jaxpr
    kinds = _kinds(whole.eqns)
    smallest = max(SMALLEST_PART * FEWEST_REPEATS, int(SMALLEST_SHARE * len(kinds)))
    # Parts without any heavy operation are fused into each other when they are not calls, which is worth more than quick
    # compiling.
    found = [stretch for stretch in _stretches(kinds, _reach(whole.eqns), 0, len(kinds), smallest)
             if any(stretch[0] <= i < stretch[0] + stretch[1] for i in heavy)]
    if not found:
        return jaxpr
    whole, stretches = recompute_cheap_values(whole, kinds, found)
    users = _last_users(whole)
    eqns: list[JaxprEqn] = []
    done = 0
    for start, period, count in stretches:
        eqns += whole.eqns[done:start]
        eqns += _as_calls(whole.eqns, start, period, count, users)
        done = start + period * count
    return whole.replace(eqns=[*eqns, *whole.eqns[done:]])


def _without_calls(jaxpr: Jaxpr) -> Jaxpr:
    """The program with functions that it calls again and again (layers under `jit`) written out, to be found with the rest."""
    called: dict[int, int] = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive.calls_program:
            key = id(eqn.params["jaxpr"].jaxpr)
            called[key] = called.get(key, 0) + 1
    if max(called.values(), default=0) < FEWEST_REPEATS:
        return jaxpr
    return _written_out(jaxpr, any_call=True)


def without_inlined_calls(jaxpr: Jaxpr) -> Jaxpr:
    """The program with the operations of functions of the library in place of calls of them, where the calls are."""
    if not any([eqn.primitive.calls_program and eqn.params.get("inline") for eqn in jaxpr.eqns]):
        return jaxpr
    return _written_out(jaxpr, any_call=False)


def _written_out(jaxpr: Jaxpr, any_call: bool) -> Jaxpr:
    eqns: list[JaxprEqn] = []
    names: dict[Any, Any] = {}
    _write_out(jaxpr.eqns, names, eqns, None, any_call)
    return jaxpr.replace(eqns=eqns, outvars=[v if type(v) is Literal else names.get(v, v) for v in jaxpr.outvars])


def _write_out(source: Sequence[JaxprEqn], names: dict, eqns: list[JaxprEqn], caller: JaxprEqn | None, any_call: bool) -> None:
    name_of, append = names.get, eqns.append
    for eqn in source:
        operands = list(map(name_of, eqn.invars, eqn.invars))  # literals have no other names
        if eqn.primitive.calls_program and _is_written_out(eqn, any_call):
            closed = eqn.params["jaxpr"]
            inner = dict(zip(closed.jaxpr.invars, operands))
            _write_out(closed.jaxpr.eqns, inner, eqns, eqn, any_call)
            names.update({v: w if type(w) is Literal else inner[w] for v, w in zip(eqn.outvars, closed.jaxpr.outvars)})
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


def _is_written_out(eqn: JaxprEqn, any_call: bool) -> bool:
    params = eqn.params
    if eqn.effects or params["jaxpr"].consts or not (any_call or params.get("inline")):
        return False
    return all([s is UNSPECIFIED for s in params.get("in_shardings", ())]) and all(
        [s is UNSPECIFIED for s in params.get("out_shardings", ())])


# Finding repetitions


def _kinds(eqns: Sequence[JaxprEqn]) -> list[int]:
    """A number for each equation: equal for those that do the same to operands of the same types, and are told the same."""
    numbers: dict[Any, int] = {}
    kinds = []
    for eqn in eqns:
        operands = tuple([(repr(v.val), v.aval) if type(v) is Literal else v.aval for v in eqn.invars])
        try:
            if eqn.effects:
                raise TypeError("happens once")
            told = None if eqn.site is None else source.scope_attributes[eqn.site[2]]
            kind = numbers.setdefault((eqn.primitive, operands, told and (*told.items(),), *eqn.params.values()), len(numbers))
        except TypeError:
            kind = numbers[id(eqn), "alone"] = len(numbers)
        kinds.append(kind)
    return kinds


def _reach(eqns: Sequence[JaxprEqn]) -> list[list[int]]:
    """For each operand of each equation how many equations before it was made; a large number for inputs."""
    made: dict[Any, int] = {}
    reach = []
    for i, eqn in enumerate(eqns):
        reach.append([i - made.get(v, -len(eqns)) for v in eqn.invars if type(v) is not Literal])
        for v in eqn.outvars:
            made[v] = i
    return reach


def _stretches(kinds: list[int], reach: list[list[int]], low: int, high: int, smallest: int) -> list[Stretch]:
    """Disjoint repetitions in a range, in order."""
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
    """Distances at which several kinds of equations come again and again: the likeliest periods."""
    positions: dict[int, list[int]] = {}
    for i in range(low, high):
        positions.setdefault(kinds[i], []).append(i)
    votes: dict[int, int] = {}
    for places in positions.values():
        if len(places) >= FEWEST_REPEATS:
            gaps = {b - a for a, b in zip(places, places[1:])}
            for gap in gaps if len(gaps) <= 3 else ():
                if gap >= SMALLEST_PART:
                    votes[gap] = votes.get(gap, 0) + 1
    return sorted(votes, key=lambda gap: (-votes[gap], gap))[:3]


def _longest(kinds: list[int], reach, low: int, high: int, period: int) -> tuple[int, int, int, int, int]:
    """The longest repetition with a period, as `(equations covered, -period, start, period, count)`."""
    best = (0, -period, low, period, 0)
    start = low
    for i in range(low, high - period + 1):
        if i < high - period and kinds[i] == kinds[i + period]:
            # What is made in the same part is made equally far back; the rest comes from before both parts.
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


def _last_users(jaxpr: Jaxpr) -> dict[Any, int]:
    """Where each variable is read last; a result of the program is read at its end."""
    users = {v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.invars if type(v) is not Literal}
    return users | {v: len(jaxpr.eqns) for v in jaxpr.outvars if type(v) is not Literal}


def _parts(eqns: Sequence[JaxprEqn], stretch: Stretch) -> list[Sequence[JaxprEqn]]:
    start, period, count = stretch
    return [eqns[start + k * period:start + (k + 1) * period] for k in range(count)]


def _columns(parts: Sequence[Sequence[JaxprEqn]]) -> list[tuple[Var, ...]]:
    """For each operand from outside of the parts, in order, the variable that it is in each of them."""
    return list(zip(*map(_outside, parts), strict=True))


def _outside(part: Sequence[JaxprEqn]) -> list[Any]:
    made: set = set()
    found = []
    for eqn in part:
        found += [v for v in eqn.invars if type(v) is not Literal and v not in made]
        made.update(eqn.outvars)
    return found


def _as_calls(eqns: Sequence[JaxprEqn], start: int, period: int, count: int, users) -> list[JaxprEqn]:
    """The calls that replace a repetition."""
    parts = _parts(eqns, (start, period, count))
    # Operands that are the same variable in every part are one argument.
    columns = _columns(parts)
    numbers: dict[tuple, int] = {}
    places = [numbers.setdefault(column, len(numbers)) for column in columns]
    results = sorted({place for k, part in enumerate(parts) for place in _read_later(part, start + (k + 1) * period, users)})
    body = _body(parts[0], iter(places), [Var(column[0].aval) for column in numbers], results)
    calls = []
    for k, part in enumerate(parts):
        operands = [column[k] for column in numbers]
        outvars = [v if v in users else DropVar(v.aval) for v in (part[i].outvars[j] for i, j in results)]
        calls.append(JaxprEqn(operands, outvars, repeated_p, {"jaxpr": body}, site=part[0].site))
    return calls


def _read_later(part: Sequence[JaxprEqn], end: int, users) -> list[tuple[int, int]]:
    return [(i, j) for i, eqn in enumerate(part) for j, v in enumerate(eqn.outvars) if users.get(v, -1) >= end]


def _body(part: Sequence[JaxprEqn], places, invars: Sequence[Var], results) -> ClosedJaxpr:
    made: set = set()
    eqns = []
    for eqn in part:
        operands = [v if type(v) is Literal or v in made else invars[next(places)] for v in eqn.invars]
        made.update(eqn.outvars)
        eqns.append(eqn.replace(invars=operands))
    outvars = [part[i].outvars[j] for i, j in results]
    return ClosedJaxpr(Jaxpr([], list(invars), outvars, eqns, debug_info=DebugInfo("a repeated part", "repeated")), [])


repeated_p = Primitive(
    "repeated", multiple_results=True, memoise=False, abstract=lambda *_, jaxpr: jaxpr.out_avals,
    lower=lambda ctx, *operands, jaxpr: ctx.call(jaxpr, operands, "repeated", inlineable=False))


# Values that one part makes and a much later one reads (as the derivative of a layer does) stay in memory between them.
# Inlined, XLA would compute cheap ones again where they are used; across calls that has to be written down.


def recompute_cheap_values(jaxpr: Jaxpr, kinds: list[int], stretches: list[Stretch]) -> tuple[Jaxpr, list[Stretch]]:
    """The program in which the parts compute cheap values from before again, where less memory is held that way."""
    eqns: list[JaxprEqn] = []
    moved: list[Stretch] = []
    done = 0
    makers = {v: (i, j) for i, eqn in enumerate(jaxpr.eqns) for j, v in enumerate(eqn.outvars)}
    for stretch in stretches:
        start, period, count = stretch
        parts = _parts(jaxpr.eqns, stretch)
        plan = _Recomputation(jaxpr.eqns, kinds, makers, start, _columns(parts))
        eqns += jaxpr.eqns[done:start]
        moved.append((len(eqns), period + len(plan.again), count))
        for k, part in enumerate(parts):
            eqns += plan.part(k, part)
        done = start + period * count
    return jaxpr.replace(eqns=[*eqns, *jaxpr.eqns[done:]]), moved


class _Recomputation:
    """Which operands of the parts of a stretch are computed again in them, from which others.

    Operands are columns: the variables that one operand is in each of the parts. `again` has the equations to write, each
    as its number in every part's case.
    """

    def __init__(self, eqns: Sequence[JaxprEqn], kinds: list[int], makers: dict, start: int, columns):
        self.eqns, self.kinds, self.makers, self.start = eqns, kinds, makers, start
        self.found: dict[tuple, Any] = {}  # makers
        self.prices: dict[tuple, int] = {}  # of what is kept at the moment
        kept = set(columns)
        self._drop(kept)
        while (better := self._with_one_more(kept)) is not None:
            kept = better
        self.columns, self.kept = columns, kept
        needed: set = set()
        for column in set(columns) - kept:
            self._collect(column, kept, needed)
        self.again: list[tuple[int, ...]] = sorted(needed)

    def part(self, k: int, part: Sequence[JaxprEqn]) -> list[JaxprEqn]:
        """The equations of part `k`, after those that compute its dropped operands."""
        if not self.again:
            return list(part)
        made: dict[tuple, Var] = {}  # by column: one variable may be several operands, of which not all are dropped
        eqns = []
        for numbers in self.again:
            eqn = self.eqns[numbers[k]]
            rows = zip(*[self.eqns[i].invars for i in numbers])
            outvars = [Var(v.aval) for v in eqn.outvars]
            eqns.append(eqn.replace(invars=[made.get(row, row[k]) for row in rows], outvars=outvars))
            made.update(zip(zip(*[self.eqns[i].outvars for i in numbers]), outvars))
        own: set = set()
        outside = iter(self.columns)
        for eqn in part:
            invars = []
            for v in eqn.invars:
                if type(v) is not Literal and v not in own:
                    column = next(outside)
                    v = v if column in self.kept else made.get(column, v)
                invars.append(v)
            own.update(eqn.outvars)
            eqns.append(eqn.replace(invars=invars))
        return eqns

    def _size(self, column) -> int:
        aval = column[0].aval
        return aval.size * max(getattr(aval.dtype, "itemsize", 8), 1)

    def _maker(self, column) -> tuple[int, ...] | None:
        """The cheap equations, one for each part, that make a column before the stretch."""
        found = self.found.get(column, self)
        if found is self:
            found = self.found[column] = self._find_maker(column)
        return found

    def _find_maker(self, column) -> tuple[int, ...] | None:
        places = [self.makers.get(v) for v in column]
        if any([p is None or p[0] >= self.start for p in places]):
            return None
        (first, result), *rest = places
        kind = self.kinds[first]
        if self.eqns[first].primitive.cost != "cheap" or any([self.kinds[i] != kind or j != result for i, j in rest]):
            return None
        return tuple([i for i, _ in places])

    def _operands(self, maker) -> list[tuple]:
        rows = zip(*[self.eqns[i].invars for i in maker])
        return [row for row in rows if type(row[0]) is not Literal]

    def _is_input(self, column) -> bool:
        return column[0] not in self.makers and all([v not in self.makers for v in column])

    def _price(self, column, kept, far: int = 0) -> int:
        """How many bytes more have to be kept to have a column."""
        if column in kept or self._is_input(column):
            return 0
        found = self.prices.get(column)
        if found is None:
            maker = self._maker(column) if far < FARTHEST else None
            size = self._size(column)
            found = self.prices[column] = size if maker is None else min(size, self._price_of_making(maker, kept, far + 1))
        return found

    def _price_of_making(self, maker, kept, far: int = 0) -> int:
        return sum(self._price(operand, kept, far) for operand in self._operands(maker))

    def _leaves(self, column, kept) -> set:
        """The columns that have to be kept besides to compute one again at its price."""
        if column in kept or self._is_input(column):
            return set()
        maker = self._maker(column)
        if maker is None or self.prices[column] >= self._size(column):
            return {column}
        return set().union(*[self._leaves(operand, kept) for operand in self._operands(maker)])

    def _drop(self, kept: set) -> int:
        """Drop from `kept`, the latest first, what costs less to make from the rest; the bytes saved."""
        saved = 0
        candidates = [(maker, column) for column in kept if (maker := self._maker(column)) is not None]
        for maker, column in sorted(candidates, key=lambda pair: pair[0], reverse=True):
            kept.discard(column)
            self.prices = {}
            price = self._price_of_making(maker, kept)
            if price < self._size(column):
                more = [self._leaves(operand, kept) for operand in self._operands(maker)]
                kept.update(*more)
                saved += self._size(column) - price
            else:
                kept.add(column)
        return saved

    def _with_one_more(self, kept: set) -> set | None:
        """What to keep when some value between, kept too, lets several others be dropped."""
        between = {operand for column in kept if (maker := self._maker(column)) is not None
                   for operand in self._operands(maker) if operand not in kept and all([v in self.makers for v in operand])}
        for operand in sorted(between, key=lambda column: self.makers[column[0]]):
            trial = kept | {operand}
            if self._drop(trial) > self._size(operand) and operand in trial:
                return trial
        return None

    def _collect(self, column, kept, needed: set) -> None:
        maker = self._maker(column)
        if column in kept or maker is None or maker in needed:
            return
        needed.add(maker)
        for operand in self._operands(maker):
            self._collect(operand, kept, needed)

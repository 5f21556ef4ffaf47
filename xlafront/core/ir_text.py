"""Jaxprs as text: `{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }`."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlafront.base import config
from xlafront.core.avals import str_short

if TYPE_CHECKING:
    from xlafront.core.ir import JaxprEqn, Var

_WIDTH = 80


class _Names(dict):
    """Names of variables: a, b, ..., z, ba, bb, ... in the order in which they are met."""

    used = 0  # less than the number of variables: some share a name

    def __missing__(self, var: Var) -> str:
        n, name = self.used, ""
        self.used += 1
        while True:
            n, letter = divmod(n, 26)
            name = chr(97 + letter) + name
            if n == 0:
                break
        self[var] = name
        return name


_NOTE = re.compile("\0(.*?)\0")  # a note on an equation, until it is printed beside its first line
_LARGE = 10  # inner jaxprs with more equations are printed before the jaxpr, as are those that occur twice


def _width(text: str) -> int:
    return len(_NOTE.sub("", text))


def _column(text: str, indent: int) -> int:
    """Return the column at which the text ends; its first line begins at `indent`."""
    before, _, last = text.rpartition("\n")
    return _width(last) + (0 if before else indent)


def _filled(items: Sequence[str], column: int, indent: int, comma: str = "") -> str:
    """Return the items on lines of at most `_WIDTH` columns, from `column` on; further lines begin at `indent`."""
    text = ""
    for i, item in enumerate(items):
        if i:
            text, column = (text + " ", column + 1) if column < _WIDTH else (f"{text}\n{' ' * indent}", indent)
        item += comma if i + 1 < len(items) else ""
        text += item
        column += _width(item)
    return text


class _Printer:
    """Prints jaxprs.

    Args:
        source_info, name_stack: If True, print the source location and the scope beside each equation.
        print_shapes: If True, print variables with their types.
        custom_pp_eqn_rules: If True, omit parameters with default values.
        print_effects: If True, print the effects after each jaxpr.
    """

    def __init__(self, source_info: bool = False, name_stack: bool = False, print_shapes: bool = True,
                 custom_pp_eqn_rules: bool = True, print_effects: bool = False) -> None:
        self.names = _Names()
        self.source_info, self.name_stack, self.print_shapes = source_info, name_stack, print_shapes
        self.shortened, self.print_effects = custom_pp_eqn_rules, print_effects
        self.shared: dict[Any, str] = {}

    def print(self, jaxpr: Any) -> str:
        """Return the text of a jaxpr, preceded by named inner jaxprs: those that are large or occur more than once."""
        self.shared = _shared_programs(jaxpr)
        texts = []
        for inner, name in self.shared.items():
            start = f"let {name} = "
            texts.append(f"{start}{self.program(inner, 0, len(start))} in")
        return _with_notes("\n".join([*texts, self.program(jaxpr)]))

    def program(self, jaxpr: Any, indent: int = 0, column: int | None = None) -> str:
        """Return the text with its lines at `indent`; the first one begins at `column`, after other text."""
        column = indent if column is None else column
        read = {v for eqn in jaxpr.eqns for v in eqn.invars if not v.is_literal}
        read.update(v for v in jaxpr.outvars if not v.is_literal)
        head = "{ lambda " + _filled(self.binders(jaxpr.constvars), column + 9, indent + 4) + "; "
        head += _filled(self.binders(jaxpr.invars), _column(head, column), indent + 4) + ". let"
        lines = [self.equation(eqn, read, indent + 4) for eqn in jaxpr.eqns]
        results = [self.atom(v) for v in jaxpr.outvars]
        end = f"{',' if len(results) == 1 else ''})"
        if self.print_effects:
            end += f" : {{ {', '.join(sorted(map(str, jaxpr.effects)))} }}"
        one_line = f"{head} {'; '.join(lines)} in ({', '.join(results)}{end} }}"
        # Tools rely on one line for each note.
        if column + _width(one_line) <= _WIDTH and "\n" not in one_line and not (lines and self.source_info):
            return one_line
        space = " " * indent
        body = "\n".join(f"{space}    {line}" for line in lines or [""])
        return f"{head}\n{body}\n{space}  in ({_filled(results, indent + 6, indent + 4, ',')}{end} }}"

    def binders(self, variables: Sequence[Var]) -> list[str]:
        return [self.binder(v) for v in variables]

    def binder(self, v: Any, read: Collection[Var] | None = None) -> str:
        name = self.names[v] if read is None or v in read else "_"
        return f"{name}:{str_short(v.aval)}" if self.print_shapes else name

    def atom(self, v: Any) -> str:
        if v.is_literal:
            value = v.val.item() if isinstance(v.val, np.generic) else v.val
            return f"{value}:{str_short(v.aval)}"
        return self.names[v]

    def equation(self, eqn: JaxprEqn, read: Collection[Var] | None, indent: int = 0) -> str:
        if eqn.primitive.name == "jit" and eqn.params["jaxpr"].structure not in self.shared:
            program = eqn.params["jaxpr"].structure  # its variables have the names of the operands and results
            for outside, inside in ((eqn.invars, program.invars), (eqn.outvars, program.outvars)):
                for v, w in zip(outside, inside):
                    if not (v.is_literal or w.is_literal or w in self.names or read is not None and v not in read):
                        self.names[w] = self.names[v]
        left = _filled([self.binder(v, read) for v in eqn.outvars], indent, indent + 2)
        if self.shortened and eqn.primitive.printed_as is not None:
            unread = read is not None and all([v not in read for v in eqn.outvars])
            text = eqn.primitive.printed_as(left, unread, [self.atom(v) for v in eqn.invars], eqn)
        else:
            text = f"{left}{' = ' if left else ''}{eqn.primitive.name}"
            text += self.params(eqn.primitive.name, eqn.params, indent, _column(text, indent))
            text += " " + _filled([self.atom(v) for v in eqn.invars], _column(text, indent) + 1, indent + 2)
        notes = [str(eqn.source_info)] * self.source_info + [f"[{eqn.source_info.name_stack}]"] * self.name_stack
        return f"\0{'  # '.join(notes)}\0{text}" if notes else text

    def params(self, primitive: str, params: dict[str, Any], indent: int, column: int) -> str:
        """Return the parameters, on one line if it fits after `column`."""
        shown = {k: v for k, v in params.items() if not (self.shortened and _is_default(primitive, k, v))}
        if not shown:
            return ""
        inner = indent + 2
        names = {k: _SHOWN_AS.get((primitive, k), k) if self.shortened else k for k in shown}
        first = self.shortened and primitive == "jit"
        order = sorted(shown, key=lambda k: (first and k != "name", k != "ctx_mesh", names[k]))
        forms = _FORMS.get(primitive, {}) if self.shortened else {}
        items = [f"name={params['call_jaxpr'].debug_info.function_name}"] if self.shortened and primitive in _CUSTOM else []
        items += [f"{names[k]}={forms[k](shown[k]) if k in forms else self.value(shown[k], inner, inner + len(names[k]) + 1)}"
                  for k in order]
        line = f"[{' '.join(items)}]"
        if "\n" not in line and column + _width(line) <= _WIDTH:
            return line
        space = "\n" + " " * inner
        return f"[{space}{space.join(items)}\n{' ' * indent}]"

    def value(self, value: Any, indent: int, column: int) -> str:
        if _is_program(value):
            program = value.structure
            return self.shared.get(program) or self.program(program, indent, column)
        if isinstance(value, tuple) and any(map(_is_program, value)):
            items = [self.value(x, indent + 2, indent + 2) for x in value]
            line = f"({' '.join(items)})"
            if "\n" not in line and column + _width(line) <= _WIDTH:
                return line
            space = "\n" + " " * (indent + 2)
            return "(" + space + space.join(items) + "\n" + " " * indent + ")"
        if isinstance(value, np.dtype):
            return value.name
        if isinstance(value, type):
            return value.__name__
        return str(value)


def _shared_programs(jaxpr: Any) -> dict[Any, str]:
    """Return the inner jaxprs that are printed before a jaxpr, level by level, with their names."""
    found, count, names = [(jaxpr, "")], {jaxpr: 1}, {}
    for program, _ in found:
        for eqn in program.eqns:
            for value in eqn.params.values():
                for inner in value if isinstance(value, tuple) else (value,):
                    if _is_program(inner):
                        inner = inner.structure
                        count[inner] = count.get(inner, 0) + 1
                        if count[inner] == 1:
                            found.append((inner, str(eqn.params.get("name", "jaxpr")).strip("<>")))
    used: dict[str, int] = {}
    for program, name in found[1:]:
        if count[program] > 1 or len(program.eqns) > _LARGE:
            names[program] = f"{name}{used.get(name) or ''}"
            used[name] = used.get(name, 0) + 1
    return names


def _with_notes(text: str) -> str:
    """Return the text with the notes on equations beside the lines on which these begin, one below the other."""
    if "\0" not in text:
        return text
    lines = [(_NOTE.sub("", line), _NOTE.findall(line)) for line in text.split("\n")]
    width = max(len(line) for line, _ in lines) + 1
    return "\n".join(f"{(line if i == 0 else '').ljust(width)}# {note}" if note is not None else line
                     for line, notes in lines for i, note in enumerate(notes or [None]))


def _is_program(value: Any) -> bool:
    """True for jaxprs, closed or not. This file is below their classes, which print themselves with it."""
    return hasattr(value, "eqns")


# Printed even if it is None.
_SHARDING_SHOWN = {"conv_general_dilated", "iota", "ragged_dot_general", "reduce_max", "reduce_min", "reduce_sum",
                   "reshape", "rng_bit_generator"}

_CUSTOM = {"custom_jvp_call", "custom_vjp_call"}  # calls of functions, whose name comes first
_SHOWN_AS = {("custom_jvp_call", "jvp_jaxpr_fun"): "jvp", ("custom_vjp_call", "fwd_jaxpr_thunk"): "fwd"}
# Parameters that repeat the types of operands and results, and internal ones.
_NOT_SHOWN = {("broadcast_in_dim", "shape"), ("broadcast_in_dim", "sharding"), ("custom_jvp_call", "num_consts"),
              ("custom_vjp_call", "num_consts"), ("custom_vjp_call", "out_trees"), ("dot_general", "out_sharding"),
              ("reshard", "dst_sharding")}


def _lists(value: Any) -> str:
    """Return dimension numbers as pairs of lists, in tuples."""
    return f"({', '.join(map(_lists, value))})" if value and isinstance(value[0], tuple) else str(list(value))


_FORMS = {"dot_general": {"dimension_numbers": _lists}}


def _is_default(primitive: str, name: str, value: Any) -> bool:
    """True for parameters that are not printed."""
    if (primitive, name) in _NOT_SHOWN or name == "broadcast_dimensions" and not value:
        return True
    if value is None and (name in ("accuracy", "out_dtype") or (primitive, name) == ("polynomial", "unroll")
                          or name in ("sharding", "out_sharding") and primitive not in _SHARDING_SHOWN
                          or name in ("precision", "preferred_element_type") and primitive == "dot_general"):
        return True
    if name in ("donated_invars",) and not any(value):
        return True
    if name in ("in_layouts", "out_layouts") and all(x is None for x in value):
        return True
    if name == "compiler_options_kvs" and not value or name == "ctx_mesh" and value.empty:
        return True
    if name in ("in_shardings", "out_shardings") and all(repr(x) == "UnspecifiedValue" for x in value):
        return True
    return name == "inline" or name == "keep_unused" and value is False


def program_text(jaxpr: Any, *, source_info: bool = False, name_stack: bool = False, print_shapes: bool = True,
                 custom_pp_eqn_rules: bool = True, print_effects: bool = False, use_color: bool | None = None, **_: Any) -> str:
    """Return a jaxpr as text; the other options are those of `_Printer`."""
    return _colored(_Printer(source_info, name_stack, print_shapes, custom_pp_eqn_rules, print_effects).print(jaxpr), use_color)


def equation_text(eqn: JaxprEqn) -> str:
    return _colored(_Printer().equation(eqn, None), None)


_WORD = re.compile(r"(?<=\{ )lambda\b|(?<=\. )let(?= |$)|(?<= )in(?= \()", re.MULTILINE)
_TYPE = re.compile(r"(?<!\S)([a-z]+|_)(:\S+?)(?=;|\.?(?:\s|$))", re.MULTILINE)


def _colored(text: str, use_color: bool | None) -> str:
    """Return the text with keywords in bold blue and types in magenta. `use_color=None`: if the output is a terminal."""
    if use_color is None:
        use_color = config.pprint_use_color.value and sys.stdout is not None and sys.stdout.isatty()
    if not use_color:
        return text
    return _WORD.sub("\033[34;1m\\g<0>\033[39;22m", _TYPE.sub("\\1\033[35m\\2\033[39m", text))

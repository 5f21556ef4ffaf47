"""Programs as text: `{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }`."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlafront.core.avals import str_short

_WIDTH = 80


class _Names(dict):
    """Variables get the names a, b, ..., z, ba, bb, ... in the order they are met."""

    used = 0  # fewer than there are variables: some share a name

    def __missing__(self, var):
        n, name = self.used, ""
        self.used += 1
        while True:
            n, letter = divmod(n, 26)
            name = chr(97 + letter) + name
            if n == 0:
                break
        self[var] = name
        return name


class _Printer:
    def __init__(self, source_info: bool = False, name_stack: bool = False):
        self.names = _Names()
        self.source_info, self.name_stack = source_info, name_stack

    def program(self, jaxpr, indent: int = 0) -> str:
        read = {v for eqn in jaxpr.eqns for v in eqn.invars if not v.is_literal}
        read.update(v for v in jaxpr.outvars if not v.is_literal)
        head = f"lambda {self.binders(jaxpr.constvars)}; {self.binders(jaxpr.invars)}."
        lines = [self.equation(eqn, read, indent + 4) for eqn in jaxpr.eqns]
        results = ", ".join(self.atom(v) for v in jaxpr.outvars)
        tail = f"in ({results}{',' if len(jaxpr.outvars) == 1 else ''})"
        one_line = f"{{ {head} let {'; '.join(lines)} {tail} }}"
        one_each = lines and (self.name_stack or self.source_info)
        if len(one_line) + indent <= _WIDTH and "\n" not in one_line and not one_each:
            return one_line
        space = " " * indent
        if not lines:
            return f"{{ {head} let  {tail} }}"
        body = "\n".join(f"{space}    {line}" for line in lines)
        return f"{{ {head} let\n{body}\n{space}  {tail} }}"

    def binders(self, variables) -> str:
        return " ".join(f"{self.names[v]}:{str_short(v.aval)}" for v in variables)

    def atom(self, v) -> str:
        if v.is_literal:
            value = v.val.item() if isinstance(v.val, np.generic) else v.val
            return f"{value}:{str_short(v.aval)}"
        return self.names[v]

    def equation(self, eqn, read, indent: int = 0) -> str:
        if eqn.primitive.name == "jit":  # its program goes on with the names of the variables outside
            program = eqn.params["jaxpr"].jaxpr
            for outside, inside in ((eqn.invars, program.invars), (eqn.outvars, program.outvars)):
                for v, w in zip(outside, inside):
                    if not (v.is_literal or w.is_literal or w in self.names or read is not None and v not in read):
                        self.names[w] = self.names[v]
        left = " ".join(f"{self.names[v]}:{str_short(v.aval)}" if read is None or v in read else f"_:{str_short(v.aval)}"
                        for v in eqn.outvars)
        if eqn.primitive.printed_as is not None:
            unread = read is not None and all([v not in read for v in eqn.outvars])
            text = eqn.primitive.printed_as(left, unread, [self.atom(v) for v in eqn.invars], eqn)
        else:
            text = f"{left}{' = ' if left else ''}{eqn.primitive.name}"
            text += self.params(eqn.primitive.name, eqn.params, indent, len(text))
            right = " ".join(self.atom(v) for v in eqn.invars)
            text += f" {right}" if right else ""
        if self.name_stack:
            first, *rest = text.split("\n")  # of nested programs each line has its own
            text = "\n".join([f"{first}  # [{eqn.source_info.name_stack}]", *rest])
        return f"{text}  # {eqn.source_info}" if self.source_info else text

    def params(self, primitive: str, params: dict[str, Any], indent: int, before: int) -> str:
        """In one line where it fits behind the text `before` it."""
        shown = {k: v for k, v in params.items() if not _is_default(primitive, k, v)}
        if not shown:
            return ""
        inner = indent + 2
        names = {k: _SHOWN_AS.get((primitive, k), k) for k in shown}
        order = sorted(shown, key=lambda k: (primitive == "jit" and k != "name", k != "ctx_mesh", names[k]))
        forms = _FORMS.get(primitive, {})
        parts = [f"name={params['call_jaxpr'].debug_info.function_name}"] if primitive in _CUSTOM else []
        parts += [f"{names[k]}={forms[k](shown[k]) if k in forms else self.value(shown[k], inner)}" for k in order]
        line = f"[{' '.join(parts)}]"
        if "\n" not in line and indent + before + len(line) <= _WIDTH:
            return line
        space = "\n" + " " * inner
        return f"[{space}{space.join(parts)}\n{' ' * indent}]"

    def value(self, value, indent: int) -> str:
        if _is_program(value):
            return self.program(getattr(value, "jaxpr", value), indent)
        if isinstance(value, tuple) and any(map(_is_program, value)):
            space = "\n" + " " * (indent + 2)
            return "(" + space + space.join(self.value(x, indent + 2) for x in value) + "\n" + " " * indent + ")"
        if isinstance(value, np.dtype):
            return value.name
        if isinstance(value, type):
            return value.__name__
        return str(value)


def _is_program(value) -> bool:
    """Closed or not; this file is below the classes, which print themselves with it."""
    return hasattr(value, "eqns")


# Where there is none, too.
_SHARDING_SHOWN = {"conv_general_dilated", "iota", "ragged_dot_general", "reduce_sum", "reshape", "rng_bit_generator"}

_CUSTOM = {"custom_jvp_call", "custom_vjp_call"}  # calls of functions, whose name comes first
_SHOWN_AS = {("custom_jvp_call", "jvp_jaxpr_fun"): "jvp", ("custom_vjp_call", "fwd_jaxpr_thunk"): "fwd"}
# What the types of operands and results say, and what is for the machinery alone.
_NOT_SHOWN = {("broadcast_in_dim", "shape"), ("custom_jvp_call", "num_consts"), ("custom_vjp_call", "num_consts"),
              ("custom_vjp_call", "out_trees")}


def _lists(value) -> str:
    """Dimension numbers: pairs of lists, in tuples."""
    return f"({', '.join(map(_lists, value))})" if value and isinstance(value[0], tuple) else str(list(value))


_FORMS = {"dot_general": {"dimension_numbers": _lists}}


def _is_default(primitive: str, name: str, value) -> bool:
    """Parameters that say nothing are left out."""
    if (primitive, name) in _NOT_SHOWN or name == "broadcast_dimensions" and not value:
        return True
    if value is None and (name in ("accuracy", "out_dtype")
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
    return name in ("keep_unused", "inline") and value is False


def program_text(jaxpr, *, source_info: bool = False, name_stack: bool = False, **_) -> str:
    """A program as text; with `source_info` where its equations were written, with `name_stack` in which scopes."""
    return _Printer(source_info, name_stack).program(jaxpr)


def equation_text(eqn) -> str:
    return _Printer().equation(eqn, None)

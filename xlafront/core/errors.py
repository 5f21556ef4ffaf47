"""Exceptions, and functions that build their messages.

A message says which operation failed, on which values, where those came from, and what to do instead. Those of errors with a
page of their own have a line for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from xlafront.base.jaxlib_compat import JaxRuntimeError as JaxRuntimeError
from xlafront.base.version import DOCUMENTATION
from xlafront.core.zeros import is_undefined

if TYPE_CHECKING:
    from xlafront.core.ir import Jaxpr
    from xlafront.core.tracer import Tracer


class JAXTypeError(TypeError):
    """Base of the type errors raised during tracing."""


class JAXIndexError(IndexError):
    """Base of the index errors raised during tracing."""


class OutOfRangeError(JAXIndexError, ValueError):
    """Raised for an axis that an array does not have, or an index outside of an axis."""


def described(tracer: Any) -> str:
    """Return a description of a traced array: its type and where it comes from."""
    aval = getattr(tracer, "aval", None)
    shape = f"{getattr(aval, 'dtype', aval)}{list(getattr(aval, 'shape', ()))}".replace(" ", "")
    origin = tracer._origin() if hasattr(tracer, "_origin") else None
    return f"a traced array (tracer) of type {shape}" + (f", {origin}" if origin else "")


def in_lines(*sentences: str) -> str:
    """Return the sentences that are not empty, each on a line of its own."""
    return "\n".join(filter(None, sentences))


class _Explained:
    """Mixin of errors that the documentation explains under their name, or under `page`."""

    page = ""

    def __str__(self) -> str:
        page = self.page or type(self).__name__.lower()
        return f"{super().__str__()}\nMore about this error: {DOCUMENTATION}/errors.html#{page}"


ONLY_AT_RUN_TIME = "Its value is only known when the compiled function runs."


class ConcretizationTypeError(_Explained, JAXTypeError):
    """Raised where tracing needs the concrete value of an array."""

    attempt = "A concrete value is needed here, and an abstract tracer value was found: {what}."
    remedy = ("Keep the computation in xlafront.numpy (as x.astype(int) for int(x)), make the argument static "
              "(static_argnums), or compute this part outside of the transformed function.")

    def __init__(self, tracer: Tracer, context: str = "") -> None:
        super().__init__(in_lines(self.attempt.format(what=described(tracer)), context, ONLY_AT_RUN_TIME, self.remedy))


def decides_shape(function: str, argument: str, tracer: Tracer) -> ConcretizationTypeError:
    """Return the error for a traced argument on which the shape of the result depends."""
    return ConcretizationTypeError(
        tracer, f"The argument {argument!r} of {function} determines the shape of the result.")


def no_number(tracer: Tracer) -> str:
    """Return why a traced array cannot become a Python number, and what to do instead."""
    if tracer._concrete() is None:
        return in_lines(f"{described(tracer)} has no concrete value, it is an abstract tracer value.", ONLY_AT_RUN_TIME,
                        ConcretizationTypeError.remedy)
    return in_lines(
        f"{described(tracer)} is being differentiated: a concrete Python number in its place would be a constant, and the "
        f"derivative would lose a term.",
        "Use the function of the same name in xlafront.numpy (numpy.sin for math.sin). To hold the value constant, use "
        "lax.stop_gradient(x); to print it, use xlafront.debug.print.")


def python_number(tracer: Tracer, attempt: str) -> ConcretizationTypeError:
    error = ConcretizationTypeError(tracer)
    error.args = (f"{attempt} cannot be computed: {no_number(tracer)}",)
    return error


class TracerBoolConversionError(ConcretizationTypeError):
    """Raised where a traced array is used as a condition."""

    attempt = ("Attempted boolean conversion of traced array, by `if`, `while`, `and`, `or` or `not`.\n"
               "It is {what}, and has no concrete value while it is traced.")
    remedy = ("Use lax.cond or lax.while_loop for branches and loops, numpy.where to select elements, & | ~ for logic on "
              "arrays, or make the argument static (static_argnums).")

    def __init__(self, tracer: Tracer) -> None:
        super().__init__(tracer)


class TracerIntegerConversionError(ConcretizationTypeError):
    """Raised where a traced array is used as a Python integer: an axis, a size, a list index.

    JAX raises `ConcretizationTypeError` in some of these places.
    """

    def __init__(self, tracer: Tracer, caller: str = "Python") -> None:
        JAXTypeError.__init__(self, in_lines(
            f"{caller} called the method __index__ (for an axis, a shape, a list index, a range), which needs a concrete "
            f"value, on {described(tracer)}.", ONLY_AT_RUN_TIME,
            "Make the argument static (static_argnums), index an array instead of a list, or use lax.fori_loop or "
            "lax.dynamic_slice."))


class TracerArrayConversionError(_Explained, JAXTypeError):
    """Raised where a traced array is passed to NumPy."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__(in_lines(
            "A NumPy function (or another library) called the numpy.ndarray conversion method __array__ on "
            f"{described(tracer)}, which has no concrete value.", ONLY_AT_RUN_TIME,
            "Use the function of the same name in xlafront.numpy, or pure_callback to call NumPy from compiled code."))


class NonConcreteBooleanIndexError(_Explained, JAXIndexError):
    """Raised where a traced boolean array is used as an index."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__(in_lines(
            f"An array was indexed by {described(tracer)}.",
            "Boolean indices must be concrete: the number of selected elements, and with it the shape of the result, must be "
            "known while tracing.",
            "Use numpy.where(mask, x, fill), also in place of x.at[mask].set(fill), or numpy.nonzero(mask, size=n)."))


class UnexpectedTracerError(_Explained, JAXTypeError):
    """Raised where a traced array is used after the trace of its function has ended."""


class KeyReuseError(JAXTypeError):
    """Raised where a random key is consumed twice, if `debug_key_reuse` is on."""

    remedy = ("A previously-consumed key gives the same numbers again (key reuse). Split it first, key, subkey = "
              "random.split(key), and use each key once; to get the same numbers on purpose, pass random.clone(key).")


def key_reuse_in_loop(loop: str, jaxpr: Jaxpr, reason: str) -> KeyReuseError:
    """Return the error for a loop whose body consumes the same key on each iteration."""
    return KeyReuseError(f"A {loop} leads to key reuse when it runs more than once: {jaxpr.debug_info.label}, "
                         f"{reason}. {KeyReuseError.remedy}")


class JaxprTypeError(TypeError):
    """Raised for a jaxpr that does not type-check."""


class InconclusiveDimensionOperation(Exception):
    """Raised where a comparison of symbolic dimensions has no single answer."""


def leaked_tracer(tracer: Tracer, caller: str) -> UnexpectedTracerError:
    return UnexpectedTracerError(in_lines(
        f"{caller} was given an unexpected tracer, one that leaked: {described(tracer)}.",
        "The trace of its function has ended. The tracer was stored (in global state, an attribute, a list) as a side effect.",
        "Return it from the transformed function instead; the setting check_tracer_leaks finds where it was stored."))


def ambiguous_truth(shape: Sequence[int]) -> ValueError:
    """Return the error for the truth value of an array that does not have exactly one element."""
    if 0 in shape:
        return ValueError(f"the truth value of an empty array (shape {tuple(shape)}) is ambiguous: use x.size > 0.")
    return ValueError(f"the truth value of an array of shape {tuple(shape)}, with several elements, is ambiguous: use x.any() "
                      "or x.all().")


def not_a_scalar(name: str, shape: Sequence[int]) -> TypeError:
    """Return the error for `int(x)`, `float(x)` and `complex(x)` of an array with dimensions."""
    return TypeError(f"{name}() needs a scalar array, with one element and no dimensions, got shape {tuple(shape)}. Take one "
                     f"element, x[0], or convert all of them with x.astype({name}).")


def not_an_index(aval: Any) -> TypeError:
    """Return the error for `x.__index__()`."""
    return TypeError(f"only integer scalar arrays can be converted to an index (a shape, a range, a position in a list), got "
                     f"{aval.str_short() if hasattr(aval, 'str_short') else aval}. Convert it with int(x).")


def short(value: Any) -> str:
    """Return the `repr` of a value, truncated to 80 characters."""
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def not_callable(caller: str, value: Any, argument: str = "its first argument") -> TypeError:
    return TypeError(f"{caller} takes a function (a callable) as {argument}, got {type(value).__name__}: {short(value)}")


class NotAnArrayError(TypeError):
    """Raised where `value` is given instead of an array."""

    def __init__(self, text: str, value: Any) -> None:
        super().__init__(text)
        self.value = value

    def __reduce__(self) -> Any:
        return TypeError, self.args


def not_an_array(value: Any, caller: str, argument: str | None, may_be_static: bool = False) -> NotAnArrayError | TypeError:
    """Return the error for a value that is no array.

    Args:
        value: The value.
        caller: Name of the function that got it.
        argument: Name of the argument, None if unknown.
        may_be_static: True if the argument can be marked as static.
    """
    if is_undefined(value):
        return TypeError(f"the function to transpose is not linear: {caller} takes two values that both depend on its "
                         f"arguments. Transpose in one of them, or linearize the function first (xlafront.linearize).")
    shown = short(value)
    where = f"argument {argument}" if argument else "an argument"
    if not may_be_static and not isinstance(value, (list, tuple)):
        remedy = "Pass an array or a number."
    elif isinstance(value, str):
        remedy = "Strings are not arrays: make the argument static (static_argnums, static_argnames)."
    elif isinstance(value, (list, tuple)):
        remedy = "Convert it with xlafront.numpy.asarray(...)."
    elif callable(value):
        remedy = "Functions are not arrays: close over it, or make the argument static (static_argnums)."
    else:
        remedy = ("Pass an array, a number or a pytree of them; make the argument static (static_argnums), or register "
                  "its type as a pytree (tree_util.register_dataclass).")
    return NotAnArrayError(f"{caller} got {where} of type {type(value).__name__}, which is not an array nor another valid JAX "
                           f"type, and cannot be interpreted as an abstract array: {shown}. {remedy}", value)


class StaticTracerError(ConcretizationTypeError, ValueError):
    """Raised for a traced array as a static argument."""

    page = "concretizationtypeerror"

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)


def unhashable_static(name: str, value: Any, function: str) -> ValueError:
    kind = StaticTracerError if hasattr(value, "_concrete") else ValueError
    return kind(
        f"The static argument {name} of {function} is non-hashable: unhashable type {type(value).__name__!r}. The values of "
        "static arguments are keys of the compile cache: pass a hashable value (a tuple for a list), or do not make the "
        "argument static.")


def wrong_argnums(kind: str, index: int, signature: str, function: str) -> ValueError:
    return ValueError(f"{kind}_argnums names position {index}, but {signature} has no positional argument there. "
                      f"Positions count from 0.")


class ForbiddenCollectiveError(Exception):
    """Raised where a program would communicate over a mesh axis that `sharding.no_collectives` forbids."""


class ShardingTypeError(TypeError):
    """Raised where the shardings of operands over explicit mesh axes do not determine that of the result."""


def incompatible_shapes(operation: str, shapes: Iterable[tuple[str, Sequence[int]]], remedy: str = "", broadcast: bool = False
                        ) -> TypeError:
    """Return the error for operands of shapes that do not go together.

    Args:
        operation: Name of the operation.
        shapes: `(name, shape)` pairs in the order of the arguments.
        remedy: What to do instead.
        broadcast: True if the shapes do not broadcast.
    """
    listed = ", ".join(f"{name} {tuple(shape)}" if name else str(tuple(shape)) for name, shape in shapes)
    return TypeError(f"{operation} got incompatible shapes{' for broadcasting' if broadcast else ''}: {listed}. "
                     f"{remedy}".rstrip())


def incompatible_dtypes(operation: str, dtypes: Iterable[Any], remedy: str = "") -> TypeError:
    return TypeError(f"{operation} needs arguments of the same dtypes, got {', '.join(str(d) for d in dtypes)}. "
                     f"{remedy}".rstrip())


def pytree_without_end(error: SystemError) -> Exception:
    """Return a readable error for jaxlib's error about a pytree with a cycle; other errors unchanged."""
    if not isinstance(error.__cause__, RecursionError):
        return error
    return ValueError("a pytree is nested more deeply than Python's recursion limit allows, or contains itself (a cycle). "
                      "Flatten it into one container, or break the cycle.")


def reference_as_array(operation: str, aval: Any) -> TypeError:
    return TypeError(f"{operation} got a reference of type {aval} where it needs an array. Read its value first, with "
                     "ref[...].")


def reference_of_rule(aval: Any) -> NotImplementedError:
    return NotImplementedError(
        f"a derivative or batching rule closes over a reference, of type {aval}. It ran for a function inside of a jitted "
        f"function, a loop or a branch that does not take the reference. Pass the reference to the function with the rule as "
        f"an argument; the rule gets it too.")


def reference_twice(operation: str, aval: Any, where: str | None) -> ValueError:
    return ValueError(f"{operation} got one reference of type {aval}{f' ({where})' if where else ''} twice, as two arguments, "
                      f"or as an argument and a closed-over value: a write to one would change the other. Pass it once, and "
                      f"use it under one name.")


def not_varying_alike(operation: str, avals: Sequence[Any]) -> ValueError:
    return ValueError(f"{operation} got operands of types {', '.join(map(str, avals))} inside of a shard_map that do not "
                      f"vary along the same axes of its mesh, and the setting auto_pcast is off. Make them vary alike with "
                      f"pcast(x, axes, to='varying').")

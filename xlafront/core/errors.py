"""The exceptions of the library, and the words they use.

An error says what was attempted, on which values, where those came from, and what to do instead.
"""

from __future__ import annotations

from xlafront.core.zeros import is_undefined
from xlafront.runtime.jaxlib_compat import JaxRuntimeError as JaxRuntimeError


class JAXTypeError(TypeError):
    """Base of the type errors that tracing raises."""


class JAXIndexError(IndexError):
    """Base of the index errors that tracing raises."""


class OutOfRangeError(JAXIndexError, ValueError):
    """A number is not one of the dimensions of an array, or not one of the indices along an axis."""


def _what(tracer) -> str:
    aval = getattr(tracer, "aval", None)
    shape = f"{getattr(aval, 'dtype', aval)}{list(getattr(aval, 'shape', ()))}".replace(" ", "")
    origin = tracer._origin() if hasattr(tracer, "_origin") else None
    return f"a traced array of type {shape}" + (f", {origin}" if origin else "")


class ConcretizationTypeError(JAXTypeError):
    """The value of an array was needed while its function was being traced."""

    attempt = "the value of {what} was needed"
    remedy = ("Its value is only known when the compiled function runs. Keep the computation in xlafront.numpy, make "
              "the argument static (static_argnums), or compute this part outside of the transformed function.")

    def __init__(self, tracer, context: str = ""):
        text = self.attempt.format(what=_what(tracer))
        super().__init__(f"{text[0].upper()}{text[1:]}.{' ' + context if context else ''} {self.remedy}")


def no_number(tracer) -> str:
    """Why a traced value does not become a Python number, and what to do instead."""
    if tracer._concrete() is None:
        return f"{_what(tracer)} has no concrete value. {ConcretizationTypeError.remedy}"
    return (f"a concrete Python number in place of {_what(tracer)}, which is being differentiated, would be a constant, and "
            f"the derivative would lose a term. Use the function of the same name in xlafront.numpy (xnp.sin for math.sin); "
            f"where the value is to be held constant, or only shown, take lax.stop_gradient(x), or xlafront.debug.print.")


def python_number(tracer, attempt: str) -> ConcretizationTypeError:
    error = ConcretizationTypeError(tracer)
    error.args = (f"{attempt} cannot be computed: {no_number(tracer)}",)
    return error


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced array was used as a condition."""

    attempt = "`if`, `while`, `and`, `or` or `not` was applied to {what}"
    remedy = ("Which way it goes is only known when the compiled function runs. Use lax.cond or lax.while_loop for "
              "branches and loops, xlafront.numpy.where to select elements, & | ~ for logic on arrays, or make the "
              "argument static (static_argnums).")

    def __init__(self, tracer):
        super().__init__(tracer)


class TracerIntegerConversionError(JAXTypeError):
    """A traced array was used where Python needs an integer."""

    def __init__(self, tracer):
        super().__init__(
            f"A Python integer was needed (a shape, a list index, a range), and got {_what(tracer)}. Its value is only "
            f"known when the compiled function runs. Make the argument static (static_argnums), index an array "
            f"instead of a list, or use lax.fori_loop or lax.dynamic_slice.")


class TracerArrayConversionError(JAXTypeError):
    """A traced array was handed to NumPy."""

    def __init__(self, tracer):
        super().__init__(
            f"A NumPy function (or another library) asked for the elements of {_what(tracer)}. They are only known "
            f"when the compiled function runs. Use the function of the same name in xlafront.numpy, or "
            f"pure_callback to call NumPy from compiled code.")


class NonConcreteBooleanIndexError(JAXIndexError):
    """A traced boolean array was used as an index."""

    def __init__(self, tracer):
        super().__init__(
            f"An array was indexed by {_what(tracer)}. How many elements a boolean mask selects, and so the shape of "
            f"the result, must be known while tracing. Use xlafront.numpy.where(mask, x, fill) or x.at[mask].set(v), "
            f"or xlafront.numpy.nonzero(mask, size=n).")


class UnexpectedTracerError(JAXTypeError):
    """A traced array was used after its function had been traced."""


class KeyReuseError(JAXTypeError):
    """A random key was used twice (setting `debug_key_reuse`)."""

    remedy = ("A previously-consumed key gives the same numbers again (key reuse). Split it first, key, subkey = "
              "random.split(key), and use each key once; where the same numbers are wanted, pass random.clone(key).")


def key_reuse_in_loop(which: str, program, why: str) -> KeyReuseError:
    """For a loop one of whose functions spends a key in every turn."""
    return KeyReuseError(f"A {which} leads to key reuse when it runs more than once: {program.debug_info.func_src_info}, "
                         f"{why}. {KeyReuseError.remedy}")


class JaxprTypeError(TypeError):
    """A program does not type-check."""


class InconclusiveDimensionOperation(Exception):
    """A comparison of symbolic dimensions has no single answer."""


def leaked_tracer(tracer, user: str) -> UnexpectedTracerError:
    return UnexpectedTracerError(
        f"{user} was given {_what(tracer)}, but the function that it belongs to is no longer being traced. It was "
        f"stored somewhere (a global, an attribute, a list) as a side effect. Return it from the transformed function "
        f"instead; the setting check_tracer_leaks finds the place.")


def short(value) -> str:
    """A value in at most 80 characters."""
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def not_an_array(value, user: str, argument: str | None, may_be_static: bool = False) -> TypeError:
    """`may_be_static`: the user can mark the argument of this function as static."""
    if is_undefined(value):
        return TypeError(f"the function to transpose is not linear: {user} takes two values that both depend on its arguments. "
                         f"Transpose in one of them, or linearize the function first (xlafront.linearize).")
    shown = short(value)
    where = f"argument {argument}" if argument else "an argument"
    if not may_be_static and not isinstance(value, (list, tuple)):
        remedy = "Pass an array or a number."
    elif isinstance(value, str):
        remedy = "Strings are no arrays: make the argument static (static_argnames)."
    elif isinstance(value, (list, tuple)):
        remedy = "Convert it with xlafront.numpy.asarray(...)."
    elif callable(value):
        remedy = "Functions are no arrays: close over it, or make the argument static (static_argnums)."
    else:
        remedy = ("Pass an array, a number or a pytree of them; make the argument static (static_argnums), or register "
                  "its type as a pytree (tree_util.register_dataclass).")
    return TypeError(f"{user} got {where} of type {type(value).__name__}, which is not an array: {shown}. {remedy}")


def unhashable_static(name: str, value, function: str) -> ValueError:
    return ValueError(
        f"The static argument {name} of {function} is of type {type(value).__name__}, which cannot be hashed. The "
        f"values of static arguments are keys of the compile cache: pass a hashable value (a tuple for a list), or "
        f"do not make the argument static.")


def wrong_argnums(kind: str, index: int, signature: str, function: str) -> ValueError:
    return ValueError(f"{kind}_argnums names position {index}, but {signature} has no positional argument there. "
                      f"Positions count from 0.")


class ShardingTypeError(TypeError):
    """Types of operands that are split over explicit axes of a mesh do not say how a result is split."""


def incompatible_shapes(operation: str, shapes, remedy: str = "") -> TypeError:
    """`shapes`: (name, shape) pairs, in the order of the arguments."""
    listed = ", ".join(f"{name} {tuple(shape)}" if name else str(tuple(shape)) for name, shape in shapes)
    return TypeError(f"{operation} got incompatible shapes: {listed}. {remedy}".rstrip())


def incompatible_dtypes(operation: str, dtypes, remedy: str = "") -> TypeError:
    return TypeError(f"{operation} cannot combine dtypes {', '.join(str(d) for d in dtypes)}. {remedy}".rstrip())


def reference_as_array(operation: str, aval) -> TypeError:
    return TypeError(f"{operation} got a reference of type {aval} where it needs an array. Read its value first, with "
                     "ref[...].")


def reference_twice(operation: str, aval, where: str | None) -> ValueError:
    return ValueError(f"{operation} got one reference of type {aval}{f' ({where})' if where else ''} twice, as two arguments, "
                      f"or as an argument and from outside: a write to one would change the other. Pass it once, and use it "
                      f"under one name.")

"""The exceptions of the library, and the words they use.

An error says what was attempted, on which values, where those came from, and what to do instead.
"""

from __future__ import annotations

from typing import Any

from xlafront.core.zeros import is_undefined
from xlafront.runtime.jaxlib_compat import JaxRuntimeError as JaxRuntimeError


class JAXTypeError(TypeError):
    """Base of the type errors that tracing raises."""


class JAXIndexError(IndexError):
    """Base of the index errors that tracing raises."""


class OutOfRangeError(JAXIndexError, ValueError):
    """A number is not one of the dimensions of an array, or not one of the indices along an axis."""


def what_is(tracer) -> str:
    """A traced array in words: its type, and where it comes from."""
    aval = getattr(tracer, "aval", None)
    shape = f"{getattr(aval, 'dtype', aval)}{list(getattr(aval, 'shape', ()))}".replace(" ", "")
    origin = tracer._origin() if hasattr(tracer, "_origin") else None
    return f"a traced array (tracer) of type {shape}" + (f", {origin}" if origin else "")


class _Explained:
    """An error that the documentation of JAX explains at length, under the same name."""

    def __str__(self):
        page = f"https://docs.jax.dev/en/latest/errors.html#jax.errors.{type(self).__name__}"
        return f"{super().__str__()} More about this error: {page}"


class ConcretizationTypeError(_Explained, JAXTypeError):
    """The value of an array was needed while its function was being traced."""

    attempt = "a concrete value is needed here, and an abstract tracer value was found: {what}"
    remedy = ("Its value is only known when the compiled function runs. Keep the computation in xlafront.numpy (as "
              "x.astype(int) for int(x)), make the argument static (static_argnums), or compute this part outside of the "
              "transformed function.")

    def __init__(self, tracer, context: str = ""):
        text = self.attempt.format(what=what_is(tracer))
        super().__init__(f"{text[0].upper()}{text[1:]}.{' ' + context if context else ''} {self.remedy}")


def decides_shape(function: str, argument: str, tracer) -> ConcretizationTypeError:
    """A size among the arguments of a function whose value is not known."""
    return ConcretizationTypeError(
        tracer, f"It is the argument {argument!r} of {function}, which decides the shape of the result.")


def no_number(tracer) -> str:
    """Why a traced value does not become a Python number, and what to do instead."""
    if tracer._concrete() is None:
        return f"{what_is(tracer)} has no concrete value, it is an abstract tracer value. {ConcretizationTypeError.remedy}"
    return (f"a concrete Python number in place of {what_is(tracer)}, which is being differentiated, would be a constant, and "
            f"the derivative would lose a term. Use the function of the same name in xlafront.numpy (xnp.sin for math.sin); "
            f"where the value is to be held constant, or only shown, take lax.stop_gradient(x), or xlafront.debug.print.")


def python_number(tracer, attempt: str) -> ConcretizationTypeError:
    error = ConcretizationTypeError(tracer)
    error.args = (f"{attempt} cannot be computed: {no_number(tracer)}",)
    return error


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced array was used as a condition."""

    attempt = ("attempted boolean conversion of traced array, by `if`, `while`, `and`, `or` or `not`: {what} has no concrete "
               "value while it is traced")
    remedy = ("Which way it goes is only known when the compiled function runs. Use lax.cond or lax.while_loop for "
              "branches and loops, xlafront.numpy.where to select elements, & | ~ for logic on arrays, or make the "
              "argument static (static_argnums).")

    def __init__(self, tracer):
        super().__init__(tracer)


class TracerIntegerConversionError(ConcretizationTypeError):
    """A traced array was used where Python needs an integer, or a function that asks for an axis or a size. The reference
    raises the one class in some of these places and the other in the rest."""

    def __init__(self, tracer, user: str = "Python"):
        JAXTypeError.__init__(
            self,
            f"{user} asked for an integer with the method __index__ (for an axis, a shape, a list index, a range), which takes "
            f"a concrete value, and got {what_is(tracer)}. Its value is only known when the compiled function runs. Make the "
            "argument static (static_argnums), index an array instead of a list, or use lax.fori_loop or lax.dynamic_slice.")


class TracerArrayConversionError(_Explained, JAXTypeError):
    """A traced array was handed to NumPy."""

    def __init__(self, tracer):
        super().__init__(
            "A NumPy function (or another library) asked with __array__ for the numpy.ndarray conversion of "
            f"{what_is(tracer)}. Its elements have concrete values only when the compiled function runs. Use the function of "
            "the same name in xlafront.numpy, or pure_callback to call NumPy from compiled code.")


class NonConcreteBooleanIndexError(_Explained, JAXIndexError):
    """A traced boolean array was used as an index."""

    def __init__(self, tracer):
        super().__init__(
            f"An array was indexed by {what_is(tracer)}. Boolean indices must be concrete: how many elements a mask selects, "
            "and so the shape of the result, must be known while tracing. Use xlafront.numpy.where(mask, x, fill), "
            "also in place of x.at[mask].set(fill), or xlafront.numpy.nonzero(mask, size=n).")


class UnexpectedTracerError(_Explained, JAXTypeError):
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
        f"{user} was given an unexpected tracer, one that leaked: {what_is(tracer)}. The function that it belongs to is no "
        "longer being traced. It was stored somewhere (in global state, an attribute, a list) as a side effect. Return it "
        "from the transformed function instead; the setting check_tracer_leaks finds the place.")


def ambiguous_truth(shape) -> ValueError:
    """Of `if x:` for an array that has several elements, or none."""
    if 0 in shape:
        return ValueError(f"the truth value of an empty array (shape {tuple(shape)}) is ambiguous: use x.size > 0.")
    return ValueError(f"the truth value of an array of shape {tuple(shape)}, with several elements, is ambiguous: use x.any() "
                      "or x.all().")


def not_a_scalar(name: str, shape) -> TypeError:
    """Of `int(x)` and its kin."""
    return TypeError(f"{name}() needs a scalar array, with one element and no dimensions, got shape {tuple(shape)}. Take one "
                     f"element, x[0], or convert all of them with x.astype({name}).")


def not_an_index(aval) -> TypeError:
    """Of `x.__index__()`."""
    return TypeError(f"only integer scalar arrays can be converted to an index (a shape, a range, a position in a list), got "
                     f"{aval.str_short() if hasattr(aval, 'str_short') else aval}. Convert it with int(x).")


def short(value) -> str:
    """A value in at most 80 characters."""
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def not_callable(user: str, value, argument: str = "its first argument") -> TypeError:
    return TypeError(f"{user} takes a function (a callable) as {argument}, got {type(value).__name__}: {short(value)}")


class NotAnArrayError(TypeError):
    """`value` was given where an array is needed."""

    def __init__(self, text: str, value: Any):
        super().__init__(text)
        self.value = value

    def __reduce__(self):
        return TypeError, self.args


def not_an_array(value, user: str, argument: str | None, may_be_static: bool = False) -> NotAnArrayError | TypeError:
    """`may_be_static`: the user can mark the argument of this function as static."""
    if is_undefined(value):
        return TypeError(f"the function to transpose is not linear: {user} takes two values that both depend on its arguments. "
                         f"Transpose in one of them, or linearize the function first (xlafront.linearize).")
    shown = short(value)
    where = f"argument {argument}" if argument else "an argument"
    if not may_be_static and not isinstance(value, (list, tuple)):
        remedy = "Pass an array or a number."
    elif isinstance(value, str):
        remedy = "Strings are no arrays: make the argument static (static_argnums, static_argnames)."
    elif isinstance(value, (list, tuple)):
        remedy = "Convert it with xlafront.numpy.asarray(...)."
    elif callable(value):
        remedy = "Functions are no arrays: close over it, or make the argument static (static_argnums)."
    else:
        remedy = ("Pass an array, a number or a pytree of them; make the argument static (static_argnums), or register "
                  "its type as a pytree (tree_util.register_dataclass).")
    return NotAnArrayError(f"{user} got {where} of type {type(value).__name__}, which is not an array nor another valid JAX "
                           f"type, and cannot be read as an abstract array: {shown}. {remedy}", value)


class StaticTracerError(ConcretizationTypeError, ValueError):
    """A traced value where a function is compiled for values."""

    def __init__(self, text: str):
        Exception.__init__(self, text)


def unhashable_static(name: str, value, function: str) -> ValueError:
    kind = StaticTracerError if hasattr(value, "_concrete") else ValueError
    return kind(
        f"The static argument {name} of {function} is non-hashable: unhashable type {type(value).__name__!r}. The values of "
        "static arguments are keys of the compile cache: pass a hashable value (a tuple for a list), or do not make the "
        "argument static.")


def wrong_argnums(kind: str, index: int, signature: str, function: str) -> ValueError:
    return ValueError(f"{kind}_argnums names position {index}, but {signature} has no positional argument there. "
                      f"Positions count from 0.")


class ShardingTypeError(TypeError):
    """Types of operands that are split over explicit axes of a mesh do not say how a result is split."""


def incompatible_shapes(operation: str, shapes, remedy: str = "", broadcast: bool = False) -> TypeError:
    """`shapes`: (name, shape) pairs, in the order of the arguments. `broadcast`: they were to be brought to one shape."""
    listed = ", ".join(f"{name} {tuple(shape)}" if name else str(tuple(shape)) for name, shape in shapes)
    return TypeError(f"{operation} got incompatible shapes{' for broadcasting' if broadcast else ''}: {listed}. "
                     f"{remedy}".rstrip())


def incompatible_dtypes(operation: str, dtypes, remedy: str = "") -> TypeError:
    return TypeError(f"{operation} needs arguments of the same dtypes, got {', '.join(str(d) for d in dtypes)}. "
                     f"{remedy}".rstrip())


def pytree_without_end(error: SystemError) -> Exception:
    """What jaxlib's complaint about a pytree without an end means; another complaint as it is."""
    if not isinstance(error.__cause__, RecursionError):
        return error
    return ValueError("a pytree is nested more deeply than Python's recursion limit allows, or contains itself (a cycle), so "
                      "that it has no end. Flatten it into one container, or break the cycle.")


def reference_as_array(operation: str, aval) -> TypeError:
    return TypeError(f"{operation} got a reference of type {aval} where it needs an array. Read its value first, with "
                     "ref[...].")


def reference_of_rule(aval) -> NotImplementedError:
    return NotImplementedError(
        f"a derivative or batching rule closes over a reference, of type {aval}, and ran for a function inside of a jitted "
        f"function, a loop or a branch, which does not take the reference. Pass it to the function with the rule as an "
        f"argument, which its rule gets too.")


def reference_twice(operation: str, aval, where: str | None) -> ValueError:
    return ValueError(f"{operation} got one reference of type {aval}{f' ({where})' if where else ''} twice, as two arguments, "
                      f"or as an argument and from outside: a write to one would change the other. Pass it once, and use it "
                      f"under one name.")


def not_varying_alike(operation: str, avals) -> ValueError:
    return ValueError(f"{operation} got operands of types {', '.join(map(str, avals))} inside of a shard_map, which do not "
                      f"vary along the same axes of its mesh, while the setting auto_pcast is off: make them with "
                      f"pcast(x, axes, to='varying').")

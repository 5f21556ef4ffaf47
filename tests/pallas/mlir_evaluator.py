"""An evaluator in NumPy of MLIR modules: the dialects func, arith, math and scf. Evaluators of kernels extend it.

Values of integer types are signed arrays, whatever the operations; those of `i1` are booleans. Scalars are arrays without
dimensions. Operations that the compiler leaves undefined (shifts by too much, divisions by zero, indices out of bounds) raise
`UndefinedBehavior` where the result would matter.
"""

import math

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16,
          "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
          "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz}
INTEGERS = {"i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.int64,
            "i4": ml_dtypes.int4, "i2": ml_dtypes.int2}


class UndefinedBehavior(Exception):
    """An operation for which compilers may do anything."""


def dtype_of(kind):
    """The dtype of a scalar or shaped type."""
    element = kind.element_type if hasattr(kind, "element_type") else kind
    return np.dtype({**FLOATS, **INTEGERS}[str(element)])


def shape_of(kind):
    return tuple(kind.shape) if hasattr(kind, "shape") else ()


def unsigned(x):
    return x if x.dtype == np.bool_ else x.view(f"u{x.dtype.itemsize}") if x.dtype.kind == "i" else x.astype(np.uint8)


def _truncated_quotient(x, y):
    y = np.where(y == 0, y.dtype.type(1), y)  # of lanes that are not used
    return (np.abs(x.astype(object)) // np.abs(y.astype(object)) * np.sign(x.astype(object)) * np.sign(y.astype(object))
            ) if x.dtype == np.int64 else (np.abs(x.astype(np.int64)) // np.abs(y.astype(np.int64))
                                           * np.sign(x.astype(np.int64)) * np.sign(y.astype(np.int64)))


def _remainder(x, y):
    y = np.where(y == 0, y.dtype.type(1), y)
    return np.fmod(x, y)


def _nan_aware(largest):
    return lambda x, y: np.where(np.isnan(x) | np.isnan(y), x + y, largest(x, y))


def _numeric(largest):
    """The other operand where one is NaN."""
    return lambda x, y: np.where(np.isnan(x), y, np.where(np.isnan(y), x, largest(x, y)))


def _check_shift(x, n):
    if np.any(unsigned(n) >= 8 * x.dtype.itemsize):
        raise UndefinedBehavior(f"shift of {x.dtype} by {n}")
    return n


_vector_erf = np.vectorize(math.erf, otypes=[np.float64])
_vector_erfc = np.vectorize(math.erfc, otypes=[np.float64])

BINARY = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply, "arith.divf": np.divide,
    "arith.remf": np.fmod, "arith.maximumf": _nan_aware(np.maximum), "arith.minimumf": _nan_aware(np.minimum),
    "arith.maxnumf": _numeric(np.fmax), "arith.minnumf": _numeric(np.fmin),
    "arith.addi": lambda x, y: x ^ y if x.dtype == np.bool_ else x + y, "arith.subi": np.subtract, "arith.muli": np.multiply,
    "arith.divsi": _truncated_quotient, "arith.remsi": _remainder,
    "arith.divui": lambda x, y: unsigned(x) // np.maximum(unsigned(y), 1), "arith.floordivsi": np.floor_divide,
    "arith.remui": lambda x, y: unsigned(x) % np.maximum(unsigned(y), 1),
    "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
    "arith.maxui": lambda x, y: np.maximum(unsigned(x), unsigned(y)),
    "arith.minui": lambda x, y: np.minimum(unsigned(x), unsigned(y)),
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.shli": lambda x, n: x << _check_shift(x, n), "arith.shrsi": lambda x, n: x >> _check_shift(x, n),
    "arith.shrui": lambda x, n: unsigned(x) >> unsigned(_check_shift(x, n)),
    "math.atan2": np.arctan2, "math.powf": np.power,
}
UNARY = {
    "arith.negf": np.negative, "math.absf": np.abs, "math.absi": np.abs, "math.exp": np.exp, "math.exp2": np.exp2,
    "math.expm1": np.expm1, "math.log": np.log, "math.log2": np.log2, "math.log1p": np.log1p, "math.sin": np.sin,
    "math.cos": np.cos, "math.tan": np.tan, "math.tanh": np.tanh, "math.sqrt": np.sqrt, "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.cbrt": np.cbrt, "math.floor": np.floor, "math.ceil": np.ceil, "math.roundeven": np.rint, "math.erf": _vector_erf,
    "math.erfc": _vector_erfc, "math.asin": np.arcsin, "math.acos": np.arccos, "math.atan": np.arctan, "math.sinh": np.sinh,
    "math.cosh": np.cosh, "math.asinh": np.arcsinh, "math.acosh": np.arccosh, "math.atanh": np.arctanh,
    "math.trunc": np.trunc, "math.ctpop": lambda x: np.bitwise_count(unsigned(x)),
    "math.ctlz": lambda x: 8 * x.dtype.itemsize - np.vectorize(lambda n: int(n).bit_length(), otypes=[np.int64])(unsigned(x)),
}
_COMPARE_INTEGERS = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
_COMPARE_FLOATS = {1: np.equal, 2: np.greater, 3: np.greater_equal, 4: np.less, 5: np.less_equal,
                   6: lambda x, y: (x < y) | (x > y), 7: lambda x, y: ~(np.isnan(x) | np.isnan(y)),
                   13: np.not_equal, 14: lambda x, y: np.isnan(x) | np.isnan(y)}


def _compare_integers(predicate, x, y):
    if predicate >= 6:
        return _COMPARE_INTEGERS[predicate - 4](unsigned(x), unsigned(y))
    if x.dtype == np.bool_ and predicate >= 2:  # a signed bit: True is -1
        x, y = (-v.astype(np.int8) for v in (x, y))
    return _COMPARE_INTEGERS[predicate](x, y)


def _truncate_to_integer(x, dtype):
    x = np.asarray(x, np.float64)
    info = np.iinfo(dtype)
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(x), 0, np.clip(np.trunc(x), info.min, info.max)).astype(dtype)


def _constant(evaluator, op, dtype, shape):
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        if attribute.is_splat:
            attribute = attribute.get_splat_value()
        else:
            return np.array(attribute).reshape(shape).astype(dtype)
    return np.full(shape, attribute.value, dtype)


CONVERSIONS = {
    "arith.extf": lambda x, d: x.astype(d), "arith.truncf": lambda x, d: x.astype(d),
    "arith.extsi": lambda x, d: (-x.astype(np.int8) if x.dtype == np.bool_ else x).astype(d),
    "arith.extui": lambda x, d: unsigned(x).astype(d), "arith.trunci": lambda x, d: (x & 1).astype(d) if d == np.bool_
    else x.astype(d), "arith.sitofp": lambda x, d: x.astype(d), "arith.uitofp": lambda x, d: unsigned(x).astype(d),
    "arith.fptosi": lambda x, d: _truncate_to_integer(x, d),
    "arith.fptoui": lambda x, d: _truncate_to_integer(x, np.dtype(f"u{d.itemsize}")).view(d),
    "arith.bitcast": lambda x, d: x.view(d), "arith.index_cast": lambda x, d: x.astype(d),
    "arith.index_castui": lambda x, d: unsigned(x).astype(d),
}


def on_wide_floats(function, x, *others):
    """Apply a function in 64 bits, as NumPy has it for few of the small floats."""
    return function(*[np.asarray(v, np.float64) if v.dtype.kind not in "iub" else v for v in (x, *others)])


class Evaluator:
    """Runs functions of a module. Subclasses add operations: a method `rules()[name](op, *operands)` returns results."""

    def __init__(self, module):
        self.module = module  # keeps it alive
        self.values = {}
        self.functions = {ir.StringAttr(op.operation.attributes["sym_name"]).value: op.operation
                          for op in module.body.operations}
        self.rules = {
            "func.call": self.call_function, "scf.for": self.run_for, "scf.while": self.run_while, "scf.if": self.run_if,
            "arith.select": self.select, **{name: self.compare for name in ("arith.cmpi", "arith.cmpf")}}

    def call(self, name, *args):
        return self.run_region(self.functions[name].regions[0], args)

    def run_region(self, region, args=()):
        """Run the block of a region; return the operands of its terminator."""
        [block] = region.blocks
        self.values.update(zip(block.arguments, args))
        for op in block.operations:
            op = op.operation
            operands = [self.values[v] for v in op.operands]
            if op.name in TERMINATORS:
                return operands
            results = self.run(op, operands)
            self.values.update(zip(op.results, results))
        return []

    def run(self, op, operands):
        rule = self.rules.get(op.name)
        if rule is not None:
            results = rule(op, *operands)
            return results if isinstance(results, list) else [] if results is None else [results]
        kind = op.results[0].type
        dtype, shape = dtype_of(kind), shape_of(kind)
        with np.errstate(all="ignore"):
            if op.name == "arith.constant":
                return [_constant(self, op, dtype, shape)]
            if op.name in CONVERSIONS:
                result = CONVERSIONS[op.name](operands[0], dtype)
            else:
                function = UNARY.get(op.name) or BINARY.get(op.name)
                if function is None:
                    raise NotImplementedError(f"the evaluator does not know {op.name}: {op}")
                if op.name.startswith("math.") and dtype.kind != "i":
                    result = on_wide_floats(function, *operands)
                else:
                    result = function(*operands)
            result = np.asarray(result)
            result = result.astype(dtype) if result.dtype.kind != "u" or dtype == np.bool_ else result.view(dtype) \
                if result.dtype.itemsize == dtype.itemsize else result.astype(dtype)
        assert result.shape == shape, f"{op} gave the shape {result.shape}"
        return [result]

    # Operations

    def compare(self, op, x, y):
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        with np.errstate(invalid="ignore"):
            result = _compare_integers(predicate, x, y) if op.name == "arith.cmpi" else _COMPARE_FLOATS[predicate](x, y)
        return np.asarray(result, np.bool_)

    def select(self, op, which, x, y):
        return np.where(which, x, y).astype(x.dtype) if isinstance(x, np.ndarray) else (x if which else y)

    def call_function(self, op, *operands):
        return list(self.call(ir.FlatSymbolRefAttr(op.attributes["callee"]).value, *operands))

    def run_for(self, op, start, stop, step, *carry):
        for i in range(int(start), int(stop), int(step)):
            carry = self.run_region(op.regions[0], [np.asarray(i, start.dtype), *carry])
        return list(carry)

    def run_while(self, op, *carry):
        for _ in range(100_000):
            goes_on, *carry = self.run_region(op.regions[0], carry)
            if not goes_on:
                return list(carry)
            carry = self.run_region(op.regions[1], carry)
        raise AssertionError("a loop without an end")

    def run_if(self, op, condition):
        return list(self.run_region(op.regions[0 if condition else 1])) if condition or len(op.regions[1].blocks) else []


TERMINATORS = frozenset({"scf.yield", "scf.condition", "func.return"})

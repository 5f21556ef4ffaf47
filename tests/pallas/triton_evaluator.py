"""An evaluator in NumPy of kernels for Triton: runs the module over its grid, with checks of all accesses to memory.

Pointers are integers: the number of the array, and the index of the element in it. An access beyond an array raises
`OutOfBounds`. An access without atomicity to an element that another program of the grid writes raises `Race`. Uninitialized
memory, and elements of reads that are masked, are NaN or large integers.
"""

import math

import mlir_evaluator
import numpy as np
from jaxlib.mlir import ir
from mlir_evaluator import UNARY, dtype_of, on_wide_floats, shape_of, unsigned

import xlafront as xf
from xlafront.pallas.to_triton import kernel as to_triton
from xlafront.pallas.to_triton.writer import context

OFFSETS = 1 << 40


class OutOfBounds(Exception):
    pass


class Race(Exception):
    pass


def poison(dtype):
    """The value of uninitialized memory."""
    if dtype.kind in "iub":
        return True if dtype == np.bool_ else np.iinfo(dtype).max // 3
    return np.asarray(np.nan).astype(dtype)


LIBDEVICE = {
    **{name: UNARY[f"math.{name}"] for name in "exp exp2 expm1 log log2 log1p sin cos tan tanh sqrt rsqrt cbrt floor ceil asin acos "
       "atan sinh cosh asinh acosh atanh erf erfc".split()},
    "pow": np.power, "atan2": np.arctan2, "rint": np.rint, "fmod": np.fmod, "fabs": np.abs,
    "erfinv": lambda x: np.asarray(xf.lax.erf_inv(x.astype(np.float32))), "clz": UNARY["math.ctlz"], "popc": UNARY["math.ctpop"],
    "clzll": UNARY["math.ctlz"], "popcll": UNARY["math.ctpop"],
    "lgamma": np.vectorize(math.lgamma, otypes=[np.float64])}
ASSEMBLY = {"tanh.approx": np.tanh, "mov.b32": np.copy, "ex2.approx": np.exp2}
ATOMICS = {1: np.bitwise_and, 2: np.bitwise_or, 3: np.bitwise_xor, 4: np.add, 5: np.add, 6: np.maximum, 7: np.minimum,
           8: lambda x, y: np.maximum(unsigned(x), unsigned(y)).view(x.dtype),
           9: lambda x, y: np.minimum(unsigned(x), unsigned(y)).view(x.dtype), 10: lambda x, y: y}


def attribute(op, name):
    return op.attributes[name].value


class Evaluator(mlir_evaluator.Evaluator):
    """Runs the function of a kernel on flat arrays, which are changed."""

    def __init__(self, module, arrays):
        super().__init__(module)
        self.arrays = arrays
        self.writers = [np.full(a.shape, -1, np.int64) for a in arrays]
        self.readers = [np.full(a.shape, -1, np.int64) for a in arrays]
        self.program, self.ids = 0, (0, 0, 0)
        names = ("get_program_id make_range splat unsplat expand_dims broadcast reshape trans join split addptr load store "
                 "atomic_rmw atomic_cas dot reduce scan gather bitcast fp_to_fp extern_elementwise elementwise_inline_asm print")
        self.rules |= {f"tt.{name}": getattr(self, name) for name in names.split()} | {"gpu.barrier": lambda op: None}

    def run_grid(self, grid):
        [name] = self.functions
        for z in range(grid[2]):
            for y in range(grid[1]):
                for x in range(grid[0]):
                    self.ids = x, y, z
                    self.call(name, *[np.asarray(i * OFFSETS) for i in range(len(self.arrays))])
                    self.program += 1

    # Shapes

    def get_program_id(self, op):
        return np.asarray(self.ids[attribute(op, "axis")], np.int32)

    def make_range(self, op):
        return np.arange(attribute(op, "start"), attribute(op, "end"), dtype=np.int32)

    def splat(self, op, x):
        return np.full(shape_of(op.results[0].type), x)

    def unsplat(self, op, x):
        return x.reshape(())

    def expand_dims(self, op, x):
        return np.expand_dims(x, attribute(op, "axis"))

    def broadcast(self, op, x):
        assert x.ndim == len(shape_of(op.results[0].type))
        return np.broadcast_to(x, shape_of(op.results[0].type))

    def reshape(self, op, x):
        return x.reshape(shape_of(op.results[0].type))

    def trans(self, op, x):
        return x.transpose(list(ir.DenseI32ArrayAttr(op.attributes["order"])))

    def join(self, op, x, y):
        return np.stack([x, y], -1)

    def split(self, op, x):
        return [x[..., 0], x[..., 1]]

    def gather(self, op, x, indices):
        return np.take_along_axis(x, indices, attribute(op, "axis"))

    # Memory

    def addptr(self, op, pointer, offset):
        return pointer + offset.astype(np.int64)

    def located(self, op, pointer, mask):
        """The array, and the indices of the elements that the mask selects."""
        pointer = np.asarray(pointer)
        selected = pointer[mask] if mask is not None else pointer.reshape(-1)
        number = 0 if not selected.size else (int(selected.min()) + OFFSETS // 2) // OFFSETS
        index = selected - number * OFFSETS
        if selected.size and (index.min() < 0 or index.max() >= self.arrays[number].size):
            raise OutOfBounds(f"{op} accesses element {index.min() if index.min() < 0 else index.max()} of array {number}, which "
                              f"has {self.arrays[number].size} elements")
        return number, index

    def note(self, op, number, index, tracks, others):
        """Record accesses, and check that no other program has accessed the elements."""
        before = others[number][index]
        if np.any((before >= 0) & (before != self.program)):
            raise Race(f"{op} accesses elements of array {number} that another program accesses")
        tracks[number][index] = self.program

    def load(self, op, pointer, *rest):
        has_mask = len(rest) > 0
        mask = np.asarray(rest[0]) if has_mask else None
        number, index = self.located(op, pointer, mask)
        self.note(op, number, index, self.readers, self.writers)
        dtype = dtype_of(op.results[0].type)
        found = self.arrays[number][index]
        assert found.dtype == dtype, (found.dtype, dtype)
        if not has_mask:
            return found.reshape(np.shape(pointer))
        result = np.array(np.broadcast_to(rest[1] if len(rest) > 1 else poison(dtype), np.shape(pointer)), dtype)
        result[mask] = found
        return result

    def store(self, op, pointer, value, *masks):
        mask = np.asarray(masks[0]) if masks else None
        number, index = self.located(op, pointer, mask)
        if number == 0 and not index.size:
            return
        self.note(op, number, index, self.writers, self.writers)
        self.note(op, number, index, self.writers, self.readers)
        assert self.arrays[number].dtype == value.dtype, (self.arrays[number].dtype, value.dtype)
        self.arrays[number][index] = value[mask] if mask is not None else np.asarray(value).reshape(-1)

    def atomic_rmw(self, op, pointer, value, *masks):
        mask = np.asarray(masks[0]) if masks else None
        number, index = self.located(op, pointer, mask)
        update = ATOMICS[attribute(op, "atomic_rmw_op")]
        old = np.full(np.shape(pointer), poison(value.dtype), value.dtype)
        selected = value[mask] if mask is not None else np.asarray(value).reshape(-1)
        found = []
        array = self.arrays[number]
        array = array if array.dtype == value.dtype else array.view(value.dtype)
        for i, x in zip(index, selected):
            found.append(array[i])
            array[i] = update(array[i:i + 1], np.asarray(x)[None])[0]
        old[mask if mask is not None else np.ones(old.shape, bool)] = found
        return old

    def atomic_cas(self, op, pointer, expected, new):
        number, index = self.located(op, pointer, None)
        old = self.arrays[number][index][0]
        if old == expected:
            self.arrays[number][index] = new
        return np.asarray(old)

    # Values

    def dot(self, op, x, y, total):
        kind = np.int64 if x.dtype.kind in "iu" else np.float64
        return (np.matmul(x.astype(kind), y.astype(kind)) + total).astype(total.dtype)

    def reduce(self, op, *values):
        axis = attribute(op, "axis")
        columns = [np.moveaxis(v, axis, 0) for v in values]
        return self.folded(op, columns, lambda total: None)

    def scan(self, op, *values):
        axis, backward = attribute(op, "axis"), attribute(op, "reverse")
        columns = [np.moveaxis(v, axis, 0)[::-1 if backward else 1] for v in values]
        steps = []
        self.folded(op, columns, steps.append)
        return [np.moveaxis(np.stack([s[k] for s in steps])[::-1 if backward else 1], 0, axis) for k in range(len(values))]

    def folded(self, op, columns, visit):
        """Combine along the first axis by the operation's region, which works on arrays as on scalars."""
        total = [c[0] for c in columns]
        visit(total)
        for i in range(1, len(columns[0])):
            total = self.run_region(op.regions[0], [*total, *[c[i] for c in columns]])
            visit(total)
        return list(map(np.asarray, total))

    def run(self, op, operands):
        if any([x.ndim for x in operands]) and op.name not in self.rules and op.results and not shape_of(op.results[0].type):
            with np.errstate(all="ignore"):  # in the region of a reduction
                function = {**mlir_evaluator.UNARY, **mlir_evaluator.BINARY}[op.name]
                return [np.asarray(function(*operands)).astype(dtype_of(op.results[0].type))]
        return super().run(op, operands)

    def bitcast(self, op, x):
        return x if "ptr" in str(op.results[0].type) else x.view(dtype_of(op.results[0].type))

    def fp_to_fp(self, op, x):
        return x.astype(dtype_of(op.results[0].type))

    def extern_elementwise(self, op, *values):
        symbol = attribute(op, "symbol").removeprefix("__nv_")
        dtype = dtype_of(op.results[0].type)
        if dtype.kind == "f":
            assert symbol.endswith("f") == (dtype == np.float32)
            symbol = symbol.removesuffix("f") if dtype == np.float32 else symbol
        if symbol == "nextafter":
            return np.nextafter(*values)
        with np.errstate(all="ignore"):
            return on_wide_floats(LIBDEVICE[symbol], *values).astype(dtype)

    def elementwise_inline_asm(self, op, *values):
        [function] = [f for name, f in ASSEMBLY.items() if name in attribute(op, "asm_string")]
        return function(values[0])

    def print(self, op, *values):
        self.printed = [*getattr(self, "printed", []), (attribute(op, "prefix"), *values)]


mlir_evaluator.TERMINATORS |= {"tt.return", "tt.reduce.return", "tt.scan.return"}


def evaluate(function, *args):
    """Run a function that is one `pallas_call`, by the module that is written for GPUs. Returns the list of results."""
    equations = [e for e in xf.make_jaxpr(function)(*args).eqns if e.primitive.name == "pallas_call"]
    assert len(equations) == 1
    params = equations[0].params
    mapping = params["grid_mapping"]
    text = to_triton.kernel_module(params["jaxpr"], mapping, "kernel")
    inputs = [np.array(a) for a in xf.tree.leaves(args)]
    arrays = [flat_memory(a) for a in inputs]
    aliased = {o: i for i, o in params["input_output_aliases"]}
    for o, aval in enumerate(params["out_avals"]):
        arrays.append(arrays[aliased[o]] if o in aliased else flat_memory(np.full(aval.shape, poison(aval.dtype), aval.dtype)))
    with context():
        evaluator = Evaluator(ir.Module.parse(text), arrays)
        evaluator.run_grid(to_triton.launch_grid(mapping)[0])
    return [a.view(aval.dtype).reshape(aval.shape) for a, aval in zip(arrays[len(inputs):], params["out_avals"])]


def flat_memory(x):
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(np.int8) if x.dtype == np.bool_ else flat.view(f"i{x.dtype.itemsize}") if x.dtype.kind == "u" else flat

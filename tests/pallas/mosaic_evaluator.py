"""An evaluator in NumPy of the modules that TPU kernels are lowered to: the operations of vector, memref and tpu beside those of
`mlir_evaluator`, and the grid with its windows.

Memory that was not written is NaN or the smallest integer, as in interpreted kernels; blocks at the edge are padded so, and what
is written beyond the edge is lost. Accesses out of bounds of a memref raise `UndefinedBehavior`. A copy arrives when it
is waited for: reading its destination before gives old values. A kernel on several devices runs in a thread for each of them,
one at a time.
"""

import base64
import itertools
import json
import re
import threading

import ml_dtypes
import mlir_evaluator
import numpy as np
from convolution_kernels import convolve
from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager
from mlir_evaluator import Evaluator, UndefinedBehavior, dtype_of, shape_of, unsigned

from xlafront.pallas.kernel_mlir import make_context

mlir_evaluator.TERMINATORS |= {"tpu.yield"}
DYNAMIC = -(1 << 63)


def modules(text):
    """The kernels in the text of a StableHLO module: `(module, config)` of each, in the order of the calls."""
    context = make_context("_tpu_ext")
    context.allow_unregistered_dialects = True
    found = []
    for line in re.findall(r"stablehlo.custom_call @tpu_custom_call.*", text):
        escaped = re.search(r'backend_config = "((?:[^"\\]|\\.)*)"', line).group(1)
        config = json.loads(re.sub(r"\\(\\|[0-9A-F]{2})", lambda m: "\\" if m[1] == "\\" else chr(int(m[1], 16)), escaped))
        with context, ir.Location.unknown():
            module = ir.Module.parse(base64.b64decode(config["custom_call_config"].pop("body")))
            PassManager.parse("builtin.module(mosaic-serde{serialize=false})").run(module.operation)
            module.operation.verify()
        found.append((module, config))
    return found


def uninitialized(shape, dtype):
    if dtype.kind in "fV" or dtype in (np.dtype(ml_dtypes.bfloat16),):
        return np.full(shape, np.nan, dtype)
    return np.full(shape, np.iinfo(dtype).min if dtype.kind == "i" and dtype != np.int16 else 0, dtype)


def memory_of(kind):
    """New memory for a memref type."""
    text = str(kind)
    shape = tuple(map(int, re.match(r"memref<((?:\d+x)*)", text)[1].split("x")[:-1]))
    if "semaphore" in text:
        return np.zeros(shape, np.int64)
    return uninitialized(shape, dtype_of(ir.MemRefType(kind)))


def _attribute(op, name):
    attribute = op.attributes[name]
    if isinstance(attribute, ir.ArrayAttr):
        return [a.value for a in attribute]
    return list(attribute) if hasattr(attribute, "__iter__") and not isinstance(attribute, ir.StringAttr) else attribute.value


class Devices:
    """The state that evaluators of a kernel on several devices share. Their threads hold `lock` while they run."""

    def __init__(self, module, count):
        self.lock = threading.Condition()
        self.pending = []  # copies that were started: semaphore, destination, value
        self.sent = []  # semaphores of sources that were read
        self.waiting = {}  # for each device that waits, what it waits for
        self.running = count
        self.evaluators = [MosaicEvaluator(module, self, i) for i in range(count)]

    def is_stuck(self):
        return len(self.waiting) == self.running and not any(ready() for ready in self.waiting.values())

    def wait(self, device, ready, message):
        self.waiting[device] = ready
        while not ready():
            if self.is_stuck():
                self.lock.notify_all()
                raise UndefinedBehavior(message)
            self.lock.wait()
        del self.waiting[device]

    def run(self, function):
        """Call a function with each device, in a thread for each."""
        errors = []

        def run_one(device):
            with self.lock:
                try:
                    function(device)
                except BaseException as e:
                    errors.append(e)
                self.running -= 1
                self.waiting.pop(device, None)
                self.lock.notify_all()

        threads = [threading.Thread(target=run_one, args=(i,)) for i in range(len(self.evaluators))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if errors:
            raise errors[0]
        if self.pending:
            raise UndefinedBehavior("a copy that was not waited for")
        if any(e.barrier for e in self.evaluators):
            raise UndefinedBehavior("a barrier semaphore whose count is not zero at the end")


class MosaicEvaluator(Evaluator):
    """Runs one kernel on one device. `printed` has the texts of `tpu.log`."""

    def __init__(self, module, devices, device):
        super().__init__(module)
        self.devices, self.device = devices, device
        self.printed = []
        self.grid = self.bounds = ()
        self.barrier = np.zeros((), np.int64)
        self.units = {}  # of matrix units, by number: staging registers, the loaded operand, accumulators, queues of results
        self.memories = [self.barrier]  # in the same order on each device
        names = {n[len("run_"):]: getattr(self, n) for n in dir(self) if n.startswith("run_")}
        self.rules.update({rule: names[rule.replace(".", "_")] for rule in OPERATIONS})

    # Memory

    def view(self, memory, indices, sizes, strides):
        """The part of a memref from an index on; indices out of bounds are errors."""
        key = []
        for i, n, s, full in zip(map(int, indices), sizes, strides, memory.shape):
            if not (0 <= i and (i + (n - 1) * s < full or n == 0)):
                raise UndefinedBehavior(f"{n} positions from {i} on of {full}")
            key.append(slice(i, i + (n - 1) * s + 1, s))
        return memory[tuple(key)]

    def run_vector_load(self, op, memory, *indices):
        shape = shape_of(op.results[0].type)
        return self.view(memory, indices, shape, [1] * len(shape)).copy()

    def run_tpu_strided_load(self, op, memory, *indices):
        return self.view(memory, indices, shape_of(op.results[0].type), _attribute(op, "strides")).copy()

    def run_tpu_strided_store(self, op, x, memory, *indices):
        self.view(memory, indices, x.shape, _attribute(op, "strides"))[...] = x

    def run_tpu_vector_store(self, op, x, memory, *rest):
        indices, masks = rest[:memory.ndim], rest[memory.ndim:]
        part = self.view(memory, indices, x.shape, [1] * x.ndim)
        part[...] = np.where(masks[0], x, part) if masks else x

    def run_memref_load(self, op, memory, *indices):
        return self.view(memory, indices, [1] * memory.ndim, [1] * memory.ndim).reshape(()).copy()

    def run_memref_store(self, op, x, memory, *indices):
        self.view(memory, indices, [1] * memory.ndim, [1] * memory.ndim)[...] = x

    def run_memref_alloca(self, op):
        self.memories.append(memory_of(op.results[0].type))
        self.devices.lock.notify_all()
        return self.memories[-1]

    run_tpu_sem_alloc = run_memref_alloca

    def counterpart(self, part, device):
        """The part of the memory of another device that corresponds to one of this device."""
        other = self.devices.evaluators[int(device)]
        [i] = [i for i, memory in enumerate(self.memories) if np.shares_memory(memory, part)]
        self.devices.wait(self.device, lambda: len(other.memories) > i, "memory that the other device does not have")
        offset = part.__array_interface__["data"][0] - self.memories[i].__array_interface__["data"][0]
        return np.ndarray(part.shape, part.dtype, other.memories[i], offset, part.strides)

    def run_tpu_memref_slice(self, op, memory, *indices):
        given = iter(indices[memory.ndim:])
        text = re.match(r"memref<((?:(?:\d+|\?)x)*)", str(op.results[0].type))[1]
        sizes = [int(next(given)) if n == "?" else int(n) for n in text.split("x")[:-1]]
        return self.view(memory, indices, sizes, [1] * len(sizes))

    def run_tpu_memref_squeeze(self, op, memory):
        text = re.match(r"memref<((?:(?:\d+|\?)x)*)", str(op.results[0].type))[1]
        sizes, remains = text.split("x")[:-1], []
        for d, n in enumerate(memory.shape):  # dimensions of size 1 that the result does not have are dropped
            remains.append(len(sizes) > sum(remains) and sizes[sum(remains)] in (str(n), "?"))
            if n == 1 and memory.ndim - d > len(sizes) - sum(remains[:-1]):
                remains[-1] = False
        assert sum(remains) == len(sizes)
        return memory[(*[slice(None) if k else 0 for k in remains], ...)]  # (an array also without dimensions)

    def run_tpu_region(self, op):
        return list(self.run_region(op.regions[0]))

    # Copies and semaphores

    def run_tpu_device_id(self, op):
        return np.asarray(self.device, np.int32)

    def run_tpu_sem_barrier(self, op):
        return self.barrier

    def run_tpu_enqueue_dma(self, op, source, *rest):
        _, sources, _, _, device, core, _ = _attribute(op, "operandSegmentSizes")
        target, semaphore, *ids = rest[sources:]
        assert source.shape == target.shape and source.dtype == target.dtype and not core
        if device:
            target, semaphore = (self.counterpart(x, ids[0]) for x in (target, semaphore))
        self.devices.pending.append((semaphore, target, source.copy()))
        self.devices.sent += rest[:sources]
        self.devices.lock.notify_all()

    def run_tpu_wait_dma2(self, op, semaphore, source, target, *ids):
        def arrived():
            return [i for i, (signalled, _, value) in enumerate(self.devices.pending)
                    if np.shares_memory(signalled, semaphore) and value.nbytes == target.nbytes]

        def left():
            return [i for i, signalled in enumerate(self.devices.sent) if np.shares_memory(signalled, semaphore)]

        self.devices.wait(self.device, lambda: arrived() or left(), "a wait for a copy that was not started")
        if arrived():
            _, destination, value = self.devices.pending.pop(arrived()[0])
            destination[...] = value
        else:
            del self.devices.sent[left()[0]]

    def run_tpu_sem_signal(self, op, semaphore, amount, *ids):
        if _attribute(op, "operandSegmentSizes")[2]:
            semaphore = self.counterpart(semaphore, ids[0])
        semaphore[...] += amount
        self.devices.lock.notify_all()

    def run_tpu_sem_wait(self, op, semaphore, amount):
        self.devices.wait(self.device, lambda: semaphore >= amount, "a wait without end")
        semaphore[...] -= amount

    def run_tpu_sem_read(self, op, semaphore):
        return np.asarray(semaphore, np.int32).copy()

    # The grid, hints and texts

    def run_tpu_iteration_bound(self, op):
        return np.asarray(self.bounds[_attribute(op, "dim")], np.int32)

    def run_tpu_assume_multiple(self, op, x):
        if np.any(x % _attribute(op, "multiple")):
            raise UndefinedBehavior(f"{x} is no multiple of {_attribute(op, 'multiple')}")
        return x

    def run_tpu_delay(self, op, nanos):
        pass

    def run_tpu_prng_set_seed_32(self, op, *seeds):
        pass

    def run_tpu_prng_random_bits(self, op):
        return np.zeros(shape_of(op.results[0].type), np.int32)

    def run_tpu_log(self, op, *values):
        self.printed.append(re.sub(r"\$(\d+|\$)", lambda m: "$" if m[1] == "$" else str(values[int(m[1])]), _attribute(op, "tag")))

    # Shapes

    def run_vector_shape_cast(self, op, x):
        return x.reshape(shape_of(op.results[0].type))

    def run_vector_broadcast(self, op, x):
        return np.broadcast_to(x, shape_of(op.results[0].type)).copy()

    def run_vector_extract(self, op, x):
        return np.asarray(x[tuple(_attribute(op, "static_position"))])

    def run_vector_extract_strided_slice(self, op, x):
        offsets, sizes = _attribute(op, "offsets"), _attribute(op, "sizes")
        return x[tuple([slice(o, o + n) for o, n in zip(offsets, sizes)])].copy()

    def run_tpu_transpose(self, op, x):
        return x.transpose(_attribute(op, "permutation")).copy()

    def run_tpu_concatenate(self, op, *values):
        return np.concatenate(values, _attribute(op, "dimension"))

    def run_tpu_iota(self, op):
        shape, [d] = shape_of(op.results[0].type), _attribute(op, "dimensions")
        return np.broadcast_to(np.arange(shape[d], dtype=np.int32).reshape([-1 if i == d else 1 for i in range(len(shape))]), shape)

    def run_tpu_dynamic_rotate(self, op, x, amount):
        axis = _attribute(op, "dimension")
        if "stride" not in op.attributes:
            return np.roll(x, amount, axis)
        stride, rows = _attribute(op, "stride"), _attribute(op, "stride_dimension")
        slices = [np.roll(np.take(x, [i], rows), amount + i * stride, axis) for i in range(x.shape[rows])]
        return np.concatenate(slices, rows)

    def run_tpu_dynamic_gather(self, op, x, indices):
        [axis] = _attribute(op, "dimensions")
        unit = {1: 128, 2: 8}[x.ndim - axis]
        if x.dtype.itemsize != 4 or x.shape[axis] > unit:
            raise NotImplementedError(f"Mosaic has no gather out of {x.dtype}{x.shape} along dimension {axis}")
        return np.take_along_axis(x, indices % x.shape[axis], axis)

    # Element types

    def run_tpu_bitcast(self, op, x):
        dtype = dtype_of(op.results[0].type)
        if dtype.itemsize == x.dtype.itemsize:
            return x.view(dtype)
        rows = np.moveaxis(x, -2, -1)  # rows that share a word are neighbours
        return np.moveaxis(np.ascontiguousarray(rows).view(dtype), -1, -2).copy()

    def run_tpu_pack_elementwise(self, op, *values):
        dtype = dtype_of(op.attributes["target_type"].value)
        pieces = np.stack([x.astype(dtype) for x in values], -1)
        return np.ascontiguousarray(pieces).view(np.int32)[..., 0]

    def run_tpu_unpack_elementwise(self, op, x):
        dtype = dtype_of(op.attributes["source_type"].value)
        pieces = np.ascontiguousarray(x)[..., None].view(dtype)
        return pieces[..., _attribute(op, "index")].astype(dtype_of(op.results[0].type))

    def run_tpu_stochastic_convert(self, op, x, bits):
        """Of numbers that are normal in the narrow dtype."""
        dtype = dtype_of(op.results[0].type)
        below = np.uint32(2 ** (23 - ml_dtypes.finfo(dtype).nmant) - 1)
        return ((x.view(np.uint32) + (bits.view(np.uint32) & below)) & ~below).view(np.float32).astype(dtype)

    def run_tpu_reciprocal(self, op, x):
        with np.errstate(all="ignore"):
            return (1 / x).astype(x.dtype)

    # Reductions and products

    def run_vector_multi_reduction(self, op, x, start):
        kind = re.search(r"<(\w+)>", str(op.attributes["kind"]))[1]
        axes = tuple(_attribute(op, "reduction_dims"))
        operation, is_unsigned = {"add": (np.add, False), "maximumf": (np.maximum, False), "minimumf": (np.minimum, False),
                                  "maxsi": (np.maximum, False), "minsi": (np.minimum, False), "maxui": (np.maximum, True),
                                  "minui": (np.minimum, True)}[kind]
        if is_unsigned:
            x, start = unsigned(x), unsigned(start)
        with np.errstate(all="ignore"):
            return operation(start, operation.reduce(x, axis=axes)).astype(start.dtype).view(dtype_of(op.results[0].type))

    def run_tpu_reduce_index(self, op, x):
        function = np.argmax if "arg_max" in str(op.attributes["kind"]) else np.argmin
        return function(x, axis=_attribute(op, "axis")).astype(np.int32)

    def run_tpu_matmul(self, op, x, y, start):
        lists = json.loads(f"[{re.search('<(.*)>', str(op.attributes['dimension_numbers']))[1]}]")
        [lc], [rc], [lf], [rf], order, lb, rb = lists
        letters = [{lc: "k", lf: "i", **dict.fromkeys(lb, "b")}, {rc: "k", rf: "j", **dict.fromkeys(rb, "b")}]
        terms = ["".join([names[d] for d in range(len(names))]) for names in letters]
        result = "".join([letters[side][d] for side, d in zip(order[::2], order[1::2])])
        wide = np.float64 if start.dtype.kind == "f" else np.int64
        return (start + np.einsum(f"{terms[0]},{terms[1]}->{result}", x.astype(wide), y.astype(wide))).astype(start.dtype)

    def run_tpu_conv(self, op, x, y, start):
        batch, channel, space, into, out, window, *result = json.loads(f"[{re.search('<(.*)>', str(op.attributes['dimension_numbers']))[1]}]")
        lists = [_attribute(op, name) for name in ("window_strides", "lhs_dilation", "rhs_dilation")]
        groups = [_attribute(op, name) if name in op.attributes else 1 for name in ("feature_group_count", "batch_group_count")]
        padding = np.reshape(_attribute(op, "padding"), (-1, 2))
        assert not any(_attribute(op, "window_reversal"))
        found = convolve(x.transpose(batch, *space, channel).astype(np.float64), y.transpose(*window, into, out).astype(np.float64),
                         padding, *lists, *groups)
        return (start + found.transpose(np.argsort([result[0], *result[2], result[1]]))).astype(start.dtype)

    # Matrix units

    def _product(self, op, lhs):
        unit = _attribute(op, "mxu_index")
        if "load_staged_rhs" in op.attributes:  # a missing register is a KeyError
            self.units[unit, "loaded"] = self.units.pop((unit, "register", _attribute(op, "load_staged_rhs")))
        return unit, np.asarray(lhs, np.float64) @ self.units[unit, "loaded"]

    def run_tpu_matmul_push_rhs(self, op, rhs):
        register = _attribute(op, "staging_register") if "staging_register" in op.attributes else 0
        key = _attribute(op, "mxu_index"), "register", register
        if key in self.units:
            raise UndefinedBehavior("a push to a staging register that is not empty")
        is_transposed = "transpose" in op.attributes and _attribute(op, "transpose")
        self.units[key] = np.asarray(rhs.T if is_transposed else rhs, np.float64)

    def run_tpu_matmul_acc_lhs(self, op, lhs):
        unit, product = self._product(op, lhs)
        tiles = product.reshape(product.shape[0] // 8, 8, product.shape[1] // 128, 128).swapaxes(1, 2).reshape(-1, 8, 128)
        for number, tile in enumerate(tiles, _attribute(op, "acc")):
            self.units[unit, number] = self.units.get((unit, number), 0) + tile

    def run_tpu_matmul_pop(self, op):
        rows, columns = shape_of(op.results[0].type)
        first, unit = _attribute(op, "acc"), _attribute(op, "mxu_index")
        numbers = range(first, first + rows // 8 * (columns // 128))
        tiles = np.stack([self.units.pop((unit, n), np.zeros((8, 128))) for n in numbers])
        tiles = tiles.reshape(rows // 8, columns // 128, 8, 128).swapaxes(1, 2)
        return tiles.reshape(rows, columns).astype(dtype_of(op.results[0].type))

    def run_tpu_matmul_lhs_fifo(self, op, lhs):
        unit, product = self._product(op, lhs)
        self.units.setdefault((unit, "queue"), []).append(product)

    def run_tpu_matmul_pop_fifo(self, op):
        product = self.units[_attribute(op, "mxu_index"), "queue"].pop(0)
        assert product.shape == shape_of(op.results[0].type)
        return product.astype(dtype_of(op.results[0].type))


OPERATIONS = """vector.load vector.shape_cast vector.broadcast vector.extract vector.extract_strided_slice vector.multi_reduction
    memref.load memref.store memref.alloca tpu.sem_alloc tpu.strided_load tpu.strided_store tpu.vector_store tpu.memref_slice
    tpu.memref_squeeze tpu.region tpu.enqueue_dma tpu.wait_dma2 tpu.sem_signal tpu.sem_wait tpu.sem_read tpu.sem_barrier tpu.device_id tpu.iteration_bound
    tpu.assume_multiple tpu.delay tpu.prng_set_seed_32 tpu.prng_random_bits tpu.log tpu.transpose tpu.concatenate tpu.iota
    tpu.dynamic_rotate tpu.dynamic_gather tpu.bitcast tpu.pack_elementwise tpu.unpack_elementwise tpu.reciprocal tpu.stochastic_convert
    tpu.reduce_index
    tpu.conv tpu.matmul tpu.matmul_push_rhs tpu.matmul_acc_lhs tpu.matmul_pop tpu.matmul_lhs_fifo tpu.matmul_pop_fifo""".split()


# Kernels


class Window:
    """The array of an argument, seen through blocks."""

    def __init__(self, array, parameters):
        self.array = array
        self.transform = ir.FlatSymbolRefAttr(parameters["transform_indices"]).value if "transform_indices" in parameters else None
        if self.transform:
            self.sizes = list(parameters["window_bounds"])
            kind = re.search(r"element_window<\[(.*)\], \[(.*)\]>", str(parameters["window_kind"])) \
                if "window_kind" in parameters else None
            self.padding = kind and [list(map(int, text.split(","))) for text in kind.groups()]
            self.block = uninitialized(self.sizes, array.dtype)

    def positions(self, indices):
        """The slices of the array and of the block that correspond to each other."""
        outer, inner = [], []
        for d, (i, n, full) in enumerate(zip(indices, self.sizes, self.array.shape)):
            start = int(i) - self.padding[0][d] if self.padding else int(i) * n
            low, high = max(start, 0), min(start + n, full)
            assert low < high or full == 0, f"a block outside of the array: {start} of {full}"
            outer.append(slice(low, high))
            inner.append(slice(low - start, high - start))
        return tuple(outer), tuple(inner)


def run_kernel(module, operands, results, aliases=()):
    """Run a kernel; `operands` and `results` are NumPy arrays, dynamic grid sizes first. Returns the evaluator."""
    [evaluator] = run_on_devices(module, [operands], [results], aliases)
    return evaluator


def run_on_devices(module, operands, results, aliases=()):
    """Run a kernel on several devices, with the operands and results of each. Returns the evaluators."""
    devices = Devices(module, len(operands))
    devices.run(lambda i: _run(devices.evaluators[i], operands[i], results[i], aliases))
    return devices.evaluators


def _run(evaluator, operands, results, aliases):
    main = next(f for name, f in evaluator.functions.items() if not re.fullmatch(r"transform_\d+", name))
    attributes = main.attributes
    bounds = list(attributes["iteration_bounds"]) if "iteration_bounds" in attributes else []
    dynamic = [x for x in operands[:bounds.count(DYNAMIC)]]
    operands = operands[len(dynamic):]
    sizes = iter(dynamic)
    evaluator.bounds = bounds = [int(next(sizes)) if n == DYNAMIC else n for n in bounds]
    count = ir.IntegerAttr(attributes["scalar_prefetch"]).value
    scalars, inputs = [x.copy() for x in operands[:count]], operands[count:]
    kinds = [a.type for a in main.regions[0].blocks[0].arguments]
    scratch = [memory_of(t) for t in kinds[len(kinds) - ir.IntegerAttr(attributes["scratch_operands"]).value:]]
    for i, o in aliases:
        results[o][...] = operands[i - len(dynamic)]
    first = len(bounds) + count + len(inputs) + len(results)  # results behind those of the caller are scratch memory
    arrays = [*[x.copy() for x in inputs], *results, *map(memory_of, kinds[first:len(kinds) - len(scratch)])]
    evaluator.memories += [*arrays, *scratch]
    parameters = attributes["window_params"] if "window_params" in attributes else [{}] * len(arrays)
    windows = [Window(x, p) for x, p in zip(arrays, parameters)]
    for point in itertools.product(*map(range, bounds)):
        indices = [np.asarray(i, np.int32) for i in point]
        positions = [w.positions(evaluator.call(w.transform, *indices, *scalars)) if w.transform else None for w in windows]
        for w, at in zip(windows, positions):
            if at:
                w.block[...] = uninitialized(w.sizes, w.array.dtype)
                w.block[at[1]] = w.array[at[0]]
        blocks = [w.block if at else w.array for w, at in zip(windows, positions)]
        evaluator.run_region(main.regions[0], [*indices, *scalars, *blocks, *scratch])
        for w, at in list(zip(windows, positions))[len(inputs):]:
            if at:
                w.array[at[0]] = w.block[at[1]]

"""A compiled program and how to call it: where arguments go, which are read at all, what the results are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.runtime import effects as runtime_effects
from xlafront.runtime.jaxlib_compat import ArrayImpl, batched_block_until_ready, result_handler
from xlafront.runtime.layouts import Layout, use as layouts_in_use
from xlafront.staging.moves import put, relayout


class FastPath(NamedTuple):
    """What the C++ dispatch needs to repeat a call without Python."""

    xla_executable: Any
    out_pytree_def: Any
    in_shardings: Any
    out_shardings: Any
    out_avals: Any
    out_committed: Any
    kept_var_bitvec: Any
    in_device_local_layouts: Any
    const_args: Any


class Executable:
    """A compiled program and how to call it with the flat list of all its arguments."""

    __slots__ = ("loaded", "in_avals", "in_shardings", "out_avals", "out_shardings", "out_committed", "kept",
                 "const_args", "handlers", "effects", "own_layouts", "asked_for", "portable", "from_disk",
                 "callback_failures", "__weakref__")

    def __init__(self, loaded, *, in_avals, in_shardings, out_avals, out_shardings, out_committed: bool,
                 kept: Sequence[bool], const_args: Sequence[ArrayImpl], effects: frozenset = frozenset(),
                 own_layouts: bool = False, portable: bool = True, from_disk: bool = False,
                 callback_failures: list[Exception] | None = None):
        self.loaded = loaded
        self.in_avals, self.in_shardings = in_avals, in_shardings
        self.out_avals, self.out_shardings, self.out_committed = out_avals, out_shardings, out_committed
        self.kept = kept
        self.const_args = list(const_args)
        self.effects = effects
        self.own_layouts = own_layouts  # whether arguments lie in an order that was asked for
        self.portable = portable  # whether other processes can run it, as nothing in it is of this one
        self.from_disk = from_disk  # and cannot be stored again
        self.callback_failures = callback_failures  # a list to which its callbacks add what they raise, of some programs
        self.asked_for = True  # since `caches.LiveExecutables` looked last
        self.handlers = [result_handler(aval, sharding, out_committed) for aval, sharding in zip(out_avals, out_shardings)
                         ] if hasattr(loaded, "execute_sharded") else None

    def twin(self, const_args: Sequence[ArrayImpl]) -> Executable:
        """Another one that runs what this one runs, on other constants, and may stay when this one goes."""
        found = object.__new__(Executable)
        for name in Executable.__slots__[:-1]:
            setattr(found, name, getattr(self, name))
        found.const_args = list(const_args)
        return found

    def __call__(self, args: Sequence[Any]) -> list[ArrayImpl]:
        if self.handlers is None:
            raise RuntimeError("this program is compiled for devices that are not here, so it cannot be run: look at it with "
                               "memory_analysis(), cost_analysis(), as_text(), or xlafront.plan.")
        buffers = [*self.const_args]
        for x, aval, sharding, kept in zip(args, self.in_avals, self.in_shardings, self.kept):
            if kept:
                buffers.append(place(x, aval, sharding))
        if layouts_in_use.others:
            buffers = self.relaid(buffers)
        if self.effects:
            results = runtime_effects.execute(self.loaded, buffers, self.effects)
        else:
            results = self.loaded.execute_sharded(buffers)
        arrays = results.consume_with_handlers(self.handlers)
        return arrays if self.callback_failures is None else self._unless_failed(arrays, self.callback_failures)

    @staticmethod
    def _unless_failed(arrays: list[ArrayImpl], failures: list[Exception]) -> list[ArrayImpl]:
        """What a run returned, when it has ended and no callback raised anything."""
        batched_block_until_ready(arrays)
        if not failures:
            return arrays
        raised, failures[:] = failures[:], []
        runtime_effects.failures[:] = [f for f in runtime_effects.failures if f not in raised]
        raise raised[0]

    def layouts(self) -> list[Layout]:
        """The order in memory of each argument that is read, constants first."""
        return [Layout.from_pjrt_layout(wanted) for wanted in self.loaded.get_parameter_layouts()]

    def misfits(self, args: Sequence[Any]) -> list[bool]:
        """Which arguments that are read lie in another order; empty when none does."""
        kept = [x for x, keep in zip(args, self.kept) if keep]
        found = [type(x) is ArrayImpl and not x.is_deleted() and not layout.fits(Layout.from_pjrt_layout(x._pjrt_layout))
                 for x, layout in zip(kept, self.layouts()[len(self.const_args):])]
        return found if any(found) else []

    def relaid(self, buffers: list[ArrayImpl]) -> list[ArrayImpl]:
        """The arguments in the order in which the program reads them."""
        return [x if layout.fits(Layout.from_pjrt_layout(x._pjrt_layout)) else relayout(x, layout)
                for x, layout in zip(buffers, self.layouts())]

    def fast_path(self, out_tree) -> FastPath:
        count = len(self.out_avals)
        # C++ counts constants among the arguments, and only those that are read among the shardings.
        in_shardings = [x._sharding for x in self.const_args]
        in_shardings += [sharding for sharding, kept in zip(self.in_shardings, self.kept) if kept]
        return FastPath(self.loaded, out_tree, in_shardings, list(self.out_shardings),
                        list(self.out_avals), [self.out_committed] * count, [True] * len(self.const_args) + list(self.kept),
                        [None] * len(in_shardings), self.const_args)


def place(x, aval, sharding):
    """An argument where the program wants it."""
    if type(x) is ArrayImpl:
        x._check_if_deleted()
        if x._sharding == sharding:
            return x
    if not aval.dtype.itemsize:  # programs have booleans in place of float0
        aval, x = aval.update(dtype=np.dtype(np.bool_)), np.zeros(aval.shape, np.bool_)
    return put(x, aval, sharding, True)

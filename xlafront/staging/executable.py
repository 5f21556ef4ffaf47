"""`Executable`: a compiled program, with the placement of its arguments and the types of its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xlafront.base import config
from xlafront.base.jaxlib_compat import ArrayImpl, batched_block_until_ready, result_handler
from xlafront.base.layouts import Layout, use as layouts_in_use
from xlafront.core import tree
from xlafront.core.avals import abstract_token
from xlafront.runtime import effects as runtime_effects, keys
from xlafront.staging.array_transfers import put, relayout


class FastPath(NamedTuple):
    """The data with which C++ repeats a call without Python; the names are those that it reads."""

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
    """A compiled program, called with the flat list of all its arguments."""

    FIELDS = ("loaded", "in_avals", "in_shardings", "out_avals", "out_shardings", "out_committed", "live", "const_args",
              "handlers", "effects", "own_layouts", "recently_used", "portable", "from_disk", "callback_failures", "upgrade")
    __slots__ = (*FIELDS, "__weakref__")

    def __init__(self, loaded, *, in_avals, in_shardings, out_avals, out_shardings, out_committed: bool,
                 live: Sequence[bool], const_args: Sequence[ArrayImpl], effects: frozenset = frozenset(),
                 own_layouts: bool = False, portable: bool = True, from_disk: bool = False,
                 callback_failures: list[Exception] | None = None, upgrade: Any = None):
        self.loaded = loaded
        self.in_avals, self.in_shardings = in_avals, in_shardings
        self.out_avals, self.out_shardings, self.out_committed = out_avals, out_shardings, out_committed
        self.live = live  # by argument: the program reads it
        self.const_args = list(const_args)
        self.effects = effects
        self.own_layouts = own_layouts  # arguments have layouts that were requested
        self.portable = portable  # other processes can run it: it refers to nothing in this one
        self.from_disk = from_disk  # loaded from the disk cache, and cannot be stored again
        self.callback_failures = callback_failures  # the list to which some programs' callbacks append exceptions
        self.upgrade = upgrade  # the `tiers.Upgrade` whose executable replaces `loaded`
        self.recently_used = True  # since the last sweep of `caches.LiveExecutables`
        self.handlers = [result_handler(aval, sharding, out_committed) for aval, sharding in zip(out_avals, out_shardings)
                         ] if hasattr(loaded, "execute_sharded") else None

    def with_constants(self, const_args: Sequence[ArrayImpl]) -> Executable:
        """Return an executable of the same program with other constants, which may outlive this one."""
        found = object.__new__(Executable)
        for field in Executable.FIELDS:
            setattr(found, field, getattr(self, field))
        found.const_args = list(const_args)
        return found

    def run(self, leaves: Sequence[Any], out_avals: Sequence[Any]) -> list[Any]:
        """Run the program on the leaves of a call; key arrays are passed and returned as their words."""
        results = self([keys.physical_array(x) for x in leaves])
        return [keys.wrap(x, aval) for x, aval in zip(results, out_avals)]

    def __call__(self, args: Sequence[Any]) -> list[ArrayImpl]:
        """Run the program on arrays."""
        if self.handlers is None:
            raise RuntimeError("this program is compiled for devices that are not here, so it cannot be run: inspect it with "
                               "memory_analysis(), cost_analysis(), as_text(), or xlafront.plan.")
        if self.upgrade is not None:
            self.take_upgrade()
        buffers = [*self.const_args]
        for x, aval, sharding, live in zip(args, self.in_avals, self.in_shardings, self.live):
            if live:
                buffers.append(place(x, aval, sharding))
        if layouts_in_use.others:
            buffers = self.with_layouts(buffers)
        if self.effects:
            results = runtime_effects.execute(self.loaded, buffers, self.effects)
        else:
            results = self.loaded.execute_sharded(buffers)
        arrays = results.consume_with_handlers(self.handlers)
        return arrays if self.callback_failures is None else _unless_failed(arrays, self.callback_failures)

    def take_upgrade(self, waits: bool = False) -> None:
        """Replace the quickly compiled executable by the optimized one if that is there; with `waits`, once it is."""
        upgrade = self.upgrade
        if upgrade is None:  # another thread has taken it
            return
        if waits:
            upgrade.wait()
        if upgrade.is_done:
            self.loaded, self.upgrade = upgrade.loaded or self.loaded, None

    def layouts(self) -> list[Layout]:
        """Return the layout of each argument that is read, constants first."""
        return [Layout.from_pjrt_layout(layout) for layout in self.loaded.get_parameter_layouts()]

    def misfits(self, args: Sequence[Any]) -> list[bool]:
        """Return for each argument that is read whether it has another layout; an empty list if none has."""
        read = [x for x, live in zip(args, self.live) if live]
        found = [type(x) is ArrayImpl and not x.is_deleted() and not layout.fits(Layout.from_pjrt_layout(x._pjrt_layout))
                 for x, layout in zip(read, self.layouts()[len(self.const_args):])]
        return found if any(found) else []

    def with_layouts(self, buffers: list[ArrayImpl]) -> list[ArrayImpl]:
        """Return the arguments in the layouts that the program reads."""
        return [x if layout.fits(Layout.from_pjrt_layout(x._pjrt_layout)) else relayout(x, layout)
                for x, layout in zip(buffers, self.layouts())]

    def reads_layouts_of(self, leaves: Sequence[Any]) -> bool:
        """True if all arguments have the layouts that the program reads; call it before the arguments may be deleted."""
        return not layouts_in_use.others or not (self.own_layouts or self.misfits([keys.physical_array(x) for x in leaves]))

    def fast_path(self, traced: Any, out: Any) -> FastPath | None:
        """Return the data with which C++ repeats a call that returned `out`; None if Python has work to do in each call."""
        if (self.effects or self.callback_failures is not None or config.debug_nans.value or config.debug_infs.value
                or config.debug_key_reuse.value or config.no_execution.value):
            return None
        out_avals, out_tree, count = traced.closed.out_avals, traced.out_tree, len(self.out_avals)
        if any([aval is abstract_token or isinstance(aval.dtype, np.dtype) and not aval.dtype.itemsize
                for aval in (*traced.closed.in_avals, *out_avals)]):
            return None
        if not all([isinstance(aval.dtype, np.dtype) for aval in out_avals]):
            out_tree = tree.dispatch_registry.flatten(out)[1]
            if out_tree.num_leaves != count:  # nodes that C++ flattens otherwise than our registry
                return None
        # C++ counts constants as arguments, but expects the shardings of arguments that are read only.
        in_shardings = [x._sharding for x in self.const_args]
        in_shardings += [sharding for sharding, live in zip(self.in_shardings, self.live) if live]
        return FastPath(self.loaded, out_tree, in_shardings, list(self.out_shardings),
                        list(self.out_avals), [self.out_committed] * count, [True] * len(self.const_args) + list(self.live),
                        [None] * len(in_shardings), self.const_args)


def _unless_failed(arrays: list[ArrayImpl], failures: list[Exception]) -> list[ArrayImpl]:
    """Return the results of a finished run; raise if one of its callbacks did."""
    batched_block_until_ready(arrays)
    if not failures:
        return arrays
    raised, failures[:] = failures[:], []
    runtime_effects.failures[:] = [f for f in runtime_effects.failures if f not in raised]
    raise raised[0]


def place(x, aval, sharding):
    """Return an argument on the devices and with the sharding of the program."""
    if type(x) is ArrayImpl:
        x._check_if_deleted()
        if x._sharding == sharding:
            return x
    if not aval.dtype.itemsize:  # programs take booleans in place of float0
        aval, x = aval.update(dtype=np.dtype(np.bool_)), np.zeros(aval.shape, np.bool_)
    return put(x, aval, sharding, True)

"""Stateful random number generators: each sample advances the state, so that the next one differs.

Samples are those of `xlafront.random` for the key of the generator, into which the number of previous samples is folded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlafront import random
from xlafront.core import tracing, tree
from xlafront.core.typing import Array, ArrayLike, DTypeLike
from xlafront.lax.refs import new_ref
from xlafront.numpy.creation import zeros
from xlafront.numpy.manipulation import broadcast_shapes


def stateful_rng(seed: ArrayLike | None = None, *, impl: Any = None) -> StatefulPRNG:
    """Make a random number generator with a state, whose methods return different samples at each call, also inside jit.

    A transformed function can use a generator from outside, take one as an argument or make its own. It cannot return one,
    loops
    cannot carry one, and `checkpoint` does not support them.

    Args:
        seed: Integer. Default: entropy of the operating system. Required inside transformed functions.
        impl: Name of the PRNG implementation, as for `random.key`.

    Returns:
        Generator with a key and a counter.

    Example:
        >>> from xlafront.experimental.random import stateful_rng
        >>> rng = stateful_rng(42)
        >>> rng.uniform(), rng.uniform()
        (Array(0.5302608, dtype=float32), Array(0.72766423, dtype=float32))
    """
    if seed is None:
        if tracing.is_tracing():
            raise TypeError("stateful_rng inside a transformed function needs a seed: otherwise each run would repeat the seed "
                            "of the trace. Pass an integer, or make the generator outside.")
        seed = np.random.SeedSequence().generate_state(1)[0]
    return StatefulPRNG(random.key(seed, impl=impl), new_ref(0))


@dataclasses.dataclass(frozen=True)
class StatefulPRNG:
    """A stateful random number generator, made by `stateful_rng`: a key and a Ref that counts its uses."""

    _base_key: Array
    _counter: Any

    def key(self, shape: int | Sequence[int] = ()) -> Array:
        """Return a new key, or an array of new keys.

        Args:
            shape: Shape of the array of keys.

        Returns:
            Key array that no other call returns.

        Example:
            >>> xf.experimental.random.stateful_rng(0).key((2,)).shape
            (2,)
        """
        if self._base_key.ndim:
            raise ValueError(f"this is an array of generators of shape {self._base_key.shape}, made by split. Pass it as a "
                             f"mapped argument to a function under vmap.")
        key = random.fold_in(self._base_key, self._counter[...])
        self._counter[...] += 1
        shape = _shape(shape)
        return random.split(key, shape) if shape else key

    def random(self, size: int | Sequence[int] | None = None, dtype: DTypeLike = float) -> Array:
        """Sample uniformly from [0, 1).

        Args:
            size: Shape of the result. Default: a scalar.
            dtype: Floating dtype of the result.

        Returns:
            Array of samples.

        Example:
            >>> xf.experimental.random.stateful_rng(0).random(3).shape
            (3,)
        """
        return self.uniform(size=size, dtype=dtype)

    def uniform(self, low: ArrayLike = 0, high: ArrayLike = 1, size: int | Sequence[int] | None = None, *,
                dtype: DTypeLike = float) -> Array:
        """Sample uniformly from [`low`, `high`).

        Args:
            low: Lower bound, included.
            high: Upper bound, excluded.
            size: Shape of the result. Default: the joint shape of the bounds.
            dtype: Floating dtype of the result.

        Returns:
            Array of samples.

        Example:
            >>> xf.experimental.random.stateful_rng(0).uniform(xnp.zeros(3), 2.0).shape
            (3,)
        """
        return random.uniform(self.key(), _size(size, low, high), dtype, low, high)

    def normal(self, loc: ArrayLike = 0, scale: ArrayLike = 1, size: int | Sequence[int] | None = None, *,
               dtype: DTypeLike = float) -> Array:
        """Sample from the normal distribution.

        Args:
            loc: Mean.
            scale: Standard deviation.
            size: Shape of the result. Default: the joint shape of `loc` and `scale`.
            dtype: Floating dtype of the result.

        Returns:
            Array of samples.

        Example:
            >>> xf.experimental.random.stateful_rng(0).normal(5.0, size=(2, 2)).shape
            (2, 2)
        """
        result: Any = loc + scale * random.normal(self.key(), _size(size, loc, scale), dtype)
        return result

    def integers(self, low: ArrayLike, high: ArrayLike | None = None, size: int | Sequence[int] | None = None, *,
                 dtype: DTypeLike = int) -> Array:
        """Sample integers uniformly from [`low`, `high`), or from [0, `low`) without `high`.

        Args:
            low: Lower bound, included.
            high: Upper bound, excluded. Default: the lower bound is 0 and `low` is the upper bound.
            size: Shape of the result. Default: the joint shape of the bounds.
            dtype: Integer dtype of the result.

        Returns:
            Array of samples.

        Example:
            >>> xf.experimental.random.stateful_rng(0).integers(10, size=4).shape
            (4,)
        """
        if high is None:
            low, high = 0, low
        return random.randint(self.key(), _size(size, low, high), low, high, dtype)

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """Return generators that are independent of each other and of this one.

        Args:
            n_children: Number of generators.

        Returns:
            List of generators.

        Example:
            >>> len(xf.experimental.random.stateful_rng(0).spawn(3))
            3
        """
        return [StatefulPRNG(key, new_ref(0)) for key in self.key((n_children,))]

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """Return an array of independent generators, for functions that `vmap` maps over it.

        Args:
            num: Number of generators, or the shape of the array.

        Returns:
            Array of generators as one object.

        Example:
            >>> rngs = xf.experimental.random.stateful_rng(0).split(3)
            >>> xf.vmap(lambda rng, x: x + rng.normal())(rngs, xnp.zeros(3)).shape
            (3,)
        """
        shape = _shape(num)
        return StatefulPRNG(self.key(shape), new_ref(zeros(shape, int)))


def _shape(size: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(size) if isinstance(size, Sequence) else (size,)


def _size(size: int | Sequence[int] | None, *parameters: ArrayLike) -> tuple[int, ...]:
    return broadcast_shapes(*map(np.shape, parameters)) if size is None else _shape(size)


tree.register_dataclass(StatefulPRNG, ["_base_key", "_counter"], [])

"""Generators of random numbers with a state: each draw changes it, so that the next one differs.

What is drawn is what `xlafront.random` draws with the key of the generator, folded with the number of draws before.
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
    """A generator of random numbers whose methods draw other numbers at each call, also in compiled functions.

    Functions under transformations can use one from outside, take one as an argument and make their own, but not return one:
    loops cannot carry it. Nor can it be used under `checkpoint`.

    - `seed`: an integer; without one, numbers differ from run to run. Inside of a transformed function it must be given.
    - `impl`: the algorithm, as for `random.key`.

    >>> from xlafront.experimental.random import stateful_rng
    >>> rng = stateful_rng(42)
    >>> rng.uniform(), rng.uniform()
    (Array(0.5302608, dtype=float32), Array(0.72766423, dtype=float32))
    """
    if seed is None:
        if tracing.is_tracing():
            raise TypeError("stateful_rng inside of a transformed function needs a seed: without one, the numbers that it is "
                            "traced with would be drawn in each run. Give an integer, or make it outside.")
        seed = np.random.SeedSequence().generate_state(1)[0]
    return StatefulPRNG(random.key(seed, impl=impl), new_ref(0))


@dataclasses.dataclass(frozen=True)
class StatefulPRNG:
    """A generator of random numbers, as `stateful_rng` makes it: a key, and a reference to how often it was used."""

    _base_key: Array
    _counter: Any

    def key(self, shape: int | Sequence[int] = ()) -> Array:
        """A key that no other call gives, or an array of them.

        - `shape`: of the array.

        >>> xf.experimental.random.stateful_rng(0).key((2,)).shape
        (2,)
        """
        if self._base_key.ndim:
            raise ValueError(f"this generator is an array of {self._base_key.shape} of them, as split makes it, and draws only "
                             f"inside of functions that vmap maps over it.")
        key = random.fold_in(self._base_key, self._counter[...])
        self._counter[...] += 1
        shape = _shape(shape)
        return random.split(key, shape) if shape else key

    def random(self, size: int | Sequence[int] | None = None, dtype: DTypeLike = float) -> Array:
        """Numbers from 0 to below 1, all as likely.

        - `size`: the shape, None for one number; `dtype`: of the result.

        >>> xf.experimental.random.stateful_rng(0).random(3).shape
        (3,)
        """
        return self.uniform(size=size, dtype=dtype)

    def uniform(self, low: ArrayLike = 0, high: ArrayLike = 1, size: int | Sequence[int] | None = None, *,
                dtype: DTypeLike = float) -> Array:
        """Numbers from `low` to below `high`, all as likely.

        - `low`, `high`: arrays that broadcast together.
        - `size`: the shape, None for that of the two; `dtype`: of the result.

        >>> xf.experimental.random.stateful_rng(0).uniform(xnp.zeros(3), 2.0).shape
        (3,)
        """
        return random.uniform(self.key(), _size(size, low, high), dtype, low, high)

    def normal(self, loc: ArrayLike = 0, scale: ArrayLike = 1, size: int | Sequence[int] | None = None, *,
               dtype: DTypeLike = float) -> Array:
        """Normally distributed numbers.

        - `loc`, `scale`: mean and standard deviation, arrays that broadcast together.
        - `size`: the shape, None for that of the two; `dtype`: of the result.

        >>> xf.experimental.random.stateful_rng(0).normal(5.0, size=(2, 2)).shape
        (2, 2)
        """
        return loc + scale * random.normal(self.key(), _size(size, loc, scale), dtype)

    def integers(self, low: ArrayLike, high: ArrayLike | None = None, size: int | Sequence[int] | None = None, *,
                 dtype: DTypeLike = int) -> Array:
        """Integers from `low` to below `high`, or from 0 to below `low` where `high` is not given.

        - `low`, `high`: arrays that broadcast together.
        - `size`: the shape, None for that of the two; `dtype`: of the result.

        >>> xf.experimental.random.stateful_rng(0).integers(10, size=4).shape
        (4,)
        """
        if high is None:
            low, high = 0, low
        return random.randint(self.key(), _size(size, low, high), low, high, dtype)

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """A list of generators that are independent of each other and of this one.

        - `n_children`: how many.

        >>> len(xf.experimental.random.stateful_rng(0).spawn(3))
        3
        """
        return [StatefulPRNG(key, new_ref(0)) for key in self.key((n_children,))]

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """An array of independent generators in one, for functions that `vmap` maps over it.

        - `num`: how many, or the shape.

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

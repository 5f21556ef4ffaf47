"""Optimizers of first order, schedules of step sizes, and norms of gradients.

An optimizer is three functions: `init_fn(params)` makes a state, `update_fn(step, gradients, state)` the next one,
`params_fn(state)` returns the parameters. Written for one array, the decorator `optimizer` makes it one of pytrees.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import tracing, tree
from xlafront.core.dimensions import common_shape
from xlafront.core.typing import Array, ArrayLike

__all__ = [
    "JoinPoint", "Optimizer", "OptimizerState", "adagrad", "adam", "adamax", "clip_grads", "constant", "exponential_decay",
    "inverse_time_decay", "l2_norm", "make_schedule", "momentum", "nesterov", "optimizer", "pack_optimizer_state",
    "piecewise_constant", "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3", "unpack_optimizer_state"]

Schedule = Callable[[Any], ArrayLike]


class OptimizerState(NamedTuple):
    """The state of an optimizer: the leaves of each parameter's state, the tree of parameters, the trees of states."""

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


tree.register_pytree_node(
    OptimizerState, lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda trees, children: OptimizerState(*children, *trees))


class Optimizer(NamedTuple):
    """The functions of an optimizer: `init_fn(params)`, `update_fn(step, gradients, state)` and `params_fn(state)`."""

    init_fn: Callable
    update_fn: Callable
    params_fn: Callable


class JoinPoint:
    """A leaf of the pytree that `unpack_optimizer_state` returns: the state of one parameter, in `subtree`."""

    def __init__(self, subtree: Any):
        self.subtree = subtree


def optimizer(opt_maker: Callable) -> Callable[..., Optimizer]:
    """Makes an optimizer of pytrees of one that is written for an array.

    - `opt_maker`: a function that returns `init(x)`, `update(step, gradient, state)` and `get_params(state)`, where a state is
      a pytree.

    >>> @optimizer
    ... def halving():
    ...     return lambda x: x, lambda step, g, x: x / 2, lambda x: x
    >>> o = halving()
    >>> o.params_fn(o.update_fn(0, {"a": 0.0}, o.init_fn({"a": 8.0})))
    {'a': 4.0}
    """
    @functools.wraps(opt_maker)
    def make(*args, **kwargs):
        init, update, get_params = opt_maker(*args, **kwargs)

        def init_fn(params):
            leaves, treedef = tree.flatten(params)
            pairs = [tree.flatten(init(x)) for x in leaves]
            return OptimizerState(tuple([leaves for leaves, _ in pairs]), treedef, tuple([t for _, t in pairs]))

        def update_fn(step, gradients, state):
            packed, treedef, subtrees = state
            leaves, gradient_tree = tree.flatten(gradients)
            if gradient_tree != treedef:
                raise TypeError(f"the optimizer was made for parameters of the pytree structure {treedef}, and got gradients "
                                f"of the structure {gradient_tree}. Give it a gradient for each parameter.")
            after = [update(step, g, tree.unflatten(t, x)) for g, x, t in zip(leaves, packed, subtrees)]
            pairs = [tree.flatten(x) for x in after]
            for before, (_, found) in zip(subtrees, pairs):
                if before != found:
                    raise TypeError(f"an optimizer's update must return a state of the pytree structure that it was given, "
                                    f"{before}, but it returned {found}.")
            return OptimizerState(tuple([leaves for leaves, _ in pairs]), treedef, subtrees)

        def params_fn(state):
            packed, treedef, subtrees = state
            return tree.unflatten(treedef, [get_params(tree.unflatten(t, x)) for x, t in zip(packed, subtrees)])

        return Optimizer(init_fn, update_fn, params_fn)

    make.__signature__ = inspect.signature(opt_maker).replace(return_annotation=Optimizer)  # type: ignore[attr-defined]
    return make


@optimizer
def sgd(step_size: ArrayLike | Schedule):
    """Gradient descent.

    - `step_size`: a number, or a function of the step to numbers.

    >>> o = sgd(0.5)
    >>> float(o.params_fn(o.update_fn(0, 1.0, o.init_fn(3.0))))
    2.5
    """
    size = make_schedule(step_size)
    return xnp.asarray, lambda i, g, x: x - size(i) * g, lambda x: x


def _by_velocity(size, mass, direction):
    """Steps of `direction(gradient, velocity)`."""
    def update(i, g, state):
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * direction(g, velocity), velocity

    return _with_zeros(1), update, _first


@optimizer
def momentum(step_size: ArrayLike | Schedule, mass: float):
    """Gradient descent with a velocity, the sum of the gradients so far, those of the past by powers of `mass`.

    - `step_size`: a number, or a function of the step to numbers.
    - `mass`: by how much the velocity shrinks in a step.

    >>> o = momentum(0.5, 0.9)
    """
    return _by_velocity(make_schedule(step_size), mass, lambda g, velocity: velocity)


@optimizer
def nesterov(step_size: ArrayLike | Schedule, mass: float):
    """Gradient descent with Nesterov's velocity, which looks a step ahead.

    - `step_size`: a number, or a function of the step to numbers.
    - `mass`: by how much the velocity shrinks in a step.

    >>> o = nesterov(0.5, 0.9)
    """
    return _by_velocity(make_schedule(step_size), mass, lambda g, velocity: mass * velocity + g)


@optimizer
def adagrad(step_size: ArrayLike | Schedule, momentum: float = 0.9):
    """Steps by the root of the sum of all squared gradients (Duchi, Hazan and Singer, 2011).

    - `step_size`: a number, or a function of the step to numbers.
    - `momentum`: how much of the last direction is kept.

    >>> o = adagrad(0.5)
    """
    size = make_schedule(step_size)

    def update(i, g, state):
        x, squares, direction = state
        squares = squares + _squared(g)
        direction = (1 - momentum) * g * _inverse_root(squares) + momentum * direction
        return x - size(i) * direction, squares, direction

    return _with_zeros(2), update, _first


@optimizer
def rmsprop(step_size: ArrayLike | Schedule, gamma: float = 0.9, eps: float = 1e-8):
    """Steps by the root of a moving mean of squared gradients.

    - `step_size`: a number, or a function of the step to numbers.
    - `gamma`: how much of the mean is kept in a step.
    - `eps`: what is added to the mean.

    >>> o = rmsprop(0.5)
    """
    size = make_schedule(step_size)

    def update(i, g, state):
        x, mean = state
        mean = gamma * mean + (1 - gamma) * _squared(g)
        return x - size(i) * g / xnp.sqrt(mean + eps), mean

    return _with_zeros(1), update, _first


@optimizer
def rmsprop_momentum(step_size: ArrayLike | Schedule, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9):
    """`rmsprop`, with a velocity.

    - `step_size`: a number, or a function of the step to numbers.
    - `gamma`: how much of the mean of squared gradients is kept in a step.
    - `eps`: what is added to the mean.
    - `momentum`: by how much the velocity shrinks in a step.

    >>> o = rmsprop_momentum(0.5)
    """
    size = make_schedule(step_size)

    def update(i, g, state):
        x, mean, velocity = state
        mean = gamma * mean + (1 - gamma) * _squared(g)
        velocity = momentum * velocity + size(i) * g / xnp.sqrt(mean + eps)
        return x - velocity, mean, velocity

    return _with_zeros(2), update, _first


@optimizer
def adam(step_size: ArrayLike | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8):
    """Steps by moving means of gradients and of their squares, corrected for their beginning (Kingma and Ba, 2015).

    - `step_size`: a number, or a function of the step to numbers.
    - `b1`, `b2`: how much of the mean of gradients, and of that of squares, is kept in a step.
    - `eps`: what is added to the root of the mean of squares.

    >>> o = adam(0.5)
    >>> round(float(o.params_fn(o.update_fn(0, 7.0, o.init_fn(3.0)))), 4)
    2.5
    """
    size = make_schedule(step_size)

    def update(i, g, state):
        x, mean, squares = state
        mean, squares = (1 - b1) * g + b1 * mean, (1 - b2) * _squared(g) + b2 * squares
        counted = xnp.asarray(i, squares.dtype) + 1
        unbiased, root = mean / (1 - b1 ** counted), xnp.sqrt(squares / (1 - b2 ** counted))
        return x - size(i) * unbiased / (root + eps), mean, squares

    return _with_zeros(2), update, _first


@optimizer
def adamax(step_size: ArrayLike | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8):
    """`adam` with the largest gradients in place of the root of squares (Kingma and Ba, 2015).

    - `step_size`: a number, or a function of the step to numbers.
    - `b1`, `b2`: how much of the mean of gradients, and of the largest one, is kept in a step.
    - `eps`: what is added to the largest gradient.

    >>> o = adamax(0.5)
    """
    size = make_schedule(step_size)

    def update(i, g, state):
        x, mean, largest = state
        mean, largest = (1 - b1) * g + b1 * mean, xnp.maximum(b2 * largest, xnp.abs(g))
        counted = xnp.asarray(i, largest.dtype) + 1
        return x - size(i) / (1 - b1 ** counted) * mean / (largest + eps), mean, largest

    return _with_zeros(2), update, _first


@optimizer
def sm3(step_size: ArrayLike | Schedule, momentum: float = 0.9):
    """`adagrad` that keeps of the sums of squares only the largest along each dimension (Anil et al., 2019).

    - `step_size`: a number, or a function of the step to numbers.
    - `momentum`: how much of the last direction is kept.

    >>> o = sm3(0.5)
    """
    size = make_schedule(step_size)

    def init(x):
        x = xnp.asarray(x)
        return x, xnp.zeros_like(x), [xnp.zeros(n, x.real.dtype) for n in x.shape or (1,)]

    def update(i, g, state):
        x, direction, bounds = state
        rank = max(x.ndim, 1)
        spread = [bound.reshape((1,) * a + (-1,) + (1,) * (rank - a - 1)) for a, bound in enumerate(bounds)]
        squares = functools.reduce(xnp.minimum, spread).reshape(x.shape if not x.ndim else common_shape(
            *[s.shape for s in spread])) + _squared(g)
        direction = (1 - momentum) * g * _inverse_root(squares) + momentum * direction
        whole = squares.reshape(x.shape or (1,))
        bounds = [xnp.max(whole, axis=tuple([b for b in range(rank) if b != a])) for a in range(rank)]
        return x - size(i) * direction, direction, bounds

    return init, update, _first


def _with_zeros(count: int) -> Callable:
    """The state that is a parameter and so many arrays of zeros like it."""
    def init(x):
        x = xnp.asarray(x)
        return x, *[xnp.zeros_like(x)] * count

    return init


def _first(state):
    return state[0]


def _squared(g):
    return xnp.square(xnp.abs(g)) if xnp.iscomplexobj(g) else xnp.square(g)


def _inverse_root(squares):
    some = squares > 0
    return xnp.where(some, 1 / xnp.sqrt(xnp.where(some, squares, 1)), 0)


# Schedules


def constant(step_size: ArrayLike) -> Schedule:
    """The schedule of steps that are all alike.

    - `step_size`: the number.

    >>> constant(0.1)(3)
    0.1
    """
    return lambda i: step_size


def exponential_decay(step_size: ArrayLike, decay_steps: ArrayLike, decay_rate: ArrayLike) -> Schedule:
    """The schedule `step_size * decay_rate ** (i / decay_steps)`.

    - `step_size`: the first number.
    - `decay_steps`, `decay_rate`: by what it is multiplied in how many steps.

    >>> exponential_decay(1.0, 10, 0.5)(20)
    0.25
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size: ArrayLike, decay_steps: ArrayLike, decay_rate: ArrayLike,
                       staircase: bool = False) -> Schedule:
    """The schedule `step_size / (1 + decay_rate * i / decay_steps)`.

    - `step_size`: the first number.
    - `decay_steps`, `decay_rate`: how fast it falls.
    - `staircase`: whether it changes only every `decay_steps` steps.

    >>> inverse_time_decay(1.0, 10, 1.0)(10)
    0.5
    """
    if staircase:
        return lambda i: step_size / (1 + decay_rate * xnp.floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(step_size: ArrayLike, decay_steps: ArrayLike, final_step_size: ArrayLike,
                     power: ArrayLike = 1.0) -> Schedule:
    """The schedule from one number to another in so many steps, and then the other.

    - `step_size`, `final_step_size`: the numbers.
    - `decay_steps`: in how many steps.
    - `power`: to which power the part of the way that is left is raised.

    >>> float(polynomial_decay(1.0, 10, 0.0)(5))
    0.5
    """
    def schedule(i):
        left = 1 - xnp.minimum(i, decay_steps) / decay_steps
        return left ** power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """The schedule of several numbers.

    - `boundaries`: the last steps of all but the last number, in order.
    - `values`: the numbers, one more.

    >>> float(piecewise_constant([2, 4], [1.0, 0.5, 0.25])(3))
    0.5
    """
    boundaries, values = xnp.array(boundaries), xnp.array(values)
    if boundaries.ndim != 1 or values.ndim != 1:
        raise ValueError(f"piecewise_constant takes boundaries and values as sequences, got shapes {boundaries.shape} and "
                         f"{values.shape}.")
    if len(boundaries) != len(values) - 1:
        raise ValueError(f"piecewise_constant takes one value more than boundaries, got {len(values)} values and "
                         f"{len(boundaries)} boundaries.")
    return lambda i: values[xnp.sum(i > boundaries)]


def make_schedule(scalar_or_schedule: ArrayLike | Schedule) -> Schedule:
    """A schedule, of what may be a number.

    - `scalar_or_schedule`: a number, or a function of the step, which is returned.

    >>> make_schedule(0.5)(7)
    0.5
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if not tracing.is_arraylike(scalar_or_schedule) or np.ndim(scalar_or_schedule):
        raise TypeError(f"a step size is a number or a function of the step, got {scalar_or_schedule!r}.")
    return constant(scalar_or_schedule)


# Gradients


def l2_norm(tree: Any) -> Array:
    """The root of the sum of all squares in a pytree.

    - `tree`: a pytree of arrays.

    >>> float(l2_norm({"a": xnp.array([3.0]), "b": 4.0}))
    5.0
    """
    return xnp.sqrt(sum([xnp.sum(_squared(x)) for x in _leaves(tree)]))


_leaves = tree.leaves


def clip_grads(grad_tree: Any, max_norm: ArrayLike) -> Any:
    """Gradients, all scaled alike so that together their norm is at most `max_norm`.

    - `grad_tree`: a pytree of arrays.
    - `max_norm`: the largest norm.

    >>> [float(g) for g in clip_grads([3.0, 4.0], 1.0)] == [np.float32(0.6), np.float32(0.8)]
    True
    """
    norm = l2_norm(grad_tree)
    return tree.map(lambda g: xnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


# States as pytrees


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """A state as a pytree like the parameters, with a `JoinPoint` for each of them: to be stored, as with pickle.

    - `opt_state`: the state of an optimizer.

    >>> sorted(unpack_optimizer_state(adam(0.1).init_fn({"a": 1.0, "b": 2.0})))
    ['a', 'b']
    """
    packed, treedef, subtrees = opt_state
    return tree.unflatten(treedef, [JoinPoint(tree.unflatten(t, x)) for x, t in zip(packed, subtrees)])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The state of an optimizer, of what `unpack_optimizer_state` returned.

    - `marked_pytree`: a pytree whose leaves are `JoinPoint`s.

    >>> state = adam(0.1).init_fn({"a": 1.0})
    >>> pack_optimizer_state(unpack_optimizer_state(state)).tree_def == state.tree_def
    True
    """
    points, treedef = tree.flatten(marked_pytree)
    wrong = [x for x in points if not isinstance(x, JoinPoint)]
    if wrong:
        raise TypeError(f"pack_optimizer_state takes a pytree whose leaves are JoinPoints, got a {type(wrong[0]).__name__}.")
    pairs = [tree.flatten(point.subtree) for point in points]
    return OptimizerState(tuple([leaves for leaves, _ in pairs]), treedef, tuple([t for _, t in pairs]))

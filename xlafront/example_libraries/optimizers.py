"""First-order optimizers, step size schedules and gradient norms.

An optimizer is three functions: `init_fn(params)` creates a state, `update_fn(step, gradients, state)` returns the next
state, and `params_fn(state)` returns the parameters. The decorator `optimizer` lifts functions of one array to pytrees.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xlafront.numpy as xnp
from xlafront.core import tracing, tree
from xlafront.core.typing import Array, ArrayLike
from xlafront.symbolic.dimensions import common_shape

__all__ = [
    "JoinPoint", "Optimizer", "OptimizerState", "adagrad", "adam", "adamax", "clip_grads", "constant", "exponential_decay",
    "inverse_time_decay", "l2_norm", "make_schedule", "momentum", "nesterov", "optimizer", "pack_optimizer_state",
    "piecewise_constant", "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3", "unpack_optimizer_state"]

Schedule = Callable[[Any], ArrayLike]


class OptimizerState(NamedTuple):
    """The state of an optimizer: the leaves of each parameter's state, the treedef of the parameters, and those of the
    states."""

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
    """A leaf of the pytree that `unpack_optimizer_state` returns; `subtree` is the state of one parameter."""

    def __init__(self, subtree: Any):
        self.subtree = subtree


def optimizer(opt_maker: Callable) -> Callable[..., Optimizer]:
    """Lift an optimizer of one array to an optimizer of pytrees.

    Args:
        opt_maker: A function that returns `init(x)`, `update(step, gradient, state)` and `get_params(state)`, where a
            state is a pytree.

    Returns:
        A function with the parameters of `opt_maker` that returns an `Optimizer`.

    Example:
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
                raise TypeError(f"the optimizer was initialized with parameters of the pytree structure {treedef}, but got "
                                f"gradients of the structure {gradient_tree}. Pass a gradient for each parameter.")
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
    """Create an optimizer for stochastic gradient descent.

    Args:
        step_size: A number, or a function from the step to a number.

    Returns:
        The optimizer.

    Example:
        >>> o = sgd(0.5)
        >>> float(o.params_fn(o.update_fn(0, 1.0, o.init_fn(3.0))))
        2.5
    """
    size = make_schedule(step_size)
    return xnp.asarray, lambda i, g, x: x - size(i) * g, lambda x: x


def _velocity_optimizer(size, mass, direction):
    """Build an optimizer with a velocity that steps along `direction(gradient, velocity)`."""
    def update(i, g, state):
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * direction(g, velocity), velocity

    return _init_with_zeros(1), update, _get_params


@optimizer
def momentum(step_size: ArrayLike | Schedule, mass: float):
    """Create an optimizer for gradient descent with momentum.

    Args:
        step_size: A number, or a function from the step to a number.
        mass: The factor by which the velocity decays in each step.

    Returns:
        The optimizer.

    Example:
        >>> o = momentum(0.5, 0.9)
    """
    return _velocity_optimizer(make_schedule(step_size), mass, lambda g, velocity: velocity)


@optimizer
def nesterov(step_size: ArrayLike | Schedule, mass: float):
    """Create an optimizer for gradient descent with Nesterov momentum.

    Args:
        step_size: A number, or a function from the step to a number.
        mass: The factor by which the velocity decays in each step.

    Returns:
        The optimizer.

    Example:
        >>> o = nesterov(0.5, 0.9)
    """
    return _velocity_optimizer(make_schedule(step_size), mass, lambda g, velocity: mass * velocity + g)


@optimizer
def adagrad(step_size: ArrayLike | Schedule, momentum: float = 0.9):
    """Create an Adagrad optimizer (Duchi, Hazan and Singer, 2011), which scales steps by the accumulated squared gradients.

    Args:
        step_size: A number, or a function from the step to a number.
        momentum: The decay factor of the step direction.

    Returns:
        The optimizer.

    Example:
        >>> o = adagrad(0.5)
    """
    size = make_schedule(step_size)

    def update(i, g, state):
        x, squares, direction = state
        squares = squares + _squared(g)
        direction = (1 - momentum) * g * _inverse_root(squares) + momentum * direction
        return x - size(i) * direction, squares, direction

    return _init_with_zeros(2), update, _get_params


@optimizer
def rmsprop(step_size: ArrayLike | Schedule, gamma: float = 0.9, eps: float = 1e-8):
    """Create an RMSProp optimizer, which scales steps by an exponential average of squared gradients.

    Args:
        step_size: A number, or a function from the step to a number.
        gamma: The decay factor of the average.
        eps: A constant added to the average.

    Returns:
        The optimizer.

    Example:
        >>> o = rmsprop(0.5)
    """
    size = make_schedule(step_size)

    def update(i, g, state):
        x, mean = state
        mean = gamma * mean + (1 - gamma) * _squared(g)
        return x - size(i) * g / xnp.sqrt(mean + eps), mean

    return _init_with_zeros(1), update, _get_params


@optimizer
def rmsprop_momentum(step_size: ArrayLike | Schedule, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9):
    """Create an RMSProp optimizer with momentum.

    Args:
        step_size: A number, or a function from the step to a number.
        gamma: The decay factor of the average of squared gradients.
        eps: A constant added to the average.
        momentum: The factor by which the velocity decays in each step.

    Returns:
        The optimizer.

    Example:
        >>> o = rmsprop_momentum(0.5)
    """
    size = make_schedule(step_size)

    def update(i, g, state):
        x, mean, velocity = state
        mean = gamma * mean + (1 - gamma) * _squared(g)
        velocity = momentum * velocity + size(i) * g / xnp.sqrt(mean + eps)
        return x - velocity, mean, velocity

    return _init_with_zeros(2), update, _get_params


@optimizer
def adam(step_size: ArrayLike | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8):
    """Create an Adam optimizer (Kingma and Ba, 2015), which scales bias-corrected averages of gradients.

    Args:
        step_size: A number, or a function from the step to a number.
        b1, b2: The decay factors of the averages of gradients and of squared gradients.
        eps: A constant added to the root of the average of squares.

    Returns:
        The optimizer.

    Example:
        >>> o = adam(0.5)
        >>> round(float(o.params_fn(o.update_fn(0, 7.0, o.init_fn(3.0)))), 4)
        2.5
    """
    size = make_schedule(step_size)

    def update(i, g, state):
        x, mean, squares = state
        mean, squares = (1 - b1) * g + b1 * mean, (1 - b2) * _squared(g) + b2 * squares
        step_count = xnp.asarray(i, squares.dtype) + 1
        unbiased, root = mean / (1 - b1 ** step_count), xnp.sqrt(squares / (1 - b2 ** step_count))
        return x - size(i) * unbiased / (root + eps), mean, squares

    return _init_with_zeros(2), update, _get_params


@optimizer
def adamax(step_size: ArrayLike | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8):
    """Create an AdaMax optimizer: Adam with the maximum norm of gradients (Kingma and Ba, 2015).

    Args:
        step_size: A number, or a function from the step to a number.
        b1, b2: The decay factors of the average of gradients and of their maximum.
        eps: A constant added to the maximum.

    Returns:
        The optimizer.

    Example:
        >>> o = adamax(0.5)
    """
    size = make_schedule(step_size)

    def update(i, g, state):
        x, mean, largest = state
        mean, largest = (1 - b1) * g + b1 * mean, xnp.maximum(b2 * largest, xnp.abs(g))
        step_count = xnp.asarray(i, largest.dtype) + 1
        return x - size(i) / (1 - b1 ** step_count) * mean / (largest + eps), mean, largest

    return _init_with_zeros(2), update, _get_params


@optimizer
def sm3(step_size: ArrayLike | Schedule, momentum: float = 0.9):
    """Create an SM3 optimizer (Anil et al., 2019): Adagrad that stores only maxima of the sums along each dimension.

    Args:
        step_size: A number, or a function from the step to a number.
        momentum: The decay factor of the step direction.

    Returns:
        The optimizer.

    Example:
        >>> o = sm3(0.5)
    """
    size = make_schedule(step_size)

    def init(x):
        x = xnp.asarray(x)
        return x, xnp.zeros_like(x), [xnp.zeros(n, x.real.dtype) for n in x.shape or (1,)]

    def update(i, g, state):
        x, direction, bounds = state
        rank = max(x.ndim, 1)
        broadcast = [bound.reshape((1,) * a + (-1,) + (1,) * (rank - a - 1)) for a, bound in enumerate(bounds)]
        squares = functools.reduce(xnp.minimum, broadcast).reshape(x.shape if not x.ndim else common_shape(
            *[s.shape for s in broadcast])) + _squared(g)
        direction = (1 - momentum) * g * _inverse_root(squares) + momentum * direction
        reshaped = squares.reshape(x.shape or (1,))
        bounds = [xnp.max(reshaped, axis=tuple([b for b in range(rank) if b != a])) for a in range(rank)]
        return x - size(i) * direction, direction, bounds

    return init, update, _get_params


def _init_with_zeros(count: int) -> Callable:
    """Return an `init` function whose state is the parameter and `count` arrays of zeros like it."""
    def init(x):
        x = xnp.asarray(x)
        return x, *[xnp.zeros_like(x) for _ in range(count)]  # arrays of their own, so that they can be donated

    return init


def _get_params(state):
    return state[0]


def _squared(g):
    return xnp.square(xnp.abs(g)) if xnp.iscomplexobj(g) else xnp.square(g)


def _inverse_root(squares):
    is_positive = squares > 0
    return xnp.where(is_positive, 1 / xnp.sqrt(xnp.where(is_positive, squares, 1)), 0)


# Schedules


def constant(step_size: ArrayLike) -> Schedule:
    """Return a constant schedule.

    Args:
        step_size: The step size.

    Returns:
        A function from the step to the step size.

    Example:
        >>> constant(0.1)(3)
        0.1
    """
    return lambda i: step_size


def exponential_decay(step_size: ArrayLike, decay_steps: ArrayLike, decay_rate: ArrayLike) -> Schedule:
    """Return the schedule `step_size * decay_rate ** (i / decay_steps)`.

    Args:
        step_size: The initial step size.
        decay_steps, decay_rate: The step size is multiplied by `decay_rate` every `decay_steps` steps.

    Returns:
        A function from the step to the step size.

    Example:
        >>> exponential_decay(1.0, 10, 0.5)(20)
        0.25
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size: ArrayLike, decay_steps: ArrayLike, decay_rate: ArrayLike,
                       staircase: bool = False) -> Schedule:
    """Return the schedule `step_size / (1 + decay_rate * i / decay_steps)`.

    Args:
        step_size: The initial step size.
        decay_steps, decay_rate: The speed of the decay.
        staircase: If True, change the step size only every `decay_steps` steps.

    Returns:
        A function from the step to the step size.

    Example:
        >>> inverse_time_decay(1.0, 10, 1.0)(10)
        0.5
    """
    if staircase:
        return lambda i: step_size / (1 + decay_rate * xnp.floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(step_size: ArrayLike, decay_steps: ArrayLike, final_step_size: ArrayLike,
                     power: ArrayLike = 1.0) -> Schedule:
    """Return a schedule that decays polynomially from one step size to another and is constant afterwards.

    Args:
        step_size, final_step_size: The initial and the final step size.
        decay_steps: Number of steps of the decay.
        power: Exponent of the remaining fraction of steps.

    Returns:
        A function from the step to the step size.

    Example:
        >>> float(polynomial_decay(1.0, 10, 0.0)(5))
        0.5
    """
    def schedule(i):
        remaining = 1 - xnp.minimum(i, decay_steps) / decay_steps
        return remaining ** power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """Return a piecewise constant schedule.

    Args:
        boundaries: The last steps of all step sizes but the last one, in order.
        values: The step sizes, one more than boundaries.

    Returns:
        A function from the step to the step size.

    Example:
        >>> float(piecewise_constant([2, 4], [1.0, 0.5, 0.25])(3))
        0.5
    """
    boundaries, values = xnp.array(boundaries), xnp.array(values)
    if boundaries.ndim != 1 or values.ndim != 1:
        raise ValueError(f"piecewise_constant needs boundaries and values as sequences, got shapes {boundaries.shape} and "
                         f"{values.shape}.")
    if len(boundaries) != len(values) - 1:
        raise ValueError(f"piecewise_constant needs one value more than boundaries, got {len(values)} values and "
                         f"{len(boundaries)} boundaries.")
    return lambda i: values[xnp.sum(i > boundaries)]


def make_schedule(scalar_or_schedule: ArrayLike | Schedule) -> Schedule:
    """Return a schedule unchanged and a number as a constant schedule.

    Args:
        scalar_or_schedule: A number, or a function from the step to a number.

    Returns:
        A function from the step to the step size.

    Example:
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
    """Compute the Euclidean norm of all elements of a pytree.

    Args:
        tree: A pytree of arrays.

    Returns:
        The norm, a scalar.

    Example:
        >>> float(l2_norm({"a": xnp.array([3.0]), "b": 4.0}))
        5.0
    """
    return xnp.sqrt(sum([xnp.sum(_squared(x)) for x in _leaves(tree)]))


_leaves = tree.leaves


def clip_grads(grad_tree: Any, max_norm: ArrayLike) -> Any:
    """Scale gradients such that their joint norm is at most `max_norm`.

    Args:
        grad_tree: A pytree of arrays.
        max_norm: The maximum norm.

    Returns:
        The scaled gradients, or the same ones if their norm is small enough.

    Example:
        >>> [float(g) for g in clip_grads([3.0, 4.0], 1.0)] == [np.float32(0.6), np.float32(0.8)]
        True
    """
    norm = l2_norm(grad_tree)
    return tree.map(lambda g: xnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


# States as pytrees


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """Convert an optimizer state to a pytree like the parameters with `JoinPoint` leaves, for serialization.

    Args:
        opt_state: The state of an optimizer.

    Returns:
        The pytree.

    Example:
        >>> sorted(unpack_optimizer_state(adam(0.1).init_fn({"a": 1.0, "b": 2.0})))
        ['a', 'b']
    """
    packed, treedef, subtrees = opt_state
    return tree.unflatten(treedef, [JoinPoint(tree.unflatten(t, x)) for x, t in zip(packed, subtrees)])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """Convert the result of `unpack_optimizer_state` back to an optimizer state.

    Args:
        marked_pytree: A pytree whose leaves are `JoinPoint`s.

    Returns:
        The state of an optimizer.

    Example:
        >>> state = adam(0.1).init_fn({"a": 1.0})
        >>> pack_optimizer_state(unpack_optimizer_state(state)).tree_def == state.tree_def
        True
    """
    points, treedef = tree.flatten(marked_pytree)
    wrong = [x for x in points if not isinstance(x, JoinPoint)]
    if wrong:
        raise TypeError(f"pack_optimizer_state needs a pytree whose leaves are JoinPoints, got a {type(wrong[0]).__name__}.")
    pairs = [tree.flatten(point.subtree) for point in points]
    return OptimizerState(tuple([leaves for leaves, _ in pairs]), treedef, tuple([t for _, t in pairs]))

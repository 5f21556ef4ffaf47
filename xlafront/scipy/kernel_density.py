"""Kernel density estimation with Gaussian kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import xlafront.numpy as xnp
from xlafront import random
from xlafront.core import dtypes, tree
from xlafront.core.typing import Array, ArrayLike
from xlafront.linalg.factorizations import cholesky
from xlafront.numpy.promotion import check_arraylike, promote_dtypes_inexact, promotes_freely
from xlafront.scipy.matrix_equations import cho_solve
from xlafront.scipy.normal_functions import ndtr
from xlafront.staging.library import library


def _bandwidth_factor(bw_method, neff, d):
    """Return the bandwidth factor, by whose square the covariance of the samples is scaled."""
    if bw_method is None or isinstance(bw_method, str):
        if bw_method in (None, "scott"):
            return neff ** (-1 / (d + 4))
        if bw_method == "silverman":
            return (neff * (d + 2) / 4) ** (-1 / (d + 4))
    elif np.ndim(bw_method) == 0:
        return bw_method
    raise ValueError(f"bw_method of gaussian_kde must be 'scott', 'silverman', a scalar, or a callable; got {bw_method!r}.")


@tree.register_pytree_node_class
class gaussian_kde:  # noqa: N801  (SciPy's name)
    """Kernel density estimate with Gaussian kernels.

    It is an immutable pytree, so it can be an argument and a result of transformed functions.

    Args:
        dataset: Samples: a vector, or an array `[dimension, sample]`.
        bw_method: Bandwidth: "scott" (default), "silverman", a factor of the standard deviation of the samples, or a
            function of this object that returns the factor.
        weights: Weights of the samples. Default: equal.

    Example:
        >>> density = gaussian_kde(xnp.array([0.0, 1.0]), bw_method=1.0)
        >>> density.evaluate(0.5).round(4)
        Array([0.4394], dtype=float32)
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any
    _FIELDS = ("neff", "dataset", "weights", "covariance", "inv_cov")

    @promotes_freely
    def __init__(self, dataset: ArrayLike, bw_method: str | ArrayLike | Callable | None = None,
                 weights: ArrayLike | None = None):
        check_arraylike("gaussian_kde", dataset)
        dataset = xnp.atleast_2d(xnp.asarray(dataset))
        if dtypes.issubdtype(dataset.dtype, np.complexfloating):
            raise NotImplementedError("gaussian_kde does not support complex samples: pass their parts as dimensions.")
        if dataset.ndim > 2:
            raise ValueError(f"the dataset of gaussian_kde must have 1 or 2 dimensions, got shape {dataset.shape}.")
        if dataset.size <= 1:
            raise ValueError(f"the dataset of gaussian_kde must have several elements, got shape {dataset.shape}.")
        d, n = dataset.shape
        if weights is None:
            [dataset] = promote_dtypes_inexact(dataset)
            weights = xnp.full(n, 1 / n, dataset.dtype)
        else:
            check_arraylike("gaussian_kde", weights)
            dataset, weights = promote_dtypes_inexact(dataset, xnp.atleast_1d(xnp.asarray(weights)))
            if weights.ndim != 1:
                raise ValueError(f"the weights of gaussian_kde must be 1-dimensional, got shape {weights.shape}.")
            if weights.shape[0] != n:
                raise ValueError(f"gaussian_kde needs a weight for each of the {n} samples, got {weights.shape[0]}.")
            weights = weights / xnp.sum(weights)
        self._set(neff=1 / xnp.sum(weights**2), dataset=dataset, weights=weights)
        if callable(bw_method):
            factor = bw_method(self)
        else:
            factor = _bandwidth_factor(bw_method, self.neff, d)
        covariance = xnp.atleast_2d(xnp.cov(dataset, rowvar=True, bias=False, aweights=weights)).astype(dataset.dtype)
        self._set(covariance=(covariance * factor**2).astype(dataset.dtype),
                  inv_cov=(xnp.linalg.inv(covariance) / factor**2).astype(dataset.dtype))

    def _set(self, **fields):
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name, value):
        raise TypeError(f"a gaussian_kde is immutable: create another one instead of setting {name!r}.")

    def __repr__(self):
        return f"gaussian_kde({', '.join(f'{name}={getattr(self, name)!r}' for name in self._FIELDS)})"

    def tree_flatten(self):
        return tuple(getattr(self, name) for name in self._FIELDS), None

    @classmethod
    def tree_unflatten(cls, _, children):
        result = object.__new__(cls)
        result._set(**dict(zip(cls._FIELDS, children)))
        return result

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.dataset.shape[1]

    def evaluate(self, points: ArrayLike) -> Array:
        """Evaluate the density at points, `[dimension, point]`."""
        return _evaluate(self.dataset, self.weights, self.covariance, self.inv_cov, self._points("evaluate", points), False)

    def __call__(self, points: ArrayLike) -> Array:
        """Evaluate the density, as `evaluate`."""
        return self.evaluate(points)

    def pdf(self, x: ArrayLike) -> Array:
        """Evaluate the density, as `evaluate`."""
        return self.evaluate(x)

    def logpdf(self, x: ArrayLike) -> Array:
        """Evaluate the logarithm of the density, also where the density underflows."""
        return _evaluate(self.dataset, self.weights, self.covariance, self.inv_cov, self._points("logpdf", x), True)

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """Integrate the product of the density and a normal density with the given mean and covariance."""
        mean, cov = xnp.atleast_1d(xnp.squeeze(mean)), xnp.atleast_2d(cov)
        if mean.shape != (self.d,):
            raise ValueError(f"the mean of integrate_gaussian must have the dimension {self.d} of the density, got shape "
                             f"{mean.shape}.")
        if cov.shape != (self.d, self.d):
            raise ValueError(f"the covariance of integrate_gaussian must have the dimension {self.d} of the density, got shape "
                             f"{cov.shape}.")
        return _integrate_product(self.dataset, self.weights, self.covariance, mean[:, None],
                                  xnp.ones(1, self.weights.dtype), cov)

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """Integrate a one-dimensional density between two bounds."""
        if self.d != 1:
            raise ValueError(f"integrate_box_1d needs a density of 1 dimension, this one has {self.d}.")
        if np.ndim(low) or np.ndim(high):
            raise ValueError(f"the limits of integrate_box_1d must be scalars, got shapes {np.shape(low)} and "
                             f"{np.shape(high)}.")
        if any(np.iscomplexobj(end) for end in (low, high)):
            raise TypeError("integrate_box_1d of gaussian_kde needs real limits, got complex ones.")
        return _integrate_interval(self.dataset, self.weights, self.covariance, low, high)

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """Integrate the product with another density."""
        if other.d != self.d:
            raise ValueError(f"integrate_kde needs densities of the same dimensions, got {self.d} and {other.d}.")
        return _integrate_product(self.dataset, self.weights, self.covariance,
                                  other.dataset, other.weights, other.covariance)

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Any:
        """Raise an error: only `integrate_box_1d` is supported."""
        raise NotImplementedError("integrate_box, over several dimensions, is not supported. For 1 dimension use "
                                  "integrate_box_1d.")

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Array:
        """Draw samples from the density, `[dimension, *shape]`, with a random key."""
        choice_key, noise_key = random.split(key)
        indices = random.choice(choice_key, self.n, shape, p=self.weights)
        noise = random.multivariate_normal(noise_key, xnp.zeros(self.d, self.covariance.dtype), self.covariance, shape,
                                           self.dataset.dtype)
        return self.dataset[:, indices] + xnp.moveaxis(noise, -1, 0)

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Raise an error: densities are immutable, pass `bw_method` to the constructor."""
        raise NotImplementedError("the bandwidth of a gaussian_kde is immutable: create another one with this bw_method.")

    def _points(self, name: str, points) -> Array:
        check_arraylike(name, points)
        points = xnp.atleast_2d(xnp.asarray(points))
        if dtypes.issubdtype(points.dtype, np.complexfloating):
            raise NotImplementedError(f"{name} of gaussian_kde does not support complex coordinates.")
        d, m = points.shape
        if d != self.d:
            if (d, m) != (1, self.d):
                raise ValueError(f"{name} of gaussian_kde got points of dimension {d}, where the dataset has "
                                 f"dimension {self.d}.")
            points = points.reshape(self.d, 1)  # one point
        return points.astype(self.dataset.dtype)


@library(static="logarithm", name="gaussian_kde")
@promotes_freely
def _evaluate(dataset, weights, covariance, inverse, points, logarithm):
    d = dataset.shape[0]
    # After whitening by the factor of the inverse covariance, distances are Euclidean.
    whitening = cholesky(inverse)
    samples, points = whitening.T @ dataset, whitening.T @ points
    # Differences per dimension: the expansion in squared norms and products would cancel.
    energy = sum((samples[i][None, :] - points[i][:, None]) ** 2 for i in range(d)) / 2
    log_scale = xnp.sum(xnp.log(xnp.diagonal(whitening))) - d / 2 * math.log(2 * math.pi)
    if not logarithm:
        return xnp.sum(xnp.exp(-energy) * weights, axis=1) * xnp.exp(log_scale)  # a sum fuses, a matrix product does not
    min_energy = xnp.min(energy, 1, keepdims=True)
    min_energy = xnp.where(xnp.isinf(min_energy), 0, min_energy)
    return xnp.log(xnp.sum(xnp.exp(min_energy - energy) * weights, axis=1)) - min_energy[:, 0] + log_scale


@library(name="gaussian_kde")
def _integrate_product(first, weights, covariance, second, other_weights, other_covariance):
    """Integrate a product of densities: for each pair of samples, the normal density of their distance with the sum of
    covariances."""
    d = first.shape[0]
    factor = cholesky(covariance + other_covariance)
    distances = (first[:, :, None] - second[:, None, :]).reshape(d, -1)
    energy = xnp.sum(distances * cho_solve((factor, True), distances), 0) / 2
    scale = xnp.prod(xnp.diagonal(factor)) * (2 * math.pi) ** (d / 2)
    return weights @ xnp.exp(-energy).reshape(first.shape[1], second.shape[1]) @ other_weights / scale


@library(name="gaussian_kde")
def _integrate_interval(dataset, weights, covariance, low, high):
    deviation = xnp.sqrt(covariance[0, 0])
    ends = [ndtr(((xnp.asarray(end) - dataset[0]) / deviation).astype(dataset.dtype)) for end in (low, high)]
    return xnp.sum(weights * (ends[1] - ends[0]))

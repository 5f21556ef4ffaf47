"""Functions of neural networks, against their formulas in NumPy."""

import numpy as np
import pytest
import scipy.special as sp
from laws import check_derivatives

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import nn

X = np.array([-3.0, -1.0, -0.2, 0.4, 1.0, 2.5, 7.0])
sigmoid = sp.expit
FORMULAS = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "sigmoid": sigmoid,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "soft_sign": lambda x: x / (1 + np.abs(x)),
    "silu": lambda x: x * sigmoid(x),
    "swish": lambda x: x * sigmoid(x),
    "log_sigmoid": lambda x: np.log(sigmoid(x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "celu": lambda x: np.maximum(x, 0) + np.minimum(0, np.expm1(x)),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "tanh": np.tanh,
    "identity": lambda x: x,
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "sparse_plus": lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4)),
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_activations(name, rng):
    f = getattr(nn, name)
    np.testing.assert_allclose(np.asarray(f(X.astype(np.float32))), FORMULAS[name](X), rtol=2e-6, atol=1e-6)
    smooth = X + 0.013  # away from the kinks
    check_derivatives(f, [smooth], rng)
    assert f(xnp.ones(2, "bfloat16")).dtype == xnp.bfloat16


def test_gelu():
    np.testing.assert_allclose(
        np.asarray(nn.gelu(X, approximate=False)), X * 0.5 * (1 + sp.erf(X / np.sqrt(2))), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        np.asarray(nn.gelu(X)),
        0.5 * X * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3))),
        rtol=1e-5,
        atol=1e-6,
    )


def test_float64_is_computed_in_full_precision():
    formulas = FORMULAS | {"gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))}
    with xf.enable_x64(True):
        for name, formula in formulas.items():
            found = getattr(nn, name)(X)
            assert found.dtype == np.float64, name
            np.testing.assert_allclose(np.asarray(found), formula(X), rtol=1e-13, atol=1e-15, err_msg=name)
        exact = nn.gelu(X, approximate=False)
        np.testing.assert_allclose(np.asarray(exact), X * 0.5 * (1 + sp.erf(X / np.sqrt(2))), rtol=1e-13, atol=1e-15)


def test_lists_of_axes(rng):
    x, where = rng.normal(size=(2, 3, 4)).astype(np.float32), rng.normal(size=(2, 3, 4)) > -1
    masked = np.where(where, x, -np.inf)
    total = sp.logsumexp(masked, axis=(0, 2))
    for options in ({"keepdims": False}, {"keepdims": True}):
        shape = (1, 3, 1) if options["keepdims"] else (3,)
        sums = nn.logsumexp(x, axis=[0, 2], where=where, **options)
        means = nn.logmeanexp(x, axis=(0, 2), where=where, **options)
        np.testing.assert_allclose(np.asarray(sums), total.reshape(shape), rtol=1e-5)
        np.testing.assert_allclose(np.asarray(means), (total - np.log(where.sum((0, 2)))).reshape(shape), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="static"):
        nn.logmeanexp(x, axis=[0, 2])
    weights = sp.softmax(masked, axis=(0, 2))
    np.testing.assert_allclose(np.asarray(nn.softmax(x, [0, 2], where)), weights, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(xnp.exp(nn.log_softmax(x, [0, 2], where))), weights, rtol=1e-5)
    by_arrays = [xnp.array(0), np.array(2)]
    np.testing.assert_array_equal(nn.softmax(x, by_arrays, where), nn.softmax(x, (0, 2), where))
    np.testing.assert_array_equal(nn.logsumexp(x, xnp.array(1)), nn.logsumexp(x, 1))
    all_axes = nn.standardize(x, (0, 2))
    np.testing.assert_allclose(np.asarray(all_axes.mean((0, 2))), 0, atol=1e-6)
    np.testing.assert_allclose(np.asarray(all_axes.std((0, 2))), 1, rtol=1e-4)


@pytest.mark.parametrize("function", [lambda x, axis: nn.one_hot(x.astype(int), 3, axis=axis), nn.glu])
@pytest.mark.parametrize("axis", ["a", 1.5, None])
def test_axes_are_integers(function, axis):
    with pytest.raises(TypeError, match="needs an integer axis"):
        function(np.ones(4, np.float32), axis)


def test_softmax_family(rng):
    x = rng.normal(size=(3, 5)) * 4
    np.testing.assert_allclose(np.asarray(nn.softmax(x)), sp.softmax(x, -1), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(nn.softmax(x, axis=0)), sp.softmax(x, 0), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(nn.softmax(x, axis=(0, 1))), sp.softmax(x), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(nn.log_softmax(x)), sp.log_softmax(x, -1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.asarray(nn.logsumexp(x, axis=1)), sp.logsumexp(x, 1), rtol=1e-5)
    np.testing.assert_allclose(float(nn.logsumexp(x, b=np.abs(x))), sp.logsumexp(x, b=np.abs(x)), rtol=1e-5)
    size, sign = nn.logsumexp(x, b=-np.ones_like(x), return_sign=True)
    np.testing.assert_allclose([float(size), float(sign)], [sp.logsumexp(x), -1], rtol=1e-5)
    np.testing.assert_allclose(float(nn.logmeanexp(x)), sp.logsumexp(x) - np.log(x.size), rtol=1e-5)
    mask = x > 0
    np.testing.assert_allclose(
        np.asarray(nn.softmax(x, where=mask)),
        np.where(mask, np.exp(x) / np.sum(np.exp(x), -1, where=mask, keepdims=True), 0),
        rtol=1e-5,
    )
    assert np.isneginf(nn.logsumexp(xnp.array([-np.inf, -np.inf]))) and nn.softmax(xnp.array([1e4, 0.0])).tolist() == [
        1,
        0,
    ]
    check_derivatives(nn.softmax, [x], rng)
    check_derivatives(nn.log_softmax, [x], rng)
    check_derivatives(nn.logsumexp, [x], rng)


def test_standardize_glu_one_hot(rng):
    x = rng.normal(size=(3, 6))
    for algorithm in ("fast", "stable"):
        np.testing.assert_allclose(
            np.asarray(nn.standardize(x, algorithm=algorithm)),
            (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
            rtol=1e-4,
            atol=1e-5,
        )
    np.testing.assert_allclose(np.asarray(nn.glu(x)), x[:, :3] * sigmoid(x[:, 3:]), rtol=1e-5)
    np.testing.assert_array_equal(
        np.asarray(nn.one_hot(np.array([0, 2, 5, -1]), 3)), [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    )
    assert nn.one_hot(np.array([[0], [1]]), 2, axis=0).shape == (2, 2, 1) and nn.one_hot(
        1, 3, dtype="int32"
    ).tolist() == [0, 1, 0]
    with pytest.raises(AssertionError, match="divisible by 2"):
        nn.glu(x[:, :5])
    with pytest.warns(DeprecationWarning, match="integers"):
        nn.one_hot(xnp.array([1.0]), 3)
    with pytest.raises(TypeError, match="bool"):
        nn.one_hot(xnp.array([True]), 3)


def attention(q, k, v, mask):
    logits = np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[-1])
    return np.einsum("bhts,bshd->bthd", sp.softmax(np.where(mask, logits, -1e30), -1), v)


def test_attention(rng):
    q, k, v = (rng.normal(size=(2, 5, 4, 3)) for _ in range(3))
    every = np.ones((5, 5), bool)
    rows, columns = np.indices((5, 5))
    for options, mask in (
        ({}, every),
        ({"is_causal": True}, rows >= columns),
        ({"local_window_size": 1}, abs(rows - columns) <= 1),
        ({"key_value_seq_lengths": np.array([3, 5])}, columns[None, None] < np.array([3, 5])[:, None, None, None]),
    ):
        np.testing.assert_allclose(
            np.asarray(nn.dot_product_attention(q, k, v, **options)), attention(q, k, v, mask), rtol=1e-4, atol=1e-5
        )
    grouped = nn.dot_product_attention(q, k[:, :, :2], v[:, :, :2])
    np.testing.assert_allclose(
        np.asarray(grouped),
        attention(q, np.repeat(k[:, :, :2], 2, 2), np.repeat(v[:, :, :2], 2, 2), every),
        rtol=1e-4,
        atol=1e-5,
    )
    np.testing.assert_allclose(
        np.asarray(nn.dot_product_attention(q[0], k[0], v[0])), attention(q, k, v, every)[0], rtol=1e-4, atol=1e-5
    )
    for bad in (
        lambda: nn.dot_product_attention(q, k[..., :2], v),
        lambda: nn.dot_product_attention(q, k, v[..., :2]),
        lambda: nn.dot_product_attention(q, k.astype("float32"), v.astype("float16")),
        lambda: nn.dot_product_attention(q, k, v, query_seq_lengths=np.ones(3, np.int32)),
        lambda: nn.dot_product_attention(q, k, v, key_value_seq_lengths=np.ones(2, np.float32)),
        lambda: nn.dot_product_attention(q, k, v, mask=np.ones((5, 5), np.int32)),
    ):
        with pytest.raises(ValueError, match="dot_product_attention"):
            bad()
    with pytest.raises(TypeError, match="broadcast"):
        nn.dot_product_attention(q, k, v, mask=np.ones(3, bool))


@pytest.mark.cpu_only
def test_cudnn_attention_without_gpu_raises():
    with pytest.raises(RuntimeError, match="cuDNN"):
        nn.dot_product_attention(*[np.ones((1, 4, 2, 8), np.float32)] * 3, implementation="cudnn")


def test_attention_with_all_keys_masked(rng):
    q, k, v = (xnp.asarray(rng.normal(size=(1, 3, 2, 4)), "float32") for _ in range(3))
    mask = np.ones((1, 2, 3, 3), bool)
    mask[:, :, 1] = False
    with xf.numpy_rank_promotion("raise"):
        result, residual = nn.dot_product_attention(*(x.astype("bfloat16") for x in (q, k, v)), mask=mask[0, 0], return_residual=True)
    assert residual.dtype == result.dtype == xnp.bfloat16 and bool(xnp.isfinite(result.astype("float32")).all())
    gradients = xf.grad(lambda *x: nn.dot_product_attention(*x, mask=mask).sum(), (0, 1, 2))(q, k, v)
    assert all(bool(xnp.isfinite(g).all()) for g in gradients)
    assert not xf.grad(lambda x: nn.dot_product_attention(x, k, v, return_residual=True)[1].sum())(q).any()


def test_initializers():
    """Values equal JAX's for the same key and have the documented variance."""
    key = xf.random.key(3)
    np.testing.assert_allclose(
        np.asarray(nn.initializers.glorot_uniform()(key, (2, 3))),
        [
            [-0.9332041144371033, 0.959926187992096, 0.3263484835624695],
            [1.0420334339141846, -0.4855499863624573, 0.1817082315683365],
        ],
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        np.asarray(nn.initializers.lecun_normal()(key, (2, 3))),
        [
            [-1.0610356330871582, 1.1198928356170654, 0.2928430438041687],
            [1.3543111085891724, -0.4484679698944092, 0.16057848930358887],
        ],
        rtol=1e-6,
    )
    for name, variance in (
        ("he_normal", 2 / 200),
        ("he_uniform", 2 / 200),
        ("glorot_normal", 2 / 300),
        ("lecun_uniform", 1 / 200),
    ):
        values = np.asarray(getattr(nn.initializers, name)()(key, (200, 100)))
        assert abs(values.var() / variance - 1) < 0.05 and abs(values.mean()) < 0.01
    for dtype in ("bfloat16", "int32"):  # as in JAX, empty shapes need no QR decomposition
        assert nn.initializers.orthogonal()(key, (2, 0), dtype).shape == (2, 0)
    assert nn.initializers.zeros(key, (2,)).tolist() == [0, 0] and nn.initializers.constant(3.0)(
        key, (2,)
    ).tolist() == [3, 3]
    with pytest.raises(ValueError, match="two dimensions"):
        nn.initializers.he_normal()(key, (3,))
    with pytest.raises(ValueError, match="fan_in"):
        nn.initializers.variance_scaling(1.0, "fan", "normal")


MASK = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]], bool)


@pytest.mark.parametrize("value", [1.0, 1e4, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("axis", [-1, 0, None])
def test_masked_softmax(value, axis):
    """Masked elements are absent regardless of their values. If all are masked, results and derivatives are 0."""
    x = np.array([[36.0, 0.5, 1.0], [-2.0, 3.0, 0.25], [1.0, 2.0, -1.0]], np.float32)
    masked = np.where(MASK, x, value).astype(np.float32)
    raised = np.where(MASK, np.exp(x - x.max()), 0)
    with np.errstate(invalid="ignore"):
        expected = np.nan_to_num(raised / raised.sum(axis, keepdims=True))
    result = nn.softmax(masked, axis, where=MASK)
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-5, atol=1e-30)
    logs = nn.log_softmax(masked, axis, where=MASK)
    assert np.array_equal(np.isneginf(np.asarray(logs)), ~MASK)
    np.testing.assert_allclose(np.exp(np.asarray(logs)), expected, rtol=1e-5, atol=1e-30)
    weights = np.arange(9.0).reshape(3, 3)
    g = np.asarray(xf.grad(lambda x: xnp.sum(nn.softmax(x, axis, where=MASK) * weights))(masked))
    np.testing.assert_allclose(g, expected * (weights - (expected * weights).sum(axis, keepdims=True)), rtol=1e-4, atol=1e-5)
    g = np.asarray(xf.grad(lambda x: xnp.sum(xnp.where(MASK, nn.log_softmax(x, axis, where=MASK), 0) * weights))(masked))
    np.testing.assert_allclose(
        g, np.where(MASK, weights, 0) - expected * (MASK * weights).sum(axis, keepdims=True), rtol=1e-4, atol=1e-5
    )
    assert bool(xnp.isfinite(xf.jvp(lambda x: nn.softmax(x, axis, where=MASK), (masked,), (np.ones_like(masked),))[1]).all())


def test_masked_elements_are_zero_beside_nan():
    x = np.array([1.0, np.nan, 3.0], np.float32)
    np.testing.assert_array_equal(nn.softmax(x, where=np.array([False, True, False])), [0, np.nan, 0])


def test_masks_of_other_rank():
    x = xnp.arange(9.0).reshape(3, 3)
    with xf.numpy_rank_promotion("raise"):
        for f in (nn.softmax, nn.log_softmax, nn.logsumexp):
            assert xnp.array_equal(f(x, where=MASK[0]), f(x, where=np.broadcast_to(MASK[0], (3, 3))))
            assert xnp.array_equal(f(x, axis=[0, 1]), f(x, axis=(0, 1)))
    for f in (nn.softmax, nn.log_softmax, nn.logsumexp, nn.standardize):
        with pytest.raises(ValueError, match="boolean"):
            f(x, where=MASK.astype(int))


TYPES = [  # call, dtype, weak type: what the reference gives
    (lambda: nn.relu(xnp.array([True, False])), "int32", True),
    (lambda: nn.relu(1 + 1j), "complex64", True),
    (lambda: nn.relu6(xnp.array([7 + 1j])), "complex64", False),
    (lambda: nn.hard_sigmoid(1 + 1j), "complex64", True),
    (lambda: nn.gelu(2.0), "float32", False),
    (lambda: nn.silu(2.0), "float32", True),
    (lambda: nn.standardize(xnp.arange(7), mean=1.0, variance=2.0), "float32", True),
    (lambda: nn.softmax(xnp.arange(3, dtype="int8")), "float32", False),
    *((lambda f=getattr(nn, name): xf.jit(lambda: f(np.int32(2)))(), "float32", True) for name in (
        "relu6", "sparse_plus", "sparse_sigmoid", "leaky_relu", "hard_sigmoid", "hard_silu")),
]
REFUSED = [
    (lambda: nn.silu(2), TypeError),
    (lambda: nn.silu(xnp.arange(3)), TypeError),
    (lambda: nn.softmax(xnp.array([True])), TypeError),
    (lambda: nn.log1mexp(True), TypeError),
    (lambda: nn.standardize(xnp.array([1j])), ValueError),
    *((lambda f=getattr(nn, name): f([1.0, 2.0]), TypeError) for name in FORMULAS),
    *((lambda f=getattr(nn, name): f(None), TypeError) for name in FORMULAS),
]


@pytest.mark.parametrize("call, dtype, weak", TYPES, ids=map(str, range(len(TYPES))))
def test_result_types(call, dtype, weak):
    result = call()
    assert (result.dtype, result.weak_type) == (dtype, weak)


@pytest.mark.parametrize("call, error", REFUSED, ids=map(str, range(len(REFUSED))))
def test_bad_dtypes_raise(call, error):
    with pytest.raises(error):
        call()


def test_log1mexp_has_its_derivative_everywhere():
    x = np.array([-np.inf, -1.0, 0.0, 0.5, 3.0, np.inf], np.float32)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(np.asarray(xf.vmap(xf.grad(nn.log1mexp))(x)), 1 / np.expm1(x), rtol=1e-6)


def test_complex_uniform_values_equal_those_of_jax():
    found = nn.initializers.variance_scaling(2.5, "fan_in", "uniform", dtype="complex64")(xf.random.key(3), (3, 5))
    expected = [0.11878171563148499 + 0.019574902951717377j, -0.2615077495574951 - 0.07019837945699692j,
                -0.7154994606971741 + 0.0857260674238205j]  # observed, to the last bit
    assert np.asarray(found)[0, :3].tolist() == expected


def test_variance_scaling_of_vectors():
    make = nn.initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=0, out_axis=0)
    assert make(xf.random.key(0), (3,)).shape == make(xf.random.key(0), 3).shape == (3,)
    with pytest.raises(ValueError, match="two dimensions"):
        nn.initializers.he_normal()(xf.random.key(0), 3)
    with pytest.raises(IndexError):
        nn.initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=1, out_axis=0)(xf.random.key(0), (3,))
    with pytest.raises(IndexError):
        nn.initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=5)(xf.random.key(0), (0, 3))


def test_initializers_of_empty_weights():
    for name in "glorot_normal glorot_uniform he_normal he_uniform lecun_normal lecun_uniform".split():
        for shape in ((0, 2), (2, 0), (0, 0), (3, 0, 2)):
            weights = getattr(nn.initializers, name)()(xf.random.key(0), shape)
            assert weights.shape == shape and weights.dtype == np.float32
    with pytest.raises(ValueError, match="two dimensions"):
        nn.initializers.lecun_normal()(xf.random.key(0), (0,))

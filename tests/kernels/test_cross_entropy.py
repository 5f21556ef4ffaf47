"""The cross-entropy as a function: its gradients, and its memory."""

import numpy as np
import pytest
from library_kernels import exact_cross_entropy, numbers

import xlafront as xf
import xlafront.numpy as xnp
from xlafront import kernels
from xlafront.kernels import cross_entropy


def test_values_and_gradients(monkeypatch):
    """With vocabularies of whole blocks and of a part of one."""
    monkeypatch.setattr(cross_entropy, "COLUMNS", 64)
    xf.clear_caches()
    for words in (150, 128, 50):
        hidden, weights = numbers(2, 18, 30) / 8, numbers(30, words, seed=1)
        labels = np.random.default_rng(words).integers(-1, words, (2, 18))
        g, h = numbers(2, 18, seed=2), numbers(2, 18, seed=3)
        (loss, lse), pull = xf.vjp(lambda *a: kernels.softmax_cross_entropy(*a, labels, return_residual=True), hidden, weights)
        flat, flat_labels = hidden.reshape(36, 30).astype(float), labels.reshape(36)
        exact_lse, chosen = exact_cross_entropy(flat, weights, flat_labels)
        is_valid = flat_labels >= 0
        np.testing.assert_allclose(np.asarray(loss).reshape(-1), np.where(is_valid, exact_lse - chosen, 0), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(np.asarray(lse).reshape(-1), exact_lse, rtol=1e-5, atol=1e-5)
        weight = np.exp(flat @ weights - exact_lse[:, None])
        dloss = np.where(is_valid, g.reshape(36), 0)
        dlogits = weight * (dloss + h.reshape(36))[:, None] - (flat_labels[:, None] == np.arange(words)) * dloss[:, None]
        for found, e in zip(pull((g, h)), (dlogits @ weights.T, flat.T @ dlogits)):
            np.testing.assert_allclose(np.asarray(found).reshape(e.shape), e, rtol=1e-4, atol=1e-4)


@pytest.mark.cpu_only
def test_memory_does_not_have_the_logits():
    rows, words = 512, 65536
    types = [xf.ShapeDtypeStruct(shape, "float32") for shape in ((rows, 16), (16, words))]
    step = xf.jit(xf.value_and_grad(lambda h, w: kernels.softmax_cross_entropy(h, w, xnp.zeros(rows, "int32")).sum(), (0, 1)))
    assert step.lower(*types).compile().memory_analysis().temp_size_in_bytes < rows * words * 4 / 4


def test_bad_arguments():
    f, h, w, labels = kernels.softmax_cross_entropy, np.ones((3, 4), np.float32), np.ones((4, 5), np.float32), np.zeros(3, np.int32)
    for bad, message in ((lambda: f(h, w.T, labels), "must be .*width, words"), (lambda: f(h, w, labels[:2]), r"labels \(2,\)"),
                         (lambda: f(h, w.astype(np.float16), labels), "one floating-point dtype"),
                         (lambda: f(h, w, labels.astype(np.float32)), "labels of integers")):
        with pytest.raises(ValueError, match=message):
            bad()

"""einops with metatensor's tensors."""

import pytest

import metatensor as mt

einops = pytest.importorskip("einops")
pytest.importorskip("metatensor.interop.einops")


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_shapes(device):
    x = mt.arange(24.0, device="cpu").reshape(2, 3, 4).to(device)
    assert einops.rearrange(x, "a b c -> c (a b)").shape == (4, 6)
    assert einops.reduce(x, "a b c -> a", "max").shape == (2,)
    assert einops.reduce(x, "a b c -> a b 1", "prod").shape == (2, 3, 1)
    assert einops.repeat(x, "a b c -> a (b 2) c").shape == (2, 6, 4)
    assert einops.einsum(x, x, "a b c, a d c -> b d").shape == (3, 3)
    packed, sizes = einops.pack([x, x[:, 0]], "a * c")
    assert packed.shape == (2, 4, 4)
    assert [t.shape for t in einops.unpack(packed, sizes, "a * c")] == [(2, 3, 4), (2, 4)]
    assert einops.parse_shape(x, "a b c") == {"a": 2, "b": 3, "c": 4}


def test_values_are_einops_own_of_numpy():
    np = pytest.importorskip("numpy")
    array = np.arange(24.0).reshape(2, 3, 4)
    x = mt.from_numpy(array)
    for pattern in ("a b c -> (b a) c", "(a x) b c -> a (b c) x"):
        assert (einops.rearrange(x, pattern, **({"x": 2} if "x" in pattern else {})).numpy()
                == einops.rearrange(array, pattern, **({"x": 2} if "x" in pattern else {}))).all()
    for operation in ("sum", "mean", "min", "max", "prod"):
        assert np.allclose(einops.reduce(x, "a b c -> b", operation).numpy(), einops.reduce(array, "a b c -> b", operation))


def test_a_pattern_that_does_not_fit_is_einops_error():
    with pytest.raises(einops.EinopsError):
        einops.rearrange(mt.empty(2, 3, device="meta"), "a b c -> a b c")

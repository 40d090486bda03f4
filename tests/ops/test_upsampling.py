"""Interpolation and grid sampling: values and metadata compared with PyTorch, errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from ops.against import agree, tensors_of
from ops.pairs import values

F = mt.nn.functional
MODES = {1: ["nearest", "nearest-exact", "area", "linear"], 2: ["nearest", "nearest-exact", "area", "bilinear", "bicubic"],
         3: ["nearest", "nearest-exact", "area", "trilinear"]}  # fmt: skip


@st.composite
def resizings(draw):
    n = draw(st.integers(1, 3))
    mode = draw(st.sampled_from(MODES[n]))
    shape = (*draw(st.sampled_from([(2, 3), (1, 1), (0, 2)])), *draw(st.lists(st.integers(1, 6), min_size=n, max_size=n)))
    options = {"mode": mode}
    if draw(st.booleans()):
        options["size"] = draw(st.integers(1, 9) | st.tuples(*[st.integers(1, 9)] * n))
    else:
        options["scale_factor"] = draw(st.sampled_from([0.5, 1.0, 1.5, 2, 3.3]))
        options["recompute_scale_factor"] = draw(st.sampled_from([None, True, False]))
    if "linear" in mode or "cubic" in mode:
        options["align_corners"] = draw(st.sampled_from([None, True, False]))
    return shape, options


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@given(resizings())
@settings(max_examples=200)
def test_interpolate(case):
    shape, options = case
    agree(lambda lib, t: lib.nn.functional.interpolate(t, **options), *tensors_of(0, shape), tolerance=2e-4)


@pytest.mark.torch
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("size", [(3, 4), (12, 11), (1, 20)])
def test_antialias(mode, size):
    call = lambda lib, t: lib.nn.functional.interpolate(t, size, mode=mode, antialias=True)
    agree(call, *tensors_of(0, (2, 3, 7, 8)), tolerance=1e-4)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "uint8", "int64"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "area"])
def test_dtypes(dtype, mode):
    image = [(t * 50).to(t.dtype) if dtype != "uint8" else t for t in tensors_of(0, (2, 3, 4, 5), dtype=dtype)]
    tolerance = {"bfloat16": 2e-2, "uint8": 1}.get(dtype, 1e-6)
    agree(lambda lib, t: lib.nn.functional.interpolate(t, (7, 9), mode=mode), *image, tolerance=tolerance)


@pytest.mark.torch
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
def test_channels_last(mode):
    import torch

    (image,) = tensors_of(0, (2, 8, 4, 5))
    image = image.to(memory_format=torch.channels_last)
    agree(lambda lib, t: lib.nn.functional.interpolate(t, (7, 9), mode=mode), image, tolerance=1e-5)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_older_names():
    image = tensors_of(0, (2, 3, 4, 5))
    agree(lambda lib, t: lib.nn.functional.upsample_nearest(t, scale_factor=2), *image)
    agree(lambda lib, t: lib.nn.functional.upsample_bilinear(t, size=(6, 7)), *image, tolerance=1e-5)
    agree(lambda lib, t: lib.nn.functional.upsample(t, (6, 7), mode="bicubic"), *image, tolerance=1e-5)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [None, True])
def test_grid_sample(mode, padding, corners):
    image, grid = tensors_of(0, (2, 3, 5, 4), (2, 6, 7, 2))
    call = lambda lib, *t: lib.nn.functional.grid_sample(*t, mode, padding, corners)
    agree(call, image, grid * 0.8, tolerance=2e-4)
    image, grid = tensors_of(0, (2, 3, 5, 4, 3), (2, 4, 3, 2, 3))
    agree(call, image, grid * 0.8, tolerance=2e-4)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [None, True])
def test_grid_sample_at_no_place(mode, padding, corners):
    call = lambda lib, *t: lib.nn.functional.grid_sample(*t, mode, padding, corners)
    for n in (2, 3):
        image, grid = tensors_of(0, (1, 2, 5, 4, 3)[: n + 2], (1, 4, 3, 2, n) if n == 3 else (1, 4, 6, n))
        for i, value in enumerate((float("nan"), float("inf"), float("-inf"))):
            grid[0, i, 0, ..., 0] = grid[0, i, 1] = value
        agree(call, image, grid * 0.8, tolerance=2e-4)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("corners", [False, True])
def test_affine_grid(corners):
    for theta, size in (((2, 2, 3), (2, 1, 4, 5)), ((2, 3, 4), (2, 1, 3, 4, 5)), ((2, 2, 3), (2, 1, 1, 5)), ((3, 2, 3), (2, 1, 4, 5))):
        agree(lambda lib, t: lib.nn.functional.affine_grid(t, size, corners), *tensors_of(0, theta), tolerance=1e-5)


def test_definition(device):
    image = np.arange(6.0, dtype="float32").reshape(1, 1, 2, 3)
    t = mt.from_numpy(image).to(device)
    np.testing.assert_array_equal(values(F.interpolate(t, scale_factor=2)), image.repeat(2, axis=2).repeat(2, axis=3))
    line = mt.from_numpy(np.array([[[0.0, 1.0]]])).to(device)
    got = values(F.interpolate(line, 5, mode="linear", align_corners=True))
    np.testing.assert_allclose(got[0, 0], [0, 0.25, 0.5, 0.75, 1])


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({}, ValueError, "neither"),
        ({"size": 3, "scale_factor": 2}, ValueError, "both"),
        ({"size": (3,)}, ValueError, "2 of them"),
        ({"size": 2.5}, TypeError, "size"),
        ({"scale_factor": "2"}, TypeError, "scale_factor"),
        ({"size": 0}, RuntimeError, "positive"),
        ({"scale_factor": 0.1}, RuntimeError, "positive"),
        ({"scale_factor": 1e30}, RuntimeError, "out of range"),
        ({"size": 3, "mode": "trilinear"}, NotImplementedError, "trilinear"),
        ({"size": 3, "mode": "lanczos"}, ValueError, "antialias=True"),
        ({"size": 3, "align_corners": True}, ValueError, "align_corners"),
        ({"size": 3, "antialias": True}, ValueError, "antialias"),
    ],
)
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        F.interpolate(mt.empty(2, 3, 4, 5, device="meta"), **options)
    image, grid = mt.empty(2, 3, 4, 5, device="meta"), mt.empty(2, 3, 3, 2, device="meta")
    with pytest.raises(ValueError, match="'bilinear', 'nearest'"):
        F.grid_sample(image, grid, "cubic")
    with pytest.raises(RuntimeError, match="2 coordinates"):
        F.grid_sample(image, grid.transpose(1, 3))


def test_a_list_that_empties_itself_is_a_plain_error():
    class Emptied(list):
        def __len__(self):
            n = super().__len__()
            self.clear()
            return n

        def __iter__(self):
            items = list(super().__iter__())
            self.clear()
            return iter(items)

    for argument in ({"size": Emptied([8])}, {"scale_factor": Emptied([2.0])}):
        with pytest.raises((ValueError, TypeError, RuntimeError), match="interpolate"):
            mt.nn.functional.interpolate(mt.ones(1, 1, 4), **argument)


@pytest.mark.parametrize("size", [(1, 1, 2, 1), (1, 1, 1, 3), (1, 2, 3, 1, 2)])
def test_affine_grid_warns_of_a_single_position(size, recwarn):
    n = len(size) - 2
    theta = mt.eye(n, n + 1).reshape(1, n, n + 1)
    for align in (False, None):
        F.affine_grid(theta, size, align_corners=align)
    F.affine_grid(theta, (1, 1, *[2] * n), align_corners=True)
    assert not [w for w in recwarn if "affine_grid" in str(w.message)]
    with pytest.warns(UserWarning, match="centre 0"):
        grid = F.affine_grid(theta, size, align_corners=True)
    for axis, points in enumerate(size[2:]):
        if points == 1:
            assert mt.all(grid[..., n - 1 - axis] == 0)

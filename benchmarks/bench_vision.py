"""Padding, resampling and pixel shuffling."""

from .harness import suite, table

CASES = table(
    "vision",
    """
constant_pad_nd | m.constant_pad_nd(a, (1, 1), 0.0) | np.pad(a, ((0, 0), (1, 1)))
F.affine_grid | F.affine_grid(affine, (1, 4, 8, 8))
F.channel_shuffle | F.channel_shuffle(x2, 2)
F.fold | F.fold(columns, (4, 4), 2, stride=2)
F.grid_sample | F.grid_sample(x2, grid, align_corners=False)
F.interpolate nearest | F.interpolate(x2, scale_factor=2)
F.interpolate bilinear | F.interpolate(x2, (16, 16), mode="bilinear")
F.interpolate bicubic | F.interpolate(x2, (16, 16), mode="bicubic")
F.interpolate area | F.interpolate(x2, (4, 4), mode="area")
F.interpolate linear | F.interpolate(x1, 16, mode="linear")
F.interpolate trilinear | F.interpolate(x3, (4, 4, 4), mode="trilinear")
F.one_hot | F.one_hot(i, 4)
F.pad | F.pad(a, (1, 1)) | np.pad(a, ((0, 0), (1, 1)))
F.pad circular | F.pad(t, (1, 1), mode="circular") | np.pad(t, ((0, 0), (0, 0), (1, 1)), mode="wrap")
F.pad reflect | F.pad(t, (1, 1), mode="reflect") | np.pad(t, ((0, 0), (0, 0), (1, 1)), mode="reflect")
F.pad replicate | F.pad(t, (1, 1), mode="replicate") | np.pad(t, ((0, 0), (0, 0), (1, 1)), mode="edge")
F.pixel_shuffle | F.pixel_shuffle(x2, 2)
F.pixel_unshuffle | F.pixel_unshuffle(x2, 2)
F.unfold | F.unfold(x2, 2)
F.upsample_bilinear | F.upsample_bilinear(x2, (16, 16))
F.upsample_nearest | F.upsample_nearest(x2, (16, 16))
grid_sampler_2d | m.grid_sampler_2d(x2, grid, 0, 0, False)
grid_sampler_3d | m.grid_sampler_3d(x3, grid3, 0, 0, False)
""",
)

Vision = suite(CASES)

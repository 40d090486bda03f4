"""The node tests of the ``onnx`` package: values on cpu, dtypes and shapes on meta. What does not pass is listed with its reason."""

import random

import pytest

pytest.importorskip("onnx")
pytest.importorskip("numpy")

import metatensor as mt
from program.onnx import suite

RANDOM = "random numbers, which differ from NumPy's"
IMAGES = "decodes images"
TREES = "trees of decisions"
ROUNDING = "one element differs by a unit in the last place of float16"

NO_METADATA = {
    **dict.fromkeys([
        f"test_image_decoder_decode_{form}" for form in
        ("jpeg_rgb", "jpeg_grayscale", "jpeg_bgr", "jpeg2k_rgb", "bmp_rgb", "png_rgb", "tiff_rgb", "webp_rgb", "pnm_rgb")
    ], IMAGES),
    "test_ai_onnx_ml_tree_ensemble_single_tree": TREES,
    "test_ai_onnx_ml_tree_ensemble_set_membership": TREES,
}  # fmt: skip
"""Tests whose dtypes and shapes are not right on meta."""

NO_VALUES = {
    **NO_METADATA,
    **dict.fromkeys([f"test_bernoulli{kind}{form}" for kind in ("", "_double", "_seed") for form in ("", "_expanded")], RANDOM),
    **dict.fromkeys([f"test_training_dropout{kind}" for kind in ("", "_mask", "_default", "_default_mask")], RANDOM),
    "test_attention_4d_causal_fp16_expanded": ROUNDING,
}
"""Tests whose values are not right on cpu."""


def numeric(cases):
    return {name: case for name, case in cases.items() if not suite.is_text(case)}


def failures(check, cases):
    """Return the names of tests that do not pass."""
    found = set()
    for name, case in cases.items():
        mt.manual_seed(0)
        try:
            check(case)
        except Exception:
            found.add(name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("check", "listed"), [(suite.check_values, NO_VALUES), (suite.check_metadata, NO_METADATA)])
def test_a_sample(check, listed):
    cases = numeric(suite.some_cases())
    sample = {name: cases[name] for name in random.Random(0).sample(sorted(cases), 100)}
    assert failures(check, sample) == set(listed) & set(sample)


@pytest.mark.slow
def test_another_device():
    pytest.importorskip("metatensor_disk")

    class Disk(suite.Values):
        device = "disk"

        def __call__(self, value):
            return [self(one) for one in value] if isinstance(value, list) else value if value is None else value.to("disk")

    cases = numeric(suite.some_cases())
    for name in random.Random(1).sample(sorted(set(cases) - set(NO_VALUES)), 40):
        suite.run(cases[name], Disk())


@pytest.mark.slow
@pytest.mark.parametrize(("check", "listed", "share"), [(suite.check_values, NO_VALUES, 0.95), (suite.check_metadata, NO_METADATA, 0.99)])
def test_all(check, listed, share):
    cases = numeric(suite.cases())
    known = set(listed) & set(cases)  # the suite grows with the versions of the package
    assert failures(check, cases) == known
    assert 1 - len(known) / len(cases) >= share


@pytest.mark.slow
def test_few_models_need_values_for_their_shapes():
    needed = [suite.check_metadata(case) for name, case in numeric(suite.cases()).items() if name not in NO_METADATA]
    assert needed.count("all") / len(needed) < 0.05
    assert needed.count("none") / len(needed) > 0.75


@pytest.mark.parametrize("kind", ["simple", "pytorch-converted", "pytorch-operator"])
def test_models_of_the_package(kind):
    listed = {"test_gradient_of_add", "test_gradient_of_add_and_mul"}  # Gradient: training inside a model
    for case in suite.stored(kind):
        if case.name not in listed:
            suite.check_stored(case)

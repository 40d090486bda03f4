"""Estimates of programs with named sizes equal those of the model."""

import pytest

import metatensor as mt
from metatensor import nn


def meta(*shape, **options):
    return mt.empty(*shape, device="meta", **options)


def convolutions():
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))


MODELS = {
    "convolutions": (convolutions, (2, 3, 64, 64), {"b": (1, 32), "h": (32, 512), "w": (32, 512)}, [["b", None, "h", "w"]]),
    "attention": (lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), (2, 9, 16), {"b": (1, 9), "n": (2, 300)},
                  [["b", "n", None]]),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_figures_are_those_of_the_model(name):
    make, shape, sizes, dims = MODELS[name]
    with mt.device("meta"):
        model = make()
    report = mt.analysis.estimate(model, meta(*shape), sizes=sizes, dims=dims)
    assert model.training and report.parameters == sum(p.numel() for p in model.parameters())
    for at in ({n: r[0] for n, r in sizes.items()}, {n: r[1] for n, r in sizes.items()}, {n: (r[0] + r[1]) // 3 for n, r in sizes.items()}):
        x = meta(*[size if n is None else at[n] for size, n in zip(shape, dims[0])])
        direct, known = mt.analysis.estimate(model, x), report.at(**at)
        assert (known.flops, known.peak_bytes, known.input_bytes, known.total_bytes, known.output) == (
            direct.flops, direct.peak.bytes, direct.input_bytes, direct.total_bytes, direct.output)
        from metatensor.program.sizes.expressions import evaluate

        for name_of, value in (("flops", known.flops), ("input_bytes", known.input_bytes), ("total_bytes", known.total_bytes)):
            expression = getattr(report, name_of)
            assert expression is None or evaluate(expression, at) == value
    assert "parameters" in str(report) and report.to_dict()["sizes"]["b"] == [1, sizes["b"][1], 1]


def test_a_linear_layer():
    with mt.device("meta"):
        model = nn.Linear(8, 4)
    report = mt.analysis.estimate(model, meta(2, 8), sizes={"batch": (1, 64)}, dims=[["batch", None]])
    assert str(report.flops) == "64*batch" and str(report.total_bytes) == "48*batch + 144"
    assert report.inputs == ["float32[batch,8]"] and report.output == "float32[batch,4]"
    with pytest.raises(ValueError, match="batch=65 is not in"):
        report.at(batch=65)
    again = mt.analysis.estimate(report.program)
    assert str(again.flops) == "64*batch" and again.parameters == 36
    with pytest.raises(ValueError, match="forward pass"):
        mt.analysis.estimate(model, meta(2, 8), sizes={"batch": (1, 64)}, dims=[["batch", None]], training=True)

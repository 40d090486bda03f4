"""Exports of programs that hypothesis makes: views, writes, indexing and arithmetic in any order."""

import pytest
from hypothesis import given, settings

import metatensor as mt
from metatensor.program.structure import leaves
from program import cases

pytest.importorskip("metatensor_cpu")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from program.onnx.exports import array, assert_close, exported, run

RANDOM = {"rand", "dropout", "normal_"}


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(cases.steps, cases.wanted)
def test_exports_of_random_programs(chosen, returned):
    chosen = [step for step in chosen if step[0] not in RANDOM]
    fn = cases.function(chosen, returned)

    def on_copies(x, y):
        return fn(x.clone(), y.clone())

    with mt.no_grad():
        program = mt.program.trace(on_copies, *cases.inputs())
        results = list(leaves(mt.Tensor, program(*cases.inputs())))
    for got, wanted in zip(run(exported(program), *cases.inputs()), results, strict=True):
        assert_close(got, array(wanted))

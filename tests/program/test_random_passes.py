"""Passes on programs that hypothesis makes: a run before and a run after give the same, bit for bit."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metatensor as mt
from program import cases

pytest.importorskip("metatensor_cpu")


def check(program, changed, memory=True):
    cases.check_releases(changed)
    cases.assert_same(cases.outcome(program), cases.outcome(changed))
    if memory:
        assert cases.peak(changed) <= cases.peak(program)
    file = io.BytesIO()
    changed.save(file)
    again = mt.program.load(io.BytesIO(file.getvalue()))
    assert mt.program.equal(changed, again)
    cases.assert_same(cases.outcome(changed), cases.outcome(again))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cases.steps, cases.wanted)
def test_dead_code(chosen, returned):
    program = cases.traced(chosen, returned)
    check(program, mt.program.dead_code(program))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cases.steps, cases.wanted)
def test_common_subexpressions(chosen, returned):
    program = cases.traced(chosen + chosen, returned)
    check(program, mt.program.common_subexpressions(program), memory=False)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cases.steps, cases.wanted)
def test_views_and_copies(chosen, returned):
    program = cases.traced(chosen, returned)
    less = mt.program.views_and_copies(program)
    assert len(less) <= len(program)
    check(program, less)


IN_PLACE_ONLY = {"normal_", "_index_put_"}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(cases.steps, cases.wanted, st.booleans())
def test_functionalize(chosen, returned, early):
    program = cases.traced(chosen, returned)
    functional = mt.program.functionalize(program, early=early)
    check(program, functional, memory=False)
    given = {value.number for value in [*program.inputs, *program.held.values()]}
    for call in functional.calls:
        if call.writes:
            assert call.op.name in IN_PLACE_ONLY or call.op.name == "copy_" and {v.number for v in call.writes} <= given


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cases.steps, cases.wanted)
def test_constant_folding(chosen, returned):
    program = cases.traced(chosen, returned)
    check(program, mt.program.constant_folding(program), memory=True)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cases.steps, cases.wanted)
def test_decompose(chosen, returned):
    program = cases.traced(chosen, returned)
    parts = mt.program.decompose(program, lambda name: False, strict=False)
    cases.check_releases(parts)
    cases.assert_same(cases.outcome(program), cases.outcome(parts), close=1e-6)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cases.steps, cases.wanted)
def test_decompose_what_is_functional(chosen, returned):
    program = cases.traced(chosen, returned)
    functional = mt.program.functionalize(program)
    parts = mt.program.decompose(functional, lambda name: False, strict=False)
    cases.check_releases(parts)
    cases.assert_same(cases.outcome(program), cases.outcome(parts), close=1e-6)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cases.steps, cases.wanted)
def test_change_dtype(chosen, returned):
    program = cases.traced(chosen, returned)
    wide = mt.program.change_dtype(program, mt.float64)
    cases.check_releases(wide)
    given = tuple(t.double() for t in cases.inputs())
    before, after = cases.outcome(program), cases.outcome(wide, args=given)
    cases.assert_same((before[0], (), {}), (after[0], (), {}), close=2e-2)
    back = mt.program.change_dtype(wide, mt.float32, source=mt.float64)
    assert [value.dtype for value in back.outputs] == [value.dtype for value in program.outputs]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cases.steps, cases.wanted, st.sets(st.integers(0, 30), max_size=4))
def test_split(chosen, returned, cuts):
    program = cases.traced(chosen, returned)
    places = {id(call) for i, call in enumerate(program.calls) if i in cuts}
    parts = mt.program.split(program, where=lambda call: id(call) in places)
    for part in parts:
        cases.check_releases(part)
    assert sum(map(len, parts)) == len(program) and len(parts) == len(places - {id(program.calls[0])}) + 1

    class Chain:
        tensors, kinds = program.tensors, program.kinds

        def bind(self, kept):
            bound = [part.bind({name: t for name, t in kept.items() if name in part.held}) for part in parts]
            return mt.program.Parts(program.bind(kept), bound)

        def __call__(self, *args):
            return parts(*args)

    cases.assert_same(cases.outcome(program), cases.outcome(Chain()))

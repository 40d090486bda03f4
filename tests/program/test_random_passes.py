"""Passes on programs that hypothesis makes: a run before and a run after give the same, bit for bit."""

import io

import pytest
from hypothesis import given, settings

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


@settings(max_examples=60, deadline=None)
@given(cases.steps, cases.wanted)
def test_dead_code(chosen, returned):
    program = cases.traced(chosen, returned)
    check(program, mt.program.dead_code(program))


@settings(max_examples=60, deadline=None)
@given(cases.steps, cases.wanted)
def test_common_subexpressions(chosen, returned):
    program = cases.traced(chosen + chosen, returned)
    check(program, mt.program.common_subexpressions(program), memory=False)


@settings(max_examples=60, deadline=None)
@given(cases.steps, cases.wanted)
def test_views_and_copies(chosen, returned):
    program = cases.traced(chosen, returned)
    less = mt.program.views_and_copies(program)
    assert len(less) <= len(program)
    check(program, less)


IN_PLACE_ONLY = {"normal_", "_index_put_"}


@settings(max_examples=150, deadline=None)
@given(cases.steps, cases.wanted)
def test_functionalize(chosen, returned):
    program = cases.traced(chosen, returned)
    functional = mt.program.functionalize(program)
    check(program, functional, memory=False)
    given = {value.number for value in [*program.inputs, *program.held.values()]}
    for call in functional.calls:
        if call.writes:
            assert call.op.name in IN_PLACE_ONLY or call.op.name == "copy_" and {v.number for v in call.writes} <= given

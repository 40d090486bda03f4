"""Integer programs find the optimum that trying all choices finds."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from metatensor.plan.operators.integer_program import IntegerProgram

NUMBERS = st.integers(0, 9).map(float)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=3), min_size=1, max_size=4), st.integers(0, 25))
def test_choices_within_a_limit(groups, limit):
    """One of each group is chosen, for the least cost within a limit of weight."""
    program = IntegerProgram()
    chosen = [program.choice([cost for cost, _ in group]) for group in groups]
    terms = {x: weight for group, found in zip(groups, chosen, strict=True) for (_, weight), x in zip(group, found, strict=True)}
    program.constrain(terms, -float("inf"), float(limit))
    solution = program.solve(10, 0.0)
    possible = [sum(cost for cost, _ in one) for one in product(*groups) if sum(weight for _, weight in one) <= limit]
    assert (solution is None) == (not possible)
    if solution is not None:
        assert abs(solution.objective - min(possible)) < 1e-6
        taken = [group[solution.chosen(found)] for group, found in zip(groups, chosen, strict=True)]
        assert sum(cost for cost, _ in taken) == min(possible) and sum(weight for _, weight in taken) <= limit


def test_small_costs_count():
    program = IntegerProgram()
    found = program.choice([3e-9, 1e-9, 2e-9])
    solution = program.solve(10, 0.0)
    assert solution.chosen(found) == 1 and abs(solution.objective - 1e-9) < 1e-15

"""Placement by operator: where each operator of a model runs on a mesh, chosen by an integer program."""

from metatensor.plan.operators.placing import OperatorPlan, place_operators

__all__ = ["OperatorPlan", "place_operators"]

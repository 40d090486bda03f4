"""Passes in an order that meets constraints."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.program.fx.passes.infra.pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]


def pass_result_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Turn a function that changes a module in place, or returns one, into a pass that returns a `PassResult`."""
    if isinstance(inspect.signature(fn).return_annotation, type) and issubclass(inspect.signature(fn).return_annotation, PassResult):
        return fn

    @functools.wraps(fn)
    def run(gm: Any) -> Any:
        result = fn(gm)
        if isinstance(result, PassResult):
            return result
        return PassResult(result if isinstance(result, mt.nn.Module) else gm, True)

    return run


def this_before_that_pass_constraint(this: Callable[..., Any], that: Callable[..., Any]) -> Callable[[Any, Any], bool]:
    """Return a constraint for `PassManager` that keeps `that` from running before `this`."""
    return lambda first, second: not (first is that and second is this)


class PassManager:
    """Runs passes one after the other.

    Parameters
    ----------
    passes : list of callable, optional
        They take a module and return a `PassResult` or None.
    constraints : list of callable, optional
        Called as ``f(first, second)`` for each pair of passes in the order in which they run. It returns whether
        `first` may run before `second`.
    steps : int, optional
        Maximum number of rounds of all passes. A round that modifies nothing is the last. Default 1.
    run_checks_after_each_pass, suppress_check_failures : bool
        Whether to run the check of `add_checks` after each pass, and whether to go on if it fails. Default False.

    Raises
    ------
    RuntimeError
        On a call, if no order meets the constraints, if a pass or check raises an error, or if a pass returns
        anything but a PassResult or None.
    """

    def __init__(
        self, passes: list[Callable[..., Any]] | None = None, constraints: list[Callable[[Any, Any], bool]] | None = None,
        steps: int | None = None, run_checks_after_each_pass: bool = False, suppress_check_failures: bool = False,
    ) -> None:  # fmt: skip
        self.passes, self.constraints = list(passes or ()), list(constraints or ())
        self.steps = steps or 1
        self.run_checks_after_each_pass, self.suppress_check_failures = run_checks_after_each_pass, suppress_check_failures
        self._validated = False

    def add_pass(self, _pass: Callable[..., Any]) -> None:
        """Add a pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Callable[[Any, Any], bool]) -> None:
        """Add a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def add_checks(self, check: Callable[[Any], Any]) -> None:
        """Set the function that checks a module. Raise ValueError unless it takes one argument."""
        if len(inspect.signature(check).parameters) != 1:
            raise ValueError("PassManager.add_checks: the check must take one argument, the module")
        self.check = check  # type: ignore[method-assign, assignment]

    def check(self, module: Any) -> None:
        """Check a module. Does nothing unless `add_checks` set another function."""

    def validate_constraints(self) -> None:
        """Raise RuntimeError if the order of the passes does not meet the constraints."""
        for i, second in enumerate(self.passes):
            for first in self.passes[:i]:
                for constraint in self.constraints:
                    if not constraint(first, second):
                        raise RuntimeError(f"PassManager: {_name(first)} may not run before {_name(second)}")
        self._validated = True

    def solve_constraints(self) -> None:
        """Order the passes so that the constraints are met. Raise RuntimeError if there is no such order."""
        left, ordered = list(self.passes), []
        while left:
            free = next((one for one in left if all(c(one, other) for other in left if other is not one for c in self.constraints)), None)
            if free is None:
                raise RuntimeError(f"PassManager: no order of {', '.join(map(_name, left))} meets the constraints")
            ordered.append(free)
            left.remove(free)
        self.passes = ordered
        self._validated = True

    def __call__(self, module: Any) -> PassResult:
        """Run the passes and return the last module, and whether any pass modified it."""
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        overall = False
        for _ in range(self.steps):
            modified = False
            for one in self.passes:
                try:
                    result = one(module)
                except Exception as error:
                    raise RuntimeError(f"PassManager: {_name(one)} failed: {error}") from error
                if result is not None and not isinstance(result, PassResult):
                    raise RuntimeError(f"PassManager: {_name(one)} returned a {type(result).__name__} instead of a PassResult")
                if result is not None:
                    module, modified = result.graph_module, modified or result.modified
                if hasattr(module, "recompile"):
                    module.recompile()
                if self.run_checks_after_each_pass:
                    self._check(module)
            overall = overall or modified
            if not modified:
                break
        return PassResult(module, overall)

    def _check(self, module: Any) -> None:
        try:
            self.check(module)
        except Exception:
            if not self.suppress_check_failures:
                raise


def _name(one: Any) -> str:
    return getattr(one, "__name__", type(one).__name__)

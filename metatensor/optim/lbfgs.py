"""L-BFGS (Liu and Nocedal, 1989), with a line search for the strong Wolfe conditions (Nocedal and Wright, chapter 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor.optim._ranges import NON_NEGATIVE, check_range, check_scalar
from metatensor.optim._third_party import _get_value
from metatensor.optim.optimizer import Optimizer

__all__ = ["LBFGS"]

Search = Callable[[float, Any], tuple[float, Any]]


def _cubic_minimum(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: tuple[float, float] | None = None
) -> float:
    """Return the minimum, within ``bounds``, of the cubic through two points with given values and slopes.

    If the cubic has no minimum, return the middle of the bounds.
    """
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    if x1 <= x2:
        at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        at = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(at, low), high)


def _strong_wolfe(
    evaluate: Search, t: float, d: Any, f: float, g: Any, slope: Any, c1: float = 1e-4, c2: float = 0.9,
    tolerance_change: float = 1e-9, max_ls: int = 25,
) -> tuple[float, Any, float, int]:  # fmt: skip
    """Search along ``d`` for a step that meets the strong Wolfe conditions.

    Return (loss, gradient, step, number of evaluations) of the best step found.
    """
    d_norm = _get_value(d.abs().max())
    slope0 = _get_value(slope)

    def look(at: float) -> tuple[float, float, Any, float]:
        value, grad = evaluate(at, d)
        return at, value, grad, _get_value(grad.dot(d))

    g = g.clone()
    before = (0.0, f, g, slope0)
    here = look(t)
    evaluations, count = 1, 0
    bracket: list[tuple[float, float, Any, float]] = []
    done = False
    while count < max_ls:
        t, value, _, slope_here = here
        if value > f + c1 * t * slope0 or count > 1 and value >= before[1]:
            bracket = [before, here]
            break
        if abs(slope_here) <= -c2 * slope0:
            bracket, done = [here], True
            break
        if slope_here >= 0:
            bracket = [before, here]
            break
        farther = _cubic_minimum(
            before[0], before[1], before[3], t, value, slope_here, (t + 0.01 * (t - before[0]), t * 10)
        )
        before = (t, value, here[2].clone(), slope_here)
        here = look(farther)
        evaluations += 1
        count += 1
    if count == max_ls:
        bracket = [(0.0, f, g, slope0), here]

    stuck = False
    low, high = (0, 1) if bracket[0][1] <= bracket[-1][1] else (1, 0)
    while not done and count < max_ls:
        (a, fa, _, sa), (b, fb, _, sb) = bracket
        if abs(b - a) * d_norm < tolerance_change:
            break
        t = _cubic_minimum(a, fa, sa, b, fb, sb)
        near, far = min(a, b), max(a, b)
        margin = 0.1 * (far - near)
        if min(far - t, t - near) < margin:
            # The point is too close to an end of the bracket. Move it if this happens twice in a row or it is outside.
            if stuck or t >= far or t <= near:
                t = far - margin if abs(t - far) < abs(t - near) else near + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        here = look(t)
        evaluations += 1
        count += 1
        _, value, grad, slope_here = here
        kept = (t, value, grad.clone(), slope_here)
        if value > f + c1 * t * slope0 or value >= bracket[low][1]:
            bracket[high] = kept
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
        else:
            if abs(slope_here) <= -c2 * slope0:
                done = True
            elif slope_here * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = kept
    t, value, grad, _ = bracket[low if len(bracket) > 1 else 0]
    return value, grad, t, evaluations


class LBFGS(Optimizer):
    """L-BFGS, for a single parameter group (Liu and Nocedal, 1989).

    `step` needs a closure, which it calls several times.

    Parameters
    ----------
    params : iterable
        Tensors or (name, tensor) pairs.
    lr : float or Tensor
        Step size, or the first step size of a line search. Default 1.
    max_iter : int
        Maximal number of iterations per `step`. Default 20.
    max_eval : int, optional
        Maximal number of evaluations per `step`. Default ``max_iter * 5 // 4``.
    tolerance_grad : float
        Stop if no element of the gradient has a larger magnitude. Default 1e-7.
    tolerance_change : float
        Stop if the loss changes by less than this, no element of the step is larger, or the slope along the step is
        almost 0. Default 1e-9.
    history_size : int
        Number of past updates that approximate the Hessian. Default 100.
    line_search_fn : str, optional
        "strong_wolfe", or None (the default) for steps of size ``lr``.

    Raises
    ------
    ValueError
        If ``lr`` is negative or there is more than one parameter group.
    RuntimeError
        On a step if ``line_search_fn`` has another value.
    """

    def __init__(
        self, params: Any, lr: Any = 1, max_iter: int = 20, max_eval: int | None = None, tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9, history_size: int = 100, line_search_fn: str | None = None,
    ) -> None:  # fmt: skip
        check_range(self, "lr", lr, NON_NEGATIVE)
        check_scalar(self, "lr", lr)
        super().__init__(
            params,
            {
                "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS: there can be only one group of parameters")
        self._params = self.param_groups[0]["params"]

    def _gather_flat_grad(self) -> Any:
        parts = []
        for p in self._params:
            flat = p.new_zeros(p.numel()) if p.grad is None else p.grad.reshape(-1)
            parts.append(mt.view_as_real(flat).view(-1) if flat.is_complex() else flat)
        return mt.cat(parts, 0)

    def _add_grad(self, step_size: float, direction: Any) -> None:
        offset = 0
        for p in self._params:
            real = mt.view_as_real(p) if p.is_complex() else p
            real.add_(direction[offset : offset + real.numel()].view_as(real), alpha=step_size)
            offset += real.numel()

    def _directional_evaluate(self, closure: Any, x: list[Any], t: float, d: Any) -> tuple[float, Any]:
        self._add_grad(t, d)
        loss = float(_get_value(closure()))
        grad = self._gather_flat_grad()
        for p, kept in zip(self._params, x, strict=True):
            p.copy_(kept)
        return loss, grad

    @staticmethod
    def _direction(state: dict[str, Any], grad: Any, prev_grad: Any, history: int) -> None:
        """Append the last step to the history, and store the next direction in ``state["d"]``."""
        y = grad.sub(prev_grad)
        s = state["d"].mul(state["t"])
        ys = y.dot(s)
        if _get_value(ys) > 1e-10:
            for name, item in (("old_dirs", y), ("old_stps", s), ("ro", 1.0 / ys)):
                if len(state[name]) == history:
                    state[name].pop(0)
                state[name].append(item)
            state["H_diag"] = ys / y.dot(y)
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        weights = state.setdefault("al", [None] * history)
        q = grad.neg()
        for i in range(len(dirs) - 1, -1, -1):
            weights[i] = steps[i].dot(q) * ro[i]
            q.add_(dirs[i], alpha=-_get_value(weights[i]))
        d = state["d"] = mt.mul(q, state["H_diag"])
        for i in range(len(dirs)):
            d.add_(steps[i], alpha=_get_value(weights[i] - dirs[i].dot(d) * ro[i]))

    @mt.no_grad()
    def step(self, closure: Any) -> Any:  # type: ignore[override]
        """Run up to ``max_iter`` iterations.

        Parameters
        ----------
        closure : callable
            Function that recomputes the gradients and returns the loss.

        Returns
        -------
        object
            Result of the first call of ``closure``, the loss before the iterations.
        """
        if len(self.param_groups) != 1:
            raise AssertionError("LBFGS: there can be only one group of parameters")
        closure = mt.enable_grad()(closure)
        group = self.param_groups[0]
        lr, max_iter, change = _get_value(group["lr"]), group["max_iter"], group["tolerance_change"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        first_loss = closure()
        loss = float(_get_value(first_loss))
        evaluations = 1
        state["func_evals"] += 1
        grad = self._gather_flat_grad()
        if _get_value(grad.abs().max()) <= group["tolerance_grad"]:
            return first_loss
        prev_grad, prev_loss = state.get("prev_flat_grad"), state.get("prev_loss", 0.0)
        iterations = 0
        while iterations < max_iter:
            iterations += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                state.update(d=grad.neg(), old_dirs=[], old_stps=[], ro=[], H_diag=1)
            else:
                self._direction(state, grad, prev_grad, group["history_size"])
            d = state["d"]
            if prev_grad is None:
                prev_grad = grad.clone()
            else:
                prev_grad.copy_(grad)
            prev_loss = loss
            t = lr
            if state["n_iter"] == 1 and (total := _get_value(grad.abs().sum())) > 1.0:
                t = 1.0 / total * lr
            slope = grad.dot(d)
            if _get_value(slope) > -change:
                state["t"] = t
                break
            used = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError(f"LBFGS: line_search_fn must be 'strong_wolfe' or None, got {group['line_search_fn']!r}")
                x = [p.clone() for p in self._params]

                def evaluate(at: float, along: Any, x: list[Any] = x) -> tuple[float, Any]:
                    return self._directional_evaluate(closure, x, at, along)

                loss, grad, t, used = _strong_wolfe(
                    evaluate, t, d, loss, grad, slope, max_ls=group["max_eval"] - evaluations
                )
                self._add_grad(t, d)
                at_optimum = _get_value(grad.abs().max()) <= group["tolerance_grad"]
            else:
                self._add_grad(t, d)
                at_optimum = False
                if iterations != max_iter:
                    loss = float(_get_value(closure()))
                    grad = self._gather_flat_grad()
                    at_optimum = _get_value(grad.abs().max()) <= group["tolerance_grad"]
                    used = 1
            state["t"] = t
            evaluations += used
            state["func_evals"] += used
            if iterations == max_iter or evaluations >= group["max_eval"] or at_optimum:
                break
            if _get_value(d.mul(t).abs().max()) <= change or abs(loss - prev_loss) < change:
                break
        state["prev_flat_grad"], state["prev_loss"] = prev_grad, prev_loss
        return first_loss

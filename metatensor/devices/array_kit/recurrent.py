"""Kernels of recurrent networks: first the input products of all time steps, then one step after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metatensor.devices.array_kit.registry import kernel

# A cell takes the kit, the input product, the hidden state, the cell state or None, and the recurrent weight and bias.
# It returns the next hidden state and cell state.
Cell = Callable[..., Any]


def _sigmoid(kit: Any, x: Any) -> Any:
    return 1 / (1 + kit.xp.exp(-x)) if x.dtype.kind == "c" else kit.special.expit(x)


def _blocks(x: Any, n: int) -> list[Any]:
    width = x.shape[-1] // n
    return [x[..., i * width : (i + 1) * width] for i in range(n)]


def _product(x: Any, weight: Any, bias: Any) -> Any:
    made = x @ weight.T
    return made if bias is None else made + bias


def _lstm_step(kit: Any, given: Any, h: Any, cell: Any, w_hh: Any, b_hh: Any) -> tuple[Any, Any]:
    i, f, g, o = _blocks(given + _product(h, w_hh, b_hh), 4)
    cell = _sigmoid(kit, f) * cell + _sigmoid(kit, i) * kit.xp.tanh(g)
    return _sigmoid(kit, o) * kit.xp.tanh(cell), cell


def _gru_step(kit: Any, given: Any, h: Any, cell: Any, w_hh: Any, b_hh: Any) -> tuple[Any, Any]:
    reset, update, new = _blocks(given, 3)
    h_reset, h_update, h_new = _blocks(_product(h, w_hh, b_hh), 3)
    new = kit.xp.tanh(new + _sigmoid(kit, reset + h_reset) * h_new)
    return (h - new) * _sigmoid(kit, update + h_update) + new, None


def _tanh_step(kit: Any, given: Any, h: Any, cell: Any, w_hh: Any, b_hh: Any) -> tuple[Any, Any]:
    return kit.xp.tanh(given + _product(h, w_hh, b_hh)), None


def _relu_step(kit: Any, given: Any, h: Any, cell: Any, w_hh: Any, b_hh: Any) -> tuple[Any, Any]:
    return kit.xp.maximum(given + _product(h, w_hh, b_hh), 0), None


def _run(
    kit: Any, step: Cell, x: Any, sizes: list[int], h: Any, cell: Any, params: list[Any], biases: bool, reverse: bool
) -> tuple[Any, Any, Any]:
    """Run one layer in one direction over the rows of all time steps, with ``sizes`` rows per step.

    Return the output rows and the final states. Sequences are sorted by descending length, so a step with ``n`` rows
    continues the first ``n`` rows of the states.
    """
    xp = kit.xp
    w_ih, w_hh, *rest = params
    b_ih, b_hh = rest[:2] if biases else (None, None)
    projection = rest[-1] if len(rest) % 2 else None
    given = _product(x, w_ih, b_ih)
    h, cell = h.copy(), None if cell is None else cell.copy()
    outputs = xp.empty((x.shape[0], h.shape[-1]), h.dtype)
    starts = [0]
    for n in sizes:
        starts.append(starts[-1] + n)
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        n, rows = sizes[t], slice(starts[t], starts[t + 1])
        now, state = step(kit, given[rows], h[:n], None if cell is None else cell[:n], w_hh, b_hh)
        if projection is not None:
            now = now @ projection.T
        h[:n] = outputs[rows] = now
        if cell is not None:
            cell[:n] = state
    return outputs, h, cell


def _layers(
    kit: Any, step: Cell, x: Any, sizes: list[int], states: list[Any], params: list[Any], biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool, ticket: Any,
) -> list[Any]:  # fmt: skip
    """Run all layers. Return the outputs of the last one (rows, width) and the final states (layers, batch, size)."""
    xp, directions = kit.xp, 2 if bidirectional else 1
    each = len(params) // (num_layers * directions)
    last: list[list[Any]] = [[] for _ in states]
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            i = layer * directions + direction
            own, cell = params[i * each : (i + 1) * each], states[1][i] if len(states) > 1 else None
            out, *after = _run(kit, step, x, sizes, states[0][i], cell, own, biases, direction == 1)
            outputs.append(out)
            for kept, state in zip(last, after):
                kept.append(state)
        x = outputs[0] if directions == 1 else xp.concatenate(outputs, axis=-1)
        if train and dropout > 0 and layer < num_layers - 1:
            x = _dropped(kit, x, dropout, ticket, layer)
    return [x, *(xp.stack(kept) for kept in last)]


def _dropped(kit: Any, x: Any, p: float, ticket: Any, layer: int) -> Any:
    """Apply dropout between layers. Each layer has its own random numbers."""
    real = np.float64 if x.dtype in (np.float64, np.complex128) else np.float32
    scale = real(0 if p == 1 else 1 / (1 - p))
    return x * ((kit.random(ticket).uniform(x.size, layer * x.size, "float32") >= p) * scale).reshape(x.shape)


def _sequence(step: Cell) -> Callable[..., Any]:
    def run(
        kit: Any, out: Any, input: Any, hx: Any, params: Any, biases: bool, num_layers: int, dropout: float, train: bool,
        bidirectional: bool, batch_first: bool, ticket: Any,
    ) -> Any:  # fmt: skip
        if batch_first:
            input = input.swapaxes(0, 1)
        time, batch, features = input.shape
        states = hx if isinstance(hx, list) else [hx]
        rows = kit.xp.ascontiguousarray(input).reshape(time * batch, features)
        values, *last = _layers(
            kit, step, rows, [batch] * time, states, params, biases, num_layers, dropout, train, bidirectional, ticket
        )
        values = values.reshape(time, batch, values.shape[-1])
        return [values.swapaxes(0, 1) if batch_first else values, *last]

    return run


def _packed(step: Cell) -> Callable[..., Any]:
    def run(kit: Any, out: Any, data: Any, batch_sizes: Any, hx: Any, *rest: Any) -> Any:
        sizes = [int(n) for n in batch_sizes.tolist()]
        states = hx if isinstance(hx, list) else [hx]
        if sum(sizes) != data.shape[0] or sizes[0] != states[0].shape[1] or sorted(sizes, reverse=True) != sizes:
            raise RuntimeError(
                f"batch_sizes {sizes} do not describe packed data of {data.shape[0]} rows for states of a batch of "
                f"{states[0].shape[1]}"
            )
        return _layers(kit, step, data, sizes, states, *rest)

    return run


def _single(step: Cell) -> Callable[..., Any]:
    def run(kit: Any, out: Any, input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
        h, cell = hx if isinstance(hx, list) else (hx, None)
        h, cell = step(kit, _product(input, w_ih, b_ih), h, cell, w_hh, b_hh)
        return h if cell is None else (h, cell)

    return run


for _name, _step in (("lstm", _lstm_step), ("gru", _gru_step), ("rnn_tanh", _tanh_step), ("rnn_relu", _relu_step)):
    kernel(_name)(_sequence(_step))
    kernel(f"{_name}.data")(_packed(_step))
    kernel(f"{_name}_cell")(_single(_step))

"""Recurrent cells: single steps of RNN, LSTM and GRU."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.nn import init
from metatensor.nn.module import Module
from metatensor.nn.parameter import Parameter

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """Base of recurrent cells.

    The parameters are ``weight_ih`` (num_chunks * hidden_size, input_size), ``weight_hh`` (num_chunks * hidden_size,
    hidden_size), and, if ``bias``, ``bias_ih`` and ``bias_hh`` (num_chunks * hidden_size,). They are initialized
    uniformly within ±1 / sqrt(hidden_size).

    Parameters
    ----------
    input_size, hidden_size : int
        Features of input and hidden state.
    bias : bool
        Have biases.
    num_chunks : int
        Number of gates: 1 for RNN, 3 for GRU, 4 for LSTM.
    device, dtype : optional
        Device and dtype of the parameters.
    """

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        high = num_chunks * hidden_size
        self.weight_ih = Parameter(mt.empty((high, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(mt.empty((high, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(mt.empty(high, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init._uniform_within_(self.parameters(), self.hidden_size)

    def _check_dims(self, tensor: mt.Tensor, what: str) -> None:
        if tensor.dim() not in (1, 2):
            raise ValueError(f"{self._get_name()}: expected {what} of 1 or 2 dimensions, got shape {list(tensor.shape)}")

    def _zeros(self, input: mt.Tensor) -> mt.Tensor:
        return mt.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)

    def _step(self, compute: Any, input: mt.Tensor, hx: Any) -> Any:
        return compute(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)

    def _one_state(self, compute: Any, input: mt.Tensor, hx: mt.Tensor | None) -> mt.Tensor:
        """Run a cell with a single state, with or without a batch dimension."""
        self._check_dims(input, "an input")
        if hx is not None:
            self._check_dims(hx, "a state")
        if input.dim() == 2:
            return self._step(compute, input, self._zeros(input) if hx is None else hx)
        input = input.unsqueeze(0)
        return self._step(compute, input, self._zeros(input) if hx is None else hx.unsqueeze(0)).squeeze(0)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text


class RNNCell(RNNCellBase):
    """One step of an `RNN`: ``h' = tanh(weight_ih @ x + bias_ih + weight_hh @ h + bias_hh)``.

    An input (N, input_size) and a state (N, hidden_size) give the next state (N, hidden_size). N is optional. A
    missing state means zeros.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of input and state.
    bias : bool
        Have biases. Default True.
    nonlinearity : str
        "tanh" (the default) or "relu".
    device, dtype : optional
        Device and dtype of the parameters.

    Raises
    ------
    RuntimeError
        On a call if ``nonlinearity`` has another value.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.RNNCell(8, 16)(mt.empty(2, 8)).shape
    metatensor.Size([2, 16])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: mt.Tensor, hx: mt.Tensor | None = None) -> mt.Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"RNNCell: nonlinearity must be 'tanh' or 'relu', not {self.nonlinearity!r}")
        return self._one_state(mt.rnn_tanh_cell if self.nonlinearity == "tanh" else mt.rnn_relu_cell, input, hx)


class LSTMCell(RNNCellBase):
    """One step of an `LSTM`.

    An input (N, input_size) and a pair (hidden, cell) of shapes (N, hidden_size) give the next pair. N is optional.
    A missing pair means zeros.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of input and states.
    bias : bool
        Have biases. Default True.
    device, dtype : optional
        Device and dtype of the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> hidden, cell = mt.nn.LSTMCell(8, 16)(mt.empty(2, 8))
    >>> hidden.shape, cell.shape
    (metatensor.Size([2, 16]), metatensor.Size([2, 16]))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: mt.Tensor, hx: tuple[mt.Tensor, mt.Tensor] | None = None
    ) -> tuple[mt.Tensor, mt.Tensor]:
        self._check_dims(input, "an input")
        for state in hx or ():
            self._check_dims(state, "states")
        if input.dim() == 2:
            return self._step(mt.lstm_cell, input, (self._zeros(input),) * 2 if hx is None else hx)
        input = input.unsqueeze(0)
        states = (self._zeros(input),) * 2 if hx is None else (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        h, cell = self._step(mt.lstm_cell, input, states)
        return h.squeeze(0), cell.squeeze(0)


class GRUCell(RNNCellBase):
    """One step of a `GRU`.

    An input (N, input_size) and a state (N, hidden_size) give the next state (N, hidden_size). N is optional. A
    missing state means zeros.

    Parameters
    ----------
    input_size, hidden_size : int
        Features of input and state.
    bias : bool
        Have biases. Default True.
    device, dtype : optional
        Device and dtype of the parameters.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.GRUCell(8, 16)(mt.empty(2, 8)).shape
    metatensor.Size([2, 16])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: mt.Tensor, hx: mt.Tensor | None = None) -> mt.Tensor:
        return self._one_state(mt.gru_cell, input, hx)

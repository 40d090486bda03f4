"""Functions for nested tensors. They raise NotImplementedError, because metatensor has only strided tensors."""

from metatensor._core.absent import functions

__all__ = ["as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor"]

_made = functions(
    "nested", " ".join(__all__),
    "metatensor has strided tensors only; pad the sequences to one length, for example with nn.utils.rnn.pad_sequence",
)
as_nested_tensor, nested_tensor, nested_tensor_from_jagged = (
    _made["as_nested_tensor"], _made["nested_tensor"], _made["nested_tensor_from_jagged"]
)  # fmt: skip
masked_select, narrow, to_padded_tensor = _made["masked_select"], _made["narrow"], _made["to_padded_tensor"]

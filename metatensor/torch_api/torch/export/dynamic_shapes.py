"""What describes shapes of captured programs."""

from metatensor.torch_api.torch.export import AdditionalInputs, Dim, ShapesCollection, dims

__all__ = ["AdditionalInputs", "Dim", "ShapesCollection", "dims"]

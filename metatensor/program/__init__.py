"""Models as graphs of operators. `fx` has the interface of `torch.fx`."""

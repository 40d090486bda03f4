"""Programs: models as lists of operators. `fx` is the view of them that `torch.fx` has."""

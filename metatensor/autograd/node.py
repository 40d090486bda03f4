"""A placeholder for the nodes of the autograd graph, until there is a backward pass."""


class Node:
    """The `grad_fn` of a tensor that is not a leaf. The node has a name but no edges."""

    __slots__ = ("_name",)

    def __init__(self, name="Backward"):
        self._name = name

    @classmethod
    def of(cls, tensor):
        """Return a node for `tensor`. Its name says whether the tensor is a view."""
        return cls("ViewBackward" if tensor._is_view() else "OpBackward")

    def name(self):
        """Return the name of the node."""
        return self._name

    def __repr__(self):
        return f"<{self._name}>"

"""What stands for the op that made a tensor while there is no backward pass."""


class Node:
    """The `grad_fn` of a tensor that is not a leaf: it says so, and holds no graph."""

    __slots__ = ("_name",)

    def __init__(self, name="Backward"):
        self._name = name

    @classmethod
    def of(cls, tensor):
        """The node of `tensor`; it knows no more than that a gradient would flow."""
        return cls("ViewBackward" if tensor._is_view() else "OpBackward")

    def name(self):
        """The name of the node."""
        return self._name

    def __repr__(self):
        return f"<{self._name}>"

"""Models with repeated blocks that are more than what is before them, the blocks in a row, and what is behind them."""

import metatensor as mt
from metatensor import nn


class Block(nn.Module):
    def __init__(self, factor=1):
        super().__init__()
        self.linear, self.factor = nn.Linear(16, 16), factor

    def forward(self, x):
        return x + self.linear(x).relu() * self.factor


class Blocks(nn.Module):
    """The blocks in a row. Subclasses use them otherwise."""

    def __init__(self, blocks=None):
        super().__init__()
        self.before, self.behind = nn.Linear(16, 16), nn.Linear(16, 10)
        self.blocks = nn.ModuleList(blocks or (Block() for _ in range(3)))

    def middle(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, x):
        return self.behind(self.middle(self.before(x)))


class Reversed(Blocks):
    def middle(self, x):
        for block in reversed(self.blocks):
            x = block(x)
        return x


class Twice(Blocks):
    def middle(self, x):
        return super().middle(super().middle(x))


class Sum(Blocks):
    """What each block returns is used."""

    def middle(self, x):
        found = [x]
        for block in self.blocks:
            found.append(block(found[-1]))
        return sum(found)


class Residual(Blocks):
    """What is before the blocks is used behind them."""

    def middle(self, x):
        return x + super().middle(x)


class RandomResidual(Blocks):
    def middle(self, x):
        x = nn.functional.dropout(x, 0.5)
        return x + super().middle(x)


class Between(Blocks):
    def middle(self, x):
        for block in self.blocks:
            x = block(x)
            x.mul_(0.5)
        return x


class InPlaceBehind(Blocks):
    def middle(self, x):
        return super().middle(x).add_(1)


class InPlaceBlock(Block):
    def forward(self, x):
        return super().forward(x.mul_(2))


class InPlace(Blocks):
    def __init__(self):
        super().__init__(InPlaceBlock() for _ in range(3))


class SideBlock(Block):
    def forward(self, x):
        y = super().forward(x)
        return y, y.mean()


class Side(Blocks):
    """The blocks return something else, too."""

    def __init__(self):
        super().__init__(SideBlock() for _ in range(3))

    def middle(self, x):
        total = 0.0
        for block in self.blocks:
            x, side = block(x)
            total = total if side is None else total + side
        return x + total


class PairBlock(Block):
    def forward(self, x, y):
        return super().forward(x) * y


class Pair(Blocks):
    """The blocks get something that depends on what the blocks before them return."""

    def __init__(self):
        super().__init__(PairBlock() for _ in range(3))

    def middle(self, x):
        for block in self.blocks:
            x = block(x, x.detach().tanh())
        return x


class Constants(Blocks):
    """Numbers that are neither parameters nor buffers, and not on meta."""

    def __init__(self):
        super().__init__(Block(mt.tensor(factor, device="cpu")) for factor in (0.5, 1.0, 2.0))


class Tied(Blocks):
    """Two blocks share a parameter."""

    def __init__(self):
        super().__init__()
        self.blocks[2].linear.weight = self.blocks[0].linear.weight


class NormBefore(Blocks):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(16)

    def middle(self, x):
        return super().middle(self.norm(x))


class NormBehind(NormBefore):
    def middle(self, x):
        return self.norm(Blocks.middle(self, x))


class Counted(Blocks):
    """A buffer that is changed before the blocks is used behind them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", mt.zeros(()))

    def middle(self, x):
        self.steps.add_(1)
        return super().middle(x) * self.steps


WHOLE = {
    Reversed: "they are called in another order than that of their list",
    Twice: r"blocks.0 is called 2 times",
    Sum: "something else uses what the blocks return",
    RandomResidual: "random numbers",
    Between: "something is computed between the blocks",
    InPlace: "changes its argument in place",
    Side: "return several tensors",
    Pair: "depends on it",
    Counted: "a buffer that is changed before the blocks is used behind them",
}
"""Models that are placed as a whole, and why."""
PARTS = (Blocks, Residual, InPlaceBehind, Constants, Tied, NormBefore, NormBehind)

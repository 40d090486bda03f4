"""ResNet-50, from "Deep Residual Learning for Image Recognition" (He et al., 2015).

    metatensor estimate examples/resnet50.py:resnet50 --input "float32[1,3,224,224]"

This is the common variant "v1.5", in which the 3x3 convolution of a block has the stride. Parameters have the names
that they have in published weights.
"""

from __future__ import annotations

import metatensor as mt
from metatensor import nn

EXPANSION = 4
"""The ratio between the output width of a block and the width of its 3x3 convolution."""


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions with batch norm, added to the input or to a projection of the input."""

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        width_out = width * EXPANSION
        self.conv1 = nn.Conv2d(width_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width_out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or width_in != width_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(width_in, width_out, 1, stride=stride, bias=False), nn.BatchNorm2d(width_out)
            )

    def forward(self, x: mt.Tensor) -> mt.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        if self.downsample is not None:
            x = self.downsample(x)
        y += x
        return self.relu(y)


class ResNet(nn.Module):
    """Images (batch, 3, height, width), float, to scores (batch, classes). Has four stages of ``depths`` blocks."""

    def __init__(self, depths: tuple[int, int, int, int] = (3, 4, 6, 3), classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = stage(64, 64, depths[0], stride=1)
        self.layer2 = stage(256, 128, depths[1], stride=2)
        self.layer3 = stage(512, 256, depths[2], stride=2)
        self.layer4 = stage(1024, 512, depths[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * EXPANSION, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: mt.Tensor) -> mt.Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(mt.flatten(self.avgpool(x), 1))


def stage(width_in: int, width: int, depth: int, stride: int) -> nn.Sequential:
    """Return ``depth`` blocks, the first of which has the stride and changes the width."""
    first = Bottleneck(width_in, width, stride)
    return nn.Sequential(first, *(Bottleneck(width * EXPANSION, width, 1) for _ in range(depth - 1)))


def resnet50(classes: int = 1000) -> ResNet:
    """Return ResNet-50: 25,557,032 parameters, 4.09 G multiply-adds at 224 x 224."""
    return ResNet((3, 4, 6, 3), classes)


def resnet101(classes: int = 1000) -> ResNet:
    """Return ResNet-101: 44,549,160 parameters."""
    return ResNet((3, 4, 23, 3), classes)


def resnet152(classes: int = 1000) -> ResNet:
    """Return ResNet-152: 60,192,808 parameters."""
    return ResNet((3, 8, 36, 3), classes)


if __name__ == "__main__":
    with mt.device("meta"):
        print(mt.analysis.estimate(resnet50(), mt.empty(1, 3, 224, 224)))

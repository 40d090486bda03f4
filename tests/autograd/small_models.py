"""Four models, written for either library: a small GPT-2, ResNet-18, an LSTM, and the architecture of MiniLM.

Every builder takes the library, ``metatensor`` or ``torch``, and returns a module.
"""


def gpt2(t, vocabulary=97, width=64, heads=4, layers=3, length=32):
    nn, F = t.nn, t.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            n, steps, _ = x.shape
            q, k, v = (h.view(n, steps, heads, -1).transpose(1, 2) for h in self.attn(self.ln_1(x)).split(width, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(n, steps, width))
            return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))

    class GPT2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.h = nn.ModuleList([Block() for _ in range(layers)])
            self.ln_f = nn.LayerNorm(width)

        def forward(self, tokens):
            x = self.wte(tokens) + self.wpe(t.arange(tokens.shape[1], device=tokens.device))
            for block in self.h:
                x = block(x)
            return F.linear(self.ln_f(x), self.wte.weight)  # tied weights

        def loss(self, tokens, _):
            return F.cross_entropy(self(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    return GPT2()


def resnet18(t, classes=10):
    nn, F = t.nn, t.nn.functional

    class Block(nn.Module):
        def __init__(self, before, width, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            same = stride == 1 and before == width
            self.shortcut = nn.Identity() if same else nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

        def forward(self, x):
            y = F.relu(self.bn1(self.conv1(x)), inplace=True)
            return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            stem = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
            self.stem = nn.Sequential(stem, nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
            blocks, before = [], 64
            for width, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 1), (512, 1)):
                blocks.append(Block(before, width, stride))
                before = width
            self.blocks = nn.Sequential(*blocks)
            self.fc = nn.Linear(512, classes)

        def forward(self, x):
            return self.fc(F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1))

        def loss(self, images, labels):
            return F.cross_entropy(self(images), labels)

    return ResNet()


def lstm(t, vocabulary=50, width=32):
    nn, F = t.nn, t.nn.functional

    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            self.lstm = nn.LSTM(width, 2 * width, num_layers=2, batch_first=True)
            self.out = nn.Linear(2 * width, vocabulary)

        def loss(self, tokens, _):
            states, _ = self.lstm(self.embedding(tokens[:, :-1]))
            return F.cross_entropy(self.out(states).flatten(0, 1), tokens[:, 1:].flatten())

    return Language()


def minilm(t, vocabulary=1000, width=384, heads=12, layers=6):
    """The architecture of all-MiniLM-L6-v2 with a smaller vocabulary: BERT, the mean of its states, and their angles."""
    nn, F = t.nn, t.nn.functional

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value, self.dense = (nn.Linear(width, width) for _ in range(4))
            self.after_attention, self.after = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x, mask):
            n, steps, _ = x.shape
            q, k, v = (f(x).view(n, steps, heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(n, steps, width)
            x = self.after_attention(self.dense(y) + x)
            return self.after(self.down(F.gelu(self.up(x))) + x)

    class MiniLM(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(vocabulary, width, padding_idx=0)
            self.places, self.kinds = nn.Embedding(64, width), nn.Embedding(2, width)
            self.norm = nn.LayerNorm(width, eps=1e-12)
            self.layers = nn.ModuleList([Layer() for _ in range(layers)])

        def forward(self, tokens):
            there = tokens != 0
            x = self.words(tokens) + self.places(t.arange(tokens.shape[1], device=tokens.device)) + self.kinds.weight[0]
            x = self.norm(x)
            for layer in self.layers:
                x = layer(x, there[:, None, None, :])
            weight = there.unsqueeze(-1).to(x.dtype)
            return F.normalize((x * weight).sum(1) / weight.sum(1).clamp(min=1e-9), dim=1)

        def loss(self, tokens, labels):
            x = self(tokens)
            return F.mse_loss((x[::2] * x[1::2]).sum(1), labels)

    return MiniLM()

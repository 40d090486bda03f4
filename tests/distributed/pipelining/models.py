"""A tiny GPT, its training as a pipeline, and as one process. It runs in a world that is connected already."""

import metatensor as mt
from metatensor import distributed as dist
from metatensor import nn
from metatensor.distributed import pipelining
from metatensor.distributed.pipelining import schedules
from metatensor.nn import functional as F

VOCABULARY, WIDTH, LENGTH, ROWS = 11, 8, 5, 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mixing = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.hidden, self.out = nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH)

    def forward(self, x):
        q, k, v = self.mixing(self.norm(x)).chunk(3, -1)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(F.gelu(self.hidden(x)))


class GPT(nn.Module):
    def __init__(self, layers=8, tied=True):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def batches(steps, device="cpu", rows=ROWS):
    generator = mt.Generator().manual_seed(5)
    whole = mt.randint(VOCABULARY, (steps, rows, LENGTH + 1), generator=generator) if device != "meta" else None
    return mt.empty(steps, rows, LENGTH + 1, dtype=mt.int64, device="meta") if whole is None else whole


def make(device="cpu", **options):
    mt.manual_seed(0)
    with mt.device(device):
        return GPT(**options)


def plain(steps=1, lr=0.1, **options):
    """Train in one process. Return the losses, and the gradients of the first step by name."""
    model = make(**options)
    optimizer = mt.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses, grads = [], None
    for batch in batches(steps):
        optimizer.zero_grad()
        loss = loss_of(model(batch[:, :-1]), batch[:, 1:])
        loss.backward()
        if grads is None:
            grads = {name: one.grad.clone() for name, one in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    return losses, grads


def stage_numbers(cls, group, microbatches, each):
    table = cls.table(group.size(), microbatches, each)
    return sorted({part.stage_index for action in table[dist.get_rank(group)] for part in action.parts})


def trained(name, each=None, steps=1, microbatches=8, device="cpu", lr=0.1, group=None, wrap=None, rows=slice(None), **options):
    """Train as a pipeline. Return the losses, and the gradients of the first step by name, of the stages of this rank."""
    group = dist.group.WORLD if group is None else group
    cls = pipelining.get_schedule_class(name)
    numbers = stage_numbers(cls, group, microbatches, each)
    model = make(device, **options)
    data = batches(steps, device)[:, rows]
    example = mt.empty(data.shape[1] // microbatches, LENGTH, dtype=mt.int64, device="meta")
    pipe = pipelining.pipeline(model, (example,), split_policy=pipelining.balanced_stages(group.size() * len(numbers)))
    stages = [pipe.build_stage(number, device, group) for number in numbers]
    for stage in stages:
        if wrap is not None:
            stage.submod = wrap(stage.submod)
    schedule = cls(stages if issubclass(cls, schedules.PipelineScheduleMulti) else stages[0], microbatches, loss_of)
    named = {name: one for stage in stages for name, one in stage._module.named_parameters()}
    optimizer = mt.optim.SGD([one for stage in stages for one in stage._module.parameters()], lr=lr, momentum=0.9)
    losses, grads, last = [], None, pipe.num_stages - 1
    for batch in data:
        optimizer.zero_grad()
        found = []
        first = (batch[:, :-1],) if 0 in numbers else ()
        schedule.step(*first, target=batch[:, 1:] if last in numbers else None, losses=found)
        if grads is None:
            grads = {name: one.grad.clone() for name, one in named.items()}
        optimizer.step()
        if found and device != "meta":
            losses.append(mt.stack(found).mean().item())
    return losses, grads


def connected(function):
    """Return a function that connects its rank and then calls another one."""

    def run(*args, **options):
        dist.init_process_group()
        return function(*args, **options)

    return run

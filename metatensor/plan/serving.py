"""`serve`: what an inference server can do with a model on a device: context, concurrent users, times, tokens per second."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from metatensor.analysis.inventory import Inventory
from metatensor.analysis.timing import predict
from metatensor.devices.profiles import DeviceProfile
from metatensor.devices.topologies import Topology
from metatensor.devices.topologies import topology as topology_of
from metatensor.plan.decoding import Arguments, Decoder
from metatensor.plan.devices import places_of
from metatensor.plan.dividing import DividedDecoder
from metatensor.plan.rates import Rates, rates_of
from metatensor.plan.states import StateGroup, States
from metatensor.plan.weights import StoredWeights
from metatensor.plan.worlds import simulated
from metatensor.rules.policies import policy, policy_for

__all__ = ["DecodeRow", "ServingPlan", "serve"]


@dataclass(frozen=True)
class DecodeRow:
    """A decode step with a number of sequences, all at the context."""

    batch: int
    bytes: int
    """Memory: weights, state, and what the step creates."""
    fits: bool
    seconds: float | None
    """Time of a step, which gives each sequence a token."""

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens of all sequences."""
        return self.batch / self.seconds if self.seconds else None


@dataclass
class ServingPlan:
    """What a server can do with a model, in bytes of a device and seconds. Unknown figures are None. ``str()`` gives a table."""

    model: str
    device: str
    memory: int
    """Bytes that the server may use."""
    weight_bytes: int
    buffer_bytes: int
    context: int
    """Tokens of a sequence that the figures are for."""
    state_per_sequence: int
    """Bytes that the model keeps for a sequence at the context."""
    state_per_token: int
    """Bytes by which the state of a sequence grows with the first token after the context."""
    shared_state: int
    """Bytes that are kept once for all sequences."""
    state: list[StateGroup]
    working_bytes: int
    """Peak bytes of temporary tensors while the last part of a prompt is processed."""
    users: int
    """Greatest number of sequences at the context that fit."""
    longest_context: int | None
    """Greatest context of a single sequence. None if it has no limit: the state does not grow."""
    chunk: int
    """Tokens of a prompt that are processed together."""
    prefill_seconds: float | None
    """Time to process a prompt as long as the context."""
    decode: list[DecodeRow] = field(default_factory=list)
    cache_dtype: str | None = None
    block: int = 1
    replicas: int = 1
    """Copies of the model."""
    tensor: int = 1
    """Devices that each copy is divided among."""
    rates: Rates = Rates()
    """Power and price of a device."""
    limit_reason: str | None = None
    """What is missing, if not a single sequence fits."""
    remarks: list[str] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Whether at least one sequence at the context fits."""
        return self.users > 0

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as JSON types."""
        rows = []
        for row in self.decode:
            known = self.rates.figures(row.seconds, self.tensor, {"token": row.batch})
            rows.append({**vars(row), "tokens_per_second": row.tokens_per_second, **known})
        prompt = self.rates.figures(self.prefill_seconds, self.tensor, {"prompt_token": self.context})
        return {**vars(self), "rates": vars(self.rates), **prompt,
                "state": [{**vars(g), "shape": list(g.shape)} for g in self.state], "decode": rows, "fits": self.fits}  # fmt: skip

    def __str__(self) -> str:
        from metatensor.plan.tables import serving_text

        return serving_text(self)


def serve(
    model: Any, *, devices: Any, context: int, arguments: Arguments | None = None, feed: Callable[[Any], dict[str, Any]] | None = None,
    weights: Any = None, cache_dtype: Any = None, block: int = 1, chunk: int = 8192, batches: Sequence[int] | None = None,
    utilization: float = 0.9, max_memory: int | None = None, price: float | None = None, tensor: int = 1,
) -> ServingPlan:  # fmt: skip
    """Return what an inference server can do with a model.

    The state (keys and values, latent vectors, windows, recurrent states) is what the model's own code keeps between two
    steps on meta. Nothing is assumed about the architecture.

    Parameters
    ----------
    model : nn.Module or callable
        The model, on meta.
    devices : str, DeviceProfile or list
        One kind of device: ``"H100"``; ``"8xH100"`` are replicas, each with the whole model.
    context : int
        Tokens of a sequence, prompt and answer.
    arguments : callable, optional
        Function of a batch and a number of tokens that returns a tuple and a dict of arguments. Default: token ids.
    feed : callable, optional
        Function of the model's output that returns keyword arguments of the next call. Default: the fields of the output that
        have the name of a parameter of forward.
    weights : str or path, optional
        A checkpoint, whose header gives the bytes of the weights, such as those of 4-bit groups with their scales.
    cache_dtype : dtype, optional
        The dtype of the floating-point tensors of the state that grow with the context. Default: as the model makes them.
    block : int
        Tokens of a block of a paged cache: sequences take whole blocks. Default 1.
    chunk : int
        Greatest number of tokens of a prompt that are processed together. Default 8192.
    batches : sequence of int, optional
        Batches of the table of decode steps. Default: powers of two up to the number of users that fit, and this number.
    utilization : float
        Part of the device's memory that the server uses. Default 0.9.
    max_memory : int, optional
        Bytes that the server may use, instead of that part.
    price : float, optional
        Price of a device for an hour, in any currency. Default: that of the profile, if it has one.
    tensor : int
        Devices of a node that serve one copy of the model together: ``"8xH100"`` with 4 are two replicas. Matrices, stacked experts and the
        state are divided among them as the model's own code allows; all figures of memory are then those of one device. Default 1.

    Returns
    -------
    ServingPlan
        The figures.

    Raises
    ------
    ValueError
        If an option is invalid, or the devices differ.
    RuntimeError
        If the model keeps nothing between two steps, so that its output cannot depend on earlier tokens.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor import nn
    >>> class Tiny(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.embed, self.head = nn.Embedding(1000, 64), nn.Linear(64, 1000)
    ...     def forward(self, tokens, past=None):
    ...         x = self.embed(tokens)
    ...         past = x if past is None else mt.cat([past, x], 1)
    ...         return {"logits": self.head(nn.functional.scaled_dot_product_attention(x, past, past)), "past": past}
    >>> with mt.device("meta"):
    ...     plan = mt.plan.serve(Tiny(), devices="t4", context=2048)
    >>> plan.state_per_token, plan.state_per_sequence, str(plan.state[0])
    (256, 524288, '1 x float32[batch, length, 64]')
    """
    _check(context, block, chunk, utilization)
    places = places_of(devices)
    profiles = {place.profile for place in places}
    if len(profiles) != 1 or None in profiles or len({place.memory for place in places}) != 1:
        raise ValueError("serve: the devices differ; one kind of device is needed. `device_map` places a model on unequal ones")
    place = places[0]
    assert place.profile is not None and place.memory is not None
    memory = max_memory if max_memory is not None else int(place.memory * utilization)
    topology = _node(tensor, len(places), place.profile)
    with ExitStack() as stack:
        stack.enter_context(policy(policy_for(None, place.profile)))
        decoder, divided = Decoder(model, arguments, feed), None
        if topology is not None:
            stack.enter_context(simulated(tensor))
            decoder = divided = DividedDecoder(model, arguments, feed, tensor, topology)
        states = States(decoder, cache_dtype, block)
        stored = StoredWeights(model, weights)
        if divided is not None:
            stored = divided.divided(stored, model)
        row = Inventory(model).rows[0]
        chunk = min(chunk, context)
        fixed = stored.nbytes + row.buffer_bytes + states.shared
        working = _working(decoder, states, context, chunk)
        per_user = states.per_sequence(context)
        users = _users(decoder, states, context, memory - fixed, working, per_user)
        plan = ServingPlan(
            model=row.kind, device=place.profile.name, memory=memory, weight_bytes=stored.nbytes, buffer_bytes=row.buffer_bytes,
            context=context, state_per_sequence=per_user, state_per_token=states.growth(context), shared_state=states.shared,
            state=states.groups(context), working_bytes=working, users=users,
            longest_context=_longest(states, memory - fixed, working), chunk=chunk,
            prefill_seconds=_prefill(decoder, states, stored, place.profile, context, chunk),
            cache_dtype=None if cache_dtype is None else str(cache_dtype).rpartition(".")[2], block=block,
            replicas=len(places) // tensor, tensor=tensor,
            rates=rates_of(place.profile, price),
            remarks=[*(divided.remarks() if divided is not None else []), *states.remarks(), *stored.remarks],
        )  # fmt: skip
        if not users:
            plan.limit_reason = _missing(fixed, working, per_user, memory)
        for batch in batches if batches is not None else _powers(plan.users):
            seconds, peak = _decode(decoder, states, stored, place.profile, context, batch)
            nbytes = fixed + batch * per_user + peak
            plan.decode.append(DecodeRow(batch, nbytes, nbytes <= memory, seconds))
    return plan


def _node(tensor: int, devices: int, profile: DeviceProfile) -> Topology | None:
    """Return the devices that share one copy of the model, None for one device."""
    if tensor < 1:
        raise ValueError(f"serve: tensor must be at least 1, got {tensor}")
    if devices % tensor:
        near = [n for n in range(1, devices + 1) if devices % n == 0]
        raise ValueError(f"serve: {devices} device{'s' if devices > 1 else ''} cannot be divided into groups of {tensor}; "
                         f"possible sizes are {', '.join(map(str, near))}, "
                         f"or write {-(-devices // tensor) * tensor}x{profile.name}")  # fmt: skip
    if tensor == 1:
        return None
    found = replace(topology_of(f"{tensor}x{profile.name}"), device=profile)
    if found.nodes > 1:
        raise ValueError(f"serve: tensor is {tensor}, but a node has {found.devices_per_node} devices; a copy of the model is divided "
                         "within a node")  # fmt: skip
    found.route(range(tensor))
    return found


def _check(context: int, block: int, chunk: int, utilization: float) -> None:
    for name, value in (("context", context), ("block", block), ("chunk", chunk)):
        if value < 1:
            raise ValueError(f"serve: {name} must be at least 1, got {value}")
    if not 0 < utilization <= 1:
        raise ValueError(f"serve: utilization must be greater than 0 and at most 1, got {utilization}")


def _working(decoder: Decoder, states: States, context: int, chunk: int) -> int:
    """Return the peak of what the last part of a prompt creates. It grows with the tokens of the part, and with those before it."""
    n = states.affordable(context)
    if n == context:
        return decoder.working_peak(1, context - chunk, chunk)
    if chunk == context:  # nothing is before the part, so no run may have something before it
        half, whole = (decoder.working_peak(1, 0, length) for length in (n // 2, n))
        return whole + max(0, whole - half) * (context - n) // (n - n // 2)
    tokens = min(chunk, n // 2)
    half, whole = (decoder.working_peak(1, length - tokens, tokens) for length in (n // 2, n))
    return (whole + max(0, whole - half) * (context - n) // (n - n // 2)) * chunk // tokens


def _users(decoder: Decoder, states: States, context: int, room: int, working: int, per_user: int) -> int:
    """Return the greatest number of sequences that fit, with the temporary tensors of a step of all of them, and of a prompt."""
    n = states.affordable(context)
    users = max(0, room - working) // max(per_user, 1)
    while users:
        over = users * per_user + max(working, decoder.working_peak(users, n - 1, 1)) - room
        if over <= 0:
            break
        alone = decoder.working_peak(1, n - 1, 1)
        users -= min(users, max(1, over // (per_user + alone)))
    return users


def _longest(states: States, room: int, working: int) -> int | None:
    """Return the greatest length of a single sequence that fits into ``room``, None if its state does not grow."""
    room -= working

    def fits(length: int) -> bool:
        return states.per_sequence(length) <= room

    if not fits(1):
        return 0
    high = 1
    while fits(high):
        if high >= 1 << 24 or high > 1 << 12 and not states.growth(high):
            return None
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low // states.block * states.block


def _missing(fixed: int, working: int, per_user: int, memory: int) -> str:
    from metatensor._core.units import bytes_text

    short = fixed + working + per_user - memory
    if fixed > memory:
        return (f"the weights take {bytes_text(fixed)}, {bytes_text(fixed - memory)} more than there is memory; a device with more, a "
                f"smaller dtype, or `device_map` over several places would fit")  # fmt: skip
    return (f"one sequence at this context needs {bytes_text(short)} more; a shorter context, a smaller chunk or a smaller cache_dtype "
            f"would fit")  # fmt: skip


def _powers(users: int) -> list[int]:
    found = [1 << k for k in range(int(math.log2(users)) + 1)] if users else [1]
    return found if found[-1] == max(users, 1) else [*found, users]


def _seconds(calls: list[Any], stored: StoredWeights, profile: DeviceProfile) -> float | None:
    return predict(stored.charged(calls), profile).seconds


def _prefill(decoder: Decoder, states: States, stored: StoredWeights, profile: DeviceProfile, context: int, chunk: int) -> float | None:
    """Return the time to process a prompt in chunks."""
    total, before = 0.0, 0
    reached = states.affordable(context)
    while before < context:
        tokens = min(chunk, context - before)
        measured = min(tokens, reached)
        seconds = _seconds(decoder.calls(1, min(before, max(reached - measured, 0)), measured, states.dtype), stored, profile)
        if seconds is None:
            return None
        seconds += decoder.waiting(1, min(before, max(reached - measured, 0)), measured)
        total += seconds * tokens / measured
        before += tokens
    return total


def _decode(
    decoder: Decoder, states: States, stored: StoredWeights, profile: DeviceProfile, context: int, batch: int
) -> tuple[float | None, int]:
    """Return the time of a decode step at the context, and the peak of what it creates."""
    n = states.affordable(context)
    calls = decoder.calls(batch, n - 1, 1, states.dtype)
    peak = decoder.working_peak(batch, n - 1, 1)
    seconds = _seconds(calls, stored, profile)
    if n < context and n > 3 and seconds is not None:
        shorter = _seconds(decoder.calls(batch, n // 2 - 1, 1, states.dtype), stored, profile) or 0.0
        seconds += max(0.0, seconds - shorter) * (context - n) / (n - n // 2)
    return None if seconds is None else seconds + decoder.waiting(batch, n - 1, 1), peak

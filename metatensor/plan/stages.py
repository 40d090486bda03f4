"""How blocks are divided among the stages of a pipeline."""

from __future__ import annotations

__all__ = ["split"]


def split(times: list[float], before: float, behind: float, stages: int) -> list[tuple[int, int]]:
    """Divide blocks into contiguous, non-empty runs. The longest run, with the ends of the model, is as short as possible."""

    def runs(longest: float) -> list[tuple[int, int]] | None:
        """Return runs of at most this time, each but the last as long as possible; None if there are none."""
        found, start = [], 0
        for stage in range(stages):
            left = stages - stage - 1
            if not left:
                end = len(times)
                seconds = sum(times[start:]) + behind
            else:
                end, seconds = start, 0.0
                while end < len(times) - left and (end == start or seconds + times[end] <= longest - (0.0 if stage else before)):
                    seconds += times[end]
                    end += 1
            if seconds + (0.0 if stage else before) > longest or end == start:
                return None
            found.append((start, end))
            start = end
        return found

    low, high = 0.0, sum(times) + before + behind
    best = runs(high * (1 + 1e-9))
    assert best is not None
    for _ in range(40):
        middle = (low + high) / 2
        found = runs(middle)
        if found is None:
            low = middle
        else:
            best, high = found, middle
    return best

"""Connectionist temporal classification: the loss and its gradient, by a scan over the steps of time.

A target of L letters is a row of 2 L + 1 states: blank, letter, blank, ... With alpha[t, s] the log of the probability
of all ways through the first t steps that end in state s,

    alpha[t, s] = log p[t, state s] + log(sum of exp of alpha[t - 1, s], alpha[t - 1, s - 1], and alpha[t - 1, s - 2]
                                          where state s is a letter other than the one before it)

beta is the same from the end. The gradient counts, by alpha and beta, how often each state is passed through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
_NEVER = float("-inf")


def _log_of_sum(*terms: Tensor) -> Tensor:
    """log(sum(exp(terms))), -inf where all terms are."""
    top = terms[0]
    for each in terms[1:]:
        top = torch.maximum(top, each)
    base = torch.where(top == _NEVER, 0.0, top)
    total = torch.exp(terms[0] - base)
    for each in terms[1:]:
        total = total + torch.exp(each - base)
    return torch.where(top == _NEVER, _NEVER, torch.log(total) + base)


def _shifted(row: Tensor, by: int) -> Tensor:
    """row[..., s - by], -inf where there is no such state."""
    if row.shape[-1] <= abs(by):
        return torch.full_like(row, _NEVER)
    fill = row.new_full((*row.shape[:-1], abs(by)), _NEVER)
    return torch.cat([fill, row[..., :-by]] if by > 0 else [row[..., -by:], fill], -1)


def _padded(targets: Tensor, lengths: Tensor, longest: int) -> Tensor:
    """Targets that lie one after the other, as rows."""
    if targets.dim() == 2:
        return targets
    starts = lengths.cumsum(0) - lengths
    place = starts.unsqueeze(1) + torch.arange(longest, device=targets.device)
    if not targets.numel():
        return torch.zeros(place.shape, dtype=targets.dtype, device=targets.device)
    return targets[place.clamp(max=targets.numel() - 1)]


class _States:
    """What alpha and beta have in common. Shapes: B batches, T steps, S = 2 L + 1 states."""

    def __init__(
        self, log_probs: Tensor, targets: Tensor, steps: Tensor, letters: Tensor, longest: int, blank: int
    ) -> None:
        self.steps, self.letters = steps, letters  # [B]
        rows = _padded(targets, letters, longest).to(torch.int64)
        batch, count = rows.shape[0], 2 * rows.shape[1] + 1
        number = torch.arange(count, device=rows.device)
        self.number = number
        letter_of = torch.nn.functional.pad(rows, (0, 1), value=blank)[:, number // 2]
        state = torch.where(number % 2 == 1, letter_of, blank)  # [B, S]
        self.state = torch.where(number < 2 * letters.unsqueeze(1) + 1, state, blank)
        before = torch.nn.functional.pad(self.state, (2, 0), value=blank)[:, :count]
        self.may_skip = (number % 2 == 1) & (number > 1) & (self.state != before)
        time = log_probs.shape[0]
        self.found = log_probs.gather(2, self.state.expand(time, batch, count))  # [T, B, S]
        self.time = torch.arange(time, device=rows.device)
        self.is_first = number < torch.where(letters > 0, 2, 1).unsqueeze(1)
        last = 2 * letters.unsqueeze(1)
        self.is_last = (number == last) | (number == last - 1)

    def alpha(self) -> Tensor:
        """[T, B, S]; -inf behind a row's last step."""

        def step(row: Tensor, here: Tensor, t: Tensor, first: Tensor, skips: Tensor, steps: Tensor) -> Any:
            begun = torch.where(first, here, _NEVER)
            two = torch.where(skips, _shifted(row, 2), _NEVER)
            going = here + _log_of_sum(row, _shifted(row, 1), two)
            made = torch.where(t < steps.unsqueeze(1), torch.where(t == 0, begun, going), _NEVER)
            return made, made.clone()

        return self._scanned(step, self.found, self.time, [self.is_first, self.may_skip, self.steps])

    def beta(self) -> Tensor:
        """[T, B, S], from the end; -inf behind a row's last step."""

        def step(row: Tensor, here: Tensor, t: Tensor, last: Tensor, skips: Tensor, steps: Tensor) -> Any:
            begun = torch.where(last, here, _NEVER)
            two = torch.where(skips, _shifted(row, -2), _NEVER)
            going = here + _log_of_sum(row, _shifted(row, -1), two)
            end = steps.unsqueeze(1) - 1
            made = torch.where(t == end, begun, torch.where(t < end, going, _NEVER))
            return made, made.clone()

        skips = torch.nn.functional.pad(self.may_skip, (0, 2), value=False)[:, 2:]  # from s to s + 2
        given = [self.is_last, skips, self.steps]
        return self._scanned(step, self.found.flip(0), self.time.flip(0), given).flip(0)

    def _scanned(self, step: Callable[..., Any], found: Tensor, time: Tensor, given: Sequence[Tensor]) -> Tensor:
        start = torch.full_like(found[0], _NEVER)
        scan: Any = torch.ops.higher_order.scan
        return scan(step, [start], [found, time], tuple(given))[1]

    def negative_log_likelihood(self, alpha: Tensor) -> Tensor:
        end = (self.steps - 1).clamp(min=0).reshape(1, -1, 1).expand(1, *alpha.shape[1:])
        at_end = alpha.gather(0, end)[0]
        ways = torch.where(self.is_last, at_end, _NEVER)
        loss = -_log_of_sum(*ways.unbind(1)) if ways.shape[1] < 2 else -ways.logsumexp(1)
        # No step at all: nothing is certain to be written.
        empty = torch.where(self.letters == 0, 0.0, float("inf")).to(loss.dtype)
        return torch.where(self.steps == 0, empty, loss)


def _longest(targets: Tensor, lengths: Sequence[int] | None) -> int:
    if targets.dim() == 2:
        return targets.shape[1]
    torch._check(lengths is not None, lambda: "targets in a row need their lengths as numbers")
    return max(lengths or (), default=0)


def _lengths(log_probs: Tensor, given: Any) -> Tensor:
    if isinstance(given, Tensor):
        return given.to(device=log_probs.device, dtype=torch.int64)
    made = [torch.full((1,), each, dtype=torch.int64, device=log_probs.device) for each in given]
    return torch.cat(made) if made else torch.zeros(0, dtype=torch.int64, device=log_probs.device)


def ctc_loss(
    log_probs: Tensor, targets: Tensor, steps: Any, letters: Any, blank: int = 0, zero_infinity: bool = False
) -> tuple[Tensor, Tensor]:
    """(the loss of each batch, alpha as [B, T, S]) of log_probs [T, B, C]."""
    states = _States(
        log_probs, targets, _lengths(log_probs, steps), _lengths(log_probs, letters),
        _longest(targets, None if isinstance(letters, Tensor) else letters), blank,
    )  # fmt: skip
    alpha = states.alpha()
    return states.negative_log_likelihood(alpha), alpha.transpose(0, 1).contiguous()


def ctc_loss_backward(
    grad: Tensor, log_probs: Tensor, targets: Tensor, steps: Any, letters: Any, loss: Tensor, alpha: Tensor, blank: int,
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    steps, rows = _lengths(log_probs, steps), _lengths(log_probs, letters)
    longest = (alpha.shape[2] - 1) // 2
    states = _States(log_probs, targets, steps, rows, longest, blank)
    passed = alpha.transpose(0, 1) + states.beta() - states.found + loss.reshape(1, -1, 1)
    often = torch.where(states.found == _NEVER, 0.0, torch.exp(passed))  # [T, B, S]
    # By class: of each state the row of a matrix that says which one it is.
    classes = torch.arange(log_probs.shape[2], device=log_probs.device)
    which = (states.state.unsqueeze(2) == classes).to(often.dtype)  # [B, S, C]
    by_class = torch.bmm(often.transpose(0, 1), which).transpose(0, 1)
    gradient = (torch.exp(log_probs) - by_class) * grad.reshape(1, -1, 1)
    is_past = states.time.reshape(-1, 1, 1) >= steps.reshape(1, -1, 1)
    nothing = is_past | (loss == float("inf")).reshape(1, -1, 1) if zero_infinity else is_past
    return torch.where(nothing, 0.0, gradient)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten._ctc_loss.default: ctc_loss,
    aten._ctc_loss.Tensor: ctc_loss,
    aten._ctc_loss_backward.default: ctc_loss_backward,
    aten._ctc_loss_backward.Tensor: ctc_loss_backward,
}

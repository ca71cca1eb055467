"""Outputs of a step for the metrics."""

import torch

from andiron.outputs import ClassificationOutput


def test_detached_holds_the_same_values_and_no_graph() -> None:
    logits = torch.tensor([[2.0, -1.0], [0.5, 3.0], [0.0, 0.0]], requires_grad=True) * 1
    item = ClassificationOutput(logits.sum(), logits, torch.tensor([0, 1, 1]))
    detached = item.detached()
    assert (detached.loss.grad_fn, detached.output.grad_fn) == (None, None)
    assert not detached.loss.requires_grad and not detached.output.requires_grad
    assert detached.loss.item() == 4.5
    assert detached.output.tolist() == [[2.0, -1.0], [0.5, 3.0], [0.0, 0.0]]
    assert detached.targets.tolist() == [0, 1, 1]


def test_detached_leaves_the_item_its_graph() -> None:
    weight = torch.tensor([[2.0, -1.0]], requires_grad=True)
    item = ClassificationOutput(weight.square().sum(), weight * 1, torch.tensor([0]))
    item.detached()
    item.loss.backward()
    assert weight.grad is not None and weight.grad.tolist() == [[4.0, -2.0]]

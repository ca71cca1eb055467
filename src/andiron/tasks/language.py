"""Language modelling: the steps around a network that tells, for each token of a sequence, which comes next."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from andiron import outputs, randomness
from andiron.data.dataset import Batch
from andiron.gradients import backward
from andiron.outputs import IGNORED, SequenceOutput
from andiron.protocols import TrainOutput
from andiron.ranges import Count, NonNegative
from andiron.tasks import target_checks as checks
from andiron.tasks.losses import Criterion, CrossEntropy, Loss

BYTES = 256


class LanguageModel(nn.Module):
    """`network`, from tokens [batch time] to the logits of the next, [batch time classes], with the steps of language.

    `vocabulary` is the text of each token; without one a token is a byte. `bytes_per_token` is how many bytes each stands
    for, of a vocabulary's tokens as UTF-8 by default. Neither these nor `loss` have a part in `state_dict()`.
    `samples` is of `sample_length` tokens after `prompt`, if the network has
    `generate(tokens, number, temperature=..., top_k=..., generator=...)`.
    Raises: ValueError for a prompt that the vocabulary cannot write, or settings out of range.
    """

    bytes_per_token: Tensor | None

    def __init__(
        self,
        network: nn.Module,
        loss: Loss | None = None,
        *,
        vocabulary: Sequence[str] | None = None,
        bytes_per_token: Sequence[int] | None = None,
        prompt: Annotated[str, Field(min_length=1)] = "\n",
        sample_length: Count = 200,
        temperature: NonNegative = 1.0,
        top_k: Count | None = None,
    ):
        super().__init__()
        self.network = network
        self.loss = Criterion(CrossEntropy() if loss is None else loss)
        self.vocabulary = vocabulary
        self.prompt = _encoded(prompt, vocabulary)
        self.sample_length = sample_length
        self.settings: dict[str, Any] = {"temperature": temperature, "top_k": top_k}
        _check_sampling(temperature, top_k, BYTES if vocabulary is None else len(vocabulary))
        if bytes_per_token is None and vocabulary is not None:
            bytes_per_token = [len(token.encode()) for token in vocabulary]
        table = None if bytes_per_token is None else torch.tensor([*bytes_per_token])
        self.register_buffer("bytes_per_token", table, persistent=False)

    def forward(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "..."]:
        logits: Tensor = self.network(tokens)
        return logits

    def predict(self, batch: Batch) -> SequenceOutput:
        """The mean loss over the tokens, and the logits of one batch.

        Raises: DataError if the shapes do not fit, or, on a CPU, a target names no token.
        """
        logits, targets = self(batch.inputs), batch.targets
        if logits.dim() != 3 or logits.shape[:2] != targets.shape:
            raise checks.misfit(
                self, logits, targets, "should be [batch, time, classes] for targets [batch, time]"
            )
        loss = self.loss.of_tokens(logits, targets)
        marked = self.loss.marked(targets)
        has_ignored = self.loss.ignored_index is not None
        num_bytes = self._num_bytes(marked, has_ignored, logits.shape[-1])
        nll = None if self.loss.is_nll else _nll(logits, marked)
        return SequenceOutput(
            loss, logits, marked, self.loss.weight(targets), has_ignored, num_bytes, nll
        )

    def train_step(self, batch: Batch) -> TrainOutput:
        """The gradients of one batch, and its output for the metrics."""
        item = self.predict(batch)
        return TrainOutput(
            backward(item.loss, self), item.detached(), weight=outputs.loss_weight(item)
        )

    def valid_step(self, batch: Batch) -> SequenceOutput:
        """The output of one batch for the metrics."""
        return self.predict(batch)

    def samples(self) -> dict[str, str | Tensor]:
        """Text that the network continues the prompt with, `sample`, drawn by the same random numbers every time.

        Nothing for a network that cannot generate, or without the text of the tokens.
        """
        generate: Any = getattr(self.network, "generate", None)
        is_text = self.vocabulary is not None or self.bytes_per_token is None
        if generate is None or not is_text:
            return {}
        device = next(self.network.parameters()).device
        generator = torch.Generator(device=device).manual_seed(randomness.derive(0, "sample"))
        prompt = torch.tensor([self.prompt], device=device)
        tokens = generate(prompt, self.sample_length, generator=generator, **self.settings)
        return {"sample": _code_block(self._decoded([*self.prompt, *tokens[0].tolist()]))}

    def _num_bytes(
        self, targets: Tensor, has_ignored: bool, num_classes: int
    ) -> Tensor | int | None:
        """The bytes that the targets stand for; None where there is neither a vocabulary nor a logit for each byte."""
        is_known = (targets != outputs.IGNORED) if has_ignored else None
        if self.bytes_per_token is None:
            counted = targets.numel() if is_known is None else is_known.sum()
            return counted if num_classes == BYTES else None
        if is_known is None:
            return self.bytes_per_token[targets].sum()
        return (self.bytes_per_token[torch.where(is_known, targets, 0)] * is_known).sum()

    def _decoded(self, tokens: Sequence[int]) -> str:
        if self.vocabulary is not None:
            return "".join(self.vocabulary[token] for token in tokens)
        return bytes(tokens).decode(errors="replace")


def _nll(logits: Float[Tensor, "batch time classes"], targets: Tensor) -> Float[Tensor, ""]:
    """The mean of -log p over the tokens that count, of which perplexity is made, whatever the loss."""
    with torch.no_grad():
        return functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED
        )


def _check_sampling(temperature: float, top_k: int | None, num_tokens: int) -> None:
    if temperature < 0:
        raise ValueError(
            f"temperature={temperature}: should be positive, or 0 for the likeliest token"
        )
    if top_k is not None and not 1 <= top_k <= num_tokens:
        raise ValueError(
            f"top_k={top_k}: should be between 1 and the {num_tokens} tokens there are, or null for all"
        )


def _encoded(text: str, vocabulary: Sequence[str] | None) -> list[int]:
    if not text:
        raise ValueError(
            "prompt: should have a character at least for the sample to follow, such as a line break"
        )
    if vocabulary is None:
        return [*text.encode()]
    numbers = {token: number for number, token in enumerate(vocabulary)}
    unknown = sorted({character for character in text if character not in numbers})
    if unknown:
        raise ValueError(
            f"prompt={text!r}: the vocabulary has no {', '.join(map(repr, unknown))}; begin with what it has"
        )
    return [numbers[character] for character in text]


def _code_block(text: str) -> str:
    """Markdown that shows the text as it is, whatever backquotes are in it; control characters as a replacement."""
    shown = "".join(
        each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for each in text
    )
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"

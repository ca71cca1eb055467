"""Language modelling: the steps around a network that predicts the next token.

>>> import torch
>>> from andiron.data import Batch
>>> network = torch.nn.Embedding(256, 256)  # logits of the next byte from this byte alone
>>> tokens = torch.tensor([[*b"to be"]])
>>> LanguageModel(network).valid_step(Batch(tokens[:, :-1], tokens[:, 1:])).num_bytes
4
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from andiron import randomness
from andiron.data.dataset import Batch
from andiron.outputs import IGNORED, SequenceOutput
from andiron.ranges import Count, NonNegative
from andiron.tasks import target_checks as checks
from andiron.tasks.classifier import CrossEntropy
from andiron.tasks.criterion import Criterion, Loss, Supervised

BYTES = 256


class LanguageModel(Supervised):
    """`network`, from tokens [batch time] to logits [batch time classes], with the steps of LMs.

    `vocabulary` is the text of each token; without one a token is a byte. `bytes_per_token` is the
    number of bytes that each token stands for, by default its length in UTF-8. Neither they nor the
    loss have a part in `state_dict()`. `samples` continues `prompt` by `sample_length` tokens, if
    the network has `generate(tokens, number, temperature=..., top_k=..., generator=...)`.
    Raises: ValueError for a prompt outside the vocabulary, or a `top_k` above its size.
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
        super().__init__(network, Criterion(CrossEntropy() if loss is None else loss))
        self.vocabulary = vocabulary
        self.prompt = _encoded(prompt, vocabulary)
        self.sample_length = sample_length
        self.settings: dict[str, Any] = {"temperature": temperature, "top_k": top_k}
        num_tokens = BYTES if vocabulary is None else len(vocabulary)
        if top_k is not None and not 1 <= top_k <= num_tokens:
            allowed = f"should be between 1 and the {num_tokens} tokens there are, or null for all"
            raise ValueError(f"top_k={top_k}: {allowed}")
        if bytes_per_token is None and vocabulary is not None:
            bytes_per_token = [len(token.encode()) for token in vocabulary]
        table = None if bytes_per_token is None else torch.tensor([*bytes_per_token])
        self.register_buffer("bytes_per_token", table, persistent=False)

    def predict(self, batch: Batch) -> SequenceOutput:
        """The mean loss over the tokens, and the logits of one batch.

        Raises: DataError if the shapes do not fit or, on a CPU, a target is not one of the tokens.
        """
        logits, targets = self(batch.inputs), batch.targets
        if logits.dim() != 3 or logits.shape[:2] != targets.shape:
            remedy = "should be [batch, time, classes] for targets [batch, time]"
            raise checks.misfit(self, logits, targets, remedy)
        loss, marked = self.loss.of_tokens(logits, targets), self.loss.marked(targets)
        has_ignored = self.loss.ignored_index is not None
        weight = self.loss.weight(targets, marked)
        num_bytes = self._num_bytes(marked, has_ignored, logits.shape[-1])
        nll = None if self.loss.is_nll else _nll(logits, marked)
        return SequenceOutput(loss, logits, marked, weight, has_ignored, num_bytes, nll)

    def samples(self) -> dict[str, str | Tensor]:
        """`sample`: the prompt and its continuation, drawn by the same random numbers every time.

        Empty for a network without `generate`, and where the text of the tokens is unknown.
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
        """The bytes that the targets stand for; None without a vocabulary and 256 classes."""
        is_known = (targets != IGNORED) if has_ignored else None
        if self.bytes_per_token is None:
            number = targets.numel() if is_known is None else is_known.sum()
            return number if num_classes == BYTES else None
        if is_known is None:
            return self.bytes_per_token[targets].sum()
        return (self.bytes_per_token[torch.where(is_known, targets, 0)] * is_known).sum()

    def _decoded(self, tokens: Sequence[int]) -> str:
        if self.vocabulary is not None:
            return "".join(self.vocabulary[token] for token in tokens)
        return bytes(tokens).decode(errors="replace")


def _nll(logits: Float[Tensor, "batch time classes"], targets: Tensor) -> Float[Tensor, ""]:
    """The mean of -log p over the tokens that count, whatever the loss; perplexity needs it."""
    flat, answers = logits.flatten(0, 1), targets.flatten()
    with torch.no_grad():
        return functional.cross_entropy(flat, answers, ignore_index=IGNORED)


def _encoded(text: str, vocabulary: Sequence[str] | None) -> list[int]:
    if not text:
        allowed = "should have at least one character to continue, such as a line break"
        raise ValueError(f"prompt: {allowed}")
    if vocabulary is None:
        return [*text.encode()]
    numbers = {token: number for number, token in enumerate(vocabulary)}
    unknown = sorted({character for character in text if character not in numbers})
    if unknown:
        characters = ", ".join(map(repr, unknown))
        raise ValueError(
            f"prompt={text!r}: the vocabulary has no {characters}; use characters that it has"
        )
    return [numbers[character] for character in text]


def _code_block(text: str) -> str:
    """A Markdown code block that shows the text literally, backquotes included.

    Control characters are shown as the replacement character.
    """
    shown = "".join(
        each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for each in text
    )
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"

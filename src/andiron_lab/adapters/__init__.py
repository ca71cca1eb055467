"""LoRA: low-rank adapters on layers, by peft; their files."""

from andiron_lab.adapters.low_rank import add, claim, merge, merged

__all__ = ["add", "claim", "merge", "merged"]

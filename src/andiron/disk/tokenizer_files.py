"""The files of a folder of transformers that its tokenizer reads."""

import re
from pathlib import Path
from typing import Any

from andiron.disk import checksums

# what tokenizers of transformers 5.24 read, by `vocab_files_names` of all its classes
OF_TOKENIZERS = re.compile(
    r"(tokenizer|.*vocab|merges|special_tokens|added_tokens|tekken|chat_template|normalizer|"
    r"dict|emoji|byte_maps|word_).*|.*[.](model|spm|codes|tokenizer|tiktoken|jinja)"
)


def turn_off_dropout(model: Any) -> None:
    """Gives a text one encoding: a saved BPE model of tokenizers keeps the dropout of its training.
    """
    if hasattr(model, "dropout"):
        model.dropout = None


def checksums_in(folder: str) -> dict[str, str]:
    """The SHA-256 of each file that the tokenizer in a folder of transformers reads; may be empty.

    Among them is config.json, whose type of network decides on the class of the tokenizer.
    """
    folders = Path(folder), Path(folder, "additional_chat_templates")
    entries = sorted(path for place in folders for path in place.glob("*"))
    paths = [path for path in entries if OF_TOKENIZERS.fullmatch(path.name)]
    paths += [Path(folder, "config.json")] if paths else []
    return {
        str(path.relative_to(folder)): checksums.entry(path)["sha256"]
        for path in paths
        if path.is_file()
    }

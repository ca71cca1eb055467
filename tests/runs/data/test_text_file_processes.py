"""Processes that tokenise one text at the same time."""

import multiprocessing

from andiron.data.on_disk import character_tokens

# characters of one to four bytes
POEM = "".join(f"Zeile {line}: äöü – Øre 😀 und Ende\r\n" for line in range(40))


def tokenise(path, start, actual):
    start.wait(timeout=60)
    tokens, _ = character_tokens.tokens(path, sha256="0" * 16, cache=None)
    actual.put((len(tokens), type(tokens).__name__))


def test_processes_that_make_the_tokens_at_once_all_find_them_whole(tmp_path):
    path = tmp_path / "poem.txt"
    path.write_bytes((POEM * 50).encode())
    context = multiprocessing.get_context("fork")
    start, actual = context.Barrier(3), context.Queue()
    running = [context.Process(target=tokenise, args=(path, start, actual)) for _ in range(3)]
    for process in running:
        process.start()
    assert [actual.get(timeout=120) for _ in running] == [(50 * len(POEM), "StoredArray")] * 3
    for process in running:
        process.join()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "poem.txt",
        f"poem.txt.{'0' * 16}.characters.safetensors",
    ]

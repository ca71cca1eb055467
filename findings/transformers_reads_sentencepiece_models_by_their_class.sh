#!/usr/bin/env bash
# transformers 5.24.0 takes pieces and scores from a SentencePiece model (0.2.3), and the rest of what the model says of itself is that
# of the class, without a word. LlamaTokenizer leaves out the normaliser (nmt_nfkc is the trainer's default: a ligature and a Roman
# numeral become bytes), puts a space before the first word of a model with add_dummy_prefix=False, and loses one of several
# spaces at the start of a text, the indent of a first line of code, also of a model made as Llama's own. T5Tokenizer leaves out
# byte_fallback (an unknown letter is <unk>, where its bytes would be read back), takes line breaks for spaces though the model
# does not, and puts a space after each user_defined_symbol. A corpus that was encoded by sentencepiece, as Megatron and litgpt
# do, and a network that is served or tuned by transformers so have other tokens; ids and vocabulary agree. Reported of these:
# the lost space (huggingface/transformers#47700, closed).
# Seen, the same tokens in 1 of 8 texts (the plain one), transformers' beside sentencepiece's for each.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q transformers==5.24.0 sentencepiece==0.2.3 protobuf; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import random
from pathlib import Path

import sentencepiece
import transformers

chance = random.Random(0)
words = "the quick brown fox jumps over a lazy dog and says hello to the whole world IV fine".split()
lines = [" ".join(chance.choices(words, k=12)) for _ in range(2000)]
AS_IT_IS = dict(normalization_rule_name="identity", remove_extra_whitespaces=False)
BYTES = dict(byte_fallback=True, vocab_size=420)
T5 = dict(model_type="unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
CASES = {
    "plain": ("Llama", dict(model_type="bpe", **BYTES, **AS_IT_IS), "the quick fox"),
    "normaliser": ("Llama", dict(model_type="bpe", **BYTES), "\ufb01ne"),
    "numeral": ("Llama", dict(model_type="bpe", **BYTES), "the \u2163"),
    "first word": ("Llama", dict(model_type="bpe", add_dummy_prefix=False, **BYTES, **AS_IT_IS), "the quick fox"),
    "indent": ("Llama", dict(model_type="bpe", **BYTES, **AS_IT_IS), "  the fox"),
    "unknown letter": ("T5", dict(**T5, **BYTES), "the \u65e5"),
    "line break": ("T5", dict(**T5, **AS_IT_IS, vocab_size=60), "the\nfox"),
    "symbol": ("T5", dict(**T5, vocab_size=60, user_defined_symbols=["<sep>"]), "the<sep>fox"),
}
same = {}
for case, (kind, options, text) in CASES.items():
    folder = Path(case.replace(" ", "-"))
    folder.mkdir()
    name = "tokenizer" if kind == "Llama" else "spiece"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=f"{folder}/{name}", hard_vocab_limit=False, minloglevel=2, **options
    )
    model = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/{name}.model")
    tokenizer = getattr(transformers, f"{kind}Tokenizer").from_pretrained(folder)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    same[case] = ids == model.encode(text)
    print(f"{case}: {tokenizer.convert_ids_to_tokens(ids)} {model.encode(text, out_type=str)}")
print(transformers.__version__, sentencepiece.__version__, same)
assert [case for case, is_same in same.items() if is_same] == ["plain"], "other texts agree now"
PY

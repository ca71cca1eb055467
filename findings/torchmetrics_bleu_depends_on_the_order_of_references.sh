#!/usr/bin/env bash
# torchmetrics 1.9.0: BLEUScore and SacreBLEUScore of several references change with the order in which a sample's references stand. The
# penalty for short texts takes the reference whose length is nearest; where a shorter and a longer one are as near, sacrebleu 2.6.0
# and nltk 3.10.4 take the shorter, and torchmetrics the first of the list. A text that is as long as asked is then punished as
# short, and a score named SacreBLEU is another than sacrebleu's, by 0.02 to 0.1 in corpora of a few random sentences. One
# reference, or lengths without a tie, agree. Sort the references by length. Known: Lightning-AI/torchmetrics#3504, open.
# Seen, a text of 5 words, references of 4 and 6 words: sacrebleu and nltk 0.669 in both orders; torchmetrics 0.669, and 0.548 with 6 first.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv
  venv/bin/pip install -q torchmetrics==1.9.0 torch==2.14.1 sacrebleu==2.6.0 nltk==3.10.4 regex; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import sacrebleu
import torchmetrics
from nltk.translate.bleu_score import corpus_bleu
from torchmetrics.text import BLEUScore, SacreBLEUScore

TEXT, SHORT, LONG = "a b c d e", "a b c d", "x a b c d y"


def scores(references, n):
    words = [reference.split() for reference in references]
    mine = sacrebleu.metrics.BLEU(tokenize="none", smooth_method="none", max_ngram_order=n)
    values = {
        "sacrebleu": mine.corpus_score([TEXT], [[reference] for reference in references]).score / 100,
        "nltk": corpus_bleu([words], [TEXT.split()], weights=[1 / n] * n),
        "BLEUScore": BLEUScore(n_gram=n)([TEXT], [references]).item(),
        "SacreBLEUScore": SacreBLEUScore(n_gram=n, tokenize="none")([TEXT], [references]).item(),
    }
    return {name: round(value, 3) for name, value in values.items()}


short_first, long_first, alone = (scores(references, 4) for references in ([SHORT, LONG], [LONG, SHORT], [LONG]))
print(torchmetrics.__version__, "shorter first", short_first, "longer first", long_first, "one reference", alone)
assert set(short_first.values()) == {0.669}, "all agree with the shorter one first"
assert long_first == {"sacrebleu": 0.669, "nltk": 0.669, "BLEUScore": 0.548, "SacreBLEUScore": 0.548}, "other scores"
assert set(alone.values()) == {0.548}, "all agree on one reference"
PY

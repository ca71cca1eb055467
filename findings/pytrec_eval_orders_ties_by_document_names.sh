#!/usr/bin/env bash
# pytrec_eval-terrier 0.5.11, which ir_measures, BEIR and MTEB score rankings with, sorts documents of equal score by their names, backwards, and
# rounds scores to 32 bits first, so that scores which differ in the ninth digit are equal too: BM25 sums, cosines near 1, logits of a
# cross-encoder in float64. A search whose scores are all equal (a collapsed embedding) is perfect where relevant documents have late names, as those
# that were added last have, and worthless where they have early ones. ranx 0.3.21 and scikit-learn 1.9.1 see the ninth digit.
# Rename or shuffle the document names to see how much of a value is theirs. trec_eval's own rule (its issues 22 and 34).
# Seen, one relevant document of four, ranked last by 3e-7 at scores of 20: reciprocal rank 1 with the name z, 0.25 with the name A;
# ranx and scikit-learn's ranking precision 0.25 for both. All scores equal: 1 and 0.25.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q pytrec_eval-terrier==0.5.11 ranx==0.3.21 scikit-learn==1.9.1 numpy==2.4.6; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import importlib.metadata
import warnings

import pytrec_eval
import sklearn.metrics
from ranx import Qrels, Run, evaluate

warnings.simplefilter("ignore")
CLOSE, EQUAL = [20 + 3e-7, 20 + 2e-7, 20 + 1e-7, 20.0], [1.0] * 4


def reciprocal_ranks(scores, name):
    run = {"query": dict(zip(["b", "c", "d", name], scores, strict=True))}
    relevant = {"query": {"b": 0, "c": 0, "d": 0, name: 1}}
    by_trec = pytrec_eval.RelevanceEvaluator(relevant, {"recip_rank"}).evaluate(run)
    by_ranx = evaluate(Qrels({"query": {name: 1}}), Run(run), "mrr")
    by_sklearn = sklearn.metrics.label_ranking_average_precision_score([[0, 0, 0, 1]], [scores])
    return by_trec["query"]["recip_rank"], float(by_ranx), float(by_sklearn)


ranks = {name: reciprocal_ranks(CLOSE, name) for name in ("z", "A")}
tied = {name: reciprocal_ranks(EQUAL, name)[0] for name in ("z", "A")}
version = importlib.metadata.version("pytrec_eval-terrier")
print(version, "pytrec_eval, ranx, scikit-learn:", ranks, "all scores equal, pytrec_eval:", tied)
assert ranks == {"z": (1.0, 0.25, 0.25), "A": (0.25, 0.25, 0.25)}, "scores have 64 bits"
assert tied == {"z": 1.0, "A": 0.25}, "ties do not go by names"
PY

#!/usr/bin/env bash
# scipy 1.17.1: ttest_ind(equal_var=False), Welch's test, recommended in place of Student's, finds a difference at p <= 0.05 in 12 % of pairs of
# equal normal samples where one side has 2 values and the other 20. Its degrees of freedom are estimated from those 2. Student's has 5 %.
# Seen: Welch 0.118, Student 0.048 of 20,000 pairs.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q scipy==1.17.1; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import numpy, scipy
from scipy import stats

draw = numpy.random.default_rng(0).normal
few, many = draw(size=(20_000, 2)), draw(size=(20_000, 20))
welch, student = (
    (stats.ttest_ind(few, many, axis=1, equal_var=equal).pvalue <= 0.05).mean()
    for equal in (False, True)
)
print(scipy.__version__, welch, student)
assert welch > 0.1 and 0.04 < student < 0.06, "Welch's test keeps its rate now"
PY

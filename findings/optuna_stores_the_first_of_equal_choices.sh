#!/usr/bin/env bash
# optuna 4.9.0: suggest_categorical(name, [False, 0, 1]) gives the objective False, 0 or 1, and the study stores False for a 0: choices
# are stored by their place, which is looked up with ==, and 0 == False, 1 == 1.0 == True. The best trial of the study then
# names a value that was not run, and its order decides which: of [True, 1, 2] a 1 is stored as True. A sampler that
# learns from the stored values takes the two for one. Texts ("off", "0") are told apart.
# Seen, 12 random trials: given False, 0 and 1 in turn by chance; stored only False and 1; of texts all are stored as given.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; cd "$folder"
if [ -z "${FINDINGS_PY:-}" ]; then
  python3 -m venv venv; venv/bin/pip install -q optuna==4.9.0; FINDINGS_PY=venv/bin/python
fi
"$FINDINGS_PY" - <<'PY'
import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)


def given_and_stored(choices):
    given, study = [], optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: len(str(given.append(trial.suggest_categorical("freeze", choices)))), n_trials=12)
    return [repr(value) for value in given], [repr(trial.params["freeze"]) for trial in study.trials]


numbers, texts = given_and_stored([False, 0, 1]), given_and_stored(["off", "0", "1"])
print(optuna.__version__, "given", *numbers[0], "stored", *numbers[1])
assert set(numbers[0]) == {"False", "0", "1"} and set(numbers[1]) == {"False", "1"}, "equal choices are told apart"
assert texts[0] == texts[1] and len(set(texts[0])) == 3
PY

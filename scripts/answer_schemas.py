"""The JSON Schema of each command's answers, one for every line that it prints under `--json`."""

from typing import Any

from andiron.plain.states import State
from andiron.wings.trained.exports.export import FORMATS

Schema = dict[str, Any]
TEXT, COUNT, NUMBER, FLAG = ({"type": name} for name in ("string", "integer", "number", "boolean"))
ANY: Schema = {}
KINDS = (
    "unknown_option", "unknown_choice", "invalid_value", "missing_value", "missing_path", "other"
)  # fmt: skip


def or_null(kind: Schema) -> Schema:
    """The kind, or null."""
    return {"anyOf": [kind, {"type": "null"}]}


def list_of(kind: Schema) -> Schema:
    """A list of the kind."""
    return {"type": "array", "items": kind}


def by_name(kind: Schema = ANY) -> Schema:
    """An object whose values are of the kind."""
    return {"type": "object", "additionalProperties": kind}


def closed(fields: dict[str, Schema], *optional: str) -> Schema:
    """An object with these fields and no other; `optional` ones may be missing."""
    required = [name for name in fields if name not in optional]
    return {
        "type": "object", "properties": fields, "required": required, "additionalProperties": False
    }  # fmt: skip


VALUE = or_null(NUMBER)  # null for NaN and infinity
STATUS = {"enum": [str(state) for state in State]}
PROBLEM = closed({
    "kind": {"enum": [*KINDS]}, "option": or_null(TEXT), "value": ANY,
    "allowed": or_null(by_name()), "remedy": TEXT, "message": TEXT,
    "command": or_null(list_of(TEXT)),
})  # fmt: skip
ERROR = closed({"error": closed({
    "kind": TEXT, "message": TEXT, "problems": list_of(PROBLEM), "exit_code": COUNT,
})})  # fmt: skip
POINT = closed({"point": closed({
    "split": TEXT, "updates": COUNT, "epoch": COUNT, "over": {"enum": ["window", "epoch"]},
    "values": by_name(VALUE),
})})  # fmt: skip
RUN = {  # with what else status.json has
    **closed({
        "run": TEXT, "status": or_null(STATUS), "reason": or_null(TEXT),
        "summary": or_null(by_name()),
    }, "reason"),
    "additionalProperties": True,
}  # fmt: skip
JOB = {
    "run": or_null(TEXT), "number": COUNT, "overrides": list_of(TEXT), "status": or_null(STATUS),
    "objective": VALUE, "seconds": VALUE, "reason": or_null(TEXT),
}  # fmt: skip
GROUPS = list_of({
    **closed({
        "options": by_name(), "runs": list_of(TEXT), "seeds": list_of(ANY),
        "metrics": by_name(or_null(by_name())),
    }),
    "additionalProperties": True,
})  # fmt: skip
RACE = closed({
    "left": list_of(list_of(TEXT)), "not_shown": or_null(TEXT), "trained": NUMBER,
    "dropped": list_of(closed({"configuration": list_of(TEXT), "reason": TEXT})),
})  # fmt: skip
SWEEP = {
    **closed({
        "sweep": TEXT, "metric": TEXT, "best": or_null(closed(JOB)), "best_command": or_null(TEXT),
        "jobs": list_of(closed(JOB)), "groups": GROUPS, "doubt": or_null(TEXT),
        "race": RACE,
    }, "race"),
    "additionalProperties": True,
}  # fmt: skip
DIFFERENCES = list_of(closed({
    "value": VALUE, "numbers": list_of(COUNT), "test": or_null(TEXT), "p": NUMBER,
    "interval": or_null(list_of(NUMBER)), "deviation": NUMBER, "degrees": NUMBER,
    "result": {"enum": ["better", "worse", "not shown", "not tested"]},
    "seeds_needed": or_null(COUNT),
}))  # fmt: skip
DIFFER = closed({
    "metric": TEXT, "groups": GROUPS, "differences": DIFFERENCES, "samples": DIFFERENCES,
    "notes": list_of(TEXT),
}, "samples")  # fmt: skip
LISTED = {
    "path": TEXT, "status": STATUS, "options": by_name(), "metrics": by_name(by_name()),
    "problems": list_of(TEXT),
}  # fmt: skip
PARENT = {  # with the record of a fork
    **closed({"kind": TEXT, "path": TEXT, "is_there": FLAG, "changes": by_name()}),
    "additionalProperties": True,
}  # fmt: skip
LISTED_RUN = {**closed(LISTED), "additionalProperties": True}
IDEA = closed({
    "idea": COUNT, "at": TEXT, "reason": TEXT, "options": list_of(TEXT), "metric": or_null(TEXT),
    "values": by_name(VALUE), "code": list_of(by_name()), "patches": list_of(TEXT), "mean": VALUE,
    "half_interval": VALUE, "kept": FLAG, "folder": TEXT, "parent": COUNT, "difference": VALUE,
    "interval": or_null(list_of(NUMBER)), "p": NUMBER, "seeds_needed": or_null(COUNT),
}, "folder", "parent", "difference", "interval", "p", "seeds_needed")  # fmt: skip
SEEN_SAMPLE = closed({
    "index": COUNT, "name": TEXT, "loss": VALUE, "true": or_null(TEXT), "predicted": or_null(TEXT),
    "relative_size": VALUE, "drawn": by_name(list_of(NUMBER)), "unrecorded": list_of(TEXT),
})  # fmt: skip
SEEN_UPDATES = list_of(closed({
    "update": COUNT, "epoch": COUNT, "data": TEXT, "loss": VALUE, "grad_norm": VALUE,
    "samples": list_of(SEEN_SAMPLE),
}))  # fmt: skip
MADE = {"run": TEXT, "compared": COUNT, "differences": list_of(TEXT)}
ANSWERS: dict[str, list[Schema]] = {
    "train": [POINT, closed({"job": closed({**JOB, "retried": FLAG})}), SWEEP, RUN],
    "try": [closed({"idea": IDEA}), closed({"ideas": list_of(IDEA)}), closed({
        "applied": list_of(closed({"patch": TEXT, "root": TEXT, "revision": TEXT})),
    })],
    "check": [
        closed({"checked": {"const": ["options"]}}),
        closed({
            "checked": {"const": ["options", "data", "model"]}, "steps": by_name(COUNT),
            "memory_bytes": by_name(COUNT),
        }),
    ],
    "plan": [closed({
        "run_dir": TEXT, "steps": by_name(COUNT), "groups": by_name(by_name()),
        "learning_rates": by_name(by_name(NUMBER)), "memory_bytes": by_name(COUNT),
        "slices": or_null(COUNT),
        "asking": by_name(COUNT),
    })],
    "find-lr": [closed({"lr": NUMBER, "values": TEXT, "picture": TEXT})],
    "watch": [POINT, RUN],
    "evaluate": [closed({
        "run": TEXT, "weights": TEXT, "data": TEXT, "split": TEXT, "samples": COUNT,
        "metrics": by_name(VALUE), "classes": list_of(by_name()), "worst": list_of(by_name()),
        "texts": by_name(TEXT),
    })],
    "predict": [
        closed({
            "input": TEXT, "kept": by_name(), "label": TEXT, "probability": VALUE,
            "labels": list_of(TEXT), "probabilities": by_name(VALUE), "values": by_name(VALUE),
            "output": ANY,
        }, "kept", "label", "probability", "labels", "probabilities", "values", "output"),
        closed({"output": TEXT}),
    ],
    "generate": [closed({
        "run": TEXT, "weights": TEXT, "prompt": TEXT, "text": TEXT, "length": COUNT,
        "temperature": NUMBER, "top_k": or_null(COUNT), "seed": COUNT,
    })],
    "export": [{
        **closed({"run": TEXT, "weights": TEXT, "format": {"enum": [*FORMATS]}, "path": TEXT}),
        "additionalProperties": True,
    }],
    "runs": [
        closed({"runs": list_of(LISTED_RUN)}),
        LISTED_RUN,
        closed({"metric": TEXT, "groups": GROUPS, "doubt": or_null(TEXT)}),
        DIFFER,
        SWEEP,
        closed({name: by_name(list_of(ANY)) for name in ("options", "provenance", "metrics")}),
        closed({"tree": list_of(closed({
            "path": TEXT, "status": STATUS, "resumed": COUNT, "resumes": by_name(TEXT),
            "parent": or_null(PARENT),
        }))}),
        closed({"removed": by_name(list_of(TEXT))}),
    ],
    "differ": [DIFFER],
    "seeds": [closed({"runs": list_of(closed({"seed": COUNT, "run": TEXT}))})],
    "recheck": [closed({
        "run": TEXT, "updates": COUNT, "segments": list_of(closed({
            "first": COUNT, "last": COUNT, "tensors": COUNT, "values": COUNT,
            "differences": list_of(TEXT),
        })), "record": list_of(TEXT), "same_bits": FLAG,
    })],
    "samples": [
        closed({**MADE, "updates": SEEN_UPDATES}),
        closed({
            **MADE,
            "spikes": list_of(closed({
                "what": TEXT, "first": COUNT, "last": COUNT, "rise": VALUE, "value": VALUE,
                "updates": SEEN_UPDATES,
            })),
        }),
        closed({
            **MADE, "updates": SEEN_UPDATES, "learned": list_of(COUNT),
            "forgotten": list_of(COUNT),
        }),
        closed({**MADE, "updates": SEEN_UPDATES, "hardest": list_of(closed({
            "index": COUNT, "name": TEXT, "loss": VALUE, "times": COUNT,
        }))}),
    ],
    "rerun": [closed({
        "run": TEXT, "repeated": TEXT, "same_bits": FLAG, "differences": list_of(TEXT),
        "changed": list_of(TEXT),
    })],
    "bisect": [closed({
        "equal": FLAG, "agreed": COUNT, "start": COUNT, "commit": or_null(TEXT),
        "notes": list_of(TEXT),
        "first": or_null(closed({
            "updates": COUNT, "where": TEXT, "what": TEXT, "expected": TEXT, "found": TEXT,
        })),
    })],
    "replay": [closed({
        "folder": TEXT, "same_bits": FLAG, "step": TEXT, "cause": TEXT, "outputs": TEXT,
        "comparison": TEXT,
    }), closed({
        "run": TEXT, "update": COUNT, "samples": list_of(list_of(COUNT)), "same_bits": FLAG,
        "comparison": TEXT, "sample_norms": {"anyOf": [list_of(VALUE), or_null(TEXT)]},
        "layers": by_name(list_of(closed({
            "layer": TEXT, "norm": VALUE, "largest": VALUE, "zeros": VALUE, "nonfinite": COUNT,
            "cosine": VALUE,
        }))),
    })],
    "accept-changes": [closed({"run": TEXT, "accepted": list_of(TEXT)})],
    "import-state-dict": [closed({"path": TEXT, "tensors": COUNT, "left_out": list_of(TEXT)})],
    "verify-resume": [closed({
        "same_bits": FLAG, "folder": or_null(TEXT), "seed": COUNT, "differences": list_of(TEXT),
    })],
    "new": [closed({"folder": TEXT})],
    "schema": [
        closed({"path": TEXT}),
        closed({"$schema": TEXT, "title": TEXT, "anyOf": list_of(by_name())}),
    ],
}  # fmt: skip


def schemas() -> dict[str, Schema]:
    """The schema of each command's lines, by the name of the command."""
    return {
        command: {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": f"A line of `andiron {command} --json`",
            "anyOf": [*answers, ERROR],
        }
        for command, answers in ANSWERS.items()
    }

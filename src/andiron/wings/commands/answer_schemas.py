"""JSON Schemas of answers, as commands declare them, and of the answers that several share."""

from typing import Any

from andiron.plain.states import State

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
    "nearest": or_null(TEXT),
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
SWEEP = {
    **closed({
        "sweep": TEXT, "metric": TEXT, "best": or_null(closed(JOB)), "best_command": or_null(TEXT),
        "jobs": list_of(closed(JOB)), "groups": GROUPS, "doubt": or_null(TEXT),
    }),
    "additionalProperties": True,
}  # fmt: skip
TRAIN = [POINT, closed({"job": closed(JOB)}), SWEEP, RUN]

"""The part of the SARIF 2.1.0 schema that our logs use, and a validator that is enough for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE = {"required": ["text"], "properties": {"text": {"type": str}}}
BAG = {"additionalProperties": True, "properties": {}}
URI = {"type": str, "pattern": r"[A-Za-z0-9._~%/:!$&'()*+,;=@-]+"}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
INDEX = {"type": int}
RULE_REFERENCE = {"properties": {"id": {"type": str}, "index": INDEX}}
ARTIFACT = {"properties": {"uri": URI, "uriBaseId": {"type": str}}}
RULE = {
    "required": ["id"],
    "properties": {
        "id": {"type": str},
        "name": {"type": str},
        "shortDescription": MESSAGE,
        "help": MESSAGE,
        "defaultConfiguration": {"properties": {"level": LEVEL}},
        "properties": BAG,
    },
}
LOCATION = {
    "properties": {
        "physicalLocation": {
            "properties": {
                "artifactLocation": ARTIFACT,
                "region": {"properties": {"startLine": INDEX}},
            }
        },
        "logicalLocations": {
            "items": {"properties": {"name": {"type": str}, "kind": {"type": str}}}
        },
    }
}
RESULT = {
    "required": ["message"],
    "properties": {
        "ruleId": {"type": str},
        "ruleIndex": INDEX,
        "level": LEVEL,
        "message": MESSAGE,
        "locations": {"items": LOCATION},
        "partialFingerprints": {"additionalProperties": {"type": str}, "properties": {}},
        "properties": BAG,
    },
}
NOTIFICATION = {
    "required": ["message"],
    "properties": {"message": MESSAGE, "level": LEVEL, "associatedRule": RULE_REFERENCE},
}
RUN = {
    "required": ["tool"],
    "properties": {
        "tool": {
            "required": ["driver"],
            "properties": {
                "driver": {
                    "required": ["name"],
                    "properties": {
                        "name": {"type": str},
                        "semanticVersion": {"type": str},
                        "rules": {"items": RULE},
                    },
                }
            },
        },
        "originalUriBaseIds": {"additionalProperties": ARTIFACT, "properties": {}},
        "invocations": {
            "items": {
                "required": ["executionSuccessful"],
                "properties": {
                    "executionSuccessful": {"type": bool},
                    "toolExecutionNotifications": {"items": NOTIFICATION},
                },
            }
        },
        "results": {"items": RESULT},
        "properties": BAG,
    },
}
SARIF = {
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": str},
        "version": {"enum": ["2.1.0"]},
        "runs": {"items": RUN},
    },
}


def violations(value: Any, schema: Any, path: str = "$") -> Iterator[str]:
    """Yield where a value violates a schema. Properties that are not listed are violations."""
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if "type" in schema and type(value) is not schema["type"]:
        yield f"{path}: {value!r} is no {schema['type'].__name__}"
    elif "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        yield f"{path}: {value!r} does not match {schema['pattern']}"
    if "items" in schema:
        if not isinstance(value, list):
            yield f"{path}: not a list"
            return
        for i, item in enumerate(value):
            yield from violations(item, schema["items"], f"{path}[{i}]")
    if "properties" in schema:
        if not isinstance(value, dict):
            yield f"{path}: not an object"
            return
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{path}: no {name!r}"
        others = schema.get("additionalProperties", False)
        for name, part in value.items():
            known = schema["properties"].get(name, others)
            if known is False:
                yield f"{path}: {name!r} is not known"
            elif known is not True:
                yield from violations(part, known, f"{path}.{name}")

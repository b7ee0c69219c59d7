"""Reads the list of endpoints, substitutes environment variables, and validates it before any request is sent."""

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import yaml

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
# The fastest first.
CLASSES = ("fast", "ok", "slow")
VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


class InvalidList(Exception):
    """The list is not valid; the message says where."""


@dataclass
class Expected:
    # None accepts 200 to 299.
    status: Optional[list] = None
    latency: str = "slow"
    headers: dict = field(default_factory=dict)
    schema: Any = None


@dataclass
class Endpoint:
    name: str
    url: str
    method: str = "GET"
    query: Optional[dict] = None
    headers: dict = field(default_factory=dict)
    json: Any = None
    timeout: float = 10
    redirects: bool = False
    limits: dict = field(default_factory=lambda: {"fast": 200, "slow": 1000})
    expect: Expected = field(default_factory=Expected)

    def latency_class(self, milliseconds) -> str:
        if milliseconds < self.limits["fast"]:
            return "fast"
        return "ok" if milliseconds < self.limits["slow"] else "slow"


def load(path) -> list:
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidList(str(error)) from error
    try:
        raw = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidList(f"{path}: {error}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("endpoints"), list) or not raw["endpoints"]:
        raise InvalidList(f"{path}: a mapping with a list `endpoints` is needed")
    raw = filled(raw)
    known(raw, ("base", "defaults", "latency", "endpoints"), str(path))
    return [read(entry, raw, number, path.parent) for number, entry in enumerate(raw["endpoints"], 1)]


def filled(value):
    """Returns the value with ${NAME} and ${NAME:-default} substituted in every text."""
    if isinstance(value, dict):
        return {key: filled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner) for inner in value]
    return VARIABLE.sub(variable, value) if isinstance(value, str) else value


def variable(match):
    value = os.environ.get(match[1]) or match[2]
    if value is None:
        raise InvalidList(f"the variable {match[1]} is not set")
    return value


def read(entry, raw, number, folder) -> Endpoint:
    if not isinstance(entry, dict):
        raise InvalidList(f"endpoint {number}: a mapping is needed, not {entry!r}")
    where = f"endpoint {number} ({entry.get('name', 'without a name')})"
    known(entry, ("name", "path", "url", "method", "query", "headers", "json", "timeout", "redirects", "expect"), where)
    defaults = raw.get("defaults") or {}
    url = entry.get("url") or (raw.get("base", "").rstrip("/") + entry.get("path", ""))
    if not re.match(r"https?://", url):
        raise InvalidList(f"{where}: `{url}` is no address: give `url`, or `path` and a `base`")
    method = str(entry.get("method", "GET")).upper()
    if method not in METHODS:
        raise InvalidList(f"{where}: unknown method {method}")
    limits = {"fast": 200, "slow": 1000, **(raw.get("latency") or {})}
    return Endpoint(
        name=str(entry.get("name") or f"{method} {entry.get('path', url)}"),
        url=url,
        method=method,
        query=entry.get("query"),
        headers={**(defaults.get("headers") or {}), **(entry.get("headers") or {})},
        json=entry.get("json"),
        timeout=float(entry.get("timeout", defaults.get("timeout", 10))),
        redirects=bool(entry.get("redirects", False)),
        limits=limits,
        expect=expected(entry.get("expect") or {}, where, folder),
    )


def expected(entry, where, folder) -> Expected:
    known(entry, ("status", "latency", "headers", "schema"), f"{where}: expect")
    status = entry.get("status")
    latency = entry.get("latency", "slow")
    if latency not in CLASSES:
        raise InvalidList(f"{where}: latency is one of {', '.join(CLASSES)}, not {latency!r}")
    schema = entry.get("schema")
    if isinstance(schema, str):
        try:
            schema = json.loads((folder / schema).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InvalidList(f"{where}: schema {schema}: {error}") from error
    return Expected([status] if isinstance(status, int) else status, latency, entry.get("headers") or {}, schema)


def known(mapping, keys, where):
    for key in mapping:
        if key not in keys:
            raise InvalidList(f"{where}: unknown key `{key}`; there are {', '.join(keys)}")

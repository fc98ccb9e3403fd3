"""A client of the control over HTTP: answers are compared with the description of the API."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import jsonschema
import msgspec

from mockbroker.control.openapi import describe_api
from mockbroker.control.operations import ControlApi
from mockbroker.control.routes import CLUSTER_API

TIMEOUT_S = 60.0
JSON = {"Content-Type": "application/json"}


class Answer(NamedTuple):
    """A response. body: decoded if it is JSON."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def problem(self) -> str:
        """The end of the type of a problem."""
        assert self.headers["content-type"] == "application/problem+json", self
        return str(self.body["type"]).removeprefix("urn:problem-type:mockbroker:")


class StreamedEvent(NamedTuple):
    """An event of a stream."""

    kind: str
    body: Any
    event_id: str | None


class ControlClient:
    """Sends requests to a control. url: its base. api: what it serves."""

    def __init__(self, url: str, api: ControlApi = CLUSTER_API) -> None:
        self._api = api
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._address = parts.hostname, parts.port

    def send(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None, data: Any = None
    ) -> Answer:
        """Send a request on a connection of its own. data: a body that is not JSON."""
        connection = http.client.HTTPConnection(*self._address, timeout=TIMEOUT_S)
        try:
            sent = data if body is None else json.dumps(body)
            connection.request(method, path, sent, {**(JSON if sent is not None else {}), **(headers or {})})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        names = {name.lower(): value for name, value in response.getheaders()}
        is_json = method != "HEAD" and "json" in names.get("content-type", "")
        answer = Answer(response.status, json.loads(content) if is_json else content, names)
        _check(self._api, method, path, answer)
        return answer

    def get(self, path: str, *, status: int = 200) -> Any:
        """The body of a resource."""
        return self.ask("GET", path, status=status)

    def ask(self, method: str, path: str, body: object = None, *, status: int = 200) -> Any:
        """The body of the answer, which must have this status."""
        answer = self.send(method, path, body)
        assert answer.status == status, answer
        return answer.body

    @contextmanager
    def events(self, query: str = "", headers: Mapping[str, str] | None = None) -> Iterator[Iterator[StreamedEvent]]:
        """The events of a stream."""
        connection = http.client.HTTPConnection(*self._address, timeout=TIMEOUT_S)
        try:
            connection.request("GET", f"/v1/events{query}", headers=dict(headers or {}))
            response = connection.getresponse()
            assert response.status == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            yield _read_events(response)
        finally:
            connection.close()


def _read_events(response: http.client.HTTPResponse) -> Iterator[StreamedEvent]:
    fields: dict[str, str] = {}
    while line := response.readline().decode():
        name, separator, value = line.rstrip("\n").partition(": ")
        if separator:
            fields[name] = value
        elif "event" in fields:
            yield StreamedEvent(fields["event"], json.loads(fields["data"]), fields.get("id"))
            fields = {}


def description(api: ControlApi = CLUSTER_API) -> dict[str, Any]:
    """The description of the API, as it is sent."""
    described: dict[str, Any] = json.loads(msgspec.json.encode(describe_api(api, has_token=False)))
    return described


_description = cache(description)


def _check(api: ControlApi, method: str, path: str, answer: Answer) -> None:
    """Compare an answer with the description. Raises: jsonschema.ValidationError."""
    if answer.status >= 400:
        schema: Mapping[str, Any] = {"$ref": "#/components/schemas/Problem"}
    else:
        found = _find_path(api, path.partition("?")[0])
        if found is None or method.lower() not in found:
            return
        response = found[method.lower()]["responses"][str(answer.status)]
        if "content" not in response:
            assert answer.body == b""
            return
        schema = response["content"]["application/json"]["schema"]
    jsonschema.validate(answer.body, {**schema, "components": _description(api)["components"]})


def _find_path(api: ControlApi, path: str) -> dict[str, Any] | None:
    """The description of a path; one without parameters takes precedence."""
    items = {
        template: item
        for template, item in _description(api)["paths"].items()
        if re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), path)
    }
    return items[min(items, key=lambda template: template.count("{"))] if items else None

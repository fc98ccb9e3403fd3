"""The ASGI application: routes of all operations, with access checks, limits and problems."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from mockbroker.control.access import PROTECTED, AccessCheck
from mockbroker.control.openapi import describe_api
from mockbroker.control.page_files import create_page_routes
from mockbroker.control.problems import ProblemError, ProblemKind, create_problem, describe_error
from mockbroker.control.request_parts import read_body, read_parameters
from mockbroker.control.responses import json_response, problem_response
from mockbroker.control.routes import OPERATIONS
from mockbroker.engine.internal_errors import log_internal_error
from mockbroker.log.subjects import CONTROL

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from mockbroker.control.operations import ControlContext, Operation
    from mockbroker.control.options import ControlOptions

#: How long what waits for a cluster that stops may take to end, seconds.
_LAST_ANSWER_S = 0.2
Endpoint = Callable[["Request"], Awaitable[Response]]


def create_app(control: ControlContext, options: ControlOptions) -> ASGIApp:
    """The application. Its coroutines run in another event loop than the cluster's."""

    @cache
    def description() -> bytes:
        return msgspec.json.encode(describe_api(control.api, has_token=options.token is not None))

    async def describe(request: Request) -> Response:
        return Response(description(), media_type="application/json")

    routes = [
        *_create_routes(control),
        Route("/openapi.json", describe, methods=["GET"]),
        *create_page_routes(),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(AccessCheck, options=options), Middleware(_EncodedPaths)],
        exception_handlers={HTTPException: _answer_http_error},  # type: ignore[dict-item]
    )
    app.router.redirect_slashes = False
    return app


class _EncodedPaths:
    """Routes by the path as it was sent: a group id may have a slash in it, as %2F."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw_path = scope.get("raw_path")
        if raw_path is not None and raw_path.startswith(f"{PROTECTED}/".encode()):
            scope = {**scope, "path": raw_path.decode("latin-1")}
        await self._app(scope, receive, send)


def _create_routes(control: ControlContext) -> list[Route]:
    """One route for each path, so that a wrong method is answered with those that there are.

    Operations that only other servers have are routed too: they are answered with the reason that they are not here.
    """
    by_path: dict[str, dict[str, Operation | None]] = {}
    for absent in OPERATIONS:
        by_path.setdefault(absent.path, {})[absent.method] = None
    for operation in control.api.operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    routes = [Route(path, _create_endpoint(methods, control)) for path, methods in by_path.items()]
    for route in routes:
        route.methods = None  # All: a path with parameters, which matches too, may have others.
    return routes


def _create_endpoint(methods: Mapping[str, Operation | None], control: ControlContext) -> Endpoint:
    by_method = {method: operation for method, operation in methods.items() if operation is not None}
    if "GET" in by_method and by_method["GET"].has_json_response:
        by_method["HEAD"] = by_method["GET"]

    async def endpoint(request: Request) -> Response:
        operation = by_method.get(request.method)
        if operation is None:
            if by_method and request.method not in methods:
                return _refuse_method(request, ", ".join(by_method))
            detail = f"{request.method} {request.url.path}: {control.api.absent}"
            return problem_response(create_problem(ProblemKind.NOT_SUPPORTED, detail))
        try:
            return await _run_operation(request, operation, control)
        except Exception as error:
            problem = describe_error(error)
            if problem is None:
                log_internal_error(f"{request.method} {operation.path}", error, CONTROL)
                problem = create_problem(ProblemKind.INTERNAL_ERROR, f"{type(error).__name__}: {error}")
            return problem_response(problem, error.headers if isinstance(error, ProblemError) else None)

    return endpoint


async def _run_operation(request: Request, operation: Operation, control: ControlContext) -> Response:
    signature = operation.signature
    if request.client is not None:
        control = replace(control, client=request.client.host)
    parameters = read_parameters(request, operation)
    body = await read_body(request, operation)
    arguments = (control, parameters) if signature.body is None else (control, parameters, body)
    if signature.is_async:
        result = await _run_until_disconnected(operation.function(*arguments), request, control)
    else:
        result = await run_in_threadpool(operation.function, *arguments)
    if isinstance(result, Response):
        return result
    headers = {"Location": _locate(operation.location, result)} if operation.location is not None else {}
    return json_response(result, status=operation.status, headers=headers)


def _locate(template: str, result: object) -> str:
    """The path of what was created."""
    fields: dict[str, Any] = msgspec.to_builtins(result)
    return template.format(**{name: quote(str(value), safe="") for name, value in fields.items()})


async def _run_until_disconnected(awaitable: Awaitable[object], request: Request, control: ControlContext) -> object:
    """The result of a coroutine. It is cancelled if the client goes away, or the control is stopped.

    Raises: what it raises; ProblemError when the control is stopped.
    """
    work = asyncio.ensure_future(awaitable)
    gone, stopped = asyncio.ensure_future(request.receive()), asyncio.ensure_future(control.events.stopped.wait())
    ends = (gone, stopped)
    try:
        await asyncio.wait([work, *ends], return_when=asyncio.FIRST_COMPLETED)
        if not work.done() and not gone.done():
            # What waits for the cluster ends with it, and says what had come until then.
            await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED, timeout=_LAST_ANSWER_S)
        if not work.done():
            raise ProblemError(ProblemKind.STOPPING, "the cluster was stopped, or the client has gone")
        return await work
    except RuntimeError as error:
        if type(error) is RuntimeError and control.cluster.is_stopping:
            raise ProblemError(ProblemKind.STOPPING, str(error)) from error
        raise
    finally:
        for task in (work, *ends):
            task.cancel()
        await asyncio.gather(work, *ends, return_exceptions=True)


async def _answer_http_error(request: Request, error: HTTPException) -> Response:
    """The problem for an unknown path, or a method that a path outside of the API does not have."""
    if error.status_code == ProblemKind.METHOD_NOT_ALLOWED.value.status:
        return _refuse_method(request, (error.headers or {}).get("Allow", ""))
    problem = create_problem(ProblemKind.NOT_FOUND, f"{request.url.path}: there is no such resource")
    return problem_response(problem, error.headers)


def _refuse_method(request: Request, allowed: str) -> Response:
    problem = create_problem(
        ProblemKind.METHOD_NOT_ALLOWED, f"{request.method} {request.url.path}: there are {allowed}"
    )
    return problem_response(problem, {"Allow": allowed})

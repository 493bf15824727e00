"""Asking: the first model that can be asked, then the next; each behind a breaker of its own.

One try a request and a second one only where it may help at once. What is worth asking again later is told apart from
what will never work, so that a turn waits for the first and explains the second.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog
from pydantic_ai import exceptions
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelMessage, ModelResponse, PartDeltaEvent, TextPart, TextPartDelta
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from agent.engine import EngineError, EngineUnavailable, Step, ToolCall, calls_from_json
from agent.models import answers, messages, texts
from agent.models.candidates import Candidate
from agent.progress import SILENT, Progress
from agent.tool import Tool, Tools
from agent.trajectory import Context
from workspace_store import sensitive

log = structlog.get_logger()

TRIES = 2
PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0
AGAIN_SECONDS = 10.0
REASON_CHARACTERS = 200
SAME_CALLS = 5
"""As many equal calls in a row are a loop."""

# By the provider's own words: it may work later, as it is.
PASSING = (
    exceptions.ModelRateLimitError,
    exceptions.ModelUnavailableError,
    exceptions.ModelServerError,
    exceptions.ModelConnectionError,
    exceptions.ModelRequestTimeout,
)
PASSING_STATUS = (408, 409, 425)
UNREADABLE = (exceptions.UnexpectedModelBehavior, answers.UnusableAnswer)


@dataclass
class Chain:
    """Models in the order they are asked. ``pause``: sleeps, in seconds."""

    candidates: Sequence[Candidate]
    timeout_seconds: float
    stream: bool = False
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def step(self, context: Context, progress: Progress = SILENT) -> Step:
        """The first answer of a model. Raises EngineUnavailable where waiting helps, else EngineError."""
        passing: list[float] = []
        reasons: list[str] = []
        for candidate in self.candidates:
            if not candidate.breaker.try_now():
                passing.append(max(candidate.breaker.seconds_until_open_ends(), 1.0))
                continue
            try:
                return await self._ask(candidate, context, progress)
            except exceptions.ModelAPIError as error:
                if _passes(error):
                    seconds = candidate.breaker.seconds_until_open_ends()
                    passing.append(max(seconds, error.retry_after or AGAIN_SECONDS))
                reasons.append(texts.of_model(candidate.name, _reason(error)))
            except UNREADABLE as error:
                reasons.append(texts.of_model(candidate.name, str(error)))
        if passing:
            raise EngineUnavailable("; ".join(reasons) or texts.MODELS_RESTING, min(passing))
        raise EngineError("; ".join(reasons))

    async def aclose(self) -> None:
        """Close the connections to all of them."""
        for candidate in self.candidates:
            await candidate.aclose()

    async def _ask(self, candidate: Candidate, context: Context, progress: Progress) -> Step:
        """Ask one model, twice where it helps. Its breaker learns of what says something about the model."""
        try:
            return await self._ask_with(candidate, context, progress)
        except exceptions.ModelAPIError as error:
            shown = set(context.pictures) - candidate.unseen
            if not (shown and _refuses_pictures(error)):
                raise
            log.info("asking a model without pictures", model=candidate.name, reason=_reason(error))
            candidate.unseen |= shown
        return await self._ask_with(candidate, context, progress)

    async def _ask_with(self, candidate: Candidate, context: Context, progress: Progress) -> Step:
        request = messages.of_context(context, candidate.provider, candidate.unseen)
        parameters = _parameters(context.tools)
        for attempt in range(TRIES):
            try:
                async with asyncio.timeout(self.timeout_seconds):
                    response = await self._request(candidate.model, request, parameters, progress)
                step = self._step(response, context)
            except TimeoutError as error:
                candidate.breaker.failed()
                raise exceptions.ModelRequestTimeout(candidate.name, self.timeout_seconds) from error
            except asyncio.CancelledError:
                candidate.breaker.left()
                raise
            except exceptions.ModelAPIError as error:
                if not _passes(error):
                    candidate.breaker.left()
                    raise
                candidate.breaker.failed(error.retry_after)
                wait = PAUSE_SECONDS * (1 + random.random()) if error.retry_after is None else error.retry_after
                if attempt + 1 == TRIES or wait > LONGEST_PAUSE_SECONDS or not candidate.breaker.try_now():
                    raise
                log.info("asking a model again", model=candidate.name, reason=_reason(error))
                await self.pause(wait)
            except UNREADABLE:
                candidate.breaker.succeeded()
                if attempt + 1 == TRIES:
                    raise
            except Exception:
                candidate.breaker.left()
                raise
            else:
                candidate.breaker.succeeded()
                return step
        raise AssertionError("the last try returns or raises")

    async def _request(
        self, model: Model, request: list[ModelMessage], parameters: ModelRequestParameters, progress: Progress
    ) -> ModelResponse:
        """One request; where answers are streamed, what is written of the words is told as it grows.

        Whatever the libraries raise of an answer that is none of theirs: UnexpectedModelBehavior.
        """
        try:
            return await self._answer(model, request, parameters, progress)
        except exceptions.AgentRunError as error:
            if type(error) is exceptions.ModelAPIError:
                # Of no kind: what came is cut off, or no JSON.
                raise exceptions.UnexpectedModelBehavior(texts.UNREADABLE) from error
            raise
        except TimeoutError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:REASON_CHARACTERS]
            log.warning("an answer cannot be read", model=model.model_name, reason=reason)
            raise exceptions.UnexpectedModelBehavior(texts.UNREADABLE) from error

    async def _answer(
        self, model: Model, request: list[ModelMessage], parameters: ModelRequestParameters, progress: Progress
    ) -> ModelResponse:
        if not self.stream:
            return await model_request(model, request, model_request_parameters=parameters)
        async with model_request_stream(model, request, model_request_parameters=parameters) as stream:
            async for event in stream:
                if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    progress.answering(_words(stream.get()))
        return stream.get()

    def _step(self, response: ModelResponse, context: Context) -> Step:
        asked_before = [call for said in context.turn for call in calls_from_json(said.data.get("calls", ()))]
        answered = [said.message for said in context.turn if said.role == "user"][-1]
        taken = [*context.taken, *(call.id for call in asked_before)]
        step = answers.to_step(response, context.tools, taken, answered)
        end_if_in_circles([*asked_before, *step.calls])
        return step


def _parameters(tools: Tools) -> ModelRequestParameters:
    return ModelRequestParameters(function_tools=[_definition(tool) for tool in tools.values()])


def _definition(tool: Tool) -> ToolDefinition:
    return ToolDefinition(name=tool.name, parameters_json_schema=dict(tool.schema), description=tool.description)


def _words(response: ModelResponse) -> str:
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def end_if_in_circles(calls: Sequence[ToolCall]) -> None:
    """Raises EngineError where the last calls of a turn are all the same."""
    last = [json.dumps([call.name, dict(call.arguments)], sort_keys=True) for call in calls[-SAME_CALLS:]]
    if len(last) == SAME_CALLS and len(set(last)) == 1:
        raise EngineError(texts.in_circles(calls[-1].name, SAME_CALLS))


def _passes(error: exceptions.ModelAPIError) -> bool:
    """Whether it may work later, as it is."""
    if isinstance(error, PASSING):
        return True
    return isinstance(error, exceptions.ModelHTTPError) and error.status_code in PASSING_STATUS


def _refuses_pictures(error: exceptions.ModelAPIError) -> bool:
    """Whether it may be for its pictures that a request was refused: a model that cannot see, or a broken one."""
    other = (exceptions.ModelAuthenticationError, exceptions.ModelNotFoundError, exceptions.ModelQuotaExceededError)
    return isinstance(error, exceptions.ModelRequestRejectedError | exceptions.ModelHTTPError) and not (
        isinstance(error, other) or _passes(error)
    )


def _words_of(body: object) -> str:
    """The sentence that a provider refuses a request with."""
    given = body.get("error", body) if isinstance(body, dict) else None
    said = given.get("message") if isinstance(given, dict) else given
    if not isinstance(said, str) or "<" in said or not said.strip():
        return ""
    return f": {sensitive.redacted(' '.join(said.split())[:REASON_CHARACTERS])}"


def _reason(error: exceptions.ModelAPIError) -> str:
    """One line of what the provider said; never a key, and no page of HTML."""
    if isinstance(error, exceptions.ModelRequestTimeout | exceptions.ModelTimeoutError):
        return "it did not answer in time"
    if isinstance(error, exceptions.ModelRateLimitError):
        return "it is asked too often (429)"
    if isinstance(error, exceptions.ModelAuthenticationError):
        return "it does not accept the key: check engine.api_key"
    if isinstance(error, exceptions.ModelNotFoundError):
        return "it is not known there: check engine.model and engine.base_url"
    if isinstance(error, exceptions.ModelQuotaExceededError):
        return "the account's quota or credit is used up"
    if isinstance(error, exceptions.ModelContextWindowExceededError):
        return "the conversation is longer than it takes: set engine.context_window"
    if isinstance(error, exceptions.ModelHTTPError):
        return f"HTTP {error.status_code}{_words_of(error.body)}"
    if isinstance(error, exceptions.ModelConnectionError):
        return "it cannot be reached"
    return type(error).__name__

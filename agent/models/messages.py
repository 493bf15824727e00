"""From our trajectory to a provider's messages: every call paired with one result, every id unique, roles in turn.

What cannot be sent as it is (a result nobody asked for, a call that was never answered, an id used twice) is mended
here on every load, so that a journal never becomes a request that is refused for ever. What changes with every turn
stands last, so that a provider's cache holds for all before it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from agent.engine import ToolCall, calls_from_json
from agent.models import texts
from agent.preface import Preface
from agent.trajectory import Context, Said

CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def of_context(context: Context, provider: str, unseen: Collection[str] = ()) -> list[ModelMessage]:
    """The request for a context. ``provider``: whose thoughts may be shown to it again; ``unseen``: pictures that it
    would refuse."""
    builder = _Builder(provider, {blob: one for blob, one in context.pictures.items() if blob not in unseen})
    builder.system(context.policy)
    builder.head(texts.past(context.standing, context.notes, context.folded))
    for turn in context.recent:
        builder.turn(turn)
    builder.turn(context.turn, open_end=True)
    builder.user(texts.status_bar([context.status] if context.status else []))
    return builder.messages


@dataclass
class _Builder:
    provider: str
    pictures: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)
    messages: list[ModelMessage] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def system(self, text: str) -> None:
        self._request([SystemPromptPart(text)])

    def user(self, text: str) -> None:
        if text.strip():
            self._request([UserPromptPart(text)])

    def head(self, text: str) -> None:
        """What stays until a folding: a provider that is told so keeps it in its cache by itself."""
        if text and self.provider == "anthropic":
            self._request([UserPromptPart([text, CachePoint()])])
        else:
            self.user(text)

    def said(self, said: Said) -> None:
        """A message, and what was picked for it and how things stood, as it was when it came."""
        self.user(texts.user_said(said))
        looks = [self.pictures[blob] for blob in said.data.get("pictures", ()) if blob in self.pictures]
        if looks:
            self._request([UserPromptPart([BinaryContent(data, media_type=kind) for kind, data in looks])])
        preface = Preface.of(said)
        if preface:
            self.user(texts.preface(preface))

    def turn(self, turn: Sequence[Said], *, open_end: bool = False) -> None:
        """A turn's messages. ``open_end``: the model answers next."""
        for group in _groups(turn):
            if isinstance(group, _Exchange):
                self._exchange(group)
            elif group.role == "assistant":
                self._response([TextPart(group.text)] if group.text.strip() else [])
            elif group.role == "tool":
                # Nothing asked for it: told as what it is, a result without its question.
                self.user(texts.orphaned_result(group.name, group.text))
            else:
                self.said(group)
        if not open_end and self.messages and isinstance(self.messages[-1], ModelRequest):
            # A turn that ended without an answer: the next question must not read as part of this one.
            self._response([TextPart(texts.NO_ANSWER)])

    def _exchange(self, exchange: _Exchange) -> None:
        parts: list[ModelResponsePart] = []
        data = exchange.said.data
        if data.get("provider") == self.provider:
            parts += [
                ThinkingPart(
                    thought["text"],
                    signature=thought.get("signature") or None,
                    id=thought.get("id") or None,
                    provider_name=self.provider,
                )
                for thought in data.get("thoughts", ())
            ]
        if exchange.said.text.strip():
            parts.append(TextPart(exchange.said.text))
        returns: list[ModelRequestPart] = []
        for call in exchange.calls:
            identifier = self._unique(call.id)
            result = exchange.results.get(call.id)
            name = texts.tool_name(call.name)
            parts.append(ToolCallPart(name, dict(call.arguments), tool_call_id=identifier))
            text = texts.NEVER_RETURNED if result is None else texts.tool_said(result)
            returns.append(ToolReturnPart(name, text or texts.EMPTY_RESULT, tool_call_id=identifier))
        self._response(parts)
        self._request(returns)
        for said in exchange.meanwhile:
            self.said(said)

    def _unique(self, identifier: str) -> str:
        """The id itself where it can be used once more, else one made of its place: the same on every load."""
        if not CALL_ID.fullmatch(identifier) or identifier in self.used:
            identifier = f"call_{len(self.used)}"
            while identifier in self.used:
                identifier += "_"
        self.used.add(identifier)
        return identifier

    def _request(self, parts: Sequence[ModelRequestPart]) -> None:
        last = self.messages[-1] if self.messages else None
        if isinstance(last, ModelRequest):
            self.messages[-1] = replace(last, parts=[*last.parts, *parts])
        else:
            self.messages.append(ModelRequest(list(parts)))

    def _response(self, parts: Sequence[ModelResponsePart]) -> None:
        if not parts:
            return
        last = self.messages[-1] if self.messages else None
        if isinstance(last, ModelResponse):
            self.messages[-1] = replace(last, parts=[*last.parts, *parts])
            return
        if last is None or not any(isinstance(part, UserPromptPart | ToolReturnPart) for part in last.parts):
            # Providers refuse a conversation that the assistant begins.
            self._request([UserPromptPart(texts.EARLIER)])
        self.messages.append(ModelResponse(list(parts)))


@dataclass
class _Exchange:
    """Calls of one step and their results; ``meanwhile``: what was said between them."""

    said: Said
    calls: tuple[ToolCall, ...]
    results: dict[str, Said] = field(default_factory=dict)
    meanwhile: list[Said] = field(default_factory=list)


def _groups(turn: Sequence[Said]) -> Iterator[Said | _Exchange]:
    """A turn with each step's calls and results together, whatever was said between them."""
    exchange: _Exchange | None = None
    for said in turn:
        calls = calls_from_json(said.data.get("calls", ())) if said.role == "assistant" else ()
        if calls:
            if exchange:
                yield exchange
            exchange = _Exchange(said, calls)
        elif exchange and said.role == "tool" and _asked_for(exchange, said):
            exchange.results[said.call] = said
        elif exchange and said.role == "user" and len(exchange.results) < len(exchange.calls):
            exchange.meanwhile.append(said)
        else:
            if exchange:
                yield exchange
            exchange = None
            yield said
    if exchange:
        yield exchange


def _asked_for(exchange: _Exchange, said: Said) -> bool:
    return said.call not in exchange.results and any(call.id == said.call for call in exchange.calls)

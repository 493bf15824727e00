"""Logs: structured, to standard error; JSON lines for programs, ``key=value`` in colour for a person at a terminal."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(*, level: int = logging.INFO) -> None:
    """Set up structlog, and the standard library's loggers with the same look."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor
    if sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer()
        ending: list[structlog.typing.Processor] = [renderer]
    else:
        renderer = structlog.processors.JSONRenderer(ensure_ascii=False)
        ending = [structlog.processors.format_exc_info, renderer]
    structlog.configure(
        processors=[*shared, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    # What a client that leaves, or one that waits at the end, makes its libraries say is no news to anybody.
    logging.getLogger("asyncio").addFilter(lambda record: "socket.send() raised" not in record.getMessage())
    logging.getLogger("uvicorn.error").addFilter(lambda record: "graceful shutdown" not in record.getMessage())
    logging.getLogger("mail.log").addFilter(lambda record: "login_data is deprecated" not in record.getMessage())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(level, logging.WARNING))

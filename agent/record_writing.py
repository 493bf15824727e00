"""Asking a model for the record of one turn. What it writes is believed only as far as the checker can follow it."""

from __future__ import annotations

import structlog

from agent import texts
from agent.context import said_of
from agent.engine import Engine, EngineError, Step
from agent.folding import fold
from agent.progress import SILENT
from agent.trajectory import Context, Said
from workspace_store.checkpoints import TurnRecord

log = structlog.get_logger()

ASKED = "turn"
TURN_CHARACTERS = 24_000


async def write(engine: Engine, record: TurnRecord) -> Step | None:
    """The step in which the engine answers with a record; None: it could not be asked."""
    turn = said_of(record)
    words = "\n\n".join(f"{said.role}: {said.words}" for said in turn)[:TURN_CHARACTERS]
    said = Said("user", texts.write_record(fold(turn)), message=ASKED, data={"context": words})
    try:
        return await engine.step(Context(texts.RECORD_WRITER, [], [], [], [said], texts.RECORD_STATUS), SILENT)
    except EngineError as error:
        log.info("a record is made by rule", reason=str(error))
        return None

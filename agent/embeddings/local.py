"""The local model as an embedder: its process is started when it is first needed and ended when it is not any more."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ctypes
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path

from agent.embeddings import minilm
from agent.embeddings.embedder import EmbedderAway

IDLE_SECONDS = 60.0
ANSWER_SECONDS = 60.0
LINE_BYTES = 16 << 20
PR_SET_PDEATHSIG = 1


class LocalEmbedder:
    """``folder``: where the model's files are unpacked. Satisfies Embedder."""

    model = minilm.MODEL

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: Process | None = None
        self._asking = asyncio.Lock()
        self._ending: asyncio.TimerHandle | None = None

    async def embed(self, texts: Sequence[str]) -> list[bytes | None]:
        if not texts:
            return []
        async with self._asking:
            if self._ending is not None:
                self._ending.cancel()
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    line = await self._ask(json.dumps(list(texts)).encode() + b"\n")
                return [base64.b64decode(one) for one in json.loads(line)]
            except (OSError, TimeoutError, ValueError) as error:
                await self._end()
                raise EmbedderAway(f"the local model does not answer ({error})") from error
            except asyncio.CancelledError:
                # Its answer would be taken for that to the next question.
                await self._end()
                raise
            finally:
                self._ending = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._let_go)

    async def _ask(self, question: bytes) -> bytes:
        process = self._process
        if process is None or process.returncode is not None:
            words = (sys.executable, "-m", "agent.embeddings.process", str(self._folder))
            process = self._process = await asyncio.create_subprocess_exec(
                *words, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES, preexec_fn=_die_with_parent
            )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(question)
        await process.stdin.drain()
        line = await process.stdout.readline()
        if not line:
            raise OSError("its process ended")
        return line

    def _let_go(self) -> None:
        if self._process is not None and self._process.stdin is not None and not self._asking.locked():
            self._process.stdin.close()
            self._process = None

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def close(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        await self._end()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

"""The process that runs the local model: texts in, vectors out, a JSON line each; ends with its input.

Apart, so that no service carries numpy's threads or the model's memory, and nothing waits for arithmetic.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def main(folder: str) -> int:
    for name in THREADS:
        os.environ.setdefault(name, "1")
    os.nice(5)
    from agent.embeddings import minilm

    found = minilm.archive()
    if found is None:
        return 1
    model = minilm.MiniLM(minilm.unpack(found, Path(folder)))
    for line in sys.stdin.buffer:
        vectors = model.embed(json.loads(line))
        sys.stdout.buffer.write(json.dumps([base64.b64encode(one).decode() for one in vectors]).encode() + b"\n")
        sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    from setproctitle import setproctitle

    setproctitle("nightporter: embedder")
    sys.exit(main(sys.argv[1]))

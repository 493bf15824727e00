"""``python -m nightporter``."""

import sys
from pathlib import Path

# Before the folder it was started in: an ``agent.py`` there must not pass for our package of that name.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nightporter.cli import main

if __name__ == "__main__":
    main()

"""Start of the guest agent: ``python3 -I -S -B <this folder>/__main__.py --fd N``."""

import importlib
import os
import sys

# Isolated mode leaves the folder of the program off the path; appended, it can shadow nothing of the library.
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if __name__ == "__main__":
    sys.exit(importlib.import_module("guest.main").main(sys.argv[1:]))

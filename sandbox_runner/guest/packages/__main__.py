"""Start: ``python3 -I -S -B <this folder> apt …``, as ``porter-apt`` in the sandbox does."""

import importlib
import os
import sys

# As the guest does: appended, the folder can shadow nothing of the library.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

if __name__ == "__main__":
    sys.exit(importlib.import_module("guest.packages.main").main(sys.argv[1:]))

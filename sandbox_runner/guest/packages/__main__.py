"""Start: ``python3 -I -S -B <this folder> apt …``, as ``porter-apt`` in the sandbox does."""

import os
import sys

# As the guest does: appended, the folder can shadow nothing of the library.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
__package__ = "guest.packages"

from .main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

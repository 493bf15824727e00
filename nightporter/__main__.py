"""``python -m nightporter``."""

from nightporter.cli import main

if __name__ == "__main__":
    main()

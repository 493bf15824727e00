"""Packages that a person installs for themselves, all below HOME: where they are, and getting Debian's there.

Standard library only, Python ≥ 3.9: inside the sandbox, on the guest's interpreter, as programs of their own.
"""

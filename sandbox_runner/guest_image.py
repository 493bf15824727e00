"""The guest agent as one file of code, for the Python it runs on: what every cold wake would find, read and compile.

A sandbox sees its guest read-only, so Python could never keep what it compiled there. The image holds what the guest
imports, its own modules and the library's, each decoded when it is imported, and its regular expressions compiled;
modules of the library that take long to import stand there with what the guest needs of them; anything else is found
as always. This file imports nothing but the library: it is also the script that makes an image,
run by the Python that the image is for.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import marshal
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

PROGRAM = "__main__.pyc"
_BUILD_SECONDS = 60

_START = """
import gc, sys
# Nothing that is made while starting is garbage.
gc.disable()
import _collections, _functools, _signal, _sre
from _frozen_importlib import ModuleSpec
from marshal import loads
MODULES, PATTERNS, FLAGS, SUPPRESS = loads(b"CONTENT")
folder = sys.argv[0].rpartition("/")[0]
class Image:
    @staticmethod
    def find_spec(name, path=None, target=None):
        found = MODULES.get(name)
        return found and ModuleSpec(name, Image, origin=f"{folder}/{found[0]}", is_package=found[1])
    @staticmethod
    def create_module(spec):
        return None
    @staticmethod
    def exec_module(module):
        module.__file__ = module.__spec__.origin
        exec(loads(MODULES.pop(module.__name__)[2]), module.__dict__)
sys.meta_path.insert(0, Image)
Module = type(sys)
class Light(Module):
    # What the guest needs of a module of the library that takes long to import; whatever else of it is asked for
    # brings the module itself.
    def __init__(self, name, **has):
        Module.__init__(self, name)
        vars(self).update(has)
        sys.modules[name] = self
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(__import__(self.__name__), name)
def compile(pattern, flags=0):
    found = PATTERNS.get((pattern, int(flags)))
    return _sre.compile(*found) if found else expressions.__getattr__("compile")(pattern, flags)
expressions = Light("re", compile=compile, **FLAGS)
Light("signal", **{name: value for name, value in vars(_signal).items() if name[:2] != "__"})
Light("collections", deque=_collections.deque, OrderedDict=_collections.OrderedDict)
Light("functools", partial=_functools.partial)
Light("contextlib", suppress=type("suppress", (), {
    name: type(compile)(code, {"__builtins__": __builtins__}) for name, code in SUPPRESS.items()
}))
from guest.main import main
gc.freeze()
gc.enable()
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""


def build(guest: Path, folder: Path, python: Path) -> Path:
    """The image of the guest in ``guest``, below ``folder``; made unless it is there. Blocking. Raises OSError.

    A folder that is no package (a stand-in for the guest) is its own image.
    """
    if not (guest / "__init__.py").exists():
        return guest
    image = folder / _key(guest, python)
    if not (image / PROGRAM).exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o755, parents=True)
        partial = folder / "partial"
        try:
            subprocess.run(
                [python, "-I", "-S", "-B", "-OO", "-X", "no_debug_ranges", __file__, guest, partial],
                check=True, capture_output=True, timeout=_BUILD_SECONDS, env={}, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.SubprocessError as error:
            said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().rpartition("\n")[2]
            raise OSError(f"cannot compile the guest agent: {said or error}") from error
        partial.rename(image)
    return image


def program(guest: Path) -> str:
    """What to run of a guest's folder, or of its image."""
    return PROGRAM if (guest / PROGRAM).exists() else "__main__.py"


def _key(guest: Path, python: Path) -> str:
    found = [os.fspath(python), sys.version, Path(__file__).read_text()]
    for path in sorted(guest.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            status = path.stat()
            found.append(f"{path.relative_to(guest)} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(found).encode()).hexdigest()[:16]


def _make(guest: Path, image: Path) -> None:
    """In the script: import the guest here, and write down what that took."""
    for name, _ in list(_from_files()):
        del sys.modules[name]
    sys.path.append(os.fspath(guest.parent))
    library = [importlib.import_module(name) for name in ("re", "signal", "collections", "functools", "contextlib")]
    expressions: Any = library[0]
    heavy = {name for name, _ in _from_files()}
    patterns = _recorded_patterns()
    importlib.import_module(f"{guest.name}.main")
    modules = {name: _coded(name, module) for name, module in _from_files() if name not in heavy}
    flags = {name: int(flag) for name, flag in expressions.RegexFlag.__members__.items()}
    methods = vars(importlib.import_module("contextlib").suppress).items()
    suppress = {name: _unplaced(each.__code__, "contextlib.py") for name, each in methods if hasattr(each, "__code__")}
    content = marshal.dumps((modules, patterns, flags, suppress))
    code = compile(_START, "guest", "exec", dont_inherit=True)
    code = code.replace(co_consts=tuple(content if each == b"CONTENT" else each for each in code.co_consts))
    image.mkdir(mode=0o755)
    # Never checked against a source (PEP 552).
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    (image / PROGRAM).write_bytes(header + marshal.dumps(code))
    for data in guest.iterdir():
        if data.is_file() and data.name != "__main__.py":
            # Modules too: the programs beside the guest import some of them.
            shutil.copyfile(data, image / data.name)
        elif data.is_dir() and data.name != "__pycache__":
            # Programs of their own, and what they import.
            shutil.copytree(data, image / data.name, ignore=shutil.ignore_patterns("__pycache__"))
    # Whatever this process takes from new files: others are to read these.
    for path in (image, *image.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.parent.name == "commands" else 0o644)


def _recorded_patterns() -> dict[tuple[str | bytes, int], tuple[Any, ...]]:
    """Arguments of ``_sre.compile``, by pattern and flags, for every expression that is compiled from now on."""
    sre: Any = importlib.import_module("_sre")
    library: Any = importlib.import_module("re")
    found: dict[tuple[str | bytes, int], tuple[Any, ...]] = {}
    compiled: list[tuple[Any, ...]] = []
    real_inner, real_outer = sre.compile, library._compiler.compile

    def inner(pattern: Any, flags: int, code: list[int], *groups: Any) -> Any:
        compiled.append((pattern, int(flags), [int(each) for each in code], *groups))
        return real_inner(pattern, flags, code, *groups)

    def outer(pattern: Any, flags: int = 0) -> Any:
        made = real_outer(pattern, flags)
        found[pattern, int(flags)] = compiled[-1]
        return made

    sre.compile, library._compiler.compile = inner, outer
    return found


def _from_files() -> Iterator[tuple[str, ModuleType]]:
    """What is imported and neither Python's own nor needed before anything else."""
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is not None and isinstance(spec.loader, SourceFileLoader) and not name.startswith("encodings"):
            yield name, module


def _coded(name: str, module: ModuleType) -> tuple[str, bool, bytes]:
    """The file a module came from, whether it is a package, its code."""
    spec = module.__spec__
    assert spec is not None
    assert spec.origin is not None
    assert isinstance(spec.loader, SourceFileLoader)
    code, file = spec.loader.get_code(name), os.path.basename(spec.origin)
    assert code is not None
    return file, spec.submodule_search_locations is not None, marshal.dumps(_unplaced(code, file))


def _unplaced(code: CodeType, name: str) -> CodeType:
    """The same without the host's path in it."""
    constants = tuple(_unplaced(each, name) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=name, co_consts=constants)


if __name__ == "__main__":
    _make(Path(sys.argv[1]), Path(sys.argv[2]))

"""Forking, done safely: from one thread only, and no child outlives its parent.

The parent opens no database, loop or thread before it forks: a lock held by a thread at that moment would stay
locked in the child for good.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

import structlog
from setproctitle import setproctitle

from nightporter.errors import FAILED, CommandError

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl
HANDLED_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


def thread_count() -> int:
    """Threads of this process as the kernel counts them, native ones too."""
    return len(os.listdir("/proc/self/task"))


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when ``parent`` ends, also when that was a moment ago; outlasts exec."""
    if _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(FAILED)


def fork(title: str, run: Callable[[], None], close: Iterable[int] = ()) -> int:
    """Run ``run`` in a child of that title and return its process id; the descriptors ``close`` are the parent's only.

    The child is in a session of its own, so that Ctrl-C reaches the parent alone, which ends its children in order.
    """
    if thread_count() != 1:
        raise RuntimeError("a process with threads must not fork services; something preloaded started one")
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
    try:
        child = os.fork()
        if child == 0:
            _child(parent, title, run, close, before)
        return child
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _child(
    parent: int, title: str, run: Callable[[], None], close: Iterable[int], mask: Iterable[int | signal.Signals]
) -> NoReturn:
    code = FAILED
    try:
        die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        for handled in HANDLED_SIGNALS:
            signal.signal(handled, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.setsid()
        for descriptor in close:
            os.close(descriptor)
        setproctitle(title)
        gc.enable()
        run()
        code = 0
    except CommandError as error:
        code = error.exit_code
        print(error, file=sys.stderr)
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        structlog.get_logger().exception("service.crashed", service=title)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

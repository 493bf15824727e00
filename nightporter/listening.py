"""The sockets that ``up`` listens on: bound once in the parent, so that a connection waits while a service restarts."""

from __future__ import annotations

import errno
import socket

from nightporter import texts
from nightporter.errors import ConfigurationError
from workspace_store.section import Address

BACKLOG = 512


def listen(setting: str, address: Address) -> socket.socket:
    """Bind and listen; ``ConfigurationError`` names the setting and says what to do."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise ConfigurationError(texts.host_unknown(setting, address, str(error))) from error
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigurationError(texts.port_in_use(setting, address)) from error
        raise ConfigurationError(texts.cannot_listen(setting, address, error.strerror or str(error))) from error
    return listening


def address_of(listening: socket.socket) -> Address:
    """Where a socket really listens."""
    host, port = listening.getsockname()[:2]
    return Address(host, port)

"""A process that talks to the network for a forked child, in which obstore's threads are gone.

A child that is forked after its parent has used obstore would wait for ever at its first request.
It starts this program instead, and both end together.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
from functools import partial
from importlib import import_module
from itertools import count
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from roboreel.errors import RemoteError
from roboreel.forking import python_command
from roboreel.mirror.addresses import client_module
from roboreel.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from roboreel.mirror.addresses import Address
    from roboreel.mirror.client import Client

_THREADS = 48
_START = "from roboreel.remote.helper import main; main()"


class _Helper:
    """The other end of the connection, for one process."""

    def __init__(self) -> None:
        self.process = os.getpid()
        ours, theirs = socket.socketpair()
        try:
            command = python_command(_START, str(theirs.fileno()))
            # Not waited for: it ends when the connection does.
            self._program = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        finally:
            theirs.close()
        self._connection = Connection(ours.detach())
        self._guard = threading.Lock()
        self._numbers = count()
        self._waiting: dict[int, SimpleQueue[tuple[bool, Any]]] = {}
        threading.Thread(target=self._receive, name="roboreel-helper", daemon=True).start()

    def ask(self, address: Address, options: Mapping[str, Any], call: tuple[Any, ...]) -> Any:  # noqa: ANN401
        """Have a method of a client called, and return what it returns."""
        answer: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        try:
            with self._guard:
                number = next(self._numbers)
                self._waiting[number] = answer
                self._connection.send((number, address, dict(options), call))
        except (OSError, TypeError, AttributeError) as error:
            raise RemoteError(
                f"A forked process cannot reach the network ({type(error).__name__}). Start workers "
                "by 'spawn', or give a credential_provider that can be pickled."
            ) from None
        is_error, value = answer.get()
        if is_error:
            raise value
        return value

    def _receive(self) -> None:
        try:
            while True:
                number, is_error, value = self._connection.recv()
                self._waiting.pop(number).put((is_error, value))
        except (EOFError, OSError):
            ended = RemoteError("The process that talks to the network for this one has ended.")
            for answer in list(self._waiting.values()):
                answer.put((True, ended))


_helpers: list[_Helper] = []
_starting = threading.Lock()


def ask_helper(address: Address, options: Mapping[str, Any], *call: Any) -> Any:  # noqa: ANN401
    """Have a client's method called by the helper of this process, which is started if needed.

    Args:
        address: What the client reads.
        options: How it connects.
        *call: The name of the method, and its arguments.
    """
    with _starting:
        if not _helpers or _helpers[0].process != os.getpid():
            _helpers[:] = [_Helper()]
    return _helpers[0].ask(address, options, call)


def serve(connection: Connection) -> None:
    """Answer until the other end is gone."""
    clients: dict[bytes, Client] = {}
    guard = threading.Lock()
    pool = ThreadPool(_THREADS, "roboreel-fetch", waits_at_exit=False)

    def client_of(address: Address, options: Mapping[str, Any]) -> Client:
        # Of equal options, pickles may differ: they are then connected to once more.
        key = pickle.dumps((address, sorted(options.items())))
        with guard:
            if key not in clients:
                module: Any = import_module(client_module(address.scheme))
                clients[key] = module.connect(address, options)[0]
            return clients[key]

    def answer(number: int, work: Callable[[], Any]) -> None:
        try:
            said = (number, False, work())
        except Exception as error:  # noqa: BLE001  # raised at the other end
            said = (number, True, error)
        with guard:
            connection.send(said)

    while True:
        try:
            number, address, options, (method, *arguments) = connection.recv()
        except (EOFError, OSError):
            return

        def work(
            address: Address, options: Mapping[str, Any], method: str, arguments: list[Any]
        ) -> Any:  # noqa: ANN401
            return _plain(getattr(client_of(address, options), method)(*arguments))

        pool.submit(answer, number, partial(work, address, options, method, arguments))


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return a value that can be pickled."""
    if isinstance(value, memoryview):
        return bytes(value)
    if hasattr(value, "__next__"):
        return [bytes(part) for part in value]
    return value


def main() -> None:
    """Answer the process that started this one: the argument is the connection."""
    serve(Connection(int(sys.argv[1])))
    os._exit(0)  # Whatever a server has not answered.

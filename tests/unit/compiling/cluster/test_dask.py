"""What is heard of a Dask cluster, with a Dask in place of the real one that does as a test says."""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from hatch_cubin.compiling.cluster import dask as dask_module
from hatch_cubin.compiling.cluster import worker_side
from hatch_cubin.compiling.cluster.dask import DaskCluster
from hatch_cubin.compiling.cluster.identity import Identity
from hatch_cubin.compiling.cluster.lease import FileListing, Lease
from hatch_cubin.compiling.cluster.shipped_files import SourceArchive
from hatch_cubin.compiling.cluster.worker_side import BuildRequirements
from hatch_cubin.compiling.cluster.workers import (
    Event,
    LeaseAnswered,
    NoMoreWorkers,
    WorkerJoined,
    WorkerLost,
    WorkerUnfit,
)

from .fake_workers import LISTING, task

REQUIREMENTS = BuildRequirements(Identity("1.2", "keys 1", "code", "lp64", "", "13.5.37"), None)
ARCHIVE = SourceArchive(
    FileListing.of({77: "77"}, ["77"], {"77/a.h": ("project/a.h", "of a")}), {"of a": b"a"}
)
LEASE = Lease(7, "build", "process", LISTING, (task(1),), 60.0, 0)
WELL = {"status": "running", "nthreads": 2, "memory_limit": 1000, "last_seen": 1.0}

Answer = Callable[..., Any]
Begin = Callable[..., DaskCluster]


class FakeDask:
    """The part of `distributed` that is used, and the cluster behind it."""

    __version__ = "2026.8.0"

    def __init__(self) -> None:
        self.workers: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, Answer] = {
            "version": lambda _name: "1.2",
            "identify": lambda *_asked: ("process", None),
            "store_files": lambda _asked, _listing, blobs=b"": [] if blobs else ["of a"],
            "compile_lease": lambda _asked, lease: f"reply to {lease.number}",
        }
        self.asked: list[tuple[str, str]] = []  # who was asked what
        self.stopped: list[tuple[str, list[str]]] = []
        self.looks = 0
        self.clients: list[FakeClient] = []
        self.at_look: dict[int, Callable[[], object]] = {}
        self.refusal: Exception | None = None
        self.files: dict[str, str | None] = dict.fromkeys(
            ["tls_ca_file", "tls_client_cert", "tls_client_key"]
        )
        self.theirs: Any = {"packages": {"distributed": self.__version__}}
        self.beats = True
        self.core = SimpleNamespace(rpc=self._rpc)

    def Client(self, address: str, **_options: object) -> FakeClient:  # noqa: N802 - Dask's name
        self.clients.append(client := FakeClient(self, address))
        return client

    def cut(self) -> None:
        """Lose the connection."""
        self.clients[0].status = "connecting"

    def Security(self) -> SimpleNamespace:  # noqa: N802 - Dask's name
        return SimpleNamespace(get_connection_args=lambda _role: {}, **self.files)

    def _rpc(self, _address: str, connection_args: object) -> Any:
        theirs = self.theirs

        class Rpc:
            async def __aenter__(self) -> Any:
                return self

            async def __aexit__(self, *_raised: object) -> None:
                pass

            async def versions(self, packages: object) -> object:
                assert packages == []
                if isinstance(theirs, Exception):
                    raise theirs
                return theirs

        assert connection_args == {}
        return Rpc()


class FakeClient:
    def __init__(self, dask: FakeDask, address: str) -> None:
        self._dask, self.address, self.scheduler, self.status = dask, address, self, "running"
        self.security = dask.Security()

    def __await__(self) -> Any:
        async def connect() -> FakeClient:
            if self._dask.refusal is not None:
                raise self._dask.refusal
            return self

        return connect().__await__()

    async def identity(self, n_workers: int) -> dict[str, Any]:
        assert n_workers == -1
        dask = self._dask
        dask.looks += 1
        if act := dask.at_look.get(dask.looks):
            act()
        if dask.refusal is not None:
            raise dask.refusal
        for facts in dask.workers.values():
            facts["last_seen"] += dask.beats
        return {"workers": {name: dict(facts) for name, facts in dask.workers.items()}}

    async def submit(self, function: Any, argument: Any, **options: Any) -> Any:
        (worker,) = options.pop("workers")
        assert options == {"allow_other_workers": False, "retries": 0, "pure": False}
        arguments: tuple[Any, ...] = (argument,)
        if function is worker_side.call_packed:
            function, arguments = pickle.loads(argument)  # noqa: S301 - of these tests
        self._dask.asked.append((worker, function.__name__))
        answer = self._dask.answers[function.__name__](*arguments)
        return await answer if asyncio.iscoroutine(answer) else answer

    async def run(self, function: Any, build: str, workers: list[str], on_error: str) -> None:
        assert (function, on_error) == (worker_side.stop, "ignore")
        self._dask.stopped.append((build, workers))

    async def close(self) -> None:
        pass


@pytest.fixture
def dask(monkeypatch: pytest.MonkeyPatch) -> FakeDask:
    fake = FakeDask()
    monkeypatch.setitem(sys.modules, "distributed", fake)
    monkeypatch.setattr(dask_module, "_LOOK_S", 0.001)
    return fake


@pytest.fixture
def cluster(dask: FakeDask) -> Iterator[Begin]:
    """Return what begins to talk to the cluster."""
    made: list[DaskCluster] = []

    def begin(address: str = "tcp://head:8786") -> DaskCluster:
        made.append(DaskCluster("dask://head:8786", address, REQUIREMENTS, ARCHIVE))
        return made[-1]

    yield begin
    for each in made:
        each.close()
        each._thread.join(60)
        assert not each._thread.is_alive()


def heard(cluster: DaskCluster, count: int = 1) -> list[Event]:
    return [cluster.events.get(timeout=60) for _ in range(count)]


def test_a_worker_is_asked_then_given_what_it_lacks_then_ready(dask: FakeDask, cluster: Begin) -> None:
    dask.workers["tcp://a"] = dict(WELL)
    assert heard(cluster()) == [WorkerJoined("tcp://a", "process", 2, 500)]
    assert [what for _who, what in dask.asked] == ["version", "identify", "store_files", "store_files"]


def test_who_has_all_is_given_nothing_and_may_have_no_limit(dask: FakeDask, cluster: Begin) -> None:
    dask.answers["store_files"] = lambda *_parts: []
    dask.workers["tcp://a"] = {**WELL, "nthreads": 0, "memory_limit": None}
    assert heard(cluster()) == [WorkerJoined("tcp://a", "process", 1, 0)]
    assert [what for _who, what in dask.asked] == ["version", "identify", "store_files"]


def raising(exc: BaseException) -> Answer:
    def answer(*_arguments: object) -> object:
        raise exc

    return answer


async def _never() -> None:
    await asyncio.Event().wait()


NOBODY = importlib.metadata.PackageNotFoundError("hatch-cubin")
FULL = OSError(28, "No space left on device")
OTHER = "the worker has NVRTC 13.4.92, but this build has 13.5.37"
MISFITS: dict[str, tuple[str, Answer]] = {
    "hatch-cubin is not installed on the worker; this build uses 1.2": ("version", raising(NOBODY)),
    "the worker has hatch-cubin 1.1, but this build has 1.2": ("version", lambda _name: "1.1"),
    OTHER: ("identify", lambda *_: ("process", OTHER)),
    "ImportError: no name": ("identify", raising(ImportError("no name\nmore of it"))),
    "OSError: [Errno 28] No space left on device": ("store_files", raising(FULL)),
    "the worker does not keep the files that the build sends": ("store_files", lambda *_: ["of a"]),
    "the worker did not answer within 0.01 s": ("version", lambda *_: _never()),
    "MemoryError": ("identify", raising(MemoryError())),
}


def test_a_worker_that_drops_files_for_another_build_is_given_them_again(
    dask: FakeDask, cluster: Begin
) -> None:
    missing_files = iter([["of a"], ["of a"], []])
    dask.answers["store_files"] = lambda *_parts: next(missing_files)
    dask.workers["tcp://a"] = dict(WELL)
    assert heard(cluster()) == [WorkerJoined("tcp://a", "process", 2, 500)]


@pytest.mark.parametrize("why", MISFITS)
def test_why_a_worker_cannot_compile_is_told_once(
    dask: FakeDask, cluster: Begin, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    asked, answer = MISFITS[why]
    if "within" in why:
        monkeypatch.setattr(dask_module, "_ANSWER_S", 0.01)
    dask.answers[asked] = answer
    dask.workers["tcp://a"] = dict(WELL)
    begun = cluster()
    assert heard(begun) == [WorkerUnfit("tcp://a", why)]
    dask.at_look[dask.looks + 3] = dask.workers.clear
    dask.at_look[dask.looks + 4] = lambda: setattr(dask, "refusal", OSError("over"))
    assert heard(begun) == [NoMoreWorkers("the scheduler does not answer any more: OSError: over")]


def test_a_lease_is_answered_or_told_why_not(dask: FakeDask, cluster: Begin) -> None:
    dask.workers["tcp://a"] = dict(WELL)
    begun = cluster()
    heard(begun)
    begun.give("tcp://a", LEASE)
    assert heard(begun) == [LeaseAnswered(7, "reply to 7")]
    dask.answers["compile_lease"] = raising(OSError(28, "No space left on device"))
    begun.give("tcp://a", LEASE)
    assert heard(begun) == [LeaseAnswered(7, None, "OSError: [Errno 28] No space left on device")]
    begun.close()
    assert dask.stopped == [("build", ["tcp://a"])]
    begun.give("tcp://a", LEASE)  # to nobody
    begun.close()


def test_who_is_gone_silent_or_paused_is_lost_and_may_come_back(
    dask: FakeDask, cluster: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    dask.workers["tcp://a"] = dict(WELL)
    dask.answers["compile_lease"] = lambda *_: _never()
    begun = cluster()
    joined = WorkerJoined("tcp://a", "process", 2, 500)
    assert heard(begun) == [joined]
    begun.give("tcp://a", LEASE)
    dask.workers["tcp://a"]["status"] = "paused"
    assert heard(begun) == [WorkerLost("tcp://a", "the worker's status is 'paused'", ended=False)]
    dask.workers["tcp://a"]["status"] = "running"
    assert heard(begun) == [joined]
    monkeypatch.setattr(dask_module, "_SILENT_S", 0.05)
    dask.beats = False
    assert heard(begun) == [WorkerLost("tcp://a", "the worker has not sent a heartbeat for 0 s")]
    assert begun.expected_workers == 1
    dask.beats = True
    assert heard(begun) == [joined]
    dask.workers.clear()
    assert heard(begun) == [WorkerLost("tcp://a", "the worker has left the cluster")]


def test_without_its_connection_a_build_cannot_know_what_became_of_its_leases(
    dask: FakeDask, cluster: Begin
) -> None:
    dask.at_look[3] = dask.cut
    begun = cluster()
    assert heard(begun) == [NoMoreWorkers("the connection to the scheduler is lost")]


def test_why_nobody_was_seen_is_told_before_hope_is_given_up(
    dask: FakeDask, cluster: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_module, "_LOOK_S", 3600)
    dask.at_look[1] = lambda: setattr(dask, "refusal", OSError("over"))
    begun = cluster()
    assert begun._connected.wait(60)
    told = begun.events.get_nowait()
    assert told == NoMoreWorkers("the scheduler does not answer any more: OSError: over")


def test_who_is_paused_or_gone_before_it_is_ready_is_no_hope(dask: FakeDask, cluster: Begin) -> None:
    dask.answers["identify"] = lambda *_: _never()
    dask.workers = {"tcp://a": dict(WELL), "tcp://b": {**WELL, "status": "paused"}}
    asked, over = threading.Event(), threading.Event()
    begun = cluster()

    def leave() -> None:
        dask.workers.clear()
        asked.set()

    dask.at_look[dask.looks + 5] = leave
    dask.at_look[dask.looks + 9] = over.set
    assert asked.wait(60)
    assert over.wait(60)
    assert {who for who, _what in dask.asked} == {"tcp://a"}
    assert begun.expected_workers == 1  # somebody else may come
    dask.cut()
    assert heard(begun) == [NoMoreWorkers("the connection to the scheduler is lost")]


def test_what_is_not_answered_yet_is_dropped_at_the_end(dask: FakeDask, cluster: Begin) -> None:
    dask.workers["tcp://a"] = dict(WELL)
    begun, asked = cluster(), threading.Event()
    heard(begun)

    async def begin(*_lease: object) -> None:
        asked.set()
        await _never()

    dask.answers["compile_lease"] = begin
    begun.give("tcp://a", LEASE)
    assert asked.wait(60)
    begun.close()
    assert not begun._thread.is_alive()
    assert begun.events.empty()


def test_hopes_are_given_up_where_nobody_comes(
    dask: FakeDask, cluster: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_module, "_PATIENCE_S", 0.0)
    looked, look = threading.Event(), threading.Event()
    dask.at_look = {1: lambda: look.wait(60), 3: looked.set}
    begun = cluster()
    assert begun.expected_workers == 1
    look.set()
    assert looked.wait(60)
    assert begun.expected_workers == 0


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        (
            {"packages": {"distributed": "2024.8.0"}},
            NoMoreWorkers(
                (
                    "the cluster has version 2024.8.0 of the package 'distributed', "
                    "but this machine has version 2026.8.0"
                ),
                "this machine and the cluster need the same version: pip install distributed==2024.8.0",
            ),
        ),
        (
            {"packages": {"distributed": "2026.8.0"}},
            NoMoreWorkers(
                "TypeError: identity() got an unexpected keyword argument 'n_workers'",
                (
                    "check that the scheduler is running, is reachable from this machine, and does not "
                    "require certificates"
                ),
            ),
        ),
        (
            OSError("nobody is there"),
            NoMoreWorkers(
                "TypeError: identity() got an unexpected keyword argument 'n_workers'",
                (
                    "check that the scheduler is running, is reachable from this machine, and does not "
                    "require certificates"
                ),
            ),
        ),
    ],
    ids=["other", "same", "unknown"],
)
def test_where_dasks_do_not_understand_each_other_both_are_named(
    dask: FakeDask, cluster: Begin, theirs: Any, said: NoMoreWorkers
) -> None:
    dask.refusal, dask.theirs = TypeError("identity() got an unexpected keyword argument 'n_workers'"), theirs
    begun = cluster()
    assert heard(begun) == [said]
    begun._thread.join(60)
    assert begun.expected_workers == 0


NAMES = (
    "set the certificates in Dask's configuration, or in the variables "
    "DASK_DISTRIBUTED__COMM__TLS__CA_FILE and DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT"
)
TRUST = (
    "check that the scheduler is running, and that the certificates of the scheduler and of this machine are "
    "valid and signed by the same CA"
)
CERTIFICATES = {"tls_ca_file": __file__, "tls_client_cert": "-----BEGIN CERTIFICATE-----\n"}
MISSING = "tls:// needs certificates, but distributed.comm.tls"
REFUSED = NoMoreWorkers("OSError: certificate expired", TRUST)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, NoMoreWorkers(f"{MISSING}.ca-file is not set", NAMES)),
        ({"tls_ca_file": __file__}, NoMoreWorkers(f"{MISSING}.client.cert is not set", NAMES)),
        (
            {**CERTIFICATES, "tls_client_key": "gone.pem"},
            NoMoreWorkers("distributed.comm.tls.client.key is 'gone.pem', which is not a file", NAMES),
        ),
        (CERTIFICATES, REFUSED),
        ({**CERTIFICATES, "tls_client_key": __file__}, REFUSED),
    ],
    ids=["none", "one", "gone", "together", "all"],
)
def test_what_is_wrong_with_certificates_is_told(
    dask: FakeDask, cluster: Begin, files: dict[str, str], said: NoMoreWorkers
) -> None:
    dask.files |= files
    dask.refusal, dask.theirs = OSError("certificate expired"), OSError("nobody is there")
    assert heard(cluster("tls://head:8786")) == [said]


def test_certificates_that_dask_cannot_even_read_are_told(
    dask: FakeDask, cluster: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_address: str, **_options: object) -> FakeClient:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(dask, "Client", refuse)
    dask.files["tls_ca_file"] = "gone.pem"
    said = "distributed.comm.tls.ca-file is 'gone.pem', which is not a file"
    assert heard(cluster("tls://head:8786")) == [NoMoreWorkers(said, NAMES)]


def test_without_dask_that_is_said(cluster: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert heard(cluster()) == [
        NoMoreWorkers(
            "Dask's package 'distributed' is not installed on this machine",
            ("pip install 'hatch-cubin[dask]'"),
        )
    ]


def test_what_breaks_within_is_told_too(dask: FakeDask, cluster: Begin) -> None:
    dask.workers["tcp://a"] = {"last_seen": 1.0}
    assert heard(cluster()) == [NoMoreWorkers("KeyError: 'status'")]


def test_dask_itself_keeps_quiet(dask: FakeDask, cluster: Begin) -> None:
    logger = logging.getLogger("distributed.client")
    before = logger.level
    try:
        logger.setLevel(logging.WARNING)
        dask.workers["tcp://a"] = dict(WELL)
        heard(cluster())
        assert not logger.isEnabledFor(logging.CRITICAL)
    finally:
        logger.setLevel(before)

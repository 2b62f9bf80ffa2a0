"""Build on a machine that has nothing, behind a bucket that has all: ours, and sccache's."""

from __future__ import annotations

import json
import logging
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from commands import COMMAND, CORES, forget, in_front, nvcc_each, version
from measuring import Cost, Row, cost, environment, in_turn
from projects import ARCHS, small_project


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    with _bucket() as surroundings:
        for kernels in (3, 15) if quick else (10, 25):  # a hit takes sccache half a second
            yield _row(small_project(folder / str(kernels), kernels), kernels, surroundings, quick=quick)


def _row(root: Path, kernels: int, surroundings: Mapping[str, str], *, quick: bool) -> Row:
    """Fill the bucket from both sides, then ask it for everything."""
    what = f"bake of {kernels * len(ARCHS)} units that a bucket has"
    ours = {**surroundings, "HATCH_CUBIN_REMOTE": "s3://bucket/ours", "HATCH_CUBIN_JOBS": str(CORES)}
    bake = [*COMMAND, "bake"]
    cost(bake, root, {**ours, "HATCH_CUBIN_REMOTE_WRITE": "1"})

    def fetch() -> Cost:
        forget(root)
        return cost(bake, root, {**ours, "HATCH_CUBIN_REQUIRE_HITS": "1"})

    if not (command := in_front("sccache")):
        return Row(what, "sccache in front of nvcc", fetch().wall, None)
    sources = [f"bench/small_{number}.cu" for number in range(kernels)]
    _sccache(command, root, sources, surroundings)
    mine, theirs = in_turn(
        fetch, lambda: _sccache(command, root, sources, surroundings, misses=0), quick=quick
    )
    against = f"sccache in front of nvcc {version('nvcc', command[1])}, {CORES} at once"
    return Row(what, against, mine.wall, theirs.wall)


def _sccache(
    command: tuple[str, str],
    root: Path,
    sources: list[str],
    surroundings: Mapping[str, str],
    misses: int | None = None,
) -> Cost:
    """Compile each unit behind a server that has just begun; RuntimeError where it had other *misses*."""
    try:
        took = nvcc_each(root, command, sources, surroundings)
        show = [command[0], "--show-stats", "--stats-format", "json"]
        said = subprocess.run(show, env=environment(surroundings), capture_output=True, check=True).stdout
        found = sum(json.loads(said)["stats"]["cache_misses"]["counts"].values())
        if misses is not None and found != misses:
            raise RuntimeError(f"sccache had {found} misses")
        return took
    finally:
        subprocess.run(
            [command[0], "--stop-server"], env=environment(surroundings), capture_output=True, check=False
        )


@contextmanager
def _bucket() -> Iterator[dict[str, str]]:
    """Run an S3 with a bucket, and return the variables by which both find it."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # or each request would be a line
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).close()  # noqa: S310
    try:
        yield {
            "AWS_ACCESS_KEY_ID": "ada",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_ENDPOINT_URL": url,
            "AWS_REGION": "us-east-1",
            "NO_PROXY": "127.0.0.1",
            "SCCACHE_BUCKET": "bucket",
            "SCCACHE_ENDPOINT": url,
            "SCCACHE_REGION": "us-east-1",
            "SCCACHE_S3_USE_SSL": "false",
        }
    finally:
        server.stop()

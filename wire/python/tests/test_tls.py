"""A server elsewhere, over TCP with TLS and a token."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import need
from langgraph.checkpoint.base import empty_checkpoint

from langgraph.checkpoint.stele import AsyncSteleSaver, SteleSaver, errors
from langgraph.checkpoint.stele._endpoint import find_binary
from langgraph.store.stele import AsyncSteleStore, SteleStore

TOKEN = "a-token-of-some-length"
CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


class Certificate(NamedTuple):
    """A certificate for localhost that has signed itself."""

    file: Path
    key: Path

    def trusted(self) -> ssl.SSLContext:
        """What a client has that trusts it, and nothing else."""
        return ssl.create_default_context(cafile=str(self.file))


class Server(NamedTuple):
    """One that `stele serve --listen tls:...` runs."""

    port: str
    certificate: Certificate

    @property
    def url(self) -> str:
        return f"tls:localhost:{self.port}"


def make_certificate(into: Path, name: str) -> Certificate:
    openssl = shutil.which("openssl")
    need(openssl, "openssl")
    assert openssl is not None
    made = Certificate(into / f"{name}.pem", into / f"{name}-key.pem")
    subprocess.run(
        [
            openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
            "-keyout", made.key, "-out", made.file,
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("tls")
    certificate = make_certificate(root, "server")
    (root / "token").write_text(f"{TOKEN}\n")
    process = subprocess.Popen(
        [
            find_binary(), "serve", root / "store", "--listen=tls:127.0.0.1:0",
            f"--token-file={root / 'token'}", f"--tls-cert={certificate.file}",
            f"--tls-key={certificate.key}",
        ],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("ready tls:127.0.0.1:")
        yield Server(ready.strip().rpartition(":")[2], certificate)
    finally:
        process.terminate()
        process.communicate()


async def test_the_right_certificate_and_token(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = server.certificate.trusted()
    checkpoint = empty_checkpoint()
    large = os.urandom(3 << 20)  # many records of TLS
    checkpoint["channel_values"] = {"a": large}
    checkpoint["channel_versions"] = {"a": "1"}
    with SteleSaver.from_url(server.url, token=TOKEN, tls=tls) as saver:
        saver.put(CONFIG, checkpoint, {"step": 1}, {"a": "1"})
        found = saver.get_tuple(CONFIG)
        assert found is not None and found.checkpoint["channel_values"] == {"a": large}
        assert len(list(saver.list(CONFIG))) == 1
    monkeypatch.setenv("STELE_TOKEN", TOKEN)
    async with AsyncSteleSaver.from_url(server.url, tls=tls) as asaver:
        for found in await asyncio.gather(*(asaver.aget_tuple(CONFIG) for _ in "1234")):
            assert found is not None
            assert found.checkpoint["channel_values"] == {"a": large}
    with SteleStore.from_url(server.url, tls=tls) as store:
        store.put(("a",), "k", {"v": 1})
    async with AsyncSteleStore.from_url(server.url, tls=tls) as astore:
        item = await astore.aget(("a",), "k")
        assert item is not None and item.value == {"v": 1}


@pytest.mark.parametrize("token", ["a-token-of-some-lengtH", None, "", "x" * 10_000])
async def test_a_wrong_token(
    server: Server, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STELE_TOKEN", raising=False)
    tls = server.certificate.trusted()
    with pytest.raises(errors.AuthError, match="STELE_TOKEN"):
        SteleSaver.from_url(server.url, token=token, tls=tls).setup()
    with pytest.raises(PermissionError, match="STELE_TOKEN"):
        await AsyncSteleSaver.from_url(server.url, token=token, tls=tls).asetup()


@pytest.mark.parametrize("case", ["the system's", "another", "another name"])
async def test_a_certificate_that_is_not_trusted(
    server: Server, tmp_path: Path, case: str
) -> None:
    url, tls = server.url, server.certificate.trusted()
    if case == "the system's":
        tls = ssl.create_default_context()
    elif case == "another":  # of the same name, and not the server's
        tls = make_certificate(tmp_path, "stranger").trusted()
    else:
        url = f"tls:127.0.0.1:{server.port}"
    # Nothing is asked again: a minute would be over before it failed.
    with pytest.raises(errors.SteleConnectionError, match="trusts the server's"):
        SteleSaver.from_url(url, token=TOKEN, tls=tls, connect_timeout=60).setup()
    with pytest.raises(ConnectionError, match="trusts the server's"):
        saver = AsyncSteleSaver.from_url(url, token=TOKEN, tls=tls, connect_timeout=60)
        await saver.asetup()


async def test_without_tls(server: Server) -> None:
    url = server.url.replace("tls:", "tcp:")
    with pytest.raises(errors.SteleConnectionError, match="the address is right"):
        SteleSaver.from_url(url, token=TOKEN, connect_timeout=0.05).setup()
    with pytest.raises(ConnectionError, match="the address is right"):
        saver = AsyncSteleSaver.from_url(url, token=TOKEN, connect_timeout=0.05)
        await saver.asetup()

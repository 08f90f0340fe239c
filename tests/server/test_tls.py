"""Encryption to a real server: what each sslmode takes and refuses, client certificates, SCRAM that
is bound to the connection, and cancel requests."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from engine_runs import Run, config
from tls_files import Authority, encrypt_key, give, self_signed

from patience import wait_until
from pgdyno._engine import EngineError, Load
from pgdyno.errors import SetupError
from pgdyno.server import Cluster
from pgdyno.server.connecting.connect import resolve_conninfo

pytestmark = pytest.mark.server

HBA = """\
local all all trust
hostssl all certified 127.0.0.1/32 cert
hostssl all trusted 127.0.0.1/32 trust
hostssl all scram 127.0.0.1/32 scram-sha-256
hostssl all md5 127.0.0.1/32 md5
hostssl all password 127.0.0.1/32 password
hostnossl all clear 127.0.0.1/32 trust
"""


@dataclass
class Encrypted:
    """A server that encrypts, and the authorities around it."""

    cluster: Cluster
    ours: Authority
    other: Authority
    client: tuple[Path, Path]

    def load(self, sql: str = "select 1;", **changes: Any) -> str:
        """A load over TCP as ``trusted``, to the name that the certificate has."""
        made = json.loads(config(self.cluster.conninfo_tcp, sql))
        made["target"] |= {"user": "trusted", "password": "secret", "sslmode": "require"}
        place = {"host": changes.pop("host", "db.test"), "hostaddr": "127.0.0.1"}
        made["target"]["hosts"][0] |= place
        made["target"] |= {key: str(v) if isinstance(v, Path) else v for key, v in changes.items()}
        return json.dumps(made)

    def use(self, certificate: Path, key: Path) -> None:
        """Have the server show this certificate."""
        data = self.cluster.data_dir
        for source, name in ((certificate, "server.crt"), (key, "server.key")):
            shutil.copy(source, data / name)
            give(data / name, data).chmod(0o600)
        self.execute("select pg_reload_conf()")
        shown = certificate.read_text()
        wait_until(lambda: shown in self._shown(), "the server shows its new certificate")

    def _shown(self) -> str:
        port = self.cluster.conninfo_tcp.port
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(b"\0\0\0\x08\x04\xd2\x16\x2f")
            if raw.recv(1) != b"S":
                return ""
            with context.wrap_socket(raw) as wrapped:
                return ssl.DER_cert_to_PEM_cert(wrapped.getpeercert(True) or b"")

    def execute(self, sql: str) -> list[Any]:
        """On a connection that is made for it."""
        with psycopg.connect(**self.cluster.conninfo.kwargs(), autocommit=True) as connection:
            cursor = connection.execute(sql)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="module")
def encrypted(
    installation_of: Callable[[int], Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Encrypted]:
    """PostgreSQL 15 with a certificate for db.test, and roles for each way to log in."""
    folder = tmp_path_factory.mktemp("tls")
    ours, other = Authority(folder, "ours"), Authority(folder, "other")
    with Cluster.create(installation_of(15), {}) as cluster:
        made = Encrypted(cluster, ours, other, ours.issue("client", "certified"))
        data = cluster.data_dir
        shutil.copy(ours.certificate, data / "ca.crt")
        give(data / "ca.crt", data)
        for role, stored in (("scram", "scram-sha-256"), ("md5", "md5"), ("password", "md5")):
            made.execute(
                f"set password_encryption = '{stored}'; create role {role} login password 'secret'"
            )
        for role in ("certified", "trusted", "clear"):
            made.execute(f"create role {role} login")
        Path(made.execute("show hba_file")[0][0]).write_text(HBA)
        certificate, key = ours.issue("server", "ignored", "DNS:db.test,DNS:*.wild.test")
        for source, name in ((certificate, "server.crt"), (key, "server.key")):
            shutil.copy(source, data / name)
            give(data / name, data).chmod(0o600)
        made.execute("alter system set ssl_ca_file = 'ca.crt'")
        made.execute("alter system set ssl = on")
        made.use(certificate, key)
        yield made


def works(load: str) -> None:
    with Run(load) as run:
        run.wait_for(lambda run: run.total["connects"] == 4)
        run.wait_for_more("done", 20)
    run.assert_balanced()
    assert not run.errors
    assert run.histogram("tls").count == 4


def refusal(load: str) -> EngineError:
    with pytest.raises(EngineError) as caught:
        Load(load).start()
    return caught.value


@pytest.mark.parametrize("mode", ["allow", "prefer", "require"])
def test_encryption_that_proves_nothing(encrypted: Encrypted, mode: str) -> None:
    works(encrypted.load(sslmode=mode))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_versions_of_tls(encrypted: Encrypted, version: str) -> None:
    bounds = {"ssl_min_protocol_version": version, "ssl_max_protocol_version": version}
    load = encrypted.load("select version from pg_stat_ssl where pid = pg_backend_pid();", **bounds)
    works(load)


@pytest.mark.parametrize("mode", ["prefer", "require", "verify-ca", "verify-full"])
def test_the_right_certificate_is_taken(encrypted: Encrypted, mode: str) -> None:
    works(encrypted.load(sslmode=mode, sslrootcert=encrypted.ours.certificate))


def test_a_star_in_the_name_is_taken(encrypted: Encrypted) -> None:
    root = encrypted.ours.certificate
    works(encrypted.load(sslmode="verify-full", sslrootcert=root, host="a.wild.test"))


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_somebody_elses_certificate_is_refused(encrypted: Encrypted, mode: str) -> None:
    error = refusal(encrypted.load(sslmode=mode, sslrootcert=encrypted.other.certificate))
    assert error.code == "tls-failed"
    assert "sslrootcert" in str(error.hint)


def test_a_certificate_for_another_name_is_refused_by_verify_full_only(
    encrypted: Encrypted,
) -> None:
    root = encrypted.ours.certificate
    error = refusal(encrypted.load(sslmode="verify-full", sslrootcert=root, host="127.0.0.1"))
    assert error.code == "tls-failed"
    # The subject counts where the certificate has no address.
    assert 'for "db.test", "*.wild.test", "ignored", not for "127.0.0.1"' in error.message
    works(encrypted.load(sslmode="verify-ca", sslrootcert=root, host="127.0.0.1"))


def test_certificates_as_the_manual_makes_them(encrypted: Encrypted) -> None:
    """Of version 1 with the name in the subject; and one that is trusted itself."""
    ours = encrypted.ours
    before = (encrypted.ours.folder / "server.crt", encrypted.ours.folder / "server.key")
    try:
        encrypted.use(*ours.issue("old", "old.test"))
        works(encrypted.load(sslmode="verify-full", sslrootcert=ours.certificate, host="old.test"))
        wrong = encrypted.load(sslmode="verify-full", sslrootcert=ours.certificate)
        names = refusal(wrong).message
        assert names.index('"old.test"') < names.index('"db.test"')
        foreign = encrypted.load(sslmode="verify-ca", sslrootcert=encrypted.other.certificate)
        assert refusal(foreign).code == "tls-failed"
        own = Authority(ours.folder, "own.test")
        encrypted.use(own.certificate, ours.folder / "own.test.key")
        works(encrypted.load(sslmode="verify-full", sslrootcert=own.certificate, host="own.test"))
    finally:
        encrypted.use(*before)


def test_client_certificates(encrypted: Encrypted) -> None:
    certificate, key = encrypted.ours.issue("modern", "certified", "DNS:client.test")
    old = dict(zip(("sslcert", "sslkey"), encrypted.client, strict=True))
    works(encrypted.load(user="certified", **old))
    mine = {"user": "certified", "sslcert": certificate}
    works(encrypted.load(**mine, sslkey=key))
    works(encrypted.load(**mine, sslkey=encrypt_key(key, "open"), sslpassword="open"))
    assert "certificate" in refusal(encrypted.load(user="certified")).message
    for changes, words in (
        ({"sslkey": encrypt_key(key, "open")}, "no sslpassword was given"),
        ({"sslkey": encrypt_key(key, "open"), "sslpassword": "x"}, "does not decrypt it"),
        ({"sslkey": encrypt_key(key, "open", old=True)}, "in OpenSSL's traditional format"),
        ({"sslkey": key.with_name("none")}, "but not its private key"),
        ({"sslkey": key.with_name("server.key")}, "the private key does not match the certificate"),
    ):
        error = refusal(encrypted.load(**mine, **changes))
        assert error.code == "tls-files"
        assert words in error.message
    key.chmod(0o644)
    error = refusal(encrypted.load(**mine, sslkey=key))
    key.chmod(0o600)
    assert error.code == "tls-files"
    assert "chmod" in str(error.hint)


@pytest.mark.parametrize("role", ["scram", "md5", "password"])
def test_passwords_over_tls(encrypted: Encrypted, role: str) -> None:
    works(encrypted.load(user=role))
    works(encrypted.load(user=role, channel_binding="disable"))
    bound = encrypted.load(user=role, channel_binding="require")
    if role == "scram":
        works(bound)
    else:
        assert "channel binding" in refusal(bound).message


def test_what_must_be_proved_by_whom(encrypted: Encrypted) -> None:
    works(encrypted.load(user="scram", require_auth="scram-sha-256"))
    assert "password authentication" in refusal(
        encrypted.load(user="password", require_auth="scram-sha-256")
    ).message  # fmt: skip
    assert "without authentication" in refusal(encrypted.load(require_auth="!none")).message
    assert "channel binding" in refusal(encrypted.load(channel_binding="require")).message


def test_clear_and_encrypted_stand_in_for_each_other(encrypted: Encrypted) -> None:
    for mode in ("allow", "prefer", "disable"):
        with Run(encrypted.load(user="clear", sslmode=mode)) as run:
            run.wait_for_more("done", 20)
        assert run.histogram("tls").count == 0
    assert "no pg_hba.conf entry" in refusal(encrypted.load(user="clear")).message
    assert "no encryption" in refusal(encrypted.load(sslmode="disable")).message


def test_a_socket_in_the_file_system_is_not_encrypted(encrypted: Encrypted) -> None:
    load = json.loads(config(encrypted.cluster.conninfo, "select 1;"))
    root = str(encrypted.other.certificate)
    load["target"] |= {"sslmode": "verify-full", "sslrootcert": root}
    with Run(json.dumps(load)) as run:
        run.wait_for_more("done", 20)


def test_a_server_without_encryption(pg18: Cluster) -> None:
    load = json.loads(config(pg18.conninfo_tcp, "select 1;"))
    with Run(json.dumps(load)) as run:
        run.wait_for_more("done", 20)
    load["target"]["sslmode"] = "require"
    error = refusal(json.dumps(load))
    assert error.code == "tls-failed"


def test_much_goes_through(encrypted: Encrypted) -> None:
    text = "x" * 300_000
    sql = f"select length('{text}') as got \\gset\nselect repeat('y', 300000);"
    works(encrypted.load(sql))


def wait_until_asleep(cluster: Cluster, count: int) -> None:
    query = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"
    with psycopg.connect(**cluster.conninfo.kwargs(), autocommit=True) as connection:
        wait_until(lambda: connection.execute(query).fetchone() == (count,), f"{count} asleep")


def cancels(cluster: Cluster, load: str) -> None:
    """The server cancels what the load leaves behind, which would sleep for long."""
    with Run(load, drain_ms=10) as run:
        wait_until_asleep(cluster, 4)
        run.wait_for(lambda run: run.total["sent"] == 4)
    assert run.total["cancelled"] == 4
    wait_until_asleep(cluster, 0)


def test_statements_are_cancelled_over_tls(encrypted: Encrypted) -> None:
    cancels(encrypted.cluster, encrypted.load("select pg_sleep(3600);"))


@pytest.mark.parametrize("version", ["3.0", "3.2"])
def test_statements_are_cancelled_with_keys_of_both_versions(pg: Cluster, version: str) -> None:
    load = json.loads(config(pg.conninfo, "select pg_sleep(3600);"))
    load["target"]["max_protocol_version"] = version
    cancels(pg, json.dumps(load))


def test_a_version_that_the_server_does_not_speak(pg15: Cluster) -> None:
    load = json.loads(config(pg15.conninfo, "select 1;"))
    load["target"] |= {"max_protocol_version": "3.2", "min_protocol_version": "3.2"}
    assert refusal(json.dumps(load)).code == "protocol-version"


def test_what_libpq_makes_of_it_reaches_the_engine(encrypted: Encrypted) -> None:
    port = encrypted.cluster.conninfo_tcp.port
    where = f"host=db.test hostaddr=127.0.0.1 port={port} dbname=postgres user=scram"
    root = f"sslmode=verify-full sslrootcert={encrypted.ours.certificate}"
    conninfo = resolve_conninfo(f"{where} password=secret {root} channel_binding=require")
    load = json.loads(config(conninfo, "select 1;"))
    load["target"] = conninfo.engine_target()
    works(json.dumps(load))
    with pytest.raises(SetupError) as caught:
        resolve_conninfo(
            f"{where} password=secret sslmode=verify-ca sslrootcert={encrypted.other.certificate}"
        )
    assert caught.value.code == "wrong-certificate"


@pytest.fixture
def shown(encrypted: Encrypted, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Have the server show a certificate of another kind until the test ends."""
    before = [encrypted.cluster.data_dir / name for name in ("server.crt", "server.key")]
    kept = [Path(shutil.copy(path, tmp_path)) for path in before]
    yield lambda *options: encrypted.use(*self_signed(tmp_path, "shown", *options))
    encrypted.use(*kept)


_RSA = ("-newkey", "rsa:2048")
_EC = ("-newkey", "ec", "-pkeyopt")


@pytest.mark.parametrize(
    "options",
    [
        (*_RSA, "-sha224"),
        (*_RSA, "-sha3-256"),
        (*_RSA, "-sha384", "-sigopt", "rsa_padding_mode:pss"),
        (*_EC, "ec_paramgen_curve:P-256", "-sha224"),
    ],
    ids=["rsa-sha224", "rsa-sha3", "rsa-pss", "ecdsa-sha224"],
)
def test_passwords_are_bound_to_certificates_of_all_signatures(
    encrypted: Encrypted, shown: Callable[..., None], options: tuple[str, ...]
) -> None:
    shown(*options)
    port = encrypted.cluster.conninfo_tcp.port
    where = f"host=127.0.0.1 port={port} dbname=postgres user=scram password=secret"
    conninfo = resolve_conninfo(f"{where} sslmode=require channel_binding=require")
    load = json.loads(config(conninfo, "select 1;"))
    load["target"] = conninfo.engine_target()
    works(json.dumps(load))


@pytest.mark.parametrize(
    "options",
    [(*_EC, "ec_paramgen_curve:P-521"), ("-newkey", "rsa-pss", "-pkeyopt", "rsa_keygen_bits:2048")],
    ids=["P-521", "RSA-PSS"],
)
def test_a_load_is_not_unencrypted_in_silence_where_libpq_encrypts(
    encrypted: Encrypted, shown: Callable[..., None], options: tuple[str, ...]
) -> None:
    shown(*options)
    port = encrypted.cluster.conninfo_tcp.port
    conninfo = resolve_conninfo(f"host=127.0.0.1 port={port} dbname=postgres user=trusted")
    assert conninfo.encrypted
    load = json.loads(config(conninfo, "select 1;"))
    load["target"] = conninfo.engine_target()
    error = refusal(json.dumps(load))
    assert error.code == "tls-failed"
    assert "P-521 or RSA-PSS" in str(error.hint)

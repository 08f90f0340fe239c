"""Certificates for the tests of encryption, made with openssl."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class Authority:
    """A certificate authority in a folder, and what it issues."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.certificate = folder / f"{name}.crt"
        _openssl(
            "req", "-new", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:P-256", "-days", "2", "-subj", f"/CN={name}",
            "-keyout", folder / f"{name}.key", "-out", self.certificate,
        )  # fmt: skip

    def issue(
        self, name: str, subject: str, names: str | None = None, *, days: int = 2
    ) -> tuple[Path, Path]:
        """Certificate and key, only for their owner to read; with alternative names if given.

        Without them the certificate is of version 1, as PostgreSQL's manual makes them.
        """
        key, request = self.folder / f"{name}.key", self.folder / f"{name}.csr"
        certificate, extensions = self.folder / f"{name}.crt", self.folder / f"{name}.ext"
        _openssl(
            "req", "-new", "-nodes", "-newkey", "rsa:2048", "-subj", f"/CN={subject}",
            "-keyout", key, "-out", request,
        )  # fmt: skip
        more: list[str | Path] = []
        if names is not None:
            extensions.write_text(f"subjectAltName={names}\n")
            more = ["-extfile", extensions]
        _openssl(
            "x509", "-req", "-sha384", "-in", request, "-CA", self.certificate, "-CAkey",
            self.folder / f"{self.name}.key", "-CAcreateserial", "-days", str(days),
            "-out", certificate, *more,
        )  # fmt: skip
        key.chmod(0o600)
        return certificate, key


def self_signed(folder: Path, name: str, *options: str) -> tuple[Path, Path]:
    """Certificate and key of a kind that openssl's ``options`` choose."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    _openssl(
        "req", "-new", "-x509", "-nodes", "-days", "2", "-subj", f"/CN={name}", *options,
        "-keyout", key, "-out", certificate,
    )  # fmt: skip
    return certificate, key


def encrypt_key(key: Path, password: str, *, old: bool = False) -> Path:
    """A copy of a private key that is encrypted, in the usual way or in OpenSSL's old one."""
    encrypted = key.with_suffix(".old" if old else ".enc")
    way = ["rsa", "-traditional", "-aes256"] if old else ["pkcs8", "-topk8"]
    _openssl(*way, "-in", key, "-out", encrypted, "-passout", f"pass:{password}")
    encrypted.chmod(0o600)
    return encrypted


def give(path: Path, owner_of: Path) -> Path:
    """The path, after it was given to the owner of another one."""
    owner = owner_of.stat()
    os.chown(path, owner.st_uid, owner.st_gid)
    return path


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()

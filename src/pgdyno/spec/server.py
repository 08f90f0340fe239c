"""The table ``server`` of a spec, and the names of snapshots that a server can start from."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pgdyno.spec._base import Duration, SettingValue, SpecTable
from pgdyno.spec.age import Age, Ids, unfit_setting

NAME_MAX = 80
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
"""They are names of directories."""
SnapshotName = Annotated[str, Field(min_length=1, max_length=NAME_MAX, pattern=f"^{NAME}$")]


class ServerSpec(SpecTable):
    """The PostgreSQL server: one that pgdyno starts for the run, an existing one, or none."""

    kind: Literal["embedded", "existing", "none"] = Field(
        "embedded", description="embedded, existing, or none for a load of a web server alone"
    )
    conninfo: str | None = Field(None, description="For kind = existing: a URI or key=value string")
    control: str | None = Field(
        None,
        description="For kind = existing, if conninfo is that of a pooler: connection string of the"
        " server itself, for setup and probes; default: the address that the server reports",
    )
    wait_ms: Duration = Field(
        60_000,
        alias="wait",
        description="For kind = existing: how long to wait for another pgdyno that uses it",
    )
    version: int | None = Field(
        None, ge=14, le=99, description="For kind = embedded: major version (default: the newest)"
    )
    bindir: str | None = Field(
        None, description="For kind = embedded: directory of the PostgreSQL binaries"
    )
    against: str | None = Field(
        None,
        min_length=1,
        description="For pgdyno compare and kind = embedded: major version to compare with, or a"
        " directory of binaries",
    )
    settings: dict[str, SettingValue] = Field(
        default_factory=dict, description="For kind = embedded: settings of the server"
    )
    checksums: bool | None = Field(
        None,
        description="For kind = embedded: data checksums (default: that of initdb)",
    )
    snapshot: SnapshotName | None = Field(
        None,
        description="For kind = embedded: name of a snapshot (pgdyno snapshot list) from whose"
        " state the server starts",
    )
    xid_age: Age | None = Field(
        None,
        description="For kind = embedded: age to which the oldest transaction ID is brought before"
        " the load, such as 1.7e9",
    )
    mxid_age: Age | None = Field(
        None, description="The same for the oldest multixact; only one of both"
    )

    statements: bool = Field(
        False,
        description="Read pg_stat_statements during the load; a server that pgdyno starts loads it,"
        " and it is created there",
    )

    @model_validator(mode="after")
    def _fits_kind(self) -> Self:
        if self.kind == "existing" and (self.settings or self.bindir or self.version):
            raise ValueError(
                "settings, version and bindir can only be used with kind = embedded; settings of an"
                " existing server are changed only by a trial with --apply"
            )
        for key in ("against", "checksums", "snapshot", "xid_age", "mxid_age"):
            if self.kind == "existing" and getattr(self, key) is not None:
                raise ValueError(f"{key} can only be used with kind = embedded")
        if (
            self.kind == "none"
            and self.model_fields_set - {"kind"}
            and self != ServerSpec(kind="none")
        ):
            raise ValueError('kind = "none" is for a load without a server; remove the other keys')
        if self.kind == "embedded" and self.conninfo is not None:
            raise ValueError('conninfo can only be used with kind = "existing"')
        if self.control is not None and self.conninfo is None:
            raise ValueError("control can only be used with conninfo, where the clients connect")
        return self

    @model_validator(mode="after")
    def _one_age_with_its_pin(self) -> Self:
        if self.xid_age is not None and self.mxid_age is not None:
            raise ValueError("xid_age and mxid_age cannot be used together")
        if self.age and (unfit := unfit_setting(self.age[0], self.settings, self.version)):
            raise ValueError(unfit)
        return self

    @property
    def age(self) -> tuple[Ids, int] | None:
        """The IDs whose age is brought to a figure before the load, and that; None: none."""
        if self.xid_age is not None:
            return "xid", self.xid_age
        return None if self.mxid_age is None else ("mxid", self.mxid_age)

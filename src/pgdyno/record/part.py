"""Base of the objects within results, of which run files keep the JSON."""

from typing import Annotated, Any, ClassVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

Number = Annotated[int | float, WithJsonSchema({"type": "number"})]
"""A number that is printed as an integer if it is one."""


class Part(BaseModel):
    """An object within a result: immutable, without unknown keys."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        # A command validates few of all results.
        defer_build=True,
        validate_by_name=True,
        validate_by_alias=True,
    )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        from pgdyno.record._descriptions import descriptions

        schema = handler(core_schema)
        members = handler.resolve_ref_schema(schema)["properties"]
        for name, text in descriptions(cls).items():
            field = cls.model_fields.get(name)
            if field is not None and field.description is None:
                key = field.alias or name
                members[key] = {**members[key], "description": text}
        return schema

    in_tables: ClassVar[tuple[str, ...]] = ()
    """Members of a result that are rows of the run file, and not stored in its result again."""

    @classmethod
    def of_tables(cls, run: Any) -> dict[str, object]:
        """Return the members ``in_tables`` of a RunFile."""
        return {}

    def to_json(self) -> dict[str, Any]:
        """Return the object as ``--format json`` prints it: without optional keys that are not
        set."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Fact(Part):
    """A part that is also a row of a run file, and that conclusions are drawn from: all members are
    in its JSON, also those with their default, but for the excluded ones."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        whole = handler.resolve_ref_schema(schema)
        shown = [f.alias or name for name, f in cls.model_fields.items() if not f.exclude]
        members = whole["properties"]
        for member in members.values():
            member.pop("default", None)
        whole["properties"] = {name: members[name] for name in shown}
        whole["required"] = shown
        return schema

    def to_json(self) -> dict[str, Any]:
        """Return the object as ``--format json`` prints it, and as run files keep it."""
        return self.model_dump(mode="json", by_alias=True)

    def model_post_init(self, context: Any) -> None:
        """Take every member for set, so that it is shown within other parts."""
        self.__pydantic_fields_set__.update(type(self).model_fields)

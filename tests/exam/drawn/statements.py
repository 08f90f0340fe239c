"""The kinds of statements that loads are made of."""

from __future__ import annotations

from exam.drawn.model import Statement
from exam.drawn.schema import DIMS

_C = "\\set c random(1, {children})\n"
_P = "\\set p random(1, {parents})\n"
_K = "\\set k random(0, {kinds} - 1)\n"
_JOINS = " ".join(f"join dim{n} on dim{n}.id = dim{n - 1}.next" for n in range(1, DIMS))

ALL = (
    Statement("by-key", _C + "select * from {child} where id = :c;", weight=3),
    Statement(
        "by-parent",
        _P + "select count(*), sum({amount}) from {child} where {parent_id} = :p;",
        weight=2,
    ),
    Statement("by-kind", _K + "select max({amount}) from {child} where {kind} = :k;"),
    Statement(
        "either",
        _C + _K + "select count(*), max({amount}) from {child} where id = :c or {kind} = :k;",
        weight=0,
    ),
    Statement(
        "latest",
        _P + "select id, at from {child} where {parent_id} = :p order by at desc limit 5;",
    ),
    Statement(
        "range",
        "\\set c random(1, {children} - 500)\n"
        "select sum({amount}) from {child} where id between :c and :c + 300;",
    ),
    Statement(
        "join",
        _P + "select p.name, c.{amount} from {parent} as p join {child} as c"
        " on c.{parent_id} = p.id where p.id = :p;",
    ),
    Statement(
        "join-by-kind",
        _K + "select p.region, sum(c.{amount}) from {child} as c join {parent} as p"
        " on p.id = c.{parent_id} where c.{kind} = :k group by p.region;",
    ),
    Statement(
        "many-join",
        "\\set d random(1, 500)\nselect count(*) from dim0 " + _JOINS + " where dim0.id = :d;",
        needs=("dims",),
        weight=0.3,
    ),
    Statement(
        "sort",
        "\\set c random(1, {children} - 8000)\n"
        "select count(*) from (select note, {amount} from {child}"
        " where id between :c and :c + 6000 order by {amount}, note offset 0) as x;",
        weight=0.5,
    ),
    Statement(
        "hash",
        "\\set c random(1, {children} - 8000)\n"
        "select count(*) from (select note, {parent_id}, sum({amount}) from {child}"
        " where id between :c and :c + 6000 group by 1, 2 offset 0) as x;",
        weight=0.5,
    ),
    Statement(
        "skewed",
        "\\set s random(1, 100)\nselect count(*), max({amount}) from {child} where state = :s;",
    ),
    Statement(
        "small-scan",
        "\\set z random(0, 99)\nselect count(*), max(label) from {small} where size = :z;",
    ),
    Statement(
        "most-rows",
        "\\set x random(1, 20)\nselect sum({amount}) from {child} where {amount} >= :x;",
        weight=0,
    ),
    Statement(
        "function",
        "\\set c random(1, {children} - 500)\n"
        "select sum(weighed({amount})) from {child} where id between :c and :c + 40;",
        needs=("function",),
        weight=0.2,
    ),
    Statement(
        "by-function",
        _C + "select * from {child} where id = weighed(:c) / 2;",
        needs=("function",),
        weight=0,
    ),
    Statement(
        "by-name",
        _P + "select * from {parent} where lower(name) = 'number ' || :p;",
        needs=("lower name",),
        weight=0.5,
    ),
    Statement(
        "feed",
        "select id, {child_id}, at from {log} order by at desc limit 10;",
        needs=("feed",),
        weight=0.5,
    ),
    Statement(
        "by-content",
        _K + "select count(*) from document where body @> jsonb_build_object('k', :k::int);",
        needs=("documents",),
        weight=0.5,
    ),
    Statement(
        "open-tasks",
        "select count(*), min(id) from task where done_at is null;",
        needs=("tasks",),
        weight=0.5,
    ),
    Statement(
        "update-parent",
        _P + "update {parent} set balance = balance + 1 where id = :p;",
        order=1,
        weight=2,
    ),
    Statement(
        "update-child", _C + "update {child} set {amount} = {amount} + 1 where id = :c;", order=2
    ),
    Statement(
        "upsert",
        _P + "insert into counter (id, n) values (:p, 1)"
        " on conflict (id) do update set n = counter.n + 1;",
        order=3,
        needs=("counter",),
    ),
    Statement(
        "insert-log",
        _C + "insert into {log} ({child_id}, what) values (:c, 'seen');",
        order=4,
        weight=2,
    ),
    Statement(
        "insert-default",
        _C + "insert into {log} ({child_id}) values (:c);",
        order=4,
        needs=("default",),
        weight=0,
    ),
    Statement(
        "insert-batch",
        "\\set c random(1, {children} - 100)\n"
        "insert into {log} ({child_id}, what) select g, 'batch'"
        " from generate_series(:c, :c + 20) as g;",
        order=5,
    ),
    Statement(
        "delete-child",
        _P + _K + "insert into {child} (id, {parent_id}, {kind}, state, at, {amount}, note)"
        " values (nextval('{child}_ids'), :p, :k, 0, now(), 1, 'new') returning id \\gset\n"
        "delete from {child} where id = :id;",
        order=6,
        weight=0.5,
    ),
)
BY_NAME = {each.name: each for each in ALL}

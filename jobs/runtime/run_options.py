"""Options of commands that are runs or wait for a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from jobs.runtime.arguments import LocationOptions, moment, option, run_name, wait_seconds

_Taken = TypeVar("_Taken", bound="WarehouseOptions")


@dataclass(frozen=True, kw_only=True)
class WarehouseOptions(LocationOptions):
    """Options of every command that starts Spark for a warehouse. None and an empty tuple: not given. Times are aware UTC."""

    @classmethod
    def of(cls: type[_Taken], options: LocationOptions) -> _Taken:
        """Return these options as given to a command; a command without them gets their defaults."""
        return options if isinstance(options, cls) else cls()

    def extras(self) -> tuple[str, ...]:
        """Return the extras of setup.cfg that the command needs with these options."""
        return ("spark",)

    def identity(self) -> str:
        """Return how a run differs from other runs of its command, besides settings and inputs; empty if only these count."""
        return ""


@dataclass(frozen=True, kw_only=True)
class WaitOptions(WarehouseOptions):
    """Options of every command that holds a warehouse; ``wait`` is in seconds."""

    wait: float = option(0.0, type=wait_seconds, metavar="SECONDS", help="how long to wait for another run to end")


@dataclass(frozen=True, kw_only=True)
class RunNameOptions(WaitOptions):
    """Options of every command that can be a run."""

    run_id: str | None = option(type=run_name, metavar="ID", help="name of the run; a retry with the same name and input does nothing")


@dataclass(frozen=True, kw_only=True)
class ClockOptions(WarehouseOptions):
    """Options of every command whose result depends on the time."""

    as_of: datetime | None = option(type=moment, metavar="TIME", help="the run's clock, ISO 8601, UTC when no zone is given")

"""Landing: captures and live clusters -> records, snapshots and quarantine."""

"""Programs that leave the process: functions as StableHLO modules with all that a call needs, and files of them."""

"""The run folder as a queue: locks, tasks, time limits, progress."""

"""What the drivers look at: the disk and the process table. Shared by the Python drivers."""

import itertools
import os
import time

_numbers = itertools.count(1)


def unique_sleep():
    """A sleep that no other process of this machine has: (command, what to look for)."""
    seconds = f"{3000 + next(_numbers)}.{os.getpid()}"
    return f"sleep {seconds}", seconds


def alive(seconds):
    """Ids of the sleeps with this argument."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words[0] == b"sleep" and seconds.encode() in words:
                found.append(int(entry))
    return found


def wait_for(condition, limit, what):
    """Polls until the condition holds; fails after `limit` seconds."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"not within {limit} s: {what}"
        time.sleep(0.02)


def done(step):
    """Tells the test that a step held."""
    print(f"held: {step}", flush=True)

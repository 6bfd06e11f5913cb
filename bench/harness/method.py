"""The method: a correct result first, then graph replays with a cold L2, in random order, medians over rounds.

- A contender is one CUDA graph of one call a buffer set; the sets take at least 0.8 GB together, so that no call finds
  its operands in L2 (with a few hundred MB, leftovers flatter by 2-3%).
- In a round each contender runs once, in a fresh random order: in a fixed order, whoever follows a power-hungry one
  looks slower, by up to 6%.
- Every configuration is screened in a few short rounds; only each peer's best go to the final rounds.
- Burst blocks take about 4 ms. Sustained ones take 0.5 s, and the clock and the power at their end are reported.
"""
import random
import time

import torch

ROTATE = 800_000_000


def sets_for(nbytes, most=512):
    """Buffer sets of `nbytes` that a graph rotates over."""
    return min(most, max(2, -(-ROTATE // nbytes)))


class Captured:
    """The calls of one contender as a graph; as a plain loop where they cannot be captured (`how` says which)."""

    def __init__(self, calls):
        self.count = len(calls)
        # Called once on the stream that is captured: kernels of ours make their workspaces of a stream at their first launch on it.
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for call in calls[:2]:
                call()
        torch.cuda.synchronize()
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                for call in calls:
                    call()
            self.run, self.how, self.graph = graph.replay, "graph", graph
        except Exception as error:  # what a peer raises in a capture is its own affair
            torch.cuda.synchronize()
            self.run, self.how, self.graph = lambda: [call() for call in calls], f"loop ({repr(error)[:80]})", None
        self.run()
        torch.cuda.synchronize()

    def block(self, replays):
        """Microseconds a call, over some replays."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(replays):
            self.run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / (replays * self.count)

    def replays_for(self, budget_us):
        return max(1, round(budget_us / max(self.block(1) * self.count, 1e-3)))


def admit(contender, work):
    """Runs a contender over a workload, checks what it computes, captures it and checks what a replay computes.

    Returns (captured, error), or raises with the reason why it takes no part.
    """
    calls = [contender.prepare(buffers) for buffers in work.sets]
    work.poison()
    for call in calls:
        call()
    error = acceptable(work, "its result")
    captured = Captured(calls)
    work.poison()
    captured.run()
    return captured, max(error, acceptable(work, "its replayed result"))


def acceptable(work, what, thorough=False):
    torch.cuda.synchronize()
    error = work.error(thorough)
    if not error < work.problem.tolerance:
        raise ValueError(f"WRONG: {what} has relative error {error:.2e}, above {work.problem.tolerance:.0e}")
    return error


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def race(entries, rounds, budget_us=4000, idle_s=0.0):
    """Microseconds a call for each name of `entries` (name -> Captured): a list of one time a round."""
    times = {name: [] for name in entries}
    replays = {name: entry.replays_for(budget_us) for name, entry in entries.items()}
    for _ in range(rounds):
        order = list(entries)
        random.shuffle(order)
        for name in order:
            if idle_s:
                time.sleep(idle_s)
            times[name].append(entries[name].block(replays[name]))
    return times


def screen(entries, rounds=3, budget_us=1000):
    """The best time of a few short rounds, by name."""
    return {name: min(times) for name, times in race(entries, rounds, budget_us).items()}


class Sensors:
    """The SM clock and the power as NVML reads them; None where NVML cannot be had."""

    def __init__(self):
        try:
            import pynvml
            pynvml.nvmlInit()
            self.nvml, self.handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(torch.cuda.current_device())
        except Exception:
            self.nvml = None

    def read(self):
        if self.nvml is None:
            return {"sm_mhz": None, "watts": None}
        return {"sm_mhz": self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM),
                "watts": self.nvml.nvmlDeviceGetPowerUsage(self.handle) / 1e3}


def sustained(entries, rounds=3, block_s=0.5):
    """Blocks of half a second in random order: name -> {us, sm_mhz, watts}, medians over the rounds."""
    sensors = Sensors()
    seen = {name: [] for name in entries}
    for _ in range(rounds):
        order = list(entries)
        random.shuffle(order)
        for name in order:
            entry = entries[name]
            replays = entry.replays_for(block_s * 1e6)
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(replays):
                entry.run()
            end.record()
            # Read while the last replays still run: afterwards the card is idle.
            time.sleep(block_s * 0.8)
            reading = sensors.read()
            end.synchronize()
            seen[name].append((start.elapsed_time(end) * 1e3 / (replays * entry.count), reading))
    out = {}
    for name, blocks in seen.items():
        us = median([b[0] for b in blocks])
        out[name] = {"us": us, **min(blocks, key=lambda b: abs(b[0] - us))[1]}
    return out

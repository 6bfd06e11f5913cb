"""What takes part in a race."""
from dataclasses import dataclass
from typing import Callable


@dataclass
class Contender:
    """One configuration of one peer, for one problem.

    `prepare(buffers)` takes a dict of tensors (see `problems`) and returns a callable without arguments that launches
    on torch's current stream, computes into the problem's output, and may be captured once it has run. `chosen` marks
    the configuration that the peer would pick untuned, `record` an exported launch.
    """

    peer: str
    label: str
    prepare: Callable
    chosen: bool = False
    record: dict | None = None

    @property
    def name(self):
        return f"{self.peer} {self.label}"

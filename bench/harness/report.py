"""Rows: what a race found, printed and as JSON."""
import json
import os

from .method import median


def row(problem, work, finalists, times, baseline, rounds):
    """`finalists`: name -> (contender, captured, error, screened us); `times`: name -> us a round."""
    us = {name: median(values) for name, values in times.items()}
    entries = {}
    for name, (contender, captured, error, screened) in finalists.items():
        ordered = sorted(times[name])
        entries[name] = dict(peer=contender.peer, label=contender.label, us=us[name], fastest_us=ordered[0],
                             slowest_us=ordered[-1], screened_us=screened, chosen=contender.chosen, how=captured.how,
                             error=error)
    best = {}
    for name, entry in entries.items():
        if entry["peer"] not in best or entry["us"] < best[entry["peer"]]["us"]:
            best[entry["peer"]] = {"label": entry["label"], "us": entry["us"]}
    out = dict(op=problem.op, dtype=problem.dtype, **problem.shape, calls=len(work.sets), rounds=rounds,
               nbytes=problem.nbytes, flops=problem.flops, entries=entries, best=best)
    if baseline:
        out.update(baseline=baseline, baseline_again_us=us[AGAIN], baseline_spread=abs(us[AGAIN] / us[baseline] - 1))
    for peer, found in best.items():
        out[f"{peer}_us"] = found["us"]
    chosen = [e["us"] for e in entries.values() if e["peer"] == "ours" and e["chosen"]]
    if "ours" in best:
        ours = best["ours"]["us"]
        out.update(ours=best["ours"]["label"], tbps=problem.nbytes / ours * 1e-6, tflops=problem.flops / ours * 1e-6)
        out.update({f"vs_{peer}": found["us"] / ours for peer, found in best.items() if peer != "ours"})
    if chosen:
        out["default_us"] = min(chosen)
        out.update({f"default_vs_{peer}": found["us"] / min(chosen) for peer, found in best.items() if peer != "ours"})
    return out


AGAIN = "baseline again"


def show(problem, out, kind):
    """One line a peer: its best, its rate, and how much longer it takes than ours."""
    spread = f", baseline {out['baseline']} again: {out['baseline_spread']:.2%} apart" if "baseline" in out else ""
    print(f"== {kind} {problem.title}: {out['calls']} calls, {out['rounds']} rounds{spread}")
    ours = out.get("ours_us")
    for peer, found in sorted(out["best"].items(), key=lambda item: item[1]["us"]):
        us = found["us"]
        ratio = f"  {us / ours:6.3f} of ours" if ours else ""
        error = out["entries"][f"{peer} {found['label']}"]["error"]
        print(f"   {peer:12s} {us:9.3f} us  {problem.nbytes / us * 1e-6:6.3f} TB/s  {problem.flops / us * 1e-6:8.2f} TFLOP/s"
              f"{ratio}  err {error:.1e}  {found['label']}")
    if "default_us" in out:
        us = out["default_us"]
        print(f"   {'our default':12s} {us:9.3f} us  {problem.nbytes / us * 1e-6:6.3f} TB/s  {problem.flops / us * 1e-6:8.2f} TFLOP/s"
              f"  {us / ours:6.3f} of ours", flush=True)


class Json:
    """The file of results, written after every row: a peer that takes the process down loses no finished row."""

    def __init__(self, path, about):
        self.path, self.content = path, dict(about, rows=[])

    def add(self, row):
        self.content["rows"].append(row)
        if self.path:
            with open(self.path + ".part", "w") as file:
                json.dump(self.content, file, indent=1)
            os.replace(self.path + ".part", self.path)

"""Loads `tile-llm serve`: clients that send prompts of mixed lengths, hang up, and send what is malformed or too large.

    python3 bench/serve_load.py target/release/tile-llm --random tiny --clients 64 --seconds 300

Starts the server in its invariant mode, where an answer has the bits that it has alone, asks each of --requests requests once by
itself, and then lets the clients send them at random, whole and streamed. Fails where an answer differs from the one that was given
alone, a status is not what it should be, a request gets no answer, or the server's memory grows by more than --growth. What
follows the script's own options goes to the server. Needs nothing but Python.
"""

import argparse
import asyncio
import json
import random
import re
import statistics
import sys
import time
from collections import Counter
from pathlib import Path

WORDS = "the of and a to in is you that it he was for on are as with his they I at be this have from".split()


class Server:
    """The process under test."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process, self.port = process, port

    @staticmethod
    async def start(program: str, options: list[str]) -> "Server":
        command = [program, "serve", "--port", "0", "--invariant", *options]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        seen = ""
        while not (found := re.search(r"on http://[^ ]*:(\d+)", seen)):
            piece = await process.stderr.read(4096)
            if not piece:
                sys.exit(f"the server ended:\n{seen}")
            seen += piece.decode(errors="replace")
        asyncio.create_task(process.stderr.read())
        return Server(process, int(found[1]))

    def memory(self) -> int:
        """Resident bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024


async def post(port: int, body: bytes, hang_up_after: int | None = None) -> tuple[int, bytes]:
    """Status and body of an answer; with `hang_up_after` the connection is closed after so many bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode())
        writer.write(body)
        if hang_up_after is not None:
            await reader.read(hang_up_after)
            return 0, b""
        # While the body is still being sent: the server answers what is too large before it has read all, and closes.
        answer = b""
        while piece := await next_piece(reader):
            answer += piece
    finally:
        writer.close()
    if not answer:
        raise ValueError("no answer")
    head, _, rest = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        rest = unchunked(rest)
    return int(head.split()[1]), rest


async def next_piece(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(1 << 16)
    except ConnectionError:
        return b""


def unchunked(data: bytes) -> bytes:
    out = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        count = int(size, 16)
        out, data = out + data[:count], data[count + 2 :]
        if count == 0:
            break
    return out


def text_of(answer: bytes, streamed: bool) -> str:
    if not streamed:
        return json.loads(answer)["choices"][0]["text"]
    events = [line[6:] for line in answer.decode().split("\n") if line.startswith("data: ")]
    if events[-1].strip() != "[DONE]":
        raise ValueError(f"a stream ends in {events[-1]!r}")
    return "".join(choice["text"] for event in events[:-1] for choice in json.loads(event)["choices"])


class Load:
    def __init__(self, server: Server, args: argparse.Namespace) -> None:
        self.server, self.args, self.draw = server, args, random.Random(args.seed)
        self.requests = [self.request() for _ in range(args.requests)]
        self.alone: list[str] = []
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.times: list[float] = []

    def request(self) -> dict:
        prompt = " ".join(self.draw.choices(WORDS, k=self.draw.choice([1, 3, 10, self.args.longest // 6])))
        temperature = self.draw.choice([0, 0, 0.8])
        most = self.draw.randint(1, self.args.most_tokens)
        return dict(prompt=prompt, max_tokens=most, temperature=temperature, seed=self.draw.randrange(1 << 30))

    async def ask(self, which: int, streamed: bool) -> tuple[int, str]:
        body = json.dumps({**self.requests[which], "stream": streamed}).encode()
        status, answer = await post(self.server.port, body)
        return status, text_of(answer, streamed) if status == 200 else answer.decode(errors="replace")

    async def baseline(self) -> None:
        for which in range(len(self.requests)):
            status, text = await self.ask(which, False)
            if status != 200:
                sys.exit(f"alone, a request was answered with {status}: {text}")
            self.alone.append(text)

    async def client(self, until: float) -> None:
        while time.monotonic() < until and not self.wrong:
            kind = self.draw.choices(["whole", "streamed", "hangs up", "malformed", "too large", "too long"], [40, 40, 8, 4, 4, 4])[0]
            try:
                await asyncio.wait_for(self.once(kind), self.args.patience)
            except Exception as error:  # a request that was lost
                self.wrong.append(f"{kind}: {type(error).__name__}: {error}")
            self.counts[kind] += 1

    async def once(self, kind: str) -> None:
        which = self.draw.randrange(len(self.requests))
        if kind in ("whole", "streamed"):
            start = time.monotonic()
            while (found := await self.ask(which, kind == "streamed"))[0] == 429:
                self.counts["429, asked again"] += 1
                await asyncio.sleep(0.2 + self.draw.random())
            self.times.append(time.monotonic() - start)
            if found != (200, self.alone[which]):
                self.wrong.append(f"{kind}: {found}, alone {self.alone[which]!r}, of {self.requests[which]}")
            return
        if kind == "hangs up":
            body = json.dumps({**self.requests[which], "stream": True}).encode()
            await post(self.server.port, body, self.draw.choice([0, 20, 300]))
            return
        body, wanted = {
            "malformed": (self.draw.choice([b"{", b"[]", b'{"prompt": 3}', b'{"prompt": "a", "max_tokens": -1}', b"\xff"]), {400, 415, 422}),
            "too large": (b'{"prompt": "' + b"a" * (8 << 20) + b'"}', {413}),
            "too long": (json.dumps(dict(prompt="a " * 100_000)).encode(), {400, 413}),
        }[kind]
        status, answer = await post(self.server.port, body)
        if status not in wanted:
            self.wrong.append(f"{kind}: {status} {answer[:200]!r}")


async def run(args: argparse.Namespace, options: list[str]) -> None:
    server = await Server.start(args.program, options)
    try:
        load = Load(server, args)
        await load.baseline()
        # Memory is compared with what it is once every client has been served for a while.
        start = time.monotonic()
        clients = [asyncio.create_task(load.client(start + args.seconds)) for _ in range(args.clients)]
        memory = []
        while any(not client.done() for client in clients):
            await asyncio.sleep(1)
            memory.append(server.memory())
        await asyncio.gather(*clients)
        warm, last = memory[len(memory) // 4], memory[-1]
        load.times.sort()
        answered = len(load.times)
        print(f"{args.clients} clients, {time.monotonic() - start:.0f} s: {dict(load.counts)}")
        if answered:
            at = lambda share: load.times[min(answered - 1, int(share * answered))]
            print(f"answers/s {answered / args.seconds:.1f}; seconds an answer: median {statistics.median(load.times):.2f}, 99th percentile {at(0.99):.2f}")
        tenths = [memory[min(len(memory) - 1, len(memory) * i // 10)] >> 20 for i in range(11)]
        print(f"resident memory: {warm >> 20} MiB after a quarter of the time, {last >> 20} at the end, {max(memory) >> 20} at most; by tenths of the time {tenths}")
        if load.wrong:
            sys.exit("\n".join(load.wrong[:10]))
        if answered == 0 or last > warm + (args.growth << 20):
            sys.exit("no answer" if answered == 0 else f"memory grew by more than {args.growth} MiB")
    finally:
        server.process.terminate()
        await server.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="tile-llm")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--requests", type=int, default=32, help="how many different requests there are")
    parser.add_argument("--most-tokens", type=int, default=24, help="of an answer")
    parser.add_argument("--longest", type=int, default=120, help="bytes of a prompt, roughly")
    parser.add_argument("--patience", type=float, default=120, help="seconds after which a request is lost")
    parser.add_argument("--growth", type=int, default=32, help="MiB by which memory may grow")
    parser.add_argument("--seed", type=int, default=0)
    args, options = parser.parse_known_args()
    asyncio.run(run(args, options))


if __name__ == "__main__":
    main()

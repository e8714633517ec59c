"""Clients of `./dev conformance serving`: tokens a second, the first token, a soak. Prints JSON."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import Any

import httpx

CHAT = "/v1/chat/completions"


def body(tokens: int, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": "Say something about the sea."}
    return {"model": "smollm2", "messages": [message], "max_tokens": tokens, "stream": True, "ignore_eos": True} | more


async def stream(client: httpx.AsyncClient, tokens: int, **more: Any) -> tuple[int, float, list[float]]:
    """(tokens by the server's count, seconds to the first text, seconds between pieces of text)."""
    begin = last = time.perf_counter()
    first, gaps, given = 0.0, [], 0
    options = {"stream_options": {"include_usage": True}} | more
    async with client.stream("POST", CHAT, json=body(tokens, **options)) as reply:
        reply.raise_for_status()
        async for line in reply.aiter_lines():
            if not line.startswith("data: {"):
                continue
            row = json.loads(line[6:])
            if row.get("usage"):
                given = row["usage"]["completion_tokens"]
            if row["choices"] and row["choices"][0]["delta"].get("content"):
                now = time.perf_counter()
                first = first or now - begin
                gaps.append(now - last)
                last = now
    return given, first, gaps[1:]


async def rate(client: httpx.AsyncClient, clients: int, tokens: int) -> dict[str, Any]:
    """Tokens a second of so many streams at once."""
    await stream(client, 4)
    begin = time.perf_counter()
    rows = await asyncio.gather(*(stream(client, tokens) for _ in range(clients)))
    seconds = time.perf_counter() - begin
    total = sum(row[0] for row in rows)
    return {"streams": clients, "tokens": total, "seconds": seconds, "tokens_per_s": total / seconds}


async def first(client: httpx.AsyncClient, runs: int) -> dict[str, Any]:
    """Seconds to the first token of a prompt of 64, each another one, after one that compiles."""
    times = []
    for i in range(runs + 1):
        prompt = [1 + i] + [100 + i] * 63
        begin = time.perf_counter()
        reply = await client.post("/v1/completions", json={"model": "smollm2", "prompt": prompt, "max_tokens": 1})
        reply.raise_for_status()
        times.append(time.perf_counter() - begin)
    return {"first_s": times[0], "later_s": sorted(times[1:])}


async def soak(client: httpx.AsyncClient, seconds: float, pause: float = 0) -> dict[str, Any]:
    """Overload, clients that leave, that read slowly, and malformed bodies; statuses that came.

    pause: seconds that a client waits behind each request, in the mean. The server may end and begin again.
    """
    end, draw = time.monotonic() + seconds, random.Random(1)
    statuses: dict[str, int] = {}

    async def one() -> None:
        while time.monotonic() < end:
            await asyncio.sleep(pause * draw.uniform(0, 2))
            kind = draw.random()
            try:
                if kind < 0.2:
                    content = draw.choice([b"{", b"[]", b"\xff", b'{"model":"smollm2"}', b"[" * 5000])
                    reply = await client.post(CHAT, content=content)
                    statuses[str(reply.status_code)] = statuses.get(str(reply.status_code), 0) + 1
                    continue
                async with client.stream("POST", CHAT, json=body(draw.randrange(1, 200))) as reply:
                    statuses[str(reply.status_code)] = statuses.get(str(reply.status_code), 0) + 1
                    async for _ in reply.aiter_lines():
                        if kind < 0.4 and draw.random() < 0.1:
                            break
                        if kind > 0.9:
                            await asyncio.sleep(0.005)
            except httpx.HTTPError as error:
                name = type(error).__name__
                statuses[name] = statuses.get(name, 0) + 1
                await asyncio.sleep(0.2)

    await asyncio.gather(*(one() for _ in range(48)))
    for _ in range(200):
        load = (await client.get("/load")).json()["server_load"]
        if load == 0:
            break
        await asyncio.sleep(0.1)
    page = (await client.get("/metrics")).text
    usage = next(float(line.split()[-1]) for line in page.splitlines() if line.startswith("vllm:kv_cache_usage_perc{"))
    health = (await client.get("/health")).status_code
    return {"statuses": statuses, "load_after": load, "blocks_used_after": usage, "health": health}


async def main(url: str, what: str, amount: float, *more: float) -> None:
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
        if what == "rate":
            print(json.dumps([await rate(client, n, int(amount)) for n in (1, 8, 32)]))
        elif what == "first":
            print(json.dumps(await first(client, int(amount))))
        else:
            print(json.dumps(await soak(client, amount, *more)))


asyncio.run(main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])))

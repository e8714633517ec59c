"""What a client of a server on trn2 would measure: a server that is paced by predicted times, and OpenAI's client.

    opentrn step-times smollm2 --max-num-seqs 4 --max-model-len 256 -o smollm2.csv
    python examples/serve_paced.py smollm2.csv

The server draws tokens in place of computing them, so that this machine keeps the device's pace; its scheduler,
programs and limits are those of `opentrn serve smollm2 --max-num-seqs 4 --max-model-len 256`.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import uvicorn
from openai import OpenAI

from opentrn.serve import Settings, build

CLIENTS = 4
TOKENS = 60


def start(step_times: str) -> str:
    """A server in a thread; its address."""
    settings = Settings(
        values=False, step_times=step_times, clock="paced", max_model_len=256, max_num_seqs=CLIENTS,
        served_name="smollm2",
    )  # fmt: skip
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(build("smollm2", settings).app, log_level="warning", lifespan="on"))
    threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


def ask(client: OpenAI, number: int) -> tuple[float, float, dict[str, float]]:
    """(ms to the first token, ms per token after it, what the server predicted)."""
    begin, times, predicted = time.perf_counter(), [], {}
    for chunk in client.chat.completions.create(
        model="smollm2", max_tokens=TOKENS, stream=True, stream_options={"include_usage": True}, seed=number,
        messages=[{"role": "user", "content": f"Tell me something about the number {number}."}],
        extra_body={"ignore_eos": True, "return_token_ids": True},
    ):  # fmt: skip
        if chunk.usage:
            predicted = chunk.usage.predicted_device_time
        elif chunk.choices[0].token_ids:
            times.append(time.perf_counter())
    return (times[0] - begin) * 1e3, (times[-1] - times[0]) * 1e3 / (TOKENS - 1), predicted


def main() -> None:
    client = OpenAI(base_url=start(sys.argv[1]), api_key="none")
    ask(client, 0)  # connections and caches
    print("requests   ms to the first token      ms per token after it")
    print("at once    measured   predicted       measured   predicted")
    for at_once in (1, CLIENTS):
        with ThreadPoolExecutor(at_once) as pool:
            rows = list(pool.map(lambda number: ask(client, number), range(1, at_once + 1)))
        first, each, times = max(rows, key=lambda row: row[0])
        rest = (times["total_ms"] - times["first_token_ms"]) / (TOKENS - 1)
        print(f"{at_once:7}  {first:10.2f}  {times['first_token_ms']:10.2f}     {each:10.2f}  {rest:10.2f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Chat templates as OpenTrn and as transformers write them.

    ./dev conformance chat-templates FOLDER [--json FILE]

FOLDER: templates in Jinja (*.jinja), such as models/templates of a checkout of llama.cpp. Nine conversations, with a
system's message, earlier answers and thoughts, tools, calls and their results, and variables of templates, go through
each; a case passes where both give the same text or both refuse. Transformers is in an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))
REQUIREMENTS = ("transformers==5.24.0", "jinja2")

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather", "description": "Gives the weather <now> & \"later\" for Köln.",
        "parameters": {"type": "object", "required": ["city"],
                       "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}  # fmt: skip


def said(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def called(number: str) -> list[dict[str, Any]]:
    function = {"name": "get_weather", "arguments": {"city": "Köln", "days": 2}}
    return [said("user", "Weather?"),
            said("assistant", "", tool_calls=[{"type": "function", "id": number, "function": function}]),
            said("tool", "12 C", tool_call_id=number, name="get_weather")]  # fmt: skip


class Conversation(NamedTuple):
    """begins: an answer begins behind the messages. variables: of the template."""

    messages: list[dict[str, Any]]
    tools: list[Any] | None = None
    begins: bool = True
    variables: dict[str, Any] = {}


CONVERSATIONS = (
    Conversation([said("user", "Hi there")]),
    Conversation([said("system", "Be brief."), said("user", "Hi"), said("assistant", "Hello."), said("user", "Bye")]),
    Conversation([said("user", "Hi"), said("assistant", "<think>\nhm\n</think>\n\nHello."), said("user", "Bye")]),
    Conversation([said("user", "Weather?")], [TOOL]),
    Conversation(called("call_123456789"), [TOOL]),
    Conversation([*called("abcdefgh1"), said("assistant", "12 degrees."), said("user", "Thanks")], [TOOL]),
    Conversation([said("user", "Hi")], variables={"enable_thinking": False}),
    Conversation([said("user", "Hi")], variables={"enable_thinking": True, "reasoning_effort": "low"}),
    Conversation([said("user", "Hi"), said("assistant", "Well")], begins=False),
)


def theirs(source: str, said: Conversation) -> str:
    from transformers.utils.chat_template_utils import render_jinja_template

    texts, _ = render_jinja_template(
        conversations=[said.messages], tools=said.tools, chat_template=source, add_generation_prompt=said.begins,
        bos_token="<s>", eos_token="</s>", **said.variables,
    )  # fmt: skip
    return texts[0]


def ours(source: str, said: Conversation) -> str:
    from opentrn.generate.tokenizer import ChatTemplate

    template = ChatTemplate(source, "<s>", "</s>")
    return template.prompt(said.messages, said.tools, begins_answer=said.begins, variables=said.variables)


def written(write: Callable[[str, Conversation], str], source: str, said: Conversation) -> str | None:
    """The text, or None where the template refuses."""
    try:
        return write(source, said)
    except Exception:  # noqa: BLE001 - of any kind: each side has its own
        return None


def compare(folder: Path, file: str | None) -> int:
    """In the environment of transformers."""
    passed, failures, refused = 0, [], 0
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for number, conversation in enumerate(CONVERSATIONS):
            expected, found = written(theirs, source, conversation), written(ours, source, conversation)
            refused += expected is None
            passed += expected == found
            if expected != found:
                failures.append(f"{path.name}, conversation {number}")
    for name in failures:
        print(f"differs: {name}")
    print(f"{passed} passed, {len(failures)} failed, 0 skipped; {refused} of them are refused by both")
    if file:
        Path(file).write_text(json.dumps({"passed": passed, "failures": failures, "refused": refused}, indent=1))
    return bool(failures) or passed == refused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of templates")
    parser.add_argument("--json", metavar="FILE", help="write what was found there")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return compare(options.folder, options.json)
    if not any(options.folder.glob("*.jinja")):
        parser.error(f"{options.folder} has no templates (*.jinja)")
    from conformance import environments

    python = environments.interpreter("chat-templates", *REQUIREMENTS)
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'python'}", "TRANSFORMERS_VERBOSITY": "error"}
    words = [python, "-m", "conformance.chat_templates.run", *sys.argv[1:], "--inside"]
    return subprocess.run(list(map(str, words)), cwd=Path.cwd(), env=environ).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Drives the example agent with the official Python client.

usage: acp_client.py PROGRAM WORKSPACE
"""

import asyncio
import os
import re
import sys

import acp
from acp.schema import ClientCapabilities, RequestPermissionResponse

from world import alive, done, unique_sleep, wait_for

PROGRAM, WORKSPACE = sys.argv[1:]


class Editor(acp.Client):
    """Collects updates; answers permission requests with the option of this kind, or with cancelled."""

    def __init__(self):
        self.updates, self.asked, self.answer = [], [], None

    async def session_update(self, session_id, update, **_):
        self.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked.append((tool_call.model_dump(mode="json", by_alias=True, exclude_none=True), options))
        chosen = [option for option in options if option.kind == self.answer]
        outcome = {"outcome": "selected", "optionId": chosen[0].option_id} if chosen else {"outcome": "cancelled"}
        return RequestPermissionResponse.model_validate({"outcome": outcome})


async def prompt(agent, editor, session, text):
    """Runs a prompt; (stop reason, updates)."""
    before = len(editor.updates)
    response = await agent.prompt(session_id=session, prompt=[acp.text_block(text)])
    return response.stop_reason, editor.updates[before:]


async def cards(agent, editor, session):
    _, (call, update) = await prompt(agent, editor, session, "printf 'a\\n\\nb\\n\\n'; exit 3")
    assert call["sessionUpdate"] == "tool_call" and call["title"] == "printf 'a\\n\\nb\\n\\n'; exit 3", call
    assert call["kind"] == "execute", call
    assert call["_meta"] == {"terminal_info": {"terminal_id": call["toolCallId"], "cwd": WORKSPACE}}, call
    assert [block["type"] for block in call["content"]] == ["content", "terminal"], call
    assert update["sessionUpdate"] == "tool_call_update" and update["status"] == "completed", update
    assert "content" not in update, update
    assert update["_meta"]["terminal_output"]["data"] == "a\n\nb\n\n[exit code: 3]", update
    assert update["_meta"]["terminal_exit"]["exit_code"] == 3, update
    done("terminal card")


async def approvals(agent, editor, session):
    for answer, name, status, exists in [
        ("reject_once", "rejected.txt", "failed", False),
        (None, "dismissed.txt", "failed", False),
        ("allow_once", "allowed.txt", "completed", True),
    ]:
        editor.answer = answer
        _, updates = await prompt(agent, editor, session, f"touch {name}")
        assert len(updates) == 4, updates
        assert "denied under read-only mode" in updates[1]["_meta"]["terminal_output"]["data"], updates
        assert updates[3]["status"] == status, updates
        call, options = editor.asked[-1]
        assert [option.kind for option in options] == ["allow_once", "reject_once"], options
        question = call["content"][0]["content"]["text"]
        for part in [f"touch {name}", "read-only", "workspace-write", f"{WORKSPACE}/{name}"]:
            assert part in question, (part, question)
        assert os.path.exists(f"{WORKSPACE}/{name}") is exists, name
    done("permission")


async def tasks(agent, editor, session):
    sleep, mark = unique_sleep()
    _, (call, update) = await prompt(agent, editor, session, f"/background echo first; setsid {sleep} & {sleep}")
    assert update["status"] == "completed", update
    task = re.search(r"bash-\d+", str(update)).group()
    while len(alive(mark)) < 2:
        await asyncio.sleep(0.05)
    for expected in ["first", "no new output"]:
        _, updates = await prompt(agent, editor, session, f"/output {task}")
        said = str(updates[-1])
        assert updates[-1]["status"] == "completed" and "running" in said, updates
        assert ("first" in said) is (expected == "first"), (expected, said)
    _, updates = await prompt(agent, editor, session, f"/kill {task}")
    assert updates[-1]["status"] == "completed", updates
    assert not alive(mark), "a kill ends all of it"
    _, updates = await prompt(agent, editor, session, f"/kill {task}-none")
    assert updates[-1]["status"] == "failed", updates
    done("tasks")


async def endings(agent, editor, session):
    sleep, mark = unique_sleep()
    running = asyncio.ensure_future(prompt(agent, editor, session, sleep))
    while not alive(mark):
        await asyncio.sleep(0.05)
    await agent.cancel(session_id=session)
    reason, updates = await running
    assert reason == "cancelled" and updates[-1]["status"] == "failed", (reason, updates)
    assert not alive(mark)
    done("cancel")
    sleep, mark = unique_sleep()
    running = asyncio.ensure_future(prompt(agent, editor, session, f"setsid {sleep} & {sleep}"))
    while len(alive(mark)) < 2:
        await asyncio.sleep(0.05)
    running.cancel()
    return mark


async def main():
    editor = Editor()
    async with acp.spawn_agent_process(editor, PROGRAM) as (agent, process):
        said = ClientCapabilities.model_validate({"_meta": {"terminal_output": True}})
        response = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=said)
        assert response.protocol_version == 1, response
        session = (await agent.new_session(cwd=WORKSPACE, mcp_servers=[])).session_id
        await cards(agent, editor, session)
        await approvals(agent, editor, session)
        await tasks(agent, editor, session)
        mark = await endings(agent, editor, session)
        process.stdin.close()
        # The loop must go on: it is what closes the pipe.
        gone = lambda: wait_for(lambda: not alive(mark), 1, "everything is killed when the editor goes")
        await asyncio.to_thread(gone)
        done("disconnect")

    editor = Editor()
    async with acp.spawn_agent_process(editor, PROGRAM) as (agent, process):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = (await agent.new_session(cwd=WORKSPACE, mcp_servers=[])).session_id
        _, (call, update) = await prompt(agent, editor, session, "echo plain")
        assert "_meta" not in call and "_meta" not in update, (call, update)
        assert update["content"][-1]["content"]["text"] == "```console\nplain\n```", update
        done("fenced card")


asyncio.run(main())

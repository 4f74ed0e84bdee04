"""Drives `stockade mcp` with the official Python client.

usage: mcp_client.py story|hang PROGRAM WORKSPACE ROOT MODE     MODE: legacy, or 2026-07-28
"""

import asyncio
import os
import sys

import mcp_types as types
from mcp import Client, StdioServerParameters

from world import alive, done, unique_sleep, wait_for

WHAT, PROGRAM, WORKSPACE, ROOT, MODE = sys.argv[1:]
LEGACY = MODE == "legacy"


class User:
    """Answers questions and remembers them."""

    def __init__(self):
        self.answers, self.asked, self.logged = [], [], []

    async def elicit(self, context, params):
        self.asked.append(params.message)
        return types.ElicitResult(action=self.answers.pop(0), content={})

    async def log(self, params):
        self.logged.append(params)


def connect(user=None, roots=None):
    async def list_roots(context):
        return types.ListRootsResult(roots=[types.Root(uri=f"file://{roots}")])

    options = ["mcp", "--workspace", WORKSPACE, "--journal", os.environ["STOCKADE_TEST_JOURNAL"]]
    return Client(
        StdioServerParameters(command=PROGRAM, args=options, env=dict(os.environ)),
        mode=MODE,
        elicitation_callback=user and user.elicit,
        logging_callback=user and user.log,
        log_level=None if LEGACY else "info",
        list_roots_callback=list_roots if roots else None,
    )


def bash(command, **more):
    return {"command": command, "description": "Do what the test says", **more}


def wider(command, mode="workspace-write"):
    return bash(command, sandbox_permissions=mode, justification="The test needs this file.")


async def escalate(client, user, name, answer):
    """Denied first, then asked with this answer; the second result."""
    command = f"touch {name}"
    denied = await client.call_tool("bash", bash(command))
    assert denied.structured_content["sandbox"]["denied"], denied
    assert not os.path.exists(f"{WORKSPACE}/{name}")
    user.answers.append(answer)
    result = await client.call_tool("bash", wider(command))
    question = user.asked[-1]
    for part in [command, "read-only", "workspace-write", "The test needs this file.", f"{WORKSPACE}/{name}"]:
        assert part in question, (part, question)
    return result


async def approvals(client, user):
    refused = await escalate(client, user, "declined.txt", "decline")
    assert refused.is_error and refused.structured_content["code"] == "rejected", refused
    assert not os.path.exists(f"{WORKSPACE}/declined.txt")
    again = await client.call_tool("bash", wider("touch declined.txt"))
    assert again.structured_content["code"] == "refused-before" and len(user.asked) == 1, again
    done("declined")

    cancelled = await escalate(client, user, "cancelled.txt", "cancel")
    assert cancelled.is_error and cancelled.structured_content["code"] == "cancelled", cancelled
    assert not os.path.exists(f"{WORKSPACE}/cancelled.txt")
    done("dismissed")

    granted = await escalate(client, user, "accepted.txt", "accept")
    assert not granted.is_error and os.path.exists(f"{WORKSPACE}/accepted.txt"), granted
    after = await client.call_tool("bash", bash("touch after.txt"))
    assert after.structured_content["sandbox"]["denied"] and not os.path.exists(f"{WORKSPACE}/after.txt"), after
    done("accepted")


async def background(client, user):
    started = await client.call_tool("bash", bash("echo from the background", run_in_background=True))
    task = started.structured_content["taskId"]
    for _ in range(200):
        read = await client.call_tool("bash_output", {"task_id": task})
        if read.structured_content["stdout"] or read.structured_content["status"]["state"] != "running":
            break
        await asyncio.sleep(0.05)
    assert "from the background" in read.structured_content["stdout"], read
    done("background")

    for _ in range(200):
        if user.logged:
            break
        if not LEGACY:  # notices come with the next request there
            await client.call_tool("bash_output", {"task_id": task})
        await asyncio.sleep(0.05)
    assert user.logged[0].data["taskId"] == task, user.logged
    done("notice")

    sleep, mark = unique_sleep()
    started = await client.call_tool("bash", bash(sleep, run_in_background=True))
    wait_for(lambda: alive(mark), 10, "the background command runs")
    killed = await client.call_tool("bash_kill", {"task_id": started.structured_content["taskId"]})
    assert killed.structured_content["killed"] and not alive(mark), killed
    done("kill")


async def long_calls(client):
    ticks = []

    async def tick(progress, total, message):
        ticks.append(progress)

    await client.call_tool("bash", bash("sleep 5"), progress_callback=tick)
    assert len(ticks) >= 1 and ticks == sorted(ticks), ticks
    done("progress")

    sleep, mark = unique_sleep()
    call = asyncio.ensure_future(client.call_tool("bash", bash(sleep)))
    while not alive(mark):
        await asyncio.sleep(0.05)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    for _ in range(100):
        if not alive(mark):
            break
        await asyncio.sleep(0.05)
    assert not alive(mark), "cancellation kills the command"
    after = await client.call_tool("bash", bash("echo still here"))
    assert "still here" in after.content[0].text, after
    done("cancel")


async def story():
    user = User()
    async with connect(user) as client:
        assert client.protocol_version == ("2025-11-25" if LEGACY else "2026-07-28"), client.protocol_version
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["bash", "bash_output", "bash_kill"], tools
        assert set(tools["bash"].input_schema["required"]) == {"command", "description"}
        assert "additional_permissions" in tools["bash"].input_schema["properties"]
        assert tools["bash_output"].annotations.read_only_hint and tools["bash"].annotations.destructive_hint
        if LEGACY:
            assert "[exit code: N]" in client.session.instructions
        done("list")
        result = await client.call_tool("bash", bash("echo out; echo err >&2; exit 3"))
        assert result.content[0].text == "out\n[stderr]\nerr\n[exit code: 3]", result
        assert result.structured_content["exitCode"] == 3 and not result.is_error
        done("call")
        await approvals(client, user)
        await background(client, user)
        await long_calls(client)
        calls = [client.call_tool("bash_output", {"task_id": f"bash-{n + 900}"}) for n in range(200)]
        assert all(result.is_error for result in await asyncio.gather(*calls))
        done("many at once")
        sleep, mark = unique_sleep()
        await client.call_tool("bash", bash(f"setsid {sleep} & {sleep}", run_in_background=True))
        wait_for(lambda: len(alive(mark)) == 2, 10, "both run")
    wait_for(lambda: not alive(mark), 1, "everything is killed when the client goes")
    done("disconnect")

    async with connect() as client:
        refused = await client.call_tool("bash", wider("touch unasked.txt"))
        assert refused.structured_content["code"] == "unavailable", refused
        assert not os.path.exists(f"{WORKSPACE}/unasked.txt")
        # Whoever cannot be asked is not told to ask.
        denied = await client.call_tool("bash", bash("touch unasked.txt"))
        text = denied.content[0].text
        assert "denied under read-only mode" in text and "escalation available" not in text, text
    done("no capability")

    async with connect(roots=ROOT) as client:
        where = await client.call_tool("bash", bash("pwd"))
        assert where.content[0].text.strip() == ROOT, where
    done("roots")


async def hang():
    """Leaves a foreground and a background command running until it is killed itself."""
    async with connect() as client:
        sleep, mark = unique_sleep()
        await client.call_tool("bash", bash(sleep, run_in_background=True))
        call = asyncio.ensure_future(client.call_tool("bash", bash(f"{sleep} & wait")))
        while len(alive(mark)) < 2:
            await asyncio.sleep(0.05)
        print(f"running: {mark}", flush=True)
        await call


asyncio.run(story() if WHAT == "story" else hang())

// Drives `stockade mcp` with the official TypeScript client.
//
// usage: node mcp_client.mjs PROGRAM WORKSPACE ROOT

import fs from "node:fs";
import { alive, check, done, load, uniqueSleep, waitFor } from "./world.mjs";

const [program, workspace, root] = process.argv.slice(2);
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
const { ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema } = await load(
  "@modelcontextprotocol/sdk/types.js",
);

async function connect(capabilities, setUp = () => {}) {
  const client = new Client({ name: "stockade-test", version: "1" }, { capabilities });
  setUp(client);
  const args = ["mcp", "--workspace", workspace];
  const transport = new StdioClientTransport({ command: program, args, env: process.env, stderr: "inherit" });
  await client.connect(transport);
  return client;
}

const bash = (command, more = {}) => ({
  name: "bash",
  arguments: { command, description: "Do what the test says", ...more },
});
const wider = (command) =>
  bash(command, { sandbox_permissions: "workspace-write", justification: "The test needs this file." });
const exists = (name) => fs.existsSync(`${workspace}/${name}`);

const asked = [];
const logged = [];
let answer = "cancel";
const client = await connect({ elicitation: {} }, (client) => {
  client.setRequestHandler(ElicitRequestSchema, (request) => {
    asked.push(request.params.message);
    return { action: answer, content: {} };
  });
  client.setNotificationHandler(LoggingMessageNotificationSchema, (message) => void logged.push(message.params));
});

const { tools } = await client.listTools();
check(tools.map((tool) => tool.name).join() === "bash,bash_output,bash_kill", tools);
check(tools[1].annotations.readOnlyHint && tools[0].annotations.destructiveHint, tools);
check(client.getInstructions().includes("[exit code: N]"), client.getInstructions());
done("list");

const plain = await client.callTool(bash("echo out; exit 3"));
check(plain.content[0].text === "out\n[exit code: 3]" && plain.structuredContent.exitCode === 3, plain);
done("call");

for (const [action, code, step] of [
  ["decline", "rejected", "declined"],
  ["cancel", "cancelled", "dismissed"],
  ["accept", undefined, "accepted"],
]) {
  const denied = await client.callTool(bash(`touch ${step}.txt`));
  check(denied.structuredContent.sandbox.denied && !exists(`${step}.txt`), denied);
  answer = action;
  const result = await client.callTool(wider(`touch ${step}.txt`));
  check(asked.at(-1).includes(`touch ${step}.txt`) && asked.at(-1).includes("workspace-write"), asked);
  check(result.structuredContent.code === code && exists(`${step}.txt`) === (action === "accept"), result);
  done(step);
}

const started = await client.callTool(bash("echo from the background", { run_in_background: true }));
const task_id = started.structuredContent.taskId;
let read;
await waitFor(
  async () => {
    read = await client.callTool({ name: "bash_output", arguments: { task_id } });
    return read.structuredContent.stdout !== "" || read.structuredContent.status.state !== "running";
  },
  10,
  "the background command's output",
);
check(read.structuredContent.stdout === "from the background\n", read);
await waitFor(() => logged.some((message) => message.data.taskId === task_id), 10, "the completion notice");
done("background");

{
  const [sleep, mark] = uniqueSleep();
  const running = await client.callTool(bash(sleep, { run_in_background: true }));
  await waitFor(() => alive(mark).length === 1, 10, "the background command runs");
  const kill = { name: "bash_kill", arguments: { task_id: running.structuredContent.taskId } };
  const killed = await client.callTool(kill);
  check(killed.structuredContent.killed && alive(mark).length === 0, killed);
  done("kill");
}

{
  const ticks = [];
  await client.callTool(bash("sleep 5"), undefined, { onprogress: (progress) => void ticks.push(progress.progress) });
  check(ticks.length >= 1, ticks);
  done("progress");
}

{
  const [sleep, mark] = uniqueSleep();
  const abort = new AbortController();
  const call = client.callTool(bash(sleep), undefined, { signal: abort.signal }).catch((error) => error);
  await waitFor(() => alive(mark).length === 1, 10, "the command runs");
  abort.abort("changed my mind");
  check((await call) instanceof Error, "an aborted call has no result");
  await waitFor(() => alive(mark).length === 0, 5, "cancellation kills the command");
  done("cancel");
}

{
  const [sleep, mark] = uniqueSleep();
  const call = client.callTool(bash(`setsid ${sleep} & ${sleep}`)).catch((error) => error);
  await waitFor(() => alive(mark).length === 2, 10, "both run");
  const closed = client.close();
  await waitFor(() => alive(mark).length === 0, 1, "everything is killed when the client goes");
  await closed;
  const last = await call;
  check(last instanceof Error || last.isError, last);
  done("disconnect");
}

{
  const mute = await connect({});
  const refused = await mute.callTool(wider("touch unasked.txt"));
  check(refused.structuredContent.code === "unavailable" && !exists("unasked.txt"), refused);
  await mute.close();
  done("no capability");
}

{
  const rooted = await connect({ roots: {} }, (client) => {
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: `file://${root}` }] }));
  });
  const where = await rooted.callTool(bash("pwd"));
  check(where.content[0].text.trim() === root, where);
  await rooted.close();
  done("roots");
}

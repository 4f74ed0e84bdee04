// Drives the example agent with the official TypeScript client.
//
// usage: node acp_client.mjs PROGRAM WORKSPACE

import { spawn } from "node:child_process";
import fs from "node:fs";
import { Readable, Writable } from "node:stream";
import { alive, check, done, load, uniqueSleep, waitFor } from "./world.mjs";

const [program, workspace] = process.argv.slice(2);
const acp = await load("@agentclientprotocol/sdk");
const { methods } = acp;

const updates = [];
const asked = [];
let answer = null;

async function connect(capabilities) {
  const agent = spawn(program, [], { stdio: ["pipe", "pipe", "inherit"] });
  const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
  const app = acp
    .client({ name: "stockade-test" })
    .onNotification(methods.client.session.update, ({ params }) => void updates.push(params.update))
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      asked.push(params);
      const chosen = params.options.find((option) => option.kind === answer);
      return { outcome: chosen ? { outcome: "selected", optionId: chosen.optionId } : { outcome: "cancelled" } };
    });
  const connection = app.connect(stream);
  const started = await connection.agent.request(methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: capabilities,
  });
  check(started.protocolVersion === 1, started);
  const { sessionId } = await connection.agent.request(methods.agent.session.new, { cwd: workspace, mcpServers: [] });
  const prompt = async (text) => {
    const before = updates.length;
    const params = { sessionId, prompt: [{ type: "text", text }] };
    const { stopReason } = await connection.agent.request(methods.agent.session.prompt, params);
    return [stopReason, updates.slice(before)];
  };
  const cancel = () => connection.agent.notify(methods.agent.session.cancel, { sessionId });
  return { agent, connection, prompt, cancel };
}

const { agent, prompt, cancel } = await connect({ _meta: { terminal_output: true } });

{
  const [, [call, update]] = await prompt("printf 'a\\n\\nb\\n\\n'; exit 3");
  check(call.title === "printf 'a\\n\\nb\\n\\n'; exit 3" && call.kind === "execute", call);
  check(call._meta.terminal_info.cwd === workspace && call.content[1].type === "terminal", call);
  check(update.content === undefined && update.status === "completed", update);
  check(update._meta.terminal_output.data === "a\n\nb\n\n[exit code: 3]", update);
  check(update._meta.terminal_exit.exit_code === 3, update);
  done("terminal card");
}

for (const [kind, name, status] of [
  ["reject_once", "rejected.txt", "failed"],
  [null, "dismissed.txt", "failed"],
  ["allow_once", "allowed.txt", "completed"],
]) {
  answer = kind;
  const [, seen] = await prompt(`touch ${name}`);
  check(seen.length === 4 && seen[3].status === status, seen);
  check(asked.at(-1).toolCall.content[0].content.text.includes(`touch ${name}`), asked.at(-1));
  check(fs.existsSync(`${workspace}/${name}`) === (kind === "allow_once"), name);
}
done("permission");

{
  const [sleep, mark] = uniqueSleep();
  const [, started] = await prompt(`/background echo first; setsid ${sleep} & ${sleep}`);
  const task = /bash-\d+/.exec(JSON.stringify(started.at(-1)))[0];
  await waitFor(() => alive(mark).length === 2, 10, "both run");
  for (const first of [true, false]) {
    const [, seen] = await prompt(`/output ${task}`);
    const said = JSON.stringify(seen.at(-1));
    check(seen.at(-1).status === "completed" && said.includes("running") && said.includes("first") === first, seen);
  }
  const [, killed] = await prompt(`/kill ${task}`);
  check(killed.at(-1).status === "completed" && alive(mark).length === 0, killed);
  const [, none] = await prompt(`/kill ${task}-none`);
  check(none.at(-1).status === "failed", none);
  done("tasks");
}

{
  const [sleep, mark] = uniqueSleep();
  const running = prompt(sleep);
  await waitFor(() => alive(mark).length === 1, 10, "the command runs");
  await cancel();
  const [reason] = await running;
  check(reason === "cancelled" && alive(mark).length === 0, reason);
  done("cancel");
}

{
  const [sleep, mark] = uniqueSleep();
  const running = prompt(`setsid ${sleep} & ${sleep}`).catch((error) => error);
  await waitFor(() => alive(mark).length === 2, 10, "both run");
  agent.kill("SIGKILL");
  await waitFor(() => alive(mark).length === 0, 1, "everything is killed with the agent");
  await running;
  done("disconnect");
}

{
  const { agent, prompt } = await connect({});
  const [, [call, update]] = await prompt("echo plain");
  check(call._meta === undefined && update._meta === undefined, [call, update]);
  check(update.content.at(-1).content.text === "```console\nplain\n```", update);
  agent.stdin.destroy();
  agent.kill();
  done("fenced card");
}
process.exit(0);

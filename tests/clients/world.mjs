// What the drivers look at: the disk and the process table. Shared by the Node drivers.

import fs from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const fromClients = createRequire(`${process.env.STOCKADE_CLIENTS}/node_modules/`);

/** Loads a module of an installed client. */
export const load = (name) => import(pathToFileURL(fromClients.resolve(name)).href);

let number = 0;

/** A sleep that no other process of this machine has: [command, what to look for]. */
export function uniqueSleep() {
  number += 1;
  const seconds = `${4000 + number}.${process.pid}`;
  return [`sleep ${seconds}`, seconds];
}

/** Ids of the sleeps with this argument. */
export function alive(seconds) {
  return fs.readdirSync("/proc").filter((entry) => {
    if (!/^\d+$/.test(entry)) return false;
    try {
      const words = fs.readFileSync(`/proc/${entry}/cmdline`, "latin1").split("\0");
      return words[0] === "sleep" && words.includes(seconds);
    } catch {
      return false;
    }
  });
}

/** Waits until the condition holds; fails after `limit` seconds. */
export async function waitFor(condition, limit, what) {
  const end = Date.now() + limit * 1000;
  while (!(await condition())) {
    check(Date.now() < end, `not within ${limit} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Fails with what was found. */
export function check(condition, found) {
  if (!condition) throw new Error(typeof found === "string" ? found : JSON.stringify(found));
}

/** Tells the test that a step held. */
export const done = (step) => console.log(`held: ${step}`);

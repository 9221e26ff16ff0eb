// What the server has said of itself, which every screen goes by.

import { signal } from "@preact/signals";
import { api } from "./api";
import { say } from "./load";
import type { Assistant, Info } from "./types";

export const info = signal<Info | undefined>();
export const graphs = signal<Assistant[] | undefined>();
export const readonly = signal(false);
// brief is how states are asked for without their large values, where the server can.
export const brief = () => (info.value?.stele?.brief_values ? "brief" : undefined);
// notice is what a person must learn although what it was about has left the screen.
export const notice = signal<string | undefined>();
// titled is the thread on the screen, and what it is called.
export const titled = signal<{ id: string; title: string } | undefined>();
export const trouble = signal<string | undefined>();

// begin asks what the server is, and ends when that is told, or has failed. Which assistants there
// are may come later. It calls told as soon as the server has said what it is.
export async function begin(told: () => void) {
  const assistants = api.assistants();
  assistants.catch(() => undefined); // it is told below
  try {
    info.value = await api.info();
    readonly.value = info.value.stele?.readonly ?? false;
    trouble.value = undefined;
    told();
    assistants.then((all) => (graphs.value = all), (error) => (trouble.value = say(error)));
  } catch (error) {
    trouble.value = say(error);
  }
}

// waiting is how many threads wait for an answer, as far as the server tells.
export const waiting = signal<number | undefined>();

// countWaiting asks how many threads wait, and lists none of them.
export function countWaiting() {
  api.countThreads(info.value?.stele?.thread_status ? { stele_status: "waiting" } : { status: "interrupted" }).then(
    (n) => (waiting.value = typeof n === "number" ? n : undefined),
    () => (waiting.value = undefined), // a server that does not count
  );
}

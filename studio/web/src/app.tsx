// The frame of every screen.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "./api";
import { Health } from "./health";
import { say } from "./load";
import { link, route } from "./route";
import { Runs } from "./runs";
import { Store } from "./store";
import { visible } from "./text";
import { ThreadScreen } from "./thread";
import { Threads } from "./threads";
import type { Assistant, Info } from "./types";

export const info = signal<Info | undefined>();
export const graphs = signal<Assistant[] | undefined>();
export const readonly = signal(false);
// notice is what a person must learn although what it was about has left the screen.
export const notice = signal<string | undefined>();
const trouble = signal<string | undefined>();

async function begin() {
  try {
    const told = await api.info();
    info.value = told;
    readonly.value = told.stele?.readonly ?? false;
    trouble.value = undefined;
    graphs.value = await api.assistants();
  } catch (error) {
    trouble.value = say(error);
  }
}

export function App() {
  useEffect(() => void begin(), []);
  const { path } = route.value;
  const screen = path[0];
  useEffect(() => {
    document.title = (screen === "threads" && path[1] ? visible(path[1]).slice(0, 40) + " · " : "") + "stele studio";
  }, [screen, path[1]]);
  useEffect(() => {
    // The slash goes to the search, as it does on many pages.
    const onKey = (e: KeyboardEvent) => {
      const typing = e.target instanceof HTMLElement && e.target.closest("input, textarea, select, dialog");
      if (e.key !== "/" || typing || e.ctrlKey || e.metaKey || e.altKey) return;
      const search = document.querySelector<HTMLInputElement>('input[type="search"]');
      if (search) {
        e.preventDefault();
        search.focus();
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      <header class="top">
        <a class="brand" href={link(["threads"])}>
          stele
        </a>
        <nav aria-label="Screens">
          <a href={link(["threads"])} aria-current={screen === "threads" ? "page" : undefined}>
            Threads
          </a>
          <a href={link(["store"])} aria-current={screen === "store" ? "page" : undefined}>
            Store
          </a>
          {info.value?.stele?.runs && (
            <a href={link(["runs"])} aria-current={screen === "runs" ? "page" : undefined}>
              Runs
            </a>
          )}
          {info.value?.stele?.health && (
            <a href={link(["health"])} aria-current={screen === "health" ? "page" : undefined}>
              Health
            </a>
          )}
        </nav>
        {readonly.value && <span class="status readonly">read-only</span>}
      </header>
      {trouble.value && (
        <p class="error" role="alert">
          {trouble.value} <button onClick={begin}>Try again</button>
        </p>
      )}
      {notice.value && (
        <p class="error" role="alert">
          {notice.value}{" "}
          <button class="quiet" onClick={() => (notice.value = undefined)}>
            close
          </button>
        </p>
      )}
      {!info.value ? null : screen === "threads" && path[1] !== undefined ? <ThreadScreen key={path[1]} id={path[1]} /> : screen === "store" ? <Store /> : screen === "threads" ? <Threads /> : screen === "runs" ? <Runs /> : screen === "health" ? <Health /> : <Nowhere />}
    </>
  );
}

function Nowhere() {
  return (
    <main>
      <p class="empty">
        There is no such page. <a href={link(["threads"])}>Threads</a>
      </p>
    </main>
  );
}

// The frame of every screen.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { hasKey, setKey, unknown } from "./api";
import { Guarded } from "./guarded";
import { Keys, showKeys, useKeys } from "./keys";
import { say } from "./load";
import { link, route } from "./route";
import { begin, countWaiting, info, notice, readonly, titled, trouble, waiting } from "./session";
import { SignIn } from "./signin";
import { count, visible } from "./text";
import { listQuery, sendAhead, Threads } from "./threads";

// The screen of a thread, with its graph and comparisons, is most of the script. The list of
// threads does not wait for it, and it is there when a thread is opened.
const screens = {
  thread: () => import("./thread").then((m) => m.ThreadScreen),
  inbox: () => import("./inbox").then((m) => m.Inbox),
  store: () => import("./store").then((m) => m.Store),
  runs: () => import("./runs").then((m) => m.Runs),
  health: () => import("./health").then((m) => m.Health),
};

// Later shows a screen when its script is there.
function Later<P extends object>({ from, props }: { from: () => Promise<ComponentType<P>>; props: P }) {
  const [Screen, set] = useState<ComponentType<P>>();
  useEffect(() => {
    let left = false;
    from().then((s) => left || set(() => s), (error) => (trouble.value = say(error)));
    return () => void (left = true);
  }, [from]);
  return Screen ? <Screen {...props} /> : null;
}

const titles: Record<string, string> = { inbox: "Inbox", store: "Store", runs: "Runs", health: "Health" };
const countPause = 15_000;

const start = () => begin(sendAhead);

export const begun = start();

export function App() {
  const { path } = route.value;
  const screen = path[0];
  const asked = waiting.value ?? 0;
  const thread = titled.value?.id === path[1] ? titled.value?.title || path[1] : path[1];
  useEffect(() => {
    const name = screen === "threads" ? (thread === undefined ? "" : visible(thread).slice(0, 40)) : (titles[screen ?? ""] ?? "");
    document.title = (asked > 0 ? `(${asked}) ` : "") + (name && name + " · ") + "stele studio";
  }, [screen, thread, asked]);
  // The count is in the title of a tab that nobody looks at, too.
  const known = info.value !== undefined;
  useEffect(() => {
    if (!known) return;
    const timer = setInterval(() => unknown.value || countWaiting(), countPause);
    const first = setTimeout(countWaiting, 300); // after what is on the screen
    return () => (clearInterval(timer), clearTimeout(first));
  }, [known]);
  useKeys();
  return (
    <>
      <header class="top">
        <a class="brand" href={link(["threads"])}>
          stele
        </a>
        <nav aria-label="Screens" hidden={unknown.value}>
          <a href={link(["threads"], path[1] === undefined ? {} : listQuery())} aria-current={screen === "threads" ? "page" : undefined}>
            Threads
          </a>
          <a href={link(["inbox"])} aria-current={screen === "inbox" ? "page" : undefined}>
            Inbox{asked > 0 && " "}
            {asked > 0 && <span class="badge" title={`${count(asked)} wait for an answer`}>{count(asked)}</span>}
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
        <span class="end-of-top">
          {hasKey() && !unknown.value && (
            <button class="quiet" onClick={() => (setKey(""), location.reload())}>
              sign out
            </button>
          )}
          <button class="quiet" title="Keys" aria-label="Keys" onClick={showKeys}>
            ?
          </button>
        </span>
      </header>
      {trouble.value && !unknown.value && (
        <p class="error" role="alert">
          {trouble.value} <button onClick={start}>Try again</button>
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
      <Keys />
      {unknown.value ? <SignIn again={start} /> : <Guarded key={path.slice(0, 2).join("/")}>{info.value && <Screen path={path} />}</Guarded>}
    </>
  );
}

function Screen({ path: [screen, id] }: { path: string[] }) {
  if (screen === "threads" && id === undefined) return <Threads />;
  if (screen === "threads") return <Later from={screens.thread} props={{ id: id! }} />;
  if (screen === "inbox") return <Later from={screens.inbox} props={{}} />;
  if (screen === "store") return <Later from={screens.store} props={{}} />;
  const has = info.value?.stele;
  if ((screen === "runs" && !has?.runs) || (screen === "health" && !has?.health)) return <Absent what={screen} />;
  if (screen === "runs") return <Later from={screens.runs} props={{}} />;
  if (screen === "health") return <Later from={screens.health} props={{}} />;
  return <Nowhere />;
}

function Absent({ what }: { what: string }) {
  return (
    <main>
      <p class="empty">{what === "runs" ? "This server does not tell of its queue: only servers of stele's do." : "This server does not tell how its store is: only servers of stele's with a store in a directory do."}</p>
    </main>
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

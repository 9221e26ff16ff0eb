// How an embedded store is: its problems, its sizes, what takes the room in it, and what a
// compaction would free; checks and backups of it.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api } from "./api";
import { info } from "./session";
import { Form } from "./dialog";
import { say, useEvery, useLoad } from "./load";
import { bytes, count, visible } from "./text";
import type { BackedUp, Room as Taken, ValueRoom, Verified } from "./types";

const files = (n: number) => `${count(n)} ${n === 1 ? "file" : "files"}`;

// problems has words for the kinds of problems; a store may tell others.
const problems: Record<string, string> = {
  closed: "The store is closed",
  poisoned: "A write failed",
  disk_full: "The disk is full",
  disk_low: "Low disk space",
  disk_unknown: "Free disk space unknown",
  refused: "The system refused a write",
  lag: "Writes reach the disk late",
  log_backlog: "The log grows faster than it is flushed",
  compaction_debt: "Compaction is behind",
  background: "Work in the background failed",
  corruption: "Damage was found",
  replica: "The replica has a problem",
  moved: "The directory was moved",
  held: "Restored, and held until it is released",
  items_unmoved: "Items of users are at their former places",
};

export function Health() {
  const told = useLoad(() => api.health(), []);
  useEvery(5000, told.again);
  const h = told.value?.health;
  const s = told.value?.stats;
  return (
    <main class="page">
      <div class="bar">
        <h1>Health of the store</h1>
      </div>
      {told.error && (
        <p class="error" role="alert">
          {told.error}
        </p>
      )}
      {h && s && (
        <div class="inset">
          <p>
            <b>{h.problems.length === 0 ? "Nothing is wrong." : `${h.problems.length === 1 ? "One problem" : `${h.problems.length} problems`}:`}</b>
          </p>
          {h.problems.map((p, i) => (
            <div key={i} class="task failed">
              <p>
                <b class="bad">{problems[p.kind] ?? visible(p.kind)}</b>
              </p>
              <p>{visible(p.detail)}</p>
            </div>
          ))}
          <dl class="tiles">
            <Row name="Threads" value={count(s.threads)} />
            <Row name="In segments" value={`${bytes(s.segment_bytes)} in ${files(s.segments)}`} more={`${bytes(s.raw_bytes)} before compression`} />
            <Row name="A compaction would free about" value={bytes(s.dead_bytes)} more="stele compact DIR, or the store's own work" />
            <Row name="Waits to be compacted" value={bytes(s.compaction_debt)} />
            <Row name="In the log, not flushed" value={`${bytes(s.log_bytes)} in ${files(s.log_files)}`} />
            <Row name="Images of the index" value={count(s.images)} />
            <Row name="Threads in memory" value={count(s.resident)} />
            <Row name="Free on the device" value={h.space.total ? `${bytes(h.space.free)} of ${bytes(h.space.total)}` : bytes(h.space.free)} />
          </dl>
          {info.value?.stele?.room && <Room />}
          <Upkeep />
        </div>
      )}
    </main>
  );
}

// most is how many channels are shown; the rest of them are one row.
const most = 20;

// Room is read when it is asked for: it takes a look at the whole index.
function Room() {
  const [room, set] = useState<Taken>();
  const [state, setState] = useState<{ busy: boolean; error?: string }>({ busy: false });
  const look = async () => {
    setState({ busy: true });
    try {
      set(await api.room());
      setState({ busy: false });
    } catch (error) {
      setState({ busy: false, error: say(error) });
    }
  };
  const rest = room?.channels.slice(most) ?? [];
  return (
    <section aria-label="What takes the room">
      <h2>
        What takes the room{" "}
        <button class="quiet" disabled={state.busy} onClick={look}>
          {room ? "look again" : "look"}
        </button>
      </h2>
      {state.error && (
        <p class="error" role="alert">
          {state.error}
        </p>
      )}
      {room && (
        <table class="room">
          <thead>
            <tr>
              <th>What</th>
              <th>Values</th>
              <th>Bytes</th>
              <th>Share</th>
            </tr>
          </thead>
          <tbody>
            {room.channels.slice(0, most).map((c) => (
              <Part key={c.channel} name={<code>{visible(c.channel)}</code>} of={c} all={room.bytes} />
            ))}
            {rest.length > 0 && <Part name={`${count(rest.length)} more channels`} of={{ values: sum(rest, "values"), bytes: sum(rest, "bytes") }} all={room.bytes} />}
            <Part name="checkpoints, without values" of={room.records} all={room.bytes} />
            <Part name="writes of tasks" of={room.writes} all={room.bytes} />
            <Part name="items, runs, and what a server keeps" of={room.items} all={room.bytes} />
            <Part name="the rest" of={room.other} all={room.bytes} />
          </tbody>
        </table>
      )}
      {room && <p class="note">Each value counts once, before compression; a value that is stored as a change of another counts with the change.</p>}
    </section>
  );
}

const sum = (list: ValueRoom[], of: keyof ValueRoom) => list.reduce((n, r) => n + r[of], 0);

function Part({ name, of, all }: { name: ComponentChildren; of: ValueRoom; all: number }) {
  const part = all > 0 ? (100 * of.bytes) / all : 0;
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>{count(of.values)}</td>
      <td>{bytes(of.bytes)}</td>
      <td>
        <span class="meter time" style={`--part: ${Math.max(1, Math.round(part))}%`}>
          {part > 0 && part < 1 ? "< 1" : Math.round(part)} %
        </span>
      </td>
    </tr>
  );
}

// Upkeep checks the store and backs it up, where the server lets the page do so.
function Upkeep() {
  const can = info.value?.stele;
  const [asked, ask] = useState<"verify" | "backup">();
  const [verified, setVerified] = useState<Verified>();
  const [backedUp, setBackedUp] = useState<BackedUp>();
  return (
    <section aria-label="Upkeep">
      <h2>Upkeep</h2>
      <p class="buttons left">
        {can?.verify && <button onClick={() => ask("verify")}>Verify</button>}
        {can?.backup && <button onClick={() => ask("backup")}>Back up</button>}
      </p>
      {!(can?.verify && can?.backup) && (
        <p class="note">
          {!can?.verify && (
            <>
              To check every byte, run <code>stele verify DIR</code>.{" "}
            </>
          )}
          {!can?.backup && (
            <>
              To copy the store while it is in use, run <code>stele backup DIR TO</code>.{" "}
            </>
          )}
        </p>
      )}
      <div aria-live="polite">
        {verified && <Found report={verified} />}
        {backedUp && (
          <p>
            <b>Backed up</b> to {visible(backedUp.dest)}: {bytes(backedUp.bytes)} in {count(backedUp.files)} files, of which {count(backedUp.copied_files)} were copied
            ({bytes(backedUp.copied_bytes)}), in {seconds(backedUp.took_ns)}.
          </p>
        )}
      </div>
      {asked === "verify" && (
        <Form title="Check every byte of the store?" act="Verify" close={() => ask(undefined)} submit={async () => setVerified(await api.verify())}>
          <p>The whole store is read, which takes a while if it is large. Programs can use it meanwhile, more slowly.</p>
        </Form>
      )}
      {asked === "backup" && (
        <Form title="Back up the store?" act="Back up" close={() => ask(undefined)} submit={async () => setBackedUp(await api.backup())}>
          <p>What is new since the last backup is copied to the directory that the server's program chose. The last backup is replaced when the new one is complete.</p>
        </Form>
      )}
    </section>
  );
}

function Found({ report }: { report: Verified }) {
  const all = `${count(report.files)} files, ${bytes(report.bytes)}, ${count(report.checkpoints)} checkpoints, in ${seconds(report.took_ns)}`;
  if (report.damage.length === 0) {
    return (
      <p>
        <b>Nothing is damaged:</b> {all}.
      </p>
    );
  }
  return (
    <>
      <p class="error">
        <b>{report.damage.length === 1 ? "One place is damaged" : `${count(report.damage.length)} places are damaged`}</b> ({all}). Operations, "Damage", says what to do.
      </p>
      <ul>
        {report.damage.slice(0, 50).map((d, i) => (
          <li key={i}>
            <code>
              {visible(d.file)}
              {d.offset >= 0 ? `:${d.offset}` : ""}
            </code>{" "}
            {visible(d.kind)}: {visible(d.detail)}
          </li>
        ))}
      </ul>
    </>
  );
}

const seconds = (ns: number) => (ns < 1e9 ? `${Math.round(ns / 1e6)} ms` : `${(ns / 1e9).toFixed(1)} s`);

function Row({ name, value, more }: { name: string; value: string; more?: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
      {more && <dd class="note">{more}</dd>}
    </div>
  );
}

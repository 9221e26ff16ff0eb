// The queue of a server of stele's: runs that wait, are under way or failed, and schedules.

import { useState } from "preact/hooks";
import { api } from "./api";
import { readonly } from "./app";
import { Form } from "./dialog";
import { useEvery, useLoad } from "./load";
import { change, link, route } from "./route";
import { count, Id, spent, Text, Time, visible } from "./text";
import type { QueuedRun } from "./types";

const statuses = ["", "pending", "running", "error", "interrupted", "success"] as const;
const looks: Record<string, string> = { error: "error", interrupted: "interrupted", running: "busy", pending: "busy" };

export function Runs() {
  const status = route.value.query.status ?? "";
  const runs = useLoad(() => api.queue(status), [status]);
  const schedules = useLoad(() => api.schedules(), []);
  const [retry, setRetry] = useState<QueuedRun>();
  const [cancel, setCancel] = useState<QueuedRun>();
  useEvery(3000, runs.again);
  const list = runs.value?.runs ?? [];
  return (
    <main class="page">
      <div class="bar">
        <h1>Runs</h1>
        <label>
          Status{" "}
          <select value={status} onChange={(e) => change({ status: e.currentTarget.value })}>
            {statuses.map((s) => (
              <option key={s} value={s}>
                {s || "all"}
              </option>
            ))}
          </select>
        </label>
        {runs.value && runs.value.total > list.length && <span class="note">the newest {count(list.length)} of {count(runs.value.total)}</span>}
      </div>
      {runs.error && (
        <p class="error" role="alert">
          {runs.error}
        </p>
      )}
      {list.length > 0 && (
        <div class="wide" tabIndex={0} role="region" aria-label="Runs">
          <table>
            <thead>
              <tr>
                <th>Status</th>
                <th>Thread</th>
                <th>Graph</th>
                <th>Submitted</th>
                <th>Attempts</th>
                <th>Took</th>
                <th>Error</th>
                {!readonly.value && <th>Actions</th>}
              </tr>
            </thead>
            <tbody>
              {list.map((r) => (
                <tr key={r.run_id}>
                  <td>
                    <span class={"status " + (looks[r.status] ?? "idle")}>{r.waiting && r.status === "success" ? "waiting" : r.status}</span>
                  </td>
                  <td>
                    <a href={link(["threads", r.thread_id])}>
                      <Id id={r.thread_id} short />
                    </a>
                  </td>
                  <td>{visible(r.graph)}</td>
                  <td>
                    <Time at={r.created_at} />
                  </td>
                  <td>{r.attempt}</td>
                  <td>{tookOf(r)}</td>
                  <td class="cause">{r.error && <Text text={r.error} first={200} />}</td>
                  {!readonly.value && (
                    <td>
                      {(r.status === "error" || r.status === "interrupted") && (
                        <button class="quiet" onClick={() => setRetry(r)}>
                          try again
                        </button>
                      )}
                      {(r.status === "pending" || r.status === "running") && (
                        <button class="quiet" onClick={() => setCancel(r)}>
                          cancel
                        </button>
                      )}
                    </td>
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {runs.value && list.length === 0 && <p class="empty">There are no such runs.</p>}
      {schedules.value && schedules.value.schedules.length > 0 && (
        <section class="inset" aria-label="Schedules">
          <h2>Schedules</h2>
          <ul>
            {schedules.value.schedules.map((s) => (
              <li key={s.id}>
                <code>{visible(s.cron)}</code> runs {visible(s.graph)}, next at {new Date(s.next).toLocaleString()}
              </li>
            ))}
          </ul>
        </section>
      )}
      {retry && (
        <Form title="Try this run again?" act="Try again" close={() => setRetry(undefined)} submit={async () => void (await api.retry(retry.run_id), runs.again())}>
          <p>It goes on where it was. What its node did outside before it failed, it may do again.</p>
        </Form>
      )}
      {cancel && (
        <Form title="Cancel this run?" act="Cancel it" danger close={() => setCancel(undefined)} submit={async () => void (await api.cancel(cancel.thread_id, cancel.run_id), runs.again())}>
          <p>It ends after what is under way. Its checkpoints stay.</p>
        </Form>
      )}
    </main>
  );
}

export function tookOf(r: QueuedRun): string {
  if (!r.started_at) return "";
  const ms = (r.ended_at ? new Date(r.ended_at).getTime() : Date.now()) - new Date(r.started_at).getTime();
  return spent(Math.max(0, ms));
}

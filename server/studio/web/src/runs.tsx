// The queue of a server of stele's: runs that wait, are under way or failed, and schedules.

import { useState } from "preact/hooks";
import { titleOf } from "./about";
import { api } from "./api";
import { graphs, info, readonly } from "./session";
import { AssistantField } from "./assistants";
import { CancelRun, Form, JsonField, jsonOf } from "./dialog";
import { say, useEvery, useLoad } from "./load";
import { Nodes } from "./nodes";
import { change, link, route } from "./route";
import { Cause, RunStatus, runNames, sleepsOf, tookOf } from "./status";
import { count, exact, Id, list, Time, visible, word } from "./text";
import type { Cron, QueuedRun } from "./types";
import { Versions } from "./versions";

const statuses = ["", "pending", "running", "error", "interrupted", "success"] as const;

export function Runs() {
  const status = route.value.query.status ?? "";
  const runs = useLoad(() => api.queue(status), [status]);
  const [retry, setRetry] = useState<QueuedRun>();
  const [cancel, setCancel] = useState<QueuedRun>();
  useEvery(3000, runs.again);
  const rows = list(runs.value?.runs);
  // Threads are named as in their list.
  const ids = JSON.stringify([...new Set(rows.map((r) => r.thread_id))].sort());
  const titles = useLoad(async () => {
    const of = JSON.parse(ids) as string[];
    const threads = of.length ? await api.threads({ ids: of, limit: of.length, offset: 0, ...(info.value?.stele?.brief_values ? { stele_values: "about" } : {}) }) : [];
    return new Map(threads.map((t) => [t.thread_id, titleOf(t)]));
  }, [ids]);
  return (
    <main class="page">
      <div class="bar">
        <h1>Runs</h1>
        <label>
          Status{" "}
          <select value={status} onChange={(e) => change({ status: e.currentTarget.value })}>
            {statuses.map((s) => (
              <option key={s} value={s}>
                {(runNames[s] ?? s) || "all"}
              </option>
            ))}
          </select>
        </label>
        {runs.value && runs.value.total > rows.length && <span class="note">the newest {count(rows.length)} of {count(runs.value.total)}</span>}
      </div>
      {runs.error && (
        <p class="error" role="alert">
          {runs.error}
        </p>
      )}
      {rows.length > 0 && (
        <div class="wide" tabIndex={0} role="region" aria-label="Runs">
          <table class="cards">
            <thead>
              <tr>
                <th>Status</th>
                <th>Thread</th>
                <th>Graph</th>
                <th>Submitted</th>
                <th class="number">Attempts</th>
                <th class="number">Took</th>
                <th>Note</th>
                {!readonly.value && <th>Actions</th>}
              </tr>
            </thead>
            <tbody>
              {rows.map((r, i) => (
                <tr key={r.run_id}>
                  <td>
                    <RunStatus status={r.status} waiting={r.waiting} later={rows.slice(0, i).some((o) => o.thread_id === r.thread_id)} />
                  </td>
                  <td data-name="Thread">
                    <a class="thread-of" title={visible(r.thread_id)} href={link(["threads", r.thread_id])}>
                      {visible(titles.value?.get(r.thread_id)) || <Id id={r.thread_id} short />}
                    </a>
                  </td>
                  <td data-name="Graph">{visible(r.graph)}</td>
                  <td data-name="Submitted">
                    <Time at={r.created_at} />
                  </td>
                  <td class="number" data-name="Attempts">{r.attempt}</td>
                  <td class="number" data-name="Took">{tookOf(r)}</td>
                  <td class="error-of">{r.error ? <Cause error={r.error} /> : <span class="note">{sleepsOf(r)}</span>}</td>
                  {!readonly.value && (
                    <td>
                      {(r.status === "error" || r.status === "interrupted") && !r.refused && (
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
      {runs.value && rows.length === 0 && <p class="empty">{status ? "There are no such runs." : "There are no runs yet. A run is one call of a graph on a thread. The server's queue stores it, and tries it again after a crash."}</p>}
      {info.value?.stele?.graph_versions && <Versions />}
      {info.value?.stele?.nodes && <Nodes />}
      <Schedules />
      {retry && (
        <Form title="Try this run again?" act="Try again" close={() => setRetry(undefined)} submit={async () => void (await api.retry(retry.run_id), runs.again())}>
          <p>It continues where it was. What its node did outside before it failed, it may do again.</p>
        </Form>
      )}
      {cancel && <CancelRun close={() => setCancel(undefined)} cancel={() => api.cancel(cancel.thread_id, cancel.run_id).then(() => runs.again())} />}
    </main>
  );
}

// Schedules are those that clients made, which can be changed here, and those of the program.
function Schedules() {
  const has = info.value?.flags?.crons ?? false;
  const crons = useLoad(async () => (has ? await api.crons() : []), [has]);
  const own = useLoad(() => api.schedules(), []);
  const [making, make] = useState(false);
  const [remove, setRemove] = useState<Cron>();
  const [error, setError] = useState<string>();
  useEvery(10_000, () => (crons.again(), own.again()));
  const pause = (c: Cron) => api.enableCron(c.cron_id, c.enabled === false).then(() => (setError(undefined), crons.again()), (e) => setError(say(e)));
  const nameOf = (id: string) => {
    const a = graphs.value?.find((x) => x.assistant_id === id);
    return visible(a ? a.name || a.graph_id : id);
  };
  const all = list(crons.value);
  const programs = list(own.value?.schedules);
  const problem = error ?? crons.error ?? own.error;
  return (
    <section class="inset" aria-label="Schedules">
      <h2>
        Schedules{" "}
        {has && !readonly.value && !!graphs.value?.length && (
          <button class="quiet" onClick={() => make(true)}>
            new schedule
          </button>
        )}
      </h2>
      {problem && (
        <p class="error" role="alert">
          {problem}
        </p>
      )}
      {all.length + programs.length === 0 && crons.value && own.value && <p class="note">Nothing is scheduled.</p>}
      <ul class="schedules">
        {all.map((c) => (
          <li key={c.cron_id}>
            <code>{visible(c.schedule)}</code> {c.timezone && <>({visible(c.timezone)}) </>}runs {nameOf(c.assistant_id)} on{" "}
            {c.thread_id ? (
              <a href={link(["threads", c.thread_id])}>
                <Id id={c.thread_id} short />
              </a>
            ) : (
              "a thread of its own"
            )}
            , {c.enabled === false ? "paused" : <>next at {when(c.next_run_date)}</>}
            {!readonly.value && (
              <>
                {" "}
                <button class="quiet" onClick={() => pause(c)}>
                  {c.enabled === false ? "resume" : "pause"}
                </button>
                <button class="quiet" onClick={() => setRemove(c)}>
                  delete
                </button>
              </>
            )}
          </li>
        ))}
        {programs.map((s) => (
          <li key={s.id}>
            <code>{visible(s.cron)}</code> runs {visible(s.graph)}, next at {when(s.next)} <span class="note">set by the program</span>
          </li>
        ))}
      </ul>
      {making && (
        <Form
          title="New schedule"
          act="Create"
          close={() => make(false)}
          submit={async (form) => {
            await api.createCron(word(form.get("thread")).trim(), {
              assistant_id: word(form.get("assistant")),
              schedule: word(form.get("schedule")).trim(),
              input: jsonOf(form, "input"),
              ...(form.get("timezone") ? { timezone: word(form.get("timezone")) } : {}),
            });
            crons.again();
          }}
        >
          <AssistantField chosen={graphs.value?.[0]?.assistant_id} />
          <label class="field">
            When: minute, hour, day of the month, month, day of the week
            <input name="schedule" required placeholder="0 7 * * 1-5" />
          </label>
          <label class="field">
            Time zone (empty: UTC)
            <input name="timezone" placeholder="Europe/Berlin" />
          </label>
          <label class="field">
            Thread (empty: a new one each time, removed after the run)
            <input name="thread" />
          </label>
          <JsonField name="input" label="Input, as JSON" value={JSON.stringify({ messages: [{ role: "user", content: "" }] }, null, 2)} />
        </Form>
      )}
      {remove && (
        <Form title="Delete this schedule?" act="Delete" danger close={() => setRemove(undefined)} submit={async () => void (await api.deleteCron(remove.cron_id), crons.again())}>
          <p>
            <code>{visible(remove.schedule)}</code> will not run {nameOf(remove.assistant_id)} any more. What it ran stays.
          </p>
        </Form>
      )}
    </section>
  );
}

// when is the instant of a schedule, in the zone of whoever looks, which it names.
function when(at: string | null | undefined): string {
  if (!at) return "no time";
  const then = new Date(at);
  const zone = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(then).find((p) => p.type === "timeZoneName");
  return `${exact(then).slice(0, 16)} ${zone?.value ?? ""}`;
}

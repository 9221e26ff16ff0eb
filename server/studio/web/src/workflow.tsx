// What the bodies of a superstep did, as a server of stele's tells it: calls of functions, children, sleeps, signals, and
// the values that they expose.

import { titleOf } from "./about";
import { api } from "./api";
import { useEvery, useLoad } from "./load";
import { inWords } from "./questions";
import { link } from "./route";
import { info } from "./session";
import { isOpen, Status } from "./status";
import { count, Id, list, minute, spent, Text, Time, visible, word } from "./text";
import type { Step, Steps, Thread } from "./types";
import { Value } from "./value";

// Workflow is the steps of a checkpoint, and what is exposed there.
export function Workflow({ told }: { told: Steps }) {
  const steps = told.steps.filter((s) => s.kind !== "exposed");
  const exposed = told.steps.filter((s) => s.kind === "exposed");
  const threads = useChildren(told);
  return (
    <>
      {exposed.length > 0 && (
        <section aria-label="Exposed">
          <h3>Exposed</h3>
          {exposed.map((s) => (
            <Value key={s.name} name={s.name} value={s.result ?? null} open />
          ))}
        </section>
      )}
      {steps.length > 0 && (
        <section aria-label="Workflow steps">
          <h3>Workflow steps</h3>
          {!!told.left_out && <p class="note">{count(told.left_out)} that ended are not shown.</p>}
          <ol class="steps">
            {steps.map((s, i) => (
              <StepOf key={i} step={s} child={s.thread_id === undefined ? undefined : threads.get(s.thread_id)} />
            ))}
          </ol>
        </section>
      )}
    </>
  );
}

// mostChildren is of how many children, the last ones, the threads are asked for.
const mostChildren = 200;

// useChildren are the threads of children, by id, as their list shows them. Those that nobody has begun are none. They change
// while the parent does not, so they are asked for again until all have ended.
function useChildren(told: Steps): Map<string, Thread> {
  const children = told.steps.filter((s) => s.thread_id !== undefined).slice(-mostChildren);
  const ids = children.flatMap((s) => s.thread_id ?? []);
  const found = useLoad(async () => {
    const threads = ids.length ? await api.threads({ ids, limit: ids.length, offset: 0, stele_values: "about" }) : [];
    return new Map(threads.map((t) => [t.thread_id, t]));
  }, [JSON.stringify(told.steps)]);
  const threads = found.value ?? new Map<string, Thread>();
  useEvery(2500, () => {
    const open = children.some((s) => {
      const thread = threads.get(word(s.thread_id));
      return thread ? isOpen(thread) : s.state === "waiting" || s.state === "begun";
    });
    if (open && !found.loading) found.again();
  });
  return threads;
}

function StepOf({ step: s, child }: { step: Step; child: Thread | undefined }) {
  return (
    <li class={"did " + lookOf(s)} style={`padding-left: ${0.7 + 1.2 * (s.depth ?? 0)}rem`}>
      <span class="what">
        <span class="note">{s.kind}</span> <b>{visible(s.name)}</b>{" "}
        {s.thread_id !== undefined && <a href={link(["threads", s.thread_id])}>{child && titleOf(child) !== s.name ? visible(titleOf(child)) : <Id id={s.thread_id} short />}</a>}
      </span>
      <span class="state">{child ? <Status thread={child} /> : stateOf(s)}</span>
      <span class="figures">{[s.attempts ? spent((s.took_ns ?? 0) / 1e6) : "", (s.attempts ?? 0) > 1 ? `${s.attempts} attempts` : ""].filter(Boolean).join(", ")}</span>
      {s.began ? <Time at={s.began} /> : <span />}
      {s.error ? (
        <pre class="error">
          <Text text={s.error} first={400} />
        </pre>
      ) : s.questions?.length ? (
        <span class="said asks">{visible(s.questions.map(inWords).join(" · "))}</span>
      ) : (
        s.result !== undefined &&
        s.result !== null && (
          <span class="said">
            <Value value={s.result} />
          </span>
        )
      )}
    </li>
  );
}

// lookOf is the colour of a step: one that asks nobody has none while it waits.
function lookOf(s: Step): string {
  if (s.state === "done" || s.state === "timed out") return "done";
  if (s.state === "failed") return "failed";
  if (s.kind !== "call") return "asleep";
  return s.state === "begun" ? "begun" : s.questions?.length ? "waits" : "asleep";
}

// stateOf is how far a step is, in words.
function stateOf(s: Step): string {
  if (s.state !== "waiting" && s.state !== "begun") return s.state;
  const end = s.until ? ` until ${minute(s.until)}` : "";
  if (s.kind === "sleep") return `sleeps${end}`;
  if (s.kind === "signal") return `waits for the signal${end && "," + end}`;
  return s.state === "waiting" ? (s.kind === "child" ? `is awaited${end}` : "waits") : "has begun";
}

// useSteps are the steps of a checkpoint, of the newest superstep if none is named; undefined where the server does not
// tell them. mark is another one when the thread has changed.
export function useSteps(id: string, checkpoint: string | undefined, mark: string) {
  return useLoad(async () => {
    if (!info.value?.stele?.steps) return undefined;
    const told = await api.stepsOf(id, checkpoint);
    return { ...told, steps: list(told.steps), of: checkpoint ?? "" };
  }, [id, checkpoint, mark]);
}

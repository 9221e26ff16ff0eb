// What nodes took in the last day, and which of them failed.

import { api } from "./api";
import { useEvery, useLoad } from "./load";
import { nodeName } from "./names";
import { link } from "./route";
import { count, spent, visible } from "./text";

export function Nodes() {
  const told = useLoad(() => api.nodes(), []);
  useEvery(30_000, told.again);
  const day = told.value;
  if (!day) return told.error ? <p class="error">{told.error}</p> : null;
  const most = Math.max(1, ...day.nodes.map((n) => n.took_ns));
  return (
    <section class="inset" aria-label="Nodes of the last day">
      <h2>
        Nodes of the last day <span class="note">{day.complete ? `${count(day.runs)} runs` : `${count(day.runs)} of the runs`}, longest total time first</span>
      </h2>
      {day.nodes.length === 0 ? (
        <p class="note">
          {day.complete ? "No node has ended in the last day." : "The runs that were read noted no node that ended in the last day; there are others."} What nodes take, and which fail, is told here
          from the runs of the queue.
        </p>
      ) : (
        <div class="scrolls" tabIndex={0} role="region" aria-label="Nodes">
          <table class="cards">
            <thead>
              <tr>
                <th>Node</th>
                <th>Graph</th>
                <th>Total time</th>
                <th class="number">Average</th>
                <th class="number">Longest</th>
                <th class="number">Tasks</th>
                <th class="number">Retries</th>
                <th>Failed</th>
              </tr>
            </thead>
            <tbody>
              {day.nodes.slice(0, 20).map((n) => (
                <tr key={JSON.stringify([n.graph, n.name])}>
                  <th scope="row" title={visible(n.name)}>
                    {nodeName(n.name)}
                  </th>
                  <td data-name="Graph">{visible(n.graph)}</td>
                  <td data-name="Total time">
                    <span class="meter time" style={`--part: ${Math.max(1, Math.round((100 * n.took_ns) / most))}%`}>
                      {spent(n.took_ns / 1e6)}
                    </span>
                  </td>
                  <td class="number" data-name="Average">{spent(n.took_ns / n.tasks / 1e6)}</td>
                  <td class="number" data-name="Longest">{spent(n.longest_ns / 1e6)}</td>
                  <td class="number" data-name="Tasks">{count(n.tasks)}</td>
                  <td class="number" data-name="Retries">{n.retries > 0 ? count(n.retries) : ""}</td>
                  <td data-name="Failed">
                    {n.failed > 0 && (
                      <a class="bad" href={link(["threads", n.thread_id], { view: "timeline" })}>
                        {count(n.failed)} of {count(n.tasks)}
                      </a>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

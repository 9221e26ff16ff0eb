// Which versions of graphs runs of the queue are of, and how many workers have them: whether an old version may go.

import { api } from "./api";
import { useEvery, useLoad } from "./load";
import { info } from "./session";
import { count, visible } from "./text";

export function Versions() {
  const told = useLoad(() => api.versions(), []);
  useEvery(30_000, told.again);
  const versions = told.value?.versions ?? [];
  if (told.error && !told.value) return <p class="error">{told.error}</p>;
  if (versions.length === 0) return null;
  return (
    <section class="inset" aria-label="Versions of graphs">
      <h2>
        Versions <span class="note">of graphs, with the runs that have not ended</span>
      </h2>
      <div class="scrolls" tabIndex={0} role="region" aria-label="Versions">
        <table class="cards versions">
          <thead>
            <tr>
              <th>Graph</th>
              <th>Version</th>
              <th class="number">Runs</th>
              <th class="number">Pinned</th>
              <th class="number">Workers</th>
              <th>Note</th>
            </tr>
          </thead>
          <tbody>
            {versions.map((v) => (
              <tr key={JSON.stringify([v.graph, v.version])}>
                <th scope="row">{visible(v.graph)}</th>
                <td data-name="Version">{visible(v.version) || <span class="note">not begun</span>}</td>
                <td class="number" data-name="Runs">{count(v.runs)}</td>
                <td class="number" data-name="Pinned">{v.pinned > 0 ? count(v.pinned) : ""}</td>
                <td class="number" data-name="Workers">{count(v.workers)}</td>
                <td>
                  {v.pinned > 0 && v.workers === 0 ? (
                    <span class="bad">no worker can continue {v.pinned === 1 ? "the pinned run" : "the pinned runs"}</span>
                  ) : (
                    <span class="note">{v.version !== "" && v.version === info.value?.stele?.graph_versions?.[v.graph] ? "this server's" : v.version !== "" && v.runs === 0 ? "its workers may stop" : ""}</span>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

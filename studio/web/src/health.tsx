// How an embedded store is: its problems, its sizes, and what a compaction would free.

import { api } from "./api";
import { useEvery, useLoad } from "./load";
import { bytes, count, visible } from "./text";

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
            <p key={i} class="error">
              {visible(p.kind)}: {visible(p.detail)}
            </p>
          ))}
          <table>
            <tbody>
              <Row name="Threads" value={count(s.threads)} />
              <Row name="In segments" value={`${bytes(s.segment_bytes)} in ${count(s.segments)} files`} more={`${bytes(s.raw_bytes)} before compression`} />
              <Row name="A compaction would free about" value={bytes(s.dead_bytes)} more="stele compact DIR, or the store's own work" />
              <Row name="Waits to be compacted" value={bytes(s.compaction_debt)} />
              <Row name="In the log, not flushed" value={`${bytes(s.log_bytes)} in ${count(s.log_files)} files`} />
              <Row name="Images of the index" value={count(s.images)} />
              <Row name="Threads in memory" value={count(s.resident)} />
              <Row name="Free on the device" value={h.space.total ? `${bytes(h.space.free)} of ${bytes(h.space.total)}` : bytes(h.space.free)} />
            </tbody>
          </table>
          <p class="note">
            To check every byte, run <code>stele verify DIR</code>; to copy the store while it is in use, <code>stele backup DIR TO</code>. Both work beside the writer.
          </p>
        </div>
      )}
    </main>
  );
}

function Row({ name, value, more }: { name: string; value: string; more?: string }) {
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>
        {value} {more && <span class="note">{more}</span>}
      </td>
    </tr>
  );
}

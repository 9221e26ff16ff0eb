// The list of a thread's checkpoints: what each step did, and what it took.

import { memo } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Deed, tokensOf, wordsOf } from "./deeds";
import { type Place, placeOf } from "./history";
import { say } from "./load";
import { change, link, route } from "./route";
import { count, spent, Time } from "./text";
import { ancestryOf, type Row, standOf, stepOf } from "./tree";
import type { State } from "./types";
import { useVirtual } from "./virtual";

const rowHeight = 52;
const laneWidth = 14;

interface Props {
  rows: Row[];
  deeds: Map<string, Deed>;
  gap: number; // the row before which checkpoints are not loaded; 0 is none
  chosen: string | undefined;
  more: boolean;
  busy: boolean;
  error?: string;
  load: () => void;
  fill: () => void;
  jump: (to: Place) => Promise<State | undefined>;
}

export function History(props: Props) {
  const { rows, deeds, chosen, gap } = props;
  const scroller = useRef<HTMLDivElement>(null);
  // The gap is an entry of its own.
  const entries = useMemo<(Row | undefined)[]>(() => (gap ? [...rows.slice(0, gap), undefined, ...rows.slice(gap)] : rows), [rows, gap]);
  const virtual = useVirtual(entries.length, rowHeight, () => scroller.current);
  const items = virtual.getVirtualItems();
  const last = items[items.length - 1]?.index ?? 0;
  useEffect(() => {
    if (props.more && !props.busy && !props.error && entries.length > 0 && last >= entries.length - 20) props.load();
  }, [last, entries.length, props.more, props.busy, props.error]);
  const line = useMemo(() => (chosen ? ancestryOf(rows, chosen) : new Set<string>()), [rows, chosen]);
  const lanes = useMemo(() => rows.reduce((most, r) => Math.max(most, r.lane + 1, ...r.through.map((l) => l + 1)), 1), [rows]);
  const most = useMemo(() => mostOf(deeds), [deeds]);
  const width = Math.min(lanes, 8) * laneWidth + 8;
  const index = entries.findIndex((r) => r?.id === chosen);
  // What is chosen by a link or a jump is in sight.
  useEffect(() => {
    const seen = virtual.getVirtualItems().some((item) => item.index === index);
    if (index >= 0) virtual.scrollToIndex(index, { align: seen ? "auto" : "center" });
  }, [chosen, index >= 0]);
  const onKey = (e: KeyboardEvent) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 10, PageUp: -10 }[e.key];
    if (step === undefined || entries.length === 0) return;
    e.preventDefault();
    // With Shift the other end of a comparison moves, as with the mouse.
    const { with: other } = route.peek().query;
    const from = Math.max(0, entries.findIndex((r) => r?.id === (e.shiftKey ? (other ?? chosen) : chosen)));
    let to = Math.min(entries.length - 1, Math.max(0, from + step));
    if (!entries[to]) {
      props.fill();
      to += Math.sign(step);
    }
    change(e.shiftKey ? { at: chosen, with: entries[to]!.id } : { at: entries[to]!.id }, true);
    virtual.scrollToIndex(to);
  };
  const compared = route.value.query.with;
  // On a phone the question comes first, and the history when it is asked for.
  const [open, setOpen] = useState(false);
  return (
    <section class={open ? "history open" : "history"} aria-label="History">
      <button class="toggle" aria-expanded={open} onClick={() => setOpen(!open)}>
        History <span class="note">{count(rows.length)}{props.more || gap ? " or more" : ""}</span>
      </button>
      <Jump jump={props.jump} />
      <div class="scroll" ref={scroller} tabIndex={0} role="listbox" aria-label="Checkpoints, newest first" aria-activedescendant={index >= 0 ? "cp-" + index : undefined} onKeyDown={onKey}>
        <div style={{ height: `${virtual.getTotalSize()}px`, position: "relative" }}>
          {items.map((item) => {
            if (item.index >= entries.length) return null;
            const row = entries[item.index];
            if (!row) {
              return (
                <a key="gap" role="option" tabIndex={-1} aria-selected={false} class="row gap" href={location.hash} style={`transform: translateY(${item.start}px); height: ${rowHeight}px`} onClick={(e) => (e.preventDefault(), props.fill())}>
                  Steps between are not loaded. <span class="quiet">Load some</span>
                </a>
              );
            }
            return <HistoryRow key={row.id} row={row} deed={deeds.get(row.id)!} most={most} index={item.index} top={item.start} width={width} down={item.index + 1 < entries.length} chosen={row.id === chosen} other={row.id === compared} line={line.has(row.id)} />;
          })}
        </div>
        {props.error && (
          <p class="error" role="alert">
            {props.error} <button onClick={props.load}>Try again</button>
          </p>
        )}
      </div>
      <p class="note foot">
        {count(rows.length)} {props.more || gap ? "checkpoints are loaded." : rows.length === 1 ? "checkpoint." : "checkpoints."}{" "}
        {route.value.query.pick ? (
          <>
            Choose the other one.{" "}
            <button class="quiet" onClick={() => change({ pick: undefined })}>
              never mind
            </button>
          </>
        ) : (
          rows.length > 1 && (
            <button class="quiet" title="Shift and click, or Shift and the arrow keys, do the same" onClick={() => change({ at: chosen, pick: "1" })}>
              compare two
            </button>
          )
        )}
      </p>
    </section>
  );
}

// Jump goes to a step or a time, however many checkpoints lie between.
function Jump({ jump }: { jump: Props["jump"] }) {
  const [wrong, setWrong] = useState<string>();
  const submit = async (e: Event) => {
    e.preventDefault();
    const text = String(new FormData(e.target as HTMLFormElement).get("place") ?? "");
    const place = placeOf(text);
    if (!place) return setWrong("Write the number of a step, a time such as 14:30, or a date such as 2026-03-01 14:30.");
    setWrong(undefined);
    let at;
    try {
      at = await jump(place);
    } catch (error) {
      return setWrong(`The history could not be read: ${say(error)}`);
    }
    setWrong(at ? undefined : "step" in place ? `No checkpoint of step ${place.step} was found.` : "The thread begins later.");
    if (at?.checkpoint.checkpoint_id) change({ at: at.checkpoint.checkpoint_id });
  };
  return (
    <form class="jump" onSubmit={submit}>
      <label>
        <span class="unseen">Go to a step or a time</span>
        <input name="place" placeholder="Go to step 12, or 14:30" autocomplete="off" enterkeyhint="go" />
      </label>
      <button type="button" class="quiet" onClick={() => change({ at: undefined })}>
        newest
      </button>
      {wrong && (
        <p class="error" role="alert">
          {wrong}
        </p>
      )}
    </form>
  );
}

// Most is the largest time and number of tokens of a list, which the bars are drawn against.
interface Most {
  took: number;
  tokens: number;
}

function mostOf(deeds: Map<string, Deed>): Most {
  const most = { took: 0, tokens: 0 };
  for (const d of deeds.values()) {
    most.took = Math.max(most.took, d.took ?? 0);
    most.tokens = Math.max(most.tokens, tokensOf(d.uses));
  }
  return most;
}

// HistoryRow is drawn again only when something about it changes: a frame of scrolling draws the
// rows that come in, and no others.
const HistoryRow = memo(function HistoryRow(props: { row: Row; deed: Deed; most: Most; index: number; top: number; width: number; down: boolean; chosen: boolean; other: boolean; line: boolean }) {
  const { row, deed, most } = props;
  const stand = standOf(row.state);
  const tokens = tokensOf(deed.uses);
  const step = stepOf(row.state);
  return (
    <a
      id={"cp-" + props.index}
      role="option"
      tabIndex={-1}
      aria-selected={props.chosen}
      class={(props.line ? "row line" : "row") + (props.other ? " other" : "")}
      style={`transform: translateY(${props.top}px); height: ${rowHeight}px`}
      href={link(route.peek().path, { ...route.peek().query, at: row.id })}
      onClick={(e) => {
        if (e.ctrlKey || e.metaKey) return; // a new tab
        e.preventDefault();
        change(e.shiftKey || route.peek().query.pick ? { with: row.id, pick: undefined } : { at: row.id });
      }}
    >
      <Lanes row={row} down={props.down} width={props.width} />
      <span class={"stand " + stand} role="img" aria-label={stand} title={stand} />
      <span class="deed">
        <span class="what">
          <Words deed={deed} />
        </span>
        <span class="cost">
          {deed.then ? <span class={"then " + stand}>{deed.then}</span> : <span class="step">{step !== "" && step !== "-1" && `step ${step}`}</span>}
          {deed.took !== undefined && <Bar part={deed.took / most.took} text={spent(deed.took)} kind="time" />}
          {tokens > 0 && <Bar part={tokens / most.tokens} text={`${count(tokens)} tokens`} kind="tokens" />}
        </span>
      </span>
      <Time at={row.state.created_at} />
    </a>
  );
});

// Words are what a step did.
export function Words({ deed: d }: { deed: Deed }) {
  return (
    <>
      {wordsOf(d)}
      {d.names.length > 0 && (
        <>
          {" "}
          <b>{d.names.slice(0, 3).join(", ")}</b>
          {d.names.length > 3 && ` and ${d.names.length - 3} more`}
        </>
      )}
      {d.by && <>, by {d.by}</>}
      {d.quote && <span class="about"> {d.quote.slice(0, 160)}</span>}
    </>
  );
}

function Bar({ part, text, kind }: { part: number; text: string; kind: string }) {
  return (
    <span class={"meter " + kind} style={`--part: ${Math.max(2, Math.round(100 * (part || 0)))}%`}>
      {text}
    </span>
  );
}

function Lanes({ row, down, width }: { row: Row; down: boolean; width: number }) {
  const x = (lane: number) => Math.min(lane, 7) * laneWidth + 8;
  const mid = rowHeight / 2;
  return (
    <svg class="lanes" width={width} height={rowHeight} aria-hidden="true">
      {row.through.map((l) => (
        <line key={l} x1={x(l)} x2={x(l)} y1={0} y2={rowHeight} />
      ))}
      {row.joins.map((l) => (
        <path key={"j" + l} d={`M${x(l)},0 C${x(l)},${mid} ${x(row.lane)},${mid / 3} ${x(row.lane)},${mid}`} />
      ))}
      {row.children.length > 0 && <line x1={x(row.lane)} x2={x(row.lane)} y1={0} y2={mid} />}
      {row.parent !== undefined && down && <line x1={x(row.lane)} x2={x(row.lane)} y1={mid} y2={rowHeight} />}
      <circle cx={x(row.lane)} cy={mid} r={4} />
    </svg>
  );
}

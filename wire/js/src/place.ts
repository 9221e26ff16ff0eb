/** MAX_PLACES is how many places a saver remembers. */
const MAX_PLACES = 1024;

/** Places are the namespaces of threads that a saver saves into. What is forgotten is synced. */
export class Places {
  private readonly places = new Map<string, Place>();
  private forgotten = ""; // the greatest checkpoint of a forgotten place at which a task has asked or failed

  /** of is the place of a namespace of a thread. */
  of(thread: string, ns: string): Place {
    const name = JSON.stringify([thread, ns]);
    const place = this.places.get(name) ?? new Place(this.forgotten);
    this.places.delete(name); // the one used last comes last
    this.places.set(name, place);
    const [oldest] = this.places;
    if (this.places.size > MAX_PLACES && oldest !== undefined) {
      this.places.delete(oldest[0]);
      const greatest = oldest[1].greatestStop();
      if (greatest > this.forgotten) this.forgotten = greatest;
    }
    return place;
  }
}

/**
 * Place knows what is saved into a namespace of a thread, and the checkpoints that a run has
 * gone past before they are put.
 *
 * LangGraph puts a checkpoint when the one before is put, and runs on meanwhile. So where
 * tasks of a later checkpoint have written, the put of that one follows, however the run
 * ends, and its sync is enough for both. Writes of the checkpoint itself do not tell: a run
 * may end between two supersteps. After a save that failed, LangGraph may leave out the puts
 * that should follow, so nothing is deferred any more. Nor is what belongs to a checkpoint at
 * which a task has asked or failed: the run ends there when the other tasks have ended.
 */
export class Place {
  /** owed reports whether the last put was deferred. */
  owed = false;
  private there = ""; // the greatest id of a checkpoint that is known to be put
  private latest = ""; // the greatest of one whose tasks have written
  private readonly written = new Set<string>(); // those whose tasks have written, from there on
  private readonly stopped = new Set<string>(); // those at which a task has asked or failed
  private failed = false;
  private running = 0;
  private waiting: (() => void)[] = [];

  /** At checkpoints up to forgotten tasks may have asked or failed. */
  constructor(private readonly forgotten: string) {}

  /** wrote takes note of writes of a checkpoint's task. */
  wrote(id: string): void {
    this.written.add(id);
    if (id > this.latest) this.latest = id;
  }

  /** stop takes note that a task of a checkpoint has asked or failed. */
  stop(id: string): void {
    this.stopped.add(id);
  }

  /** stops reports whether a run may end at a checkpoint, so that nothing durable follows. */
  stops(id: string): boolean {
    return id <= this.forgotten || this.stopped.has(id);
  }

  /** greatestStop is the greatest checkpoint at which a task has asked or failed; "" for none. */
  greatestStop(): string {
    let greatest = "";
    for (const id of this.stopped) if (id > greatest) greatest = id;
    return greatest;
  }

  /** defers reports whether the put of a checkpoint may be deferred. */
  defers(id: string, parent: string): boolean {
    this.reach(parent);
    return !this.failed && !this.stops(id) && id > this.there && id < this.latest && this.written.has(id);
  }

  /** put takes note of a checkpoint that is there. */
  put(id: string, deferred: boolean): void {
    this.reach(id);
    this.owed = deferred;
  }

  /** begin counts a save that is under way; end one that is not any more. */
  begin(): void {
    this.running++;
  }

  end(): void {
    this.running--;
    for (const wake of this.waiting.splice(0)) wake();
  }

  /** fail takes note of a save that failed. */
  fail(): void {
    this.failed = true;
  }

  /** others returns when no other save is under way, nor asked for when the last one has ended. */
  async others(): Promise<void> {
    this.end();
    do {
      while (this.running > 0) await new Promise<void>((resolve) => this.waiting.push(resolve));
      await new Promise((resolve) => setImmediate(resolve));
    } while (this.running > 0);
    this.begin();
  }

  /** settled returns when the checkpoints are there that runs have gone past, and the one they led to. */
  async settled(): Promise<void> {
    const { latest } = this;
    while (this.running > 0 && this.there <= latest) {
      await new Promise<void>((resolve) => this.waiting.push(resolve));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** reach takes note that a checkpoint is there: those up to it are not waited for. */
  private reach(id: string): void {
    if (id <= this.there) return;
    this.there = id;
    for (const stopped of this.stopped) if (stopped < id) this.stopped.delete(stopped);
    for (const written of this.written) {
      if (written > id) break;
      this.written.delete(written);
    }
  }
}

/**
 * random is a generator of numbers from 0 to 1, and the line that says how to have the
 * same ones again.
 */
export function random(): { next(): number; seed: string } {
  const seed = Number(process.env["STELE_SEED"] ?? Math.floor(Math.random() * 2 ** 31));
  let state = seed >>> 0;
  return {
    // mulberry32
    next: () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let t = Math.imul(state ^ (state >>> 15), state | 1);
      t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
      return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
    },
    seed: `again: STELE_SEED=${seed} npx vitest run`,
  };
}

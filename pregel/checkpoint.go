package pregel

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
)

// formatVersion is the format of the checkpoints the engine makes: LangGraph's
// current one.
const formatVersion = 4

// deltaSuperstepBound is the number of supersteps after which a delta channel is
// stored whole even if nobody wrote to it, so that reading it stays cheap.
const deltaSuperstepBound = 5000

// liveCheckpoint is the checkpoint a loop works on. It owns versions and the
// outer map of seen; the inner maps are shared with what is being stored and are
// replaced, never changed.
type liveCheckpoint struct {
	v        int
	id       string
	ts       string
	versions map[string]saver.Version
	seen     map[string]map[string]saver.Version
	updated  []string // nil if unknown
}

func (cp *liveCheckpoint) maxVersion() saver.Version {
	var top saver.Version
	for _, v := range cp.versions {
		if v.Compare(top) > 0 {
			top = v
		}
	}
	return top
}

// clone is cp with maps of its own.
func (cp *liveCheckpoint) clone() *liveCheckpoint {
	c := *cp
	c.versions = maps.Clone(cp.versions)
	c.seen = maps.Clone(cp.seen)
	return &c
}

func emptyCheckpoint(env *Environment) *liveCheckpoint {
	return &liveCheckpoint{v: formatVersion, id: env.IDs.Next(-2), ts: timestamp(env.Now()),
		versions: map[string]saver.Version{}, seen: map[string]map[string]saver.Version{}}
}

// timestamp is t in UTC as Python's isoformat prints it: without a fraction if
// that is zero.
func timestamp(t time.Time) string {
	t = t.UTC()
	var room [40]byte
	buf := t.AppendFormat(room[:0], "2006-01-02T15:04:05")
	if us := t.Nanosecond() / 1000; us != 0 {
		digits := [7]byte{'.'}
		for i := 6; i > 0; i-- {
			digits[i] = byte('0' + us%10)
			us /= 10
		}
		buf = append(buf, digits[:]...)
	}
	return string(append(buf, "+00:00"...))
}

// liveOf takes over a loaded checkpoint.
func liveOf(cp *saver.Checkpoint) *liveCheckpoint {
	live := (&liveCheckpoint{v: cp.V, id: cp.ID, ts: cp.TS, versions: cp.Versions, seen: cp.Seen, updated: cp.Updated}).clone()
	if live.versions == nil {
		live.versions = map[string]saver.Version{}
	}
	if live.seen == nil {
		live.seen = map[string]map[string]saver.Version{}
	}
	return live
}

// newVersions are the versions that moved since previous.
func newVersions(previous, current map[string]saver.Version) map[string]saver.Version {
	if len(previous) == 0 {
		return maps.Clone(current)
	}
	out := map[string]saver.Version{}
	for ch, v := range current {
		if isNew(previous, ch, v) {
			out[ch] = v
		}
	}
	return out
}

// isNew reports whether version v of a channel is above what previous has.
func isNew(previous map[string]saver.Version, ch string, v saver.Version) bool {
	return len(previous) == 0 || v.Compare(previous[ch]) > 0
}

// hydrate makes a graph's channels from a stored checkpoint. Delta channels that
// the checkpoint does not hold are rebuilt from their history, all in one read.
// renamed are the channels whose history is under a former name.
func (g *Graph) hydrate(ctx context.Context, s saver.Saver, at saver.Config, cp *saver.Checkpoint, renamed map[string]string) (*channelSet, error) {
	set := &channelSet{names: g.specs.names, index: g.specs.index, list: make([]channel.Channel, len(g.specs.names))}
	replayed := slices.Concat(withoutValue(g.deltas, cp), g.replayed(cp))
	for i, name := range replayed {
		replayed[i] = cmp.Or(renamed[name], name)
	}
	histories, err := deltaHistory(ctx, s, at, replayed)
	if err != nil {
		return nil, err
	}
	for i, name := range g.specs.names {
		spec := g.specs.list[i]
		if h, ok := histories[cmp.Or(renamed[name], name)]; ok {
			if set.list[i], err = replayChannel(spec, h); err != nil {
				return nil, err
			}
			continue
		}
		var stored channel.Stored
		if v, ok := cp.Values[name]; ok {
			if v, err = v.Load(); err != nil {
				return nil, fmt.Errorf("read channel %q: %w", name, err)
			}
			stored = v
		}
		if set.list[i], err = spec.Restore(stored); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// replayed are the reducing channels that were written but have no value in cp. They were
// delta channels when cp was stored.
func (g *Graph) replayed(cp *saver.Checkpoint) []string { return withoutValue(g.folds, cp) }

func withoutValue(channels []string, cp *saver.Checkpoint) (found []string) {
	for _, name := range channels {
		_, written := cp.Versions[name]
		if _, stored := cp.Values[name]; written && !stored {
			found = append(found, name)
		}
	}
	return found
}

func deltaHistory(ctx context.Context, s saver.Saver, at saver.Config, channels []string) (map[string]saver.DeltaHistory, error) {
	if len(channels) == 0 || s == nil {
		return nil, nil
	}
	h, err := s.DeltaChannelHistory(ctx, at, channels)
	if err != nil {
		return nil, &PersistError{Op: fmt.Sprintf("read history of delta channels %v", channels), Err: err}
	}
	return h, nil
}

func replayChannel(spec channel.Channel, h saver.DeltaHistory) (channel.Channel, error) {
	var seed channel.Stored
	if !h.Seed.IsZero() {
		seed = h.Seed
	}
	ch, err := spec.Restore(seed)
	if err != nil {
		return nil, err
	}
	writes := make([]any, len(h.Writes))
	for i, w := range h.Writes {
		if writes[i], err = w.Value.Any(); err != nil {
			return nil, fmt.Errorf("read a write of channel %q: %w", spec.Key(), err)
		}
	}
	if d, ok := ch.(channel.DeltaChannel); ok {
		if err := d.Replay(writes); err != nil {
			return nil, &channel.RestoreError{Key: spec.Key(), Err: err}
		}
		return ch, nil
	}
	// The writes span supersteps, so each is a separate update. One call would report
	// two Overwrites of two supersteps as a conflict.
	for _, w := range writes {
		if _, err := ch.Update([]any{w}); err != nil {
			return nil, &channel.RestoreError{Key: spec.Key(), Err: err}
		}
	}
	return ch, nil
}

// counters counts, for each delta channel, updates and supersteps since its last
// snapshot.
type counters map[string][2]int

func countersOf(md saver.Metadata) counters {
	m, _ := md[keyDeltaCounters].(map[string]any)
	if len(m) == 0 {
		return nil
	}
	out := counters{}
	for ch, v := range m {
		if pair, ok := v.([]any); ok && len(pair) == 2 {
			u, _ := channel.Convert[int](pair[0])
			s, _ := channel.Convert[int](pair[1])
			out[ch] = [2]int{u, s}
		}
	}
	return out
}

// advance counts one superstep that updated the channels in updated.
func (c counters) advance(deltas []string, updated func(string) bool) counters {
	if len(deltas) == 0 {
		return nil
	}
	out := counters{}
	for _, ch := range deltas {
		n := c[ch]
		n[1]++
		if updated(ch) {
			n[0]++
		}
		out[ch] = n
	}
	return out
}

// metadata is c as stored, without the channels that were just snapshotted. It is nil if
// there is nothing to count.
func (c counters) metadata(snapshotted map[string]bool) map[string]any {
	if len(c) == 0 {
		return nil
	}
	out := map[string]any{}
	for ch, n := range c {
		if !snapshotted[ch] && n != ([2]int{}) {
			out[ch] = []any{n[0], n[1]}
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// dueSnapshots are the delta channels to store whole: those that must be, and those
// whose turn it is. A channel without a version was never written and has nothing to
// store.
func (g *Graph) dueSnapshots(set *channelSet, c counters, versions map[string]saver.Version, forced map[string]bool) map[string]bool {
	var due map[string]bool
	if len(forced) > 0 {
		due = maps.Clone(forced)
	}
	for _, name := range g.deltas {
		ch := set.at(name).(channel.DeltaChannel)
		if _, written := versions[name]; !written || !ch.Available() {
			continue
		}
		if n := c[name]; n[0] >= ch.SnapshotFrequency() || n[1] >= deltaSuperstepBound {
			due = merged(due, map[string]bool{name: true})
		}
	}
	return due
}

func (g *Graph) isDelta(channel string) bool { return slices.Contains(g.deltas, channel) }

// addDelta adds a channel to set if it is a delta channel.
func (g *Graph) addDelta(set map[string]bool, channel string) {
	if g.isDelta(channel) {
		set[channel] = true
	}
}

// addOverwritten adds the delta channels to set that writes overwrite. Stored writes do not
// rebuild such a channel.
func (g *Graph) addOverwritten(set map[string]bool, writes []write) {
	for _, w := range writes {
		if _, overwrites := channel.AsOverwrite(w.value); overwrites {
			g.addDelta(set, w.channel)
		}
	}
}

// capture has the values of the channels whose version changed, ready to be encoded.
type capture []captured

type captured struct {
	channel string
	value   any
}

// create makes the next checkpoint from the current one and the channels, with an id from
// mint. With a nil set only id and time are new, and nothing is captured. A channel that is
// stored whole though its version did not move gets a new version, because savers store
// values for new versions only. Nothing was written to it, so whoever had seen the old
// version is marked as having seen the new one.
func (g *Graph) create(cp *liveCheckpoint, set *channelSet, mint func() string, updated []string, snapshots map[string]bool,
	stored map[string]saver.Version, next func(saver.Version) (saver.Version, error)) (*liveCheckpoint, capture, error) {
	out := &liveCheckpoint{v: formatVersion, ts: timestamp(g.env.Now()), versions: cp.versions, seen: cp.seen, updated: updated}
	if set == nil {
		out.id = mint()
		return out, nil, nil
	}
	capt := make(capture, 0, 4)
	var bumped map[string][2]saver.Version
	for i, name := range set.names {
		ch := set.list[i]
		version, written := cp.versions[name]
		if snapshots[name] && next != nil && (!written || version == stored[name]) {
			v, err := next(version)
			if err != nil {
				return nil, nil, err
			}
			if bumped == nil {
				bumped = map[string][2]saver.Version{}
			}
			bumped[name] = [2]saver.Version{version, v}
			version, written = v, true
		}
		switch {
		case !written || !isNew(stored, name, version):
		case snapshots[name]:
			capt = append(capt, captured{name, ch.(channel.DeltaChannel).Snapshot()})
		default:
			if v, ok := ch.Checkpoint(); ok {
				capt = append(capt, captured{name, v})
			}
		}
	}
	if len(bumped) > 0 {
		out.versions = maps.Clone(cp.versions)
		for name, b := range bumped {
			out.versions[name] = b[1]
		}
		out.seen = markBumpsSeen(cp.seen, bumped, g.triggers)
	}
	out.id = mint()
	return out, capt, nil
}

// markBumpsSeen marks the new version of a bumped channel as seen by the nodes that had seen
// the old one. The pseudo node snapshotBumps remembers what they really read.
func markBumpsSeen(seen map[string]map[string]saver.Version, bumped map[string][2]saver.Version,
	triggers map[string][]string) map[string]map[string]saver.Version {
	out := make(map[string]map[string]saver.Version, len(seen)+1)
	for n, s := range seen {
		out[n] = maps.Clone(s)
	}
	for ch, b := range bumped {
		if b[0].IsNull() {
			for _, n := range triggers[ch] {
				if out[n] == nil {
					out[n] = map[string]saver.Version{}
				}
			}
		}
	}
	marks := maps.Clone(seen[snapshotBumps])
	if marks == nil {
		marks = map[string]saver.Version{}
	}
	for n, s := range out {
		if n == snapshotBumps {
			continue
		}
		for ch, b := range bumped {
			if s[ch] != b[0] {
				continue
			}
			advanced, read := n+nsSep+ch, n+nsEnd+ch
			if !b[0].IsNull() && marks[advanced] != b[0] {
				marks[read] = b[0]
			}
			marks[advanced] = b[1]
			s[ch] = b[1]
		}
	}
	if len(marks) > 0 {
		out[snapshotBumps] = marks
	}
	return out
}

// seenWithoutBumps is seen as the nodes really read it.
func seenWithoutBumps(seen map[string]map[string]saver.Version) map[string]map[string]saver.Version {
	marks := seen[snapshotBumps]
	if len(marks) == 0 {
		return seen
	}
	out := map[string]map[string]saver.Version{}
	for n, s := range seen {
		if n == snapshotBumps {
			continue
		}
		out[n] = map[string]saver.Version{}
		for ch, v := range s {
			advanced, read := n+nsSep+ch, n+nsEnd+ch
			if marks[advanced] != v {
				out[n][ch] = v
			} else if r, ok := marks[read]; ok {
				out[n][ch] = r
			}
		}
	}
	return out
}

package pregel

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
)

// A run may be told at which checkpoints graphs inside go on (runConfig.cpMap, position.places). It may
// stop before such a graph has begun: because the node that calls it asks first, fails, or is killed. So
// what it was told is stored with the checkpoint that it goes on from, as the write of a task that does not
// exist, and holds for the runs that go on there, until the graph inside has stored something, or another
// travel to the same checkpoint has a record of its own. The newest counts. LangGraph ignores it. Retention
// knows nothing of it: if a checkpoint that it names was removed, the run fails, and does not begin anew.

// chTravel is the pseudo channel of what a run was told about graphs inside.
const chTravel = "__stele_travel__"

// travel is what a run was told about graphs inside, and when.
type travel struct {
	since  string            // a checkpoint id: graphs inside with a later checkpoint have begun
	at     map[string]string // checkpoints by namespace
	places map[string]string // position.places
}

// takeTravels reads the newest record of travel from pending writes, and returns the others.
func takeTravels(pending []answer.Write) (rest []answer.Write, told travel) {
	rest = pending[:0]
	for _, w := range pending {
		if w.Channel != chTravel {
			rest = append(rest, w)
			continue
		}
		record, _ := w.Value.(map[string]any)
		if since, _ := record["since"].(string); since > told.since {
			told = travel{since, stringMap(record["at"]), stringMap(record["places"])}
		}
	}
	return rest, told
}

// stringMap reads a map of strings. What another program stored in its place counts as none.
func stringMap(v any) map[string]string {
	out := map[string]string{}
	values, _ := v.(map[string]any)
	for k, v := range values {
		if s, ok := v.(string); ok {
			out[k] = s
		}
	}
	return out
}

// inside reports whether a namespace is of a graph inside this one, also if a fork gave this one another.
func (p *position) inside(ns string) bool {
	from := cmp.Or(p.run.was, p.run.ns)
	return ns != from && strings.HasPrefix(ns, from)
}

// keepTravel stores what the run was told about graphs inside, also if it was told nothing after a run that
// was. A graph inside that was told to go on where it stands stores that it did.
func (l *loop) keepTravel() error {
	if l.run.saver == nil || l.run.policy.langGraph || !l.pos.entry.kind.travels() {
		return nil
	}
	_, here := l.run.cpMap[l.run.ns]
	told := here && l.run.nested() || slices.ContainsFunc(slices.Collect(maps.Keys(l.run.cpMap)), l.pos.inside)
	if !told && l.pos.told.since == "" {
		return nil
	}
	since, at, places := l.run.env().IDs.Next(l.pos.step), map[string]any{}, map[string]any{}
	for ns, id := range l.run.cpMap {
		if l.pos.inside(ns) {
			at[ns] = id
		}
	}
	for path, ns := range l.pos.places {
		places[path] = ns
	}
	id, err := uuid5(l.pos.cp.id, chTravel+since)
	if err != nil {
		return err
	}
	return l.putWrites(nil, id, []write{{chTravel, map[string]any{"since": since, "at": at, "places": places}}})
}

// travelOn makes the run one that was told what an earlier one was told that stopped here.
func (p *position) travelOn() {
	if p.told.since == "" || p.run.policy.langGraph {
		return
	}
	p.run.toldAt, p.run.cpMap, p.places = p.told.since, merged(p.told.at, p.run.cpMap), p.told.places
	p.prep = nil // has another map
}

// begun finds the newest checkpoint of a graph inside that has begun since an earlier run was told where.
// Then that no longer holds.
func (p *position) begun(ctx context.Context) (*saver.Tuple, error) {
	if p.run.toldAt == "" {
		return nil, nil
	}
	own, err := getTuple(ctx, p.run.saver, saver.Config{ThreadID: p.place.ThreadID, Namespace: p.run.ns})
	if err != nil || own == nil {
		return nil, err
	}
	if own.Config.CheckpointID <= p.run.toldAt {
		pending, err := p.run.g.loadPending(own.PendingWrites)
		if _, told := takeTravels(pending); err != nil || told.since <= p.run.toldAt {
			return nil, err
		}
	}
	p.run.cpMap = maps.Clone(p.run.cpMap)
	delete(p.run.cpMap, p.run.ns)
	p.run.was, p.place.CheckpointID, p.from = "", "", originNewest
	return own, nil
}

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
)

// getState answers with the state at the path's checkpoint, or else the newest.
func (s *threadAPI) getState(c *call) error {
	subgraphs, err := c.isTrue("subgraphs", false)
	if err != nil {
		return err
	}
	return s.stateAt(c, pregel.Thread(c.path("thread_id")).At(c.path("checkpoint_id")), subgraphs)
}

func (s *threadAPI) postStateAt(c *call) error {
	return s.stateAt(c, address(c.path("thread_id"), c.body), c.body.flag("subgraphs"))
}

// stateAt answers with the state of the path's thread at an address.
func (s *threadAPI) stateAt(c *call, at pregel.Address, subgraphs bool) error {
	t, err := s.ofPath(c)
	if err != nil {
		return err
	}
	snapshot := &pregel.StateSnapshot{}
	if t.graph() != "" || t.Stored {
		if snapshot, err = s.snapshot(c.ctx, t, at, subgraphs); err != nil {
			return err
		}
	}
	var st any
	if how := c.query("stele_values"); how != "" {
		st, err = shownBriefly(snapshot, how)
	} else {
		st, err = shownState(snapshot)
	}
	return c.answer(st, err)
}

// address is the checkpoint of a thread that a request names: as an object, or by its id.
func address(threadID string, in body) pregel.Address {
	at := pregel.Thread(threadID)
	at.CheckpointID = in.text("checkpoint_id")
	if c := body(in.object("checkpoint")); c != nil {
		at.CheckpointID, at.Namespace = c.text("checkpoint_id"), c.text("checkpoint_ns")
		for ns, id := range c.object("checkpoint_map") {
			if id, ok := id.(string); ok {
				if at.CheckpointMap == nil {
					at.CheckpointMap = map[string]string{}
				}
				at.CheckpointMap[ns] = id
			}
		}
	}
	return at
}

// snapshot returns the state of a thread at an address, read by its graph if the server has it. A panic
// while reading, such as one of a graph's Migrate, becomes an error.
func (s *threadAPI) snapshot(ctx context.Context, t thread, at pregel.Address, subgraphs bool) (st *pregel.StateSnapshot, err error) {
	defer func() {
		if x := recover(); x != nil {
			st, err = nil, fmt.Errorf("the state of thread %s: panic: %v\n%s", t.ID, x, debug.Stack())
		}
	}()
	if g, ok := s.graphs.by[t.graph()]; ok {
		if st, err = g.GetState(ctx, at, pregel.StateOptions{Subgraphs: subgraphs}); errors.Is(err, saver.ErrNotFound) {
			return &pregel.StateSnapshot{Address: at}, nil
		}
		return st, err
	}
	tuple, err := s.saver.GetTuple(ctx, saver.Config{ThreadID: at.ThreadID, Namespace: at.Namespace, CheckpointID: at.CheckpointID})
	if errors.Is(err, saver.ErrNotFound) {
		return &pregel.StateSnapshot{Address: at}, nil
	}
	if err != nil {
		return nil, err
	}
	info, _, err := s.infoOf(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	return rawState(tuple, s.toldApart(ctx, t, info.Status), true)
}

// rawState is the state at a checkpoint as it is stored, without the graph that made it.
// Channels of the engine are left out, and all values if values is false.
func rawState(tuple *saver.Tuple, status saver.Status, values bool) (*pregel.StateSnapshot, error) {
	st := &pregel.StateSnapshot{Status: status, Metadata: tuple.Metadata, CreatedAt: tuple.Checkpoint.TS, Address: addressOf(tuple.Config)}
	if st.CreatedAt == "" {
		st.CreatedAt = time.Time{}.Format(time.RFC3339)
	}
	if tuple.Parent != nil {
		parent := addressOf(*tuple.Parent)
		st.Parent = &parent
	}
	if tuple.Note != nil {
		st.Next = tuple.Note.Next
	}
	for _, w := range tuple.PendingWrites {
		if w.Channel != saver.ChannelInterrupt {
			continue
		}
		var asked []pregel.Interrupt
		if err := w.Value.Decode(&asked); err != nil {
			return nil, err
		}
		st.Interrupts = append(st.Interrupts, asked...)
	}
	if !values {
		return st, nil
	}
	all := map[string]any{}
	for name, v := range tuple.Checkpoint.Values {
		if strings.HasPrefix(name, "__") || strings.HasPrefix(name, "branch:") {
			continue
		}
		decoded, err := v.Any()
		if err != nil {
			return nil, err
		}
		all[name] = decoded
	}
	st.Values = all
	return st, nil
}

func addressOf(cfg saver.Config) pregel.Address {
	return pregel.Address{ThreadID: cfg.ThreadID, Namespace: cfg.Namespace, CheckpointID: cfg.CheckpointID}
}

// isOfThread reports whether an error of reading a thread's state is about its stored data, and not
// about the store or the request. A value may be removed since the thread was found.
func isOfThread(err error) bool {
	return isAny(err, saver.ErrCorrupt, saver.ErrNotFound, saver.ErrAncestorCycle, pregel.ErrInvalidUpdate, pregel.ErrUnknownNode,
		serde.ErrMalformed, serde.ErrDecodeLimit, serde.ErrUnknownKind, serde.ErrDecrypt, serde.ErrPlaintext) ||
		ofType(err) || errors.As(err, new(*saver.MetadataError))
}

// ofType reports whether an error is about the type of a stored value.
func ofType(err error) bool {
	return errors.As(err, new(*serde.TypeError)) || errors.As(err, new(*channel.TypeError))
}

func (s *threadAPI) updateState(c *call, t thread) error {
	g, err := s.graphOf(t)
	if err != nil {
		return err
	}
	if isBusy, err := s.isBusy(c.ctx, t.ID); isBusy || err != nil {
		return cmp.Or(err, fail(409, "Thread %s has in-flight runs. Update its state when they have ended.", t.ID))
	}
	update := pregel.StateUpdate{Values: c.body["values"], AsNode: c.body.text("as_node")}
	at, err := g.UpdateState(c.ctx, address(t.ID, c.body), update, pregel.UpdateOptions{Metadata: c.grant.withOwner(map[string]any{"graph_id": t.graph()}, t)})
	if errors.Is(err, saver.ErrNotFound) {
		return fail(404, "%v", err)
	}
	if err != nil {
		return err
	}
	configurable := map[string]any{"thread_id": at.ThreadID, "checkpoint_ns": at.Namespace, "checkpoint_id": at.CheckpointID}
	if len(at.CheckpointMap) > 0 {
		configurable["checkpoint_map"] = at.CheckpointMap
	}
	return c.json(map[string]any{"checkpoint": configurable, "configurable": configurable, "checkpoint_id": at.CheckpointID})
}

func (s *threadAPI) getHistory(c *call) error {
	limit, err := c.numeric("limit", 1, 1, 1000)
	if err != nil {
		return err
	}
	values, err := c.isTrue("values", true)
	if err != nil {
		return err
	}
	q := pregel.HistoryQuery{Limit: limit, Before: c.query("before")}
	return s.history(c, pregel.Thread(c.path("thread_id")), q, values)
}

func (s *threadAPI) postHistory(c *call) error {
	q := pregel.HistoryQuery{Limit: c.body.integer("limit", 1), Filter: c.body.object("metadata"), Before: body(c.body.object("before")).text("checkpoint_id")}
	values, given := c.body["values"].(bool)
	return s.history(c, address(c.path("thread_id"), c.body), q, values || !given)
}

// history answers with states of a thread, newest first. If values is false, they are as
// they are stored, and have none: a long history is listed without reading its values.
func (s *threadAPI) history(c *call, at pregel.Address, q pregel.HistoryQuery, values bool) error {
	t, err := s.ofPath(c)
	if err != nil {
		return err
	}
	states := c.listing()
	if g, ok := s.graphs.by[t.graph()]; ok && values {
		for snapshot, err := range g.GetStateHistory(c.ctx, at, q) {
			if errors.As(err, new(*pregel.SubgraphError)) {
				break // a thread that is not there has no history
			}
			if err != nil {
				return err
			}
			st, err := shownState(snapshot)
			if err == nil {
				err = states.add(st)
			}
			if err != nil {
				return err
			}
		}
		return c.list(states)
	}
	query := saver.Query{ThreadID: at.ThreadID, Namespace: saver.InNamespace(at.Namespace), CheckpointID: at.CheckpointID, Before: q.Before,
		Filter: q.Filter, Limit: q.Limit}
	for tuple, err := range s.saver.List(c.ctx, query) {
		if err != nil {
			return err
		}
		snapshot, err := rawState(tuple, "", values)
		if err != nil {
			return err
		}
		st, err := shownState(snapshot)
		if err != nil {
			return err
		}
		var shown any = st
		if !values {
			st.Values = nil
			shown = listedStateOf(st, tuple)
		}
		if err := states.add(shown); err != nil {
			return err
		}
	}
	return c.list(states)
}

// listedState is a state of a history without values. It says by itself how far the thread was at the
// checkpoint, which version of the graph stored it, and what its tasks wrote.
type listedState struct {
	*pregeljson.ThreadState
	Status  saver.Status `json:"stele_status,omitempty"`
	Version string       `json:"stele_version,omitempty"`
	Tasks   []listedTask `json:"tasks"`
}

func listedStateOf(st *pregeljson.ThreadState, tuple *saver.Tuple) listedState {
	shown := listedState{ThreadState: st, Status: statusAt(tuple), Tasks: listedTasks(tuple)}
	if tuple.Note != nil {
		shown.Version = tuple.Note.Version
	}
	return shown
}

// statusAt returns the status of a thread while this checkpoint was its newest. All writes of a task
// count as one call, so a question still counts as asked when it is answered.
func statusAt(tuple *saver.Tuple) saver.Status {
	var calls []rules.WriteCall
	for all := tuple.PendingWrites; len(all) > 0; { // they are ordered by task
		task, n := all[0].TaskID, 0
		var channels []string
		var last []string
		for ; n < len(all) && all[n].TaskID == task; n++ {
			if w := all[n]; rules.EndsWait(w.Channel, w.Value) {
				last = append(last, w.Channel)
			} else {
				channels = append(channels, w.Channel)
			}
		}
		channels = append(channels, last...)
		call := rules.NewWriteCall(task, channels)
		if all = all[n:]; call.TaskID == saver.NullTaskID { // answers, which came before what is there now
			calls = slices.Insert(calls, 0, call)
		} else {
			calls = append(calls, call)
		}
	}
	return rules.StatusOf(tuple.Note, calls)
}

// storage answers with how much a thread takes, as its values are serialized. Values that
// several checkpoints share count once.
func (s *threadAPI) storage(c *call, t thread) error {
	type channel struct {
		Versions int `json:"versions"`
		Bytes    int `json:"bytes"`
	}
	byChannel, seen := map[string]*channel{}, map[string]bool{}
	checkpoints, values, valueBytes, writes, writeBytes := 0, 0, 0, 0, 0
	for tuple, err := range s.saver.List(c.ctx, saver.Query{ThreadID: t.ID}) {
		if err != nil {
			return err
		}
		checkpoints++
		for name, v := range tuple.Checkpoint.Values {
			key := tuple.Config.Namespace + "\x00" + name + "\x00" + tuple.Checkpoint.Versions[name].String()
			if seen[key] {
				continue
			}
			seen[key] = true
			typed, err := v.Typed()
			if err != nil {
				return err
			}
			if byChannel[name] == nil {
				byChannel[name] = &channel{}
			}
			byChannel[name].Versions++
			byChannel[name].Bytes += len(typed.Data)
			values++
			valueBytes += len(typed.Data)
		}
		for _, w := range tuple.PendingWrites {
			typed, err := w.Value.Typed()
			if err != nil {
				return err
			}
			writes++
			writeBytes += len(typed.Data)
		}
	}
	return c.json(map[string]any{"thread_id": t.ID, "total_bytes": valueBytes + writeBytes,
		"checkpoints": map[string]any{"count": checkpoints}, "channel_values": map[string]any{"count": values, "bytes": valueBytes, "by_channel": byChannel},
		"pending_writes": map[string]any{"count": writes, "bytes": writeBytes}})
}

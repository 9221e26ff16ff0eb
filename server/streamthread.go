package server

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/runs"
)

// joinThread streams the runs of a thread, one after another, until the client leaves: those
// that have not ended, and those to come. Each frame's id names the run and the event, and
// Last-Event-ID goes on behind it. stream_modes says what to show: run_modes, the default, is
// what each run was made with; lifecycle is where runs begin and end.
func (s *streamAPI) joinThread(c *call, t thread) error {
	asked, err := c.words("stream_modes", "run_modes", "lifecycle", "state_update")
	if err != nil {
		return err
	}
	if slices.Contains(asked, "state_update") {
		return fail(422, "stream_modes state_update is not supported: there are run_modes and lifecycle. An update of a state is no event of a run; read the state, or its history.")
	}
	at, seq, resumed := strings.Cut(strings.TrimSpace(c.r.Header.Get("Last-Event-ID")), "/")
	at = usual(at)
	behind := parseEventID(seq)
	if !resumed || !isUUID(at) { // from now on: behind the last run that has ended
		at, behind = "", eventID{}
		for r, err := range s.queue.List(c.ctx, runs.Query{ThreadID: t.ID, Newest: true}) {
			if err != nil && !errors.Is(err, runs.ErrUnreadable) {
				return err
			}
			if r.Status.Ended() {
				at, behind = r.ID, wholeRun
				break
			}
		}
	}
	out := c.output(streamHeaders)
	if err := out.write(nil); err != nil {
		return nil
	}
	// The queue tells of runs that another server makes, unless a worker of its has them at once.
	changed, stop := s.queue.Watch("")
	defer stop()
	begun, leave := s.events.Begun.Watch(t.ID)
	defer leave()
	heart := time.NewTicker(s.heartbeat)
	defer heart.Stop()
	for {
		if at != "" && behind != wholeRun {
			err := s.streamOne(c, out, t.ID, at, behind, asked)
			if errors.Is(err, errCut) {
				return tell(out, "HistoryCut", errCut)
			}
			if err != nil && !errors.Is(err, runs.ErrNotFound) && !errors.Is(err, runs.ErrUnreadable) {
				return nil
			}
			behind = wholeRun
		}
		for r, err := range s.queue.List(c.ctx, runs.Query{ThreadID: t.ID, After: at, Limit: 1}) {
			if err != nil && !errors.Is(err, runs.ErrUnreadable) {
				return nil
			}
			at, behind = r.ID, eventID{} // one that cannot be decoded is gone past
		}
		if behind.seq == 0 && at != "" {
			continue
		}
		select {
		case <-changed:
		case <-begun:
		case <-heart.C: // a lost hint is found here as well
			if err := out.write(heartbeat); err != nil {
				return nil
			}
		case <-c.ctx.Done():
			return nil
		case <-s.done:
			return nil
		}
	}
}

// wholeRun stands for the last event of a run.
var wholeRun = eventID{seq: 1 << 62}

// streamOne streams a run within the stream of its thread, as `asked` says. A client may have named one of another.
func (s *streamAPI) streamOne(c *call, out *output, thread, id string, behind eventID, asked []string) error {
	r, err := s.queue.Get(c.ctx, id)
	if err == nil && r.ThreadID != thread {
		err = runs.ErrNotFound
	}
	if err != nil {
		return err
	}
	modes := modesOfRun(r)
	if len(asked) > 0 && !slices.Contains(asked, "run_modes") {
		modes = nil
		if !slices.Contains(asked, "lifecycle") {
			return nil
		}
	}
	if err := s.cut(c, id, behind); err != nil {
		return err
	}
	f := newRenderer(s.queue.Serializer(), r, modes)
	last := int64(0)
	_, err = s.follow(c, id, 0, func(events []runs.Event) error {
		var b []byte
		for _, ev := range events {
			frames, err := f.frames(ev)
			if err != nil {
				return err
			}
			if ev.Kind == runs.KindEnd {
				done, err := json.Marshal(map[string]string{"status": "run_done", "run_id": id})
				if err != nil {
					return err
				}
				frames = append(frames, frame{metadata, done})
			}
			if last = ev.Seq; behind.isOther(ev) {
				return errCut
			}
			if ev.Seq <= behind.seq {
				continue
			}
			for i, fr := range frames {
				name := ""
				if i == len(frames)-1 {
					name = id + "/" + s.idOf(ev).String()
				}
				b = appendFrame(b, fr, name)
			}
		}
		if len(b) == 0 {
			return nil
		}
		return out.write(b)
	}, out, heartbeat)
	if err == nil && behind.mark != "" && last < behind.seq {
		err = errCut
	}
	return err
}

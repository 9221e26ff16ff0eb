package server

import (
	"slices"
	"strconv"
	"strings"

	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/saver"
)

func (s *threadAPI) search(c *call) error {
	for name, path := range c.body.object("extract") {
		if p, ok := path.(string); !ok || p == "" {
			return fail(422, "Extract path for '%s' must be a non-empty string", name)
		}
	}
	found, err := s.find(c)
	return searched(c, found, err, func(f *foundThread) (any, bool, error) {
		t, ok, err := s.record(c.ctx, f.ID, c.grant)
		if err != nil || !ok {
			return nil, false, err
		}
		at, err := s.statusOf(c.ctx, t)
		if status := c.body.text("status"); err != nil || status != "" && at.status != status { // it has another one by now
			return nil, false, err
		}
		m := s.shown(t, at)
		if paths := c.body.object("extract"); len(paths) > 0 {
			if m["extracted"], err = extracted(m, paths); err != nil { // too deep with the thread around it
				m["error"] = s.unreadable(f.ID, err)
			}
		}
		if c.body.text("stele_values") == aboutValues {
			withAbout(m)
		}
		if c.body["stele_status"] != nil {
			m["stele_status"] = at.stele
		}
		return m, true, nil
	}, "extracted")
}

func (s *threadAPI) count(c *call) error {
	if _, n, ok, err := s.findByIndex(c, true); ok || err != nil {
		return c.answer(n, err)
	}
	found, err := s.findByRecords(c) // and not find, which stops behind a page if the index is there by now
	return c.answer(len(found), err)
}

// foundThread is a thread that a search may select.
type foundThread struct {
	thread
	at     threadStatus
	unsure bool // its record says whether the search selects it
}

var threadOrder = sorting[*foundThread]{
	by: map[string]func(a, b *foundThread) int{
		"thread_id":        func(a, b *foundThread) int { return strings.Compare(a.ID, b.ID) },
		"status":           func(a, b *foundThread) int { return strings.Compare(a.at.status, b.at.status) },
		"created_at":       func(a, b *foundThread) int { return a.Created.Compare(b.Created) },
		"updated_at":       func(a, b *foundThread) int { return a.at.at.Compare(b.at.at) },
		"state_updated_at": func(a, b *foundThread) int { return a.at.saved.Compare(b.at.saved) },
	},
	then: func(a, b *foundThread) int { return b.Created.Compare(a.Created) },
}

// find returns the threads of a search, in its order, as far as its page needs them.
func (s *threadAPI) find(c *call) ([]*foundThread, error) {
	if found, _, ok, err := s.findByIndex(c, false); ok || err != nil {
		return found, err
	}
	return s.findByRecords(c)
}

// findByRecords returns all threads that a search selects, in its order, without their metadata and state, as those of
// all threads may not fit into memory. Their status is computed before the page is cut only if the search
// depends on it, as that reads the state of every thread.
func (s *threadAPI) findByRecords(c *call) (found []*foundThread, err error) {
	ids, metadata, values, status := c.body.texts("ids"), c.body.object("metadata"), c.body.object("values"), c.body.text("status")
	stele, prefixes := c.body.text("stele_status"), c.body.texts("stele_prefix")
	if stele == anyStatus {
		stele = ""
	}
	if len(values) == 0 {
		values = nil
	}
	complete := values != nil || status != "" || slices.Contains([]string{"status", "state_updated_at"}, c.body.text("sort_by"))
	outlined := stele != "" || c.body.text("sort_by") == "updated_at"
	begins := func(id string) bool {
		return len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(id, p) })
	}
	infos := map[string]saver.ThreadInfo{}
	var open map[string]string
	consider := func(t thread) (err error) {
		if t.Temporary || !begins(t.ID) || !c.grant.admits(t.Metadata) {
			return nil
		}
		if complete || metadata["graph_id"] != nil {
			if t, err = s.withGraph(c.ctx, t); err != nil {
				return err
			}
		}
		if metadata != nil && !contains(t.Metadata, metadata) {
			return nil
		}
		f := &foundThread{thread: t}
		switch {
		case complete:
			f.at, err = s.statusOf(c.ctx, t)
		case outlined:
			f.at, _, err = s.outline(c.ctx, t, infos[t.ID], open[t.ID])
			// Whether somebody is asked beside a wait is in the state.
			if err == nil && f.at.stele == sleepingStatus && (stele == sleepingStatus || stele == string(saver.StatusWaiting)) {
				f.at, err = s.statusOf(c.ctx, t)
			}
		}
		if err != nil || status != "" && f.at.status != status || stele != "" && f.at.stele != stele {
			return err
		}
		if values != nil {
			if f.at.state == nil {
				return nil
			}
			if have, err := pregeljson.Value(f.at.state.Values); err != nil || !contains(have, values) { // also if they cannot be shown
				return nil
			}
		}
		f.Metadata, f.Config, f.at.state = nil, nil, nil
		found = append(found, f)
		return nil
	}
	if outlined && !complete {
		if open, err = s.openRuns(c.ctx, ""); err != nil {
			return nil, err
		}
	}
	_, named := c.body["ids"]
	bySaver := saver.Status(stele)
	if stele == sleepingStatus {
		bySaver = saver.StatusWaiting
	}
	if !named && (bySaver == saver.StatusWaiting || bySaver == saver.StatusUnfinished) {
		// No other thread has that status, and the saver knows them without a look at the records of all.
		named = true
		for info, err := range s.saver.Threads(c.ctx, saver.ThreadQuery{Status: bySaver, WithoutNotes: true}) {
			if err != nil {
				return nil, err
			}
			ids = append(ids, info.ThreadID)
		}
	}
	if named {
		for i, id := range ids {
			if ids[i], err = s.id(c.ctx, id); err != nil {
				return nil, err
			}
		}
		slices.Sort(ids)
		for _, id := range slices.Compact(ids) {
			t, ok, err := s.record(c.ctx, id, c.grant)
			if err == nil && ok && outlined {
				infos[id], _, err = s.infoOf(c.ctx, id)
			}
			if err == nil && ok {
				err = consider(t)
			}
			if err != nil {
				return nil, err
			}
		}
	} else {
		if len(prefixes) == 0 {
			prefixes = []string{""}
		}
		var stored []saver.ThreadInfo
		for _, p := range prefixes {
			if c.grant.Filter != nil && !outlined {
				break
			}
			for info, err := range s.saver.Threads(c.ctx, saver.ThreadQuery{Prefix: p, WithoutNotes: !complete && metadata["graph_id"] == nil}) {
				if err != nil {
					return nil, err
				}
				if _, twice := infos[info.ThreadID]; !twice {
					infos[info.ThreadID], stored = info, append(stored, info)
				}
			}
		}
		known := map[string]bool{}
		for h, err := range s.unfinished.all(c.ctx) { // before the records: those that are made meanwhile have one
			if err != nil {
				return nil, err
			}
			known[h.Thread] = true
		}
		for t, err := range s.records.all(c.ctx) {
			if err == nil {
				known[t.ID] = true
				err = consider(t)
			}
			if err != nil {
				return nil, err
			}
		}
		for _, info := range stored {
			if known[info.ThreadID] || c.grant.Filter != nil {
				continue
			}
			if err := consider(s.stored(info)); err != nil {
				return nil, err
			}
		}
	}
	threadOrder.sort(c.body, found)
	return found, nil
}

// extracted are the values at paths of a thread: names with dots, and numbers in brackets.
func extracted(shown map[string]any, paths map[string]any) (map[string]any, error) {
	plain, err := pregeljson.Value(shown)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for name, path := range paths {
		p, _ := path.(string)
		out[name] = follow(plain, p)
	}
	return out, nil
}

// follow returns the value at a path; nil if there is none.
func follow(v any, path string) any {
	for _, part := range strings.Split(path, ".") {
		name, rest, _ := strings.Cut(part, "[")
		if name != "" {
			m, _ := v.(map[string]any)
			v = m[name]
		}
		for rest != "" {
			var index string
			index, rest, _ = strings.Cut(rest, "]")
			rest = strings.TrimPrefix(rest, "[")
			list, _ := v.([]any)
			i, err := strconv.Atoi(index)
			if i < 0 {
				i += len(list)
			}
			if err != nil || i < 0 || i >= len(list) {
				return nil
			}
			v = list[i]
		}
	}
	return v
}

package disk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// userWorld is a store with threads and items of ADA-LOVELACE, and others' beside them.
type userWorld struct {
	victim
	req     disk.EraseRequest
	private []store.Namespace // of the items to erase
}

// fillUser puts n threads of the user. What others have holds shared and BYSTANDER.
func fillUser(t *testing.T, s *disk.Saver, n int) *userWorld {
	t.Helper()
	w := &userWorld{victim: victim{markers: map[string][]byte{}}}
	w.markers["user"] = []byte("ADA-LOVELACE")
	items, err := store.On(s, store.Options{})
	must(t, err)
	put := func(ns store.Namespace, text string) {
		t.Helper()
		must(t, items.Put(t.Context(), ns, "key-of-"+text, map[string]any{"text": text}))
	}
	w.private = []store.Namespace{{"users", "ADA-LOVELACE"}, {"users", "ADA-LOVELACE", "facts"}, {"notes", "ADA-LOVELACE\x00"}}
	put(w.private[0], "ADA-LOVELACE-GONE-BEFORE")
	must(t, items.Delete(t.Context(), w.private[0], "key-of-ADA-LOVELACE-GONE-BEFORE"))
	put(w.private[0], "ADA-LOVELACE-ITEM")
	put(store.Namespace{"users", "bob"}, "BYSTANDER")
	put(store.Namespace{"users"}, shared)
	for i := range n {
		thread := fmt.Sprintf("%d-of-ADA-LOVELACE", i)
		w.req.Threads = append(w.req.Threads, thread)
		w.put(t, s, thread, 1, saver.Metadata{"run_id": "run-ADA-LOVELACE", "user": "ADA-LOVELACE"}, fmt.Appendf(nil, "what ADA-LOVELACE said in %d", i))
	}
	must(t, s.Flush(t.Context()))
	w.put(t, s, "bystander", 1, saver.Metadata{"run_id": "run-bob"}, []byte("BYSTANDER"))
	put(w.private[1], "ADA-LOVELACE-FACT")
	put(w.private[2], "ADA-LOVELACE-NOTE")
	if n > 0 {
		must(t, s.SetTTL(t.Context(), w.req.Threads[0], 1<<40))
		w.put(t, s, w.req.Threads[0], 2, nil, []byte("and later, said ADA-LOVELACE"))
	}
	w.req.Items = [][]string{{"users", "ADA-LOVELACE"}, {"notes", "ADA-LOVELACE\x00"}, {"nowhere", "ADA-LOVELACE"}}
	must(t, s.Inside().Engine.WriteImage(t.Context()))
	return w
}

// left counts the threads and namespaces of the user that are there.
func (w *userWorld) left(t *testing.T, s *disk.Saver) (threads, spaces int) {
	t.Helper()
	for info, err := range s.Threads(t.Context(), saver.ThreadQuery{}) {
		if must(t, err); strings.Contains(info.ThreadID, "ADA-LOVELACE") {
			threads++
		}
	}
	items, err := store.On(s, store.Options{})
	must(t, err)
	for _, ns := range w.private {
		found, err := items.Search(t.Context(), store.Query{Prefix: ns, Limit: store.NoLimit})
		if must(t, err); slices.ContainsFunc(found, func(f store.Found) bool { return slices.Equal(f.Namespace, ns) }) {
			spaces++
		}
	}
	return threads, spaces
}

// wantForgotten checks that nothing of the user is left in any file, and that others
// lost nothing.
func (w *userWorld) wantForgotten(t *testing.T, fsys vfs.FS, s *disk.Saver) {
	t.Helper()
	after := wantNothing(t, fsys, &w.victim)
	if len(after.with([]byte(shared))) == 0 || len(after.with([]byte("BYSTANDER"))) == 0 {
		t.Fatal("the scan does not find what others have")
	}
	if threads, spaces := w.left(t, s); threads+spaces > 0 {
		t.Fatalf("%d threads and %d namespaces are left", threads, spaces)
	}
	if n, err := s.PendingErasures(); n != 0 || err != nil {
		t.Fatalf("%d erasures pending, %v", n, err)
	}
	for _, id := range w.req.Threads {
		err := s.PutWrites(t.Context(), saver.Config{ThreadID: id, CheckpointID: "0001"}, []saver.Write{{Channel: "c", Value: saver.ValueOf("late")}}, "task", "")
		if !errors.Is(err, saver.ErrThreadDeleted) {
			t.Fatalf("a late write to %s: %v", id, err)
		}
	}
	_, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "bystander"})
	must(t, err)
	items, err := store.On(s, store.Options{})
	must(t, err)
	_, err = items.Get(t.Context(), store.Namespace{"users", "bob"}, "key-of-BYSTANDER")
	_, err2 := items.Get(t.Context(), store.Namespace{"users"}, "key-of-"+shared)
	must(t, err, err2)
}

// TestEraseRequest: several threads, and items below several prefixes, are erased with
// one rewrite of the files, which is told of.
func TestEraseRequest(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{WindowsRules: true})
	s := openFor(t, "store", eraseOptions(), disk.Simulation{FS: mem, Inline: true})
	w := fillUser(t, s, 150) // more than one commit deletes
	if len(w.found(t, scanStore(t, mem, "store", nil))) == 0 {
		t.Fatal("a scan finds nothing of the user before: it proves nothing")
	}
	before := s.Metrics().Compactions
	var told []metrics.EraseProgress
	w.req.Progress = func(p metrics.EraseProgress) { told = append(told, p) }
	must(t, s.EraseRequest(t.Context(), w.req))
	w.wantForgotten(t, mem, s)
	if n := s.Metrics().Compactions - before; n != 1 {
		t.Errorf("the files were rewritten %d times", n)
	}
	for i := 1; i < len(told); i++ {
		if told[i].BytesOut < told[i-1].BytesOut || told[i].FilesGone < told[i-1].FilesGone {
			t.Errorf("progress goes back: %+v, then %+v", told[i-1], told[i])
		}
	}
	last := told[len(told)-1]
	if len(told) < 3 || told[0].Files != 0 || last.Files == 0 || last.FilesGone != last.Files || last.BytesIn == 0 {
		t.Errorf("progress %+v", told)
	}
	items, err := store.On(s, store.Options{})
	must(t, err, items.Put(t.Context(), w.private[0], "new", map[string]any{"text": "a new item is taken"}))
}

// TestEraseRequestRefuses: of a request with something invalid in it nothing is done.
func TestEraseRequestRefuses(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openFor(t, "store", eraseOptions(), disk.Simulation{FS: mem, Inline: true})
	w := fillUser(t, s, 2)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	lsn := s.Stats().LastLSN
	long := strings.Repeat("x", 1<<12)
	for name, c := range map[string]struct {
		ctx  context.Context
		req  disk.EraseRequest
		want error
	}{
		"empty id":     {t.Context(), disk.EraseRequest{Threads: []string{"0-of-ADA-LOVELACE", ""}}, saver.ErrInvalid},
		"long id":      {t.Context(), disk.EraseRequest{Threads: []string{"0-of-ADA-LOVELACE", long}}, saver.ErrTooLarge},
		"empty prefix": {t.Context(), disk.EraseRequest{Threads: w.req.Threads, Items: [][]string{{"users", "ADA-LOVELACE"}, {}}}, saver.ErrInvalid},
		"long prefix":  {t.Context(), disk.EraseRequest{Threads: w.req.Threads, Items: [][]string{{"users", long}}}, saver.ErrTooLarge},
		"ended":        {ended, w.req, context.Canceled},
	} {
		if err := s.EraseRequest(c.ctx, c.req); !errors.Is(err, c.want) || errors.Is(err, saver.ErrEraseUnfinished) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	must(t, s.Erase(t.Context()), s.EraseRequest(t.Context(), disk.EraseRequest{}))
	threads, spaces := w.left(t, s)
	if now := s.Stats().LastLSN; now != lsn || threads != 2 || spaces != len(w.private) {
		t.Errorf("record %d became %d, %d threads and %d namespaces are left", lsn, now, threads, spaces)
	}
	ro, err := disk.Open("store", disk.Options{ReadOnly: true, Simulation: disk.Simulation{FS: mem}})
	must(t, err)
	if err := ro.EraseRequest(t.Context(), w.req); !errors.Is(err, saver.ErrReadOnly) || errors.Is(err, saver.ErrEraseUnfinished) {
		t.Errorf("read-only: %v", err)
	}
	must(t, ro.Close())
}

// onceErased is a context that ends when erasures are pending.
type onceErased struct {
	context.Context
	s *disk.Saver
}

// Err implements context.Context.
func (c onceErased) Err() error {
	if n, err := c.s.PendingErasures(); n > 0 || err != nil {
		return context.Canceled
	}
	return nil
}

// TestEraseRequestCancelled: a request whose context ends between two commits says that
// some of it is deleted, the first of the request; the same request again does the rest.
func TestEraseRequestCancelled(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openFor(t, "store", eraseOptions(), disk.Simulation{FS: mem, Inline: true})
	w := fillUser(t, s, 100)
	err := s.EraseRequest(onceErased{t.Context(), s}, w.req)
	if !errors.Is(err, saver.ErrEraseUnfinished) || !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
	threads, spaces := w.left(t, s)
	pending, err := s.PendingErasures()
	must(t, err)
	if threads+pending != 100 || pending == 0 || threads == 0 || spaces != len(w.private) {
		t.Fatalf("%d threads and %d namespaces left, %d pending", threads, spaces, pending)
	}
	for i, id := range w.req.Threads {
		if _, there, err := saver.ThreadOf(t.Context(), s, id); err != nil || there != (i >= pending) {
			t.Errorf("thread %d of the request is there: %t, %v; %d are erased", i, there, err, pending)
		}
	}
	must(t, s.EraseRequest(t.Context(), w.req))
	w.wantForgotten(t, mem, s)
}

// TestEraseRequestCrashStates: whatever a crash inside a request leaves, each thread and
// each namespace is there as it was, or is deleted and the erasure known to be
// unfinished, and can be finished.
func TestEraseRequestCrashStates(t *testing.T) {
	t.Parallel()
	const threads = 66 // two commits
	fs := crashfs.New()
	s := openFor(t, "store", eraseOptions(), disk.Simulation{FS: fs, Rand: func() uint64 { return 7 }, Inline: true})
	w := fillUser(t, s, threads)
	from := fs.Len()
	must(t, s.EraseRequest(t.Context(), w.req))
	to := fs.Len()
	var states, before, part, resumed, done int
	for cut := from; cut <= to; cut += race.Every {
		for st := range fs.States(cut, crashfs.Options{Seed: uint64(cut), Random: 1, MaxTorn: 1, MaxSingle: 1}) {
			states++
			sv := st.FS()
			d, err := disk.Open("store", eraseOptions().In(disk.Simulation{FS: sv, Inline: true}))
			if err != nil {
				t.Fatalf("cut %d, %s: %v", cut, st, err)
			}
			pending, err := d.PendingErasures()
			must(t, err)
			n, spaces := w.left(t, d)
			gone := threads - n + len(w.private) - spaces
			switch {
			case gone == 0 && pending == 0 && cut < to:
				before++
			case gone < threads+len(w.private):
				if part++; gone == 0 || pending == 0 || cut == to {
					t.Fatalf("cut %d, %s: %d of %d are gone, %d erasures pending", cut, st, gone, threads+len(w.private), pending)
				}
				must(t, d.EraseRequest(t.Context(), w.req)) // as a caller does who saw the crash
				w.wantForgotten(t, sv, d)
			case pending > 0:
				resumed++
				must(t, d.FinishErasures(t.Context()))
				w.wantForgotten(t, sv, d)
			default:
				done++
				w.wantForgotten(t, sv, d)
			}
			must(t, d.Close())
		}
	}
	t.Logf("%d cuts, %d crash states: %d before, %d in part, %d resumed, %d finished", to-from+1, states, before, part, resumed, done)
	if before == 0 || part == 0 || resumed == 0 || done == 0 {
		t.Errorf("of %d states %d are before, %d in part, %d inside, %d after", states, before, part, resumed, done)
	}
}

// TestEraseItemsAlone: items are erased without any thread, and so are those that were
// deleted before one by one.
func TestEraseItemsAlone(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openFor(t, "store", eraseOptions(), disk.Simulation{FS: mem, Inline: true})
	w := fillUser(t, s, 0 /* threads but the bystander's */)
	must(t, s.EraseRequest(t.Context(), w.req))
	w.wantForgotten(t, mem, s)
}

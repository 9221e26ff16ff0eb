package changetest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// Run runs every change on threads that the old program left. open opens the saver again, as another
// process does, and closes it before if it is open. It also rolls one back. Where update is set the file is written.
func Run(t *testing.T, open func(t *testing.T) saver.Saver, golden string, update bool) {
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer items.Close()
	Old(t, open(t), "old/")
	var told strings.Builder
	for i, c := range changes {
		s := open(t)
		prefix := fmt.Sprintf("%02d/", i)
		for _, l := range left {
			if err := s.CopyThread(t.Context(), "old/"+l.id, prefix+l.id); err != nil {
				t.Fatal(err)
			}
		}
		p, err := c.make(s, items)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, l := range left {
			if l.signal == nil {
				continue
			}
			if err := p.g.Signal(t.Context(), prefix+l.id, signalName, l.signal); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		before := heads(t, s, prefix)
		r, err := p.preflight(t.Context(), nil, saver.ThreadQuery{Prefix: prefix})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if after := heads(t, s, prefix); !maps.Equal(before, after) {
			t.Errorf("%s: the preflight changed something", c.name)
		}
		if n := p.ran.Load(); n > 0 {
			t.Errorf("%s: the preflight ran %d functions of the program", c.name, n)
		}
		fmt.Fprintf(&told, "# %s\n", c.name)
		tell(&told, r, prefix)
		done, err := p.preflight(t.Context(), nil, saver.ThreadQuery{Prefix: prefix, Status: saver.StatusDone})
		if err != nil || done.Threads != 1 {
			t.Errorf("%s: threads that are done: %+v, %v", c.name, done, err)
		}
		r.Broken = append(r.Broken, done.Broken...)
		went := resumeAll(t, c.name, p, prefix, r)
		if c.without != nil {
			readsAll(t, c, open(t), prefix, went)
		}
	}
	rollBack(t, open)
	rollBackInside(t, open)
	got := told.String()
	if update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the preflights differ from %s:\n%s", golden, got)
	}
}

// tell writes what a preflight says, without what changes from run to run.
func tell(b *strings.Builder, r *pregel.PreflightReport, prefix string) {
	fmt.Fprintf(b, "%d threads, %d unchanged, %d begun, %d done\n", r.Threads, r.Unchanged, r.Begun, r.Done)
	for _, how := range slices.Sorted(maps.Keys(r.Adapted)) {
		fmt.Fprintf(b, "%d through %s\n", r.Adapted[how], how)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Ignored)) {
		fmt.Fprintf(b, "%d without %s\n", r.Ignored[key], key)
	}
	for _, t := range r.Broken {
		fmt.Fprintf(b, "%s (%s): %s", strings.TrimPrefix(t.ThreadID, prefix), t.Status, t.Stage)
		if t.Namespace != "" {
			fmt.Fprint(b, " inside")
		}
		for _, at := range [][2]string{{"node", t.Node}, {"channel", t.Channel}, {"field", t.Field}} {
			if at[1] != "" {
				fmt.Fprintf(b, ", %s %s", at[0], at[1])
			}
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintln(b)
}

// heads are the heads of threads and how many checkpoints and writes each has.
func heads(t *testing.T, s saver.Saver, prefix string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for info, err := range s.Threads(t.Context(), saver.ThreadQuery{Prefix: prefix}) {
		if err != nil {
			t.Fatal(err)
		}
		n, writes := 0, 0
		for tup, err := range s.List(t.Context(), saver.Query{ThreadID: info.ThreadID}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			writes += len(tup.PendingWrites)
		}
		out[info.ThreadID] = fmt.Sprint(info.Head, n, writes, info.UpdatedAt)
	}
	return out
}

// resumeAll resumes each thread. One that passed must not fail before a function of the program has run;
// one that breaks must not run any, unless what it has to say is that work would be lost: a node is
// passed over in a thread without a note, a join is forgotten, or a write.
func resumeAll(t *testing.T, change string, p *program, prefix string, r *pregel.PreflightReport) (went []string) {
	t.Helper()
	broken := map[string]pregel.BrokenThread{}
	for _, b := range r.Broken {
		broken[b.ThreadID] = b
	}
	for _, l := range left {
		at := pregel.Thread(prefix + l.id)
		var input any
		if state, err := p.g.GetState(t.Context(), at); err == nil && len(state.Interrupts) > 0 {
			answers := map[string]any{}
			for _, in := range state.Interrupts {
				answers[in.ID] = "yes"
			}
			input = pregel.Command{Resume: answers}
		}
		p.ran.Store(0)
		_, err := p.g.Invoke(t.Context(), at, input)
		b, breaks := broken[at.ThreadID]
		if !breaks && err == nil && l.way != "none" {
			went = append(went, l.id)
		}
		switch ran := p.ran.Load(); {
		case errors.Is(err, errWrong):
			t.Errorf("%s: thread %s: %v", change, l.id, err)
		case !breaks && err != nil && ran == 0:
			t.Errorf("%s: thread %s passed, and fails before a node runs: %v", change, l.id, err)
		case breaks && err == nil && !l.unnoted && b.Stage != pregel.StagePlace && b.Channel == "":
			t.Errorf("%s: thread %s breaks (%v), and goes on", change, l.id, b.Err)
		}
	}
	return went
}

// readsAll lets another process, whose program has no migrations, read the threads that went on and
// were stored.
func readsAll(t *testing.T, c change, s saver.Saver, prefix string, went []string) {
	t.Helper()
	p, err := c.without(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, id := range went {
		tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: prefix + id})
		if err != nil {
			t.Fatal(err)
		}
		if tup.Note.Version != "new" {
			continue // it asked again, so no checkpoint was stored
		}
		read++
		if _, err := p.g.GetState(t.Context(), pregel.Thread(prefix+id)); err != nil {
			t.Errorf("%s: thread %s cannot be read without migrations: %v", c.name, id, err)
		}
	}
	if read < 5 {
		t.Errorf("%s: only %d threads were read", c.name, read)
	}
}

// Preflight is what preflights of all changes say about the threads that Old left in s, which may take
// no writes.
func Preflight(t *testing.T, s saver.Saver) string {
	t.Helper()
	var told strings.Builder
	for _, c := range changes {
		p, err := c.make(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.preflight(t.Context(), s, saver.ThreadQuery{})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		fmt.Fprintf(&told, "# %s\n%s\n", c.name, r)
	}
	return told.String()
}

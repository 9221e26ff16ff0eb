package disk_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// chatText is a list of messages that grows.
type chatText struct {
	rng  *rand.Rand
	text []byte
}

// grow adds n words of six bytes, and returns the whole.
func (c *chatText) grow(n int) []byte {
	for range n {
		c.text = append(c.text, "agent graph state route query tools model write think about "[6*c.rng.IntN(10):][:6]...)
	}
	return c.text[:len(c.text):len(c.text)]
}

// TestStatsSayWhatACompactionFrees: of chats, whose older versions are small patches
// and whose directories are most of what goes, as of whole threads; also after the
// store was opened again.
func TestStatsSayWhatACompactionFrees(t *testing.T) {
	for _, c := range []struct {
		what   string
		reopen bool
		do     func(s *disk.Saver, id string) error
	}{
		{"prune", false, func(s *disk.Saver, id string) error {
			_, err := s.Prune(t.Context(), []string{id}, saver.KeepLatest)
			return err
		}},
		{"retain", false, func(s *disk.Saver, id string) error {
			_, err := s.Retain(t.Context(), saver.RetentionPolicy{ThreadIDs: []string{id}, KeepLast: 20}, false)
			return err
		}},
		{"retain", true, func(s *disk.Saver, id string) error {
			_, err := s.Retain(t.Context(), saver.RetentionPolicy{ThreadIDs: []string{id}, KeepLast: 20}, false)
			return err
		}},
		{"delete", false, func(s *disk.Saver, id string) error { return s.DeleteThread(t.Context(), id) }},
		{"delete", true, func(s *disk.Saver, id string) error { return s.DeleteThread(t.Context(), id) }},
	} {
		t.Run(fmt.Sprintf("%s, reopened %v", c.what, c.reopen), func(t *testing.T) {
			mem := vfs.NewMem(vfs.MemOptions{})
			o := disk.Options{ManualWork: true}
			s := openFor(t, "store", o, disk.Simulation{FS: mem, Inline: true})
			v := &victim{markers: map[string][]byte{}}
			for i := range 6 {
				chat := &chatText{rng: rand.New(rand.NewPCG(uint64(i), 1))}
				for n := 1; n <= 60; n++ {
					v.put(t, s, fmt.Sprintf("chat-%02d", i), n, saver.Metadata{"step": n}, chat.grow(60))
				}
			}
			must(t, s.Compact(t.Context()))
			if n := s.Stats().DeadBytes; n != 0 {
				t.Errorf("%d bytes are dead before anything is removed", n)
			}
			before := s.Stats().SegmentBytes
			for i := range 3 {
				must(t, c.do(s, fmt.Sprintf("chat-%02d", i)))
			}
			must(t, s.Flush(t.Context()))
			if c.reopen {
				must(t, s.Close())
				s = openFor(t, "store", o, disk.Simulation{FS: mem, Inline: true})
				v.put(t, s, "other", 1, nil, []byte("x"))
				must(t, s.Flush(t.Context()))
			}
			said := s.Stats().DeadBytes
			must(t, s.Compact(t.Context()))
			freed := before - s.Stats().SegmentBytes
			t.Logf("%d of %d bytes were freed, %d said", freed, before, said)
			if said < freed*7/10 || said > freed*12/10 || freed < before/20 {
				t.Errorf("%d of %d bytes were freed, %d said", freed, before, said)
			}
			if n := s.Stats().DeadBytes; n != 0 {
				t.Errorf("%d bytes are dead after the compaction", n)
			}
		})
	}
}

// TestRetainBytesMove: the bytes that Retain reports are the sizes that values have at the moment. A
// flush stores some as patches that were whole, and the other way round. So the same dry run says
// other bytes behind it, and the same of all else.
func TestRetainBytesMove(t *testing.T) {
	s := openFor(t, "store", disk.Options{ManualWork: true}, disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true})
	v := &victim{markers: map[string][]byte{}}
	chat := &chatText{rng: rand.New(rand.NewPCG(1, 1))}
	for n := 1; n <= 60; n++ {
		v.put(t, s, "chat", n, saver.Metadata{"step": n}, chat.grow(60))
	}
	dry := func() saver.RetentionReport {
		t.Helper()
		rep, err := s.Retain(t.Context(), saver.RetentionPolicy{KeepLast: 20}, true)
		must(t, err)
		return rep
	}
	before := dry()
	must(t, s.Flush(t.Context()))
	flushed := dry()
	must(t, s.Compact(t.Context()))
	compacted := dry()
	if flushed.Bytes == before.Bytes {
		t.Errorf("a flush moves no bytes: %d", before.Bytes)
	}
	before.Bytes, before.Left, flushed.Bytes, flushed.Left = 0, 0, 0, 0
	if fmt.Sprint(before) != fmt.Sprint(flushed) {
		t.Errorf("a dry run said %+v, and behind a flush %+v", before, flushed)
	}
	done, err := s.Retain(t.Context(), saver.RetentionPolicy{KeepLast: 20}, false)
	must(t, err)
	if fmt.Sprint(done) != fmt.Sprint(compacted) {
		t.Errorf("a dry run said %+v; it is %+v", compacted, done)
	}
}

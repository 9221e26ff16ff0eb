package index

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/base"
)

// model is a partition as a plain map of what it shows.
type model map[string]*Entry

func (m model) with(entries []*Entry) model {
	n := maps.Clone(m)
	for _, it := range entries {
		if it.Deleted() {
			delete(n, it.Key)
		} else {
			n[it.Key] = it
		}
	}
	return n
}

func (m model) keys(prefix, before string) []string {
	var keys []string
	for k := range m {
		if strings.HasPrefix(k, prefix) && (before == "" || k < before) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func (m model) head() string {
	head := ""
	for k, it := range m {
		if it.Flags&FlagHead != 0 && k > head {
			head = k
		}
	}
	return head
}

// alphabet gives keys that are prefixes of one another, and such that no key
// with the prefix is followed by another byte string of its length.
var alphabet = []string{"a", "b", "\xff"}

func genKey(t *rapid.T, label string, least int) string {
	parts := rapid.SliceOfN(rapid.SampledFrom(alphabet), least, 4).Draw(t, label)
	return strings.Join(parts, "")
}

func genEntries(t *rapid.T, lsn base.LSN) []*Entry {
	entries := make([]*Entry, rapid.IntRange(0, 12).Draw(t, "entries"))
	for i := range entries {
		flags := rapid.SampledFrom([]uint8{0, FlagHead, FlagHead, FlagDeleted, FlagUser}).Draw(t, "flags")
		entries[i] = &Entry{Key: genKey(t, "key", 1), LSN: lsn, Flags: flags}
	}
	return entries
}

// collect reads what a walk gives, and stops it after n entries.
func collect(n int, walk func(fn func(*Entry) bool)) []*Entry {
	var got []*Entry
	if n == 0 {
		return nil
	}
	walk(func(it *Entry) bool {
		got = append(got, it)
		return len(got) < n
	})
	return got
}

func sameEntries(got []*Entry, m model, keys []string) error {
	if len(got) != len(keys) {
		return fmt.Errorf("%d entries, want %d", len(got), len(keys))
	}
	for i, it := range got {
		if it != m[keys[i]] {
			return fmt.Errorf("entry %d is %q of %d, want %q", i, it.Key, it.LSN, keys[i])
		}
	}
	return nil
}

// check compares everything a resident partition answers with the model.
func check(t *rapid.T, what string, th *Partition, m model) {
	for range 3 {
		prefix, before := genKey(t, "prefix", 0), genKey(t, "before", 0)
		up := m.keys(prefix, "")
		down := m.keys(prefix, before)
		slices.Reverse(down)
		n := rapid.IntRange(1, 40).Draw(t, "stop after")
		if err := sameEntries(collect(n, func(fn func(*Entry) bool) { th.Ascend(prefix, fn) }), m, up[:min(n, len(up))]); err != nil {
			t.Fatalf("%s: ascend %q: %v", what, prefix, err)
		}
		if err := sameEntries(collect(n, func(fn func(*Entry) bool) { th.Descend(prefix, before, fn) }), m, down[:min(n, len(down))]); err != nil {
			t.Fatalf("%s: descend %q before %q: %v", what, prefix, before, err)
		}
		var last *Entry
		if len(up) > 0 {
			last = m[up[len(up)-1]]
		}
		if got := th.Last(prefix); got != last {
			t.Fatalf("%s: last of %q is %v, want %v", what, prefix, got, last)
		}
		if got := th.Get(prefix); got != m[prefix] {
			t.Fatalf("%s: get %q is %v, want %v", what, prefix, got, m[prefix])
		}
	}
	if th.Head != m.head() {
		t.Fatalf("%s: head %q, want %q", what, th.Head, m.head())
	}
	live := map[string]*Entry{}
	th.Entries(0, func(it *Entry) {
		if !it.Deleted() {
			live[it.Key] = it
		}
	})
	if !maps.Equal(live, m) {
		t.Fatalf("%s: entries are %v, want %v", what, live, m)
	}
}

// moment is a partition that is held, and what it must go on showing.
type moment struct {
	what  string
	th    *Partition
	shows model
}

// life drives one partition and its copies through a random history.
type life struct {
	lsn     base.LSN
	current []moment // the newest state of the partition and of each of its copies
	held    []moment
	disk    map[string][]*Entry // by partition: all entries ever stored, older ones too
	rand    *rand.Rand
}

func (l *life) commit(t *rapid.T, c *moment) {
	l.lsn++
	entries := genEntries(t, l.lsn)
	c.th = c.th.With(entries, l.lsn, int64(l.lsn)*10)
	c.shows = c.shows.with(entries)
	l.disk[c.th.ID] = append(l.disk[c.th.ID], lastOfEach(entries)...)
	if c.th.LSN != l.lsn || c.th.Updated != int64(l.lsn)*10 {
		t.Fatalf("commit %d gives a thread of %d, updated %d", l.lsn, c.th.LSN, c.th.Updated)
	}
}

// lastOfEach is what a page holds of entries with the same key in one record.
func lastOfEach(entries []*Entry) []*Entry {
	byKey := map[string]*Entry{}
	for _, it := range entries {
		byKey[it.Key] = it
	}
	return slices.Collect(maps.Values(byKey))
}

// evict makes the partition cold, lets commits arrive, and loads it again from all
// that was ever stored, in any order.
func (l *life) evict(t *rapid.T, c *moment) {
	stored := slices.Clone(l.disk[c.th.ID])
	floor := l.lsn
	cold := ColdPartition(c.th.ID, c.th.Family, c.th.Birth)
	cold.Head, cold.LSN, cold.Updated = c.th.Head, c.th.LSN, c.th.Updated
	c.th = cold
	for range rapid.IntRange(0, 5).Draw(t, "commits while cold") {
		l.commit(t, c)
	}
	if !c.th.Cold() {
		t.Fatal("a commit warmed a cold thread")
	}
	l.rand.Shuffle(len(stored), func(i, j int) { stored[i], stored[j] = stored[j], stored[i] })
	before := c.th
	c.th = c.th.Loaded(stored, floor)
	if c.th.Cold() || !before.Cold() {
		t.Fatal("loading must make a new, resident thread")
	}
	c.th.Entries(0, func(it *Entry) {
		if it.Deleted() && it.LSN <= floor {
			t.Fatalf("deletion of %q at %d is kept below the floor %d", it.Key, it.LSN, floor)
		}
	})
}

func TestThreadModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{disk: map[string][]*Entry{}, rand: rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "shuffle")))}
		l.current = []moment{{"thread", NewPartition("t", NewFamily(1), 1), model{}}}
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			i := rapid.IntRange(0, len(l.current)-1).Draw(t, "thread")
			c := &l.current[i]
			switch rapid.SampledFrom([]string{"commit", "commit", "commit", "hold", "fork", "evict"}).Draw(t, "op") {
			case "commit":
				l.commit(t, c)
			case "hold":
				l.held = append(l.held, moment{fmt.Sprintf("held at step %d", step), c.th, c.shows})
			case "fork":
				l.lsn++
				id := fmt.Sprintf("copy %d", step)
				th := c.th.Forked(id, l.lsn, l.lsn, 7)
				if th.ID != id || th.Birth != l.lsn || th.LSN != l.lsn || th.Updated != 7 || th.Family != c.th.Family {
					t.Fatalf("copy is %+v", th)
				}
				l.disk[id] = slices.Clone(l.disk[c.th.ID])
				l.current = append(l.current, moment{id, th, c.shows})
				c = &l.current[i]
			case "evict":
				l.evict(t, c)
			}
			check(t, c.what, c.th, c.shows)
		}
		for _, m := range slices.Concat(l.held, l.current) {
			check(t, m.what, m.th, m.shows)
		}
	})
}

// The entries of records from one on come in the order of keys, of one key the last, wherever they
// lie.
func TestEntriesInOrder(t *testing.T) {
	th := NewPartition("t", NewFamily(1), 1)
	want := map[string]base.LSN{}
	for lsn := base.LSN(1); lsn <= 3*recentMax; lsn++ {
		key := fmt.Sprintf("k%02d", lsn*7%40)
		it := &Entry{Key: key, LSN: lsn}
		if lsn%9 == 0 {
			it.Flags = FlagDeleted
		}
		th, want[key] = th.With([]*Entry{it}, lsn, 0), lsn
		for first := range lsn + 1 {
			last, n := "", 0
			th.Entries(first, func(it *Entry) {
				if it.Key <= last || it.LSN < first || it.LSN != want[it.Key] {
					t.Fatalf("after record %d, from %d: entry %s of record %d behind %s", lsn, first, it.Key, it.LSN, last)
				}
				last, n = it.Key, n+1
			})
			for _, at := range want {
				if at >= first {
					n--
				}
			}
			if n != 0 {
				t.Fatalf("after record %d, from %d: %d entries too many", lsn, first, n)
			}
		}
	}
}

// TestLoadedFloor pins which deletions survive a load: those above the floor,
// because an older entry may still be read from a page that is not loaded yet.
func TestLoadedFloor(t *testing.T) {
	th := ColdPartition("t", NewFamily(1), 1).Loaded([]*Entry{
		{Key: "a", LSN: 1}, {Key: "a", LSN: 2, Flags: FlagDeleted},
		{Key: "b", LSN: 1}, {Key: "b", LSN: 3, Flags: FlagDeleted},
		{Key: "c", LSN: 4, Flags: FlagHead},
	}, 2)
	var left []string
	th.Entries(0, func(it *Entry) { left = append(left, fmt.Sprintf("%s%d", it.Key, it.LSN)) })
	if want := []string{"b3", "c4"}; !slices.Equal(left, want) {
		t.Errorf("entries %v, want %v", left, want)
	}
	if th.Get("a") != nil || th.Get("b") != nil || th.Head != "c" {
		t.Errorf("a %v, b %v, head %q", th.Get("a"), th.Get("b"), th.Head)
	}
}

func TestUpperBound(t *testing.T) {
	for _, c := range []struct{ prefix, before, want string }{
		{"", "", ""}, {"a", "", "b"}, {"a\xff", "", "b"}, {"\xff\xff", "", ""}, {"a", "ab", "ab"}, {"a", "c", "c"},
	} {
		if got := upperBound(c.prefix, c.before); got != c.want {
			t.Errorf("upper bound of %q before %q: %q, want %q", c.prefix, c.before, got, c.want)
		}
	}
}

// TestFoldsBesideEachOther: the tree that all partitions with few entries share is not changed
// when they get more, which the race detector would tell.
func TestFoldsBesideEachOther(t *testing.T) {
	var entries []*Entry
	for i := range recentMax + 1 {
		entries = append(entries, &Entry{Key: strconv.Itoa(i), LSN: 1})
	}
	var beside sync.WaitGroup
	for n := range 2 {
		beside.Go(func() {
			for range 100 {
				p := NewPartition("p", NewFamily(1), 1)
				if n == 0 {
					p = p.With(entries, 1, 0)
				} else {
					p = ColdPartition("p", p.Family, 1).Loaded(entries, 0)
				}
				if p.tree.Len() != len(entries) || noEntries.Len() != 0 {
					t.Errorf("%d entries in a tree, and %d in that of partitions with few", p.tree.Len(), noEntries.Len())
				}
			}
		})
	}
	beside.Wait()
}

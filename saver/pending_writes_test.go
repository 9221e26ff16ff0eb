package saver

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// ResolveWrites gives what storing the writes one by one under their keys gives.
func TestResolveWrites(t *testing.T) {
	channels := rapid.SampledFrom([]string{"a", "b", ChannelError, ChannelScheduled, ChannelInterrupt, ChannelResume})
	rapid.Check(t, func(t *rapid.T) {
		type key struct {
			task  string
			index int
		}
		stored := map[key]PendingWrite{}
		var asked []PendingWrite
		for range rapid.IntRange(0, 6).Draw(t, "calls") {
			task, path := rapid.SampledFrom([]string{"t1", "t2"}).Draw(t, "task"), rapid.SampledFrom([]string{"", "p"}).Draw(t, "path")
			for i := range rapid.IntRange(0, 3).Draw(t, "writes") {
				ch := channels.Draw(t, "channel")
				w := PendingWrite{TaskID: task, Channel: ch, TaskPath: path, Index: WriteIndex(ch, i), Value: ValueOf(len(asked))}
				asked = append(asked, w)
				k := key{task, w.Index}
				if _, ok := stored[k]; !ok || w.Index < 0 {
					stored[k] = w
				}
			}
		}
		want := []PendingWrite{}
		for _, w := range stored {
			want = append(want, w)
		}
		slices.SortFunc(want, PendingWrite.Compare)
		if got := ResolveWrites(asked); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
	})
}

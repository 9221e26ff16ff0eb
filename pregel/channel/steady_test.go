package channel_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stele-go/stele/pregel/channel"
)

// TestIsSteady: a channel that says so shows the same after an Update without values, and those
// that forget do not say so.
func TestIsSteady(t *testing.T) {
	list, err := channel.AppendOf(reflect.TypeFor[[]int]())
	if err != nil {
		t.Fatal(err)
	}
	add := func(a, b int) int { return a + b }
	for _, c := range []struct {
		ch     channel.Channel
		write  any
		steady bool
	}{
		{channel.LastValue[int](), 1, true},
		{channel.LastValueOf(reflect.TypeFor[int]()), 1, true},
		{channel.ExactOf(reflect.TypeFor[int]()), 1, true},
		{channel.Reduce(add), 1, true},
		{list, []int{1}, true},
		{channel.Delta(1, func(n int, w []int) (int, error) { return n + len(w), nil }), 1, true},
		{channel.Messages(nil), channel.Message{Role: "ai", Content: "x", ID: "1"}, true},
		{channel.Ephemeral[int](channel.Guarded), 1, false},
		{channel.AnyValue[int](), 1, false},
		{channel.Topic[int](channel.PerStep), 1, false},
	} {
		ch := c.ch.Named("k")
		if _, err := ch.Update([]any{c.write}); err != nil {
			t.Fatalf("%T: %v", ch, err)
		}
		before, _ := ch.Get()
		shown := fmt.Sprint(before)
		changed, err := ch.Update(nil)
		after, ok := ch.Get()
		if err != nil || channel.IsSteady(ch) != c.steady || c.steady != (!changed && ok && fmt.Sprint(after) == shown) {
			t.Errorf("%T: steady %t, changed %t, %v and then %v %t", ch, channel.IsSteady(ch), changed, before, after, ok)
		}
	}
}

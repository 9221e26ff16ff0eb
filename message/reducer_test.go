package message_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel/channel"
)

// TestAddKeepsIDsApart: whatever is added and removed, in one update or in several, no two messages have one
// id, no removal is kept, and what is there is what the same updates one by one leave. Both channels of
// messages do the same.
func TestAddKeepsIDsApart(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed ", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	draw := func() (out []message.Message) {
		for range r.IntN(6) {
			id := strconv.Itoa(r.IntN(3))
			switch r.IntN(6) {
			case 0:
				out = append(out, message.Remove(message.RemoveAllID))
			case 1:
				out = append(out, message.Remove(id))
			default:
				out = append(out, message.Message{Type: message.TypeAI, ID: id, Content: strconv.Itoa(r.IntN(1000))})
			}
		}
		return out
	}
	state := func(list []message.Message) map[string]any {
		m := map[string]any{}
		for _, x := range list {
			if _, twice := m[x.ID]; twice || x.Type == message.TypeRemove {
				t.Fatalf("%+v", list)
			}
			m[x.ID] = x.Content
		}
		return m
	}
	plain := func(list []message.Message) (out []channel.Message) {
		for _, x := range list {
			out = append(out, channel.Message{ID: x.ID, Role: string(x.Type), Content: x.Content})
		}
		return out
	}
	twice := [][]message.Message{{message.Remove(message.RemoveAllID), {Type: message.TypeAI, ID: "1", Content: "a"}, {Type: message.TypeAI, ID: "1", Content: "b"}}}
	refused := 0
	for n := range 5000 {
		var left []message.Message
		updates := twice
		if n > 0 {
			updates = [][]message.Message{draw(), draw(), draw()}
		}
		for _, right := range updates {
			got, err := message.Add(left, right)
			other, otherErr := channel.AddMessages(plain(left), plain(right), channel.NewMessageID)
			if (err == nil) != (otherErr == nil) || err == nil && !slices.EqualFunc(plain(got), other, func(a, b channel.Message) bool { return a.ID == b.ID && a.Content == b.Content }) {
				t.Fatalf("%+v and %+v: %+v, %v, but %+v, %v", left, right, got, err, other, otherErr)
			}
			if err != nil {
				if refused++; !errors.As(err, new(*message.UnknownIDError)) {
					t.Fatal(err)
				}
				continue
			}
			want := slices.Clone(left)
			for _, x := range right {
				if next, err := message.Add(want, []message.Message{x}); err == nil {
					want = next
				}
			}
			is, one := state(got), state(want)
			for id := range is {
				if is[id] != one[id] {
					t.Fatalf("%+v and %+v: %+v, and one by one %+v", left, right, got, want)
				}
			}
			if len(is) != len(one) {
				t.Fatalf("%+v and %+v: %+v, and one by one %+v", left, right, got, want)
			}
			left = got
		}
	}
	if refused == 0 || refused > 10000 {
		t.Errorf("%d updates were refused", refused)
	}
}

// TestAddToTwins: of messages that LangGraph has stored under one id a removal takes out all, as it does there.
func TestAddToTwins(t *testing.T) {
	ai := func(id, s string) message.Message { return message.Message{Type: message.TypeAI, ID: id, Content: s} }
	left := []message.Message{ai("1", "a"), ai("1", "b"), ai("2", "x"), ai("1", "c")}
	got, err := message.Add(left, []message.Message{message.Remove("1")})
	if err != nil || len(got) != 1 || got[0].ID != "2" {
		t.Errorf("%v, %v", got, err)
	}
	got, err = message.Add(left, []message.Message{message.Remove("1"), ai("1", "new")})
	if err != nil || len(got) != 4 || got[3].Text() != "new" || got[0].Text() != "a" {
		t.Errorf("%v, %v", got, err)
	}
}

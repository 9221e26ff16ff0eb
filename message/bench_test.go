package message_test

import (
	"fmt"
	"testing"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/saver/serde"
)

// talk is a conversation of n messages.
func talk(n int) (out message.List) {
	for i := range n {
		m := message.Human(fmt.Sprintf("question %d, which is about as long as a question is", i))
		if i%2 == 1 {
			m = message.AI("an answer, which is longer than a question, because models like to talk",
				message.ToolCall{Name: "search", ID: fmt.Sprint("call_", i), Args: map[string]any{"query": "x", "limit": 10}})
			m.ResponseMetadata = map[string]any{"model_name": "m", "finish_reason": "stop"}
		}
		m.ID = fmt.Sprint("message-", i)
		out = append(out, m)
	}
	return out
}

// BenchmarkConversation reads and writes 1,000 messages: those that a program made, and those that
// were read.
func BenchmarkConversation(b *testing.B) {
	made := talk(1000)
	typed, err := serde.Default().Encode(made)
	if err != nil {
		b.Fatal(err)
	}
	var read message.List
	if err := serde.Default().DecodeInto(typed, &read); err != nil {
		b.Fatal(err)
	}
	for name, list := range map[string]message.List{"made": made, "read": read} {
		b.Run("write/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(typed.Data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := serde.Default().Encode(list); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(typed.Data)))
		b.ReportAllocs()
		for b.Loop() {
			var list message.List
			if err := serde.Default().DecodeInto(typed, &list); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read/untyped", func(b *testing.B) {
		b.SetBytes(int64(len(typed.Data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := serde.Default().Decode(typed); err != nil {
				b.Fatal(err)
			}
		}
	})
}

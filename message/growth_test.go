package message_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stele-go/stele/message"
)

// TestChunksGrow: what adding the chunks of an answer allocates grows with them, and not with their square.
func TestChunksGrow(t *testing.T) {
	index := 0
	for name, part := range map[string]func() message.Chunk{
		"text": func() message.Chunk { return message.Chunk{Message: message.AI("words and words ")} },
		"arguments": func() message.Chunk {
			return message.Chunk{Message: message.AI(""), ToolCallChunks: []message.ToolCallChunk{{Index: &index, Args: "words and words "}}}
		},
		"a block": func() message.Chunk {
			return blocks(message.Block{"type": "text", "text": "words and words ", "index": int64(0)})
		},
		"blocks": func() message.Chunk { return blocks(message.Block{"type": "text", "text": "words"}) },
		"texts":  func() message.Chunk { return blocks("words and words ") },
		"kwargs": func() message.Chunk {
			m := message.AI("")
			m.AdditionalKwargs = map[string]any{"reasoning_content": "words and words "}
			return message.Chunk{Message: m}
		},
	} {
		allocated := func(n int) (sum uint64) {
			chunks := make([]message.Chunk, n)
			for i := range chunks {
				chunks[i] = part()
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			whole, err := chunks[0].Add(chunks[1:]...)
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(name, err)
			}
			if said := fmt.Sprint(whole.Content, whole.Blocks, whole.ToolCallChunks, whole.AdditionalKwargs); strings.Count(said, "words") < n {
				t.Errorf("%s: %.100s", name, said)
			}
			return after.TotalAlloc - before.TotalAlloc
		}
		few, many := allocated(1000), allocated(8000)
		if many > 20*few { // a square would be 64 times as much
			t.Errorf("%s: %d bytes for 1,000 chunks, and %d for 8,000", name, few, many)
		}
	}
}

func blocks(list ...any) message.Chunk {
	m := message.AI("")
	m.Blocks = list
	return message.Chunk{Message: m}
}

// TestRunsGrow: what merging a run of messages allocates grows with them, and not with their square.
func TestRunsGrow(t *testing.T) {
	for _, typ := range []message.Type{message.TypeHuman, message.TypeSystem, message.TypeAI} {
		allocated := func(n int) uint64 {
			list := make([]message.Message, n)
			for i := range list {
				list[i] = message.Message{Type: typ, Content: "words and words and words and words"}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			merged, err := message.MergeRuns(list, "\n")
			runtime.ReadMemStats(&after)
			if err != nil || len(merged) != 1 || merged[0].Content != strings.Repeat(list[0].Content+"\n", n-1)+list[0].Content {
				t.Fatalf("%s: %d messages: %v", typ, len(merged), err)
			}
			return after.TotalAlloc - before.TotalAlloc
		}
		if few, many := allocated(1000), allocated(8000); many > 20*few {
			t.Errorf("%s: %d bytes for 1,000 messages, and %d for 8,000", typ, few, many)
		}
	}
}

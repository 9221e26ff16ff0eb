// Command semantic searches memories by meaning. The embedder is a toy: it counts
// words of a few subjects. A real one asks a model; nothing else changes.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// subjects are the dimensions of the embedder.
var subjects = [][]string{
	{"eat", "food", "soup", "noodles", "hungry", "dinner", "spicy"},
	{"work", "office", "meeting", "boss", "deadline", "report"},
	{"travel", "train", "flight", "hotel", "holiday", "sea"},
}

// embed gives a text one number for each subject: how many of its words it has.
func embed(_ context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i] = make([]float32, len(subjects))
		for word := range strings.FieldsSeq(strings.ToLower(text)) {
			for s, words := range subjects {
				for _, w := range words {
					if strings.Trim(word, ".,?") == w {
						vectors[i][s]++
					}
				}
			}
		}
	}
	return vectors, nil
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "stele-semantic-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sv, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return err
	}
	defer sv.Close()
	memories, err := store.On(sv, store.Options{Index: &store.Index{Dims: len(subjects), Embed: embed, Fields: []string{"text"}}})
	if err != nil {
		return err
	}
	defer memories.Close()
	ann := store.Namespace{"users", "ann"}
	for i, text := range []string{
		"The boss wants the report before the meeting.",
		"Ann likes spicy noodles and hot soup.",
		"The train to the sea leaves at nine.",
		"Dinner at the hotel, after the flight.",
	} {
		op := map[string]any{"text": text, "year": 2020 + i}
		if err := memories.Put(ctx, ann, fmt.Sprint("memory-", i), op); err != nil {
			return err
		}
	}
	for _, q := range []store.Query{
		{Prefix: ann, Text: "What does she eat when she is hungry?", Limit: 2},
		{Prefix: ann, Text: "holiday travel", Limit: 2},
		{Prefix: ann, Text: "holiday travel", Limit: 2, Filter: map[string]any{"year": map[string]any{"$lt": 2023}}},
	} {
		found, err := memories.Search(ctx, q)
		if err != nil {
			return err
		}
		fmt.Println(q.Text, q.Filter)
		for _, f := range found {
			fmt.Printf("  %.2f %s\n", f.Score, f.Value["text"])
		}
	}
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

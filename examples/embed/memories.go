package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// subjects are the dimensions of the embedder, which is a toy: it counts words. A real one asks
// a model; nothing else changes.
var subjects = []string{"soup noodles hungry dinner eat", "boss meeting report work", "train sea flight hotel holiday travel"}

// embed gives a text one number for each subject: how many of its words it has.
func embed(_ context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i] = make([]float32, len(subjects))
		for word := range strings.FieldsSeq(strings.ToLower(text)) {
			for s, words := range subjects {
				if strings.Contains(words, strings.Trim(word, ".,:?")) {
					vectors[i][s]++
				}
			}
		}
	}
	return vectors, nil
}

// remember keeps what is known of a person, whatever the thread, and searches it by meaning.
func remember(ctx context.Context, s *disk.Saver, out io.Writer) (err error) {
	memories, err := store.On(s, store.Options{Index: &store.Index{Dims: len(subjects), Embed: embed, Fields: []string{"text"}}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, memories.Close()) }()
	alice := store.Namespace{"users", "alice"} // a search below it finds nothing of others
	for i, text := range []string{"Boss: report before meeting.", "Likes noodles, soup.", "Train to Oslo, sea.", "Dinner: hotel, flight late."} {
		if err := memories.Put(ctx, alice, fmt.Sprint("memory-", i), map[string]any{"text": text, "year": 2020 + i}); err != nil {
			return err
		}
	}
	for _, q := range []store.Query{
		{Prefix: alice, Text: "Hungry?", Limit: 2},
		{Prefix: alice, Text: "Holiday travel", Limit: 2},
		{Prefix: alice, Text: "Holiday travel", Limit: 1, Filter: map[string]any{"year": map[string]any{"$gt": 2022}}},
	} {
		found, err := memories.Search(ctx, q)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, q.Text, q.Filter)
		for _, f := range found {
			fmt.Fprintf(out, "  %.2f %s\n", f.Score, f.Value["text"])
		}
	}
	return nil
}

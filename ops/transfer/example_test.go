package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// A thread is written as NDJSON, and copied from there into another saver.
func Example() {
	ctx := context.Background()
	from, to := memory.New(memory.Options{}), memory.New(memory.Options{})
	versions := map[string]saver.Version{"topic": saver.IntVersion(1)}
	cp := saver.Checkpoint{V: 4, ID: "1f0f5200-24f1-6000-8000-bde4e02ab92b", Versions: versions, Values: map[string]saver.Value{"topic": saver.ValueOf("tea")}}
	if _, err := from.Put(ctx, saver.Config{ThreadID: "alice"}, cp, saver.Metadata{"step": 1}, versions); err != nil {
		log.Fatal(err)
	}

	var file bytes.Buffer
	if _, err := transfer.Write(ctx, transfer.FromSaver(from), &file, transfer.Options{}); err != nil {
		log.Fatal(err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file.Bytes())), nil }
	report, err := transfer.Copy(ctx, transfer.FromNDJSON(open), to, transfer.Options{
		Select: transfer.Selection{Metadata: map[string]any{"step": 1}},
	})
	if err != nil {
		log.Fatal(err)
	}
	tup, err := to.GetTuple(ctx, saver.Config{ThreadID: "alice"})
	if err != nil {
		log.Fatal(err)
	}
	topic, err := tup.Checkpoint.Values["topic"].Any()
	fmt.Println(report.Verified, "verified:", topic, err)
	// Output: 1 verified: tea <nil>
}

package memory_test

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// The saver of a test: the semantics of the disk saver, gone with the process.
func ExampleNew() {
	ctx := context.Background()
	s := memory.New(memory.Options{})
	versions := map[string]saver.Version{"n": saver.IntVersion(1)}
	cfg, err := s.Put(ctx, saver.Config{ThreadID: "t"}, saver.Checkpoint{
		V: 4, ID: "id-1", Versions: versions, Values: map[string]saver.Value{"n": saver.ValueOf(42)},
	}, saver.Metadata{"source": "input"}, versions)
	if err != nil {
		fmt.Println(err)
		return
	}
	tup, err := s.GetTuple(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := tup.Checkpoint.Values["n"].Any()
	fmt.Println(n, err)
	// Output: 42 <nil>
}

package wire

import (
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// BenchmarkBodies are the bodies of the two calls of a superstep: a put of 4 KB and the tuple
// that a get answers, encoded and decoded.
func BenchmarkBodies(b *testing.B) {
	stored := func(data []byte) saver.Value { return saver.ValueTyped(serde.Typed{Kind: "msgpack", Data: data}) }
	versions := map[string]saver.Version{
		"messages": saver.StringVersion("00000000000000000000000000000002.5"), "step": saver.IntVersion(7),
	}
	values := map[string]saver.Value{"messages": stored(make([]byte, 4<<10)), "step": stored([]byte{7})}
	cp := saver.Checkpoint{
		V: 4, ID: "1f0f5200-24f1-6001-8000-bde4e02ab92b", TS: "2026-01-02T03:04:06.000000+00:00",
		Values: values, Versions: versions,
		Seen: map[string]map[string]saver.Version{"node": versions, "__input__": {}}, Updated: []string{"messages", "step"},
	}
	cfg := saver.Config{ThreadID: "thread-1", CheckpointID: "1f0f5200-24f1-6000-8000-bde4e02ab92b"}
	md := saver.Metadata{"source": "loop", "step": int64(3), "run_id": "1f0f5200-24f1-6000-8000-bde4e02ab92c"}
	writes := []saver.PendingWrite{{TaskID: "task", Channel: "messages", Value: values["step"], TaskPath: "~pull, node"}}
	call := &Call{Slot: 2, Number: 300}
	b.Run("put", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p := PutOf(saver.PutRequest{Config: cfg, Checkpoint: cp, Metadata: md, NewVersions: versions})
			p.Call = call
			body, err := Encode(&p)
			if err != nil {
				b.Fatal(err)
			}
			if p, err = DecodeParams[Put]("put", body); err != nil || p.Request().Checkpoint.V != 4 {
				b.Fatal(err)
			}
		}
	})
	b.Run("get", func(b *testing.B) {
		t := &saver.Tuple{Config: cfg, Checkpoint: cp, Metadata: md, PendingWrites: writes}
		b.ReportAllocs()
		for b.Loop() {
			body, err := Encode(Got{TupleOf(t)})
			if err != nil {
				b.Fatal(err)
			}
			if got, err := Decode[Got](body); err != nil || got.Tuple.Saver().Checkpoint.V != 4 {
				b.Fatal(err)
			}
		}
	})
}

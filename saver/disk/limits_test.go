package disk_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
)

// lists is a value of many empty lists: a byte each, and 44 when it is decoded.
func lists(n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = []any{}
	}
	return out
}

func limitRequest(id string, v saver.Value, md saver.Metadata) saver.PutRequest {
	one := map[string]saver.Version{"c": saver.IntVersion(1)}
	return saver.PutRequest{
		Config: saver.Config{ThreadID: "t"}, Metadata: md, NewVersions: one,
		Checkpoint: saver.Checkpoint{V: 4, ID: id, Versions: one, Values: map[string]saver.Value{"c": v}},
	}
}

// TestDecodeLimit: what could not be read is not stored; what another program stored, or
// this one with a higher limit, is read raw, listed, verified, copied, backed up and
// salvaged, and its decoding refused.
func TestDecodeLimit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := openFor(t, dir, disk.Options{DecodeLimit: 1 << 20}, disk.Simulation{})
	ctx := t.Context()
	_, err := s.PutRequest(ctx, limitRequest("1", saver.ValueOf(lists(100_000)), nil))
	if !errors.Is(err, serde.ErrDecodeLimit) || !errors.Is(err, saver.ErrTooLarge) {
		t.Fatalf("a value that cannot be read is stored: %v", err)
	}
	at := saver.Config{ThreadID: "t", CheckpointID: "2"}
	if err := s.PutWrites(ctx, at, []saver.Write{{Channel: "c", Value: saver.ValueOf(lists(100_000))}}, "task", ""); !errors.Is(err, serde.ErrDecodeLimit) {
		t.Fatalf("a write that cannot be read is stored: %v", err)
	}
	if _, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"}); !errors.Is(err, saver.ErrNotFound) {
		t.Fatalf("after refusals there is %v", err)
	}
	raw, err := serde.Default().Encode(lists(100_000))
	if err != nil {
		t.Fatal(err)
	}
	// Metadata has the default limit, not this one.
	md := saver.Metadata{"source": "loop", "large": lists(50_000)}
	if _, err := s.PutRequest(ctx, limitRequest("2", saver.ValueTyped(raw), md)); err != nil {
		t.Fatal(err)
	}
	if err := s.PutWrites(ctx, at, []saver.Write{{Channel: "c", Value: saver.ValueTyped(raw)}}, "task", ""); err != nil {
		t.Fatal(err)
	}
	if err := s.CopyThread(ctx, "t", "copy"); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if _, err := admin.BackupOpen(ctx, s, backup, admin.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if rep, err := admin.Verify(ctx, dir, admin.VerifyOptions{}); err != nil || !rep.Clean() {
		t.Fatalf("verify: %+v, %v", rep, err)
	}
	salvaged := filepath.Join(t.TempDir(), "salvaged")
	if _, err := admin.Salvage(ctx, dir, salvaged, admin.SalvageOptions{}); err != nil {
		t.Fatalf("salvage: %v", err)
	}
	restored := filepath.Join(t.TempDir(), "restored")
	if _, err := admin.Restore(ctx, backup, restored, admin.BackupOptions{}); err != nil {
		t.Fatalf("restore: %v", err)
	}
	for _, dir := range []string{dir, restored, salvaged} {
		checkLimited(t, openFor(t, dir, disk.Options{DecodeLimit: 1 << 20}, disk.Simulation{}), raw)
	}
}

// checkLimited reads what TestDecodeLimit stored.
func checkLimited(t *testing.T, s *disk.Saver, raw serde.Typed) {
	t.Helper()
	ctx := t.Context()
	n := 0
	for tup, err := range s.List(ctx, saver.Query{}) {
		if err != nil || len(tup.Metadata["large"].([]any)) != 50_000 {
			t.Fatalf("list: %v", err)
		}
		if n++; len(tup.PendingWrites) != 1 {
			t.Fatalf("%d writes", len(tup.PendingWrites))
		}
		for _, v := range []saver.Value{tup.Checkpoint.Values["c"], tup.PendingWrites[0].Value} {
			if got, err := v.Typed(); err != nil || got.Kind != raw.Kind || !bytes.Equal(got.Data, raw.Data) {
				t.Errorf("raw: %v", err)
			}
			if _, err := v.Any(); !errors.Is(err, serde.ErrDecodeLimit) {
				t.Errorf("decoded: %v", err)
			}
			var list []any
			if err := v.Decode(&list); !errors.Is(err, serde.ErrDecodeLimit) {
				t.Errorf("decoded into a list: %v", err)
			}
			if got, err := v.WithCodec(serde.Default()).Any(); err != nil || len(got.([]any)) != 100_000 {
				t.Errorf("with a higher limit: %v", err)
			}
		}
	}
	if n != 2 {
		t.Fatalf("%d checkpoints", n)
	}
	if _, err := admin.Show(ctx, s, saver.Config{ThreadID: "t"}); err != nil {
		t.Errorf("show: %v", err)
	}
}

// TestDecodeLimitOfOthers: a serializer that knows no limit is not given one silently.
func TestDecodeLimitOfOthers(t *testing.T) {
	_, err := disk.Open(t.TempDir(), disk.Options{DecodeLimit: 1, Serializer: struct{ serde.Serializer }{serde.Default()}})
	if !errors.Is(err, saver.ErrInvalid) {
		t.Fatal(err)
	}
}

// TestExactLimits: what is as long as a limit is stored and read; a byte more is refused
// before a byte is written.
func TestExactLimits(t *testing.T) {
	const most = 64 << 20
	dir := filepath.Join(t.TempDir(), "store")
	sv := openFor(t, dir, disk.Options{Sync: disk.SyncNever}, disk.Simulation{})
	big := bytes.Repeat([]byte("0123456789abcdef"), most/16)
	for name, s := range map[string]saver.Saver{"disk": sv, "memory": memory.New(memory.Options{})} {
		_, err := s.PutRequest(t.Context(), limitRequest("1", saver.ValueOf(append(big[:most:most], 1)), nil))
		if !errors.Is(err, saver.ErrTooLarge) {
			t.Errorf("%s: a value of 64 MiB and a byte: %v", name, err)
		}
		if _, err := s.PutRequest(t.Context(), limitRequest("1", saver.ValueOf(big), nil)); err != nil {
			t.Errorf("%s: a value of 64 MiB: %v", name, err)
		}
		md := saver.Metadata{"m": ""}
		md["m"] = strings.Repeat("m", most-len(mustMetadata(t, md))-4) // the length of a long string takes four bytes more
		req := limitRequest("2", saver.ValueOf(1), md)
		if n := len(mustMetadata(t, md)); n != most {
			t.Fatalf("metadata of %d bytes", n)
		}
		if _, err := s.PutRequest(t.Context(), req); err != nil {
			t.Errorf("%s: metadata of 64 MiB: %v", name, err)
		}
		md["m"] = md["m"].(string) + "m"
		if _, err := s.PutRequest(t.Context(), req); !errors.Is(err, saver.ErrTooLarge) {
			t.Errorf("%s: metadata of 64 MiB and a byte: %v", name, err)
		}
		checkCallLimit(t, name, s, big)
		checkNameLimits(t, name, s)
	}
	if err := sv.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sv.Close(); err != nil {
		t.Fatal(err)
	}
	again := openFor(t, dir, disk.Options{}, disk.Simulation{})
	for _, id := range []string{"1", "3"} {
		tup, err := again.GetTuple(t.Context(), saver.Config{ThreadID: "t", CheckpointID: id})
		if err != nil {
			t.Fatal(err)
		}
		for channel, v := range tup.Checkpoint.Values {
			if got, err := v.Any(); err != nil || !bytes.HasPrefix(big, got.([]byte)) {
				t.Errorf("checkpoint %s channel %.10s: %v", id, channel, err)
			}
		}
	}
}

func mustMetadata(t *testing.T, md saver.Metadata) []byte {
	t.Helper()
	typed, err := md.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	return typed.Data
}

// checkCallLimit puts values of 256 MiB in one call, metadata included.
func checkCallLimit(t *testing.T, name string, s saver.Saver, big []byte) {
	t.Helper()
	md := mustMetadata(t, saver.Metadata{})
	req := limitRequest("3", saver.ValueOf(big[:len(big)-len(md)]), saver.Metadata{})
	for _, channel := range []string{"d", "e", "f"} {
		req.NewVersions[channel], req.Checkpoint.Values[channel] = saver.IntVersion(1), saver.ValueTyped(serde.Typed{Kind: serde.KindBytes, Data: big})
	}
	if _, err := s.PutRequest(t.Context(), req); err != nil {
		t.Errorf("%s: a call of 256 MiB: %v", name, err)
	}
	req.Checkpoint.Values["c"] = saver.ValueOf(big[:len(big)-len(md)+1])
	if _, err := s.PutRequest(t.Context(), req); !errors.Is(err, saver.ErrTooLarge) {
		t.Errorf("%s: a call of 256 MiB and a byte: %v", name, err)
	}
}

// checkNameLimits puts names that are as long as they may be, and one byte longer.
func checkNameLimits(t *testing.T, name string, s saver.Saver) {
	t.Helper()
	for extra, want := range []error{nil, saver.ErrTooLarge} {
		text := strings.Repeat("n", 1<<10+extra)
		for what, change := range map[string]func(*saver.PutRequest){
			"thread":     func(r *saver.PutRequest) { r.Config.ThreadID = text },
			"namespace":  func(r *saver.PutRequest) { r.Config.Namespace = strings.Repeat("n", 2<<10+extra) },
			"checkpoint": func(r *saver.PutRequest) { r.Checkpoint.ID = text },
			"parent":     func(r *saver.PutRequest) { r.Config.CheckpointID = text },
			"channel": func(r *saver.PutRequest) {
				r.NewVersions[text], r.Checkpoint.Values[text] = saver.IntVersion(1), saver.ValueOf(1)
			},
			"task": func(r *saver.PutRequest) {
				r.Writes = []saver.TaskWrites{{TaskID: text, Writes: []saver.Write{{Channel: "c", Value: saver.ValueOf(1)}}}}
			},
		} {
			req := limitRequest("4", saver.ValueOf(1), nil)
			req.Config.ThreadID = "names"
			change(&req)
			if _, err := s.PutRequest(t.Context(), req); !errors.Is(err, want) {
				t.Errorf("%s: %s of %d bytes: %v", name, what, len(text), err)
			}
		}
	}
}

package layout

import (
	"cmp"
	"encoding/hex"
	"strings"
	"testing"
)

// TestKeyGolden: the bytes of keys do not change.
func TestKeyGolden(t *testing.T) {
	for _, c := range []struct{ name, key, want string }{
		{"thread", ThreadKey("one"), "74" + "6f6e65"},
		{"erased thread", ErasedThread(1, "one"), "78" + hex.EncodeToString([]byte(ErasedHash(1, "one")))},
		{"origins", OriginPartition, "6f"},
		{"run", RunKey("one"), "72" + "6f6e65"},
		{"checkpoint", CheckpointKey("", "id"), "63" + "0000" + "6964"},
		{"checkpoint of a subgraph", CheckpointKey("a|b", "id"), "63" + "617c62" + "0000" + "6964"},
		{"namespace with NUL", CheckpointKey("a\x00b", "i\x00d"), "63" + "6100ff62" + "0000" + "690064"},
		{"attempts", AttemptsKey("a", "id"), "61" + "61" + "0000" + "6964"},
		{"writes", WritesKey("a", "id", 0x0102, 3), "77" + "61" + "0000" + "6964" + "0000" + "0000000000000102" + "0003"},
	} {
		if got := hex.EncodeToString([]byte(c.key)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// FuzzKey: the parts of a key come back, keys sort as their parts do, and what
// is no key is refused.
func FuzzKey(f *testing.F) {
	f.Add("", "", "", "")
	f.Add("a", "1", "a\x00", "1")
	f.Add("a\x00\xff", "1", "a\x00\x00", "1\x00")
	f.Add("c\x00\x01x", "w\x00\x00a", "\xff", "\x00")
	f.Fuzz(func(t *testing.T, ns1, id1, ns2, id2 string) {
		if ns, id, ok := ParseCheckpointKey(CheckpointKey(ns1, id1)); !ok || ns != ns1 || id != id1 {
			t.Fatalf("checkpoint %q of %q comes back as %q of %q (%t)", id1, ns1, id, ns, ok)
		}
		if ns, id, ok := parseAttemptsKey(AttemptsKey(ns1, id1)); !ok || ns != ns1 || id != id1 {
			t.Fatalf("attempts at %q of %q come back as %q of %q (%t)", id1, ns1, id, ns, ok)
		}
		if ns, id, ok := ParseWritesKey(WritesKey(ns1, id1, 1<<60, 7)); !ok || ns != ns1 || id != id1 {
			t.Fatalf("writes to %q of %q come back as %q of %q (%t)", id1, ns1, id, ns, ok)
		}
		parts := cmp.Or(strings.Compare(ns1, ns2), strings.Compare(id1, id2))
		if got := strings.Compare(CheckpointKey(ns1, id1), CheckpointKey(ns2, id2)); got != parts {
			t.Fatalf("keys of %q %q and %q %q compare as %d", ns1, id1, ns2, id2, got)
		}
		if got := strings.Compare(WritesKey(ns1, id1, 5, 0), WritesKey(ns2, id2, 5, 0)); got != parts {
			t.Fatalf("keys of writes to %q %q and %q %q compare as %d", ns1, id1, ns2, id2, got)
		}
		if WritesKey(ns1, id1, 255, 1) >= WritesKey(ns1, id1, 256, 0) || WritesKey(ns1, id1, 5, 255) >= WritesKey(ns1, id1, 5, 256) {
			t.Fatal("keys of writes do not sort in commit order")
		}
		if ns, id, ok := ParseCheckpointKey(ns1); ok && CheckpointKey(ns, id) != ns1 {
			t.Fatalf("%q is read as a checkpoint's key and is none", ns1)
		}
		if ns, id, ok := ParseWritesKey(ns1); ok && !strings.HasPrefix(ns1, WritesPrefix(ns, id)) {
			t.Fatalf("%q is read as the key of writes and is none", ns1)
		}
	})
}

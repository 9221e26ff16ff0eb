package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/wire/client"
)

// replicatedWorld is a store that was written with a bucket, and closed: two checkpoints of alice, a second apart. It
// returns the address of the bucket, the record of the first, and a time between the two.
func replicatedWorld(t *testing.T, keys disk.KeyProvider) (w *world, address string, first uint64, between time.Time) {
	w = newWorld(t)
	dir := t.TempDir()
	b, err := bucket.Dir(t.Context(), dir)
	must(t, err)
	d, err := disk.Open(w.dir, disk.Options{ManualWork: true, Keys: keys, Replica: disk.Replica{Bucket: b, Mode: "sync"}, Simulation: disk.Simulation{Rand: w.rand}})
	must(t, err)
	id := w.put(d, "alice", 1, "", []any{"one"})
	first, between = d.Stats().LastLSN, time.Now().UTC()
	time.Sleep(time.Millisecond) // commits are told apart by microseconds
	w.put(d, "alice", 2, id, []any{"one", "two"})
	must(t, d.Close())
	return w, "file://" + dir, first, between
}

// alice is the newest checkpoint of the thread in a store.
func alice(t *testing.T, dir string, o disk.Options) string {
	t.Helper()
	d, err := disk.Open(dir, o)
	must(t, err)
	defer d.Close()
	tup, err := d.GetTuple(t.Context(), saver.Config{ThreadID: "alice"})
	must(t, err)
	return tup.Checkpoint.ID
}

// TestReplica: what the commands say of a bucket, and what they make of it, whether its store is encrypted or not.
func TestReplica(t *testing.T) {
	for name, args := range map[string][]string{"plain": nil, "encrypted": {"--keys", writeKeys(t)}} {
		t.Run(name, func(t *testing.T) {
			var o disk.Options
			if args != nil {
				keys, err := disk.LoadKeyFile(args[1])
				must(t, err)
				o.Keys = keys
			}
			w, address, first, between := replicatedWorld(t, o.Keys)
			run := func(more ...string) string {
				t.Helper()
				out, errOut, code := stele(t, append(more, args...)...)
				if code != exitDone {
					t.Fatalf("%v ends with %d: %s%s", more, code, out, errOut)
				}
				return out
			}
			var st replicaStatus
			must(t, json.Unmarshal([]byte(run("--json", "replica", "status", address)), &st))
			if !st.Released || st.Mode != "sync" || st.Epoch != 1 || uint64(st.End.LSN) <= first || st.Points != 1 || st.TTL != 15 {
				t.Errorf("%+v", st)
			}
			if out := run("replica", "status", address); !strings.Contains(out, "given back") || !strings.Contains(out, st.StoreID) {
				t.Error(out)
			}
			if out := run("replica", "points", address); strings.Count(out, "\n") != 2 {
				t.Error(out)
			}
			if out := run("replica", "verify", address); !strings.HasPrefix(out, "clean: ") || !strings.Contains(out, "1 point") {
				t.Error(out)
			}

			// To the end: it goes on with the bucket, and the old directory does not.
			newest := filepath.Join(t.TempDir(), "newest")
			run("restore", address, newest)
			if id := alice(t, newest, disk.Options{ReadOnly: true, Keys: o.Keys}); id != checkpointID(2) {
				t.Errorf("restored to %s", id)
			}
			if _, errOut, code := stele(t, append([]string{"compact", newest}, args...)...); code != exitFailed || !strings.Contains(errOut, "--replica") {
				t.Errorf("without the bucket: %d %s", code, errOut)
			}
			run("compact", newest, "--replica", address)
			run("compact", w.dir, "--replica", address) // it has all that the lineage has

			// To a record, to a time and to a checkpoint: stores of their own.
			for _, at := range []string{jsonOf(first), between.Format(time.RFC3339Nano), "alice:" + checkpointID(1)} {
				dir := filepath.Join(t.TempDir(), "earlier")
				out := run("restore", address, dir, "--at", at)
				if id := alice(t, dir, disk.Options{Keys: o.Keys}); id != checkpointID(1) || !strings.Contains(out, "stele release "+dir) {
					t.Errorf("%s: restored to %s: %s", at, id, out)
				}
				if _, errOut, code := stele(t, append([]string{"compact", dir, "--replica", address}, args...)...); code != exitFailed {
					t.Errorf("a store of an earlier moment goes on with the bucket: %s", errOut)
				}
			}

			if out := run("replica", "detach", newest); strings.Contains(out, "held") {
				t.Errorf("one that has led says %s", out)
			}
			run("compact", newest)

			for _, dry := range []string{"erase-user", "move-items"} {
				if _, errOut, code := stele(t, append([]string{dry, w.dir, "--identity", "ada", "--replica", address}, args...)...); code != exitFound || errOut != "" {
					t.Errorf("%s: %d %s", dry, code, errOut)
				}
			}
			if out := run("erase", "--yes", w.dir, "--thread", "alice", "--replica", address); !strings.Contains(out, "not reached: directories of other machines") || strings.Contains(out, "versions") {
				t.Errorf("erase says %s", out)
			}
		})
	}
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// writeKeys is a file with a key.
func writeKeys(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "keys")
	must(t, os.WriteFile(path, []byte("1 "+strings.Repeat("5a", 32)+"\n"), 0o600))
	return path
}

// TestReplicaDamaged: verify says so, with exit code 1.
func TestReplicaDamaged(t *testing.T) {
	_, address, _, _ := replicatedWorld(t, nil)
	dir := strings.TrimPrefix(address, "file://")
	chunks, err := filepath.Glob(filepath.Join(dir, "e0000000001", "000000000000@1"))
	must(t, err)
	if len(chunks) != 1 {
		t.Fatalf("chunks %v in %v", chunks, list(t, dir))
	}
	damage(t, chunks[0], "garbage")
	out, errOut, code := stele(t, "replica", "verify", address)
	if code != exitFound || !strings.Contains(out, "DAMAGE") {
		t.Errorf("%d %s%s", code, out, errOut)
	}
}

// TestReplicaRefuses: what is wrong with an address, a bucket or a moment, in words of the shell.
func TestReplicaRefuses(t *testing.T) {
	_, address, _, _ := replicatedWorld(t, nil)
	empty := "file://" + t.TempDir()
	to := filepath.Join(t.TempDir(), "new")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"replica", "status", "bucket"}, "s3://NAME/PREFIX"},
		{[]string{"replica", "status", "s3://"}, "s3://"},
		{[]string{"replica", "status", "file:///nowhere/at/all"}, "no such file"},
		{[]string{"replica", "points", empty}, "no lineage"},
		{[]string{"replica", "verify", empty}, "no lineage"},
		{[]string{"restore", empty, to}, "no lineage"},
		{[]string{"restore", address, to, "--at", "yesterday"}, "2026-02-03T14:05:00Z"},
		{[]string{"restore", address, to, "--at", "1999-01"}, "not \"1999-01\""},
		{[]string{"restore", address, to, "--at", "1999-01-01 00:00"}, "no point"},
		{[]string{"restore", address, to, "--at", "alice:1999-01"}, "checkpoint \"1999-01\" of thread \"alice\": it reaches from 20"},
		{[]string{"restore", address, to, "--at", "alice:"}, "THREAD:CHECKPOINT"},
		{[]string{"restore", "backup", to, "--at", "5"}, "--at is for a bucket"},
		{[]string{"restore", address, to, "--release"}, "stele release --replica"},
		{[]string{"replica", "detach", filepath.Join(t.TempDir(), "none")}, "not a stele store"},
		{[]string{"serve", to, "--replica", address, "--replica-mode", "never"}, "async"},
		{[]string{"serve", to, "--follow"}, "--replica is missing"},
		{[]string{"serve", to, "--replica", empty, "--follow"}, "no lineage"},
		{[]string{"replica", "rejoin", filepath.Join(t.TempDir(), "none"), address}, "not a stele store"},
	} {
		out, errOut, code := stele(t, c.args...)
		if code != exitFailed || !strings.Contains(errOut, c.says) || goWords.MatchString(errOut) {
			t.Errorf("%v ends with %d: %s%s", c.args, code, out, errOut)
		}
		if left, err := os.ReadDir(to); err == nil && len(left) > 0 {
			t.Errorf("%v left %v", c.args, left)
			must(t, os.RemoveAll(to))
		}
	}
}

// TestServeFollow serves what a bucket has from a directory of its own: reads, and no writes. Then the directory leads.
func TestServeFollow(t *testing.T) {
	leader, cache, bucket := filepath.Join(t.TempDir(), "leader"), filepath.Join(t.TempDir(), "cache"), "file://"+t.TempDir()
	first := serve(t, leader, "--replica", bucket, "--replica-mode", "sync")
	ctx := context.Background()
	lead := client.Dir(leader, client.Options{})
	put := func(c *client.Client, thread string) error {
		_, err := c.Put(ctx, saver.Config{ThreadID: thread}, saver.Checkpoint{V: 4, ID: "1"}, nil, nil)
		return err
	}
	must(t, put(lead, "before"))
	follower := serve(t, cache, "--replica", bucket, "--follow")
	if follower.address == "" {
		t.Fatal(follower.end())
	}
	c := client.Dir(cache, client.Options{})
	for _, thread := range []string{"before", "after"} {
		if thread == "after" {
			must(t, put(lead, thread))
		}
		for {
			_, err := c.GetTuple(ctx, saver.Config{ThreadID: thread})
			if err == nil {
				break
			}
			if !errors.Is(err, saver.ErrNotFound) {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
	}
	if err := put(c, "other"); !errors.Is(err, saver.ErrReadOnly) || !strings.Contains(err.Error(), "follows a leader") {
		t.Errorf("a follower takes a write: %v", err)
	}
	must(t, errors.Join(lead.Close(), c.Close()))
	for _, s := range []*servant{first, follower} {
		if out, code := s.end(); code != 0 {
			t.Fatal(out)
		}
	}
	second := serve(t, cache, "--replica", bucket)
	c = client.Dir(cache, client.Options{})
	must(t, put(c, "next"))
	must(t, c.Close())
	if out, code := second.end(); code != 0 {
		t.Fatal(out)
	}
	// The old leader's directory has nothing of its own, and comes back.
	var rep admin.RejoinReport
	out, errOut, code := stele(t, "--json", "replica", "rejoin", leader, bucket)
	if code != exitDone {
		t.Fatal(errOut)
	}
	must(t, json.Unmarshal([]byte(out), &rep))
	if out, errOut, code := stele(t, "threads", leader); code != exitDone || rep.First != 0 || !strings.Contains(out, "next") {
		t.Errorf("%+v, %d: %s%s", rep, code, out, errOut)
	}
	if out, errOut, code := stele(t, "replica", "rejoin", leader, bucket); code != exitDone || !strings.Contains(out, "has what the bucket has") {
		t.Errorf("%d: %s%s", code, out, errOut)
	}
}

// TestServeTakesOver: of two servers that both may, one leads and one follows; when the first ends, the second leads at the same address,
// with what the first acknowledged; and the first, started again by the same command, follows.
func TestServeTakesOver(t *testing.T) {
	address, dir := "file://"+t.TempDir(), t.TempDir()
	token := filepath.Join(dir, "token")
	must(t, os.WriteFile(token, []byte("secret"), 0o600))
	start := func(name string) *servant {
		return serve(t, filepath.Join(dir, name), "--replica", address, "--replica-mode", "sync", "--take-over", "--listen", "unix:"+filepath.Join(dir, name+".sock"), "--token-file", token)
	}
	put := func(c *client.Client, thread string) error {
		_, err := c.Put(t.Context(), saver.Config{ThreadID: thread}, saver.Checkpoint{V: 4, ID: "1"}, nil, nil)
		return err
	}
	has := func(c *client.Client, thread string) bool {
		_, err := c.GetTuple(t.Context(), saver.Config{ThreadID: thread})
		return err == nil
	}
	first := start("first")
	c := dial(t, first.address, "secret")
	must(t, put(c, "one"))
	second := start("second") // it waits until the bucket can be restored
	d := dial(t, second.address, "secret")
	if err := put(d, "no"); !errors.Is(err, saver.ErrReadOnly) {
		t.Errorf("a follower takes a write: %v", err)
	}
	for !has(d, "one") {
		time.Sleep(time.Millisecond)
	}
	if out, code := first.end(); code != 0 {
		t.Fatal(out)
	}
	for err := put(d, "two"); err != nil; err = put(d, "two") {
		time.Sleep(10 * time.Millisecond) // it has not taken over, or is about to
	}
	if !has(d, "one") || !has(d, "two") {
		t.Error("not all is there")
	}
	first = start("first")
	c = dial(t, first.address, "secret")
	if err := put(c, "no"); !errors.Is(err, saver.ErrReadOnly) {
		t.Errorf("it leads beside another: %v", err)
	}
	if _, errs, code := stele(t, "serve", dir, "--replica", address, "--take-over", "--follow"); code == 0 || !strings.Contains(errs, "--take-over") {
		t.Errorf("%d %s", code, errs)
	}
	if _, errs, code := stele(t, "serve", filepath.Join(dir, "none"), "--take-over"); code == 0 || !strings.Contains(errs, "--replica is missing") {
		t.Errorf("%d %s", code, errs)
	}
}

// TestServeAcceptsLoss: a follower's directory takes over from a leader that is lost only if it is told that something may be lost.
func TestServeAcceptsLoss(t *testing.T) {
	cache, address := filepath.Join(t.TempDir(), "cache"), t.TempDir()
	b, err := bucket.Dir(t.Context(), address)
	must(t, err)
	lost := cutOff{b, new(atomic.Bool)}
	d, err := disk.Open(filepath.Join(t.TempDir(), "leader"), disk.Options{Replica: disk.Replica{Bucket: lost, TTL: 20 * time.Millisecond}})
	must(t, err)
	for !d.Health().Replica.Seeded {
		time.Sleep(time.Millisecond)
	}
	f, err := disk.OpenFollower(cache, disk.Options{Replica: disk.Replica{Bucket: b}})
	must(t, err)
	must(t, f.Close())
	lost.cut.Store(true)
	defer d.Close()
	if _, errOut, code := stele(t, "serve", cache, "--replica", "file://"+address); code != exitFailed || !strings.Contains(errOut, "accept the loss") {
		t.Fatalf("%d: %s", code, errOut)
	}
	s := serve(t, cache, "--replica", "file://"+address, "--accept-loss")
	if s.address == "" {
		t.Fatal(s.end())
	}
}

// cutOff is a bucket whose client is cut off.
type cutOff struct {
	bucket.Bucket
	cut *atomic.Bool
}

func (c cutOff) Put(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
	if c.cut.Load() {
		return "", errors.New("no answer")
	}
	return c.Bucket.Put(ctx, key, body, cond)
}

// TestReplicaTimes: the times of a replica that serve is given are those that it leads with, and one that contradicts the others, or has no
// bucket, is refused.
func TestReplicaTimes(t *testing.T) {
	address := "file://" + t.TempDir()
	dir := filepath.Join(t.TempDir(), "store")
	serve := []string{"serve", dir, "--idle-exit", "1ms"}
	go func() { // the first client, which the server waits for
		c := client.Dir(dir, client.Options{})
		for c.DeleteThread(t.Context(), "t") != nil && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		_ = c.Close() // the server is to end
	}()
	bucket := slices.Clip(append(serve, "--replica", address))
	if _, errOut, code := stele(t, append(bucket, "--replica-ttl", "7s", "--replica-keep", "24h", "--replica-interval", "2s")...); code != exitDone {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	var st replicaStatus
	out, _, _ := stele(t, "--json", "replica", "status", address)
	must(t, json.Unmarshal([]byte(out), &st))
	if st.TTL != 7 {
		t.Errorf("the lease lasts %v s", st.TTL)
	}
	a := &app{flags: flags{replica: address}}
	times := disk.Replica{TTL: 7 * time.Second, Keep: time.Hour, Interval: 2 * time.Second, MaxLag: 3 * time.Second}
	o, err := a.servedOptions(&serveFlags{sync: "always", replicaMode: "bounded", replica: times, acceptLoss: true}, nil)
	must(t, err)
	if r := o.Replica; r.Bucket == nil || r.TTL != times.TTL || r.Keep != times.Keep || r.Interval != times.Interval || r.MaxLag != times.MaxLag || r.Mode != "bounded" || !r.AcceptLoss {
		t.Errorf("%+v", r)
	}
	for _, wrong := range []struct {
		args []string
		says string
	}{
		{append(bucket, "--replica-ttl", "48h"), "lease"},
		{append(bucket, "--replica-interval=-1s"), "--replica-interval -1s"},
		{append(bucket, "--replica-keep", "0"), "--replica-keep 0s"},
		{append(bucket, "--replica-max-lag", "3s"), "--replica-max-lag does nothing but in mode bounded"},
		{append(bucket, "--replica-mode", "sync", "--replica-interval", "2s"), "--replica-interval does nothing in mode sync"},
		{append(serve, "--replica-keep", "1h"), "--replica-keep: --replica is missing"},
		{append(serve, "--replica-ttl=-1s"), "--replica-ttl: --replica is missing"},
	} {
		if _, errOut, code := stele(t, wrong.args...); code != exitFailed || !strings.Contains(errOut, wrong.says) {
			t.Errorf("%q: exit code %d: %s", wrong.args, code, errOut)
		}
	}
	others, err := a.flags.access()
	must(t, err)
	if keep := others.Options.Replica.Keep; keep < 100*365*24*time.Hour {
		t.Errorf("a command that is not serve keeps %v, and undoes what serve was told", keep)
	}
}

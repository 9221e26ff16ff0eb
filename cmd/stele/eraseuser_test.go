//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine/enginetest"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/cache"
)

type object = map[string]any

// household is a server whose user ada has put a word into each place that a server keeps, and whose user bob has
// done the same with words of his own.
type household struct {
	*testing.T
	in    *stores
	cache cache.Cache
	api   *server.Server
	key   string
	words map[string]string // of the user at work, by place
}

// word is what stands in a place of the user at work, and nowhere else.
func (h *household) word(place string) string {
	w := "WORD-" + strings.ToUpper(h.key) + "-IN-" + place + "-Q7Z"
	h.words[place] = w
	return w
}

func (h *household) none(errs ...error) {
	h.Helper()
	if err := errors.Join(errs...); err != nil {
		h.Fatal(err)
	}
}

// do makes a request of the user at work.
func (h *household) do(method, path string, body any) (int, string) {
	h.Helper()
	text, err := json.Marshal(body)
	h.none(err)
	r := httptest.NewRequest(method, path, bytes.NewReader(text))
	r.Header.Set("X-Api-Key", h.key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	w := httptest.NewRecorder()
	h.api.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func (h *household) ok(method, path string, body any) object {
	h.Helper()
	code, text := h.do(method, path, body)
	if code/100 != 2 {
		h.Fatalf("%s %s: %d %s", method, path, code, text)
	}
	out := object{}
	_ = json.Unmarshal([]byte(text), &out)
	return out
}

func (h *household) id(name string, from object) string {
	h.Helper()
	id, _ := from[name].(string)
	if id == "" {
		h.Fatalf("no %s in %v", name, from)
	}
	return id
}

// graph is one with a cached node, a graph inside that may ask, items of the program, and a node that may fail.
func (h *household) graph() *pregel.Graph {
	build := func() *graph.Builder { return graph.New(graph.Key("text", channel.LastValue[string]())) }
	text := func(in any) string { s, _ := in.(object)["text"].(string); return s }
	inner, err := build().Node("ask", func(ctx context.Context, in any) (any, error) {
		if !strings.Contains(text(in), "ASK") {
			return nil, nil
		}
		answer, err := pregel.Ask(ctx, "about "+text(in))
		return object{"text": fmt.Sprint(answer)}, err
	}).Sequence(graph.Start, "ask", graph.End).Compile(graph.Options{Name: "inner"})
	h.none(err)
	g, err := build().
		Node("cached", func(_ context.Context, in any) (any, error) { return object{"text": "cached " + text(in)}, nil }, graph.NodeOptions{Cache: &pregel.CachePolicy{}}).
		Node("tell", func(ctx context.Context, in any) (any, error) {
			task, _ := pregel.Task(ctx)
			me := server.ItemsOf(fmt.Sprint(task.Configurable["langgraph_auth_user_id"]))
			if err := task.Store.Put(ctx, append(me, "program"), "said", object{"text": text(in)}); err != nil {
				return nil, err
			}
			return nil, pregel.Emit(ctx, object{"at": text(in)})
		}).
		Subgraph("inner", inner).
		Node("fail", func(_ context.Context, in any) (any, error) {
			if strings.Contains(text(in), "FAIL") {
				return nil, errors.New("failed with " + text(in))
			}
			return nil, nil
		}).
		Sequence(graph.Start, "cached", "tell", "inner", "fail", graph.End).
		Compile(graph.Options{Name: "agent", Saver: h.in.saver, Store: h.in.items, Cache: h.cache})
	h.none(err)
	return g
}

// graphs are those of the server: beside the graph, one whose node starts a child.
func (h *household) graphs() map[string]*pregel.Graph {
	h.Helper()
	one := func(name string, node func(ctx context.Context, text string) (any, error)) *pregel.Graph {
		g, err := graph.New(graph.Key("text", channel.LastValue[string]())).Node("a", func(ctx context.Context, in any) (any, error) {
			text, _ := in.(object)["text"].(string)
			return node(ctx, text)
		}).Sequence(graph.Start, "a", graph.End).Compile(graph.Options{Name: name, Saver: h.in.saver, Store: h.in.items})
		h.none(err)
		return g
	}
	start := pregel.NewChild[object, object]("child")
	return map[string]*pregel.Graph{"agent": h.graph(),
		"parent": one("parent", func(ctx context.Context, text string) (any, error) {
			_, err := start.Call(ctx, object{"text": strings.ReplaceAll(text, "IN-PARENT", "IN-CHILD")})
			return nil, err
		}),
		"child": one("child", func(ctx context.Context, text string) (any, error) { return object{"text": "a child got " + text}, nil })}
}

// refusing makes a thread on which a body exposes something, waits, and refuses a signal.
func (h *household) refusing(thread, identity string) {
	h.Helper()
	ctx, number := h.Context(), pregel.NewSignal[int]("number")
	exposed := h.word("EXPOSED")
	g, err := pregel.Entrypoint("refusing", func(ctx context.Context, _ string) (int, error) {
		if err := pregel.Expose(ctx, "shown", exposed); err != nil {
			return 0, err
		}
		return number.Receive(ctx)
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: h.in.saver, Store: h.in.items}})
	h.none(err)
	o := pregel.RunOptions{Metadata: object{"owner": identity}, Configurable: object{"langgraph_auth_user_id": identity}}
	_, err = g.Invoke(ctx, pregel.Thread(thread), h.word("BODY"), o)
	h.none(err, g.Signal(ctx, thread, "number", h.word("REFUSED"), pregel.SignalOptions{Key: h.word("KEY-OF-SIGNAL")}))
	var mistyped *pregel.SignalTypeError
	if _, err = g.Invoke(ctx, pregel.Thread(thread), nil, o); !errors.As(err, &mistyped) {
		h.Fatalf("the signal is taken: %v", err)
	}
}

// open opens the stores of a directory, and serves them.
func (h *household) open(dir string) *disk.Saver {
	h.Helper()
	d, err := disk.Open(dir, disk.Options{})
	h.none(err)
	items, err := store.On(d, store.Options{})
	h.none(err)
	queue, err := runs.NewLocal(h.Context(), items, runs.LocalOptions{})
	h.none(err)
	h.cache, err = cache.On(d, cache.Options{})
	h.none(err)
	h.in = &stores{d, items, queue, func() error { return errors.Join(items.Close(), d.Close()) }}
	h.serve()
	return d
}

// gone is a thread that a program has deleted without the signals to it.
func (h *household) gone() string {
	h.Helper()
	id := h.word("GONE-ID")
	_, err := h.graph().Invoke(h.Context(), pregel.Thread(id), object{"text": "x"})
	h.none(err, h.graph().Signal(h.Context(), id, "late", h.word("LATE"), pregel.SignalOptions{}), h.in.saver.DeleteThread(h.Context(), id))
	return id
}

// serve begins a server on the stores.
func (h *household) serve() {
	h.Helper()
	var err error
	h.api, err = server.New(server.Config{Graphs: h.graphs(), Saver: h.in.saver, Store: h.in.items, Queue: h.in.queue, AllowPrivateWebhooks: true, Rate: -1,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Auth: &server.Auth{
			Authenticate: server.APIKeys(map[string]*server.User{"ada": {Identity: "ada@x.org", DisplayName: "WORD-ADA-IN-DISPLAYNAME-Q7Z", Claims: map[string]any{"email": "WORD-ADA-IN-CLAIMS-Q7Z"}}, "bob": {Identity: "bob"}, "root": {Identity: "root"}}).Authenticate,
			Authorize: func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
				if u.Identity == "root" {
					return server.Grant{}, nil
				}
				return server.OwnThings(ctx, u, a)
			}}})
	h.none(err)
}

// fill puts a word of a user into each place.
func (h *household) fill(key, identity string) {
	h.Helper()
	h.key, h.words = key, map[string]string{}
	ctx := h.Context()
	run := func(place string, more object) object {
		in := object{"assistant_id": "agent", "input": object{"text": h.word(place)}, "stream_mode": []string{"values", "custom", "debug"}, "stream_subgraphs": true, "stream_resumable": true}
		maps.Copy(in, more)
		return in
	}
	thread := h.id("thread_id", h.ok("POST", "/threads", object{"metadata": object{"about": h.word("THREAD-METADATA")}, "ttl": 1000}))
	h.ok("POST", "/threads/"+thread+"/runs/wait", run("PROMPT", object{"metadata": object{"m": h.word("RUN-METADATA")}, "webhook": "http://127.0.0.1:1/" + h.word("WEBHOOK"),
		"config": object{"tags": []string{h.word("TAG")}, "configurable": object{"c": h.word("CONFIGURABLE")}}}))
	h.ok("POST", "/threads/"+thread+"/runs/wait", run("SECOND", object{"context": object{"c": h.word("CONTEXT")}}))
	h.do("POST", "/threads/"+thread+"/runs/wait", run("FAIL", nil))
	h.ok("POST", "/threads/"+thread+"/state", object{"values": object{"text": h.word("STATE")}, "as_node": "fail"})
	h.ok("POST", "/threads/"+thread+"/copy", object{})
	h.ok("POST", "/stele/threads/"+thread+"/signals/"+h.word("SIGNAL-NAME"), object{"value": h.word("SIGNAL"), "key": "once"})
	asked := h.id("thread_id", h.ok("POST", "/threads", object{}))
	h.ok("POST", "/threads/"+asked+"/runs/wait", run("ASK", nil))
	h.ok("POST", "/threads/"+asked+"/runs/wait", object{"assistant_id": "agent", "command": object{"resume": h.word("ANSWER")}})
	h.ok("POST", "/threads/"+asked+"/runs/wait", run("ASK-AGAIN", nil)) // it waits
	removed := h.id("run_id", h.ok("POST", "/threads/"+asked+"/runs", run("PROMPT", object{"after_seconds": 10_000})))
	h.ok("DELETE", "/threads/"+asked+"/runs/"+removed, nil)
	h.ok("POST", "/threads/"+asked+"/runs", run("LATER", object{"after_seconds": 10_000}))
	h.ok("POST", "/threads", object{"metadata": object{}, "graph_id": "agent", "supersteps": []object{{"updates": []object{{"as_node": "fail", "values": object{"text": h.word("SUPERSTEP")}}}}}})
	h.ok("POST", "/runs/wait", run("KEPT", object{"on_completion": "keep"}))
	command := h.id("thread_id", h.ok("POST", "/threads", object{}))
	h.ok("POST", "/threads/"+command+"/commands", object{"id": 1, "method": "run.start", "params": object{"assistant_id": "agent", "input": object{"text": h.word("COMMAND")}}})
	for _, place := range []string{"ASSISTANT", "CHANGED"} {
		h.ok("POST", "/assistants", object{"graph_id": "agent", "name": h.word(place + "-NAME"), "description": h.word(place + "-DESCRIPTION"), "metadata": object{"m": h.word(place + "-METADATA")},
			"context": object{"c": h.word(place + "-CONTEXT")}})
	}
	mine := h.id("assistant_id", h.ok("POST", "/assistants", object{"graph_id": "agent", "name": h.word("OLD-NAME"), "config": object{"configurable": object{"c": h.word("OLD-CONFIG")}}}))
	h.ok("PATCH", "/assistants/"+mine, object{"name": h.word("NEW-NAME")})
	for path, place := range map[string]string{"/threads/" + thread + "/runs/crons": "CRON", "/runs/crons": "FREE-CRON"} {
		h.ok("POST", path, object{"assistant_id": "agent", "schedule": "0 0 1 1 *", "input": object{"text": h.word(place + "-INPUT")}, "metadata": object{"m": h.word(place + "-METADATA")},
			"webhook": "http://127.0.0.1:1/" + h.word(place+"-WEBHOOK")})
	}
	h.ok("PUT", "/store/items", object{"namespace": []string{"facts", h.word("LABEL")}, "key": h.word("KEY"), "value": object{"text": h.word("VALUE")}})
	h.ok("PUT", "/store/items", object{"namespace": []string{"facts"}, "key": "expired", "value": object{"text": h.word("EXPIRED")}, "ttl": 0.0001})
	_, err := h.in.queue.PutSchedule(ctx, runs.Schedule{ID: "program/" + key, Cron: "@yearly", Spec: runs.Spec{Graph: "agent", Metadata: object{"owner": identity, "m": h.word("SCHEDULE")}}})
	h.none(err)
	_, err = h.graph().Invoke(ctx, pregel.Thread(h.word("THREAD-ID")), object{"text": h.word("BESIDE")}, pregel.RunOptions{Metadata: object{"owner": identity}, Configurable: object{"langgraph_auth_user_id": identity}})
	h.none(err)
	h.none(h.graph().Signal(ctx, h.word("THREAD-ID"), "beside", h.word("SIGNAL-BESIDE"), pregel.SignalOptions{}))
	h.refusing(h.word("REFUSING-ID"), identity)
	delete(h.words, "KEY-OF-SIGNAL") // a hash of it is stored
	family := h.id("thread_id", h.ok("POST", "/threads", object{}))
	h.key = "root" // an operator's run on the user's thread: so nothing but its parent says whose the child is
	h.ok("POST", "/threads/"+family+"/runs/wait", object{"assistant_id": "parent", "input": object{"text": "WORD-" + strings.ToUpper(key) + "-IN-PARENT-Q7Z"}})
	h.key = key
	h.word("PARENT")
	h.word("CHILD")
	h.ok("POST", "/runs/wait", run("STATELESS", nil))
	h.ok("POST", "/mcp", object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{"name": "agent", "arguments": object{"text": h.word("TOOL")}}})
	for done := false; !done; time.Sleep(5 * time.Millisecond) { // all that can has ended
		done = true
		for r, err := range h.in.queue.List(ctx, runs.Query{}) {
			h.none(err)
			done = done && (r.Status.Ended() || r.After.After(time.Now().Add(time.Hour)))
		}
	}
}

// forms are the bytes that a word may stand for in a file: itself, in base64 wherever it begins, in hexadecimal.
func forms(word string) []string {
	all := []string{word, hex.EncodeToString([]byte(word))}
	for shift := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + word))
		all = append(all, text[4:len(text)-4])
	}
	return all
}

// places are where words stand in what was read.
func places(words map[string]string, read map[string][]byte) (found map[string][]string) {
	found = map[string][]string{}
	for place, w := range words {
		for name, content := range read {
			if slices.ContainsFunc(forms(w), func(form string) bool { return bytes.Contains(content, []byte(form)) }) {
				found[place] = append(found[place], name)
			}
		}
	}
	return found
}

// stay are the words of a user at whom nobody has worked for long: what goes by itself, within a minute or
// when expired items are swept, is not among them.
func stay(words map[string]string) map[string]string {
	words = maps.Clone(words)
	for _, place := range []string{"STATELESS", "TOOL", "WEBHOOK", "EXPIRED"} {
		delete(words, place)
	}
	return words
}

// holds checks which words are where: all of them, or none.
func (h *household) holds(words map[string]string, read map[string][]byte, all bool) {
	h.Helper()
	found := places(words, read)
	for place := range words {
		if all != (len(found[place]) > 0) {
			h.Errorf("the word in %s: found %v, want it %v", place, found[place], all)
		}
	}
}

func erasedReport(t *testing.T, text string) (rep server.EraseReport) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &rep); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return rep
}

// shown is what bob sees.
func (h *household) shown() string {
	h.Helper()
	h.key = "bob"
	var all []string
	for _, path := range []string{"/threads/search", "/assistants/search", "/runs/crons/search", "/store/items/search"} {
		code, text := h.do("POST", path, object{"limit": 100})
		if code != 200 {
			h.Fatal(text)
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}

// expired waits until the items that expire have.
func (h *household) expired() {
	h.Helper()
	for {
		_, err := h.in.items.Get(h.Context(), append(server.ItemsOf("ada@x.org"), "facts"), "expired", store.NoRefresh())
		if errors.Is(err, store.ErrNotFound) {
			return
		}
		h.none(err)
		time.Sleep(time.Millisecond)
	}
}

// TestEraseUser: of a user who has left a word in every place of a server, no file of the store holds one when
// the user is erased, by the command and by the operation; another user's things stay. A dry run counts the same and
// writes nothing.
func TestEraseUser(t *testing.T) {
	for _, way := range []string{"command", "operation"} {
		t.Run(way, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			h := &household{T: t}
			open := func() { h.Helper(); h.open(dir) }
			end := func() { h.Helper(); h.none(h.api.Close(), h.in.end()) }
			scan := func() map[string][]byte { h.Helper(); return enginetest.Scan(t, vfs.OS{}, dir, nil) }
			open()
			h.fill("bob", "bob")
			bobs := stay(h.words)
			h.fill("ada", "ada@x.org")
			h.gone()
			adas := h.words
			h.expired()
			d := h.in.saver.(*disk.Saver)
			h.none(d.Flush(t.Context()))
			end()
			h.holds(bobs, scan(), true)
			h.holds(adas, scan(), true)
			backup := filepath.Join(filepath.Dir(dir), "saved")
			_, err := admin.Backup(t.Context(), dir, backup, admin.BackupOptions{})
			h.none(err)

			before := files(t, dir)
			args := []string{"erase-user", dir, "--identity", "ada@x.org", "--json"}
			out, stderr, code := stele(t, args...)
			dry := erasedReport(t, out)
			if code != 0 || stderr != "" || !dry.DryRun || !dry.Erased || len(dry.Backups) != 1 || dry.Backups[0].Dir != backup {
				t.Fatalf("exit code %d, %s%s", code, out, stderr)
			}
			if !maps.Equal(before, files(t, dir)) {
				t.Error("a dry run has written")
			}
			if dry.Threads < 9 || dry.Checkpoints < 40 || dry.Runs < 10 || dry.Events < 100 || dry.Crons != 2 || dry.Schedules != 1 || dry.Assistants != 3 || dry.Items != 5 || dry.Actions < 4 || dry.Unreadable != 0 || len(dry.Shared) != 0 {
				t.Errorf("%+v", dry)
			}
			open()
			seen := h.shown()
			var text string
			if way == "operation" {
				h.key = "root"
				code, text = h.do("POST", "/stele/erase-user", object{"identity": "ada@x.org", "filter": object{"owner": "ada@x.org"}, "dry_run": false})
				if code != 200 {
					t.Fatalf("%d %s", code, text)
				}
				end()
			} else {
				end()
				if text, stderr, code = stele(t, append(args, "--yes")...); code != 0 {
					t.Fatalf("exit code %d, %s", code, stderr)
				}
			}
			rep := erasedReport(t, text)
			rep.Took, rep.DryRun, dry.Took = 0, true, 0
			if way == "command" && fmt.Sprint(rep) != fmt.Sprint(dry) || !rep.Erased {
				t.Errorf("erased %+v, and a dry run said %+v", rep, dry)
			}
			h.holds(adas, scan(), false)
			h.holds(bobs, scan(), true)
			open()
			if now := h.shown(); now != seen {
				t.Errorf("bob saw\n%s\nand sees\n%s", seen, now)
			}
			end()
			if _, err := admin.Backup(t.Context(), dir, backup, admin.BackupOptions{}); err != nil {
				t.Fatal(err)
			}
			h.holds(adas, raw(t, backup), false)
			out, _, code = stele(t, args...)
			if again := erasedReport(t, out); code != exitFound || again.Threads+again.Checkpoints+again.Runs+again.Events+again.Crons+again.Schedules+again.Assistants+again.Items+again.Actions != 0 {
				t.Errorf("left: %s", out)
			}
		})
	}
}

// TestEraseUserSays: what the command says to people, and which command lines it refuses.
func TestEraseUserSays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	d, err := disk.Open(dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	items, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range []store.Namespace{append(server.ItemsOf("ada"), "facts"), {"ada", "facts"}} {
		if err := items.Put(t.Context(), ns, "k", object{"n": 1}); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(filepath.Dir(dir), "other")
	if err := errors.Join(os.Mkdir(other, 0o700), d.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	said := ""
	run := func(want int, args ...string) {
		t.Helper()
		out, stderr, code := stele(t, append([]string{"erase-user"}, args...)...)
		if code != want {
			t.Errorf("%q: exit code %d, %s%s", args, code, out, stderr)
		}
		if code != exitLocked { // it names the process
			said += fmt.Sprintf("$ stele erase-user %s\n%s%sexit code %d\n", strings.Join(args, " "), out, stderr, code)
		} else if !strings.Contains(stderr, "POST /stele/erase-user") {
			t.Error(stderr)
		}
	}
	run(exitDone, dir, "--identity", "ada")
	run(exitLocked, dir, "--identity", "ada", "--yes")
	if err := errors.Join(items.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {dir}, {"--identity", "ada"}, {dir, "--identity", "ada", "--postgres", "x"}, {dir, "--identity", "ada", "--filter", "owner:=null"}, {dir, "--identity", "ada", "--filter", "owner"},
		{dir, "--identity", "ada", "--items", "__stele_server__"}, {dir, "--identity", "ada", "--backup", other}, {dir + "-missing", "--identity", "ada"}, {"--postgres", "x", "--identity", "ada", "--backup", other}} {
		run(exitFailed, append(args, "--yes")...)
	}
	run(exitFound, dir, "--identity", "nobody", "--filter", "user=7")
	run(exitDone, dir, "--identity", "ada", "--yes")
	run(exitDone, dir, "--identity", "ada", "--items", "ada", "--yes", "--json")
	run(exitFound, dir, "--identity", "ada")
	golden(t, "erase-user", stable(said, filepath.Dir(dir)))
}

// TestEraseUserFinds: whoever looks at the exit code alone learns that something stayed that cannot be read.
func TestEraseUserFinds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	d, err := disk.Open(dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	items, err := store.On(d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(items.Put(t.Context(), store.Namespace{"__stele_server__", "threads"}, "broken", object{"json": "{"}), items.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	for _, yes := range []string{"", "--yes"} {
		out, stderr, code := stele(t, strings.Fields("erase-user "+dir+" --identity ada "+yes)...)
		if code != exitFound || !strings.Contains(out, "1 in all: nobody knows whose they are") {
			t.Errorf("exit code %d, %s%s", code, out, stderr)
		}
	}
}

// files are those of a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, content := range raw(t, dir) {
		if name != "LOCK" {
			all[name] = string(content)
		}
	}
	return all
}

func raw(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, e := range entries {
		if all[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// householdOnPostgres makes a household in the tables of a database, with a server that is at work.
func householdOnPostgres(t *testing.T) (h *household, url string) {
	t.Helper()
	url, _ = postgresServer(t)
	ctx := t.Context()
	h = &household{T: t}
	h.none(postgres.Setup(ctx, url, postgres.Options{}), pgstore.Setup(ctx, url, postgres.Options{}, nil))
	s, err := postgres.Open(ctx, url, postgres.Options{})
	h.none(err)
	items, err := pgstore.On(ctx, s, store.Options{})
	h.none(err)
	queue := pgqueue.Open(s, pgqueue.Options{})
	h.cache, err = cache.NewMemory(cache.Options{})
	h.none(err)
	h.in = &stores{saver: s, items: items, queue: queue}
	h.serve()
	t.Cleanup(func() { h.none(h.api.Close(), queue.Close(), items.Close(), s.Close()) })
	return h, url
}

// TestEraseUserOnPostgreSQL is TestEraseUser in the tables of a database, beside a server that is at work.
func TestEraseUserOnPostgreSQL(t *testing.T) {
	h, url := householdOnPostgres(t)
	h.fill("bob", "bob")
	bobs := stay(h.words)
	h.fill("ada", "ada@x.org")
	h.gone()
	adas := h.words
	h.expired()
	h.holds(adas, tables(t, url), true)
	h.holds(bobs, tables(t, url), true)

	args := []string{"erase-user", "--postgres", url, "--identity", "ada@x.org", "--json"}
	h.none(h.api.Close())
	before := tables(t, url)
	out, stderr, code := stele(t, args...)
	dry := erasedReport(t, out)
	if code != 0 || stderr != "" || dry.Erased || !dry.DryRun || dry.Threads < 9 || dry.Checkpoints < 40 || dry.Runs < 10 || dry.Events < 100 || dry.Crons != 2 || dry.Items != 4 || !strings.Contains(dry.Beyond, "VACUUM") {
		t.Fatalf("exit code %d, %s%s", code, out, stderr)
	}
	for name, content := range tables(t, url) {
		if !bytes.Equal(content, before[name]) {
			t.Errorf("a dry run has written to %s", name)
		}
	}
	h.serve()
	seen := h.shown()
	if out, stderr, code = stele(t, append(args, "--yes")...); code != 0 {
		t.Fatalf("exit code %d, %s%s", code, out, stderr)
	}
	rep := erasedReport(t, out)
	if rep.Erased || rep.Threads < 9 || rep.Threads > dry.Threads || rep.Checkpoints < 40 || rep.Runs < 10 || rep.Crons != dry.Crons || rep.Items != dry.Items {
		t.Errorf("%+v, and a dry run said %+v", rep, dry)
	}
	for _, remembered := range []string{"THREAD-ID", "REFUSING-ID", "GONE-ID"} { // so that late writes are refused
		delete(adas, remembered)
	}
	h.holds(adas, tables(t, url), false)
	h.holds(bobs, tables(t, url), true)
	if now := h.shown(); now != seen {
		t.Errorf("bob saw\n%s\nand sees\n%s", seen, now)
	}
}

// tables are the rows of all tables of a database.
func tables(t *testing.T, url string) map[string][]byte {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), `SELECT quote_ident(nspname) || '.' || quote_ident(relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE relkind IN ('r', 'm') AND nspname !~ '^(pg_|information_schema)'`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(names) < 10 {
		t.Fatalf("%d tables, %v", len(names), err)
	}
	all := map[string][]byte{}
	for _, name := range names {
		var text string
		if err := conn.QueryRow(t.Context(), "SELECT coalesce(string_agg(r::text, E'\n' ORDER BY r::text), '') FROM "+name+" r").Scan(&text); err != nil {
			t.Fatal(name, err)
		}
		all[strings.TrimPrefix(name, "public.")] = []byte(text)
	}
	return all
}

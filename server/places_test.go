package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// hostile are identities that try to be something else: what programs, the server and the queue call
// their namespaces, separators, wildcards and escapes of every layer, one another's beginnings, and
// what is no usual text.
var hostile = []string{
	"users", "user", "facts", "langgraph", "__stele_server__", "__stele_users__", "__stele_users__.ann", "stele.runs", "stele", "runs", "threads",
	"*", "**", "%", "a%", "%%", "%2A", "%2a", "%252A", "_", "__", ".", "..", "...", "a.b", "a%2Eb", "a%252Eb", "a_b", "aXb", " ", "a b", "'", "$eq", "a", "ab", "A", "/", "a/b", "\\", "a\\", "a%00b",
	"ann", "ann ", " ann", "ann\n", "Ann", "ann.facts", "annfacts", "é", "e\u0301", "日本", "👩‍👩‍👧", "\u202eann", "\ufffd", "ann@example.com", "auth0|ann", "<nil>", "null", "\"", "'; DROP TABLE store; --",
	"%sha256-" + sum(strings.Repeat("x", 300)), strings.Repeat("x", 254), strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", 300), strings.Repeat("%", 85), strings.Repeat("%", 86), strings.Repeat("y", 5000),
}

func sum(s string) string {
	b := sha256.Sum256([]byte(s))
	return hex.EncodeToString(b[:])
}

// TestItemsOfIsInjective: no two identities have one place, nor one that is below another, and each
// place is a namespace that every store takes.
func TestItemsOfIsInjective(t *testing.T) {
	identities := slices.Concat(hostile, []string{"", "a\x00b", "a\x00", "\x00", "\xff", "\xfe", "a\xff", "\xed\xa0\x80", "%FF", "\xc3"})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const alphabet = "%.*\x0025EFAa\xff\xc3\xa9"
	for range 20_000 { // short, of few bytes: they meet often
		b := make([]byte, r.IntN(6))
		for i := range b {
			b[i] = alphabet[r.IntN(len(alphabet))]
		}
		identities = append(identities, string(b))
	}
	by := map[string]string{}
	for _, id := range identities {
		ns := server.ItemsOf(id)
		if err := store.CheckNamespace(append(ns, "facts")); err != nil {
			t.Fatalf("%q: %v", id, err)
		}
		label := ns[1]
		if len(ns) != 2 || ns[0] != "__stele_users__" || len(label) > 255 || strings.ContainsAny(label, "*\x00") || strings.ToValidUTF8(label, "") != label {
			t.Fatalf("the place of %q is %q", id, ns)
		}
		if other, ok := by[label]; ok && other != id {
			t.Fatalf("%q and %q have one place %q", id, other, label)
		}
		by[label] = id
	}
}

// crowd is a house in which everybody of hostile is a user, with the keys k0, k1 …
func crowd(t *testing.T) (h *house, as func(i int) *house) {
	known := map[string]*server.User{}
	for i, id := range hostile {
		known[fmt.Sprint("k", i)] = &server.User{Identity: id}
	}
	h = open(t, t.TempDir(), func(c *server.Config) { c.Auth, c.Rate = server.APIKeys(known), -1 })
	return h, func(i int) *house {
		one := *h
		one.key = fmt.Sprint("k", i)
		return &one
	}
}

type namedItem struct {
	Namespace []string `json:"namespace"`
	Key       string   `json:"key"`
	Value     object   `json:"value"`
}

func (h *house) searched(in object) (items []namedItem) {
	h.Helper()
	var out struct{ Items []namedItem }
	if err := json.Unmarshal([]byte(h.ok("POST", "/store/items/search", in).text), &out); err != nil {
		h.Fatal(err)
	}
	return out.Items
}

func (h *house) spaces(in object) [][]string {
	h.Helper()
	var out struct{ Namespaces [][]string }
	if err := json.Unmarshal([]byte(h.ok("POST", "/store/namespaces", in).text), &out); err != nil {
		h.Fatal(err)
	}
	return out.Namespaces
}

// TestIdentitiesAreApart: whatever a user is called, the items that a program stores at the user's place
// are those that this user sees, by every call of the API, and no others: neither other users', nor what
// programs store under names like theirs, nor the server's own.
func TestIdentitiesAreApart(t *testing.T) {
	h, as := crowd(t)
	ctx := t.Context()
	var programs []namedItem // what a program stores under each name, with a user's name in front or behind
	var ops []store.Op
	put := func(ns store.Namespace, key string, v object) {
		ops = append(ops, store.PutOp{Namespace: ns, Key: key, Value: v})
	}
	for i, id := range hostile {
		put(append(server.ItemsOf(id), "facts"), "soup", object{"of": fmt.Sprint(i)})
		put(append(server.ItemsOf(id), "facts", "old"), "soup", object{"of": fmt.Sprint(i)})
		for _, ns := range []store.Namespace{{id, "facts"}, {"users", id, "facts"}, {id}} {
			if store.CheckNamespace(ns) == nil && ns[0] != "__stele_server__" && ns[0] != "__stele_users__" {
				put(ns, "secret", object{"of": "the program"})
				programs = append(programs, namedItem{Namespace: ns})
			}
		}
	}
	if _, err := h.items.Batch(ctx, ops...); err != nil {
		t.Fatal(err)
	}
	for i := range hostile {
		u, mine := as(i), fmt.Sprint(i)
		u.ok("PUT", "/store/items", object{"namespace": []string{"own"}, "key": "k", "value": object{"of": mine}})
		for _, in := range []object{{}, {"namespace_prefix": []string{}}, {"namespace_prefix": []string{"facts"}}, {"namespace_prefix": []string{"facts", "old"}}} {
			found := u.searched(merged(in, object{"limit": 1000}))
			want := map[int]int{0: 3, 1: 2, 2: 1}[len(prefix(in))]
			for _, it := range found {
				if it.Value["of"] != mine {
					t.Errorf("%q sees %+v", hostile[i], it)
				}
			}
			if len(found) != want {
				t.Errorf("%q finds %d items by %v, want %d: %v", hostile[i], len(found), in, want, found)
			}
		}
		for _, c := range []struct {
			in   object
			want string
		}{
			{object{}, "[[facts] [facts old] [own]]"},
			{object{"max_depth": 1}, "[[facts] [own]]"},
			{object{"prefix": []string{"facts"}}, "[[facts] [facts old]]"},
			{object{"prefix": []string{"*"}}, "[[facts] [facts old] [own]]"},
			{object{"prefix": []string{"*", "old"}}, "[[facts old]]"},
			{object{"prefix": []string{"*", "*", "*"}}, "[]"},
			{object{"suffix": []string{"old"}}, "[[facts old]]"},
			{object{"suffix": []string{"*"}}, "[[facts] [facts old] [own]]"},
			{object{"suffix": []string{"*", "*"}}, "[[facts old]]"},
			{object{"suffix": []string{"*", "facts"}}, "[]"},
			{object{"suffix": []string{"*", "*", "*"}}, "[]"},
			{object{"suffix": []string{server.ItemsOf(hostile[i])[1], "facts"}}, "[]"},
			{object{"suffix": []string{"facts", "old"}, "max_depth": 1}, "[[facts]]"},
		} {
			if got := fmt.Sprint(u.spaces(merged(c.in, object{"limit": 1000}))); got != c.want {
				t.Errorf("%q lists %s by %v, want %s", hostile[i], got, c.in, c.want)
			}
		}
		// By whatever name others' things have inside, they are not there.
		for _, ns := range [][]string{{"__stele_server__", "threads"}, {"__stele_users__", "ann", "facts"}, {"users", "ann", "facts"}, {"ann", "facts"}, {"users"}} {
			if got := u.searched(object{"namespace_prefix": ns}); len(got) > 0 {
				t.Errorf("%q sees %v at %v", hostile[i], got, ns)
			}
			q := url.Values{"namespace": {strings.Join(ns, ".")}, "key": {"secret"}}
			u.equal(u.ok("GET", "/store/items?"+q.Encode(), nil), `null`)
			u.ok("DELETE", "/store/items", object{"namespace": ns, "key": "secret"})
		}
		u.ok("DELETE", "/store/items", object{"namespace": []string{}, "key": "secret"})
		it, err := h.items.Get(ctx, append(server.ItemsOf(hostile[i]), "own"), "k")
		if err != nil || it.Value["of"] != mine {
			t.Errorf("what %q stores is not at the place: %v, %v", hostile[i], it, err)
		}
		u.ok("DELETE", "/store/items", object{"namespace": []string{"facts"}, "key": "soup"})
		u.equal(u.ok("GET", "/store/items?namespace=facts&key=soup", nil), `null`)
	}
	for i := range hostile { // each has deleted one, of nobody else
		if found := as(i).searched(object{"namespace_prefix": []string{"facts"}}); len(found) != 1 {
			t.Errorf("%q has %v", hostile[i], found)
		}
	}
	for _, p := range programs {
		if _, err := h.items.Get(ctx, p.Namespace, "secret"); err != nil {
			t.Errorf("the program's: %v", err)
		}
	}
}

func prefix(in object) []string {
	p, _ := in["namespace_prefix"].([]string)
	return p
}

func merged(all ...object) object {
	out := object{}
	for _, m := range all {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// TestIdentityThatIsNotText: JSON has one sign for all that is not UTF-8, and the metadata of checkpoints
// has no U+0000: in what is stored such identities would be those of others.
func TestIdentityThatIsNotText(t *testing.T) {
	known := map[string]*server.User{}
	for _, id := range []string{"a\xff", "\xc3", "\xed\xa0\x80", "a\x00", "\x00"} {
		known[fmt.Sprintf("%x", id)] = &server.User{Identity: id}
	}
	h := open(t, t.TempDir(), func(c *server.Config) { c.Auth = server.APIKeys(known) })
	for h.key = range known {
		h.refused(http.StatusUnauthorized, "POST", "/threads", object{})
		h.refused(http.StatusUnauthorized, "PUT", "/store/items", object{"namespace": []string{"a"}, "key": "k", "value": object{}})
	}
}

// TestGrantedPlaces: a Namespace that an Authorize grants may be one of the program's, or at the user's own
// place, and no other place. Without one the places are as if they were not there.
func TestGrantedPlaces(t *testing.T) {
	var granted store.Namespace
	ann, _ := users(t, func(c *server.Config) {
		c.Auth.Authorize = func(context.Context, *server.User, server.Access) (server.Grant, error) {
			return server.Grant{Namespace: granted}, nil
		}
	})
	if err := ann.items.Put(t.Context(), append(server.ItemsOf("bob.b"), "facts"), "k", object{}); err != nil {
		t.Fatal(err)
	}
	in := object{"namespace": []string{"facts"}, "key": "k", "value": object{"n": 1}}
	for _, ns := range []store.Namespace{{"org-7"}, {"org-7", "ann"}, server.ItemsOf("ann"), append(server.ItemsOf("ann"), "deeper")} {
		granted = ns
		ann.ok("PUT", "/store/items", in)
		if _, err := ann.items.Get(t.Context(), slices.Concat(ns, store.Namespace{"facts"}), "k"); err != nil {
			t.Errorf("granted %q: %v", ns, err)
		}
	}
	for _, ns := range []store.Namespace{{"__stele_server__"}, {"__stele_server__", "threads"}, {"__stele_users__"}, server.ItemsOf("bob.b"), append(server.ItemsOf("bob.b"), "facts"), {"__stele_users__", "ann2"}, {"stele.runs"}, {"a", "*"}, {""}} {
		granted = ns
		ann.refused(500, "PUT", "/store/items", in)
		ann.refused(500, "POST", "/store/items/search", object{})
	}
	granted = nil
	for _, ns := range [][]string{{"__stele_users__"}, server.ItemsOf("ann"), server.ItemsOf("bob.b"), {"__stele_server__"}} {
		ann.refused(422, "PUT", "/store/items", object{"namespace": append(ns, "facts"), "key": "k", "value": object{}})
		ann.refused(422, "DELETE", "/store/items", object{"namespace": append(ns, "facts"), "key": "k"})
		ann.refused(422, "GET", "/store/items?key=k&namespace="+strings.Join(ns, "."), nil)
		ann.refused(422, "POST", "/store/items/search", object{"namespace_prefix": ns})
		ann.refused(422, "POST", "/store/namespaces", object{"prefix": ns})
	}
	if got := fmt.Sprint(ann.spaces(object{}), ann.spaces(object{"prefix": []string{"*"}}), ann.spaces(object{"suffix": []string{"facts"}}), len(ann.searched(object{}))); got != "[[org-7 ann facts] [org-7 facts]] [[org-7 ann facts] [org-7 facts]] [[org-7 ann facts] [org-7 facts]] 2" {
		t.Errorf("without a namespace: %s", got)
	}
}

// TestNodesStoreForTheirUser: what a node stores at the place of the user whose run it is, that user sees.
func TestNodesStoreForTheirUser(t *testing.T) {
	ann, bob := users(t, func(c *server.Config) {
		learn := func(ctx context.Context, _ any) (any, error) {
			task, _ := pregel.Task(ctx)
			me := server.ItemsOf(fmt.Sprint(task.Configurable["langgraph_auth_user_id"]))
			return nil, task.Store.Put(ctx, append(me, "facts"), "k", object{"of": task.Configurable["langgraph_auth_user_id"]})
		}
		c.Graphs = map[string]*pregel.Graph{"learns": must(builder().Node("learn", learn).Sequence(graph.Start, "learn").Compile(graph.Options{Name: "learns", Saver: c.Saver, Store: c.Store}))}
	})
	for h, id := range map[*house]string{ann: "ann", bob: "bob.b"} {
		h.ok("POST", "/runs/wait", object{"assistant_id": "learns", "input": object{"text": "x"}})
		h.equal(h.ok("GET", "/store/items?namespace=facts&key=k", nil).sub("value"), fmt.Sprintf(`{"of":%q}`, id))
	}
}

// TestRunsNameTheirOwner: the checkpoints of a run, and those that no run makes, say whose thread it is on,
// whatever the client says: what is kept of a user is found, and erased, by that.
func TestRunsNameTheirOwner(t *testing.T) {
	ann, _ := users(t, nil)
	lies := object{"owner": "bob.b", "langgraph_auth_user_id": "bob.b", "stele_answered_by": "bob.b", "mine": "yes"}
	assistant := ann.ok("POST", "/assistants", object{"graph_id": "simple", "metadata": lies, "config": object{"configurable": lies}}).text1("assistant_id")
	id := ann.ok("POST", "/threads", object{"metadata": lies}).text1("thread_id")
	ann.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": assistant, "input": object{"text": "x"}, "metadata": lies,
		"config": object{"configurable": lies, "metadata": lies}})
	head := must(ann.disk.GetTuple(t.Context(), saver.Config{ThreadID: id}))
	if m := head.Metadata; m["owner"] != "ann" || m["langgraph_auth_user_id"] != "ann" || m["stele_answered_by"] != nil || m["mine"] != "yes" {
		t.Errorf("metadata %v", m)
	}
	update := object{"values": object{"text": "again"}, "as_node": "a"}
	made := ann.ok("POST", "/threads", object{"graph_id": "simple", "supersteps": []object{{"updates": []object{update}}}}).text1("thread_id")
	ann.ok("POST", "/threads/"+id+"/state", update)
	for _, id := range []string{id, made} {
		if m := must(ann.disk.GetTuple(t.Context(), saver.Config{ThreadID: id})).Metadata; m["owner"] != "ann" || m["source"] != "update" {
			t.Errorf("metadata of an update %v", m)
		}
	}
}

// TestPlacesUnderNoAuth: where everybody may do everything, places are namespaces like others.
func TestPlacesUnderNoAuth(t *testing.T) {
	h := newHouse(t)
	ns := append(server.ItemsOf("ann"), "facts")
	if err := h.items.Put(t.Context(), ns, "k", object{"n": 1}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(h.spaces(object{}), len(h.searched(object{}))); got != "[[__stele_users__ ann facts]] 1" {
		t.Error(got)
	}
	h.equal(h.ok("GET", "/store/items?key=k&namespace="+strings.Join(ns, "."), nil).sub("value"), `{"n":1}`)
}

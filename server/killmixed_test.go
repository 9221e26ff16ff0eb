package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// TestKillMixed kills a server again and again under clients that change things of every kind, and while its
// crons are due. What was acknowledged is there afterwards, what was deleted is not, each run ends, and the
// store has no half of anything after any kill. SERVER_SEED repeats the draws, SERVER_MIXED_KILLS makes it longer.
func TestKillMixed(t *testing.T) {
	kills, clients := 5, 6
	if n, err := strconv.Atoi(os.Getenv("SERVER_MIXED_KILLS")); err == nil {
		kills = n
	}
	seed := rand.Uint64()
	if s := os.Getenv("SERVER_SEED"); s != "" {
		seed = must(strconv.ParseUint(s, 10, 64))
	}
	t.Logf("go test ./server -run TestKillMixed: SERVER_SEED=%d SERVER_MIXED_KILLS=%d", seed, kills)
	rnd := rand.New(rand.NewPCG(seed, 0))
	m := &mixed{T: t, dir: t.TempDir(), fired: map[string]string{}, due: map[string]string{}}
	end := m.live()
	own := m.customer(seed, 0)
	of := own.id()
	for i := range 4 {
		path := []string{"/threads/" + of + "/runs/crons", "/runs/crons"}[i%2]
		own.ask("POST", "/threads", object{"thread_id": of, "if_exists": "do_nothing"})
		_, answer, _ := own.ask("POST", path, object{"assistant_id": "long", "schedule": "0 0 1 1 *", "input": object{"text": "x"}, "on_run_completed": "keep"})
		m.due[asObject(answer)["cron_id"].(string)] = ""
	}
	end()
	m.inspect()
	stop := make(chan struct{})
	var done sync.WaitGroup
	var all []*customer
	for i := range clients {
		c := m.customer(seed, i+1)
		all = append(all, c)
		done.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					c.step()
				}
			}
		})
	}
	for range kills {
		end = m.live()
		time.Sleep(time.Duration(20+rnd.IntN(300)) * time.Millisecond)
		end()
		m.inspect()
		if t.Failed() {
			break
		}
	}
	end = m.live()
	close(stop)
	done.Wait()
	acked := 0
	for _, c := range all {
		c.last()
		acked += c.acked
	}
	end()
	m.inspect()
	t.Logf("%d requests were acknowledged, %d cut off, %d times of crons fired", acked, m.cut.load(), len(m.fired))
}

func (m *mixed) customer(seed uint64, i int) *customer {
	return &customer{mixed: m, rnd: rand.New(rand.NewPCG(seed, uint64(i))), space: fmt.Sprint("of", i), threads: map[string]*ofThread{},
		items: map[string]*entry{}, assistants: map[string]*entry{}, crons: map[string]*entry{}, runs: map[string]string{}}
}

// mixed is the server of TestKillMixed, in its lives.
type mixed struct {
	*testing.T
	dir   string
	mu    sync.Mutex
	url   string
	cut   count
	lives int
	fired map[string]string // runs by the keys of crons
	due   map[string]string // crons that no client changes, and when they were made due
}

type count struct {
	mu sync.Mutex
	n  int
}

func (c *count) add()      { c.mu.Lock(); c.n++; c.mu.Unlock() }
func (c *count) load() int { c.mu.Lock(); defer c.mu.Unlock(); return c.n }

// live starts the server. end kills it.
func (m *mixed) live() (end func()) {
	m.lives++
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+m.dir)
	var said bytes.Buffer
	cmd.Stderr = &said
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		m.Errorf("the server does not begin: %s", said.String())
	}
	m.mu.Lock()
	m.url = "http://" + strings.TrimSpace(line)
	m.mu.Unlock()
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		m.mu.Lock()
		m.url = "" // another process may get its port
		m.mu.Unlock()
		if strings.Contains(said.String(), "panic") || strings.Contains(said.String(), "DATA RACE") || strings.Contains(said.String(), "cannot be") {
			m.Errorf("the server says\n%s", said.String())
		}
	}
}

// inspect looks at the store of a server that was killed, and makes the crons in it due.
func (m *mixed) inspect() {
	m.Helper()
	ctx := m.Context()
	d, err := disk.Open(m.dir, disk.Options{})
	if err != nil {
		m.Fatal(err)
	}
	items := must(store.On(d, store.Options{}))
	defer func() {
		if err := errors.Join(items.Close(), d.Close()); err != nil {
			m.Error(err)
		}
	}()
	records := func(kind string) map[string]object {
		out := map[string]object{}
		for _, f := range must(items.Search(ctx, store.Query{Prefix: store.Namespace{"__stele_server__", kind}, Limit: store.NoLimit})) {
			var v object
			if err := json.Unmarshal([]byte(f.Value["json"].(string)), &v); err != nil {
				m.Error(err)
			}
			out[f.Key] = v
		}
		return out
	}
	threads, halves, afters, crons := records("threads"), records("halves"), records("after"), records("crons")
	for info, err := range d.Threads(ctx, saver.ThreadQuery{}) {
		if err != nil {
			m.Error(err)
		}
		if threads[info.ThreadID] == nil && halves[info.ThreadID] == nil {
			m.Errorf("thread %s has a state and no record", info.ThreadID)
		}
	}
	queue := must(runs.NewLocal(ctx, items, runs.LocalOptions{}))
	keys := map[string]string{}
	for r, err := range queue.List(ctx, runs.Query{}) {
		if err != nil {
			m.Error(err)
			continue
		}
		if threads[r.ThreadID] == nil {
			m.Errorf("run %s is of no thread", r.ID)
		}
		if r.Key != "" && keys[r.Key] != "" {
			m.Errorf("runs %s and %s are both of %s", keys[r.Key], r.ID, r.Key)
		}
		if r.Key != "" {
			keys[r.Key] = r.ID
			if old := m.fired[r.Key]; old != "" && old != r.ID {
				m.Errorf("%s was fired again, as %s after %s", r.Key, r.ID, old)
			}
			m.fired[r.Key] = r.ID
		}
	}
	for id, v := range threads {
		if v["temporary"] == true && !slices.ContainsFunc(slices.Collect(maps.Values(afters)), func(a object) bool { return a["kind"] == "temporary" && a["thread"] == id }) {
			m.Errorf("nobody removes the temporary thread %s", id)
		}
		if v["ttl"] != nil && afters["ttl/"+id+"/"] == nil {
			m.Errorf("thread %s does not expire", id)
		}
	}
	for id, v := range crons {
		if afters["cron//"+id] == nil {
			m.Errorf("cron %s is never due", id)
		}
		if of, ok := v["thread_id"].(string); ok && threads[of] == nil {
			m.Errorf("cron %s is of thread %s, which is gone", id, of)
		}
		if v["enabled"] != true {
			m.Errorf("cron %s is disabled: %v", id, v)
		}
		next := must(time.Parse(time.RFC3339, v["next"].(string))).UTC().Format(time.RFC3339)
		if due := m.due[id]; due != "" && next != due && keys["cron/"+id+"/"+due] == "" {
			m.Errorf("cron %s went on from %s to %s without a run", id, due, next)
		}
		if _, own := m.due[id]; !own && v["thread_id"] != nil || next <= time.Now().UTC().Format(time.RFC3339) {
			continue // its runs would be in a client's way, or it is to be fired yet
		}
		past := time.Now().Add(time.Duration(m.lives-3600) * time.Second).UTC().Format(time.RFC3339)
		v["next"] = past
		if _, own := m.due[id]; own {
			m.due[id] = past
		}
		text := string(must(json.Marshal(v)))
		if err := items.Put(ctx, store.Namespace{"__stele_server__", "crons"}, id, map[string]any{"json": text}, store.NoIndex(), store.TTL(-1)); err != nil {
			m.Error(err)
		}
	}
}

// entry is a thing of a client: what it may be, after all that the client was told and was not. "" is that
// it is not there.
type entry struct{ may []string }

// ofThread is what a client knows of a thread.
type ofThread struct {
	meta, text entry
	busy       bool // a run of it may be under way
	gone       bool // its removal was asked for, and not acknowledged
}

// customer is a client that changes what is its own, one thing at a time.
type customer struct {
	*mixed
	rnd        *rand.Rand
	space      string // of its items
	n, acked   int
	threads    map[string]*ofThread
	deleted    []string // paths
	items      map[string]*entry
	assistants map[string]*entry
	crons      map[string]*entry
	runs       map[string]string // threads of runs that were acknowledged, by run
}

// send makes a request once. ok is false if it was not answered.
func (c *customer) send(method, path string, body any) (status int, answer any, text string, ok bool) {
	c.mu.Lock()
	url := c.url
	c.mu.Unlock()
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(must(json.Marshal(body)))
	}
	req := must(http.NewRequestWithContext(c.Context(), method, url+path, r))
	req.Header.Set("Content-Type", "application/json")
	res, err := mixedClient.Do(req)
	if err != nil {
		c.cut.add()
		time.Sleep(2 * time.Millisecond)
		return 0, nil, "", false
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		c.cut.add()
		return 0, nil, res.Header.Get("Location"), false
	}
	c.acked++
	_ = json.Unmarshal(all, &answer)
	if res.StatusCode >= 500 {
		c.Errorf("%s %s %v: %d %s", method, path, body, res.StatusCode, all)
	}
	return res.StatusCode, answer, string(all), true
}

var mixedClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

func asObject(v any) object {
	o, _ := v.(object)
	return o
}

// ask makes a request that changes nothing until it is answered.
func (c *customer) ask(method, path string, body any) (status int, answer any, text string) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if status, answer, text, ok := c.send(method, path, body); ok {
			return status, answer, text
		}
	}
	c.Errorf("%s %s: no server answers", method, path)
	return 0, nil, ""
}

func (c *customer) id() string {
	return uuid.Must(uuid.NewRandomFromReader(randomOf{c.rnd})).String()
}

type randomOf struct{ *rand.Rand }

// Read implements io.Reader.
func (r randomOf) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return len(b), nil
}

// value is one that was not given before.
func (c *customer) value() string { c.n++; return fmt.Sprint("v", c.n) }

// set notes a change of an entry to v that was acknowledged, or perhaps made.
func (e *entry) set(v string, acked bool) {
	if acked {
		e.may = []string{v}
	} else {
		e.may = append(e.may, v)
	}
}

// is checks an entry, which is settled now.
func (c *customer) is(what string, e *entry, v string) {
	if !slices.Contains(e.may, v) {
		c.Errorf("%s is %q, want one of %q", what, v, e.may)
	}
	e.may = []string{v}
}

// pick is any of a map's keys, or "".
func pick[V any](c *customer, m map[string]V) string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return ""
	}
	slices.Sort(keys)
	return keys[c.rnd.IntN(len(keys))]
}

// step does one thing at random.
func (c *customer) step() {
	switch id := pick(c, c.threads); {
	case id == "" || len(c.threads) < 4 && c.rnd.IntN(3) == 0:
		c.create()
	case c.rnd.IntN(3) == 0:
		c.others()
	default:
		c.thread(id, c.threads[id])
	}
}

// create makes a thread, perhaps with a state and a time to live.
func (c *customer) create() {
	id, meta := c.id(), c.value()
	in := object{"thread_id": id, "metadata": object{"n": meta, "graph_id": "long"}}
	th := &ofThread{text: entry{[]string{""}}, meta: entry{[]string{""}}}
	if c.rnd.IntN(2) == 0 {
		text := c.value()
		step := func(text string) object {
			return object{"updates": []object{{"values": object{"text": text}, "as_node": "n0"}}}
		}
		in["supersteps"] = []object{step("before"), step("too"), step(text)}
		th.text.set(text, true)
	}
	if c.rnd.IntN(2) == 0 {
		in["ttl"] = 1000
	}
	for {
		status, _, text, ok := c.send("POST", "/threads", in)
		if !ok {
			th.meta.set(meta, false)
			if c.rnd.IntN(2) == 0 {
				in["if_exists"] = "do_nothing"
				continue
			}
		} else if th.meta.set(meta, true); status != 200 {
			c.Errorf("a thread is made: %d %s", status, text)
		}
		break
	}
	c.threads[id] = th
	c.look(id, th)
}

// look checks a thread.
func (c *customer) look(id string, th *ofThread) {
	status, answer, text := c.ask("GET", "/threads/"+id, nil)
	if status == 404 {
		c.is("thread "+id, &th.meta, "")
		delete(c.threads, id)
		c.forget(id)
		return
	}
	if status != 200 {
		c.Errorf("thread %s: %d %s", id, status, text)
		return
	}
	if th.gone {
		return
	}
	got := asObject(answer)
	n, _ := asObject(got["metadata"])["n"].(string)
	c.is("metadata of thread "+id, &th.meta, n)
	if th.busy {
		return
	}
	values := asObject(got["values"])
	said, _ := values["text"].(string)
	c.is("state of thread "+id, &th.text, said)
}

// forget notes that a thread is gone with its runs and crons.
func (c *customer) forget(id string) {
	c.deleted = append(c.deleted, "/threads/"+id)
	for run, of := range c.runs {
		if of == id {
			delete(c.runs, run)
		}
	}
	for cron := range c.crons {
		if strings.HasPrefix(cron, id) {
			delete(c.crons, cron)
			c.deleted = append(c.deleted, "/runs/crons/"+cron[len(id)+1:])
		}
	}
}

// leaving notes that the removal of a thread was asked for: its crons go first.
func (c *customer) leaving(id string) {
	for cron, e := range c.crons {
		if strings.HasPrefix(cron, id) {
			e.set("", false)
		}
	}
}

// join waits for a run that was acknowledged.
func (c *customer) join(id, run string) {
	status, _, text := c.ask("GET", "/threads/"+id+"/runs/"+run+"/join", nil)
	if status != 200 || !strings.Contains(text, whole) {
		c.Errorf("run %s of thread %s: %d %s", run, id, status, text)
	}
	if status, answer, text := c.ask("GET", "/threads/"+id+"/runs/"+run, nil); status != 200 || asObject(answer)["status"] != "success" {
		c.Errorf("run %s of thread %s: %d %s", run, id, status, text)
	}
}

// rest waits until a thread has no run under way.
func (c *customer) rest(id string, th *ofThread) {
	for end := time.Now().Add(patience); th.busy && time.Now().Before(end); time.Sleep(time.Millisecond) {
		status, answer, _ := c.ask("GET", "/threads/"+id, nil)
		if status == 404 {
			c.look(id, th)
			return
		}
		th.busy = asObject(answer)["status"] == "busy"
	}
	if th.busy && !th.gone {
		c.Errorf("the runs of thread %s do not end", id)
	}
	c.look(id, th)
}

// thread does something with a thread.
func (c *customer) thread(id string, th *ofThread) {
	path := "/threads/" + id
	if th.gone {
		c.leaving(id)
		if status, _, text, ok := c.send("DELETE", path, nil); ok {
			if status == 409 { // a run of it takes long
				return
			}
			if status != 204 && status != 404 {
				c.Errorf("thread %s is removed again: %d %s", id, status, text)
			}
			delete(c.threads, id)
			c.forget(id)
		}
		return
	}
	v := c.value()
	run := object{"assistant_id": "long", "input": object{"text": v}, "stream_resumable": true}
	switch c.rnd.IntN(12) {
	case 0: // remove it
		status, text, ok := 0, "", false
		if c.rnd.IntN(2) == 0 {
			status, _, text, ok = c.send("DELETE", path, nil)
		} else {
			status, _, text, ok = c.send("POST", "/threads/prune", object{"thread_ids": []string{id}})
		}
		th.gone = true
		th.meta.set("", false)
		c.leaving(id)
		if ok && status/100 == 2 {
			delete(c.threads, id)
			c.forget(id)
		} else if ok && status != 409 {
			c.Errorf("thread %s is removed: %d %s", id, status, text)
		}
	case 1:
		status, _, text, ok := c.send("PATCH", path, object{"metadata": object{"n": v}, "ttl": 1000})
		th.meta.set(v, ok)
		if ok && status != 200 {
			c.Errorf("%d %s", status, text)
		}
	case 2, 3:
		c.rest(id, th)
		if c.threads[id] == nil {
			return
		}
		status, _, text, ok := c.send("POST", path+"/state", object{"values": object{"text": v}, "as_node": "n7"})
		th.text.set(v, ok)
		if ok && status != 200 {
			c.Errorf("%d %s", status, text)
		}
	case 4: // wait
		c.rest(id, th)
		_, _, text, ok := c.send("POST", path+"/runs/wait", run)
		th.text.set(v, ok)
		th.busy = !ok
		if ok && !strings.Contains(text, whole) {
			c.Errorf("a run that is waited for: %s", text)
		}
	case 5, 6: // background
		c.rest(id, th)
		_, answer, text, ok := c.send("POST", path+"/runs", run)
		th.text.set(v, ok)
		th.busy = true
		if made, _ := asObject(answer)["run_id"].(string); ok && made != "" {
			c.runs[made] = id
			if c.rnd.IntN(2) == 0 {
				c.join(id, made)
			}
		} else if ok {
			c.Errorf("%s", text)
		}
	case 7: // stream
		c.rest(id, th)
		_, _, text, ok := c.send("POST", path+"/runs/stream", run)
		th.text.set(v, ok)
		th.busy = !ok
		if ok && !strings.Contains(text, whole) {
			c.Errorf("a run that is streamed: %s", text)
		}
		if !ok && text != "" { // the server told of the run
			made := strings.Split(text, "/")[4]
			c.runs[made] = id
			c.join(id, made)
			th.text.set(v, true)
		}
	case 8: // version 2
		c.rest(id, th)
		_, answer, text, ok := c.send("POST", path+"/commands", object{"id": 1, "method": "run.start", "params": object{"assistant_id": "long", "input": object{"text": v}}})
		th.text.set(v, ok)
		th.busy = true
		result := asObject(asObject(answer)["result"])
		if made, _ := result["run_id"].(string); ok && made != "" {
			c.runs[made] = id
		} else if ok {
			c.Errorf("%s", text)
		}
	case 9: // cancel
		c.rest(id, th)
		how := []string{"interrupt", "rollback"}[c.rnd.IntN(2)]
		_, answer, _, ok := c.send("POST", path+"/runs", run)
		th.text.set(v, false)
		th.busy = true
		if made, _ := asObject(answer)["run_id"].(string); ok && made != "" {
			status, _, text, ok := c.send("POST", path+"/runs/"+made+"/cancel?action="+how+"&wait="+strconv.Itoa(c.rnd.IntN(2)), nil)
			if ok && status/100 != 2 && status != 404 {
				c.Errorf("a run is cancelled: %d %s", status, text)
			}
		}
		c.rest(id, th)
	case 10: // copy
		c.rest(id, th)
		if c.threads[id] == nil || len(c.threads) > 12 {
			return
		}
		status, answer, text, ok := c.send("POST", path+"/copy", object{})
		if !ok {
			return
		}
		dst, _ := asObject(answer)["thread_id"].(string)
		if status != 200 {
			c.Errorf("%d %s", status, text)
			return
		}
		c.threads[dst] = &ofThread{meta: entry{slices.Clone(th.meta.may)}, text: entry{slices.Clone(th.text.may)}}
		c.look(dst, c.threads[dst])
	case 11:
		c.rest(id, th)
		if c.rnd.IntN(2) == 0 {
			_, _, _, _ = c.send("POST", "/threads/prune", object{"thread_ids": []string{id}, "strategy": "keep_latest"})
		} else if c.threads[id] != nil && len(c.crons) < 5 {
			if _, answer, text, ok := c.send("POST", path+"/runs/crons", object{"assistant_id": "long", "schedule": "0 0 1 1 *", "input": object{}, "metadata": object{"n": v}}); ok {
				cron, _ := asObject(answer)["cron_id"].(string)
				if cron == "" {
					c.Errorf("%s", text)
				}
				c.crons[id+" "+cron] = &entry{[]string{v}}
			}
		}
	}
}

// others does something with what is of no thread.
func (c *customer) others() {
	v := c.value()
	switch c.rnd.IntN(6) {
	case 0, 1: // items
		key := fmt.Sprint("k", c.rnd.IntN(5))
		e := c.items[key]
		if e == nil {
			e = &entry{[]string{""}}
			c.items[key] = e
		}
		switch c.rnd.IntN(3) {
		case 0:
			_, _, _, ok := c.send("DELETE", "/store/items", object{"namespace": []string{c.space}, "key": key})
			e.set("", ok)
		default:
			_, _, _, ok := c.send("PUT", "/store/items", object{"namespace": []string{c.space}, "key": key, "value": object{"v": v}})
			e.set(v, ok)
		}
		_, answer, _ := c.ask("GET", "/store/items?namespace="+c.space+"&key="+key, nil)
		found := asObject(asObject(answer)["value"])
		got, _ := found["v"].(string)
		c.is("item "+key, e, got)
	case 2: // assistants
		id := pick(c, c.assistants)
		if id == "" || len(c.assistants) < 3 {
			id = c.id()
			e := &entry{[]string{""}}
			_, _, _, ok := c.send("POST", "/assistants", object{"graph_id": "long", "assistant_id": id, "name": v})
			e.set(v+" 1", ok)
			c.assistants[id] = e
			c.assistant(id)
			return
		}
		e := c.assistants[id]
		switch c.rnd.IntN(4) {
		case 0:
			_, _, _, ok := c.send("DELETE", "/assistants/"+id, nil)
			e.set("", ok)
		default:
			_, old, _ := strings.Cut(e.may[0], " ")
			n := must(strconv.Atoi(old))
			_, _, _, ok := c.send("PATCH", "/assistants/"+id, object{"name": v})
			e.set(fmt.Sprint(v, " ", n+1), ok)
		}
		c.assistant(id)
	case 3: // runs without a thread
		one := object{"assistant_id": "long", "input": object{"text": v}, "on_completion": []string{"keep", "delete"}[c.rnd.IntN(2)]}
		status, answer, text, ok := c.send("POST", "/runs/batch", []object{one, one, one})
		if !ok {
			return
		}
		list, _ := answer.([]any)
		if status != 200 || len(list) != 3 {
			c.Errorf("%d %s", status, text)
		}
		for _, r := range list {
			r := asObject(r)
			c.join(r["thread_id"].(string), r["run_id"].(string))
		}
	case 4: // crons
		id := pick(c, c.crons)
		if id == "" || len(c.crons) < 3 {
			_, answer, text, ok := c.send("POST", "/runs/crons", object{"assistant_id": "long", "schedule": "0 0 1 1 *", "input": object{"text": v}, "metadata": object{"n": v}, "on_run_completed": "keep"})
			if !ok {
				return
			}
			cron, _ := asObject(answer)["cron_id"].(string)
			if cron == "" {
				c.Errorf("%s", text)
			}
			c.crons[" "+cron] = &entry{[]string{v}}
			return
		}
		_, cron, _ := strings.Cut(id, " ")
		e := c.crons[id]
		if c.rnd.IntN(3) == 0 {
			_, _, _, ok := c.send("DELETE", "/runs/crons/"+cron, nil)
			e.set("", ok)
		} else {
			status, _, _, ok := c.send("PATCH", "/runs/crons/"+cron, object{"metadata": object{"n": v}})
			if status != 404 { // it may be gone with its thread
				e.set(v, ok)
			}
		}
		c.cron(id)
	case 5:
		if path := c.gone(); path != "" {
			if status, _, text := c.ask("GET", path, nil); status != 404 {
				c.Errorf("%s was deleted: %d %s", path, status, text)
			}
		}
	}
}

// gone is the path of something that was deleted.
func (c *customer) gone() string {
	if len(c.deleted) == 0 {
		return ""
	}
	return c.deleted[c.rnd.IntN(len(c.deleted))]
}

// assistant checks an assistant, and its versions.
func (c *customer) assistant(id string) {
	status, answer, _ := c.ask("GET", "/assistants/"+id, nil)
	got := ""
	if status == 200 {
		a := asObject(answer)
		got = fmt.Sprint(a["name"], " ", a["version"])
		_, versions, text := c.ask("POST", "/assistants/"+id+"/versions", object{"limit": 1000})
		if list, _ := versions.([]any); float64(len(list)) != a["version"] {
			c.Errorf("assistant %s has version %v of %s", id, a["version"], text)
		}
	}
	if c.is("assistant "+id, c.assistants[id], got); got == "" {
		delete(c.assistants, id)
		c.deleted = append(c.deleted, "/assistants/"+id)
	}
}

// cron checks a cron.
func (c *customer) cron(id string) {
	_, cron, _ := strings.Cut(id, " ")
	status, answer, _ := c.ask("GET", "/runs/crons/"+cron, nil)
	got := ""
	if status == 200 {
		got, _ = asObject(asObject(answer)["metadata"])["n"].(string)
	}
	if c.is("cron "+cron, c.crons[id], got); got == "" {
		delete(c.crons, id)
		c.deleted = append(c.deleted, "/runs/crons/"+cron)
	}
}

// last checks all that the client has, when no server is killed any more.
func (c *customer) last() {
	for run, id := range c.runs {
		if th := c.threads[id]; th == nil || th.gone {
			continue
		}
		c.ask("GET", "/threads/"+id+"/runs/"+run+"/join", nil)
		if status, answer, text := c.ask("GET", "/threads/"+id+"/runs/"+run, nil); status != 200 || asObject(answer)["status"] != "success" {
			c.Errorf("run %s of thread %s: %d %s", run, id, status, text)
		}
	}
	for id, th := range c.threads {
		c.rest(id, th)
	}
	for id := range c.assistants {
		c.assistant(id)
	}
	for id := range c.crons {
		c.cron(id)
	}
	for _, path := range c.deleted {
		if status, _, text := c.ask("GET", path, nil); status != 404 {
			c.Errorf("%s was deleted: %d %s", path, status, text)
		}
	}
}

//go:build unix

package linear

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/s3"
	"github.com/stele-go/stele/replica/s3/s3test"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// serverPlace, if it is set, makes the test binary a machine: its directory, and the address of its bucket.
const serverPlace = "STELE_LINEAR_SERVER"

// answers are what a machine says of a call, in place of what it found.
var answers = []struct {
	err  error
	word string
}{{fault.ErrFenced, "fenced"}, {saver.ErrConflict, "conflict"}, {fault.ErrStale, "stale"}, {saver.ErrReadOnly, "follows"}, {saver.ErrClosed, "follows"}, {fault.ErrOutcomeUnknown, "unknown"}, {fault.ErrPoisoned, "unknown"}, {context.DeadlineExceeded, "late"}}

func TestMain(m *testing.M) {
	if place := os.Getenv(serverPlace); place != "" {
		dir, address, _ := strings.Cut(place, " ")
		fmt.Fprintln(os.Stderr, serveLines(dir, address))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveLines is the life of a machine: it leads or follows, and answers what it is asked, each line a call.
func serveLines(dir, address string) error {
	ctx := context.Background()
	b, err := s3.Open(ctx, address)
	if err != nil {
		return err
	}
	var store atomic.Pointer[disk.Saver] // of a leader
	var out sync.Mutex
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			var number, thread int
			var write bool
			var old, head int64
			if _, err := fmt.Sscan(in.Text(), &number, &thread, &write, &old, &head); err != nil {
				panic(err)
			}
			go func() {
				said := serveCall(ctx, store.Load(), thread, write, old, head)
				out.Lock()
				defer out.Unlock()
				fmt.Println(number, said)
			}()
		}
		os.Exit(0) // the test has ended
	}()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	o := disk.Options{Logger: log, Replica: disk.Replica{Bucket: b, Mode: replica.Sync, Interval: 20 * time.Millisecond, TTL: serverTTL, Deadline: 2 * time.Second}}
	for { // an error is that of a bucket that is away for too long
		err := disk.LeadOrFollow(ctx, dir, o, func(ctx context.Context, s *disk.Saver) error {
			if !s.Follows() {
				store.Store(s)
				defer store.Store(nil)
			}
			<-ctx.Done()
			return nil
		})
		log.Warn("the machine begins anew", "error", err)
		time.Sleep(20 * time.Millisecond)
	}
}

const serverTTL = 300 * time.Millisecond

func serveCall(ctx context.Context, s *disk.Saver, thread int, write bool, old, head int64) string {
	if s == nil {
		return "follows"
	}
	cfg := saver.Config{ThreadID: fmt.Sprint("t", thread)}
	var err error
	if write {
		cfg.ExpectHead = saver.Head(idOf(old))
		_, err = s.Put(ctx, cfg, saver.Checkpoint{ID: idOf(head)}, nil, nil)
	} else {
		var tup *saver.Tuple
		if tup, err = s.GetTuple(ctx, cfg); err == nil {
			head = numberOf(tup.Checkpoint.ID)
		} else if errors.Is(err, saver.ErrNotFound) {
			head, err = 0, nil
		}
	}
	if err == nil {
		return fmt.Sprint(head)
	}
	for _, a := range answers {
		if errors.Is(err, a.err) {
			return a.word
		}
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ") // an answer is a line
}

// proxy is what lies between a machine and the bucket. It forwards, and as it is drawn delays requests, cuts them off before they
// are applied or before all is answered, and while it is a black hole does nothing until the machine gives up.
type proxy struct {
	*httptest.Server
	mu    sync.Mutex
	rng   *rand.Rand
	hole  atomic.Bool
	fates [4]atomic.Int64
}

func newProxy(t *testing.T, endpoint string, seed uint64) *proxy {
	to, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{rng: rand.New(rand.NewPCG(seed, 9))}
	forward := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }, // the host is signed
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fate, delay := p.draw()
		p.fates[fate].Add(1)
		switch {
		case p.hole.Load():
			_, _ = io.Copy(io.Discard, r.Body) // so that its end is noticed
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		case fate == cutBefore:
			panic(http.ErrAbortHandler)
		case fate == cutBehind:
			forward.ServeHTTP(&half{ResponseWriter: w}, r)
			panic(http.ErrAbortHandler)
		case fate == delayed:
			time.Sleep(delay)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { p.CloseClientConnections(); p.Close() })
	return p
}

// What becomes of a request.
const (
	passed = iota
	delayed
	cutBefore
	cutBehind
)

func (p *proxy) draw() (fate int, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.rng.IntN(60); n < 3 {
		fate = 1 + n
	}
	return fate, time.Duration(p.rng.IntN(int(serverTTL)))
}

// half lets nothing but the head and the beginning of an answer through.
type half struct {
	http.ResponseWriter
	sent bool
}

// Write implements io.Writer.
func (h *half) Write(b []byte) (int, error) {
	if h.sent {
		return len(b), nil
	}
	h.sent = true
	_, err := h.ResponseWriter.Write(b[:len(b)/2])
	return len(b), err
}

// server is a machine: a directory, and a process that may be stopped.
type server struct {
	w     *servers
	name  string
	proxy *proxy
	mu    sync.Mutex
	cmd   *exec.Cmd
	in    io.Writer
	waits map[int]chan string // calls without an answer; nil: the process has ended
	acks  atomic.Int64        // writes that it acknowledged
}

// servers are machines of one bucket, and what their clients did.
type servers struct {
	*testing.T
	root     string
	address  func(endpoint string) string
	machines [2]*server
	mu       sync.Mutex
	history  history
	counts   map[string]int
	number   atomic.Int64
}

func (s *server) start() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverPlace+"="+filepath.Join(s.w.root, s.name)+" "+s.w.address(s.proxy.URL))
	log, err := os.OpenFile(filepath.Join(s.w.root, s.name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.w.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		s.w.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd, s.in, s.waits = cmd, in, map[int]chan string{}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			number, said, _ := strings.Cut(lines.Text(), " ")
			n, _ := strconv.Atoi(number)
			s.mu.Lock()
			if c := s.waits[n]; c != nil {
				c <- said
			}
			delete(s.waits, n)
			s.mu.Unlock()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.waits {
			c <- "unknown"
		}
		s.waits = nil
	}()
}

// kill ends the process, and waits until its clients know.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may be stopped
	s.w.until("clients know", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.waits == nil
	})
	_ = s.cmd.Wait() // it was killed
}

func (s *server) signal(sig syscall.Signal) {
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.w.Error(err)
	}
}

// call makes a call of a client, and waits for its answer.
func (s *server) call(thread int, write bool) {
	w := s.w
	w.mu.Lock()
	o := w.history.begin(thread, write)
	w.mu.Unlock()
	answer, n := make(chan string, 1), int(w.number.Add(1))
	s.mu.Lock()
	if s.waits == nil {
		answer <- "follows"
	} else {
		s.waits[n] = answer
		fmt.Fprintln(s.in, n, thread, write, o.old, o.new) // if it fails the process has ended, and that is the answer
	}
	s.mu.Unlock()
	said := <-answer
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[said]++
	switch head, err := strconv.ParseInt(said, 10, 64); {
	case err == nil:
		delete(w.counts, said)
		w.counts[map[bool]string{true: "acknowledged", false: "reads"}[write]]++
		if w.history.did(o, head); write {
			s.acks.Add(1)
		}
	case write && (said == "unknown" || said == "fenced"): // it may be so or not: a directory that leads again offers what it has
	case said == "unknown", said == "fenced", said == "conflict", said == "stale", said == "follows", said == "late":
		w.history.didNot(o)
	default:
		w.Errorf("%s: %s", s.name, said)
	}
}

func (w *servers) until(what string, done func() bool) {
	w.Helper()
	for end := time.Now().Add(5 * time.Minute); !done() && !w.Failed(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			for _, s := range w.machines {
				log, _ := os.ReadFile(filepath.Join(w.root, s.name+".log"))
				w.Logf("%s:\n%s", s.name, log[max(0, len(log)-4000):])
			}
			w.Fatalf("not in five minutes: %s", what)
		}
	}
}

// reign is how many writes a leader acknowledges before something happens to it.
const reign = 5

// leads waits until one of the machines has acknowledged some writes more.
func (w *servers) leads(which ...*server) (leader *server) {
	var before []int64
	for _, s := range which {
		before = append(before, s.acks.Load())
	}
	w.until("one leads", func() bool {
		for i, s := range which {
			if s.acks.Load() >= before[i]+reign {
				leader = s
			}
		}
		return leader != nil
	})
	return leader
}

// TestServers has two processes take over from each other on a server of others, which each reaches through a proxy that delays
// and cuts off: the leader is stopped while the other takes over, and goes on; or it is killed, perhaps with its disk;
// or the bucket is a black hole to it. What clients of both saw is linearizable, and so is what is restored from the bucket at the end,
// which is whole.
func TestServers(t *testing.T) {
	for name, start := range map[string]func(*testing.T) string{
		"gofakes3": func(t *testing.T) string {
			s3test.Credentials(t)
			server := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
			t.Cleanup(server.Close)
			return server.URL
		},
		"versitygw": s3test.Versitygw, "moto": s3test.Moto,
	} {
		t.Run(name, func(t *testing.T) { takeTurns(t, start(t)) })
	}
}

func takeTurns(t *testing.T, endpoint string) {
	turns, seed := 4, rand.Uint64()
	if n, err := strconv.Atoi(os.Getenv("SERVER_TAKE_OVERS")); err == nil {
		turns = n
	}
	s3test.MakeBucket(t, endpoint, "stele")
	w := &servers{T: t, root: t.TempDir(), counts: map[string]int{}, address: func(at string) string { return "s3://stele/store?endpoint=" + url.QueryEscape(at) }}
	for i := range w.machines {
		w.machines[i] = &server{w: w, name: fmt.Sprint("m", i), proxy: newProxy(t, endpoint, seed+uint64(i))}
	}
	var stop atomic.Bool
	var clients sync.WaitGroup
	defer func() {
		stop.Store(true)
		for _, s := range w.machines {
			if s.cmd != nil {
				s.kill()
			}
		}
		clients.Wait()
	}()
	ask := func(s *server) {
		for i := range threads {
			for _, write := range []bool{true, false} {
				clients.Go(func() {
					for !stop.Load() && !t.Failed() {
						s.call(i, write)
						time.Sleep(5 * time.Millisecond)
					}
				})
			}
		}
	}
	w.machines[0].start() // it begins the lineage
	ask(w.machines[0])
	w.leads(w.machines[0])
	w.machines[1].start()
	ask(w.machines[1])
	for turn := 0; turn < turns && !t.Failed(); turn++ {
		leader := w.leads(w.machines[:]...)
		other := w.machines[0]
		if leader == other {
			other = w.machines[1]
		}
		switch turn % 4 {
		case 0:
			leader.signal(syscall.SIGSTOP)
			w.leads(other)
			leader.signal(syscall.SIGCONT)
		case 1:
			leader.proxy.hole.Store(true)
			w.leads(other)
			leader.proxy.hole.Store(false)
		case 2, 3:
			leader.kill()
			if turn%4 == 3 {
				if err := os.RemoveAll(filepath.Join(w.root, leader.name)); err != nil {
					t.Fatal(err)
				}
			}
			w.leads(other)
			leader.start()
		}
	}
	stop.Store(true)
	clients.Wait()
	for _, s := range w.machines {
		s.kill()
		s.cmd = nil
	}
	w.restore(endpoint)
	if !w.history.linearizable() {
		for _, o := range w.history.ops {
			t.Logf("%+v", *o)
		}
		t.Errorf("seed %d: what clients saw is not linearizable", seed)
	}
	for i, p := range []*proxy{w.machines[0].proxy, w.machines[1].proxy} {
		t.Logf("%s: %d requests, %d delayed, %d cut off before they were applied, %d behind that", w.machines[i].name,
			p.fates[passed].Load(), p.fates[delayed].Load(), p.fates[cutBefore].Load(), p.fates[cutBehind].Load())
	}
	t.Logf("%d turns: %v", turns, w.counts)
}

// restore reads what the bucket has when all machines are gone.
func (w *servers) restore(endpoint string) {
	var b bucket.Bucket
	b, err := s3.Open(w.Context(), w.address(endpoint))
	if err != nil {
		w.Fatal(err)
	}
	st, err := replica.ReadStatus(w.Context(), replica.Options{Bucket: b})
	if err != nil {
		w.Fatal(err)
	}
	if v, err := replica.Verify(w.Context(), replica.Options{Bucket: b, Store: st.Store}); err != nil || len(v.Damage) > 0 {
		w.Errorf("verify: %+v, %v", v, err)
	}
	dir := filepath.Join(w.root, "restored")
	if _, err := admin.RestoreBucket(w.Context(), b, dir, admin.Moment{}, admin.BackupOptions{}); err != nil {
		w.Fatal(err)
	}
	s, err := disk.Open(dir, disk.Options{ReadOnly: true})
	if err != nil {
		w.Fatal(err)
	}
	defer s.Close()
	for thread := range threads {
		o := w.history.begin(thread, false)
		head, err := strconv.ParseInt(serveCall(w.Context(), s, thread, false, 0, 0), 10, 64)
		if err != nil {
			w.Fatal(err)
		}
		w.history.did(o, head)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	aws3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/stele-go/stele/base/port"
	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/bench/compare/peer"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/s3"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// What a copy in object storage costs and saves: stele with Options.Replica in its default mode, and SQLite with
// litestream beside it, at an interval of a second both. Both put into the same server, versitygw, through a proxy
// that counts what is sent.
//
// The load is that of W2 with realistic data: one program puts steps of 64 threads, at a rate or as fast as it can.
//
// The loss is measured as it is defined for a lost machine: at some moment the program, and litestream, are
// killed, and the proxy lets nothing more through. What can be restored from the bucket then lacks the newest
// commits. The loss is the age, at that moment, of the oldest commit that was acknowledged and is lacking.

// replicaSizes say how much is measured.
type replicaSizes struct {
	Kills   int           // how often each is killed
	Steps   int           // a second, of the paced load; a step is two commits
	Pace    time.Duration // how long the paced load goes on
	Restore int64         // bytes of the store that is restored
	Most    time.Duration // for all
}

var (
	quickReplicas = replicaSizes{Kills: 5, Steps: 100, Pace: 10 * time.Second, Restore: 50 << 20, Most: 15 * time.Minute}
	wholeReplicas = replicaSizes{Kills: 100, Steps: 100, Pace: time.Minute, Restore: 1 << 30, Most: 3 * time.Hour}
)

const (
	replicaVariable = "COMPARE_REPLICA" // holds a replicaLoad, in the processes that write
	replicaThreads  = 64
	replicaTurns    = 64 // steps of a thread that are recorded; they are put again and again, in new threads
	replicaAccess   = "compare"
	replicaSecret   = "compare-secret"
)

// replicaLoad is what a process puts.
type replicaLoad struct {
	Engine string // stele, sqlite-mattn
	Dir    string
	Bucket string // of stele: its address; "" is no replica
	Steps  int    // a second; 0 is as many as it can
	For    time.Duration
	Bytes  int64 // instead of For: until the directory has so many
	Idle   bool  // it puts nothing
}

// replicaEnd is the last line of a process that was not killed.
type replicaEnd struct {
	Steps int
	Took  time.Duration
	CPU   time.Duration
}

// place is the thread and the turn of a step.
func place(n int) (thread string, slot, turn int) {
	slot, turn = n%replicaThreads, n/replicaThreads
	return fmt.Sprintf("%d-%d", slot, turn/replicaTurns), slot, turn % replicaTurns
}

// replicaChild puts, and prints the time, in ns, at which each step was acknowledged.
func replicaChild(spec string) error {
	var l replicaLoad
	if err := json.Unmarshal([]byte(spec), &l); err != nil {
		return err
	}
	engine, err := peer.Find(l.Engine)
	if err != nil {
		return err
	}
	o := peer.Options{Dir: l.Dir, Mode: peer.Durable, Writers: 1}
	if l.Bucket != "" {
		b, err := s3.Open(context.Background(), l.Bucket)
		if err != nil {
			return err
		}
		o.Replica = disk.Replica{Bucket: b}
	}
	s, err := engine.Open(o)
	if err != nil {
		return err
	}
	fleet := bench.NewFleet(1, replicaThreads, replicaTurns)
	m := startMeter(l.Dir, s)
	n := 0
	if l.Idle {
		time.Sleep(l.For)
	}
	for ; l.Bytes != 0 || time.Since(m.start) < l.For; n++ {
		if l.Steps != 0 {
			time.Sleep(time.Until(m.start.Add(time.Duration(n) * time.Second / time.Duration(l.Steps))))
		}
		thread, slot, turn := place(n)
		step := fleet.Step(slot, turn)
		parent := fleet.ID(slot, turn-1)
		if err := s.Put(thread, parent, &step); err != nil {
			return err
		}
		if err := s.PutWrites(thread, step.Checkpoint.ID, fleet.Task(slot, turn), step.Writes); err != nil {
			return err
		}
		if l.Bytes == 0 {
			fmt.Println(time.Now().UnixNano())
		} else if n%1000 == 0 {
			size, err := diskBytes(l.Dir)
			if err != nil && !errors.Is(err, os.ErrNotExist) { // a file was removed meanwhile
				return err
			}
			if size >= l.Bytes {
				break
			}
		}
	}
	end := replicaEnd{Steps: n, Took: time.Since(m.start), CPU: cpuTime(s) - m.cpu}
	if err := json.NewEncoder(os.Stdout).Encode(end); err != nil {
		return err
	}
	return s.Close()
}

// gateway is the server of the bucket, and the proxy before it.
type gateway struct {
	server *exec.Cmd
	proxy  *http.Server
	url    string
	closed atomic.Bool // the machine is lost: nothing comes through

	programs []*exec.Cmd // that were started, and may have ended

	mu       sync.Mutex
	requests map[string]int64 // by method
	sent     int64            // bytes of bodies to the server
	received int64
}

func openGateway(dir, versitygw string) (*gateway, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	n, err := port.Free()
	if err != nil {
		return nil, err
	}
	behind := fmt.Sprintf("127.0.0.1:%d", n)
	g := &gateway{requests: map[string]int64{}, server: exec.Command(versitygw, "--port", behind,
		"--access", replicaAccess, "--secret", replicaSecret, "--quiet", "posix", dir)}
	if err := g.server.Start(); err != nil {
		return nil, err
	}
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", behind)
		if err == nil {
			_ = c.Close() // nothing was said
			break
		}
		if time.Since(begun) > time.Minute {
			return nil, errors.Join(err, g.server.Process.Kill())
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g.url = "http://" + l.Addr().String()
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: behind})
			r.Out.Host = r.In.Host
		}, // the host is signed
		ModifyResponse: func(r *http.Response) error {
			r.Body = &counted{ReadCloser: r.Body, g: g, n: &g.received}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	g.proxy = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.closed.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		g.mu.Lock()
		g.requests[r.Method]++
		g.mu.Unlock()
		r.Body = &counted{ReadCloser: r.Body, g: g, n: &g.sent}
		forward.ServeHTTP(w, r)
	})}
	go func() { _ = g.proxy.Serve(l) }() // it ends with Close
	return g, nil
}

// counted counts what is read of a body.
type counted struct {
	io.ReadCloser
	g *gateway
	n *int64
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.g.mu.Lock()
	*c.n += int64(n)
	c.g.mu.Unlock()
	return n, err
}

// counts returns what was sent since the last call.
func (g *gateway) counts() (requests map[string]int64, sent, received int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	requests, sent, received = g.requests, g.sent, g.received
	g.requests, g.sent, g.received = map[string]int64{}, 0, 0
	return requests, sent, received
}

// close ends both, and the programs, and returns when they have ended.
func (g *gateway) close() error {
	for _, p := range append(g.programs, g.server) {
		_ = p.Process.Kill() // it may have ended
		_ = p.Wait()         // it was killed, or waited for
	}
	return g.proxy.Close()
}

// run starts a program, which close ends at the latest.
func (g *gateway) run(p *exec.Cmd) error {
	err := p.Start()
	if err == nil {
		g.programs = append(g.programs, p)
	}
	return err
}

// makeBucket makes a bucket of the server.
func (g *gateway) makeBucket(ctx context.Context, name string) error {
	c := aws3.New(aws3.Options{BaseEndpoint: aws.String(g.url), UsePathStyle: true, Region: "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: replicaAccess, SecretAccessKey: replicaSecret}, nil
		})})
	_, err := c.CreateBucket(ctx, &aws3.CreateBucketInput{Bucket: &name})
	return err
}

// replicated is one of those that are compared: how it is started, and restored.
type replicated struct {
	name, engine string
	litestream   string // the program, of SQLite
	g            *gateway
}

// running is a program that puts, and litestream beside it.
type running struct {
	writer, ship *exec.Cmd
	out          bytes.Buffer
	said         bytes.Buffer
}

func (r replicated) config(dir, bucket string) (string, error) {
	path := filepath.Join(dir, "litestream.yml")
	text := fmt.Sprintf(`access-key-id: %s
secret-access-key: %s
logging:
  level: error
dbs:
  - path: %s
    meta-path: %s
    replica:
      type: s3
      bucket: %s
      path: db
      region: us-east-1
      endpoint: %s
      force-path-style: true
      sync-interval: 1s
`, replicaAccess, replicaSecret, filepath.Join(dir, "lite.db"), dir+".meta", bucket, r.g.url) // its own files are no part of the store's size
	return path, os.WriteFile(path, []byte(text), 0o666)
}

func (r replicated) address(bucket string) string {
	return "s3://" + bucket + "?endpoint=" + url.QueryEscape(r.g.url)
}

// start starts a load. SQLite's database is made before litestream looks for it.
func (r replicated) start(ctx context.Context, l replicaLoad, bucket string) (*running, error) {
	if err := os.MkdirAll(l.Dir, 0o777); err != nil {
		return nil, err
	}
	l.Engine = r.engine
	out := &running{}
	if bucket != "" && r.litestream == "" {
		l.Bucket = r.address(bucket)
	}
	if bucket != "" && r.litestream != "" {
		config, err := r.config(l.Dir, bucket)
		if err != nil {
			return nil, err
		}
		engine, err := peer.Find(l.Engine)
		if err != nil {
			return nil, err
		}
		s, err := engine.Open(peer.Options{Dir: l.Dir, Mode: peer.Durable, Writers: 1})
		if err != nil {
			return nil, err
		}
		if err := s.Close(); err != nil {
			return nil, err
		}
		out.ship = exec.CommandContext(ctx, r.litestream, "replicate", "-config", config)
		out.ship.Stdout, out.ship.Stderr = &out.said, &out.said
		if err := r.g.run(out.ship); err != nil {
			return nil, err
		}
	}
	spec, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out.writer = exec.CommandContext(ctx, self)
	out.writer.Env = append(os.Environ(), replicaVariable+"="+string(spec))
	out.writer.Stdout, out.writer.Stderr = &out.out, os.Stderr
	return out, r.g.run(out.writer)
}

// end waits for the program, and stops litestream. It returns what the program printed last, and what both used.
func (r *running) end() (replicaEnd, error) {
	var end replicaEnd
	if err := r.writer.Wait(); err != nil {
		return end, fmt.Errorf("the program: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(r.out.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &end); err != nil {
		return end, err
	}
	if r.ship == nil {
		return end, nil
	}
	if err := r.ship.Process.Signal(syscall.SIGTERM); err != nil {
		return end, err
	}
	if err := r.ship.Wait(); err != nil {
		return end, fmt.Errorf("litestream: %w\n%s", err, r.said.String())
	}
	end.CPU += r.ship.ProcessState.UserTime() + r.ship.ProcessState.SystemTime()
	return end, nil
}

// restore restores what the bucket has into dir, and returns how long it took.
func (r replicated) restore(ctx context.Context, from, dir, bucket string) (time.Duration, error) {
	start := time.Now()
	if r.litestream != "" {
		config, err := r.config(from, bucket)
		if err != nil {
			return 0, err
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return 0, err
		}
		said, err := exec.CommandContext(ctx, r.litestream, "restore", "-config", config, "-o",
			filepath.Join(dir, "lite.db"), filepath.Join(from, "lite.db")).CombinedOutput()
		if err != nil {
			return 0, fmt.Errorf("litestream restore: %w\n%s", err, said)
		}
		return time.Since(start), nil
	}
	b, err := s3.Open(ctx, r.address(bucket))
	if err != nil {
		return 0, err
	}
	_, err = admin.RestoreBucket(ctx, b, dir, admin.Moment{}, admin.BackupOptions{})
	return time.Since(start), err
}

// has returns how many steps a restored store has: they are a prefix.
func (r replicated) has(dir string, most int) (int, error) {
	engine, err := peer.Find(r.engine)
	if err != nil {
		return 0, err
	}
	o := peer.Options{Dir: dir, Mode: peer.Durable, Writers: 1}
	if r.litestream == "" {
		if err := admin.DetachBucket(dir, admin.Access{}); err != nil {
			return 0, err
		}
	}
	s, err := engine.Open(o)
	if err != nil {
		return 0, err
	}
	fleet := bench.NewFleet(1, replicaThreads, replicaTurns)
	var failed error
	n := sort.Search(most, func(n int) bool {
		thread, slot, turn := place(n)
		t, err := s.Get(thread, fleet.ID(slot, turn))
		if err != nil && !errors.Is(err, peer.ErrNotFound) {
			failed = err
		}
		return err != nil || len(t.Writes) == 0
	})
	return n, errors.Join(failed, s.Close())
}

// loss kills the program once, and returns the age of the oldest step that is lacking.
func (r replicated) loss(ctx context.Context, dir, bucket string, steps int, after time.Duration) (time.Duration, error) {
	l := replicaLoad{Dir: filepath.Join(dir, "s"), Steps: steps, For: time.Hour}
	p, err := r.start(ctx, l, bucket)
	if err != nil {
		return 0, err
	}
	time.Sleep(after)
	r.g.closed.Store(true)
	at := time.Now()
	err = p.writer.Process.Kill()
	if p.ship != nil {
		err = errors.Join(err, p.ship.Process.Kill())
		_ = p.ship.Wait() // it was killed
	}
	_ = p.writer.Wait() // it was killed
	r.g.closed.Store(false)
	if err != nil {
		return 0, err
	}
	var acknowledged []int64
	for line := range strings.Lines(p.out.String()) {
		var ns int64
		if _, err := fmt.Sscan(line, &ns); err != nil || !strings.HasSuffix(line, "\n") {
			break // it was killed while it printed
		}
		acknowledged = append(acknowledged, ns)
	}
	if _, err := r.restore(ctx, l.Dir, filepath.Join(dir, "r"), bucket); err != nil {
		return 0, err
	}
	n, err := r.has(filepath.Join(dir, "r"), len(acknowledged))
	if err != nil || n == len(acknowledged) {
		return 0, err
	}
	return at.Sub(time.Unix(0, acknowledged[n])), nil
}

// takeOver kills a leader that is idle, beside a follower that has all, and returns how long it took until that one, which takes
// over by itself, had acknowledged a commit.
func (r replicated) takeOver(ctx context.Context, dir, follower, address string) (took time.Duration, err error) {
	b, err := s3.Open(ctx, r.address(address))
	if err != nil {
		return 0, err
	}
	leader, err := r.start(ctx, replicaLoad{Dir: dir, For: time.Hour, Idle: true}, address)
	if err != nil {
		return 0, err
	}
	status := &replica.Status{Released: true} // as the program before has left it
	for ; status.Released; time.Sleep(10 * time.Millisecond) {
		if status, err = replica.ReadStatus(ctx, replica.Options{Bucket: b}); err != nil {
			return 0, err
		}
	}
	var lost time.Time
	err = disk.LeadOrFollow(ctx, follower, disk.Options{Replica: disk.Replica{Bucket: b, AcceptLoss: true}}, func(ctx context.Context, s *disk.Saver) error {
		if !s.Follows() {
			_, err := s.Put(ctx, saver.Config{ThreadID: "after"}, saver.Checkpoint{ID: "1"}, nil, nil)
			took = time.Since(lost)
			return err
		}
		if err := s.Await(ctx, uint64(status.End.LSN)); err != nil {
			return err
		}
		lost = time.Now()
		if err := leader.writer.Process.Kill(); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	if took == 0 && err == nil {
		err = context.Cause(ctx) // nothing was measured
	}
	return took, err
}

// replicas compares, and prints.
//
// It has a bound. Whatever it ends with, it ends the programs that it has started, and removes what they have written.
func replicas(ctx context.Context, o options, versitygw, litestream string, w io.Writer) (err error) {
	sizes := wholeReplicas
	if o.quick {
		sizes = quickReplicas
	}
	for _, program := range []string{versitygw, litestream} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: install versitygw v1.8.0 and litestream v0.5.18", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, sizes.Most)
	defer cancel()
	dir, err := os.MkdirTemp(o.dir, "stele-replicas-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	g, err := openGateway(filepath.Join(dir, "server"), versitygw)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	for _, set := range os.Environ() {
		if name, _, _ := strings.Cut(set, "="); strings.HasPrefix(name, "AWS_") { // litestream takes no AWS_CA_BUNDLE
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(os.Setenv("AWS_ACCESS_KEY_ID", replicaAccess), os.Setenv("AWS_SECRET_ACCESS_KEY", replicaSecret)); err != nil {
		return err
	}
	both := []replicated{{"stele", "stele", "", g}, {"sqlite + litestream", "sqlite-mattn", litestream, g}}
	made := 0
	fresh := func() (at, bucket string, err error) {
		made++
		bucket = fmt.Sprintf("copy-%d", made)
		at = filepath.Join(dir, bucket+".d")
		return at, bucket, errors.Join(os.MkdirAll(at, 0o777), g.makeBucket(ctx, bucket))
	}

	fmt.Fprintf(w, "%d steps a second (two commits each) for %v, one process; a bucket of versitygw; an interval of 1 s\n\n", sizes.Steps, sizes.Pace)
	fmt.Fprintln(w, "| | CPU without a replica, s | with one | requests a minute | MB a minute | idle: requests a minute |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|")
	for _, r := range both {
		at, bucket, err := fresh()
		if err != nil {
			return err
		}
		l := replicaLoad{Dir: filepath.Join(at, "alone"), Steps: sizes.Steps, For: sizes.Pace}
		p, err := r.start(ctx, l, "")
		if err != nil {
			return err
		}
		alone, err := p.end()
		if err != nil {
			return err
		}
		l.Dir = filepath.Join(at, "s")
		g.counts()
		if p, err = r.start(ctx, l, bucket); err != nil {
			return err
		}
		with, err := p.end()
		if err != nil {
			return err
		}
		requests, sent, _ := g.counts()
		idle, err := r.idle(ctx, l.Dir, bucket, sizes.Pace)
		if err != nil {
			return err
		}
		minute := with.Took.Minutes()
		fmt.Fprintf(w, "| %s | %.2f | %.2f | %s | %.1f | %s |\n", r.name, alone.CPU.Seconds(), with.CPU.Seconds(), perMinute(requests, minute), float64(sent)/1e6/minute, idle)
	}

	fmt.Fprintf(w, "\nkilled %d times: the age of the oldest commit that is lost\n\n| | median, ms | worst, ms |\n|---|---|---|\n", sizes.Kills)
	lost := make([][]time.Duration, len(both))
	for i := range sizes.Kills {
		for j, r := range both {
			at, bucket, err := fresh()
			if err != nil {
				return err
			}
			// The moments go through the phases of an interval.
			d, err := r.loss(ctx, at, bucket, sizes.Steps, 4*time.Second+time.Duration(i)*time.Second/time.Duration(sizes.Kills))
			if err != nil {
				return fmt.Errorf("%s, kill %d: %w", r.name, i, err)
			}
			lost[j] = append(lost[j], d)
			if err := os.RemoveAll(at); err != nil {
				return err
			}
		}
	}
	for j, r := range both {
		slices.Sort(lost[j])
		fmt.Fprintf(w, "| %s | %d | %d |\n", r.name, lost[j][len(lost[j])/2].Milliseconds(), lost[j][len(lost[j])-1].Milliseconds())
	}

	fmt.Fprintf(w, "\na store of %d MB, its write-ahead log included, is restored\n\n| | restored, MB | s | MB/s |\n|---|---|---|---|\n", sizes.Restore>>20)
	var over time.Duration
	for _, r := range both {
		at, bucket, err := fresh()
		if err != nil {
			return err
		}
		l := replicaLoad{Dir: filepath.Join(at, "s"), Bytes: sizes.Restore}
		p, err := r.start(ctx, l, bucket)
		if err != nil {
			return err
		}
		if _, err := p.end(); err != nil {
			return err
		}
		took, err := r.restore(ctx, l.Dir, filepath.Join(at, "r"), bucket)
		if err != nil {
			return err
		}
		size, err := diskBytes(filepath.Join(at, "r"))
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| %s | %.0f | %.1f | %.0f |\n", r.name, float64(size)/1e6, took.Seconds(), float64(size)/1e6/took.Seconds())
		if r.litestream == "" {
			if over, err = r.takeOver(ctx, l.Dir, filepath.Join(at, "f"), bucket); err != nil {
				return fmt.Errorf("a follower takes over: %w", err)
			}
		}
	}
	fmt.Fprintf(w, "\na follower of that store takes over from a leader that is killed, with a TTL of 15 s: %.1f s until it acknowledges\n", over.Seconds())

	fmt.Fprintf(w, "\nas fast as it can, %v, in turn: steps a second\n\n| stele alone | with a replica | ratio |\n|---|---|---|\n", sizes.Pace/4)
	var ratios, a, b []float64
	for range 5 {
		var rate [2]float64
		for i := range rate {
			at, bucket, err := fresh()
			if err != nil {
				return err
			}
			if i == 0 {
				bucket = ""
			}
			p, err := both[0].start(ctx, replicaLoad{Dir: filepath.Join(at, "s"), For: sizes.Pace / 4}, bucket)
			if err != nil {
				return err
			}
			end, err := p.end()
			if err != nil {
				return err
			}
			rate[i] = float64(end.Steps) / end.Took.Seconds()
		}
		a, b, ratios = append(a, rate[0]), append(b, rate[1]), append(ratios, rate[1]/rate[0])
	}
	fmt.Fprintf(w, "| %.0f | %.0f | %.2f |\n", median(a), median(b), median(ratios))
	return nil
}

// idle opens the store, puts nothing, and returns the requests of a minute.
func (r replicated) idle(ctx context.Context, dir, bucket string, pace time.Duration) (string, error) {
	p, err := r.start(ctx, replicaLoad{Dir: dir, For: pace, Idle: true}, bucket)
	if err != nil {
		return "", err
	}
	time.Sleep(pace / 4) // it opens
	r.g.counts()
	begun := time.Now()
	time.Sleep(pace / 2)
	requests, _, _ := r.g.counts()
	minutes := time.Since(begun).Minutes()
	_, err = p.end()
	return perMinute(requests, minutes), err
}

func perMinute(requests map[string]int64, minutes float64) string {
	var words []string
	for _, method := range slices.Sorted(maps.Keys(requests)) {
		words = append(words, fmt.Sprintf("%s %.0f", method, float64(requests[method])/minutes))
	}
	return strings.Join(words, ", ")
}

func median(values []float64) float64 {
	_, m, _ := quartiles(values)
	return m
}

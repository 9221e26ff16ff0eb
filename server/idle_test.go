package server_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/base/race"
)

// TestIdleStreams holds many streams of threads where nothing happens. The server takes little
// memory for each, goes on with its work, and each stream still tells what happens on its
// thread. SERVER_STREAMS says how many there are: 10,000 need 10,100 open files.
func TestIdleStreams(t *testing.T) {
	streams := 200
	if n, err := strconv.Atoi(os.Getenv("SERVER_STREAMS")); err == nil {
		streams = n
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	addr := strings.TrimSpace(must(bufio.NewReader(out).ReadString('\n')))
	h := &house{T: t, base: "http://" + addr}
	resident := func() int {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			return 0 // there is no such file elsewhere
		}
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		return must(strconv.Atoi(strings.Fields(rest)[0])) << 10
	}
	before := resident()
	conns := make([]net.Conn, streams)
	threads := make([]string, streams)
	const body = `{"channels":["lifecycle"]}`
	for i := range conns {
		threads[i] = h.thread()
		conns[i] = must(net.Dial("tcp", addr))
		defer conns[i].Close()
		must(fmt.Fprintf(conns[i], "POST /threads/%s/stream/events HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", threads[i], addr, len(body), body))
	}
	readers := make([]*bufio.Reader, streams)
	for i, conn := range conns { // all are open
		readers[i] = bufio.NewReaderSize(conn, 512)
		if line := must(readers[i].ReadString('\n')); line != "HTTP/1.1 200 OK\r\n" {
			t.Fatal(line)
		}
	}
	held := resident() - before
	t.Logf("%d streams, %d KiB each, %d MiB in all", streams, held/streams>>10, resident()>>20)
	// The race detector takes memory of its own.
	if !race.Enabled && (resident() > 500<<20 || held/streams > 100<<10) {
		t.Errorf("%d streams take %d MiB", streams, held>>20)
	}
	for _, i := range []int{0, streams / 2, streams - 1} {
		h.ok("POST", "/threads/"+threads[i]+"/runs/wait", object{"assistant_id": "long", "input": object{"text": "x"}})
		_ = conns[i].SetReadDeadline(time.Now().Add(time.Minute))
		for line := ""; !strings.Contains(line, `"event":"completed"`); {
			line = must(readers[i].ReadString('\n'))
		}
	}
}

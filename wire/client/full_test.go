package client

import (
	"net"
	"testing"
	"time"

	"github.com/stele-go/stele/wire"
)

// TestFullServer: a server that has as many calls as it takes at once is not asked whether it is there,
// and not given up: it would not read the question.
func TestFullServer(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	read := make(chan struct{}, 1)
	go func() {
		if _, err := far.Read(make([]byte, 1)); err == nil {
			read <- struct{}{}
		}
		far.Close()
	}()
	cn := &connection{nc: near, ended: make(chan struct{}), silence: time.Nanosecond, calls: map[uint32]chan event{}, welcome: wire.Welcome{MaxFrame: wire.DefaultMaxFrame, MaxCalls: 2}}
	for range 2 {
		if _, err := cn.register(make(chan event, 1)); err != nil {
			t.Fatal(err)
		}
	}
	var asked time.Time
	for range 3 {
		cn.ask(&asked)
	}
	if len(cn.calls) != 2 || cn.broken() {
		t.Errorf("%d calls, lost: %v", len(cn.calls), cn.err)
	}
	cn.calls = map[uint32]chan event{} // both have their answers
	cn.ask(&asked)
	<-read
}

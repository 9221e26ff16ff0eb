package client_test

import (
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/wire"
	"github.com/stele-go/stele/wire/client"
)

// older serves one connection as a server that does not know ThreadQuery.ThreadID: it refuses
// fields that it does not know.
func older(nc net.Conn, threads []string) error {
	defer nc.Close()
	send := func(m wire.Message) error {
		frame, err := wire.AppendFrame(nil, wire.DefaultMaxFrame, m.AppendTo)
		if err == nil {
			_, err = nc.Write(frame)
		}
		return err
	}
	for {
		body, err := wire.ReadFrame(nc, wire.DefaultMaxFrame)
		if err != nil {
			return nil // the client has ended
		}
		m, err := wire.DecodeMessage(body)
		if err != nil {
			return err
		}
		if m.Kind != wire.Request {
			continue
		}
		a := wire.Message{Kind: wire.Response, ID: m.ID}
		switch m.Method {
		case "hello":
			w := wire.Welcome{Protocol: wire.Protocol, Methods: []string{"threads"}, MaxFrame: wire.DefaultMaxFrame, MaxCalls: 1, MaxValue: 1 << 20, CallSlots: 1}
			a.Body = wire.MustEncode(w)
		case "threads":
			q, err := wire.DecodeParams[saver.ThreadQuery](m.Method, m.Body)
			if err != nil {
				return err
			}
			if q.ThreadID != "" {
				a.Err = &wire.Error{Code: wire.CodeBadRequest, Message: `unknown field "thread"`}
				break
			}
			items := wire.Items{Call: m.ID}
			for _, id := range threads {
				if strings.HasPrefix(id, q.Prefix) && (q.Limit == 0 || len(items.Items) < q.Limit) {
					items.Items = append(items.Items, wire.MustEncode(saver.ThreadInfo{ThreadID: id}))
				}
			}
			if err := send(wire.Message{Kind: wire.Notification, Method: "items", Body: wire.MustEncode(items)}); err != nil {
				return err
			}
			a.Body = wire.MustEncode(wire.Counted{Count: len(items.Items)})
		}
		if err := send(a); err != nil {
			return err
		}
	}
}

// TestOneThreadOfAnOlderServer: a server that cannot describe one thread lists those that begin
// with its id.
func TestOneThreadOfAnOlderServer(t *testing.T) {
	at := filepath.Join(t.TempDir(), "sock")
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error, 1)
	go func() {
		nc, err := l.Accept()
		if err == nil {
			err = older(nc, []string{"a", "a/1", "b/1"})
		}
		ended <- err
	}()
	c, err := client.Address("unix:"+at, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		id, prefix string
		want       []string
	}{{"a", "", []string{"a"}}, {"a/1", "a", []string{"a/1"}}, {"a", "b", nil}, {"b", "", nil}, {"b", "a", nil}, {"c", "", nil}} {
		var got []string
		for info, err := range c.Threads(t.Context(), saver.ThreadQuery{ThreadID: test.id, Prefix: test.prefix}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, info.ThreadID)
		}
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("thread %q with prefix %q: %v, want %v", test.id, test.prefix, got, test.want)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

package parity

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// line is an exchange as recorder.py records it.
type line struct {
	Name   string `json:"name"`
	Do     string `json:"do"`
	Method string `json:"method"`
	Path   string `json:"path"`
	Body   any    `json:"body"`
	Raw    *string
	// Headers are those of the request.
	Headers map[string]string `json:"headers"`
	Until   []any             `json:"until"`
	Stream  string            `json:"stream"`
	Take    int               `json:"take"`
	Drop    bool              `json:"drop"`
	Socket  string            `json:"socket"`
	Send    any               `json:"send"`
	Text    *string           `json:"send_text"`

	Status        int               `json:"status"`
	AnswerHeaders map[string]string `json:"answer_headers"`
	Opaque        bool              `json:"opaque"`
	Answer        any               `json:"answer"`
	AnswerText    *string           `json:"text"`
	Frames        []any             `json:"frames"`
	Messages      []any             `json:"messages"`

	fields map[string]bool // the fields that the line has
}

// about is what the recordings say about themselves.
type about struct {
	Dropped []string `json:"dropped"`
	Headers []string `json:"headers"`
}

func decode(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}

func readAbout(t *testing.T) (a about) {
	data, err := os.ReadFile("testdata/about.json")
	if err == nil {
		err = decode(data, &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func readScenario(t *testing.T, file string) (out []line) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for row := range bytes.Lines(data) {
		var l line
		var fields map[string]any
		if err := errors.Join(decode(row, &l), decode(row, &fields)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		l.fields = map[string]bool{}
		for k := range fields {
			l.fields[k] = true
		}
		out = append(out, l)
	}
	return out
}

// patience bounds every wait of a replay. It decides nothing but how long a failure takes.
const patience = 2 * time.Minute

// player plays a scenario against stele.
type player struct {
	base    string
	about   about
	names   names
	streams map[string]*stream
	sockets map[string]*websocket.Conn
}

func newPlayer(base string, a about) *player {
	return &player{base: base, about: a, names: names{map[string]string{}}, streams: map[string]*stream{}, sockets: map[string]*websocket.Conn{}}
}

func (p *player) end() {
	for _, s := range p.streams {
		s.close()
	}
	for _, s := range p.sockets {
		_ = s.CloseNow()
	}
}

// play plays one exchange and returns how the answer differs from the recorded one.
func (p *player) play(l line) []difference {
	failed := func(err error) []difference { return []difference{{"exchange", "an answer", err.Error()}} }
	switch l.Do {
	case "call":
		return p.call(l)
	case "until":
		return p.until(l)
	case "open":
		return p.open(l)
	case "ws":
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		conn, _, err := websocket.Dial(ctx, p.base+p.names.fill(l.Path), nil)
		if err != nil {
			return failed(err)
		}
		conn.SetReadLimit(1 << 22)
		p.sockets[l.Socket] = conn
		return nil
	case "say":
		if p.sockets[l.Socket] == nil {
			return failed(errors.New("the socket is not open"))
		}
		return p.say(l)
	case "hang_up":
		if p.sockets[l.Socket] == nil {
			return failed(errors.New("the socket is not open"))
		}
		_ = p.sockets[l.Socket].Close(websocket.StatusNormalClosure, "")
		delete(p.sockets, l.Socket)
		return nil
	}
	s := p.streams[l.Stream]
	if s == nil {
		return failed(errors.New("the stream is not open"))
	}
	switch l.Do {
	case "take":
		return p.frames(l, s.take(l.Take), s)
	case "run_over":
		return p.run(l.Frames, s.takeRun())
	case "rest":
		delete(p.streams, l.Stream)
		defer s.close()
		return p.frames(l, s.take(-1), s)
	case "close":
		delete(p.streams, l.Stream)
		s.close()
		return nil
	}
	return failed(fmt.Errorf("exchange of an unknown kind %q", l.Do))
}

func (p *player) request(ctx context.Context, l line) (*http.Response, error) {
	var body io.Reader
	switch {
	case l.Raw != nil:
		body = strings.NewReader(*l.Raw)
	case l.fields["body"]:
		text, err := json.Marshal(p.names.fillValue(l.Body))
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, l.Method, p.base+p.names.fill(l.Path), body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range l.Headers {
		r.Header.Set(k, p.names.fill(v))
	}
	return http.DefaultClient.Do(r)
}

func (p *player) head(l line, r *http.Response) (out []difference) {
	if r.StatusCode != l.Status {
		out = append(out, difference{"status", fmt.Sprint(l.Status), fmt.Sprint(r.StatusCode)})
	}
	if !l.fields["answer_headers"] {
		return out
	}
	for _, name := range p.about.Headers {
		want, recorded := l.AnswerHeaders[name]
		got := r.Header.Get(name)
		switch {
		case recorded && !p.names.text(want, got):
			out = append(out, difference{"header " + name, want, got})
		case !recorded && got != "":
			out = append(out, difference{"header " + name, absent, got})
		}
	}
	return out
}

func (p *player) call(l line) []difference {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := p.request(ctx, l)
	if err != nil {
		return []difference{{"exchange", "an answer", err.Error()}}
	}
	defer func() { _ = r.Body.Close() }()
	out := p.head(l, r)
	if l.Opaque {
		return out
	}
	if l.fields["frames"] && strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		s := newStream(r, cancel)
		return append(out, p.frames(l, s.take(-1), s)...)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return append(out, difference{"body", "a whole one", err.Error()})
	}
	return append(out, p.body(l, body)...)
}

func (p *player) body(l line, body []byte) []difference {
	switch {
	case l.fields["answer"]:
		var got any
		if err := decode(body, &got); err != nil {
			return []difference{{"body", show(l.Answer), string(body)}}
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, body); err != nil || !bytes.Equal(compact.Bytes(), bytes.TrimSpace(body)) {
			return []difference{{"body", "compact JSON", string(body)}}
		}
		return p.names.value("body", l.Answer, got, p.about.Dropped)
	case l.AnswerText != nil:
		if !p.names.text(*l.AnswerText, string(body)) {
			return []difference{{"body", *l.AnswerText, string(body)}}
		}
	case len(body) > 0:
		return []difference{{"body", absent, string(body)}}
	}
	return nil
}

func (p *player) until(l line) []difference {
	key, wanted := l.Until[0].(string), l.Until[1]
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		r, err := p.request(ctx, l)
		var body []byte
		if err == nil {
			body, err = io.ReadAll(r.Body)
			_ = r.Body.Close()
		}
		cancel()
		if err != nil {
			return []difference{{"exchange", "an answer", err.Error()}}
		}
		var got map[string]any
		if decode(body, &got) == nil && got[key] == wanted || time.Now().After(end) {
			return append(p.head(l, r), p.body(l, body)...)
		}
	}
}

func (p *player) open(l line) []difference {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := p.request(ctx, l)
	if err != nil {
		cancel()
		return []difference{{"exchange", "an answer", err.Error()}}
	}
	out := p.head(l, r)
	s := newStream(r, cancel)
	if l.Drop {
		defer s.close()
	} else {
		p.streams[l.Stream] = s
	}
	if r.StatusCode != http.StatusOK {
		return out
	}
	return append(out, p.frames(l, s.take(l.Take), s)...)
}

func (p *player) say(l line) []difference {
	conn := p.sockets[l.Socket]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text := []byte(nil)
	if l.Text != nil {
		text = []byte(*l.Text)
	} else {
		text, _ = json.Marshal(p.names.fillValue(l.Send))
	}
	if err := conn.Write(ctx, websocket.MessageText, text); err != nil {
		return []difference{{"socket", "a message", err.Error()}}
	}
	var wantAnswer, wantEvents, gotAnswer, gotEvents []any
	for _, m := range l.Messages {
		if m.(map[string]any)["type"] == "event" {
			wantEvents = append(wantEvents, []any{nil, m})
		} else {
			wantAnswer = append(wantAnswer, m)
		}
	}
	for over := false; !over || len(gotAnswer) < len(wantAnswer); {
		_, data, err := conn.Read(ctx)
		if err != nil {
			return []difference{{"socket", "a message", err.Error()}}
		}
		var m map[string]any
		if err := decode(data, &m); err != nil {
			return []difference{{"socket", "JSON", string(data)}}
		}
		if m["type"] == "event" {
			gotEvents = append(gotEvents, []any{nil, m})
			over = over || runIsOver(m)
		} else {
			gotAnswer = append(gotAnswer, m)
			over = over || len(wantEvents) == 0
		}
	}
	return append(p.names.value("answers", wantAnswer, gotAnswer, p.about.Dropped), p.run(wantEvents, gotEvents)...)
}

// frames compares the frames of a stream one by one.
func (p *player) frames(l line, got []any, s *stream) []difference {
	out := p.names.value("frames", append([]any{}, l.Frames...), append([]any{}, got...), p.about.Dropped)
	return append(out, s.differences()...)
}

// run compares the events of a run in protocol v2: by method and depth, because the reference
// has no order among them. Some of its events of a run come after the one that says that the
// run is over.
func (p *player) run(want, got []any) (out []difference) {
	groups := func(frames []any) (keys []string, by map[string][]any) {
		by = map[string][]any{}
		for _, f := range frames {
			m, _ := f.([]any)[1].(map[string]any)
			params, _ := m["params"].(map[string]any)
			ns, _ := params["namespace"].([]any)
			key := fmt.Sprintf("%v/%d", m["method"], len(ns))
			if by[key] == nil {
				keys = append(keys, key)
			}
			by[key] = append(by[key], f)
		}
		return keys, by
	}
	keys, wanted := groups(want)
	more, gotten := groups(got)
	for _, k := range more {
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	last := ""
	for _, k := range keys {
		out = append(out, p.names.value("events "+k, append([]any{}, wanted[k]...), append([]any{}, gotten[k]...), p.about.Dropped)...)
	}
	for _, f := range got { // numbers grow, and the id of a frame is its number
		frame := f.([]any)
		m, _ := frame[1].(map[string]any)
		seq := fmt.Sprint(m["seq"])
		if len(frame) > 2 && frame[2] != seq {
			out = append(out, difference{"events id", seq, fmt.Sprint(frame[2])})
		}
		if len(seq) < len(last) || len(seq) == len(last) && seq <= last {
			out = append(out, difference{"events seq", "more than " + last, seq})
		}
		last = seq
	}
	return out
}

func runIsOver(m map[string]any) bool {
	params, _ := m["params"].(map[string]any)
	ns, _ := params["namespace"].([]any)
	data, _ := params["data"].(map[string]any)
	event := data["event"]
	return m["method"] == "lifecycle" && len(ns) == 0 && (event == "completed" || event == "failed" || event == "interrupted")
}

// stream reads the frames of a response as they come.
type stream struct {
	cancel func()
	body   io.Closer
	frames chan []any
	wrong  []difference // about the framing; set before frames is closed
	ended  bool
}

func newStream(r *http.Response, cancel func()) *stream {
	s := &stream{cancel: cancel, body: r.Body, frames: make(chan []any, 1000)}
	go func() {
		defer close(s.frames)
		in := bufio.NewReader(r.Body)
		frame, some := []any{nil, nil}, false
		for {
			row, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if !strings.HasSuffix(row, "\r\n") {
				s.wrong = append(s.wrong, difference{"framing", "lines that end with CRLF", row})
			}
			row = strings.TrimRight(row, "\r\n")
			name, value, _ := strings.Cut(row, ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case row == "" && some:
				s.frames <- frame
				frame, some = []any{nil, nil}, false
			case row == "" || name == "":
			case name == "event":
				frame[0], some = value, true
			case name == "data":
				var data any
				if err := decode([]byte(value), &data); err != nil {
					s.wrong = append(s.wrong, difference{"framing", "data that is JSON", row})
				}
				frame[1], some = data, true
			case name == "id":
				frame = append(frame, value)
			}
		}
	}()
	return s
}

// take takes n frames, or all up to the end.
func (s *stream) take(n int) (out []any) {
	late := time.After(patience)
	for n < 0 || len(out) < n {
		select {
		case f, ok := <-s.frames:
			if !ok {
				s.ended = true
				return out
			}
			out = append(out, f)
		case <-late:
			return out
		}
	}
	return out
}

// takeRun takes frames up to the one that says that the run is over.
func (s *stream) takeRun() (out []any) {
	for {
		got := s.take(1)
		out = append(out, got...)
		if len(got) == 0 {
			return out
		}
		if m, _ := got[0].([]any)[1].(map[string]any); runIsOver(m) {
			return out
		}
	}
}

// differences are those of the framing, once the stream has ended.
func (s *stream) differences() []difference {
	if s.ended {
		return s.wrong
	}
	return nil
}

func (s *stream) close() {
	s.cancel()
	_ = s.body.Close()
}

// TestReplay plays every recorded exchange against stele. Each difference must be in the table
// of differences_test.go, with the reason for it, and whatever is in the table must be met.
func TestReplay(t *testing.T) {
	a := readAbout(t)
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	tally, recorded := newTally(), 0
	scenarios := map[string][]line{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		scenarios[name] = readScenario(t, file)
		recorded += len(scenarios[name])
	}
	t.Run("scenarios", func(t *testing.T) {
		for name, lines := range scenarios {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := newPlayer(newServer(t), a)
				defer p.end()
				for _, l := range lines {
					for _, d := range tally.judge(name, l.Name, p.play(l)) {
						t.Errorf("%s: %s", l.Name, d)
					}
				}
			})
		}
	})
	tally.report(t, recorded)
}

package transfer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// The lines of a file; docs/format/ndjson.md describes them. What a name is made of is any
// bytes, and JSON holds only UTF-8; see text.

// format is the version of the format that is written, and the only one that is read.
const format = 1

// The kinds of lines.
const (
	kindHeader     = "stele"
	kindCheckpoint = "checkpoint"
	kindItem       = "item"
	kindRejected   = "rejected"
	kindEnd        = "end"
)

type headerLine struct {
	Kind   string `json:"kind"`
	Format int    `json:"format"`
}

type endLine struct {
	Kind        string `json:"kind"`
	Checkpoints int    `json:"checkpoints"`
	Items       int    `json:"items,omitempty"`
}

type checkpointLine struct {
	Kind          string          `json:"kind"`
	Thread        text            `json:"thread"`
	Namespace     text            `json:"namespace"`
	ID            text            `json:"id"`
	Parent        *text           `json:"parent,omitempty"`
	V             int             `json:"v"`
	TS            text            `json:"ts"`
	Channels      []channelLine   `json:"channels"`
	Seen          []seenLine      `json:"seen"`
	Updated       []text          `json:"updated"` // null if unknown
	Metadata      json.RawMessage `json:"metadata,omitempty"`
	MetadataValue *valueLine      `json:"metadata_value,omitempty"`
	Writes        []writeLine     `json:"writes"`
	Note          *noteLine       `json:"note,omitempty"`
	TTL           int64           `json:"ttl_us,omitempty"` // -1 for ever
}

type itemLine struct {
	Kind       string          `json:"kind"`
	Namespace  []text          `json:"namespace"`
	Key        text            `json:"key"`
	Value      json.RawMessage `json:"value,omitempty"`
	TypedValue *valueLine      `json:"typed_value,omitempty"`
	Created    *time.Time      `json:"created"`
	Updated    *time.Time      `json:"updated"`
	Expires    *time.Time      `json:"expires,omitempty"`
	TTL        int64           `json:"ttl_us,omitempty"`
}

type channelLine struct {
	Name    text       `json:"name"`
	Version version    `json:"version"`
	Value   *valueLine `json:"value,omitempty"`
	Same    bool       `json:"same,omitempty"`
}

type valueLine struct {
	Type text   `json:"type"`
	Data []byte `json:"data"`
}

type seenLine struct {
	Node     text          `json:"node"`
	Channels []versionLine `json:"channels"`
}

type versionLine struct {
	Name    text    `json:"name"`
	Version version `json:"version"`
}

type writeLine struct {
	Task    text      `json:"task"`
	Path    text      `json:"path"`
	Index   int       `json:"index"`
	Channel text      `json:"channel"`
	Value   valueLine `json:"value"`
}

type noteLine struct {
	Graph   text   `json:"graph"`
	Next    []text `json:"next"`
	Stop    text   `json:"stop"`
	Deltas  []text `json:"deltas"`
	Version text   `json:"version,omitempty"`
}

type rejectedLine struct {
	Kind       string          `json:"kind"`
	What       string          `json:"what"`
	Name       text            `json:"name"`
	Thread     text            `json:"thread"`
	Namespace  text            `json:"namespace"`
	ID         text            `json:"id"`
	Reason     string          `json:"reason"`
	Type       text            `json:"type"`
	Data       []byte          `json:"data"`
	Checkpoint *checkpointLine `json:"checkpoint,omitempty"`
}

// text is a string of any bytes: a JSON string if it is UTF-8, otherwise {"base64": …}.
type text string

type base64Text struct {
	Base64 *[]byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return plainJSON(string(t))
	}
	b := []byte(t)
	return json.Marshal(base64Text{&b})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, (*string)(t))
	}
	var b base64Text
	if err := strict(data, &b); err != nil {
		return err
	}
	if b.Base64 == nil {
		return errors.New(`a text is a string or {"base64": …}`)
	}
	*t = text(*b.Base64)
	return nil
}

// version is a version of a channel: null, a string, an integer, or a number with a point or
// an exponent.
type version saver.Version

// MarshalJSON implements json.Marshaler.
func (v version) MarshalJSON() ([]byte, error) {
	if s, ok := saver.Version(v).Any().(string); ok {
		return text(s).MarshalJSON()
	}
	data, ok := appendPlain(nil, saver.Version(v).Any(), 0)
	if !ok {
		return nil, fmt.Errorf("version %v has no form in JSON", saver.Version(v))
	}
	return data, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *version) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && (data[0] == '"' || data[0] == '{') {
		var t text
		if err := t.UnmarshalJSON(data); err != nil {
			return err
		}
		*v = version(saver.StringVersion(string(t)))
		return nil
	}
	x, err := readPlain(data)
	if err != nil {
		return err
	}
	read, err := saver.VersionOf(x)
	*v = version(read)
	return err
}

// plainJSON is v as JSON, with <, > and & as they are.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// strict reads one JSON value into dst. It refuses fields that dst does not have, and data after the
// value.
func strict(data []byte, dst any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(dst); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON")
	}
	return nil
}

func texts(list []string) []text {
	if list == nil {
		return nil
	}
	out := make([]text, len(list))
	for i, s := range list {
		out[i] = text(s)
	}
	return out
}

func strs(list []text) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = string(t)
	}
	return out
}

func newValueLine(t serde.Typed) valueLine {
	data := t.Data
	if data == nil {
		data = []byte{}
	}
	return valueLine{text(t.Kind), data}
}

func (v *valueLine) typed() (serde.Typed, error) {
	if v.Type == "" {
		return serde.Typed{}, errors.New("a value has no type")
	}
	return serde.Typed{Kind: string(v.Type), Data: v.Data}, nil
}

// newCheckpointLine is tup as a line.
func newCheckpointLine(tup *Tuple) (*checkpointLine, error) {
	l := &checkpointLine{Kind: kindCheckpoint, Thread: text(tup.Config.ThreadID), Namespace: text(tup.Config.Namespace), ID: text(tup.Config.CheckpointID),
		V: tup.V, TS: text(tup.TS), Updated: texts(tup.Updated), Channels: []channelLine{}, Seen: []seenLine{}, Writes: []writeLine{}}
	if tup.Parent != "" {
		l.Parent = (*text)(&tup.Parent)
	}
	for _, c := range tup.Channels {
		line := channelLine{Name: text(c.Name), Version: version(c.Version), Same: c.State == Same}
		if c.State == Given {
			v := newValueLine(c.Value)
			line.Value = &v
		}
		l.Channels = append(l.Channels, line)
	}
	for _, node := range slices.Sorted(maps.Keys(tup.Seen)) {
		line := seenLine{Node: text(node), Channels: []versionLine{}}
		for _, name := range slices.Sorted(maps.Keys(tup.Seen[node])) {
			line.Channels = append(line.Channels, versionLine{text(name), version(tup.Seen[node][name])})
		}
		l.Seen = append(l.Seen, line)
	}
	for _, w := range tup.Writes {
		l.Writes = append(l.Writes, writeLine{text(w.TaskID), text(w.TaskPath), w.Index, text(w.Channel), newValueLine(w.Value)})
	}
	if n := tup.Note; n != nil {
		l.Note = &noteLine{text(n.Graph), texts(n.Next), text(n.Stop), texts(n.Deltas), text(n.Version)}
	}
	if l.TTL = tup.TTL.Microseconds(); tup.TTL == saver.NoTTL {
		l.TTL = -1
	}
	md := map[string]any(tup.Metadata)
	if md == nil {
		md = map[string]any{}
	}
	if data, ok := appendPlain(nil, md, 0); ok {
		l.Metadata = data
		return l, nil
	}
	typed, err := serde.Default().Encode(md)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	v := newValueLine(typed)
	l.MetadataValue = &v
	return l, nil
}

// tuple is the checkpoint that l describes.
func (l *checkpointLine) tuple() (*Tuple, error) {
	if l.Thread == "" || l.ID == "" {
		return nil, errors.New("a checkpoint has no thread or no id")
	}
	tup := &Tuple{Config: saver.Config{ThreadID: string(l.Thread), Namespace: string(l.Namespace), CheckpointID: string(l.ID)},
		V: l.V, TS: string(l.TS), Updated: strs(l.Updated), Seen: make(map[string]map[string]saver.Version, len(l.Seen))}
	if l.Parent != nil {
		tup.Parent = string(*l.Parent)
	}
	for i := range l.Channels {
		c, err := l.Channels[i].channel()
		if err != nil {
			return nil, fmt.Errorf("channel %q: %w", string(l.Channels[i].Name), err)
		}
		tup.Channels = append(tup.Channels, c)
	}
	for _, s := range l.Seen {
		if _, twice := tup.Seen[string(s.Node)]; twice {
			return nil, fmt.Errorf("node %q is given twice", string(s.Node))
		}
		versions := make(map[string]saver.Version, len(s.Channels))
		for _, c := range s.Channels {
			versions[string(c.Name)] = saver.Version(c.Version)
		}
		tup.Seen[string(s.Node)] = versions
	}
	for i := range l.Writes {
		w := &l.Writes[i]
		typed, err := w.Value.typed()
		if err != nil {
			return nil, fmt.Errorf("write %d: %w", i, err)
		}
		tup.Writes = append(tup.Writes, PendingWrite{string(w.Task), string(w.Path), string(w.Channel), w.Index, typed})
	}
	if n := l.Note; n != nil {
		tup.Note = &saver.Note{Graph: string(n.Graph), Next: strs(n.Next), Stop: saver.Stop(n.Stop), Deltas: strs(n.Deltas), Version: string(n.Version)}
	}
	switch {
	case l.TTL < -1 || l.TTL > math.MaxInt64/int64(time.Microsecond):
		return nil, fmt.Errorf("ttl_us is %d", l.TTL)
	case l.TTL == -1:
		tup.TTL = saver.NoTTL
	default:
		tup.TTL = time.Duration(l.TTL) * time.Microsecond
	}
	tup.sort()
	for i := 1; i < len(tup.Channels); i++ {
		if tup.Channels[i].Name == tup.Channels[i-1].Name {
			return nil, fmt.Errorf("channel %q is given twice", tup.Channels[i].Name)
		}
	}
	var err error
	tup.Metadata, err = l.metadata()
	return tup, err
}

func (l *channelLine) channel() (Channel, error) {
	c := Channel{Name: string(l.Name), Version: saver.Version(l.Version)}
	switch {
	case l.Same && l.Value != nil:
		return c, errors.New("it is both same and given")
	case l.Same:
		c.State = Same
	case l.Value != nil:
		c.State = Given
		var err error
		c.Value, err = l.Value.typed()
		return c, err
	}
	return c, nil
}

func (l *checkpointLine) metadata() (saver.Metadata, error) {
	var v any
	var err error
	switch {
	case l.Metadata != nil && l.MetadataValue != nil:
		return nil, errors.New("there is both metadata and metadata_value")
	case l.MetadataValue != nil:
		var typed serde.Typed
		if typed, err = l.MetadataValue.typed(); err == nil {
			v, err = serde.Default().Decode(typed)
		}
	default:
		v, err = readPlain(l.Metadata)
	}
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	md, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("metadata is no object")
	}
	return md, nil
}

// newItemLine is it as a line.
func newItemLine(it *store.Item) (*itemLine, error) {
	l := &itemLine{Kind: kindItem, Namespace: texts(it.Namespace), Key: text(it.Key), Created: &it.CreatedAt, Updated: &it.UpdatedAt, TTL: it.TTL.Microseconds()}
	if l.Namespace == nil {
		l.Namespace = []text{}
	}
	if !it.ExpiresAt.IsZero() {
		l.Expires = &it.ExpiresAt
	}
	if data, ok := appendPlain(nil, it.Value, 0); ok {
		l.Value = data
		return l, nil
	}
	typed, err := PassEncrypted(serde.Default()).Encode(it.Value)
	if err != nil {
		return nil, err
	}
	v := newValueLine(typed)
	l.TypedValue = &v
	return l, nil
}

// item is the item that l describes.
func (l *itemLine) item() (*store.Item, error) {
	if l.Namespace == nil || l.Created == nil || l.Updated == nil {
		return nil, errors.New("an item has no namespace or no times")
	}
	if l.TTL < 0 || l.TTL > math.MaxInt64/int64(time.Microsecond) {
		return nil, fmt.Errorf("ttl_us is %d", l.TTL)
	}
	it := &store.Item{Namespace: strs(l.Namespace), Key: string(l.Key), CreatedAt: l.Created.UTC(), UpdatedAt: l.Updated.UTC(),
		TTL: time.Duration(l.TTL) * time.Microsecond}
	if l.Expires != nil {
		it.ExpiresAt = l.Expires.UTC()
	}
	var v any
	var err error
	switch {
	case l.Value != nil && l.TypedValue != nil:
		return nil, errors.New("there is both value and typed_value")
	case l.TypedValue != nil:
		var typed serde.Typed
		if typed, err = l.TypedValue.typed(); err == nil {
			v, err = PassEncrypted(serde.Default()).Decode(typed)
		}
	default:
		v, err = readPlain(l.Value)
	}
	if err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	var ok bool
	if it.Value, ok = v.(map[string]any); !ok {
		return nil, errors.New("value is no object")
	}
	return it, nil
}

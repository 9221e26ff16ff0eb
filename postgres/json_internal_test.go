package postgres

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Whatever the columns of a checkpoint hold, they are read or are an error. What was read is
// written so that it reads back the same, with the keys of blobs that PostgreSQL makes of versions,
// or it is refused.
func FuzzColumns(f *testing.F) {
	for _, text := range []string{
		`{"v": 4, "id": "1", "ts": "", "channel_values": {"a": 1.0, "b": null}, "channel_versions": {"a": 1, "b": 0.5, "c": "x", "d": null}, "versions_seen": {"n": {"a": 1}, "m": null}, "updated_channels": ["a"]}`,
		`{"channel_versions": {"a": true}}`, `{"channel_versions": {"a": 1e400, "b": -0.0, "c": 18446744073709551616}}`,
		`{"graph": "Zw==", "next": ["/w=="], "stop": "interrupt", "deltas": [""]}`, `{"step": -1, "source": "loop", "deep": [[{}]]}`, `null`, `[`,
	} {
		f.Add([]byte(text))
	}
	typed := func(t *testing.T, err error) {
		if !errors.Is(err, saver.ErrInvalid) && !errors.Is(err, saver.ErrCorrupt) && !errors.Is(err, serde.ErrDepth) && !errors.Is(err, serde.ErrDecodeLimit) {
			t.Errorf("%v has no type", err)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := decodeMetadata(text); err != nil {
			typed(t, err)
		}
		if note, err := decodeNote(text); err != nil {
			typed(t, err)
		} else {
			stored, err := encodeNote(note)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := decodeNote(stored); err != nil || !reflect.DeepEqual(again, note) {
				t.Errorf("note %+v reads back as %+v, %v", note, again, err)
			}
		}
		read, _, err := decodeCheckpoint(text)
		if err != nil {
			typed(t, err)
			return
		}
		stored, err := appendCheckpoint(nil, &read, nil)
		if err != nil {
			typed(t, err)
			return
		}
		again, keys, err := decodeCheckpoint(stored)
		if read.Values = again.Values; err != nil || !reflect.DeepEqual(again, read) {
			t.Errorf("%+v reads back as %+v, %v", read, again, err)
		}
		for channel, key := range keys {
			if want := versionText(read.Versions[channel]); key != want {
				t.Errorf("the key of %v is %q, want %q", read.Versions[channel], key, want)
			}
		}
	})
}

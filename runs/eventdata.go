package runs

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/serde"
)

// JSON returns the data of the event as JSON: for a mode of the graph the text that package pregeljson
// writes, for KindError a pregeljson.Failure, and for the other kinds a string. codec is the queue's.
// The error is that of the serializer, for data that is damaged or of another queue.
func (ev Event) JSON(codec serde.Serializer) ([]byte, error) {
	v, err := codec.Decode(ev.Data)
	if err != nil {
		return nil, fmt.Errorf("event %d: %w", ev.Seq, err)
	}
	s, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("event %d of kind %s: %T is no text", ev.Seq, ev.Kind, v)
	}
	if ev.Kind == KindAttempt || ev.Kind == KindEnd {
		return pregeljson.Marshal(s)
	}
	return []byte(s), nil
}

// eventData returns the data of an event of a graph: JSON, as a text of the serializer, which may
// encrypt it.
func eventData(codec serde.Serializer, ev pregel.Event) (serde.Typed, error) {
	text, err := pregeljson.Event(ev)
	if err != nil {
		return serde.Typed{}, err
	}
	return codec.Encode(string(text))
}

// failureData returns the data of an event of KindError.
func failureData(codec serde.Serializer, failed error) serde.Typed {
	f := pregeljson.FailureOf(failed)
	if errors.Is(failed, errCancelled) {
		f = pregeljson.Failure{Error: "UserInterrupt", Message: "the run was cancelled"}
	}
	data, err := pregeljson.Marshal(f)
	if err != nil { // two texts can always be written
		return serde.Typed{Kind: serde.KindNull}
	}
	return text(codec, string(data))
}

// text is a text as the data of an event.
func text(codec serde.Serializer, s string) serde.Typed {
	typed, err := codec.Encode(Text(s))
	if err != nil { // a text can always be encoded
		return serde.Typed{Kind: serde.KindNull}
	}
	return typed
}

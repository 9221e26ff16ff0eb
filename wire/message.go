package wire

import "github.com/tinylib/msgp/msgp"

// Kind says what a Message is.
type Kind uint8

// The kinds of messages, as MessagePack-RPC numbers them.
const (
	Request      Kind = 0
	Response     Kind = 1
	Notification Kind = 2
)

// Message is the body of a frame.
type Message struct {
	Kind   Kind
	ID     uint32 // of requests and responses
	Method string // of requests and notifications
	// Body is the map of parameters, or the result of a response; nil for the result nil.
	// It shares the memory of the frame.
	Body []byte
	// Err is the error of a response; nil if it has a result.
	Err *Error
}

// AppendTo appends the body of a frame.
func (m *Message) AppendTo(b []byte) []byte {
	switch m.Kind {
	case Request:
		b = msgp.AppendArrayHeader(b, 4)
		b = msgp.AppendInt(b, int(Request))
		b = msgp.AppendUint32(b, m.ID)
		b = msgp.AppendString(b, m.Method)
		b = msgp.AppendArrayHeader(b, 1)
		return append(b, m.Body...)
	case Notification:
		b = msgp.AppendArrayHeader(b, 3)
		b = msgp.AppendInt(b, int(Notification))
		b = msgp.AppendString(b, m.Method)
		b = msgp.AppendArrayHeader(b, 1)
		return append(b, m.Body...)
	}
	b = msgp.AppendArrayHeader(b, 4)
	b = msgp.AppendInt(b, int(Response))
	b = msgp.AppendUint32(b, m.ID)
	if m.Err != nil {
		e := encoder{b: b, always: always[m.Err.Code]}
		e.append(m.Err)
		return msgp.AppendNil(e.b)
	}
	b = msgp.AppendNil(b)
	if m.Body == nil {
		return msgp.AppendNil(b)
	}
	return append(b, m.Body...)
}

// DecodeMessage reads the body of a frame. The parameters and the result are checked to be
// one value of MessagePack, and no further.
func DecodeMessage(b []byte) (Message, error) {
	r := &reader{b: b}
	n := r.array()
	m := Message{}
	switch kind := r.integer(); {
	case r.err != nil:
	case kind == int64(Request) && n == 4, kind == int64(Notification) && n == 3:
		m.Kind = Kind(kind)
		if m.Kind == Request {
			m.ID = take(r, msgp.ReadUint32Bytes)
		}
		m.Method = r.name()
		r.arrayOf(1)
		if r.err == nil && msgp.NextType(r.b) != msgp.MapType {
			r.fail(malformed("the parameters are no map"))
		}
		m.Body = r.raw()
	case kind == int64(Response) && n == 4:
		m.Kind, m.ID = Response, take(r, msgp.ReadUint32Bytes)
		if !r.isNil() {
			m.Err = &Error{}
			r.into(m.Err)
			if m.Err.Code == "" {
				r.fail(malformed("an error without a code"))
			}
		}
		if !r.isNil() {
			m.Body = r.raw()
		}
	default:
		r.fail(malformed("a list of %d elements of kind %d", n, kind))
	}
	return m, r.end()
}

package pgdb

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// parameters are the arguments of a statement in the server's binary formats, one after
// another in one buffer. For the calls of every superstep that takes a fraction of what the
// general way of pgx takes, which finds an encoder for each argument and gives its buffers
// to the garbage collector.
type parameters struct {
	buf    []byte
	ends   []int // of the arguments in buf; below zero: NULL
	values [][]byte
}

// Every argument is binary.
var binaryFormats = []int16{pgx.BinaryFormatCode}

var parametersPool = sync.Pool{New: func() any { return &parameters{buf: []byte{}} }} // a nil buffer would make "" NULL

// MaxKeptBuffer is the size up to which a buffer is used again.
const MaxKeptBuffer = 1 << 16

// execTyped is conn.Exec for a statement of Typed: one round trip, and with no description of the
// statement asked for, unless it is prepared under a name. A tracer sees none of them go by, so
// that there is none.
func (d *DB) execTyped(ctx context.Context, conn *pgx.Conn, sql string, args []any) error {
	p := parametersPool.Get().(*parameters)
	defer p.free()
	if err := p.encode(args); err != nil {
		return err
	}
	if !d.named {
		return conn.PgConn().ExecParams(ctx, sql, p.values, nil, binaryFormats, nil).Read().Err
	}
	sd, err := conn.Prepare(ctx, sql, sql) // known to conn from the second time on
	if err != nil {
		return err
	}
	err = conn.PgConn().ExecStatement(ctx, sd, p.values, binaryFormats, nil).Read().Err
	if HasCode(err, codeNoStatement, codeNotSupported) {
		conn.Deallocate(ctx, sql) // the server has forgotten it, or its plan is no longer valid
	}
	return err
}

// free gives p back.
func (p *parameters) free() {
	clear(p.values)
	p.buf, p.ends, p.values = p.buf[:0], p.ends[:0], p.values[:0]
	if cap(p.buf) <= MaxKeptBuffer {
		parametersPool.Put(p)
	}
}

func (p *parameters) encode(args []any) error {
	for _, arg := range args {
		null, err := p.append(arg)
		if err != nil {
			return err
		}
		if null {
			p.ends = append(p.ends, -1)
		} else {
			p.ends = append(p.ends, len(p.buf))
		}
	}
	at := 0
	for _, end := range p.ends { // the buffer has its place only now
		if end < 0 {
			p.values = append(p.values, nil)
			continue
		}
		p.values = append(p.values, p.buf[at:end:end])
		at = end
	}
	return nil
}

// append appends an argument, unless it is NULL, as nil pointers and slices are. A []byte is
// a bytea or a text.
func (p *parameters) append(arg any) (null bool, err error) {
	switch v := arg.(type) {
	case int64: // bigint
		p.buf = binary.BigEndian.AppendUint64(p.buf, uint64(v))
	case int: // integer
		p.int32(v)
	case bool:
		p.bool(v)
	case [16]byte: // uuid
		p.buf = append(p.buf, v[:]...)
	case time.Time: // timestamptz: microseconds since 2000
		p.buf = binary.BigEndian.AppendUint64(p.buf, uint64(v.UnixMicro()-epoch2000))
	case string:
		p.buf = append(p.buf, v...)
	case *string:
		if v == nil {
			return true, nil
		}
		p.buf = append(p.buf, *v...)
	case []byte:
		if v == nil {
			return true, nil
		}
		p.buf = append(p.buf, v...)
	case []string:
		return array(p, v, pgtype.TextOID, func(v string) { appendElement(p, v) }), nil
	case []*string:
		return array(p, v, pgtype.TextOID, func(v *string) {
			if v == nil {
				p.int32(-1)
				return
			}
			appendElement(p, *v)
		}), nil
	case [][]byte:
		return array(p, v, pgtype.ByteaOID, func(v []byte) {
			if v == nil {
				p.int32(-1)
				return
			}
			appendElement(p, v)
		}), nil
	case []bool:
		return array(p, v, pgtype.BoolOID, func(v bool) { p.int32(1); p.bool(v) }), nil
	case []int32:
		return array(p, v, pgtype.Int4OID, func(v int32) { p.int32(4); p.int32(int(v)) }), nil
	default:
		return false, fmt.Errorf("bug: an argument of type %T", arg)
	}
	return false, nil
}

// epoch2000 is where the server's time begins, in microseconds since 1970.
const epoch2000 = 946_684_800_000_000

func (p *parameters) int32(n int) { p.buf = binary.BigEndian.AppendUint32(p.buf, uint32(n)) }

func (p *parameters) bool(v bool) {
	if v {
		p.buf = append(p.buf, 1)
	} else {
		p.buf = append(p.buf, 0)
	}
}

// array appends an array of one dimension, whose elements are of the type oid.
func array[T any](p *parameters, v []T, oid int, element func(T)) (null bool) {
	if v == nil {
		return true
	}
	p.int32(1) // dimension
	p.int32(1) // there may be NULLs
	p.int32(oid)
	p.int32(len(v))
	p.int32(1) // the first index
	for _, e := range v {
		element(e)
	}
	return false
}

// appendElement appends an element with its length.
func appendElement[T string | []byte](p *parameters, v T) {
	p.int32(len(v))
	p.buf = append(p.buf, v...)
}

package disk

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/internal/metric"
	"github.com/stele-go/stele/monitor"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/serde"
)

// meters are the counters of a Saver and of all that WithSerializer made of it.
type meters struct {
	saves, loads, encodes, decodes         metric.Latency
	savesFailed, savesRefused, loadsFailed atomic.Uint64
	encodesFailed, decodesFailed           atomic.Uint64
	beside                                 metric.Beside
}

func (m *meters) read(e monitor.StoreMetrics) monitor.Metrics {
	out := monitor.Metrics{
		StoreMetrics: e,
		Saves:        m.saves.Read(), SavesFailed: m.savesFailed.Load(), SavesRefused: m.savesRefused.Load(),
		Loads: m.loads.Read(), LoadsFailed: m.loadsFailed.Load(),
		Encodes: m.encodes.Read(), EncodesFailed: m.encodesFailed.Load(),
		Decodes: m.decodes.Read(), DecodesFailed: m.decodesFailed.Load(),
		ItemSearches: m.beside.ItemSearches.Read(),
	}
	out.ItemHits, out.ItemMisses = m.beside.Items()
	out.ResultHits, out.ResultMisses = m.beside.ResultsRead()
	return out
}

// saved counts a save that took from begin to end.
func (m *meters) saved(begin, end metric.Time, err error) {
	switch {
	case err == nil:
		m.saves.Observe(time.Duration(end - begin))
	case refused(err):
		m.savesRefused.Add(1)
	default:
		m.savesFailed.Add(1)
	}
}

// loaded counts a load that began then.
func (m *meters) loaded(begin metric.Time, err error) {
	switch {
	case err == nil || errors.Is(err, saver.ErrNotFound):
		m.loads.Since(begin)
	case !refused(err):
		m.loadsFailed.Add(1)
	}
}

// refused reports whether err says that the call, and not the store, is at fault.
func refused(err error) bool {
	for _, e := range []error{saver.ErrInvalid, saver.ErrTooLarge, saver.ErrConflict, saver.ErrThreadDeleted, saver.ErrNotFound, saver.ErrReadOnly, context.Canceled} {
		if errors.Is(err, e) {
			return true
		}
	}
	var encode *serde.EncodeError
	return errors.As(err, &encode)
}

// laps is the serializer of one save, not for concurrent use. Its work is counted
// from the end of what came before, so that a save of n values reads the clock n+2
// times: the reading of a system's clock is most of what measuring costs.
type laps struct {
	serde.Serializer
	m     *meters
	begin metric.Time
	last  metric.Time
}

// begin is a save that begins now.
func (s *Saver) begin() laps {
	codec, now := s.codec, metric.Now()
	if was, ok := codec.(*measured); ok {
		codec = was.Serializer
	}
	return laps{Serializer: codec, m: s.m, begin: now, last: now}
}

// Encode implements serde.Serializer.
func (l *laps) Encode(v any) (serde.Typed, error) {
	t, err := l.Serializer.Encode(v)
	if err != nil {
		l.m.encodesFailed.Add(1)
		return t, err
	}
	l.last = l.m.encodes.Lap(l.last)
	return t, nil
}

// WithDecodeLimit is l with another limit, if its serializer can be given one; see
// serde.WithDecodeLimit.
func (l *laps) WithDecodeLimit(limit int64) serde.Serializer {
	codec, ok := serde.WithDecodeLimit(l.Serializer, limit)
	if !ok || codec == l.Serializer {
		return l
	}
	clone := *l
	clone.Serializer = codec
	return &clone
}

// EncodeAfter is Encode that leaves room in front of the data, if the serializer can;
// see serde.Codec.
func (l *laps) EncodeAfter(room int, v any) (t serde.Typed, whole []byte, err error) {
	codec, ok := l.Serializer.(*serde.Codec)
	if !ok {
		t, err = l.Encode(v)
		return t, nil, err
	}
	if t, whole, err = codec.EncodeAfter(room, v); err != nil {
		l.m.encodesFailed.Add(1)
		return t, nil, err
	}
	l.last = l.m.encodes.Lap(l.last)
	return t, whole, nil
}

// done counts the save, which returned err. Its commit set when it ended.
func (l *laps) done(err error) {
	l.m.saved(l.begin, l.last, err)
}

// measured is a serializer whose work is counted.
type measured struct {
	serde.Serializer
	m *meters
}

// measure wraps codec, once.
func (m *meters) measure(codec serde.Serializer) serde.Serializer {
	if was, ok := codec.(*measured); ok {
		codec = was.Serializer
	}
	return &measured{codec, m}
}

// WithDecodeLimit is s with another limit, if its serializer can be given one; see
// serde.WithDecodeLimit.
func (s *measured) WithDecodeLimit(limit int64) serde.Serializer {
	codec, ok := serde.WithDecodeLimit(s.Serializer, limit)
	if !ok || codec == s.Serializer {
		return s
	}
	return &measured{codec, s.m}
}

// Encode implements serde.Serializer.
func (s *measured) Encode(v any) (serde.Typed, error) {
	begin := metric.Now()
	t, err := s.Serializer.Encode(v)
	if err != nil {
		s.m.encodesFailed.Add(1)
		return t, err
	}
	s.m.encodes.Since(begin)
	return t, nil
}

// Grower says whether what it counts for can encode a list from where it grew.
func (s *measured) Grower() (serde.Grower, bool) {
	g, ok := serde.GrowerOf(s.Serializer)
	return measuredGrower{g, s.m}, ok
}

// measuredGrower is a Grower whose work is counted.
type measuredGrower struct {
	serde.Grower
	m *meters
}

// EncodeGrown implements serde.Grower.
func (g measuredGrower) EncodeGrown(was serde.Typed, list any, n int) (serde.Grown, bool) {
	begin := metric.Now()
	out, ok := g.Grower.EncodeGrown(was, list, n)
	if ok {
		g.m.encodes.Since(begin)
	}
	return out, ok
}

// Decode implements serde.Serializer.
func (s *measured) Decode(t serde.Typed) (any, error) {
	begin := metric.Now()
	v, err := s.Serializer.Decode(t)
	s.m.decoded(begin, err)
	return v, err
}

// SimilarDecoder says whether what it counts for can decode similar values.
func (s *measured) SimilarDecoder() (serde.SimilarDecoder, bool) {
	d, ok := serde.SimilarDecoderOf(s.Serializer)
	return measuredSimilar{d, s.m}, ok
}

// measuredSimilar is a SimilarDecoder whose work is counted.
type measuredSimilar struct {
	d serde.SimilarDecoder
	m *meters
}

// DecodeSimilar implements serde.SimilarDecoder.
func (s measuredSimilar) DecodeSimilar(t serde.Typed, m *serde.Similar) (any, error) {
	begin := metric.Now()
	v, err := s.d.DecodeSimilar(t, m)
	s.m.decoded(begin, err)
	return v, err
}

// DecodeInto implements serde.Serializer.
func (s *measured) DecodeInto(t serde.Typed, dst any) error {
	begin := metric.Now()
	err := s.Serializer.DecodeInto(t, dst)
	s.m.decoded(begin, err)
	return err
}

func (m *meters) decoded(begin metric.Time, err error) {
	if err != nil {
		m.decodesFailed.Add(1)
		return
	}
	m.decodes.Since(begin)
}

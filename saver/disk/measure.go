package disk

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// meters are the counters of a Saver and of all that WithSerializer made of it.
type meters struct {
	saves, loads, encodes, decodes         engine.Latency
	savesFailed, savesRefused, loadsFailed atomic.Uint64
	encodesFailed, decodesFailed           atomic.Uint64
	beside                                 engine.ReadCounts
}

func (m *meters) read(e metrics.StoreMetrics) metrics.Metrics {
	out := metrics.Metrics{
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

// saved counts a save that began then.
func (m *meters) saved(begin engine.Time, err error) {
	switch {
	case err == nil:
		m.saves.Since(begin)
	case refused(err):
		m.savesRefused.Add(1)
	default:
		m.savesFailed.Add(1)
	}
}

// loaded counts a load that began then.
func (m *meters) loaded(begin engine.Time, err error) {
	switch {
	case err == nil || errors.Is(err, saver.ErrNotFound):
		m.loads.Since(begin)
	case !refused(err):
		m.loadsFailed.Add(1)
	}
}

// refused reports whether err says that the call, and not the store, is at fault.
func refused(err error) bool {
	for _, e := range []error{saver.ErrInvalid, saver.ErrTooLarge, saver.ErrConflict, saver.ErrThreadDeleted, saver.ErrNotFound,
		saver.ErrReadOnly, context.Canceled} {
		if errors.Is(err, e) {
			return true
		}
	}
	var encode *serde.EncodeError
	return errors.As(err, &encode)
}

// countEncoded counts the serializing of a save's n values, which began at begin, and returns the moment
// of its end. Reading the clock is most of the cost of measuring, so each value counts with the mean of
// its save.
func (m *meters) countEncoded(begin engine.Time, n int, err error) engine.Time {
	now := engine.Now()
	if err == nil {
		if n > 0 {
			m.encodes.ObserveEach(time.Duration(now-begin), n)
		}
		return now
	}
	var encode *serde.EncodeError
	if errors.As(err, &encode) {
		m.encodesFailed.Add(1)
	}
	return now
}

// measured is a serializer whose work is counted. Values that were read decode with it, and
// Saver.Serializer returns it. Saves use the serializer inside it.
type measured struct {
	serde.Serializer
	m *meters
}

// measure wraps codec, once.
func (m *meters) measure(codec serde.Serializer) *measured {
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
	begin := engine.Now()
	t, err := s.Serializer.Encode(v)
	if err != nil {
		s.m.encodesFailed.Add(1)
		return t, err
	}
	s.m.encodes.Since(begin)
	return t, nil
}

// Grower returns the Grower of the serializer inside, if it has one.
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
	begin := engine.Now()
	out, ok := g.Grower.EncodeGrown(was, list, n)
	if ok {
		g.m.encodes.Since(begin)
	}
	return out, ok
}

// Decode implements serde.Serializer.
func (s *measured) Decode(t serde.Typed) (any, error) {
	begin := engine.Now()
	v, err := s.Serializer.Decode(t)
	s.m.decoded(begin, err)
	return v, err
}

// SimilarDecoder returns the SimilarDecoder of the serializer inside, if it has one.
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
	begin := engine.Now()
	v, err := s.d.DecodeSimilar(t, m)
	s.m.decoded(begin, err)
	return v, err
}

// DecodeInto implements serde.Serializer.
func (s *measured) DecodeInto(t serde.Typed, dst any) error {
	begin := engine.Now()
	err := s.Serializer.DecodeInto(t, dst)
	s.m.decoded(begin, err)
	return err
}

func (m *meters) decoded(begin engine.Time, err error) {
	if err != nil {
		m.decodesFailed.Add(1)
		return
	}
	m.decodes.Since(begin)
}
